"""The source clusters of a plan that was copied: their workers, the producers of these, and the records of their topics.

A seal is records, too: a worker that is started at the source by mistake must not run everything a second time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar, Final, Literal

from connect_share.backup.rewrite import Facts, Since, StoppedGroup
from connect_share.contents.workers import live_worker_ids
from connect_share.errors import PlanRejectedError, command_line
from connect_share.files import Progress
from connect_share.kafka import client
from connect_share.kafka.facts import admin_of, config_facts, read_records, require_keys_of, require_no_open_transaction
from connect_share.kafka.write import MIGRATE_CLIENT_ID, Written, write_records
from connect_share.model.config import target_state_record
from connect_share.model.config_state import ClusterConfigState, TargetState
from connect_share.model.keys import MARKER, prefix_of
from connect_share.model.records import OffsetRange, Record, TopicType, now_ms
from connect_share.model.removal import tombstone
from connect_share.replay import replay_config
from connect_share.sealing import TopicSeals
from connect_share.transform.rules import SkipReason
from connect_share.worker_config import WorkerConfig
from migrator.bystanders import back_up_mirrored
from migrator.checks import planned_facts
from migrator.copy.copy_job import marker
from migrator.plan import SourceCluster
from migrator.run import Manifest, MigrationRun, MigrationStatus, PlannedSource, Sealed
from migrator.topic_fence import fence_sources, fences_of, seals_after


@dataclass(frozen=True)
class _MovedGroup(StoppedGroup):
    """What a plan moves of a group; workers of other connectors of it may be alive."""

    must_be_stopped: ClassVar[bool] = False
    plan: SourceCluster = field(kw_only=True)
    destination: WorkerConfig = field(kw_only=True)

    def is_own(self, topic_type: TopicType, key: bytes | None) -> bool:
        """Return whether a record with this key is moved."""
        original = self.plan.transform(topic_type).original_key(key)
        return isinstance(original, bytes) and original != MARKER[0]


@dataclass(frozen=True)
class _LeftGroup(_MovedGroup):
    """A group that goes on elsewhere: whatever others write where it was reaches it by a restore only."""

    must_be_stopped: ClassVar[bool] = True
    lost_as: ClassVar[str] = "were not moved"

    def lost_of(self, since: Since) -> Iterator[Record]:
        """Yield what others have written."""
        yield from since.theirs

    def restoring(self, backup: Path) -> str:
        """Return the command that puts it where the group is now."""
        file = str(self.destination.file)
        return command_line("connect-share", "restore", backup, "-w", file, f"--from-group={self.group_id}")


@dataclass(kw_only=True)
class MovedSource(PlannedSource):
    """A source of a plan that was copied."""

    run: MigrationRun

    @property
    def prefix(self) -> bytes:
        """The prefix of its keys; empty for plain keys."""
        return prefix_of(self.plan.space)

    def stopped(self, *, left: bool) -> StoppedGroup:
        """Return the group where it was, which it has left, or to which it comes back."""
        group = _LeftGroup if left else _MovedGroup
        notes, plan, destination = self.run.plan_path.parent, self.plan, self.destination
        return group(self.worker, plan.space, plan.group_id, "source", notes=notes, plan=plan, destination=destination)

    def live_workers(self) -> int | None:
        """Return how many workers of its group are alive; ``None``: they may not be seen."""
        with admin_of(self.worker) as admin:
            found = live_worker_ids(admin, [self.plan.group_id]).get(self.plan.group_id)
            return None if found is None else len(found)

    def require_no_open_transaction(self, wait_s: float | None = None) -> None:
        """Wait until no transaction is open in front of an end, else ``TopicError``."""
        for topic_type in TopicType:
            self.current_ranges(topic_type, wait_s)

    def copied_ranges(self, topic_type: TopicType) -> tuple[OffsetRange, ...]:
        """Return what was copied of a topic."""
        return self.run.applied().read_ranges_of(self.index, self.plan.topics[topic_type].ranges())

    def current_ranges(self, topic_type: TopicType, wait_s: float | None = None) -> list[OffsetRange]:
        """Return what a topic holds now, with no transaction open in front of its end."""
        with admin_of(self.worker) as admin:
            facts = planned_facts(admin, {topic_type: self.plan.topics[topic_type]})[topic_type]
            require_no_open_transaction(admin, facts, wait_s=wait_s)
            return facts.ranges()

    def read(self, topic_type: TopicType, ranges: Sequence[OffsetRange]) -> Iterator[Record]:
        """Yield records of a topic as the workers accept them; of a sealed group read partitions from their beginning."""
        seals = self.worker.seals(topic_type)
        for record in read_records(self.worker, ranges, self.plan.topics[topic_type].isolation):
            taken = seals.accepted(record)
            if taken is not None:
                yield taken

    @property
    def leaves_tombstones(self) -> bool:
        """Whether a tombstone follows each removal: no worker is left that would refuse it, and the cleaner takes both."""
        return self.plan.sealing is not None and self.plan.only_connectors is None

    def outgoing(self, records: Iterable[Record]) -> Iterator[tuple[int, Record, int]]:
        """Yield records as they are written to their partition of the source; sealed later than what is there now.

        Before each is the index of the source, behind it the partition.
        """
        topic_types = {planned.topic: kind for kind, planned in self.plan.topics.items()}
        seals: dict[str, TopicSeals] = {}
        for record in records:
            if record.topic not in seals:
                seals[record.topic] = seals_after(self.worker, topic_types[record.topic])
            value = seals[record.topic].seal(record.key or b"", record.value)
            yield self.index, replace(record, value=value), record.partition
            if record.value is None and self.leaves_tombstones:
                yield self.index, record, record.partition

    def config_now(self) -> ClusterConfigState:
        """Return what a worker would have now."""
        return self._replay(self.current_ranges(TopicType.CONFIG))

    @cached_property
    def copied_config(self) -> ClusterConfigState:
        """What a worker would have after what was copied."""
        return self._replay(self.copied_ranges(TopicType.CONFIG))

    def _replay(self, ranges: Sequence[OffsetRange]) -> ClusterConfigState:
        return replay_config(self.read(TopicType.CONFIG, ranges), self.plan.space)

    def target_states(self) -> dict[str, TargetState]:
        """Return the connectors that were moved, with the target states that were copied."""
        only = self.plan.only_connectors
        return {
            name: self.copied_config.target_state(name) or TargetState.STARTED
            for name in sorted(self.copied_config.connectors())
            if only is None or name in only
        }

    @property
    def states_before_seal(self) -> Mapping[str, TargetState] | None:
        """The target states that a seal has noted before it wrote; ``None``: none has."""
        sealed = self.run.applied().sealed
        return sealed.target_states[self.index] if sealed is not None and sealed.target_states else None

    def transactional_ids(self) -> list[str]:
        """Return the transactional ids of the leader and of the tasks; none without exactly-once (KIP-618)."""
        if self.worker.exactly_once_source_support == "disabled":
            return []
        leader = [self.worker.transactional_id] if self.plan.only_connectors is None else []
        tasks = [task for name in self.target_states() for task in self.copied_config.tasks_to_fence(name)]
        return leader + [f"{self.plan.group_id}-{task}" for task in tasks]


def moved_sources(run: MigrationRun) -> list[MovedSource]:
    """Return the sources of a plan, in its order; ``PlanRejectedError`` if one is sealed, and there are no keys."""
    if any(nothing_is_plain(each, each.worker) for each in run.sources):
        raise PlanRejectedError(
            "the values of the source are sealed, and its worker file has no keys: nobody can see its connectors, or stop "
            "them there. Stop its workers, copy what is left with apply --follow, and run verify; or make a plan with keys"
        )
    return [MovedSource(**vars(each), run=run) for each in run.sources]


def nothing_is_plain(source: PlannedSource, worker: WorkerConfig) -> bool:
    """Return whether a group, whose values are copied as they are, has nothing but sealed values on its config topic."""
    plan = source.plan
    return plan.sealed_as_is and bool(require_keys_of(worker, [plan.space], config_facts(worker, expected=True)))


def fence(sources: Sequence[MovedSource], progress: Progress) -> int:
    """Fence the old producers of sources by their transactional ids, several side by side. Returns how many.

    If the cluster refuses one, others may be fenced. Fencing again is harmless.
    """
    fences = [
        partial(
            client.fence, source.worker.producer_settings(), id_, client_id=source.worker.client_id(MIGRATE_CLIENT_ID)
        )
        for source in sources
        for id_ in source.transactional_ids()
    ]
    progress.phase("fencing the old producers", len(fences))
    client.fence_together(fences, progress.advance)
    return len(fences)


Way = Literal["stop", "remove"]
How = Way | Literal["none"]
SEALED: Final[Mapping[How, tuple[TopicType, ...]]] = {
    "none": (),
    "stop": (TopicType.CONFIG,),
    "remove": tuple(TopicType),
}
"""To which topics of a source each way writes, the fence included."""
_LEFT_BEHIND: Final = (SkipReason.SESSION_KEY, SkipReason.RESTART_REQUEST)


def default_how(run: MigrationRun) -> Way:
    """Return how it was sealed before; else ``remove`` for originals beside their copies, ``stop`` for topics of its own."""
    sealed = run.applied().sealed  # both sides were equal then
    return sealed.how if sealed is not None else "remove" if run.plan.is_in_place else "stop"


def require_backed_up(manifest: Manifest) -> None:
    """Check that there is a backup of the originals that would be removed; else ``PlanRejectedError``."""
    if manifest.backup is None:
        raise PlanRejectedError(
            "the originals would be removed without a backup (--no-backup): use --seal stop or none"
        )


def how_to_restore(run: MigrationRun) -> str:
    """Return the commands that restore removed originals, in their order."""
    manifest, to = run.applied(), ["--destination-worker-config"]
    files = [each.file for each in (manifest.backup, manifest.mirrored_backup) if each is not None] or ["BACKUP"]
    commands = [
        command_line("connect-share-migrate", "restore", run.plan_path.with_name(file), *to, source.worker_config_file)
        for source in run.plan.sources
        for file in files
    ]
    return f"put them back first: {', then '.join(commands)}"


def preview(sources: Sequence[MovedSource], how: How) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return how many records :func:`seal` would write to each source topic, and the connectors concerned."""
    topics: Counter[str] = Counter()
    for source in sources:
        for record in _seal_records(source, how):
            topics[record.topic] += 2 if record.value is None and source.leaves_tombstones else 1
    names = {name for source in sources for name in source.target_states()}
    return dict(topics), tuple(sorted(names))


