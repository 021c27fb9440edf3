"""The contract as a file: what is read, and that every error points into it."""

from datetime import date

import pytest

from forebay.contract import check, read_contract
from forebay.errors import BadInput
from forebay.tape import parse

RACE = "t0 s1 launch k1 w:@0+512 at engine/a.py:1 emit\nt0 s2 launch k2 r:@0+512 at engine/b.py:2 f"
ALLOW = '[[allow]]\nrule = "unordered-access"\nwhere = "{}"\nreason = "known"\nexpires = 2027-03-01\n'


def read(tmp_path, text, name="forebay.toml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_contract(path)


def test_a_contract_is_read_from_either_file(tmp_path):
    order = '[{}order]\nbefore = ["copy.h2d -> compute.attention in decode"]\n[{}regions.decode]\nmatch = ["dec*"]\n'
    own = read(tmp_path, order.format("", ""))
    assert own == read(tmp_path, order.format("tool.forebay.", "tool.forebay."), "pyproject.toml")
    assert [str(entry) for entry in own.order] == ["copy.h2d -> compute.attention in decode"]
    assert (own.regions, own.names) == ({"decode": ("dec*",)}, {"order"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[order", "not TOML: "),
        ("\n[ordr]\n", ":2: ordr: no such key; did you mean order?"),
        ('[order]\nbefor = ["a.b -> c.d"]', ":2: order.befor: no such key; did you mean before?"),
        ('[order]\nbefore = "a.b"', ":2: order.before: is text, not a list"),
        ("[order]\nbefore = [3]", ":2: order.before[0]: is a number; write text in quotes"),
        ('[order]\nbefore = ["a.b c.d"]', ":2: order.before[0]: column 8: no `->` between two names"),
        ('[order]\n# a.b\nbefore = ["a.b -> cd"]', ":3: order.before[0]: column 8: 'cd' is not STREAM.WORK"),
        ('[order]\noverlap = ["a.b | c.d | e.f"]', ":2: order.overlap[0]: column 11: a second `|`"),
        ('[order]\nbefore = ["a.b -> c.d in step"]', ":2: order.before: no [regions.step] in the contract"),
        ("[pools.kv]\nlimit = 3", ":1: pools: limits of pools are not judged by this version"),
        ("[regions.d.budget]\nhidden-sync = 1", ":1: regions.d.budget: budgets are not judged by this version"),
        (
            '[[allow]]\nrule = "unordered-acces"\nwhere = "a"\nreason = "b"',
            ":2: allow[0].rule: no rule is called unordered-acces; did",
        ),
        ('[[allow]]\nrule = "order"\nwhere = "a"', ":1: allow[0]: has no reason"),
        (ALLOW.format("a").replace("2027-03-01", '"soon"'), ":5: allow[0].expires: is not a date"),
    ],
)
def test_an_error_names_the_line_and_the_key(tmp_path, text, said):
    with pytest.raises(BadInput) as error:
        read(tmp_path, text)
    assert str(error.value).startswith(f"{tmp_path / 'forebay.toml'}:")
    assert said in str(error.value)


@pytest.mark.parametrize("where", ["engine/a.py:emit", "a.py:*", "*/b.py:f", "b.py:f"])
def test_what_is_allowed_is_silent_up_to_its_date(tmp_path, where):
    contract, tape = read(tmp_path, ALLOW.format(where)), parse(RACE)
    assert check(tape, contract, date(2027, 3, 1)).findings == []
    (finding,) = check(tape, contract, date(2027, 3, 2)).findings
    assert finding.message.endswith("(allowed until 2027-03-01, which is over: known)")


def test_an_allowance_for_another_place_hides_nothing(tmp_path):
    assert len(check(parse(RACE), read(tmp_path, ALLOW.format("c.py:f")), date(2027, 1, 1)).findings) == 1
