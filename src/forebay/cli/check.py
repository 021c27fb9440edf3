"""check: `forebay check ARTIFACT…`: the rules on what ran. What a rule is, contract knows; exit status 1 is a certain error."""

from __future__ import annotations

import click

from forebay.cli.formats import format_option, show
from forebay.contract import Verdict, check
from forebay.finding import Finding
from forebay.report.json import Blind, Report
from forebay.sources import open_artifact


@click.command("check")
@click.argument("artifacts", metavar="ARTIFACT...", type=click.Path(), nargs=-1, required=True)
@click.option("--error-on-warning", is_flag=True, help="Certain warnings fail too.")
@click.option("--exit-zero", is_flag=True, help="Exit 0 whatever is found.")
@format_option
@click.pass_context
def command(context: click.Context, *, artifacts: tuple[str, ...], error_on_warning: bool, exit_zero: bool, style: str) -> None:
    """The rules that hold anywhere, on what ran. Exit status 1: a certain finding of severity error."""
    verdicts = [check(open_artifact(artifact)) for artifact in artifacts]
    report = _report(artifacts, verdicts)
    show(report, style, _print)
    failing = {"error", "warning"} if error_on_warning else {"error"}
    if not exit_zero and any(f.certainty == "certain" and f.severity in failing for f in report.findings):
        context.exit(1)


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
