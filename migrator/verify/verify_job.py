"""The comparison of one topic on both sides: its reads and its folds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from connect_share.files import counted
from connect_share.kafka.client import Message
from connect_share.kafka.facts import IDLE_TIMEOUT_S
from connect_share.kafka.read import read_batches, read_ranges
from connect_share.model.keys import connector_of
from connect_share.model.records import OffsetRange, Record, TopicType
from connect_share.replay import replay_config
from connect_share.transform.canonical import canonical_config
from connect_share.transform.rules import KeyTransform
from connect_share.transform.sealed import NO_SEALING, Opening, Sealing
from connect_share.worker_config.client_settings import ClientSettings, Isolation
from migrator.verify.equality import StateDifference, compare_config_states, compare_newest, compare_states
from migrator.verify.quick_compare import KeySpaceDigest, KeySpaces, digest_of

AT_ONCE: Final = 500_000
"""Offsets read between two folds of the digests; what came meanwhile is in memory, some 200 bytes for each living key."""


@dataclass(frozen=True)
class Side:
    """The records of one topic as its workers read them. Holds client settings and keys, hence secrets."""

    ranges: tuple[OffsetRange, ...]
    isolation: Isolation
    settings: ClientSettings
    client_id: str
    sealing: Sealing = field(default=NO_SEALING, kw_only=True)

    @property
    def offsets(self) -> int:
        """Offsets to be read; fewer records may come."""
        return sum(part.end - part.start for part in self.ranges)

    @property
    def content(self) -> object:
        """Equal for sides with the same records; clients and rights may differ."""
        return self.ranges, self.isolation, self.settings.properties.get("bootstrap.servers")

    def records(self, on_progress: Callable[[int], None] | None = None) -> Iterator[Record]:
        """Yield the records, in order within each partition."""
        records = read_ranges(
            self.settings,
            self.ranges,
            isolation=self.isolation,
            client_id=self.client_id,
            idle_timeout_s=IDLE_TIMEOUT_S,
        )
        yield from counted(records, on_progress)

    def opened(self, transform: KeyTransform, on_progress: Callable[[int], None] | None = None) -> Iterator[Record]:
        """Yield what the group believes of the records that a transform takes; all records for plain keys.

        Raises:
            ConfigError: a key is missing: what cannot be opened cannot be compared.
        """
        if transform.source is None:
            yield from self.records(on_progress)
            return
        opening = Opening(self.sealing, transform)
        for record in self.records(on_progress):
            taken = opening.take(record) if transform.takes(record.key) else None
            if taken is not None:
                yield taken
        opening.require_opened()

    def parts(self, most: int) -> Iterator[Side]:
        """Yield this side in parts of whole partitions, each with so many offsets at most or of one partition."""
        part: list[OffsetRange] = []
        for each in self.ranges:
            if part and sum(one.end - one.start for one in (*part, each)) > most:
                yield replace(self, ranges=tuple(part))
                part = []
            part.append(each)
        yield replace(self, ranges=tuple(part))

    def batches(self, on_progress: Callable[[int], None] | None = None) -> Iterator[list[Message]]:
        """Yield the records as batches of the client's own messages."""
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
        """Whether both sides normally hold the same bytes, which mean the same to everybody."""
        if any(side.sealing != NO_SEALING for side in (self.source, self.destination)):
            return False
        return not self.narrowed and not (self.fold and self.topic_type is not TopicType.OFFSET)

    def run(self, on_progress: Callable[[int], None] | None = None) -> list[StateDifference]:
        """Read both sides and compare.

        Raises:
            BrokerError: reading was refused.
            ReadToEndTimeoutError: an end was not reached.
            ConfigError: a key is missing.
        """
        if self.may_be_quick:
            return run_together([self], on_progress)[0]
        return self.compare_all(on_progress)

    def compare_all(self, on_progress: Callable[[int], None] | None = None) -> list[StateDifference]:
        """Read all records of both sides, and fold them."""
        there = self.source.opened(self.transform, on_progress)
        here = self.destination.opened(self.transform.at_destination(), on_progress)
        return self.fold_and_compare(there, here)

    def fold_and_compare(self, there: Iterator[Record], here: Iterator[Record]) -> list[StateDifference]:
        """Compare what Connect makes of the records."""
        if self.source.sealing.as_is:
            return compare_newest(self.topic_type, there, here, self.transform)
        if self.fold and self.topic_type is TopicType.CONFIG:
            return self._compare_canonical(there, here)
        if self.narrowed:  # the source is folded first: its connectors are known before the destination is read
            connectors: set[str | None] = set(self.transform.connectors or ())
            there = _noting_connectors(there, self.transform, connectors)
            here = _of_connectors(here, self.transform.at_destination(), connectors)
        return compare_states(
            self.topic_type,
            there,
            here,
            cluster_group_id=self.cluster_group_id,
            source_cluster_group_id=self.source_group_id,
        )

    def compare_suspects(self, suspects: Set[str | None]) -> list[StateDifference]:
        """Read the records of these connectors once more, and fold them."""
        if not suspects:
            return []
        back = self.transform.at_destination()
        return self.fold_and_compare(
            _of_connectors(self.source.opened(self.transform), self.transform, suspects),
            _of_connectors(self.destination.opened(back), back, suspects),
        )

    def _compare_canonical(self, there: Iterator[Record], here: Iterator[Record]) -> list[StateDifference]:
        """Compare the destination with what was written, and that with the source, repaired connectors excepted."""
        expected = canonical_config(self.transform, there)
        written = replay_config(expected.records, self.cluster_group_id)
        meant = compare_config_states(expected.believed, written, cluster_group_id=self.cluster_group_id)
        changed = expected.healed | expected.left_without_tasks
        if self.narrowed:
            names = {*written.connectors(), *written.target_states(), *written.task_count_records()}
            here = _of_connectors(here, self.transform.at_destination(), names | set(self.transform.connectors or ()))
        found = compare_config_states(
            written, replay_config(here, self.cluster_group_id), cluster_group_id=self.cluster_group_id
        )
        return [difference for difference in meant if difference.connector not in changed] + found


