"""traffic: the requests that arrive at the demo's server, drawn from a seed."""

from dataclasses import dataclass

import numpy as np

from forebay.demo.model import Shape


@dataclass(frozen=True, slots=True)
class Request:
    """One request: it arrives before step `arrives`, with `prompt`, and wants at most `most` tokens."""

    number: int
    arrives: int
    prompt: tuple[int, ...]
    most: int


def drawn(seed: int, count: int, shape: Shape) -> list[Request]:
    """`count` requests in order of arrival. Half of them begin with one of two long prompts, as chats begin with instructions."""
    rng = np.random.default_rng([seed, 1])
    preambles = [_words(rng, 40, shape), _words(rng, 25, shape)]
    arrivals = np.cumsum(rng.poisson(1.5, count))
    return [_request(rng, number, int(arrives), preambles, shape) for number, arrives in enumerate(arrivals)]


def _request(rng: np.random.Generator, number: int, arrives: int, preambles: list[tuple[int, ...]], shape: Shape) -> Request:
    begin = preambles[number // 2 % 2] if number % 2 else ()
    prompt = (*begin, *_words(rng, int(rng.integers(3, 24)), shape))
    return Request(number, arrives, prompt, min(int(rng.integers(4, 48)), shape.places - len(prompt)))


def _words(rng: np.random.Generator, count: int, shape: Shape) -> tuple[int, ...]:
    return tuple(int(token) for token in rng.integers(1, shape.vocabulary, count))