Watched = Sequence[tuple[int, StoppedGroup, Facts]]
"""The place of a worker, the group whose workers are stopped, and its topics since when nobody may write."""


def watch(sources: Iterable[MovedSource], *, left: bool = True) -> Watched:
    """Return from when on others may write no more to sources, which their groups have left, or come back to."""
    groups = [(source.index, source.stopped(left=left)) for source in sources]
    return [(index, group, group.facts()) for index, group in groups]


def write_watched(
    workers: Sequence[WorkerConfig], records: Iterable[tuple[int, Record, int]], watched: Watched
) -> Written:
    """Write records, and note for those that are watched what is written until :func:`look_again` has looked."""

    def note(written: Written) -> None:
        for index, group, before in watched:
            group.note_due(before, written, index)

    return write_records(workers, records, note=note)


def look_again(watched: Watched, written: Written, beside: Path) -> None:
    """Refuse what others have written to those that are watched."""
    for index, group, before in watched:
        group.look_again(before, written, beside, index)


def seal(run: MigrationRun, how: Way, progress: Progress, watched: Watched) -> Manifest:
    """Seal every source, which ends the cut-over; may be repeated. Returns the manifest as it was saved.

    What others have written to those that are watched is refused.

    What was mirrored is backed up before originals are removed; the backup of the plan does not hold it.
    """
    manifest, sources = run.applied(), moved_sources(run)
    mirrored_backup = manifest.mirrored_backup
    if how == "remove" and manifest.followed is not None and manifest.followed.written and mirrored_backup is None:
        mirrored_backup = back_up_mirrored(run, manifest, progress)
    progress.phase("sealing the source", 0)
    if manifest.sealed is None:
        states = tuple(
            {name: now.target_state(name) or TargetState.STARTED for name in source.target_states()}
            for source, now in ((source, source.config_now()) for source in sources)
        )
    else:  # the states of now are those of an earlier seal
        states = manifest.sealed.target_states or tuple(source.target_states() for source in sources)
    sealed = Sealed(how=how, records=0, at_ms=now_ms(), target_states=states)
    fences = manifest.fences or fences_of(run.plan, run.sources)
    # Before the first record: from now on records are written to the source that are no growth of it.
    run.update(sealed=sealed, mirrored_backup=mirrored_backup, fences=fences)
    for index, group, before in watched:  # what old workers write from now on is not copied by a repetition
        group.note_due(before, Written(), index)
    outgoing = (each for source in sources for each in source.outgoing(_seal_records(source, how)))
    written = write_watched(run.workers, outgoing, watched)
    fence_sources(run, up=True)
    look_again(watched, written, run.plan_path)
    return end_cutover(run, sealed.model_copy(update={"records": len(written)}))


