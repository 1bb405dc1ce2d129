"""The config topic's rules, case by case. Numbers are those of the list in docs/testing.md."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from connect_share.errors import TaskCountError, ValueFormatError
from connect_share.model.config import (
    ConfigEvent,
    ConfigFold,
    ConnectorConfigRemoved,
    ConnectorConfigUpdated,
    LoggerLevelUpdated,
    RestartRequested,
    SessionKeyUpdated,
    TargetStateChanged,
    TaskConfigsUpdated,
    moved_record,
)
from connect_share.model.config_state import MOST_TASKS, ClusterConfigState, Moved, RestartRequest, TargetState
from connect_share.model.connect_json import loads
from connect_share.model.keys import MARKER, ClusterGroupId, SkipKind, own_key
from connect_share.model.records import ConnectorTaskId, Record, TopicType
from connect_share.replay import replay_config
from tests.support.histories import History, histories
from tests.support.records import JSON_NULL, TOMBSTONE, at_offset, config_log, logged, properties

A, B, C = properties(v="A"), properties(v="B"), properties(v="C")
SESSION_KEY = {"key": "AAEC/+8=", "algorithm": "HmacSHA256", "creation-timestamp": 1_729_798_381_000}


def live(before: list[tuple[Any, ...]], after: list[tuple[Any, ...]]) -> tuple[ConfigFold, list[ConfigEvent]]:
    """Fold ``before`` as a start would, then ``after`` as a running store."""
    fold = ConfigFold()
    records = config_log([*before, *after])
    for record in records[: len(before)]:
        fold.apply(record)
    return fold, [event for record in records[len(before) :] for event in fold.apply(record)]


def ids(connector: str, *tasks: int) -> tuple[ConnectorTaskId, ...]:
    return tuple(ConnectorTaskId(connector, task) for task in tasks)


@pytest.mark.parametrize("gone", [TOMBSTONE, JSON_NULL])
def test_cases_1_to_4_12_15_to_20_and_29_the_life_of_a_connector(gone: bytes | None) -> None:
    fold = ConfigFold()
    assert (fold.offset, fold.snapshot().connectors(), fold.snapshot().session_key) == (-1, frozenset(), None)

    def read(*steps: tuple[str, Any, ConfigEvent | None]) -> ClusterConfigState:
        for key, value, event in steps:
            (record,) = config_log([(key, value)], first=max(fold.offset, 0))
            assert fold.apply(record) == ([] if event is None else [event])
        return fold.snapshot()

    stopped = {"state": "PAUSED", "state.v2": "STOPPED"}
    state = read(
        ("target-state-c1", stopped, None),
        ("connector-c1", A, ConnectorConfigUpdated("c1")),
        ("connector-c2", A, ConnectorConfigUpdated("c2")),
        ("connector-c3", A, ConnectorConfigUpdated("c3")),
        ("target-state-unknown", stopped, None),
        ("target-state-c2", stopped, TargetStateChanged("c2")),
        ("target-state-c2", stopped, None),
    )
    assert state.connectors() == {"c1", "c2", "c3"}
    assert (state.offset, state.connector_config("c1")) == (7, {"v": "A"})
    targets = [state.target_state(name) for name in ("c1", "c2", "c3", "unknown")]
    assert targets == [TargetState.STOPPED, TargetState.STOPPED, TargetState.STARTED, TargetState.STOPPED]

    state = read(
        ("commit-c3", {"tasks": 0}, TaskConfigsUpdated((), "c3")),
        ("task-c1-1", A, None),
        ("task-c1-0", A, None),
        ("task-c2-0", A, None),
        ("commit-c1", {"tasks": 2}, TaskConfigsUpdated(ids("c1", 0, 1), "c1")),
        ("commit-c2", {"tasks": 1}, TaskConfigsUpdated(ids("c2", 0), "c2")),
    )
    assert [state.task_config_generation(name) for name in ("c1", "c2", "c3")] == [0, 0, None]
    assert (state.pending_fencing("c1"), state.task_count_record("c1")) == (True, None)
    state = read(("tasks-fencing-c1", {"task-count": 4}, None))
    assert (state.pending_fencing("c1"), state.task_count_record("c1")) == (False, 4)

    state = read(
        ("task-c1-0", B, None),
        ("commit-c1", {"tasks": 1}, TaskConfigsUpdated(ids("c1", 0), "c1")),
        ("task-c1-0", C, None),
        ("connector-c1", gone, ConnectorConfigRemoved("c1")),
        ("target-state-c1", gone, None),
    )
    assert (state.contains("c1"), state.target_state("c1"), state.task_count("c1")) == (False, None, 0)
    assert [name for name in ("deferred", "applied") if "c1" in fold.saved()[name]] == []
    state = read(
        ("task-c1-0", A, None),
        ("commit-c1", {"tasks": 1}, None),
        ("connector-c1", B, ConnectorConfigUpdated("c1")),
        ("commit-c1", {"tasks": 1}, TaskConfigsUpdated((), "c1")),
    )
    assert (state.tasks("c1"), state.applied_connector_config("c1")) == ([], None)  # those of the removed one are gone
    assert state.inconsistent_connectors() == {"c1"}
    assert (state.task_count_record("c1"), state.task_config_generation("c1"), state.pending_fencing("c1")) == (
        4,
        1,
        True,
    )


def test_case_11_fencing_and_deferred_task_configs() -> None:
    log = [
        ("tasks-fencing-c1", {"task-count": 6}),
        ("connector-c1", A),
        ("task-c1-0", A),
        ("task-c1-1", B),
        ("connector-c1", B),
        ("commit-c1", {"tasks": 2}),
        ("tasks-fencing-c2", {"task-count": 9}),
        ("connector-c1", C),
        ("task-c1-0", C),
    ]
    fold, _ = live(log, [])
    state = fold.snapshot()
    assert state.connector_config("c1") == {"v": "C"}
    assert state.applied_connector_config("c1") == {"v": "B"}
    assert [state.task_config(task) for task in state.tasks("c1")] == [{"v": "A"}, {"v": "B"}]
    assert fold.saved()["deferred"]["c1"] == {"0": {"v": "C"}}
    assert (state.task_count_record("c1"), state.task_count_record("c2")) == (6, 9)
    assert state.connectors_pending_fencing() == {"c1"}
    assert state.offset == 9


def test_case_14_compaction_took_a_task_config_then_it_is_repaired() -> None:
    before = [(0, "connector-c1", A), (2, "task-c1-1", B), (4, "commit-c1", {"tasks": 2}), (5, "task-c1-0", C)]
    fold = ConfigFold()
    for record in config_log(before):
        fold.apply(record)
    state = fold.snapshot()
    assert state.tasks("c1") == []
    assert state.inconsistent_connectors() == {"c1"}
    assert state.task_config(ConnectorTaskId("c1", 0)) is None
    repair = config_log([("task-c1-0", A), ("commit-c1", {"tasks": 1})], first=6)
    events = [event for record in repair for event in fold.apply(record)]
    assert events == [TaskConfigsUpdated(ids("c1", 0), "c1")]
    assert (fold.snapshot().tasks("c1"), fold.snapshot().inconsistent_connectors()) == ([*ids("c1", 0)], frozenset())
    assert fold.offset == 8


@pytest.mark.parametrize(
    ("value", "request_"),
    [
        ({"only-failed": True, "include-tasks": False}, RestartRequest("c", only_failed=True, include_tasks=False)),
        ({"only-failed": True}, RestartRequest("c", only_failed=True, include_tasks=False)),
        ({"include-tasks": True}, RestartRequest("c", only_failed=False, include_tasks=True)),
        ({"include-tasks": "yes", "only-failed": 1}, RestartRequest("c")),
    ],
)
def test_case_21_restart_requests(value: dict[str, Any], request_: RestartRequest) -> None:
    assert live([], [("restart-connector-c", value)])[1] == [RestartRequested(request_)]


def test_cases_22_and_23_restarts_and_logger_levels_are_told_only_when_running() -> None:
    before: list[tuple[Any, ...]] = [("logger-cluster-a", {"level": "INFO"}), ("logger-cluster-b", TOMBSTONE)]
    before += [("restart-connector-c", {"only-failed": True}), ("restart-connector-c", TOMBSTONE)]
    after = [("logger-cluster-org.x.y", {"level": "DEBUG"}), ("logger-cluster-root", {"level": "nonsense"})]
    assert live(before, after)[1] == [LoggerLevelUpdated("org.x.y", "DEBUG"), LoggerLevelUpdated("root", "nonsense")]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("commit-c", value) for value in ({"tasks": "2"}, {"tasks": 2.0}, {}, [1], TOMBSTONE, {"tasks": True})),
        ("task-c-𝟙", A),
        ("task-c-2147483648", A),
        ("connector-c", {"properties": None}),
    ],
)
def test_case_26_a_bad_record_takes_nothing_with_it(key: str, value: Any) -> None:
    """Deliberately not as Java, which loses the rest of the polled batch."""
    fold, events = live(
        [("connector-c", A), ("task-c-0", A)], [(key, value), ("connector-d", B), ("commit-c", {"tasks": 1})]
    )
    assert fold.snapshot().connectors() == {"c", "d"}
    assert fold.snapshot().tasks("c") == [*ids("c", 0)]
    assert events == [ConnectorConfigUpdated("d"), TaskConfigsUpdated(ids("c", 0), "c")]
    assert fold.skipped[SkipKind.BAD_VALUE] == 1
    assert fold.offset == 5


def test_case_27_a_negative_count_is_complete() -> None:
    fold, _ = live([("connector-c", A), ("commit-c", {"tasks": -1})], [])
    state = fold.snapshot()
    assert (state.task_count("c"), state.tasks("c"), state.inconsistent_connectors()) == (-1, [], frozenset())


def test_case_28_extra_task_configs_are_committed_and_hidden() -> None:
    zeros = "0" * 5000  # Java reads any number of them
    tasks = [(f"task-c-{zeros}{number}", A) for number in range(3)]
    fold, events = live([("connector-c", A)], [*tasks, ("commit-c", {"tasks": 2})])
    assert events == [TaskConfigsUpdated(ids("c", 0, 1, 2), "c")]
    assert fold.snapshot().tasks("c") == [*ids("c", 0, 1)]
    assert set(fold.snapshot().all_task_configs("c")) == {*ids("c", 0, 1, 2)}


@pytest.mark.parametrize("key", ["!AAAA", "", "A", "AA=", "AAEC/+8==", "+zUx=", "AAAA===="])
def test_case_30_a_bad_session_key_stops_nothing(key: str) -> None:
    """Deliberately not as Java, where no worker of the cluster can start any more."""
    fold, events = live(
        [("session-key", {**SESSION_KEY, "key": key}), ("connector-c", A)], [("session-key", SESSION_KEY)]
    )
    assert fold.snapshot().contains("c")
    assert fold.skipped[SkipKind.BAD_VALUE] == 1
    session_key = fold.snapshot().session_key
    assert session_key is not None
    assert session_key.key == b"\x00\x01\x02\xff\xef"
    assert events == [SessionKeyUpdated(session_key)]


@pytest.mark.parametrize(
    ("tail", "text"), [(b"\xed\xa0\x80", "\ufffd"), (b"\xed\xa0", "\ufffd"), (b"\xf4\x90", "\ufffd\ufffd")]
)
def test_names_that_are_not_utf_8_are_those_that_java_reads(tail: bytes, text: str) -> None:
    record = Record("t", 0, 0, 0, b"connector-a" + tail, b'{"properties":{}}')
    assert replay_config([record]).connectors() == {f"a{text}"}


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ({**SESSION_KEY, "key": "AA"}, b"\x00"),  # without padding
        *((value, None) for value in (TOMBSTONE, [1], {**SESSION_KEY, "creation-timestamp": 1.0})),
        *((value, None) for value in ({**SESSION_KEY, "algorithm": 1}, {"key": "AA"})),
    ],
)
def test_case_31_odd_session_keys(value: Any, key: bytes | None) -> None:
    session_key = replay_config(config_log([("session-key", value)])).session_key
    assert (session_key and session_key.key) == key


@pytest.mark.parametrize(
    ("value", "state"),
    [
        ({"state": "PAUSED"}, TargetState.PAUSED),
        ({"state": "PAUSED", "state.v2": "STARTED"}, TargetState.STARTED),
        ({"state": "PAUSED", "state.v2": 7}, TargetState.PAUSED),
        ({"state": "PAUSED", "state.v2": "BOGUS"}, TargetState.STOPPED),
        ({"state": "paused"}, TargetState.STOPPED),
        ({"state": 1}, TargetState.STOPPED),
        ([], TargetState.STOPPED),
        (TOMBSTONE, TargetState.STARTED),
    ],
)
def test_cases_9_10_and_32_target_states(value: Any, state: TargetState, caplog: pytest.LogCaptureFixture) -> None:
    log = [("connector-c", A), ("target-state-c", {"state": "STOPPED"}), ("target-state-c", value)]
    assert replay_config(config_log(log)).target_state("c") is state
    assert ("'state.v2' of" in caplog.text) is (value == {"state": "PAUSED", "state.v2": 7})


@pytest.mark.parametrize("key", ["CONNECTOR-foo", "session-key-x", "", "connector", "foo"])
def test_case_33_an_unknown_key_moves_the_position_of_a_plain_cluster(key: str) -> None:
    fold, events = live([], [(key, A)])
    assert (fold.offset, events, fold.skipped[SkipKind.BAD_KEY]) == (1, [], 1)


# --- the position, with sharing on ------------------------------------------------------------------------------------

GROUP = ClusterGroupId("g.h")


def shared(entries: list[tuple[Any, ...]]) -> ConfigFold:
    fold = ConfigFold(GROUP)
    for record in config_log(entries):
        fold.apply(record)
    return fold


@pytest.mark.parametrize(
    ("key", "value"),
    [("B.connector-x", b"{garbage"), (None, b"x"), (b"", b"x"), (b"\xff\xfe", None), ("connector-plain", b"{")],
)
def test_position_7_foreign_garbage(key: Any, value: bytes | None, caplog: pytest.LogCaptureFixture) -> None:
    fold = shared([("g.h.connector-a", A), (key, value)])
    assert (fold.offset, fold.skipped[SkipKind.FOREIGN]) == (1, 1)
    assert [record for record in logged(caplog) if record.levelno > logging.INFO] == []


def test_positions_11_and_15_the_marker_changes_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    fold = shared([("g.h.connector-a", A), ("g.h.connector-a", TOMBSTONE)])
    before = fold.snapshot()
    assert (fold.offset, fold.newest_own_is_tombstone) == (2, True)
    caplog.clear()
    marker = config_log([(7, "g.h.target-state-", JSON_NULL)])[0]
    assert fold.apply(marker) == []
    assert at_offset(fold.snapshot(), 0) == at_offset(before, 0)
    assert (fold.offset, fold.newest_own_is_tombstone, logged(caplog)) == (8, False, [])


def test_plain_cluster_does_not_look_into_prefixed_values() -> None:
    fold, _ = live([("connector-a", A), ("B.connector-x", b"{garbage"), ("B.c-x", b"{garbage")], [])
    assert (fold.offset, fold.skipped[SkipKind.FOREIGN], fold.skipped[SkipKind.BAD_VALUE]) == (2, 1, 1)


@pytest.mark.parametrize("key", ["commit-c", "tasks-fencing-c"])
def test_no_number_of_tasks_is_acted_on_unseen(key: str) -> None:
    """The state is that of Java, whatever the number; whoever makes something for each task is refused."""
    member = "tasks" if key.startswith("commit") else "task-count"
    for number, fenced in ((3, 3), (MOST_TASKS, MOST_TASKS), (-5, 0), (-(1 << 31), 0)):
        state = replay_config(config_log([("connector-c", A), (key, {member: number})]))
        assert len(state.tasks_to_fence("c")) == fenced
    state = replay_config(config_log([("connector-c", A), (key, {member: (1 << 31) - 1})]))
    assert (state.task_count("c"), state.task_count_record("c")).count((1 << 31) - 1) == 1
    assert state.tasks("c") == []
    with pytest.raises(TaskCountError, match="connector 'c' has 2147483647 tasks"):
        state.tasks_to_fence("c")


def counts(record: Record) -> bool:
    """Tell whether the record is own and its value can be read."""
    if record.key is None or own_key(TopicType.CONFIG, record.key, GROUP) is None:
        return False
    try:
        loads(record.value)
    except ValueFormatError:
        return False
    return True


def with_holes(history: History) -> list[Record]:
    """Between two offsets there is room: for transaction markers, and for what a cleaner took."""
    records = history.records(TopicType.CONFIG, GROUP, 1)
    return [replace(record, offset=3 * record.offset + record.offset % 2) for record in records]


@given(histories())
def test_position_is_the_newest_own_record_that_parses_and_never_falls(history: History) -> None:
    fold = ConfigFold(GROUP)
    expected = -1
    for record in with_holes(history):
        before = fold.own_records
        fold.apply(record)
        assert (fold.own_records > before) is counts(record)
        if counts(record):
            assert record.offset + 1 > expected
            expected = record.offset + 1
        assert fold.offset == expected
    assert fold.snapshot().offset == expected


def test_a_fence_and_the_marker_that_lifts_it() -> None:
    moved, fold = Moved("plan.json", "run", {"cleanup.policy": None}), ConfigFold()
    for number, (pair, found) in enumerate(((moved_record(moved), moved), (MARKER, None))):
        fold.apply(Record("c", 0, number, 1, *pair))
        assert (fold.snapshot().moved, fold.snapshot().target_states()) == (found, {})
