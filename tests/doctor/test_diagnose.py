"""Verdicts: the labelled incidents, healthy and public snapshots, reports of the field as small tapes, lines of logs."""

import json
import lzma
import pickle
import sys

import pytest

from corpus import artifacts
from forebay.doctor import INCIDENTS, diagnose, diagnose_line
from forebay.sources import open_artifact, open_bytes
from forebay.sources.log_text import out_of_memory
from forebay.tape import parse

MIB, GIB = 2**20, 2**30
LABELLED = artifacts("incidents", "*.pickle.xz")
PUBLIC = artifacts("snapshots", "*.pickle.xz")
MESSAGES = [json.loads(line) for path in artifacts("oom", "messages.jsonl") for line in path.read_text().splitlines()]


def names(diagnosis):
    return [finding.name for finding in diagnosis.findings]


@pytest.mark.parametrize("path", LABELLED, ids=lambda path: path.name)
def test_a_labelled_incident_gets_its_label_and_what_is_also_there(path):
    told = json.loads(path.with_name(path.name.replace(".pickle.xz", ".json")).read_text())
    found = diagnose(open_artifact(path))
    assert found.verdict == told["incident"]
    assert set(told.get("also") or []) <= set(names(found))


def without_stacks(data):
    """The snapshot as one is that recorded no frames."""
    for event in (event for trace in data["device_traces"] for event in trace):
        event.pop("frames", None)
    for holder in (holder for segment in data["segments"] for holder in (segment, *segment["blocks"])):
        holder.pop("frames", None)
    return data


def elsewhere(data):
    """The same on device 2, on streams of other handles."""
    data["device_traces"] = [[], [], data["device_traces"][0]]
    for thing in [*data["segments"], *data["device_traces"][2]]:
        if "stream" in thing:
            thing["stream"] += 0x5A0000
    for segment in data["segments"]:
        segment["device"] = 2
    return data


@pytest.mark.parametrize("changed", [without_stacks, elsewhere], ids=lambda changed: changed.__name__)
@pytest.mark.parametrize("path", LABELLED, ids=lambda path: path.name)
def test_a_label_hangs_neither_on_stacks_nor_on_numbers(path, changed):
    told = json.loads(path.with_name(path.name.replace(".pickle.xz", ".json")).read_text())
    found = diagnose(open_bytes("changed", pickle.dumps(changed(pickle.loads(lzma.decompress(path.read_bytes()))))))
    assert found.verdict == told["incident"]
    assert set(told.get("also") or []) <= set(names(found))


@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.name)
def test_a_public_snapshot_is_no_checkerboard_and_without_a_history_nobody_can_tell(path):
    verdict = diagnose(open_artifact(path)).verdict
    assert verdict != "checkerboard-fragmentation"
    if "2023_layout" in path.name or "segments_only" in path.name:
        assert verdict == "cannot-tell"
    if "healthy" in path.name:
        assert verdict is None


@pytest.mark.parametrize("path", artifacts("recordings", "*.pickle.xz"), ids=lambda path: path.name)
def test_no_recording_of_a_working_set_is_called_a_leak(path):
    """The same workload without its cap shows that what it keeps rises and falls (mixed), or does not rise (train, streams)."""
    found = {finding.name: finding for finding in diagnose(open_artifact(path)).findings}
    growth = found.get("memory-growth")
    assert growth is None or (growth.severity, growth.certainty, "capped-oom" in found) == ("warning", "possible", True)
    if path.name.startswith("mixed-default-cap2090"):
        assert growth is None  # it let go of 346 MiB at once before it was refused


@pytest.mark.parametrize("path", artifacts("snapshots", "public_segments_only.pickle.xz"), ids=lambda path: path.name)
def test_segments_without_a_history_lack_the_history_alone(path):
    found = diagnose(open_artifact(path))
    assert {unseen.needs for unseen in found.unseen} == {("allocs",)}
    assert "graph-pool-hoard" not in {unseen.name for unseen in found.unseen}  # the heap is there to be judged


@pytest.mark.parametrize("path", artifacts("snapshots", "public_synthetic_4streams.pickle.xz"), ids=lambda path: path.name)
def test_a_history_in_which_more_lived_than_was_reserved_is_not_healthy(path):
    found = diagnose(open_artifact(path))
    assert found.verdict == "cannot-tell"
    assert "how 2.1 GiB could be live at one time in 250 MiB reserved" in found.why[0]


@pytest.mark.parametrize("path", [path for path in LABELLED if "leak" in path.name], ids=lambda path: path.name)
@pytest.mark.parametrize("kept", [0.7, 0.3])
def test_a_leak_is_found_by_a_ring_that_lost_its_beginning(path, kept):
    data = pickle.loads(lzma.decompress(path.read_bytes()))
    data["device_traces"] = [trace[int(len(trace) * (1 - kept)) :] for trace in data["device_traces"]]
    assert diagnose(open_bytes("ring", pickle.dumps(data))).verdict == "memory-growth"


