"""The broker that tests run against."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from connect_share.errors import BrokerTimeoutError, BrokerUnavailableError
from connect_share.kafka import client
from connect_share.kafka.admin import Admin
from connect_share.worker_config import ClientSettings
from tests.lab import embedded
from tests.lab.cluster import LocalCluster
from tests.lab.embedded.artifacts import class_path, ensure_artifacts
from tests.lab.embedded.broker import DEFAULT_VERSION, LocalBroker
from tests.lab.embedded.java_program import compiled
from tests.support.waiting import await_that

BOOTSTRAP_VARIABLE = "CONNECT_SHARE_BOOTSTRAP"
# Topics of one segment unless a test says otherwise: a record of now behind those of years ago, such as a migration's marker,
# would close the segment, and the cleaner takes what is superseded in it before or after the test has looked.
ONE_SEGMENT_EACH = {"log.roll.ms": "10000000000000"}
POLICY_SETTING = "create.topic.policy.class.name"
_POLICY = Path(embedded.__file__).with_name("java") / "ManagedTopics.java"
# In the environment, so that the processes of one test run have the same and the first can remove what the others made.
TOPIC_PREFIX = os.environ.setdefault("CONNECT_SHARE_TEST_PREFIX", f"connect-share-test-{uuid.uuid4().hex[:8]}")


@dataclass(frozen=True)
class TestBroker:
    """A broker to run tests against; ``ours`` if this test run started it."""

    __test__ = False

    bootstrap_servers: str
    ours: bool

    @property
    def client_settings(self) -> ClientSettings:
        return ClientSettings({"bootstrap.servers": self.bootstrap_servers})

    def admin(self, timeout_s: float = 30.0) -> Admin:
        return Admin(self.client_settings, client_id="tests", timeout_s=timeout_s)

    def await_empty(self, group: str) -> None:
        """Wait until no worker of a group lives: one that did not end in order is a member until its session times out."""
        with self.admin() as admin:
            await_that(lambda: admin.connect_groups(group).get(group, 0), (0).__eq__, what=f"{group} empty")


def given_broker() -> TestBroker | None:
    address = os.environ.get(BOOTSTRAP_VARIABLE, "").strip()
    return TestBroker(address, ours=False) if address else None


def skip_where_brokers_stay() -> None:
    """Skip a test that stops brokers where it must not."""
    if given_broker() is not None:
        pytest.skip("CONNECT_SHARE_BOOTSTRAP is set: tests that stop brokers do not run")


def docker_answers() -> bool:
    """Return whether a Docker engine answers within two seconds."""
    if "DOCKER_HOST" not in os.environ and not Path("/var/run/docker.sock").exists():
        return False
    try:
        import docker
    except ImportError:
        return False
    try:
        client = docker.from_env(timeout=2)
        client.ping()
        client.close()
    except Exception:  # noqa: BLE001 - without Docker there is another way
        return False
    return True


@contextmanager
def container_broker() -> Iterator[TestBroker]:
    """Run the official image; its listener has to be advertised under the port it is mapped to."""
    from testcontainers.core.container import DockerContainer

    from tests.lab.embedded.ports import free_ports

    port = free_ports(1)[0]
    environment = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": f"PLAINTEXT://:{port},CONTROLLER://:19093",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:19093",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_LOG_CLEANER_BACKOFF_MS": "100",
        **{f"KAFKA_{name.replace('.', '_').upper()}": value for name, value in ONE_SEGMENT_EACH.items()},
    }
    container = DockerContainer("apache/kafka:4.3.1").with_bind_ports(port, port)
    for name, value in environment.items():
        container = container.with_env(name, value)
    with container:
        broker = TestBroker(f"127.0.0.1:{port}", ours=True)
        with broker.admin(timeout_s=60.0) as admin:
            admin.cluster_id()
        yield broker


@contextmanager
def any_broker() -> Iterator[TestBroker]:
    """A given broker, a container if a Docker engine answers, else a JVM of our own."""
    given = given_broker()
    if given is not None:
        yield given
    elif docker_answers():
        with container_broker() as contained:
            yield contained
    else:
        classes = compiled([_POLICY], class_path(ensure_artifacts(f"kafka-{DEFAULT_VERSION}")))
        settings = {**ONE_SEGMENT_EACH, POLICY_SETTING: _POLICY.stem}
        with LocalBroker(properties=settings, classes=[classes]) as local:
            yield TestBroker(local.bootstrap_servers, ours=True)


@cache
def _deleter(broker: TestBroker) -> client.AdminClient:
    """Return the client of this process that deletes: a new one for each test would take longer than the deletion."""
    return client.admin_client(broker.client_settings, client_id="tests-delete")


def delete_unawaited(broker: TestBroker, prefix: str) -> None:
    """Ask for the deletion of topics, and neither wait for it nor mind if it fails: nobody looks at them any more."""
    with suppress(client.KafkaException):
        names = [name for name in _deleter(broker).list_topics(timeout=10).topics if name.startswith(prefix)]
        if names:
            _deleter(broker).delete_topics(names)


def delete_own_topics(broker: TestBroker) -> None:
    """On a broker that is not ours, leave nothing behind."""
    with broker.admin() as admin:
        admin.delete_topics([name for name in admin.topic_names() if name.startswith(TOPIC_PREFIX)])


@contextmanager
def patient_broker() -> Iterator[LocalBroker]:
    """Start a broker that its controller does not give up while both hang.

    The client library forgets the broker of a cluster that names none for a moment, and finds it again minutes later.
    """
    skip_where_brokers_stay()
    with LocalBroker(properties={"broker.session.timeout.ms": "120000"}) as local:
        yield local


@contextmanager
def hanging(broker: LocalBroker, admin: Admin) -> Iterator[None]:
    """Let a broker hang while the block runs; ``admin`` is asked until it gets no answer."""
    assert broker._process is not None
    os.kill(broker._process.pid, signal.SIGSTOP)
    try:
        await_that(lambda: _answers(admin), lambda found: not found, what="stopped")  # the signal takes its time
        yield
    finally:
        os.kill(broker._process.pid, signal.SIGCONT)


def _answers(admin: Admin) -> bool:
    try:
        return bool(admin.cluster_id())
    except (BrokerTimeoutError, BrokerUnavailableError):
        return False


# Topics of tests say themselves how many replicas they need, and Kafka's own have to live on while one broker is down.
_ONE_REPLICA: Final = dict.fromkeys(
    (
        "default.replication.factor",
        "min.insync.replicas",
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
    ),
    "1",
)


@contextmanager
def two_brokers() -> Iterator[tuple[LocalBroker, LocalBroker]]:
    """Start two; the first one is the controller, the second one only keeps copies."""
    with LocalCluster(2, properties=_ONE_REPLICA) as cluster:
        yield cluster.broker(1), cluster.broker(2)
