import json
import lzma
import pickle

import jsonschema
import pytest

import corpus
from forebay import cli
from forebay.report.json import shipped
from forebay.units import size

FILES = [path for folder in ("recordings", "incidents", "snapshots") for path in corpus.artifacts(folder, "*.xz")]
MEASURED = [path for path in FILES if path.parent.name != "snapshots" and "truncated" not in path.name]
STATE_ALONE = [path for path in FILES if path.name in ("public_2023_layout.pickle.xz", "public_segments_only.pickle.xz")]
HISTORIES = [path for path in FILES if path not in STATE_ALONE]


class Refusing(pickle.Unpickler):
    """Builds nothing but plain values."""

    def find_class(self, module, name):
        raise AssertionError(f"a snapshot asks for {module}.{name}")


def plain(path):
    with lzma.open(path) as packed:
        return Refusing(packed).load()


def alive_at_the_end(snapshot):
    """(device, address) → bytes asked for, of the blocks that are not reusable when the file ends."""
    alive = {}
    for segment in snapshot["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                asked = block.get("requested_size", sum(h["real_size"] for h in block.get("history", [])))
                alive[segment["device"], block.get("address", address)] = asked
            address += block["size"]
    return alive


def peaks(snapshot):
    """The highest sum of bytes asked for, and of bytes reserved, of each device: the end walked back, then forwards again."""
    asked, reserved = {}, {}
    alive = alive_at_the_end(snapshot)
    for device, trace in enumerate(snapshot["device_traces"]):
        if not trace:
            continue
        now = sum(size for (where, _), size in alive.items() if where == device)
        held = sum(segment["total_size"] for segment in snapshot["segments"] if segment["device"] == device)
        for event in reversed(trace):
            now -= change(event, "alloc", "free_completed")
            held -= change(event, "segment_alloc", "segment_free") + change(event, "segment_map", "segment_unmap")
        asked[device], reserved[device] = now, held
        for event in trace:
            now += change(event, "alloc", "free_completed")
            held += change(event, "segment_alloc", "segment_free") + change(event, "segment_map", "segment_unmap")
            asked[device], reserved[device] = max(asked[device], now), max(reserved[device], held)
    return sum(asked.values()), sum(reserved.values())


def change(event, more, less):
    return event["size"] * ((event["action"] == more) - (event["action"] == less))


def actions(snapshot):
    """What each event of the one device that has any does."""
    [trace] = [trace for trace in snapshot["device_traces"] if trace]
    return [event["action"] for event in trace]


def whatif(capsys, *arguments):
    status = cli.run(["whatif", *map(str, arguments)])
    told = capsys.readouterr()
    return status, told.out, told.err


def answer(capsys, *arguments):
    status, out, err = whatif(capsys, *arguments, "--settings", "forebay", "--format", "json")
    assert status == 0, err
    output = json.loads(out)
    jsonschema.validate(output, shipped("whatif"))
    return output


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.name)
def test_a_real_history_runs_through_our_pool(path, capsys):
    snapshot = plain(path)
    output = answer(capsys, path)
    [row] = output["rows"]
    asked, reserved = peaks(snapshot)
    assert output["events"] == sum(map(len, snapshot["device_traces"]))
    assert output["lower_bound_bytes"] == asked
    assert output["recorded"]["peak_reserved_bytes"] == reserved
    assert row["peak_allocated_bytes"] <= row["peak_active_bytes"] <= row["peak_reserved_bytes"]
    if row["oom"]:
        assert row["peak_reserved_bytes"] <= row["cap_bytes"]
        assert output["recorded"]["ooms"] > 0
        assert actions(snapshot)[row["oom_event"]] in ("alloc", "oom")
    else:
        assert asked <= row["peak_active_bytes"]
        assert row["oom_event"] is None
    assert row["driver_allocs"] > 0


@pytest.mark.parametrize("path", MEASURED, ids=lambda path: path.name)
def test_the_recorded_peaks_are_those_that_pytorch_counted(path, capsys):
    stats = json.loads(path.with_name(path.name.replace(".pickle.xz", ".json")).read_text())["stats"]
    recorded = answer(capsys, path)["recorded"]
    assert recorded["peak_allocated_bytes"] == stats["allocated_bytes.all.peak"]
    assert recorded["peak_reserved_bytes"] == stats["reserved_bytes.all.peak"]
    assert recorded["driver_allocs"] == stats["num_device_alloc"]
    assert recorded["driver_frees"] == stats.get("num_device_free", 0)


