"""The rollback: removes what the plan wrote, nothing else, and unseals the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from connect_share.backup.record_file import RecordFile
from connect_share.errors import AlreadyAppliedError, PlanRejectedError
from connect_share.files import Progress, Silent
from connect_share.kafka.facts import admin_of, ranges_since, read_facts, read_records
from connect_share.kafka.write import write_records
from connect_share.model.keys import MARKER, connector_of, prefix_of, split_key
from connect_share.model.records import OffsetRange, Record, TopicType
from connect_share.model.removal import OLDEST_MS, is_removal, tombstone
from connect_share.transform.sealed import Opener, Sealer
from connect_share.worker_config import Isolation
from migrator.apply import now_ms
from migrator.checks import check_all, copy_jobs, times_at_destination
from migrator.copy.copy_job import CopyJob, Tally, marker, rewritten
from migrator.copy.existing_records import identity
from migrator.moved_source import how_to_restore, moved_sources, unseal
from migrator.run import Manifest, MigrationRun, MigrationStatus


@dataclass
class Rollback:
    """The effect of a rollback.

    Attributes:
        removals: per topic the keys whose newest record the plan wrote.
        newer: per topic and connector how many keys others have written since; they stay.
        times: when the newest sealed values were written, by whole key.
        unsealed: target states put back at the sources.
    """

    removals: dict[TopicType, list[bytes]] = field(default_factory=dict)
    by_connector: Counter[tuple[TopicType, str | None]] = field(default_factory=Counter)
    newer: Counter[tuple[TopicType, str | None]] = field(default_factory=Counter)
    times: dict[TopicType, dict[bytes, int]] = field(default_factory=dict, repr=False)
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

    ``dry_run`` writes nothing; ``although_used`` rolls back although new workers have written, and what they wrote stays.

    Raises:
        AlreadyAppliedError: it was rolled back before.
        PlanRejectedError: the new workers have written, or the originals were removed.
        LiveMembersError: workers of the destination are alive.
        ConfigError: a value at the destination is sealed with a key that is not in its worker file.
    """
    progress, manifest = progress or Silent(), run.applied()
    if any(source.sealed_as_is for source in run.plan.sources):
        raise PlanRejectedError(
            "the copies are sealed, and the worker files have no keys: new workers would believe no removal"
        )
    if manifest.status is MigrationStatus.ROLLED_BACK:
        raise AlreadyAppliedError(f"run {manifest.run_id} was rolled back before; make a new plan")
    check_all(run, progress, source_may_change=True)
    removed = manifest.sealed is not None and manifest.sealed.how == "remove"
    if removed:
        _require_restored(run)
    found = _find(run, progress, dry_run=dry_run)
    if found.newer and not (although_used or dry_run):
        raise used_since(found)
    if dry_run:
        return found
    check_all(run, progress, source_may_change=True)  # a worker may have been started while the topics were read
    write_records([run.destination], _removals(run, found))
    if manifest.sealed is not None and not removed:
        found.unsealed = unseal(run)
    run.update(status=MigrationStatus.ROLLED_BACK, sealed=None, finished_at_ms=now_ms())
    return found


def used_since(found: Rollback) -> PlanRejectedError:
    """Return the error that says that new workers have run."""
    return PlanRejectedError(
        f"{sum(found.newer.values())} key(s) were written at the destination since, so new workers have run there: the "
        "source does not know what they did; --although-used removes what the plan wrote and leaves what they wrote"
    )


def _require_restored(run: MigrationRun) -> None:
    """Check that the source has what a seal has removed: without it the copies are the last there is."""
    sealed = run.applied().sealed
    removed = () if sealed is None else sealed.target_states
    for source in moved_sources(run):
        present = source.config_now().connectors()
        missing = removed[source.index].keys() - present if removed else source.plan.connectors and not present
        if missing:
            raise PlanRejectedError(f"the originals of {source.plan.group_id} were removed; {how_to_restore(run)}")