HIJACK = """
sees allocs segments sites ooms beginning capacity
t0 s1 reserve 1000M @0x100000000 at train.py:9 step
t0 s1 alloc BIG 1000M @0x100000000 requested=1000M at train.py:9 step
t0 s1 free BIG at train.py:9 step
t0 s1 alloc A 20M @0x100000000 requested=20M at cache.py:4 keep
t0 s1 alloc B 600M @0x101400000 requested=600M at train.py:9 step
t0 s1 alloc C 20M @0x126c00000 requested=20M at cache.py:4 keep
t0 s1 free B at train.py:9 step
t0 capacity device_free 100M
t0 s1 oom 940M at train.py:9 step
"""


def test_a_segment_hijacked_by_small_blocks_is_fragmentation_and_the_pin_is_named():
    found = diagnose(parse(HIJACK))
    assert found.verdict == "checkerboard-fragmentation"
    finding = found.findings[0]
    assert (finding.certainty, finding.evidence["request_bytes"], finding.evidence["idle_bytes"]) == (
        "certain",
        940 * MIB,
        960 * MIB,
    )
    assert finding.evidence["largest_free_bytes"] == 600 * MIB
    assert [(site.file, site.line) for site in finding.sites] == [("cache.py", 4)]
    assert finding.evidence["releasable_bytes"] == 0  # empty_cache frees nothing


def test_the_rule_of_70_percent_is_told_where_it_misleads():
    assert "4% of reserved" in diagnose(parse(HIJACK)).why[1]
    assert "holds" in diagnose(parse(HIJACK)).why[1]
    small = HIJACK.replace("oom 940M", "oom 990M")  # 960 MiB idle are not enough: a matter of size
    assert diagnose(parse(small)).verdict == "capacity-oom"
    assert "misleads" in diagnose(parse(small)).why[1]


def test_the_card_had_room_so_a_cap_refused():
    found = diagnose(parse(HIJACK.replace("device_free 100M", "device_free 90G").replace("oom 940M", "oom 990M")))
    assert found.verdict == "capped-oom"


def test_frees_that_wait_are_told_from_fragmentation():
    text = HIJACK.replace("sees ", "sees reclaims ").replace(
        "t0 s1 free BIG at train.py:9 step", "t0 s1 free BIG\nt0 s1 reclaim BIG"
    )
    found = diagnose(parse(text))  # B was let go and never became usable
    assert found.verdict == "deferred-frees"
    assert found.findings[0].evidence["pending_bytes"] == 600 * MIB


def test_memory_idle_on_another_stream_is_stranded():
    text = HIJACK.replace("t0 s1 oom", "t0 s2 oom")
    assert diagnose(parse(text)).verdict == "stranded-stream-cache"


CHURN = """
sees allocs segments sites ooms beginning
t0 s1 reserve 40M @0x100000000 at a.py:1 f
t0 s1 alloc A 40M @0x100000000 requested=40M at a.py:1 f
t0 s1 free A at a.py:1 f
"""


def loop(site, times):
    text = CHURN
    for n in range(times):
        at = 0x200000000 + n * 0x10000000
        before = 0x100000000 if n == 0 else at - 0x10000000
        size = 40 if n == 0 else 60
        text += f"t0 s1 release {size}M @{before:#x} at {site}\n"
        text += f"t0 s1 reserve 60M @{at:#x} at b.py:2 g\nt0 s1 alloc B{n} 60M @{at:#x} requested=60M at b.py:2 g\n"
        text += f"t0 s1 free B{n} at b.py:2 g\n"
    return parse(text)


def test_repeated_empty_cache_is_priced_and_its_caller_named():
    found = diagnose(loop("loop.py:5 empty_cache", 4))
    assert found.verdict == "empty-cache-smell"
    assert found.findings[0].evidence == {
        "calls": 4,
        "flushed_segments": 4,
        "flushed_bytes": 220 * MIB,
        "regrown_segments": 4,  # 40 MiB and three times 60 MiB went, and each time 60 MiB came: no more than went came again
        "regrown_bytes": 220 * MIB,
        "requests": 5,
        "driver_allocs": 5,
        "driver_frees": 4,
    }
    assert found.findings[0].sites[0].file == "loop.py"
    assert diagnose(loop("loop.py:5 empty_cache", 2)).verdict is None


def test_a_retry_flush_is_churn_and_not_empty_cache():
    found = diagnose(loop("b.py:2 g", 4))
    assert (found.verdict, names(found)) == (None, ["driver-churn"])


def test_growth_needs_iterations_and_names_the_keeper():
    lines = ["sees allocs segments sites beginning", "t0 s1 reserve 3000M @0x100000000", "t0 s1 reserve 40M @0x900000000"]
    for n in range(300):
        lines.append(f"t0 s1 alloc K{n} 1M @{0x100000000 + n * MIB:#x} requested=1M at log.py:3 keep")
        lines.append(f"t0 s1 alloc T{n} 40M @0x900000000 requested=40M at step.py:8 run\nt0 s1 free T{n} at step.py:8 run")
    found = diagnose(parse("\n".join(lines)))
    assert found.verdict == "memory-growth"
    assert found.findings[0].sites[0].file == "log.py"
    steady = [line for line in lines if "keep" not in line]
    assert diagnose(parse("\n".join(steady))).verdict is None


