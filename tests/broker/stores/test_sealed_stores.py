"""Stores of a group whose values are sealed, on a broker, beside somebody who may read and write its topics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connect_share.errors import ConfigError
from connect_share.keys import prefix_key
from connect_share.records import ConnectorTaskId, Record, TopicType
from connect_share.sealing import KEYS_PROPERTY, KeyRing
from connect_share.sealing.cipher import Cipher, Opened, key_id
from connect_share.state import ConnectorStatus, RestartRequest, SessionKey, SkipKind, State, TargetState, TaskStatus
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from tests.support.console import console
from tests.support.sealed import key_text, sealed
from tests.support.topics import COMPACT_NOW
from tests.support.waiting import await_that

pytestmark = pytest.mark.broker

SHARING = {"connect.management.topic.sharing.support": "enabled"}
MODE = KEYS_PROPERTY.removesuffix(".keys")
SECRET = b"hunter2-zebra"
FILE = {"filename": "x.txt"}
KINDS = {kind.value: kind for kind in TopicType}


def worker(shared: Any, keys: str | None = key_text(7), mode: str | None = None, **overrides: str) -> WorkerConfig:
    sealing = {name: value for name, value in ((KEYS_PROPERTY, keys), (MODE, mode)) if value is not None}
    return WorkerConfig.from_properties(shared.properties("group-a", **overrides) | SHARING | sealing)


def put(storage: ConnectStorage, name: str = "c", position: int | None = 1) -> None:
    """Write what a worker writes of one connector, and read it back."""
    secret = {"name": name, "password": SECRET.decode()}
    storage.config.put_connector_config(name, secret, TargetState.PAUSED)
    storage.config.put_task_configs(name, [secret])
    storage.status.put(ConnectorStatus(name, State.FAILED, "w:1", 1, SECRET.decode()))
    storage.status.put(TaskStatus(ConnectorTaskId(name, 0), State.RUNNING, "w:1", 1))
    storage.status.flush()
    write_offset(storage, name, position)


def write_offset(storage: ConnectStorage, name: str, position: int | None) -> None:
    writer = storage.offset_writer(name, transactional=False)
    writer.offset(FILE, None if position is None else {"position": position, "x": SECRET.decode()})
    assert writer.begin_flush()
    flushed = writer.do_flush()
    assert flushed is not None
    flushed.result(30)


def believed(storage: ConnectStorage) -> Any:
    storage.config.refresh()
    storage.status.refresh()
    storage.offsets.refresh()
    return storage.config.snapshot(), storage.status.snapshot(), storage.offsets.snapshot()


def fresh(shared: Any, **options: Any) -> Any:
    with ConnectStorage(worker(shared, **options)) as storage:
        return believed(storage)


def refused(storage: ConnectStorage) -> list[int]:
    return [store.skipped().get(SkipKind.REFUSED, 0) for store in (storage.config, storage.status, storage.offsets)]


def opened(shared: Any, ring: KeyRing) -> list[tuple[bytes, bytes | None]]:
    """Everything on the topics, which has to be sealed."""
    found = []
    for kind, topic_type in KINDS.items():
        for key, value in shared.read(kind):
            assert SECRET not in value
            one = Cipher(ring, topic_type).open(key, value)
            assert isinstance(one, Opened)
            found.append((key, one.value))
    return found


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


def test_nothing_that_others_write_is_believed(shared: Any, caplog: pytest.LogCaptureFixture) -> None:
    with ConnectStorage(worker(shared)) as storage:
        put(storage)
        before = believed(storage)
        connector, task = (dict(shared.read("config"))[b"group-a." + key] for key in (b"connector-c", b"task-c-0"))
        attack(shared, connector, task)
        assert believed(storage) == before
        assert refused(storage) == [5, 2, 2]
        assert fresh(shared) == before  # nothing was cleaned yet; the position is the same
        put(storage, "d")
        after = believed(storage)
        assert after[0].connectors() == {"c", "d"}
    assert fresh(shared) == after
    lines = [found.getMessage() for found in caplog.records if found.getMessage().startswith("Refused the record at ")]
    assert len([line for line in lines if shared.topics["config"] in line]) == 5 * 3
    assert SECRET.decode() not in caplog.text


def attack(shared: Any, connector: bytes, task: bytes) -> None:
    """A co-tenant: a plain connector, a bad session key, a value carried elsewhere, a flipped bit, removals."""
    forged = b'{"properties":{"connector.class":"Evil"}}'
    flipped = bytes([*task[:-1], task[-1] ^ 1])
    config = [(b"connector-evil", forged), (b"session-key", b'{"key":"!"}'), (b"connector-evil", connector)]
    shared.write("config", [*config, (b"connector-c", None), (b"task-c-0", flipped)], group="group-a")
    shared.write("status", [(b"status-connector-c", None), (b"status-task-c-0", b"{}")], group="group-a")
    key = b'["c",{"filename":"x.txt"}]'
    shared.write("offset", [(key, b'{"position":0}'), (key, None)], group="group-a")


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
    shared.extra_topics.add(own)
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


def test_the_console_shows_names_of_a_sealed_group_and_no_value(
    shared: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    run = console(capsys)
    with ConnectStorage(worker(shared)) as storage:
        put(storage)
    file = tmp_path / "worker.properties"
    properties = shared.properties("group-a") | SHARING | {KEYS_PROPERTY: key_text(7)}
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    found = [run("get", what, "-w", file, "--all-groups") for what in ("groups", "connectors", "tasks", "offsets")]
    assert [ran.code for ran in found] == [0] * 4
    assert "group-a" in found[0].out
    shown = "".join(ran.out + ran.err for ran in found) + caplog.text
    assert SECRET.decode() not in shown
    assert key_text(7)[2:14] not in shown


@pytest.mark.parametrize("attack", ["tombstone", "garbage", "replay"])
def test_who_was_there_keeps_what_the_cleaner_takes(shared: Any, tmp_path: Path, attack: str) -> None:
    """Who may write can still take away: a reader that begins later misses it, or believes an old value."""
    shared.create(shared.topics["config"], **COMPACT_NOW | {"delete.retention.ms": "86400000"})
    path, key, name = tmp_path / "checkpoint", b"group-a.connector-c", b"connector-c"
    old = b'{"properties":{"v":"old"}}'
    values = {
        "tombstone": None,
        "garbage": b"garbage",
        "replay": sealed(Record("", 0, 0, 0, key, old), keys=KeyRing.parse(key_text(7))).value,
    }

    def only_the_attack_is_left() -> bool:
        shared.write("config", [(b"group-b.target-state-x", b'{"state":"PAUSED"}')])
        return not [value for found, value in shared.read("config") if found == key and value != values[attack]]

    with ConnectStorage(worker(shared), checkpoint=path) as storage:
        for connector in ("c", "d"):
            put(storage, connector)
        before = believed(storage)[0]
        shared.write("config", [(name, values[attack])], group="group-a")
        await_that(only_the_attack_is_left, what="the cleaner's work", timeout_s=120)
        after = believed(storage)[0]
        assert after.connector_config("c") == before.connector_config("c")
        assert after.offset == before.offset + (attack == "replay")
        assert storage.config.skipped()[SkipKind.REFUSED] == 1
    with ConnectStorage(worker(shared), checkpoint=path) as storage:
        assert storage.startup.from_checkpoint
        assert believed(storage)[0].connector_config("c") == before.connector_config("c")
        # The owner writes it again, and that is that.
        put(storage, "c")
    late = fresh(shared)[0]
    assert late.connector_config("c") == before.connector_config("c")


def test_what_a_reader_that_begins_late_cannot_know(shared: Any) -> None:
    """As after the cleaner has taken the newer value: what is sealed is believed, what is not never is."""
    key = b"group-a.connector-c"
    old = sealed(Record("", 0, 0, 0, key, b'{"properties":{"v":"old"}}'), keys=KeyRing.parse(key_text(7))).value
    shared.create(shared.topics["config"], cleanup_policy="compact")
    shared.write("config", [(key, old), (b"group-a.connector-d", None), (b"group-a.connector-e", b"{}")])
    state = fresh(shared)[0]
    assert state.connectors() == {"c"}
    assert state.connector_config("c") == {"v": "old"}
    assert state.offset == 1
