"""A transaction of another group, left open on a shared topic."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from connect_share.kafka import read as open_transactions
from connect_share.storage import ConnectStorage
from tests.broker.stores.conftest import Pair, Shared
from tests.support.printed import Printed
from tests.support.waiting import await_that, error_at_deadline


@pytest.mark.parametrize(
    ("kind", "pair", "group", "transactional_id", "told"),
    [
        (
            "config",
            (b"com.acme.connector-my.conn", b"{}"),
            "com.acme",
            "connect-cluster-com.acme",
            "appears to belong to cluster group 'com.acme', transactional id 'connect-cluster-com.acme'. It ends",
        ),
        (
            "offset",
            (b'com.acme.["my\\u001b[31m",{}]', b"{}"),
            "com.acme",
            None,
            r"transactional id 'com.acme-my\x1b[31m-<task>' of a source task or 'connect-cluster-com.acme'. It ends",
        ),
        ("config", (b"garbage", b"{}"), None, None, "no record of Connect, transactional id unknown"),
        ("config", (b"connector-a", b"{}"), None, None, "of a cluster with plain keys, transactional id unknown"),
    ],
)
def test_the_owner_is_named_at_the_deadline(
    shared: Shared, kind: str, pair: Pair, group: str | None, transactional_id: str | None, told: str
) -> None:
    worker = shared.sharing(shared.group, exactly_once_source_support="enabled")
    store = (shared.config_store if kind == "config" else shared.offset_store)(worker=worker)
    with shared.open_transaction(kind, [pair]):
        error = error_at_deadline(store._log.read_to_end, lambda error: told in str(error))
        assert (error.blocked_by, error.transactional_id) == (group, transactional_id)
        assert (error.topic, error.position, error.end_offset, error.retriable) == (shared.topics[kind], 0, 1, True)
    store._log.read_to_end(120)


def test_a_start_says_what_it_waits_for_and_the_remedy_is_one(
    shared: Shared, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, printed: Printed
) -> None:
    monkeypatch.setattr(open_transactions, "LOG_AFTER_S", 0.2)
    worker = shared.sharing(shared.group, exactly_once_source_support="enabled")
    with ConnectStorage(worker, allow_live_members=True):
        pass  # makes the topics
    storage = ConnectStorage(worker, allow_live_members=True)
    with ThreadPoolExecutor(1) as threads, shared.open_transaction("config", [(b"B.commit-foo", b'{"tasks":1}')]):
        starting = threads.submit(storage.__enter__)
        found = await_that(lambda: re.search(r"waits: a transaction is open .*", caplog.text), what="told")
        assert found is not None
        assert "appears to belong to cluster group 'B', transactional id 'connect-cluster-B'" in found[0]
        assert not starting.done()
        who, ends_it = re.findall(r"kafka-transactions.sh [^;]*", found[0])
        assert "ProducerEpoch" in printed(who).out
        assert printed(ends_it).code == 0
        with closing(starting.result(60)):
            assert storage.config.snapshot().connectors() == frozenset()
