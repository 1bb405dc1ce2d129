"""States are equal after a move, every tampering is found, and a look at the bytes first finds the same."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import Mock
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect_share.model.keys import ClusterGroupId, connector_of, own_key
from connect_share.model.records import OffsetRange, Record, TopicType, size_of
from connect_share.transform.rules import KeyTransform
from migrator.bystanders import bundles
from migrator.verify.equality import (
    KeySpaceDigest,
    KeySpaces,
    Mismatch,
    OffsetDigest,
    PairHash,
    compare_newest,
    compare_states,
    digest_of,
)
from spark_jobs.verify_plan import verify_in_tasks
from tests.support.both_sides import (
    ALPHABETS,
    CONFIG_KEYS,
    GROUP,
    OFFSET_KEYS,
    STATUS_KEYS,
    both_sides,
    job_of,
    logs,
    prefixed,
)
from tests.support.checked import records
from tests.support.long_forms import LONG
from tests.support.sides import differences, message_of


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
        assert len(differences(job_of(TopicType.OFFSET, there, prefixed(here)))) == 2


@settings(max_examples=1_000 if LONG else 150)
@given(both_sides(), st.sampled_from([1, 4]), st.integers(1, 9))
def test_the_same_differences(
    sides: tuple[TopicType, list[Record], list[Record]], partitions: int, at_once: int
) -> None:
    """However many partitions are compared at a time."""
    topic_type, *records = sides
    ranges = tuple(OffsetRange("t", partition, 0, 3) for partition in range(partitions))
    there, here = ([replace(each, partition=crc32(each.key or b"") % partitions) for each in some] for some in records)
    expected = compare_states(topic_type, there, here, cluster_group_id=GROUP)
    made = job_of(topic_type, there, here)
    parts = replace(
        made, source=replace(made.source, ranges=ranges), destination=replace(made.destination, ranges=ranges)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("migrator.verify.verification.AT_ONCE", at_once)
        patch.setattr("spark_jobs.verify_plan.AT_ONCE", at_once)
        assert sorted(map(str, differences(parts))) == sorted(map(str, expected))


@pytest.mark.parametrize(("most", "sizes"), [(1, [1, 1, 1]), (10, [1, 2]), (11, [2, 1]), (14, [3])])
def test_parts_are_whole_partitions(most: int, sizes: list[int]) -> None:
    ranges = tuple(OffsetRange("t", partition, 5, end) for partition, end in enumerate((15, 6, 8)))
    parts = [tuple(part) for part in bundles(ranges, size_of, most)]
    assert [len(part) for part in parts] == sizes
    assert sum(parts, ()) == ranges
    assert bundles((), size_of, most) == []


def test_what_is_kept_of_many_keys() -> None:
    """Nothing, as long as nothing differs; then what is needed to name the connectors that differ."""

    def digests(make: Callable[[], OffsetDigest], removed: int) -> OffsetDigest:
        digest = make()
        for number in range(20_000):
            key = b'["c%d",{}]' % number
            digest.add(key, message_of(Record("t", 0, number, 0, key, b"v")))
            if number == removed:
                digest.add(key, message_of(Record("t", 0, number, 0, key, None)))
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
    assert looks == 1
    assert one.suspects(other) == {"c77"}


@settings(max_examples=100)
@given(st.sampled_from(TopicType).flatmap(lambda each: st.tuples(st.just(each), logs(each), logs(each), logs(each))))
def test_several_groups_at_once(drawn: tuple[TopicType, list[Record], list[Record], list[Record]]) -> None:
    topic_type, one, two, three = drawn
    here = prefixed(two, "big") + prefixed(one) + three
    groups = [GROUP, ClusterGroupId("big"), None]
    sources = [one, prefixed(two, "old"), prefixed(three, "old")]
    jobs = [
        job_of(topic_type, there, here, None if number == 0 else "old", group)
        for number, (there, group) in enumerate(zip(sources, groups, strict=True))
    ]
    assert differences(*jobs) == []
    jobs[1] = job_of(topic_type, sources[1][1:], here, "old", groups[1])
    expected = compare_states(topic_type, sources[1][1:], here, cluster_group_id="big", source_cluster_group_id="old")
    assert sorted(map(str, differences(*jobs))) == sorted(map(str, expected))


def test_each_topic_is_read_once_in_tasks_of_about_one_size() -> None:
    """However many groups have it, on either side."""
    groups = [ClusterGroupId(f"g{number}") for number in range(60)]
    jobs = [job_of(TopicType.OFFSET, [], [], "old", group) for group in groups]
    ranges = tuple(OffsetRange("shared", partition, 5, 96_005) for partition in range(10))
    shared = replace(jobs[0].destination, ranges=ranges)
    jobs = [replace(job, source=replace(job.source, ranges=ranges[:1]), destination=shared) for job in jobs]
    sizes: list[int] = []
    read: list[OffsetRange] = []

    def run(items: Sequence[Any], function: Callable[[Any], Any], _: str) -> list[Any]:
        for parts in items:
            sizes.append(sum(part.side.offsets for _, part in parts))
            read.extend(each for _, part in parts for each in part.side.ranges if len(part.empty) == len(groups))
        return [function(item) for item in items]

    assert [*verify_in_tasks(jobs, run, 2)] == []
    assert sorted(read) == sorted(ranges)
    assert (len(sizes), max(sizes)) == (11, 96_000)


def test_sums_are_the_same_in_every_process() -> None:
    digests = {each: digest_of(each, PairHash(anywhere=True, separator=b"|")) for each in TopicType}
    for topic_type, key in zip(TopicType, (b"connector-a", b"status-connector-a", b'["a",{"p":1}]'), strict=True):
        digests[topic_type].add(key, message_of(Record("t", 0, 0, 7, key, b"{}")))
        digests[topic_type].fold()
    assert [digest.sums for digest in digests.values()] == [
        {"a": 206120128584421324608621896207921241439},
        {"a": 69678442919684140156734588063065666847},
        {None: 22379792063662395834618267724673824429},
    ]


class Taken(KeySpaceDigest):
    """Remembers which plain keys it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[bytes] = []

    def add(self, original: bytes, message: Any) -> None:
        self.keys.append(original)

    def fold(self) -> None:
        raise NotImplementedError


