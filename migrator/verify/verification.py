"""The verification of a move: both sides of each topic are read, folded and compared. Engines decide where.

Before the cut-over nothing may be copied over records that new workers have written since the copy. After it, a connector
with such records may differ from the source; the other connectors are compared as before.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from connect_share.backup.rewrite import Sample, Since, StoppedGroup
from connect_share.errors import ConnectShareError, CopyError, DestinationUsedError, PlanRejectedError, listed
from connect_share.files import SILENT, Progress
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import Message, to_record
from connect_share.kafka.facts import (
    TopicFacts,
    admin_of,
    read_facts,
    read_records,
    require_no_open_for,
    require_own_keys,
    require_topic,
)
from connect_share.kafka.limits import TopicLimits
from connect_share.kafka.read import Reader
from connect_share.model.keys import connector_of, split_key
from connect_share.model.records import OffsetRange, Record, TopicType, size_of
from connect_share.replay import replay_config
from connect_share.transform.canonical import canonical_config
from connect_share.transform.rules import PLAIN_KEYS, KeyTransform
from connect_share.transform.sealed import NO_SEALING, Opener, Resealer, Sealing, SealTimes
from migrator.bystanders import KeyOwners, bundles
from migrator.checks import (
    Spaces,
    openers_of,
    planned_facts,
    read_groups,
    require_planned,
    sealings_of,
    slices_behind,
    times_at_destination,
)
from migrator.copy.copy_job import LOCAL_ENGINE, SliceEvidence, Tally, rewritten
from migrator.copy.existing_records import identity
from migrator.plan import CopySlice
from migrator.run import IS_COPIED, Manifest, MigrationRun, MigrationStatus, PlannedSource, only_one
from migrator.verify.equality import (
    HERE,
    KeySpaceDigest,
    KeySpaces,
    Mismatch,
    PairHash,
    StateDifference,
    Verification,
    compare_config_states,
    compare_newest,
    compare_states,
    digest_of,
)

_NAMED: Final = 3
Written = set[tuple[TopicType, str | None, str | None]]
"""Topic type, cluster group (``None``: plain keys) and connector."""
Found = tuple[TopicType, str | None, bytes, Record]
"""Topic type, cluster group, original key, and the record, opened."""
Starts = Mapping[TopicType, Mapping[int, int]]


def _records_since(run: MigrationRun, starts: Starts, times: Spaces, *, behind_own: bool = False) -> Iterator[Found]:
    """Yield what lies at the destination under the plan's keys behind ``starts``, or only behind what its copy reported.

    ``times`` are those of what lies in front of ``starts``.
    """
    manifest, wanted = run.applied(), run.plan.wanted()
    with admin_of(run.destination) as admin:
        facts = planned_facts(admin, {topic_type: manifest.destination[topic_type] for topic_type in starts})
    for topic_type, found in facts.items():
        others, known = KeyOwners(topic_type, wanted), manifest.written_up_to(topic_type) if behind_own else {}
        openers = openers_of(topic_type, sealings_of(run.sources), times)
        # What is refused of the records behind the plan's own depends on these.
        with_keys = any(opener.is_on for opener in openers.values())
        ranges = found.since(known if known and not with_keys else starts[topic_type]).ranges()
        for each in read_groups(run.groups, topic_type, ranges, with_headers=True):
            parts = split_key(topic_type, each.key)
            if parts is None or others.owner(each.key) is not None or others.is_marker(each.key):
                continue
            record = openers[parts[0]].open(each)
            if record is not None and record.offset >= known.get(record.partition, 0):
                yield topic_type, *parts, record


def written_since(run: MigrationRun) -> tuple[Written, int]:
    """Return the connectors of which others have written since the plan has, and how many of its own records came late.

    A process that follows may be ahead of the manifest, or may have been killed.
    """
    manifest, written, late = run.applied(), Written(), 0
    mirrored: set[bytes] | None = None
    copied: set[bytes] | None = None
    if not manifest.may_go_on or manifest.status is MigrationStatus.CUT_OVER:
        copied = set()  # nothing goes on when a process has ended, and the source may be cleared
    if manifest.followed is None or manifest.status is MigrationStatus.CUT_OVER:
        mirrored = set()
    starts = {topic_type: topic.end_offsets for topic_type, topic in manifest.destination.items()}
    times, stamped = times_at_destination(run, starts), _stamped(run, starts)
    for topic_type, space, original, record in _records_since(run, starts, times, behind_own=True):
        if mirrored is None:  # the sources' ends are read later than the destination's
            mirrored = _identities(run, slices_behind(run), stamped)
        if copied is None:
            copied = _identities(run, run.plan.slices(), stamped)
        if (known := identity(record, stamped=topic_type in stamped)) in copied:
            late += 1
        elif known not in mirrored:
            written.add((topic_type, space, connector_of(topic_type, original)))
    return written, late


def unreported(
    run: MigrationRun, starts: Starts, evidence: Iterable[SliceEvidence]
) -> tuple[Starts, Mapping[TopicType, TopicFacts]]:
    """Return from where on topics of the destination have grown by more than was reported, and all topics as they are now.

    ``starts`` are the ends before the copies. ``CopyError``: one has grown by less.
    """
    with admin_of(run.destination) as admin:
        facts = planned_facts(admin, run.applied().destination)
    grown = Counter({kind: sum(facts[kind].ends.values()) - sum(ends.values()) for kind, ends in starts.items()})
    for each in evidence:
        grown[each.topic_type] -= each.written + each.marker_written + each.barriers
        if grown[each.topic_type] < 0:
            raise CopyError(
                f"{each.destination_topic} has fewer records than were acknowledged to this plan: the broker lost them; roll "
                "the plan back and apply it anew"
            )
    return {kind: ends for kind, ends in starts.items() if grown[kind]}, facts


def look_again(
    run: MigrationRun, slices: Sequence[CopySlice], starts: Starts, times: Spaces, evidence: Sequence[SliceEvidence]
) -> tuple[CopyError | None, dict[TopicType, dict[int, int]]]:
    """Return the error that says what copies of slices hide of what others have written meanwhile; ``None``: nothing.

    Behind it is up to where topics have nothing of others under the plan's keys. What is hidden is saved. The destination is
    read only if it has grown by more than was reported, and the source only if that is under the plan's keys. ``starts`` are
    the ends before the copies, ``times`` those of what is in front of them.

    Raises:
        CopyError: the destination has more of the plan than was reported: a second attempt of a task may have written.
    """
    more, now = unreported(run, starts, evidence)
    counts = {kind: sum(each.written for each in evidence if each.topic_type is kind) for kind in more}
    lying = Counter(kind for kind, *_ in _records_since(run, more, times))
    more = {kind: ends for kind, ends in more.items() if lying[kind] != counts[kind]}
    facts = {kind: now[kind].since(ends) for kind, ends in more.items()}
    stamped = _stamped(run, more)
    copies = _identities(run, [each for each in slices if each.topic_type in more], stamped)
    own, theirs = Counter[TopicType](), defaultdict[object, dict[bytes | None, Record]](dict)
    found = {space: {kind: Since([], {}, Sample()) for kind in more} for space in run.groups}
    for kind, space, key, record in _records_since(run, more, times):
        if identity(record, stamped=kind in stamped) in copies:
            own[kind] += 1
            found[space][kind].add_own(record, record.sealed_ms or -1)
        else:
            theirs[space, kind][key] = replace(record, value=None, headers=(), sealed_ms=record.sealed_ms or -1)
    for kind in own if run.applied().engine != LOCAL_ENGINE else ():
        if own[kind] > counts[kind]:
            raise CopyError(
                f"{facts[kind].topic} has {own[kind]:,} records of this plan, {counts[kind]:,} were reported: two attempts "
                "of a task have written. Old values may lie behind newer ones. End the Spark application, wait until its "
                f"executors are gone, then {run.command('rollback')}, and make a new plan"
            )
    again = f"Then {run.command('resume')} ends the copy, if it has not; {_when_used(run)}"
    errors = []
    for space, worker in run.groups.items():
        group = StoppedGroup(worker, worker.cluster_group_id, worker.group_id, "new", again=again)
        for kind, since in found[space].items():
            since.theirs.extend(group.lost_of(since._replace(theirs=[*theirs[space, kind].values()])))
        errors.append(group.overtaken(found[space], facts, run.plan_path))
    texts = [str(error) for error in errors if error is not None]
    looked = {kind: {**each.ends} for kind, each in now.items() if kind not in more}
    return CopyError(". ".join(texts)) if texts else None, looked


def _when_used(run: MigrationRun) -> str:
    return (
        f"{run.command('seal')} fences and seals the source now, verify shows what differs, rollback "
        "--although-used removes what the plan wrote"
    )


def _stamped(run: MigrationRun, kinds: Iterable[TopicType]) -> set[TopicType]:
    """Return those kinds whose topics at the destination give records the time of their write."""
    topics = {kind: run.applied().destination[kind].topic for kind in kinds}
    with admin_of(run.destination) as admin:
        limits = TopicLimits.seen(admin, topics.values())
    return {kind for kind, topic in topics.items() if limits[topic].stamps}


def copies_of(run: MigrationRun, slice_: CopySlice, originals: Iterable[Record] | None = None) -> Iterator[Record]:
    """Yield what was, or will be, written for a slice, not sealed; without ``originals`` they are read from the source."""
    source = run.sources[slice_.source_index]
    if originals is None:
        originals = read_records(source.worker, [slice_.offset_range], slice_.isolation, with_headers=True)
    resealer = Resealer(slice_.transform, source.sealing, source.destination_sealing, SealTimes())
    return rewritten(slice_, originals, Tally(), resealer=resealer)


def _identities(run: MigrationRun, slices: Iterable[CopySlice], stamped: Collection[TopicType]) -> set[bytes]:
    """Return what was, or will be, written for slices."""
    return {
        identity(record, stamped=slice_.topic_type in stamped) for slice_ in slices for record in copies_of(run, slice_)
    }


def require_unused(run: MigrationRun) -> None:
    """Check that no new worker has written, else ``DestinationUsedError``, which says what to do.

    A further copy would replace its records by older ones.
    """
    written, _ = written_since(run)
    if written:
        groups = ", ".join(dict.fromkeys(source.becomes for source in run.plan.sources))
        raise DestinationUsedError(
            f"new workers have written since: {describe_written(written)} under {groups}. Do not start the old ones, they "
            f"would do the same work again. Nothing was copied, fenced or sealed; {_when_used(run)}"
        )


def describe_written(written: Written) -> str:
    """Return which kinds of records it is, and the names of the connectors, for people."""
    kinds = " and ".join(kind.value for kind in TopicType if kind in {each for each, _, _ in written})
    names = sorted({name for _, _, name in written if name is not None})
    return f"{kinds} records {f'of {listed(map(repr, names), _NAMED)}' if names else 'that belong to no connector'}"


def without_new_writes(
    differences: Sequence[StateDifference], written: Written, *, stopped: bool
) -> tuple[list[StateDifference], list[str]]:
    """Return the differences without those that new workers or the seal explain, and warnings that name these.

    ``stopped``: the source was sealed with STOPPED, and the cleaner may have removed the earlier target states.
    """
    kept, changed, states = [], set(), 0
    for difference in differences:
        if (difference.topic_type, difference.cluster_group_id, difference.connector) in written:
            changed.add(difference.connector)
        elif stopped and difference.kind == "target_state" and difference.problem is Mismatch.UNEXPECTED:
            states += 1
        else:
            kept.append(difference)
    warnings = []
    if changed:
        names = ", ".join(sorted(map(repr, changed)))
        warnings.append(f"new workers have written since the cut-over: what differs of {names} was not judged")
    if states:
        warnings.append(
            f"{states} target state(s) cannot be compared any more: the seal has replaced them at the source"
        )
    return kept, warnings


AT_ONCE: Final = 500_000
"""Offsets read between two folds of the digests; what came meanwhile is in memory, some 200 bytes for each living key."""


@dataclass(frozen=True)
class Side:
    """The records of one topic as its workers read them. Holds client settings and keys, hence secrets."""

    ranges: tuple[OffsetRange, ...]
    reader: Reader
    sealing: Sealing = field(default=NO_SEALING, kw_only=True)

    @property
    def offsets(self) -> int:
        """Offsets to be read; fewer records may come."""
        return sum(map(size_of, self.ranges))

    @property
    def content(self) -> object:
        """Equal for sides with the same records; clients and rights may differ."""
        return self.ranges, self.reader.isolation, self.reader.settings.properties.get("bootstrap.servers")

    def opened(self, transform: KeyTransform, on_progress: Callable[[int], None] | None = None) -> Iterator[Record]:
        """Yield what the group accepts of the records that a transform takes; all records for plain keys.

        What does not open is refused; :func:`compare_sides` asks whether a key is missing.
        """
        opener, takes_all = Opener(self.sealing, transform), transform.source is None
        for batch in self.batches(on_progress):
            for record in map(to_record, batch):
                taken = opener.open(record) if takes_all or transform.takes(record.key) else None
                if taken is not None:
                    yield taken

    def batches(self, on_progress: Callable[[int], None] | None = None) -> Iterator[list[Message]]:
        """Yield the records as batches of the client's own messages, in order within each partition."""
        for batch in self.reader.batches(self.ranges):
            if on_progress is not None:
                on_progress(len(batch))
            yield batch


