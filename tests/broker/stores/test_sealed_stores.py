"""Stores of a group whose values are sealed, on a broker, beside somebody who may read and write its topics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connect_share.errors import ConfigError
from connect_share.model.config_state import RestartRequest, SessionKey
from connect_share.model.keys import prefix_key
from connect_share.model.records import ConnectorTaskId, Record
from connect_share.model.status import ConnectorStatus, State, TaskStatus
from connect_share.sealing import KEYS_PROPERTY, KeyRing
from connect_share.sealing.cipher import key_id
from connect_share.storage import ConnectStorage
from connect_share.stores.config import KafkaConfigBackingStore
from connect_share.stores.offsets import KafkaOffsetBackingStore
from connect_share.stores.status import KafkaStatusBackingStore
from tests.support.sealed import key_text, sealed
from tests.support.sealed_stores import FILE, KINDS, SECRET, believed, fresh, opened, put, refused, worker, write_offset
from tests.support.waiting import await_that

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
def test_everything_written_is_sealed_and_read_again(shared: Any, exactly_once: str) -> None:
    options = {"exactly_once_source_support": exactly_once}
    with ConnectStorage(worker(shared, **options)) as storage:
        storage.config.claim_write_privileges()
        for name in ("c", "gone"):
            put(storage, name)
        storage.config.put_session_key(SessionKey(SECRET, "HmacSHA256", 1))
        storage.config.put_restart_request(RestartRequest("c", False, True))
        storage.config.put_logger_level("org.apache", "DEBUG")
        storage.config.put_task_count_record("c", 1)
        storage.config.remove_connector_config("gone")
        storage.status.put(ConnectorStatus("gone", State.DESTROYED, "w:1", 2))
        storage.status.put(TaskStatus(ConnectorTaskId("gone", 0), State.DESTROYED, "w:1", 2))
        storage.status.flush()
        write_offset(storage, "gone", None)
        assert storage.alter_offsets("c", [(FILE, {"position": 9})], force=True) == 1
        before = believed(storage)
        assert refused(storage) == [0, 0, 0]
    assert before[0].connectors() == {"c"}
    assert before[0].connector_config("c") == {"name": "c", "password": SECRET.decode()}
    assert before[0].session_key == SessionKey(SECRET, "HmacSHA256", 1)
    assert before[1].connectors() == {"c"}
    assert [status.state for status in before[1].task_statuses("c")] == [State.RUNNING]
    assert before[2].connectors() == {"c"}
    assert before[2].offset("c", FILE) == {"position": 9}
    assert fresh(shared, **options) == before
    found = opened(shared, KeyRing.parse(key_text(7)))
    assert (b"group-a.connector-gone", b"null") in found
    assert (b"group-a.status-connector-gone", None) in found
    assert len([value for key, value in found if b"gone" in key and value is None]) == 3


def test_a_store_that_contradicts_its_worker_file_writes_nothing(shared: Any) -> None:
    for kind in (KafkaConfigBackingStore, KafkaStatusBackingStore, KafkaOffsetBackingStore):
        for group in ("group-b", None):
            with pytest.raises(ConfigError, match=f"cluster_group_id={group!r}.*group.id='group-a'"):
                kind(worker(shared), cluster_group_id=group)
    assert shared.admin.describe_topics([*shared.topics.values()]) == {}


def test_a_replay_is_refused_by_who_remembers_and_a_checkpoint_does(shared: Any, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    key = prefix_key("group-a", b"connector-c")
    old = sealed(Record("", 0, 0, 0, key, b'{"properties":{"v":"old"}}'), keys=KeyRing.parse(key_text(7))).value
    with ConnectStorage(worker(shared), checkpoint=path) as storage:
        put(storage)
        before = believed(storage)[0]
    assert SECRET in path.read_bytes()  # opened, as a checkpoint always is
    shared.write("config", [(key, old)])
    with ConnectStorage(worker(shared), checkpoint=path) as storage:
        assert storage.startup.from_checkpoint
        after = believed(storage)[0]
        assert after.connector_config("c") == before.connector_config("c")
        assert refused(storage)[0] == 1
        assert after.offset == before.offset + 1
    assert fresh(shared)[0] == after
    for options in ({"keys": key_text(7, 8)}, {"mode": "accept"}):
        with ConnectStorage(worker(shared, **options), checkpoint=path) as storage:
            assert not storage.startup.from_checkpoint


def test_keys_are_rotated_and_a_missing_one_ends_the_start(shared: Any) -> None:
    with ConnectStorage(worker(shared, key_text(7))) as storage:
        put(storage)
    with ConnectStorage(worker(shared, key_text(8, 7))) as storage:
        put(storage, "d")
        before = believed(storage)
    ids = {key_id(value) for kind in KINDS for _, value in shared.read(kind)}
    assert ids == {7, 8}
    assert fresh(shared, keys=key_text(7, 8)) == before
    for keys in (key_text(8), key_text(7), key_text(9)):
        with pytest.raises(ConfigError, match=r"is sealed with key \d, but .*encryption.keys has only \d") as caught:
            fresh(shared, keys=keys)
        assert caught.value.property_name == KEYS_PROPERTY
    # While stores run, a record of a key that is not known is refused and no more.
    with ConnectStorage(worker(shared, key_text(8, 7))) as storage:
        key = prefix_key("group-a", b"connector-x")
        unknown = sealed(Record("", 0, 0, 0, key, b"{}"), keys=KeyRing.parse(key_text(9))).value
        shared.write("config", [(key, unknown)])
        assert believed(storage)[0] == before[0]
        assert refused(storage) == [1, 0, 0]


def test_a_group_is_switched_by_accept(shared: Any) -> None:
    with ConnectStorage(worker(shared, keys=None)) as storage:
        put(storage)
        put(storage, "gone")
        storage.config.remove_connector_config("gone")
        write_offset(storage, "gone", None)
        before = believed(storage)
    assert fresh(shared, mode="accept") == before
    assert fresh(shared)[0].connectors() == frozenset()
    with ConnectStorage(worker(shared, mode="accept")) as storage:
        put(storage)
        assert believed(storage)[0].connectors() == {"c"}
        assert storage.config.skipped() == {}
    assert fresh(shared)[0].connectors() == {"c"}
    # Back again: without keys nothing sealed is read.
    with ConnectStorage(worker(shared, keys=None)) as storage:
        assert believed(storage)[0] == before[0]
        assert refused(storage)[0] == 4


def test_a_connectors_own_offsets_topic_is_not_sealed(shared: Any) -> None:
    own = f"{shared.unique}-own"
    with ConnectStorage(worker(shared)) as storage:
        storage.config.put_connector_config("c", {"name": "c", "offsets.storage.topic": own})
        write_offset(storage, "c", 5)
        await_that(lambda: len(shared.read("offset")) == 1, what="the copy in the worker's topic")
        assert storage.offset_reader("c").offset(FILE) == {"position": 5, "x": SECRET.decode()}
    [(key, value)] = shared.read("offset", topic=own)
    assert key.startswith(b'["c",')
    assert value.startswith(b'{"position":5')
    assert len(opened(shared, KeyRing.parse(key_text(7)))) == 2
    # The worker's own topic is sealed, whoever names it.
    with ConnectStorage(worker(shared)) as storage:
        storage.config.put_connector_config("d", {"name": "d", "offsets.storage.topic": shared.topics["offset"]})
        write_offset(storage, "d", 6)
        assert storage.offset_reader("d").offset(FILE) == {"position": 6, "x": SECRET.decode()}
    assert len(opened(shared, KeyRing.parse(key_text(7)))) == 4
