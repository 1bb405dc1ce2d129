"""Verifying with a look at the bytes first finds what verifying by Connect's rules alone finds."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect_share.model.keys import ClusterGroupId, connector_of, own_key
from connect_share.model.records import OffsetRange, Record, TopicType
from connect_share.transform.rules import KeyTransform
from connect_share.worker_config.client_settings import ClientSettings, Isolation
from migrator.verify.equality import compare_states
from migrator.verify.quick_compare import KeySpaceDigest, KeySpaces, OffsetDigest
from migrator.verify.verification import VerifyJob, run_together
from tests.support.sides import Held, Message

GROUP = ClusterGroupId("big.team")
NO_BROKER = ClientSettings({"bootstrap.servers": "nowhere:1"})


def side(records: Iterable[Record]) -> Held:
    return Held((), Isolation.READ_UNCOMMITTED, NO_BROKER, "t", tuple(records), at_once=3)


def job(
    topic_type: TopicType,
    there: Sequence[Record],
    here: Sequence[Record],
    source: str | None = None,
    group: ClusterGroupId | None = GROUP,
) -> VerifyJob:
    transform = KeyTransform(topic_type, source is None, None if source is None else frozenset({source}), group)
    return VerifyJob(0, source, transform, side(there), side(here))


NAMES = ("a", "a-1", "b", "", "x.y", "ä")
CONFIG_KEYS = [
    *(f"{kind}-{name}" for kind in ("connector", "target-state", "commit", "tasks-fencing") for name in NAMES),
    *(f"task-{name}-{task}" for name in NAMES for task in ("0", "1", "00", "x")),
    "session-key",
    "restart-connector-a",
    "logger-cluster-org.x",
]
STATUS_KEYS = [
    *(f"status-connector-{name}" for name in NAMES),
    *(f"status-task-{name}-{task}" for name in NAMES for task in ("0", "1", "01", "1-", "x")),
    *(f"status-topic-{topic}:connector-{name}" for topic in ("t", "") for name in NAMES),
    "status-topic-t",
]
OFFSET_KEYS = ['["a",{"p":1}]', '["a",{"q":1,"p":1}]', '["a",null]', '["b",{"p":1}]', "[", "[1,2]", '["a"]', '["ä",{}]']
CONFIG_VALUES = [
    '{"properties":{"name":"a"}}',
    '{"properties":{"name":"a","x":"1"}}',
    '{"tasks":0}',
    '{"tasks":1}',
    '{"tasks":2}',
    '{"task-count":1}',
    '{"state":"PAUSED","state.v2":"STOPPED"}',
    '{"state":"STARTED"}',
    "null",
    "{",
    "",
    None,
]
STATUS_VALUES = [
    *(
        f'{{"state":"{state}","trace":null,"worker_id":"w","generation":{generation}}}'
        for state in ("RUNNING", "UNASSIGNED", "FAILED")
        for generation in (1, 2)
    ),
    '{"topic":{"name":"t","connector":"a","task":0,"discoverTimestamp":1}}',
    '{"state":"?"}',
    "null",
    None,
]
OFFSET_VALUES = ['{"position":1}', '{"position":2}', '{"position": 2}', "", "null", None]
ALPHABETS = {
    TopicType.CONFIG: (CONFIG_KEYS, CONFIG_VALUES),
    TopicType.STATUS: (STATUS_KEYS, STATUS_VALUES),
    TopicType.OFFSET: (OFFSET_KEYS, OFFSET_VALUES),
}


def logs(topic_type: TopicType) -> st.SearchStrategy[list[Record]]:
    keys, values = ALPHABETS[topic_type]
    drawn = st.tuples(st.sampled_from(keys), st.sampled_from(values), st.integers(0, 5))
    return st.lists(drawn, max_size=14).map(
        lambda entries: [
            Record("t", 0, at, timestamp_ms, key.encode(), None if value is None else value.encode())
            for at, (key, value, timestamp_ms) in enumerate(entries)
        ]
    )


def prefixed(records: Iterable[Record], group: str = GROUP) -> list[Record]:
    return [replace(record, key=f"{group}.".encode() + (record.key or b"")) for record in records]


@st.composite
def both_sides(draw: Any) -> tuple[TopicType, list[Record], list[Record]]:
    """A log, and a copy to which things have happened: compaction, losses, later writes, foreign records."""
    topic_type = draw(st.sampled_from(TopicType))
    there = draw(logs(topic_type))
    here = prefixed(there)
    if draw(st.booleans()):  # compacted
        here = [each for at, each in enumerate(here) if each.key not in {later.key for later in here[at + 1 :]}]
    lost = draw(st.sets(st.integers(0, 20), max_size=2))
    here = [each for at, each in enumerate(here) if at not in lost]
    here += prefixed(draw(logs(topic_type)))[: draw(st.integers(0, 2))]
    if topic_type is TopicType.CONFIG and draw(st.booleans()):
        here.append(Record("t", 0, 99, 9, f"{GROUP}.target-state-".encode(), b"null"))
    foreign = prefixed(draw(logs(topic_type))[:2], "big") + draw(logs(topic_type))[:2]
    return topic_type, there, foreign + here


@settings(max_examples=600)
@given(both_sides())
def test_the_same_differences(sides: tuple[TopicType, list[Record], list[Record]]) -> None:
    topic_type, there, here = sides
    expected = compare_states(topic_type, there, here, cluster_group_id=GROUP)
    assert sorted(map(str, job(topic_type, there, here).run())) == sorted(map(str, expected))


def test_two_keys_have_each_other_s_values() -> None:
    for number in range(200):
        keys = [f'["a",{{"p":{each}}}]' for each in (number, -number - 1)]
        there, here = (
            [
                Record("t", 0, at, 0, key.encode(), value)
                for at, (key, value) in enumerate(zip(keys, values, strict=True))
            ]
            for values in ((b'{"n":1}', b'{"n":2}'), (b'{"n":2}', b'{"n":1}'))
        )
        assert len(job(TopicType.OFFSET, there, prefixed(here)).run()) == 2


@settings(max_examples=200)
@given(both_sides(), st.integers(1, 9))
def test_the_same_differences_some_partitions_at_a_time(
    sides: tuple[TopicType, list[Record], list[Record]], at_once: int
) -> None:
    topic_type, *records = sides
    ranges = tuple(OffsetRange("t", partition, 0, 3) for partition in range(4))
    there, here = ([replace(each, partition=crc32(each.key or b"") % 4) for each in some] for some in records)
    expected = compare_states(topic_type, there, here, cluster_group_id=GROUP)
    made = job(topic_type, there, here)
    parts = replace(
        made, source=replace(made.source, ranges=ranges), destination=replace(made.destination, ranges=ranges)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("migrator.verify.verification.AT_ONCE", at_once)
        assert sorted(map(str, parts.run())) == sorted(map(str, expected))


@pytest.mark.parametrize(("most", "sizes"), [(1, [1, 1, 1]), (10, [1, 2]), (11, [2, 1]), (14, [3])])
def test_parts_are_whole_partitions(most: int, sizes: list[int]) -> None:
    ranges = tuple(OffsetRange("t", partition, 5, end) for partition, end in enumerate((15, 6, 8)))
    parts = [part.ranges for part in replace(side([]), ranges=ranges).parts(most)]
    assert [len(part) for part in parts] == sizes
    assert sum(parts, ()) == ranges
    assert [part.ranges for part in side([]).parts(most)] == [()]


def test_what_is_kept_of_many_keys() -> None:
    """Nothing, as long as nothing differs; then what is needed to name the connectors that differ."""

    def digests(make: Callable[[], OffsetDigest], removed: int) -> OffsetDigest:
        digest = make()
        for number in range(20_000):
            key = b'["c%d",{}]' % number
            digest.add(key, Message(Record("t", 0, number, 0, key, b"v")))
            if number == removed:
                digest.add(key, Message(Record("t", 0, number, 0, key, None)))
            if number % 1_000 == 0:
                digest.fold()
        digest.fold()
        return digest

    one, other = digests(OffsetDigest, -1), digests(OffsetDigest, 77)
    assert len(pickle.dumps(one)) < 1_000
    assert one.closer(digests(OffsetDigest, -1)) is None
    looks = 0
    while closer := one.closer(other):
        one, other = digests(closer, -1), digests(closer, 77)
        looks += 1
    assert looks == 2
    assert one.suspects(other) == {"c77"}
    assert len(pickle.dumps(one)) < 50_000


@settings(max_examples=100)
@given(st.sampled_from(TopicType).flatmap(lambda each: st.tuples(st.just(each), logs(each), logs(each), logs(each))))
def test_several_groups_at_once(drawn: tuple[TopicType, list[Record], list[Record], list[Record]]) -> None:
    topic_type, one, two, three = drawn
    here = prefixed(two, "big") + prefixed(one) + three
    groups = [GROUP, ClusterGroupId("big"), None]
    sources = [one, prefixed(two, "old"), prefixed(three, "old")]
    jobs = [
        job(topic_type, there, here, None if number == 0 else "old", group)
        for number, (there, group) in enumerate(zip(sources, groups, strict=True))
    ]
    assert run_together(jobs) == [each.run() for each in jobs] == [[], [], []]
    jobs[1] = job(topic_type, sources[1][1:], here, "old", groups[1])
    expected = compare_states(topic_type, sources[1][1:], here, cluster_group_id="big", source_cluster_group_id="old")
    assert sorted(map(str, run_together(jobs)[1])) == sorted(map(str, expected))


class Taken(KeySpaceDigest):
    """Remembers which plain keys it was given."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []

    def add(self, original: bytes, message: Any) -> None:
        self.keys.append(original)

    def suspects(self, other: Taken) -> set[str | None]:
        raise NotImplementedError


