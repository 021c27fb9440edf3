"""Reports of the field that are about memory, as tapes and as lines of logs: each gets the verdict that the report came to."""

from pathlib import Path

import pytest

from forebay.doctor import diagnose, diagnose_line
from forebay.doctor.machine import machine
from forebay.sources import open_artifact
from forebay.sources.log_text import out_of_memory
from forebay.sources.nvml import Nvml
from forebay.tape import parse

MIB, GIB = 2**20, 2**30
TAPES = sorted((Path(__file__).parent.parent / "tapes" / "reports" / "memory").glob("*.tape"))


def diagnosed(stem):
    return diagnose(open_artifact(next(path for path in TAPES if path.stem.startswith(f"{stem}-"))))


@pytest.mark.parametrize("path", TAPES, ids=lambda path: path.stem)
def test_a_report_gets_its_verdict_for_certain(path):
    (verdict,) = (line.removeprefix("# verdict: ") for line in path.read_text().split("\n") if line.startswith("# verdict: "))
    found = diagnose(open_artifact(path))
    assert (found.verdict, found.findings[0].certainty) == (verdict, "certain")


def test_a1_names_who_pins_the_segment_and_that_nothing_can_be_given_back():
    evidence = diagnosed("a1").findings[0].evidence
    assert (evidence["idle_bytes"], evidence["largest_free_bytes"], evidence["releasable_bytes"]) == (
        (11060 + 686) * MIB,  # of the segment, and of another one
        5000 * MIB,
        0,
    )
    assert [pin["site"][0]["file"] for pin in evidence["pins"]] == ["net.py", "opt.py"]
    assert (evidence["pins"][0]["held_bytes"], evidence["pins"][0]["freed_if_gone_bytes"]) == (44 * MIB, 11104 * MIB)


def test_a9_has_a_ledger_that_sums_to_what_nvidia_smi_shows():
    ledger = diagnosed("a9").ledger
    assert (ledger["used"], ledger["live"], ledger["cached"]) == (12433 * MIB, 0, 2 * MIB)
    assert (ledger["outside_pools"], ledger["other_processes"]) == (12431 * MIB, 0)


def test_d7_says_what_was_asked_and_what_was_pinned():
    evidence = diagnosed("d7").findings[0].evidence
    assert evidence == {"pinned_bytes": 256 * MIB + 32 * GIB, "requested_bytes": 132608 * 2**10 + 20890 * MIB}


def emptied(every, steps=60, width=10):
    """A program of `steps` steps of `width` requests whose cache is emptied every so many of them; each segment holds one block."""
    lines = ["sees allocs segments sites beginning"]
    held = False
    for step in range(steps):
        for n in range(width):
            at = 0x100000000 + n * 0x10000000
            if not held:
                lines.append(f"t0 s1 reserve 40M @{at:#x} at net.py:{n + 1} forward")
            lines.append(f"t0 s1 alloc B{step}x{n} 40M @{at:#x} requested=40M at net.py:{n + 1} forward")
        lines += [f"t0 s1 free B{step}x{n} at net.py:90 backward" for n in range(width)]
        held = step % every != every - 1
        if not held:
            at = [f"@{0x100000000 + n * 0x10000000:#x}" for n in range(width)]
            lines += [f"t0 s1 release 40M {address} at train.py:7 empty_cache" for address in at]
    return diagnose(parse("\n".join(lines)))


@pytest.mark.parametrize(("every", "severity", "calls", "regrown"), [(1, "error", 60, 590), (20, "warning", 3, 20)])
def test_a8_empty_cache_is_priced_and_scolded_only_where_each_step_pays(every, severity, calls, regrown):
    found = emptied(every)
    (finding,) = found.findings
    assert (finding.name, finding.severity, found.verdict) == (
        "empty-cache-smell",
        severity,
        finding.name if every == 1 else None,
    )
    assert (finding.evidence["calls"], finding.evidence["regrown_segments"]) == (calls, regrown)
    assert finding.evidence["regrown_bytes"] == regrown * 40 * MIB


