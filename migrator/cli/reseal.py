"""The command ``reseal``: preview, ask, write a group's values again."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

from connect_share.backup.backup_file import new_backup_path
from connect_share.console import Output, ProgressLine, show_preview
from connect_share.model.records import TopicType
from migrator.reseal import Reseal, ResealTopic, refused_plain

_Topics = Mapping[TopicType, ResealTopic]


def reseal_command(arguments: argparse.Namespace) -> int:
    """Show what each value is sealed with, ask, seal it with the first key."""
    output = Output("reseal", arguments.output)
    reseal = Reseal.of(arguments.worker_config, plain=arguments.plain)
    with ProgressLine(sys.stderr) as progress:
        topics = reseal.look(progress)
    members = {"group": str(reseal.group), "key_id": None if reseal.plain else reseal.keys.sealing_id}
    before = {"topics": _json(topics)}
    if arguments.dry_run or any(topic.outgoing for topic in topics.values()):
        code = show_preview(arguments, output, _preview(reseal, topics), {**members, **before}, "write these?")
        if code is not None:
            return code
        path = arguments.backup or new_backup_path(arguments.worker_config, f"{arguments.worker_config.stem}.reseal")
        with ProgressLine(sys.stderr) as progress:
            done = reseal.write(path, progress)
        after, backup = done.topics, str(path)
    else:
        after, backup = topics, None
    if output.is_json:
        output.json({"dry_run": False, **members, "backup": backup, **before, "after": _json(after)})
        return 0
    if backup is None:
        output.lines(*_lines(after), "nothing to do")
    else:
        output.lines(*_lines(after), f"backup: {backup}", "the workers may be started")
    return 0


def _preview(reseal: Reseal, topics: _Topics) -> list[str]:
    becomes = "plain" if reseal.plain else f"sealed with key {reseal.keys.sealing_id}"
    lines = [f"the values of {reseal.group} become {becomes}", *_lines(topics)]
    plain = refused_plain(topics)
    if plain:
        lines.append(
            f"{plain:,} plain record(s) are not believed and stay as they are: to seal plain values, set encryption=accept"
        )
    return lines


def _lines(topics: _Topics) -> list[str]:
    lines = []
    for topic_type, topic in topics.items():
        found = [f"sealed with {number}: {count:,}" for number, count in sorted(topic.sealed.items())]
        found += [f"plain: {topic.plain:,}", f"refused: {topic.refused:,}"]
        lines.append(
            f"  {topic_type.value:6}  {topic.facts.topic}: {', '.join(found)}; to be written: {len(topic.outgoing):,}"
        )
    return lines


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