@dataclass(frozen=True)
class VerifyJob:
    """One topic type of one source: the unit that is folded and compared as a whole.

    Attributes:
        narrowed: the destination's key space holds more than this source's connectors: only those are compared.
        fold: the state was written, not every record.
        suspects: the connectors that may differ; ``None``: all.
    """

    transform: KeyTransform
    source: Side
    destination: Side
    narrowed: bool = False
    fold: bool = False
    suspects: frozenset[str | None] | None = None

    @property
    def topic_type(self) -> TopicType:
        """Which of the three topics."""
        return self.transform.topic_type

    @property
    def may_be_quick(self) -> bool:
        """Whether both sides normally hold the same bytes, which mean the same to everybody."""
        if any(side.sealing != NO_SEALING for side in (self.source, self.destination)):
            return False
        return not self.narrowed and not (self.fold and self.topic_type is not TopicType.OFFSET)

    @property
    def spaces(self) -> tuple[tuple[Side, str | None], tuple[Side, str | None]]:
        """Both sides, and the groups whose keys are compared there."""
        return (self.source, self.transform.source), (self.destination, self.transform.destination)

    def run(self, on_progress: Callable[[int], None] | None = None) -> list[StateDifference]:
        """Read the records of both sides, fold and compare them."""
        back = self.transform.at_destination()
        there, here = self.source.opened(self.transform, on_progress), self.destination.opened(back, on_progress)
        if self.suspects is not None:
            there = _of_connectors(there, self.transform, self.suspects)
            here = _of_connectors(here, back, self.suspects)
        return self._fold_and_compare(there, here)

    def _fold_and_compare(self, there: Iterator[Record], here: Iterator[Record]) -> list[StateDifference]:
        """Compare what Connect makes of the records."""
        if self.source.sealing.as_is:
            return compare_newest(there, here, self.transform)
        if self.fold and self.topic_type is TopicType.CONFIG:
            return self._compare_canonical(there, here)
        if self.narrowed:  # the source is folded first: its connectors are known before the destination is read
            connectors: set[str | None] = set(self.transform.connectors or ())
            there = _noting_connectors(there, self.transform, connectors)
            here = _of_connectors(here, self.transform.at_destination(), connectors)
        return compare_states(
            self.topic_type,
            there,
            here,
            cluster_group_id=self.transform.destination,
            source_cluster_group_id=self.transform.source,
            partitions=len(self.source.ranges),
        )

    def _compare_canonical(self, there: Iterator[Record], here: Iterator[Record]) -> list[StateDifference]:
        """Compare the destination with what was written, and that with the source, repaired connectors excepted."""
        expected = canonical_config(self.transform, there)
        written = replay_config(expected.records, self.transform.destination)
        of_copy = compare_config_states(expected.state, written, cluster_group_id=self.transform.destination)
        changed = expected.healed | expected.left_without_tasks
        if self.narrowed:
            names = {*written.connectors(), *written.target_states(), *written.task_count_records()}
            here = _of_connectors(here, self.transform.at_destination(), names | set(self.transform.connectors or ()))
        found = compare_config_states(
            written, replay_config(here, self.transform.destination), cluster_group_id=self.transform.destination
        )
        return [difference for difference in of_copy if difference.connector not in changed] + found


