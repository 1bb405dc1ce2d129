"""Sides of a comparison and slices of a copy whose records are here already, for moves without a broker."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Message

from connect_share.files import Silent
from connect_share.kafka.read import Reader
from connect_share.model.records import OffsetRange, Record, TopicType
from connect_share.transform.rules import KeyTransform
from connect_share.transform.sealed import NO_SEALING, Sealing
from connect_share.worker_config import ClientSettings, Isolation
from migrator.plan import CopySlice
from migrator.verify.equality import StateDifference
from migrator.verify.verification import Side, VerifyJob, local_verify_engine
from spark_jobs.verify_plan import verify_in_tasks


def message_of(record: Record) -> Message:
    """Return a record as the client's message."""
    more: dict[str, Any] = {"headers": [*record.whole_headers()] or None, "timestamp": (1, record.timestamp_ms)}
    return Message(record.topic, record.partition, record.offset, key=record.key, value=record.value, **more)


@dataclass(frozen=True)
class Held(Side):
    """One side; ``at_once``: records in a batch, 0 for all. Its ranges, if there are any, say which partitions are read."""

    held: tuple[Record, ...] = ()
    at_once: int = 0

    @property
    def content(self) -> object:
        return id(self.held), self.ranges

    def batches(self, on_progress: Callable[[int], None] | None = None) -> Iterator[Any]:
        partitions = {each.partition for each in self.ranges}
        held = [each for each in self.held if not partitions or each.partition in partitions]
        size = self.at_once or max(1, len(held))
        for start in range(0, len(held), size):
            yield [message_of(record) for record in held[start : start + size]]


def in_tasks(jobs: Sequence[VerifyJob]) -> list[list[StateDifference]]:
    """Compare as Spark's engine does, with its tasks run here, and pickled as they are there."""

    def run(items: Sequence[Any], function: Callable[[Any], Any], _: str) -> list[Any]:
        return [pickle.loads(pickle.dumps(function(pickle.loads(pickle.dumps(item))))) for item in items]

    return [*verify_in_tasks(jobs, run, 2)]


def differences(*jobs: VerifyJob) -> list[StateDifference]:
    """Return what this process's engine finds, which is what Spark's finds."""
    found = [each for some in local_verify_engine(Silent())(jobs) for each in some]
    assert sorted(map(str, found)) == sorted(str(each) for some in in_tasks(jobs) for each in some)
    return found


def held(records: Iterable[Record], sealing: Sealing = NO_SEALING, *, at_once: int = 0) -> Held:
    """Return a side with these records."""
    reader = Reader(ClientSettings({}), "t", Isolation.READ_UNCOMMITTED)
    return Held((), reader, tuple(records), at_once=at_once, sealing=sealing)


def slice_of(transform: KeyTransform, number: int, partitions: Mapping[TopicType, int], *, fold: bool) -> CopySlice:
    """Return the slice of one partition, copied to a topic with so many."""
    where, topic_type = OffsetRange("source", number, 0, 1), transform.topic_type
    return CopySlice(0, topic_type, where, Isolation.READ_UNCOMMITTED, "copy", partitions[topic_type], transform, fold)


@pytest.fixture(scope="module", autouse=True)
def silence() -> Iterator[None]:
    """Log nothing: garbage and refused records would be, thousands of times."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)
