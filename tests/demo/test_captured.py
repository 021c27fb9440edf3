"""The decode step as graphs: the same tokens, by the same arithmetic, in fewer calls; each way to break the capture is refused by name."""

import numpy as np
import pytest

from forebay.contract import check
from forebay.demo import capture_faults, kernels
from forebay.demo.captured import BUCKETS, CapturedEngine
from forebay.demo.engine import Engine
from forebay.demo.faults import FAULTS, REFUSAL, noticed
from forebay.demo.model import seeded
from forebay.demo.server import SLOTS, serve
from forebay.runtime import Schedule, recording
from forebay.tape import Kind
from forebay.views.needed import Edges

FIFO = Schedule()


@pytest.fixture(scope="module")
def recorded():
    with recording() as run:
        served = serve(1, requests=12, schedule=FIFO)
    return served, run.tape


def test_a_bucket_holds_every_batch():
    assert BUCKETS[-1] == SLOTS
    assert list(BUCKETS) == sorted(set(BUCKETS))


@pytest.mark.parametrize("seed", [1, 2])
def test_both_engines_serve_the_references_tokens_and_a_captured_step_costs_the_host_less_than_half(seed):
    captured, launched = (serve(seed, requests=12, engine=engine, schedule=FIFO) for engine in (CapturedEngine, Engine))
    assert captured.tokens == launched.tokens == captured.expected
    assert captured.decode_ns < launched.decode_ns / 2
    assert captured.tokens_per_s > 1.2 * launched.tokens_per_s


def test_a_decode_step_is_one_launch_of_a_graph_and_one_of_the_sampling(recorded):
    _, tape = recorded
    kinds, names = tape.columns["kind"], np.array(tape.sides.strings)[tape.columns["name"]]
    begins = tape.where(Kind.region_begin)[names[tape.where(Kind.region_begin)] == "decode"]
    ends = tape.where(Kind.region_end)[names[tape.where(Kind.region_end)] == "decode"]
    assert len(begins) > 10
    for begin, end in zip(begins, ends, strict=True):
        inside = kinds[begin:end].tolist()
        assert inside.count(Kind.graph_launch) == 1
        assert names[begin:end][kinds[begin:end] == Kind.launch].tolist() == ["sample"]


def test_every_capture_is_over_before_the_first_request(recorded):
    _, tape = recorded
    assert len(tape.where(Kind.capture_begin)) == len(tape.where(Kind.graph_instantiate)) == len(BUCKETS)
    assert max(tape.where(Kind.graph_instantiate)) < min(tape.where(Kind.region_begin))


def test_no_rule_is_broken_and_every_edge_is_needed_or_idle(recorded):
    served, tape = recorded
    assert (served.wrong, served.steady_calls, served.refused) == ([], {}, None)
    assert check(tape).findings == []
    verdicts = {edge.verdict for edge in Edges(tape).all if not edge.pool_made}
    assert "needed" in verdicts
    assert "needless" not in verdicts


def test_the_launches_say_which_pages_they_touch(recorded):
    """By hand: a decode step reads a page of every 16 tokens of each request, and writes a cell of 2 x 32 int32 in each of two layers."""
    _, tape = recorded
    uses, rows = tape.uses, tape.where(Kind.graph_launch)
    sizes = [sorted(uses.size[uses.offsets[row] : uses.offsets[row + 1]].tolist()) for row in rows]
    assert all(len(step) >= 3 for step in sizes)
    assert all(step.count(2 * 32 * 4) >= 2 for step in sizes)
    assert max(max(step) for step in sizes) == 16 * 2 * 2 * 32 * 4


# ---- the kernels, without a device


