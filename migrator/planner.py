"""Making a plan: ask the cluster for facts, refuse what is not safe or not clear, write down the rest, steps and warnings.

No value is shown.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from connect_share.checks.finding import Finding, Severity
from connect_share.checks.worker_file import INTERCEPTOR_PROPERTIES, check_properties, class_names, with_remedy
from connect_share.errors import AuthorizationError, ConfigError, PlanRejectedError, listed
from connect_share.files import SILENT, Progress, counted
from connect_share.jar import INTERCEPTOR_CLASS
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import to_whole_record
from connect_share.kafka.create import FENCE_TEXT, OLD_TOPICS, check_partition_count, require_none_lost, topic_spec
from connect_share.kafka.facts import (
    TopicFacts,
    admin_of,
    check_destination,
    count_aborted,
    read_facts,
    read_messages,
    require_keys_of,
    require_no_live_workers,
    require_no_open_transaction,
    require_some_plain,
    require_topic,
)
from connect_share.kafka.limits import TopicLimits
from connect_share.kafka.shared_set import plan_topics
from connect_share.kafka.write_access import TopicNeed, require_access
from connect_share.model.records import TopicType, size_of
from connect_share.replay import replay_config
from connect_share.sealing.cipher import SEALED_BYTES
from connect_share.transform.counter import RecordCounter
from connect_share.transform.rules import SkipReason
from connect_share.transform.sealed import Opener
from connect_share.worker_config import SHARING_PROPERTY, load_worker_file
from connect_share.worker_config.override_policy import OWN_TOPIC_PROPERTY, is_sink, sink_group_id
from migrator.checks import LivingKeys, extent_of, refuse_present, require_same_cluster
from migrator.moves import NO_INTENT, Intent, PlannedMove, pair, refuse_same_topics
from migrator.plan import (
    Destination,
    DestinationTopic,
    MigrationPlan,
    PlannedPartition,
    PlanStep,
    SourceTopic,
    named_connectors,
    plan_fingerprint,
)
from migrator.run import PlannedSource, plan_command
from migrator.topic_fence import fence_at, fences_of, use_of

_SHOWN_GROUPS: Final = 3


def check_sharing_lines(files: Iterable[Path]) -> list[str]:
    """Check worker files without asking a broker, or raise ``PlanRejectedError``. Returns warnings."""
    warnings = []
    for path in dict.fromkeys(files):
        properties = load_worker_file(path)
        classes = [class_names(properties.get(name, "")) for name in INTERCEPTOR_PROPERTIES]
        checked = check_properties(properties)
        errors = [finding for finding in checked.findings if finding.severity is Severity.ERROR]
        if checked.sharing_enabled:
            warnings += [
                f"{path}: {with_remedy(finding)} (Java workers need it; a Python runtime does not)"
                for finding in errors
            ]
        elif any(INTERCEPTOR_CLASS in each for each in classes) and not properties.get(SHARING_PROPERTY, "").strip():
            (missing,) = _about_sharing(errors)
            raise PlanRejectedError(
                f"{path} has the interceptor, but {with_remedy(missing)}; if its workers are not to share, say "
                f"{SHARING_PROPERTY}=disabled"
            )
    return warnings


def warn_about_shared_topics(move: PlannedMove, spaces: Iterable[str | None]) -> list[str]:
    """Return a warning if a file without sharing names a config topic on which groups have prefixes."""
    path, groups = move.plan.destination_worker_config_file, [each for each in spaces if each is not None]
    if move.destination.sharing_enabled or not groups:
        return []
    findings = _about_sharing(check_properties(load_worker_file(path)).findings)
    return [
        f"{path}: {with_remedy(finding)}, unless this is to be the one cluster with plain keys in "
        f"{move.destination.topic(TopicType.CONFIG)}, where {listed(groups, _SHOWN_GROUPS)} share under their prefixes"
        for finding in findings
    ]


def _about_sharing(findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.property_name == SHARING_PROPERTY]


_MOST_NAMED: Final = 100


def warn_about(moves: Sequence[PlannedMove], mode: str) -> list[str]:
    """Return warnings about the sources; refuse a move after which connectors would read everything again."""
    warnings = [warning for move in moves for warning in _warn_about_one(move, mode)]
    owners: dict[str, list[str]] = {}
    for move in moves:
        for name in move.connectors():
            owners.setdefault(name, []).append(move.plan.group_id)
    warnings += [
        f"connector {name!r} exists in {', '.join(groups)}: if it is a sink on the same Kafka cluster, both use "
        f"the consumer group connect-{name}"
        for name, groups in sorted(owners.items())
        if len(groups) > 1
    ]
    warnings += [
        f"{move.plan.worker_config_file}: none of its records would be moved; are these the topics of this cluster?"
        for move in moves
        if not move.has_records()
    ]
    return warnings


def _warn_about_one(move: PlannedMove, mode: str) -> Iterator[str]:
    state, group_id = move.state, move.plan.group_id
    connectors = move.connectors()
    if state is not None:
        own = [name for name in connectors if (state.connector_config(name) or {}).get(OWN_TOPIC_PROPERTY)]
        if own and not move.stays_on_cluster:
            raise PlanRejectedError(
                f"{len(own)} connector(s) of {group_id} have an offsets topic of their own "
                f"({', '.join(map(repr, own))}), which is not moved to the other Kafka cluster: they would read "
                "everything again; mirror those topics first and leave these connectors out"
            )
        if own:
            yield f"{', '.join(map(repr, own))}: offsets are in a topic of their own, which stays as it is"
        inconsistent = sorted(state.inconsistent_connectors() & set(connectors))
        if inconsistent:
            yield (
                f"{', '.join(map(repr, inconsistent))}: task configs are inconsistent at the source already; "
                + (
                    "where the topic still holds all of them they are put in order"
                    if mode == "state"
                    else "workers may run it without tasks until it is configured again; --mode state heals it"
                )
            )
    if move.plan.sealed_as_is:
        yield (
            f"{group_id}: sealed values are copied as they are; they open with the same keys only, and "
            "what is in them is not known here"
        )
    elif move.sealing.keys is not None and move.destination_sealing.keys is None:
        yield (
            f"{group_id}: its values are sealed, and {move.plan.destination_worker_config_file} has no keys: the copies are "
            "plain, and whoever reads the destination's topics reads them"
        )
    if not move.stays_on_cluster:
        configs = {} if state is None else {name: state.connector_config(name) or {} for name in connectors}
        groups = [sink_group_id(name, config) for name, config in configs.items() if is_sink(config)]
        yield (
            f"{group_id} goes to another Kafka cluster: committed offsets of its sinks are not in these topics, "
            "and there the same number is another record. Before its sinks start there, set their consumer groups by time "
            f"({move.destination.admin_settings().setting_by_time()}): {listed(groups, _MOST_NAMED) or 'none is known'}"
        )
    if move.new_group_id != group_id:
        yield (
            f"{group_id} becomes {move.new_group_id}: transactional ids of exactly-once connectors "
            "change with the group, so new workers do not fence old ones: make sure that the old ones never start again"
        )


def refuse_unclear(moves: Sequence[PlannedMove], intent: Intent) -> list[str]:
    """Refuse a job or an assignment that names no connector, or one of two (``PlanRejectedError``). Returns warnings."""
    if intent.job is not None:
        return _refuse_unclear_job(moves, intent.job)
    warnings = [] if intent.assign is None else _refuse_unassigned(moves)
    if intent.merge:
        owners: dict[tuple[str, str], list[str]] = {}
        for move in moves:
            for name in move.connectors_seen - {""}:  # the name in a group's marker
                owners.setdefault((move.plan.becomes, name), []).append(move.plan.group_id)
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
            f"connector {job!r} exists in {', '.join(move.plan.group_id for move in having)}: name one source only"
        )
    if not having:
        raise PlanRejectedError(
            f"none of the sources has a record of connector {job!r}: names are exact, dots, dashes and case included"
        )
    (move,) = having
    if move.all_connectors() - {job} and move.keeps_its_members:
        raise PlanRejectedError(
            f"connector {job!r} leaves {move.plan.group_id}, whose other connectors stay, and its new workers would have "
            "the same group.id on the same Kafka cluster: both would be one Kafka group, and neither would run anything. "
            f"Give {move.plan.destination_worker_config_file} another group.id, or move the whole group, without --job"
        )
    if job not in move.connectors():
        return [f"connector {job!r} has no configuration any more: only what is left of it is moved"]
    return []


def _refuse_unassigned(moves: Sequence[PlannedMove]) -> list[str]:
    assigned = {name for move in moves for name in move.plan.only_connectors or ()}
    unassigned = sorted({name for move in moves for name in move.all_connectors()} - assigned)
    if unassigned:
        raise PlanRejectedError(
            f"{len(unassigned)} connector(s) are in no group of the assignment: {', '.join(map(repr, unassigned))}; "
            "give each to one group"
        )
    return [
        f"{move.plan.group_id}: {name!r} is assigned to it but has no record in its topics"
        for move in moves
        for name in sorted({*(move.plan.only_connectors or ())} - move.connectors_seen)
    ]


def steps_of(sources: Sequence[PlannedSource], plan: MigrationPlan) -> Iterator[PlanStep]:
    """Yield who does what, in order, from here to workers that run on the destination."""
    old = [*dict.fromkeys(source.plan.group_id for source in sources)]
    groups = [*dict.fromkeys(source.new_group_id for source in sources)]
    new = [group for group in groups if group not in old]
    if not plan.follow:
        yield _stop([*old, *new])
    elif new:
        yield _stop(new)
    yield _tool("apply: check that nothing changed since this plan was made")
    if create := [topic.topic for topic in plan.destination.topics.values() if topic.create]:
        yield _tool(f"apply: create {', '.join(create)} with the settings of create topics")
    yield _tool("apply: back up what is read and replaced")
    what = "the folded state" if plan.mode == "state" else "the records"
    for source in plan.sources:
        whose = what if source.only_connectors is None else f"{what} of {named_connectors(source.only_connectors)}"
        keys = "plain keys" if source.new_space is None else f"keys under the prefix {source.new_space}."
        yield _tool(f"apply: copy {whose} of {source.group_id} as {keys}")
    if plan.follow:
        yield _tool("apply --follow: mirror what the workers write meanwhile, showing how far it is behind")
        yield _stop(old)
    yield _tool("verify: fold both sides and compare the states")
    yield _tool(f"cutover: copy what is left, verify, {_end_of(sources, plan)}")
    sharing = "with sharing enabled" if plan.sources[0].new_space is not None else "with sharing disabled"
    yield _you(f"start the workers of {', '.join(groups)} on the destination's topics, {sharing}")
    if plan.leaves_topics:
        yield _you(OLD_TOPICS)


def _end_of(sources: Sequence[PlannedSource], plan: MigrationPlan) -> str:
    """Return what is done to the old side."""
    exactly_once = [each.plan.group_id for each in sources if each.worker.exactly_once_source_support != "disabled"]
    fence = f"fence the producers of {', '.join(dict.fromkeys(exactly_once))}, and " if exactly_once else "and "
    if plan.is_in_place:
        return f"{fence}remove the originals, which are in the same topics as their copies"
    return f"{fence}seal the source, so that a worker that is started there by mistake runs nothing"


def _stop(groups: Sequence[str]) -> PlanStep:
    return _you(f"stop all workers of {', '.join(groups)} and keep them stopped")


def _you(what: str) -> PlanStep:
    return PlanStep(who="operator", what=what)


def _tool(what: str) -> PlanStep:
    return PlanStep(who="connect-share-migrate", what=what)


# On dedicated topics nothing of this kind is expected. On shared ones prefixed and plain keys of others are.
_EXPECTED_WHEN_SHARED: Final = (SkipReason.NOT_A_LEGAL_KEY, SkipReason.ALREADY_PREFIXED)
_WARNED_REASONS: Final = (SkipReason.NO_KEY, *_EXPECTED_WHEN_SHARED, SkipReason.REFUSED, SkipReason.ABORTED)


def _plan_destination(admin: Admin, move: PlannedMove) -> tuple[Destination, dict[TopicType, TopicFacts], list[str]]:
    worker = move.destination
    there = require_none_lost(admin, {topic_type: worker.topic(topic_type) for topic_type in TopicType})
    facts = read_facts(admin, there, expected=True)
    limits = TopicLimits.seen(admin, facts)
    existing: dict[TopicType, TopicFacts] = {}
    topics: dict[TopicType, DestinationTopic] = {}
    warnings: list[str] = []
    for topic_type in TopicType:
        name, fence = worker.topic(topic_type), None
        found = facts.get(name)
        if found is not None:
            check_destination(admin, worker, topic_type, found)
            existing[topic_type] = found
            if topic_type is TopicType.CONFIG:
                spaces, fences = use_of(worker, name)
                fence = fence_at(admin, worker, fences)
                warnings += warn_about_shared_topics(move, spaces)
            if limits[name].stamps:
                warnings.append(
                    f"{name} stamps records with the time of the write (message.timestamp.type): the records' "
                    "own timestamps will be lost"
                )
        partitions = len(found.ends) if found is not None else topic_spec(worker, topic_type).partitions
        if partitions < 1:
            raise ConfigError(
                f"{topic_type.value}.storage.partitions is {partitions} (the broker decides) and {name} does not "
                "exist yet: create the topic or give a number",
                property_name=f"{topic_type.value}.storage.partitions",
            )
        topics[topic_type] = DestinationTopic(
            topic=name,
            topic_id=None if found is None else found.topic_id,
            partitions=partitions,
            create=found is None,
            fence=fence,
        )
    missing = [topic_spec(worker, topic_type) for topic_type, topic in topics.items() if topic.create]
    with suppress(AuthorizationError):  # apply says it, before it writes
        for each in plan_topics(admin, missing):
            warnings += [f"{each.spec.topic}: {setting.given_up}" for setting in each.given_up]
    return Destination(kafka_cluster_id=move.destination_cluster, topics=topics), existing, warnings


def _plan_source(
    admin: Admin, move: PlannedMove, progress: Progress, intent: Intent, living: Mapping[TopicType, LivingKeys]
) -> list[str]:
    """Read the topics of a source into the move, and into ``living`` what is the destination's, too. Returns warnings."""
    warnings, added = list[str](), SEALED_BYTES if move.destination_sealing.keys is not None else 0
    worker, space, topics = move.worker, move.plan.space, dict[TopicType, SourceTopic]()
    facts = read_facts(admin, {worker.topic(topic_type) for topic_type in TopicType})
    remedy = f"look at {move.plan.worker_config_file}, nothing can be moved"
    for topic_type in TopicType:
        found = require_topic(facts, worker.topic(topic_type), remedy=remedy)
        check_partition_count(topic_spec(worker, topic_type), len(found.ends))
        # On a busy topic a transaction is often open; that of a healthy worker ends soon.
        busy = worker.sharing_enabled or intent.follow
        require_no_open_transaction(admin, found, wait_s=None if busy else 0.0)
        partitions = tuple(
            PlannedPartition(partition=number, start=found.starts[number], end=end, last_stable_offset=end)
            for number, end in sorted(found.ends.items())
        )
        isolation = worker.isolation(topic_type)
        planned = SourceTopic(topic=found.topic, topic_id=found.topic_id, isolation=isolation, partitions=partitions)
        transform = move.plan.transform(topic_type)
        if topic_type is TopicType.CONFIG:
            sealed = require_keys_of(worker, [space], found)
            move.learn(sealed_as_is=bool(sealed) and move.may_copy_as_is(intent.mode))
            require_some_plain(found.topic, {} if move.plan.sealed_as_is else sealed)
        sealing = move.sealing
        counter = RecordCounter(transform, Opener(sealing, transform), added)
        ranges = planned.ranges()
        progress.phase(f"reading {found.topic}", sum(map(size_of, ranges)))
        batches = read_messages(worker, ranges, isolation)
        if topic_type in living:
            batches = living[topic_type].watching(batches)
        if topic_type is TopicType.CONFIG and not sealing.as_is:
            messages = (message for batch in batches for message in batch)
            records = (to_whole_record(message) for message in counted(messages, progress.advance))
            move.state = replay_config(counter.through(records), space)
        else:
            for batch in batches:
                counter.count_batch(batch)
                progress.advance(len(batch))
        counter.add_aborted(count_aborted(worker, ranges, isolation, transform.takes, counter.taken))
        move.connectors_seen |= counter.connectors
        topics[topic_type] = planned.model_copy(update={"counts": counter.counts()})
        warnings += _warnings_of(topics[topic_type], counter.undated, is_shared=space is not None)
    move.learn(topics=topics, connectors=len(move.connectors()))
    if move.state is not None and move.state.moved is not None:
        raise PlanRejectedError(
            f"{worker.group_id} was moved away from {worker.topic(TopicType.CONFIG)} by {move.state.moved.plan} "
            f"(run {move.state.moved.run_id}): plan the move from where it is now, or bring it back first with "
            f"{plan_command('unseal', move.state.moved.plan)} or rollback"
        )
    return warnings


