"""What stores refuse to write, and that what they do write is read back as it was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.errors import ValueFormatError
from connect_share.model import writable
from connect_share.model.config import ConfigFold, task_commit_record
from connect_share.model.config_state import RestartRequest, SessionKey, TargetState
from connect_share.model.records import ConnectorTaskId, Record
from connect_share.model.status import ConnectorStatus, State, StatusFold, TaskStatus, TopicStatus
from connect_share.stores.alter_offsets import alter_offsets
from connect_share.stores.offsets import KafkaOffsetBackingStore, OffsetStorageWriter
from tests.unit.stores.test_stores_scripted import PLAIN, ScriptedLog, config_store, status_store

SECRET = "hunter2"
LONG = "x" * 5_000

CONFIG_CALLS: dict[str, tuple[Callable[[Any], object], str]] = {
    "a number": (
        lambda s: s.put_connector_config("c", {"a": SECRET, "tasks.max": 2}),
        "'c': property 'tasks.max'.*int",
    ),
    "a nested map": (lambda s: s.put_connector_config("c", {"a": {"b": SECRET}}), "property 'a' has to be str or None"),
    "a name that is a number": (lambda s: s.put_connector_config("c", {1: SECRET}), "name of a property.*int"),
    "no properties": (lambda s: s.put_connector_config("c", None), "'c' has to be a map of properties, not None"),
    "a control character": (lambda s: s.put_connector_config("c\x1b[2J", {}), r"'c\\x1b\[2J' has a control character"),
    "a long name": (lambda s: s.put_connector_config(LONG, {"a": 1}), r"x\.\.\. \(5000 characters\): property 'a'"),
    "a long property": (lambda s: s.put_connector_config("c", {LONG: 1}), r"x\.\.\. \(5000 characters\) has to be"),
    "a target state as text": (lambda s: s.put_connector_config("c", {}, "PAUSED"), "TargetState, not str"),
    "task without properties": (lambda s: s.put_task_configs("c", [{}, None]), "of task 1 of connector 'c'.*not None"),
    "tasks as one map": (lambda s: s.put_task_configs("c", {"a": SECRET}), "have to be a list, not dict"),
    "tasks as text": (lambda s: s.put_task_configs("c", SECRET), "have to be a list, not str"),
    "no tasks": (lambda s: s.put_task_configs("c", None), "have to be a list, not None"),
    "a state as text": (lambda s: s.put_target_state("c", "PAUSED"), "of connector 'c' has to be TargetState"),
    "a count as boolean": (lambda s: s.put_task_count_record("c", True), "task count of connector 'c'.*not bool"),
    "a negative count": (lambda s: s.put_task_count_record("c", -1), "not a negative or larger one"),
    "a count of 2^31": (lambda s: s.put_task_count_record("c", 1 << 31), "not a negative or larger one"),
    "a time as float": (
        lambda s: s.put_session_key(SessionKey(SECRET.encode(), "HmacSHA256", 1.5)),  # type: ignore[arg-type]
        "'creation_timestamp_ms' of the session key.*float",
    ),
    "a key as text": (lambda s: s.put_session_key(SessionKey(SECRET, "HmacSHA256", 1)), "'key'.*bytes, not str"),  # type: ignore[arg-type]
    "an empty key": (
        lambda s: s.put_session_key(SessionKey(b"", "HmacSHA256", 1)),
        "'key' of the session key is empty",
    ),
    "no algorithm": (lambda s: s.put_session_key(SessionKey(SECRET.encode(), "", 1)), "'algorithm'.* is empty"),
    "no session key": (lambda s: s.put_session_key(None), "session key.*not None"),
    "a flag as number": (lambda s: s.put_restart_request(RestartRequest("c", 1)), "'only_failed'.*'c'.*bool, not int"),  # type: ignore[arg-type]
    "no request": (lambda s: s.put_restart_request("c"), "RestartRequest, not str"),
    "no level": (lambda s: s.put_logger_level("root", None), "level of logger 'root'.*None"),
    "no logger": (lambda s: s.put_logger_level("", "INFO"), "name of a logger is empty"),
}


def status(**members: Any) -> ConnectorStatus:
    given = {"connector": "c", "state": State.RUNNING, "worker_id": "w:1", "generation": 3, **members}
    return ConnectorStatus(**given)


def topic_status(*members: Any) -> TopicStatus:
    return TopicStatus(*members)


STATUS_CALLS: dict[str, tuple[Callable[[Any], object], str]] = {
    "a generation as boolean": (lambda s: s.put_safe(status(generation=True)), "'generation' .*not bool"),
    "a generation of 2^31": (lambda s: s.put(status(generation=1 << 31)), "'generation' .*32 bits"),
    "a worker as number": (lambda s: s.put(status(worker_id=5)), "'worker_id' .*str, not int"),
    "no worker": (lambda s: s.put(status(worker_id=None)), "a status without worker_id"),
    "a trace as error": (lambda s: s.put(status(trace=ValueError(SECRET))), "'trace' .*str, not ValueError"),
    "a version as number": (lambda s: s.put(status(version=4.3)), "'version' .*str, not float"),
    "a state as text": (lambda s: s.put(status(state="RUNNING")), "'state' .*State, not str"),
    "a task of text": (
        lambda s: s.put(TaskStatus("c-0", State.RUNNING, "w:1", 3)),  # type: ignore[arg-type]
        "'task_id' of a status has to be ConnectorTaskId, not str",
    ),
    "a negative task": (
        lambda s: s.put(TaskStatus(ConnectorTaskId("c", -1), State.RUNNING, "w:1", 3)),
        "'task' of the status of a task of connector 'c'",
    ),
    "a float time": (lambda s: s.put(topic_status("t", "c", 0, 1.5)), "'discover_timestamp_ms' of topic 't' .*float"),
    "a float task": (lambda s: s.put(topic_status("t", "c", 0.0, 1)), "'task' of topic 't' of connector 'c'.*float"),
    "a colon": (lambda s: s.put(topic_status("t:u", "c", 0, 1)), "'t:u' of a topic of connector 'c' has a colon"),
    "no topic": (lambda s: s.delete_topic("c", ""), "a topic of connector 'c' is empty"),
    "something else": (lambda s: s.put({"state": SECRET}), "a status cannot be dict"),
}


def offset_store(log: ScriptedLog) -> KafkaOffsetBackingStore:
    store = KafkaOffsetBackingStore(PLAIN, log=log.over)
    store.start()
    return store


OFFSET_CALLS: dict[str, tuple[Callable[[Any], object], str]] = {
    "a text for a value": (lambda s: s.set({b'["c",{}]': SECRET}).result(0), "have to be bytes"),
    "a text for a key": (lambda s: s.set({'["c",{}]': b"{}"}).result(0), "have to be bytes"),
    "one pair as offsets": (lambda s: alter_offsets(s, "c", ({"file": SECRET}, {})), "'c' have to be pairs"),  # type: ignore[arg-type]
    "an object in an offset": (
        lambda s: alter_offsets(s, "c", [({}, {"a": object()})]),
        "'a' of a source offset.*object",
    ),
    "no offsets": (lambda s: alter_offsets(s, "c", None), "'c' have to be pairs"),  # type: ignore[arg-type]
}


NAMED_CONFIG_CALLS: tuple[Callable[[Any, Any], object], ...] = (
    lambda s, name: s.put_connector_config(name, {}),
    lambda s, name: s.remove_connector_config(name),  # "" would be the marker
    lambda s, name: s.put_task_configs(name, [{}]),
    lambda s, name: s.put_target_state(name, TargetState.PAUSED),
    lambda s, name: s.put_task_count_record(name, 1),
    lambda s, name: s.put_restart_request(RestartRequest(name, True)),
)
NAMED_STATUS_CALLS: tuple[Callable[[Any, Any], object], ...] = (
    lambda s, name: s.put(status(connector=name)),
    lambda s, name: s.put_safe(TaskStatus(ConnectorTaskId(name, 0), State.RUNNING, "w:1", 3)),
    lambda s, name: s.put(topic_status("t", name, 0, 1)),
    lambda s, name: s.delete_topic(name, "t"),
)
NAMED_OFFSET_CALLS: tuple[Callable[[Any, Any], object], ...] = (
    lambda s, name: OffsetStorageWriter(s, name).offset({}, {}),
    lambda s, name: alter_offsets(s, name, [({}, {})]),
)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "name of a connector is empty"),
        (None, "name of a connector.*not None"),
        ("c\ud800", r"'c\\ud800' has half a surrogate pair"),
    ],
)
def test_a_name_that_no_connector_has_is_refused_by_every_call(name: Any, why: str) -> None:
    stores = (config_store, NAMED_CONFIG_CALLS), (status_store, NAMED_STATUS_CALLS), (offset_store, NAMED_OFFSET_CALLS)
    for made, calls in stores:
        log = ScriptedLog()
        store: Any = made(log)
        for call in calls:
            with pytest.raises(ValueFormatError, match=why):
                call(store, name)
        assert log.sent == []
        store.stop()


@pytest.mark.parametrize(
    ("made", "call", "named"),
    [
        *((config_store, *case) for case in CONFIG_CALLS.values()),
        *((status_store, *case) for case in STATUS_CALLS.values()),
        *((offset_store, *case) for case in OFFSET_CALLS.values()),
    ],
    ids=[*CONFIG_CALLS, *STATUS_CALLS, *OFFSET_CALLS],
)
def test_a_store_sends_nothing_of_what_java_could_not_read(
    made: Callable[[ScriptedLog], Any], call: Callable[[Any], object], named: str
) -> None:
    log = ScriptedLog()
    store = made(log)
    with pytest.raises(ValueFormatError, match=named) as caught:
        call(store)
    assert SECRET not in str(caught.value)
    assert len(str(caught.value)) < 700
    assert log.sent == []
    store.stop()


names = st.text(min_size=1, max_size=8).filter(lambda text: not any("\ud800" <= each <= "\udfff" for each in text))
tame_names = names.filter(lambda text: not any(ord(each) < 0x20 or 0x7F <= ord(each) < 0xA0 for each in text))
maps = st.dictionaries(st.text(max_size=5), st.none() | st.text(max_size=5), max_size=4)
int32 = st.sampled_from((-(1 << 31), (1 << 31) - 1)) | st.integers(-(1 << 31), (1 << 31) - 1)
counts = st.integers(0, (1 << 31) - 1)


@given(tame_names, maps, st.lists(maps, max_size=3), st.sampled_from(TargetState), counts)
def test_configurations_are_read_back_as_they_were_given(
    name: str, properties: dict[str, str | None], tasks: list[dict[str, str | None]], target: TargetState, count: int
) -> None:
    fold = ConfigFold()
    records = [
        writable.connector_config_record(name, properties),
        writable.target_state_record(name, target),
        *writable.task_config_records(name, tasks),
        task_commit_record(name, len(tasks)),
        writable.task_count_record(name, count),
    ]
    for offset, (key, value) in enumerate(records):
        fold.apply(Record("t", 0, offset, 0, key, value))
    state = fold.snapshot()
    assert state.connectors() == {name}
    assert state.connector_config(name) == properties
    assert list(state.all_task_configs(name).values()) == tasks
    assert (state.target_state(name), state.task_count_record(name)) == (target, count)
    assert state.inconsistent_connectors() == frozenset()
    for key in writable.removal_keys(name):
        fold.apply(Record("t", 0, 9, 0, key, None))
    assert fold.snapshot().connectors() == frozenset()
    assert not fold.skipped


@given(names, counts, st.sampled_from([each for each in State if each is not State.DESTROYED]), st.text(), int32)
def test_statuses_are_read_back_as_they_were_given(
    name: str, number: int, state: State, text: str, generation: int
) -> None:
    fold, task = StatusFold(), ConnectorTaskId(name, number)
    given_ones: list[ConnectorStatus | TaskStatus] = [
        ConnectorStatus(name, state, text, generation, text, text),
        TaskStatus(task, state, text, generation, None, None),
    ]
    topic = TopicStatus("t", name, number, generation)
    for offset, each in enumerate((*given_ones, topic)):
        key, value = writable.status_record(each)
        fold.apply(Record("t", 0, offset, 1, key, value))
    assert [fold.connector_status(name), fold.task_status(task)] == given_ones
    assert fold.topic_status(name, "t") == topic
    assert not fold.skipped


@given(st.binary(min_size=1), names, st.integers(-(1 << 63), (1 << 63) - 1))
def test_a_session_key_is_read_back_as_it_was_given(key: bytes, algorithm: str, created: int) -> None:
    fold, session_key = ConfigFold(), SessionKey(key, algorithm, created)
    fold.apply(Record("t", 0, 0, 0, *writable.session_key_record(session_key)))
    assert fold.snapshot().session_key == session_key
