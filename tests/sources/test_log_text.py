"""Log text: the OOM lines of every framework with the figures they state, sentinels, cut and foreign lines, capture errors."""

import json
import random
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus import artifacts
from forebay.errors import BadInput
from forebay.sources.log_text import CaptureError, OutOfMemory, first, out_of_memory, read, scan
from forebay.tape import Kind

MIB, GIB = 2**20, 2**30
MESSAGES = [json.loads(line) for path in artifacts("oom", "messages.jsonl") for line in path.read_text().splitlines()]

NEW = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 226.00 MiB. GPU 3 has a total capacity of 15.70 GiB of which 210.38 MiB "
    "is free. Process 77 has 1.50 GiB memory in use. Including non-PyTorch memory, this process has 14.00 GiB memory in use. 14.50 GiB "
    "allowed; Of the allocated memory 12.81 GiB is allocated by PyTorch, with 58.00 MiB allocated in private pools (e.g., CUDA Graphs), "
    "and 336.73 MiB is reserved by PyTorch but unallocated."
)
OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 16.00 GiB (GPU 0; 11.93 GiB total capacity; 4.00 GiB already allocated; "
    "7.33 GiB free; 179.00 KiB cached)"
)


@pytest.mark.parametrize("told", MESSAGES, ids=lambda told: told["id"])
def test_every_stated_figure_is_read_within_its_rounding(told):
    found = out_of_memory(told["text"])
    expected = dict(told["expected"])
    others = [(p["pid"], p["bytes"]) for p in expected.pop("other_processes", [])]
    slack = told["rounding_bytes"]
    assert len(found.other_processes) == len(others)
    pairs = [(found.figures[name], value) for name, value in expected.items()]
    pairs += [(got[1], want[1]) for got, want in zip(found.other_processes, others, strict=True)]
    for got, want in pairs:
        assert got == (pytest.approx(want, abs=slack) if isinstance(want, int | float) else want)


def test_a_new_line_of_pytorch_gives_all_its_figures():
    found = out_of_memory(NEW)
    assert (found.framework, found.failed, found.line) == ("pytorch", True, 1)
    assert found.other_processes == ((77, round(1.5 * GIB)),)
    assert found.figures == {
        "tried_bytes": 226 * MIB,
        "device": 3,
        "total_bytes": round(15.7 * GIB),
        "free_bytes": round(210.38 * MIB),
        "allocated_bytes": round(12.81 * GIB),
        "allowed_bytes": round(14.5 * GIB),
        "process_bytes": 14 * GIB,
        "private_pool_bytes": 58 * MIB,
        "reserved_unallocated_bytes": round(336.73 * MIB),
    }
    assert found.rounding["allocated_bytes"] == 5368710  # half of 0.01 GiB, rounded up


def wrapped(text, width):
    """As a terminal shows a long line, cut between words."""
    return "\n".join(textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False))


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("text", [NEW, OLD])
def test_a_line_that_a_terminal_wrapped_gives_the_same_figures(text, width):
    found = out_of_memory(f"step 3\n{wrapped(text, width)}\nINFO 12.00 MiB is free on the host\nstep 4")
    assert found.figures == out_of_memory(text).figures


@pytest.mark.parametrize(
    "text",
    [
        "INFO max memory allocated 12.3 GiB; no out of memory so far",
        "slurmstepd: error: Detected 1 oom_kill event",
        "Warning: if you run out of memory, try setting max_split_size_mb",
        "Out of memory: Killed process 12 (python)",
    ],
)
def test_what_sounds_like_one_is_none(text):
    assert first(text) is None


@pytest.mark.parametrize(
    ("number", "size"),
    [("1900,00 MiB", 1900 * MIB), ("1,024.00 MiB", GIB), ("0 bytes", 0), ("1.5 TiB", 3 * 2**39), ("17179869184.00 GiB", None)],
)
def test_numbers_as_locales_and_sentinels_print_them(number, size):
    assert out_of_memory(OLD.replace("7.33 GiB", number)).figures["free_bytes"] == size


def test_a_negative_size_that_was_wrapped_is_told_with_its_sign():
    figures = out_of_memory(OLD.replace("16.00 GiB", "17179869113.53 GiB")).figures
    assert figures["tried_bytes"] is None
    assert figures["tried_bytes_signed"] == pytest.approx(-70.47 * GIB, abs=0.01 * GIB)


@pytest.mark.parametrize("text", [OLD, NEW])
def test_a_cut_line_gives_what_it_still_states_and_nothing_else(text):
    whole = out_of_memory(text).figures
    for end in range(len(text)):
        cut = out_of_memory(text[:end])
        assert cut is None or all(value is None or value == whole[name] for name, value in cut.figures.items())


@pytest.mark.parametrize(
    "line",
    [
        "loaded 16.00 GiB of weights in 3.2 s",
        "If you run into CUDA out of memory, lower the batch size.",
        "[TensorRT] WARNING: Tactic Device request: 4000MB Available: 3000MB. Device memory is insufficient to use tactic.",
        "Skipping tactic 0x00 due to insufficient memory on requested size of 8455716864 detected for tactic 0x00.",
        "torch.cuda.memory_allocated() = 12.5 GiB, 1.2 GiB free",
        "RuntimeError: CUDA error: device-side assert triggered",
        "Process 77 has 1.50 GiB memory in use.",
        "",
    ],
)
def test_lines_that_are_not_errors_of_memory_are_refused(line):
    assert first(line) is None
    with pytest.raises(BadInput, match="no out-of-memory error"):
        read(line.encode())


