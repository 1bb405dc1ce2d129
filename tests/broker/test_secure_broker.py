"""A Java worker file against a broker that wants TLS, a password and rights; connections that such a broker refuses."""

from __future__ import annotations

import gc
import json
import logging
import select
import socket
import socketserver
import traceback
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from connect_share.cli.__main__ import main
from connect_share.errors import (
    AuthorizationError,
    BrokerTimeoutError,
    BrokerUnavailableError,
    ConnectShareError,
    ReadToEndTimeoutError,
    TopicMissingError,
)
from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.kafka.write import write_records
from connect_share.model.config_state import SessionKey
from connect_share.model.records import quick_record
from connect_share.model.status import ConnectorStatus, State
from connect_share.runtime import ConnectGroupMember
from connect_share.storage import ConnectStorage
from connect_share.storage.memory import MemoryConfigBackingStore
from connect_share.worker_config import WorkerConfig
from tests.lab.secure_broker import SecureBroker
from tests.support.flushes import flush_offsets
from tests.support.rights import KINDS, USERS, allow, rights_of, worker_file
from tests.support.runtime_workers import Idle
from tests.support.servers import serving
from tests.support.topics import alter_known, create_known, delete_known
from tests.support.waiting import await_that

# One broker with TLS and rights, not one for each process.
pytestmark = pytest.mark.xdist_group("secure-broker")


@pytest.fixture
def clean(secure: SecureBroker) -> Iterator[Admin]:
    """Remove the topics of a test in the end: the next test has topics of these names, too."""
    with closing(secure.admin(timeout_s=120)) as admin:
        yield admin
        delete_known(admin, *(f"shared-{kind}" for kind in KINDS))


@pytest.fixture
def topics(clean: Admin) -> None:
    for kind in KINDS:
        create_known(clean, NewTopicRequest(f"shared-{kind}", 1, 1, {"cleanup.policy": "compact"}))


