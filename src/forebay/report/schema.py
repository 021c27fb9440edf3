"""schema: the JSON Schema of each output, made of its type and of what the evidence of each finding can hold. `make docs` writes them to
report/schemas/, which ships.

The types are json.py's, contract's and doctor's.
"""

from __future__ import annotations

from typing import Any

import msgspec

from forebay.contract import RULES
from forebay.doctor import INCIDENTS
from forebay.finding import Figures
from forebay.report.json import OUTPUTS

__all__ = ["evidence_of", "schema_of"]

_REF = "#/$defs/{name}"


def evidence_of() -> dict[str, type[Figures]]:
    """By the name of a rule or an incident what the evidence of its findings can hold."""
    return {rule.name: rule.figures for rule in RULES.values()} | {incident.name: incident.figures for incident in INCIDENTS}


def schema_of(name: str) -> dict[str, Any]:
    """The JSON Schema of an output. A finding's `evidence` is held against the schema of its name, and a name that neither a rule nor an
    incident has is refused. Raises KeyError for an output that OUTPUTS does not have."""
    (root,), definitions = msgspec.json.schema_components([OUTPUTS[name]], ref_template=_REF)
    if "Finding" in definitions:
        definitions |= _evidence()
        finding = definitions["Finding"]
        finding["properties"]["name"] = {"enum": sorted(evidence_of())}
        finding["allOf"] = [
            {
                "if": {"properties": {"name": {"const": named}}},
                "then": {"properties": {"evidence": {"$ref": _REF.format(name=_definition(named))}}},
            }
            for named in sorted(evidence_of())
        ]
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"forebay {name}",
        **root,
        "$defs": definitions,
    }
    as_json: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema))  # defaults that are tuples are lists there
    return as_json


def _definition(name: str) -> str:
    return f"evidence.{name}"


def _evidence() -> dict[str, Any]:
    """The definition of each name's evidence, and of what those are made of."""
    found: dict[str, Any] = {}
    for name, figures in evidence_of().items():
        (root,), definitions = msgspec.json.schema_components([figures], ref_template=_REF)
        own = definitions.pop(root["$ref"].rpartition("/")[2])
        found |= definitions | {_definition(name): {**own, "title": f"evidence of {name}"}}
    return found
