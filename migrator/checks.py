"""The checks of a plan against both clusters before anything is written, and what is to be copied then."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, Literal

from connect_share.errors import (
    AlreadyAppliedError,
    DestinationNotEmptyError,
    PlanFileError,
    PlanRejectedError,
    SourceChangedError,
    TopicRecreatedError,
)
from connect_share.files import Progress, counted
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import Message, TopicRight, to_record
from connect_share.kafka.create import check_cleanup_policy, check_partition_count, lost_topics, topic_spec
from connect_share.kafka.facts import (
    TopicFacts,
    admin_of,
    config_facts,
    read_facts,
    read_records,
    require_keys_of,
    require_no_live_workers,
    require_no_open_for,
    require_no_open_transaction,
    require_own_keys,
)
from connect_share.kafka.limits import Extent, TopicLimits
from connect_share.kafka.shared_set import create_planned, plan_topics
from connect_share.kafka.write import MIGRATE_CLIENT_ID
from connect_share.kafka.write_access import TopicNeed, require_access
from connect_share.model.keys import MARKER, ConfigKey, parse, prefix_of, split_key
from connect_share.model.records import OffsetRange, Record, TopicType, size_of
from connect_share.model.removal import is_removal
from connect_share.transform.rules import PLAIN_KEYS, RULES, KeyTransform
from connect_share.transform.sealed import Opener, Sealing, SealTimes
from connect_share.worker_config import WorkerConfig
from migrator.copy.copy_job import CopyJob
from migrator.plan import CopySlice, DestinationTopic, MigrationPlan, SourceTopic, key_spaces, read_plan_file
from migrator.run import MigrationRun, MigrationStatus, PlannedSource, WrittenTopic, plan_command

_NEW_PLAN: Final = "; then make a new plan"

Sealings = Mapping[str | None, Sealing]
"""What opens the values of each key space; of others, and without keys, a sealed value counts as one."""
Spaces = dict[tuple[str | None, TopicType], dict[bytes, int]]
"""By key space (``None``: plain keys) and topic type: times by whole key."""


def require_same_cluster(admin: Admin, expected_id: str | None, path: str) -> None:
    """Refuse a worker file that leads to another Kafka cluster than expected: ``PlanRejectedError``."""
    found = admin.cluster_id()
    if expected_id is not None and found != expected_id:
        raise PlanRejectedError(
            f"{path} leads to the Kafka cluster {found}, but {expected_id} holds the topics: correct the file, or "
            "make a new plan if the change is intended"
        )


def require_planned(
    facts: Mapping[str, TopicFacts], topic_type: TopicType, planned: SourceTopic | DestinationTopic | WrittenTopic
) -> TopicFacts:
    """Return the facts of a topic that has to be the one that a plan was made for, or has written to.

    Raises:
        LostTopicError: it is gone.
        TopicRecreatedError: it was deleted and created since (KIP-516).
    """
    topic, found = planned.topic, facts.get(planned.topic)
    if found is None:
        raise lost_topics({topic_type: topic}, "does not exist, and did when the plan was made", _NEW_PLAN)
    if planned.topic_id not in (None, found.topic_id):
        was = f"was deleted and created again: its id is {found.topic_id}, and was {planned.topic_id}"
        lost = lost_topics({topic_type: topic}, was, _NEW_PLAN)
        raise TopicRecreatedError(str(lost), topic=topic, old_id=planned.topic_id, new_id=found.topic_id)
    return found


def planned_facts(
    admin: Admin, planned: Mapping[TopicType, SourceTopic] | Mapping[TopicType, WrittenTopic]
) -> dict[TopicType, TopicFacts]:
    """Return the facts of topics, each as :func:`require_planned`."""
    facts = read_facts(admin, {topic.topic for topic in planned.values()}, expected=True)
    return {topic_type: require_planned(facts, topic_type, topic) for topic_type, topic in planned.items()}


class LivingKeys:
    """The keys that live in a topic, of those that are wanted.

    A key does not live if its newest record removes it. These do not live either: session keys and restart requests, which
    a move leaves behind; task configurations and commits of removed connectors, which Connect never removes. The hash of
    each key is kept: a million keys take some hundred megabytes. What a group refuses does not live.

    Attributes:
        wanted: those that ``sources`` write.
    """

    def __init__(self, topic_type: TopicType, sources: Sequence[PlannedSource]) -> None:
        self._topic_type = topic_type
        self.wanted = key_spaces((each.plan.new_space, each.plan.only_connectors) for each in sources)
        self._openers = openers_of(topic_type, sealings_of(sources))
        self._prefixes = tuple(prefix_of(each.plan.new_space) for each in sources)
        self._living: dict[str | None, dict[int, int | None]] = {space: {} for space in self.wanted}

    def watching(self, batches: Iterable[list[Message]]) -> Iterator[list[Message]]:
        """Yield batches, and note what is in them; of other key spaces no record is made."""
        for batch in batches:
            for message in batch:
                key = message.key()
                if key is not None and key.startswith(self._prefixes):
                    self.take(to_record(message))
            yield batch

    def take(self, record: Record) -> None:
        """Note the next record, in order within each partition."""
        topic_type = self._topic_type
        parts = split_key(topic_type, record.key)
        key = None if parts is None else parse(topic_type, parts[1])
        if parts is None or key is None:
            return
        space, original, rule = *parts, RULES[key.kind]
        if rule.left_behind_as is not None or space not in self.wanted or original == MARKER[0]:
            return
        connectors, connector = self.wanted[space], None if (subject := key.subject) is None else subject.connector
        if connectors is not None and connector not in connectors:
            return
        keys, at = self._living[space], hash((record.partition, original))
        opened = self._openers[space].open(record) if space in self._openers else record
        if opened is None:
            return
        if is_removal(topic_type, opened.value):
            keys.pop(at, None)
            return
        keys[at] = None
        if rule.ends_with_connector:
            keys[at] = hash((record.partition, ConfigKey.CONNECTOR.key(connector or "")))

    def counts(self) -> Counter[str | None]:
        """Return how many live in each key space; those without any are left out."""
        return +Counter(
            {
                space: sum(connector is None or connector in keys for connector in keys.values())
                for space, keys in self._living.items()
            }
        )


def read_groups(
    workers: Mapping[str | None, WorkerConfig],
    topic_type: TopicType,
    ranges: Sequence[OffsetRange],
    *,
    with_headers: bool = False,
) -> Iterator[Record]:
    """Yield what groups have on a shared topic, each as its own workers read it; what is not committed yet, too.

    Records of others are among them.
    """
    isolations = {space: worker.isolation(topic_type) for space, worker in workers.items()}
    levels = {*isolations.values()}
    for level in levels:
        worker = next(iter(workers.values()))
        for record in read_records(worker, ranges, level, with_headers=with_headers):
            parts = None if len(levels) == 1 else split_key(topic_type, record.key)
            if len(levels) == 1 or (parts is not None and isolations.get(parts[0]) is level):
                yield record


def refuse_present(
    sources: Sequence[PlannedSource],
    topics: Mapping[TopicType, TopicFacts],
    progress: Progress,
    known: Mapping[TopicType, LivingKeys] = MappingProxyType({}),
) -> None:
    """Refuse (``DestinationNotEmptyError``) topics in which something lives already of what is to be moved there.

    Keys that were removed or superseded do not count: a group may move back onto topics that it left. What is ``known`` was
    read before.
    """
    workers: dict[str | None, WorkerConfig] = {each.plan.new_space: each.destination for each in sources}
    for topic_type, facts in topics.items():
        living = known.get(topic_type)
        if living is None:
            living, ranges = LivingKeys(topic_type, sources), facts.ranges()
            progress.phase(f"looking for the groups in {facts.topic}", sum(map(size_of, ranges)))
            for record in counted(read_groups(workers, topic_type, ranges), progress.advance):
                living.take(record)
        counts = sorted(((space, count) for space, count in living.counts().items() if space in workers), key=str)
        if not counts:
            continue
        space, count = counts[0]
        owner, connectors = PLAIN_KEYS if space is None else f"group {space}", living.wanted[space]
        if connectors is not None:
            owner = f"connector(s) {', '.join(map(repr, sorted(connectors)))} under {owner}"
        choice = "other topics" if space is None else "another group.id for the destination, other shared topics"
        raise DestinationNotEmptyError(
            f"{facts.topic} already holds {count} living key(s) of {owner}: choose {choice}"
            f"{'' if connectors else ', move the others with --assign'}, or remove them first; those that an "
            f"earlier move has left there: {plan_command('rollback', 'PLAN')}, or seal --seal remove, with the plan of "
            "that move"
        )


def openers_of(topic_type: TopicType, sealings: Sealings, times: Spaces | None = None) -> dict[str | None, Opener]:
    """Return what opens the values of key spaces; ``times``: when those were written that were read before."""
    return {
        space: Opener(sealing, KeyTransform.between(topic_type, space, None), (times or {}).get((space, topic_type)))
        for space, sealing in sealings.items()
    }


def require_source_unchanged(
    worker: WorkerConfig, facts: TopicFacts, planned: SourceTopic, opener: Opener | None = None
) -> None:
    """Refuse a source topic that has lost records, or got partitions, or records: ``SourceChangedError`` says where.

    On a shared topic the records of others do not count, and none that ``opener`` refuses; without it a source may grow.
    """
    parts = {part.partition: part for part in planned.partitions}
    if parts.keys() != facts.ends.keys():
        raise SourceChangedError(f"{planned.topic} has other partitions than planned; make a new plan")
    for number, part in parts.items():
        if facts.starts[number] > part.start:
            raise SourceChangedError(
                f"{planned.topic}[{number}] begins at {facts.starts[number]}, the plan says {part.start}: "
                "records were deleted since; make a new plan"
            )
        if facts.ends[number] < part.end:
            raise SourceChangedError(
                f"{planned.topic}[{number}] ends at {facts.ends[number]}, the plan says {part.end}: records were lost; "
                "make a new plan"
            )
    if opener is None:
        return
    grown = facts.since({number: part.end for number, part in parts.items()})
    for record in read_records(worker, grown.ranges(), planned.isolation):
        if opener.transform.takes(record.key) and opener.open(record) is not None:
            raise SourceChangedError(
                f"{planned.topic}[{record.partition}]@{record.offset} was written since the plan was made, which says "
                f"that the partition ends at {parts[record.partition].end}; make sure that all workers of "
                f"{worker.group_id} are stopped and make a new plan"
            )


def _needs(run: MigrationRun, writes: str | None, seals: Collection[TopicType]) -> Iterator[TopicNeed]:
    """Yield what is needed of each topic; no removal is larger than the largest copy."""
    plan, fences = run.plan, () if run.manifest is None else run.manifest.fences
    closed = {each.topic for each in fences if each.settings}
    closed |= {each.topic for each in plan.destination.topics.values() if each.fence and each.fence.settings}

    def rights(topic: str, *, written: bool) -> tuple[TopicRight, ...]:
        return ("READ", *(("WRITE",) if written else ()), *(("ALTER_CONFIGS",) if written and topic in closed else ()))

    for source in run.sources:
        for topic_type, each in source.plan.topics.items():
            written = topic_type in seals
            # No target state, removal or record that fences a group is larger.
            sealing = Extent(1_024) if written else None
            yield TopicNeed(source.worker, each.topic, rights(each.topic, written=written), sealing)
    for topic_type, shared in plan.destination.topics.items():
        copies = extent_of((source.topics[topic_type] for source in plan.sources), times=writes == "copies")
        wanted: tuple[TopicRight, ...] = ("CREATE", *rights(shared.topic, written=writes is not None))
        yield from (TopicNeed(each, shared.topic, wanted, copies if writes else None) for each in run.destinations)


def extent_of(topics: Iterable[SourceTopic], *, times: bool = True) -> Extent:
    """Return what the copies of source topics are, as far as it is known."""
    whole = Extent()
    for counts in (topic.counts for topic in topics):
        whole.extend(counts.largest_bytes, (times and counts.times_ms) or (), counts.largest_at)
    return whole


Opened = dict[TopicType, tuple[TopicFacts, bool]]
"""The destination's topics as they are, and whether each was created just now."""


