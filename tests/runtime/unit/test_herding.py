"""What a herder decides: restarts, session keys, deleted statuses, overrides."""

from __future__ import annotations

import base64
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share import ConnectorStatus, ConnectorTaskId, RestartRequest, State, TaskStatus, WorkerConfig
from connect_share.errors import ConfigError
from connect_share.model.config import connector_config_record, task_commit_record, task_config_record
from connect_share.model.config_state import ClusterConfigState
from connect_share.model.records import Record
from connect_share.model.status import StatusFold, StatusSnapshot, status_record
from connect_share.replay import replay_config
from connect_share.runtime import (
    SIGNATURE_ALGORITHM_HEADER,
    SIGNATURE_HEADER,
    PendingRestarts,
    RestartPlan,
    SessionKeyRotation,
    client_overrides,
    deleted_statuses,
    is_valid_signature,
    refused_overrides,
    signature_headers,
)
from connect_share.storage.memory import MemoryConfigBackingStore
from connect_share.worker_config.override_policy import OverridePolicy
from tests.support.worker_files import WORKER

DAY_MS = 86_400_000


def statuses(*found: ConnectorStatus | TaskStatus) -> StatusSnapshot:
    fold = StatusFold()
    for number, each in enumerate(found):
        fold.apply(Record("statuses", 0, number, number, *status_record(each)))
    return fold.snapshot()


def status(name: str, state: State) -> ConnectorStatus:
    return ConnectorStatus(name, state, "w:1", 3, "trace" if state is State.FAILED else None)


def task(name: str, number: int, state: State) -> TaskStatus:
    return TaskStatus(ConnectorTaskId(name, number), state, "w:1", 3)


def configured(**tasks: int) -> ClusterConfigState:
    pairs = []
    for name, count in tasks.items():
        pairs.append(connector_config_record(name, {"name": name}))
        pairs += [task_config_record(ConnectorTaskId(name, number), {}) for number in range(count)]
        pairs.append(task_commit_record(name, count))
    return replay_config([Record("configs", 0, at, at, *pair) for at, pair in enumerate(pairs)])


FOUND = statuses(
    status("c", State.RUNNING),
    task("c", 1, State.FAILED),
    task("c", 0, State.RUNNING),
    status("d", State.FAILED),
    task("d", 0, State.PAUSED),
)


@pytest.mark.parametrize(
    ("request_", "connector", "tasks"),
    [
        (RestartRequest("c"), True, []),
        (RestartRequest("c", only_failed=True), False, []),
        (RestartRequest("c", include_tasks=True), True, ["c-0", "c-1"]),
        (RestartRequest("c", only_failed=True, include_tasks=True), False, ["c-1"]),
        (RestartRequest("d", only_failed=True, include_tasks=True), True, []),
    ],
)
def test_a_plan_restarts_what_was_asked_for(request_: RestartRequest, connector: bool, tasks: list[str]) -> None:
    plan = RestartPlan.of(request_, FOUND)
    assert plan is not None
    assert plan.restarts_connector is connector
    assert [str(each) for each in plan.tasks_to_restart] == tasks
    states = {str(each.task_id): each.state for each in plan.tasks}
    for each in FOUND.task_statuses(request_.connector):
        restarted = str(each.task_id) in tasks
        assert states[str(each.task_id)] is (State.RESTARTING if restarted else each.state)


def test_a_connector_without_a_status_has_no_plan() -> None:
    assert RestartPlan.of(RestartRequest("gone"), FOUND) is None


def test_of_a_connector_the_greatest_request_waits() -> None:
    kinds = [RestartRequest("c", *flags) for flags in ((True, False), (True, True), (False, False), (False, True))]
    for order in itertools.permutations(kinds):
        pending = PendingRestarts()
        for each in order:
            pending.add(each)
        pending.add(RestartRequest("b"))
        assert pending.take() == [RestartRequest("b"), RestartRequest("c", only_failed=False, include_tasks=True)]
        assert pending.take() == []


def rotation(**given_: str) -> SessionKeyRotation:
    more = {f"inter.worker.key.{name.replace('_', '.')}": value for name, value in given_.items()}
    return SessionKeyRotation(WorkerConfig.from_properties(WORKER | more))


