"""Kafka clients with the settings of a worker file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from connect_share.admin import Admin
from connect_share.client import Message
from connect_share.log.ranges import read_batches, read_ranges
from connect_share.records import OffsetRange, Record
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.client_settings import Isolation
from migrator.copy.checked_writer import CheckedWriter, Producers
from migrator.copy.copy_job import IDLE_TIMEOUT_S

_CLIENT_ID_SUFFIX: Final = "migrate"


def client_id_of(worker: WorkerConfig) -> str:
    """Return the client id of every client that the migrator opens with a worker's settings."""
    return worker.client_id(_CLIENT_ID_SUFFIX)


def admin_of(worker: WorkerConfig) -> Admin:
    """Return an admin client of the worker's cluster; the caller closes it."""
    return Admin(worker.admin_settings(), client_id=client_id_of(worker))


def read_records(
    worker: WorkerConfig, ranges: Sequence[OffsetRange], isolation: Isolation, *, with_headers: bool = False
) -> Iterator[Record]:
    """Yield the records of offset ranges of the worker's cluster, in offset order within each partition.

    Raises:
        BrokerError: reading was refused.
        ReadToEndTimeoutError: the end of a range was not reached.
    """
    return read_ranges(
        worker.consumer_settings(),
        ranges,
        isolation=isolation,
        client_id=client_id_of(worker),
        idle_timeout_s=IDLE_TIMEOUT_S,
        with_headers=with_headers,
    )


def read_messages(worker: WorkerConfig, ranges: Sequence[OffsetRange], isolation: Isolation) -> Iterator[list[Message]]:
    """Yield the messages of offset ranges of the worker's cluster in batches, in offset order within each partition.

    Raises:
        BrokerError, ReadToEndTimeoutError: as :func:`read_records`.
    """
    return read_batches(
        worker.consumer_settings(),
        ranges,
        isolation=isolation,
        client_id=client_id_of(worker),
        idle_timeout_s=IDLE_TIMEOUT_S,
    )


def write_records(workers: Sequence[WorkerConfig], records: Iterable[tuple[int, Record]]) -> int:
    """Write records, each to its topic in the cluster of the worker with that index. Returns how many.

    The records of one cluster keep their order. Returns when all are acknowledged.

    Raises:
        BrokerError: a record was refused; some of the others were written.
        CopyError: an acknowledgement is missing; likewise.
    """
    producers = Producers()
    writers: dict[tuple[int, str], CheckedWriter] = {}
    written = 0
    try:
        for index, record in records:
            key = (index, record.topic)
            if key not in writers:
                worker = workers[index]
                writers[key] = CheckedWriter(producers, worker.producer_settings(), record.topic, client_id_of(worker))
            writers[key].write(record)
            written += 1
        for writer in writers.values():
            writer.finish()
    except BaseException:
        for writer in writers.values():
            writer.abandon()
        raise
    return written
