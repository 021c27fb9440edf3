"""terms: everything that has a name in forebay's output, and what it means: for `forebay explain` and the pages in docs/reference/.

The meanings stand where the things are defined; here they are only gathered.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass

from forebay import errors
from forebay.calls import CALLS, Call, Law, lookup, stem
from forebay.contract import RULES
from forebay.doctor import INCIDENTS
from forebay.errors import BadInput
from forebay.gauges import GAUGES, LEDGER, LEDGER_PAGE, fragmentation, utilisation
from forebay.tape import COLUMNS, Sees, fills
from forebay.tape.kinds import KINDS

__all__ = ["Term", "find", "terms"]


@dataclass(frozen=True, slots=True)
class Term:
    """A name, the group that it is of, and its meaning in plain text (paragraphs with an empty line between)."""

    name: str
    group: str
    text: str


def _kinds() -> Iterator[Term]:
    for kind, meaning in KINDS.items():
        yield Term(kind.name, "kind of row", f"{meaning}.\n\nColumns it can fill: {', '.join(fills(kind))}.")


def _rules() -> Iterator[Term]:
    for rule in RULES.values():
        needs = ", ".join(sorted(rule.needs))
        yield Term(
            rule.name, "rule", f"{inspect.cleandoc(rule.page)}\n\nPrevents: {rule.prevents}. Needs a tape that sees {needs}."
        )


def _columns() -> Iterator[Term]:
    for name, column in COLUMNS.items():
        yield Term(name, "column", f"{column.holds}.\n\nType {column.dtype.name}, group {column.group}.")


def _errors() -> Iterator[Term]:
    for name, thing in vars(errors).items():
        if inspect.isclass(thing) and issubclass(thing, errors.ForebayError):
            yield Term(name, "error", inspect.getdoc(thing) or "")


def _modes(law: Law) -> str:
    own = {mode: law.code(mode) for mode in ("global", "thread_local", "relaxed")}
    if not any(own.values()):
        return "legal in every mode"
    return ", ".join(f"{mode} {code or 'legal'}" for mode, code in own.items()) + (
        "; the capture goes on" if law.spares else "; the capture is lost"
    )


def _call_text(call: Call) -> str:
    laws = {"In a capture": call.inside, "Beside a capture": call.beside}
    if call.inside == call.beside:
        laws = {"During a capture": call.inside}
    lines = [
        f"On a tape: {call.kind.name if call.kind is not None else 'no row'}.",
        f"Stream: {call.place.value}" + (f" (argument `{call.stream}`)." if call.stream else "."),
        f"The host waits for {call.waits.value}" + (f", {call.when.value}" if call.blocks else "") + ".",
        *(f"{where} ({law.name}): it {law.why}; {_modes(law)}." for where, law in laws.items()),
        f"{call.note[:1].upper()}{call.note[1:]}." if call.note else "",
        f"Source: {call.source}." + ("" if call.certain else " Not settled by the documentation, and not measured."),
    ]
    return "\n\n".join(line for line in lines if line)


def _calls() -> Iterator[Term]:
    for call in CALLS.values():
        yield Term(call.name, "driver call", _call_text(call))


def _incidents() -> Iterator[Term]:
    judged = {incident.name for incident in INCIDENTS}
    for incident in INCIDENTS:
        yield Term(incident.name, "incident", incident.page)
    for name in dict.fromkeys(rule.prevents for rule in RULES.values()):
        if name not in judged and name not in RULES:
            rules = [rule for rule in RULES.values() if rule.prevents == name]
            named = ("rule " if len(rules) == 1 else "rules ") + " and ".join(rule.name for rule in rules)
            lead = (
                f"An incident of order: `forebay check` finds it, by the {named}; `forebay doctor` judges memory, and not this."
            )
            yield Term(name, "incident", "\n\n".join([lead, *(inspect.cleandoc(rule.page) for rule in rules)]))


def _sees() -> Iterator[Term]:
    for thing in Sees:
        yield Term(
            thing.value,
            "thing that a source sees",
            f"A tape that lists `{thing.value}` shows it; one that does not is blind to it.",
        )


def _gauges() -> Iterator[Term]:
    for gauge in GAUGES:
        derived = f" It is {gauge.derived}." if gauge.derived else ""
        yield Term(gauge.name, "gauge", f"{gauge.meaning}.{derived}\n\nUnit: {gauge.unit}.")
    for ratio in (utilisation, fragmentation):
        meaning = (inspect.getdoc(ratio) or "").partition(">>>")[0].strip()
        yield Term(ratio.__name__, "gauge", f"{meaning}\n\nUnit: a share, 0 to 1.")


def _ledger() -> Iterator[Term]:
    yield Term("ledger", "account", LEDGER_PAGE)
    for name, meaning in LEDGER.items():
        yield Term(
            name,
            "line of the ledger",
            f"{meaning[:1].upper()}{meaning[1:]}.\n\nUnit: bytes; not known where the source does not tell.",
        )


def terms() -> list[Term]:
    """Every term, group by group. A name may stand in several groups."""
    return [*_rules(), *_gauges(), *_ledger(), *_incidents(), *_kinds(), *_columns(), *_sees(), *_errors(), *_calls()]


def find(name: str) -> Term:
    """What this name means in every group that has it; entry points of calls count as their call.

    Raises BadInput with the nearest names that there are.
    """
    known = terms()
    found = [term for term in known if term.name in (name, lookup(name) and stem(name))]
    if not found:
        raise BadInput(f"nothing here is called {name!r}; {_hint(name, known)}")
    if len(found) == 1:
        return found[0]
    return Term(found[0].name, ", ".join(t.group for t in found), "\n\n".join(f"As a {t.group}: {t.text}" for t in found))


def _hint(name: str, known: list[Term]) -> str:
    folded = {term.name.casefold(): term.name for term in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.6)
    return f"did you mean {', '.join(folded[other] for other in near)}?" if near else "`forebay explain` alone lists the terms"
