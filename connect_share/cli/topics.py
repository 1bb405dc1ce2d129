"""``create topics``: shows the three topics with a reason for each setting, then creates all of them or none."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final

from connect_share.console.options import DEFAULT_TIMEOUT_S, Parser, add_replication_factor, add_topics, topic_set_of
from connect_share.console.output import Output, Result, plural
from connect_share.console.program import Command, Preview, Steps
from connect_share.errors import also_saying
from connect_share.kafka.create import ALTHOUGH_LOST, CREATE_TIMEOUT_S, LOSSES, require_none_lost, topic_specs
from connect_share.kafka.read import CONSOLE_CLIENT_ID
from connect_share.kafka.shared_set import PlannedTopic, create_planned, missing_brokers, plan_topics, too_few_brokers
from connect_share.kafka.write_access import RightsAdmin
from connect_share.model.records import TopicType


def _add_options(parser: Parser) -> None:
    add_topics(parser, folds=False)
    add_replication_factor(parser)
    parser.add_argument(
        ALTHOUGH_LOST, action="store_true", help="make an empty topic although the others of the set have records"
    )


def _create_topics(arguments: argparse.Namespace, out: Output) -> Steps:
    """Create the topics that do not exist; 1 if it was not possible, or an existing one differs in what matters."""
    topic_set = topic_set_of(arguments, (TopicType.CONFIG, TopicType.OFFSET, TopicType.STATUS))
    specs = topic_specs(topic_set, arguments.replication_factor)
    answer_s = min(arguments.timeout, DEFAULT_TIMEOUT_S)
    with RightsAdmin(topic_set.settings, client_id=CONSOLE_CLIENT_ID, timeout_s=answer_s) as admin:
        admin.require(dict.fromkeys(topic_set.topics.values(), ("CREATE", "DESCRIBE")))
        known = None if arguments.although_lost else require_none_lost(admin, topic_set.topics)
        planned = plan_topics(admin, specs, known)
        lines = list(_lines(planned, although_lost=arguments.although_lost and any(topic.exists for topic in planned)))
        if not all(topic.usable for topic in planned):
            verdict = "nothing was created: what matters has to be put right first"
            yield Result(_members(planned), [*lines, "", verdict], code=1)
            return
        if all(topic.exists for topic in planned):
            yield Result(_members(planned), [*lines, "", "all topics exist, nothing to do"])
            return
        short = missing_brokers(admin, planned)
        objections = [too_few_brokers(*short)] if short and arguments.dry_run else []  # else they are waited for
        yield Preview(lines, _members(planned), "create these topics?", objections=objections)
        if short is not None:
            out.note(f"{short[0]} of {short[1]} brokers are up: waiting {arguments.timeout:g} s for the others")
        with also_saying("What was created stays. When that is mended, the same command creates the rest"):
            created = create_planned(admin, planned)
        verdict = f"created, all replicas in sync: {', '.join(created) or 'none'}"
        yield Result(_members(planned, created), [verdict])


def _members(planned: Sequence[PlannedTopic], created: Sequence[str] = ()) -> dict[str, Any]:
    return {"topics": [topic.to_dict() for topic in planned], "created": list(created), "dry_run": False}


def _lines(planned: Sequence[PlannedTopic], *, although_lost: bool) -> Iterator[str]:
    shown: set[tuple[str, str]] = set()
    for topic in planned:
        partitions = "default partitions" if topic.spec.partitions < 0 else plural(topic.spec.partitions, "partition")
        replicas = "default replicas" if topic.replicas is None else plural(topic.replicas, "replica")
        if not topic.exists:
            yield f"{topic.spec.topic} ({topic.spec.topic_type.value}): new, {partitions}, {replicas}"
            if although_lost:
                yield f"    empty, whatever it had: {LOSSES[topic.spec.topic_type]}"
            width = max(len(f"{setting.name}={setting.shown_value}") for setting in topic.settings)
            for setting in topic.settings:
                text = f"{setting.name}={setting.shown_value}"
                why = setting.why if (setting.name, setting.why) not in shown else "as above"
                shown.add((setting.name, setting.why))
                yield f"    {text:<{width}}  {why}"
            yield from (f"    {setting.given_up}" for setting in topic.given_up)
            continue
        as_wanted = "" if topic.differences else ", as wanted"
        yield f"{topic.spec.topic} ({topic.spec.topic_type.value}): exists{as_wanted}"
        for difference in topic.differences:
            yield f"    {'matters' if difference.matters else 'differs'}: {difference}"
    if any(topic.differences for topic in planned):
        yield "    existing topics are not changed; check topics says how to correct what matters"


COMMANDS: Final = [
    Command(
        "create topics",
        _create_topics,
        "create the config, offset and status topic with settings that are known to be right",
        about="Show the three topics with their settings and why each is so, then create those that do not exist, "
        "with all replicas in sync or not at all. What exists is compared and not changed. One that is missing while others "
        "have records is lost, and is not made anew. "
        "Exit code 1 if nothing could be created, or an existing topic differs in what matters.",
        examples=[
            "connect-share create topics -w worker.properties --dry-run",
            "connect-share create topics -w worker.properties --yes",
        ],
        options=_add_options,
        changes="show what would be created, create nothing",
        timeout_s=CREATE_TIMEOUT_S,
    )
]