def _of_connectors(records: Iterable[Record], transform: KeyTransform, connectors: Set[str | None]) -> Iterator[Record]:
    """Yield, unchanged, the records that a transform takes and that belong to these connectors."""
    for original, record in transform.taken(records):
        if connector_of(transform.topic_type, original) in connectors:
            yield record


def _noting_connectors(
    records: Iterable[Record], transform: KeyTransform, connectors: set[str | None]
) -> Iterator[Record]:
    """Yield, unchanged, the records of connectors that a transform takes, and add their connectors to the set."""
    for original, record in transform.taken(records):
        if (connector := connector_of(transform.topic_type, original)) is not None:
            connectors.add(connector)
            yield record


Digests = dict[str | None, KeySpaceDigest]
"""By cluster group; ``None``: plain keys."""


@dataclass(frozen=True)
class Reading:
    """Partitions of one side, read once for some key spaces; any process may do a part, for digests can be added up."""

    topic_type: TopicType
    side: Side
    empty: dict[str | None, Callable[[], KeySpaceDigest]] = field(default_factory=dict)

    def parts(self, at_once: int) -> Iterator[Reading]:
        """Yield what reads at most so many offsets, or one partition."""
        for ranges in bundles(self.side.ranges, size_of, at_once) or [[]]:
            yield replace(self, side=replace(self.side, ranges=tuple(ranges)))

    def digests(self, on_progress: Callable[[int], None] | None = None) -> Digests:
        """Read, and return the digest of each key space."""
        digests = {space: make() for space, make in self.empty.items()}
        spaces = KeySpaces(self.topic_type, digests)
        for batch in self.side.batches(on_progress):
            spaces.add(batch)
        for digest in digests.values():
            digest.fold()
        return digests


