"""``exporter`` and ``usage`` on a real broker: what they say is what the workers said, and Prometheus can ask."""

from __future__ import annotations

import csv
import json
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from connect_share.kafka.admin import Admin
from connect_share.kafka.client import producer
from connect_share.model.keys import prefix_key
from connect_share.worker_config import ClientSettings
from tests.lab.embedded.broker import LocalBroker
from tests.lab.embedded.ports import free_ports
from tests.support.captures import captured, fill, rest_answers
from tests.support.console import console
from tests.support.kafka import TestBroker
from tests.support.programs import python
from tests.support.topics import ordered_producer, pairs_of, send, transaction
from tests.support.waiting import await_that

MONITORING = Path(__file__).parents[2] / "docs" / "monitoring"
GROUPS = {"com.acme.orders": "4.3.1", "billing": "3.9.2"}
FAILED = b'{"state":"FAILED","trace":"hunter2","worker_id":"w:1","generation":1}'
# What Strimzi's dashboard and alert rules ask of Connect's own metrics; those of clients, JVM and pods are the workers'.
STRIMZI = [
    "sum(kafka_connect_worker_connector_count)",
    "sum(kafka_connect_worker_task_count)",
    "sum(kafka_connect_worker_connector_running_task_count) by (connector)",
    "sum(kafka_connect_worker_connector_failed_task_count) by (connector)",
    'sum(kafka_connect_connector_status{status="failed"}) by (namespace, pod) > 0',
    "sum(kafka_connect_worker_connector_failed_task_count) by (namespace, pod) > 0",
]


@dataclass(frozen=True)
class Exporter:
    """A process that answers scrapes."""

    process: subprocess.Popen[str]
    address: str

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{self.address}{path}", timeout=120) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def samples(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """Return the values by name and labels."""
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(self.get("/metrics")[1])
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float | None:
        return self.samples().get((name, tuple(sorted(labels.items()))))

    def is_up(self) -> bool:
        return self.get("/-/healthy")[0] == 200


@contextmanager
def exporter(servers: str, flags: Sequence[str], *more: str) -> Iterator[Exporter]:
    command = [sys.executable, "-m", "connect_share", "exporter", "-B", servers, *flags]
    command += ["--listen", "127.0.0.1:0", *more]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None  # where it may first say what it waits for
            found = next(filter(None, map(re.compile(r"http://(\S+)/metrics").search, process.stderr)), None)
            assert found, f"ended with {process.wait()}"
            yield Exporter(process, found[1])
        finally:
            if process.poll() is None:
                process.kill()


def labelled(
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float], name: str, **labels: str
) -> list[dict[str, Any]]:
    """Return the labels of a metric's samples that have these labels too."""
    return [
        dict(found) | {"value": value}
        for (metric, found), value in samples.items()
        if metric == name and labels.items() <= dict(found).items()
    ]


@pytest.mark.slow
@pytest.mark.kills_broker
def test_it_says_what_the_workers_said_and_outlasts_an_outage(own_broker: LocalBroker) -> None:
    settings = ClientSettings({"bootstrap.servers": own_broker.bootstrap_servers})
    with Admin(settings, client_id="tests") as admin:
        flags = fill(settings, admin, "exporter", GROUPS)
    with exporter(own_broker.bootstrap_servers, flags) as running:
        await_that(running.is_up, what="read to the end")
        samples = running.samples()
        for group, version in GROUPS.items():
            said = rest_answers(version)["connectors_expanded"]
            assert running.value("kafka_connect_connectors_count", group=group) == len(said)
            statuses = labelled(samples, "kafka_connect_connector_status", group=group)
            assert {each["connector"]: each["status"] for each in statuses} == {
                name: one["status"]["connector"]["state"].lower() for name, one in said.items()
            }
            tasks = labelled(samples, "kafka_connect_connector_task_status", group=group)
            assert {(each["connector"], each["task"], each["status"]) for each in tasks} == {
                (name, str(task["id"]), task["state"].lower())
                for name, one in said.items()
                for task in one["status"]["tasks"]
            }
        assert "hunter2" not in running.get("/metrics")[1]
        own_broker.kill()
        await_that(running.is_up, lambda up: not up, what="it says that the brokers are away")
        assert running.value("kafka_connect_up") == 0
        assert running.samples().keys() >= {key for key in samples if key[0] == "kafka_connect_connector_status"}
        own_broker.start()
        await_that(running.is_up, what="up again", timeout_s=120)
        name = next(iter(rest_answers("4.3.1")["connectors_expanded"]))
        key = prefix_key("com.acme.orders", f"status-connector-{name}".encode())
        send(producer(settings, client_id="tests"), pairs_of("exporter-status", [(key, FAILED)]))
        failed = {"group": "com.acme.orders", "connector": name, "status": "failed"}
        await_that(lambda: running.value("kafka_connect_connector_status", **failed), what="the failure is shown")
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(120) == 0


def test_a_missing_topic_and_a_taken_port_are_said_at_once(broker: TestBroker, unique: str) -> None:
    missing = ["--status-storage-topic", f"{unique}-none"]
    words = ["-m", "connect_share", "exporter", "-B", broker.bootstrap_servers, *missing]
    ran = python(*words)
    assert ran.returncode == 1
    assert f"topic {unique}-none does not exist; check status.storage.topic" in ran.stderr
    with broker.admin() as admin:
        flags = fill(broker.client_settings, admin, unique, GROUPS)
    held = transaction(broker.client_settings, unique, pairs_of(f"{unique}-offsets", [(b"x", b"")], 0), "open")
    with held, exporter(broker.bootstrap_servers, flags) as running:
        await_that(lambda: running.value("connect_share_group_live_members", group="billing") == 0, what="a look")
        assert not running.is_up()
        ran = python(*words, "--listen", running.address)  # before the topics are looked for
        assert ran.returncode == 2
        assert f"--listen: {running.address} cannot be listened on" in ran.stderr
        assert running.get("/elsewhere")[0] == 404