def test_b3_a_setting_that_older_versions_ignore_is_told_before_it_is_trusted():
    (warning,) = machine(Nvml(None, ()), {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}).warnings
    assert "older ones ignore it" in warning
    assert "allocator_settings tell what is in force" in warning


def test_b5_what_expandable_segments_need_between_processes_is_told(tmp_path):
    (tmp_path / "proc/sys/kernel/yama").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/yama/ptrace_scope").write_text("1\n")
    (sight,) = (sight for sight in machine(Nvml(None, ()), {}, tmp_path).sights if sight.name == "ptrace")
    assert "expandable segments cannot be shared between processes" in sight.get


def line(tried, total, allocated, free, reserved, allowed=""):
    return (
        f"CUDA out of memory. Tried to allocate {tried} (GPU 0; {total} total capacity; {allocated} already allocated; {free} free; "
        f"{allowed}{reserved} reserved in total by PyTorch)"
    )


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        # F1: (2**64 - 1) / 2**30 GiB is "not available", no size
        (line("2.00 GiB", "17179869184.00 GiB", "6.00 GiB", "1.00 GiB", "6.10 GiB"), "capacity-oom"),
        (line("20.00 MiB", "8.00 GiB", "7.00 GiB", "0 bytes", "7.20 GiB", "17179869184.00 GiB allowed; "), "capacity-oom"),
        # F2: a negative size that wrapped
        (line("17179869113.53 GiB", "16.00 GiB", "1.00 GiB", "12.00 GiB", "1.10 GiB"), "impossible-request"),
        # F3: more allocated than there is
        (line("10.73 GiB", "8.00 GiB", "17.20 GiB", "0 bytes", "19.15 GiB"), "oversubscribed"),
        (line("512.00 MiB", "15.99 GiB", "30.00 GiB", "0 bytes", "30.10 GiB"), "oversubscribed"),
        # F4: a cap that is printed, and one that is not: 39.52 of 79.15 GiB with 38.09 free is the fraction 0.5
        (line("1.00 GiB", "40.00 GiB", "9.40 GiB", "20.00 GiB", "9.50 GiB", "10.00 GiB allowed; "), "capped-oom"),
        (line("64.00 MiB", "79.15 GiB", "39.10 GiB", "38.09 GiB", "39.52 GiB"), "capped-oom"),
        # A2's own line cannot be told from fragmentation: it says so
        (line("648.00 MiB", "39.59 GiB", "22.96 GiB", "228.00 MiB", "36.19 GiB"), "checkerboard-fragmentation"),
    ],
)
def test_the_arithmetic_of_a_line(text, verdict):
    found = diagnose_line(out_of_memory(text))
    assert found.verdict == verdict
    if verdict == "checkerboard-fragmentation":
        assert found.findings[0].certainty == "possible"
        assert "_dump_snapshot" in found.findings[0].remedy


NEARLY_FULL = """sees allocs segments ooms capacity beginning
t0 s1 reserve 1000M @0x100000000
t0 s1 alloc A 480M @0x100000000 requested=480M
t0 s1 alloc B 20M @0x11e000000 requested=20M
t0 s1 alloc C 480M @0x11f400000 requested=480M
t0 s1 alloc D 20M @0x13d400000 requested=20M
t0 s1 free B
t0 s1 free D
capacity free 90G
t0 s1 oom 30M
"""


def test_a_few_idle_bytes_of_a_full_pool_are_a_word_and_not_the_verdict():
    found = diagnose(parse(NEARLY_FULL))  # 40 MiB of 1000 idle, in two pieces, 30 asked
    assert found.verdict == "capped-oom"
    assert [(f.name, f.severity) for f in found.findings] == [("capped-oom", "error"), ("checkerboard-fragmentation", "warning")]
    assert diagnose(
        parse(NEARLY_FULL.replace("A 480M", "A 300M").replace("=480M\nt0 s1 alloc B", "=300M\nt0 s1 alloc B"))
    ).verdict == ("checkerboard-fragmentation")