def merged(digests: Iterable[Digests]) -> Digests:
    """Return the digests of all parts."""
    first, *others = digests
    for each in others:
        for space, digest in each.items():
            first[space].merge(digest)
    return first


VerifyEngine = Callable[[Sequence[VerifyJob]], Iterable[list[StateDifference]]]
"""Compares all jobs and yields the differences of those that were folded, in any order; the others are equal."""


def verify_with(
    jobs: Sequence[VerifyJob],
    *,
    digest: Callable[[Sequence[Reading]], Iterable[Digests]],
    compare: Callable[[Sequence[VerifyJob]], Iterable[list[StateDifference]]],
    hash_of: PairHash = HERE,
) -> Iterable[list[StateDifference]]:
    """Compare the digests of jobs that may be quick, each topic read once, and then the records where states may differ.

    ``digest`` does each reading and gives its digests in the same order; ``compare`` runs jobs.
    """
    makers: dict[int, Callable[[], KeySpaceDigest]] = {
        number: partial(digest_of, job.topic_type, hash_of) for number, job in enumerate(jobs) if job.may_be_quick
    }
    folded = [job for job in jobs if not job.may_be_quick]
    while makers:
        readings: dict[object, Reading] = {}
        for number, make in makers.items():
            for side, space in jobs[number].spaces:
                place = jobs[number].topic_type, side.content
                readings.setdefault(place, Reading(jobs[number].topic_type, side)).empty[space] = make
        digests, again = dict(zip(readings, digest([*readings.values()]), strict=True)), {}
        for number in makers:
            job = jobs[number]
            one, other = (digests[job.topic_type, side.content][space] for side, space in job.spaces)
            if any(
                each.sealed and space is not None for each, (_, space) in zip((one, other), job.spaces, strict=True)
            ):
                folded.append(job)
            elif closer := one.closer(other):
                again[number] = closer
            elif suspects := one.suspects(other):
                folded.append(replace(job, suspects=frozenset(suspects)))
        makers = again
    return compare(folded)