def _warnings_of(planned: SourceTopic, undated: int, *, is_shared: bool) -> Iterator[str]:
    topic, skipped = planned.topic, planned.counts.skipped
    for reason in _WARNED_REASONS:
        if reason in skipped and not (is_shared and reason in _EXPECTED_WHEN_SHARED):
            yield f"{topic}: {skipped[reason]} record(s) are left behind: each {reason.explanation}"
    if several := planned.counts.several:
        yield (
            f"{topic}: {several} key(s) have records in several partitions, as after partitions were added: of each the "
            "newest record by time is copied, so the destination has one. A worker that starts on the source may take another"
        )
    if undated:
        yield f"{topic}: {undated} record(s) have the timestamp 0 (1970) and will get that of the write"


def make_plan(
    source_files: Sequence[Path],
    destination_files: Sequence[Path],
    *,
    now_ms: int,
    intent: Intent = NO_INTENT,
    progress: Progress = SILENT,
) -> MigrationPlan:
    """Plan a move; writes nothing to Kafka. Sharing in the worker files says the direction.

    ``destination_files``: one for all sources, or one for each. ``intent``: what the files cannot say.

    Raises:
        ConfigError: the files contradict each other.
        TopicError: a topic is missing, not compacted, has too many partitions or an open transaction.
        LiveMembersError: workers of a group are alive.
        PlanRejectedError: a record would no longer fit, or the destination already holds the group.
    """
    sources, destinations = ([Path(path).resolve() for path in files] for files in (source_files, destination_files))
    moves = pair(sources, destinations, intent)
    warnings = check_sharing_lines([*sources, *destinations])
    moves, destination, notes = _read_clusters(moves, intent, progress)
    warnings += notes
    warnings += warn_about(moves, intent.mode)
    if all(move.plan.new_space == move.plan.group_id for move in moves) and len(sources) > len(destinations):
        warnings.append(
            f"several sources, one destination worker file: each keeps its own group.id as prefix; "
            f"group.id {moves[0].destination.group_id} of {destinations[0]} is not used"
        )
    clusters = tuple(move.plan for move in moves)
    plan = MigrationPlan(
        run_id=uuid.uuid4().hex,
        created_at_ms=now_ms,
        mode=intent.mode,
        follow=intent.follow,
        merge=intent.merge,
        sources=clusters,
        destination=destination,
        fingerprint=plan_fingerprint(clusters, intent.mode),
    )
    notes, steps = _about_fences(plan, moves)
    return plan.model_copy(update={"warnings": (*warnings, *notes), "steps": (*steps_of(moves, plan), *steps)})


