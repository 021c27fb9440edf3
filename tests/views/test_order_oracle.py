"""The engine against brute force over the written-out graph: exactly the same pairs, as certain.

FOREBAY_STRESS=1 runs the full count."""

import os

from forebay.tape import Tape
from forebay.tape.notation import parse
from forebay.views.order import find_races
from views.programs import random_program
from views.verdicts import Found, verdicts

PROGRAMS = 10_000 if os.environ.get("FOREBAY_STRESS") else 1_000


def engine(tape: Tape) -> Found:
    return {(race.a.row, race.b.row, race.kind): race.certain for race in find_races(tape)}


def test_the_engine_finds_exactly_the_pairs_that_brute_force_finds():
    kinds: dict[tuple[str, bool], int] = {}
    for seed in range(PROGRAMS):
        tape = parse(random_program(seed))
        expected = verdicts(tape)
        assert engine(tape) == expected, f"seed {seed}"
        for (_, _, kind), certain in expected.items():
            kinds[kind, certain] = kinds.get((kind, certain), 0) + 1
    assert {kind for kind, _ in kinds} == {"free", "access", "alloc", "unmap"}
    assert all(count >= PROGRAMS // 25 for count in kinds.values()), kinds
