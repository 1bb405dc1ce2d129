"""What more records, groups or tasks cost: never their square, whatever keys somebody chooses.

Compared is the processor time of this process for one size and for four times as much, at the best of several tries: a
square shows as 16, a sort as little more than four.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import tracemalloc
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice

import pytest

from connect_share.backup.rewrite import Sample
from connect_share.checks import admission, sealing, sizes
from connect_share.checks.admission import NewGroup
from connect_share.cli.get import _NOUNS
from connect_share.contents.cost_model import load_model
from connect_share.contents.group_room import GroupRoom
from connect_share.contents.groups import Contents, TopicFold
from connect_share.contents.profile import PartitionCounter, TopicProfile
from connect_share.contents.startup import members, startup_profile
from connect_share.contents.usage import Recent, usage_members, usage_of
from connect_share.discover.evidence import TopicEvidence
from connect_share.kafka.connect_protocol import NOTHING, ConnectorsAndTasks
from connect_share.model.keys import ClusterGroupId
from connect_share.model.offsets import OffsetFold
from connect_share.model.records import ConnectorTaskId, Record, TopicType
from connect_share.runtime.assignor import balanced_assignment
from connect_share.worker_config import WorkerConfig
from migrator.topic_fence import use_of
from tests.support.checked import findings_of, state_of
from tests.support.worker_files import properties_of
from tests.unit.exporter.test_topic_states import answer, followed

BASE = 200
TIMES = 4
MOST = 9.0
ENOUGH = 6.0
"""So little needs no further try."""
TRIES = 50
"""Beside a load a switch of processes may come into each of many; a square is one in all of them."""

Records = Mapping[TopicType, Collection[Record]]
RUNNING = b'{"state":"FAILED","trace":"t","worker_id":"w:1","generation":1}'
CONFIGURED = b'{"properties":{"name":"x","connector.class":"C","topics":"t"}}'


def records(names: Iterator[tuple[str, str, int]], partitions: int = 1, value: bytes = CONFIGURED) -> Records:
    """What a connector or a task of each of these groups, connectors and numbers writes."""
    rows: dict[TopicType, list[tuple[str, bytes | None]]] = {each: [] for each in TopicType}
    for group, name, task in names:
        rows[TopicType.CONFIG] += [
            (f"{group}connector-{name}", value),
            (f"{group}task-{name}-{task}", value),
            (f"{group}commit-{name}", b'{"tasks":%d}' % (task + 1)),
        ]
        rows[TopicType.STATUS] += [
            (f"{group}status-connector-{name}", RUNNING),
            (f"{group}status-task-{name}-{task}", RUNNING),
            (
                f"{group}status-topic-t{task}:connector-{name}",
                b'{"topic":{"name":"t","connector":"x","task":0,"discoverTimestamp":1}}',
            ),
        ]
        rows[TopicType.OFFSET].append((f'{group}["{name}",{{"n":{task}}}]', b'{"position":1}'))
    return {
        topic_type: [
            Record(topic_type.value, at % spread, at, 1_000 + at, key.encode(), value)
            for at, (key, value) in enumerate(pair for pair in pairs for _ in range(spread))
        ]
        for topic_type, pairs in rows.items()
        for spread in [1 if topic_type is TopicType.CONFIG else partitions]
    }


SHAPES: dict[str, Callable[[int], Records]] = {
    "groups": lambda size: records((f"g{n}.", "a", 0) for n in range(size)),
    "nested groups": lambda size: records((f"g{'.x' * (n % 90)}.{n}.", f"x.{n}", 0) for n in range(size)),
    "connectors": lambda size: records(("g.", f"a-{n}-0", 0) for n in range(size)),
    "tasks": lambda size: records(("g.", "a", n) for n in range(size)),
    "plain keys in two partitions": lambda size: records((("", f"a.{n}", 0) for n in range(size)), 2),
    "sealed": lambda size: records(((f"g{n % 50}.", f"a{n}", 0) for n in range(size)), value=b"\x01" + bytes(60)),
}


def contents_of(made: Records, room: int = 10**9) -> Contents:
    shared = GroupRoom(most_bytes=room)
    folds = {each: TopicFold(each.value, each, room=shared, timed=True) for each in made}
    for topic_type, fold in folds.items():
        fold.apply(made[topic_type])
    return Contents({topic_type: fold.contents() for topic_type, fold in folds.items()})


def listed(made: Records) -> None:
    found = contents_of(made)
    asked = {"connector": None, "topic": None, "states": None, "groups": None, "output": "json", "show_values": True}
    for noun in _NOUNS.values():
        for line in noun.listed(found, argparse.Namespace(**asked, show_traces=True)).lines:
            str(line)
    sealing.find(found, None, None, all_groups_sealed=True)


def checked(made: Records) -> None:
    state = state_of(made)
    findings_of(state, 1)
    new = NewGroup(ClusterGroupId("new"), 0, exactly_once=True, sealed=False, moves=state.groups[0])
    list(admission.find(new, state, [each.group for each in state.groups if each.sealed]))


def counted(made: Records) -> None:
    profiles = {}
    for topic_type, some in made.items():
        counters = {number: PartitionCounter(topic_type, number) for number in (0, 1)}
        for each in some:
            counters[each.partition].add(each.offset, each.timestamp_ms, each.key, each.value)
        profiles[topic_type] = TopicProfile.of(
            topic_type.value, topic_type, [each.finish() for each in counters.values()]
        )
    model = load_model()
    members(startup_profile(profiles, model, now_ms=1, limit_s=0.001))
    list(sizes.find(profiles, 1_000_000))
    groups = {group: 1 for profile in profiles.values() for group, _ in profile.counts()}
    recent = {topic_type: Recent(9, groups, groups) for topic_type in made}
    usage_members(usage_of(profiles, recent, {}, model.model, window_s=1.0))


def exported(made: Records, room: int = 10**9) -> None:
    answer(followed(*((topic_type, list(some)) for topic_type, some in made.items()), most_bytes=room))


def discovered(made: Records) -> None:
    for topic_type, some in made.items():
        found = TopicEvidence(topic_type.value)
        for each in some:
            found.add(each)
        str((found.roles, found.confidence, found.why))


WORK: dict[str, Callable[[Records], object]] = {
    "get, describe, check sealing": listed,
    "check, admit": checked,
    "usage, check startup": counted,
    "exporter": exported,
    "exporter without room": lambda made: exported(made, 100_000),
    "get without room": lambda made: contents_of(made, 100_000),
    "discover, survey": discovered,
}


def growth(prepared: Callable[[int], Callable[[], object]], tries: int = TRIES) -> float:
    """Return how many times as long four times as much takes, at best."""
    works, best = (prepared(BASE), prepared(TIMES * BASE)), [float("inf")] * 2
    gc.disable()  # it would look at what others have left, too
    try:
        for _ in range(tries):
            for place, work in enumerate(works):
                began = time.process_time()
                work()
                best[place] = min(best[place], time.process_time() - began)
            if best[1] < ENOUGH * best[0]:
                break
    finally:
        gc.enable()
    return best[1] / best[0]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("work", WORK)
def test_reading_commands_grow_with_what_they_read(shape: str, work: str) -> None:
    def prepared(size: int) -> Callable[[], object]:
        made = SHAPES[shape](size)
        return lambda: WORK[work](made)

    assert growth(prepared) < MOST


@pytest.mark.parametrize("held", ["all by one", "nothing", "all by all"])
@pytest.mark.parametrize("workers", [1, 7, "many"])
def test_an_assignment_grows_with_the_tasks(held: str, workers: int | str) -> None:
    def prepared(size: int) -> Callable[[], object]:
        tasks = tuple(ConnectorTaskId("a", number) for number in range(4 * size))
        names = [f"w{number}" for number in range(workers if isinstance(workers, int) else size)]
        all_of = ConnectorsAndTasks(("a",), tasks)
        running = dict.fromkeys(names, NOTHING)
        if held == "all by one":
            running[names[0]] = all_of
        elif held == "all by all":
            running = dict.fromkeys(names[:7], all_of)
        return lambda: balanced_assignment(running, all_of)

    assert growth(prepared) < MOST


def test_removals_of_one_source_partition_grow_with_its_spellings() -> None:
    """An id of twenty letters has a million keys that Connect takes for one: each letter as it is, or escaped."""

    def prepared(size: int) -> Callable[[], object]:
        spelled = ["".join("a" if number >> bit & 1 else r"\u0061" for bit in range(20)) for number in range(20 * size)]
        keys = [f'["a",{{"id":"{each}"}}]'.encode() for each in spelled]
        made = [Record("t", 0, at, 1, key, b"{}") for at, key in enumerate(keys)]
        made += [Record("t", 0, at, 2, key, None) for at, key in enumerate(reversed(keys), len(keys))]

        def work() -> None:
            fold = OffsetFold()
            for record in made[: len(keys)]:
                fold.apply(record)
            assert len(fold.original_keys("a", {"id": 20 * "a"})) == len(keys)
            for record in made[len(keys) :]:
                fold.apply(record)
            assert not fold.values

        return work

    assert growth(prepared, tries=8) < MOST


@pytest.mark.parametrize("members", [1, 20, 1_000])
@pytest.mark.parametrize("topic_type", TopicType)
def test_memory_is_at_most_four_times_what_is_counted(topic_type: TopicType, members: int) -> None:
    """As docs/monitoring.md says; of values small members take most."""
    keys = {
        TopicType.CONFIG: "connector-{}",
        TopicType.STATUS: "status-task-a-{}",
        TopicType.OFFSET: '["a",{{"n":{}}}]',
    }
    room = GroupRoom(most_bytes=10**9)
    fold = TopicFold("t", topic_type, room=room, timed=True)
    tracemalloc.start()
    try:
        for number in range(1_000 // members + 50):
            value = ",".join(f'"{number}.{member}":"{number}"' for member in range(members))
            value = f'{{"properties":{{{value}}}}}' if topic_type is TopicType.CONFIG else f"{{{value}}}"
            fold.apply([Record("t", 0, number, 1, f"g.{keys[topic_type].format(number)}".encode(), value.encode())])
        assert tracemalloc.get_traced_memory()[0] < 4 * fold._folds._kept + 20_000  # of the first group
    finally:
        tracemalloc.stop()


def test_a_config_topic_is_looked_at_for_a_fence_without_the_long_keys_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Megabytes in front of a key or behind it compress to nothing on the topic."""
    long = "a" * 50_000
    keys = [f"g{number % 7}.connector-{number}{long}" for number in range(500)] + [
        "g.connector-own",
        f"{long}.task-a-0",
    ]
    worker = WorkerConfig.from_properties(properties_of("127.0.0.1:1", "g"))
    records = (Record("t", 0, at, 1, key.encode(), b"{}") for at, key in enumerate(keys))
    monkeypatch.setattr("migrator.topic_fence._all_records", lambda *_: records)
    tracemalloc.start()
    try:
        connectors, fences = use_of(worker, "t", {ClusterGroupId("g")})
        assert tracemalloc.get_traced_memory()[0] < 500_000 + sys.getsizeof(long)
    finally:
        tracemalloc.stop()
    assert (connectors, fences) == ({**{f"g{number}": {""} for number in range(7)}, "g": {"own"}}, {})


@pytest.mark.parametrize(("most", "kept", "counted"), [(20_000, 10_000, 10_000), (100, 79, 10_112)])
def test_what_others_have_is_compared_by_a_sample(
    monkeypatch: pytest.MonkeyPatch, most: int, kept: int, counted: int
) -> None:
    monkeypatch.setattr("connect_share.backup.rewrite._MOST_HASHES", most)
    before, few, rest, more = (Sample() for _ in range(4))
    for found, numbers in (
        (before, range(10_000)),
        (few, range(9_000)),
        (rest, range(9_000, 10_000)),
        (more, range(30_000)),
    ):
        for number in numbers:
            found.add(number * 0x9E3779B97F4A7C15 % 2**64)
    assert (len(before.hashes), len(before)) == (kept, counted)
    assert len(before.without(few)) == pytest.approx(1_000, rel=0.1)
    assert not before.without(few, rest)
    assert not before.without(more)


def test_the_guard_notices_a_square() -> None:
    def prepared(size: int) -> Callable[[], object]:
        numbers = list(range(10 * size))
        return lambda: [number in numbers for number in islice(reversed(numbers), size)]

    assert growth(prepared, tries=8) > MOST
