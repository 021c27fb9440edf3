"""The whole corpus through the reader, against what Python's own unpickler says is in the files."""

import collections
import json

import numpy as np
import pytest

import corpus
import pickles
from forebay.sources import open_artifact
from forebay.tape import Kind, Sees

SNAPSHOTS = [p for folder in ("recordings", "incidents", "snapshots") for p in corpus.artifacts(folder, "*.pickle.xz")]
SMALL = [p for p in SNAPSHOTS if p.stat().st_size < 1 << 20 and "serve" not in p.name]
ids = [p.name.removesuffix(".pickle.xz") for p in SNAPSHOTS]
KIND_OF_ACTION = {"alloc": "alloc", "free_requested": "free", "free_completed": "reclaim", "segment_alloc": "reserve"}
KIND_OF_ACTION |= {"segment_free": "release", "segment_map": "map", "segment_unmap": "unmap", "oom": "oom", "snapshot": "note"}


@pytest.mark.parametrize("path", SNAPSHOTS, ids=ids)
def test_every_event_is_a_row_and_nothing_contradicts_the_heap(path):
    file, tape = pickles.plain(pickles.bytes_of(path)), open_artifact(path)
    assert tape.provenance["events"] == [len(trace) for trace in file["device_traces"] if trace]
    assert tape.provenance["misfits"] == 0
    assert tape.provenance["exact"]
    expected = collections.Counter(KIND_OF_ACTION[e["action"]] for trace in file["device_traces"] for e in trace)
    if not expected["free"]:
        expected["free"] = expected.pop("reclaim", 0)
    kinds = collections.Counter(Kind(int(k)).name for k in tape.columns["kind"])
    assert {k: n for k, n in expected.items() if n} == {k: kinds[k] for k, n in expected.items() if n}


@pytest.mark.parametrize("path", SNAPSHOTS, ids=ids)
def test_the_final_state_is_the_files(path):
    file, final = pickles.plain(pickles.bytes_of(path)), open_artifact(path).final
    segments = file["segments"]
    assert final.segments["address"].tolist() == [s["address"] for s in segments]
    assert final.reserved == sum(s["total_size"] for s in segments)
    assert final.active == sum(b["size"] for s in segments for b in s["blocks"] if b["state"] != "inactive")
    if "synthetic" not in path.name:  # its segments do not add up to their blocks
        assert final.active == sum(s["active_size"] for s in segments)
        assert final.allocated == sum(s["allocated_size"] for s in segments)


@pytest.mark.parametrize(
    "path", corpus.artifacts("recordings", "*.json") + corpus.artifacts("incidents", "*.json"), ids=lambda p: p.stem
)
def test_the_beginning_is_seen_where_it_was_recorded(path):
    tape = open_artifact(path.with_suffix(".pickle.xz"))
    assert (Sees.BEGINNING in tape.sees) == ("truncated" not in path.name)
    assert json.loads(path.read_text())["events"] == tape.provenance["events"] if "recordings" in str(path) else True
    assert np.all(tape.before.blocks["size"] >= tape.before.blocks["requested"])
