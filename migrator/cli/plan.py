"""``survey``: facts as tables for people, or whole as JSON; ``plan``: ask the clusters, write the plan file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import RootModel

from connect_share.console.options import Parser, output_file
from connect_share.console.output import Output, ProgressLine, Result, Table
from connect_share.console.program import Command
from connect_share.errors import AlreadyAppliedError, ConfigError, PlanFileError, UsageError, command_line, listed
from connect_share.kafka.create import is_fenced
from connect_share.kafka.waits import ANSWER_S
from connect_share.model.records import TopicType, now_ms
from connect_share.transform.rules import PLAIN_KEYS
from connect_share.worker_config.worker import files_in_folders
from migrator.cli.options import add_files, plan_lines
from migrator.moves import Intent
from migrator.plan import load_model
from migrator.planner import make_plan
from migrator.run import manifest_path
from migrator.survey import GroupSurvey, MoveSurvey, Survey, TopicSurvey, survey

_NAMED_GROUPS: Final = 3


def _survey(arguments: argparse.Namespace, _: Output) -> Result:
    """Ask; 1 when something could not be asked, or a source's topic is not there."""
    files, destinations = files_in_folders(arguments.sources, arguments.destinations)
    with ProgressLine() as progress:
        found = survey(files, destinations, progress=progress)
    sources = {str(path.resolve()) for path in files}
    missing = [topic for topic in found.topics if not topic.exists and not sources.isdisjoint(topic.named_by)]
    lines = [*_lines(found), *(["", "NOT THERE"] if missing else [])]
    lines += [
        f"{topic.topic}: {topic.topic_type.value}.storage.topic of {', '.join(topic.named_by)}; check the name, and "
        "whether these are the brokers of that cluster"
        for topic in missing
    ]
    return Result(found.model_dump(mode="json"), lines, 1 if found.unanswered or missing else 0)


def _lines(found: Survey) -> Iterator[str | Table]:
    yield "TOPICS"
    yield Table(
        ("topic", "type", "partitions", "replicas", "offsets", "policy", "max.message.bytes", "in sync", "topic id"),
        [_topic_row(topic) for topic in found.topics],
    )
    yield from ("", "GROUPS")
    yield Table(
        ("group", "config topic", "side", "workers", "connectors", "tasks", "records", "bytes", "exactly once"),
        [_group_row(group) for group in found.groups],
    )
    if found.moves:
        yield from ("", "MOVES")
        yield Table(
            ("group.id", "becomes", "Kafka cluster", "largest record", "of at most", "already there", "workers there"),
            [_move_row(move) for move in found.moves],
        )
    notes = [*_topic_notes(found.topics), *_group_notes(found.groups), *_move_notes(found.moves), *_collisions(found)]
    if notes:
        yield from ("", "TO KNOW", *notes)
    if found.unanswered:
        yield from ("", "NOT ANSWERED", *found.unanswered)


def _topic_row(topic: TopicSurvey) -> tuple[object, ...]:
    if not topic.exists:
        return (topic.topic, topic.topic_type.value, "missing", *[None] * 6)
    offsets = sum(part.end - part.start for part in topic.partitions)
    return (
        topic.topic,
        topic.topic_type.value,
        len(topic.partitions),
        topic.replication_factor,
        f"{offsets:,}",
        topic.configs.get("cleanup.policy"),
        topic.configs.get("max.message.bytes"),
        topic.configs.get("min.insync.replicas"),
        topic.topic_id,
    )


def _workers(members: int | None) -> str:
    return "unknown: count as alive" if members is None else f"{members} alive" if members else "none"


def _group_row(group: GroupSurvey) -> tuple[object, ...]:
    return (
        group.group or PLAIN_KEYS,
        group.topics[TopicType.CONFIG],
        group.side,
        _workers(group.members),
        *((len(group.connectors), group.tasks) if group.connectors or not group.unopened else (None, None)),
        f"{group.records:,}",
        f"{group.bytes:,}",
        group.exactly_once,
    )


