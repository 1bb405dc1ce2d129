"""Lists of the console: failures first, by state and topic, offsets as REST gives them, times, and again after changes."""

from __future__ import annotations

import base64
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import pytest

from connect_share.contents.groups import TopicReading
from connect_share.errors import TopicRecreatedError
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.config import connector_config_record
from connect_share.model.keys import ClusterGroupId, ConfigKey, StatusKey, prefix_key
from connect_share.model.offsets import offset_key
from connect_share.model.records import TopicType
from connect_share.model.status import ConnectorStatus, State, connector_status_record
from connect_share.worker_config import TopicSet
from tests.broker.test_console import Filled, believed, filled, run, vector, worker_file  # noqa: F401 - fixtures
from tests.support.kafka import TestBroker
from tests.support.topics import create_known, ordered_producer, pairs_of, send
from tests.support.waiting import await_that

# ruff: noqa: F811 - fixtures

GROUP = "team-b"


def newest_ms(name: str, key: bytes) -> int:
    """When a worker wrote the newest record of a key."""
    at_ms = [line["timestamp_ms"] for line in vector("4.3.1", name) if base64.b64decode(line["key_b64"]) == key]
    return int(at_ms[-1])


def test_failures_come_first_and_are_counted(filled: Filled, run: Any) -> None:
    flags = [*filled.flags(), "--all-groups"]
    ran = run("get", "connectors", *flags)
    lines = ran.out.splitlines()[1:]
    failed = [" FAILED" in line for line in lines]
    assert failed == sorted(failed, reverse=True)
    assert lines[0].split()[:2] == ["(plain)", "fail-task"]
    assert "1 (1 FAILED)" in lines[0]
    everything = run("get", "tasks", *flags, "--output", "json").json
    tasks = everything["tasks"]
    assert everything["states"] == {
        state: sum(task["state"] == state for task in tasks) for state in {task["state"] for task in tasks}
    }
    assert [task["state"] == "FAILED" for task in tasks] == sorted(
        (task["state"] == "FAILED" for task in tasks), reverse=True
    )
    assert f"; their tasks: {everything['states']['FAILED']} FAILED, " in ran.err


def test_only_those_in_a_state(filled: Filled, run: Any) -> None:
    flags = [*filled.flags(), "--output", "json"]
    tasks = run("get", "tasks", *flags).json
    failed = run("get", "tasks", *flags, "--state", "failed").json
    assert failed["tasks"] == [task for task in tasks["tasks"] if task["state"] == "FAILED"]
    assert failed["states"] == tasks["states"]
    connectors = run("get", "connectors", *flags, "--state", "FAILED").json["connectors"]
    assert {row["connector"] for row in connectors} >= {task["connector"] for task in failed["tasks"]}
    ran = run("get", "statuses", *filled.flags(), "--state", "DESTROYED,RESTARTING", "--group", GROUP)
    assert (ran.code, len(ran.out.splitlines())) == (0, 1)
    assert f"no statuses were found in state DESTROYED or RESTARTING in {GROUP}" in ran.err
    ran = run("get", "tasks", *filled.flags(), "--state", "BROKEN")
    assert ran.code == 2
    assert "states are UNASSIGNED, RUNNING, " in ran.err


@pytest.mark.parametrize("group", [GROUP, "team.a"])
def test_offsets_of_a_connector_are_what_rest_gives(filled: Filled, run: Any, group: str) -> None:
    version = {GROUP: "4.3.1", "team.a": "3.9.2"}[group]
    words = ["get", "offsets", *filled.flags(), "--group", group, "--output", "json"]
    with_offsets = {row["connector"] for row in run(*words).json["offsets"]}
    compared = 0
    for name, one in believed(version)["connectors"].items():
        body = one["offsets"]["body"]
        if name in with_offsets and body.get("offsets") and "kafka_topic" not in body["offsets"][0]["partition"]:
            shown = run(*words, "--connector", name).json
            assert sorted(shown["offsets"], key=str) == sorted(body["offsets"], key=str)
            assert shown.keys() == body.keys()
            compared += 1
    assert compared >= 3


def test_offsets_of_a_name_in_several_groups_name_the_group(filled: Filled, run: Any) -> None:
    ran = run("get", "offsets", *filled.flags(), "--connector", "my.conn", "--output", "json")
    assert (
        "my.conn is a connector of (plain), team-b, team.a: --group names one, for JSON that a worker takes" in ran.err
    )
    assert {row["group"] for row in ran.json["offsets"]} == {None, "team-b", "team.a"}


def test_which_connectors_use_a_topic(filled: Filled, run: Any) -> None:
    rest = believed("4.3.1")
    users: dict[str, set[str]] = {}
    for name, one in rest["connectors"].items():
        configured = rest["connectors_expanded"][name]["info"]["config"].get("topics", "")
        for topic in {*one["topics"]["body"][name]["topics"], *configured.split(",")} - {""}:
            users.setdefault(topic, set()).add(name)
    words = ["get", "connectors", *filled.flags(), "--group", GROUP, "--topic"]
    for topic in ("server1.inventory.customers", "server1.inventory.orders", "digits.42"):
        rows = run(*words, topic, "--output", "json").json["connectors"]
        assert {row["connector"] for row in rows} == users[topic]
    assert f"no connectors were found that use topic 'nowhere' in {GROUP}" in run(*words, "nowhere").err


