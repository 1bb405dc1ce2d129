"""The assignor over any group: everything runs once, evenly, and nothing moves without need."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from connect_share.kafka.connect_protocol import ConnectorsAndTasks, ExtendedAssignment, encode_assignment
from connect_share.model.records import ConnectorTaskId, Record
from connect_share.replay import replay_config
from connect_share.runtime import balanced_assignment, configured

connectors = st.sampled_from([f"c{number}" for number in range(6)])
tasks = st.builds(ConnectorTaskId, connectors, st.integers(0, 4))
items = st.builds(
    ConnectorsAndTasks,
    st.lists(connectors, unique=True).map(tuple),
    st.lists(tasks, unique=True).map(tuple),
)
groups = st.dictionaries(st.sampled_from("abcdef"), items, min_size=1)


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


@given(groups, items)
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
    for counts in (
        [len(each.connectors) for each in second.values()],
        [len(each.tasks) for each in second.values()],
    ):
        assert max(counts) - min(counts) <= 1
    # Nothing moves from then on.
    assert rebalanced(second, configured) == second


@given(groups, items)
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
