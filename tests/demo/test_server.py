from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from forebay.demo.captured import BUCKETS
from forebay.demo.faults import CHECK, DOCTOR, FAULTS, noticed
from forebay.demo.server import serve
from forebay.runtime import recording
from forebay.tape import Kind, Tape


@pytest.mark.parametrize("seed", range(1, 6))
def test_its_tokens_are_those_of_the_reference_and_its_steady_state_makes_no_driver_call(seed):
    served = serve(seed, requests=24)
    assert len(served.expected) == 24
    assert served.tokens == served.expected
    assert served.steady_calls == {}
    assert served.shared_tokens > 0
    assert served.virtual_ns > 0
    assert noticed(served) == []


def test_its_progress_ends_with_every_request():
    heard: list[tuple[int, int]] = []
    serve(1, requests=5, progress=lambda done, of: heard.append((done, of)))
    assert heard[-1] == (5, 5)
    assert heard == sorted(heard)


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.caught_by not in (CHECK, DOCTOR)])
def test_each_planted_fault_is_noticed_by_what_the_table_says(name):
    fault = FAULTS[name]
    seen = [noticed(serve(seed, requests=24, engine=fault.engine)) for seed in (1, 2)]
    assert all(fault.caught_by in signs for signs in seen)


def live_bytes(tape: Tape) -> tuple[dict[str, int], dict[str, int]]:
    """Peak and final bytes of each pool by a plain count over the tape's allocs and frees."""
    now: dict[str, int] = defaultdict(int)
    peak: dict[str, int] = defaultdict(int)
    for i in tape.where(Kind.alloc, Kind.free):
        pool = tape.sides.pools[tape.columns["pool"][i]].name
        sign = 1 if tape.columns["kind"][i] == Kind.alloc else -1
        now[pool] += sign * int(tape.columns["size"][i])
        peak[pool] = max(peak[pool], now[pool])
    return peak, now


def test_its_tape_shows_every_pool_stream_launch_and_region():
    with recording() as recorded:
        served = serve(2, requests=8)
    tape = recorded.tape
    peak, now = live_bytes(tape)
    assert set(peak) == {"weights", "activations", "kv", "staging", *(f"graph decode.{rows}" for rows in BUCKETS)}
    assert all(peak[name] >= figures["allocated"] for name, figures in served.pools.items())
    assert now["kv"] == 0, "every page was given back"
    assert {"copy", "compute", "sample"} <= {stream.name for stream in tape.sides.streams}
    names = np.array(tape.sides.strings)[tape.columns["name"][tape.where(Kind.launch)]]
    assert {"prefill.attend", "decode.attend", "sample"} <= set(names.tolist())
    assert len(tape.where(Kind.region_begin)) == len(tape.where(Kind.region_end)) > 8


def test_pages_never_serve_two_owners_on_the_tape():
    """A plain walk over the tape: no page is handed out while it is out, none comes back that is not."""
    with recording() as recorded:
        serve(3, requests=12)
    tape, out = recorded.tape, set()
    for i in tape.where(Kind.alloc, Kind.free):
        if tape.sides.pools[tape.columns["pool"][i]].name != "kv":
            continue
        address, alloc = int(tape.columns["address"][i]), tape.columns["kind"][i] == Kind.alloc
        assert (address in out) != alloc
        (out.add if alloc else out.remove)(address)
    assert not out