def _about_fences(plan: MigrationPlan, sources: Sequence[PlannedSource]) -> tuple[list[str], list[PlanStep]]:
    """Return warnings about old workers that nothing will stop, and the steps that keep the fences up."""
    warnings, steps = list[str](), list[PlanStep]()
    for fence in fences_of(plan, sources):
        kept = any(sources[each].keeps_its_members for each in fence.sources)
        if fence.objection is None:
            what = (
                f"from the cut-over on let nothing change {FENCE_TEXT} of {fence.topic}, which keep old workers from "
                "starting: a KafkaTopic of Strimzi does, Terraform, and MirrorMaker with sync.topic.configs.enabled"
            )
            steps.append(_you(what))
        elif kept or fence.is_refused:
            effect = "joins the new ones' Kafka group and stops them: give the destination another group.id"
            warnings.append(
                f"{fence.topic} cannot be closed to old workers: {fence.objection}; one that is started by mistake "
                f"{effect if kept else 'starts'}"
            )
    return warnings, steps


def _read_clusters(
    moves: list[PlannedMove], intent: Intent, progress: Progress
) -> tuple[list[PlannedMove], Destination, list[str]]:
    """Ask all clusters, and read the sources into the moves. Returns the moves to be made, the destination, and warnings."""
    with ExitStack() as stack:
        shared = moves[0].destination
        at_destination = stack.enter_context(admin_of(shared))
        destination_cluster = at_destination.cluster_id()
        admins: list[Admin] = []
        for move in moves:
            admin = stack.enter_context(admin_of(move.worker))
            admins.append(admin)
            move.learn(kafka_cluster_id=admin.cluster_id())
            move.destination_cluster = destination_cluster
        for move in moves[1:]:
            with admin_of(move.destination) as admin:
                require_same_cluster(admin, destination_cluster, move.plan.destination_worker_config_file)
        refuse_same_topics(moves)
        warnings: list[str] = []
        for move, admin in zip(moves, admins, strict=True):
            warnings += _check_workers(move, admin, at_destination, intent)
        destination, existing, notes = _plan_destination(at_destination, moves[0])
        warnings += notes
        known: dict[TopicType, LivingKeys] = {}
        for move, admin in zip(moves, admins, strict=True):
            unread = {kind: facts for kind, facts in existing.items() if kind not in known}
            in_place = _living_in_place(move, moves, unread, intent)
            warnings += _plan_source(admin, move, progress, intent, in_place)
            known |= in_place
            if not move.plan.sealed_as_is:
                require_keys_of(move.destination, [move.plan.new_space], existing.get(TopicType.CONFIG))
        copies = {shared.topic(kind): extent_of(move.plan.topics[kind] for move in moves) for kind in TopicType}
        require_access(TopicNeed(shared, topic, ("READ",), extent) for topic, extent in copies.items())
        warnings += refuse_unclear(moves, intent)
        moved = [move for move in moves if intent.job is None or move.has_records()]
        for index, move in enumerate(moved):
            move.index = index
        refuse_present(moved, existing, progress, known)
    return moved, destination, warnings


