"""The kernels over pages against the reference, without a device: any cut of the sequence into launches gives the same tokens."""

import numpy as np
import pytest

from forebay.demo import kernels
from forebay.demo.model import seeded
from forebay.demo.reference import generate

STEP = 4


class Paged:
    """One request's pages and launches, by hand."""

    def __init__(self, seed: int, request: int) -> None:
        self.weights, self.request = seeded(seed), request
        shape = (STEP, self.weights.shape.layers, 2, self.weights.shape.width)
        self.pages = [np.zeros(shape, np.int32) for _ in range(32)]

    def feed(self, begin: int, tokens: list[int]) -> int:
        weights, places = self.weights, tuple(range(begin, begin + len(tokens)))
        x = np.zeros((len(tokens), weights.shape.width), np.int64)
        query, mixed = np.zeros_like(x), np.zeros_like(x)
        kernels.embed(places, np.array(tokens), weights.embed, weights.place, x)
        rows = kernels.Rows(places, tuple(tuple(range(at // STEP + 1)) for at in places))
        for index, layer in enumerate(weights.layers):
            cells = [self.pages[at // STEP][at % STEP, index] for at in places]
            kernels.project(x, layer.wq, layer.wk, layer.wv, query, *cells)
            kernels.attend(rows, index, weights.shape.heads, query, *self.pages, mixed)
            kernels.close_layer(mixed, layer.wo, layer.up, layer.down, x)
        logits, token, last = np.zeros((1, weights.shape.vocabulary), np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64)
        kernels.score(x, weights.embed, logits)
        kernels.sample((17 * self.request + places[-1],), logits, weights.noise, token, last)
        assert token[0] == last[0]
        return int(token[0])


@pytest.mark.parametrize("cut", [1, 3, 5, 11])
def test_a_prompt_in_pieces_then_token_by_token(cut):
    prompt = list(range(20, 31))
    expected = generate(seeded(2), 6, prompt, 12)
    paged = Paged(2, 6)
    for begin in range(0, len(prompt), cut):
        token = paged.feed(begin, prompt[begin : begin + cut])
    tokens = [token]
    while len(tokens) < len(expected):
        tokens.append(paged.feed(len(prompt) + len(tokens) - 1, tokens[-1:]))
    assert tokens == expected


def test_rows_of_two_requests_in_one_launch_do_not_meet():
    """Both at place 0 of pages of their own: what one gets is what it gets alone."""
    weights = seeded(4)
    together = np.zeros((2, weights.shape.width), np.int64)
    alone = np.zeros((1, weights.shape.width), np.int64)
    pages = [np.random.default_rng(i).integers(-200, 200, (STEP, 2, 2, 32), dtype=np.int32) for i in range(2)]
    query = np.random.default_rng(5).integers(-200, 200, (2, 32))
    kernels.attend(kernels.Rows((2, 3), ((0,), (1,))), 1, 4, query, *pages, together)
    kernels.attend(kernels.Rows((3,), ((0,),)), 1, 4, query[1:], pages[1], alone)
    assert np.array_equal(together[1], alone[0])
    assert not np.array_equal(together[0], together[1])