def local_verify_engine(progress: Progress) -> VerifyEngine:
    """Return the engine that reads and folds in this process."""

    def digest(readings: Sequence[Reading]) -> Iterator[Digests]:
        for reading in readings:
            spaces = listed((space or PLAIN_KEYS for space in reading.empty), _NAMED)
            progress.phase(f"reading {reading.topic_type.value} of {spaces}", reading.side.offsets)
            yield merged(part.digests(progress.advance) for part in reading.parts(AT_ONCE))

    def compare(jobs: Sequence[VerifyJob]) -> Iterator[list[StateDifference]]:
        for job in jobs:
            group, offsets = job.transform.destination or PLAIN_KEYS, job.source.offsets + job.destination.offsets
            progress.phase(f"comparing {job.topic_type.value} of {group}", offsets)
            yield job.run(progress.advance)

    return partial(verify_with, digest=digest, compare=compare)


def _jobs(run: MigrationRun, warnings: list[str]) -> list[VerifyJob]:
    plan, jobs = run.plan, []
    for source in run.sources:
        with admin_of(source.worker) as source_admin, admin_of(source.destination) as admin:
            planned, topics = source.plan.topics.values(), plan.destination.topics.values()
            source_facts = read_facts(source_admin, {topic.topic for topic in planned}, expected=True)
            facts = read_facts(admin, {topic.topic for topic in topics}, expected=run.manifest is not None)
            jobs += [
                VerifyJob(
                    transform=source.plan.transform(topic_type),
                    source=_source_side(run, source, topic_type, source_facts, warnings),
                    destination=_destination_side(run, source, topic_type, facts, admin),
                    narrowed=plan.merge or source.plan.only_connectors is not None,
                    fold=plan.mode == "state",
                )
                for topic_type in TopicType
            ]
    return jobs


