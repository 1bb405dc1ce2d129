"""``discover``: every Connect cluster whose topics are on a Kafka cluster, whatever the topics are called."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from connect_share.checks.finding import Severity
from connect_share.console.options import Parser, add_client_settings, add_worker_file, count, shown_group, topic_set_of
from connect_share.console.output import Output, Result, Table, plural
from connect_share.console.program import Command
from connect_share.discover.survey import Discovered, members_of, survey
from connect_share.kafka.create import OLD_TOPICS
from connect_share.kafka.read import BoundedReader, console_admin

_MOST_RECORDS: Final = 1_000_000
_SHOWN_GROUPS: Final = 20
_SHOWN_OTHERS: Final = 10


def _add_options(parser: Parser) -> None:
    where = parser.add_argument_group("where the topics are")
    where.add_argument("-B", "--bootstrap-servers", metavar="HOST:PORT,...", help="brokers of the cluster")
    add_worker_file(
        where, "properties file of a Java worker, for brokers and security; all topics are looked at", required=False
    )
    add_client_settings(where)
    parser.add_argument(
        "--most-records",
        metavar="N",
        type=count,
        default=_MOST_RECORDS,
        help=f"read at most so many records of the topics that were found, {_MOST_RECORDS:,} by default; a note says when it "
        "was not enough",
    )


def _discover(arguments: argparse.Namespace, out: Output) -> Result:
    topic_set = topic_set_of(arguments, or_none=True)
    with console_admin(topic_set) as admin:
        discovered = survey(admin, partial(BoundedReader, topic_set.settings), most=int(arguments.most_records))
    out.note(*discovered.notes)
    result = members_of(discovered)
    return Result(result, _lines(discovered, result))


def _lines(discovered: Discovered, result: dict[str, Any]) -> Iterator[str | Table]:
    clusters = result["clusters"]
    shared = [row for row in clusters if row["shared"]]
    groups = sum(len(row["groups"]) for row in shared)
    of_shared = f", of which {len(shared)} with {plural(groups, 'group')} are shared" if shared else ""
    yield (
        f"{discovered.kafka.client.bootstrap_servers}: {plural(len(clusters), 'set')} of Connect's topics{of_shared}; "
        f"{plural(result['topics_looked_at'], 'topic')} of {result['topics_seen']:,} looked at"
    )
    if clusters:
        yield ""
        yield Table(
            ["CONFIG TOPIC", "STATUS TOPIC", "OFFSET TOPIC", "GROUPS", "CONNECTORS", "RECORDS", "WORKERS", "SURE"],
            [_cluster_cells(row) for row in clusters],
        )
    for row in clusters:
        yield from _cluster_lines(row)
    yield from _saving_lines(result)
    yield from _other_lines(result)


def _cluster_cells(row: dict[str, Any]) -> list[object]:
    names = [shown_group(group["group"]) for group in row["groups"]]
    connectors = [group["connectors"] for group in row["groups"]]
    return [
        *(row["topics"][kind] for kind in ("config", "status", "offset")),
        names[0] if len(names) == 1 else len(names),
        sum(each or 0 for each in connectors),
        sum(count for group in row["groups"] for count in group["records"].values()),
        "?" if row["live_members"] is None else row["live_members"],
        row["confidence"],
    ]


def _cluster_lines(row: dict[str, Any]) -> list[str]:
    lines = []
    if row["shared"]:
        for group in row["groups"][:_SHOWN_GROUPS]:
            live, connectors = (
                f"{thing}s not known" if group[of] is None else plural(group[of], thing)
                for of, thing in (("live_members", "live worker"), ("connectors", "connector"))
            )
            records, size = sum(group["records"].values()), sum(group["bytes"].values())
            name = shown_group(group["group"])
            lines.append(f"  group {name}: {connectors}, {plural(records, 'record')}, {size:,} bytes, {live}")
        if len(row["groups"]) > _SHOWN_GROUPS:
            lines.append(f"  and {plural(len(row['groups']) - _SHOWN_GROUPS, 'more group')}")
    lines += [f"  offsets topic of a connector: {topic}" for topic in row["connector_offset_topics"]]
    for problem in row["problems"]:
        lines.append(f"  {problem['severity']}: {problem['where']}: {problem['what']}")
        shown = ("why", "remedy", "command") if problem["severity"] != Severity.NOTE.value else ()
        lines += [f"      {problem[each]}" for each in shown if problem[each]]
    if moved := row["moved"]:
        to = moved["to"] and f"group {shown_group(moved['to']['group'])} on {moved['to']['config']}"
        lines.append(f"  moved away by {moved['plan']}, to {to or 'where is not found here'}: {OLD_TOPICS}")
    lines += [f"  before it can share: {each['what']}; {each['remedy']}" for each in row["in_the_way"]]
    name = next(topic for topic in row["topics"].values() if topic is not None)
    return ["", f"{name}:", *lines] if lines else []


def _saving_lines(result: dict[str, Any]) -> list[str]:
    savings = result["savings"]
    now, after = savings["now"], savings["shared"]
    if savings["topics"] <= 0:
        return []
    counts = [f"{plural(after[of], of.removesuffix('s'))} instead of {now[of]:,}" for of in after]
    return ["", f"if all shared the topics of {savings['on']['config']}: {', '.join(counts)}"]


def _other_lines(result: dict[str, Any]) -> list[str]:
    lines = [f"no topic of Connect: {each['topic']}: {each['why']}" for each in result["look_alikes"][:_SHOWN_OTHERS]]
    lines += [
        f"may hold source offsets, and no cluster here has its connectors: {topic}"
        for topic in result["unclaimed_offset_topics"][:_SHOWN_OTHERS]
    ]
    lines += [
        f"live Connect group whose topics were not found: {each['group']} ({plural(each['live_members'], 'worker')})"
        for each in result["groups_elsewhere"][:_SHOWN_OTHERS]
    ]
    lines += [f"not read: {each['topic']}: {each['why']}" for each in result["unreadable"][:_SHOWN_OTHERS]]
    others = ("look_alikes", "unclaimed_offset_topics", "groups_elsewhere", "unreadable")
    if more := sum(max(0, len(result[name]) - _SHOWN_OTHERS) for name in others):
        lines.append(f"and {more:,} more; --output json has all")
    return ["", *lines] if lines else []


COMMANDS: Final = [
    Command(
        "discover",
        _discover,
        about="Find every Connect cluster whose topics are on a Kafka cluster, whatever they are called,\n"
        "and what sharing them would save. Compacted topics are recognised by their records.\n"
        "Reads only; no consumer group is made.",
        examples=[
            "connect-share discover -B broker:9092",
            "connect-share discover -B broker:9093 -X security.protocol=SSL -X ssl.truststore.location=ca.p12",
            "connect-share discover -w worker.properties --output json",
        ],
        options=_add_options,
    )
]