def _find(run: MigrationRun, progress: Progress, *, dry_run: bool) -> Rollback:
    manifest = run.applied()
    starts = {topic_type: topic.end_offsets for topic_type, topic in manifest.destination.items()}
    all_jobs = copy_jobs(run, starts, times_at_destination(run, starts), resumed=False)
    found = Rollback()
    for topic_type, topic in manifest.destination.items():
        jobs = [job for job in all_jobs if job.slice_.topic_type is topic_type]
        if manifest.status is MigrationStatus.PLANNED and not dry_run:
            for job in {job.slice_.transform.prefix: job for job in jobs}.values():
                job.write_barrier()
        with admin_of(run.destination) as admin:
            ranges = ranges_since(topic.topic, starts[topic_type], read_facts(admin, {topic.topic})[topic.topic].ends)
            stamped = admin.topic_configs(topic.topic).get("message.timestamp.type") == "LogAppendTime"
        copies = {_identity(record, stamped=stamped) for job in jobs for record in _copies(run, job)}
        progress.phase(f"reading {topic.topic}", sum(part.end - part.start for part in ranges))
        found.removals[topic_type], found.times[topic_type] = [], {}
        for part in ranges:
            for record, original in _newest(run, part, jobs, found.times[topic_type]).values():
                key = (topic_type, connector_of(topic_type, original))
                if original == MARKER[0] or record.value is None or _is_of_rollback(topic_type, record):
                    continue
                if _identity(record, stamped=stamped) in copies:
                    found.removals[topic_type].append(record.key or b"")
                    found.by_connector[key] += 1
                else:
                    found.newer[key] += 1
    return found


def _identity(record: Record, *, stamped: bool) -> bytes:
    """Return what recognises a record; ``stamped``: the destination has replaced its timestamp."""
    return identity(replace(record, timestamp_ms=0) if stamped else record)


def _copies(run: MigrationRun, job: CopyJob) -> Iterator[Record]:
    """Yield what the plan writes for one slice; from the backup where the source was cleared."""
    manifest = run.applied()
    (whole,) = manifest.read_ranges_of(job.slice_.source_index, [job.slice_.offset_range])
    slice_ = replace(job.slice_, offset_range=whole)
    if manifest.sealed is None or manifest.sealed.how != "remove" or manifest.backup is None:
        worker = run.workers[slice_.source_index]
        originals = read_records(worker, [whole], slice_.isolation, with_headers=True)
    else:
        originals = _backed_up(run.plan_path.parent, manifest, whole)
    return rewritten(slice_, originals, Tally(), resealer=job.resealer())


def _backed_up(folder: Path, manifest: Manifest, part: OffsetRange) -> Iterator[Record]:
    for backup in (manifest.backup, manifest.mirrored_backup):
        for record in () if backup is None else RecordFile(folder / backup.file).read():
            if (record.topic, record.partition) == (
                part.topic,
                part.partition,
            ) and part.start <= record.offset < part.end:
                yield record


def _newest(
    run: MigrationRun, part: OffsetRange, jobs: Sequence[CopyJob], times: dict[bytes, int]
) -> dict[bytes, tuple[Record, bytes]]:
    """Return the newest believed record of each key that the plan may have written, with its original key.

    ``times`` gets those of sealed values.
    """
    openers = [
        Opener(sealing, transform, newest)
        for transform, (sealing, newest) in {
            job.slice_.transform.at_destination(): (job.sealing, job.times.destination) for job in jobs
        }.items()
    ]
    newest: dict[bytes, tuple[Record, bytes]] = {}
    for found in read_records(run.destination, [part], Isolation.READ_UNCOMMITTED, with_headers=True):
        for opener in openers:
            original = opener.transform.original_key(found.key)
            record = opener.open(found) if isinstance(original, bytes) else None
            if record is not None and record.key is not None and isinstance(original, bytes):
                newest[record.key] = (record, original)
    for opener in openers:
        if opener.is_on:
            opener.require_opened()
            times.update(opener.newest())
    return newest


def _is_of_rollback(topic_type: TopicType, record: Record) -> bool:
    """Return whether an earlier rollback has removed a key of a sealed config topic; workers write no such timestamp."""
    return record.timestamp_ms == OLDEST_MS and is_removal(topic_type, record.value)


def _removals(run: MigrationRun, found: Rollback) -> Iterator[tuple[int, Record]]:
    """Yield removals, as the new workers believe them, and behind sealed ones tombstones: the cleaner takes both."""
    for topic_type, keys in found.removals.items():
        topic = run.plan.destination.topics[topic_type].topic
        sealers: dict[bytes, Sealer] = {}
        for index, source in enumerate(run.plan.sources):
            transform = source.transform(topic_type)
            sealers[transform.prefix] = Sealer(run.destination_sealing(index), transform, found.times[topic_type])
        for key in keys:
            parts, record = split_key(topic_type, key), tombstone(topic_type, topic, key)
            sealer = sealers[prefix_of(None if parts is None else parts[0])]
            if sealer.is_on:
                record = replace(record, timestamp_ms=OLDEST_MS)
                yield 0, _sealed(sealer, record)
            yield 0, record
        if topic_type is TopicType.CONFIG and keys:
            for prefix, sealer in sorted(sealers.items()):
                yield 0, _sealed(sealer, marker(topic, prefix))


def _sealed(sealer: Sealer, record: Record) -> Record:
    return replace(record, value=sealer.sealed(record.key or b"", sealer.before_sealing(record).value, now_ms()))
