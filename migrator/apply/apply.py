"""Carrying out a plan: check again, make sure of the topics, copy every slice, write down what was done.

Engines differ in one function only: how the copy jobs are run. The local one runs them here, one after
another; Spark runs each as a task.
"""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from connect_share.admin import Admin
from connect_share.records import TopicType
from migrator.backup.backup import back_up
from migrator.copy.checked_writer import Producers
from migrator.copy.engine import LOCAL_ENGINE, Engine, local_engine, open_ahead
from migrator.errors import AlreadyAppliedError, CopyError, PlanFileError
from migrator.facts.inspection import client_id_of
from migrator.facts.isolation import TopicBaseline, take_baseline
from migrator.facts.manifest import Manifest, MigrationStatus, WrittenTopic, manifest_path
from migrator.facts.readiness import Ready, check_all, copy_jobs, load_workers, only_one, wanted_of
from migrator.plan.plan import CopySlice, MigrationPlan
from migrator.progress import Progress, Silent
from migrator.second_process import SecondProcess, is_worth_it, second_process

SAVE_EVERY_S: Final = 0.5
"""Time between two versions of the manifest: thousands of slices would else write it thousands of times."""

_logger = logging.getLogger(__name__)


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return int(time.time() * 1000)


def check_plan(plan_path: Path, *, progress: Progress | None = None) -> None:
    """Do everything that ``apply_plan`` does before it writes, and write nothing.

    Raises:
        ConnectShareError: as :func:`apply_plan`.
    """
    plan_path = Path(plan_path)
    with only_one(plan_path):
        check_all(plan_path, progress or Silent(), create=False)


def apply_plan(
    plan_path: Path,
    *,
    engine: Engine | None = None,
    engine_name: str = LOCAL_ENGINE,
    progress: Progress | None = None,
    isolation_proof: bool = False,
    backup: bool = True,
    two_processes: bool = False,
) -> Manifest:
    """Check a plan against the clusters once more, then copy; leaves the manifest beside the plan.

    Args:
        plan_path: the plan file.
        engine: how to run the copy jobs; in this process by default.
        engine_name: written to the manifest.
        progress: told how far it is.
        isolation_proof: note first what the destination holds of others, for ``verify --isolation``.
        backup: write first what is read and replaced into a file beside the plan.
        two_processes: let a fork of this process copy half of a large plan; no client may live in this process.

    Raises:
        RecordFileError: the backup cannot be written; nothing was written to Kafka.
        PlanFileError: the plan cannot be used.
        AlreadyAppliedError: it was applied before, wholly or in part, or is being applied.
        PlanRejectedError: source or destination are not as planned; nothing was written.
        TopicError: likewise, such as ``TopicRecreatedError`` and ``OpenTransactionError``.
        LiveMembersError: workers are alive.
        CopyError: the copy is not whole; the manifest stays ``planned``.
        BrokerError: the cluster refused.
    """
    progress = progress or Silent()
    producers = Producers(once=True)
    plan_path = Path(plan_path)
    with only_one(plan_path), _second_process(plan_path, wanted=two_processes) as second:
        if engine is None:
            engine = local_engine(progress, producers, second)
            # They get their ids while the plan is checked.
            destination = load_workers(MigrationPlan.load(plan_path))[1][0]
            settings, client_id = destination.producer_settings(), client_id_of(destination)
            if second is not None:
                second.begin(open_ahead, settings, client_id)
            producers.get(settings, client_id)
        ready = check_all(plan_path, progress, create=True)
        # Before there is a manifest: who is interrupted here has written nothing, and applies again.
        backed_up = back_up(ready, progress) if backup else None
        manifest = Manifest(
            run_id=ready.plan.run_id,
            plan_sha256=hashlib.sha256(plan_path.read_bytes()).hexdigest(),
            fingerprint=ready.plan.fingerprint,
            engine=engine_name,
            status=MigrationStatus.PLANNED,
            started_at_ms=now_ms(),
            destination={
                topic_type: WrittenTopic(
                    topic=facts.topic, topic_id=facts.topic_id, created=created, end_offsets=facts.ends
                )
                for topic_type, (facts, created) in ready.opened.items()
            },
            slices_planned=len(ready.plan.slices()),
            isolation=_take_baseline(ready, progress) if isolation_proof else None,
            backup=backed_up,
        )
        manifest.save(ready.manifest_path)
        return _copy(ready, manifest, engine, progress, resumed=False)


def resume_plan(
    plan_path: Path,
    *,
    engine: Engine | None = None,
    engine_name: str = LOCAL_ENGINE,
    progress: Progress | None = None,
    two_processes: bool = False,
) -> Manifest:
    """Go on with an ``apply`` that did not end. What is at the destination is asked of the destination itself.

    Raises:
        PlanFileError: there is no manifest, or plan and manifest do not belong together.
        AlreadyAppliedError: it had ended.
        CopyError: what the manifest says was written is not there any more.
        ConnectShareError: as :func:`apply_plan`.
    """
    progress = progress or Silent()
    plan_path = Path(plan_path)
    with only_one(plan_path), _second_process(plan_path, wanted=two_processes) as second:
        engine = engine or local_engine(progress, second=second)
        manifest = load_manifest(plan_path)
        if manifest.status is not MigrationStatus.PLANNED:
            raise AlreadyAppliedError(
                f"there is nothing to resume: the manifest {manifest_path(plan_path)} says {manifest.status.value}"
            )
        ready = check_all(plan_path, progress, create=False, resume=manifest)
        _require_still_there(ready, manifest)
        manifest = manifest.model_copy(update={"engine": engine_name, "resumed": manifest.resumed + 1})
        manifest.save(ready.manifest_path)
        return _copy(ready, manifest, engine, progress, resumed=True)