def test_when_things_were_written(filled: Filled, run: Any) -> None:
    words = ["describe", "connector", "my.conn", *filled.flags(), "--group", GROUP]
    (described,) = run(*words, "--output", "json").json["connectors"]
    assert described["config_written_ms"] == newest_ms("configs", ConfigKey.CONNECTOR.key("my.conn"))
    assert described["status_written_ms"] == newest_ms("status", StatusKey.CONNECTOR.key("my.conn"))
    assert described["tasks"][0]["status_written_ms"] == newest_ms("status", StatusKey.TASK.key("my.conn-0"))
    (offset,) = described["offsets"]
    assert offset["written_ms"] == newest_ms("offsets", offset_key("my.conn", offset["partition"]))
    assert "last written:  configuration  20" in run(*words).out
    group = run("describe", "group", GROUP, *filled.flags(), "--output", "json").json
    assert {each["type"]: each["last_written_ms"] for each in group["topics"]} == {
        kind: max(line["timestamp_ms"] for line in vector("4.3.1", name))
        for kind, name in (("config", "configs"), ("offset", "offsets"), ("status", "status"))
    }


def test_a_group_without_records_beside_others(filled: Filled, run: Any, tmp_path: Path) -> None:
    ran = run("get", "connectors", "-w", worker_file(tmp_path, filled, "new-team", sharing=True))
    assert ran.code == 0
    assert "records there of other groups: --all-groups shows them" in ran.err


def write_connector(broker: TestBroker, filled: Filled, group: str, state: State) -> None:
    prefix = ClusterGroupId(group)
    config = [connector_config_record("c", {"name": "c"})]
    status = [connector_status_record(ConnectorStatus("c", state, "w:1", 1))]
    client = ordered_producer(broker.client_settings)
    for name, pairs in (("configs", config), ("status", status)):
        send(client, pairs_of(filled.topic(name), [(prefix_key(prefix, key), value) for key, value in pairs]))


def watching(filled: Filled, group: str, *words: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "connect_share", "get", "connectors", *filled.flags(), "--group", group]
    return subprocess.Popen(
        [*command, "--watch", "0.1", *words], stdout=stdout, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def test_changes_are_shown_until_ctrl_c(filled: Filled, broker: TestBroker) -> None:
    write_connector(broker, filled, "watched", State.RUNNING)
    with watching(filled, "watched", "--output", "json") as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert [(row["connector"], row["state"]) for row in first["connectors"]] == [("c", "RUNNING")]
        write_connector(broker, filled, "somebody", State.FAILED)  # changes nothing that is shown
        write_connector(broker, filled, "watched", State.FAILED)
        lines = iter(process.stdout.readline, "")
        seen = next(row for row in map(json.loads, lines) if row["states"] == {"FAILED": 1})
        assert seen["connectors"][0]["config_written_ms"] >= first["connectors"][0]["config_written_ms"]
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=30)
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


def test_a_terminal_is_redrawn(filled: Filled, broker: TestBroker) -> None:
    write_connector(broker, filled, "drawn", State.RUNNING)
    ours, theirs = pty.openpty()
    with watching(filled, "drawn", stdout=theirs) as process, os.fdopen(ours, encoding="utf-8", newline="") as terminal:
        os.close(theirs)
        shown = screens(terminal)
        assert any("1 connector: 1 RUNNING" in screen and " c " in screen for screen in shown)
        write_connector(broker, filled, "drawn", State.FAILED)
        assert any("1 connector: 1 FAILED" in screen and "RUNNING" not in screen for screen in shown)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130


def test_a_group_that_is_not_there_is_not_watched(filled: Filled) -> None:
    with watching(filled, "nobody") as process:
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "there is no group nobody in " in errors


def test_only_what_is_new_is_read_on(filled: Filled, broker: TestBroker) -> None:
    write_connector(broker, filled, "read-on", State.RUNNING)
    looks: list[bytes] = []
    topics = {TopicType.CONFIG: filled.topic("configs"), TopicType.STATUS: filled.topic("status")}
    reading = TopicReading(
        TopicSet.from_flags(broker.bootstrap_servers, topics, {}),
        tuple(topics),
        groups=None,
        timeout_s=30,
        look=lambda _type, _group, original, _record: looks.append(original),
    )
    with broker.admin() as admin:
        assert reading.read_on(admin)
        before = reading.contents()
        looks.clear()
        assert not reading.read_on(admin)
        write_connector(broker, filled, "read-on", State.FAILED)
        assert reading.read_on(admin)
    assert looks == [b"connector-c", b"status-connector-c"]
    states = [
        contents.status_of(ClusterGroupId("read-on")).connector_status("c") for contents in (before, reading.contents())
    ]
    assert [status and status.state for status in states] == [State.RUNNING, State.FAILED]


def test_a_topic_that_was_created_again_is_read_from_its_beginning(broker: TestBroker, unique: str) -> None:
    topic = f"{unique}-configs"
    reading = TopicReading(
        TopicSet.from_flags(broker.bootstrap_servers, {TopicType.CONFIG: topic}, {}),
        [TopicType.CONFIG],
        groups=None,
        timeout_s=30,
    )
    with broker.admin() as admin:
        create_known(admin, NewTopicRequest(topic, 1, 1, {"cleanup.policy": "compact"}))
        reading.read_on(admin)
        admin.delete_topics([topic])
        await_that(lambda: admin.describe_topics([topic]), lambda found: not found, what="deleted")
        create_known(admin, NewTopicRequest(topic, 1, 1, {"cleanup.policy": "compact"}))
        with pytest.raises(TopicRecreatedError, match=f"{topic} was deleted and created again"):
            reading.read_on(admin)
        admin.delete_topics([topic])