def test_a_line_that_says_itself_that_it_is_no_failure_is_never_the_first_failure():
    soft = (
        "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.16GiB. The caller indicates that this is not a failure, but"
    )
    assert out_of_memory(soft).failed is False
    assert first(f"{soft}\n{OLD}").line == 2
    assert first(soft) is None


def test_the_first_failure_of_a_log_counts_with_its_line():
    log = f"epoch 1\nepoch 2\n[rank1]: {NEW}\n[rank0]: {OLD}\nRuntimeError: CUDA error: out of memory\n"
    found = first(log)
    assert (found.line, found.figures["device"]) == (3, 3)
    assert [f.line for f in scan(log)] == [3, 4, 5]


def test_an_error_over_several_lines_is_one():
    log = (
        "noise\nOutOfMemoryError: Allocation on device 1 would exceed allowed memory. (out of memory)\nCurrently allocated : 15.16 GiB\n"
        "Requested : 512.00 KiB\nDevice limit : 15.99 GiB\nFree (according to CUDA): 0 bytes\n"
        "PyTorch limit (set by user-supplied memory fraction) : 17179869184.00 GiB\nnoise"
    )
    [found] = scan(log)
    assert found.line == 2
    assert found.figures == {
        "tried_bytes": 512 * 1024,
        "device": 1,
        "total_bytes": round(15.99 * GIB),
        "free_bytes": 0,
        "allocated_bytes": round(15.16 * GIB),
        "allowed_bytes": None,
    }


CAPTURES = [
    ("RuntimeError: CUDA error: operation not permitted when stream is capturing", 900),
    ("CUDA error: operation failed due to a previous error during capture", 901),
    ("cudaErrorStreamCaptureMerge", 902),
    ("CUDA error: capture was not ended in the same stream as it began", 903),
    ("CUDA error: capturing stream has unjoined work", 904),
    ("CUDA_ERROR_STREAM_CAPTURE_ISOLATION: dependency created on uncaptured work", 905),
    ("CUDA failure 906: x ; GPU=0", 906),
    ("CUDA_ERROR_CAPTURED_EVENT", 907),
    ("cudaErrorStreamCaptureWrongThread: attempt to terminate", 908),
]


@pytest.mark.parametrize(("line", "code"), CAPTURES, ids=[str(code) for _, code in CAPTURES])
def test_each_capture_error_is_named_however_it_is_written(line, code):
    found = first(f"warming up\n{line}\n")
    assert isinstance(found, CaptureError)
    assert (found.code, found.line) == (code, 2)
    assert read(line.encode()).provenance["capture_error"] == code


def test_a_capture_that_was_only_invalidated_gives_way_to_the_cause():
    log = f"{CAPTURES[1][0]}\n{CAPTURES[4][0]}\n"
    assert first(log).code == 904
    assert first(CAPTURES[1][0]).code == 901


def test_a_log_as_a_tape_is_its_refusal_with_its_capacities():
    tape = read(f"noise\n{OLD}\n".encode())
    names = [tape.sides.strings[i] for i in tape.columns["name"]]
    assert [Kind(k) for k in tape.columns["kind"]] == [Kind.capacity] * 4 + [Kind.oom]
    assert dict(zip(names[:-1], tape.columns["size"].tolist()[:-1], strict=True)) == {
        "total_bytes": round(11.93 * GIB),
        "allocated_bytes": 4 * GIB,
        "free_bytes": round(7.33 * GIB),
        "reserved_unallocated_bytes": 179 * 1024,
    }
    assert int(tape.columns["size"][-1]) == 16 * GIB
    assert tape.provenance["line"] == 2


ALPHABET = [
    "0",
    "9",
    ".",
    ",",
    " GiB",
    " bytes",
    ";",
    "(",
    ")",
    "\n",
    "GPU 0",
    "\x00",
    "-",
    "Tried to allocate ",
    "capacity",
    "901",
    "e9",
]


def test_mutated_lines_are_read_or_refused_but_never_break_the_reader():
    seeds = [message["text"] for message in MESSAGES] or [OLD, NEW]
    dice = random.Random(5)
    for _ in range(2000):
        text = dice.choice(seeds)
        for _ in range(dice.randint(1, 6)):
            at = dice.randrange(len(text) + 1)
            text = text[:at] + dice.choice([*ALPHABET, ""]) + text[at + dice.choice([0, 0, 1, 9]) :]
        for found in scan(text):
            assert found.line >= 1
            if isinstance(found, OutOfMemory):
                assert all(v is None or isinstance(v, str) or v < 2**63 for v in found.figures.values())
        if first(text) is not None:
            assert len(read(text.encode())) >= 1


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data):
    if first(data.decode("utf-8", "replace")) is None:
        with pytest.raises(BadInput, match="no out-of-memory error"):
            read(data)
    else:
        assert len(read(data)) >= 1