@contextmanager
def _second_process(plan_path: Path, *, wanted: bool) -> Iterator[SecondProcess | None]:
    """Fork if the plan is large; the fork holds the plan too, so nobody resumes while it may write."""
    large = wanted and is_worth_it(sum(job.offset_range.end - job.offset_range.start for job in _slices(plan_path)))
    with second_process(wanted=large) as second:
        yield second


def _slices(plan_path: Path) -> list[CopySlice]:
    return MigrationPlan.load(plan_path).slices()


def load_manifest(plan_path: Path) -> Manifest:
    """Read the manifest of a plan that was applied, and make sure that it is that of this very plan.

    Raises:
        PlanFileError: there is none, or the plan was changed since.
    """
    path = manifest_path(plan_path)
    if not path.exists():
        raise PlanFileError(
            f"there is no manifest {path}: nothing was written to Kafka with this plan from here; begin with "
            f"connect-share-migrate apply {plan_path}"
        )
    manifest = Manifest.load(path)
    found = hashlib.sha256(plan_path.read_bytes()).hexdigest()
    if manifest.plan_sha256 != found or manifest.run_id != MigrationPlan.load(plan_path).run_id:
        raise PlanFileError(
            f"{plan_path} is not the plan that {path} was written for: it was changed since; put the plan that was "
            "applied back"
        )
    return manifest


def _take_baseline(ready: Ready, progress: Progress) -> dict[TopicType, TopicBaseline]:
    opened = {topic_type: facts for topic_type, (facts, _) in ready.opened.items()}
    return take_baseline(ready.destinations[0], opened, wanted_of(ready.plan), progress)


def _copy(ready: Ready, manifest: Manifest, engine: Engine, progress: Progress, *, resumed: bool) -> Manifest:
    starts = {topic_type: topic.end_offsets for topic_type, topic in manifest.destination.items()}
    done = {evidence.slice_name for evidence in manifest.evidence}
    jobs = [job for job in copy_jobs(ready, starts, resumed=resumed) if job.slice_.name not in done]
    plan, path = ready.plan, ready.manifest_path
    _logger.info("run %s: copying %d slices with the %s engine", plan.run_id, len(jobs), manifest.engine)
    progress.phase(f"starting the {manifest.engine} engine", 0)
    saved_s = -math.inf
    for evidence in engine(jobs):
        manifest = manifest.model_copy(update={"evidence": (*manifest.evidence, evidence)})
        # What is not in the file yet a resume finds at the destination.
        if time.monotonic() - saved_s > SAVE_EVERY_S:
            manifest.save(path)
            saved_s = time.monotonic()
    _require_whole(plan, manifest)
    manifest = manifest.model_copy(update={"status": MigrationStatus.COPIED, "finished_at_ms": now_ms()})
    manifest.save(path)
    _logger.info("run %s: %d records written", plan.run_id, manifest.records_written)
    return manifest


def _require_still_there(ready: Ready, manifest: Manifest) -> None:
    """Look at the destination for the last record of every slice that the manifest calls copied.

    Raises:
        CopyError: one is gone: a broker has lost acknowledged records.
    """
    last: dict[tuple[TopicType, int], tuple[int, str]] = {}
    for evidence in manifest.evidence:
        for partition, (_, offset) in evidence.destination_offsets.items():
            at = (evidence.topic_type, partition)
            last[at] = max(last.get(at, (-1, "")), (offset, evidence.slice_name))
    worker = ready.destinations[0]
    with Admin(worker.admin_settings(), client_id=client_id_of(worker)) as admin:
        for topic_type, written in manifest.destination.items():
            ends = admin.end_offsets([(written.topic, number) for number in written.end_offsets])
            for (topic, number), end in ends.items():
                offset, name = last.get((topic_type, number), (-1, ""))
                if end <= offset:
                    raise CopyError(
                        f"{topic}[{number}] ends at {end}, but slice {name} was acknowledged up to offset {offset}: "
                        "the broker has lost records; roll the plan back and apply it anew"
                    )


def _require_whole(plan: MigrationPlan, manifest: Manifest) -> None:
    """Compare what engines report with what was asked of them."""
    done = sorted(evidence.slice_name for evidence in manifest.evidence)
    asked = sorted(slice_.name for slice_ in plan.slices())
    if done != asked:
        missing = sorted(set(asked) - set(done))
        raise CopyError(
            f"{len(done)} of {len(asked)} slices were reported as copied; missing: {', '.join(missing) or 'none'}"
        )
    planned = sum(topic.counts.to_write for source in plan.sources for topic in source.topics.values())
    # Compaction may have removed superseded records since the plan was made; nothing may have been added.
    if manifest.records_written > planned and plan.mode == "mirror":
        raise CopyError(
            f"{manifest.records_written} records were written, {planned} were planned; verify before starting workers"
        )