def _move_row(move: MoveSurvey) -> tuple[object, ...]:
    largest = max(move.largest.values(), key=lambda each: each.largest_bytes / each.limit_bytes, default=None)
    return (
        move.group_id,
        move.becomes or PLAIN_KEYS,
        {True: "another", False: "the same", None: None}[move.other_kafka_cluster],
        None if largest is None else f"{largest.largest_bytes:,}",
        None if largest is None else f"{largest.limit_bytes:,}",
        f"{move.records_at_destination:,} record(s)",
        _workers(move.members_at_destination),
    )


def _topic_notes(topics: Sequence[TopicSurvey]) -> Iterator[str]:
    for topic in topics:
        yield from (
            f"{topic.topic}[{part.partition}]: a transaction is open, committed records end at "
            f"{part.last_stable_offset} of {part.end}"
            for part in topic.partitions
            if part.transaction_open
        )
        if topic.illegal_keys:
            yield f"{topic.topic}: {topic.illegal_keys:,} record(s) whose key Connect does not write there"
        if topic.left_out_records:
            named = listed((group or PLAIN_KEYS for group in topic.left_out_groups), _NAMED_GROUPS)
            yield (
                f"{topic.topic}: {topic.left_out_records:,} record(s) were left out, of {named}: there are too many groups, "
                "or keys of one; give the worker files of those that are wanted with -w"
            )
        yield from (
            f"{group.group or PLAIN_KEYS} in {topic.topic}: {group.unreadable_headers:,} record(s) cannot be copied "
            f"completely: the name of a header is not UTF-8; the first is {group.first_unreadable}"
            for group in topic.groups
            if group.unreadable_headers
        )
        if topic.topic_type is TopicType.CONFIG and is_fenced(topic.configs):
            yield f"{topic.topic}: it is closed to workers, as the old side of a move"
        elif topic.configs.get("cleanup.policy", "compact") != "compact":
            yield f"{topic.topic}: cleanup.policy is not compact, records may be lost by age or size"
        if topic.configs.get("message.timestamp.type") == "LogAppendTime":
            yield f"{topic.topic}: records get the time of the write (message.timestamp.type)"


def _group_notes(groups: Sequence[GroupSurvey]) -> Iterator[str]:
    for group in groups:
        whose = f"{group.group or PLAIN_KEYS} in {group.topics[TopicType.CONFIG]}"
        if group.unparseable:
            yield f"{whose}: {group.unparseable:,} record(s) that Connect cannot read"
        if group.unopened:
            end = "others wrote them, or a key is missing" if group.connectors else "its connectors are not known"
            yield f"{whose}: {group.unopened:,} key(s) have sealed values, and no worker file here has their keys: {end}"
        elif group.refused:
            yield f"{whose}: {group.refused:,} record(s) that its workers refuse; a move leaves them behind"
        for text, names in (
            ("an offsets topic of their own", [c.name for c in group.connectors if c.own_offsets_topic]),
            ("tasks that Connect does not see, put in order by --mode state", _in(group, "heals")),
            ("missing task configurations, which workers will make again", _in(group, "leaves_without_tasks")),
            (
                "tasks counted for exactly-once fencing",
                [c.name for c in group.connectors if c.fenced_tasks is not None],
            ),
        ):
            if names:
                yield f"{whose}: {len(names)} connector(s) have {text}: {', '.join(map(repr, names))}"
        if group.secrets or group.secrets_in_tasks:
            places = ", ".join(f"{each.connector!r} {each.property}" for each in group.secrets)
            yield (
                f"{whose}: {len(group.secrets)} secret(s) in clear text in connectors ({places or 'none'}), "
                f"{group.secrets_in_tasks} in tasks; every reader of the topic can see them"
            )
        if group.two_clusters is not None:
            yield group.two_clusters
        if group.group is None and len(group.group_ids) > 1:
            yield from (
                f"{whose}: {connector.name!r} was run by {', '.join(connector.worker_ids) or 'unknown workers'}"
                for connector in group.connectors
            )


def _in(group: GroupSurvey, state_mode: str) -> list[str]:
    return [connector.name for connector in group.connectors if connector.state_mode == state_mode]