@pytest.mark.parametrize("path", STATE_ALONE, ids=lambda path: path.name)
def test_a_snapshot_without_a_history_is_one_clear_line(path, capsys):
    status, out, err = whatif(capsys, path, "--settings", "forebay", "--format", "json")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"{path.name}: it holds no allocator history (1 event is none)" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--settings", "max_split_sise_mb:64"], "no setting is called 'max_split_sise_mb'"),
        (["--settings", "max_split_size_mb:4"], "too small, the least is 20"),
        (["--settings", "backend:cudaMallocAsync"], "only `native` can be emulated"),
        (["--buckets", "some"], "expected a number of sizes from 1 to 4096, or auto"),
        (["--buckets", "0"], "expected a number of sizes"),
    ],
)
def test_what_cannot_be_tried_is_refused_before_the_file_is_read(arguments, said, capsys):
    status, out, err = whatif(capsys, "x.pickle", *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


def table(capsys, *arguments):
    status, out, err = whatif(capsys, *arguments, "--format", "json")
    assert status == 0, err
    output = json.loads(out)
    jsonschema.validate(output, shipped("whatif"))
    return output


MIXED = [path for path in FILES if path.name == "mixed-default.pickle.xz"]
TRAIN = [path for path in FILES if path.name == "train-default.pickle.xz"]
CHECKERBOARD = [path for path in FILES if path.name == "checkerboard_oom-1.pickle.xz"]
MIB = 2**20


@pytest.mark.parametrize("path", MIXED, ids=lambda path: path.name)
def test_rows_come_as_asked_and_bucketing_that_costs_is_not_advised(path, capsys):
    arguments = ["--settings", "none", "--settings", "forebay", "--settings", "roundup_power2_divisions:4", "--buckets", "4"]
    output = table(capsys, path, *arguments)
    assert [row["settings"] for row in output["rows"]] == ["none", "roundup_power2_divisions:4", "4 buckets", "forebay"]
    assert output["calibration"] == {"exact": True, "first_divergence": None}
    none, roundup, buckets, _ = output["rows"]
    assert (none["peak_reserved_bytes"], roundup["peak_reserved_bytes"]) == (2118 * MIB, 2404 * MIB)
    assert buckets["peak_reserved_bytes"] > none["peak_reserved_bytes"]
    assert not any("roundup" in line or "buckets" in line for line in output["advice"])


@pytest.mark.parametrize("path", TRAIN, ids=lambda path: path.name)
def test_without_settings_everything_is_tried(path, capsys):
    rows = {row["settings"]: row for row in table(capsys, path)["rows"]}
    assert rows["max_split_size_mb:64"]["peak_reserved_bytes"] == 2562 * MIB
    assert rows["none"]["peak_reserved_bytes"] == 1826 * MIB
    assert {"expandable_segments:True", "roundup_power2_divisions:4", "forebay"} <= rows.keys()
    assert any("buckets" in name for name in rows)
    assert any("apart" in name for name in rows)


KEPT_APART = "what is kept apart, expandable_segments:True (torch from 2.13 on)"


@pytest.mark.parametrize("cap", [(), ("--cap", "2000MiB")], ids=["the recorded cap", "2000 MiB"])
@pytest.mark.parametrize("path", CHECKERBOARD, ids=lambda path: path.name)
def test_a_checkerboard_at_its_cap_is_served_by_two_rows_and_no_other(path, cap, capsys):
    output = table(capsys, path, *cap)
    served = {row["settings"]: row["how"] for row in output["rows"] if not row["oom"]}
    assert list(served) == [KEPT_APART, "forebay"]
    assert all("it serves the request that was refused" in how for how in served.values())
    assert "MemPool" in served[KEPT_APART]
    assert "idle frames are unmapped where they lie and mapped where the request goes" in served["forebay"]
    assert {row["cap_bytes"] for row in output["rows"]} == {(2000 if cap else 1900) * MIB}
    refused = {row["settings"]: row for row in output["rows"] if row["oom"]}
    assert {
        "none",
        "expandable_segments:True",
        "max_split_size_mb:64",
        "empty_cache before the refused request",
    } <= refused.keys()
    emptied = refused["empty_cache before the refused request"]
    assert (emptied["driver_frees"], emptied["oom_event"]) == (0, refused["none"]["oom_event"])
    assert "gives nothing back" in emptied["how"]
    assert [line.partition(":")[0] for line in output["advice"]] == [
        "what is kept apart, expandable_segments",
        f"forebay's pool serves the request that was refused, with {size(output['rows'][-1]['peak_reserved_bytes'])} at its peak",
        "No remedy",
    ]


@pytest.mark.parametrize("path", CHECKERBOARD, ids=lambda path: path.name)
def test_people_read_of_a_checkerboard_what_helps_and_what_does_not(path, capsys):
    _, out, _ = whatif(capsys, path)
    told = " ".join(out.split())
    assert "forebay's pool serves the request that was refused" in told
    assert "use_mem_pool(torch.cuda.MemPool()) around what is kept" in told
    assert "No remedy: torch.cuda.empty_cache() right before the request that was refused gives nothing back" in told


@pytest.mark.parametrize("path", MIXED + TRAIN, ids=lambda path: path.name)
def test_people_read_what_a_setting_costs(path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    _, out, _ = whatif(capsys, path)
    lines = {words[0]: words for line in out.splitlines() if (words := line.split())}
    costly, cost, now = (
        ("max_split_size_mb:64", "2,562", "1,826") if path in TRAIN else ("roundup_power2_divisions:4", "2,404", "2,118")
    )
    assert (lines[costly][1], lines["none"][1], lines["recorded"][1]) == (cost, now, now)
    assert not any(line.startswith(f"• {costly}") for line in out.splitlines())


@pytest.mark.parametrize("path", MIXED, ids=lambda path: path.name)
def test_the_table_for_people_has_a_line_a_row(path, capsys):
    status, out, _ = whatif(capsys, path, "--settings", "none", "--settings", "expandable_segments:True")
    assert status == 0
    assert "the emulation does what the recording shows" in out
    assert "2.07 GiB" in out
    assert "expandable_segments:True: 1.99 GiB reserved at the peak instead of" in " ".join(out.split())


def gauge_peaks(events):
    """Peaks of allocated (until the request to free) and of active (until its completion), of one device's trace from empty."""
    held = waiting = 0
    most_held = most_active = 0
    for event in events:
        held += change(event, "alloc", "free_requested")
        waiting += change(event, "free_requested", "free_completed")
        most_held, most_active = max(most_held, held), max(most_active, held + waiting)
    return most_held, most_active


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.name == "deferred_frees-1.pickle.xz"], ids=lambda path: path.name
)
def test_every_row_has_the_same_gauges(path, capsys):
    allocated, active = gauge_peaks(plain(path)["device_traces"][0])
    output = table(capsys, path, "--settings", "none", "--settings", "forebay")
    rows = [output["recorded"], *(row for row in output["rows"] if row["settings"] in ("none", "forebay"))]
    assert [row["peak_allocated_bytes"] for row in rows] == [allocated] * 3 == [180 * MIB] * 3
    assert [row["peak_active_bytes"] for row in rows] == [active] * 3


