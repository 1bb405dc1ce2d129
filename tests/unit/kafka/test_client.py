"""Errors of the client library as ours, settings that cannot be changed, an admin client that several threads use."""

from __future__ import annotations

import gc
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest

from connect_share.errors import (
    AuthorizationError,
    BrokerError,
    BrokerTimeoutError,
    BrokerUnavailableError,
    ConfigError,
    FencedError,
)
from connect_share.kafka import client
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import AdminClient, KafkaError
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.kafka.read import raise_unless_passing
from connect_share.worker_config import ClientSettings, Isolation
from tests.lab.waiting import until

ALL_CODES = sorted(
    {
        value
        for name, value in vars(client.KafkaError).items()
        if isinstance(value, int) and not isinstance(value, bool) and name.strip("_").isupper()
    }
)
NOWHERE = ClientSettings({"bootstrap.servers": "127.0.0.1:1"})


class InterruptedText(str):  # noqa: SLOT000 - it is written to
    """A text during whose first conversion a signal arrives."""

    converted = False

    def __str__(self) -> str:
        if not self.converted:
            self.converted = True
            signal.raise_signal(signal.SIGALRM)
        return str.__str__(self)


def test_a_value_that_the_library_would_cut_off() -> None:
    with pytest.raises(ConfigError, match=r"transactional\.id has a zero byte in its value"):
        client.fence(NOWHERE, "group-a\0b-0", client_id="c")


@pytest.mark.timeout(600, method="thread")  # the other method is that signal
def test_a_signal_is_not_lost_in_the_client_library() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    admin = Admin(NOWHERE, client_id="c", timeout_s=1)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for call in (
            lambda text: client.producer(NOWHERE, client_id="c", overrides={"linger.ms": text}),
            lambda text: admin.create_topic(NewTopicRequest("t", 1, 1, {"retention.ms": text}), timeout_s=1),
            lambda text: admin.delete_topics([text]),
        ):
            with pytest.raises(KeyboardInterrupt):
                call(InterruptedText("1"))
    finally:
        signal.signal(signal.SIGALRM, before)
        admin.close()


@pytest.mark.parametrize("code", ALL_CODES)
def test_every_code_has_a_translation(code: int) -> None:
    for error in (client.KafkaError(code), client.KafkaException(client.KafkaError(code))):
        found = client.translate(error, "reading topic some-topic")
        assert isinstance(found, BrokerError)
        assert found.code == code
        assert found.name
        assert str(found).startswith(f"reading topic some-topic failed: {found.name}")
        name = found.name.strip("_")
        assert client.is_unknown_topic(found) is name.startswith("UNKNOWN_TOPIC")
        assert client.is_unsupported(found) is (name in ("UNSUPPORTED_VERSION", "UNSUPPORTED_FEATURE"))
        if "AUTHORIZATION_FAILED" in name or "AUTHENTICATION" in name:
            assert isinstance(found, AuthorizationError)
            assert not found.retriable
        elif "TIMED_OUT" in name:
            assert isinstance(found, BrokerTimeoutError)
            assert found.retriable
        elif name in ("TRANSPORT", "ALL_BROKERS_DOWN", "RESOLVE", "DESTROY_BROKER"):
            assert isinstance(found, BrokerUnavailableError)
            assert found.retriable
        elif name in ("FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"):
            assert isinstance(found, FencedError)
            assert not found.retriable


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("TOPIC_AUTHORIZATION_FAILED", "the right WRITE on the topic"),
        ("GROUP_AUTHORIZATION_FAILED", "READ on the group"),
        ("CLUSTER_AUTHORIZATION_FAILED", "the right WRITE on the topic"),
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "transactional id"),
    ],
)
def test_missing_right_is_named(name: str, right: str) -> None:
    found = client.translate(client.KafkaError(getattr(client.KafkaError, name)), "writing to topic t", "WRITE")
    assert right in str(found)


def test_anything_else_is_a_broker_error_too() -> None:
    found = client.translate(RuntimeError("odd"), "closing")
    assert type(found) is BrokerError
    assert (found.code, found.name, found.retriable) == (None, None, False)


@pytest.fixture
def configs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """What the library's constructors are given."""
    seen: list[dict[str, object]] = []
    for name in ("Consumer", "Producer", "AdminClient"):
        monkeypatch.setattr(client, name, lambda config, **_: seen.append(config))
    return seen


HOSTILE = {
    "enable.auto.commit": "true",
    "isolation.level": "read_committed",
    "allow.auto.create.topics": "true",
    "partitioner": "random",
    "acks": "0",
    "enable.idempotence": "true",
    "max.in.flight.requests.per.connection": "9",
}


def test_forced_settings_win(configs: list[dict[str, object]]) -> None:
    settings = NOWHERE.overlaid(HOSTILE)
    client.consumer(settings, client_id="c", isolation=Isolation.READ_UNCOMMITTED, overrides=HOSTILE)
    client.producer(settings, client_id="p", overrides=HOSTILE)
    client.producer(settings, client_id="i", overrides=HOSTILE, idempotent=True)
    client.producer(settings, client_id="t", overrides={"transactional.id": "x", "enable.idempotence": "false"})
    client.admin_client(settings, client_id="a")
    consumer, plain, idempotent, transactional, admin = configs
    assert (consumer["enable.auto.commit"], consumer["allow.auto.create.topics"]) == ("false", "false")
    assert consumer["isolation.level"] == "read_uncommitted"
    assert consumer["auto.offset.reset"] == "error"
    assert str(consumer["group.id"]).startswith("connect-share-")
    for producer in (plain, idempotent, transactional):
        assert (producer["partitioner"], producer["acks"]) == ("murmur2_random", "all")
    assert plain["enable.idempotence"] == "false"
    assert plain["max.in.flight.requests.per.connection"] == "1"
    assert plain["message.timeout.ms"] == "0"
    assert idempotent["max.in.flight.requests.per.connection"] == "5"
    assert (idempotent["enable.idempotence"], transactional["enable.idempotence"]) == ("true", "true")
    assert [config["client.id"] for config in configs] == ["c", "p", "i", "t", "a"]
    assert admin["bootstrap.servers"] == "127.0.0.1:1"


