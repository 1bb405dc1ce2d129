"""What is found of the workers of a group, by what brokers said of real ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.checks.finding import Finding
from connect_share.checks.workers import ConfigTopic, find
from connect_share.contents.workers import WatchedGroup
from connect_share.kafka.connect_protocol import ConnectorsAndTasks, ExtendedAssignment, ExtendedWorkerState
from connect_share.kafka.descriptions import GroupMember, worker_id_of
from connect_share.model.records import ConnectorTaskId, Record
from connect_share.runtime.protocol_encoding import encode_assignment, encode_worker_state

VECTORS = Path(__file__).parents[2] / "vectors"
CAPTURED: Mapping[str, list[dict[str, str]]] = json.loads((VECTORS / "workers-of-a-group.json").read_text())
HANDSHAKES = json.loads((VECTORS / "group-protocol.json").read_text())["members"]
HOUR_MS = 3_600_000


def member(captured: dict[str, str]) -> GroupMember:
    metadata, assigned = (bytes.fromhex(captured[name]) for name in ("metadata", "assigned"))
    names = (captured["member_id"], captured["client_id"], worker_id_of(metadata), captured["protocol"])
    return GroupMember(*names, "127.0.0.1", captured["group_state"], metadata, assigned)


def looked_at(*members: GroupMember, looks: int = 5) -> WatchedGroup:
    group = WatchedGroup("g")
    for _ in range(looks):
        group = group.seen(members)
    return group


def captured(name: str) -> WatchedGroup:
    return looked_at(*map(member, CAPTURED[name]))


def found(group: WatchedGroup, end: int, *written_ms: int, protocol: str | None = "sessioned") -> list[Finding]:
    records = [Record("t", 0, offset, each, b"k%d" % offset, b"{}") for offset, each in enumerate(written_ms)]
    return list(find(group, ConfigTopic("t", end, records), protocol, where="t", command="c"))


def ids(findings: list[Finding]) -> list[str]:
    return [each.id for each in findings]


def worker(name: str, position: int, assigned: int, *, runs: int = 0, **given: Any) -> GroupMember:
    """A worker that says it is at a position, with an assignment made of another one."""
    items = ConnectorsAndTasks((), tuple(ConnectorTaskId(name, number) for number in range(runs)))
    state = ExtendedWorkerState(f"http://{name}:1/", position)
    assignment = ExtendedAssignment("m", "http://a:1/", assigned, items, **given)
    data = encode_worker_state(state), encode_assignment(assignment)
    return GroupMember(f"m-{name}", name, f"{name}:1", "sessioned", "h", "Stable", *data)


@pytest.mark.parametrize("name", ["one worker", "two workers"])
def test_a_healthy_group(name: str) -> None:
    group = captured(name)
    assert group.is_settled
    assert found(group, 4, HOUR_MS, 2 * HOUR_MS, 2 * HOUR_MS, 2 * HOUR_MS) == []
    runs = [each.running for each in group.members]
    assert sorted(name for each in runs if each is not None for name in each.connectors) == ["c"]
    assert sorted(str(task) for each in runs if each is not None for task in each.tasks) == ["c-0"]


@pytest.mark.parametrize("kafka", ["4.3.1", "3.9.2", "2.8.2"])
def test_captures_of_all_versions_are_healthy(kafka: str) -> None:
    for each in HANDSHAKES:
        if each["kafka"] == kafka:
            protocol = {"default": "eager"}.get(each["protocol"], each["protocol"])
            words = {"member_id": "m", "client_id": "c", "protocol": each["protocol"], "group_state": "Stable"}
            group = looked_at(member({**words, "metadata": each["metadata"], "assigned": each["assignment"]}))
            assert found(group, 14, protocol=protocol) == []
            running = group.members[0].running
            assert running is not None
            assert "sink" in {task.connector for task in running.tasks}


def test_one_group_id_on_two_sets_of_topics() -> None:
    group = captured("other topics")
    (finding,) = found(group, 4, HOUR_MS, 2 * HOUR_MS)
    assert finding.id == "workers-other-topic"
    assert "is at position -1, and what the leader assigns at" in finding.what
    # From the side of the other set: its topic ends before what the worker of the first has read.
    (finding,) = found(group, 1, 2 * HOUR_MS)
    assert "and t ends at 1" in finding.what
    # All records are of one moment: it may have joined while they were written.
    assert found(group, 4, HOUR_MS, HOUR_MS + 1) == []


def test_a_long_name_is_cut() -> None:
    (finding,) = found(looked_at(worker("x" * 30_000, 7, 7)), 1)
    assert finding.id == "workers-other-topic"
    assert len(finding.what) < 300


def test_a_storm() -> None:
    group = captured("storm")
    assert not group.is_settled
    assert ids(found(group, 9, HOUR_MS, HOUR_MS + 1)) == ["workers-other-topic", "workers-not-settled"]


def test_a_rebalance_that_goes_on_is_seen_by_looking_on() -> None:
    healthy = captured("two workers")
    rebalancing = [
        replace(each, group_state="PreparingRebalance", metadata=b"", assigned=b"") for each in healthy.members
    ]
    group = looked_at(*rebalancing, looks=3)
    assert not group.is_settled
    assert ids(found(group, 4)) == ["workers-not-settled"]
    for _ in range(5):
        group = group.seen(healthy.members)
    assert found(group, 4) == []
    group = group.seen(tuple(rebalancing))  # what was told before is kept
    assert (group.is_settled, group.members) == (False, healthy.members)
    assert looked_at().is_settled  # nobody is there


def test_a_worker_that_runs_nothing() -> None:
    busy, idle = worker("a", 7, 7, runs=4), worker("b", 7, 7)
    assert ids(found(looked_at(busy, idle), 7)) == ["workers-idle"]
    assert found(looked_at(worker("a", 7, 7, runs=3), idle), 7) == []
    assert found(looked_at(busy, worker("b", 7, 7, delay_ms=1)), 7) == []  # the next rebalance is planned
    moving = ConnectorsAndTasks((), (ConnectorTaskId("a", 9),))
    assert found(looked_at(worker("a", 7, 7, runs=4, revoked=moving), idle), 7) == []
    # Who reads another topic runs nothing because of that.
    assert ids(found(looked_at(busy, worker("b", -1, 7)), 7, 0, HOUR_MS)) == ["workers-other-topic"]


@pytest.mark.parametrize(("file", "kinds"), [("sessioned", ["workers-protocol"]), ("compatible", []), (None, [])])
def test_an_older_protocol_than_the_worker_file_says(file: str | None, kinds: list[str]) -> None:
    group = looked_at(replace(worker("a", 7, 7), protocol="compatible"))
    assert ids(found(group, 7, protocol=file)) == kinds


@given(st.lists(st.tuples(st.binary(max_size=60), st.binary(max_size=60)), max_size=4), st.integers(0, 9))
def test_any_bytes_of_members_are_judged(data: list[tuple[bytes, bytes]], end: int) -> None:
    members = [GroupMember(f"m{n}", "c", None, "", "h", "Stable", *each) for n, each in enumerate(data)]
    group = looked_at(*members)
    assert all(len(each.what) < 1_000 for each in found(group, end))
