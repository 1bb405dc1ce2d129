"""The config topic's rules, case by case. Numbers are those of the list in docs/testing.md."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
)
from connect_share.model.config_state import MOST_TASKS, RestartRequest, TargetState
from connect_share.model.connect_json import loads
from connect_share.model.keys import ClusterGroupId, SkipKind, own_key
from connect_share.model.records import ConnectorTaskId, Record, TopicType
from connect_share.replay import replay_config
from tests.support.records import JSON_NULL, TOMBSTONE, at_offset, config_log, logged, properties

A, B, C = properties(v="A"), properties(v="B"), properties(v="C")
SESSION_KEY = {"key": "AAEC/+8=", "algorithm": "HmacSHA256", "creation-timestamp": 1_729_798_381_000}


def live(before: list[tuple[Any, ...]], after: list[tuple[Any, ...]]) -> tuple[ConfigFold, list[ConfigEvent]]:
    """Fold ``before`` as a start would, then ``after`` as a running store."""
    fold = ConfigFold()
    records = config_log([*before, *after])
    for record in records[: len(before)]:
        assert fold.apply(record, started=False) == []
    return fold, [event for record in records[len(before) :] for event in fold.apply(record)]


def ids(connector: str, *tasks: int) -> tuple[ConnectorTaskId, ...]:
    return tuple(ConnectorTaskId(connector, task) for task in tasks)


def test_case_1_an_empty_log() -> None:
    state = replay_config([])
    assert (state.offset, state.connectors(), state.session_key) == (-1, frozenset(), None)


def test_case_2_a_new_connector() -> None:
    fold, events = live([], [("connector-c1", A)])
    state = fold.snapshot()
    assert state.offset == 1
    assert state.connector_config("c1") == {"v": "A"}
    assert state.target_state("c1") is TargetState.STARTED
    assert events == [ConnectorConfigUpdated("c1")]


def test_case_3_created_stopped() -> None:
    fold, events = live([], [("target-state-c1", {"state": "PAUSED", "state.v2": "STOPPED"}), ("connector-c1", A)])
    assert fold.offset == 2
    assert fold.snapshot().target_state("c1") is TargetState.STOPPED
    assert events == [ConnectorConfigUpdated("c1")]


@pytest.mark.parametrize("gone", [TOMBSTONE, JSON_NULL])
def test_case_4_removed(gone: bytes | None) -> None:
    fold, events = live([("connector-c2", A)], [("connector-c2", gone), ("target-state-c2", gone)])
    state = fold.snapshot()
    assert state.offset == 3
    assert not state.contains("c2")
    assert state.target_state("c2") is None
    assert events == [ConnectorConfigRemoved("c2")]


def test_case_9_a_removed_target_state_is_started_again() -> None:
    log = [
        ("connector-c", A),
        ("task-c-0", A),
        ("task-c-1", B),
        ("target-state-c", TOMBSTONE),
        ("commit-c", {"tasks": 2}),
    ]
    state = replay_config(config_log(log))
    assert (state.target_state("c"), state.offset) == (TargetState.STARTED, 5)
    assert state.tasks("c") == [*ids("c", 0, 1)]


def test_case_10_legacy_and_new_target_states() -> None:
    fold, _ = live(
        [
            ("connector-c1", A),
            ("target-state-c1", {"state": "PAUSED"}),
            ("target-state-c2", {"state": "PAUSED", "state.v2": "STOPPED"}),
        ],
        [],
    )
    state = fold.snapshot()
    assert (state.target_state("c1"), state.target_state("c2")) == (TargetState.PAUSED, TargetState.STOPPED)
    assert state.connectors() == {"c1"}


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


def test_case_12_a_commit_after_the_removal() -> None:
    log = [
        ("connector-c", A),
        ("task-c-0", A),
        ("task-c-1", A),
        ("connector-c", TOMBSTONE),
        ("target-state-c", TOMBSTONE),
        ("commit-c", {"tasks": 2}),
    ]
    state = replay_config(config_log(log))
    assert (state.connectors(), state.offset, state.task_count("c")) == (frozenset(), 6, 0)


def test_case_13_no_tasks_left() -> None:
    log = [
        ("connector-c", A),
        ("task-c-0", A),
        ("task-c-1", A),
        ("connector-c", B),
        ("commit-c", {"tasks": 2}),
        ("connector-c", C),
        ("task-c-0", B),
        ("commit-c", {"tasks": 0}),
    ]
    state = replay_config(config_log(log))
    assert state.tasks("c") == []
    assert state.inconsistent_connectors() == frozenset()


def test_case_14_compaction_took_a_task_config_then_it_is_repaired() -> None:
    before = [(0, "connector-c1", A), (2, "task-c1-1", B), (4, "commit-c1", {"tasks": 2}), (5, "task-c1-0", C)]
    fold = ConfigFold()
    for record in config_log(before):
        fold.apply(record, started=False)
    state = fold.snapshot()
    assert state.tasks("c1") == []
    assert state.inconsistent_connectors() == {"c1"}
    assert state.task_config(ConnectorTaskId("c1", 0)) is None
    repair = config_log([("task-c1-0", A), ("commit-c1", {"tasks": 1})], first=6)
    events = [event for record in repair for event in fold.apply(record)]
    assert events == [TaskConfigsUpdated(ids("c1", 0))]
    assert (fold.snapshot().tasks("c1"), fold.snapshot().inconsistent_connectors()) == ([*ids("c1", 0)], frozenset())
    assert fold.offset == 8


def test_case_15_a_commit_without_tasks() -> None:
    fold, events = live([("connector-c", A)], [("commit-c", {"tasks": 0})])
    assert events == [TaskConfigsUpdated(())]
    assert fold.snapshot().task_config_generation("c") is None


def test_case_16_fencing_follows_a_commit() -> None:
    fold, _ = live([("connector-c", A)], [("task-c-0", A), ("task-c-1", A), ("commit-c", {"tasks": 2})])
    state = fold.snapshot()
    assert state.pending_fencing("c")
    assert (state.task_config_generation("c"), state.task_count_record("c")) == (0, None)
    fold.apply(config_log([("tasks-fencing-c", {"task-count": 4})], first=10)[0])
    state = fold.snapshot()
    assert not state.pending_fencing("c")
    assert (state.task_config_generation("c"), state.task_count_record("c")) == (0, 4)


def test_case_17_each_commit_is_an_event_of_its_own_tasks() -> None:
    _, events = live(
        [("connector-c1", A), ("connector-c2", A)],
        [
            ("task-c1-0", A),
            ("task-c1-1", A),
            ("commit-c1", {"tasks": 2}),
            ("task-c2-0", A),
            ("commit-c2", {"tasks": 1}),
        ],
    )
    assert events == [TaskConfigsUpdated(ids("c1", 0, 1)), TaskConfigsUpdated(ids("c2", 0))]


def test_case_18_removal_forgets_tasks() -> None:
    fold, events = live(
        [("connector-c", A), ("task-c-0", A), ("commit-c", {"tasks": 1}), ("task-c-0", B)],
        [("connector-c", TOMBSTONE), ("target-state-c", TOMBSTONE)],
    )
    state = fold.snapshot()
    assert (state.contains("c"), state.task_count("c"), fold.saved()["deferred"]) == (False, 0, {})
    assert events == [ConnectorConfigRemoved("c")]
    for record in config_log([("connector-c", B), ("commit-c", {"tasks": 1})], first=6):
        fold.apply(record)
    again = fold.snapshot()
    assert again.tasks("c") == []  # those of the removed one are not committed
    assert again.inconsistent_connectors() == {"c"}
    assert again.applied_connector_config("c") is None


def test_cases_19_and_20_target_state_events() -> None:
    paused, stopped = {"state": "PAUSED", "state.v2": "PAUSED"}, {"state": "PAUSED", "state.v2": "STOPPED"}
    fold, events = live(
        [("connector-c1", A)], [("target-state-c1", paused), ("target-state-c2", stopped), ("target-state-c1", paused)]
    )
    assert events == [TargetStateChanged("c1")]
    assert fold.snapshot().target_state("c2") is TargetState.STOPPED


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


def test_case_22_restart_requests_at_start_are_no_events() -> None:
    fold, _ = live([("restart-connector-c", {"only-failed": True}), ("restart-connector-c", TOMBSTONE)], [])
    assert fold.offset == 2


def test_case_23_logger_levels_only_when_running() -> None:
    before = [("logger-cluster-a", {"level": "INFO"}), ("logger-cluster-b", TOMBSTONE)]
    after = [("logger-cluster-org.x.y", {"level": "DEBUG"}), ("logger-cluster-root", {"level": "nonsense"})]
    assert live(before, after)[1] == [
        LoggerLevelUpdated("org.x.y", "DEBUG"),
        LoggerLevelUpdated("root", "nonsense"),
    ]


@pytest.mark.parametrize("value", [{"tasks": "2"}, {"tasks": 2.0}, {}, [], TOMBSTONE, {"tasks": True}])
def test_case_26_a_bad_commit_takes_nothing_with_it(value: Any) -> None:
    """Deliberately not as Java, which loses the rest of the polled batch."""
    fold, events = live(
        [("connector-c", A), ("task-c-0", A)], [("commit-c", value), ("connector-d", B), ("commit-c", {"tasks": 1})]
    )
    assert fold.snapshot().connectors() == {"c", "d"}
    assert fold.snapshot().tasks("c") == [*ids("c", 0)]
    assert events == [ConnectorConfigUpdated("d"), TaskConfigsUpdated(ids("c", 0))]
    assert fold.skipped[SkipKind.BAD_VALUE] == 1
    assert fold.offset == 5


def test_case_27_a_negative_count_is_complete() -> None:
    fold, _ = live([("connector-c", A), ("commit-c", {"tasks": -1})], [])
    state = fold.snapshot()
    assert (state.task_count("c"), state.tasks("c"), state.inconsistent_connectors()) == (-1, [], frozenset())


def test_case_28_extra_task_configs_are_committed_and_hidden() -> None:
    fold, events = live([("connector-c", A)], [*((f"task-c-{n}", A) for n in range(3)), ("commit-c", {"tasks": 2})])
    assert events == [TaskConfigsUpdated(ids("c", 0, 1, 2))]
    assert fold.snapshot().tasks("c") == [*ids("c", 0, 1)]
    assert set(fold.snapshot().all_task_configs("c")) == {*ids("c", 0, 1, 2)}


def test_case_29_history_survives_removal() -> None:
    log = [
        ("connector-c", A),
        ("task-c-0", A),
        ("commit-c", {"tasks": 1}),
        ("tasks-fencing-c", {"task-count": 1}),
        ("task-c-0", A),
        ("commit-c", {"tasks": 1}),
        ("connector-c", TOMBSTONE),
        ("connector-c", B),
    ]
    state = replay_config(config_log(log))
    assert (state.task_count_record("c"), state.task_config_generation("c"), state.pending_fencing("c")) == (1, 1, True)


@pytest.mark.parametrize("key", ["!!!not base64!!!", "", "A", "AA=", "AAEC/+8==", "+zUx=", "AAAA===="])
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


def test_case_31_a_session_key_without_padding() -> None:
    state = replay_config(config_log([("session-key", {"key": "AA", "algorithm": "H", "creation-timestamp": 1})]))
    assert state.session_key is not None
    assert state.session_key.key == b"\x00"


@pytest.mark.parametrize(
    "value", [TOMBSTONE, [], {**SESSION_KEY, "creation-timestamp": 1.0}, {**SESSION_KEY, "algorithm": 1}, {"key": "AA"}]
)
def test_session_keys_of_the_wrong_shape_are_ignored(value: Any) -> None:
    assert replay_config(config_log([("session-key", value)])).session_key is None


@pytest.mark.parametrize(
    ("value", "state"),
    [
        ({"state": "PAUSED", "state.v2": 7}, TargetState.PAUSED),
        ({"state": "PAUSED", "state.v2": "BOGUS"}, TargetState.STARTED),
        ({"state": "paused"}, TargetState.STARTED),
        ({"state": 1}, TargetState.STARTED),
        ([], TargetState.STARTED),
    ],
)
def test_case_32_odd_target_states(value: Any, state: TargetState) -> None:
    assert replay_config(config_log([("connector-c", A), ("target-state-c", value)])).target_state("c") is state


@pytest.mark.parametrize("key", ["CONNECTOR-foo", "session-key-x", "", "connector", "foo"])
def test_case_33_an_unknown_key_moves_the_position_of_a_plain_cluster(key: str) -> None:
    fold, events = live([], [(key, A)])
    assert (fold.offset, events, fold.skipped[SkipKind.BAD_KEY]) == (1, [], 1)


@pytest.mark.parametrize(
    ("key", "task"),
    [
        ("task-a.b-c-1-0", ("a.b-c-1", 0)),
        ("task-foo-" + "0" * 5000 + "1", ("foo", 1)),
        ("task-foo-𝟙", None),
        ("task-foo-2147483648", None),
    ],
)
def test_task_numbers_are_split_off_as_java_does(key: str, task: tuple[str, int] | None) -> None:
    fold, _ = live([(key, A)], [])
    assert fold.saved()["deferred"] == ({task[0]: {str(task[1]): {"v": "A"}}} if task else {})
    assert fold.skipped[SkipKind.BAD_VALUE] == (0 if task else 1)


# --- the position, with sharing on ------------------------------------------------------------------------------------

GROUP = ClusterGroupId("G")


def shared(entries: list[tuple[Any, ...]], group: str = "G") -> ConfigFold:
    fold = ConfigFold(ClusterGroupId(group))
    for record in config_log(entries):
        fold.apply(record)
    return fold


@pytest.mark.parametrize(
    ("key", "value"),
    [("B.connector-x", b"{garbage"), (None, b"x"), (b"", b"x"), (b"\xff\xfe", None), ("connector-plain", b"{")],
)
def test_position_7_foreign_garbage(key: Any, value: bytes | None, caplog: pytest.LogCaptureFixture) -> None:
    fold = shared([("G.connector-a", A), (key, value)])
    assert (fold.offset, fold.skipped[SkipKind.FOREIGN]) == (1, 1)
    assert [record for record in logged(caplog) if record.levelno > logging.INFO] == []


def test_position_8_a_group_whose_id_goes_on_after_ours() -> None:
    fold = shared([("com.acme.connector-a", A), ("com.acme.orders.connector-x", A)], "com.acme")
    assert fold.offset == 1
    assert fold.snapshot().connectors() == {"a"}


@pytest.mark.parametrize("gone", [TOMBSTONE, JSON_NULL])
def test_position_11_removals_move_it(gone: bytes | None) -> None:
    fold = shared([("G.connector-a", A), ("G.connector-a", gone), ("G.target-state-a", gone)])
    assert (fold.offset, fold.snapshot().connectors()) == (3, frozenset())
    assert fold.newest_own_is_tombstone is (gone is None)


@pytest.mark.parametrize("started", [True, False])
def test_position_15_the_marker_changes_nothing_else(started: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    fold = shared([("G.connector-a", A), ("G.connector-a", TOMBSTONE)])
    before = fold.snapshot()
    caplog.clear()
    marker = config_log([(7, "G.target-state-", JSON_NULL)])[0]
    assert fold.apply(marker, started=started) == []
    assert at_offset(fold.snapshot(), 0) == at_offset(before, 0)
    assert (fold.offset, fold.newest_own_is_tombstone, logged(caplog)) == (8, False, [])


def test_plain_cluster_does_not_look_into_prefixed_values() -> None:
    fold, _ = live([("connector-a", A), ("B.connector-x", b"{garbage"), ("B.c-x", b"{garbage")], [])
    assert (fold.offset, fold.skipped[SkipKind.FOREIGN], fold.skipped[SkipKind.BAD_VALUE]) == (2, 1, 1)


def test_states_hide_secrets_in_repr() -> None:
    state = replay_config(config_log([("connector-c", properties(password="hunter2")), ("session-key", SESSION_KEY)]))
    assert "hunter2" not in repr(state)
    assert "AAEC" not in repr(state)
    assert "\\x00" not in repr(state.session_key)


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


ORIGINAL_KEYS = [
    *(
        prefix + name
        for prefix in (b"connector-", b"target-state-", b"commit-", b"tasks-fencing-")
        for name in (b"a", b"")
    ),
    b"task-a-0",
    b"task-a-1",
    b"task-",
    b"session-key",
    b"restart-connector-a",
    b"logger-cluster-org.x",
]
VALUES = [
    b"null",
    b'{"properties":{"a":"1"}}',
    b'{"state":"PAUSED","state.v2":"STOPPED"}',
    b'{"tasks":2}',
    b'{"tasks":"2"}',
    b'{"task-count":2}',
    b'{"key":"AAEC","algorithm":"H","creation-timestamp":1}',
    b'{"key":"***","algorithm":"H","creation-timestamp":1}',
    b"",
    b"{",
    b"\xff",
]
PREFIXES = [b"G.", b"G.", b"G.", b"H.", b"G.x.", b"", b"GG."]

keys = st.one_of(
    st.builds(lambda prefix, key: prefix + key, st.sampled_from(PREFIXES), st.sampled_from(ORIGINAL_KEYS)),
    st.sampled_from([None, b"", b"G.", b"G.garbage", b"garbage"]),
)


def logs(values: Sequence[bytes | None]) -> st.SearchStrategy[list[Record]]:
    pairs = st.lists(st.tuples(keys, st.sampled_from(values), st.integers(1, 3)), max_size=60)

    def with_offsets(drawn: list[tuple[bytes | None, bytes | None, int]]) -> list[Record]:
        records, offset = [], -1
        for key, value, step in drawn:  # steps above one are holes: transaction markers, earlier compaction
            offset += step
            records.append(Record("configs", 0, offset, 0, key, value))
        return records

    return pairs.map(with_offsets)


def compacted(log: list[Record]) -> list[Record]:
    newest = {record.key: record.offset for record in log}
    return [record for record in log if newest[record.key] == record.offset]


def counts(record: Record) -> bool:
    """Tell whether the record is own and its value can be read."""
    if record.key is None or own_key(TopicType.CONFIG, record.key, GROUP) is None:
        return False
    try:
        loads(record.value)
    except ValueFormatError:
        return False
    return True


@given(logs([*VALUES, None]))
def test_position_is_the_newest_own_record_that_parses_and_never_falls(log: list[Record]) -> None:
    fold = ConfigFold(GROUP)
    expected = -1
    for record in log:
        before = fold.own_records
        fold.apply(record)
        assert (fold.own_records > before) is counts(record)
        if counts(record):
            assert record.offset + 1 > expected
            expected = record.offset + 1
        assert fold.offset == expected
    assert fold.snapshot().offset == expected


@given(logs(VALUES))
def test_fresh_reader_of_the_compacted_log_agrees(log: list[Record]) -> None:
    """Without own tombstones. A newer record of the same key that cannot be read would hide an older one."""
    log = [record for record in log if counts(record) or record.key is None or not record.key.startswith(b"G.")]
    live, fresh = ConfigFold(GROUP), ConfigFold(GROUP)
    for record in log:
        live.apply(record)
    for record in compacted(log):
        fresh.apply(record)
    # The state need not agree: a newer record of the wrong shape hides an older good one after compaction.
    assert fresh.offset == live.offset
