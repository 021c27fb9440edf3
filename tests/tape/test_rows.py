"""Rows in memory: picking, folding, and what is not sound."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.errors import BadInput
from forebay.tape import Kind, Tape, Uses, parse
from forebay.tape.defines import join
from tape.arbitrary import story, tapes


@settings(max_examples=100, deadline=None)
@given(tape=tapes(), data=st.data())
def test_picked_rows_are_the_rows(tape, data):
    rows = data.draw(st.lists(st.integers(0, len(tape) - 1), max_size=6)) if len(tape) else []
    picked = tape.take(np.array(rows, int))
    each = [tape[row : row + 1] for row in rows]
    assert story(picked)["columns"] == (story(join(each))["columns"] if each else {name: [] for name in tape.columns})
    assert picked.picked.tolist() == [tape.first + row for row in rows]
    if each and tape.uses is not None:
        assert story(picked)["uses"] == story(join(each))["uses"]


def test_a_column_is_gathered_when_it_is_asked_for():
    asked = []

    class Watched(dict):
        def __getitem__(self, name):
            asked.append(name)
            return super().__getitem__(name)

    tape = parse("t0 s1 alloc A 1M @0\nt0 s1 free A")
    columns = Watched(tape.columns)
    picked = Tape(columns).take(np.array([1]))
    asked.clear()
    assert picked.columns["size"].tolist() == [2**20]
    assert picked.columns["size"] is picked.columns["size"]
    assert asked == ["size"]


def test_a_fold_over_chunks_is_the_fold_over_the_tape():
    tape = parse("\n".join(f"t0 s1 alloc A{i} {i + 1} @{i}K" for i in range(100)))
    assert [chunk.first for chunk in tape.chunks(33)] == [0, 33, 66, 99]
    assert tape.fold(lambda total, chunk: total + int(chunk.columns["size"].sum()), 0, rows=7) == 5050


def test_slices_are_views():
    tape = parse("t0 s1 alloc A 1M @0\nt0 s1 launch k r:A w:A\nt0 s1 launch k r:A")
    cut = tape[1:]
    assert np.shares_memory(cut.columns["kind"], tape.columns["kind"])
    assert (cut.first, cut.uses.offsets.tolist()) == (1, [0, 2, 3])
    assert cut.where(Kind.launch).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("tape", "said"),
    [
        (Tape({"kind": np.array([250], "u1")}), "row 0: kind 250 is no kind"),
        (Tape({"kind": np.array([Kind.free], "u1"), "stream": np.array([2], "u4")}), "row 0: stream 2 is not in a table of 0"),
        (
            Tape({"kind": np.zeros(1, "u1")}, uses=Uses(*[np.array([0, 9], "u8")] * 3, *[np.zeros(2, "u1")] * 3)),
            "uses: 2 offsets",
        ),
        (
            Tape({"kind": np.zeros(1, "u1")}, uses=Uses(*[np.array([0, 1], "u8")] * 3, *[np.array([7], "u1")] * 3)),
            "uses: mode 7 is none",
        ),
    ],
)
def test_what_is_not_sound_is_named(tape, said):
    with pytest.raises(BadInput, match=said):
        tape.check()
