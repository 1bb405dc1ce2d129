"""A Java worker's properties as a model: what is required, what is refused and by which name, what it means."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from connect_share.errors import ConfigError, InvalidClusterGroupIdError
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import TopicType
from connect_share.worker_config import Isolation, TopicSet, WorkerConfig
from connect_share.worker_config.worker import split_client_settings
from tests.support import worker_files

WORKER = {**worker_files.WORKER, "bootstrap.servers": " a:9092 , b:9092 ", "group.id": "orders"}
SHARING = "connect.management.topic.sharing.support"
SECRET = "hunter2-zebra"


def test_defaults_are_those_of_java() -> None:
    config = WorkerConfig.from_properties(WORKER)
    assert (config.config_storage_replication_factor, config.offset_storage_replication_factor) == (3, 3)
    assert (config.offset_storage_partitions, config.status_storage_partitions) == (25, 5)
    assert config.exactly_once_source_support == "disabled"
    assert config.worker_sync_timeout_ms == 3_000
    assert (config.offset_flush_interval_ms, config.offset_flush_timeout_ms) == (60_000, 5_000)
    assert config.topic_tracking_enable
    assert config.topic_tracking_allow_reset
    assert config.cluster_group_id is None
    assert config.transactional_id == "connect-cluster-orders"
    assert config.client_settings().bootstrap_servers == "a:9092,b:9092"


@pytest.mark.parametrize("name", list(WORKER))
@pytest.mark.parametrize("value", [None, "", "  "])
def test_what_is_missing_is_named(name: str, value: str | None) -> None:
    properties = {**WORKER, name: value or ""}
    if value is None:
        del properties[name]
    with pytest.raises(ConfigError, match=rf"^{name} is missing") as caught:
        WorkerConfig.from_properties(properties)
    assert caught.value.property_name == name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("config.storage.replication.factor", "0"),
        ("config.storage.replication.factor", "40000"),
        ("offset.storage.replication.factor", "0"),
        ("offset.storage.partitions", "0"),
        ("offset.storage.partitions", "1_000"),
        ("status.storage.partitions", "1.0"),
        ("status.storage.replication.factor", "0x1"),
        ("worker.sync.timeout.ms", "-1"),
        ("offset.flush.interval.ms", "1e3"),
        ("offset.flush.timeout.ms", "99999999999"),
        ("exactly.once.source.support", "true"),
        ("topic.tracking.enable", "yes"),
        (SHARING, "true"),
        ("isolation.level", "serializable"),
        ("config.storage.topic", "a b"),
        ("offset.storage.topic", "."),
        ("status.storage.topic", "x" * 250),
        ("request.timeout.ms", "soon"),
        ("security.protocol", "SSLv3"),
        ("client.dns.lookup", "magic"),
        ("compression.type", "rar"),
    ],
)
def test_what_is_wrong_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        WorkerConfig.from_properties({**WORKER, name: value})
    assert caught.value.property_name == name
    assert name in str(caught.value)


@pytest.mark.parametrize("value", ["-1", "1", "32767", " 2 "])
def test_replication_factors_that_connect_takes(value: str) -> None:
    config = WorkerConfig.from_properties({**WORKER, "status.storage.replication.factor": value})
    assert config.status_storage_replication_factor == int(value)


def test_one_topic_cannot_serve_two_purposes() -> None:
    with pytest.raises(ConfigError, match=r"status\.storage\.topic and offset\.storage\.topic both name topic 'x'"):
        WorkerConfig.from_properties({**WORKER, "offset.storage.topic": "x", "status.storage.topic": "x"})


@pytest.mark.parametrize("value", ["enabled", "ENABLED", " Enabled "])
def test_sharing_makes_the_group_id_the_prefix(value: str) -> None:
    config = WorkerConfig.from_properties({**WORKER, SHARING: value})
    assert config.sharing_enabled
    assert config.cluster_group_id == ClusterGroupId("orders")


def test_a_group_id_that_cannot_be_a_prefix_is_refused_only_with_sharing() -> None:
    properties = {**WORKER, "group.id": "größe"}
    assert WorkerConfig.from_properties(properties).cluster_group_id is None
    with pytest.raises(InvalidClusterGroupIdError, match=r"^group\.id"):
        WorkerConfig.from_properties({**properties, SHARING: "enabled"})


@pytest.mark.parametrize(
    ("exactly_once", "level", "config", "status"),
    [
        ("disabled", None, Isolation.READ_UNCOMMITTED, Isolation.READ_UNCOMMITTED),
        ("preparing", None, Isolation.READ_UNCOMMITTED, Isolation.READ_UNCOMMITTED),
        ("ENABLED", None, Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED),
        ("enabled", "read_uncommitted", Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED),
        ("disabled", "read_committed", Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED),
    ],
)
def test_isolation(exactly_once: str, level: str | None, config: Isolation, status: Isolation) -> None:
    given = {**WORKER, "exactly.once.source.support": exactly_once, **({"isolation.level": level} if level else {})}
    found = WorkerConfig.from_properties(given)
    assert found.isolation(TopicType.CONFIG) is config
    assert found.isolation(TopicType.OFFSET) is config
    assert found.isolation(TopicType.STATUS) is status
    assert found.uses_transactional_leader == (exactly_once != "disabled")


def test_topic_settings_are_those_of_the_prefix_without_the_policy() -> None:
    config = WorkerConfig.from_properties(
        {
            **WORKER,
            "config.storage.min.insync.replicas": "2",
            "config.storage.cleanup.policy": "delete",
            "config.storage.partitions": "7",
            "offset.storage.segment.bytes": "1048576",
        }
    )
    assert config.topic_settings(TopicType.CONFIG) == {"min.insync.replicas": "2"}
    assert config.topic_settings(TopicType.OFFSET) == {"segment.bytes": "1048576"}
    assert config.topic_settings(TopicType.STATUS) == {}


def test_client_ids_are_javas() -> None:
    assert WorkerConfig.from_properties(WORKER).client_id("configs") == "orders-configs"
    assert WorkerConfig.from_properties({**WORKER, "client.id": "w1"}).client_id("statuses") == "orders-w1-statuses"


def test_properties_of_connectors_and_workers_never_reach_a_client() -> None:
    config = WorkerConfig.from_properties(
        {**WORKER, "producer.linger.ms": "7", "rest.port": "1", "plugin.path": "/x", "consumer.fetch.min.bytes": "9"}
    )
    names = {*config.producer_settings().properties, *config.consumer_settings().properties}
    assert names == {"bootstrap.servers", "security.protocol", "group.id"}


SECURE = {
    **WORKER,
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
    f'username="alice" password="{SECRET}";',
    "ssl.truststore.certificates": "-----BEGIN X-----\nAAAA\n-----END X-----",
    "ssl.truststore.password": SECRET,
    "ssl.keystore.key": SECRET,
}


@pytest.mark.parametrize(
    "change",
    [
        {"sasl.jaas.config": f"{SECRET}"},
        {"sasl.jaas.config": f'x.ScramLoginModule required username="{SECRET}";'},
        {"sasl.mechanism": "PLAIN"},
        {"ssl.keystore.key": SECRET},
        {"ssl.keystore.key": SECRET, "ssl.keystore.certificate.chain": SECRET},
        {"ssl.truststore.certificates": SECRET},
        {"sasl.jaas.config": f'x.ScramLoginModule required username="u" password="{SECRET}" tokenauth="true";'},
    ],
)
def test_secrets_are_in_no_error(change: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        WorkerConfig.from_properties({**{k: v for k, v in SECURE.items() if k != "ssl.keystore.key"}, **change})
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__
    assert caught.value.property_name is not None


def test_it_survives_pickling() -> None:
    config = WorkerConfig.from_properties({**WORKER, SHARING: "enabled"})
    config.client_settings()
    again = pickle.loads(pickle.dumps(config))
    assert again == config
    assert again.cluster_group_id == "orders"
    assert again.consumer_settings() == config.consumer_settings()


def test_an_error_of_a_file_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "worker.properties"
    path.write_text("group.id=a/b\nbootstrap.servers=x:1\nconfig.storage.topic=c\n")
    with pytest.raises(ConfigError, match=r"worker\.properties: offset\.storage\.topic is missing") as caught:
        WorkerConfig.from_file(path)
    assert caught.value.property_name == "offset.storage.topic"
    path.write_text(path.read_text() + f"offset.storage.topic=o\nstatus.storage.topic=s\n{SHARING}=enabled\n")
    with pytest.raises(InvalidClusterGroupIdError, match=r"worker\.properties: group\.id"):
        WorkerConfig.from_file(path)


def test_an_undeclared_provider_is_refused_only_where_a_client_needs_the_value() -> None:
    assert WorkerConfig.from_properties({**WORKER, "rest.x": "${vault:a:b}"}).originals["rest.x"] == "${vault:a:b}"
    with pytest.raises(ConfigError, match=r"bootstrap\.servers refers to a config provider that is not declared"):
        WorkerConfig.from_properties({**WORKER, "bootstrap.servers": "${vault:a:b}"})


def test_settings_of_a_command_line_are_parted() -> None:
    java, own = split_client_settings(
        {
            "sasl.jaas.config": "1",
            "ssl.truststore.location": "2",
            "request.timeout.ms": "3",
            "sasl.username": "4",
            "ssl.ca.location": "5",
            "debug": "6",
            "isolation.level": "7",
        }
    )
    assert set(java) == {"sasl.jaas.config", "ssl.truststore.location", "request.timeout.ms", "isolation.level"}
    assert set(own) == {"sasl.username", "ssl.ca.location", "debug"}


def test_a_topic_set_of_flags() -> None:
    topics = {TopicType.OFFSET: "o", TopicType.STATUS: "s"}
    found = TopicSet.from_flags("x:1", topics, {"bootstrap.servers": "y:2", "isolation.level": "read_committed"})
    assert found.settings.bootstrap_servers == "x:1"
    assert found.others is Isolation.READ_COMMITTED
    assert found.isolation(TopicType.STATUS) is Isolation.READ_UNCOMMITTED
    assert found.worker_group is None
    assert TopicSet.from_flags(None, topics, {"bootstrap.servers": "y:2"}).settings.bootstrap_servers == "y:2"
    with pytest.raises(ConfigError, match=r"bootstrap\.servers is missing"):
        TopicSet.from_flags(None, topics, {})
    with pytest.raises(ConfigError, match=r"isolation\.level has to be"):
        TopicSet.from_flags("x:1", topics, {"isolation.level": "none"})


def test_librdkafkas_own_security_settings_replace_the_login_module() -> None:
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "p",
    }
    found = TopicSet.from_flags("x:1", {TopicType.CONFIG: "c"}, given)
    assert found.settings.properties == {"bootstrap.servers": "x:1", **given}


def test_flags_win_over_a_worker_file(tmp_path: Path) -> None:
    path = tmp_path / "worker.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in {**WORKER, SHARING: "enabled"}.items()))
    found = TopicSet.from_worker_file(
        path,
        bootstrap_servers="z:3",
        topics={TopicType.STATUS: "other"},
        client={"debug": "broker", "client.rack": "r"},
    )
    assert found.settings.bootstrap_servers == "z:3"
    assert found.settings.properties["debug"] == "broker"
    assert found.settings.properties["client.rack"] == "r"
    assert found.topics == {TopicType.CONFIG: "configs", TopicType.OFFSET: "offsets", TopicType.STATUS: "other"}
    assert found.worker_group == ("orders",)
    with pytest.raises(ConfigError, match=r"^security.protocol has to be one of"):  # which the file does not say
        TopicSet.from_worker_file(path, client={"security.protocol": "FOO"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "storage.topic is missing; the file is empty; give the properties file of a distributed worker"),
        ("name=c\nconnector.class=X\n", "this is the configuration of a connector"),
        ("offset.storage.file.filename=/tmp/offsets\n", "this is the file of a standalone worker"),
        ("clusters = A, B\nA->B.enabled = true\n", "this is the file of a dedicated MirrorMaker 2"),
        ("debezium.source.offset.storage.topic=dbz-offsets\n", "this is the file of Debezium Server"),
        ("CONNECT_GROUP_ID=pay\nCONNECT_BOOTSTRAP_SERVERS=b:1\n", "these are environment variables of a container"),
        ("key.converter=X\noffset.storage.topic=__my\n", "this may be a worker configuration of MSK Connect"),
        ("group.id=x\n", "storage.topic is missing; a distributed worker's file has it"),
    ],
)
def test_another_file_is_named_as_what_it_is(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "other.properties"
    path.write_text(text, "ascii")
    with pytest.raises(ConfigError, match=said):
        WorkerConfig.from_file(path)
