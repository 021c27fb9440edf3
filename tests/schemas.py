"""schemas: what a test's findings and outputs are held against while it runs: the JSON Schemas that ship."""

import json
from functools import cache

import jsonschema
import pytest

from forebay.cli import formats
from forebay.doctor import remedies
from forebay.finding import Finding
from forebay.report.json import OUTPUTS, encode, shipped

NAMES = {output: name for name, output in OUTPUTS.items()}
_of = Finding.of
_priced = remedies._priced


@cache
def validator(name):
    return jsonschema.Draft202012Validator(shipped(name))


def valid_finding(finding):
    """The finding, as it would stand in a report."""
    output = json.loads(encode(OUTPUTS["report"](source={}, findings=[finding])))
    validator("report").validate(output)
    return finding


def valid_text(output):
    """The output as JSON, held against the schema of its type."""
    text = encode(output)
    validator(NAMES[type(output)]).validate(json.loads(text))
    return text


@pytest.fixture(autouse=True)
def held_to_schemas(monkeypatch):
    """Every finding that is made, every one whose remedies are priced, and every output that a command prints."""
    monkeypatch.setattr(Finding, "of", lambda *given, **named: valid_finding(_of(*given, **named)))
    monkeypatch.setattr(remedies, "_priced", lambda *given: valid_finding(_priced(*given)))
    monkeypatch.setattr(formats, "encode", valid_text)
