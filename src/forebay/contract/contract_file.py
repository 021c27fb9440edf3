"""contract_file: the contract as it is written: `forebay.toml`, or `[tool.forebay]` of a pyproject. What its parts mean for a run is the
rules'; what an entry of `[order]` says is order_spec's.

Only what this version judges is accepted: a promise that nobody checks would read as kept.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Final, NoReturn

from forebay.contract.order_spec import Entry, Intent, read_entry
from forebay.errors import BadInput

__all__ = ["Allow", "Contract", "read_contract"]

_LATER: Final = {
    "pools": "limits of pools are not judged by this version: take the table out",
    "budget": "budgets are not judged by this version: take the table out",
    "source": "source is not read by this version: take the key out",
    "warmup": "warm-up is not told apart by this version: take the key out",
}


@dataclass(frozen=True, slots=True)
class Allow:
    """Findings of a rule that are known and borne: at sites whose `file:function` the glob matches, up to and with a date."""

    rule: str
    where: str
    reason: str
    expires: date | None = None


@dataclass(frozen=True, slots=True)
class Contract:
    """What a program promises. `regions`: the globs of each region's names. Without anything: what holds anywhere."""

    order: tuple[Entry, ...] = ()
    regions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    allows: tuple[Allow, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The rules that it asks for by name: each of them has to be able to see."""
        return frozenset({"order"} if self.order else ())


def read_contract(path: Path | str, rules: Collection[str]) -> Contract:
    """The contract of a TOML file; `rules` are those there are. Raises BadInput, one line with the file, the line where there is one, and
    the key."""
    try:
        text = Path(path).read_bytes().decode()
        document = tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: {_why_unread(error)}") from None
    reader = _Reader(str(path), text, frozenset(rules))
    if Path(path).name != "pyproject.toml":
        return reader.contract(document, "")
    table = reader.table(reader.table(document, "").get("tool", {}), "tool").get("forebay")
    if table is None:
        raise BadInput(f"{path}: no [tool.forebay] in it; write one, or name a forebay.toml")
    return reader.contract(table, "tool.forebay.")


def _why_unread(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return f"cannot be read ({error.strerror or error})"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start}: not UTF-8, as TOML must be"
    return f"not TOML: {error}"


class _Reader:
    """Reads the tables of one file; `key` is always the whole path of a key, as errors name it."""

    def __init__(self, path: str, text: str, rules: frozenset[str]) -> None:
        self._path, self._lines, self._rules = path, text.splitlines(), rules

    def contract(self, document: object, under: str) -> Contract:
        known = self._keys(document, under, {"order", "regions", "allow"})
        regions = self.table(known.get("regions", {}), f"{under}regions")
        contract = Contract(
            tuple(self._order(known.get("order", {}), f"{under}order")),
            {name: self._region(name, region, f"{under}regions.{name}") for name, region in regions.items()},
            tuple(
                self._allow(a, f"{under}allow[{i}]") for i, a in enumerate(self._list(known.get("allow", []), f"{under}allow"))
            ),
        )
        for entry in contract.order:
            if entry.region is not None and entry.region not in contract.regions:
                self.refuse(f"{under}order.{entry.intent}", f"no [regions.{entry.region}] in the contract", entry.region)
        return contract

    def table(self, value: object, key: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.refuse(key, f"is {_called(value)}, not a table")
        return value

    def refuse(self, key: str, what: str, sought: str | None = None) -> NoReturn:
        line = self._line(sought if sought is not None else re.sub(r"\[\d+\]$", "", key).rpartition(".")[2])
        raise BadInput(f"{self._path}{f':{line}' if line else ''}: {key}: {what}")

    def _line(self, sought: str) -> int | None:
        """The first line that has the words, comments apart; None where a key is written in some other way."""
        whole = re.compile(rf"(?<![\w-]){re.escape(sought)}(?![\w-])")
        hits = (i for i, line in enumerate(self._lines, 1) if not line.lstrip().startswith("#") and whole.search(line))
        return next(hits, None)

    def _keys(self, value: object, under: str, allowed: set[str]) -> dict[str, Any]:
        table = self.table(value, under.rstrip("."))
        for name in table:
            if name in allowed:
                continue
            close = difflib.get_close_matches(name, allowed, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(allowed))}"
            self.refuse(f"{under}{name}", _LATER.get(name) or f"no such key; {hint}")
        return table

    def _list(self, value: object, key: str) -> list[Any]:
        if not isinstance(value, list):
            self.refuse(key, f"is {_called(value)}, not a list")
        return value

    def _text(self, value: object, key: str) -> str:
        if not isinstance(value, str) or not value.strip():
            self.refuse(key, f"is {_called(value)}; write text in quotes")
        return value

    def _order(self, value: object, under: str) -> list[Entry]:
        table = self._keys(value, f"{under}.", {"before", "overlap"})
        intents: tuple[Intent, ...] = ("before", "overlap")
        return [
            self._entry(intent, text, f"{under}.{intent}[{i}]")
            for intent in intents
            for i, text in enumerate(self._list(table.get(intent, []), f"{under}.{intent}"))
        ]

    def _entry(self, intent: Intent, value: object, key: str) -> Entry:
        text = self._text(value, key)
        try:
            return read_entry(intent, text)
        except BadInput as error:
            line = next((i for i, line in enumerate(self._lines, 1) if text in line), None)
            raise BadInput(f"{self._path}{f':{line}' if line else ''}: {key}: {error}") from None

    def _region(self, name: str, value: object, key: str) -> tuple[str, ...]:
        table = self._keys(value, f"{key}.", {"match"})
        match = self._list(table.get("match", [name]), f"{key}.match")
        return tuple(self._text(glob, f"{key}.match[{i}]") for i, glob in enumerate(match))

    def _allow(self, value: object, key: str) -> Allow:
        table = self._keys(value, f"{key}.", {"rule", "where", "reason", "expires"})
        for needed in ("rule", "where", "reason"):
            if needed not in table:
                self.refuse(key, f"has no {needed}; an [[allow]] says rule, where (file:function) and reason")
        rule, where, reason = (self._text(table[name], f"{key}.{name}") for name in ("rule", "where", "reason"))
        if rule not in self._rules:
            close = difflib.get_close_matches(rule, self._rules, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(self._rules))}"
            self.refuse(f"{key}.rule", f"no rule is called {rule}; {hint}", rule)
        expires = table.get("expires")
        if expires is not None and type(expires) is not date:
            self.refuse(f"{key}.expires", "is not a date; write expires = 2027-03-01, without quotes")
        return Allow(rule, where, reason, expires)


def _called(value: object) -> str:
    return {dict: "a table", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}.get(
        type(value), "a date or time"
    ) + ("" if value != "" else " of nothing")