def end_cutover(run: MigrationRun, sealed: Sealed | None) -> Manifest:
    """Save that the cut-over has ended. Returns the manifest."""
    return run.update(status=MigrationStatus.CUT_OVER, sealed=sealed, finished_at_ms=now_ms())


def unseal(run: MigrationRun) -> int:
    """Put the target states back that a seal by ``stop`` has replaced; may be repeated. Returns how many."""
    sources = moved_sources(run)
    watched = watch(sources, left=False)
    outgoing = (each for source in sources for each in source.outgoing(unseal_records(source)))
    written = write_watched(run.workers, outgoing, watched)
    look_again(watched, written, run.plan_path)
    return len(written)


def left_out(run: MigrationRun) -> tuple[Counter[TopicType], Counter[TopicType]]:
    """Return by topic how many records the workers of the sources leave out: of aborted transactions, and refused ones."""
    aborted, refused = Counter[TopicType](), Counter[TopicType]()
    for source in moved_sources(run):
        aborted.update(source.stopped(left=True).aborted())
        for kind in TopicType:
            if (seals := source.worker.seals(kind)).refuses:
                for record in read_records(source.worker, source.current_ranges(kind), source.worker.isolation(kind)):
                    seals.open(record)
                refused[kind] += seals.refused.total()
    return aborted, refused


