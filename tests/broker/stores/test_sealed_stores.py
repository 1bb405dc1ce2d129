"""Stores of a group whose values are sealed, on a broker, beside somebody who may read and write its topics."""

from __future__ import annotations

import faulthandler
import logging
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from connect_share.errors import ConfigError, SealedGroupError
from connect_share.model.config_state import RestartRequest, SessionKey, TargetState
from connect_share.model.keys import SkipKind, prefix_key
from connect_share.model.records import ConnectorTaskId, Record, TopicType
from connect_share.model.status import ConnectorStatus, State, TaskStatus
from connect_share.sealing import KEYS_PROPERTY, KeyRing
from connect_share.sealing.cipher import key_id
from connect_share.storage import ConnectStorage, SharedTopics
from connect_share.stores.config import KafkaConfigBackingStore
from connect_share.worker_config import WorkerConfig
from tests.broker.stores.conftest import Listener, Shared
from tests.lab.embedded.broker import LocalBroker
from tests.lab.embedded.worker import write_properties
from tests.support.console import console
from tests.support.migration_site import run as migrate
from tests.support.sealed import ATTACKS, OLD, Attacked, Late, key_text, keys_by_provider, sealed
from tests.support.sealed_stores import (
    FILE,
    KINDS,
    MODE,
    SECRET,
    SHARING,
    current_state,
    fresh,
    opened,
    put,
    refused,
    worker,
    write_offset,
)
from tests.support.topics import COMPACT_NOW
from tests.support.waiting import await_that


def test_everything_written_is_sealed_and_read_again(shared: Any) -> None:
    options = {"exactly_once_source_support": "enabled"}
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
        before = current_state(storage)
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