def _source_side(
    run: MigrationRun, source: PlannedSource, topic_type: TopicType, facts: dict[str, TopicFacts], warnings: list[str]
) -> Side:
    manifest, planned = run.manifest, source.plan.topics[topic_type]
    found = require_planned(facts, topic_type, planned)
    ranges = planned.ranges() if manifest is None else manifest.read_ranges_of(source.index, planned.ranges())
    quiet = not source.plan.sharing and not run.plan.in_place(source.plan, topic_type) and not _is_sealed(manifest)
    if quiet and any(found.ends.get(each.partition) != each.end for each in ranges):
        warnings.append(f"{planned.topic} has other end offsets than planned; only the planned ranges are compared")
    return Side(tuple(ranges), Reader.of(source.worker, planned.isolation), sealing=source.sealing)


def _destination_side(
    run: MigrationRun, source: PlannedSource, topic_type: TopicType, facts: dict[str, TopicFacts], admin: Admin
) -> Side:
    shared, manifest, worker = run.plan.destination.topics[topic_type], run.manifest, source.destination
    if manifest is None and shared.create:
        require_topic(facts, shared.topic, remedy=f"apply the plan first: {run.command('apply')}")
    found = require_planned(facts, topic_type, shared if manifest is None else manifest.destination[topic_type])
    require_no_open_for(worker, admin, [topic_type])
    ranges = found.ranges()
    if topic_type is TopicType.STATUS and manifest is not None:
        # Only what came since the copy began: an older removal of the same connector would remove statuses that keep their
        # older timestamps. No key that is moved had a value there then.
        starts = manifest.destination[topic_type].end_offsets
        ranges = [part._replace(start=min(max(part.start, starts.get(part.partition, 0)), part.end)) for part in ranges]
    return Side(tuple(ranges), Reader.of(worker, worker.isolation(topic_type)), sealing=source.destination_sealing)


