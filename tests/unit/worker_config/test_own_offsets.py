"""What a connector's configuration makes of the clients of its own offsets topic; it may have been written by anyone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connect_share.errors import ConfigError
from connect_share.model.records import TopicType
from connect_share.sealing import KEYS_PROPERTY
from connect_share.stores.connector_offsets import OwnOffsetsConfig, own_offsets_worker_config
from connect_share.worker_config import SHARING_PROPERTY, Isolation, WorkerConfig
from connect_share.worker_config.override_policy import OverridePolicy
from tests.support import worker_files
from tests.support.sealed import key_text
from tests.support.worker_files import providers

POLICY = "connector.client.config.override.policy"
PACKAGE = "org.apache.kafka.connect.connector.policy."
WORKER = {**worker_files.WORKER, "offset.storage.partitions": "7", "offset.storage.segment.bytes": "1048576"}
CLIENTS = ("admin", "consumer", "producer")
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required username='{}' password='{}-secret';"


def login(user: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": JAAS.format(user, user),
    }


def prefixed(prefix: str, properties: dict[str, str]) -> dict[str, str]:
    return {f"{prefix}{name}": value for name, value in properties.items()}


def everywhere(overrides: dict[str, str]) -> dict[str, str]:
    return {f"{client}.override.{name}": value for client in CLIENTS for name, value in overrides.items()}


def own(connector_config: dict[str, Any], **worker: str) -> OwnOffsetsConfig:
    made = own_offsets_worker_config(
        WorkerConfig.from_properties(WORKER | worker), "foo", {"offsets.storage.topic": "own"} | connector_config
    )
    assert made is not None
    return made


def test_policies_that_are_missing_or_not_known() -> None:
    assert OverridePolicy.of({}).allows("bootstrap.servers")
    assert not OverridePolicy.of({POLICY: "Allowlist"}).allows("linger.ms")
    for given_class in ("com.acme.Ours", "none", "", PACKAGE + "None"):
        with pytest.raises(ConfigError, match="All, None, Principal or Allowlist"):
            OverridePolicy.of({POLICY: given_class})
    # It is not asked before there is something to judge.
    assert own({}, **{POLICY: "com.acme.Ours"}).offset_storage_topic == "own"


def test_each_client_is_made_as_java_makes_it() -> None:
    made = own(
        prefixed(
            "producer.override.", {"linger.ms": "9", "client.id": "mine", "acks": "0", "plugin.library.paths": "x"}
        ),
        **login("plain"),
        **prefixed("producer.", login("producer") | {"linger.ms": "5", "batch.size": "1000"}),
        **prefixed("consumer.", {"fetch.min.bytes": "2", "isolation.level": "read_uncommitted"}),
        **prefixed("admin.", {"sasl.jaas.config": JAAS.format("admin", "admin")}),
    )
    admin, consumer, producer = (
        settings.properties for settings in (made.admin_settings(), made.consumer_settings(), made.producer_settings())
    )
    assert (admin["security.protocol"], admin["sasl.username"]) == ("SASL_PLAINTEXT", "admin")
    assert (producer["sasl.username"], producer["linger.ms"], producer["batch.size"]) == ("producer", "9", "1000")
    # As in Java what has no prefix is not for the clients of connectors.
    assert (consumer["security.protocol"], consumer["fetch.min.bytes"]) == ("PLAINTEXT", "2")
    assert "sasl.username" not in consumer
    assert not {"client.id", "acks", "transactional.id", "plugin.library.paths"} & producer.keys()
    assert made.isolation(TopicType.OFFSET) is Isolation.READ_UNCOMMITTED
    assert (made.offset_storage_topic, made.offset_storage_partitions) == ("own", 7)
    assert made.topic_settings(TopicType.OFFSET) == {"segment.bytes": "1048576"}
    assert not made.is_the_workers


def test_only_a_topic_named_as_the_workers_is_shared_and_sealed() -> None:
    sharing = {SHARING_PROPERTY: "enabled", KEYS_PROPERTY: key_text(7)}
    its_own = own({}, **sharing)
    assert (its_own.cluster_group_id, its_own.keys_in_use, its_own.seals(TopicType.OFFSET).refuses) == (
        None,
        None,
        False,
    )
    assert its_own.client_id("x").startswith(WORKER["group.id"])
    of_worker = own({"offsets.storage.topic": WORKER["offset.storage.topic"]}, **sharing)
    assert of_worker.cluster_group_id == WORKER["group.id"]
    assert of_worker.keys_in_use is not None


def test_which_records_are_read() -> None:
    uncommitted = {"consumer.override.isolation.level": "read_uncommitted"}
    assert own({}, **{"isolation.level": "read_uncommitted"}).isolation(TopicType.OFFSET) is Isolation.READ_COMMITTED
    assert own(uncommitted).isolation(TopicType.OFFSET) is Isolation.READ_UNCOMMITTED
    exactly_once = {"exactly.once.source.support": "enabled"}
    assert own(uncommitted, **exactly_once).isolation(TopicType.OFFSET) is Isolation.READ_COMMITTED
    with pytest.raises(ConfigError, match=r"isolation\.level"):
        own({"consumer.override.isolation.level": "serializable"})


def test_with_exactly_once_offsets_are_where_the_records_go() -> None:
    """``Worker.offsetStoreForExactlyOnceSourceTask``: without a topic of its own the worker's, in the producer's cluster."""
    elsewhere = everywhere({"bootstrap.servers": "other:9092"})
    workers = {f"{client}.bootstrap.servers": "other:9092" for client in CLIENTS}
    for mode, connector_config, more in (
        ("enabled", elsewhere, {}),
        ("enabled", {}, workers),
        ("disabled", elsewhere, workers),
        ("enabled", {"producer.override.linger.ms": "1"}, {}),
    ):
        worker = WorkerConfig.from_properties({**WORKER, **more, "exactly.once.source.support": mode})
        made = own_offsets_worker_config(worker, "foo", connector_config)
        if mode == "disabled" or not (more or connector_config is elsewhere):
            assert made is None
        else:
            assert made is not None
            assert made.offset_storage_topic == "offsets"
            assert not made.is_the_workers
            assert made.consumer_settings().bootstrap_servers == "other:9092"


@pytest.mark.parametrize(
    "overrides",
    [
        {"bootstrap.servers": "other:9092"},
        {"security.protocol": "SASL_PLAINTEXT"},
        {"sasl.oauthbearer.token.endpoint.url": "http://other"},
        {"ssl.endpoint.identification.algorithm": ""},
    ],
)
def test_the_workers_credentials_go_nowhere_else(overrides: dict[str, str]) -> None:
    workers = {name: value for client in CLIENTS for name, value in prefixed(f"{client}.", login("worker")).items()}
    with pytest.raises(ConfigError, match="brings the credentials"):
        own(everywhere(overrides), **workers)
    its_own = {"sasl.jaas.config": JAAS.format("its", "its")}
    made = own(everywhere(overrides | its_own), **workers)
    for settings in (made.admin_settings(), made.consumer_settings(), made.producer_settings()):
        assert settings.properties["sasl.username"] == "its"
        assert "worker" not in str(settings.properties.values())


def test_a_server_that_is_allowed_gets_nothing_of_the_worker(tmp_path: Path) -> None:
    """Without a protocol no password is missing; a reference of the connector is not followed."""
    secrets = tmp_path / "secrets.properties"
    secrets.write_text(f"login={JAAS.format('worker', 'worker')}\n")
    lines = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"${{file:{secrets}:login}}"}
    workers = {POLICY: "Allowlist", "connector.client.config.override.allowlist": "bootstrap.servers, client.id"}
    workers |= providers(file="File")
    for prefix in ("", *(f"{client}." for client in CLIENTS)):
        workers |= prefixed(prefix, lines)
    made = own(everywhere({"bootstrap.servers": "other:9092", "client.id": f"${{file:{secrets}:login}}"}), **workers)
    for settings in (made.admin_settings(), made.consumer_settings(), made.producer_settings()):
        assert settings.bootstrap_servers == "other:9092"
        assert "secret" not in str(settings.properties.values())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("offsets.storage.topic", 5),
        ("offsets.storage.topic", ["SECRET"]),
        ("offsets.storage.topic", " "),
        ("offsets.storage.topic", "a/SECRET"),
        ("offsets.storage.topic", "configs"),
        ("offsets.storage.topic", "SECRET" * 100_000),
        ("producer.override.linger.ms", 5),
        ("producer.override.linger.ms", "SECRET"),
        ("producer.override.linger.ms", {"SECRET": 1}),
        ("admin.override.bootstrap.servers", ""),
        ("consumer.override.bootstrap.servers", "SECRET:1"),
        ("admin.override.sasl.jaas.config", "${file:/SECRET:x}"),
        ("admin.override.security.protocol", "SECRET"),
        ("admin.override.ssl.truststore.location", "SECRET\0"),
        ("producer.override.compression.type", "SECRET\ud800"),
        ("producer.override.batch.size", "9" * 4_301),
    ],
)
def test_what_cannot_be_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ConfigError) as refused:
        own({name: value})
    assert "'foo'" in str(refused.value)
    assert name in str(refused.value)
    assert "SECRET" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert len(str(refused.value)) < 600


def test_names_from_a_topic_are_cut_and_escaped() -> None:
    with pytest.raises(ConfigError) as refused:
        own({"producer.override." + "\x1b[2J" * 100_000: "x"}, **{POLICY: "None"})
    assert len(str(refused.value)) < 1500
    assert str(refused.value).isprintable()
