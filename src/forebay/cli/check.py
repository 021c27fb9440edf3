"""check: `forebay check ARTIFACT…`: the rules on what ran. What a rule is, contract knows; exit status 1 is a certain error."""

from __future__ import annotations

from pathlib import Path

import click

from forebay.cli.artifact import opened
from forebay.cli.formats import format_option, show
from forebay.contract import RULES, Contract, Verdict, check, read_contract
from forebay.contract.order_draft import draft, written
from forebay.errors import BadInput
from forebay.finding import Finding
from forebay.report.json import Blind, Report


@click.command("check")
@click.argument("artifacts", metavar="ARTIFACT...", type=click.Path(), nargs=-1, required=True)
@click.option("--contract", "promised", type=click.Path(), help="What the program promises: a forebay.toml, or a pyproject.")
@click.option(
    "--write-order", is_flag=True, help="Judge nothing; write a first [order] table from the one run to standard output."
)
@click.option("-o", "out", type=click.Path(), help="Write that table to a new file instead.")
@click.option("--allow-blind", is_flag=True, help="A rule that the contract names and no artifact shows is no error.")
@click.option("--error-on-warning", is_flag=True, help="Certain warnings fail too.")
@click.option("--exit-zero", is_flag=True, help="Exit 0 whatever is found.")
@format_option
@click.pass_context
def command(
    context: click.Context,
    *,
    artifacts: tuple[str, ...],
    promised: str | None,
    write_order: bool,
    out: str | None,
    allow_blind: bool,
    error_on_warning: bool,
    exit_zero: bool,
    style: str,
) -> None:
    """The rules that hold anywhere, and those that a contract names, on what ran. Exit status 1: a certain finding of severity error."""
    if write_order or out is not None:
        _order_only(context)
        _write_order(artifacts, out)
        return
    contract = read_contract(promised) if promised is not None else Contract()
    verdicts = [check(opened(artifact), contract) for artifact in artifacts]
    report = _report(artifacts, verdicts)
    show(report, style, _print)
    if not allow_blind:
        _refuse_blind(report, contract)
    failing = {"error", "warning"} if error_on_warning else {"error"}
    if not exit_zero and any(f.certainty == "certain" and f.severity in failing for f in report.findings):
        context.exit(1)


def _order_only(context: click.Context) -> None:
    """Refuses options that say nothing beside --write-order."""
    if not context.params["write_order"]:
        raise click.UsageError("-o names the file of --write-order: give both", context)
    if context.params["promised"] is not None:
        raise click.UsageError("--write-order writes from the run alone: leave --contract out", context)


def _write_order(artifacts: tuple[str, ...], out: str | None) -> None:
    if len(artifacts) != 1:
        raise click.UsageError(f"--write-order takes one run, not {len(artifacts)}")
    tape, rule = opened(artifacts[0]), RULES["order"]
    if missing := rule.needs - tape.sees:
        raise BadInput(
            f"{artifacts[0]}: does not show {', '.join(sorted(missing))}, so no order can be read from it; {rule.advice}"
        )
    text = written(draft(tape))
    if out is None:
        click.echo(text, nl=False)
    elif Path(out).exists():
        raise BadInput(f"{out}: exists already; name a new file, and copy from it what was meant")
    else:
        Path(out).write_text(text, encoding="utf-8")


def _refuse_blind(report: Report, contract: Contract) -> None:
    for blind in report.blind:
        if blind.name in contract.names:
            raise BadInput(
                f"{blind.name}: the contract names it, but no artifact shows {', '.join(blind.needs)}: {blind.advice}; or --allow-blind"
            )


def _report(artifacts: tuple[str, ...], verdicts: list[Verdict]) -> Report:
    """A rule is blind where no artifact let it see."""
    seen_by = [{blind.name for blind in verdict.blind} for verdict in verdicts]
    blind = [Blind(b.name, b.needs, b.advice) for b in verdicts[0].blind if all(b.name in names for names in seen_by)]
    findings = [finding for verdict in verdicts for finding in verdict.findings]
    return Report(source={"artifacts": list(artifacts)}, findings=findings, blind=blind)


def _print(report: Report) -> None:
    for finding in report.findings:
        _print_finding(finding)
    for blind in report.blind:
        click.echo(f"{blind.name}: blind, needs {', '.join(blind.needs)}: {blind.advice}")
    certain = sum(finding.certainty == "certain" for finding in report.findings)
    click.echo(f"{len(report.findings)} findings, {certain} certain; {len(report.blind)} rules blind")


def _print_finding(finding: Finding) -> None:
    times = finding.evidence.get("times", 1)
    click.echo(
        f"{finding.severity}: {finding.name} ({finding.certainty}): {finding.message}"
        + (f" ({times} times)" if times > 1 else "")
    )
    click.echo(f"  instead: {finding.remedy}")