def test_a_replay_is_refused_by_who_remembers_and_a_checkpoint_does(shared: Any, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    key = prefix_key("group-a", b"connector-c")
    old = sealed(Record("", 0, 0, 0, key, b'{"properties":{"v":"old"}}'), keys=KeyRing.parse(key_text(7))).value
    with ConnectStorage(worker(shared), checkpoint=path) as storage:
        put(storage)
        before = current_state(storage)[0]
    assert SECRET in path.read_bytes()  # opened, as a checkpoint always is
    unknown = sealed(Record("", 0, 0, 0, key, b"{}"), keys=KeyRing.parse(key_text(9))).value
    shared.write("config", [(key, unknown)])  # it does not end a start that has nothing else to open
    with ConnectStorage(worker(shared), checkpoint=path) as storage:
        assert (storage.startup.from_checkpoint, current_state(storage)[0]) == (True, before)
    shared.write("config", [(key, old)])
    with ConnectStorage(worker(shared), checkpoint=path) as storage:
        assert storage.startup.from_checkpoint
        after = current_state(storage)[0]
        assert after.connector_config("c") == before.connector_config("c")
        assert refused(storage)[0] == 1
        assert after.offset == before.offset + 2
    assert fresh(shared)[0] == after
    for options in ({"keys": key_text(7, 8)}, {"mode": "accept"}):
        with ConnectStorage(worker(shared, **options), checkpoint=path) as storage:
            assert not storage.startup.from_checkpoint


def test_keys_are_rotated_and_a_missing_one_ends_the_start(shared: Any) -> None:
    with ConnectStorage(worker(shared, key_text(7))) as storage:
        put(storage)
    with ConnectStorage(worker(shared, key_text(8, 7))) as storage:
        put(storage, "d")
        before = current_state(storage)
    ids = {key_id(value or b"") for kind in KINDS for _, value in shared.read(kind)}
    assert ids == {7, 8}
    assert [key for key, _ in shared.read("config") if b" key-" in key] == [
        b"group-a.target-state- key-8-7",
        b"group-a.target-state- key-7-8",
    ]
    assert fresh(shared, keys=key_text(7, 8)) == before
    for keys in (key_text(8), key_text(7)):
        with pytest.raises(ConfigError, match=r"the group uses key \d, but .*encryption.keys has only \d") as caught:
            fresh(shared, keys=keys)
        assert caught.value.property_name == KEYS_PROPERTY
    # A record under a key that the group has not is refused and no more, whoever runs or starts.
    with ConnectStorage(worker(shared, key_text(8, 7))) as storage:
        for kind, topic_type in KINDS.items():
            key = prefix_key("group-a", KEY_OF[topic_type])
            unknown = sealed(Record("", 0, 0, 0, key, b"{}"), topic_type, keys=KeyRing.parse(key_text(9))).value
            shared.write(kind, [(key, unknown)])
        assert current_state(storage) == before
        assert refused(storage) == [1, 1, 1]
    with ConnectStorage(worker(shared, key_text(8, 7))) as storage:
        assert current_state(storage) == before
        assert refused(storage) == [1, 1, 1]
    # The first record on the topics of a new group may be a stranger's, but not all that there is on its config topic.
    with pytest.raises(ConfigError, match=r"is sealed with key \d, and no value of the group opens, but"):
        fresh(shared, keys=key_text(5))


KEY_OF = {TopicType.CONFIG: b"connector-x", TopicType.STATUS: b"status-connector-x", TopicType.OFFSET: b'["x",{}]'}


def test_what_the_group_wrote_counts_once(shared: Any, listener: Listener) -> None:
    """A co-tenant writes everything again that it can read, within the same minute, into all partitions."""
    with ConnectStorage(worker(shared), update_listener=listener) as storage:
        for state in (TargetState.PAUSED, TargetState.STARTED):
            storage.config.put_connector_config("c", {"name": "c", "v": state.value}, state)
            storage.config.put_task_configs("c", [{"t": "0"}, {"t": "1"}][: 1 + (state is TargetState.PAUSED)])
            storage.config.put_restart_request(RestartRequest("c", False, True))
            put(storage, "again")
            storage.config.remove_connector_config("again")
        for name in ("c", "again"):
            put(storage, name, 1)
            storage.status.put(ConnectorStatus(name, State.DESTROYED, "w:1", 1))
            put(storage, name, 2)
        storage.status.flush()
        before = current_state(storage)
        events = len(listener.events)
        written = {kind: shared.read(kind) for kind in KINDS}
        for kind, pairs in written.items():
            for partition in range(shared.partitions(kind)):
                shared.write(kind, pairs, partition=partition)
                shared.write(kind, [*reversed(pairs)], partition=partition)
        after = current_state(storage)
        assert same(after, before)
        assert after[0].connector_config("c") == before[0].connector_config("c")
        assert after[0].target_state("c") == before[0].target_state("c")
        assert len(after[0].tasks("c")) == len(before[0].tasks("c")) == 1
        assert listener.events[events:] == []
        assert all(store.skipped()[SkipKind.REPEATED] for store in (storage.config, storage.status, storage.offsets))
    assert same(fresh(shared), before)


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_that_was_overtaken_is_written_again(shared: Any, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Another worker, whose clock is an hour ahead, writes between the moment in which a value is dated and its place."""
    with ConnectStorage(worker(shared)) as storage:
        put(storage, "c")
        before = current_state(storage)
        store = {"config": storage.config, "status": storage.status, "offset": storage.offsets}[kind]
        seal, others = store._seals.seal, []

        def overtaken(key: bytes, value: bytes | None, *, is_sent: bool = False) -> bytes | None:
            found = seal(key, value, is_sent=is_sent)
            if key not in others:
                others.append(key)
                ahead_ms = int(time.time() * 1000) + 3_600_000
                another = sealed(Record("", 0, 0, 0, key, OLD[KINDS[kind]]), KINDS[kind], written_ms=ahead_ms)
                shared.write(kind, [(key, another.value)])
            return found

        monkeypatch.setattr(store._seals, "seal", overtaken)
        put(storage, "c", 2)
        after = current_state(storage)
        assert after[0].connector_config("c") == before[0].connector_config("c")
        assert others

        def whole(found: Any) -> Any:
            statuses = found[1].connector_status("c"), found[1].task_statuses("c")
            return found[0].connector_config("c"), found[0].target_state("c"), statuses, found[2].offset("c", FILE)

        wanted = (*whole(before)[:3], {"position": 2, "x": SECRET.decode()})
        await_that(lambda: whole(current_state(storage)), lambda found: found == wanted, what="written again")
        assert refused(storage) == [0, 0, 0]
    assert whole(fresh(shared)) == wanted


def test_a_group_that_has_lost_its_keys_is_not_touched(shared: Any, tmp_path: Path) -> None:
    lines = shared.properties("group-a") | SHARING
    provided = lines | keys_by_provider(tmp_path)
    checkpoint = tmp_path / "checkpoint"
    with ConnectStorage(WorkerConfig.from_properties(lines), checkpoint=checkpoint) as storage:
        put(storage)  # from before the group was sealed
    with ConnectStorage(WorkerConfig.from_properties(provided | {MODE: "accept"})) as storage:
        put(storage)
        put(storage, "d")
        before = current_state(storage)
    there = {kind: len(shared.read(kind)) for kind in KINDS}
    for path in (None, checkpoint):
        with pytest.raises(
            SealedGroupError, match=rf"look sealed, such as {shared.topics['config']}\[0\]@\d+, but"
        ) as lost:
            ConnectStorage(WorkerConfig.from_properties(lines), checkpoint=path).start()
        assert f"no line {KEYS_PROPERTY}: put it back" in str(lost.value)
    with SharedTopics(WorkerConfig.from_properties(lines)) as topics, pytest.raises(SealedGroupError):
        topics.storage("group-a").start()
    with pytest.raises(SealedGroupError):
        KafkaConfigBackingStore(WorkerConfig.from_properties(lines)).start()
    with pytest.raises(ConfigError, match="is sealed with key 7, and no value of the group opens"):
        fresh(shared, keys=key_text(9))
    keys = tmp_path / "keys.properties"
    aside = keys.rename(tmp_path / "aside")
    with pytest.raises(ConfigError, match=KEYS_PROPERTY):
        WorkerConfig.from_properties(provided)
    aside.rename(keys)
    undeclared = {name: value for name, value in provided.items() if not name.startswith("config.providers")}
    with pytest.raises(ConfigError, match=KEYS_PROPERTY):
        WorkerConfig.from_properties(undeclared)
    assert {kind: len(shared.read(kind)) for kind in KINDS} == there
    with ConnectStorage(WorkerConfig.from_properties(provided | {MODE: "accept"})) as storage:
        assert current_state(storage) == before
    # Who says that the group is plain gets what is plain.
    with ConnectStorage(worker(shared, keys=None, mode="off")) as storage:
        assert storage.config.snapshot().connectors() == {"c"}


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


PLAIN = b"hunter2-plain"
"""The secret of a cluster that does not share and does not seal: what looks for secrets has to find this one."""
KEYS = [entry.partition(":")[2] for entry in key_text(7, 8).split(",")]
OF_KEYS = [each.encode() for key in KEYS for each in (key, key.rstrip("="), b64decode(key).hex(), str(b64decode(key)))]
OF_KEYS += map(b64decode, KEYS)
WHATS = ("groups", "connectors", "tasks", "offsets", "statuses")
OF_VALUES = [SECRET, b64encode(SECRET), SECRET.hex().encode()]


@pytest.fixture
def alone(own_broker: LocalBroker, unique: str) -> Iterator[Shared]:
    """Topics on a broker whose disk can be read."""
    with ExitStack() as stack:
        yield Shared(own_broker.bootstrap_servers, unique, stack)


def test_secrets_of_a_sealed_group_are_nowhere(
    alone: Shared,
    own_broker: LocalBroker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    shared = alone
    caplog.set_level(logging.DEBUG)
    checkpoint = tmp_path / "checkpoint"
    own = shared.properties("own") | {f"{kind}.storage.topic": f"{shared.unique}-own-{kind}" for kind in shared.topics}
    with ConnectStorage(WorkerConfig.from_properties(own)) as plain:
        plain.config.put_connector_config("p", {"name": "p", "password": PLAIN.decode()})
    shown = []
    with ConnectStorage(worker(shared, key_text(7, 8)), checkpoint=checkpoint) as storage:
        put(storage)
        storage.config.put_session_key(SessionKey(SECRET, "HmacSHA256", 1))
        stores = (storage.config, storage.status, storage.offsets)
        shown += [repr(each) for each in (storage, *stores, *current_state(storage), worker(shared, key_text(7, 8)))]
        shown += [repr(vars(each)) for each in stores]
        with (tmp_path / "dump").open("w") as dump:
            faulthandler.dump_traceback(dump)
        shown += [(tmp_path / "dump").read_text()]
        assert "Thread" in shown[-1]
    shared.write("config", [(b"group-a.connector-c", b"\1garbage"), (b"group-a.session-key", None)])
    fresh(shared, keys=key_text(7, 8))
    for keys, words in ((key_text(8), "is sealed with key 7"), (key_text(8)[:-2] + "*", "entry 1 of the keys")):
        with pytest.raises(ConfigError, match=words) as caught:
            fresh(shared, keys=keys)
        shown += [str(caught.value), repr(caught.value)]
    files = worker_files(shared, tmp_path, own)
    shown += printed(files["none"], capsys)
    everything = "".join((*shown, caplog.text)).encode()
    assert_nowhere(everything, OF_VALUES)
    # Who has the keys may be shown values, and never a key.
    planned = ("--source-worker-config", files["own"], "--destination-worker-config", files["accept"])
    code, out, err = migrate("plan", *planned, "-o", tmp_path / "plan.json")
    assert code == 0, err
    everything += "".join((*printed(files["sealed"], capsys), out, err, caplog.text)).encode()
    assert_nowhere(everything, OF_KEYS)
    assert PLAIN not in everything

    remembered = checkpoint.read_bytes()
    assert SECRET in remembered  # opened, as a checkpoint always is, and for its owner only
    assert checkpoint.stat().st_mode & 0o077 == 0
    assert_nowhere(remembered, OF_KEYS)
    assert_nowhere((tmp_path / "plan.json").read_bytes(), [*OF_KEYS, PLAIN])
    on_disk = [path.read_bytes() for path in own_broker.folder.rglob("*") if path.is_file()]
    assert any(PLAIN in data for data in on_disk)
    for data in on_disk:
        assert_nowhere(data, OF_VALUES + OF_KEYS)


def assert_nowhere(data: bytes, secrets: list[bytes]) -> None:
    """Do not show the data when it fails."""
    assert [number for number, secret in enumerate(secrets) if secret in data] == []


def worker_files(shared: Any, folder: Path, own: dict[str, str]) -> dict[str, Path]:
    properties = shared.properties("group-a") | SHARING
    sealed = properties | {KEYS_PROPERTY: key_text(7, 8)}
    accept = sealed | {MODE: "accept", "group.id": "group-new"}
    forms = {"none": properties, "sealed": sealed, "accept": accept, "own": own}
    return {name: write_properties(folder / f"{name}.properties", lines) for name, lines in forms.items()}


def printed(file: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What the command line says."""
    run = console(capsys)
    found = [run("get", what, "-w", file, "--all-groups") for what in WHATS]
    assert [ran.code for ran in found] == [0] * len(WHATS)
    assert "group-a" in found[0].out
    found += [run("describe", "connector", "c", "-w", file), run("check", "worker-config", file)]
    return [ran.out + ran.err for ran in found]


NAMES = {
    TopicType.CONFIG: b"group-a.connector-%s",
    TopicType.STATUS: b"group-a.status-connector-%s",
    TopicType.OFFSET: b'group-a.["%s",{"filename":"x.txt"}]',
}
ONE_PARTITION = {"offset_storage_partitions": "1", "status_storage_partitions": "1"}
ALONE = ("flood",)
# A replay moves the position, so it comes first: right behind what the group wrote.
TOGETHER = tuple(sorted(ATTACKS.keys() - ALONE, key=lambda row: (ATTACKS[row].late is not Late.OLD, row)))


def attacked(shared: Any, row: str) -> list[Attacked]:
    """The records of the connector named as the row; nothing on the topics can be read by others."""
    found, name = [], row.encode()
    for topic_type, key in NAMES.items():
        values = dict(shared.read(topic_type.value))
        assert not any(SECRET in value for value in values.values())
        found.append(Attacked(topic_type, key % name, key % b"evil", values[key % name], values[key % b"d"]))
    return found


def cleaned(shared: Any, good: list[Attacked]) -> bool:
    """Give the cleaner something to do; return whether it has taken the good records."""
    for topic_type in TopicType:
        shared.write(topic_type.value, [(b"group-b.target-state-x", b"{}")])
    left = {topic_type: set(shared.read(topic_type.value)) for topic_type in TopicType}
    return not any((at.key, at.good) in left[at.topic_type] for at in good)


@pytest.mark.parametrize("rows", [TOGETHER, *((row,) for row in ALONE)], ids=["each", *ALONE])
def test_what_others_write_is_never_believed(
    shared: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, rows: tuple[str, ...]
) -> None:
    """Who was there, or has a checkpoint, has everything; who comes after the cleaner has nothing that is not the group's."""
    attacks, path = [ATTACKS[row] for row in rows], tmp_path / "checkpoint"
    kinds = {attack.late for attack in attacks}
    for topic in shared.topics.values():
        shared.create(topic, **COMPACT_NOW | {"delete.retention.ms": "86400000"})
    with ConnectStorage(worker(shared, **ONE_PARTITION), checkpoint=path) as storage:
        for name in (*rows, "d"):
            put(storage, name)
        config, status, offsets = current_state(storage)
        good = [attacked(shared, row) for row in rows]
        for attack, places in zip(attacks, good, strict=True):
            for at in places:
                shared.write(at.topic_type.value, attack.records(at))
        count = sum(len(attack.records(places[0])) for attack, places in zip(attacks, good, strict=True))
        await_that(
            lambda: current_state(storage) and refused(storage), lambda found: found == [count] * 3, what="refused"
        )
        after = current_state(storage)
        # A reader that remembers less would believe a replay, and move: all have to.
        assert after[0].offset == config.offset + (Late.OLD in kinds)
        assert same(after, (config, status, offsets))
        assert SECRET.decode() not in caplog.text
        lines = [each for each in caplog.records if each.getMessage().startswith("Refused the record at ")]
        assert len(lines) == 3 * min(count, 100)
        if Late.OLD in kinds:  # before the checkpoint is saved: what is cleaned behind it makes a start read everything
            places = [at for each in good for at in each]
            await_that(lambda: cleaned(shared, places), what="the cleaner's work", timeout_s=120)
    late(shared, rows)
    with ConnectStorage(worker(shared, **ONE_PARTITION), checkpoint=path) as storage:
        assert storage.startup.from_checkpoint
        assert same(current_state(storage), (config, status, offsets))
        # The owner writes it again, and that is that.
        for row in rows:
            put(storage, row)
    assert same(fresh(shared, **ONE_PARTITION), (config, status, offsets))


def same(found: Any, before: Any) -> bool:
    """Compare all but the position of the config topic."""
    configs = [{name: each[0].connector_config(name) for name in each[0].connectors()} for each in (found, before)]
    return configs[0] == configs[1] and found[1:] == before[1:]


def late(shared: Any, rows: tuple[str, ...]) -> None:
    """A reader that begins after the attacks, without any memory."""
    config, status, offsets = fresh(shared, **ONE_PARTITION)
    there = {row for row in rows if ATTACKS[row].late is not Late.MISSING} | {"d"}
    assert config.connectors() == there
    assert offsets.connectors() <= there
    for row in rows:
        found = (config.connector_config(row), status.connector_status(row), offsets.offset(row, FILE))
        if ATTACKS[row].late is Late.OLD:
            assert found[0] == {"connector.class": "FileStreamSource", "name": "old"}
            assert found[1].state is State.UNASSIGNED
            assert found[2] == {"position": 0}
        else:
            assert [each is not None for each in found] == [row in there] * 3
    assert status.connector_status("evil") is None
