"""Verifying a move: read both sides of each topic, fold, compare. Engines differ in where the jobs run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

from connect_share.admin import Admin
from connect_share.client import Message
from connect_share.keys import ClusterGroupId, own_key
from connect_share.log.ranges import read_batches, read_ranges
from connect_share.records import OffsetRange, Record, TopicType
from connect_share.state import replay_config
from connect_share.worker_config.client_settings import ClientSettings, Isolation
from migrator.canonical import canonical_config
from migrator.connector_keys import connector_of
from migrator.copying import IDLE_TIMEOUT_S
from migrator.errors import PlanRejectedError
from migrator.inspection import (
    BUSY_TOPIC_WAIT_S,
    PROGRESS_EVERY,
    client_id_of,
    read_facts,
    require_no_open_transaction,
    require_same_topic,
    require_topic,
)
from migrator.manifest import Manifest, MigrationStatus, manifest_path
from migrator.narrowing import Narrowing
from migrator.plan import MigrationPlan
from migrator.progress import Progress, Silent
from migrator.quick_compare import Seen, Spaces, seen_of
from migrator.readiness import load_workers
from migrator.since import without_what_came_since, written_since
from migrator.transform import PLAIN_KEYS, KeyTransform
from migrator.verify import Difference, compare_config_states, compare_states


@dataclass(frozen=True)
class Side:
    """The records of one topic as its workers read them. Holds client settings, hence secrets."""

    ranges: tuple[OffsetRange, ...]
    isolation: Isolation
    settings: ClientSettings
    client_id: str

    @property
    def offsets(self) -> int:
        """Offsets to be read; fewer records may come."""
        return sum(part.end - part.start for part in self.ranges)

    def is_as(self, other: Side) -> bool:
        """Tell whether the other one has the same records; clients and rights may be others."""
        bootstrap = "bootstrap.servers"
        return (self.ranges, self.isolation, self.settings.properties.get(bootstrap)) == (
            other.ranges,
            other.isolation,
            other.settings.properties.get(bootstrap),
        )

    def records(self, on_progress: Callable[[int], None] | None = None) -> Iterator[Record]:
        """Read them, in order within each partition."""
        records = read_ranges(
            self.settings,
            self.ranges,
            isolation=self.isolation,
            client_id=self.client_id,
            idle_timeout_s=IDLE_TIMEOUT_S,
        )
        for seen, record in enumerate(records, 1):
            if on_progress is not None and seen % PROGRESS_EVERY == 0:
                on_progress(PROGRESS_EVERY)
            yield record

    def batches(self, on_progress: Callable[[int], None] | None = None) -> Iterator[list[Message]]:
        """Read them as the client's own messages."""
        batches = read_batches(
            self.settings,
            self.ranges,
            isolation=self.isolation,
            client_id=self.client_id,
            idle_timeout_s=IDLE_TIMEOUT_S,
        )
        for batch in batches:
            if on_progress is not None:
                on_progress(len(batch))
            yield batch

    def of_connectors(
        self, topic_type: TopicType, cluster_group_id: str | None, connectors: set[str | None]
    ) -> Iterator[Record]:
        """Read the records of some connectors of one key space."""
        group = None if cluster_group_id is None else ClusterGroupId(cluster_group_id)
        for record in self.records():
            original = None if record.key is None else own_key(topic_type, record.key, group)
            if original is not None and connector_of(topic_type, original) in connectors:
                yield record


