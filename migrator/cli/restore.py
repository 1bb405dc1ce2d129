"""The command ``restore``: preview, ask, put back."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from datetime import UTC, datetime

from connect_share.backup.restore import Restore, RestorePreview, RestoreRequest, describe_origin, prepare_restore
from connect_share.console import Output, ProgressLine
from connect_share.records import TopicType
from connect_share.transform.rules import PLAIN_KEYS
from migrator.cli.text import show_preview


def restore_command(arguments: argparse.Namespace) -> int:
    """Show what would change, ask, put the records back."""
    output = Output("restore", arguments.output)
    request = RestoreRequest(arguments.connector, arguments.from_group, arguments.from_plain)
    with ProgressLine(sys.stderr) as progress:
        restore = prepare_restore(arguments.file, arguments.destination, request, progress)
        preview = restore.preview(progress)
    lines = [*_lines(restore, preview), *(("", "dry run: nothing was written") if arguments.dry_run else ())]
    members = _members(restore, preview)
    code = show_preview(arguments, output, lines, members, "put these back?")
    if code is not None:
        return code
    with ProgressLine(sys.stderr) as progress:
        done = restore.write(progress)
    if output.is_json:
        output.json({"dry_run": False, **members, "seconds": done.seconds})
    else:
        output.lines(
            f"{sum(done.written.values()):,} records put back, {done.removals:,} of them removals, in {done.seconds} s",
            "the workers may be started",
        )
    return 0


def _members(restore: Restore, preview: RestorePreview) -> dict[str, object]:
    origin, becomes = restore.origin, restore.worker.cluster_group_id
    return {
        "file": str(restore.file.path),
        "run_id": restore.contents.run_id,
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
    made = datetime.fromtimestamp(restore.contents.made_at_ms / 1000, UTC)
    group = restore.worker.cluster_group_id
    becomes = PLAIN_KEYS if group is None else f"keys under the prefix {group}."
    lines = [
        f"{restore.file.path}: made {made:%Y-%m-%d %H:%M:%S} UTC by run {restore.contents.run_id}",
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
    keys = restore.sealing.destination.keys
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
