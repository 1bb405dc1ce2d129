"""The texts of a plan: warnings, the steps of the whole move, and refusals of what is unclear; no value is shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from connect_share.checks.finding import Finding, Severity
from connect_share.checks.worker_file import CLIENT_KINDS, INTERCEPTORS, check_properties, class_names, with_remedy
from connect_share.errors import PlanRejectedError
from connect_share.jar import INTERCEPTOR_CLASS
from connect_share.kafka.facts import TopicFacts, read_records
from connect_share.model.keys import split_key
from connect_share.model.records import TopicType
from connect_share.worker_config import SHARING_PROPERTY, Isolation, WorkerConfig, load_worker_file
from migrator.moves import Intent, PlannedMove
from migrator.plan import Destination, PlanStep, named_connectors

_SHOWN_GROUPS: Final = 3


def check_sharing_lines(files: Iterable[Path]) -> list[str]:
    """Check worker files without asking a broker. Returns warnings.

    Raises:
        PlanRejectedError: a file has the interceptor, but does not say whether sharing is on.
    """
    warnings = []
    for path in dict.fromkeys(files):
        properties = load_worker_file(path)
        checked = check_properties(properties)
        errors = [finding for finding in checked.findings if finding.severity is Severity.ERROR]
        if checked.sharing_enabled:
            warnings += [
                f"{path}: {with_remedy(finding)} (Java workers need it; a Python runtime does not)"
                for finding in errors
            ]
        elif not properties.get(SHARING_PROPERTY, "").strip() and _has_interceptor(properties):
            (missing,) = _about_sharing(errors)
            raise PlanRejectedError(
                f"{path} has the interceptor, but {with_remedy(missing)}; if its workers are not to share, say "
                f"{SHARING_PROPERTY}=disabled"
            )
    return warnings


def warn_about_shared_topics(path: Path, worker: WorkerConfig, config_topic: TopicFacts | None) -> list[str]:
    """Return a warning if a file without sharing names a topic in which other groups have prefixes."""
    if worker.sharing_enabled or config_topic is None:
        return []
    groups: dict[str, None] = {}
    for record in read_records(worker, config_topic.ranges(), Isolation.READ_UNCOMMITTED):
        owner = None if record.key is None else split_key(TopicType.CONFIG, record.key)
        if owner is not None and owner[0] is not None:
            groups[str(owner[0])] = None
            if len(groups) > _SHOWN_GROUPS:
                break
    if not groups:
        return []
    names = [*list(groups)[:_SHOWN_GROUPS], *(["others"] if len(groups) > _SHOWN_GROUPS else [])]
    findings = _about_sharing(check_properties(load_worker_file(path)).findings)
    return [
        f"{path}: {with_remedy(finding)}, unless this is to be the one cluster with plain keys in {config_topic.topic}, "
        f"where {', '.join(names)} share under their prefixes"
        for finding in findings
    ]


def _about_sharing(findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.property_name == SHARING_PROPERTY]


def _has_interceptor(properties: dict[str, str]) -> bool:
    names = (INTERCEPTORS, *(f"{kind}.{INTERCEPTORS}" for kind in CLIENT_KINDS))
    return any(INTERCEPTOR_CLASS in class_names(properties.get(name, "")) for name in names)


OWN_OFFSETS_TOPIC: Final = "offsets.storage.topic"


def warn_about(moves: Sequence[PlannedMove], destination_cluster: str | None, mode: str) -> list[str]:
    """Return warnings about the sources; refuse a move after which connectors would read everything again.

    Raises:
        PlanRejectedError: connectors have an offsets topic of their own and go to another Kafka cluster.
    """
    warnings = [warning for move in moves for warning in _warn_about_one(move, destination_cluster, mode)]
    owners: dict[str, list[str]] = {}
    for move in moves:
        for name in move.connectors():
            owners.setdefault(name, []).append(move.source.group_id)
    warnings += [
        f"connector {name!r} exists in {', '.join(groups)}: if it is a sink on the same Kafka cluster, both use "
        f"the consumer group connect-{name}"
        for name, groups in sorted(owners.items())
        if len(groups) > 1
    ]
    warnings += [
        f"{move.source_file}: none of its records would be moved; are these the topics of this cluster?"
        for move in moves
        if not move.has_records()
    ]
    return warnings


def _warn_about_one(move: PlannedMove, destination_cluster: str | None, mode: str) -> list[str]:
    warnings: list[str] = []
    state = move.state
    connectors = move.connectors()
    if state is not None:
        own = [name for name in connectors if (state.connector_config(name) or {}).get(OWN_OFFSETS_TOPIC)]
        if own and move.kafka_cluster_id != destination_cluster:
            raise PlanRejectedError(
                f"{len(own)} connector(s) of {move.source.group_id} have an offsets topic of their own "
                f"({', '.join(map(repr, own))}), which is not moved to the other Kafka cluster: they would read "
                "everything again; mirror those topics first and leave these connectors out"
            )
        if own:
            warnings.append(f"{', '.join(map(repr, own))}: offsets are in a topic of their own, which stays as it is")
        inconsistent = sorted(state.inconsistent_connectors() & set(connectors))
        if inconsistent:
            warnings.append(
                f"{', '.join(map(repr, inconsistent))}: task configs are inconsistent at the source already; "
                + (
                    "where the topic still holds all of them they are put in order"
                    if mode == "state"
                    else "workers may run it without tasks until it is configured again; --mode state heals it"
                )
            )
    if move.sealed_as_is:
        warnings.append(
            f"{move.source.group_id}: sealed values are copied as they are; they open with the same keys only, and "
            "what is in them is not known here"
        )
    elif move.sealing.keys is not None and move.destination_sealing.keys is None:
        warnings.append(
            f"{move.source.group_id}: its values are sealed, and {move.destination_file} has no keys: the copies are plain, "
            "and whoever reads the destination's topics reads them"
        )
    if move.kafka_cluster_id != destination_cluster:
        warnings.append(
            f"{move.source.group_id} goes to another Kafka cluster: consumer groups of its sink connectors are "
            "not in these topics and have to be moved separately"
        )
    if move.destination_group_id != move.source.group_id:
        warnings.append(
            f"{move.source.group_id} becomes {move.destination_group_id}: transactional ids of exactly-once connectors "
            "change with the group, so new workers do not fence old ones: make sure that the old ones never start again"
        )
    return warnings


def refuse_unclear(moves: Sequence[PlannedMove], intent: Intent) -> list[str]:
    """Refuse a job or an assignment that names no connector, or one of two. Returns warnings.

    Raises:
        PlanRejectedError: it says which connectors.
    """
    if intent.job is not None:
        return _refuse_unclear_job(moves, intent.job)
    warnings: list[str] = []
    if intent.assign is not None:
        warnings += _refuse_unassigned(moves)
    if intent.merge:
        owners: dict[tuple[str, str], list[str]] = {}
        for move in moves:
            for name in move.connectors_seen - {""}:  # the name in a group's marker
                owners.setdefault((move.becomes, name), []).append(move.source.group_id)
        twice = sorted((name, groups) for (_, name), groups in owners.items() if len(groups) > 1)
        if twice:
            name, groups = twice[0]
            raise PlanRejectedError(
                f"{len(twice)} connector(s) have records in several of the sources to be merged, such as {name!r} in "
                f"{', '.join(groups)}: one would overwrite the other; delete or rename it in all but one, or move the "
                "others connector by connector with --job"
            )
    return warnings


def _refuse_unclear_job(moves: Sequence[PlannedMove], job: str) -> list[str]:
    having = [move for move in moves if move.has_records()]
    if len(having) > 1:
        raise PlanRejectedError(
            f"connector {job!r} exists in {', '.join(move.source.group_id for move in having)}: name one source only"
        )
    if not having:
        raise PlanRejectedError(
            f"none of the sources has a record of connector {job!r}: names are exact, dots, dashes and case included"
        )
    if job not in having[0].connectors():
        return [f"connector {job!r} has no configuration any more: only what is left of it is moved"]
    return []


def _refuse_unassigned(moves: Sequence[PlannedMove]) -> list[str]:
    assigned = {name for move in moves for name in move.only_connectors or ()}
    unassigned = sorted({name for move in moves for name in move.all_connectors()} - assigned)
    if unassigned:
        raise PlanRejectedError(
            f"{len(unassigned)} connector(s) are in no group of the assignment: {', '.join(map(repr, unassigned))}; "
            "give each to one group"
        )
    return [
        f"{move.source.group_id}: {name!r} is assigned to it but has no record in its topics"
        for move in moves
        for name in sorted((move.only_connectors or frozenset()) - move.connectors_seen)
    ]


def steps_of(moves: Sequence[PlannedMove], destination: Destination, intent: Intent) -> tuple[PlanStep, ...]:
    """Return who does what, in order, from here to workers that run on the destination."""
    sources, groups = ([*dict.fromkeys(each)] for each in _groups_of(moves))
    new = [group for group in groups if group not in sources]
    steps = []
    if not intent.follow:
        steps.append(_stop([*sources, *new]))
    elif new:
        steps.append(_stop(new))
    steps.append(_tool("apply: check that nothing changed since this plan was made, back up what is read and replaced"))
    create = [topic.topic for topic in destination.topics.values() if topic.create]
    if create:
        steps.append(_tool(f"apply: create {', '.join(create)} with the settings of connect-share create topics"))
    what = "the folded state" if intent.mode == "state" else "the records"
    for move in moves:
        whose = what if move.only_connectors is None else f"{what} of {named_connectors(move.only_connectors)}"
        steps.append(_tool(f"apply: copy {whose} of {move.source.group_id} as {_keys_of(move)}"))
    if intent.follow:
        steps.append(_tool("apply --follow: mirror what the workers write meanwhile, showing how far it is behind"))
        steps.append(_stop(sources))
    steps.append(_tool("verify: fold both sides and compare the states"))
    steps.append(_tool(f"cutover: copy what is left, verify, {_end_of(moves, destination)}"))
    sharing = "with sharing enabled" if moves[0].group is not None else "with sharing disabled"
    steps.append(_you(f"start the workers of {', '.join(groups)} on the destination's topics, {sharing}"))
    return tuple(steps)


def _groups_of(moves: Sequence[PlannedMove]) -> tuple[list[str], list[str]]:
    return [move.source.group_id for move in moves], [move.destination_group_id for move in moves]


def _end_of(moves: Sequence[PlannedMove], destination: Destination) -> str:
    """Return what is done to the old side; ``migrator.moved_source.default_how`` decides on the same."""
    exactly_once = [move.source.group_id for move in moves if move.source.exactly_once_source_support != "disabled"]
    fence = f"fence the producers of {', '.join(dict.fromkeys(exactly_once))}, and " if exactly_once else "and "
    topics = {topic_type: topic.topic for topic_type, topic in destination.topics.items()}
    if any(
        move.kafka_cluster_id == destination.kafka_cluster_id and move.source.topic(topic_type) == topic
        for move in moves
        for topic_type, topic in topics.items()
    ):
        return f"{fence}remove the originals, which are in the same topics as their copies"
    return f"{fence}seal the source, so that a worker that is started there by mistake runs nothing"


def _keys_of(move: PlannedMove) -> str:
    return "plain keys" if move.group is None else f"keys under the prefix {move.group}."


def _stop(groups: Sequence[str]) -> PlanStep:
    return _you(f"stop all workers of {', '.join(groups)} and keep them stopped")


def _you(what: str) -> PlanStep:
    return PlanStep(who="operator", what=what)


def _tool(what: str) -> PlanStep:
    return PlanStep(who="connect-share-migrate", what=what)
