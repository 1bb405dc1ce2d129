"""The verification of a move: both sides of each topic are read, folded and compared. Engines decide where."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict

from connect_share.errors import AlreadyAppliedError, PlanRejectedError
from connect_share.files import Progress, Silent
from connect_share.kafka.admin import Admin
from connect_share.kafka.facts import (
    BUSY_TOPIC_WAIT_S,
    TopicFacts,
    admin_of,
    read_facts,
    require_no_open_transaction,
    require_topic,
)
from connect_share.kafka.write import MIGRATE_CLIENT_ID
from connect_share.model.records import OffsetRange, TopicType
from connect_share.transform.rules import PLAIN_KEYS
from connect_share.transform.sealed import Sealing
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.client_settings import Isolation
from migrator.inspection import require_same_topic
from migrator.run import Manifest, MigrationRun, MigrationStatus, only_one
from migrator.verify.equality import StateDifference
from migrator.verify.new_writes import describe_written, without_new_writes, written_since
from migrator.verify.verify_job import Side, VerifyJob, run_together


class Verification(BaseModel):
    """The result of ``verify``."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    equal: bool
    compared: int
    differences: tuple[StateDifference, ...]
    warnings: tuple[str, ...] = ()


_NAMED: Final = 3
_COPIED: Final = (MigrationStatus.COPIED, MigrationStatus.VERIFIED, MigrationStatus.CUT_OVER)

VerifyEngine = Callable[[Sequence[VerifyJob]], Iterable[list[StateDifference]]]
"""Runs every job once and yields the differences of each, in any order."""


def local_verify_engine(progress: Progress) -> VerifyEngine:
    """Return the engine that reads and folds in this process."""

    def run(jobs: Sequence[VerifyJob]) -> Iterator[list[StateDifference]]:
        for together in _by_destination(jobs):
            groups = ", ".join(job.cluster_group_id or PLAIN_KEYS for job in together[:_NAMED])
            more = f" and {len(together) - _NAMED} more" if len(together) > _NAMED else ""
            there = sum(job.source.offsets for job in together)
            first = together[0]
            progress.phase(f"comparing {first.topic_type.value} of {groups}{more}", there + first.destination.offsets)
            if first.may_be_quick:
                yield from run_together(together, progress.advance)
            else:
                yield first.run(progress.advance)

    return run


def _by_destination(jobs: Sequence[VerifyJob]) -> list[list[VerifyJob]]:
    """Group jobs that may be quick and compare with the same records."""
    found: dict[object, list[VerifyJob]] = {}
    for number, job in enumerate(jobs):
        key = (job.topic_type, job.destination.content) if job.may_be_quick else number
        found.setdefault(key, []).append(job)
    return list(found.values())


def _jobs(run: MigrationRun, warnings: list[str]) -> list[VerifyJob]:
    plan, jobs = run.plan, []
    for index, source in enumerate(plan.sources):
        with admin_of(run.workers[index]) as source_admin, admin_of(run.destinations[index]) as admin:
            source_facts = read_facts(source_admin, {topic.topic for topic in source.topics.values()})
            facts = read_facts(admin, {topic.topic for topic in plan.destination.topics.values()})
            jobs += [
                VerifyJob(
                    source_index=index,
                    source_group_id=source.group_id if source.sharing else None,
                    transform=source.transform(topic_type),
                    source=_source_side(run, index, topic_type, source_facts, warnings),
                    destination=_destination_side(run, index, topic_type, facts, admin),
                    narrowed=plan.merge or source.only_connectors is not None,
                    fold=plan.mode == "state",
                )
                for topic_type in TopicType
            ]
    return jobs


def _source_side(
    run: MigrationRun, index: int, topic_type: TopicType, facts: dict[str, TopicFacts], warnings: list[str]
) -> Side:
    source, manifest = run.plan.sources[index], run.manifest
    planned = source.topics[topic_type]
    found = require_topic(facts, planned.topic, remedy="the source is gone, nothing is left to compare with")
    require_same_topic(found, planned.topic_id)
    ranges = planned.ranges() if manifest is None else manifest.read_ranges_of(index, planned.ranges())
    quiet = not source.sharing and not run.plan.in_place(source, topic_type) and not _is_sealed(manifest)
    if quiet and any(found.ends.get(each.partition) != each.end for each in ranges):
        warnings.append(f"{planned.topic} has other end offsets than planned; only the planned ranges are compared")
    return _side(run.workers[index], ranges, planned.isolation, run.source_sealing(index))


