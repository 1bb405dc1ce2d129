"""``create topics``: shows the three topics with a reason for each setting, then creates all of them or none."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from connect_share.cli.options import Nouns, add_replication_factor, add_topics, topic_set_of
from connect_share.console import Output, add_examples, add_output, confirmed
from connect_share.kafka.admin import Admin
from connect_share.kafka.create import topic_specs
from connect_share.kafka.read import CONSOLE_CLIENT_ID
from connect_share.kafka.shared_set import PlannedTopic, create_planned, missing_brokers, plan_topics, too_few_brokers
from connect_share.model.records import TopicType

_TIMEOUT_S: Final = 60.0
_ANSWER_S: Final = 15.0

_UNASKED: Final = "nothing was created: give --yes to create without a prompt"


def add_to(nouns: Nouns) -> None:
    """Add ``create topics``."""
    parser = nouns.add_parser(
        "topics",
        help="create the config, offset and status topic with settings that are known to be right",
        description="Show the three topics with their settings and why each is so, then create those that do not exist, "
        "with all replicas in sync or not at all. What exists is compared and not changed. "
        "Exit code 1 if nothing could be created, or an existing topic differs in what matters.",
    )
    add_examples(
        parser,
        "connect-share create topics -w worker.properties --dry-run",
        "connect-share create topics -w worker.properties --yes",
    )
    add_topics(parser)
    add_replication_factor(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="show what would be created, create nothing")
    add_output(parser, _TIMEOUT_S)
    parser.set_defaults(run=create_topics)


def create_topics(arguments: argparse.Namespace, out: Output) -> int:
    """Create the topics that do not exist; 1 if it was not possible, or an existing one differs in what matters."""
    topic_set = topic_set_of(arguments, (TopicType.CONFIG, TopicType.OFFSET, TopicType.STATUS))
    specs = topic_specs(topic_set, arguments.replication_factor)
    with Admin(topic_set.settings, client_id=CONSOLE_CLIENT_ID, timeout_s=min(arguments.timeout, _ANSWER_S)) as admin:
        planned = plan_topics(admin, specs)
        if not out.is_json:
            _show(out, planned)
        if not all(topic.usable for topic in planned):
            return _end(out, planned, [], "nothing was created: what matters has to be put right first", code=1)
        if all(topic.exists for topic in planned):
            return _end(out, planned, [], "all topics exist, nothing to do")
        short = missing_brokers(admin, planned)
        if arguments.dry_run:
            code = _end(out, planned, [], "nothing was created: --dry-run", dry_run=True)
            return code if short is None else out.error(too_few_brokers(*short))
        if not arguments.yes and not confirmed("create these topics?", otherwise=_UNASKED, note=out.note):
            return 1
        if short is not None:
            out.note(f"{short[0]} of {short[1]} brokers are up: waiting {arguments.timeout:g} s for the others")
        created = create_planned(admin, planned, timeout_s=arguments.timeout)
        return _end(out, planned, created, f"created, all replicas in sync: {', '.join(created) or 'none'}")


def _end(
    out: Output,
    planned: Sequence[PlannedTopic],
    created: Sequence[str],
    verdict: str,
    *,
    code: int = 0,
    dry_run: bool = False,
) -> int:
    if out.is_json:
        out.json({"topics": [topic.to_dict() for topic in planned], "created": list(created), "dry_run": dry_run})
    else:
        out.lines("", verdict)
    return code


def _show(out: Output, planned: Sequence[PlannedTopic]) -> None:
    shown: set[tuple[str, str]] = set()
    for topic in planned:
        partitions = "default" if topic.spec.partitions < 0 else str(topic.spec.partitions)
        replicas = "default" if topic.replicas is None else str(topic.replicas)
        size = f"{_count(partitions, 'partition')}, {_count(replicas, 'replica')}"
        if not topic.exists:
            out.lines(f"{topic.spec.topic} ({topic.spec.topic_type.value}): new, {size}")
            width = max(len(f"{setting.name}={setting.shown_value}") for setting in topic.settings)
            for setting in topic.settings:
                text = f"{setting.name}={setting.shown_value}"
                why = setting.why if (setting.name, setting.why) not in shown else "as above"
                shown.add((setting.name, setting.why))
                out.lines(f"    {text:<{width}}  {why}")
            continue
        out.lines(
            f"{topic.spec.topic} ({topic.spec.topic_type.value}): exists" + ("" if topic.differences else ", as wanted")
        )
        for difference in topic.differences:
            mark = "matters" if difference.matters else "differs"
            out.lines(f"    {mark}: {difference.what} is {difference.actual}, wanted {difference.wanted}")
    if any(topic.differences for topic in planned):
        out.lines("    existing topics are not changed; check topics says how to correct what matters")


def _count(number: str, thing: str) -> str:
    return f"{number} {thing}{'' if number == '1' else 's'}"