def _is_sealed(manifest: Manifest | None) -> bool:
    """Return whether the cut-over has written to the source; refuse when it has removed the originals."""
    if manifest is None or manifest.sealed is None:
        return False
    if manifest.sealed.how == "remove":
        raise PlanRejectedError(
            "the cut-over has removed the originals after both sides were found equal: nothing is left to compare with"
        )
    return True


def verify_plan(run: MigrationRun, *, engine: VerifyEngine | None = None, progress: Progress = SILENT) -> Verification:
    """Compare both sides as :func:`compare_sides`; when they are equal, a copied plan's manifest becomes ``verified``.

    The manifest stays as it is where it cannot be written, while another process works with the plan or that is not known,
    or if one has changed it since it was read.
    """
    verification = compare_sides(run, engine=engine, progress=progress)
    compared = run.manifest
    if verification.equal and compared is not None and compared.status is MigrationStatus.COPIED:
        with contextlib.suppress(ConnectShareError), only_one(run.plan_path):
            if Manifest.load(run.manifest_path) == compared:
                run.save(compared.model_copy(update={"status": MigrationStatus.VERIFIED}))
    return verification


def compare_sides(
    run: MigrationRun, *, engine: VerifyEngine | None = None, progress: Progress = SILENT
) -> Verification:
    """Compare the source ranges that were copied with the shared topics as they are now; writes nothing.

    The plan need not be locked.

    Raises:
        TopicError: a topic is missing, was recreated, or has an open transaction in front of its end.
        ConfigError: a key that a group uses is not there.
    """
    engine = engine or local_verify_engine(progress)
    manifest, path = run.manifest, run.manifest_path
    warnings: list[str] = []
    if manifest is None:
        warnings.append(f"there is no manifest {path}: this plan was not applied from here")
    elif manifest.status is MigrationStatus.PLANNED:
        warnings.append(f"the manifest {path} says that apply did not end")
    elif manifest.status is MigrationStatus.ROLLED_BACK:
        warnings.append(f"the manifest {path} says that what was written was removed again")
    jobs = _jobs(run, warnings)
    differences = [difference for found in engine(jobs) for difference in found]
    for source in run.sources:
        if not source.plan.sealed_as_is:
            require_own_keys(source.worker)
            require_own_keys(source.destination)
    if manifest is not None and manifest.status in IS_COPIED and (differences or manifest.may_go_on):
        written, late = written_since(run)
        if late:
            warnings.append(
                f"{late:,} record(s) of this plan came after its copy had ended and was counted: a task that Spark had given "
                "up goes on. End the Spark application, wait until its executors are gone, and verify again; if the sides "
                f"differ then, {run.command('rollback')}, and make a new plan"
            )
        if manifest.status is MigrationStatus.CUT_OVER:
            differences, notes = without_new_writes(differences, written, stopped=_is_sealed(manifest))
            warnings += notes
        elif written and differences:
            warnings.append(
                f"new workers have written since: {describe_written(written)}; do not start the old ones, "
                f"{run.command('seal')} seals the source"
            )
    return Verification(
        run_id=run.plan.run_id,
        equal=not differences,
        compared=len(jobs),
        differences=tuple(sorted(differences, key=str)),
        warnings=tuple(warnings),
    )
