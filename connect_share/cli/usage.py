"""``usage``: what each group takes of the topics, what it costs the others, and how many groups fit on one set."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Iterator
from functools import partial
from typing import Final

from connect_share.console.options import Parser, add_topics, number, seconds, shown_group, topic_set_of
from connect_share.console.output import Output, Result, Table
from connect_share.console.program import Command
from connect_share.contents.cost_model import load_model
from connect_share.contents.startup import CountPlan, count_topics
from connect_share.contents.usage import (
    COLUMNS,
    DEFAULT_EGRESS_BYTES,
    DEFAULT_START_S,
    DEFAULT_WINDOW_S,
    Usage,
    UsageLimits,
    measured_usage,
    usage_members,
)
from connect_share.model.records import TopicType

_MOST_WINDOW_S: Final = 30 * 86_400


def _add_options(parser: Parser) -> None:
    add_topics(parser)
    parser.add_argument(
        "--window",
        metavar="SECONDS",
        type=partial(number, 0.1, _MOST_WINDOW_S, unit=" seconds"),
        default=DEFAULT_WINDOW_S,
        help=f"writes are counted over the last so many seconds, {DEFAULT_WINDOW_S:g} by default",
    )
    parser.add_argument(
        "--start-limit",
        metavar="SECONDS",
        type=seconds,
        default=DEFAULT_START_S,
        help=f"longest start that is fine, {DEFAULT_START_S:g} by default",
    )
    parser.add_argument(
        "--egress-limit",
        metavar="MB",
        type=partial(number, 0.1, 1_000_000),
        default=DEFAULT_EGRESS_BYTES / 1e6,
        help=f"megabytes a second that brokers may send for these topics, {DEFAULT_EGRESS_BYTES / 1e6:g} by default",
    )


def _usage(arguments: argparse.Namespace, out: Output) -> Result:
    topic_set = topic_set_of(arguments, tuple(TopicType))
    plan = CountPlan.of(topic_set)
    out.note(*plan.notes)
    found = measured_usage(
        plan,
        count_topics(plan, out),
        load_model().model,
        window_s=arguments.window,
        limits=UsageLimits(arguments.start_limit, arguments.egress_limit * 1e6),
        note=out.note,
    )
    lines = _csv_lines(found) if arguments.output == "csv" else _lines(found)
    return Result({"window_seconds": arguments.window, **usage_members(found)}, lines)


def _csv_lines(found: Usage) -> list[str]:
    rows = [each.members_of_row() for each in found.groups]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "group": shown_group(row["group"])} for row in rows)
    return text.getvalue().splitlines()


def _lines(found: Usage) -> Iterator[str | Table]:
    yield Table(
        ["GROUP", "RECORDS", "MB", "SHARE", "SUPERSEDED", "WRITES/S", "WORKERS", "SENT TO OTHERS", "OTHERS' START"],
        [
            [
                shown_group(each.group),
                f"{each.count.records:,}",
                f"{each.count.bytes / 1e6:.2f}",
                f"{each.share:.1%}",
                f"{each.count.superseded_records:,}",
                f"{each.records_per_s:.3g}",
                "?" if each.members is None else each.members,
                _rate(each.sent_to_others_per_s),
                f"+{each.start_s_of_others * 1000:.1f} ms",
            ]
            for each in found.groups
        ],
    )
    if not found.projections:
        yield "no group has records on these topics"
        return
    yield ""
    yield "with more groups like these:"
    yield Table(
        ["GROUPS", "START", "RECEIVED BY EACH WORKER", "ITS CPU", "SENT BY BROKERS"],
        [
            [
                each.groups,
                f"{each.start_s:.2f} s",
                f"{each.received_per_s:.3g} records/s",
                f"{each.worker_cpu_share:.1%}",
                _rate(each.egress_bytes_per_s),
            ]
            for each in found.projections
        ],
    )
    yield ""
    yield _verdict(found)


def _verdict(found: Usage) -> str:
    limits = found.limits
    fine = f"a start of {limits.start_s:g} s and {limits.egress_bytes_per_s / 1e6:g} MB/s sent by brokers are fine"
    if not found.limited_by:
        return f"no limit is near: {fine}, and these groups write next to nothing"
    what = "the start gets" if found.limited_by == "start" else "what brokers send gets"
    text = f"up to {found.most_groups:,} such groups fit on one set ({fine}); beyond that {what} too much: use a second set"
    return text if found.workers else f"{text}. No live worker of them is known, so what brokers send is not counted"


def _rate(bytes_per_s: float | None) -> str:
    if bytes_per_s is None:
        return "?"
    return f"{bytes_per_s / 1e6:.2f} MB/s" if bytes_per_s >= 1e5 else f"{bytes_per_s / 1e3:.2f} kB/s"


COMMANDS: Final = [
    Command(
        "usage",
        _usage,
        about="Read the three topics once: records, bytes and writes of each group, what they cost all others at a "
        "start and while they run, and how many such groups fit on one set of topics. Reads only.",
        examples=[
            "connect-share usage -w worker.properties",
            "connect-share usage -w worker.properties --window 86400 --output csv > usage.csv",
            "connect-share usage -w worker.properties --start-limit 5 --egress-limit 20",
        ],
        options=_add_options,
        forms=("text", "json", "csv"),
    )
]
