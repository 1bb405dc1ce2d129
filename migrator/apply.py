"""Carrying out a plan: check again, make sure of the topics, copy every slice, write down what was done.

Engines differ in one function only: how the copy jobs are run. The local one runs them here, a few at a
time; Spark runs each as a task.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connect_share.admin import Admin
from connect_share.records import TopicType
from connect_share.topics import check_cleanup_policy, check_partition_count, ensure_topic, topic_spec
from connect_share.worker_config import WorkerConfig
from migrator.copying import CopyJob, SliceEvidence
from migrator.errors import (
    AlreadyAppliedError,
    CopyError,
    DestinationNotEmptyError,
    PlanFileError,
    PlanRejectedError,
    SourceChangedError,
)
from migrator.inspection import (
    TopicFacts,
    client_id_of,
    load_worker_file,
    read_facts,
    refuse_present_groups,
    require_no_live_workers,
    require_no_open_transaction,
    require_same_cluster,
    require_same_topic,
    require_topic,
    require_worker_file_as_planned,
)
from migrator.manifest import Manifest, MigrationStatus, WrittenTopic, manifest_path
from migrator.plan import MigrationPlan, SourceCluster
from migrator.progress import Progress, Silent
from migrator.writing import Producers

LOCAL_ENGINE: Final = "local"
LOCAL_THREADS: Final = 2
"""Slices copied at once: opening clients and waiting for acknowledgements overlap, the work itself does not."""
Engine = Callable[[Sequence[CopyJob]], Iterable[SliceEvidence]]
"""Runs every job once and yields the evidence as jobs end, in any order."""

_logger = logging.getLogger(__name__)


def local_engine(progress: Progress) -> Engine:
    """Give the engine that copies in this process."""

    def run(jobs: Sequence[CopyJob]) -> Iterator[SliceEvidence]:
        progress.phase("copying", sum(job.slice_.offset_range.end - job.slice_.offset_range.start for job in jobs))
        lock, producers = threading.Lock(), Producers()

        def advance(records: int) -> None:
            with lock:
                progress.advance(records)

        pool = ThreadPoolExecutor(max_workers=LOCAL_THREADS, thread_name_prefix="copy")
        try:
            running = [pool.submit(job.run, producers=producers, on_progress=advance) for job in jobs]
            for done in as_completed(running):
                yield done.result()
        finally:
            pool.shutdown(cancel_futures=True)

    return run


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return int(time.time() * 1000)


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Hold the plan, so that two runs never write at once; the system lets go when the process ends."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise PlanFileError(f"plan {path} cannot be read: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise AlreadyAppliedError(f"another process is applying {path} right now") from None
        yield


def _earlier_manifest(path: Path, plan: MigrationPlan) -> Manifest | None:
    """Return the manifest an interrupted run left, if any.

    Raises:
        AlreadyAppliedError: the plan was applied to the end.
    """
    if not path.exists():
        return None
    manifest = Manifest.load(path)
    if manifest.run_id != plan.run_id:
        raise PlanFileError(f"{path} belongs to another plan (run {manifest.run_id}); move it away")
    if manifest.status is not MigrationStatus.PLANNED:
        raise AlreadyAppliedError(
            f"this plan was applied already, its manifest {path} says {manifest.status.value}: run verify, or make "
            "a new plan"
        )
    return manifest


def _check_source(plan: MigrationPlan, source: SourceCluster, worker: WorkerConfig) -> None:
    with Admin(worker.admin_settings(), client_id=client_id_of(worker)) as admin:
        require_same_cluster(admin, source.kafka_cluster_id, source.worker_config_file)
        require_no_live_workers(admin, source.group_id, side="source")
        facts = read_facts(admin, {topic.topic for topic in source.topics.values()})
        for topic in source.topics.values():
            found = require_topic(facts, topic.topic, remedy="it did when the plan was made; make a new plan")
            require_same_topic(found, topic.topic_id)
            require_no_open_transaction(admin, found)
            planned = {part.partition: part for part in topic.partitions}
            if planned.keys() != found.ends.keys():
                raise SourceChangedError(f"{topic.topic} has other partitions than planned; make a new plan")
            for number, part in planned.items():
                if found.ends[number] != part.end:
                    raise SourceChangedError(
                        f"{topic.topic}[{number}] ends at {found.ends[number]}, the plan of run {plan.run_id} says "
                        f"{part.end}: somebody wrote to it since; make sure that all workers of {source.group_id} "
                        "are stopped and make a new plan"
                    )
                if found.starts[number] > part.start:
                    raise SourceChangedError(
                        f"{topic.topic}[{number}] begins at {found.starts[number]}, the plan says {part.start}: "
                        "records were deleted since; make a new plan"
                    )


def _open_destination(
    plan: MigrationPlan, worker: WorkerConfig, admin: Admin, *, create: bool
) -> dict[TopicType, tuple[TopicFacts, bool]]:
    """Check, and where planned create, the shared topics; tells which were created now."""
    created = set()
    for topic_type, planned in plan.destination.topics.items():
        if create and planned.create and ensure_topic(admin, topic_spec(worker, topic_type)):
            created.add(topic_type)
    facts = read_facts(admin, {topic.topic for topic in plan.destination.topics.values()})
    opened = {}
    for topic_type, planned in plan.destination.topics.items():
        if planned.create and not create and planned.topic not in facts:
            continue
        found = require_topic(facts, planned.topic, remedy="it did when the plan was made; make a new plan")
        if not planned.create:
            require_same_topic(found, planned.topic_id)
        spec = topic_spec(worker, topic_type)
        check_cleanup_policy(admin, spec)
        check_partition_count(spec, len(found.ends))
        if len(found.ends) != planned.partitions:
            raise PlanRejectedError(
                f"{planned.topic} has {len(found.ends)} partitions, the plan says {planned.partitions}; make a new plan"
            )
        opened[topic_type] = (found, topic_type in created)
    return opened


def _require_empty(
    plan: MigrationPlan,
    worker: WorkerConfig,
    opened: dict[TopicType, tuple[TopicFacts, bool]],
    *,
    earlier: Manifest | None,
    path: Path,
    progress: Progress,
) -> None:
    groups = {source.cluster_group_id for source in plan.sources}
    try:
        for topic_type, (facts, _) in opened.items():
            refuse_present_groups(
                worker.consumer_settings(), topic_type, facts, groups, client_id=client_id_of(worker), progress=progress
            )
    except DestinationNotEmptyError as error:
        if earlier is None:
            raise
        raise AlreadyAppliedError(
            f"an earlier apply of this plan was interrupted after {len(earlier.evidence)} of "
            f"{earlier.slices_planned} slices ({path}) and left records behind: {error}. Going on from there does "
            "not exist yet; move to fresh shared topics or another group.id with a new plan"
        ) from error


def _copy_jobs(
    plan: MigrationPlan,
    workers: Sequence[WorkerConfig],
    destinations: Sequence[WorkerConfig],
    opened: dict[TopicType, tuple[TopicFacts, bool]],
) -> list[CopyJob]:
    return [
        CopyJob(
            slice_=slice_,
            consumer_settings=workers[slice_.source_index].consumer_settings(),
            producer_settings=destinations[slice_.source_index].producer_settings(),
            destination_consumer_settings=destinations[slice_.source_index].consumer_settings(),
            destination_starts=tuple(sorted(opened[slice_.topic_type][0].ends.items())),
            client_id=client_id_of(destinations[slice_.source_index]),
        )
        for slice_ in plan.slices()
    ]


def load_workers(plan: MigrationPlan) -> tuple[list[WorkerConfig], list[WorkerConfig]]:
    """Read the worker files of a plan again: sources, and for each its destination.

    Raises:
        ConfigError: a file is gone or wrong.
        PlanRejectedError: a file says something else than when the plan was made.
    """
    sources, destinations = [], []
    # One file for several sources names none of them; otherwise the destination's group.id is the prefix.
    paired = len({source.destination_worker_config_file for source in plan.sources}) == len(plan.sources)
    shared = {topic_type: topic.topic for topic_type, topic in plan.destination.topics.items()}
    for source in plan.sources:
        worker = load_worker_file(source.worker_config_file)
        require_worker_file_as_planned(
            worker,
            source.worker_config_file,
            group_id=source.group_id,
            topics={topic_type: topic.topic for topic_type, topic in source.topics.items()},
            sharing=False,
        )
        sources.append(worker)
        destination = load_worker_file(source.destination_worker_config_file)
        require_worker_file_as_planned(
            destination,
            source.destination_worker_config_file,
            group_id=source.cluster_group_id if paired else None,
            topics=shared,
            sharing=True,
        )
        destinations.append(destination)
    return sources, destinations


@dataclass
class _Ready:
    """A plan that was checked against the clusters."""

    plan: MigrationPlan
    manifest_path: Path
    workers: list[WorkerConfig]
    destinations: list[WorkerConfig]
    opened: dict[TopicType, tuple[TopicFacts, bool]]


def _check(plan_path: Path, progress: Progress, *, create: bool) -> _Ready:
    plan = MigrationPlan.load(plan_path)
    path = manifest_path(plan_path)
    earlier = _earlier_manifest(path, plan)
    workers, destinations = load_workers(plan)
    for source, worker in zip(plan.sources, workers, strict=True):
        _check_source(plan, source, worker)
    for source, worker in zip(plan.sources, destinations, strict=True):
        with Admin(worker.admin_settings(), client_id=client_id_of(worker)) as admin:
            require_same_cluster(admin, plan.destination.kafka_cluster_id, source.destination_worker_config_file)
            require_no_live_workers(admin, source.cluster_group_id, side="destination")
    shared = destinations[0]
    with Admin(shared.admin_settings(), client_id=client_id_of(shared)) as admin:
        opened = _open_destination(plan, shared, admin, create=create)
    _require_empty(plan, shared, opened, earlier=earlier, path=path, progress=progress)
    return _Ready(plan, path, workers, destinations, opened)


def check_plan(plan_path: Path, *, progress: Progress | None = None) -> None:
    """Do everything that ``apply_plan`` does before it writes, and write nothing.

    Raises:
        ConnectShareError: as :func:`apply_plan`.
    """
    plan_path = Path(plan_path)
    with _only_one(plan_path):
        _check(plan_path, progress or Silent(), create=False)


def apply_plan(
    plan_path: Path,
    *,
    engine: Engine | None = None,
    engine_name: str = LOCAL_ENGINE,
    progress: Progress | None = None,
) -> Manifest:
    """Check a plan against the clusters once more, then copy; leaves the manifest beside the plan.

    Args:
        plan_path: the plan file.
        engine: how to run the copy jobs; in this process by default.
        engine_name: written to the manifest.
        progress: told how far it is.

    Raises:
        PlanFileError: the plan cannot be used.
        AlreadyAppliedError: it was applied before, wholly or in part, or is being applied.
        PlanRejectedError: source or destination are not as planned; nothing was written.
        TopicError: likewise, such as ``TopicRecreatedError`` and ``OpenTransactionError``.
        LiveMembersError: workers are alive.
        CopyError: the copy is not whole; the manifest stays ``planned``.
        BrokerError: the cluster refused.
    """
    progress = progress or Silent()
    engine = engine or local_engine(progress)
    plan_path = Path(plan_path)
    with _only_one(plan_path):
        ready = _check(plan_path, progress, create=True)
        plan, path, opened = ready.plan, ready.manifest_path, ready.opened
        jobs = _copy_jobs(plan, ready.workers, ready.destinations, opened)
        manifest = Manifest(
            run_id=plan.run_id,
            plan_sha256=hashlib.sha256(plan_path.read_bytes()).hexdigest(),
            fingerprint=plan.fingerprint,
            engine=engine_name,
            status=MigrationStatus.PLANNED,
            started_at_ms=now_ms(),
            destination={
                topic_type: WrittenTopic(
                    topic=facts.topic, topic_id=facts.topic_id, created=created, end_offsets=facts.ends
                )
                for topic_type, (facts, created) in opened.items()
            },
            slices_planned=len(jobs),
        )
        manifest.save(path)
        _logger.info("run %s: copying %d slices with the %s engine", plan.run_id, len(jobs), engine_name)
        progress.phase(f"starting the {engine_name} engine", 0)
        for evidence in engine(jobs):
            manifest = manifest.model_copy(update={"evidence": (*manifest.evidence, evidence)})
            manifest.save(path)
        _require_whole(plan, manifest)
        manifest = manifest.model_copy(update={"status": MigrationStatus.COPIED, "finished_at_ms": now_ms()})
        manifest.save(path)
        _logger.info("run %s: %d records written", plan.run_id, manifest.records_written)
    return manifest


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
    if manifest.records_written > planned:
        raise CopyError(
            f"{manifest.records_written} records were written, {planned} were planned; verify before starting workers"
        )
