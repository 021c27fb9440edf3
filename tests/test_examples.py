"""The histories that ship with the package."""

import pytest

from forebay.errors import BadInput
from forebay.examples import EXAMPLES
from forebay.sources import open_artifact
from forebay.tape import Kind, Sees


@pytest.mark.parametrize(("name", "events", "ooms"), [("day3-oom", 290, 1), ("healthy", 6854, 0), ("mixed", 13364, 1)])
def test_every_example_is_a_whole_sound_history(name, events, ooms):
    tape = open_artifact(f"example:{name}")
    assert tape.provenance["events"] == [events]
    assert tape.provenance["exact"]
    assert Sees.BEGINNING in tape.sees
    assert len(tape.where(Kind.oom)) == ooms
    assert name in EXAMPLES


def test_an_unknown_example_names_the_known_ones():
    with pytest.raises(BadInput, match="there are day3-oom, healthy, mixed"):
        open_artifact("example:nothing")
