"""`forebay check` with a contract: exit status, and a first `[order]` table that the same run keeps."""

import pytest

from forebay.cli import run

ORDERED = "stream copy nonblocking\nstream s nonblocking\nt0 copy copy h2d 1M\nt0 copy record e\nt0 s wait e\nt0 s launch k\n"
SEES = "sees work edges streams syncs\n"
ORDER = '[order]\nbefore = ["copy.h2d -> s.k"]\n'


@pytest.fixture
def checked(tmp_path, capsys):
    def of(text, contract, *options):
        (tmp_path / "a.tape").write_text(text, encoding="utf-8")
        (tmp_path / "forebay.toml").write_text(contract, encoding="utf-8")
        status = run(["check", str(tmp_path / "a.tape"), "--contract", str(tmp_path / "forebay.toml"), *options])
        return status, capsys.readouterr()

    return of


@pytest.mark.parametrize(
    ("text", "contract", "options", "status"),
    [
        (SEES + ORDERED, ORDER, [], 0),
        (SEES + ORDERED.replace("wait e", "wait f"), ORDER, [], 1),
        (SEES + ORDERED.replace("wait e", "wait f"), ORDER, ["--exit-zero"], 0),
        (SEES.replace("edges ", "") + ORDERED, ORDER, [], 2),
        (SEES.replace("edges ", "") + ORDERED, ORDER, ["--allow-blind"], 0),
        (SEES.replace("edges ", "") + ORDERED, "", [], 0),
        (SEES + ORDERED, ORDER.replace("->", ">"), [], 2),
    ],
)
def test_a_contract_decides_the_exit_status(checked, text, contract, options, status):
    seen, printed = checked(text, contract, *options)
    assert (seen, printed.err.count("\n")) == (status, 1 if status == 2 else 0)


def test_a_run_keeps_the_table_that_was_written_from_it(tmp_path, checked, capsys):
    (tmp_path / "run.tape").write_text(SEES + ORDERED, encoding="utf-8")
    assert run(["check", str(tmp_path / "run.tape"), "--write-order"]) == 0
    table = capsys.readouterr().out
    assert '"copy.h2d -> s.k",' in table
    assert checked(SEES + ORDERED, table)[0] == 0
    assert run(["check", str(tmp_path / "run.tape"), "--write-order", "-o", str(tmp_path / "new.toml")]) == 0
    assert (tmp_path / "new.toml").read_text(encoding="utf-8") == table
    assert run(["check", str(tmp_path / "run.tape"), "--write-order", "-o", str(tmp_path / "new.toml")]) == 2