def unseal_records(source: MovedSource) -> list[Record]:
    """Return the target states that are put back at a source, where nobody has changed what the seal has written."""
    known, now = source.states_before_seal, source.config_now()
    states = source.target_states() if known is None else known
    return [
        _target_state(source, name, state)
        for name, state in states.items()
        if now.target_state(name) is TargetState.STOPPED and state is not TargetState.STOPPED
    ]


def _target_state(source: MovedSource, connector: str, state: TargetState) -> Record:
    key, value = target_state_record(connector, state)
    return Record(source.plan.topics[TopicType.CONFIG].topic, 0, 0, now_ms(), source.prefix + key, value)


def _seal_records(source: MovedSource, how: How) -> Iterator[Record]:
    """Yield what is to be written to a source; nothing if it is there already."""
    if how == "stop":
        now = source.config_now()
        for name in source.target_states():
            if now.contains(name) and now.target_state(name) is not TargetState.STOPPED:
                yield _target_state(source, name, TargetState.STOPPED)
    elif how == "remove":
        for topic_type in TopicType:
            yield from _removals(source, topic_type)


def _removals(source: MovedSource, topic_type: TopicType) -> Iterator[Record]:
    """Yield a tombstone for each original that was moved and not written since, except by an earlier seal."""
    topic, transform = source.plan.topics[topic_type].topic, source.plan.transform(topic_type)
    copied = {part.partition: part.end for part in source.copied_ranges(topic_type)}
    removed, whole = False, source.plan.only_connectors is None
    stops = set()
    if topic_type is TopicType.CONFIG and source.run.applied().sealed is not None:
        records = (_target_state(source, name, TargetState.STOPPED) for name in source.target_states())
        stops = {(record.key, record.value) for record in records}
    for part in source.current_ranges(topic_type):
        newest: dict[bytes, Record] = {}
        for record in source.read(topic_type, [part]):
            original = transform.original_key(record.key)
            # A cluster that is gone leaves no session key behind: it is a secret.
            if record.key is not None and (isinstance(original, bytes) or (whole and original in _LEFT_BEHIND)):
                newest[record.key] = record
        for key, record in newest.items():
            moved = record.offset < copied.get(record.partition, 0) or (key, record.value) in stops
            if record.value is not None and moved:
                removed = True
                yield replace(tombstone(topic_type, topic, key), partition=record.partition)
    if topic_type is TopicType.CONFIG and removed:
        yield marker(topic, source.prefix)