def test_defaults_can_be_overridden(configs: list[dict[str, object]]) -> None:
    settings, overrides = NOWHERE.overlaid({"group.id": "mine"}), {"auto.offset.reset": "earliest"}
    client.consumer(settings, client_id="c", isolation=Isolation.READ_COMMITTED, overrides=overrides)
    client.producer(NOWHERE, client_id="p", overrides={"linger.ms": "5", "message.timeout.ms": "120000"})
    consumer, producer = configs
    assert (consumer["group.id"], consumer["auto.offset.reset"]) == ("mine", "earliest")
    assert consumer["isolation.level"] == "read_committed"
    assert (producer["linger.ms"], producer["message.timeout.ms"]) == ("5", "120000")


def test_a_refusal_that_was_said_once() -> None:
    """It stays the reason until something answers, and is one refusal in however many tries."""
    tries = iter([BrokerTimeoutError("silent", retriable=True)] * 3)

    def ask(_limit_s: float) -> str:
        for error in tries:
            raise error
        return "answered"

    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = ClientSettings({"bootstrap.servers": f"127.0.0.1:{silent.getsockname()[1]}"})
        with Admin(settings, client_id="tests", timeout_s=0.5) as admin:
            admin._trouble.append(KafkaError(KafkaError._AUTHENTICATION, "no such user"))
            with pytest.raises(AuthorizationError, match="no such user"):
                admin.cluster_id()
            assert admin._retried(ask, timeout_s=60) == "answered"
            with pytest.raises(BrokerTimeoutError):
                admin.cluster_id()


@pytest.mark.parametrize(
    ("call", "ask"),
    [
        ("describe_configs", lambda admin: admin.topic_configs("t")),
        ("describe_configs", lambda admin: admin.topic_configs("t", own=True)),
        ("incremental_alter_configs", lambda admin: admin.alter_topic_configs("t", {"a": "1"})),
        ("create_topics", lambda admin: admin.create_topic(NewTopicRequest("t", 1, 1))),
        ("delete_topics", lambda admin: admin.delete_topics(["t"])),
        ("describe_cluster", lambda admin: admin.cluster_id()),
    ],
)
def test_closed_while_the_broker_answers(
    call: str, ask: Callable[[Admin], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library forgets what a broker that is connected has not answered yet: these futures never end."""
    admin = Admin(NOWHERE, client_id="tests", timeout_s=0.5)

    def lost(_client: object, asked: Any = (), **_options: object) -> Any:
        admin.close()
        names = asked if call.endswith("configs") else ["t"]
        return Future() if call == "describe_cluster" else {name: Future() for name in names}

    monkeypatch.setattr(AdminClient, call, lost)
    with pytest.raises(BrokerError):
        ask(admin)


@pytest.mark.parametrize("ask", [Admin.cluster_id, lambda admin: admin.connect_members("g")])
def test_a_question_without_an_answer_does_not_keep_the_client(ask: Callable[[Admin], object]) -> None:
    with suppress(BrokerError), Admin(NOWHERE, client_id="tests", timeout_s=0.5) as admin:
        ask(admin)
    alive = weakref.ref(admin)
    del admin
    until(lambda: gc.collect() >= 0 and alive() is None, bool, what="the end of the client", timeout_s=180)


COLLECTED_WHERE_A_FUTURE_ENDS = """
import gc, threading
from connect_share.kafka import client
from connect_share.kafka.admin import Admin
from connect_share.worker_config import ClientSettings

gc.disable()
admin = Admin(ClientSettings({"bootstrap.servers": "127.0.0.1:1"}), client_id="tests")
admin.itself = admin
topic = client.ConfigResource(client.ResourceType.TOPIC, "t")
[future] = admin._client.describe_configs([topic], request_timeout=1).values()
del admin
ended, collected = threading.Event(), []
future.add_done_callback(lambda _: (collected.append(gc.collect()), client.release_admin_clients(), ended.set()))
ended.wait()
client.release_admin_clients()
print(collected[0] > 0, len(client._admin_clients))
"""


def test_the_garbage_collector_does_not_end_a_client_in_its_own_thread() -> None:
    assert subprocess.check_output([sys.executable, "-c", COLLECTED_WHERE_A_FUTURE_ENDS], text=True) == "True 1\n"


def test_an_error_of_reading_that_passes_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(BrokerError, match=r"^reading topic t failed: UNKNOWN_TOPIC_OR_PART "):
        raise_unless_passing(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), "t")
    raise_unless_passing(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED), "t")
    assert caplog.messages == []
    raise_unless_passing(KafkaError(KafkaError.LEADER_NOT_AVAILABLE), "t")
    assert [text.split(" (")[0] for text in caplog.messages] == ["reading topic t failed: LEADER_NOT_AVAILABLE"]
    assert caplog.messages[0].endswith("; it goes on when that has passed")