def _require_not_applied(run: MigrationRun) -> None:
    """Refuse a plan that was applied to its end; an interrupted run may have written nothing."""
    manifest, path = run.manifest, run.manifest_path
    if manifest is None:
        return
    if manifest.run_id != run.plan.run_id:
        raise PlanFileError(f"{path} belongs to another plan (run {manifest.run_id}); move it away")
    if manifest.status is MigrationStatus.ROLLED_BACK:
        raise AlreadyAppliedError(f"{path} says that this plan was rolled back: make a new plan")
    if manifest.status is not MigrationStatus.PLANNED:
        raise AlreadyAppliedError(
            f"this plan was applied already, its manifest {path} says {manifest.status.value}: run verify, or make "
            "a new plan"
        )


def _check_source(plan: MigrationPlan, source: PlannedSource, *, may_change: bool) -> None:
    planned, worker = source.plan, source.worker
    with admin_of(worker) as admin:
        require_same_cluster(admin, planned.kafka_cluster_id, planned.worker_config_file)
        if not may_change:
            require_no_live_workers(admin, planned.group_id, side="source")
        for topic_type, found in planned_facts(admin, planned.topics).items():
            topic = planned.topics[topic_type]
            if not planned.sharing and not may_change and not plan.in_place(planned, topic_type):
                require_no_open_transaction(admin, found, wait_s=0.0)
            if topic_type is TopicType.CONFIG and not planned.sealed_as_is:
                require_own_keys(worker, found)
            opener = None if may_change else Opener(source.sealing, planned.transform(topic_type))
            require_source_unchanged(worker, found, topic, opener)


