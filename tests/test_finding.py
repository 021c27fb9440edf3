import msgspec
import pytest

from forebay.finding import Finding, Site, fingerprint

KEYS = ["name", "severity", "certainty", "message", "evidence", "events", "sites", "remedy", "prevents", "fingerprint", "docs"]


def hidden_sync(line=12, wait_ns=5, about=("decode",)):
    return Finding.of(
        "hidden-sync",
        f"waited {wait_ns} ns",
        severity="error",
        certainty="certain",
        remedy="read the value a step later",
        about=about,
        evidence={"wait_ns": wait_ns},
        events=[3],
        sites=[Site("engine/step.py", line, "step")],
    )


def test_a_finding_has_the_keys_of_the_json_in_their_order():
    assert list(msgspec.to_builtins(hidden_sync())) == KEYS


def test_a_fingerprint_outlives_figures_rows_and_line_numbers():
    assert hidden_sync(line=12, wait_ns=5).fingerprint == hidden_sync(line=90, wait_ns=7).fingerprint


@pytest.mark.parametrize(
    "other",
    [
        fingerprint("device-sync", ["decode"], [Site("engine/step.py", 1, "step")]),
        fingerprint("hidden-sync", ["prefill"], [Site("engine/step.py", 1, "step")]),
        fingerprint("hidden-sync", ["decode"], [Site("engine/other.py", 1, "step")]),
        fingerprint("hidden-sync", ["decode"], [Site("engine/step.py", 1, "other")]),
        fingerprint("hidden-sync", ["decode"], []),
        fingerprint("hidden-sync", ["decode", ""], [Site("engine/step.py", 1, "step")]),
    ],
)
def test_a_fingerprint_tells_name_subject_and_site_apart(other):
    assert other != hidden_sync().fingerprint


def test_a_fingerprint_is_the_same_in_every_process():
    # sha256 of '["x", [], []]', its first 16 digits, by sha256sum
    assert fingerprint("x", [], []) == "e44a0ec9179c41fa"


def test_a_finding_survives_its_json():
    finding = hidden_sync()
    assert msgspec.json.decode(msgspec.json.encode(finding), type=Finding) == finding
