import json

import jsonschema
import pytest

from forebay import cli
from forebay._core.tape import Kind
from forebay.calls import CALLS
from forebay.contract import RULES
from forebay.demo.faults import FAULTS
from forebay.errors import BadInput
from forebay.gauges import GAUGES, LEDGER
from forebay.report.json import shipped
from forebay.report.terms import find, terms
from forebay.tape import COLUMNS
from forebay.tape.kinds import KINDS


def explain(capsys, *arguments):
    status = cli.run(["explain", *arguments])
    told = capsys.readouterr()
    return status, told.out, told.err


def test_every_kind_column_and_call_can_be_explained():
    known = {(term.group, term.name) for term in terms()}
    assert {("kind of row", kind.name) for kind in Kind} <= known
    assert {("column", name) for name in COLUMNS} <= known
    assert {("driver call", name) for name in CALLS} <= known
    assert {("gauge", gauge.name) for gauge in GAUGES} <= known
    assert len(known) == len(terms())
    assert all(term.text for term in terms())


def test_a_name_of_two_groups_is_explained_in_both():
    term = find("requested")
    assert term.group == "gauge, column"
    assert "As a gauge: what was asked for of the live blocks." in term.text
    assert "As a column: bytes that the program asked for." in term.text


def test_every_incident_that_a_rule_prevents_or_the_demo_plants_can_be_explained():
    for name in {rule.prevents for rule in RULES.values()} | {fault.incident for fault in FAULTS.values()}:
        assert find(name).text
    for fault in FAULTS.values():
        assert fault.rule is None or find(fault.rule).group.startswith("rule")
    assert (
        "`forebay check` finds it, by the rules unordered-free and unordered-access" in find("cross-stream-use-after-free").text
    )


def test_every_kind_has_a_meaning_of_its_own():
    assert list(KINDS) == list(Kind)
    assert len(set(KINDS.values())) == len(KINDS)


def test_a_call_is_explained_with_its_facts(capsys):
    status, out, _ = explain(capsys, "cudaFree_v3020")
    assert status == 0
    assert out.startswith("cudaFree (driver call)\n")
    facts = ["On a tape: release", "waits for the device", "global 900, thread_local 900, relaxed legal", "Memory Management"]
    for fact in facts:
        assert fact in out


def test_json_is_as_the_schema_says(capsys):
    status, out, _ = explain(capsys, "lend", "--format", "json")
    assert status == 0
    jsonschema.validate(json.loads(out), shipped("explain"))
    assert json.loads(out)["group"] == "kind of row"


@pytest.mark.parametrize(
    ("typo", "meant"),
    [("cudaFre", "cudaFree"), ("recalim", "reclaim"), ("CUDAMALLOC", "cudaMalloc"), ("PoolExausted", "PoolExhausted")],
)
def test_a_near_miss_names_what_was_meant(typo, meant):
    with pytest.raises(BadInput, match=rf"did you mean .*\b{meant}\b"):
        find(typo)


def test_what_is_nothing_like_a_term_is_pointed_to_the_list(capsys):
    status, out, err = explain(capsys, "qqqqqq")
    assert (status, out) == (2, "")
    assert err == "forebay: nothing here is called 'qqqqqq'; `forebay explain` alone lists the terms\n"


def test_without_a_name_every_term_is_listed(capsys):
    status, out, _ = explain(capsys)
    assert status == 0
    listed = {word for line in out.splitlines() for word in line.replace(",", " ").split()}
    assert [term.name for term in terms() if term.name not in listed] == []


def test_the_ledger_is_explained_with_its_five_lines(capsys):
    assert cli.run(["explain", "ledger"]) == 0
    out = capsys.readouterr().out
    assert [line.split(":")[0] for line in out.split("\n") if line.split(":")[0] in LEDGER] == list(LEDGER)
    assert "never as zero" in out
    assert cli.run(["explain", "pending"]) == 0
    assert "line of the ledger" in capsys.readouterr().out
