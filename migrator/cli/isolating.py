"""``verify --isolation``: the proof that nobody else was touched, as text and JSON."""

from __future__ import annotations

import argparse
import sys

from connect_share.console import Output, ProgressLine
from migrator.apply.isolation_check import GroupIsolation, IsolationReport, Verdict, check_isolation

_SAID = {
    Verdict.TOUCHED: "touched: records are gone or others than before",
    Verdict.UNCLEAR: "unclear: compaction has taken what would tell",
    Verdict.WROTE_SINCE: "wrote itself since",
    Verdict.EQUAL: "equal",
}


def isolation_command(arguments: argparse.Namespace) -> int:
    """Look, print; 1 unless isolation was proven for every group. Both engines' copies are looked at from here."""
    with ProgressLine(sys.stderr) as progress:
        report = check_isolation(arguments.plan, progress=progress)
    output = Output("verify", arguments.output)
    if output.is_json:
        output.json(report.model_dump(mode="json"))
    else:
        output.lines(*isolation_lines(report))
    return 0 if report.isolated else 1


def isolation_lines(report: IsolationReport) -> list[str]:
    """Show what was written, then group by group what is not simply equal, the worst first."""
    lines = [
        f"{topic_type.value:6}  {own.written:,} record(s) written by this plan, {own.found:,} found under its own keys"
        + ("" if own.accounted else ": not all of them are there any more")
        for topic_type, own in report.own.items()
    ]
    order = list(_SAID)
    for verdict in order:
        groups = [group for group in report.groups if group.verdict is verdict]
        if groups and verdict is Verdict.EQUAL:
            keys = sum(group.keys_now for group in groups)
            lines.append(f"equal: {keys:,} key(s) of {len({group.group for group in groups})} other group(s)")
        else:
            lines += [f"{_SAID[verdict]}: {_told(group)}" for group in groups]
    lines.append(
        "isolated: nobody else was touched" if report.isolated else "not proven that nobody else was touched: see above"
    )
    return lines


def _told(group: GroupIsolation) -> str:
    told = (
        f"{group.group} in {group.topic}, {group.keys_before:,} key(s) before, {group.keys_now:,} of them as they were"
    )
    if group.written_since:
        told += f", {group.written_since:,} newer record(s), {group.among_written:,} of them among those of this plan"
    return told