def test_two_streams_that_both_work_have_a_cache_and_nothing_is_stranded():
    lines = ["sees allocs segments beginning", "t0 s1 reserve 400M @0x100000000", "t0 s2 reserve 400M @0x200000000"]
    for n in range(40):
        for stream, at in ((1, 0x100000000), (2, 0x200000000)):
            lines += [f"t0 s{stream} alloc A{n}x{stream} 300M @{at:#x} requested=300M", f"t0 s{stream} free A{n}x{stream}"]
    assert diagnose(parse("\n".join(lines))).verdict is None
    stopped = [text for text in lines if " s2 " not in text or "reserve" in text or "A0x2" in text or "A1x2" in text]
    assert diagnose(parse("\n".join(stopped))).verdict == "stranded-stream-cache"


def test_on_several_devices_the_one_that_is_ill_is_named():
    lines = [
        "sees allocs segments sites beginning",
        "t0 s1 reserve 4000M @0x100000000 device=0",
        "t0 s2 reserve 3000M @0x900000000 device=1",
    ]
    for n in range(300):
        lines.append(
            f"t0 s1 alloc T{n} 400M @0x100000000 requested=400M device=0 at a.py:1 f\nt0 s1 free T{n} device=0 at a.py:1 f"
        )
        lines.append(f"t0 s2 alloc K{n} 1M @{0x900000000 + n * MIB:#x} requested=1M device=1 at b.py:2 keep")
        lines.append(
            f"t0 s2 alloc U{n} 40M @0x9a0000000 requested=40M device=1 at a.py:1 f\nt0 s2 free U{n} device=1 at a.py:1 f"
        )
    found = diagnose(parse("\n".join(lines)))
    assert found.verdict == "memory-growth"
    assert found.findings[0].message.startswith("device 1: ")
    assert found.findings[0].evidence["device"] == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (line("2.00 GiB", "40.00 GiB", "39.00 GiB", "1.00 GiB", "20.00 GiB"), "how 39 GiB can be live in 20 GiB reserved"),
        (line("2.00 GiB", "40.00 GiB", "3.00 GiB", "41.00 GiB", "20.00 GiB"), "how 41 GiB can be free of 40 GiB"),
    ],
)
def test_figures_that_contradict_each_other_make_nothing_certain(text, says):
    found = diagnose_line(out_of_memory(text))
    assert found.findings[0].certainty == "possible"
    assert [unseen.needs for unseen in found.unseen] == [(says,)]


def test_live_blocks_without_a_segment_leave_only_what_does_not_hang_on_segments():
    text = NEARLY_FULL.replace("t0 s1 reserve 1000M @0x100000000", "t0 s1 reserve 490M @0x100000000")
    found = diagnose(parse(text))
    assert {finding.certainty for finding in found.findings} == {"possible"}
    assert any("segments for " in need for unseen in found.unseen for need in unseen.needs)
    healthy = diagnose(parse(text.replace("t0 s1 oom 30M\n", "")))
    assert healthy.verdict == "cannot-tell"


def test_what_others_took_from_metal_is_held_and_not_idle():
    """7.43 of its own and 24.46 beside it leave 0.11 GB of 32.00: the limit refused 129 MB, and nothing lay idle."""
    text = (
        "RuntimeError: MPS backend out of memory (MPS allocated: 7.43 GB, other allocations: 24.46 GB, max allowed: 32.00 GB). "
        "Tried to allocate 129.21 MB on private pool."
    )
    found = diagnose_line(out_of_memory(text))
    assert found.verdict == "capped-oom"
    assert "idle_bytes" not in found.findings[0].evidence
    assert "PYTORCH_MPS_HIGH_WATERMARK_RATIO" in found.findings[0].remedy


ASYNC = """torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)
Currently allocated     : 6.52 GiB
Requested               : 20.00 MiB
Device limit            : 8.00 GiB
Free (according to CUDA): 0 bytes
PyTorch limit (set by user-supplied memory fraction)
                        : 17179869184.00 GiB"""
