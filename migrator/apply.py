"""Carrying out a plan: check again, make sure of the topics, copy every slice, write down what was done.

Engines differ in one function only: how the copy jobs are run. The local one runs them here, one after
another; Spark runs each as a task.

Mirroring behind a live source goes in rounds of small copies until the cut-over. A round copies what lies between the
positions and the source's ends, with the code of ``apply``, and then writes the positions down. If a round was killed, the
next run finds its records at the destination and does not write them again. Of sealed values the times are remembered from
round to round: an old one that is written again is none of the source.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

from connect_share.errors import AlreadyAppliedError, CopyError, PlanRejectedError, also_saying
from connect_share.files import SILENT, Progress, counted
from connect_share.kafka.facts import read_records, require_own_keys
from connect_share.kafka.write import Producers
from connect_share.kafka.write_access import require_writable
from connect_share.model.places import KeyPlaces
from connect_share.model.records import TopicType, now_ms, size_of
from connect_share.transform.rules import SkipReason
from connect_share.transform.sealed import Opener, SealTimes
from migrator.bystanders import back_up, take_baseline
from migrator.checks import Spaces, check_all, copy_jobs, slices_behind, times_at_destination
from migrator.copy.copy_job import (
    LOCAL_ENGINE,
    CopyJob,
    Engine,
    SliceEvidence,
    Wave,
    copy_all,
    early_engine,
    producers_for,
)
from migrator.plan import CopySlice
from migrator.run import Followed, Manifest, MigrationRun, MigrationStatus, PlannedSource, WrittenTopic
from migrator.topic_fence import fence_destination
from migrator.verify.verification import look_again, require_unused, unreported

SAVE_EVERY_S: Final = 0.5
"""Seconds between two versions of the manifest: thousands of slices would write it thousands of times."""

_logger = logging.getLogger(__name__)


def apply_plan(
    run: MigrationRun,
    *,
    engine: Engine | None = None,
    engine_name: str = LOCAL_ENGINE,
    progress: Progress = SILENT,
    isolation_proof: bool = False,
    backup: bool = True,
) -> Manifest:
    """Check a locked plan against the clusters once more, then copy; leaves the manifest beside the plan.

    ``isolation_proof`` notes first what the destination holds of others, for ``verify --isolation``; ``backup`` writes first
    what is read and replaced into a file beside the plan.

    Raises:
        RecordFileError: the backup cannot be written; nothing was written to Kafka.
        PlanFileError: the plan cannot be used.
        AlreadyAppliedError: it was applied before, wholly or in part.
        PlanRejectedError: source or destination are not as planned; nothing was written.
        TopicError: likewise, such as ``TopicRecreatedError`` and ``OpenTransactionError``.
        LiveMembersError: workers are alive.
        CopyError: the copy is not whole; the manifest stays ``planned``.
    """
    with ExitStack() as stack:
        if engine is None:
            jobs = copy_jobs(run, {}, {}, resumed=False)
            # It gets ready while the plan is checked.
            engine = stack.enter_context(early_engine(jobs, producers_for(run.plan), progress))
        opened = check_all(run, progress, first=True, create=True)
        # The backup comes before the manifest: an apply that is interrupted here has written nothing and may be repeated.
        backed_up = back_up(run, opened, progress) if backup else None
        baseline = take_baseline(run, opened, progress) if isolation_proof else None
        manifest = Manifest(
            run_id=run.plan.run_id,
            plan_sha256=run.plan_sha256,
            fingerprint=run.plan.fingerprint,
            engine=engine_name,
            status=MigrationStatus.PLANNED,
            started_at_ms=now_ms(),
            destination={
                topic_type: WrittenTopic(
                    topic=facts.topic, topic_id=facts.topic_id, created=created, end_offsets=dict(facts.ends)
                )
                for topic_type, (facts, created) in opened.items()
            },
            slices_planned=len(run.plan.slices()),
            isolation=baseline,
            backup=backed_up,
        )
        run.save(manifest)
        return _copy(run, engine, progress, resumed=False)


def resume_plan(
    run: MigrationRun, *, engine: Engine | None = None, engine_name: str = LOCAL_ENGINE, progress: Progress = SILENT
) -> Manifest:
    """Continue an ``apply`` that did not end. The destination itself is asked for what it has.

    Raises:
        PlanFileError: there is no manifest, or plan and manifest do not belong together.
        AlreadyAppliedError: it had ended.
        CopyError: what the manifest says was written is not there any more.
    """
    check_resume(run, progress)
    run.update(engine=engine_name, resumed=run.applied().resumed + 1)
    here = partial(copy_all, producers=producers_for(run.plan), progress=progress)
    return _copy(run, engine or here, progress, resumed=True)


def check_resume(run: MigrationRun, progress: Progress) -> None:
    """Check what :func:`resume_plan` checks before it writes; errors as there."""
    manifest = run.applied()
    if manifest.status is not MigrationStatus.PLANNED:
        verb = {MigrationStatus.COPIED: "verify", MigrationStatus.VERIFIED: "cutover"}.get(manifest.status)
        raise AlreadyAppliedError(
            f"there is nothing to resume: the manifest {run.manifest_path} says {manifest.status.value}"
            + ("" if verb is None else f"; next: {run.command(verb)}")
        )
    with _going_on(run):
        check_all(run, progress)
    unreported(run, {kind: topic.end_offsets for kind, topic in manifest.destination.items()}, manifest.evidence)


def _going_on(run: MigrationRun, said: str = "What was copied stays") -> AbstractContextManager[None]:
    return also_saying(f"{said}. When that is mended, {run.command('resume')} goes on")


def _copy(run: MigrationRun, engine: Engine, progress: Progress, *, resumed: bool) -> Manifest:
    plan, starts = run.plan, {kind: topic.end_offsets for kind, topic in run.applied().destination.items()}
    with _going_on(run):
        times = times_at_destination(run, starts)
        manifest = _copy_slices(run, engine, progress, (starts, times), resumed=resumed)
    counts = [topic.counts for source in plan.sources for topic in source.topics.values()]
    # What is refused as an old value depends on what was read before, and slices do not know each other.
    planned = sum(each.to_write + each.skipped.get(SkipReason.REFUSED, 0) for each in counts)
    # Compaction may have removed superseded records since the plan was made; nothing may have been added.
    if manifest.records_written > planned and plan.mode == "mirror":
        raise CopyError(
            f"{manifest.records_written} records were written, {planned} were planned; verify before starting workers"
        )
    run.save(manifest)
    with _going_on(run, "Everything was copied"):
        error, _ = look_again(run, plan.slices(), starts, times, manifest.evidence)
    if error is not None:
        raise error
    if plan.destination.topics[TopicType.CONFIG].fence is not None:
        fence_destination(run, up=False)
    manifest = manifest.model_copy(update={"status": MigrationStatus.COPIED, "finished_at_ms": now_ms()})
    run.save(manifest)
    _logger.info("run %s: %d records written", plan.run_id, manifest.records_written)
    return manifest


def _copy_slices(
    run: MigrationRun,
    engine: Engine,
    progress: Progress,
    there: tuple[Mapping[TopicType, Mapping[int, int]], Spaces],
    *,
    resumed: bool,
) -> Manifest:
    """Copy what is not copied yet, which the manifest notes; ``there``: where the destination ended, and times before."""
    plan, manifest = run.plan, run.applied()
    done = {evidence.slice_name for evidence in manifest.evidence}
    jobs = [job for job in copy_jobs(run, *there, resumed=resumed) if job.slice_.name not in done]
    if manifest.wave is not None:
        jobs = [manifest.wave.begun(job, resumed=resumed) for job in jobs]
        if manifest.engine == LOCAL_ENGINE:  # which begins all of them
            manifest = run.update(wave=manifest.wave.model_copy(update={"slices": tuple(j.slice_.name for j in jobs)}))
    for source in run.sources:
        for topic_type, topic in source.plan.topics.items():
            if topic_type is not TopicType.CONFIG and len(topic.partitions) > 1 and topic.counts.several != 0:
                jobs = _without_replaced(source, topic_type, jobs, progress)
    _logger.info("run %s: copying %d slices with the %s engine", plan.run_id, len(jobs), manifest.engine)
    progress.phase(f"starting the {manifest.engine} engine", 0)
    saved_s = -math.inf
    for each in engine(jobs):
        is_wave = isinstance(each, Wave)
        manifest = manifest.model_copy(update={"wave": each} if is_wave else {"evidence": (*manifest.evidence, each)})
        # A resume finds at the destination what is not in the file yet.
        if is_wave or time.monotonic() - saved_s > SAVE_EVERY_S:
            run.save(manifest)
            saved_s = time.monotonic()
    copied = sorted(evidence.slice_name for evidence in manifest.evidence)
    asked = sorted(slice_.name for slice_ in plan.slices())
    if copied != asked:
        missing = sorted(set(asked) - set(copied))
        raise CopyError(
            f"{len(copied)} of {len(asked)} slices were reported as copied; missing: {', '.join(missing) or 'none'}"
        )
    return manifest


def _without_replaced(
    source: PlannedSource, topic_type: TopicType, jobs: Sequence[CopyJob], progress: Progress
) -> list[CopyJob]:
    """Return the jobs, those of a topic with the keys whose record that counts is elsewhere: one of each is copied."""
    topic, transform = source.plan.topics[topic_type], source.plan.transform(topic_type)
    opener, ranges = Opener(source.sealing, transform), topic.ranges()
    places = KeyPlaces(partial(int, len(ranges)))
    progress.phase(f"reading {topic.topic}", sum(map(size_of, ranges)))
    records = counted(read_records(source.worker, ranges, topic.isolation), progress.advance)
    for original, record in transform.taken(records):
        if (opened := opener.open(record)) is not None:
            places.take(original, opened)
    replaced = places.replaced()
    slices = [
        replace(each.slice_, replaced=replaced.get(each.slice_.offset_range.partition, frozenset()))
        if (each.slice_.source_index, each.slice_.topic_type) == (source.index, topic_type)
        else each.slice_
        for each in jobs
    ]
    return [replace(job, slice_=slice_) for job, slice_ in zip(jobs, slices, strict=True)]


ROUND_S: Final = 0.5
"""Time between two looks at the source's ends."""
REQUEST_ENDING: Final = ".cutover-requested"
_MAY_FOLLOW: Final = (MigrationStatus.COPIED, MigrationStatus.VERIFIED)


