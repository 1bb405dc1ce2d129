"""The source after the cut-over: a worker that is started there by mistake must not run everything a second time."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from connect_share.log.ranges import read_ranges
from connect_share.records import OffsetRange, Record, TopicType
from connect_share.state import ClusterConfigState, TargetState, replay_config, target_state_record
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.client_settings import Isolation
from migrator.backup.backup import back_up_mirrored
from migrator.copy.checked_writer import CheckedWriter, Producers
from migrator.copy.copy_job import IDLE_TIMEOUT_S, MARKER_KEY, MARKER_VALUE
from migrator.errors import PlanRejectedError
from migrator.facts.inspection import client_id_of
from migrator.facts.manifest import Manifest, MigrationStatus, Sealed
from migrator.facts.migration_run import MigrationRun
from migrator.facts.readiness import whole_topic
from migrator.plan.plan import MigrationPlan, SourceCluster
from migrator.progress import Progress
from migrator.transform.rules import KeyTransform, SkipReason

Way = Literal["stop", "remove"]
How = Way | Literal["none"]
_PREFIX_OF_PLAIN: Final = b""
_OLDEST_MS: Final = 1
"""The client library takes 0 for now."""
_LEFT_BEHIND: Final = (SkipReason.SESSION_KEY, SkipReason.RESTART_REQUEST)


@dataclass(frozen=True)
class SealPreview:
    """What sealing would write: per source topic how many records, and the connectors concerned."""

    topics: dict[str, int]
    connectors: tuple[str, ...]

    @property
    def records(self) -> int:
        """All of them."""
        return sum(self.topics.values())


def default_how(plan: MigrationPlan) -> Way:
    """Originals beside their copies are removed; topics of their own are kept, with every connector stopped."""
    in_place = any(plan.in_place(source, topic_type) for source in plan.sources for topic_type in TopicType)
    return "remove" if in_place else "stop"


def require_backed_up(manifest: Manifest) -> None:
    """Refuse to remove originals of which there is no backup.

    Raises:
        PlanRejectedError: it says what to do instead.
    """
    if manifest.backup is None:
        raise PlanRejectedError(
            "the originals would be removed without a backup (--no-backup): use --seal stop or none"
        )


def removal(topic_type: TopicType, topic: str, key: bytes) -> Record:
    """Return the tombstone that removes a key.

    That of a connector's status takes away task statuses with timestamps up to its own, and those that a later move
    brings back have the timestamps they always had: so it says that it is older than all.
    """
    return Record(topic, 0, 0, _OLDEST_MS if topic_type is TopicType.STATUS else _now_ms(), key, None)


def marker(topic: str, prefix: bytes) -> Record:
    """Return the record that closes a config topic behind tombstones: those are cleaned away some day."""
    return Record(topic, 0, 0, _now_ms(), prefix + MARKER_KEY, MARKER_VALUE)


def _now_ms() -> int:
    return int(time.time() * 1000)


def how_to_restore(run: MigrationRun, manifest: Manifest) -> str:
    """Return the commands that put removed originals back, in their order."""
    files = [each.file for each in (manifest.backup, manifest.mirrored_backup) if each is not None] or ["BACKUP"]
    commands = [
        f"connect-share-migrate restore {shlex.quote(str(run.plan_path.with_name(file)))} --destination-worker-config "
        f"{shlex.quote(source.worker_config_file)}"
        for source in run.plan.sources
        for file in files
    ]
    return f"put them back first: {', then '.join(commands)}"


def seal_records(run: MigrationRun, manifest: Manifest, how: How) -> Iterator[tuple[int, Record]]:
    """Yield what is to be written, with the index of the source; nothing if it is there already.

    Raises:
        BrokerError: reading the source was refused.
    """
    for index, source in enumerate(run.plan.sources):
        if how == "stop":
            for record in _stops(run, manifest, index, source):
                yield index, record
        elif how == "remove":
            for topic_type in TopicType:
                for record in _removals(run, manifest, index, source, topic_type):
                    yield index, record


def preview(run: MigrationRun, manifest: Manifest, how: How) -> SealPreview:
    """Count what :func:`seal` would write."""
    topics: dict[str, int] = {}
    for _, record in seal_records(run, manifest, how):
        topics[record.topic] = topics.get(record.topic, 0) + 1
    names: set[str] = set()
    for index in range(len(run.plan.sources)):
        names.update(_states(run, manifest, index))
    return SealPreview(topics, tuple(sorted(names)))


def seal(run: MigrationRun, manifest: Manifest, how: Way, progress: Progress) -> Manifest:
    """Seal every source, which ends the cut-over; may be repeated. Returns the manifest as it was saved.

    What was mirrored is backed up before originals are removed; the backup of the plan does not hold it.

    Raises:
        PlanRejectedError: originals would be removed of which there is no backup.
        BrokerError: reading or writing was refused.
    """
    if how == "remove":
        require_backed_up(manifest)
        if manifest.followed is not None and manifest.followed.written and manifest.mirrored_backup is None:
            update = {"mirrored_backup": back_up_mirrored(run, manifest, progress)}
            manifest = manifest.model_copy(update=update)
    progress.phase("sealing the source", 0)
    known = None if manifest.sealed is None else manifest.sealed.target_states
    states = known or tuple(_states_before(run, manifest, index) for index in range(len(run.plan.sources)))
    sealed = Sealed(how=how, records=0, at_ms=_now_ms(), target_states=states)
    begun = manifest.model_copy(update={"sealed": sealed})
    run.save(begun)  # before the first record: what is written to the source now is no growth of it
    records = _write_to_sources(run.workers, seal_records(run, manifest, how))
    return ended(run, begun, sealed.model_copy(update={"records": records}))


def ended(run: MigrationRun, manifest: Manifest, sealed: Sealed | None) -> Manifest:
    """Save that the cut-over has been. Returns the manifest."""
    update = {"status": MigrationStatus.CUT_OVER, "sealed": sealed, "finished_at_ms": _now_ms()}
    manifest = manifest.model_copy(update=update)
    run.save(manifest)
    return manifest


def unseal(run: MigrationRun, manifest: Manifest) -> int:
    """Put the target states back that a seal by ``stop`` has replaced; may be repeated. Returns how many.

    Raises:
        BrokerError: reading or writing was refused.
    """
    return _write_to_sources(run.workers, unseal_records(run, manifest))


def unseal_records(run: MigrationRun, manifest: Manifest) -> list[tuple[int, Record]]:
    """Return the target states that are put back, with the index of the source."""
    known = () if manifest.sealed is None else manifest.sealed.target_states
    found = []
    for index, source in enumerate(run.plan.sources):
        topic = source.topics[TopicType.CONFIG].topic
        for name, state in (known[index] if known else _states(run, manifest, index)).items():
            key, value = target_state_record(name, state)
            found.append((index, Record(topic, 0, 0, _now_ms(), _prefix(source) + key, value)))
    return found


def _write_to_sources(workers: list[WorkerConfig], records: Iterable[tuple[int, Record]]) -> int:
    """Write records to the sources they belong to, in order.

    Raises:
        BrokerError: a record was refused.
    """
    producers, writers, written = Producers(), {}, 0
    try:
        for index, record in records:
            at = (index, record.topic)
            if at not in writers:
                worker = workers[index]
                writers[at] = CheckedWriter(producers, worker.producer_settings(), record.topic, client_id_of(worker))
            writers[at].write(record)
            written += 1
        for writer in writers.values():
            writer.finish()
    except BaseException:
        for writer in writers.values():
            writer.abandon()
        raise
    return written


def _space(source: SourceCluster) -> str | None:
    return source.group_id if source.sharing else None


def _prefix(source: SourceCluster) -> bytes:
    return source.group_id.encode("ascii") + b"." if source.sharing else _PREFIX_OF_PLAIN


def source_records(
    manifest: Manifest, index: int, source: SourceCluster, topic_type: TopicType, worker: WorkerConfig
) -> Iterator[Record]:
    """Read what was copied from a source topic."""
    topic = source.topics[topic_type]
    return _read(worker, manifest.read_ranges_of(index, topic.ranges()), topic.isolation)


def _read(worker: WorkerConfig, ranges: Iterable[OffsetRange], isolation: Isolation) -> Iterator[Record]:
    return read_ranges(
        worker.consumer_settings(),
        list(ranges),
        isolation=isolation,
        client_id=client_id_of(worker),
        idle_timeout_s=IDLE_TIMEOUT_S,
    )


def _states(run: MigrationRun, manifest: Manifest, index: int) -> dict[str, TargetState]:
    """Return the connectors that were moved from a source, with their target states."""
    source, worker = run.plan.sources[index], run.workers[index]
    state = replay_config(source_records(manifest, index, source, TopicType.CONFIG, worker), _space(source))
    names = state.connectors()
    moved = names if source.only_connectors is None else names & set(source.only_connectors)
    return {name: state.target_state(name) or TargetState.STARTED for name in sorted(moved)}


def _states_before(run: MigrationRun, manifest: Manifest, index: int) -> dict[str, TargetState]:
    """Return the target states that a seal replaces: those of now, unless one has replaced them already."""
    copied = _states(run, manifest, index)
    if manifest.sealed is not None:
        return copied
    now = _now(run, index)
    return {name: now.target_state(name) or TargetState.STARTED for name in copied}


def _now(run: MigrationRun, index: int) -> ClusterConfigState:
    source = run.plan.sources[index]
    isolation = source.topics[TopicType.CONFIG].isolation
    return replay_config(
        _read(run.workers[index], whole_topic(run, index, TopicType.CONFIG), isolation), _space(source)
    )


def _stops(run: MigrationRun, manifest: Manifest, index: int, source: SourceCluster) -> Iterator[Record]:
    topic, now = source.topics[TopicType.CONFIG], _now(run, index)
    for name in _states(run, manifest, index):
        if now.contains(name) and now.target_state(name) is not TargetState.STOPPED:
            yield Record(topic.topic, 0, 0, _now_ms(), *_stop(source, name))


def _stop(source: SourceCluster, name: str) -> tuple[bytes, bytes | None]:
    key, value = target_state_record(name, TargetState.STOPPED)
    return _prefix(source) + key, value


def _removals(
    run: MigrationRun, manifest: Manifest, index: int, source: SourceCluster, topic_type: TopicType
) -> Iterator[Record]:
    """Yield a tombstone for each original that was moved and not written since, but by an earlier seal."""
    worker, topic = run.workers[index], source.topics[topic_type]
    transform: KeyTransform = source.transform(topic_type)
    copied = {each.partition: each.end for each in manifest.read_ranges_of(index, topic.ranges())}
    removed, whole = False, source.only_connectors is None
    stops = set()
    if topic_type is TopicType.CONFIG and manifest.sealed is not None:
        stops = {_stop(source, name) for name in _states(run, manifest, index)}
    for each in whole_topic(run, index, topic_type):
        newest: dict[bytes, Record] = {}
        for record in _read(worker, [each], topic.isolation):
            answer = transform.original_key(record.key)
            # A cluster that is gone leaves no session key behind: it is a secret.
            if record.key is not None and (isinstance(answer, bytes) or (whole and answer in _LEFT_BEHIND)):
                newest[record.key] = record
        for key, record in newest.items():
            moved = record.offset < copied.get(record.partition, 0) or (key, record.value) in stops
            if record.value is not None and moved:
                removed = True
                yield removal(topic_type, topic.topic, key)
    if topic_type is TopicType.CONFIG and removed:
        yield marker(topic.topic, _prefix(source))
