"""Taking a move back: what the plan wrote is removed again, nothing else, and the source is unsealed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from connect_share.admin import Admin
from connect_share.log.ranges import read_ranges
from connect_share.record_file import RecordFile
from connect_share.records import OffsetRange, Record, TopicType
from connect_share.state import replay_config
from connect_share.worker_config.client_settings import Isolation
from migrator.apply.apply import now_ms
from migrator.copy.checked_writer import CheckedWriter, Producers
from migrator.copy.copy_job import IDLE_TIMEOUT_S, MARKER_KEY, CopyJob, read_slice, rewritten
from migrator.copy.evidence import Tally
from migrator.copy.existing_records import identity, ranges_since
from migrator.cutover.seal_records import how_to_restore, marker, removal, unseal
from migrator.errors import AlreadyAppliedError, PlanRejectedError
from migrator.facts.inspection import client_id_of, read_facts
from migrator.facts.manifest import Manifest, MigrationStatus
from migrator.facts.migration_run import MigrationRun
from migrator.facts.readiness import check_all, copy_jobs, whole_topic
from migrator.plan.plan import CopySlice
from migrator.progress import Progress, Silent
from migrator.transform.connector_keys import connector_of


@dataclass
class Rollback:
    """What a rollback removes.

    Attributes:
        removals: per topic the keys whose newest record the plan wrote, with their partition.
        newer: per topic and connector how many keys somebody has written since; they stay.
        unsealed: target states put back at the sources.
    """

    removals: dict[TopicType, list[bytes]] = field(default_factory=dict)
    by_connector: Counter[tuple[TopicType, str | None]] = field(default_factory=Counter)
    newer: Counter[tuple[TopicType, str | None]] = field(default_factory=Counter)
    unsealed: int = 0

    @property
    def records(self) -> int:
        """Keys that are removed."""
        return sum(len(keys) for keys in self.removals.values())


def roll_back(
    run: MigrationRun,
    *,
    dry_run: bool = False,
    although_used: bool = False,
    progress: Progress | None = None,
) -> Rollback:
    """Remove what a plan has written, whether its apply ended or not; may be repeated.

    Args:
        run: the plan, locked.
        dry_run: find out and write nothing.
        although_used: go on although the new workers have written; what they wrote stays.
        progress: told how far it is.

    Raises:
        AlreadyAppliedError: it was rolled back before.
        PlanRejectedError: the new workers have written, or the originals were removed.
        LiveMembersError: workers of the destination are alive.
        BrokerError: the cluster refused.
    """
    progress, manifest = progress or Silent(), run.applied()
    if manifest.status is MigrationStatus.ROLLED_BACK:
        raise AlreadyAppliedError(f"run {manifest.run_id} was rolled back before; make a new plan")
    check_all(run, progress, source_may_change=True)
    removed = manifest.sealed is not None and manifest.sealed.how == "remove"
    if removed:
        _require_restored(run, manifest)
    found = _find(run, manifest, progress, dry_run=dry_run)
    if found.newer and not (although_used or dry_run):
        raise used_since(found)
    if dry_run:
        return found
    _write(run, found)
    if manifest.sealed is not None and not removed:
        found.unsealed = unseal(run, manifest)
    run.update(status=MigrationStatus.ROLLED_BACK, sealed=None, finished_at_ms=now_ms())
    return found


def used_since(found: Rollback) -> PlanRejectedError:
    """Return the error that says that new workers have run."""
    return PlanRejectedError(
        f"{sum(found.newer.values())} key(s) were written at the destination since, so new workers have run there: the "
        "source does not know what they did; --although-used removes what the plan wrote and leaves what they wrote"
    )


def _require_restored(run: MigrationRun, manifest: Manifest) -> None:
    """Refuse while the source lacks what a seal has removed: the copies would be the last there is.

    Raises:
        PlanRejectedError: it says how to put the originals back.
    """
    removed = () if manifest.sealed is None else manifest.sealed.target_states
    for index, source in enumerate(run.plan.sources):
        worker, topic = run.workers[index], source.topics[TopicType.CONFIG]
        records = read_ranges(
            worker.consumer_settings(),
            whole_topic(run, index, TopicType.CONFIG),
            isolation=topic.isolation,
            client_id=client_id_of(worker),
            idle_timeout_s=IDLE_TIMEOUT_S,
        )
        there = replay_config(records, source.group_id if source.sharing else None).connectors()
        missing = removed[index].keys() - there if removed else source.connectors and not there
        if missing:
            raise PlanRejectedError(f"the originals of {source.group_id} were removed; {how_to_restore(run, manifest)}")


def _identity_at(run: MigrationRun, topic: str) -> Callable[[Record], bytes]:
    """Return what recognises a record that was written to a topic."""
    worker = run.destination
    with Admin(worker.admin_settings(), client_id=client_id_of(worker)) as admin:
        if admin.topic_configs(topic).get("message.timestamp.type") != "LogAppendTime":
            return identity
    return lambda record: identity(replace(record, timestamp_ms=0))


def _written(
    folder: Path, manifest: Manifest, topic_type: TopicType, jobs: list[CopyJob], known_by: Callable[[Record], bytes]
) -> set[bytes]:
    """Give the identities of everything that the plan writes to one topic."""
    told: set[bytes] = set()
    for job in jobs:
        if job.slice_.topic_type is topic_type:
            (whole,) = manifest.read_ranges_of(job.slice_.source_index, [job.slice_.offset_range])
            slice_ = replace(job.slice_, offset_range=whole)
            told.update(
                known_by(record) for record in rewritten(slice_, _originals(folder, manifest, job, slice_), Tally())
            )
    return told


def _originals(folder: Path, manifest: Manifest, job: CopyJob, slice_: CopySlice) -> Iterator[Record]:
    """Read a slice from its source, or from the backup where the source was cleared."""
    if manifest.sealed is None or manifest.sealed.how != "remove" or manifest.backup is None:
        yield from read_slice(slice_, job.consumer_settings, client_id=job.client_id)
        return
    topic, partition, start, end = slice_.offset_range
    for backup in (manifest.backup, manifest.mirrored_backup):
        for record in () if backup is None else RecordFile(folder / backup.file).read():
            if record.topic == topic and record.partition == partition and start <= record.offset < end:
                yield record


def _find(run: MigrationRun, manifest: Manifest, progress: Progress, *, dry_run: bool) -> Rollback:
    starts = {topic_type: topic.end_offsets for topic_type, topic in manifest.destination.items()}
    jobs = copy_jobs(run, starts, resumed=False)
    found = Rollback()
    for topic_type, written_topic in manifest.destination.items():
        if manifest.status is MigrationStatus.PLANNED and not dry_run:
            for job in {
                job.slice_.transform.prefix: job for job in jobs if job.slice_.topic_type is topic_type
            }.values():
                job.write_barrier()
        known_by = _identity_at(run, written_topic.topic)
        told = _written(run.manifest_path.parent, manifest, topic_type, jobs, known_by)
        backs = {job.slice_.transform.at_destination() for job in jobs if job.slice_.topic_type is topic_type}
        markers = {job.slice_.transform.prefix + MARKER_KEY for job in jobs}
        ranges = _written_ranges(run, written_topic.topic, starts[topic_type])
        progress.phase(f"looking at {written_topic.topic}", sum(each.end - each.start for each in ranges))
        removals: list[bytes] = []
        for each in ranges:
            newest: dict[bytes, tuple[Record, bytes]] = {}
            for record in _read(run, each):
                for back in backs:
                    original = back.original_key(record.key)
                    if isinstance(original, bytes) and record.key is not None:
                        newest[record.key] = (record, original)
            for key, (record, original) in newest.items():
                at = (topic_type, connector_of(topic_type, original))
                if key in markers:
                    continue
                if known_by(record) in told:
                    if record.value is not None:
                        removals.append(key)
                        found.by_connector[at] += 1
                elif record.value is not None:
                    found.newer[at] += 1
        found.removals[topic_type] = removals
    return found


def _written_ranges(run: MigrationRun, topic: str, starts: dict[int, int]) -> list[OffsetRange]:
    worker = run.destination
    with Admin(worker.admin_settings(), client_id=client_id_of(worker)) as admin:
        return ranges_since(topic, starts, read_facts(admin, {topic})[topic].ends)


def _read(run: MigrationRun, each: OffsetRange) -> Iterator[Record]:
    worker = run.destination
    return read_ranges(
        worker.consumer_settings(),
        [each],
        isolation=Isolation.READ_UNCOMMITTED,
        client_id=client_id_of(worker),
        idle_timeout_s=IDLE_TIMEOUT_S,
        with_headers=True,
    )


def _write(run: MigrationRun, found: Rollback) -> None:
    worker, producers = run.destination, Producers()
    for topic_type, keys in found.removals.items():
        topic = run.plan.destination.topics[topic_type].topic
        writer = CheckedWriter(producers, worker.producer_settings(), topic, client_id_of(worker))
        try:
            for key in keys:
                writer.write(removal(topic_type, topic, key))
            if topic_type is TopicType.CONFIG and keys:
                for prefix in sorted({source.transform(topic_type).prefix for source in run.plan.sources}):
                    writer.write(marker(topic, prefix))
            writer.finish()
        except BaseException:
            writer.abandon()
            raise
