"""Mirroring behind a live source: rounds of small copies, each written down, until the cut-over.

A round copies what lies between the position and the source's end, with the very code of ``apply``, and then writes the
positions down. A round that was killed is found at the destination by the next run and left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from connect_share.admin import Admin
from connect_share.records import TopicType
from connect_share.worker_config.client_settings import Isolation
from migrator.apply.apply import load_manifest
from migrator.copy.copying import CopyJob
from migrator.copy.engine import local_engine
from migrator.errors import AlreadyAppliedError, PlanRejectedError
from migrator.facts.inspection import client_id_of, read_facts, require_same_topic, require_topic
from migrator.facts.manifest import Followed, Manifest, MigrationStatus
from migrator.facts.readiness import Ready, check_all, copy_jobs, only_one
from migrator.plan.plan import CopySlice
from migrator.progress import Progress, Silent

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
            manifest = manifest.model_copy(update={"followed": Followed(destination_ends=self._destination_ends())})
        self.manifest = manifest
        self._save()

    def round(self) -> Lag:
        """Copy what is there now; gives how far it was behind when the round began.

        Raises:
            TopicError: a source topic was recreated.
            BrokerError: reading or writing was refused.
        """
        slices = self._behind()
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
                destination_ends=self._destination_ends(),
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

    def _behind(self) -> list[CopySlice]:
        """Give the slices that have something behind their position."""
        found = []
        ends: dict[tuple[int, TopicType], dict[int, int]] = {}
        for index, source in enumerate(self._ready.plan.sources):
            worker = self._ready.workers[index]
            with Admin(worker.admin_settings(), client_id=client_id_of(worker)) as admin:
                facts = read_facts(admin, {topic.topic for topic in source.topics.values()})
                for topic_type, topic in source.topics.items():
                    there = require_topic(facts, topic.topic, remedy="it was deleted while it was followed")
                    require_same_topic(there, topic.topic_id)
                    ends[index, topic_type] = there.ends
                    if topic.isolation is Isolation.READ_COMMITTED:
                        partitions = [(topic.topic, number) for number in there.ends]
                        stable = admin.end_offsets(partitions, Isolation.READ_COMMITTED)
                        ends[index, topic_type] = {number: end for (_, number), end in stable.items()}
        for slice_ in self._ready.plan.slices():
            (planned,) = self.manifest.read_ranges_of(slice_.source_index, [slice_.offset_range])
            end = ends[slice_.source_index, slice_.topic_type].get(planned.partition, planned.end)
            if end > planned.end:
                found.append(replace(slice_, offset_range=planned._replace(start=planned.end, end=end)))
        return found

    def _destination_ends(self) -> dict[TopicType, dict[int, int]]:
        worker = self._ready.destinations[0]
        with Admin(worker.admin_settings(), client_id=client_id_of(worker)) as admin:
            facts = read_facts(admin, {topic.topic for topic in self._ready.plan.destination.topics.values()})
        return {
            topic_type: facts[topic.topic].ends for topic_type, topic in self._ready.plan.destination.topics.items()
        }


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
        ConnectShareError: as :func:`migrator.apply.apply.apply_plan`.
    """
    plan_path = Path(plan_path)
    with only_one(plan_path):
        manifest = load_manifest(plan_path)
        ready = check_all(plan_path, progress or Silent(), create=False, resume=manifest)
        if not ready.plan.follow:
            raise PlanRejectedError(f"{plan_path} was made for stopped workers: make a plan with --follow")
        require_may_follow(manifest)
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
        remedy = "resume it first" if manifest.status is MigrationStatus.PLANNED else "there is nothing left to copy"
        raise AlreadyAppliedError(f"run {manifest.run_id} is {manifest.status.value}: {remedy}")
