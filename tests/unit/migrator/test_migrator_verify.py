"""States are equal after a move; every tampering is found, and no value is shown."""

import pickle
from collections.abc import Iterable
from dataclasses import replace

import pytest

from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import Record, TopicType
from connect_share.transform.rules import KeyTransform
from migrator import KafkaConnectTopicMigrator
from migrator.verify.equality import Mismatch, compare_newest, compare_states

GROUP = "com.acme.orders"
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


def moved(topic_type: TopicType, source: list[Record], group: str = GROUP) -> list[Record]:
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


@pytest.mark.parametrize("topic_type", TopicType)
def test_a_move_keeps_the_state(topic_type: TopicType) -> None:
    source = log(topic_type, ORIGINALS[topic_type])
    assert compare_states(topic_type, source, moved(topic_type, source), cluster_group_id=GROUP) == []


def test_another_group_s_copy_is_no_copy() -> None:
    source = log(TopicType.STATUS, STATUS)
    other = moved(TopicType.STATUS, source, group="com.acme")
    found = compare_states(TopicType.STATUS, source, other, cluster_group_id=GROUP)
    assert {difference.problem for difference in found} == {Mismatch.MISSING}


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
    (found,) = compare_states(CONF, sides[0], moved(CONF, sides[1]), cluster_group_id=GROUP)
    assert (found.field, found.problem) == ("x", DIFFERENT)


@pytest.mark.parametrize("topic_type", [TopicType.STATUS, TopicType.OFFSET])
def test_of_values_that_are_not_opened_a_removed_one_is_none(topic_type: TopicType) -> None:
    source = log(topic_type, ORIGINALS[topic_type])
    removed = [*source, replace(source[0], offset=len(source), value=None)]
    transform = KeyTransform.between(topic_type, None, ClusterGroupId(GROUP))
    copy = moved(topic_type, source[1:])
    assert compare_newest(topic_type, removed, copy, transform) == []
    (found,) = compare_newest(topic_type, source, copy, transform)
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
    found = compare_states(topic_type, source, moved(topic_type, log(topic_type, pairs)), cluster_group_id=GROUP)
    assert {(each.cluster_group_id, each.topic_type) for each in found} == {(GROUP, topic_type)}
    assert expected in [(each.kind, each.connector, each.item, each.field, each.problem) for each in found]
    shown = " ".join([*map(str, found), *map(repr, found), *(d.model_dump_json() for d in found)])
    assert SECRET not in shown
    assert "sugar" not in shown
    assert pickle.loads(pickle.dumps(found)) == found
