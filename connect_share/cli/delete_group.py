"""``delete group``: preview, ask, back up, remove what a stopped group has on the topics, prove that others have theirs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from connect_share.backup.backup_file import new_backup_path
from connect_share.backup.delete_group import GroupDeletion, TopicContent
from connect_share.cli.options import Nouns
from connect_share.console import PLAIN, Output, ProgressLine, add_output, plural, show_preview
from connect_share.model.records import TopicType

_EXAMPLES: Final = """\
examples:
  connect-share delete group orders -w orders.properties --dry-run
  connect-share delete group orders -w orders.properties --backup /backups/orders.avro
  connect-share restore /backups/orders.avro -w orders.properties    # the way back
"""
_SHOWN: Final = 20

_Topics = Mapping[TopicType, TopicContent]


def add_to(nouns: Nouns) -> None:
    """Add ``delete group``."""
    parser = nouns.add_parser(
        "group",
        help="remove all that a stopped group has on the topics, behind a backup",
        description="Write what a group has on the topics to a backup, remove it there, and check that no other group was\n"
        "touched. "
        "Workers of the group have to be stopped for good. A run that was killed is completed by the next one.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("group", metavar="ID", help=f"the cluster group; {PLAIN} is the cluster with plain keys")
    parser.add_argument(
        "-w",
        "--worker-config",
        metavar="FILE",
        type=Path,
        required=True,
        help="worker file with these topics; for a sealed group and for plain keys that of the group itself",
    )
    parser.add_argument(
        "--backup", metavar="FILE", type=Path, help="the backup that is written first; default: beside -w"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="show what would be removed, write nothing")
    add_output(parser)
    parser.set_defaults(run=delete_group)


def delete_group(arguments: argparse.Namespace, out: Output) -> int:
    """Remove one group."""
    deletion = GroupDeletion.of(arguments.worker_config, arguments.group)
    with ProgressLine(sys.stderr) as progress:
        topics = deletion.look(progress)
    members = _members(deletion, topics)
    due = any(topic.due for topic in topics.values())
    if due or arguments.dry_run:
        code = show_preview(arguments, out, _lines(deletion, topics), members, "remove these?")
        if code is not None:
            return code
    backup = None
    counts = {"removed": 0, "others": 0, "others_wrote": 0}
    if due:
        path = arguments.backup or new_backup_path(arguments.worker_config, f"{deletion.group or 'plain-keys'}.deleted")
        with ProgressLine(sys.stderr) as progress:
            done = deletion.delete(path, progress)
        backup = str(path)
        counts = {"removed": sum(done.removed.values()), "others": done.others, "others_wrote": done.others_wrote}
    if out.is_json:
        out.json({"dry_run": False, **members, "backup": backup, **counts})
    elif backup is None:
        out.lines(f"{deletion.shown}: everything was removed before, nothing to do")
    else:
        out.lines(
            f"{deletion.shown}: {plural(counts['removed'], 'key')} removed; backup: {backup}",
            f"checked: {plural(counts['others'], 'key')} of other groups unchanged, {counts['others_wrote']:,} written by "
            "themselves meanwhile",
        )
    return 0


def _members(deletion: GroupDeletion, topics: _Topics) -> dict[str, Any]:
    return {
        "group": deletion.group,
        "topics": {
            topic_type.value: {"topic": topic.facts.topic, "keys": len(topic.keys), "to_remove": len(topic.due)}
            for topic_type, topic in topics.items()
        },
        "connectors": _connectors(topics),
        "other_groups": len({group for topic in topics.values() for group in topic.others.groups}),
    }


def _connectors(topics: _Topics) -> list[str]:
    return sorted({name for topic in topics.values() for name in topic.connectors})


def _lines(deletion: GroupDeletion, topics: _Topics) -> list[str]:
    names, members = _connectors(topics), _members(deletion, topics)
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return [
        f"all that {deletion.shown} has is removed:",
        *(
            f"  {topic_type.value:6}  {topic.facts.topic}: {len(topic.due):,} of {plural(len(topic.keys), 'key')}"
            for topic_type, topic in topics.items()
        ),
        f"  connectors: {', '.join(map(repr, names[:_SHOWN])) or 'none'}{more}",
        f"{plural(members['other_groups'], 'other group')} on these topics: not touched",
    ]
