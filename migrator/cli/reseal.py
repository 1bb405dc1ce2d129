"""``reseal`` and ``restore``: preview, ask, write a group's values again, or those of a backup."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Final

from connect_share.backup.backup_file import new_backup_path
from connect_share.backup.restore import restore_command
from connect_share.backup.rewrites import Reseal, ResealTopic, refused_plain
from connect_share.console.options import Parser, add_rewritten
from connect_share.console.output import Output, ProgressLine, Result
from connect_share.console.program import Command, Preview, Steps
from connect_share.errors import command_line
from connect_share.model.records import TopicType

_Topics = Mapping[TopicType, ResealTopic]


def _reseal(arguments: argparse.Namespace, _: Output) -> Steps:
    """Show what each value is sealed with, ask, seal it with the first key."""
    reseal = Reseal.of(arguments.worker_config, plain=arguments.plain)
    with ProgressLine() as progress:
        topics = reseal.look(progress, beside_workers=arguments.dry_run)
    members = {"group": str(reseal.group), "key_id": None if reseal.plain else reseal.keys.sealing_id}
    before = {"topics": _json(topics)}
    if arguments.dry_run or any(topic.outgoing for topic in topics.values()):
        aborted = reseal.stopped.aborted()
        path = arguments.backup or new_backup_path(arguments.worker_config, f"{arguments.worker_config.stem}.reseal")
        lines, objections = _preview(reseal, topics), reseal.objections(topics, path)
        yield Preview(lines, {**members, **before}, "write these?", aborted, objections=objections)
        with ProgressLine() as progress:
            done = reseal.write(path, progress)
        after, backup = done.after, str(path)
    else:
        after, backup = topics, None
    end = ["nothing to do"] if backup is None else [f"backup: {backup}", "the workers may be started"]
    if any(topic.refused for topic in after.values()):
        words = command_line("connect-share", "repair", "refused", "-w", arguments.worker_config)
        end.append(f"{words} removes what is refused, under keys at which nothing opens")
    yield Result(
        {"dry_run": False, **members, "backup": backup, **before, "after": _json(after)}, [*_lines(after), *end]
    )


def _preview(reseal: Reseal, topics: _Topics) -> Iterator[str]:
    becomes = "plain" if reseal.plain else f"sealed with key {reseal.keys.sealing_id}"
    yield from (f"the values of {reseal.group} become {becomes}", *_lines(topics))
    if plain := refused_plain(topics):
        yield (
            f"{plain:,} plain record(s) are not accepted and stay as they are: to seal plain values, set encryption=accept"
        )


def _lines(topics: _Topics) -> Iterator[str]:
    for topic_type, topic in topics.items():
        found = [f"sealed with {number}: {count:,}" for number, count in sorted(topic.sealed.items())]
        found += [f"plain: {topic.plain:,}", f"refused: {topic.refused:,}"]
        yield f"  {topic_type.value:6}  {topic.facts.topic}: {', '.join(found)}; to be written: {len(topic.outgoing):,}"


def _json(topics: _Topics) -> dict[str, object]:
    return {
        topic_type.value: {
            "topic": topic.facts.topic,
            "sealed": {str(number): count for number, count in sorted(topic.sealed.items())},
            "plain": topic.plain,
            "refused": topic.refused,
            "to_write": len(topic.outgoing),
        }
        for topic_type, topic in topics.items()
    }


def _add_options(parser: Parser) -> None:
    add_rewritten(parser, "worker file of the group, with its keys")
    parser.add_argument(
        "--plain", action="store_true", help="make the values plain instead, to take the keys away afterwards"
    )


COMMANDS: Final = [
    Command(
        "reseal",
        _reseal,
        examples=[
            "connect-share-migrate reseal -w orders.properties --dry-run",
            "connect-share-migrate reseal -w orders.properties --plain",
        ],
        options=_add_options,
        changes="show what would be written, write nothing",
    ),
    restore_command("connect-share-migrate"),
]
