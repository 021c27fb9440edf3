import json

import jsonschema
import msgspec
import pytest

from forebay.finding import Finding, Site
from forebay.report.json import OUTPUTS, Report, encode, schema_of, shipped


def report():
    finding = Finding.of(
        "hidden-sync",
        "waited",
        severity="warning",
        certainty="possible",
        remedy="wait later",
        sites=[Site("a.py", 1, "f")],
        evidence={"wait_ns": 4},
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
    "broken", [{"schema": 2}, {"source": None}, {"findings": [{"name": "x"}]}, {"gauges": {"reserved": "4"}}]
)
def test_the_schema_refuses_what_is_broken(broken):
    output = json.loads(encode(report())) | broken
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(output, shipped("report"))