def _destination_side(
    run: MigrationRun, index: int, topic_type: TopicType, facts: dict[str, TopicFacts], admin: Admin
) -> Side:
    shared, manifest, worker = run.plan.destination.topics[topic_type], run.manifest, run.destinations[index]
    found = require_topic(facts, shared.topic, remedy="apply the plan first")
    written = manifest.destination[topic_type].topic_id if manifest is not None else None
    require_same_topic(found, written or shared.topic_id)
    isolation = worker.isolation(topic_type)
    if isolation is Isolation.READ_COMMITTED:
        require_no_open_transaction(admin, found, wait_s=BUSY_TOPIC_WAIT_S)
    return _side(worker, _compared(topic_type, found, manifest), isolation, run.destination_sealing(index))


def _side(worker: WorkerConfig, ranges: tuple[OffsetRange, ...], isolation: Isolation, sealing: Sealing) -> Side:
    return Side(ranges, isolation, worker.consumer_settings(), worker.client_id(MIGRATE_CLIENT_ID), sealing=sealing)


def _compared(topic_type: TopicType, copy: TopicFacts, manifest: Manifest | None) -> tuple[OffsetRange, ...]:
    """Return what is compared of a destination topic: of statuses only what came since the copy began.

    An older removal of the same connector would remove statuses that keep their older timestamps. No key that is moved
    had a value there then.
    """
    if topic_type is not TopicType.STATUS or manifest is None:
        return tuple(copy.ranges())
    starts = manifest.destination[topic_type].end_offsets
    return tuple(
        part._replace(start=min(max(part.start, starts.get(part.partition, 0)), part.end)) for part in copy.ranges()
    )


def _is_sealed(manifest: Manifest | None) -> bool:
    """Return whether the cut-over has written to the source; refuse when it has removed the originals."""
    if manifest is None or manifest.sealed is None:
        return False
    if manifest.sealed.how == "remove":
        raise PlanRejectedError(
            "the cut-over has removed the originals after both sides were found equal: nothing is left to compare with"
        )
    return True


def verify_plan(
    run: MigrationRun,
    *,
    engine: VerifyEngine | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Compare both sides as :func:`compare_sides`; when they are equal, a copied plan's manifest becomes ``verified``.

    The manifest stays as it is while another process works with the plan, or if one has changed it since it was read.

    Raises:
        ConnectShareError: as :func:`compare_sides`.
        PlanFileError: the manifest cannot be written.
    """
    verification = compare_sides(run, engine=engine, progress=progress)
    compared = run.manifest
    if verification.equal and compared is not None and compared.status is MigrationStatus.COPIED:
        with contextlib.suppress(AlreadyAppliedError), only_one(run.plan_path):
            if Manifest.load(run.manifest_path) == compared:
                run.save(compared.model_copy(update={"status": MigrationStatus.VERIFIED}))
    return verification


def compare_sides(
    run: MigrationRun,
    *,
    engine: VerifyEngine | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Compare the source ranges that were copied with the shared topics as they are now; writes nothing.

    Args:
        run: the plan; it need not be locked.
        engine: runs the comparisons; in this process by default.
        progress: of the reads.

    Raises:
        TopicError: a topic is missing, was recreated, or has an open transaction in front of its end.
        BrokerError: the cluster refused.
        ConfigError: a value is sealed with a key that is not there.
    """
    engine = engine or local_verify_engine(progress or Silent())
    manifest, path = run.manifest, run.manifest_path
    warnings: list[str] = []
    if manifest is None:
        warnings.append(f"there is no manifest {path}: this plan was not applied from here")
    elif manifest.status is MigrationStatus.PLANNED:
        warnings.append(f"the manifest {path} says that apply did not end")
    elif manifest.status is MigrationStatus.ROLLED_BACK:
        warnings.append(f"the manifest {path} says that what was written was removed again")
    jobs = _jobs(run, warnings)
    differences = [difference for found in engine(jobs) for difference in found]
    if differences and manifest is not None and manifest.status in _COPIED:
        written = written_since(run)
        if manifest.status is MigrationStatus.CUT_OVER:
            differences, notes = without_new_writes(differences, written, stopped=_is_sealed(manifest))
            warnings += notes
        elif written:
            warnings.append(
                f"new workers have written since: {describe_written(written)}; do not start the old ones, "
                f"connect-share-migrate seal {run.plan_path} seals the source"
            )
    return Verification(
        run_id=run.plan.run_id,
        equal=not differences,
        compared=len(jobs),
        differences=tuple(sorted(differences, key=str)),
        warnings=tuple(warnings),
    )