@dataclass(frozen=True)
class VerifyJob:
    """One topic type of one source: the unit that is folded and compared as a whole.

    Attributes:
        narrowed: the destination's key space holds more than this source's connectors: only those are compared.
        fold: the state was written, not every record.
    """

    source_index: int
    source_group_id: str | None
    transform: KeyTransform
    source: Side
    destination: Side
    narrowed: bool = False
    fold: bool = False

    @property
    def topic_type(self) -> TopicType:
        """Which of the three topics."""
        return self.transform.topic_type

    @property
    def cluster_group_id(self) -> str | None:
        """The group at the destination; ``None`` for plain keys."""
        return None if self.transform.destination is None else str(self.transform.destination)

    @property
    def may_be_quick(self) -> bool:
        """Tell whether the bytes of both sides can be expected to be the same."""
        return not self.narrowed and not (self.fold and self.topic_type is not TopicType.OFFSET)

    def run(self, on_progress: Callable[[int], None] | None = None) -> list[Difference]:
        """Read both sides and compare.

        Raises:
            BrokerError: reading was refused.
            ReadToEndTimeoutError: an end was not reached.
        """
        if self.may_be_quick:
            return run_together([self], on_progress)[0]
        return self.fold_and_compare(self.source.records(on_progress), self.destination.records(on_progress))

    def fold_and_compare(self, there: Iterator[Record], here: Iterator[Record]) -> list[Difference]:
        """Compare by what Connect makes of the records."""
        if self.fold and self.topic_type is TopicType.CONFIG:
            return self._compare_put_in_order(there, here)
        if self.narrowed:
            narrowing = Narrowing(self.transform)
            there, here = narrowing.at_source(there), narrowing.at_destination(here)
        return compare_states(
            self.topic_type,
            there,
            here,
            cluster_group_id=self.cluster_group_id,
            source_cluster_group_id=self.source_group_id,
        )

    def compare_suspects(self, suspects: set[str | None]) -> list[Difference]:
        """Read once more what belongs to these connectors, and fold it."""
        if not suspects:
            return []
        return self.fold_and_compare(
            self.source.of_connectors(self.topic_type, self.source_group_id, suspects),
            self.destination.of_connectors(self.topic_type, self.cluster_group_id, suspects),
        )

    def _compare_put_in_order(self, there: Iterator[Record], here: Iterator[Record]) -> list[Difference]:
        """Expect what the source believes, connectors that were put in order excepted: there, what was written."""
        expected = canonical_config(self.transform, there)
        written = replay_config(expected.records, self.cluster_group_id)
        meant = compare_config_states(expected.believed, written, cluster_group_id=self.cluster_group_id)
        changed = expected.healed | expected.left_without_tasks
        if self.narrowed:
            names = {*written.connectors(), *written.target_states(), *written.task_count_records()}
            here = Narrowing(self.transform, names).at_destination(here)
        found = compare_config_states(
            written, replay_config(here, self.cluster_group_id), cluster_group_id=self.cluster_group_id
        )
        return [difference for difference in meant if difference.connector not in changed] + found


def run_together(jobs: Sequence[VerifyJob], on_progress: Callable[[int], None] | None = None) -> list[list[Difference]]:
    """Do what :meth:`VerifyJob.run` does for jobs that may be quick and have one destination; that is read once.

    Raises:
        BrokerError: reading was refused.
        ReadToEndTimeoutError: an end was not reached.
    """
    found = []
    for job, suspects in zip(jobs, _suspects(jobs, on_progress), strict=True):
        known = suspects if suspects is not None else _suspects([job], None, keep=True)[0]
        found.append(job.compare_suspects(known or set()))
    return found


def _suspects(
    jobs: Sequence[VerifyJob], on_progress: Callable[[int], None] | None, *, keep: bool = False
) -> list[set[str | None] | None]:
    """Look at the bytes of both sides, with the one destination of all jobs read once."""
    topic_type = jobs[0].topic_type
    there: dict[str | None, Seen] = {}
    for job in jobs:
        seen = there[job.cluster_group_id] = seen_of(topic_type, keep=keep)
        space = Spaces(topic_type, {job.source_group_id: seen})
        for batch in job.source.batches(on_progress):
            space.take(batch)
        seen.settle()
    here = {group: seen.beside() for group, seen in there.items()}
    spaces = Spaces(topic_type, here)
    for batch in jobs[0].destination.batches(on_progress):
        spaces.take(batch)
    for seen in here.values():
        seen.settle()
    return [seen.suspects(here[group]) for group, seen in there.items()]


