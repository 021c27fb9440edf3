"""The heap along recorded histories, against the statistics that PyTorch itself kept and the states that it wrote."""

import json

import numpy as np
import pytest

import corpus
from forebay._core.emulate import Reuse
from forebay.sources import open_artifact
from forebay.sources.heap_state import HeapState
from forebay.tape import Kind, Sees
from forebay.views.census import census
from forebay.views.heap import HeapFold, curves, fold, state_after

TOLD = corpus.artifacts("recordings", "*.json") + corpus.artifacts("incidents", "*.json")
FROM_THE_BEGINNING = [p for p in TOLD if "truncated" not in p.name]
SNAPSHOTS = [p for folder in ("recordings", "incidents", "snapshots") for p in corpus.artifacts(folder, "*.pickle.xz")]


def tables(state):
    def rows(table, *names):
        ordered = table[np.lexsort((table["address"], table["device"]))]
        return [tuple(int(row[name]) for name in names) for row in ordered]

    segments = rows(state.segments, "device", "address", "size", "stream", "pool")
    return segments, rows(state.blocks, "device", "address", "size", "requested", "stream", "pool", "pending")


@pytest.mark.parametrize("path", FROM_THE_BEGINNING, ids=lambda p: p.stem)
def test_forwards_from_empty_without_the_final_state(path):
    tape = open_artifact(path.with_suffix(".pickle.xz"))
    heap = HeapFold(HeapState(), Reuse.at_reclaim)
    for chunk in tape.chunks(1000):
        heap.feed(chunk)
    assert tables(heap.state()) == tables(tape.final)


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda p: p.name.split(".")[0])
def test_forwards_from_the_state_walked_back_to(path):
    tape = open_artifact(path)
    heap = fold(tape)
    assert tables(heap.state()) == tables(tape.final)
    assert all(total.misfits == 0 for total in heap.totals().values())


@pytest.mark.parametrize("path", FROM_THE_BEGINNING, ids=lambda p: p.stem)
def test_peaks_and_counts_are_pytorchs(path):
    tape, stats = open_artifact(path.with_suffix(".pickle.xz")), json.loads(path.read_text())["stats"]
    totals = fold(tape).totals().get(0)
    for gauge in ("reserved", "allocated", "active", "requested"):
        assert getattr(totals.peak, gauge) == stats.get(f"{gauge}_bytes.all.peak", 0), gauge
        assert getattr(totals.now, gauge) == stats.get(f"{gauge}_bytes.all.current", 0), gauge
    assert totals.driver_allocs == stats["num_device_alloc"]
    assert totals.driver_frees == stats.get("num_device_free", 0)
    if "segment.all.allocated" in stats:
        assert (totals.peak.segments, totals.now.segments) == (
            stats["segment.all.peak"],
            stats.get("segment.all.current", 0),
        )


@pytest.mark.parametrize("path", corpus.artifacts("recordings", "mixed-default-cap2090.pickle.xz"), ids=lambda p: p.stem)
def test_unallocated_at_the_oom_is_what_its_message_says(path):
    tape = open_artifact(path)
    row, reserved = int(tape.where(Kind.oom)[0]), curves(tape).reserved
    state = state_after(tape, row)
    assert reserved[row] == 2082 << 20 == state.reserved
    assert round((state.reserved - state.allocated) / 2**20, 2) == 72.98
    assert census(state).stranded + census(state).releasable == state.reserved - state.active


@pytest.mark.parametrize("path", corpus.artifacts("recordings", "serve*.json"), ids=lambda p: p.stem)
def test_a_history_that_starts_mid_life_reaches_the_levels_of_the_statistics(path):
    tape, stats = open_artifact(path.with_suffix(".pickle.xz")), json.loads(path.read_text())["stats"]
    assert Sees.BEGINNING not in tape.sees
    assert fold(tape).totals()[0].now.reserved == stats["reserved_bytes.all.current"]
    assert fold(tape).totals()[0].peak.allocated <= stats["allocated_bytes.all.peak"]