def test_a_padded_step_computes_what_the_plain_kernels_do_and_leaves_padding_at_nought():
    weights, tokens = seeded(5), 4
    rng = np.random.default_rng(1)
    pages = rng.integers(-200, 200, (6, tokens, 2, 2, 32), dtype=np.int32)
    inputs = np.zeros((4, kernels.TABLE + 3), np.int64)
    inputs[0] = [5, 2, 3, 1, 0]  # place 5: pages 3 and 1
    inputs[1] = [9, 0, 5, 2, 4]
    last = np.array([7, 0, 11], np.int64)
    x, query, mixed = (np.full((4, 32), 99, np.int64) for _ in range(3))
    kernels.embed_step(inputs, weights.embed, weights.place, last, x)
    assert x.tolist() == [
        (weights.embed[11] + weights.place[5]).tolist(),
        (weights.embed[7] + weights.place[9]).tolist(),
        [0] * 32,
        [0] * 32,
    ]
    layer, plain = weights.layers[1], pages.copy()
    kernels.project_step(1, inputs, x, layer.wq, layer.wk, layer.wv, query, pages)
    expected, cells = np.zeros((2, 32), np.int64), [plain[1, 1, 1], plain[4, 1, 1]]
    kernels.project(x[:2], layer.wq, layer.wk, layer.wv, expected, *cells)
    assert (pages == plain).all()
    assert (query[:2] == expected).all()
    kernels.attend_step(1, 4, inputs, query, mixed, pages)
    alone = np.zeros((2, 32), np.int64)
    kernels.attend(kernels.Rows((5, 9), ((0, 1), (2, 3, 4))), 1, 4, expected, *plain[[3, 1, 5, 2, 4]], alone)
    assert (mixed[:2] == alone).all()
    assert not mixed[2:].any()


# ---- captures that are refused

BROKEN = {
    "capture-sync": ("Stream.synchronize of Stream('compute', device 0) at ", "self.compute.synchronize()", "asks about work"),
    "capture-outside-wait": (
        "Stream.wait of Stream('compute', device 0) for Event(",
        "self.compute.wait(self.uploaded)",
        "outside the capture",
    ),
    "capture-other-thread": ("Device.host_alloc at ", "self.device.host_alloc(", "might wait for the device"),
    "capture-query": ("Event.ready of Event(", "record(self.scored).ready()", "whose record the capture holds back"),
    "capture-wrong-stream": ("the capture of `decode.4` (", "self.sample.memset(", "is empty: nothing was issued"),
}


def line_of(text):
    """The one line of capture_faults.py that holds the text."""
    with open(capture_faults.__file__) as file:
        (line,) = [number for number, line in enumerate(file, 1) if text in line]
    return f"{capture_faults.__file__}:{line}"


@pytest.mark.parametrize("name", BROKEN)
def test_the_first_call_that_a_capture_forbids_is_named_with_its_line_and_the_tokens_are_right(name):
    begins, planted, why = BROKEN[name]
    served = serve(1, requests=4, engine=FAULTS[name].engine)
    assert served.wrong == []
    assert noticed(served) == [REFUSAL]
    assert served.refused.startswith(begins)
    assert line_of(planted) in served.refused
    assert why in served.refused
    if name == "capture-other-thread":
        assert "on thread loader would break the capture of `decode." in served.refused


def test_memory_that_runs_out_in_a_capture_is_told_as_that():
    """Report E5: not as a capture that was invalidated."""
    served = serve(1, requests=4, engine=FAULTS["capture-oom"].engine)
    assert served.wrong == []
    assert served.refused.startswith("pool graph decode.4: asked 128 MiB on stream ")
    assert "the device is full" in served.refused


def test_a_replay_over_a_block_that_was_given_back_is_refused_before_it_runs():
    served = serve(1, requests=4, engine=FAULTS["stale-graph-pointer"].engine)
    assert served.wrong == []
    assert "Graph('decode.4', captured at " in served.refused
    assert f"was given back at {line_of('old.buffer.free()')}" in served.refused


def test_each_capture_fault_is_in_the_table():
    assert {name for name, fault in FAULTS.items() if fault.caught_by == REFUSAL} == {
        *BROKEN,
        "capture-oom",
        "stale-graph-pointer",
    }
