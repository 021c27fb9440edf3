"""kernels: the transformer over paged keys and values, for a batch of rows of many requests at once.

Each is a plain function on NumPy arrays, as a simulated device runs it: first what it was made with, then what the launch reads,
then what it writes. The arithmetic is model.py's; matrix products go through float64, where integers below 2**53 add up exactly
(Note [Integers, so that a batch cannot change a token]).

A page is int32 [page_tokens, layers, 2, width]: a token's keys and values of all layers lie together, so that what a launch
writes of a page is a run of bytes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.demo.model import EXP, NOISE_ROWS, NORM_SCALE, SCORE_STEP

Matrix = NDArray[Any]

# Note [Inputs of a step]. A captured step has the same parameters at every replay, so what differs lies in memory: a row of `inputs` says
# at which place of its request the row is (0: it is padding; a prompt is never empty, so a step begins at 1), which cell of the last
# tokens it is fed, and which pages its request's tokens lie in.
PLACE, SLOT, TABLE = 0, 1, 2

_EXP = np.array(EXP, np.int64)


@dataclass(frozen=True, slots=True)
class Rows:
    """Row i of a launch is at `places[i]` of its request, whose tokens lie in the pages `tables[i]`: indices of the pages that the
    launch reads, in order.
    """

    places: tuple[int, ...]
    tables: tuple[tuple[int, ...], ...]


def embed(places: tuple[int, ...], tokens: Matrix, embedding: Matrix, place: Matrix, x: Matrix) -> None:
    """x (rows, width) of the tokens (rows,)."""
    x[:] = embedding[tokens] + place[list(places)]


def embed_last(places: tuple[int, ...], embedding: Matrix, place: Matrix, *arrays: Matrix) -> None:
    """The same, of the tokens that were sampled last: one cell a row."""
    *cells, x = arrays
    embed(places, np.concatenate(cells), embedding, place, x)


def embed_step(inputs: Matrix, embedding: Matrix, place: Matrix, last: Matrix, x: Matrix) -> None:
    """x (rows, width) of a captured step: of the tokens in the cells of `last` that `inputs` names (Note [Inputs of a step])."""
    live = _live(inputs)
    embed(tuple(live[:, PLACE]), last[live[:, SLOT]], embedding, place, x[: len(live)])
    x[len(live) :] = 0


def project_step(layer: int, inputs: Matrix, x: Matrix, wq: Matrix, wk: Matrix, wv: Matrix, query: Matrix, pages: Matrix) -> None:
    """`project` of a captured step, into the cells that its inputs name of all pages."""
    live, tokens = _live(inputs), pages.shape[1]
    cells = [pages[row[TABLE + row[PLACE] // tokens], row[PLACE] % tokens, layer] for row in live]
    project(x[: len(live)], wq, wk, wv, query[: len(live)], *cells)


def attend_step(layer: int, heads: int, inputs: Matrix, query: Matrix, mixed: Matrix, pages: Matrix) -> None:
    """`attend` of a captured step, over the pages that its inputs name of all pages."""
    live, tokens = _live(inputs), pages.shape[1]
    tables = tuple(tuple(row[TABLE : TABLE + row[PLACE] // tokens + 1]) for row in live)
    attend(Rows(tuple(live[:, PLACE]), tables), layer, heads, query, *pages, mixed)
    mixed[len(live) :] = 0


def _live(inputs: Matrix) -> Matrix:
    """The rows of a step that are a request's; the others are padding, and nothing is computed of them."""
    live: Matrix = inputs[inputs[:, PLACE] > 0]
    return live


def project(x: Matrix, wq: Matrix, wk: Matrix, wv: Matrix, query: Matrix, *cells: Matrix) -> None:
    """Queries (rows, width) of the rows; their keys and values into a cell (2, width) of a page each."""
    rows = _normed(x)
    query[:] = _times(rows, wq)
    for cell, key, value in zip(cells, _times(rows, wk), _times(rows, wv), strict=True):
        cell[0], cell[1] = key, value


def attend(rows: Rows, layer: int, heads: int, query: Matrix, *arrays: Matrix) -> None:
    """For each row the mix (rows, width) of its request's values up to its own place."""
    *pages, mixed = arrays
    for i, (at, table) in enumerate(zip(rows.places, rows.tables, strict=True)):
        past = np.concatenate([pages[page][:, layer] for page in table])[: at + 1].astype(np.int64)
        mixed[i] = _mix(query[i].reshape(heads, -1), past.reshape(at + 1, 2, heads, -1))


def close_layer(mixed: Matrix, wo: Matrix, up: Matrix, down: Matrix, x: Matrix) -> None:
    """Adds to the rows what attention found, then the hidden layer's answer."""
    x += _times(mixed, wo)
    x += _times(np.maximum(_times(_normed(x), up), 0), down)


def score(x: Matrix, embedding: Matrix, logits: Matrix) -> None:
    """logits (rows, vocabulary) of the last len(logits) rows of x."""
    logits[:] = _product(_normed(x[-len(logits) :]), embedding.T)


def sample(noises: tuple[int, ...], logits: Matrix, noise: Matrix, tokens: Matrix, *cells: Matrix) -> None:
    """The next token of each row, the lowest of the best, into `tokens` (rows,) and into the cell of the row's request."""
    tokens[:] = np.argmax(logits + noise[[n % NOISE_ROWS for n in noises]], axis=1)
    for cell, token in zip(cells, tokens, strict=True):
        cell[0] = token


def _mix(query: Matrix, past: Matrix) -> Matrix:
    keys, values = past[:, 0], past[:, 1]
    scores = (keys * query).sum(axis=2)
    steps = (scores.max(axis=0) - scores) // SCORE_STEP
    shares = _EXP[np.minimum(steps, len(_EXP) - 1)]
    mixed: Matrix = ((shares[:, :, None] * values).sum(axis=0) // shares.sum(axis=0)[:, None]).ravel()
    return mixed


def _normed(x: Matrix) -> Matrix:
    lengths = np.sqrt((x * x).sum(axis=1).astype(np.float64)).astype(np.int64) + 1  # exact: the sums are below 2**52
    normed: Matrix = x * NORM_SCALE // lengths[:, None]
    return normed


def _times(rows: Matrix, matrix: Matrix) -> Matrix:
    product: Matrix = _product(rows, matrix) >> (6 + int(np.sqrt(len(matrix))).bit_length())
    return product


def _product(rows: Matrix, matrix: Matrix) -> Matrix:
    product: Matrix = np.rint(rows.astype(np.float64) @ matrix.astype(np.float64)).astype(np.int64)
    return product
