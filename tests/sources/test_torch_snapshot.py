"""One layout at a time, against values worked out by hand from the story in layouts.py."""

import copy
import gzip
import lzma
import pickle

import pyarrow as pa
import pytest

from forebay.errors import BadInput
from forebay.sources import open_artifact
from forebay.sources.torch_snapshot import read
from forebay.tape import Flag, Kind, Sees
from forebay.views.walkback import walkback
from sources import layouts
from sources.layouts import ASKED_B, MIB, SIZE_B, A, B, event

STORY = [("reserve", 20 * MIB), ("alloc", 9 * MIB), ("alloc", SIZE_B), ("free", 9 * MIB), ("reclaim", 9 * MIB)]


def tape_of(value, protocol=4):
    return read(pickle.dumps(value, protocol=protocol))


def rows(tape, *columns):
    names = [Kind(int(k)).name for k in tape.columns["kind"]]
    return [
        (kind, *(int(tape.columns[c][i]) for c in columns))
        for i, kind in enumerate(names)
        if kind not in ("settings", "capacity")
    ]


@pytest.mark.parametrize("layout", [layouts.layout_2024, layouts.layout_2025, layouts.layout_2026])
@pytest.mark.parametrize("protocol", range(6))
def test_an_unsplit_tail_belongs_to_its_block(layout, protocol):
    tape = tape_of(layout(), protocol)
    assert [r for r in rows(tape, "size") if not r[0].startswith(("region", "oom"))] == STORY
    assert Sees.BEGINNING in tape.sees
    assert (tape.provenance["misfits"], tape.provenance["exact"]) == (0, True)


def test_a_bare_list_has_a_state_and_no_history():
    tape = tape_of(layouts.bare_2022())
    assert len(tape) == 0
    assert (tape.final.reserved, tape.final.allocated, tape.final.blocks["address"].tolist()) == (20 * MIB, SIZE_B, [B])
    assert not tape.sees


def test_2023_sums_addresses_and_takes_stacks_from_the_history():
    tape = tape_of(layouts.layout_2023())
    assert tape.final.blocks["address"].tolist() == [B]
    site = int(tape.final.blocks["site"][0])
    assert [f.function for f in tape.sides.sites.stack(site)] == ["forward", "main"]
    assert Sees.ALLOCS not in tape.sees  # a ring of one event is no history
    assert Sees.BEGINNING not in tape.sees


def test_2025_has_labels_regions_capacity_and_settings():
    tape = tape_of(layouts.layout_2025())
    name = [tape.sides.strings[n] for n in tape.columns["name"]]
    kinds = [Kind(int(k)).name for k in tape.columns["kind"]]
    assert kinds[-2:] == ["capacity", "oom"]
    assert tape.columns["size"][-2:].tolist() == [5 * MIB, 64 * MIB]
    assert name[kinds.index("alloc")] == "weights"
    assert kinds.index("region_begin") == kinds.index("alloc") - 1
    assert [name[i] for i in tape.where(Kind.settings)] == ["max_split_size=-1", "expandable_segments=False"]
    assert {Sees.REGIONS, Sees.CAPACITY, Sees.SETTINGS, Sees.OOMS} <= tape.sees


def test_2026_says_which_pool():
    tape = tape_of(layouts.layout_2026())
    used = {tape.sides.pools[p] for p in tape.columns["pool"][tape.where(Kind.alloc)]}
    assert [(pool.kind, pool.private) for pool in used] == [("large", (1, 0))]


def test_an_older_private_pool_is_known_from_the_segment_that_is_left():
    value = layouts.layout_2025()
    value["segments"][0]["segment_pool_id"] = [0, 3]
    tape = tape_of(value)
    assert {tape.sides.pools[p].private for p in tape.columns["pool"][tape.where(Kind.alloc, Kind.reserve)]} == {(0, 3)}


def test_without_traces_there_is_a_state_only():
    tape = tape_of(layouts.without_traces())
    assert (tape.provenance["events"], tape.final.allocated) == ([0], SIZE_B)
    assert not {Sees.ALLOCS, Sees.BEGINNING} & tape.sees


def test_devices_are_merged_by_time_and_keep_their_order():
    tape = tape_of(layouts.two_devices())
    assert tape.provenance["events"] == [6, 6]
    reserves = tape.where(Kind.reserve)
    assert tape.columns["device"][reserves].tolist() == [0, 1]
    assert tape.columns["device"][tape.where(Kind.alloc)].tolist() == [0, 1, 0, 1]
    assert [s.device for s in tape.sides.streams] == [0, 1]
    assert Sees.BEGINNING in tape.sees


