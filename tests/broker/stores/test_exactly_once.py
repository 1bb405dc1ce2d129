"""Exactly-once mode with real transactions: cases 7, 8 and 25, fencing, preparing."""

from __future__ import annotations

from typing import Any

import pytest

from connect_share.errors import PrivilegedWriteError, StoreClosedError, WriteError
from connect_share.model.config_state import TargetState
from connect_share.stores.transactional_writer import TransactionalWriter
from tests.support.waiting import await_that

MODES = pytest.mark.parametrize("mode", ["preparing", "enabled"])
CONFIG = {"name": "foo"}


def leader(shared: Any, mode: Any, kind: str = "sharing", **options: Any) -> Any:
    # The transactional id comes from the group, and groups of tests that run at once must not fence each other.
    worker = getattr(shared, kind)(shared.group, exactly_once_source_support=mode)
    return shared.config_store(worker=worker, **options)


@MODES
def test_privileged_writes_need_a_claim(shared: Any, mode: Any) -> None:  # case 7
    store = leader(shared, mode)
    with pytest.raises(PrivilegedWriteError, match="claim"):
        store.put_task_count_record("c1", 2)
    assert shared.read("config") == []
    store.claim_write_privileges()
    store.claim_write_privileges()
    store.put_task_count_record("c1", 2)
    assert store.snapshot().task_count_record("c1") == 2
    # One record and one marker: one transaction.
    await_that(lambda: shared.end_offset("config") == 2, what="marked")
    assert len(shared.read("config")) == 1


def test_claim_and_stop(shared: Any, monkeypatch: Any) -> None:
    """Whoever stops a store has its privileges given up, also those that are just being claimed."""
    stores = [leader(shared, "enabled") for _ in range(2)]
    claim = TransactionalWriter.claim

    def stopped_before(writer: TransactionalWriter) -> None:
        stores[0].stop()
        claim(writer)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(TransactionalWriter, "claim", stopped_before)
        with pytest.raises(StoreClosedError):
            stores[0].claim_write_privileges()
    assert not stores[0]._leader.claimed
    stores[1].claim_write_privileges()
    with pytest.raises(StoreClosedError):
        stores[0].claim_write_privileges()
    stores[1].put_task_count_record("c1", 2)  # was not fenced


@pytest.mark.parametrize("kind", ["sharing", "worker"], ids=["shared", "plain"])
def test_every_operation_is_one_transaction_or_two(shared: Any, kind: str) -> None:
    store = leader(shared, "enabled", kind)
    store.claim_write_privileges()
    store.put_connector_config("foo", CONFIG, TargetState.PAUSED)
    await_that(lambda: shared.end_offset("config") == 3, what="marked")
    store.put_task_configs("foo", [{"n": "0"}, {"n": "1"}])
    await_that(lambda: shared.end_offset("config") == 3 + 3 + 2, what="marked")
    state = store.snapshot()
    assert [str(task) for task in state.tasks("foo")] == ["foo-0", "foo-1"]
    assert state.target_state("foo") is TargetState.PAUSED
    store.remove_connector_config("foo")
    assert store.snapshot().connectors() == frozenset()
    await_that(lambda: shared.end_offset("config") == 8 + 3, what="marked")
    removal = b"null" if kind == "sharing" else None
    assert [value for _, value in shared.read("config", isolation="read_committed")][-2:] == [removal, removal]


def test_second_leader_fences_the_first(shared: Any) -> None:  # case 8
    first, second = leader(shared, "enabled"), leader(shared, "enabled")
    first.claim_write_privileges()
    first.put_connector_config("one", CONFIG)
    second.claim_write_privileges()
    with pytest.raises(PrivilegedWriteError, match="claim"):
        first.put_connector_config("lost", CONFIG)
    with pytest.raises(PrivilegedWriteError, match="not claimed, or were lost"):
        first.put_connector_config("lost", CONFIG)
    first.put_target_state("one", TargetState.PAUSED)
    first.put_logger_level("root", "DEBUG")
    second.put_connector_config("two", CONFIG)
    assert second.snapshot().connectors() == {"one", "two"}
    assert second.snapshot().target_state("one") is TargetState.PAUSED
    first.claim_write_privileges()
    first.put_connector_config("three", CONFIG)
    assert first.snapshot().connectors() == {"one", "two", "three"}
    with pytest.raises(PrivilegedWriteError):
        second.put_connector_config("lost", CONFIG)
    committed = [key for key, _ in shared.read("config", isolation="read_committed")]
    assert f"{shared.group}.connector-lost".encode() not in committed
    assert f"{shared.group}.connector-two".encode() in committed


def test_users_transactional_id_and_idempotence_are_overridden(shared: Any) -> None:  # case 25
    worker = shared.sharing(
        shared.group,
        exactly_once_source_support="preparing",
        transactional_id="the-users",
        enable_idempotence="false",
    )
    store = shared.config_store(worker=worker)
    store.claim_write_privileges()
    store.put_connector_config("foo", CONFIG)
    store.put_target_state("foo", TargetState.PAUSED)
    other = leader(shared, "preparing")
    other.claim_write_privileges()  # the same transactional.id: connect-cluster-<group>
    with pytest.raises(PrivilegedWriteError):
        store.put_connector_config("foo", CONFIG)


def test_value_too_large_in_a_transaction_takes_the_privileges(shared: Any) -> None:
    worker = shared.sharing(
        shared.group, exactly_once_source_support="enabled", config_storage_max_message_bytes="1000"
    )
    store = shared.config_store(worker=worker)
    store.claim_write_privileges()
    with pytest.raises(PrivilegedWriteError) as refused:
        store.put_connector_config("foo", {"secret": "s3cret" * 1000}, TargetState.PAUSED)
    assert "s3cret" not in str(refused.value)
    # The transaction was ended: nobody who reads committed records has to wait for it.
    store.refresh(30)
    assert store.snapshot().target_states() == {}
    store.claim_write_privileges()
    store.put_connector_config("foo", CONFIG)
    assert store.snapshot().connectors() == {"foo"}


def test_tasks_are_written_only_behind_the_end_of_the_log(shared: Any) -> None:
    """What another leader wrote must be known before the tasks; here another open transaction hides it."""
    seconds = iter([0.0])
    store = leader(shared, "enabled", clock=lambda: next(seconds, 29.8))
    store.claim_write_privileges()
    with shared.open_transaction("config", [(b"group-b.connector-x", b"{}")]):
        with pytest.raises(WriteError, match="was not written within 30 s"):
            store.put_task_configs("foo", [{"n": "0"}])
        assert [key for key, _ in shared.read("config")] == [b"group-b.connector-x"]