def test_a_key_is_new_after_its_time_or_with_other_settings() -> None:
    store = MemoryConfigBackingStore()
    store.start()
    hour = rotation()
    first = hour.rotate(store)
    assert first is not None
    assert (first.algorithm, len(first.key)) == ("HmacSHA256", 32)
    assert store.snapshot().session_key == first
    assert hour.rotate(store) is None
    assert hour.due_ms(first) == first.creation_timestamp_ms + 3_600_000
    assert hour.is_due(first, first.creation_timestamp_ms + 3_600_000)
    assert not hour.is_due(first, first.creation_timestamp_ms + 3_599_999)
    assert not rotation(ttl_ms="0").is_due(first, first.creation_timestamp_ms + 1_000 * DAY_MS)
    larger = rotation(generation_algorithm="HmacSHA512").rotate(store)
    assert larger is not None
    assert (larger.algorithm, len(larger.key)) == ("HmacSHA512", 64)
    smaller = rotation(generation_algorithm="HmacSHA512", size="128").rotate(store)
    assert smaller is not None
    assert len(smaller.key) == 16


@pytest.mark.parametrize(
    ("name", "value"),
    [("ttl_ms", "-1"), ("ttl_ms", "x"), ("size", "0"), ("size", "99999"), ("generation_algorithm", "HmacMD5")],
)
def test_wrong_settings_of_keys_are_named(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=r"inter\.worker\.key"):
        rotation(**{name: value})


@given(
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)),
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 4))),
)
def test_after_it_only_what_is_configured_has_a_status(tasks: dict[str, int], there: list[tuple[str, int]]) -> None:
    config = configured(**tasks)
    found = [status(name, State.FAILED) for name, _ in there] + [task(*each, State.RUNNING) for each in there]
    left = statuses(*found, *deleted_statuses(config, statuses(*found)))
    assert left.connectors() <= config.connectors()
    assert all(each.task_id in config.tasks(name) for name in "abcd" for each in left.task_statuses(name))
    assert deleted_statuses(config, left) == []
    assert {(each.state, each.trace) for each in deleted_statuses(config, statuses(*found))} <= {
        (State.DESTROYED, None)
    }


def test_overrides_are_of_their_client_and_refused_by_the_policy() -> None:
    config = {
        "consumer.override.group.id": "mine",
        "consumer.override.sasl.mechanism": "PLAIN",
        "producer.override.acks": "1",
        "producer.overrides.acks": "1",
        "topics": "t",
    }
    assert client_overrides(config, "consumer") == {"group.id": "mine", "sasl.mechanism": "PLAIN"}
    assert client_overrides(config, "admin") == {}
    expected = {
        "All": [],
        "None": ["consumer.override.group.id", "consumer.override.sasl.mechanism", "producer.override.acks"],
        "Principal": ["consumer.override.group.id", "producer.override.acks"],
    }
    for name, refused in expected.items():
        policy = OverridePolicy.of({"connector.client.config.override.policy": name})
        assert refused_overrides(config, policy) == refused


_VECTORS = json.loads(
    (Path(__file__).parents[2] / "vectors" / "internal-request-signatures.json").read_text(encoding="utf-8")
)
_KEY = bytes.fromhex(_VECTORS["key"])
_BODY = b'[{"task.class":"a.B"}]'


@pytest.mark.parametrize("request_", _VECTORS["requests"])
def test_java_signs_the_same(request_: dict[str, Any]) -> None:
    algorithm, body = request_["algorithm"], base64.b64decode(request_["body"])
    java = {SIGNATURE_HEADER: request_["signature"], SIGNATURE_ALGORITHM_HEADER: request_["algorithm_header"]}
    assert signature_headers(_KEY, body, algorithm) == java
    for headers in (java, {name.lower(): value for name, value in java.items()}):
        assert is_valid_signature(_KEY, body, headers, frozenset({algorithm}))


@pytest.mark.parametrize(
    "changed",
    [
        signature_headers(_KEY + b"x", _BODY),
        signature_headers(_KEY, _BODY + b" "),
        signature_headers(_KEY, _BODY, "HmacSHA1"),  # which is not allowed
        *({name: None} for name in (SIGNATURE_HEADER, SIGNATURE_ALGORITHM_HEADER)),
        *({SIGNATURE_HEADER: text} for text in ("", "=", "AAAA", "no base64!", "\u00e9", "A" * 100_000)),
        {SIGNATURE_ALGORITHM_HEADER: "none"},
    ],
)
def test_another_a_missing_or_a_hostile_signature_is_refused(changed: dict[str, str | None]) -> None:
    headers = {**signature_headers(_KEY, _BODY), **changed}
    there = {name: value for name, value in headers.items() if value is not None}
    assert not is_valid_signature(_KEY, _BODY, there)


@pytest.mark.parametrize(("key", "algorithm"), [(b"", "HmacSHA256"), (_KEY, "SHA256"), (_KEY, "")])
def test_nothing_is_signed_with_an_empty_key_or_an_unknown_algorithm(key: bytes, algorithm: str) -> None:
    with pytest.raises(ValueError, match=r"session key is empty|no algorithm of signatures"):
        signature_headers(key, _BODY, algorithm)
