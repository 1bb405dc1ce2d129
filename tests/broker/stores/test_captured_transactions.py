"""What exactly-once workers left behind, on a broker again with real transactions: stores see what Java saw."""

from __future__ import annotations

import json
from typing import Any

import pytest

from connect_share import replay_config, replay_offsets, replay_status
from connect_share.model.config_state import TargetState
from connect_share.model.records import Record
from connect_share.storage import ConnectStorage
from connect_share.stores.connector_offsets import ConnectorOffsetBackingStore
from connect_share.worker_config import Isolation, WorkerConfig
from tests.support.captures import (
    Written,
    as_written,
    captured_as_seen,
    end_offsets,
    prefixed,
    rest_view,
    write_as_captured,
)
from tests.support.records import at_offset
from tests.support.topics import ONE_SEGMENT, read_topic

KINDS = {"configs": "config", "offsets": "offset", "status": "status"}


def lay_down(shared: Any, version: str, group: str | None) -> None:
    for name, kind in KINDS.items():
        partitions = len(end_offsets(version, name))
        shared.create(
            shared.topics[kind],
            partitions=partitions,
            cleanup_policy="compact",
            **{setting.replace(".", "_"): value for setting, value in ONE_SEGMENT.items()},
        )
        writes = as_written(version, name)
        if group is not None:
            writes = (
                Written(tuple(prefixed(each.records, group)), each.in_transaction, each.committed) for each in writes
            )
        write_as_captured(shared.worker().producer_settings(), shared.topics[kind], writes, f"{shared.unique}-t")


def worker(shared: Any, group: str | None, isolation: Isolation) -> WorkerConfig:
    mode = "enabled" if isolation is Isolation.READ_COMMITTED else "disabled"
    made = shared.worker if group is None else shared.sharing
    config: WorkerConfig = made(group or "plain", exactly_once_source_support=mode)
    return config


def read(shared: Any, kind: str, isolation: Isolation) -> list[tuple[Any, ...]]:
    settings = shared.worker().consumer_settings()
    return in_order(read_topic(shared.admin, settings, shared.topics[kind], isolation))


def in_order(records: Any) -> list[tuple[Any, ...]]:
    return sorted((each.partition, each.offset, each.timestamp_ms, each.key, each.value) for each in records)


@pytest.mark.parametrize(
    ("version", "group"),
    [("4.3.1-eos", None), ("4.3.1-eos-aborted", None), ("4.3.1-eos-aborted", "com.acme.orders")],
)
def test_both_isolation_levels_see_what_java_saw(shared: Any, version: str, group: str | None) -> None:
    lay_down(shared, version, group)
    for name, kind in KINDS.items():
        # Every record and every marker is where it was.
        assert {number: shared.end_offset(kind, number) for number in end_offsets(version, name)} == end_offsets(
            version, name
        )
        for isolation in Isolation:
            seen = captured_as_seen(version, name, committed=isolation is Isolation.READ_COMMITTED)
            assert read(shared, kind, isolation) == in_order(seen if group is None else prefixed(seen, group))

    for isolation in (Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED):
        committed = isolation is Isolation.READ_COMMITTED
        configs, offsets = (captured_as_seen(version, name, committed=committed) for name in ("configs", "offsets"))
        with ConnectStorage(worker(shared, group, isolation)) as storage:
            state = storage.config.snapshot()
            # A group that shares topics puts its marker behind a tombstone at the end, in sight of this isolation level.
            marked = group is not None and configs[-1].value is None
            position = end_offsets(version, "configs")[0] + 1 if marked else configs[-1].offset + 1
            assert state == at_offset(replay_config(configs), position)
            assert state.task_count_records() == replay_config(configs).task_count_records()
            assert storage.offsets.snapshot() == replay_offsets(offsets)
            # A worker reads its statuses uncommitted whatever its mode.
            assert storage.status.snapshot() == replay_status(captured_as_seen(version, "status", committed=False))
            if not committed and version == "4.3.1-eos-aborted":
                assert state.connectors() == {"real.src", "ghost"}  # "second" was removed, and that aborted
                assert state.target_state("real.src") is TargetState.STOPPED
            # The other producer's records belong to a group of their own.
            if group is None and version == "4.3.1-eos-aborted":
                with ConnectStorage(worker(shared, "B", isolation)) as other:
                    names = {"foo"} if committed else {"foo", "bar"}
                    assert other.config.snapshot().connectors() == names
                    assert other.offsets.snapshot().connectors() == names


def test_a_connectors_own_topic_with_the_workers_behind_it(shared: Any) -> None:
    version, own_topic = "4.3.1-eos", f"{shared.unique}-own"
    lay_down(shared, version, None)
    shared.create(own_topic, partitions=5, cleanup_policy="compact")
    records: tuple[Record, ...] = captured_as_seen(version, "own-offsets", committed=True)
    writes = (Written((record,), in_transaction=True) for record in records)
    write_as_captured(shared.worker().producer_settings(), own_topic, writes, f"{shared.unique}-t")
    mode = {"exactly_once_source_support": "enabled"}
    worker_store = shared.offset_store(worker=shared.worker(**mode))
    primary = shared.offset_store(worker=shared.worker(**mode, offset_storage_topic=own_topic))
    store = ConnectorOffsetBackingStore(primary, worker_store)
    said = rest_view(version)["own.off"]["offsets"]["body"]["offsets"]
    (key,) = store.wire_keys("own.off", said[0]["partition"])
    assert store.connector_partitions("own.off") == [each["partition"] for each in said]
    assert store.get((key,)).result(30) == {key: json.dumps(said[0]["offset"], separators=(",", ":")).encode()}
