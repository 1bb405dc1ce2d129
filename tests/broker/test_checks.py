"""The checks on real topics: a healthy group beside one with every fault."""

from __future__ import annotations

import importlib
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from connect_share import checks
from connect_share.cli import check as cli_check
from connect_share.cli.__main__ import main
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.records import TopicType
from tests.lab.embedded.worker import write_properties
from tests.support.captures import prefixed
from tests.support.checked import CONFIG, OFFSET, STATUS, captured_topics, records
from tests.support.console import Call, Ran, console
from tests.support.kafka import TOPIC_PREFIX, TestBroker
from tests.support.topics import UNTOUCHED, alter_known, create_known, write_records
from tests.support.worker_files import SHARING, properties_of

SECRET = "hunter2-canary"
CONNECTOR = '{"properties":{"connector.class":"C"}}'
TASK = '{"properties":{"task.class":"T"}}'
RUNNING = '{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":1}'
FAULTY: dict[TopicType, tuple[tuple[str, str | None], ...]] = {
    CONFIG: (
        ("task-late-0", TASK),
        ("commit-late", '{"tasks":1}'),
        ("connector-late", CONNECTOR),
        ("connector-short", CONNECTOR),
        ("commit-short", '{"tasks":3}'),
        ("connector-open", f'{{"properties":{{"db.password":"{SECRET}","size":"{"x" * 15_000}"}}}}'),
        ("connector-x.connector-y", CONNECTOR),
        ("task-gone-0", TASK),
    ),
    STATUS: (("status-connector-gone", RUNNING), ("status-task-gone-0", RUNNING)),
    OFFSET: (('["gone",{"p":1}]', '{"o":1}'),),
}
MEMBERS = {"id", "severity", "group", "where", "what", "why", "remedy", "command"}
FOUND = {
    "order": ["order-tasks-dropped", "order-tasks-missing"],
    "orphans": ["orphan-offsets", "orphan-statuses", "orphan-task-configs"],
    "collisions": ["collision-ambiguous-key"],
    "secrets": ["secrets-clear-text"],
    "sizes": ["sizes-near-limit"],
    "liveness": ["liveness-no-workers"],
}


pytestmark = pytest.mark.xdist_group("checks")


@dataclass(frozen=True)
class Site:
    healthy: str
    faulty: str
    worker_file: Path
    topics: dict[TopicType, str]
    broker: TestBroker

    def flags(self) -> list[str]:
        named = [word for kind, topic in self.topics.items() for word in (f"--{kind.value}-storage-topic", topic)]
        return ["-B", self.broker.bootstrap_servers, *named]