def _of_connectors(records: Iterable[Record], transform: KeyTransform, connectors: Set[str | None]) -> Iterator[Record]:
    """Yield, unchanged, the records that a transform takes and that belong to these connectors."""
    for record in records:
        original = transform.original_key(record.key)
        if isinstance(original, bytes) and connector_of(transform.topic_type, original) in connectors:
            yield record


def _noting_connectors(
    records: Iterable[Record], transform: KeyTransform, connectors: set[str | None]
) -> Iterator[Record]:
    """Yield, unchanged, the records of connectors that a transform takes, and add their connectors to the set."""
    for record in records:
        original = transform.original_key(record.key)
        connector = connector_of(transform.topic_type, original) if isinstance(original, bytes) else None
        if connector is not None:
            connectors.add(connector)
            yield record


def run_together(
    jobs: Sequence[VerifyJob], on_progress: Callable[[int], None] | None = None
) -> list[list[StateDifference]]:
    """Run jobs that may be quick and have one destination, which is read once.

    Args:
        jobs: of one topic type.
        on_progress: called with the number of records read here.

    Raises:
        BrokerError: reading was refused.
        ReadToEndTimeoutError: an end was not reached.
    """
    empty, found = partial(digest_of, jobs[0].topic_type), []
    for job, (one, other) in zip(jobs, _both_digests(jobs, empty, on_progress), strict=True):
        if (one.sealed and job.source_group_id is not None) or (other.sealed and job.cluster_group_id is not None):
            found.append(job.compare_all())
        else:
            found.append(job.compare_suspects(_suspects(job, one, other)))
    return found


def _suspects(job: VerifyJob, one: KeySpaceDigest, other: KeySpaceDigest) -> set[str | None]:
    """Return the connectors whose bytes differ; reads both sides again as long as digests have to look closer."""
    while closer := one.closer(other):
        ((one, other),) = _both_digests([job], closer, None)
    return one.suspects(other)


def _both_digests(
    jobs: Sequence[VerifyJob],
    empty: Callable[[], KeySpaceDigest],
    on_progress: Callable[[int], None] | None,
) -> list[tuple[KeySpaceDigest, KeySpaceDigest]]:
    """Return the digests of both sides of each job; the one destination of all jobs is read once."""
    there = [_digests([job.source_group_id], job.topic_type, job.source, empty, on_progress) for job in jobs]
    groups = [job.cluster_group_id for job in jobs]
    here = _digests(groups, jobs[0].topic_type, jobs[0].destination, empty, on_progress)
    return [
        (digests[job.source_group_id], here[job.cluster_group_id]) for job, digests in zip(jobs, there, strict=True)
    ]


def _digests(
    groups: Iterable[str | None],
    topic_type: TopicType,
    side: Side,
    empty: Callable[[], KeySpaceDigest],
    on_progress: Callable[[int], None] | None,
) -> dict[str | None, KeySpaceDigest]:
    """Read one side, some partitions at a time, and return the digests of some key spaces of it."""
    digests = {group: empty() for group in groups}
    spaces = KeySpaces(topic_type, digests)
    for part in side.parts(AT_ONCE):
        for batch in part.batches(on_progress):
            spaces.add(batch)
        for digest in digests.values():
            digest.fold()
    return digests
