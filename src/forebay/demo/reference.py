"""reference: what a request's tokens must be, worked out the plain way: the whole sequence again for every token.

No cache, no pages, no batch, and no line shared with kernels.py: of model.py it takes the weights and the arithmetic's constants.
"""

from collections.abc import Sequence
from math import isqrt

import numpy as np

from forebay.demo.model import END, EXP, NOISE_ROWS, NORM_SCALE, SCORE_STEP, Ints, Layer, Weights


def generate(weights: Weights, request: int, prompt: Sequence[int], most: int) -> list[int]:
    """The tokens after `prompt`, at most `most`, END the last if it came. `request` picks the noise (see model.py)."""
    tokens = list(prompt)
    for _ in range(most):
        tokens.append(_next_token(weights, request, tokens))
        if tokens[-1] == END:
            break
    return tokens[len(prompt) :]


def _next_token(weights: Weights, request: int, tokens: Sequence[int]) -> int:
    rows = weights.embed[list(tokens)] + weights.place[: len(tokens)]
    for layer in weights.layers:
        rows = rows + _attention(layer, _normed(rows), weights.shape.heads)
        rows = rows + _linear(np.maximum(_linear(_normed(rows), layer.up), 0), layer.down)
    last = _normed(rows[-1:])[0]
    logits = weights.embed @ last + weights.noise[(17 * request + len(tokens) - 1) % NOISE_ROWS]
    return int(np.argmax(logits))


def _normed(rows: Ints) -> Ints:
    lengths = [isqrt(sum(int(value) ** 2 for value in row)) + 1 for row in rows]
    normed: Ints = rows * NORM_SCALE // np.array(lengths)[:, None]
    return normed


def _linear(rows: Ints, matrix: Ints) -> Ints:
    product: Ints = np.einsum("ri,io->ro", rows, matrix)
    shifted: Ints = product >> (6 + isqrt(len(matrix)).bit_length())
    return shifted


def _attention(layer: Layer, rows: Ints, heads: int) -> Ints:
    parts = [_linear(rows, matrix).reshape(len(rows), heads, -1) for matrix in (layer.wq, layer.wk, layer.wv)]
    mixed = [_mixed(*(part[:, head] for part in parts)) for head in range(heads)]
    return _linear(np.concatenate(mixed, axis=1), layer.wo)


def _mixed(queries: Ints, keys: Ints, values: Ints) -> Ints:
    """One head over the whole sequence, causal: a weight that lies in the future is nought."""
    scores: Ints = np.einsum("qd,kd->qk", queries, keys)
    past = np.tri(len(scores), dtype=bool)
    best = np.where(past, scores, np.iinfo(np.int64).min).max(axis=1)
    steps = np.where(past, best[:, None] - scores, 0) // SCORE_STEP
    shares = np.where(past, np.array(EXP)[np.minimum(steps, len(EXP) - 1)], 0)
    mixed: Ints = np.einsum("qk,kd->qd", shares, values) // shares.sum(axis=1)[:, None]
    return mixed
