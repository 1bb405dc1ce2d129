"""The records of a seal: a worker that is started at the source by mistake must not run everything a second time."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from connect_share.errors import PlanRejectedError
from connect_share.files import Progress
from connect_share.kafka.write import write_records
from connect_share.model.config import target_state_record
from connect_share.model.config_state import TargetState
from connect_share.model.records import Record, TopicType
from connect_share.model.removal import tombstone
from connect_share.transform.rules import SkipReason
from migrator.apply import now_ms
from migrator.backup import back_up_mirrored
from migrator.copy.copy_job import marker
from migrator.moved_source import MovedSource, moved_sources
from migrator.plan import MigrationPlan
from migrator.run import Manifest, MigrationRun, MigrationStatus, Sealed

Way = Literal["stop", "remove"]
How = Way | Literal["none"]
_LEFT_BEHIND: Final = (SkipReason.SESSION_KEY, SkipReason.RESTART_REQUEST)


@dataclass(frozen=True)
class SealPreview:
    """The effect of a seal: per source topic how many records are written, and the connectors concerned."""

    topics: dict[str, int]
    connectors: tuple[str, ...]


def default_how(plan: MigrationPlan) -> Way:
    """Return ``remove`` for originals that lie beside their copies, ``stop`` for a source with topics of its own."""
    in_place = any(plan.in_place(source, topic_type) for source in plan.sources for topic_type in TopicType)
    return "remove" if in_place else "stop"


def require_backed_up(manifest: Manifest) -> None:
    """Check that there is a backup of the originals that would be removed.

    Raises:
        PlanRejectedError: there is none.
    """
    if manifest.backup is None:
        raise PlanRejectedError(
            "the originals would be removed without a backup (--no-backup): use --seal stop or none"
        )


def how_to_restore(run: MigrationRun) -> str:
    """Return the commands that restore removed originals, in their order."""
    manifest = run.applied()
    files = [each.file for each in (manifest.backup, manifest.mirrored_backup) if each is not None] or ["BACKUP"]
    commands = [
        f"connect-share-migrate restore {shlex.quote(str(run.plan_path.with_name(file)))} --destination-worker-config "
        f"{shlex.quote(source.worker_config_file)}"
        for source in run.plan.sources
        for file in files
    ]
    return f"put them back first: {', then '.join(commands)}"


def preview(run: MigrationRun, how: How) -> SealPreview:
    """Count what :func:`seal` would write."""
    sources = moved_sources(run)
    topics: Counter[str] = Counter()
    for source in sources:
        for record in _seal_records(source, how):
            topics[record.topic] += 2 if record.value is None and source.leaves_tombstones else 1
    names = {name for source in sources for name in source.target_states()}
    return SealPreview(dict(topics), tuple(sorted(names)))


def seal(run: MigrationRun, how: Way, progress: Progress) -> Manifest:
    """Seal every source, which ends the cut-over; may be repeated. Returns the manifest as it was saved.

    What was mirrored is backed up before originals are removed; the backup of the plan does not hold it.

    Raises:
        PlanRejectedError: originals would be removed of which there is no backup.
        BrokerError: reading or writing was refused.
    """
    manifest, sources = run.applied(), moved_sources(run)
    mirrored_backup = manifest.mirrored_backup
    if how == "remove":
        require_backed_up(manifest)
        if manifest.followed is not None and manifest.followed.written and mirrored_backup is None:
            mirrored_backup = back_up_mirrored(run, manifest, progress)
    progress.phase("sealing the source", 0)
    if manifest.sealed is None:
        states = tuple(_current_target_states(source) for source in sources)
    else:  # the states of now are those of an earlier seal
        states = manifest.sealed.target_states or tuple(source.target_states() for source in sources)
    sealed = Sealed(how=how, records=0, at_ms=now_ms(), target_states=states)
    # Before the first record: from now on records are written to the source that are no growth of it.
    run.update(sealed=sealed, mirrored_backup=mirrored_backup)
    outgoing = (each for source in sources for each in source.outgoing(_seal_records(source, how)))
    records = write_records(run.workers, outgoing)
    return end_cutover(run, sealed.model_copy(update={"records": records}))


def end_cutover(run: MigrationRun, sealed: Sealed | None) -> Manifest:
    """Save that the cut-over has ended. Returns the manifest."""
    return run.update(status=MigrationStatus.CUT_OVER, sealed=sealed, finished_at_ms=now_ms())


def unseal(run: MigrationRun) -> int:
    """Put the target states back that a seal by ``stop`` has replaced; may be repeated. Returns how many.

    Raises:
        BrokerError: reading or writing was refused.
    """
    return write_records(
        run.workers,
        (each for source in moved_sources(run) for each in source.outgoing(unseal_records(run, source))),
    )


def unseal_records(run: MigrationRun, source: MovedSource) -> list[Record]:
    """Return the target states that are put back at a source."""
    sealed = run.applied().sealed
    known = () if sealed is None else sealed.target_states
    states = known[source.index] if known else source.target_states()
    return [_target_state(source, name, state) for name, state in states.items()]


def _target_state(source: MovedSource, connector: str, state: TargetState) -> Record:
    key, value = target_state_record(connector, state)
    return Record(source.plan.topics[TopicType.CONFIG].topic, 0, 0, now_ms(), source.prefix + key, value)


def _current_target_states(source: MovedSource) -> dict[str, TargetState]:
    now = source.config_now()
    return {name: now.target_state(name) or TargetState.STARTED for name in source.target_states()}


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
                yield tombstone(topic_type, topic, key)
    if topic_type is TopicType.CONFIG and removed:
        yield marker(topic, source.prefix)