@contextmanager
def prometheus(scraped: Exporter, folder: Path) -> Iterator[str]:
    """A real Prometheus with our rules that scrapes the exporter; yields its address."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    (folder / "prometheus.yml").write_text(
        f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n"
        f"rule_files: ['{MONITORING}/connect-share-rules.yaml']\n"
        f"scrape_configs: [{{job_name: connect, static_configs: [{{targets: ['{scraped.address}']}}]}}]\n"
    )
    options = [f"--web.listen-address={address}", "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
    with subprocess.Popen(["prometheus", *options], cwd=folder, stderr=subprocess.DEVNULL) as process:
        try:
            yield address
        finally:
            process.terminate()


def ask(address: str, query: str) -> str:
    command = ["promtool", "query", "instant", f"http://{address}", query]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300).stdout.strip()


def expressions() -> list[str]:
    """All queries of the dashboard, and those of the alert rules without their thresholds."""
    dashboard = json.loads((MONITORING / "connect-share-dashboard.json").read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return [each.replace("$__rate_interval", "1m").replace("$group", ".*") for each in asked]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool: apt-get install prometheus")
def test_the_rules_fire(tmp_path: Path) -> None:
    rules, cases = MONITORING / "connect-share-rules.yaml", Path(__file__).parents[1] / "vectors" / "alerts.yaml"
    (tmp_path / "alerts.yaml").write_text(cases.read_text("utf-8").replace("RULES", str(rules)), "utf-8")
    for command in (["check", "rules", str(rules)], ["test", "rules", str(tmp_path / "alerts.yaml")]):
        ran = subprocess.run(["promtool", *command], capture_output=True, text=True, check=False, timeout=300)
        assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus: apt-get install prometheus")
def test_prometheus_answers_every_query_of_the_dashboard_and_of_strimzi(
    broker: TestBroker, unique: str, tmp_path: Path
) -> None:
    with broker.admin() as admin:
        flags = fill(broker.client_settings, admin, unique, GROUPS)
    bad = [(prefix_key("billing", b"status-connector-broken"), FAILED)]
    bad += [(prefix_key("billing", b"status-task-broken-0"), FAILED), (prefix_key("billing", b"status-x"), b"?")]
    config = (prefix_key("billing", b"connector-broken"), b'{"properties":{"name":"broken"}}')
    tasks = [
        (prefix_key("billing", b"task-broken-0"), b'{"properties":{}}'),
        (prefix_key("billing", b"commit-broken"), b'{"tasks":1}'),
    ]
    client = ordered_producer(broker.client_settings)
    send(client, [*pairs_of(f"{unique}-configs", [config, *tasks]), *pairs_of(f"{unique}-status", bad)])
    with exporter(broker.bootstrap_servers, flags) as running, prometheus(running, tmp_path) as address:
        scraped = "kafka_connect_up == 1 and count_over_time(kafka_connect_up[1m]) > 2"
        await_that(lambda: ask(address, scraped), what="scraped")
        for query in (*expressions(), *STRIMZI):  # after a scrape that took too long there is nothing until the next
            await_that(partial(ask, address, query), what=query)
        wanted = {"ConnectorFailed", "ConnectorTasksFailed", "GroupWithoutWorkers"}
        await_that(
            lambda: set(re.findall(r'alertname="(\w+)"', ask(address, "ALERTS"))),
            lambda found: wanted <= found and "ConnectShareExporterDown" not in found,
            what="alerts are pending",
        )


def test_groups_their_cost_and_how_many_fit(
    broker: TestBroker, unique: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with broker.admin() as admin:
        flags = ["-B", broker.bootstrap_servers, *fill(broker.client_settings, admin, unique, GROUPS)]
        run = console(capsys)
        found: dict[str, Any] = run("usage", *flags, "--output", "json").json
        groups = {row["group"]: row for row in found["groups"]}
        assert groups.keys() == GROUPS.keys()
        for group, version in GROUPS.items():
            written = [record for name in ("configs", "offsets", "status") for record in captured(version, name)]
            assert groups[group]["records"] == len(written)
            assert groups[group]["bytes"] == sum(
                len(group) + 1 + len(record.key or b"") + len(record.value or b"") for record in written
            )
            # The captures are older than an hour.
            assert groups[group]["records_per_second"] == 0
        assert sum(row["share"] for row in groups.values()) == pytest.approx(1, abs=1e-3)
        assert found["most_groups"] > 100
        assert found["limited_by"] == "start"
        rows = list(csv.DictReader(run("usage", *flags, "--output", "csv").out.splitlines()))
        assert {row["group"]: int(row["records"]) for row in rows} == {
            group: row["records"] for group, row in groups.items()
        }
        text = run("usage", *flags, "--start-limit", "0.1").out
        assert "use a second set" in text
        assert text.splitlines()[0].startswith("GROUP")
    lately = [(prefix_key("billing", b'["c",{"n":%d}]' % number), b"{}") for number in range(36)]
    send(producer(broker.client_settings, client_id="tests"), pairs_of(f"{unique}-offsets", lately))
    found = run("usage", *flags, "--output", "json").json
    assert {row["group"]: row["records_per_second"] for row in found["groups"]} == {
        "billing": 0.01,
        "com.acme.orders": 0,
    }
