"""Comparing one topic on both sides: what is read, what is folded, and by which of two processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from connect_share.client import Message
from connect_share.keys import ClusterGroupId, own_key
from connect_share.log.ranges import read_batches, read_ranges
from connect_share.records import OffsetRange, Record, TopicType
from connect_share.state import replay_config
from connect_share.worker_config.client_settings import ClientSettings, Isolation
from migrator.copy.copy_job import IDLE_TIMEOUT_S
from migrator.progress import counted
from migrator.second_process import SecondProcess
from migrator.transform.canonical import canonical_config
from migrator.transform.connector_keys import connector_of
from migrator.transform.rules import KeyTransform
from migrator.verify.equality import StateDifference, compare_config_states, compare_states
from migrator.verify.narrowing import Narrowing
from migrator.verify.quick_compare import Seen, Spaces, seen_of


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
        yield from counted(records, on_progress)

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

    def run(self, on_progress: Callable[[int], None] | None = None) -> list[StateDifference]:
        """Read both sides and compare.

        Raises:
            BrokerError: reading was refused.
            ReadToEndTimeoutError: an end was not reached.
        """
        if self.may_be_quick:
            return run_together([self], on_progress)[0]
        return self.fold_and_compare(self.source.records(on_progress), self.destination.records(on_progress))

    def fold_and_compare(self, there: Iterator[Record], here: Iterator[Record]) -> list[StateDifference]:
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

    def compare_suspects(self, suspects: set[str | None]) -> list[StateDifference]:
        """Read once more what belongs to these connectors, and fold it."""
        if not suspects:
            return []
        return self.fold_and_compare(
            self.source.of_connectors(self.topic_type, self.source_group_id, suspects),
            self.destination.of_connectors(self.topic_type, self.cluster_group_id, suspects),
        )

    def _compare_put_in_order(self, there: Iterator[Record], here: Iterator[Record]) -> list[StateDifference]:
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


def run_together(
    jobs: Sequence[VerifyJob],
    on_progress: Callable[[int], None] | None = None,
    second: SecondProcess | None = None,
) -> list[list[StateDifference]]:
    """Do what :meth:`VerifyJob.run` does for jobs that may be quick and have one destination; that is read once.

    Args:
        jobs: of one topic type.
        on_progress: told of records read here.
        second: reads the sources while the destination is read here.

    Raises:
        BrokerError: reading was refused.
        ReadToEndTimeoutError: an end was not reached.
    """
    found = []
    for job, suspects in zip(jobs, _suspects(jobs, on_progress, second=second), strict=True):
        known = suspects if suspects is not None else _suspects([job], None, keep=True)[0]
        found.append(job.compare_suspects(known or set()))
    return found


def _suspects(
    jobs: Sequence[VerifyJob],
    on_progress: Callable[[int], None] | None,
    *,
    keep: bool = False,
    second: SecondProcess | None = None,
) -> list[set[str | None] | None]:
    """Look at the bytes of both sides, with the one destination of all jobs read once."""
    topic_type = jobs[0].topic_type
    if second is not None:
        second.begin(_see_sources, jobs)
    there = [] if second is not None else list(_see_sources(jobs, on_progress, keep=keep))
    here = {job.cluster_group_id: seen_of(topic_type, keep=keep) for job in jobs}
    spaces = Spaces(topic_type, here)
    for batch in jobs[0].destination.batches(on_progress):
        spaces.take(batch)
    for seen in here.values():
        seen.settle()
    if second is not None:
        there = list(second.answers(wait=True))
    return [seen.suspects(here[job.cluster_group_id]) for job, seen in zip(jobs, there, strict=True)]


def _see_sources(
    jobs: Sequence[VerifyJob], on_progress: Callable[[int], None] | None = None, *, keep: bool = False
) -> Iterator[Seen]:
    """Read the source of each job; a fork has the hash function of its first process, so both sides compare."""
    for job in jobs:
        seen = seen_of(job.topic_type, keep=keep)
        space = Spaces(job.topic_type, {job.source_group_id: seen})
        for batch in job.source.batches(on_progress):
            space.take(batch)
        seen.settle()
        yield seen