@pytest.mark.usefixtures("topics")
def test_a_strimzi_resource_and_a_profile_are_enough(
    secure: SecureBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The resource says where the topics are, the profile what Kubernetes keeps in secrets."""
    properties = secure.worker_properties("reader")
    profiles = tmp_path / "profiles.toml"
    security = {name: properties[name] for name in properties if name.startswith(("security.", "sasl.", "ssl."))}
    profiles.write_text("[reader]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in security.items()))
    profiles.chmod(0o600)
    monkeypatch.setenv("CONNECT_SHARE_PROFILES", str(profiles))
    topics = "".join(f"  {kind}StorageTopic: shared-{kind}\n" for kind in KINDS)
    (tmp_path / "connect.yaml").write_text(
        "apiVersion: kafka.strimzi.io/v1\nkind: KafkaConnect\nmetadata: {name: c}\nspec:\n  groupId: shared-reader\n"
        f"  bootstrapServers: {properties['bootstrap.servers']}\n{topics}  tls: {{}}\n"
        "  authentication: {type: scram-sha-512, username: reader}\n"
    )
    assert main(["get", "connectors", "-w", str(tmp_path), "--profile", "reader"]) == 0
    shown = capsys.readouterr()
    assert "no connector" in shown.out + shown.err
    brokers = f'"bootstrap.servers" = "{properties["bootstrap.servers"]}"\n'
    profiles.write_text(profiles.read_text() + brokers)
    monkeypatch.setenv("CONNECT_SHARE_PROFILE", "reader")
    assert main(["get", "groups", *(f"--{kind}-storage-topic=shared-{kind}" for kind in KINDS)]) == 0
    shown = capsys.readouterr()
    assert USERS["reader"] not in shown.out + shown.err


CANARY = "hunter2-canary"


def live_objects() -> Iterator[object]:
    """Whatever of the product lives now, and what it says of itself."""
    for one in gc.get_objects():
        module = getattr(type(one), "__module__", "")
        if isinstance(module, str) and module.startswith(("connect_share", "migrator")):
            yield one


@pytest.mark.usefixtures("clean")
def test_secrets_are_in_no_log_line_and_no_repr(
    secure: SecureBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everything is logged, the C library's own lines too, while a group writes secrets, restarts, and fails."""
    path = worker_file(tmp_path, secure, "owner")
    worker = WorkerConfig.from_file(path)
    chatty = worker.client_settings().overlaid({"debug": "all"})
    object.__setattr__(worker, "_common", chatty)
    hidden = (CANARY, b64encode(CANARY.encode()).decode(), USERS["owner"])
    shown: list[str] = []
    caplog.set_level(0)
    for _ in range(2):
        with ConnectStorage(worker, checkpoint=tmp_path / "checkpoint") as storage:
            storage.config.put_connector_config("c", {"name": "c", "password": CANARY})
            storage.config.put_task_configs("c", [{"password": CANARY}])
            storage.config.put_session_key(SessionKey(CANARY.encode(), "HmacSHA256", 1))
            storage.status.put(ConnectorStatus("c", State.FAILED, "w:1", 1, CANARY))
            writer = storage.offset_writer("c", transactional=False)
            flush_offsets(writer, ({"file": "a"}, {"position": CANARY}))
            writer.offset({"file": "a"}, {"position": CANARY})
            with pytest.raises(ConnectShareError) as caught:
                storage.config.put_connector_config("c", {"password": [CANARY]})  # type: ignore[dict-item]
            shown += traceback.format_exception(caught.value)
            assert storage.offset_reader("c").offset({"file": "a"}) == {"position": CANARY}
            snapshots = [storage.config.snapshot(), storage.status.snapshot(), storage.offsets.snapshot()]
            shown += [f"{one!r} {one}" for one in (*live_objects(), *snapshots)]
    assert len(shown) > 500
    assert "connect_share.kafka.client.librdkafka" in caplog.text
    out = capsys.readouterr()
    lines = [*caplog.text.splitlines(), *out.out.splitlines(), *out.err.splitlines(), *shown]
    assert not [line for line in lines if any(secret in line for secret in hidden)]


@pytest.mark.usefixtures("topics")
def test_a_right_that_is_missed_after_a_record_was_sent_is_named(secure: SecureBroker, tmp_path: Path) -> None:
    """Who may write nowhere gets no producer id: the client library fails as a whole, while acknowledgements are awaited."""
    worker = WorkerConfig.from_file(worker_file(tmp_path, secure, "reader"))
    record = quick_record("shared-status", 0, 0, 0, b"key", b"value", ())
    with pytest.raises(AuthorizationError, match="the right WRITE on the topic"):
        write_records([worker], [(0, record)])


@pytest.mark.usefixtures("topics")
def test_topics_are_checked_and_made_as_far_as_rights_go(
    secure: SecureBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "topics", "-w", str(worker_file(tmp_path, secure, "reader"))]) == 0
    captured = capsys.readouterr()
    for words in (
        "that the brokers are set to were not checked: ",
        "shared-config was checked only in part: ",
        "__consumer_offsets was checked only in part: ",
    ):
        assert words in captured.err
    path = worker_file(tmp_path, secure, "owner", offset_storage_topic="shared-further")
    assert main(["create", "topics", "-w", str(path), "--replication-factor", "-1", "--yes"]) == 0
    captured = capsys.readouterr()
    assert "shared-further (offset): new, 1 partition, default replicas\n" in captured.err
    assert "created, all replicas in sync: shared-further\n" in captured.out
    with closing(secure.admin(timeout_s=120)) as admin:
        delete_known(admin, "shared-further")


