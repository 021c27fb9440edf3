"""drawings: the verdict on a tape as short lines, for tests that are a drawing and a sentence."""

from forebay.tape.notation import parse
from forebay.views.order import Place, find_races


def found(text: str) -> list[str]:
    """One line a race: how sure, its kind, and its two rows by name, or else by kind."""
    return [
        f"{'certain' if race.certain else 'possible'} {race.kind}: {_short(race.a)} {_short(race.b)}"
        for race in find_races(parse(text))
    ]


def _short(place: Place) -> str:
    return place.name or place.kind.name