def line(tried, free, reserved, allocated, total="40.00 GiB", allowed=""):
    return out_of_memory(
        f"CUDA out of memory. Tried to allocate {tried} (GPU 0; {total} total capacity; {allocated} already allocated; {free} free; "
        f"{allowed}{reserved} reserved in total by PyTorch)"
    )


@pytest.mark.parametrize(
    ("found", "verdict", "certainty"),
    [
        (line("10.84 GiB", "10.26 GiB", "12.53 GiB", "1.06 GiB", "23.00 GiB"), "checkerboard-fragmentation", "possible"),
        (line("64.00 MiB", "38.09 GiB", "39.52 GiB", "39.10 GiB", "79.15 GiB"), "capped-oom", "possible"),
        (line("1.00 GiB", "20.00 GiB", "9.50 GiB", "9.40 GiB", allowed="10.00 GiB allowed; "), "capped-oom", "certain"),
        (line("2.00 GiB", "1.00 GiB", "38.00 GiB", "37.50 GiB"), "capacity-oom", "certain"),
        (line("20.00 MiB", "5.62 MiB", "306.00 MiB", "304.36 MiB"), "outside-allocator", "certain"),
        (line("10.73 GiB", "0 bytes", "19.15 GiB", "17.20 GiB", "8.00 GiB"), "oversubscribed", "certain"),
        (line("50.00 GiB", "1.00 GiB", "38.00 GiB", "37.50 GiB"), "impossible-request", "certain"),
        (line("17179869113.53 GiB", "1.00 GiB", "38.00 GiB", "37.50 GiB"), "impossible-request", "certain"),
    ],
)
def test_a_line_is_judged_by_its_arithmetic(found, verdict, certainty):
    diagnosis = diagnose_line(found)
    assert (diagnosis.verdict, diagnosis.findings[0].certainty) == (verdict, certainty)


@pytest.mark.parametrize("told", MESSAGES, ids=lambda told: told["id"])
def test_every_line_gets_a_verdict_and_its_ledger_sums_to_what_is_used(told):
    found = diagnose_line(out_of_memory(told["text"]))
    assert found.verdict in {incident.name for incident in INCIDENTS}
    held = {name: size for name, size in found.ledger.items() if name != "used"}
    if (
        found.ledger["used"] is not None
        and found.verdict not in ("oversubscribed", "impossible-request")
        and held["cached"] is not None
    ):
        assert sum(size or 0 for size in held.values()) == pytest.approx(found.ledger["used"], abs=2 * told["rounding_bytes"] + 1)
    if found.findings[0].certainty == "possible":
        commands = (
            "_dump_snapshot",
            "nvidia-smi",
            "free -g; ulimit -l",
            "free -g; ulimit -v",
            "torch.mps.driver_allocated_memory",
        )
        assert any(command in found.findings[0].remedy.partition("To be sure: ")[2] for command in commands)


ORDERED = """
sees allocs segments work uses edges streams beginning
t0 s1 reserve 20M @0x100000000
t0 s1 alloc A 4M @0x100000000 requested=4M
t0 s1 launch fill w:A
t0 s1 record e
t0 s2 wait e
t0 s2 launch read r:A
"""


def test_what_is_not_ordered_is_counted_and_left_to_check():
    assert not any("forebay check" in line for line in diagnose(parse(ORDERED)).why)
    found = diagnose(parse(ORDERED.replace("t0 s2 wait e\n", "")))
    assert found.verdict is None
    assert found.why[-1].startswith("this judges memory; order is another matter, and not sound: a pair of accesses")
    assert found.why[-1].endswith("1 for certain. `forebay check FILE` names them")


def test_order_in_a_tape_that_is_too_long_to_look_at_is_left_open(monkeypatch):
    monkeypatch.setattr(sys.modules[diagnose.__module__], "_MOST_ORDERED", 5)
    assert diagnose(parse(ORDERED)).why[-1] == "this judges memory; whether all accesses are ordered `forebay check FILE` tells"


def test_figures_that_round_to_the_same_are_told_apart():
    tight = HIJACK.replace("oom 940M", f"oom {600 * MIB + 512}")  # 512 bytes more than the largest hole
    message = next(f.message for f in diagnose(parse(tight)).findings if f.name == "checkerboard-fragmentation")
    assert "600 MiB were refused" in message
    assert "the largest free block has 600 MiB less 512 B" in message


def test_every_incident_has_a_page_and_a_name_of_its_own():
    assert len({incident.name for incident in INCIDENTS}) == len(INCIDENTS) == 16
    for incident in INCIDENTS:
        assert incident.page.startswith("What it is: ")
        assert "Why it matters: " in incident.page
        assert "Instead: " in incident.page
