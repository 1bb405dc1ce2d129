"""The command ``restore``: preview, ask, put back."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from connect_share.console import Output, ProgressLine
from connect_share.records import TopicType
from migrator.backup.restore import RestorePreview, RestoreRequest, describe_origin, prepare_restore
from migrator.cli.cutting_over import confirmed
from migrator.transform.rules import PLAIN_KEYS


def add_restore(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of ``restore``."""
    parser.add_argument("file", metavar="FILE", type=Path, help="backup that apply has left: <plan>.backup.avro")
    parser.add_argument(
        "--destination-worker-config",
        dest="destination",
        metavar="FILE",
        type=Path,
        required=True,
        help="worker file of where the records go; sharing enabled there: keys with its group.id as prefix",
    )
    parser.add_argument("--connector", metavar="NAME", help="this connector only; names are exact")
    parser.add_argument("--from-group", metavar="GROUP", help="the cluster in the backup whose records are meant")
    parser.add_argument("--from-plain", action="store_true", help="the records with plain keys are meant")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="show what would change, write nothing")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="form of the result")


def restore_command(arguments: argparse.Namespace) -> int:
    """``restore``: show what would change, ask, put the records back."""
    output = Output("restore", arguments.output)
    request = RestoreRequest(arguments.connector, arguments.from_group, arguments.from_plain)
    with ProgressLine(sys.stderr) as progress:
        restore = prepare_restore(arguments.file, arguments.destination, request, progress)
        preview = restore.preview(progress)
    if arguments.dry_run:
        if output.is_json:
            output.json({"dry_run": True, **_told(preview)})
        else:
            output.lines(*_lines(preview), "", "dry run: nothing was written")
        return 0
    Output("restore", stdout=sys.stderr).lines(*_lines(preview))
    if not arguments.yes and not confirmed("put these back?"):
        return 1
    with ProgressLine(sys.stderr) as progress:
        done = restore.write(progress)
    if output.is_json:
        output.json({"dry_run": False, **_told(preview), "seconds": done.seconds})
    else:
        output.lines(
            f"{sum(done.written.values()):,} records put back, {done.removals:,} of them removals, in {done.seconds} s",
            "the workers may be started",
        )
    return 0


def _told(preview: RestorePreview) -> dict[str, object]:
    return {
        "file": str(preview.file),
        "run_id": preview.contents.run_id,
        "from": {"group": preview.origin.group_id, "plain": preview.origin.plain, "side": preview.origin.side},
        "to": {"group": preview.becomes, "plain": preview.becomes is None},
        "topics": {topic_type.value: topic for topic_type, topic in preview.topics.items()},
        "create": preview.create,
        "records": {topic_type.value: count for topic_type, count in preview.records.items()},
        "skipped": {reason.value: count for reason, count in preview.skipped.items()},
        "changes": [{**asdict(change), "topic_type": change.topic_type.value} for change in preview.changes],
    }


def _lines(preview: RestorePreview) -> list[str]:
    made = datetime.fromtimestamp(preview.contents.made_at_ms / 1000, UTC)
    becomes = PLAIN_KEYS if preview.becomes is None else f"keys under the prefix {preview.becomes}."
    lines = [
        f"{preview.file}: made {made:%Y-%m-%d %H:%M:%S} UTC by run {preview.contents.run_id}",
        f"{describe_origin(preview.origin)}, become {becomes}",
    ]
    for topic_type in TopicType:
        topic = preview.topics[topic_type]
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
    return lines
