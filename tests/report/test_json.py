import json

import jsonschema
import msgspec
import pytest

from forebay.contract import RULES
from forebay.doctor import INCIDENTS
from forebay.finding import Finding, Site
from forebay.report.json import OUTPUTS, Report, encode, shipped
from forebay.report.schema import evidence_of, schema_of


def report():
    finding = Finding.of(
        "needless-edge",
        "orders nothing",
        severity="warning",
        certainty="certain",
        remedy="remove it",
        sites=[Site("a.py", 1, "f")],
        evidence=evidence_of()["needless-edge"](rows=2, orderings=3, times=1),
    )
    return Report(source={"file": "a.pickle"}, findings=[finding], gauges={"reserved": 4, "largest_free": None})


@pytest.mark.parametrize("name", sorted(OUTPUTS))
def test_the_shipped_schema_is_what_the_type_says(name):
    assert shipped(name) == schema_of(name), "run `make docs`"


@pytest.mark.parametrize("name", sorted(OUTPUTS))
def test_a_schema_is_a_schema(name):
    assert jsonschema.Draft202012Validator.check_schema(shipped(name)) is None  # raises where it is not one


def test_an_output_is_valid_and_comes_back():
    text = encode(report())
    jsonschema.validate(json.loads(text), shipped("report"))
    assert msgspec.json.decode(text, type=Report) == report()


@pytest.mark.parametrize(
    ("name", "evidence"),
    [
        ("needless-edge", {"rows": 2}),  # one figure lacks
        ("needless-edge", {"rows": -2, "orderings": 3}),
        ("needless-edge", {"rows": 2, "orderings": 3, "request_bytes": 1}),  # another's
        ("capacity-oom", {"request_bytes": "many"}),
        ("capacity-oom", {"remedies": [{"name": "none"}]}),
        ("no-such-incident", {}),
    ],
)
def test_evidence_that_its_name_does_not_have_is_refused(name, evidence):
    output = json.loads(encode(report()))
    output["findings"][0] |= {"name": name, "evidence": evidence}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(output, shipped("report"))


def test_every_rule_and_incident_has_a_schema_of_its_evidence_that_says_what_it_is():
    definitions = shipped("doctor")["$defs"]
    assert len(evidence_of()) == len(RULES) + len(INCIDENTS)
    for name in evidence_of():
        assert definitions[f"evidence.{name}"]["description"]
        assert definitions[f"evidence.{name}"]["additionalProperties"] is False


@pytest.mark.parametrize(
    "broken", [{"schema": 2}, {"source": None}, {"findings": [{"name": "x"}]}, {"gauges": {"reserved": "4"}}]
)
def test_the_schema_refuses_what_is_broken(broken):
    output = json.loads(encode(report())) | broken
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(output, shipped("report"))