class Verification(BaseModel):
    """The result of ``verify``."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    equal: bool
    compared: int
    differences: tuple[Difference, ...]
    warnings: tuple[str, ...] = ()


_NAMED: Final = 3

VerifyEngine = Callable[[Sequence[VerifyJob]], Iterable[list[Difference]]]
"""Runs every job once and gives the differences of each, in any order."""


def local_verify_engine(progress: Progress) -> VerifyEngine:
    """Give the engine that reads and folds in this process."""

    def run(jobs: Sequence[VerifyJob]) -> Iterator[list[Difference]]:
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
    """Put jobs together that may be quick and compare with the same records."""
    found: list[list[VerifyJob]] = []
    for job in jobs:
        for together in found:
            first = together[0]
            if (
                job.may_be_quick
                and first.may_be_quick
                and job.topic_type is first.topic_type
                and job.destination.is_as(first.destination)
            ):
                together.append(job)
                break
        else:
            found.append([job])
    return found


def _jobs(plan: MigrationPlan, manifest: Manifest | None, warnings: list[str]) -> list[VerifyJob]:
    workers, destinations = load_workers(plan)
    jobs = []
    with ExitStack() as stack:
        for index, source in enumerate(plan.sources):
            worker, destination = workers[index], destinations[index]
            there = stack.enter_context(Admin(worker.admin_settings(), client_id=client_id_of(worker)))
            here = stack.enter_context(Admin(destination.admin_settings(), client_id=client_id_of(destination)))
            source_facts = read_facts(there, {topic.topic for topic in source.topics.values()})
            shared_facts = read_facts(here, {topic.topic for topic in plan.destination.topics.values()})
            for topic_type in TopicType:
                planned, shared = source.topics[topic_type], plan.destination.topics[topic_type]
                found = require_topic(
                    source_facts, planned.topic, remedy="the source is gone, nothing is left to compare with"
                )
                require_same_topic(found, planned.topic_id)
                ranges = planned.ranges() if manifest is None else manifest.read_ranges_of(index, planned.ranges())
                quiet = not source.sharing and not plan.in_place(source, topic_type) and not _is_sealed(manifest)
                if quiet and any(found.ends.get(each.partition) != each.end for each in ranges):
                    warnings.append(
                        f"{planned.topic} has other end offsets than planned; only the planned ranges are compared"
                    )
                copy = require_topic(shared_facts, shared.topic, remedy="apply the plan first")
                written = manifest.destination[topic_type].topic_id if manifest is not None else None
                require_same_topic(copy, written or shared.topic_id)
                isolation = destination.isolation(topic_type)
                if isolation is Isolation.READ_COMMITTED:
                    require_no_open_transaction(here, copy, wait_s=BUSY_TOPIC_WAIT_S)
                jobs.append(
                    VerifyJob(
                        source_index=index,
                        source_group_id=source.group_id if source.sharing else None,
                        transform=source.transform(topic_type),
                        source=Side(
                            ranges=ranges,
                            isolation=planned.isolation,
                            settings=worker.consumer_settings(),
                            client_id=client_id_of(worker),
                        ),
                        destination=Side(
                            ranges=tuple(copy.ranges()),
                            isolation=isolation,
                            settings=destination.consumer_settings(),
                            client_id=client_id_of(destination),
                        ),
                        narrowed=plan.merge or source.only_connectors is not None,
                        fold=plan.mode == "state",
                    )
                )
    return jobs


def _is_sealed(manifest: Manifest | None) -> bool:
    """Tell whether the cut-over has written to the source.

    Raises:
        PlanRejectedError: it has removed what there was to compare with.
    """
    if manifest is None or manifest.sealed is None:
        return False
    if manifest.sealed.how == "remove":
        raise PlanRejectedError(
            "the cut-over has removed the originals after both sides were found equal: nothing is left to compare with"
        )
    return True


def verify_plan(
    plan_path: Path, *, engine: VerifyEngine | None = None, progress: Progress | None = None
) -> Verification:
    """Compare the planned source ranges with the shared topics as they are now; writes nothing to Kafka.

    When both are equal and the plan was copied, its manifest becomes ``verified``.

    Raises:
        PlanFileError: the plan cannot be used.
        TopicError: a topic is missing, was recreated, or has an open transaction in front of its end.
        BrokerError: the cluster refused.
    """
    plan_path = Path(plan_path)
    engine = engine or local_verify_engine(progress or Silent())
    plan = MigrationPlan.load(plan_path)
    path = manifest_path(plan_path)
    manifest = Manifest.load(path) if path.exists() else None
    warnings: list[str] = []
    if manifest is None:
        warnings.append(f"there is no manifest {path}: this plan was not applied from here")
    elif manifest.status is MigrationStatus.PLANNED:
        warnings.append(f"the manifest {path} says that apply did not end")
    jobs = _jobs(plan, manifest, warnings)
    differences = [difference for found in engine(jobs) for difference in found]
    if differences and manifest is not None:
        written = written_since(plan, manifest, load_workers(plan)[1][0])
        differences, notes = without_what_came_since(differences, written, stopped=_is_sealed(manifest))
        warnings += notes
    equal = not differences
    if equal and manifest is not None and manifest.status is MigrationStatus.COPIED:
        manifest.model_copy(update={"status": MigrationStatus.VERIFIED}).save(path)
    return Verification(
        run_id=plan.run_id,
        equal=equal,
        compared=len(jobs),
        differences=tuple(sorted(differences, key=str)),
        warnings=tuple(warnings),
    )
