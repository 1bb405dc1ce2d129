"""The command ``verify``: compare both sides, or prove that no other group was touched."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from connect_share.console import Output, ProgressLine
from migrator.bystander_check import BystanderGroup, BystanderReport, BystanderVerdict, check_bystanders
from migrator.cli.engines import spark_job
from migrator.cli.text import verification_lines
from migrator.report import evidence_of
from migrator.run import MigrationRun
from migrator.verify.verification import verify_plan

SHOWN_DIFFERENCES: Final = 50

_VERDICTS: Final = {
    BystanderVerdict.TOUCHED: "touched: records are missing or changed",
    BystanderVerdict.UNCLEAR: "unclear: compaction has removed the evidence",
    BystanderVerdict.WROTE_SINCE: "wrote itself since",
    BystanderVerdict.EQUAL: "equal",
}
"""The worst first."""


def verify_command(arguments: argparse.Namespace) -> int:
    """Compare both sides; 1 when they differ."""
    run = MigrationRun.load(arguments.plan)
    output = Output("verify", arguments.output)
    if arguments.isolation:
        return _verify_isolation(run, output)
    with evidence_of(run, arguments.evidence, "verify") as evidence:
        with ProgressLine(sys.stderr) as progress:
            engine = spark_job("verify_plan").verify_engine(progress) if arguments.engine == "spark" else None
            verification = verify_plan(run, engine=engine, progress=progress)
        evidence.verification = verification
        if output.is_json:
            output.json(verification.model_dump(mode="json"))
        else:
            output.lines(*verification_lines(verification, SHOWN_DIFFERENCES))
    return 0 if verification.equal else 1


def _verify_isolation(run: MigrationRun, output: Output) -> int:
    """Print what was found; 1 unless isolation was proven for every group, whichever engine has copied."""
    with ProgressLine(sys.stderr) as progress:
        report = check_bystanders(run, progress=progress)
    if output.is_json:
        output.json(report.model_dump(mode="json"))
    else:
        output.lines(*isolation_lines(report))
    return 0 if report.isolated else 1


def isolation_lines(report: BystanderReport) -> list[str]:
    """Return what was written, then group by group what is not simply equal, the worst first."""
    lines = [
        f"{topic_type.value:6}  {own.written:,} record(s) written by this plan, {own.found:,} found under its own keys"
        + ("" if own.accounted else ": not all of them are there any more")
        for topic_type, own in report.own.items()
    ]
    for verdict, text in _VERDICTS.items():
        groups = [group for group in report.groups if group.verdict is verdict]
        if groups and verdict is BystanderVerdict.EQUAL:
            keys = sum(group.keys_now for group in groups)
            lines.append(f"equal: {keys:,} key(s) of {len({group.group for group in groups})} other group(s)")
        else:
            lines += [f"{text}: {_group_line(group)}" for group in groups]
    lines.append(
        "isolated: no other group was changed"
        if report.isolated
        else "not proven that no other group was changed: see above"
    )
    return lines


def _group_line(group: BystanderGroup) -> str:
    line = (
        f"{group.group} in {group.topic}, {group.keys_before:,} key(s) before, {group.keys_now:,} of them as they were"
    )
    if group.written_since:
        line += f", {group.written_since:,} newer record(s), {group.among_written:,} of them among those of this plan"
    return line
