"""Broken inputs of each reader, some hundred of the inputs that `python tests/fuzz.py READER` goes on with."""

import random

import pytest

import fuzz
from forebay.errors import BadInput


@pytest.mark.parametrize("name", fuzz.READERS)
def test_broken_inputs_are_read_soundly_or_refused_in_one_line(name):
    told = [fuzz.answer(name, 0, number) for number in range(60 if name in fuzz.SLOW else 300)]
    assert 0 < told.count("refused") < len(told)


# A kind's name with a line end in it, a settings string and a region with one; a row of work that claims to have the text of a
# definition; memory of which there is more than numbers go.
FOUND = [("recording", 0, 223), ("settings", 1, 91_455), ("contract", 1, 90_708), ("recording", 1, 81_991), ("histories", 1, 290)]


@pytest.mark.parametrize(("name", "seed", "number"), FOUND)
def test_inputs_that_broke_a_reader_once_are_refused_or_sound(name, seed, number):
    assert fuzz.answer(name, seed, number) in ("sound", "refused")


@pytest.mark.parametrize("name", fuzz.READERS)
def test_what_inputs_are_made_from_is_sound(name):
    originals, _, read = fuzz.READERS[name]
    refused = 0
    for data in originals():
        try:
            read(data)
        except BadInput:
            refused += 1
    assert (refused == 0) == (name != "log" or len(originals()) == 2)  # among the lines of logs are some that tell no failure


@pytest.mark.parametrize("change", [fuzz.mutated, fuzz.reworded])
def test_an_input_can_be_made_again(change):
    data = b"t0 s1 alloc A 1M @0\nt0 s1 free A\n"
    made = [change(data, random.Random(f"{seed}")) for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]