def request_path(plan_path: Path) -> Path:
    """Return the file by which a cut-over asks the process that follows a plan to end."""
    return plan_path.with_name(f"{plan_path.stem}{REQUEST_ENDING}")


@dataclass(frozen=True)
class Lag:
    """The distance of the mirror from its source.

    Attributes:
        offsets: between the positions and the ends of the source; compaction and markers leave fewer records.
        written: records written since following began.
    """

    offsets: int
    written: int


class Follower:
    """A mirror that copies what a source has behind the positions of a manifest; not thread-safe.

    What was copied of a sealed source is read once more, to know its times. ``run`` is locked and checked, and its apply
    has ended.

    Raises:
        PlanFileError: the plan was not applied, or the manifest cannot be written.
    """

    def __init__(self, run: MigrationRun) -> None:
        self._run = run
        self._producers = Producers(once=True)  # brokers remember each one for a day or a week
        self._killed_before = run.applied().followed is not None
        followed = run.applied().followed or Followed(destination_ends=_ends(run.applied()))
        run.update(followed=followed)
        self._at_destination = times_at_destination(run, followed.destination_ends)
        self._times = {slice_.name: self._times_of(slice_) for slice_ in run.plan.slices()}

    def _times_of(self, slice_: CopySlice) -> SealTimes:
        """Return the times of what was copied of a source partition."""
        source = self._run.sources[slice_.source_index]
        opener = Opener(source.sealing, slice_.transform)
        if opener.is_on:
            ranges = self._run.applied().read_ranges_of(source.index, [slice_.offset_range])
            for _, record in slice_.transform.taken(read_records(source.worker, ranges, slice_.isolation)):
                opener.open(record)
        space = slice_.transform.destination, slice_.topic_type
        return SealTimes(opener.freshness.seen, self._at_destination.get(space, {}))

    def round(self) -> Lag:
        """Copy what is there now. Returns the lag at the beginning of the round."""
        manifest, slices = self._run.applied(), [*slices_behind(self._run)]
        lag = sum(size_of(slice_.offset_range) for slice_ in slices)
        followed = manifest.followed or Followed()
        if slices:
            before = followed.destination_ends
            of_all = copy_jobs(self._run, before, self._at_destination, resumed=self._killed_before)
            jobs = {job.slice_.name: job for job in of_all}
            noted = {slice_.name: SealTimes() for slice_ in slices}
            behind = [
                replace(jobs[each.name], slice_=each, times=self._times[each.name], noted=noted[each.name])
                for each in slices
            ]
            with also_saying("What was mirrored stays. When that is mended, the same command goes on"):
                for source in self._run.sources:
                    of = (job.outgoing() for job in behind if job.slice_.source_index == source.index)
                    require_writable(source.destination, chain.from_iterable(of))
                evidence = list(copy_all(behind, self._producers, SILENT))
                for index in {each.source_index for each in evidence if SkipReason.REFUSED in each.skipped}:
                    require_own_keys(self._run.sources[index].worker)
                error, looked = look_again(self._run, slices, before, self._at_destination, evidence)
            self._times |= noted
            moved = {Manifest.place(each.source_index, each.offset_range): each.offset_range.end for each in slices}
            followed = Followed(
                positions={**followed.positions, **moved},
                destination_ends={**_ends(manifest, evidence), **looked},
                written=followed.written + sum(each.written for each in evidence),
            )
            # The new records were not compared yet, hence no longer "verified".
            self._run.update(followed=followed, status=MigrationStatus.COPIED)
            if error is not None:
                raise error
        self._killed_before = False
        return Lag(lag, followed.written)


