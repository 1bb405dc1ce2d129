"""``delete group`` and ``repair``: what a stopped group has on the topics, behind a backup."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from connect_share.backup.backup_file import new_backup_path
from connect_share.backup.rewrites import (
    GroupDeletion,
    Mending,
    Plan,
    RefusedKeys,
    Repair,
    TopicContent,
    count_others,
    plan_order,
    plan_orphans,
    plan_values,
)
from connect_share.checks.finding import named
from connect_share.console.options import PLAIN, Parser, add_rewritten, shown_group
from connect_share.console.output import Output, ProgressLine, Result, plural
from connect_share.console.program import Command, Preview, Steps
from connect_share.errors import listed
from connect_share.model.records import TopicType
from connect_share.sealing.seals import refused_of
from connect_share.worker_config import WorkerConfig

_SHOWN: Final = 20
_ORDER: Final = (
    "Write the task configurations and the commit of connectors once more, behind the connector, so that workers take them: "
    "what check order calls dropped, or lost by compaction. "
)
_ORPHANS: Final = (
    "Remove what belongs to no connector any more: statuses, topics in use, target states, task configurations, commits and "
    "task counts; source offsets only with --offsets, for a connector that is made again continues there. "
)
_VALUES: Final = (
    "Write configurations and target states again that no store would have written, such as a number as a property: the "
    "newest value that can be read, properties as text, with the tasks behind it. What no worker has is removed. "
)
_REFUSED: Final = (
    "Remove what lies under keys of the group at which nothing opens that the group wrote: garbage, forged values, values "
    "under keys that the group has not. What opens stays, and is not touched. Refused if no value of the group opens, or if "
    "it says itself that it uses a key which is not in the worker file. "
)
_HOW: Final = (
    "The workers of the group have to be stopped. All the group has on the topics is written to a backup first; afterwards "
    "the topics are replayed and compared. Records of other groups are not touched. May be repeated."
)

_Topics = Mapping[TopicType, TopicContent]


def _delete_group(arguments: argparse.Namespace, _: Output) -> Steps:
    deletion = GroupDeletion.of(arguments.worker_config, arguments.group)
    yield from _remove(deletion, arguments, f"{deletion.group or 'plain-keys'}.deleted")


def _repair_refused(arguments: argparse.Namespace, _: Output) -> Steps:
    worker = WorkerConfig.from_file(arguments.worker_config)
    refused = RefusedKeys(worker, worker.cluster_group_id, worker.group_id)
    yield from _remove(refused, arguments, f"{arguments.worker_config.stem}.repair")


def _remove(deletion: GroupDeletion, arguments: argparse.Namespace, name: str) -> Steps:
    with ProgressLine() as progress:
        topics = deletion.look(progress, beside_workers=arguments.dry_run)
    members = _deletion_members(deletion, topics)
    due = any(topic.due for topic in topics.values())
    path = arguments.backup or new_backup_path(arguments.worker_config, name)
    if due or arguments.dry_run:
        aborted = deletion.stopped.aborted()
        refused = refused_of({kind: topic.seals for kind, topic in topics.items()})
        lines = _deletion_lines(deletion, topics, members)
        yield Preview(lines, members, "remove these?", aborted, refused, deletion.objections(topics, path))
    if not due:
        nothing = {"backup": None, "removed": 0, "others": 0, "others_wrote": 0}
        line = f"{deletion.stopped.shown}: nothing is left to be removed"
        yield Result({"dry_run": False, **members, **nothing}, [line])
        return
    with ProgressLine() as progress:
        done = deletion.write(path, progress)
    kept, wrote = count_others(done)
    removed = sum(len(topic.due) for topic in done.before.values())
    counts = {"backup": str(path), "removed": removed, "others": kept, "others_wrote": wrote}
    lines = [
        f"{deletion.stopped.shown}: {plural(removed, 'key')} removed; backup: {path}",
        f"checked: {plural(kept, 'key')} of other groups unchanged, {wrote:,} written by themselves meanwhile",
    ]
    yield Result({"dry_run": False, **members, **counts}, lines)


def _deletion_members(deletion: GroupDeletion, topics: _Topics) -> dict[str, Any]:
    return {
        "group": deletion.group,
        "topics": {
            topic_type.value: {"topic": topic.facts.topic, "keys": len(topic.keys), "to_remove": len(topic.due)}
            for topic_type, topic in topics.items()
        },
        "connectors": sorted({name for topic in topics.values() for name in topic.connectors}),
        "other_groups": len(next(iter(topics.values())).groups),
    }


def _deletion_lines(deletion: GroupDeletion, topics: _Topics, members: Mapping[str, Any]) -> list[str]:
    claims = Counter(claim for topic in topics.values() for claim in topic.claims.values() if claim)
    return [
        f"{deletion.what.format(deletion.stopped.shown)} is removed:",
        *(
            f"  {topic_type.value:6}  {topic.facts.topic}: {len(topic.due):,} of {plural(len(topic.keys), 'key')}"
            for topic_type, topic in topics.items()
        ),
        f"  connectors: {listed(map(repr, members['connectors'])) or 'none'}",
        *(f"  that claim to be sealed with key {claim}: {count:,}" for claim, count in claims.most_common(_SHOWN)),
        f"{plural(members['other_groups'], 'other group')} on these topics: not touched",
    ]


def _repair(noun: str, arguments: argparse.Namespace, _: Output) -> Steps:
    plans: Mapping[str, Plan] = {"order": plan_order, "values": plan_values}
    plan = plans.get(noun) or partial(plan_orphans, with_offsets=arguments.offsets)
    repair = Repair(WorkerConfig.from_file(arguments.worker_config), plan)
    with ProgressLine() as progress:
        seen = repair.look(progress, beside_workers=arguments.dry_run)
    mending = seen.mending
    members = _repair_members(repair, mending)
    path = arguments.backup or new_backup_path(arguments.worker_config, f"{arguments.worker_config.stem}.repair")
    if arguments.dry_run or mending.records:
        lines = _repair_lines(noun, repair, mending)
        aborted, refused = repair.stopped.aborted(), refused_of(seen.seals)
        yield Preview(lines, members, "write these?", aborted, refused, repair.objections(seen, path))
    if not mending.records:
        line = f"{shown_group(repair.worker.cluster_group_id)}: nothing to repair"
        yield Result({"dry_run": False, **members, "backup": None}, [line])
        return
    with ProgressLine() as progress:
        mending = repair.write(path, progress).before.mending
    lines = [
        f"{plural(len(mending.records), 'record')} written, and the topics replayed: it is as it should be",
        f"backup: {path}",
        "the workers may be started",
    ]
    yield Result({"dry_run": False, **_repair_members(repair, mending), "backup": str(path)}, lines)


def _repair_members(repair: Repair, mending: Mending) -> dict[str, Any]:
    counts = Counter(record.topic for record in mending.records)
    return {
        "group": repair.worker.cluster_group_id,
        "connectors": list(mending.connectors),
        "topics": {topic_type.value: topic for topic_type, topic in repair.stopped.topics.items()},
        "records": {topic_type.value: counts[topic] for topic_type, topic in repair.stopped.topics.items()},
    }


def _repair_lines(noun: str, repair: Repair, mending: Mending) -> list[str]:
    counts = Counter(record.topic for record in mending.records)
    verb = "removed" if noun == "orphans" else "written"
    lines = [f"group {shown_group(repair.worker.cluster_group_id)}: {plural(len(mending.connectors), 'connector')}"]
    lines += [f"  {named(mending.connectors)}"] if mending.connectors else []
    lines += [f"  {topic}: {plural(count, 'record')} to be {verb}" for topic, count in sorted(counts.items())]
    return [*lines, *([] if mending.records else ["  nothing to repair"])]


def _add_group(parser: Parser) -> None:
    parser.add_argument("group", metavar="ID", help=f"the cluster group; {PLAIN} is the cluster with plain keys")
    add_rewritten(
        parser, "worker file with these topics; for a sealed group and for plain keys that of the group itself"
    )


def _repairs(
    noun: str,
    text: str,
    does: str,
    *,
    last: Callable[[Parser], object] | None = None,
    run: Callable[[argparse.Namespace, Output], Steps] | None = None,
    check: str = "",
) -> Command:
    return Command(
        f"repair {noun}",
        run or partial(_repair, noun),
        text,
        about=f"{does}{_HOW}",
        examples=[
            f"connect-share check {check or noun} -w worker.properties",
            f"connect-share repair {noun} -w worker.properties --dry-run",
            f"connect-share repair {noun} -w worker.properties --backup before.avro --yes",
        ],
        options=partial(add_rewritten, text="worker file of the group"),
        changes="show what would be written, write nothing",
        last=last,
    )


COMMANDS: Final = [
    Command(
        "delete group",
        _delete_group,
        "remove all that a stopped group has on the topics, behind a backup",
        about="Write what a group has on the topics to a backup, remove it there, and check that no other group was\n"
        "touched. "
        "Workers of the group have to be stopped for good. A run that was killed is completed by the next one.",
        examples=[
            "connect-share delete group orders -w orders.properties --dry-run",
            "connect-share delete group orders -w orders.properties --backup /backups/orders.avro",
            "connect-share restore /backups/orders.avro -w orders.properties    # the way back",
        ],
        options=_add_group,
        changes="show what would be removed, write nothing",
    ),
    _repairs("order", "give connectors back the tasks that the order of their records took", _ORDER),
    _repairs(
        "orphans",
        "remove what is left of connectors that are gone",
        _ORPHANS,
        last=lambda parser: parser.add_argument(
            "--offsets", action="store_true", help="remove their source offsets, too"
        ),
    ),
    _repairs("values", "write configurations again that workers cannot use", _VALUES),
    _repairs(
        "refused", "remove what strangers wrote under keys of the group", _REFUSED, run=_repair_refused, check="sealing"
    ),
]
