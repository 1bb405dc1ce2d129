"""What the transform keeps and what it leaves, and its six properties of KIP-1173."""

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.errors import ConfigError
from connect_share.model.keys import KEY_PREFIXES, connector_of
from connect_share.model.records import Record, TopicType
from migrator import KafkaConnectTopicMigrator, Skipped, SkipReason
from tests.support.histories import NAMES
from tests.unit.model.test_keys import is_legal

HOSTILE_NAMES = [*NAMES, "jdbc-", "-", "42", "status-topic-t:connector-x", "session-key", 'quo"te\\']


# A key that Connect writes for a connector, by kind.
KEYS = {
    "task": (TopicType.CONFIG, "task-{}-0"),
    "status-task": (TopicType.STATUS, "status-task-{}-12"),
    "status-connector": (TopicType.STATUS, "status-connector-{}"),
    "status-topic": (TopicType.STATUS, "status-topic-server1.inv.orders:connector-{}"),
    "offset": (TopicType.OFFSET, '[{},{{"filename":"x.txt","connector":"jdbc"}}]'),
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
        (TopicType.CONFIG, b"task-foo-x", None),
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


STRAIGHT = {"destination.cluster.name": "B", "topic.type": "config"}
OF_ANY = {**STRAIGHT, "old.client": "false"}
OF_A = {**OF_ANY, "source.cluster.names": "A"}
JOB = {**OF_ANY, "migrate.job": "true", "job.name": "x"}


def record(key: bytes | None, value: bytes | None = b"{}") -> Record:
    return Record("t", 3, 17, 1_700_000_000_000, key, value, (("h", None), ("h", b"")))


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({}, "topic.type"),
        ({"topic.type": "config"}, "destination.cluster.name"),
        ({"topic.type": "config", "destination.cluster.name": "  "}, "destination.cluster.name"),
        ({"topic.type": "config", "destination.cluster.name": "task-runner"}, "destination.cluster.name"),
        ({"topic.type": "config", "destination.cluster.name": "a,b"}, "destination.cluster.name"),
        ({"destination.cluster.name": "B"}, "topic.type"),
        ({**STRAIGHT, "topic.type": "CONFIG"}, "topic.type"),
        ({**STRAIGHT, "old.client": "yes"}, "old.client"),
        ({**STRAIGHT, "migrate.job": "1"}, "migrate.job"),
        ({**STRAIGHT, "migrate.job": "true"}, "job.name"),
        ({**STRAIGHT, "migrate.job": "true", "job.name": " "}, "job.name"),
        ({**STRAIGHT, "migrate.job": "true", "job.name": "a\nb"}, "job.name"),
        ({**STRAIGHT, "job.name": "orders"}, "job.name"),
        ({**STRAIGHT, "source.cluster.names": "A"}, "source.cluster.names"),
        ({**STRAIGHT, "old.client": "true", "source.cluster.names": "A"}, "source.cluster.names"),
        (OF_ANY, "source.cluster.names"),
        ({**OF_ANY, "source.cluster.names": "A,,C"}, "source.cluster.names"),
        ({**OF_ANY, "source.cluster.names": "A,commit-x"}, "source.cluster.names"),
        ({**STRAIGHT, "source.cluster.name": "A"}, "source.cluster.name"),
        ({**STRAIGHT, "old.client": True}, "old.client"),
        ({**STRAIGHT, "topic.type": TopicType.CONFIG}, "topic.type"),
    ],
)
def test_bad_or_contradictory_properties_are_named(properties: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        KafkaConnectTopicMigrator(properties)
    assert caught.value.property_name == named
    assert named in str(caught.value)


def test_blanks_and_cases_do_not_matter() -> None:
    strict = {**OF_ANY, "source.cluster.names": "A,com.acme"}
    loose = {
        "destination.cluster.name": " B ",
        "topic.type": " config ",
        "old.client": " FALSE",
        "source.cluster.names": "com.acme ,\tA , A",
        "migrate.job": "False",
    }
    assert KafkaConnectTopicMigrator(loose) == KafkaConnectTopicMigrator(strict)


@pytest.mark.parametrize(
    ("properties", "key", "expected"),
    [
        # plain keys, the default
        (STRAIGHT, b"connector-my.conn", b"B.connector-my.conn"),
        (STRAIGHT, b"session-key", SkipReason.SESSION_KEY),
        (STRAIGHT, b"session-key-x", SkipReason.NOT_A_LEGAL_KEY),
        (STRAIGHT, b"", SkipReason.NOT_A_LEGAL_KEY),
        (STRAIGHT, None, SkipReason.NO_KEY),
        (STRAIGHT, b"\xff\xfe", SkipReason.NOT_A_LEGAL_KEY),
        (STRAIGHT, b"A.session-key", SkipReason.ALREADY_PREFIXED),
        # keys of named groups
        ({**OF_ANY, "source.cluster.names": "A, a.b"}, b"a.b.commit-x", b"B.commit-x"),
        (OF_A, b"A.b.commit-x", SkipReason.FOREIGN_GROUP),
        (OF_A, b"A.session-key", SkipReason.SESSION_KEY),
        (OF_A, b"A.restart-connector-x", SkipReason.RESTART_REQUEST),
        ({**STRAIGHT, "migrate.job": "true", "job.name": "org.x"}, b"logger-cluster-org.x", SkipReason.NO_JOB),
        # one job of whichever group has it
        (JOB, b"A.commit-x", b"B.commit-x"),
        (JOB, b"commit-x", SkipReason.PLAIN_KEY),
        (OF_A | JOB, b"C.commit-x", SkipReason.FOREIGN_GROUP),
    ],
)
def test_keys(properties: dict[str, str], key: bytes | None, expected: bytes | SkipReason) -> None:
    before = record(key)
    after = KafkaConnectTopicMigrator(properties).apply(before)
    if isinstance(expected, SkipReason):
        assert after == Skipped(expected)
    else:
        assert after == Record("t", 3, 17, 1_700_000_000_000, expected, b"{}", (("h", None), ("h", b"")))


def test_it_travels_and_has_reasons() -> None:
    migrator = KafkaConnectTopicMigrator({**STRAIGHT, "migrate.job": "true", "job.name": "größe-😀"})
    assert pickle.loads(pickle.dumps(migrator)) == migrator
    skipped = Skipped(SkipReason.SESSION_KEY)
    assert pickle.loads(pickle.dumps(skipped)) == skipped

    assert all(reason.explanation for reason in SkipReason)
