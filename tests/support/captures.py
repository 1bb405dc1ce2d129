"""Records captured from real Java workers, with their transactions, and the workers' REST answers."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from connect_share.kafka import client
from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.keys import prefix_key
from connect_share.model.records import Record
from connect_share.worker_config import ClientSettings
from tests.support.topics import ANYWHERE, UNTOUCHED, create_known, send
from tests.support.waiting import await_that

FOLDER = Path(__file__).parents[1] / "vectors" / "java-worker"
VERSIONS = ("2.8.2", "3.9.2", "4.1.2", "4.3.1", "4.3.1-eos", "4.3.1-eos-aborted")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


@cache
def captured(version: str, topic: str) -> tuple[Record, ...]:
    """Records of ``configs``, ``offsets`` or ``status``, as the worker's own isolation level shows them."""
    return captured_as_seen(version, topic, committed=topic != "status")


@cache
def captured_as_seen(version: str, topic: str, *, committed: bool) -> tuple[Record, ...]:
    """Records of a topic as a reader of committed records sees them, or with those of aborted transactions."""
    only_committed = FOLDER / version / f"{topic}.read_committed.jsonl.gz"
    path = only_committed if committed and only_committed.exists() else FOLDER / version / f"{topic}.jsonl.gz"
    records = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            found = json.loads(line)
            records.append(
                Record(
                    found["topic"],
                    found["partition"],
                    found["offset"],
                    found["timestamp_ms"],
                    _bytes(found["key_b64"]),
                    _bytes(found["value_b64"]),
                )
            )
    return tuple(records)


@cache
def captured_state(version: str) -> dict[str, Any]:
    """What was noted beside the records: topics, watermarks, answers of REST."""
    with gzip.open(FOLDER / version / "state.json.gz", "rt", encoding="utf-8") as file:
        state: dict[str, Any] = json.load(file)
    return state


def rest_view(version: str) -> dict[str, Any]:
    """The answers of the worker's REST interface, by connector."""
    view: dict[str, Any] = captured_state(version)["rest"]["connectors"]
    return view


def prefixed(records: tuple[Record, ...] | list[Record], group: str) -> list[Record]:
    """The same records as if the worker shared its topics."""
    return [replace(record, key=prefix_key(group, record.key or b"")) for record in records]


TOPICS = {"configs": 1, "offsets": 5, "status": 5}
FLAGS = {
    "configs": "--config-storage-topic",
    "offsets": "--offset-storage-topic",
    "status": "--status-storage-topic",
}


def fill(settings: ClientSettings, admin: Admin, prefix: str, groups: Mapping[Any, str]) -> list[str]:
    """Put captured records (version by group, ``None``: plain keys) on new topics; return the flags that name these."""
    records: list[Record] = []
    for name, partitions in TOPICS.items():
        create_known(admin, NewTopicRequest(f"{prefix}-{name}", partitions, 1, UNTOUCHED))
        for group, version in groups.items():
            found = captured(version, name)
            own = found if group is None else prefixed(found, group)
            records += [replace(each, topic=f"{prefix}-{name}", partition=ANYWHERE) for each in own]
    send(client.producer(settings, client_id="tests", idempotent=True), records)
    return [word for name, flag in FLAGS.items() for word in (flag, f"{prefix}-{name}")]


# An exactly-once worker writes these past its transactions; what it removes, and what others abort, is in one.
_PAST_TRANSACTIONS = (b"target-state-", b"logger-cluster-")


@dataclass(frozen=True)
class Written:
    """Records of one partition that were written one after the other, in a transaction or in none."""

    records: tuple[Record, ...]
    in_transaction: bool = False
    committed: bool = True


def end_offsets(version: str, topic: str) -> dict[int, int]:
    """End of each partition of ``configs``, ``offsets`` or ``status``; the last offset may be a marker's."""
    state = captured_state(version)
    found = state["watermarks_low_high"][state["topics"][topic]]
    return {int(partition): high for partition, (_low, high) in found.items()}


def as_written(version: str, topic: str) -> Iterator[Written]:
    """Return the records of each partition in order, cut at the markers: each marker is an offset without a record."""
    everything = captured_as_seen(version, topic, committed=False)
    committed = {(record.partition, record.offset) for record in captured_as_seen(version, topic, committed=True)}
    for partition, end in end_offsets(version, topic).items():
        run: list[Record] = []
        records = [record for record in everything if record.partition == partition]
        for record, following in zip(records, [*(each.offset for each in records[1:]), end], strict=False):
            is_committed = (partition, record.offset) in committed
            if run and not is_committed and (partition, run[-1].offset) in committed:
                yield Written(tuple(run))  # what is aborted has nothing to do with what is before it
                run = []
            run.append(record)
            if following == record.offset + 2:
                yield Written(tuple(run), in_transaction=True, committed=is_committed)
                run = []
            elif is_committed and record.value is not None and (record.key or b"").startswith(_PAST_TRANSACTIONS):
                yield Written(tuple(run))
                run = []
        if run:
            yield Written(tuple(run))


def write_as_captured(settings: ClientSettings, topic: str, writes: Iterable[Written], transactional_id: str) -> None:
    """Write records to the partitions they were in, with real transactions, committed and aborted."""
    with_transactions = client.producer(
        settings,
        client_id="tests",
        overrides={"transactional.id": transactional_id, "enable.idempotence": "true", "linger.ms": "0"},
    )
    with_transactions.init_transactions(30)
    without = client.producer(settings, client_id="tests", overrides={"linger.ms": "0"}, idempotent=True)
    markers: dict[int, int] = {}

    def await_markers(admin: Admin) -> None:
        """A transaction has ended for its producer before its markers are written."""
        pairs = [(topic, partition) for partition in markers]
        wanted = {(topic, partition): end for partition, end in markers.items()}
        await_that(lambda: admin.end_offsets(pairs), lambda found: found == wanted, what="marked")
        markers.clear()

    with Admin(settings, client_id="tests") as admin:
        for write in writes:
            producer = with_transactions if write.in_transaction else without
            if write.in_transaction:
                producer.begin_transaction()
            else:
                await_markers(admin)
            send(producer, [replace(record, topic=topic) for record in write.records])
            if write.in_transaction:
                (producer.commit_transaction if write.committed else producer.abort_transaction)(30)
                markers[write.records[-1].partition] = write.records[-1].offset + 2
        await_markers(admin)
    with_transactions.close()
    without.close()