def _check_new_group(plan: MigrationPlan, source: PlannedSource, *, may_live: bool) -> None:
    """Check what a source becomes: the cluster, the workers that may live there already, and their keys."""
    worker = source.destination
    with admin_of(worker) as admin:
        require_same_cluster(admin, source.destination_cluster, source.plan.destination_worker_config_file)
        if not (may_live or (plan.follow and source.keeps_its_members)):
            require_no_live_workers(admin, source.new_group_id, side="destination")
        if not may_live:
            require_no_open_for(worker, admin)  # new workers would not see what is written
        if not source.plan.sealed_as_is:
            require_keys_of(worker, [source.plan.new_space], config_facts(worker))


def _open_destination(run: MigrationRun, admin: Admin, *, first: bool, create: bool) -> Opened:
    """Check the shared topics; with ``create`` create those that the plan says are to be created."""
    worker, topics = run.destination, run.plan.destination.topics
    specs = [topic_spec(worker, topic_type) for topic_type, planned in topics.items() if planned.create and first]
    to_make = plan_topics(admin, specs) if specs else ()  # which refuses what would be refused
    made = create_planned(admin, to_make) if create and specs else []
    facts = read_facts(admin, {topic.topic for topic in topics.values()}, expected=create or not specs)
    settings = admin.settings_of_topics(facts)
    opened = {}
    for topic_type, planned in topics.items():
        if planned.create and first and planned.topic not in facts:
            continue
        found = require_planned(facts, topic_type, planned)
        spec, fenced = topic_spec(worker, topic_type), planned.fence is not None
        check_cleanup_policy(admin, spec, settings[planned.topic], may_be_fenced=fenced)
        check_partition_count(spec, len(found.ends))
        if len(found.ends) != planned.partitions:
            raise PlanRejectedError(
                f"{planned.topic} has {len(found.ends)} partitions, the plan says {planned.partitions}; make a new plan"
            )
        opened[topic_type] = (found, planned.topic in made)
    return opened