WORDS = [*CONFIG_KEYS, *STATUS_KEYS, *OFFSET_KEYS, ".", "big.", "big.team.", "team", "[", "x"]


@given(st.sampled_from(TopicType), st.lists(st.sampled_from(WORDS), max_size=5), st.binary(max_size=2))
def test_records_go_where_their_key_says(topic_type: TopicType, words: list[str], more: bytes) -> None:
    """One space or many: as the rule on keys has it, restart requests and the like left out."""
    key = "".join(words).encode() + more
    left_out = (b"restart-connector-", b"session-key", b"logger-cluster-")
    spaces: dict[str | None, Taken] = {group: Taken() for group in (None, "big", "big.team")}
    KeySpaces(topic_type, spaces).add([Message(Record("t", 0, 0, 0, key, b""))])
    for group, taken in spaces.items():
        original = own_key(topic_type, key, None if group is None else ClusterGroupId(group))
        expected = [] if original is None or original.startswith(left_out) else [original]
        assert taken.keys == expected
        alone = Taken()
        KeySpaces(topic_type, {group: alone}).add([Message(Record("t", 0, 0, 0, key, b""))])
        assert alone.keys == expected


@pytest.mark.parametrize("topic_type", TopicType)
def test_equal_bytes_are_not_folded(topic_type: TopicType, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, values = ALPHABETS[topic_type]
    there = [
        Record("t", 0, at, at, key.encode(), None if value is None else value.encode())
        for at, (key, value) in enumerate((key, value) for key in keys for value in (*values, values[0]))
        if connector_of(topic_type, key.encode()) != ""  # which looks like the marker's
    ]
    here = [*prefixed(there), Record("t", 0, 0, 0, f"{GROUP}.target-state-".encode(), b"null")]

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("folded")

    monkeypatch.setattr("migrator.verify.verification.compare_states", refuse)
    assert job(topic_type, there, here).run() == []
    with pytest.raises(AssertionError, match="folded"):
        job(topic_type, there, here[len(values) + 1 :]).run()