def _move_notes(moves: Sequence[MoveSurvey]) -> Iterator[str]:
    for move in moves:
        if move.illegal_id:
            yield f"{move.group_id} becomes {move.becomes}, which cannot be a key prefix: choose another group.id"
        yield from (
            f"{move.group_id}: its largest {topic_type.value} record would have {size.largest_bytes:,} bytes, the "
            f"destination takes {size.limit_bytes:,}"
            for topic_type, size in move.largest.items()
            if not size.fits
        )


def _collisions(found: Survey) -> list[str]:
    return [
        f"connector {each.connector!r} is in {', '.join(each.groups)}"
        + (
            f"; {each.sinks} of them sinks: they share the consumer group connect-{each.connector}"
            if each.sinks > 1
            else ""
        )
        for each in found.collisions
    ]


SURVEY: Final = Command(
    "survey",
    _survey,
    examples=[
        "connect-share-migrate survey -w orders.properties billing.properties",
        "connect-share-migrate survey -w orders.properties --to-worker-config orders-shared.properties --output json",
    ],
    options=partial(add_files, destination_required=False),
    timeout_s=ANSWER_S,
)


_ASSIGNMENT: Final = 'assignment {"group.id": ["connector", ...]}'
_Assignment = RootModel[dict[str, tuple[str, ...]]]


def _plan(arguments: argparse.Namespace, _: Output) -> Result:
    if arguments.plan is None and not arguments.dry_run:
        raise UsageError("plan needs -o PLAN, the file to write, or --dry-run")
    if arguments.plan is not None and manifest_path(arguments.plan).exists():
        raise AlreadyAppliedError(
            f"{arguments.plan} was applied, its manifest is beside it: give the new plan another name"
        )
    sources, destinations = files_in_folders(arguments.sources, arguments.destinations)
    with ProgressLine() as progress:
        intent = Intent(
            job=arguments.job,
            assign=arguments.assign and _read_assignment(arguments.assign),
            merge=arguments.merge,
            mode=arguments.mode,
            follow=arguments.follow,
        )
        plan = make_plan(sources, destinations, now_ms=now_ms(), intent=intent, progress=progress)
    file = None if arguments.dry_run else str(arguments.plan)
    lines = [*plan_lines(plan)]
    if file is not None:
        plan.save(arguments.plan)
        follow = ["--follow"] if plan.follow else []
        lines += ["", f"written to {file}; next: {command_line('connect-share-migrate', 'apply', file, *follow)}"]
    return Result({"file": file, "plan": plan.model_dump(mode="json")}, lines)


def _read_assignment(path: Path) -> dict[str, tuple[str, ...]]:
    try:
        return load_model(_Assignment, path, _ASSIGNMENT).root
    except PlanFileError as error:
        raise ConfigError(str(error)) from error


def _add_options(parser: Parser) -> None:
    add_files(parser)
    parser.add_argument("-o", "--plan", dest="plan", metavar="PLAN", type=output_file, help="the plan file to write")
    parser.add_argument("--job", metavar="NAME", help="move this connector only, to the destination file's group")
    parser.add_argument(
        "--assign",
        metavar="FILE",
        type=Path,
        help='for clusters that share plain keys by accident: JSON, {"group.id": ["connector", ...], ...}',
    )
    parser.add_argument("--merge", action="store_true", help="let several sources become one group")
    parser.refuse("--assign --merge", beside="--job")  # which says all: one connector, and of one source
    parser.add_argument(
        "--mode",
        choices=("mirror", "state"),
        default="mirror",
        help="mirror: record for record; state: the current state only, in Connect's own order",
    )
    parser.add_argument("--follow", action="store_true", help="the sources' workers may be alive until the cut-over")
    parser.refuse("--follow", beside="--mode state")  # a folded state has no order to follow
    parser.add_argument("--dry-run", action="store_true", help="show the plan, write no file")


COMMANDS: Final = [
    SURVEY,
    Command(
        "plan",
        _plan,
        examples=[
            "connect-share-migrate plan -w orders.properties --to-worker-config orders-shared.properties -o move.json",
            "connect-share-migrate plan -w orders.properties --to-worker-config shared.properties --job my.conn -o job.json",
            "connect-share-migrate plan -w /etc/connect --to-worker-config /etc/connect-shared -o all.json --dry-run",
        ],
        options=_add_options,
        timeout_s=ANSWER_S,
    ),
]