def _require_nothing_there(run: MigrationRun, opened: Opened, progress: Progress) -> None:
    """Refuse a destination that holds something of what is moved, such as what an interrupted apply has left."""
    try:
        refuse_present(run.sources, {topic_type: topic for topic_type, (topic, _) in opened.items()}, progress)
    except DestinationNotEmptyError as error:
        if run.manifest is None:
            raise
        raise AlreadyAppliedError(
            f"an earlier apply of this plan was interrupted after {len(run.manifest.evidence)} of "
            f"{run.manifest.slices_planned} slices ({run.manifest_path}) and left records behind: "
            f"{run.command('resume')} continues ({error})"
        ) from error


def sealings_of(sources: Iterable[PlannedSource]) -> dict[str | None, Sealing]:
    """Return what opens the copies in each key space that sources become."""
    return {each.plan.cluster_group_id: each.destination_sealing for each in sources}


def check_all(
    run: MigrationRun,
    progress: Progress,
    *,
    first: bool = False,
    create: bool = False,
    source_may_change: bool = False,
    new_workers_may_live: bool = False,
    writes: Literal["copies", "removals"] | None = "copies",
    seals: Collection[TopicType] = (),
) -> Opened:
    """Check a plan against both clusters before anything is written; ``ConnectShareError`` says what is not as planned.

    Args:
        run: the plan.
        progress: reports the reading.
        first: the destination must hold nothing of what is moved; else the topics must be those that were written to.
        create: create what the plan says is to be created.
        source_may_change: the source's workers may be alive, and its topics hold more than was planned.
        new_workers_may_live: nothing is written at the destination.
        writes: to the destination.
        seals: the sources' topics that are written to.
    """
    require_access(_needs(run, writes, seals))
    if read_plan_file(run.plan_path, "plan") != run.plan_text:
        raise PlanFileError(
            f"{run.plan_path} was changed while this command was running, and nothing was written: look at the plan, then "
            "run the command again"
        )
    if first:
        _require_not_applied(run)
    for source in run.sources:
        _check_source(run.plan, source, may_change=run.plan.follow or source_may_change)
        _check_new_group(run.plan, source, may_live=new_workers_may_live)
    with admin_of(run.destination) as admin:
        opened = _open_destination(run, admin, first=first, create=create)
        if any(made for _, made in opened.values()):  # of which nothing was known before
            require_access(_needs(run, writes, seals))
    if first:
        _require_nothing_there(run, opened, progress)
    else:
        for topic_type, written in run.applied().destination.items():
            require_planned({written.topic: opened[topic_type][0]}, topic_type, written)
    return opened