@pytest.mark.parametrize("path", CHECKERBOARD, ids=lambda path: path.name)
def test_the_event_is_that_of_the_file(path, capsys):
    events = plain(path)["device_traces"][0]
    refused = next(i for i, event in enumerate(events) if event["action"] == "oom")
    output = table(capsys, path, "--settings", "none")
    assert output["calibration"] == {"exact": True, "first_divergence": None}
    [theirs] = [row for row in output["rows"] if row["settings"] == "none"]
    assert (theirs["oom"], theirs["oom_event"]) == (True, refused)
    _, out, _ = whatif(capsys, path, "--settings", "none")
    assert f"event {refused:,}" in " ".join(out.split())


def test_a_request_that_was_refused_is_tried_under_the_recorded_cap(capsys):
    output = table(capsys, "example:mixed", "--settings", "forebay")
    [row] = output["rows"]
    assert (output["recorded"]["ooms"], row["oom"]) == (1, False)
    assert row["peak_reserved_bytes"] <= row["cap_bytes"] < 2100 * MIB
    assert "it serves the request that was refused" in row["how"]


def test_a_request_that_no_known_limit_refuses_is_not_tried(tmp_path, capsys):
    """Two devices, of which one ran out of memory: no one cap is known."""
    trace = [
        {"action": "segment_alloc", "addr": 1 << 30, "size": 2 * MIB, "stream": 0, "frames": []},
        {"action": "alloc", "addr": 1 << 30, "size": 512, "stream": 0, "frames": []},
        {"action": "oom", "size": 8 * MIB, "stream": 0, "device_free": 0, "frames": []},
    ]
    segments = [
        {
            "device": device, "address": 1 << 30, "total_size": 2 * MIB, "stream": 0, "segment_type": "small", "allocated_size": 512,
            "active_size": 512, "blocks": [
                {"size": 512, "requested_size": 512, "state": "active_allocated"},
                {"size": 2 * MIB - 512, "requested_size": 0, "state": "inactive"},
            ],
        }
        for device in range(2)
    ]  # fmt: skip
    path = tmp_path / "two.pickle"
    path.write_bytes(pickle.dumps({"segments": segments, "device_traces": [trace, trace[:2]]}))
    [row] = table(capsys, path, "--settings", "forebay")["rows"]
    assert (row["oom"], row["oom_event"]) == (None, None)
    assert "serves" not in row["how"]
    assert "not tried" in " ".join(whatif(capsys, path, "--settings", "forebay")[1].split())


