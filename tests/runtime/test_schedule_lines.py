"""A schedule is a line and a line a schedule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.errors import BadInput
from forebay.runtime import Schedule, SimDevice
from forebay.runtime.schedule import WorkName

NAMES = st.builds(WorkName, st.text(min_size=1, alphabet=st.characters(exclude_categories=["Cs"])), st.integers(0, 2**63))


@given(st.one_of(st.builds(Schedule, seed=st.integers(0, 2**64 - 1)), st.builds(Schedule, held=st.lists(NAMES).map(tuple))))
def test_what_is_written_reads_back(schedule):
    assert Schedule.parse(str(schedule)) == schedule


@pytest.mark.parametrize("text", ["", "lifo", "fifo 3", "seed", "seed x", "seed -1", "hold", "hold a", "hold #1", "hold a#1,"])
def test_what_is_no_schedule_is_one_line(text):
    with pytest.raises(BadInput, match=r"^no such schedule: .*; write `fifo`, `seed 7`, or `hold NAME#N, NAME#N`$"):
        SimDevice(schedule=text)


def test_a_seed_beside_a_schedule_is_refused():
    with pytest.raises(BadInput, match="give one of them"):
        SimDevice(seed=3, schedule="fifo")