CARD = "GPU 0 has a total capacity of 79.33 GiB of which 508.44 MiB is free. Process 7 has 78.82 GiB memory in use. "
GRAPHS = (
    f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 594.00 MiB. {CARD}Of the allocated memory 60.00 GiB is allocated by "
    "PyTorch, with 12.00 GiB allocated in private pools (e.g., CUDA Graphs), and 1.00 GiB is reserved by PyTorch but unallocated."
)
NPU = (
    "NPU out of memory. Tried to allocate 5.03 GiB (NPU 3; 60.96 GiB total capacity; 49.47 GiB already allocated; {} current active; "
    "1.32 GiB free; 57.55 GiB reserved in total by PyTorch)"
)
CUPY = "OutOfMemoryError: Out of memory allocating {} bytes (allocated so far: 10,737,418,240 bytes, limit set to: {} bytes)."


@pytest.mark.parametrize(
    ("text", "verdict", "certainty"),
    [
        # B1, B2: what lies idle in CUDA's own pool nobody states, so a full card is not certain
        (ASYNC, "capacity-oom", "possible"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.", "impossible-request", "certain"),
        # E8: of what is called allocated 12 GiB lie in pools of graphs
        (GRAPHS, "graph-pool-hoard", "possible"),
        (GRAPHS.replace("12.00 GiB", "58.00 MiB"), "capacity-oom", "certain"),
        # what is active beyond what is allocated waits: none of it, or 7 GiB
        (NPU.format("49.47 GiB"), "checkerboard-fragmentation", "possible"),
        (NPU.format("56.47 GiB"), "deferred-frees", "certain"),
        (CUPY.format("8,589,934,592", "12,884,901,888"), "capped-oom", "certain"),
        # D9: host memory under the GPU's name
        ("cudaHostAlloc failed: out of memory", "pinned-overhead", "certain"),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "unknown", "possible"),
        ("n1:2:3 [0] NCCL WARN Cuda failure 'out of memory'", "unknown", "possible"),
        (
            "The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (20016).",
            "capacity-oom",
            "certain",
        ),
    ],
)
def test_other_wordings_and_what_they_leave_open(text, verdict, certainty):
    found = diagnose_line(out_of_memory(text))
    assert (found.verdict, found.findings[0].certainty) == (verdict, certainty)


def test_a_server_s_own_estimate_is_the_first_thing_to_do():
    text = (
        "To serve at least one request with the models's max seq len (262144), (24.0 GiB KV cache is needed, which is larger than "
        "the available KV cache memory (3.18 GiB). Based on the available memory, the estimated maximum model length is 34736."
    )
    (finding,) = diagnose_line(out_of_memory(text)).findings
    assert finding.remedy.startswith("max_model_len=34736, ")
    assert (finding.evidence["max_seq_len"], finding.evidence["estimated_max_len"]) == (262144, 34736)


def test_the_limit_to_raise_is_the_framework_s_own():
    (finding,) = diagnose_line(out_of_memory(CUPY.format("8,589,934,592", "12,884,901,888"))).findings
    assert "set_limit" in finding.remedy
    assert "torch" not in finding.remedy


def test_no_share_in_use_is_told_where_nobody_states_what_is_reserved():
    statistics = "Limit: 8847717172\nInUse: 4797028096\nMaxInUse: 7450003456\nNumAllocs: 54412\nMaxAllocSize: 2468347904"
    found = diagnose_line(out_of_memory(statistics))
    assert not any("rule of 70" in line for line in found.why)
    assert (found.ledger["cached"], found.ledger["live"]) == (None, 4797028096)
    assert diagnose_line(out_of_memory(ASYNC)).ledger["unknown_together"] == 8 * GIB - round(6.52 * GIB)


def test_a_full_card_is_certain_only_where_nothing_can_lie_idle():
    """The line does not say what was reserved: the bytes may have been there, in pieces."""
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 136.00 MiB (GPU 0; 79.15 GiB total capacity; 120.88 MiB free)"
    found = diagnose_line(out_of_memory(text))
    assert (found.verdict, found.findings[0].certainty) == ("capacity-oom", "possible")
