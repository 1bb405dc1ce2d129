"""``describe group``: what the topics hold of one group, and with which keys it is sealed."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from connect_share.cli.describe_connector import OPENS
from connect_share.cli.options import Nouns, add_topics
from connect_share.cli.question import Question
from connect_share.cli.rows import connector_row, connectors_of, failures_first, shown_time
from connect_share.console import (
    DEFAULT_TIMEOUT_S,
    PLAIN,
    Group,
    HelpFormatter,
    Output,
    add_output,
    groups_of,
    plural,
    shown_group,
)
from connect_share.contents.groups import Contents
from connect_share.model.records import TopicType
from connect_share.sealing import KEYS_PROPERTY

_CLAIMS = "              the ids are what the records claim: without the keys it is not known who wrote them"


def add_to(nouns: Nouns) -> None:
    """Add ``describe group``."""
    parser = nouns.add_parser(
        "group",
        help="records, keys and connectors of a group",
        epilog="examples:\n  connect-share describe group com.acme.orders -w worker.properties",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("group", metavar="ID", help=f"the cluster group; {PLAIN} is the cluster with plain keys")
    add_topics(parser)
    add_output(parser, DEFAULT_TIMEOUT_S)
    parser.set_defaults(run=describe_group, all_groups=False)


def describe_group(arguments: argparse.Namespace, out: Output) -> int:
    """Describe a group."""
    arguments.groups = [arguments.group]
    contents = Question.of(arguments, also=tuple(TopicType)).answer(out)
    (group,) = groups_of(arguments.groups) or ()
    described = _description(contents, group)
    if out.is_json:
        out.json(described)
    else:
        out.lines(*_lines(contents, described))
    return 0


def _description(contents: Contents, group: Group) -> dict[str, Any]:
    described: dict[str, Any] = {
        "group": group,
        "topics": [
            {
                "type": topic_type.value,
                "topic": topic.topic,
                "last_written_ms": contents.last_written_ms(topic_type, group),
                **topic.seals[group].members(),
            }
            for topic_type, topic in contents.topics.items()
            if group in topic.seals
        ],
    }
    if TopicType.CONFIG in contents.topics:
        described["connectors"] = failures_first(
            connector_row(contents, *found) for found in connectors_of(contents, None)
        )
    if any(group in topic.sealed for topic in contents.topics.values()):
        described["opens_with"] = KEYS_PROPERTY
    return described


def _lines(contents: Contents, described: dict[str, Any]) -> Iterator[str]:
    group = described["group"]
    yield f"group:         {shown_group(group)}"
    for topic_type, topic in contents.topics.items():
        if group in topic.seals:
            count = topic.seals[group]
            title = f"{topic_type.value} topic:"
            yield f"{title:<15}{topic.topic}, {plural(count.records, 'record')}: {count.detail()}"
            if group in topic.sealed:
                yield _CLAIMS
            yield f"               last written {shown_time(contents.last_written_ms(topic_type, group)) or 'unknown'}"
    if "connectors" in described:
        yield f"connectors:    {len(described['connectors'])}"
        for row in described["connectors"]:
            yield f"  {row['connector']}: {row['state'] or 'unknown'}"
    if "opens_with" in described:
        yield OPENS
