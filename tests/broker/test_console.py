"""The console over topics that hold what real workers wrote: plain, and under the prefixes of groups."""

from __future__ import annotations

import base64
import gzip
import json
import socket
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from connect_share.kafka.client import producer
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.config import target_state_record
from connect_share.model.config_state import TargetState
from connect_share.model.keys import ConfigKey, prefix_key
from connect_share.model.records import Record
from tests.support.console import console
from tests.support.kafka import TOPIC_PREFIX, TestBroker
from tests.support.topics import ANYWHERE, create_known, in_transaction, pairs_of, send

VECTORS = Path(__file__).parent.parent / "vectors" / "java-worker"
TOPICS = {"configs": 1, "offsets": 5, "status": 5}
# One segment that is never closed: compaction would change the numbers of records.
UNTOUCHED = {"cleanup.policy": "compact", "segment.ms": str(2**63 - 1)}
# Capture, and the group under which its records are put; None: as they are.
CLUSTERS: dict[str | None, str] = {None: "4.3.1", "team.a": "3.9.2", "team-b": "4.3.1"}


@dataclass(frozen=True)
class Filled:
    """Topics with three clusters on them."""

    bootstrap_servers: str
    prefix: str

    def topic(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def flags(self) -> list[str]:
        return [
            "-B", self.bootstrap_servers,
            "--config-storage-topic", self.topic("configs"),
            "--offset-storage-topic", self.topic("offsets"),
            "--status-storage-topic", self.topic("status"),
        ]  # fmt: skip


def vector(version: str, name: str) -> list[dict[str, Any]]:
    with gzip.open(VECTORS / version / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def believed(version: str) -> dict[str, Any]:
    """What the worker said through REST."""
    with gzip.open(VECTORS / version / "state.json.gz", "rt", encoding="utf-8") as file:
        rest: dict[str, Any] = json.load(file)["rest"]
    return rest


@pytest.fixture(scope="module")
def filled(broker: TestBroker) -> Iterator[Filled]:
    topics = Filled(broker.bootstrap_servers, f"{TOPIC_PREFIX}-console-{uuid.uuid4().hex[:6]}")
    with broker.admin() as admin:
        for name, partitions in TOPICS.items():
            create_known(admin, NewTopicRequest(topics.topic(name), partitions, 1, UNTOUCHED))
        try:
            fill(broker, topics)
            yield topics
        finally:
            admin.delete_topics([topics.topic(name) for name in TOPICS])


def fill(broker: TestBroker, topics: Filled) -> None:
    records = [
        Record(
            topics.topic(name),
            ANYWHERE,
            0,
            line["timestamp_ms"],
            key if group is None else prefix_key(group, key),
            None if line["value_b64"] is None else base64.b64decode(line["value_b64"]),
        )
        for group, version in CLUSTERS.items()
        for name in TOPICS
        for line in vector(version, name)
        if (key := base64.b64decode(line["key_b64"]))
    ]
    # What a co-tenant may put there: a name that acts on terminals, keys that are none, a group that only left a trace.
    evil = "connector-\u202eevil\x1b[2J\x1b]0;gotcha\x07"
    secretive = {
        "connector.class": "X",
        "connection.url": "jdbc:x://u:hunter2@db/x",
        "db.password": "hunter2",
        "db.token": "${file:/etc/secrets:token}",
    }
    value = json.dumps({"properties": secretive}).encode()
    marker, _ = target_state_record("", TargetState.STARTED)
    records += pairs_of(
        topics.topic("configs"),
        [
            (prefix_key("evil", evil.encode()), b'{"properties":{"n\\u001b":"v"}}'),
            (prefix_key("evil", b"connector-secretive"), value),
            (b"\x1b[31mno key of connect", b"x"),
            (prefix_key("gone", marker), b"null"),
        ],
    )
    records += pairs_of(topics.topic("offsets"), [(b"{}", b"x")])
    send(producer(broker.client_settings, client_id="tests"), records)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    return console(capsys)


def test_groups(filled: Filled, run: Any) -> None:
    ran = run("get", "groups", *filled.flags(), "--output", "json")
    assert ran.code == 0
    rows = {row["group"]: row for row in ran.json["groups"]}
    assert list(rows) == [None, "evil", "gone", "team-b", "team.a"]
    for group, version in CLUSTERS.items():
        expanded = believed(version)["connectors_expanded"]
        assert rows[group]["connectors"] == len(expanded)
        assert rows[group]["tasks"] == sum(len(one["info"]["tasks"]) for one in expanded.values())
        assert rows[group]["records"] == {
            "config": len(vector(version, "configs")),
            "offset": len(vector(version, "offsets")),
            "status": len(vector(version, "status")),
        }
    assert rows["gone"]["connectors"] == 0
    assert ran.json["unrecognized_records"] == {"config": 1, "offset": 1, "status": 0}
    assert ran.json["topics"]["config"] == filled.topic("configs")
    assert "1 record ignored: their keys are not Connect's" in ran.err


def test_groups_as_a_table(filled: Filled, run: Any) -> None:
    lines = run("get", "groups", *filled.flags()).out.splitlines()
    assert lines[0].split() == ["GROUP", "CONNECTORS", "TASKS", "SOURCE", "PARTITIONS", "RECORDS", "KEY"]
    assert [line.split()[0] for line in lines[1:]] == ["(plain)", "evil", "gone", "team-b", "team.a"]


@pytest.mark.parametrize("group", list(CLUSTERS))
def test_connectors_and_tasks_are_what_the_worker_said(filled: Filled, run: Any, group: str | None) -> None:
    expanded = believed(CLUSTERS[group])["connectors_expanded"]
    flags = [*filled.flags(), "--group", group or "(plain)", "--output", "json"]
    connectors = run("get", "connectors", *flags).json["connectors"]
    assert {row["connector"]: (row["state"], row["worker_id"], row["task_count"]) for row in connectors} == {
        name: (
            one["status"]["connector"]["state"],
            one["status"]["connector"]["worker_id"],
            len(one["info"]["tasks"]),
        )
        for name, one in expanded.items()
    }
    assert {row["group"] for row in connectors} == {group}
    tasks = run("get", "tasks", *flags).json["tasks"]
    assert {(row["connector"], row["task"]): (row["state"], row["has_trace"]) for row in tasks} == {
        (name, task["id"]): (task["state"], "trace" in task)
        for name, one in expanded.items()
        for task in one["status"]["tasks"]
    }


def test_offsets_are_what_the_worker_said(filled: Filled, run: Any) -> None:
    rows = run("get", "offsets", *filled.flags(), "--group", "team.a", "--output", "json").json["offsets"]
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row["connector"], []).append((row["partition"], row["offset"]))
    compared = 0
    for name, one in believed("3.9.2")["connectors"].items():
        shown = [(entry["partition"], entry["offset"]) for entry in one["offsets"]["body"]["offsets"]]
        if name in found and shown and "kafka_topic" not in shown[0][0]:
            assert sorted(found[name], key=str) == sorted(shown, key=str)
            compared += 1
    assert compared >= 3


def test_statuses_of_one_connector(filled: Filled, run: Any) -> None:
    words = ["get", "statuses", *filled.flags(), "--connector", "fail-task", "--output", "json"]
    rows = run(*words).json["statuses"]
    assert [(row["group"], row["task"], row["state"]) for row in rows] == [
        (group, task, state)
        for task, state in ((0, "FAILED"), (None, "RUNNING"))
        for group in (None, "team-b", "team.a")
    ]
    assert not any("trace" in row for row in rows)
    assert all(
        "ConnectException" in row["trace"] for row in run(*words, "--show-values").json["statuses"] if row["task"] == 0
    )


def test_a_group_that_is_not_there_is_no_empty_answer(filled: Filled, run: Any) -> None:
    for words in (["get", "connectors"], ["get", "groups"], ["get", "offsets"], ["describe", "connector", "x"]):
        ran = run(*words, *filled.flags(), "--group", "nope")
        assert (ran.code, ran.out) == (1, "")
        assert "error: there is no group nope in " in ran.err
        assert "; there are: (plain), evil, gone, team-b, team.a\n" in ran.err
    # It is there, and has none.
    ran = run("get", "offsets", *filled.flags(), "--group", "evil")
    assert (ran.code, ran.out) == (0, "GROUP  CONNECTOR  PARTITION  OFFSET  LAST WRITTEN\n")
    assert f"no offsets were found in {filled.topic('offsets')}: evil has no records there" in ran.err


def test_a_connector_is_described_without_secrets(filled: Filled, run: Any) -> None:
    words = ["describe", "connector", "my.conn", *filled.flags(), "--group", "team-b", "--output", "json"]
    (described,) = run(*words).json["connectors"]
    expected = believed("4.3.1")["connectors_expanded"]["my.conn"]["info"]["config"]
    assert set(described["config"]) == set(expected)
    assert described["config"]["connector.class"] == expected["connector.class"]
    assert all(value in (expected[name], "[hidden]") for name, value in described["config"].items())
    assert all(task["config"] for task in described["tasks"])
    assert [row["offset"] for row in described["offsets"]] == ["[hidden]"]
    (shown,) = run(*words, "--show-values").json["connectors"]
    assert shown["config"] == expected
    assert shown["offsets"][0]["offset"] == {"position": 42}
    assert shown["active_topics"] == ["server1.inventory.customers"]


def test_text_holds_no_secret_unless_asked_for(filled: Filled, run: Any) -> None:
    words = ["describe", "connector", "fail-task", *filled.flags(), "--group", "(plain)"]
    hidden = run(*words).out
    assert "file = no-such-dir/out.txt" in hidden
    assert "trace:\n" not in hidden
    assert "--show-values shows it" in hidden
    evil = ["describe", "connector", "secretive", *filled.flags(), "--group", "evil"]
    lines = run(*evil).out.splitlines()
    assert [line.strip() for line in lines if " = " in line] == [
        "connection.url = [hidden]",
        "connector.class = X",
        "db.password = [hidden]",
        "db.token = ${file:/etc/secrets:token}",
    ]
    assert "hunter2" not in "".join(lines)
    assert run(*evil, "--show-values").out.count("hunter2") == 2
    shown = run(*words, "--show-values").out
    assert "file = no-such-dir/out.txt" in shown
    assert "trace:\n" in shown


def test_session_keys_are_never_shown(filled: Filled, run: Any) -> None:
    keys = {
        json.loads(base64.b64decode(line["value_b64"]))["key"]
        for version in ("4.3.1", "3.9.2")
        for line in vector(version, "configs")
        if base64.b64decode(line["key_b64"]) == ConfigKey.SESSION_KEY.prefix
    }
    assert keys
    for words in (["get", "groups"], ["get", "connectors"], ["describe", "connector", "my.conn", "--show-values"]):
        for form in ("text", "json"):
            ran = run(*words, *filled.flags(), "--output", form)
            assert not any(key in ran.out + ran.err for key in keys)


def test_hostile_names_are_escaped(filled: Filled, run: Any) -> None:
    ran = run("get", "connectors", *filled.flags(), "--group", "evil")
    assert "\\u202eevil\\x1b[2J\\x1b]0;gotcha\\x07" in ran.out
    ran = run("describe", "connector", "\u202eevil\x1b[2J\x1b]0;gotcha\x07", *filled.flags(), "--show-values")
    assert ran.code == 0
    assert "n\\x1b = v" in ran.out


def test_an_unknown_connector_fails(filled: Filled, run: Any) -> None:
    ran = run("describe", "connector", "nobody", *filled.flags())
    assert (ran.code, ran.out) == (1, "")
    assert "no connector 'nobody' (groups checked: (plain), evil, gone, team-b, team.a)" in ran.err


def worker_file(folder: Path, filled: Filled, group: str, *, sharing: bool) -> Path:
    path = folder / "worker.properties"
    path.write_text(
        f"bootstrap.servers = {filled.bootstrap_servers}\ngroup.id={group}\n"
        f"config.storage.topic: {filled.topic('configs')}\noffset.storage.topic {filled.topic('offsets')}\n"
        f"status.storage.topic={filled.topic('status')}\n"
        f"connect.management.topic.sharing.support={'enabled' if sharing else 'disabled'}\n"
    )
    return path


@pytest.mark.parametrize(("sharing", "group"), [(True, "team-b"), (False, None)])
def test_a_worker_file_shows_its_own_group(
    filled: Filled, run: Any, tmp_path: Path, sharing: bool, group: str | None
) -> None:
    path = str(worker_file(tmp_path, filled, "team-b", sharing=sharing))
    rows = run("get", "connectors", "-w", path, "--output", "json").json["connectors"]
    assert {row["group"] for row in rows} == {group}
    rows = run("get", "connectors", "-w", path, "--all-groups", "--output", "json").json["connectors"]
    assert {row["group"] for row in rows} == {None, "evil", "team-b", "team.a"}
    groups = run("get", "groups", "-w", path, "--output", "json").json["groups"]
    assert len(groups) == 5


def test_one_topic_is_enough_for_what_it_holds(filled: Filled, run: Any) -> None:
    flags = ["-B", filled.bootstrap_servers, "--offset-storage-topic", filled.topic("offsets"), "--output", "json"]
    rows = run("get", "groups", *flags).json["groups"]
    assert [row["group"] for row in rows] == [None, "team-b", "team.a"]
    assert all("connectors" not in row and row["source_partitions"] > 0 for row in rows)
    connectors = run(
        "get", "connectors", "-B", filled.bootstrap_servers, "--config-storage-topic", filled.topic("configs"),
        "--group", "team.a", "--output", "json",
    ).json["connectors"]  # fmt: skip
    assert {row["state"] for row in connectors} == {None}


def test_output_is_stable(filled: Filled, run: Any) -> None:
    for words in (["get", "tasks"], ["get", "offsets"], ["get", "statuses"], ["describe", "connector", "my.conn"]):
        first, second = (run(*words, *filled.flags(), "--output", "json").out for _ in range(2))
        assert first == second


def test_a_missing_topic_is_named(filled: Filled, run: Any) -> None:
    flags = ["-B", filled.bootstrap_servers, "--config-storage-topic", f"{filled.prefix}-nowhere"]
    ran = run("get", "groups", *flags, "--output", "json")
    assert (ran.code, ran.out) == (1, "")
    error = json.loads(ran.err)["error"]
    assert error["type"] == "TopicMissingError"
    assert error["topic"] == f"{filled.prefix}-nowhere"
    assert "config.storage.topic" in error["message"]


def test_an_open_transaction_is_shown(filled: Filled, broker: TestBroker, run: Any, unique: str) -> None:
    topic = f"{unique}-configs"
    with broker.admin() as admin:
        create_known(admin, NewTopicRequest(topic, 1, 1, {"cleanup.policy": "compact"}))
        records = pairs_of(topic, [(b"connector-a", b'{"properties":{"name":"a"}}')])
        writer = in_transaction(broker.client_settings, unique, records)
        flags = ["-B", broker.bootstrap_servers, "--config-storage-topic", topic, "--output", "json"]
        held = run("get", "connectors", *flags, "-X", "isolation.level=read_committed")
        assert held.json["connectors"] == []
        assert "an open transaction holds back the end" in held.err
        assert "of a cluster with plain keys, transactional id unknown" in held.err
        seen = run("get", "connectors", *flags)
        assert [row["connector"] for row in seen.json["connectors"]] == ["a"]
        writer.abort_transaction(30)
        admin.delete_topics([topic])


def test_a_config_topic_with_several_partitions_is_doubted(broker: TestBroker, run: Any, unique: str) -> None:
    topic = f"{unique}-configs"
    with broker.admin() as admin:
        create_known(admin, NewTopicRequest(topic, 3, 1))
        ran = run("get", "groups", "-B", broker.bootstrap_servers, "--config-storage-topic", topic)
        admin.delete_topics([topic])
    assert ran.code == 0
    assert "has 3 partitions" in ran.err


@contextmanager
def not_a_broker() -> Iterator[str]:
    """Listen, and answer everything like a web server."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)

        def serve() -> None:
            while not ended.is_set():
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                with connection, suppress(OSError):  # who asked may be gone by now
                    connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            ended.set()
            thread.join()


@pytest.mark.parametrize("words", [("get", "groups"), ("describe", "connector", "x")])
def test_something_else_than_a_broker_is_an_error_in_bounded_time(run: Any, words: Sequence[str]) -> None:
    with not_a_broker() as address:
        ran = run(*words, "-B", address, "--config-storage-topic", "c", "--timeout", "2")
    assert (ran.code, ran.out) == (1, "")
    assert f"no answer from {address}" in ran.err
