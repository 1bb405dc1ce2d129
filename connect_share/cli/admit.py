"""``admit``: may a new group join these topics? A gate for a pipeline, before the group's first worker starts."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from connect_share.checks import admission, secrets, sizes, transactions
from connect_share.checks import rights as check_rights
from connect_share.checks import worker_config as check_worker_config
from connect_share.checks.admission import NewGroup, StartupEffect
from connect_share.checks.finding import Finding, Severity, add_ignore, exit_code, findings_result, of_group, wanted
from connect_share.checks.sealing import sealed_groups
from connect_share.checks.sources import CheckSources, GroupState
from connect_share.console.options import Parser, add_runtime, add_worker_file, for_java, seconds, worker_file
from connect_share.console.output import Output, Result, plural
from connect_share.console.program import Command
from connect_share.errors import AuthorizationError, InvalidClusterGroupIdError, command_line
from connect_share.model.records import TopicType
from connect_share.sealing.cipher import SEALED_BYTES
from connect_share.worker_config import SHARING_PROPERTY, Isolation


def _admit(arguments: argparse.Namespace, out: Output) -> Result:
    try:
        sources = CheckSources.of_file(arguments.worker_config, out, java=for_java(arguments))
    except InvalidClusterGroupIdError as error:
        return _result(arguments, [_illegal(arguments.worker_config, error)], {})
    worker = sources.topic_set.worker
    if worker is None or worker.cluster_group_id is None:
        return _result(arguments, [_not_shared(arguments.worker_config)], {})
    source = None if arguments.source is None else CheckSources.of_file(arguments.source, out)
    moves: GroupState | None = None  # nor if it has no records yet
    if source is not None:
        moves = next((each for each in source.state.groups if (each.group,) == source.topic_set.worker_group), None)
    new = NewGroup(
        group=worker.cluster_group_id,
        members=len(sources.members.get(worker.group_id, ())),
        exactly_once=worker.uses_transactional_leader,
        sealed=worker.keys_in_use is not None,
        moves=moves,
    )
    where = ", ".join(sources.topic_set.topics.values())
    added = len(new.group.prefix) + (SEALED_BYTES if new.sealed else 0)
    effect = _effect(sources, source, added)
    findings = [
        *admission.find(new, sources.state, sealed_groups(sources.contents)),
        *_of_file(sources),
        *_open_transactions(sources),
        *_rights(sources, out),
        *(_brought(sources, source, moves, added) if source is not None else ()),
        *admission.find_slow(effect, arguments.limit, where),
    ]
    members = {
        "group": new.group,
        "topics": {topic_type.value: topic for topic_type, topic in sources.topic_set.topics.items()},
        "groups_there": len(sources.state.groups),
        "startup": asdict(effect),
    }
    return _result(arguments, sources.with_file(findings), members)


def _of_file(sources: CheckSources) -> Iterator[Finding]:
    """Check the file; its errors are warnings here: another runtime than Java's may use it."""
    for finding in check_worker_config.CHECK.find(sources):
        yield replace(finding, severity=Severity.WARNING) if finding.severity is Severity.ERROR else finding


def _effect(sources: CheckSources, source: CheckSources | None, added: int) -> StartupEffect:
    own, topics = (None, {}) if source is None else (source.topic_set.worker_group, source.profile.topics)
    counts = [count for topic in topics.values() for (owner, _), count in topic.counts().items() if (owner,) == own]
    records = sum(count.records for count in counts)
    return admission.startup_effect(sources.profile, records, sum(count.bytes for count in counts) + added * records)


def _open_transactions(sources: CheckSources) -> Iterator[Finding]:
    worker = sources.topic_set.worker
    if worker and worker.isolation(TopicType.CONFIG) is Isolation.READ_COMMITTED:  # else its workers wait for none
        yield from transactions.find(sources.open_transactions(), sources.topic_set.settings, sources.now_ms)


def _rights(sources: CheckSources, out: Output) -> list[Finding]:
    try:
        return check_rights.findings_of(sources.topic_set, ("worker",))[0]
    except AuthorizationError as error:
        out.note(f"rights were not checked: {error}")
        return []


def _brought(sources: CheckSources, source: CheckSources, moves: GroupState | None, added: int) -> Iterator[Finding]:
    """Check what the group brings from other topics."""
    if moves is None:
        return
    yield from of_group(moves.group, secrets.find(source.topic_set.topics[TopicType.CONFIG], moves))
    for topic_type, topic in source.profile.topics.items():
        at_destination = replace(topic, configs=sources.profile.topics[topic_type].configs)
        yield from sizes.large(at_destination, sources.request_size, groups=(moves.group,), added=added)


def _illegal(file: Path, error: InvalidClusterGroupIdError) -> Finding:
    return Finding(
        "admit-id-illegal",
        Severity.ERROR,
        str(file),
        str(error),
        "its keys could be read in two ways: as its own, and as those of another group or of a plain cluster",
        "choose another group.id",
    )


def _not_shared(file: Path) -> Finding:
    return Finding(
        "admit-not-shared",
        Severity.ERROR,
        str(file),
        f"{SHARING_PROPERTY} is not enabled",
        "its workers would write keys without a prefix, as a second cluster with plain keys would",
        f"add {SHARING_PROPERTY}=enabled, and what check worker-config says",
        command_line("connect-share", "check", "worker-config", "-w", file),
    )


def _result(arguments: argparse.Namespace, findings: list[Finding], members: dict[str, Any]) -> Result:
    found = wanted(findings, arguments.ignore)
    admitted = exit_code(found) == 0
    there = f" beside {plural(members['groups_there'], 'group')}" if "groups_there" in members else ""
    verdict = f"{arguments.worker_config}: {'may join' if admitted else 'may not join'}{there}"
    return findings_result(found, verdict, {**members, "admitted": admitted})


def _add_options(parser: Parser) -> None:
    add_worker_file(parser, "worker file of the new group")
    parser.add_argument(
        "--from",
        dest="source",
        metavar="FILE",
        type=worker_file,
        help="worker file of the cluster as it is now, on other topics: its secrets, sizes and records are checked, too",
    )
    parser.add_argument("--limit", metavar="SECONDS", type=seconds, help="longest start that is fine; none by default")
    add_ignore(parser)
    add_runtime(parser)


COMMANDS: Final = [
    Command(
        "admit",
        _admit,
        about="Check the worker file of a new group against the shared topics it names, before its first worker "
        "starts: its id beside those that are there, the file itself, exactly-once, sealing, rights, sizes, and what it does "
        "to the starts of all groups. Reads only; exit code 1 if a finding is an error.",
        examples=[
            "connect-share admit -w new-group.properties",
            "connect-share admit -w new-group.properties --from old-cluster.properties --limit 10 --output json",
        ],
        options=_add_options,
    )
]