WORDS = [*CONFIG_KEYS, *STATUS_KEYS, *OFFSET_KEYS, ".", "big.", "big.team.", "team", "[", "x"]


@given(st.sampled_from(TopicType), st.lists(st.sampled_from(WORDS), max_size=5), st.binary(max_size=2))
def test_records_go_where_their_key_says(topic_type: TopicType, words: list[str], more: bytes) -> None:
    """As the rule on keys has it, restart requests and the like left out."""
    key = "".join(words).encode() + more
    left_out = (b"restart-connector-", b"session-key", b"logger-cluster-")
    spaces: dict[str | None, Taken] = {group: Taken() for group in (None, "big", "big.team")}
    KeySpaces(topic_type, spaces).add([message_of(Record("t", 0, 0, 0, key, b""))])
    for group, taken in spaces.items():
        original = own_key(topic_type, key, None if group is None else ClusterGroupId(group))
        expected = [] if original is None or original.startswith(left_out) else [original]
        assert taken.keys == expected


@pytest.mark.parametrize("topic_type", TopicType)
def test_equal_bytes_are_not_folded(topic_type: TopicType, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, values = ALPHABETS[topic_type]
    there = [
        Record("t", 0, at, at, key.encode(), None if value is None else value.encode())
        for at, (key, value) in enumerate((key, value) for key in keys for value in (*values, values[0]))
        if connector_of(topic_type, key.encode()) != ""  # which looks like the marker's
    ]
    here = [*prefixed(there), Record("t", 0, 0, 0, f"{GROUP}.target-state-".encode(), b"null")]
    monkeypatch.setattr("migrator.verify.verification.compare_states", Mock(side_effect=AssertionError("folded")))
    assert differences(job_of(topic_type, there, here)) == []
    with pytest.raises(AssertionError, match="folded"):
        differences(job_of(topic_type, there, here[len(values) + 1 :]))


ACME = "com.acme.orders"
SECRET = "pass-the-salt"  # (stands for any configuration value)


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
    ("status-topic-inv.t:connector-a.b", '{"topic":{"name":"inv.t","connector":"a.b","task":0,"discoverTimestamp":5}}'),
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
    one, other = (("connector-c", f'{{"properties":{{"x":{value}}}}}') for value in (there, here))
    (found,) = compare_states(CONF, records(CONF, one), records(CONF, other, group=ACME), cluster_group_id=ACME)
    assert (found.field, found.problem) == ("x", DIFFERENT)


A1, A2, B1 = ("connector-a", "1"), ("connector-a", "2"), ("connector-b", "1")
X1, X2, Y1, NO_X, NO_Y = (X, "1"), (X, "2"), (Z, "1"), (X, None), (Z, None)


@pytest.mark.parametrize(
    ("topic_type", "there", "here", "expected"),
    [
        (CONF, [A2, B1, A1], [B1, A1], []),
        (CONF, [A1, B1], [A1, B1, ("target-state-", "null")], []),  # the marker, which a copy writes
        (CONF, [A1, B1], [B1, A1], [("order", "a", None, DIFFERENT)]),
        (CONF, [A1, B1], [A2, B1], [("sealed_value", "a", A1[0], DIFFERENT)]),
        (STAT, [("status-connector-a", "1"), ("status-connector-a", None)], [], []),
        (OFFS, [X1, Y1], [Y1, X2, X1], []),
        (OFFS, [X1, NO_X, Y1], [Y1], []),
        (OFFS, [X1, Y1], [Y1, X1, NO_X], [("sealed_value", "a.b", X, MISSING)]),
        (OFFS, [X1, Y1, NO_Y], [X1, Y1], [("sealed_value", "a.b", Z, UNEXPECTED)]),
    ],
)
def test_values_that_are_not_opened_are_compared_by_their_bytes(
    topic_type: TopicType, there: Pairs, here: Pairs, expected: list[tuple[str, str, str | None, Mismatch]]
) -> None:
    transform = KeyTransform.between(topic_type, None, ClusterGroupId(ACME))
    found = compare_newest(records(topic_type, *there), records(topic_type, *here, group=ACME), transform)
    assert [(each.kind, each.connector, each.item, each.problem) for each in found] == expected


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
    source = records(topic_type, *ORIGINALS[topic_type])
    found = compare_states(topic_type, source, records(topic_type, *pairs, group=ACME), cluster_group_id=ACME)
    assert {(each.cluster_group_id, each.topic_type) for each in found} == {(ACME, topic_type)}
    assert expected in [(each.kind, each.connector, each.item, each.field, each.problem) for each in found]
    shown = " ".join([*map(str, found), *map(repr, found), *(d.model_dump_json() for d in found)])
    assert SECRET not in shown
    assert "sugar" not in shown
    assert pickle.loads(pickle.dumps(found)) == found
