"""States are equal after a move, every tampering is found, and a look at the bytes first finds the same."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect_share.kafka.read import Reader
from connect_share.model.keys import ClusterGroupId, connector_of, own_key
from connect_share.model.records import OffsetRange, Record, TopicType
from connect_share.transform.rules import KeyTransform
from connect_share.worker_config import ClientSettings, Isolation
from migrator import KafkaConnectTopicMigrator
from migrator.bystanders import portions
from migrator.verify.equality import KeySpaceDigest, KeySpaces, Mismatch, OffsetDigest, compare_newest, compare_states
from migrator.verify.verification import VerifyJob, run_together
from tests.support.sides import Held, Message

GROUP = ClusterGroupId("big.team")
NO_BROKER = Reader(ClientSettings({"bootstrap.servers": "nowhere:1"}), "t", Isolation.READ_UNCOMMITTED)


def side(records: Iterable[Record]) -> Held:
    return Held((), NO_BROKER, tuple(records), at_once=3)


def job(
    topic_type: TopicType,
    there: Sequence[Record],
    here: Sequence[Record],
    source: str | None = None,
    group: ClusterGroupId | None = GROUP,
) -> VerifyJob:
    transform = KeyTransform(topic_type, source is None, None if source is None else frozenset({source}), group)
    return VerifyJob(transform, side(there), side(here))


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


@settings(max_examples=600)
@given(both_sides(), st.sampled_from([1, 4]), st.integers(1, 9))
def test_the_same_differences(
    sides: tuple[TopicType, list[Record], list[Record]], partitions: int, at_once: int
) -> None:
    """However many partitions are compared at a time."""
    topic_type, *records = sides
    ranges = tuple(OffsetRange("t", partition, 0, 3) for partition in range(partitions))
    there, here = ([replace(each, partition=crc32(each.key or b"") % partitions) for each in some] for some in records)
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
    parts = [tuple(part) for part in portions(ranges, most)]
    assert [len(part) for part in parts] == sizes
    assert sum(parts, ()) == ranges
    assert list(portions((), most)) == [[]]


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


ACME = "com.acme.orders"
SECRET = "pass-the-salt"  # (stands for any configuration value)


def log(topic_type: TopicType, pairs: Iterable[tuple[str, str | None]]) -> list[Record]:
    """Return the records of a partition, oldest first."""
    return [
        Record(
            topic_type.value,
            0,
            number,
            1_700_000_000_000 + number,
            key.encode(),
            None if value is None else value.encode(),
        )
        for number, (key, value) in enumerate(pairs)
    ]


def moved(topic_type: TopicType, source: list[Record], group: str = ACME) -> list[Record]:
    """Apply the transform and lay the result down, as a copy does."""
    migrator = KafkaConnectTopicMigrator({"destination.cluster.name": group, "topic.type": topic_type.value})
    answers = [migrator.apply(record) for record in source]
    taken = [answer for answer in answers if isinstance(answer, Record)]
    return [replace(record, topic="shared", offset=100 + number) for number, record in enumerate(taken)]


Pairs = list[tuple[str, str | None]]

CONFIG: Pairs = [
    ("session-key", '{"key":"AAEC","algorithm":"HmacSHA256","creation-timestamp":1}'),
    ("connector-a.b", f'{{"properties":{{"name":"a.b","password":"{SECRET}","tasks.max":"2"}}}}'),
    ("task-a.b-0", f'{{"properties":{{"password":"{SECRET}"}}}}'),
    ("task-a.b-1", '{"properties":{"x":"1"}}'),
    ("commit-a.b", '{"tasks":2}'),
    ("tasks-fencing-a.b", '{"task-count":2}'),
    ("target-state-a.b", '{"state":"PAUSED","state.v2":"STOPPED"}'),
    ("connector-gone", '{"properties":{}}'),
    ("connector-gone", None),
    ("target-state-gone", None),
    ("target-state-later", '{"state":"PAUSED"}'),
    ("tasks-fencing-gone", '{"task-count":7}'),
    ("connector-broken", '{"properties":{}}'),
    ("task-broken-1", '{"properties":{}}'),
    ("commit-broken", '{"tasks":2}'),
]
STATUS: Pairs = [
    ("status-connector-a.b", '{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":3}'),
    ("status-task-a.b-0", f'{{"state":"FAILED","trace":"{SECRET}","worker_id":"w:1","generation":3}}'),
    ("status-task-orphan-0", '{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":3}'),
    (
        "status-topic-inv.t:connector-a.b",
        '{"topic":{"name":"inv.t","connector":"a.b","task":0,"discoverTimestamp":5}}',
    ),
]
OFFSET: Pairs = [
    ('["a.b",{"filename":"x.txt"}]', '{"position":42}'),
    ('["a.b",{"filename":"y.txt"}]', "{}"),
    ('["a.b",{"filename":"z.txt"}]', '{"position":1}'),
    ('["a.b",{"filename":"z.txt"}]', None),
    ('["a.b",null]', '{"position":1}'),
]
ORIGINALS = {TopicType.CONFIG: CONFIG, TopicType.STATUS: STATUS, TopicType.OFFSET: OFFSET}


def replaced(pairs: Pairs, key: str, old: str, new: str) -> Pairs:
    changed = [(k, v.replace(old, new) if k == key and v is not None else v) for k, v in pairs]
    assert changed != pairs
    return changed


CONF, STAT, OFFS = TopicType.CONFIG, TopicType.STATUS, TopicType.OFFSET
GONE, AB = ("connector-gone", None), ("a.b", None)
DIFFERENT, MISSING, UNEXPECTED = Mismatch.DIFFERENT, Mismatch.MISSING, Mismatch.UNEXPECTED
X, Z = '["a.b",{"filename":"x.txt"}]', '["a.b",{"filename":"z.txt"}]'
FEWER_TASKS: Pairs = [("task-broken-0", '{"properties":{}}'), ("task-broken-1", "{}"), ("commit-broken", '{"tasks":1}')]


@pytest.mark.parametrize(("there", "here"), [("1", "true"), ("1", "1.0"), ("0", "-0.0"), ("false", "0")])
def test_equal_numbers_and_booleans_of_other_types_are_different(there: str, here: str) -> None:
    sides = [log(CONF, [("connector-c", f'{{"properties":{{"x":{value}}}}}')]) for value in (there, here)]
    (found,) = compare_states(CONF, sides[0], moved(CONF, sides[1]), cluster_group_id=ACME)
    assert (found.field, found.problem) == ("x", DIFFERENT)


@pytest.mark.parametrize("topic_type", [TopicType.STATUS, TopicType.OFFSET])
def test_of_values_that_are_not_opened_a_removed_one_is_none(topic_type: TopicType) -> None:
    source = log(topic_type, ORIGINALS[topic_type])
    removed = [*source, replace(source[0], offset=len(source), value=None)]
    transform = KeyTransform.between(topic_type, None, ClusterGroupId(ACME))
    copy = moved(topic_type, source[1:])
    assert compare_newest(removed, copy, transform) == []
    (found,) = compare_newest(source, copy, transform)
    assert found.problem is MISSING


@pytest.mark.parametrize(
    ("topic_type", "pairs", "expected"),
    [
        (CONF, replaced(CONFIG, "connector-a.b", SECRET, "sugar"), ("connector_config", *AB, "password", DIFFERENT)),
        (CONF, replaced(CONFIG, "connector-a.b", '"2"', "2"), ("connector_config", *AB, "tasks.max", DIFFERENT)),
        (CONF, replaced(CONFIG, "task-a.b-1", '"x":"1"', ""), ("task_config", "a.b", "1", "x", MISSING)),
        (CONF, replaced(CONFIG, "task-a.b-1", '"1"', '"1","y":"2"'), ("task_config", "a.b", "1", "y", UNEXPECTED)),
        (CONF, replaced(CONFIG, "target-state-a.b", "STOPPED", "PAUSED"), ("target_state", *AB, None, DIFFERENT)),
        (
            CONF,
            replaced(CONFIG, "target-state-later", "PAUSED", "BOGUS"),
            ("target_state", "later", None, None, MISSING),
        ),
        (CONF, replaced(CONFIG, "tasks-fencing-gone", "7", "8"), ("task_count_record", "gone", None, None, DIFFERENT)),
        (CONF, [pair for pair in CONFIG if pair != GONE], ("connector", "gone", None, None, UNEXPECTED)),
        (CONF, [*CONFIG, *FEWER_TASKS], ("inconsistent", "broken", None, None, DIFFERENT)),
        (STAT, replaced(STATUS, "status-task-a.b-0", SECRET, "x"), ("task_status", "a.b", "0", "trace", DIFFERENT)),
        (STAT, STATUS[:2] + STATUS[3:], ("task_status", "orphan", "0", None, MISSING)),
        (STAT, STATUS[:3], ("active_topic", "a.b", "inv.t", None, MISSING)),
        (OFFS, replaced(OFFSET, X, "42", "43"), ("offset", "a.b", X, None, DIFFERENT)),
        (OFFS, OFFSET[:3], ("offset", "a.b", Z, None, UNEXPECTED)),
        (OFFS, OFFSET[:4], ("offset", "a.b", '["a.b",null]', None, MISSING)),
    ],
)
def test_a_difference_is_named_without_its_value(
    topic_type: TopicType, pairs: Pairs, expected: tuple[str, str, str | None, str | None, Mismatch]
) -> None:
    source = log(topic_type, ORIGINALS[topic_type])
    found = compare_states(topic_type, source, moved(topic_type, log(topic_type, pairs)), cluster_group_id=ACME)
    assert {(each.cluster_group_id, each.topic_type) for each in found} == {(ACME, topic_type)}
    assert expected in [(each.kind, each.connector, each.item, each.field, each.problem) for each in found]
    shown = " ".join([*map(str, found), *map(repr, found), *(d.model_dump_json() for d in found)])
    assert SECRET not in shown
    assert "sugar" not in shown
    assert pickle.loads(pickle.dumps(found)) == found
