"""The reference worked out once more by hand, in Python's own integers, for a model small enough to follow."""

from math import isqrt

import numpy as np
import pytest

from forebay.demo.model import EXP, NOISE_ROWS, NORM_SCALE, SCORE_STEP, Shape, Weights, seeded
from forebay.demo.reference import generate

SMALL = Shape(vocabulary=7, width=4, heads=2, layers=2, hidden=6, places=12)


def normed(row):
    return [x * NORM_SCALE // (isqrt(sum(y * y for y in row)) + 1) for x in row]


def linear(row, matrix):
    shift = 6 + isqrt(len(matrix)).bit_length()
    return [sum(row[i] * int(matrix[i, o]) for i in range(len(matrix))) // 2**shift for o in range(matrix.shape[1])]


def one_head(query, keys, values):
    scores = [sum(q * k for q, k in zip(query, key, strict=True)) for key in keys]
    weights = [EXP[min((max(scores) - s) // SCORE_STEP, 255)] for s in scores]
    return [sum(w * value[d] for w, value in zip(weights, values, strict=True)) // sum(weights) for d in range(len(query))]


def next_token(weights: Weights, request: int, tokens: list[int]) -> int:
    """One token, row by row and head by head, as the docstring of model.py says."""
    rows = [[int(e) + int(p) for e, p in zip(weights.embed[t], weights.place[i], strict=True)] for i, t in enumerate(tokens)]
    part = weights.shape.width // weights.shape.heads
    for layer in weights.layers:
        projected = [[linear(normed(row), m) for m in (layer.wq, layer.wk, layer.wv)] for row in rows]
        for i, row in enumerate(rows):
            mixed = []
            for head in range(weights.shape.heads):
                cut = slice(head * part, (head + 1) * part)
                keys, values = [p[1][cut] for p in projected[: i + 1]], [p[2][cut] for p in projected[: i + 1]]
                mixed += one_head(projected[i][0][cut], keys, values)
            row[:] = [x + y for x, y in zip(row, linear(mixed, layer.wo), strict=True)]
            hidden = [max(x, 0) for x in linear(normed(row), layer.up)]
            row[:] = [x + y for x, y in zip(row, linear(hidden, layer.down), strict=True)]
    last, noise = normed(rows[-1]), weights.noise[(17 * request + len(tokens) - 1) % NOISE_ROWS]
    logits = [sum(x * int(e) for x, e in zip(last, weights.embed[t], strict=True)) + int(noise[t]) for t in range(len(noise))]
    return logits.index(max(logits))


@pytest.mark.parametrize("seed", range(5))
def test_every_token_is_the_one_that_the_arithmetic_says(seed):
    weights, prompt = seeded(seed, SMALL), [1 + seed % 6, 3, 2]
    tokens = generate(weights, seed, prompt, 8)
    expected = list(prompt)
    for token in tokens:
        expected.append(next_token(weights, seed, expected))
        assert token == expected[-1]


def test_it_ends_with_the_end_or_when_it_has_enough():
    weights = seeded(3)
    lengths = [len(generate(weights, r, [5, 6, 7], 30)) for r in range(12)]
    assert max(lengths) == 30
    assert min(lengths) < 30
    for request, length in enumerate(lengths):
        tokens = generate(weights, request, [5, 6, 7], 30)
        assert 0 not in tokens[:-1]
        assert length == 30 or tokens[-1] == 0


def test_weights_are_the_same_everywhere():
    weights = seeded(1)
    assert weights.embed[0, :4].tolist() == seeded(1).embed[0, :4].tolist() != seeded(2).embed[0, :4].tolist()
    assert all(np.abs(m).max() <= 127 for layer in weights.layers for m in (layer.wq, layer.wk, layer.wv, layer.wo, layer.up))


def test_a_changed_token_long_ago_changes_what_follows():
    """Else pages of another request would go unnoticed."""
    weights = seeded(3)
    changed = 0
    for request in range(20):
        prompt = np.random.default_rng(request).integers(1, 256, 30).tolist()
        other = [*prompt[:5], prompt[5] % 255 + 1, *prompt[6:]]
        changed += generate(weights, request, prompt, 10) != generate(weights, request, other, 10)
    assert changed >= 8
