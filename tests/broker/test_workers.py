"""``get workers`` and ``check workers`` beside groups that have a member."""

from __future__ import annotations

import re
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.records import TopicType
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.checked import CONFIG, STATUS, records
from tests.support.connect_member import ConnectMember, a_worker
from tests.support.console import Call
from tests.support.kafka import TestBroker
from tests.support.printed import Printed
from tests.support.servers import serving
from tests.support.topics import create_known, write_records

STATUS_VALUE = '{"state":"RUNNING","trace":null,"worker_id":"h:8083","generation":%d}'
CONNECTOR = [("connector-c", '{"properties":{"connector.class":"C"}}')]


@pytest.fixture
def worker_file(broker: TestBroker, unique: str, tmp_path: Path) -> Path:
    """The worker file of a plain group with one connector."""
    properties = worker_properties(broker.bootstrap_servers, unique)
    with broker.admin() as admin:
        for kind in TopicType:
            topic = properties[f"{kind.value}.storage.topic"]
            create_known(admin, NewTopicRequest(topic, 1, 1, {"cleanup.policy": "compact"}))
    statuses = [("status-connector-c", STATUS_VALUE % 3), ("status-task-c-0", STATUS_VALUE % 4)]
    for kind, pairs in ((CONFIG, CONNECTOR), (STATUS, statuses)):
        write_records(broker.client_settings, properties[f"{kind.value}.storage.topic"], records(kind, *pairs))
    return write_properties(tmp_path / "w.properties", properties)


def test_a_worker_and_what_it_runs(broker: TestBroker, unique: str, worker_file: Path, call: Call) -> None:
    ran = call("get", "workers", "-w", worker_file)
    assert (ran.code, f"{unique}: no live worker" in ran.err) == (0, True)
    with a_worker(broker.bootstrap_servers, unique, 1):
        (row,) = call("get", "workers", "-w", worker_file, "--output", "json").json["workers"]
        expected = {
            "group_id": unique,
            "group_state": "Stable",
            "settled": True,
            "worker_id": "h:8083",
            "leader": False,
        }
        expected |= {"url": "http://h:8083/", "protocol": "sessioned", "config_position": 1, "assignment_position": 1}
        expected |= {"connectors": ["c"], "tasks": ["c-0", "c-1"], "generation": 4, "client_id": "connect-member"}
        assert {name: row[name] for name in expected} == expected
        servers = ("-B", broker.bootstrap_servers, "--group-id", unique)
        (row,) = call("get", "workers", *servers, "--output", "json").json["workers"]
        assert row == {**row, **expected, "generation": None}  # no topic was named
        text = call("get", "workers", "-w", worker_file).out
        assert "h:8083" in text
        assert call("check", "workers", "-w", worker_file).code == 0
        assert call("check", "workers", "-w", worker_file, "--output", "json").json["findings"] == []
    assert call("get", "workers", "-B", broker.bootstrap_servers).code == 0


def test_a_leader_that_cannot_be_reached_is_looked_for_only_when_asked(
    broker: TestBroker, unique: str, worker_file: Path, call: Call
) -> None:
    with a_worker(broker.bootstrap_servers, unique, 1, "http://127.0.0.1:1/"):
        assert call("check", "workers", "-w", worker_file).code == 0
        ran = call("check", "workers", "-w", worker_file, "--rest", "--output", "json")
        assert [each["id"] for each in ran.json["findings"]] == ["workers-leader-unreachable"]
        assert "http://127.0.0.1:1/" in ran.json["findings"][0]["what"]


def test_a_worker_is_asked_by_rest_at_an_address_that_is_given(unique: str, worker_file: Path, call: Call) -> None:
    answers = [(200, b'["c"]'), (200, b'["c", "of-another"]'), (500, b"{}"), (200, b"x" * (1 << 23)), (302, b"")]
    answers.append((200, b"[" * 100_000))

    class Rest(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, body = answers[0]
            self.send_response(code)
            self.send_header("Location", f"http://{address}/elsewhere")
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body if self.path == "/connectors" else b'["c"]')

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Rest)) as address:
        words = ("check", "workers", "-w", worker_file, "--rest", f"http://{address}/")
        other = worker_file.with_name("other.properties")
        other.write_text(f"{worker_file.read_text()}\nconnect.management.topic.sharing.support=enabled\n")
        (found,) = call(*words[:3], other, *words[4:], "--output", "json").json["findings"]  # it has no record
        assert (found["id"], found["group"]) == ("workers-rest-differs", unique)
        for expected in (
            None,
            "it lacks none; that the topic does not have it has of-another",
            "HTTP Error 500",
            "is larger than",
            "HTTP Error 302",
            "recursion",
        ):
            found = [(each["id"], each["what"]) for each in call(*words, "--output", "json").json["findings"]]
            kind = "workers-rest-differs" if len(answers) == 5 else "workers-rest-silent"
            assert [each for each, _ in found] == ([] if expected is None else [kind])
            assert expected is None or expected in found[0][1]
            answers.pop(0)
    for url in ("file:///etc/hosts", "http://127.0.0.1:99999"):
        assert "has to be http://HOST:PORT" in call("check", "workers", "-w", worker_file, "--rest", url).err


def test_a_worker_of_another_topic(
    broker: TestBroker, unique: str, worker_file: Path, call: Call, printed: Printed
) -> None:
    with a_worker(broker.bootstrap_servers, unique, 7):
        ran = call("check", "all", "-w", worker_file, "--output", "json")
        found = [each for each in ran.json["findings"] if each["id"].startswith("workers-")]
        assert [each["id"] for each in found] == ["workers-other-topic"]
        assert "h:8083" in found[0]["what"]
        assert f"{unique}-configs ends at 1" in found[0]["what"]
        assert printed(found[0]["command"]).code == 0


def test_a_group_that_does_not_settle(
    broker: TestBroker, unique: str, worker_file: Path, call: Call, printed: Printed
) -> None:
    with ConnectMember(broker.bootstrap_servers, unique):
        ran = call("check", "workers", "-w", worker_file, "--timeout", "4", "--output", "json")
        assert (ran.code, [each["id"] for each in ran.json["findings"]]) == (1, ["workers-not-settled"])
        ran = call("get", "workers", "-w", worker_file, "--timeout", "4", "--output", "json")
        (row,) = ran.json["workers"]
        assert (row["settled"], row["tasks"], row["config_position"], row["leader"]) == (False, None, None, None)
        assert row["group_state"] == "CompletingRebalance"
        assert "did not settle" in ran.err
        (named,) = re.findall(r"connect-share check workers .*(?= says)", ran.err)
        assert "does not settle" in printed(named, "--timeout", "4").out
