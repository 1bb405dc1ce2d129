"""``verify``: compare both sides, or prove that no other group was touched."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from connect_share.console import Command, Output, Parser, ProgressLine, Result
from migrator.bystanders import BystanderGroup, BystanderReport, BystanderVerdict, check_bystanders
from migrator.cli.options import ENGINES, NOTHING_WRITTEN, add_evidence, add_plan
from migrator.report import evidence_of
from migrator.run import MigrationRun
from migrator.verify.equality import Verification
from migrator.verify.verification import verify_plan

SHOWN_DIFFERENCES: Final = 50

_VERDICTS: Final = {
    BystanderVerdict.TOUCHED: "touched: records are missing or changed",
    BystanderVerdict.UNCLEAR: "unclear: compaction has removed the evidence",
    BystanderVerdict.WROTE_SINCE: "wrote itself since",
    BystanderVerdict.EQUAL: "equal",
}
"""The worst first."""


def _verify(arguments: argparse.Namespace, _: Output) -> Result:
    """Compare both sides; 1 when they differ."""
    run = MigrationRun.load(arguments.plan)
    if arguments.isolation:
        return _isolation(run)
    with evidence_of(run, arguments.evidence, "verify") as evidence:
        with ProgressLine(sys.stderr) as progress:
            verification = verify_plan(run, engine=ENGINES[arguments.engine].verify(progress), progress=progress)
        evidence.verification = verification
    lines = verification_lines(verification, SHOWN_DIFFERENCES)
    return Result(verification.model_dump(mode="json"), lines, 0 if verification.equal else 1)


def _isolation(run: MigrationRun) -> Result:
    """Return what was found; 1 unless isolation was proven for every group, whichever engine has copied."""
    with ProgressLine(sys.stderr) as progress:
        report = check_bystanders(run, progress=progress)
    return Result(report.model_dump(mode="json"), isolation_lines(report), 0 if report.isolated else 1)


def verification_lines(verification: Verification, shown: int) -> list[str]:
    """Return the first ``shown`` differences, and in the last line whether both sides are equal."""
    lines = [f"warning: {warning}" for warning in verification.warnings]
    if verification.equal:
        return [*lines, f"equal: {verification.compared} comparisons, no difference"]
    total = len(verification.differences)
    lines += [f"  {difference}" for difference in verification.differences[:shown]]
    if total > shown:
        lines.append(f"  and {total - shown} more: --output json shows all")
    return [*lines, f"different: {total} difference{'' if total == 1 else 's'}"]


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


def _add_options(parser: Parser) -> None:
    add_plan(parser, engine=True)
    parser.add_argument(
        "--isolation",
        action="store_true",
        help="instead: prove that no key of another group was touched; needs apply --isolation-proof",
    )
    add_evidence(parser)


VERIFY: Final = Command(
    "verify",
    _verify,
    examples=[
        "connect-share-migrate verify move.json",
        "connect-share-migrate verify move.json --isolation --output json",
    ],
    options=_add_options,
    after_interruption=lambda _: NOTHING_WRITTEN,
)
COMMANDS: Final = [VERIFY]