@pytest.mark.usefixtures("topics")
def test_a_policy_that_may_not_be_seen_is_accepted(
    secure: SecureBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:  # case 59
    with (
        caplog.at_level(logging.INFO, "connect_share.kafka"),
        ConnectStorage(WorkerConfig.from_file(worker_file(tmp_path, secure, "reader"))),
    ):
        assert caplog.text.count("could not be verified: reading the settings") == 3


def test_a_missing_topic_that_may_not_be_created_is_named(secure: SecureBroker, tmp_path: Path) -> None:
    worker = WorkerConfig.from_file(worker_file(tmp_path, secure, "reader"))
    with pytest.raises(TopicMissingError, match="may not be created") as caught, ConnectStorage(worker):
        pass
    assert ".storage.topic" in str(caught.value)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_membership_logs_in_as_the_stores_do_and_names_a_missing_right(
    secure: SecureBroker, tmp_path: Path, mechanism: str
) -> None:
    config = MemoryConfigBackingStore()
    failures: list[ConnectShareError] = []
    config.start()
    for user in ("owner", "nobody"):
        worker = WorkerConfig.from_file(worker_file(tmp_path, secure, user, mechanism))
        with ConnectGroupMember(worker, config, Idle(), worker_url="http://h:1/", on_failed=failures.append) as member:
            await_that(lambda: member.generation or failures, what="joined or refused")
            assert bool(failures) == (user == "nobody")
    assert "GroupAuthorizationFailed" in str(failures[0])


@contextmanager
def denied(broker: SecureBroker, user: str, rights: Sequence[str]) -> Iterator[None]:
    """Take rights on the shared topics away for a while."""
    allow(broker, user, rights_of(user, rights))
    try:
        yield
    finally:
        allow(broker, user, rights_of(user))


@pytest.mark.parametrize("rights", [("READ", "WRITE"), ("READ", "WRITE", "DESCRIBE")], ids=["kept-describe", "all"])
@pytest.mark.usefixtures("topics")
def test_a_right_taken_away_for_a_while(
    secure: SecureBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture, rights: Sequence[str]
) -> None:
    """Java's log survives it; its status store drops what was refused, ours sends it again."""
    refused = ConnectorStatus("c.1", State.FAILED, "w:1", 1)
    with ConnectStorage(WorkerConfig.from_file(worker_file(tmp_path, secure, "owner"))) as storage:
        storage.status.put(ConnectorStatus("c.1", State.RUNNING, "w:1", 1))
        storage.config.put_connector_config("c.1", {"n": "1"})
        storage.status.refresh(120)
        with denied(secure, "owner", rights):
            await_that(lambda: "lacks a right" in caplog.text or "needs the right READ" in caplog.text, what="noticed")
            storage.status.put(refused)
            await_that(lambda: "Statuses wait, and are sent again" in caplog.text, what="refused")
            if "DESCRIBE" in rights:
                with pytest.raises((AuthorizationError, ReadToEndTimeoutError), match="shared-status"):
                    storage.status.refresh(1)
        await_that(lambda: storage.status.get("c.1"), lambda status: status == refused, what="sent again")
        for store in (storage.config, storage.status, storage.offsets):
            store.refresh(120)
        storage.config.put_connector_config("c.1", {"n": "2"})
        assert storage.config.snapshot().connector_config("c.1") == {"n": "2"}
        assert storage.failed is None


@pytest.mark.usefixtures("topics")
def test_discover_names_each_topic_that_may_not_be_read(
    secure: SecureBroker, clean: Admin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A topic that is not compacted may be a config topic that a move has closed."""
    path = worker_file(tmp_path, secure, "owner")
    with ConnectStorage(WorkerConfig.from_file(path)) as storage:
        storage.config.put_connector_config("c.1", {"n": "1"})
    alter_known(clean, "shared-config", {"cleanup.policy": "delete"})
    with denied(secure, "owner", ["READ"]):
        main(["discover", "-w", str(path), "--output", "json"])
    assert "shared-config" in {each["topic"] for each in json.loads(capsys.readouterr().out)["unreadable"]}


ANOTHER_NAME = "127.0.0.2"  # this machine, under a name that the broker's certificate does not have


@contextmanager
def under_another_name(broker: SecureBroker) -> Iterator[str]:
    """Pass bytes on from an address that is not in the certificate."""
    host, _, port = broker.bootstrap_servers.rpartition(":")

    class Passing(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection((host, int(port))) as inner:
                ends = {self.request: inner, inner: self.request}
                while readable := select.select(list(ends), [], [])[0]:
                    for end in readable:
                        data = end.recv(65536)
                        if not data:
                            return
                        ends[end].sendall(data)

    server = socketserver.ThreadingTCPServer((ANOTHER_NAME, 0), Passing)
    server.daemon_threads = True
    with serving(server) as address:
        yield address


def test_only_an_empty_algorithm_takes_a_certificate_of_another_host(secure: SecureBroker, tmp_path: Path) -> None:
    path = worker_file(tmp_path, secure, "reader")
    lines = [line for line in path.read_text().splitlines() if not line.startswith("bootstrap.servers")]
    algorithm = "ssl.endpoint.identification.algorithm"
    with under_another_name(secure) as elsewhere:
        for more in ([], [f"{algorithm}=HTTPS"]):
            path.write_text("\n".join([*lines, f"bootstrap.servers={elsewhere}", *more]))
            with pytest.raises(BrokerUnavailableError, match="certificate"):
                ask(path)
        path.write_text("\n".join([*lines, f"bootstrap.servers={elsewhere}", f"{algorithm}="]))
        assert ask(path)


def ask(path: Path) -> str:
    settings = WorkerConfig.from_file(path).admin_settings()
    with suppress(BrokerTimeoutError), closing(Admin(settings, client_id="tests", timeout_s=3)) as admin:
        return admin.cluster_id()
    # A busy machine was not done with the first handshake.
    with closing(Admin(settings, client_id="tests", timeout_s=60)) as admin:
        return admin.cluster_id()
