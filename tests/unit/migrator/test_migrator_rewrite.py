"""What the transform keeps and what it leaves: nothing is lost, nothing goes to a wrong group or job."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.model.keys import KEY_PREFIXES, connector_of, split_key
from connect_share.model.records import Record, TopicType
from migrator import KafkaConnectTopicMigrator, Skipped, SkipReason
from tests.unit.model.test_keys import is_legal

HOSTILE_NAMES = [
    "orders",
    "orders-eu",
    "orders-0",
    "orders-",
    "-",
    "a.b-c-1",
    "my.conn",
    "42",
    "connector-x",
    "x.connector-y",
    "status-topic-t:connector-x",
    "with space:colon",
    "größe-😀-日本",
    "gone.for-good-2",
    "B.connector-foo",
    'quo"te\\',
    "task-orders-0",
    "session-key",
]


# A key that Connect writes for a connector, by kind.
KEYS = {
    "task": (TopicType.CONFIG, "task-{}-0"),
    "status-task": (TopicType.STATUS, "status-task-{}-12"),
    "status-connector": (TopicType.STATUS, "status-connector-{}"),
    "status-topic": (TopicType.STATUS, "status-topic-server1.inv.orders:connector-{}"),
    "offset": (TopicType.OFFSET, '[{},{{"filename":"x.txt","connector":"orders"}}]'),
    **{kind: (TopicType.CONFIG, f"{kind}-{{}}") for kind in ("target-state", "connector", "commit", "tasks-fencing")},
}


def at(topic_type: TopicType, key: bytes) -> Record:
    return Record(topic_type.value, 0, 0, 1, key, b"{}")


def migrator_of(topic_type: TopicType, destination: str = "B", **more: str) -> KafkaConnectTopicMigrator:
    named = {name.replace("_", "."): value for name, value in more.items()}
    return KafkaConnectTopicMigrator({"destination.cluster.name": destination, "topic.type": topic_type.value, **named})


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("job", HOSTILE_NAMES)
def test_a_job_takes_its_own_keys_and_no_others(kind: str, job: str) -> None:
    for name in HOSTILE_NAMES:
        topic_type, template = KEYS[kind]
        key = template.format(json.dumps(name) if kind == "offset" else name).encode()
        after = migrator_of(topic_type, migrate_job="true", job_name=job).apply(at(topic_type, key))
        if name == job:
            assert isinstance(after, Record), (kind, name)
            assert after.key == b"B." + key
        else:
            assert after == Skipped(SkipReason.OTHER_JOB), (kind, name)


@pytest.mark.parametrize(
    ("topic_type", "key", "connector"),
    [
        (TopicType.CONFIG, b"task-a.b-c-1-0", "a.b-c-1"),
        (TopicType.CONFIG, b"task-foo-x", None),
        (TopicType.CONFIG, b"session-key", None),
        (TopicType.CONFIG, b"logger-cluster-org.apache.kafka", None),
        (TopicType.CONFIG, b"connector-\xff", "\ufffd"),
        (TopicType.STATUS, b"status-topic-t:connector-a:b", "a:b"),
        (TopicType.STATUS, b"status-topic-foo:xxxxxxxxxxbar", "bar"),
        (TopicType.STATUS, b"status-topic-nocolon", None),
        (TopicType.OFFSET, b'["c",null]', "c"),
        (TopicType.OFFSET, b'["c"]', "c"),
        (TopicType.OFFSET, b'["\\uD83D\\uDE00",{}]', "😀"),
        (TopicType.OFFSET, b'["a",{}].["b",{}]', "a"),
        (TopicType.OFFSET, b'[1,{"c":"c"}]', None),
        (TopicType.OFFSET, b"[]", None),
        (TopicType.OFFSET, b"[garbage", None),
    ],
)
def test_the_connector_of_a_key_is_java_s(topic_type: TopicType, key: bytes, connector: str | None) -> None:
    assert connector_of(topic_type, key) == connector


@pytest.mark.parametrize("key", [b"logger-cluster-org.x", b"task-foo-x", b"session-key"])
def test_keys_of_no_connector_go_with_no_job(key: bytes) -> None:
    migrator = migrator_of(TopicType.CONFIG, migrate_job="true", job_name="org.x")
    expected = SkipReason.SESSION_KEY if key == b"session-key" else SkipReason.NO_JOB
    assert migrator.apply(at(TopicType.CONFIG, key)) == Skipped(expected)


GROUPS = (
    st.lists(st.sampled_from(["a", "B", "connector", "task", "x-y", "session-key", "0", "_"]), min_size=1, max_size=3)
    .map(".".join)
    .filter(is_legal)
)
TAILS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(HOSTILE_NAMES),
    st.lists(st.sampled_from([p.decode() for p in KEY_PREFIXES] + [".", "-", ":", "0"]), max_size=5).map("".join),
)
ORIGINALS = st.one_of(
    st.tuples(st.sampled_from(KEY_PREFIXES), TAILS).map(lambda pair: pair[0] + pair[1].encode("utf-8", "replace")),
    TAILS.map(lambda name: json.dumps([name, {"f": name}]).encode()),
)


def type_of(original: bytes) -> TopicType:
    if original.startswith(b"["):
        return TopicType.OFFSET
    return TopicType.STATUS if original.startswith(b"status-") else TopicType.CONFIG


@given(original=ORIGINALS, destination=GROUPS)
def test_a_plain_key_comes_back_whole(original: bytes, destination: str) -> None:
    topic_type = type_of(original)
    after = migrator_of(topic_type, destination).apply(at(topic_type, original))
    if original.startswith(b"restart-connector-"):
        assert after == Skipped(SkipReason.RESTART_REQUEST)
    else:
        assert isinstance(after, Record)
        assert after.key is not None
        assert split_key(topic_type, after.key) == (destination, original)


@given(
    records=st.lists(st.tuples(st.one_of(st.none(), GROUPS), ORIGINALS), max_size=30),
    source=GROUPS,
    destination=GROUPS,
    topic_type=st.sampled_from(TopicType),
)
def test_every_record_is_written_or_has_its_reason(
    records: list[tuple[str | None, bytes]], source: str, destination: str, topic_type: TopicType
) -> None:
    """Plain keys and those of one group, split over two transforms: nothing is taken twice or lost."""
    plain = migrator_of(topic_type, destination)
    of_group = migrator_of(topic_type, destination, old_client="false", source_cluster_names=source)
    for group, original in records:
        key = original if group is None else group.encode() + b"." + original
        answers = [migrator.apply(at(topic_type, key)) for migrator in (plain, of_group)]
        taken = [answer for answer in answers if isinstance(answer, Record)]
        reasons = {answer.reason for answer in answers if isinstance(answer, Skipped)}
        if topic_type is not type_of(original) or original.startswith(b"restart-connector-"):
            assert not taken
            assert reasons
        elif group is None:
            assert len(taken) == 1
            assert reasons == {SkipReason.PLAIN_KEY}
        elif group == source:
            assert len(taken) == 1
            assert reasons == {SkipReason.ALREADY_PREFIXED}
        else:
            assert not taken
            assert reasons == {SkipReason.ALREADY_PREFIXED, SkipReason.FOREIGN_GROUP}
        assert all(answer.key == destination.encode() + b"." + original for answer in taken)


@given(key=st.one_of(st.none(), st.binary(max_size=60)), topic_type=st.sampled_from(TopicType))
def test_arbitrary_bytes_never_raise(key: bytes | None, topic_type: TopicType) -> None:
    migrator = migrator_of(topic_type, migrate_job="true", job_name="x")
    after = migrator.apply(Record("t", 0, 0, 0, key, None))
    assert isinstance(after, Record | Skipped)