def _ends(manifest: Manifest, evidence: Sequence[SliceEvidence] = ()) -> dict[TopicType, dict[int, int]]:
    return {topic_type: manifest.written_up_to(topic_type, evidence) for topic_type in manifest.destination}


def follow_plan(
    run: MigrationRun, *, stopped: Callable[[], bool], report: Callable[[Lag], None], progress: Progress = SILENT
) -> Manifest:
    """Mirror what the source's workers write until ``stopped`` or until a cut-over asks.

    The plan was applied to its end and is locked. After each round ``report`` gets the lag, and ``stopped`` is asked.

    Raises:
        PlanRejectedError: the plan was not made for it.
        AlreadyAppliedError: the cut-over has been.
        DestinationUsedError: new workers have written at the destination.
    """
    check_follow(run, progress)
    follower = Follower(run)
    request = request_path(run.plan_path)
    request.unlink(missing_ok=True)  # of a cut-over that was killed while it waited; one that waits asks again
    while True:
        lag = follower.round()
        report(lag)
        if stopped() or request.exists():
            return run.applied()
        if not lag.offsets:
            time.sleep(ROUND_S)


def check_follow(run: MigrationRun, progress: Progress) -> None:
    """Check a plan before what its source's workers write is mirrored; raises as :func:`follow_plan`."""
    require_made_to_follow(run)
    require_may_follow(run.applied())
    if run.applied().sealed is not None:
        again, back = run.command("cutover"), run.command("unseal")
        raise AlreadyAppliedError(f"a cut-over has begun to seal the source: {again} goes on, {back} takes it back")
    check_all(run, progress)
    require_unused(run)


def require_made_to_follow(run: MigrationRun) -> None:
    """Refuse a plan that was made for stopped workers: ``PlanRejectedError``."""
    if not run.plan.follow:
        raise PlanRejectedError(f"{run.plan_path} was made for stopped workers: make a plan with --follow")


def require_may_follow(manifest: Manifest) -> None:
    """Refuse a plan that was not copied to its end, or whose cut-over or rollback has been: ``AlreadyAppliedError``."""
    if manifest.status not in _MAY_FOLLOW:
        remedy = {MigrationStatus.PLANNED: "resume it first", MigrationStatus.ROLLED_BACK: "make a new plan"}.get(
            manifest.status, "there is nothing left to copy; seal and unseal change the source alone"
        )
        raise AlreadyAppliedError(f"run {manifest.run_id} is {manifest.status.value}: {remedy}")
