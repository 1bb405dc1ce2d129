"""Mirroring behind a live source: rounds of small copies, each written down, until the cut-over.

A round copies what lies between the positions and the source's ends, with the code of ``apply``, and then writes the
positions down. If a round was killed, the next run finds its records at the destination and does not write them again.

Of sealed values the times are remembered from round to round: an old one that is written again is none of the source.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from connect_share.migration_errors import AlreadyAppliedError, PlanRejectedError
from connect_share.progress import Progress, Silent
from connect_share.records import TopicType
from connect_share.topic_io.facts import read_records
from connect_share.transform.sealed import Opening, Times
from migrator.copy.evidence import SliceEvidence
from migrator.copy.local_engine import local_engine
from migrator.facts.manifest import Followed, Manifest, MigrationStatus
from migrator.facts.migration_run import MigrationRun
from migrator.facts.readiness import check_all, copy_jobs, slices_behind, space_of, times_at_destination
from migrator.plan.plan import CopySlice
from migrator.verify.new_writes import require_unused

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

    What was copied of a sealed source is read once more, to know its times.

    Args:
        run: the plan, locked and checked; its apply has ended.

    Raises:
        PlanFileError: the plan was not applied, or the manifest cannot be written.
        BrokerError: reading was refused.
    """

    def __init__(self, run: MigrationRun) -> None:
        self._run = run
        manifest = run.applied()
        self._killed_before = manifest.followed is not None
        if manifest.followed is None:
            manifest = run.update(followed=Followed(destination_ends=_ends(manifest)))
        followed = manifest.followed or Followed()
        self._at_destination = times_at_destination(run, followed.destination_ends)
        self._times = {slice_.name: self._times_of(slice_) for slice_ in run.plan.slices()}

    def _times_of(self, slice_: CopySlice) -> Times:
        """Return the times of what was copied of a source partition."""
        run, index = self._run, slice_.source_index
        opening = Opening(run.source_sealing(index), slice_.transform)
        if opening.is_on:
            ranges = run.applied().read_ranges_of(index, [slice_.offset_range])
            for record in read_records(run.workers[index], ranges, slice_.isolation):
                if slice_.transform.takes(record.key):
                    opening.take(record)
        return Times(opening.newest(), self._at_destination.get(space_of(slice_), {}))

    def round(self) -> Lag:
        """Copy what is there now. Returns the lag at the beginning of the round.

        Raises:
            TopicError: a source topic was recreated.
            BrokerError: reading or writing was refused.
        """
        manifest, slices = self._run.applied(), slices_behind(self._run)
        lag = sum(slice_.offset_range.end - slice_.offset_range.start for slice_ in slices)
        followed = manifest.followed or Followed()
        if slices:
            jobs = {
                job.slice_.name: job
                for job in copy_jobs(
                    self._run, followed.destination_ends, self._at_destination, resumed=self._killed_before
                )
            }
            noted = {slice_.name: Times() for slice_ in slices}
            behind = [
                replace(jobs[each.name], slice_=each, times=self._times[each.name], noted=noted[each.name])
                for each in slices
            ]
            evidence = list(local_engine(Silent())(behind))
            self._times |= noted
            moved = {
                Manifest.place(slice_.source_index, slice_.offset_range): slice_.offset_range.end for slice_ in slices
            }
            followed = Followed(
                positions={**followed.positions, **moved},
                destination_ends=_ends(manifest, evidence),
                written=followed.written + sum(each.written for each in evidence),
            )
            # The new records were not compared yet, hence no longer "verified".
            self._run.update(followed=followed, status=MigrationStatus.COPIED)
        self._killed_before = False
        return Lag(lag, followed.written)


def _ends(manifest: Manifest, evidence: Sequence[SliceEvidence] = ()) -> dict[TopicType, dict[int, int]]:
    return {topic_type: manifest.written_up_to(topic_type, evidence) for topic_type in manifest.destination}


def follow_plan(
    run: MigrationRun,
    *,
    stopped: Callable[[], bool],
    report: Callable[[Lag], None],
    progress: Progress | None = None,
    round_s: float = ROUND_S,
) -> Manifest:
    """Mirror what the source's workers write until ``stopped`` or until a cut-over asks.

    Args:
        run: a plan made with ``follow`` that was applied to its end, locked.
        stopped: asked after each round.
        report: gets the lag after each round.
        progress: reports the checks before.
        round_s: seconds between rounds without anything to copy.

    Raises:
        PlanRejectedError: the plan was not made for it.
        AlreadyAppliedError: the cut-over has been.
        DestinationUsedError: new workers have written at the destination.
        ConnectShareError: as :func:`migrator.apply.apply.apply_plan`.
    """
    manifest = run.applied()
    require_made_to_follow(run)
    require_may_follow(manifest)
    check_all(run, progress or Silent())
    require_unused(run)
    follower = Follower(run)
    request = request_path(run.plan_path)
    request.unlink(missing_ok=True)  # of a cut-over that was killed while it waited; one that waits asks again
    while True:
        lag = follower.round()
        report(lag)
        if stopped() or request.exists():
            return run.applied()
        if not lag.offsets:
            time.sleep(round_s)


def require_made_to_follow(run: MigrationRun) -> None:
    """Refuse a plan that was made for stopped workers.

    Raises:
        PlanRejectedError: it says what to do.
    """
    if not run.plan.follow:
        raise PlanRejectedError(f"{run.plan_path} was made for stopped workers: make a plan with --follow")


def require_may_follow(manifest: Manifest) -> None:
    """Refuse a plan that was not copied to its end, or whose cut-over or rollback has been.

    Raises:
        AlreadyAppliedError: it says what to do.
    """
    if manifest.status not in _MAY_FOLLOW:
        remedy = {
            MigrationStatus.PLANNED: "resume it first",
            MigrationStatus.ROLLED_BACK: "make a new plan",
        }.get(manifest.status, "there is nothing left to copy; seal and unseal change the source alone")
        raise AlreadyAppliedError(f"run {manifest.run_id} is {manifest.status.value}: {remedy}")