@pytest.fixture(scope="module")
def site(broker: TestBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    tag = uuid.uuid4().hex[:6]
    topics = {kind: f"{TOPIC_PREFIX}-checks-{tag}-{kind.value}" for kind in TopicType}
    file = tmp_path_factory.mktemp("checks") / "worker.properties"
    made = Site(f"healthy-{tag}", f"faulty-{tag}", file, topics, broker)
    lines = properties_of(broker.bootstrap_servers, made.faulty) | SHARING
    write_properties(file, lines | {f"{kind.value}.storage.topic": topic for kind, topic in topics.items()})
    with broker.admin() as admin:
        for kind, topic in topics.items():
            create_known(admin, NewTopicRequest(topic, 1 if kind is CONFIG else 3, 1, UNTOUCHED))
        try:
            for kind, captured in captured_topics("4.3.1").items():
                written = [*prefixed(captured, made.healthy), *records(kind, *FAULTY[kind], group=made.faulty)]
                write_records(broker.client_settings, topics[kind], written, keep_partition=False)
            # Batches of many records would not have been accepted.
            alter_known(admin, topics[CONFIG], {"max.message.bytes": "20000"})
            yield made
        finally:
            admin.delete_topics(list(topics.values()))


@pytest.fixture
def check(site: Site, capsys: pytest.CaptureFixture[str]) -> Call:
    return console(capsys, "check", secret=SECRET)


def ids(ran: Ran) -> list[str]:
    return sorted({finding["id"] for finding in ran.json["findings"]})


@pytest.mark.parametrize("noun", FOUND)
def test_each_finds_its_fault_and_nothing_at_the_healthy_group(site: Site, check: Any, noun: str) -> None:
    found = check(noun, *site.flags(), "--output", "json")
    severe = {finding["id"] for finding in found.json["findings"] if finding["severity"] == "error"}
    of_faulty = [finding for finding in found.json["findings"] if site.faulty in finding["where"]]
    assert sorted({finding["id"] for finding in of_faulty}) == FOUND[noun]
    assert found.code == (1 if severe else 0)
    assert all(set(finding) == MEMBERS and finding["group"] == site.faulty for finding in of_faulty)
    at_others = [finding for finding in found.json["findings"] if finding not in of_faulty]
    if noun != "liveness":  # nobody works for the other group either
        assert {finding["severity"] for finding in at_others} <= {"note"}
    text = check(noun, *site.flags())
    assert text.code == found.code
    assert all(finding["what"] in text.out for finding in of_faulty)


def test_only_a_group_and_without_what_is_ignored(site: Site, check: Any) -> None:
    ran = check("order", *site.flags(), "--group", site.healthy, "--output", "json")
    assert (ran.code, ran.json["findings"], "no records" in ran.err) == (0, [], False)
    ran = check("order", *site.flags(), "--group", site.healthy, "--group", "mistyped")
    assert (ran.code, ran.err.count("group mistyped has no records on the topics that were read")) == (0, 1)
    ran = check("order", *site.flags(), "--ignore", "order-tasks-dropped", "--ignore", "order-tasks-missing")
    assert ran.code == 0
    (line,) = ran.out.splitlines()
    assert line.endswith(": nothing found")
    sizes = check("sizes", *site.flags(), "--group", site.healthy, "--output", "json").json
    assert (sizes["findings"], {each["group"] for each in sizes["largest"]}) == ([], {site.healthy})
    largest = check("sizes", *site.flags(), "--output", "json").json["largest"]
    assert {each["group"] for each in largest} == {site.healthy, site.faulty}
    assert max(each["bytes"] for each in largest) > 15_000


def test_all_at_once(site: Site, check: Any) -> None:
    ran = check("all", "-w", site.worker_file, "--output", "json")
    assert ran.code == 1
    assert {each for found in FOUND.values() for each in found} <= set(ids(ran))
    assert ran.json["checks"]["topic-ids"]["run"] is False
    run = {name for name, each in ran.json["checks"].items() if each["run"]}
    assert run >= {*FOUND, "topics", "sealing", "startup", "worker-config"}
    ranks = [("error", "warning", "note").index(finding["severity"]) for finding in ran.json["findings"]]
    assert ranks == sorted(ranks)

    # People see the worst of them, and all if they ask.
    shown = check("all", "-w", site.worker_file).out
    lines = [f"{each['severity']}: {each['where']}: {each['what']}" for each in ran.json["findings"]]
    assert [line in shown for line in lines] == [True] * 10 + [False] * (len(lines) - 10)
    assert f"and {len(lines) - 10} more findings: --all shows all" in shown
    assert all(line in check("all", "-w", site.worker_file, "--all").out for line in lines[:10:3] + lines[-2:])
    # A command names the worker file where it is that of the group.
    named = {each["command"] for each in ran.json["findings"] if each["group"] == site.faulty and each["command"]}
    assert {each for each in named if "repair" in each} >= {f"connect-share repair order -w {site.worker_file}"}

    narrowed = check("all", "-w", site.worker_file, "--group", site.healthy, "--output", "json").json["findings"]
    assert {each["group"] for each in narrowed} <= {None, site.healthy}
    # With the config topic alone: what needs others is named, and the rest is run.
    ran = check("all", "-B", site.broker.bootstrap_servers, "--config-storage-topic", site.topics[CONFIG])
    assert ran.code == 1
    assert "sizes: not run: needs --status-storage-topic and --offset-storage-topic" in ran.out
    assert "worker-config: not run: needs -w FILE" in ran.out
    assert "order-tasks-dropped" not in ran.out  # ids are for programs
    assert "secrets: 1 error" in ran.out


@pytest.mark.parametrize("runtime", ["plain", "python", "java"])
def test_a_healthy_group_passes(runtime: str, broker: TestBroker, unique: str, tmp_path: Path, check: Any) -> None:
    """A plain cluster is not asked for topic sharing, nor a group of the Python stores for the jar."""
    lines = properties_of(broker.bootstrap_servers, unique, f"{unique}-") | ({} if runtime == "plain" else SHARING)
    file = write_properties(tmp_path / "worker.properties", lines)
    ran = check("all", "-w", file, "--output", "json")  # before there are any topics
    assert {name for name, each in ran.json["checks"].items() if each["run"]} == {"topics", "rights", "worker-config"}
    assert all(check(noun, "-w", file).out.count(f"create topics -w {file}\n") == 3 for noun in ("all", "topics"))
    assert main(["create", "topics", "-w", str(file), "--yes"]) == 0
    config = [("connector-c", CONNECTOR), ("task-c-0", TASK), ("commit-c", '{"tasks":1}')]
    own = records(CONFIG, *config, group=None if runtime == "plain" else unique)
    write_records(broker.client_settings, lines["config.storage.topic"], own, keep_partition=False)
    asked = [] if runtime == "plain" else ["--runtime", runtime]
    ran = check("all", "-w", file, *asked, "--output", "json")
    errors = {each["what"] for each in ran.json["findings"] if each["severity"] == "error"}
    assert (ran.code, bool(errors)) == ((1, True) if runtime == "java" else (0, False))
    write_properties(tmp_path / "x.properties", lines | SHARING | {"group.id": "another"})
    assert f"rights and sealing look at {file} alone" in check("all", "-w", tmp_path, *asked).err
    assert all("interceptor" in each for each in errors)


def test_a_new_check_is_one_file(site: Site, check: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that docs/contributing.md adds, as if it were in the package: nothing names it."""
    text = (Path(__file__).parents[2] / "docs" / "contributing.md").read_text("utf-8")
    recipe = re.search(
        r"`connect_share/checks/classes\.py`, for example:\n\n<!--.*?-->\n```python\n(.*?)```", text, re.DOTALL
    )
    assert recipe is not None
    (tmp_path / "classes.py").write_text(recipe[1], "utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(checks, "__path__", [*checks.__path__, str(tmp_path)])
        commands = importlib.reload(cli_check).COMMANDS
        assert "check classes" in {each.name for each in commands}
        alone = check("classes", *site.flags(), "--output", "json")
        (finding,) = alone.json["findings"]
        assert (alone.code, finding["id"]) == (1, "classes-missing")
        assert finding["where"].endswith(f"group {site.faulty}, connector open")
        ran = check("all", *site.flags(), "--output", "json")
        assert ran.json["checks"]["classes"] == {"run": True, "reason": None, "findings": 1}
        assert finding in ran.json["findings"]
    importlib.reload(cli_check)
