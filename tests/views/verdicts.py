"""verdicts: what DESIGN statements 6 and 7 say of the pairs of touches of a small tape, atom by atom. The graph is oracle.py's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from forebay.tape import Kind, Tape
from views.oracle import Life, Row, Touch, clash, lives, rows_of, stands_for, touches, write

Found = dict[tuple[int, int, str], bool]  # (a, b, kind) -> whether it is certain


class Trial:
    """All that is asked of one tape. Only one address space is looked at: its programs use addresses that do not clash."""

    def __init__(self, tape: Tape) -> None:
        self.rows: list[Row] = rows_of(tape)
        self.apart, self.one = write(tape, self.rows, one=False), write(tape, self.rows, one=True)
        self.touches = list(touches(self.rows, self.apart, self.one))
        self.lives: list[Life] = lives(tape, self.rows)
        self.unmaps = [r for r in self.rows if r.kind is Kind.unmap]
        self.maps = [r for r in self.rows if r.kind is Kind.map]

    @cached_property
    def atoms(self) -> list[int]:
        """The first byte of every atom."""
        bounds = {x for t in self.touches for x in (t.lo, t.hi)} | {x for m in self.lives for x in (m.lo, m.hi)}
        return sorted(bounds | {x for u in self.unmaps for x in _span(u)})

    def found(self) -> Found:
        """Every pair that must be reported."""
        found: Found = {}
        for byte in self.atoms:
            for pair in Byte(self, byte).pairs():
                key = (pair.a, pair.b, pair.kind)
                found[key] = found.get(key, False) or pair.certain
        return found


@dataclass
class Pair:
    a: int
    b: int
    kind: str
    certain: bool


def _span(row: Row) -> tuple[int, int]:
    return row.values["address"], row.values["address"] + row.values["size"]


class Byte:
    """One byte's touches, in tape order."""

    def __init__(self, trial: Trial, byte: int) -> None:
        self.trial = trial
        self.touches = [t for t in trial.touches if t.lo <= byte < t.hi]
        self.lives = [m for m in trial.lives if m.lo <= byte < m.hi]
        self.unmaps = [u for u in trial.unmaps if _span(u)[0] <= byte < _span(u)[1]]
        self.maps = [u for u in trial.maps if _span(u)[0] <= byte < _span(u)[1]]

    def ordered(self, a: int, b: int) -> bool:
        return self.trial.apart.graph.ordered(a, b)

    def life_at(self, row: int) -> Life | None:
        """The block whose alloc was the last before a row, no unmapping in between."""
        last = max((m for m in self.lives if m.alloc < row), key=lambda m: m.alloc, default=None)
        return None if last is None or self.unmapped(last.alloc, row) else last

    def unmapped(self, after: int, before: int) -> bool:
        return any(after < u.index < before for u in self.unmaps)

    def shadowed(self, a: Touch, before: int) -> bool:
        """Statement 7: some c between them comes after a and stands for it."""
        return any(a.row < c.row < before and self.ordered(a.node, c.node) and stands_for(c, a) for c in self.touches)

    def retired(self, a: Touch, before: int) -> bool:
        """Statement 6: a trusted pool's alloc in between came after the release of what a used."""
        return any(m.trusted and a.row < m.alloc < before and self._over(a, m.alloc) for m in self.lives)

    def _over(self, a: Touch, alloc: int) -> bool:
        last = self.life_at(alloc)
        if last is None or last.free is None or last.free > alloc:
            return True
        return self.released(a)

    def released(self, a: Touch) -> bool:
        own = self.life_at(a.row)
        return (
            own is not None
            and own.free is not None
            and a.row < own.free
            and self.ordered(a.node, self.trial.apart.node[own.free])
        )

    def pairs(self) -> Iterator[Pair]:
        for b in self.touches:
            yield from self.accesses(b)
            yield from self.after_the_end(b)
            yield from self.before_the_alloc(b)
        for life in self.lives:
            yield from self.freed(life)
        for row in self.unmaps:
            yield from self.taken(row)

    def accesses(self, b: Touch) -> Iterator[Pair]:
        for a in self.touches:
            verdict = clash(a.mode, b.mode)
            if a.row >= b.row or verdict is None or self.ordered(a.node, b.node) or self.unmapped(a.row, b.row):
                continue
            if not self.shadowed(a, b.row) and not self.retired(a, b.row):
                hidden = bool(self.trial.apart.complete_before[b.row] >> a.node & 1)
                yield Pair(a.row, b.row, "access", verdict == "certain" and not hidden and not b.hull and self._sure(a, b.one))

    def _sure(self, a: Touch, b_one: int) -> bool:
        return not a.hull and not self.trial.one.graph.ordered(a.one, b_one)

    def after_the_end(self, b: Touch) -> Iterator[Pair]:
        life = self.life_at(b.row)
        if life is not None and life.free is not None and life.free < b.row:
            given = any(self.fits(m, life) and life.free < m.alloc < b.row for m in self.trial.lives)
            yield Pair(life.free, b.row, "free", given and not b.hull)
        last = max((u.index for u in self.unmaps if u.index < b.row), default=None)
        if last is not None and life is None and not any(last < m.index < b.row for m in self.maps):
            yield Pair(last, b.row, "unmap", not b.hull)

    def before_the_alloc(self, b: Touch) -> Iterator[Pair]:
        life = self.life_at(b.row)
        if life is None or (life.free is not None and life.free < b.row):
            return
        node = self.trial.apart.node[life.alloc]
        between = (c for c in self.touches if life.alloc < c.row < b.row and self.ordered(node, c.node))
        if not self.ordered(node, b.node) and not any(c.mode.name == "write" and not c.hull for c in between):
            yield Pair(life.alloc, b.row, "alloc", False)

    def fits(self, m: Life, freed: Life) -> bool:
        """Whether an alloc could have been given the bytes of a freed block."""
        return m.stream == freed.free_stream and m.pool == freed.pool and m.hi - m.lo <= freed.hi - freed.lo

    def freed(self, life: Life) -> Iterator[Pair]:
        if life.free is None or self.unmapped(life.alloc, life.free):
            return
        for a in self.touches:
            if not life.alloc < a.row < life.free or self.shadowed(a, life.free):
                continue
            if not self.ordered(a.node, self.trial.apart.node[life.free]):
                certain = self._sure(a, self.trial.one.node[life.free]) and self.given(a, life)
                yield Pair(a.row, life.free, "free", certain)

    def given(self, a: Touch, life: Life) -> bool:
        """Whether an alloc could have been given the bytes before the freeing stream came to know the use, all threads being one."""
        later = (m for m in self.trial.lives if life.free is not None and m.alloc > life.free and self.fits(m, life))
        return any(not self.trial.one.graph.ordered(a.one, self.trial.one.place[m.alloc]) for m in later)

    def taken(self, row: Row) -> Iterator[Pair]:
        for a in self.touches:
            if a.row > row.index or self.unmapped(a.row, row.index) or self.shadowed(a, row.index):
                continue
            if not self.ordered(a.node, self.trial.apart.node[row.index]):
                yield Pair(a.row, row.index, "unmap", self._sure(a, self.trial.one.node[row.index]))


def verdicts(tape: Tape) -> Found:
    """The pairs (a, b, kind) of a tape, and whether each is certain."""
    return Trial(tape).found()
