"""The command ``restore`` of both programs: preview, ask, put back, read back."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from connect_share.backup.backup_file import shown_time
from connect_share.backup.restore import Restore, RestorePreview, RestoreRequest, describe_origin, prepare_restore
from connect_share.console import Command, Output, Parser, Preview, ProgressLine, Result, Steps, add_worker_file
from connect_share.model.records import TopicType
from connect_share.transform.rules import PLAIN_KEYS


def _moment(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError("has to be a time such as 2026-01-31T12:00:00Z") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _restore(arguments: argparse.Namespace, _: Output) -> Steps:
    """Show what would change, ask, put the records back, compare."""
    names = None if arguments.connectors is None else frozenset(arguments.connectors)
    request = RestoreRequest(names, arguments.from_group, arguments.from_plain, arguments.at)
    with ProgressLine(sys.stderr) as progress:
        restore = prepare_restore(arguments.file, arguments.destination, request, progress)
        preview = restore.preview(progress)
    lines = [*_lines(restore, preview), *(("", "dry run: nothing was written") if arguments.dry_run else ())]
    members = _members(restore, preview)
    yield Preview(lines, members, "put these back?")
    with ProgressLine(sys.stderr) as progress:
        done = restore.write(progress)
        restore.verify(progress)
    yield Result(
        {"dry_run": False, **members, "seconds": done.seconds, "verified": True},
        [
            f"{sum(done.written.values()):,} records put back, {done.removals:,} of them removals, in {done.seconds} s",
            "read back: the destination has the newest value of each key of the backup",
            "the workers may be started",
        ],
    )


def _members(restore: Restore, preview: RestorePreview) -> dict[str, object]:
    origin, becomes = restore.origin, restore.worker.cluster_group_id
    return {
        "file": str(restore.file.path),
        "at": None if restore.file.contents.segment is None else shown_time(restore.file.contents.segment.at_ms),
        "run_id": restore.file.contents.run_id,
        "from": {"group": origin.group_id, "plain": origin.plain, "side": origin.side},
        "to": {"group": becomes, "plain": becomes is None},
        "topics": {topic_type.value: restore.worker.topic(topic_type) for topic_type in TopicType},
        "create": preview.create,
        "records": {topic_type.value: count for topic_type, count in preview.records.items()},
        "skipped": {reason.value: count for reason, count in preview.skipped.items()},
        "values": {
            "sealed": {str(number): count for number, count in sorted(preview.values.sealed.items())},
            "plain": preview.values.plain,
            "refused": preview.values.refused,
            "become": _sealing_key(restore),
        },
        "changes": [{**asdict(change), "topic_type": change.topic_type.value} for change in preview.changes],
    }


def _lines(restore: Restore, preview: RestorePreview) -> list[str]:
    contents = restore.file.contents
    made = datetime.fromtimestamp(contents.made_at_ms / 1000, UTC)
    group = restore.worker.cluster_group_id
    becomes = PLAIN_KEYS if group is None else f"keys under the prefix {group}."
    head = f"made {made:%Y-%m-%d %H:%M:%S} UTC by run {restore.file.contents.run_id}"
    if restore.file.contents.segment is not None:
        names = " to ".join(dict.fromkeys(restore.file.names))
        head = f"state of {shown_time(restore.file.contents.segment.at_ms)}, {names}"
    lines = [
        f"{restore.file.path}: {head}",
        f"{describe_origin(restore.origin)}, become {becomes}",
    ]
    for topic_type in TopicType:
        topic = restore.worker.topic(topic_type)
        new = " (to be created)" if topic in preview.create else ""
        lines.append(f"  {topic_type.value:6}  {topic}{new}: {preview.records[topic_type]:,} records")
        for change in preview.changes:
            if change.topic_type is not topic_type:
                continue
            name = "no connector" if change.connector is None else repr(change.connector)
            lines.append(
                f"          {name}: {change.added:,} added, {change.changed:,} changed, {change.same:,} same, "
                f"{change.removed:,} removed, {change.remaining:,} only at the destination: kept"
            )
    lines += [f"  not restored: {count:,} {reason.value}" for reason, count in preview.skipped.items()]
    return lines + _lines_on_values(restore, preview)


def _sealing_key(restore: Restore) -> int | None:
    keys = restore.sealing.keys
    return None if keys is None else keys.sealing_id


def _lines_on_values(restore: Restore, preview: RestorePreview) -> list[str]:
    values, key_id = preview.values, _sealing_key(restore)
    sealed = " and ".join(f"{count:,} with key {number}" for number, count in sorted(values.sealed.items()))
    lines = []
    if sealed:
        lines.append(f"sealed in the backup: {sealed}; without these keys nobody can read them")
    if key_id is not None:
        again = sum(values.sealed.values())
        lines.append(
            f"sealed with key {key_id} on the way: {again + values.plain:,}, of which {values.plain:,} were plain"
        )
    elif sealed:
        lines.append("the worker file has no keys: sealed values are put back as they are")
    if values.refused_plain and key_id is not None:
        lines.append(
            f"{values.refused_plain:,} plain record(s) beside sealed ones are not believed: to restore them, set "
            "encryption=accept"
        )
    return lines


def _add_options(parser: Parser) -> None:
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="a backup, what export has written, or the folder of export --follow"
    )
    parser.add_argument(
        "--at",
        metavar="TIME",
        type=_moment,
        help="of a folder: the newest state that is not later, such as 2026-01-31T12:00:00Z; the last one by default",
    )
    add_worker_file(
        parser,
        "worker file of where the records go; sharing enabled there: keys with its group.id as prefix",
        "--destination-worker-config",
        dest="destination",
    )
    parser.add_argument(
        "--connector",
        dest="connectors",
        metavar="NAME",
        action="append",
        help="this connector only, may be repeated; names are exact",
    )
    parser.add_argument("--from-group", metavar="GROUP", help="restore the records of this group of the backup")
    parser.add_argument("--from-plain", action="store_true", help="restore the records with plain keys")


def restore_command(program: str, after_interruption: Callable[[argparse.Namespace], str] | None = None) -> Command:
    """Return the command of a program."""
    return Command(
        "restore",
        _restore,
        about="Show what would change, by connector and topic, then put the records back and read them back.\n"
        "Nothing is removed that only the destination has. Workers of the group have to be stopped.",
        examples=[
            f"{program} restore orders.avro -w orders.properties --dry-run",
            f"{program} restore orders.avro -w orders.properties --connector jdbc-sink",
            f"{program} restore all.avro -w orders-2.properties --from-group orders",
            f"{program} restore /backups/orders -w orders.properties --at 2026-01-31T12:00:00Z",
        ],
        options=_add_options,
        changes="show what would change, write nothing",
        after_interruption=after_interruption,
    )