def test_expandable_ranges_join_and_part():
    tape = tape_of(layouts.expandable())
    assert tape.provenance["exact"]
    assert tape.final.segments["size"].tolist() == [20 * MIB, 20 * MIB]
    assert [bool(f & Flag.EXPANDABLE) for f in tape.columns["flags"][tape.where(Kind.map, Kind.unmap)]] == [True] * 3
    assert Sees.BEGINNING in tape.sees


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_ring_that_overwrote_its_start_is_walked_back(lost):
    tape = tape_of(layouts.ring(lost=lost))
    begun = walkback(tape)
    assert Sees.BEGINNING not in tape.sees
    assert (begun.misfits, begun.exact, begun.state.reserved) == (0, True, 20 * MIB)
    held = {1: [], 2: [(A, 9 * MIB)]}.get(lost, [(A, 9 * MIB), (B, SIZE_B)])
    assert [(int(b["address"]), int(b["size"])) for b in begun.state.blocks] == held
    assert begun.state.pending == 0


@pytest.mark.parametrize("state", ["active_pending_free", "active_awaiting_free"])
def test_a_pending_block_is_active_and_not_allocated(state):
    final = tape_of(layouts.pending(state)).final
    assert (final.active, final.pending, final.allocated) == (SIZE_B, SIZE_B, 0)


def test_a_tail_of_a_block_from_before_the_window_is_inferred_from_what_lies_behind():
    value = layouts.layout_2024()
    value["segments"][0]["blocks"] = [layouts.block(A, 20 * MIB, 0, "inactive")]
    value["device_traces"] = [[event("free_requested", B, ASKED_B), event("free_completed", B, ASKED_B)]]
    tape = tape_of(value)
    assert tape.before.blocks["size"].tolist() == [SIZE_B]  # to the segment's end: half a MiB is never left free
    assert walkback(tape).open_tails == 0


def test_unknown_actions_are_notes():
    value = layouts.layout_2025()
    value["device_traces"][0].insert(2, {"action": "user_defined", "addr": 5, "size": 7, "stream": 0, "time_us": 1001})
    tape = tape_of(value)
    assert [tape.sides.strings[n] for n in tape.columns["name"][tape.where(Kind.note)]] == ["user_defined"]
    assert tape.provenance["exact"]


def test_a_layout_that_shows_the_end_of_a_block_once_has_frees_and_no_reclaims():
    value = layouts.layout_2024()
    value["device_traces"][0].pop(3)
    tape = tape_of(value)
    assert rows(tape, "size")[-1] == ("free", 9 * MIB)
    assert Sees.ALLOCS in tape.sees
    assert Sees.RECLAIMS not in tape.sees


def test_what_cplusplus_writes_reads_the_same():
    value = layouts.layout_2026()
    ours, theirs = tape_of(value), read(layouts.torchscript(value))
    assert all((ours.columns[c] == theirs.columns[c]).all() for c in ours.columns)
    assert ours.provenance == theirs.provenance


@pytest.mark.parametrize(
    ("path", "wrong", "message"),
    [
        (("device_traces", 0, 1, "size"), "x", "device_traces[0][1].size: expected int, got str 'x'"),
        (("device_traces", 0, 2, "addr"), None, "device_traces[0][2]: has no 'addr'"),
        (("device_traces", 0, 2), 5, "device_traces[0][2]: expected dict, got int 5"),
        (("device_traces", 0), 5, "device_traces[0]: expected list, got int 5"),
        (("segments", 0, "total_size"), -1, "segments[0].total_size: expected a size of 0 to 2^62 bytes, got int -1"),
        (("segments", 0, "blocks", 1, "state"), "odd", "segments[0].blocks[1].state: expected a block state, got str 'odd'"),
        (("segments", 0, "blocks", 1, "size"), 12 * MIB, "segments[0].blocks[1]: "),
        (("segments", 0, "frames", 1, "line"), "7", "segments[0].frames[1].line: expected int, got str '7'"),
        (("segments",), {}, "snapshot.segments: expected list, got dict"),
    ],
)
def test_an_error_says_where(path, wrong, message):
    value = copy.deepcopy(layouts.layout_2024())
    inner = value
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = wrong
    with pytest.raises(BadInput) as error:
        tape_of(value)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, lzma.compress, lambda d: bytes(pa.Codec("zstd").compress(d))], ids=["plain", "gz", "xz", "zst"]
)
def test_any_packing_any_name(tmp_path, pack):
    file = tmp_path / "no.suffix"
    file.write_bytes(pack(pickle.dumps(layouts.layout_2025())))
    assert open_artifact(file).provenance["events"] == [6]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "an empty file"),
        (b"CUDA out of memory", "text"),
        (b'{"traceEvents": []}', "JSON (a profiler trace)"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"\x00\x01\x02\xff", "binary data"),
        (lzma.compress(bytes(100))[:-9], "broken xz file"),
        (b"\x1f\x8b\x08junk", "broken gzip file"),
        (b"\x28\xb5\x2f\xfdjunk", "broken zstd file"),
    ],
)
def test_anything_else_is_named_in_one_line(tmp_path, content, says):
    file = tmp_path / "thing"
    file.write_bytes(content)
    with pytest.raises(BadInput) as error:
        open_artifact(file)
    assert str(error.value).startswith(f"{file}: ")
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(BadInput, match="cannot be read"):
        open_artifact(tmp_path / "absent")