def _living_in_place(
    move: PlannedMove, moves: Sequence[PlannedMove], existing: Mapping[TopicType, TopicFacts], intent: Intent
) -> dict[TopicType, LivingKeys]:
    """Return what notes the living keys of the destination while a source is read, of the topics that are both.

    Of none where both sides are read differently, or where only the sources say what opens the copies.
    """
    is_known = move.destination_cluster is not None and move.stays_on_cluster
    if not is_known or any(each.may_copy_as_is(intent.mode) for each in moves):
        return {}
    return {
        topic_type: LivingKeys(topic_type, moves)
        for topic_type, facts in existing.items()
        if move.worker.topic(topic_type) == facts.topic
        and {each.destination.isolation(topic_type) for each in moves} == {move.worker.isolation(topic_type)}
    }


def _check_workers(move: PlannedMove, at_source: Admin, at_destination: Admin, intent: Intent) -> list[str]:
    """Refuse live workers. Returns a warning where they may be alive."""
    if not intent.follow:
        require_no_live_workers(at_source, move.plan.group_id, side="source")
    elif move.keeps_its_members:
        # One Kafka cluster and one group.id: the members of the group are the workers of the source.
        return [f"{move.plan.group_id} keeps its group.id: start no new worker before the cut-over has ended"]
    require_no_live_workers(at_destination, move.new_group_id, side="destination")
    return []
