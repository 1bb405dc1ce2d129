"""Mirroring behind a live source: rounds of small copies, each written down, until the cut-over.

A round copies what lies between the position and the source's end, with the very code of ``apply``, and then writes the
positions down. A round that was killed is found at the destination by the next run and left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from connect_share.records import TopicType
from migrator.apply.apply import load_manifest
from migrator.copy.copy_job import CopyJob
from migrator.copy.engine import local_engine
from migrator.copy.evidence import SliceEvidence
from migrator.errors import AlreadyAppliedError, PlanRejectedError
from migrator.facts.behind import slices_behind
from migrator.facts.manifest import Followed, Manifest, MigrationStatus
from migrator.facts.readiness import Ready, check_all, copy_jobs, only_one
from migrator.plan.plan import CopySlice
from migrator.progress import Progress, Silent
from migrator.verify.new_writes import require_unused

ROUND_S: Final = 0.5
"""Time between two looks at the source's ends."""
REQUEST_ENDING: Final = ".cutover-requested"
_MAY_FOLLOW: Final = (MigrationStatus.COPIED, MigrationStatus.VERIFIED)


def request_path(plan_path: Path) -> Path:
    """Where a cut-over asks whoever follows this plan to end."""
    return plan_path.with_name(f"{plan_path.stem}{REQUEST_ENDING}")


@dataclass(frozen=True)
class Lag:
    """How far the mirror is behind.

    Attributes:
        offsets: between the positions and the ends of the source; compaction and markers leave fewer records.
        written: records written since following began.
    """

    offsets: int
    written: int


class Follower:
    """Copies what a source has behind the positions of a manifest; not thread-safe.

    Args:
        ready: the plan, checked.
        manifest: of its apply, which has ended.
    """

    def __init__(self, ready: Ready, manifest: Manifest) -> None:
        self._ready = ready
        self._killed_before = manifest.followed is not None
        if manifest.followed is None:
            manifest = manifest.model_copy(update={"followed": Followed(destination_ends=_ends(manifest))})
        self.manifest = manifest
        self._save()

    def round(self) -> Lag:
        """Copy what is there now; gives how far it was behind when the round began.

        Raises:
            TopicError: a source topic was recreated.
            BrokerError: reading or writing was refused.
        """
        slices = slices_behind(self._ready.plan, self._ready.workers, self.manifest)
        lag = sum(slice_.offset_range.end - slice_.offset_range.start for slice_ in slices)
        followed = self.manifest.followed or Followed()
        if slices:
            jobs = self._jobs(slices, followed)
            evidence = list(local_engine(Silent())(jobs))
            moved = {
                Manifest.place(slice_.source_index, slice_.offset_range.topic, slice_.offset_range.partition): (
                    slice_.offset_range.end
                )
                for slice_ in slices
            }
            followed = Followed(
                positions={**followed.positions, **moved},
                destination_ends=_ends(self.manifest, evidence),
                written=followed.written + sum(each.written for each in evidence),
            )
            # What is behind the positions now was not compared yet.
            self.manifest = self.manifest.model_copy(update={"followed": followed, "status": MigrationStatus.COPIED})
            self._save()
        self._killed_before = False
        return Lag(lag, followed.written)

    def _save(self) -> None:
        self.manifest.save(self._ready.manifest_path)

    def _jobs(self, slices: list[CopySlice], followed: Followed) -> list[CopyJob]:
        all_jobs = {
            (job.slice_.source_index, job.slice_.offset_range.topic, job.slice_.offset_range.partition): job
            for job in copy_jobs(self._ready, followed.destination_ends, resumed=self._killed_before)
        }
        return [
            replace(
                all_jobs[slice_.source_index, slice_.offset_range.topic, slice_.offset_range.partition], slice_=slice_
            )
            for slice_ in slices
        ]


def _ends(manifest: Manifest, evidence: Sequence[SliceEvidence] = ()) -> dict[TopicType, dict[int, int]]:
    return {topic_type: manifest.written_up_to(topic_type, evidence) for topic_type in manifest.destination}


def follow_plan(
    plan_path: Path,
    *,
    stopped: Callable[[], bool],
    report: Callable[[Lag], None],
    progress: Progress | None = None,
    round_s: float = ROUND_S,
) -> Manifest:
    """Mirror what the source's workers write until ``stopped`` or until a cut-over asks.

    Args:
        plan_path: a plan made with ``follow`` that was applied to its end.
        stopped: asked after each round.
        report: told after each round.
        progress: of the checks before.
        round_s: seconds between rounds without anything to copy.

    Raises:
        PlanRejectedError: the plan was not made for it.
        AlreadyAppliedError: the cut-over has been, or another process has the plan.
        DestinationUsedError: new workers have written at the destination.
        ConnectShareError: as :func:`migrator.apply.apply.apply_plan`.
    """
    plan_path = Path(plan_path)
    with only_one(plan_path):
        manifest = load_manifest(plan_path)
        ready = check_all(plan_path, progress or Silent(), create=False, resume=manifest)
        if not ready.plan.follow:
            raise PlanRejectedError(f"{plan_path} was made for stopped workers: make a plan with --follow")
        require_may_follow(manifest)
        require_unused(plan_path, ready.plan, manifest, ready.workers, ready.destinations[0])
        follower = Follower(ready, manifest)
        asked = request_path(plan_path)
        asked.unlink(missing_ok=True)  # of a cut-over that was killed while it waited; one that waits asks again
        while True:
            lag = follower.round()
            report(lag)
            if stopped() or asked.exists():
                return follower.manifest
            if not lag.offsets:
                time.sleep(round_s)


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