def one_device(count, size):
    """A snapshot whose blocks of one size each fill a segment that was there before."""
    at = [(1 << 47) + i * size for i in range(count)]
    trace = [{"action": "alloc", "addr": address, "size": size, "stream": 0, "frames": []} for address in at]
    block = {"size": size, "requested_size": size, "state": "active_allocated"}
    whole = {"device": 0, "total_size": size, "stream": 0, "segment_type": "large", "allocated_size": size, "active_size": size}
    return {"segments": [{**whole, "address": address, "blocks": [block]} for address in at], "device_traces": [trace]}


def test_without_a_cap_the_device_has_no_bound(tmp_path, capsys):
    path = tmp_path / "vast.pickle"
    path.write_bytes(pickle.dumps(one_device(8, 1 << 40)))
    [row] = table(capsys, path, "--settings", "forebay")["rows"]
    assert (row["oom"], row["peak_allocated_bytes"], row["peak_reserved_bytes"]) == (False, 8 << 40, 8 << 40)


def test_a_request_that_nobody_can_serve_is_said_of_its_file(tmp_path, capsys):
    path = tmp_path / "absurd.pickle"
    path.write_bytes(pickle.dumps(one_device(2, 1 << 60)))
    for settings in ("forebay", "none"):
        status, out, err = whatif(capsys, path, "--settings", settings)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"forebay: {path}: ")


def test_a_history_that_begins_in_mid_life_is_held_against_itself_and_not_against_an_older_heap(tmp_path, capsys):
    """66 MiB were reserved before; the two requests of the history need 20 of a fresh PyTorch."""
    begun = one_device(2, 2 * MIB)
    segment, block = begun["segments"][1], begun["segments"][1]["blocks"][0]
    segment.update(total_size=64 * MIB, blocks=[block, {"size": 62 * MIB, "requested_size": 0, "state": "inactive"}])
    path = tmp_path / "late.pickle"
    path.write_bytes(pickle.dumps(begun))
    output = table(capsys, path, "--settings", "none", "--settings", "forebay")
    none, ours = (row["peak_reserved_bytes"] for row in output["rows"])
    assert (output["recorded"]["peak_reserved_bytes"], none) == (66 * MIB, 20 * MIB)
    [told] = [line for line in output["advice"] if line.startswith("forebay's pool")]
    assert told.startswith(f"forebay's pool holds {size(none - ours)} less at its peak")


@pytest.mark.parametrize("path", [p for p in FILES if p.name == "train-default-cap1790.pickle.xz"], ids=lambda path: path.name)
def test_all_rows_stand_under_the_cap_that_the_history_shows(path, capsys):
    output = table(capsys, path)
    assert output["recorded"]["ooms"] == 0
    assert {row["cap_bytes"] for row in output["rows"]} == {1724 * MIB}
    assert output["rows"][-1]["peak_reserved_bytes"] <= 1724 * MIB
    assert "what is kept apart, expandable_segments:True" in {row["settings"] for row in output["rows"]}  # alike for both torches


@pytest.mark.parametrize("path", [p for p in FILES if p.name == "alloc_retry-1.pickle.xz"], ids=lambda path: path.name)
def test_where_no_row_serves_the_request_that_is_said(path, capsys):
    output = table(capsys, path)
    assert all(row["oom"] for row in output["rows"])
    assert output["advice"][0] == "No row here serves the request that was refused."


SYNTHETIC = [path for path in FILES if path.name.startswith("public_synthetic_4streams")]


@pytest.mark.parametrize("path", SYNTHETIC, ids=lambda path: path.name)
def test_figures_that_contradict_each_other_are_said_to(path, capsys):
    _, out, _ = whatif(capsys, path, "--settings", "forebay")
    told = " ".join(out.split())
    assert "The history contradicts itself: 2.1 GiB allocated in 250 MiB that were reserved" in told
    assert "-88" not in told


def test_a_size_that_is_none_is_refused(capsys):
    status, _, err = whatif(capsys, "x.pickle", "--cap", "12 potatoes")
    assert status == 2
    assert "not a size: '12 potatoes'" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(("content", "said"), [(None, "cannot be read"), (b"", "an empty file"), (b"hello", "looks like text")])
def test_a_file_that_cannot_be_used_is_one_line(content, said, tmp_path, capsys):
    path = tmp_path / "oom.pickle"
    if content is not None:
        path.write_bytes(content)
    status, out, err = whatif(capsys, path)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "oom.pickle: " in err
    assert said in err
