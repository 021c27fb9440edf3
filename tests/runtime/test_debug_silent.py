"""Pools in debug mode accuse nobody: random programs whose uses are ordered, bytes that look like poison, the demo's server."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from forebay.demo import engine, faults
from forebay.demo.server import serve
from forebay.errors import BadInput
from forebay.runtime import Buffer, Pool, SimDevice

POISON, CANARY = 0xDB, 0xC5


def quiet(pool: Pool) -> None:
    pool.check()
    assert pool.reports == ()
    pool.walk()


def fill(value: int) -> Callable[..., None]:
    def kernel(*arrays: NDArray[np.uint8]) -> None:
        for array in arrays:
            array[...] = value

    return kernel


def test_what_a_program_wrote_is_never_taken_for_poison() -> None:
    device = SimDevice("64MiB")
    stream, other = (device.stream(name, kind="nonblocking") for name in ("main", "other"))
    pool = Pool(device, "p", debug=True)
    seen: list[int] = []
    for value in (POISON, CANARY):
        buffer = pool.alloc(5000, stream)
        stream.launch(fill(value), writes=[buffer])
        other.wait(stream.record())
        other.launch(lambda a: seen.append(int(a[0])), reads=[buffer], cost_ns=10**6)
        buffer.free()
    uninitialised = pool.alloc(5000, stream)
    stream.launch(lambda a: None, reads=[uninitialised])
    device.synchronize()
    assert seen == [POISON, CANARY]
    quiet(pool)


@given(st.data())
@settings(deadline=None)
def test_random_programs_whose_uses_are_ordered_are_never_accused(data: st.DataObject) -> None:
    device = SimDevice("64MiB", seed=data.draw(st.integers(0, 2**32)))
    streams = [device.stream(f"s{i}", kind="nonblocking" if i % 2 else "blocking") for i in range(3)]
    growth = data.draw(st.sampled_from(["segments", "frames"]))
    pool = Pool(device, "p", limit="16MiB", growth=growth, debug=data.draw(st.sampled_from([0, 20_000, 2**26])))
    held: list[tuple[Buffer, int]] = []
    wrong: list[str] = []

    def expects(value: int) -> Callable[..., None]:
        def kernel(array: NDArray[np.uint8]) -> None:
            if not (array == value).all():
                wrong.append(f"expected {value}, saw {set(array.tolist())}")

        return kernel

    for step in range(data.draw(st.integers(5, 40))):
        on = data.draw(st.sampled_from(streams))
        what = data.draw(st.sampled_from(["alloc", "alloc", "use", "use", "free", "sync", "check", "trim"]))
        if what == "alloc":
            buffer = pool.alloc(data.draw(st.sampled_from([1, 100, 5000, 70_000, 1_200_000])), on)
            value = (POISON, CANARY, step % 200)[step % 3]
            on.launch(fill(value), writes=[buffer])
            held.append((buffer, value))
            if len(held) > 6:
                held.pop(0)[0].free()
        elif what == "use" and held:
            buffer, value = data.draw(st.sampled_from(held))
            for earlier in list(buffer.streams.values()):
                on.wait(earlier.record())
            on.launch(expects(value), reads=[buffer])
        elif what == "free" and held:
            held.pop(data.draw(st.integers(0, len(held) - 1)))[0].free()
        elif what == "sync":
            on.synchronize()
        elif what == "check":
            quiet(pool)
        elif what == "trim":
            pool.trim()
    for buffer, _ in held:
        buffer.free()
    quiet(pool)
    device.synchronize()
    assert wrong == []


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> list[Pool]:
    """Every pool of blocks that the demo makes, in debug mode."""
    made: list[Pool] = []

    class Kept(Pool):
        def __init__(self, *args: object, **options: object) -> None:
            super().__init__(*args, **options, debug=True)  # type: ignore[arg-type]
            made.append(self)

    monkeypatch.setattr(engine, "Pool", Kept)
    return made


@pytest.mark.parametrize("seed", range(1, 4))
def test_the_demo_serves_the_same_tokens_and_is_not_accused(pools: list[Pool], seed: int) -> None:
    served = serve(seed, requests=24)
    assert served.tokens == served.expected
    assert [pool.name for pool in pools] == ["weights", "activations"]
    for pool in pools:
        quiet(pool)


@pytest.mark.parametrize("seed", range(1, 4))
def test_the_demo_with_a_free_out_of_order_is_stopped_with_every_name(pools: list[Pool], seed: int) -> None:
    with pytest.raises(BadInput, match=r"sample on stream sample .* read freed memory") as raised:
        serve(seed, requests=24, engine=faults.FAULTS["cross-stream-use-after-free"].engine)
    assert all(site in str(raised.value) for site in ("(Engine._sample)", "(Engine._rows)", "(_FreeWithoutLending._let_go)"))
    for pool in pools:
        pool.check()
