"""Is everything still as planned? Asked of both clusters before anything is written, by apply, resume and cut-over."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from connect_share.admin import Admin
from connect_share.record_file import half_written
from connect_share.records import OffsetRange, TopicType
from connect_share.topics import check_cleanup_policy, check_partition_count, topic_spec
from connect_share.topics.shared_set import create_missing
from connect_share.worker_config import WorkerConfig
from migrator.copy.copy_job import CopyJob
from migrator.errors import AlreadyAppliedError, DestinationNotEmptyError, PlanFileError, PlanRejectedError
from migrator.facts.inspection import (
    TopicFacts,
    client_id_of,
    load_worker_file,
    read_facts,
    refuse_present,
    require_no_live_workers,
    require_no_open_transaction,
    require_same_cluster,
    require_same_topic,
    require_source_unchanged,
    require_topic,
    require_worker_file_as_planned,
)
from migrator.facts.manifest import Manifest, MigrationStatus, backup_path, manifest_path, mirrored_backup_path
from migrator.plan.plan import MigrationPlan, SourceCluster
from migrator.progress import Progress

_LEAVING_S: Final = 1.0
"""How long the second process of one that was killed may need to end."""


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold the plan, so that two runs never write at once; the system lets go when the process ends.

    What a run that was killed has left of a backup is removed first: it holds secrets.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise PlanFileError(f"plan {path} cannot be read: {error.strerror}") from error
    with file:
        until_s = time.monotonic() + _LEAVING_S
        while not _is_held(file):
            if time.monotonic() > until_s:
                raise AlreadyAppliedError(f"another process is applying {path} right now")
            time.sleep(0.02)
        with contextlib.suppress(OSError):
            for left in (*half_written(backup_path(path)), *half_written(mirrored_backup_path(path))):
                left.unlink()
        yield


def _is_held(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


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
    if manifest.status is MigrationStatus.ROLLED_BACK:
        raise AlreadyAppliedError(f"{path} says that this plan was rolled back: make a new plan")
    if manifest.status is not MigrationStatus.PLANNED:
        raise AlreadyAppliedError(
            f"this plan was applied already, its manifest {path} says {manifest.status.value}: run verify, or make "
            "a new plan"
        )
    return manifest


def _check_source(plan: MigrationPlan, source: SourceCluster, worker: WorkerConfig, *, may_change: bool) -> None:
    client_id = client_id_of(worker)
    with Admin(worker.admin_settings(), client_id=client_id) as admin:
        require_same_cluster(admin, source.kafka_cluster_id, source.worker_config_file)
        if not may_change:
            require_no_live_workers(admin, source.group_id, side="source")
        facts = read_facts(admin, {topic.topic for topic in source.topics.values()})
        for topic_type, topic in source.topics.items():
            found = require_topic(facts, topic.topic, remedy="it did when the plan was made; make a new plan")
            require_same_topic(found, topic.topic_id)
            if not source.sharing and not may_change and not plan.in_place(source, topic_type):
                require_no_open_transaction(admin, found)
            require_source_unchanged(
                worker.consumer_settings(),
                found,
                topic,
                source.transform(topic_type),
                group_id=source.group_id,
                client_id=client_id,
                may_grow=may_change,
            )


def _open_destination(
    plan: MigrationPlan, worker: WorkerConfig, admin: Admin, *, create: bool
) -> dict[TopicType, tuple[TopicFacts, bool]]:
    """Check, and where planned create, the shared topics; tells which were created now."""
    specs = [
        topic_spec(worker, topic_type) for topic_type, planned in plan.destination.topics.items() if planned.create
    ]
    made = create_missing(admin, specs) if create and specs else []
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
        opened[topic_type] = (found, planned.topic in made)
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
    wanted = wanted_of(plan)
    try:
        for topic_type, (facts, _) in opened.items():
            refuse_present(
                worker.consumer_settings(), topic_type, facts, wanted, client_id=client_id_of(worker), progress=progress
            )
    except DestinationNotEmptyError as error:
        if earlier is None:
            raise
        raise AlreadyAppliedError(
            f"an earlier apply of this plan was interrupted after {len(earlier.evidence)} of "
            f"{earlier.slices_planned} slices ({path}) and left records behind: connect-share-migrate resume goes on "
            f"from there ({error})"
        ) from error


def load_workers(plan: MigrationPlan) -> tuple[list[WorkerConfig], list[WorkerConfig]]:
    """Read the worker files of a plan again: sources, and for each its destination.

    Raises:
        PlanFileError: a file is gone.
        ConfigError: a file is wrong.
        PlanRejectedError: a file says something else than when the plan was made.
    """
    sources, destinations = [], []
    shared = {topic_type: topic.topic for topic_type, topic in plan.destination.topics.items()}
    for source in plan.sources:
        for file in map(Path, (source.worker_config_file, source.destination_worker_config_file)):
            if not file.exists():
                raise PlanFileError(
                    f"the worker file {file} that the plan names is not there; put it there, or as {file.name} beside "
                    "the plan"
                )
        worker = load_worker_file(source.worker_config_file)
        require_worker_file_as_planned(
            worker,
            source.worker_config_file,
            group_id=source.group_id,
            topics={topic_type: topic.topic for topic_type, topic in source.topics.items()},
            sharing=source.sharing,
        )
        sources.append(worker)
        destination = load_worker_file(source.destination_worker_config_file)
        # A prefix that is the source's own group.id may come from one destination file for several sources.
        named = source.cluster_group_id not in {None, source.group_id}
        require_worker_file_as_planned(
            destination,
            source.destination_worker_config_file,
            group_id=source.cluster_group_id if named else None,
            topics=shared,
            sharing=source.cluster_group_id is not None,
        )
        destinations.append(destination)
    return sources, destinations


def wanted_of(plan: MigrationPlan) -> dict[str | None, frozenset[str] | None]:
    """Give the key spaces that a plan writes to, and which of their connectors; ``None`` is all."""
    wanted: dict[str | None, frozenset[str] | None] = {}
    for source in plan.sources:
        known = wanted.get(source.cluster_group_id, frozenset())
        only = source.only_connectors
        wanted[source.cluster_group_id] = None if known is None or only is None else known | frozenset(only)
    return wanted


@dataclass
class Ready:
    """A plan that was checked against the clusters."""

    plan: MigrationPlan
    plan_path: Path
    manifest_path: Path
    workers: list[WorkerConfig]
    destinations: list[WorkerConfig]
    opened: dict[TopicType, tuple[TopicFacts, bool]]

    def whole(self, source_index: int, topic_type: TopicType) -> list[OffsetRange]:
        """Everything that a source's topic holds now."""
        worker, topic = self.workers[source_index], self.plan.sources[source_index].topics[topic_type].topic
        with Admin(worker.admin_settings(), client_id=client_id_of(worker)) as admin:
            return require_topic(read_facts(admin, {topic}), topic, remedy="the source is gone").ranges()


