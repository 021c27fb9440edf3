"""model: the shape and the seeded weights of the demo's transformer, and the arithmetic that both of its implementations follow.

How a server runs it over pages is kernels.py's; how one request is worked out from scratch is reference.py's.

Note [Integers, so that a batch cannot change a token]. Floating-point sums depend on their order, and a BLAS picks its order by
the shape of the whole batch: a token of one request would depend on who shares its batch. Here every number is an integer in
fixed point, and every sum stays far below 2**53. Such sums are exact in any order and in float64 too, so equal tokens are a
theorem about the arithmetic below, and any difference is a fault of memory or order.

The arithmetic, with `//` the floor division, for a row x of `width` integers at position p of a request:
  x      = embed[token] + place[p]
  norm   : y = x * NORM_SCALE // (isqrt(sum(x * x)) + 1)
  linear : (y @ W) // 2**shift, shift = 6 + bit_length(isqrt(rows of W))
  layer  : y = norm(x); q, k, v = linear(y, wq), linear(y, wk), linear(y, wv), each cut into `heads`;
           per head, over positions j <= p: s_j = q . k_j; e_j = (max(s) - s_j) // SCORE_STEP; w_j = EXP[min(e_j, last)];
           mixed = sum(w_j * v_j) // sum(w_j);  x += linear(mixed, wo)
           y = norm(x);  x += linear(max(linear(y, up), 0), down)
  token  : argmax over t of norm(x) . embed[t] + noise[(17 * request + p) mod NOISE_ROWS, t], the lowest t on ties.
EXP[i] = round(2**15 * 2**(-i / 16)): the softmax in steps of a sixteenth of an octave. The noise is Gumbel noise in the logits'
scale, so the argmax is a sample (the Gumbel-max trick), and a seeded one.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

NORM_SCALE: Final = 1448  # 2**8 * sqrt(32): a normed row of 32 has a root mean square of about 2**8
SCORE_STEP: Final = 2**11
EXP: Final[tuple[int, ...]] = tuple(round(2**15 * 2 ** (-i / 16)) for i in range(256))
NOISE_ROWS: Final = 251
END: Final = 0  # the token that ends a request


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of the transformer: `width` integers a row, in `heads` parts; `places` positions at most."""

    vocabulary: int = 256
    width: int = 32
    heads: int = 4
    layers: int = 2
    hidden: int = 64
    places: int = 128


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's weights: wq, wk, wv, wo (width, width), up (width, hidden), down (hidden, width)."""

    wq: Ints
    wk: Ints
    wv: Ints
    wo: Ints
    up: Ints
    down: Ints


@dataclass(frozen=True, slots=True)
class Weights:
    """embed (vocabulary, width), place (places, width), noise (NOISE_ROWS, vocabulary), and the layers."""

    shape: Shape
    embed: Ints
    place: Ints
    noise: Ints
    layers: tuple[Layer, ...]


def _whole(rng: np.random.Generator, bound: int, *shape: int) -> Ints:
    return rng.integers(-bound, bound, shape, endpoint=True, dtype=np.int64)


def seeded(seed: int, shape: Shape = Shape()) -> Weights:
    """Weights drawn from `seed`: the same on every machine (NumPy's PCG64 stream is fixed)."""
    rng = np.random.default_rng(seed)
    square, wide = (shape.width, shape.width), (shape.width, shape.hidden)
    sides = (square, square, square, square, wide, wide[::-1])
    layers = tuple(Layer(*[_whole(rng, 127, *side) for side in sides]) for _ in range(shape.layers))
    embed = _whole(rng, 63, shape.vocabulary, shape.width)
    place = _whole(rng, 63, shape.places, shape.width)
    uniform = rng.integers(1, 2**20, (NOISE_ROWS, shape.vocabulary), dtype=np.int64)
    noise = np.rint(-np.log(-np.log(uniform / 2**20)) * 2**16).astype(np.int64)
    noise[:, END] += 2**17  # about every thirtieth token
    return Weights(shape, embed, place, noise, layers)
