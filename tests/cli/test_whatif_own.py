"""`forebay whatif` on a tape of our own runtime: PyTorch's policy beside its own pools under other settings."""

import gc
import json
from contextlib import suppress

import pytest

from forebay import cli
from forebay.errors import PoolExhausted
from forebay.runtime import Pool, SimDevice, recording
from forebay.tape import Kind
from forebay.tape.file import read

MIB = 2**20


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """24 MiB are asked of a pool of 80 MiB in which 32 stay between 32 that go."""
    gc.collect()
    path = tmp_path_factory.mktemp("own") / "run.arrows"
    with recording(path):
        device = SimDevice("256MiB")
        stream, pool = device.stream("s"), Pool(device, "all", "80MiB")
        both = [(pool.alloc(4 * MIB, stream), pool.alloc(4 * MIB, stream)) for _ in range(8)]
        for scratch, _ in both:
            scratch.free()
        with suppress(PoolExhausted):
            pool.alloc(24 * MIB, stream)
        for _, kept in both:
            kept.free()
    return path


def answer(capsys, *arguments):
    status = cli.run(["whatif", *map(str, arguments), "--format", "json"])
    told = capsys.readouterr()
    assert (status, told.err) == (0, "")
    return json.loads(told.out)


def test_its_own_pools_follow_pytorch_s_policy(refused, capsys):
    output = answer(capsys, refused)
    assert [row["settings"] for row in output["rows"] if row["policy"] == "pytorch"] == ["none", "expandable_segments:True"]
    own = {row["settings"]: row for row in output["rows"] if row["policy"] == "forebay"}
    assert output["calibration"] == {"exact": True, "first_divergence": None}
    assert (output["recorded"]["ooms"], output["lower_bound_bytes"]) == (1, 64 * MIB)
    assert own["what is kept apart"]["oom"] is False
    assert any(advice.startswith("what is kept apart: serves the request that was refused") for advice in output["advice"])
    assert not any("PYTORCH" in advice for advice in output["advice"])


def test_a_refusal_is_named_by_its_row_of_the_tape(refused, capsys):
    rows = {row["settings"]: row for row in answer(capsys, refused)["rows"]}
    (oom,) = read(refused).where(Kind.oom).tolist()
    assert [row["oom_event"] for row in rows.values() if row["policy"] == "forebay" and row["oom"]] == [oom] * sum(
        row["oom"] for row in rows.values() if row["policy"] == "forebay"
    )


def test_its_own_pools_alone_may_be_asked_for_under_another_device(refused, capsys):
    output = answer(capsys, refused, "--settings", "forebay", "--cap", "60MiB")
    assert {row["policy"] for row in output["rows"]} == {"forebay"}
    assert {row["cap_bytes"] for row in output["rows"]} == {60 * MIB}
    assert output["rows"][0]["oom"] is True


def test_the_table_says_whose_row_is_whose(refused, capsys):
    assert cli.run(["whatif", str(refused)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "PyTorch, none" in out
    assert "own pools, what is kept" in out