def check_all(
    plan_path: Path,
    progress: Progress,
    *,
    create: bool,
    resume: Manifest | None = None,
    source_may_change: bool = False,
    new_workers_may_live: bool = False,
) -> Ready:
    """Check a plan against both clusters; with ``create`` make sure of the destination's topics.

    Args:
        plan_path: the plan file.
        progress: told how far it is.
        create: create what the plan says is to be created.
        resume: the manifest of an interrupted run that is gone on with: its records are expected.
        source_may_change: the source's workers may be alive, and its topics hold more than was planned.
        new_workers_may_live: nothing is written at the destination.

    Raises:
        ConnectShareError: something is not as planned; nothing was written.
    """
    plan = MigrationPlan.load(plan_path)
    path = manifest_path(plan_path)
    earlier = resume or _earlier_manifest(path, plan)
    workers, destinations = load_workers(plan)
    for source, worker in zip(plan.sources, workers, strict=True):
        _check_source(plan, source, worker, may_change=plan.follow or source_may_change)
    for source, worker in zip(plan.sources, destinations, strict=True):
        with Admin(worker.admin_settings(), client_id=client_id_of(worker)) as admin:
            require_same_cluster(admin, plan.destination.kafka_cluster_id, source.destination_worker_config_file)
            if not (new_workers_may_live or (plan.follow and same_members(plan, source, worker))):
                group_id = source.cluster_group_id or worker.group_id
                require_no_live_workers(admin, group_id, side="destination")
    shared = destinations[0]
    with Admin(shared.admin_settings(), client_id=client_id_of(shared)) as admin:
        opened = _open_destination(plan, shared, admin, create=create and resume is None)
    if resume is None:
        _require_empty(plan, shared, opened, earlier=earlier, path=path, progress=progress)
    else:
        for topic_type, written in resume.destination.items():
            require_same_topic(opened[topic_type][0], written.topic_id)
    return Ready(plan, plan_path, path, workers, destinations, opened)


def same_members(plan: MigrationPlan, source: SourceCluster, destination: WorkerConfig) -> bool:
    """Return whether Kafka cannot tell old workers from new ones: one Kafka cluster, one ``group.id``."""
    group_id = source.cluster_group_id or destination.group_id
    return source.kafka_cluster_id == plan.destination.kafka_cluster_id and group_id == source.group_id


def copy_jobs(ready: Ready, starts: Mapping[TopicType, Mapping[int, int]], *, resumed: bool) -> list[CopyJob]:
    """Give one job for each slice of the plan; ``starts`` are the destination's ends before anything was written."""
    return [
        CopyJob(
            slice_=slice_,
            consumer_settings=ready.workers[slice_.source_index].consumer_settings(),
            producer_settings=ready.destinations[slice_.source_index].producer_settings(),
            destination_consumer_settings=ready.destinations[slice_.source_index].consumer_settings(),
            destination_starts=tuple(sorted(starts[slice_.topic_type].items())),
            client_id=client_id_of(ready.destinations[slice_.source_index]),
            resumed=resumed,
        )
        for slice_ in ready.plan.slices()
    ]
