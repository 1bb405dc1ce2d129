"""The console over topics that hold what real workers wrote, plain and under prefixes of groups; lists, and watching."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from connect_share.contents.groups import TopicReading
from connect_share.errors import TopicRecreatedError
from connect_share.kafka.client import producer
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.config import connector_config_record, target_state_record
from connect_share.model.config_state import TargetState
from connect_share.model.keys import ClusterGroupId, ConfigKey, StatusKey, prefix_key
from connect_share.model.offsets import offset_key
from connect_share.model.records import TopicType
from connect_share.model.status import ConnectorStatus, State, status_record
from connect_share.worker_config import TopicSet
from tests.support.captures import FLAGS, TOPICS, captured, fill, rest_answers
from tests.support.kafka import TOPIC_PREFIX, TestBroker
from tests.support.topics import create_known, delete_known, ordered_producer, pairs_of, send

# Capture, and the group under which its records are put; None: as they are.
CLUSTERS: dict[str | None, str] = {None: "4.3.1", "team.a": "3.9.2", "team-b": "4.3.1"}
GROUP = "team-b"


@dataclass(frozen=True)
class Filled:
    """Topics with clusters on them."""

    bootstrap_servers: str
    prefix: str

    def topic(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def flags(self) -> list[str]:
        named = [word for name, flag in FLAGS.items() for word in (flag, self.topic(name))]
        return ["-B", self.bootstrap_servers, *named]


pytestmark = pytest.mark.xdist_group("console")


@pytest.fixture(scope="module")
def filled(broker: TestBroker) -> Iterator[Filled]:
    topics = Filled(broker.bootstrap_servers, f"{TOPIC_PREFIX}-console-{uuid.uuid4().hex[:6]}")
    with broker.admin() as admin:
        try:
            fill(broker.client_settings, admin, topics.prefix, CLUSTERS)
            write_what_strangers_may(broker, topics)
            yield topics
        finally:
            admin.delete_topics([topics.topic(name) for name in TOPICS])


def write_what_strangers_may(broker: TestBroker, topics: Filled) -> None:
    """A name that acts on terminals, keys that are none, a group that was removed: it is nowhere."""
    evil = "connector-\u202eevil\x1b[2J\x1b]0;gotcha\x07"
    secretive = {
        "connector.class": "X",
        "connection.url": "jdbc:x://u:hunter2@db/x",
        "db.password": "hunter2",
        "db.token": "${file:/etc/secrets:token}",
    }
    trace = "ConnectException: jdbc:x://u:hunter2@db/x refused u, hunter2; http://a:hunter3@b\n\tat com.acme.X"
    failed = {"state": "FAILED", "trace": trace, "worker_id": "w:8083", "generation": 1}
    marker, _ = target_state_record("", TargetState.STARTED)
    pairs: list[tuple[bytes | None, bytes | None]] = [
        (prefix_key("evil", evil.encode()), b'{"properties":{"n\\u001b":"v"}}'),
        (prefix_key("evil", b"connector-secretive"), json.dumps({"properties": secretive}).encode()),
        (b"\x1b[31mno key of connect", b"x"),
        (prefix_key("gone", marker), b"null"),
    ]
    records = [*pairs_of(topics.topic("configs"), pairs), *pairs_of(topics.topic("offsets"), [(b"{}", b"x")])]
    status = (prefix_key("evil", b"status-connector-secretive"), json.dumps(failed).encode())
    records.extend(pairs_of(topics.topic("status"), [status]))
    send(producer(broker.client_settings, client_id="tests"), records)


def test_groups(filled: Filled, call: Any) -> None:
    ran = call("get", "groups", *filled.flags(), "--output", "json")
    cells = [line.split("\t") for line in call("get", "groups", *filled.flags(), "--output", "tsv").out.splitlines()]
    assert cells[0][:3] == ["GROUP", "CONNECTORS", "TASKS"]
    assert [row[1] for row in cells[1:]] == [str(each["connectors"]) for each in ran.json["groups"]]
    assert ran.code == 0
    rows = {row["group"]: row for row in ran.json["groups"]}
    assert list(rows) == [None, "evil", "team-b", "team.a"]
    for group, version in CLUSTERS.items():
        expanded = rest_answers(version)["connectors_expanded"]
        assert rows[group]["connectors"] == len(expanded)
        assert rows[group]["tasks"] == sum(len(one["info"]["tasks"]) for one in expanded.values())
        assert rows[group]["records"] == {
            "config": len(captured(version, "configs")),
            "offset": len(captured(version, "offsets")),
            "status": len(captured(version, "status")),
        }
    assert ran.json["unrecognized_records"] == {"config": 1, "offset": 1, "status": 0}
    assert ran.json["topics"]["config"] == filled.topic("configs")
    assert "1 record ignored: their keys are not Connect's" in ran.err


@pytest.mark.parametrize("group", list(CLUSTERS))
def test_connectors_and_tasks_are_what_the_worker_said(filled: Filled, call: Any, group: str | None) -> None:
    expanded = rest_answers(CLUSTERS[group])["connectors_expanded"]
    flags = [*filled.flags(), "--group", group or "(plain)", "--output", "json"]
    connectors = call("get", "connectors", *flags).json["connectors"]
    assert {row["connector"]: (row["state"], row["worker_id"], row["task_count"]) for row in connectors} == {
        name: (one["status"]["connector"]["state"], one["status"]["connector"]["worker_id"], len(one["info"]["tasks"]))
        for name, one in expanded.items()
    }
    assert {row["group"] for row in connectors} == {group}
    tasks = call("get", "tasks", *flags).json["tasks"]
    assert {(row["connector"], row["task"]): (row["state"], row["has_trace"]) for row in tasks} == {
        (name, task["id"]): (task["state"], "trace" in task)
        for name, one in expanded.items()
        for task in one["status"]["tasks"]
    }


def test_statuses_of_one_connector(filled: Filled, call: Any) -> None:
    words = ["get", "statuses", *filled.flags(), "--connector", "fail-task", "--output", "json"]
    rows = call(*words).json["statuses"]
    assert [(row["group"], row["task"], row["state"]) for row in rows] == [
        (group, task, state)
        for task, state in ((0, "FAILED"), (None, "RUNNING"))
        for group in (None, "team-b", "team.a")
    ]
    assert not any("trace" in row for row in rows)
    assert all(
        "ConnectException" in row["trace"] for row in call(*words, "--show-values").json["statuses"] if row["task"] == 0
    )


def test_a_group_that_is_not_there_is_no_empty_answer(filled: Filled, call: Any) -> None:
    for words in (["get", "connectors"], ["get", "groups"], ["get", "offsets"], ["describe", "connector", "x"]):
        ran = call(*words, *filled.flags(), "--group", "nope")
        assert (ran.code, ran.out) == (1, "")
        assert "error: there is no group nope in " in ran.err
        assert "; there are: (plain), evil, team-b, team.a\n" in ran.err
    ran = call("describe", "connector", "nobody", *filled.flags())
    assert (ran.code, ran.out) == (1, "")
    assert "no connector 'nobody' (groups checked: (plain), evil, team-b, team.a)" in ran.err
    # It is there, and has none.
    ran = call("get", "offsets", *filled.flags(), "--group", "evil")
    assert (ran.code, ran.out) == (0, "GROUP  CONNECTOR  PARTITION  OFFSET  LAST WRITTEN\n")
    assert "no offsets were found in evil; " in ran.err


def test_a_connector_is_described_without_secrets(filled: Filled, call: Any) -> None:
    words = ["describe", "connector", "my.conn", *filled.flags(), "--group", "team-b", "--output", "json"]
    (described,) = call(*words).json["connectors"]
    expected = rest_answers("4.3.1")["connectors_expanded"]["my.conn"]["info"]["config"]
    assert set(described["config"]) == set(expected)
    assert described["config"]["connector.class"] == expected["connector.class"]
    assert all(value in (expected[name], "[hidden]") for name, value in described["config"].items())
    assert all(task["config"] for task in described["tasks"])
    assert [row["offset"] for row in described["offsets"]] == ["[hidden]"]
    (shown,) = call(*words, "--show-values").json["connectors"]
    assert shown["config"] == expected
    assert shown["offsets"][0]["offset"] == {"position": 42}
    assert shown["active_topics"] == ["server1.inventory.customers"]


def test_text_holds_no_secret_unless_asked_for(filled: Filled, call: Any) -> None:
    words = ["describe", "connector", "fail-task", *filled.flags(), "--group", "(plain)"]
    hidden = call(*words).out
    assert "file = no-such-dir/out.txt" in hidden
    assert "trace:\n" not in hidden
    assert "--show-traces shows it" in hidden
    evil = ["describe", "connector", "secretive", *filled.flags(), "--group", "evil"]
    lines = call(*evil).out.splitlines()
    assert [line.strip() for line in lines if " = " in line] == [
        "connection.url = [hidden]",
        "connector.class = X",
        "db.password = [hidden]",
        "db.token = ${file:/etc/secrets:token}",
    ]
    assert "hunter2" not in "".join(lines)
    lines = call(*evil, "--show-traces").out.splitlines()
    assert "  ConnectException: [hidden] refused u, [hidden]; http://a:[hidden]@b" in lines
    assert "      at com.acme.X" in lines
    assert "hunter" not in "".join(lines)
    assert call(*evil, "--show-values").out.count("hunter2") == 4
    for shows in ("--show-values", "--show-traces"):
        shown = call(*words, shows).out
        assert "file = no-such-dir/out.txt" in shown
        assert "trace:\n" in shown


def test_session_keys_are_never_shown(filled: Filled, call: Any) -> None:
    keys = {
        json.loads(record.value or b"")["key"]
        for version in ("4.3.1", "3.9.2")
        for record in captured(version, "configs")
        if record.key == ConfigKey.SESSION_KEY.prefix
    }
    assert keys
    for words in (["get", "groups"], ["get", "connectors"], ["describe", "connector", "my.conn", "--show-values"]):
        for form in ("text", "json"):
            ran = call(*words, *filled.flags(), "--output", form)
            assert not any(key in ran.out + ran.err for key in keys)


def test_hostile_names_are_escaped(filled: Filled, call: Any) -> None:
    ran = call("get", "connectors", *filled.flags(), "--group", "evil")
    assert "\\u202eevil\\x1b[2J\\x1b]0;gotcha\\x07" in ran.out
    ran = call("describe", "connector", "\u202eevil\x1b[2J\x1b]0;gotcha\x07", *filled.flags(), "--show-values")
    assert ran.code == 0
    assert "n\\x1b = v" in ran.out


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
    filled: Filled, call: Any, tmp_path: Path, sharing: bool, group: str | None
) -> None:
    path = str(worker_file(tmp_path, filled, "team-b", sharing=sharing))
    rows = call("get", "connectors", "-w", path, "--output", "json").json["connectors"]
    assert {row["group"] for row in rows} == {group}
    rows = call("get", "connectors", "-w", path, "--all-groups", "--output", "json").json["connectors"]
    assert {row["group"] for row in rows} == {None, "evil", "team-b", "team.a"}
    groups = call("get", "groups", "-w", path, "--output", "json").json["groups"]
    assert len(groups) == 4


def test_one_topic_is_enough_for_what_it_holds(filled: Filled, call: Any) -> None:
    flags = ["-B", filled.bootstrap_servers, "--offset-storage-topic", filled.topic("offsets"), "--output", "json"]
    rows = call("get", "groups", *flags).json["groups"]
    assert [row["group"] for row in rows] == [None, "team-b", "team.a"]
    assert all("connectors" not in row and row["source_partitions"] > 0 for row in rows)
    connectors = call(
        "get", "connectors", "-B", filled.bootstrap_servers, "--config-storage-topic", filled.topic("configs"),
        "--group", "team.a", "--output", "json",
    ).json["connectors"]  # fmt: skip
    assert {row["state"] for row in connectors} == {None}


def test_output_is_stable(filled: Filled, call: Any) -> None:
    for words in (["get", "tasks"], ["get", "offsets"], ["get", "statuses"], ["describe", "connector", "my.conn"]):
        first, second = (call(*words, *filled.flags(), "--output", "json").out for _ in range(2))
        assert first == second


def test_a_missing_topic_is_named(filled: Filled, call: Any) -> None:
    flags = ["-B", filled.bootstrap_servers, "--config-storage-topic", f"{filled.prefix}-nowhere"]
    ran = call("get", "groups", *flags, "--output", "json")
    assert (ran.code, ran.out) == (1, "")
    error = json.loads(ran.err)["error"]
    assert error["type"] == "TopicMissingError"
    assert error["topic"] == f"{filled.prefix}-nowhere"
    assert "does not exist; check config.storage.topic and the cluster's address" in error["message"]


def test_a_config_topic_with_several_partitions_is_doubted(broker: TestBroker, call: Any, unique: str) -> None:
    topic = f"{unique}-configs"
    with broker.admin() as admin:
        create_known(admin, NewTopicRequest(topic, 3, 1))
    ran = call("get", "groups", "-B", broker.bootstrap_servers, "--config-storage-topic", topic)
    assert ran.code == 0
    assert "has 3 partitions" in ran.err


def newest_ms(name: str, key: bytes) -> int:
    """When a worker wrote the newest record of a key."""
    return [record.timestamp_ms for record in captured("4.3.1", name) if record.key == key][-1]


def test_only_those_in_a_state(filled: Filled, call: Any) -> None:
    flags = [*filled.flags(), "--output", "json"]
    tasks = call("get", "tasks", *flags).json
    failed = call("get", "tasks", *flags, "--state", "failed").json
    assert failed["tasks"] == [task for task in tasks["tasks"] if task["state"] == "FAILED"]
    assert failed["states"] == tasks["states"]
    connectors = call("get", "connectors", *flags, "--state", "FAILED").json["connectors"]
    assert {row["connector"] for row in connectors} >= {task["connector"] for task in failed["tasks"]}
    ran = call("get", "statuses", *filled.flags(), "--state", "DESTROYED,RESTARTING", "--group", GROUP)
    assert (ran.code, len(ran.out.splitlines())) == (0, 1)
    assert f"no statuses were found in state DESTROYED or RESTARTING in {GROUP}" in ran.err
    ran = call("get", "tasks", *filled.flags(), "--state", "BROKEN")
    assert ran.code == 2
    assert "states are UNASSIGNED, RUNNING, " in ran.err


@pytest.mark.parametrize("group", [GROUP, "team.a"])
def test_offsets_of_a_connector_are_what_rest_gives(filled: Filled, call: Any, group: str) -> None:
    version = {GROUP: "4.3.1", "team.a": "3.9.2"}[group]
    words = ["get", "offsets", *filled.flags(), "--group", group, "--output", "json"]
    with_offsets = {row["connector"] for row in call(*words).json["offsets"]}
    compared = 0
    for name, one in rest_answers(version)["connectors"].items():
        body = one["offsets"]["body"]
        if name in with_offsets and body.get("offsets") and "kafka_topic" not in body["offsets"][0]["partition"]:
            shown = call(*words, "--connector", name).json
            assert sorted(shown["offsets"], key=str) == sorted(body["offsets"], key=str)
            assert shown.keys() == body.keys()
            compared += 1
    assert compared >= 3


def test_offsets_of_a_name_in_several_groups_name_the_group(filled: Filled, call: Any) -> None:
    ran = call("get", "offsets", *filled.flags(), "--connector", "my.conn", "--output", "json")
    assert (
        "my.conn is a connector of (plain), team-b, team.a: --group names one, for JSON that a worker takes" in ran.err
    )
    assert {row["group"] for row in ran.json["offsets"]} == {None, "team-b", "team.a"}


def test_which_connectors_use_a_topic(filled: Filled, call: Any) -> None:
    rest = rest_answers("4.3.1")
    users: dict[str, set[str]] = {}
    for name, one in rest["connectors"].items():
        configured = rest["connectors_expanded"][name]["info"]["config"].get("topics", "")
        for topic in {*one["topics"]["body"][name]["topics"], *configured.split(",")} - {""}:
            users.setdefault(topic, set()).add(name)
    words = ["get", "connectors", *filled.flags(), "--group", GROUP, "--topic"]
    for topic in ("server1.inventory.customers", "server1.inventory.orders", "digits.42"):
        rows = call(*words, topic, "--output", "json").json["connectors"]
        assert {row["connector"] for row in rows} == users[topic]
    assert f"no connectors were found that use topic 'nowhere' in {GROUP}" in call(*words, "nowhere").err


def test_when_things_were_written(filled: Filled, call: Any) -> None:
    words = ["describe", "connector", "my.conn", *filled.flags(), "--group", GROUP]
    (described,) = call(*words, "--output", "json").json["connectors"]
    assert described["config_written_ms"] == newest_ms("configs", ConfigKey.CONNECTOR.key("my.conn"))
    assert described["status_written_ms"] == newest_ms("status", StatusKey.CONNECTOR.key("my.conn"))
    assert described["tasks"][0]["status_written_ms"] == newest_ms("status", StatusKey.TASK.key("my.conn-0"))
    (offset,) = described["offsets"]
    assert offset["written_ms"] == newest_ms("offsets", offset_key("my.conn", offset["partition"]))
    assert "last written:  configuration  20" in call(*words).out
    group = call("describe", "group", GROUP, *filled.flags(), "--output", "json").json
    assert {each["type"]: each["last_written_ms"] for each in group["topics"]} == {
        kind: max(record.timestamp_ms for record in captured("4.3.1", name))
        for kind, name in (("config", "configs"), ("offset", "offsets"), ("status", "status"))
    }


def test_a_group_without_records_beside_others(filled: Filled, call: Any, tmp_path: Path) -> None:
    ran = call("get", "connectors", "-w", worker_file(tmp_path, filled, "new-team", sharing=True))
    assert ran.code == 0
    assert "records there of other groups: --all-groups shows them" in ran.err


@pytest.fixture
def changing(broker: TestBroker, unique: str) -> Filled:
    """Topics of one test, without records."""
    with broker.admin() as admin:
        fill(broker.client_settings, admin, unique, {})
    return Filled(broker.bootstrap_servers, unique)


def write_connector(broker: TestBroker, filled: Filled, group: str, state: State) -> None:
    prefix = ClusterGroupId(group)
    config = [connector_config_record("c", {"name": "c"})]
    status = [status_record(ConnectorStatus("c", state, "w:1", 1))]
    client = ordered_producer(broker.client_settings)
    for name, pairs in (("configs", config), ("status", status)):
        send(client, pairs_of(filled.topic(name), [(prefix_key(prefix, key), value) for key, value in pairs]))


def watching(filled: Filled, group: str, *words: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "connect_share", "get", "connectors", *filled.flags(), "--group", group]
    return subprocess.Popen(
        [*command, "--watch", "0.1", *words], stdout=stdout, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def test_changes_are_shown_until_ctrl_c(changing: Filled, broker: TestBroker) -> None:
    write_connector(broker, changing, "watched", State.RUNNING)
    with watching(changing, "watched", "--output", "json") as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert [(row["connector"], row["state"]) for row in first["connectors"]] == [("c", "RUNNING")]
        write_connector(broker, changing, "somebody", State.FAILED)  # changes nothing that is shown
        write_connector(broker, changing, "watched", State.FAILED)
        lines = iter(process.stdout.readline, "")
        seen = next(row for row in map(json.loads, lines) if row["states"] == {"FAILED": 1})
        assert seen["connectors"][0]["config_written_ms"] >= first["connectors"][0]["config_written_ms"]
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=180)
    assert (process.returncode, rest) == (130, "")
    assert "Traceback" not in errors
    assert "error" not in errors


def screens(terminal: IO[str]) -> Iterator[str]:
    """What a terminal shows, after each time that it was cleared."""
    shown = ""
    with suppress(OSError):  # the other side has gone
        while character := terminal.read(1):
            shown += character
            if shown.endswith("\r\n") and "WORKER" in shown:
                if shown.count("\x1b[H\x1b[2J") > 1:
                    shown = shown[shown.rindex("\x1b[H") :]
                yield shown


def test_a_terminal_is_redrawn(changing: Filled, broker: TestBroker) -> None:
    write_connector(broker, changing, "drawn", State.RUNNING)
    ours, theirs = pty.openpty()
    with (
        watching(changing, "drawn", stdout=theirs) as process,
        os.fdopen(ours, encoding="utf-8", newline="") as terminal,
    ):
        os.close(theirs)
        shown = screens(terminal)
        assert any("1 connector: 1 RUNNING" in screen and " c " in screen for screen in shown)
        write_connector(broker, changing, "drawn", State.FAILED)
        assert any("1 connector: 1 FAILED" in screen and "RUNNING" not in screen for screen in shown)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130


def test_only_what_is_new_is_read_on(changing: Filled, broker: TestBroker) -> None:
    write_connector(broker, changing, "read-on", State.RUNNING)
    looks: list[bytes] = []
    topics = {TopicType.CONFIG: changing.topic("configs"), TopicType.STATUS: changing.topic("status")}
    topic_set = TopicSet.from_flags(broker.bootstrap_servers, topics, {})
    reading = TopicReading(topic_set, tuple(topics), groups=None, look=lambda *found: looks.append(found[2]))
    with broker.admin() as admin:
        assert reading.read_on(admin)
        before = reading.contents()
        looks.clear()
        assert not reading.read_on(admin)
        write_connector(broker, changing, "read-on", State.FAILED)
        assert reading.read_on(admin)
    assert looks == [b"connector-c", b"status-connector-c"]
    states = [
        contents.status_of(ClusterGroupId("read-on")).connector_status("c") for contents in (before, reading.contents())
    ]
    assert [status and status.state for status in states] == [State.RUNNING, State.FAILED]


def test_a_topic_that_was_created_again_is_read_from_its_beginning(broker: TestBroker, unique: str) -> None:
    topic = f"{unique}-configs"
    topic_set = TopicSet.from_flags(broker.bootstrap_servers, {TopicType.CONFIG: topic}, {})
    reading = TopicReading(topic_set, [TopicType.CONFIG], groups=None)
    with broker.admin() as admin:
        create_known(admin, NewTopicRequest(topic, 1, 1, {"cleanup.policy": "compact"}))
        reading.read_on(admin)
        delete_known(admin, topic)
        create_known(admin, NewTopicRequest(topic, 1, 1, {"cleanup.policy": "compact"}))
        with pytest.raises(TopicRecreatedError, match=f"{topic} was deleted and created again"):
            reading.read_on(admin)
