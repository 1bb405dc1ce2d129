"""The group protocol of Connect's workers, and who gets which work."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.errors import GroupProtocolError
from connect_share.kafka.connect_protocol import (
    CONFIG_MISMATCH,
    NOTHING,
    ConnectorsAndTasks,
    ExtendedAssignment,
    ExtendedWorkerState,
    decode_assignment,
    decode_worker_state,
)
from connect_share.model.records import ConnectorTaskId, Record
from connect_share.replay import replay_config
from connect_share.runtime import balanced_assignment, configured
from connect_share.runtime.protocol_encoding import encode_assignment, encode_worker_state

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "group-protocol.json").read_text())["members"]
VERSIONS = {"default": 0, "compatible": 1, "sessioned": 2}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['kafka']}-{vector['protocol']}")
def test_what_java_workers_send_is_read_and_written_alike(vector: dict[str, Any]) -> None:
    metadata, data = bytes.fromhex(vector["metadata"]), bytes.fromhex(vector["assignment"])
    state, assignment = decode_worker_state(metadata), decode_assignment(data)
    assert state.version == VERSIONS[vector["protocol"]]
    # Workers of 2.8 write version 1 into the assignments of "sessioned" too.
    assert assignment.version == min(state.version, 1 if vector["kafka"] == "2.8.2" else 2)
    assert state.url.startswith("http://127.0.0.1:")
    assert assignment.leader.startswith("connect-")
    assert state.config_offset > 0
    assert encode_worker_state(state) == metadata
    assert encode_assignment(assignment) == data


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
# Of one connector all numbers stand together in the bytes.
items = st.dictionaries(
    names, st.tuples(st.booleans(), st.lists(st.integers(0, 2**31 - 1), max_size=3)), max_size=4
).map(
    lambda found: ConnectorsAndTasks(
        tuple(name for name, (connector, _) in found.items() if connector),
        tuple(
            ConnectorTaskId(name, task)
            for name, (_, tasks) in sorted(found.items(), key=lambda item: not item[1][0])
            for task in tasks
        ),
    )
)
offsets = st.integers(-(2**63), 2**63 - 1)
assignments = st.builds(
    ExtendedAssignment,
    names,
    names,
    offsets,
    items,
    items,
    st.integers(0, 2**31 - 1),
    st.sampled_from((0, CONFIG_MISMATCH)),
    st.sampled_from((0, 1, 2)),
).map(lambda found: replace(found, revoked=NOTHING, delay_ms=0) if found.version == 0 else found)


@given(names, offsets, st.none() | assignments, st.sampled_from((1, 2)))
def test_a_worker_state_comes_back(url: str, offset: int, assignment: ExtendedAssignment | None, version: int) -> None:
    state = ExtendedWorkerState(url, offset, assignment, version)
    assert decode_worker_state(encode_worker_state(state)) == state


@given(
    st.binary(max_size=200) | assignments.map(encode_assignment).flatmap(lambda data: st.just(data[: len(data) // 2]))
)
def test_other_bytes_are_refused_or_read(data: bytes) -> None:
    with contextlib.suppress(GroupProtocolError):
        assignment = decode_assignment(data)
        assert decode_assignment(encode_assignment(assignment)) == assignment
    with contextlib.suppress(GroupProtocolError):
        state = decode_worker_state(data)
        assert decode_worker_state(encode_worker_state(state)) == state


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff\xff", id="version -1"),
        pytest.param(b"\0\2\0\0\0\1l\0\1u" + bytes(8) + b"\x7f\xff\xff\xff", id="2 billion connectors"),
        pytest.param(b"\0\2\0\0\0\1l\0\1u" + bytes(8) + b"\0\0\0\1\0\1c\x7f\xff\xff\xff", id="2 billion tasks"),
        pytest.param(b"\0\2\0\0\0\1l\0\1u" + bytes(8) + b"\0\0\0\1\0\1c\0\0\0\1\xff\xff\xff\xfe", id="task -2"),
        pytest.param(b"\0\2\0\0\0\1\xff", id="no UTF-8"),
    ],
)
def test_hostile_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(GroupProtocolError):
        decode_assignment(data)


def test_fields_that_a_version_added_later_may_be_missing() -> None:
    whole = encode_assignment(ExtendedAssignment("l", "u", 7))
    assert decode_assignment(whole[:-8]) == decode_assignment(whole)


@pytest.mark.parametrize(
    "assignment",
    [
        ExtendedAssignment("x" * 2**15, "u", 7),
        ExtendedAssignment("l", "u", 2**63),
        ExtendedAssignment("l", "u", 7, ConnectorsAndTasks((), (ConnectorTaskId("c", 2**31),))),
    ],
)
def test_what_does_not_fit_is_refused(assignment: ExtendedAssignment) -> None:
    with pytest.raises(GroupProtocolError, match="does not fit"):
        encode_assignment(assignment)


connectors = st.sampled_from([f"c{number}" for number in range(6)])
tasks = st.builds(ConnectorTaskId, connectors, st.integers(0, 4))
work = st.builds(
    ConnectorsAndTasks, st.lists(connectors, unique=True).map(tuple), st.lists(tasks, unique=True).map(tuple)
)
groups = st.dictionaries(st.sampled_from("abcdef"), work, min_size=1)


def rebalanced(running: dict[str, ConnectorsAndTasks], configured: ConnectorsAndTasks) -> dict[str, ConnectorsAndTasks]:
    found = {}
    for member, change in balanced_assignment(running, configured).items():
        held = running[member]
        assert set(change.revoked.tasks) <= set(held.tasks)
        assert set(change.revoked.connectors) <= set(held.connectors)
        assert not set(change.assigned.tasks) & set(held.tasks)
        kept = held - change.revoked  # what is assigned twice has to be seen: no union
        found[member] = ConnectorsAndTasks(
            kept.connectors + change.assigned.connectors, kept.tasks + change.assigned.tasks
        )
    return found


def owned(running: dict[str, ConnectorsAndTasks]) -> Counter[object]:
    return Counter(item for each in running.values() for item in (*each.connectors, *each.tasks))


@given(groups, work)
def test_two_rebalances_spread_everything_evenly(
    running: dict[str, ConnectorsAndTasks], configured: ConnectorsAndTasks
) -> None:
    before = owned(running)
    first = rebalanced(running, configured)
    # What one member is to stop is not started elsewhere in the same rebalance.
    assert all(count <= max(1, before[item]) for item, count in owned(first).items())
    assert all(count == 1 for count in owned(first).values())
    second = rebalanced(first, configured)
    assert owned(second) == Counter((*configured.connectors, *configured.tasks))
    for counts in ([len(each.connectors) for each in second.values()], [len(each.tasks) for each in second.values()]):
        assert max(counts) - min(counts) <= 1
    # Nothing moves from then on.
    assert rebalanced(second, configured) == second


@given(groups, work)
def test_a_new_member_takes_its_share_and_no_more(
    running: dict[str, ConnectorsAndTasks], configured: ConnectorsAndTasks
) -> None:
    even = rebalanced(rebalanced(running, configured), configured)
    joined = {**even, "new": ConnectorsAndTasks()}
    after = rebalanced(rebalanced(joined, configured), configured)
    moved = sum(len(set(even[member].tasks) - set(after[member].tasks)) for member in even)
    assert moved == len(after["new"].tasks)


def test_a_name_that_fits_no_assignment_is_left_out() -> None:
    """A stranger's record ends no leader."""
    names = ["a", "ä" * 16_384, "b" * 32_767, "c" * 32_768]
    records = [
        Record("t", 0, at, 0, f"connector-{name}".encode(), b'{"properties":{"name":"x"}}')
        for at, name in enumerate(names)
    ]
    found = configured(replay_config(records))
    assert found.connectors == (names[0], names[2])
    assert encode_assignment(ExtendedAssignment("m", "http://h/", 1, found))
