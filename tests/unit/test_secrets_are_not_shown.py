"""No class shows what it holds: each field that can hold data of records or settings is tried with a secret."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import traceback
import typing
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

import connect_share
import migrator
import spark_jobs
from connect_share.errors import ConfigError
from connect_share.kafka.client import admin_client, consumer, producer
from connect_share.kafka.read import Reader
from connect_share.model.config import ConfigFold, SessionKeyUpdated
from connect_share.model.connect_json import dumps
from connect_share.model.keys import ClusterGroupId
from connect_share.model.offsets import OffsetFold
from connect_share.model.records import Record, TopicType
from connect_share.model.status import StatusFold
from connect_share.sealing import KEYS_PROPERTY, KeyRing, TopicSeals
from connect_share.sealing.cipher import Cipher, Opened
from connect_share.storage.checkpoint import Checkpoint, TopicCheckpoint
from connect_share.worker_config import ClientSettings, Isolation, TopicSet, WorkerConfig
from migrator.copy.copy_job import CopyJob
from migrator.verify.verification import Reading, Side, VerifyJob

SECRET = "hunter2-canary"
HOLDS_DATA = ("bytes", "Any", "object")
# What has such a type and is none of it: ids, hashes, functions, figures of machines.
HARMLESS = {
    *("RepairBackup.changes", "_MetadataFold.partitions"),
    *("PartitionProfile.digests", "ExistingRecords.found", "ExistingRecords.offsets", "_Gaps._keys"),
    *("SectionTopic.kept", "SectionTopic.required"),
    *("FittedModel.machine", "StartupResult.machine"),
    "Rollback.removals",
    *("Joined.assignment", "MemberCallbacks.assign", "MemberCallbacks.state"),  # names of connectors, functions
    *("Check.options", "Command.options", "Command.last"),
}


def every_class() -> Iterator[type]:
    for package in (connect_share, migrator, spark_jobs):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if module.name.endswith("__main__"):
                continue
            for found in vars(importlib.import_module(module.name)).values():
                if isinstance(found, type) and found.__module__ == module.name:
                    yield found


def shown_fields(kind: type) -> list[str]:
    if dataclasses.is_dataclass(kind):
        generated = hasattr(kind.__repr__, "__wrapped__")  # not one of its own, which is tried below
        return [field.name for field in dataclasses.fields(kind) if field.repr and generated]
    if issubclass(kind, BaseModel):
        return [name for name, field in kind.model_fields.items() if field.repr]
    return []


def test_no_field_that_can_hold_a_secret_is_shown() -> None:
    shown = {
        f"{kind.__name__}.{name}"
        for kind in every_class()
        for name in shown_fields(kind)
        if any(word in str(typing.get_type_hints(kind)[name]) for word in HOLDS_DATA)
    }
    assert shown == HARMLESS


def holders() -> Iterator[object]:
    """Each class that shows itself in its own words, or has a secret in a field of another type."""
    group, secret = ClusterGroupId("g"), SECRET.encode()
    config = ConfigFold(group)
    for key, value in (
        (b"g.connector-c", b'{"properties":{"password":"%s"}}' % secret),
        (b"g.task-c-0", b'{"properties":{"password":"%s"}}' % secret),
        (b"g.commit-c", b'{"tasks":1}'),
        (b"g.session-key", b'{"key":"%s","algorithm":"HmacSHA256","creation-timestamp":1}' % b64encode(secret)),
    ):
        config.apply(Record("c", 0, 1, 1, key, value))
    state = config.snapshot()
    assert state.connector_config("c") == {"password": SECRET}
    assert state.session_key is not None
    assert state.session_key.key == secret
    status = StatusFold(group)
    trace = dumps({"state": "FAILED", "trace": SECRET, "worker_id": "w:1", "generation": 1})
    status.apply(Record("s", 0, 1, 1, b"g.status-connector-c", trace))
    offset = OffsetFold(group)
    offset.apply(Record("o", 0, 1, 1, b'g.["c",{"p":1}]', b'{"position":"%s"}' % secret))
    yield from (config, state, state.session_key, SessionKeyUpdated(state.session_key))
    yield from (status, status.snapshot(), status.snapshot().connector_status("c"))
    yield from (offset, offset.snapshot())
    yield Record("t", 0, 1, 1, secret, secret, (("h", secret),))
    worker = WorkerConfig.from_properties(PROPERTIES)
    yield from (worker, worker.client_settings(), worker.consumer_settings(), worker.sealing_keys)
    seals = TopicSeals(TopicType.CONFIG, group, worker.sealing_keys)
    yield from (seals, seals.open(Record("c", 0, 1, 1, b"g.connector-c", seals.seal(b"g.connector-c", secret))))
    yield Cipher(KeyRing.parse(PROPERTIES[KEYS_PROPERTY]), TopicType.CONFIG)
    yield Opened(secret, 1)
    yield TopicSet.from_flags("h:1", {}, {"sasl.password": SECRET})
    settings, nothing = worker.consumer_settings(), typing.cast("Any", None)
    side = Side((), Reader(settings, "x", Isolation.READ_COMMITTED))
    yield from (side, VerifyJob(nothing, side, side), Reading(TopicType.CONFIG, side))
    yield CopyJob(nothing, settings, settings, settings, (), "x")
    part = TopicCheckpoint(
        topic="c", topic_id="i", isolation="x", log_starts={}, positions={}, leader_epochs={}, state={SECRET: SECRET}
    )
    whole = Checkpoint(cluster_group_id="g", taken_at_ms=1, config=part, status=part, offset=part)
    yield from (part, whole)


PROPERTIES = {
    "bootstrap.servers": "127.0.0.1:1",
    "group.id": "g",
    **{f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")},
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'x.PlainLoginModule required username="{SECRET}" password="{SECRET}";',
    "ssl.truststore.certificates": "-----BEGIN X-----\nAAAA\n-----END X-----",
    "ssl.truststore.password": SECRET,
    "ssl.key.password": SECRET,
    "config.providers.vault.param.token": SECRET,
    "basic.auth.user.info": SECRET,
    "connect.management.topic.sharing.support": "enabled",
    "connect.management.topic.sharing.encryption.keys": f"7:{b64encode(SECRET.encode().ljust(32)).decode()}",
}


def test_nothing_shows_what_it_holds() -> None:
    for one in holders():
        assert SECRET not in f"{one!r} {one}", type(one)
        assert b64encode(SECRET.encode()).decode().rstrip("=") not in f"{one!r}"


def test_what_the_client_library_writes_down_has_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    settings = ClientSettings(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "c",
            "sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/",
            "sasl.oauthbearer.client.secret": SECRET,
            "sasl.oauthbearer.extensions": f"a={SECRET}",
            "sasl.oauthbearer.config": f"principal={SECRET}",
            "sasl.username": SECRET,
            "sasl.password": SECRET,
            "ssl.key.password": SECRET,
            "ssl.keystore.password": SECRET,
            "debug": "all",
        }
    )
    consumer(settings, client_id="test", isolation=Isolation.READ_COMMITTED).close()
    for made in (admin_client(settings, client_id="test"), producer(settings, client_id="test")):
        made.poll(0.1)
    assert "sasl.oauthbearer.extensions = [hidden]" in caplog.text
    assert "client.id = test" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize("name", ["socket.timeout.ms", "broker.address.family", "ssl.key.pem", "ssl.ca.pem"])
def test_refused_settings_are_in_no_traceback(name: str) -> None:
    settings = ClientSettings({"bootstrap.servers": "h:1", "security.protocol": "SSL", name: SECRET})
    with pytest.raises(ConfigError) as caught:
        admin_client(settings, client_id="test")
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_wrong_types_are_in_no_error() -> None:
    wrong: Any = {**{name.replace(".", "_"): SECRET for name in PROPERTIES}, "sharing_enabled": SECRET}
    with pytest.raises(ValidationError) as caught:
        WorkerConfig(**wrong)
    assert SECRET not in str(caught.value)