def times_at_destination(run: MigrationRun, starts: Mapping[TopicType, Mapping[int, int]]) -> Spaces:
    """Return when the sealed values were written that the destination has before these offsets.

    A copy has to be later than a value that was there in an earlier life of its group; else readers refuse it.
    """
    sealings = {space: sealing for space, sealing in sealings_of(run.sources).items() if sealing.keys is not None}
    times: Spaces = {}
    for topic_type, ends in starts.items() if sealings else ():
        openers = openers_of(topic_type, sealings)
        with admin_of(run.destination) as admin:
            facts = read_facts(admin, {run.plan.destination.topics[topic_type].topic}, expected=True)
        ranges = [part._replace(end=ends.get(part.partition, 0)) for each in facts.values() for part in each.ranges()]
        for record in read_groups(run.groups, topic_type, ranges):
            parts = split_key(topic_type, record.key)
            if parts is not None and parts[0] in openers:
                openers[parts[0]].open(record)
        times |= {(space, topic_type): opener.freshness.newest() for space, opener in openers.items()}
    return times


def copy_jobs(
    run: MigrationRun, starts: Mapping[TopicType, Mapping[int, int]], times: Spaces, *, resumed: bool
) -> list[CopyJob]:
    """Return one job for each slice of the plan.

    ``starts`` are the destination's ends before anything was written, if they are known, ``times`` those of what is there
    before them.
    """
    with admin_of(run.destination) as admin:
        known = {run.plan.destination.topics[each].topic for each, ends in starts.items() if ends}
        limits = defaultdict(TopicLimits, TopicLimits.seen(admin, known))
    return [
        CopyJob(
            slice_=slice_,
            consumer_settings=source.worker.consumer_settings(),
            producer_settings=limits[slice_.destination_topic].batched(source.destination.producer_settings()),
            destination_consumer_settings=source.destination.consumer_settings(),
            destination_starts=tuple(sorted(starts.get(slice_.topic_type, {}).items())),
            client_id=source.destination.client_id(MIGRATE_CLIENT_ID),
            resumed=resumed,
            stamped=limits[slice_.destination_topic].stamps,
            source_sealing=source.sealing,
            sealing=source.destination_sealing,
            times=SealTimes(destination=times.get((slice_.transform.destination, slice_.topic_type), {})),
        )
        for slice_ in run.plan.slices()
        for source in [run.sources[slice_.source_index]]
    ]


def slices_behind(run: MigrationRun) -> Iterator[CopySlice]:
    """Yield what is not copied yet: a slice from each position to the end that the source's own worker would read."""
    ends: dict[tuple[int, TopicType], dict[tuple[str, int], int]] = {}
    for source in run.sources:
        with admin_of(source.worker) as admin:
            for topic_type, there in planned_facts(admin, source.plan.topics).items():
                require_source_unchanged(source.worker, there, topic := source.plan.topics[topic_type])
                places = [(there.topic, number) for number in there.ends]
                ends[source.index, topic_type] = admin.end_offsets(places, topic.isolation)
    for slice_ in run.plan.slices():
        (planned,) = run.applied().read_ranges_of(slice_.source_index, [slice_.offset_range])
        end = ends[slice_.source_index, slice_.topic_type].get(planned[:2], planned.end)
        if end > planned.end:
            yield replace(slice_, offset_range=planned._replace(start=planned.end, end=end))
