"""The cut-over: stop the mirror, copy the last records, compare, fence and seal; and seal or unseal as steps of their own.

The rollback removes what the plan wrote, nothing else, and unseals the source.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Final

from connect_share.backup.rewrite import StoppedGroup
from connect_share.errors import AlreadyAppliedError, ConnectShareError, CutoverError, PlanRejectedError, UsageError
from connect_share.files import SILENT, Progress
from connect_share.kafka.client import Deadline
from connect_share.kafka.facts import TopicFacts, admin_of, count_aborted, read_facts, require_no_open_transaction
from connect_share.kafka.waits import Awaited
from connect_share.model.keys import MARKER, connector_of, prefix_of, split_key
from connect_share.model.records import OffsetRange, Record, TopicType, now_ms, size_of
from connect_share.model.removal import OLDEST_MS, is_removal, tombstone
from connect_share.transform.rules import KeyTransform
from connect_share.transform.sealed import Opener, Sealer
from migrator.apply import Follower, request_path, require_may_follow
from migrator.bystanders import backed_up
from migrator.checks import check_all, copy_jobs, read_groups, times_at_destination
from migrator.copy.copy_job import CopyJob, marker
from migrator.copy.existing_records import identity
from migrator.moved_source import (
    SEALED,
    How,
    MovedSource,
    Way,
    default_how,
    end_cutover,
    fence,
    how_to_restore,
    look_again,
    moved_sources,
    nothing_is_plain,
    preview,
    require_backed_up,
    seal,
    unseal,
    unseal_records,
    watch,
    write_watched,
)
from migrator.run import IS_COPIED, Manifest, MigrationRun, MigrationStatus, SourceFence, only_one
from migrator.topic_fence import fence_destination, fence_sources, fences_of
from migrator.verify.equality import Verification
from migrator.verify.verification import (
    VerifyEngine,
    compare_sides,
    copies_of,
    describe_written,
    require_unused,
    written_since,
)

TIMEOUT_S: Final = 120.0
_RETRY_S: Final = 0.2


@dataclass(frozen=True)
class CutoverPreview:
    """The effect of a cut-over or of a seal.

    Attributes:
        live_workers: per source group how many are alive, ``None``: not known; all have to be stopped first.
        how: of sealing.
        seal_records: that sealing would write to each source topic.
        connectors: that it concerns.
        transactional_ids: that would be fenced.
        fences: that would keep old workers from starting.
        same_members: source groups whose live workers may be new ones; only for a seal alone.
        objections: why it would be refused now: other workers are alive.
    """

    live_workers: dict[str, int | None]
    how: How
    seal_records: dict[str, int]
    connectors: tuple[str, ...]
    transactional_ids: tuple[str, ...]
    fences: tuple[SourceFence, ...] = ()
    same_members: frozenset[str] = frozenset()
    objections: Sequence[ConnectShareError] = ()


@dataclass(frozen=True)
class CutoverResult:
    """What was done; without a verification after a cut-over that was killed while it sealed, and after a seal alone."""

    manifest: Manifest
    verification: Verification | None
    fenced: int


def preview_cutover(run: MigrationRun, how: How | None = None, progress: Progress = SILENT) -> CutoverPreview:
    """Return what a cut-over would do; writes nothing, and does not disturb a run that follows."""
    how = _require_possible(run, how)
    _check(run, how, progress)
    return _previewed(run, how)


def _previewed(run: MigrationRun, how: How, *, alone: bool = False) -> CutoverPreview:
    """Return what a cut-over would do, or a seal ``alone``, which new workers may live beside."""
    sources = moved_sources(run)
    same = frozenset(source.plan.group_id for source in sources if alone and source.keeps_its_members)
    unfenced = _unfenced(run, sources) if alone else sources
    live = {source.plan.group_id: source.live_workers() for source in sources}
    ids = tuple(id_ for source in unfenced for id_ in source.transactional_ids())
    fences = () if how == "none" else run.applied().fences or fences_of(run.plan, run.sources)
    stopped = [source.stopped(left=True) for source in sources if source.plan.group_id not in same]
    objections = [error for group in stopped for error in group.objections(group.end_due_look)]
    return CutoverPreview(live, how, *preview(sources, how), ids, fences, same, objections)


def cut_over(
    run: MigrationRun,
    *,
    how: How | None = None,
    timeout_s: float = TIMEOUT_S,
    engine: VerifyEngine | None = None,
    progress: Progress = SILENT,
) -> CutoverResult:
    """Cut over a plan that was applied; all workers of the sources have to be stopped. May be repeated.

    ``run`` is not locked: a process that follows it may have locked it. ``how``: to seal the source, by default as
    :func:`default_how`. ``timeout_s``: limit for taking over from a run that follows, and for copying what is left.

    Raises:
        LiveMembersError: workers of a source are alive.
        DestinationUsedError: new workers have written since the copy; nothing was copied.
        CutoverError: it did not catch up in time, or both sides differ; nothing was fenced or sealed.
    """
    deadline = Deadline.after(timeout_s)
    run.reload_manifest()
    _require_possible(run, how)
    _require_stopped(run)
    with _taken_over(run.plan_path, deadline):
        sealed = run.reload_manifest().sealed
        require_may_follow(run.applied())
        how = how or default_how(run)
        _check(run, how, progress)
        _require_stopped(run)
        verification, watched = None, [] if sealed is None else watch(moved_sources(run))
        if sealed is None:
            progress.phase("copying what is left", 0)
            follower, written = Follower(run), -1
            while follower.round().written != written:  # else it has grown while both sides were compared
                written = _catch_up(run, follower, deadline)
                verification = compare_sides(run, engine=engine, progress=progress)
                if not verification.equal:
                    again = "; apply --follow continues" if run.plan.follow else ""
                    raise CutoverError(
                        f"{len(verification.differences)} difference(s) between both sides: {run.command('verify')} "
                        f"shows them; nothing was fenced or sealed, the old workers may be started "
                        f"again{again}"
                    )
                watched = watch(moved_sources(run))
            run.update(status=MigrationStatus.VERIFIED)
        _require_stopped(run)
        fenced = fence(moved_sources(run), progress)
        manifest = end_cutover(run, None) if how == "none" else seal(run, how, progress, watched)
        return CutoverResult(manifest, verification, fenced)


def _check(run: MigrationRun, how: How, progress: Progress) -> None:
    # What a seal has written to the source is no growth of it.
    if (sealed := run.applied().sealed) is not None and sealed.how != how:
        raise UsageError(f"--seal {how}: this cut-over has begun to seal with {sealed.how}: leave --seal out, to go on")
    check_all(run, progress, source_may_change=sealed is not None, seals=SEALED[how])


def _require_stopped(run: MigrationRun) -> None:
    for source in moved_sources(run):
        source.stopped(left=True).require_stopped()


def _require_possible(run: MigrationRun, how: How | None) -> How:
    """Check what can be checked before a run that follows is asked to end; return how the source is sealed."""
    require_may_follow(run.applied())
    require_unused(run)
    how = how or default_how(run)
    if how == "remove":
        require_backed_up(run.applied())
    return how


@contextmanager
def _taken_over(plan_path: Path, deadline: Deadline) -> Iterator[None]:
    request = request_path(plan_path)
    try:
        with contextlib.ExitStack() as held, Awaited("the run that follows the source to end") as wait:
            while True:
                request.touch(mode=0o600)  # each time: a run that begins to follow removes an old request
                try:
                    held.enter_context(only_one(plan_path))
                    break
                except AlreadyAppliedError:
                    if not deadline.remaining_s():
                        raise
                    time.sleep(_RETRY_S)
            request.unlink(missing_ok=True)
            wait.over()
            yield
    finally:
        request.unlink(missing_ok=True)


def _catch_up(run: MigrationRun, follower: Follower, deadline: Deadline) -> int:
    """Copy until nothing is behind, with no transaction open in front of an end. Returns how many were ever mirrored."""
    # Other groups keep writing to a shared topic. The source has caught up when a whole round finds nothing of it.
    written = -1
    while (now := follower.round().written) != written:
        written = now
        if not deadline.remaining_s():
            raise CutoverError(
                "the source still grows although its workers are stopped: find out who writes to it; nothing was "
                "fenced or sealed"
            )
    for source in moved_sources(run):
        source.require_no_open_transaction(deadline.remaining_s())
    return follower.round().written  # with what those transactions have committed


def preview_seal(run: MigrationRun, how: Way | None = None, progress: Progress = SILENT) -> CutoverPreview:
    """Return what :func:`seal_plan` would do; writes nothing."""
    return _previewed(run, _check_seal(run, how, progress), alone=True)


def seal_plan(run: MigrationRun, how: Way | None = None, progress: Progress = SILENT) -> CutoverResult:
    """Seal the source of a plan after its cut-over, even a forgotten one; new workers may run. May be repeated.

    After a cut-over that was forgotten the old producers are fenced too, unless the new ones have their transactional ids
    and have fenced them. Without ``how`` it is sealed as :func:`default_how` says.

    Raises:
        LiveMembersError: workers of a source are alive, where Kafka can tell them from new ones.
        AlreadyAppliedError: the originals were removed before, or the plan was not copied or was rolled back.
        PlanRejectedError: the cut-over has to be first, or there is no backup of what would be removed.
    """
    how = _check_seal(run, how, progress)
    sources = moved_sources(run)
    watched = watch(source for source in sources if not source.keeps_its_members)
    fenced = fence(_unfenced(run, sources), progress)
    return CutoverResult(seal(run, how, progress, watched), None, fenced)


def _check_seal(run: MigrationRun, how: Way | None, progress: Progress) -> Way:
    manifest = run.applied()
    if manifest.status not in IS_COPIED:
        raise AlreadyAppliedError(f"run {manifest.run_id} is {manifest.status.value}: there is nothing to seal")
    if manifest.sealed is not None and manifest.sealed.how == "remove" and how == "stop":
        raise AlreadyAppliedError("the originals were removed: no connector is left to stop")
    how = how or default_how(run)
    check_all(run, progress, source_may_change=True, new_workers_may_live=True, writes=None, seals=SEALED[how])
    if how == "remove":
        require_backed_up(manifest)
    if manifest.status is not MigrationStatus.CUT_OVER and not written_since(run)[0]:
        raise PlanRejectedError(
            f"no new worker has written since the copy: {run.command('cutover')} copies what is left, "
            "verifies, fences and seals"
        )
    return how


def _unfenced(run: MigrationRun, sources: Sequence[MovedSource]) -> list[MovedSource]:
    """Return the sources whose old producers are not fenced yet; new producers have fenced those of the same id."""
    if run.applied().status is MigrationStatus.CUT_OVER:
        return []
    return [source for source in sources if not source.keeps_its_members]


@dataclass(frozen=True)
class UnsealResult:
    """The effect of unsealing.

    Attributes:
        connectors: that get their target state back.
        used: the error that says what new workers have written since; ``None``: nothing.
    """

    connectors: int
    used: PlanRejectedError | None


def unseal_plan(
    run: MigrationRun, *, dry_run: bool = False, although_used: bool = False, progress: Progress = SILENT
) -> UnsealResult:
    """Put the target states back that a seal by ``stop`` has replaced; the copies stay. May be repeated.

    ``dry_run`` writes nothing; ``although_used`` unseals although new workers have written.

    Raises:
        LiveMembersError: workers of the source or of the destination are alive.
        AlreadyAppliedError: the source is not sealed.
        PlanRejectedError: the originals were removed, or new workers have written.
    """
    manifest = run.applied()
    if manifest.sealed is None:
        raise AlreadyAppliedError(f"the source of {run.plan_path} is not sealed: there is nothing to put back")
    check_all(run, progress, source_may_change=True, writes=None, seals=SEALED["stop"])
    if manifest.sealed.how == "remove":
        raise PlanRejectedError(f"the originals were removed; {how_to_restore(run)}")
    for source in moved_sources(run):
        (group := source.stopped(left=False)).require_stopped()
        group.end_due_look()
        source.require_no_open_transaction()  # its workers would not see what is put back
    written, _ = written_since(run)
    used = PlanRejectedError(
        f"new workers have written since: {describe_written(written)}. The old workers do not know of it: they would run "
        "what was configured before, and would do the same work again; --although-used unseals all the same"
    )
    if written and not (dry_run or although_used):
        raise used
    count = sum(len(unseal_records(source)) for source in moved_sources(run))
    if not dry_run:
        unseal(run)
        fence_sources(run, up=False)
        run.update(sealed=None, fences=(), status=MigrationStatus.COPIED)
    return UnsealResult(count, used if written else None)


@dataclass
class Rollback:
    """The effect of a rollback.

    Attributes:
        removals: per topic the keys whose newest record in a partition the plan wrote, and the partition.
        newer: per topic and connector how many keys others have written since; they stay.
        times: when the newest sealed values were written, by whole key.
        facts: the topics as they were read.
        unsealed: target states put back at the sources.
        aborted, refused: per topic how many records new workers do not see, for their transactions were aborted, or for
            the group did not write them.
    """

    removals: dict[TopicType, list[tuple[bytes, int]]] = field(default_factory=dict)
    by_connector: Counter[tuple[TopicType, str | None]] = field(default_factory=Counter)
    newer: Counter[tuple[TopicType, str | None]] = field(default_factory=Counter)
    times: dict[TopicType, dict[bytes, int]] = field(default_factory=dict, repr=False)
    facts: dict[TopicType, TopicFacts] = field(default_factory=dict, repr=False)
    unsealed: int = 0
    aborted: Counter[TopicType] = field(default_factory=Counter)
    refused: Counter[TopicType] = field(default_factory=Counter)

    @property
    def records(self) -> int:
        """Keys that are removed."""
        return sum(len(keys) for keys in self.removals.values())


def roll_back(
    run: MigrationRun,
    *,
    dry_run: bool = False,
    although_used: bool = False,
    progress: Progress = SILENT,
) -> Rollback:
    """Remove what a plan has written, whether its apply ended or not; may be repeated.

    ``dry_run`` writes nothing; ``although_used`` rolls back although new workers have written, and what they wrote stays.

    Raises:
        AlreadyAppliedError: it was rolled back before.
        PlanRejectedError: the new workers have written, or the originals were removed.
        LiveMembersError: workers of the destination are alive.
        ConfigError: a value at the destination is sealed with a key that is not in its worker file.
    """
    manifest = run.applied()
    if any(nothing_is_plain(each, each.destination) for each in run.sources):
        raise PlanRejectedError(
            "the copies are sealed, and the worker files have no keys: new workers would accept no removal"
        )
    if manifest.status is MigrationStatus.ROLLED_BACK:
        raise AlreadyAppliedError(f"run {manifest.run_id} was rolled back before; make a new plan")
    seals = SEALED["none" if manifest.sealed is None else "stop"]
    check_all(run, progress, source_may_change=True, writes="removals", seals=seals)
    removed = manifest.sealed is not None and manifest.sealed.how == "remove"
    if removed:
        _require_restored(run)
    elif manifest.sealed is not None:
        for source in moved_sources(run):
            source.require_no_open_transaction()  # as for unseal_plan
    notes = run.plan_path.parent
    groups = {
        each.group_id: StoppedGroup(each, each.cluster_group_id, each.group_id, "new", notes=notes)
        for each in run.destinations
    }
    for group in groups.values():
        group.end_due_look()
    found = _find(run, progress, dry_run=dry_run)
    if found.newer and not (although_used or dry_run):
        raise used_since(found)
    if dry_run:
        return found
    # A worker may have been started while the topics were read.
    check_all(run, progress, source_may_change=True, writes="removals", seals=seals)
    for group in groups.values():
        group.require_unchanged(found.facts)
    watched = [(0, group, found.facts) for group in groups.values()]
    look_again(watched, write_watched([run.destination], _removals(run, found), watched), run.plan_path)
    if manifest.sealed is not None and not removed:
        found.unsealed = unseal(run)
    fence_destination(run, up=True)
    fence_sources(run, up=False)
    run.update(status=MigrationStatus.ROLLED_BACK, sealed=None, fences=(), finished_at_ms=now_ms())
    return found


def used_since(found: Rollback) -> PlanRejectedError:
    """Return the error that says that new workers have run."""
    return PlanRejectedError(
        f"{sum(found.newer.values())} key(s) were written at the destination since, so new workers have run there: the "
        "source does not know what they did; --although-used removes what the plan wrote and leaves what they wrote"
    )


def _require_restored(run: MigrationRun) -> None:
    """Check that the source has what a seal has removed: without it the copies are the last there is."""
    for source in moved_sources(run):
        removed, present = source.states_before_seal, source.config_now().connectors()
        missing = source.plan.connectors and not present if removed is None else removed.keys() - present
        if missing:
            raise PlanRejectedError(f"the originals of {source.plan.group_id} were removed; {how_to_restore(run)}")


def _find(run: MigrationRun, progress: Progress, *, dry_run: bool) -> Rollback:
    manifest = run.applied()
    starts = {topic_type: topic.end_offsets for topic_type, topic in manifest.destination.items()}
    all_jobs = copy_jobs(run, starts, times_at_destination(run, starts), resumed=False)
    found, backup = Rollback(), manifest.backup
    has_backup = backup is not None and run.plan_path.with_name(backup.file).exists()
    for topic_type, topic in manifest.destination.items():
        jobs = [job for job in all_jobs if job.slice_.topic_type is topic_type]
        if manifest.status is MigrationStatus.PLANNED and not dry_run:
            for job in {job.slice_.transform.prefix: job for job in jobs}.values():
                job.write_barrier()
        with admin_of(run.destination) as admin:
            facts = found.facts[topic_type] = read_facts(admin, {topic.topic}, expected=True)[topic.topic]
            # The plan's record counts again when a newer one is aborted.
            require_no_open_transaction(admin, facts)
        ranges = facts.since(starts[topic_type]).ranges()
        stamped = jobs[0].stamped
        copies, kept = _copies(run, jobs), has_backup
        for space, worker in run.groups.items():
            takes = KeyTransform.between(topic_type, space, None).takes
            found.aborted[topic_type] += count_aborted(worker, ranges, worker.isolation(topic_type), takes)
        progress.phase(f"reading {topic.topic}", sum(map(size_of, ranges)))
        found.removals[topic_type], found.times[topic_type] = [], {}
        for record, original in _newest(run, ranges, jobs, found):
            key = (topic_type, connector_of(topic_type, original))
            # An earlier rollback has removed a key of a sealed config topic; workers write no such timestamp.
            early = record.sealed_ms is not None and record.timestamp_ms < record.sealed_ms - 1_000
            if original == MARKER[0] or record.value is None or (early and is_removal(topic_type, record.value)):
                continue
            if (known := identity(record, stamped=stamped)) not in copies and kept:
                # The source has gone on, or was cleared, and its cleaner has taken what was copied.
                copies, kept = copies | _copies(run, jobs, backup=True), False
            if known in copies:
                found.removals[topic_type].append((record.key or b"", record.partition))
                found.by_connector[key] += 1
            else:
                found.newer[key] += 1
    return found


def _copies(run: MigrationRun, jobs: Sequence[CopyJob], *, backup: bool = False) -> set[bytes]:
    """Return what the plan writes for slices: of what is at the source, or is in its ``backup``."""
    copies, manifest = set[bytes](), run.applied()
    for job in jobs:
        (whole,) = manifest.read_ranges_of(job.slice_.source_index, [job.slice_.offset_range])
        originals = backed_up(run, job.slice_.source_index, job.slice_.topic_type, whole) if backup else None
        written = copies_of(run, replace(job.slice_, offset_range=whole), originals)
        copies |= {identity(record, stamped=job.stamped) for record in written}
    return copies


def _newest(
    run: MigrationRun, ranges: Sequence[OffsetRange], jobs: Sequence[CopyJob], rollback: Rollback
) -> Iterable[tuple[Record, bytes]]:
    """Return of each partition the newest accepted record of each key the plan may have written, and its original key.

    ``rollback`` gets the times of sealed values, and how many were refused.
    """
    topic_type = jobs[0].slice_.topic_type
    spaces = {job.slice_.transform.at_destination(): (job.sealing, job.times.destination) for job in jobs}
    openers = {
        part.partition: [Opener(sealing, transform, newest) for transform, (sealing, newest) in spaces.items()]
        for part in ranges
    }
    newest: dict[tuple[int, bytes], tuple[Record, bytes]] = {}
    for found in read_groups(run.groups, topic_type, ranges, with_headers=True):
        for opener in openers[found.partition]:
            original = opener.transform.original_key(found.key)
            record = opener.open(found) if isinstance(original, bytes) else None
            if record is not None and record.key is not None and isinstance(original, bytes):
                newest[found.partition, record.key] = (record, original)
    for opener in chain.from_iterable(openers.values()):
        if opener.is_on:
            rollback.times[topic_type].update(opener.freshness.newest())
        if opener.seals.refuses:
            rollback.refused[topic_type] += opener.seals.refused.total()
    return newest.values()


def _removals(run: MigrationRun, found: Rollback) -> Iterator[tuple[int, Record, int]]:
    """Yield removals, as the new workers accept them, and behind sealed ones tombstones: the cleaner takes both."""
    for topic_type, keys in found.removals.items():
        topic = run.plan.destination.topics[topic_type].topic
        sealers: dict[bytes, Sealer] = {}
        for source in run.sources:
            transform = source.plan.transform(topic_type)
            sealers[transform.prefix] = Sealer(source.destination_sealing, transform, found.times[topic_type])
        for key, place in keys:
            parts, record = split_key(topic_type, key), tombstone(topic_type, topic, key)
            sealer = sealers[prefix_of(None if parts is None else parts[0])]
            if sealer.is_on:
                record = replace(record, timestamp_ms=OLDEST_MS)
                yield 0, _sealed(sealer, record), place
            yield 0, record, place
        if topic_type is TopicType.CONFIG and keys:
            for prefix, sealer in sorted(sealers.items()):
                yield 0, _sealed(sealer, marker(topic, prefix)), 0


def _sealed(sealer: Sealer, record: Record) -> Record:
    return replace(record, value=sealer.sealed(record.key or b"", sealer.before_sealing(record).value, now_ms()))
