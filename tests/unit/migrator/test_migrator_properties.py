"""The six properties of KIP-1173's transform: defaults, spelling, contradictions."""

import pickle

import pytest

from connect_share.errors import ConfigError
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import Record, TopicType
from connect_share.transform.rules import KeyTransform
from migrator import KafkaConnectTopicMigrator, Skipped, SkipReason

STRAIGHT = {"destination.cluster.name": "B", "topic.type": "config"}
OF_ANY = {**STRAIGHT, "old.client": "false"}
OF_A = {**OF_ANY, "source.cluster.names": "A"}
JOB = {**OF_ANY, "migrate.job": "true", "job.name": "x"}


def record(key: bytes | None, value: bytes | None = b"{}") -> Record:
    return Record("t", 3, 17, 1_700_000_000_000, key, value, (("h", None), ("h", b"")))


def test_defaults_take_plain_keys() -> None:
    migrator = KafkaConnectTopicMigrator(STRAIGHT)
    assert migrator.transform == KeyTransform(
        TopicType.CONFIG, plain=True, groups=None, destination=ClusterGroupId("B"), connectors=None
    )


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({}, "topic.type"),
        ({"topic.type": "config"}, "destination.cluster.name"),
        ({"topic.type": "config", "destination.cluster.name": "  "}, "destination.cluster.name"),
        ({"topic.type": "config", "destination.cluster.name": "task-runner"}, "destination.cluster.name"),
        ({"topic.type": "config", "destination.cluster.name": "a.connector-b"}, "destination.cluster.name"),
        ({"topic.type": "config", "destination.cluster.name": "a,b"}, "destination.cluster.name"),
        ({"destination.cluster.name": "B"}, "topic.type"),
        ({**STRAIGHT, "topic.type": "configs"}, "topic.type"),
        ({**STRAIGHT, "topic.type": "CONFIG"}, "topic.type"),
        ({**STRAIGHT, "old.client": "yes"}, "old.client"),
        ({**STRAIGHT, "old.client": ""}, "old.client"),
        ({**STRAIGHT, "migrate.job": "1"}, "migrate.job"),
        ({**STRAIGHT, "migrate.job": "true"}, "job.name"),
        ({**STRAIGHT, "migrate.job": "true", "job.name": " "}, "job.name"),
        ({**STRAIGHT, "migrate.job": "true", "job.name": "a\nb"}, "job.name"),
        ({**STRAIGHT, "job.name": "orders"}, "job.name"),
        ({**STRAIGHT, "source.cluster.names": "A"}, "source.cluster.names"),
        ({**STRAIGHT, "old.client": "true", "source.cluster.names": "A"}, "source.cluster.names"),
        (OF_ANY, "source.cluster.names"),
        ({**OF_ANY, "source.cluster.names": "A,,C"}, "source.cluster.names"),
        ({**OF_ANY, "source.cluster.names": "A,"}, "source.cluster.names"),
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
    loose = KafkaConnectTopicMigrator(
        {
            "destination.cluster.name": " B ",
            "topic.type": " status ",
            "old.client": " FALSE",
            "source.cluster.names": "com.acme ,\tA , A",
            "migrate.job": "False",
        }
    )
    strict = KafkaConnectTopicMigrator(
        {
            "destination.cluster.name": "B",
            "topic.type": "status",
            "old.client": "false",
            "source.cluster.names": "A,com.acme",
        }
    )
    assert loose == strict
    assert hash(loose) == hash(strict)


def test_transforms_of_other_properties_are_others() -> None:
    migrators = {
        KafkaConnectTopicMigrator(properties)
        for properties in (
            STRAIGHT,
            {**STRAIGHT, "topic.type": "status"},
            {**STRAIGHT, "destination.cluster.name": "C"},
            {**STRAIGHT, "migrate.job": "true", "job.name": "j"},
            {**STRAIGHT, "migrate.job": "true", "job.name": "j "},
            OF_A,
            {**JOB, "job.name": "j"},
        )
    }
    assert len(migrators) == 7
    assert len({each.transform.fingerprint for each in migrators}) == 7


@pytest.mark.parametrize(
    ("properties", "key", "expected"),
    [
        # plain keys, the default
        (STRAIGHT, b"connector-my.conn", b"B.connector-my.conn"),
        (STRAIGHT, b"logger-cluster-org.apache", b"B.logger-cluster-org.apache"),
        (STRAIGHT, b"session-key", SkipReason.SESSION_KEY),
        (STRAIGHT, b"restart-connector-a", SkipReason.RESTART_REQUEST),
        (STRAIGHT, b"session-key-x", SkipReason.NOT_A_LEGAL_KEY),
        (STRAIGHT, b"", SkipReason.NOT_A_LEGAL_KEY),
        (STRAIGHT, None, SkipReason.NO_KEY),
        (STRAIGHT, b"\xff\xfe", SkipReason.NOT_A_LEGAL_KEY),
        (STRAIGHT, b"B.connector-a", SkipReason.ALREADY_PREFIXED),
        (STRAIGHT, b"A.session-key", SkipReason.ALREADY_PREFIXED),
        (STRAIGHT, b"status-connector-a", SkipReason.NOT_A_LEGAL_KEY),
        # keys of named groups
        ({**OF_ANY, "source.cluster.names": "A, a.b"}, b"A.commit-x", b"B.commit-x"),
        ({**OF_ANY, "source.cluster.names": "A, a.b"}, b"a.b.commit-x", b"B.commit-x"),
        (OF_A, b"A.b.commit-x", SkipReason.FOREIGN_GROUP),
        (OF_A, b"commit-x", SkipReason.PLAIN_KEY),
        (OF_A, b"A.session-key", SkipReason.SESSION_KEY),
        (OF_A, b"A.restart-connector-x", SkipReason.RESTART_REQUEST),
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


@pytest.mark.parametrize("value", [None, b"", b"null", b"\x00not json"])
def test_values_are_not_looked_at(value: bytes | None) -> None:
    after = KafkaConnectTopicMigrator(STRAIGHT).apply(record(b"connector-a", value))
    assert isinstance(after, Record)
    assert after.value == value


def test_it_travels() -> None:
    migrator = KafkaConnectTopicMigrator({**STRAIGHT, "migrate.job": "true", "job.name": "größe-😀"})
    copy = pickle.loads(pickle.dumps(migrator))
    assert copy == migrator
    assert copy.apply(record("commit-größe-😀".encode())) == migrator.apply(record("commit-größe-😀".encode()))
    skipped = Skipped(SkipReason.SESSION_KEY)
    assert pickle.loads(pickle.dumps(skipped)) == skipped


def test_each_reason_is_explained() -> None:
    assert all(reason.explanation for reason in SkipReason)
