"""A topic that is lost: what finds it, what refuses to make it worse, and the way back, as docs/topics.md has it."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from connect_share.errors import LostTopicError
from connect_share.kafka.admin import Admin
from connect_share.kafka.create import LOSSES
from connect_share.model.records import ConnectorTaskId, TopicType
from connect_share.model.status import ConnectorStatus, State, TaskStatus
from connect_share.storage import AsyncConnectStorage, ConnectStorage, SharedTopics
from connect_share.worker_config import WorkerConfig
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.console import Call, Ran
from tests.support.flushes import flush_offsets
from tests.support.kafka import TestBroker
from tests.support.printed import Printed
from tests.support.topics import delete_known
from tests.support.worker_files import SHARING

PAGE = Path(__file__).parents[2] / "docs" / "topics.md"
FILE = {"filename": "x.txt"}


def fill(worker: WorkerConfig, position: int) -> None:
    """What a group writes in its life."""
    with ConnectStorage(worker) as storage:
        storage.config.put_connector_config("c", {"name": "c", "file": worker.group_id})
        storage.config.put_task_configs("c", [{"n": "0"}])
        storage.status.put(ConnectorStatus("c", State.RUNNING, "w:1", 1))
        storage.status.put(TaskStatus(ConnectorTaskId("c", 0), State.RUNNING, "w:1", 1))
        storage.status.flush()
        flush_offsets(storage.offset_writer("c", transactional=False), (FILE, {"position": position}))


def seen(worker: WorkerConfig) -> Any:
    with ConnectStorage(worker) as storage:
        config = storage.config.snapshot()
        tasks = [(str(task), config.task_config(task)) for task in config.tasks("c")]
        statuses = storage.status.get("c"), storage.status.get_all("c")
        return config.connector_config("c"), tasks, statuses, storage.offset_reader("c").offset(FILE)


class Site:
    """Two groups on one set of topics, with a backup of each that is older than their offsets."""

    def __init__(self, broker: TestBroker, unique: str, folder: Path, call: Call) -> None:
        self.folder, self.call = folder, call
        self.files = {}
        for name in ("one", "two"):
            properties = worker_properties(broker.bootstrap_servers, f"{unique}-{name}", unique)
            self.files[name] = write_properties(folder / f"{name}.properties", {**properties, **SHARING})
        self.workers = {name: WorkerConfig.from_file(path) for name, path in self.files.items()}
        for name, worker in self.workers.items():
            fill(worker, 1)
            assert call("export", "-w", self.files[name], "-o", folder / f"{name}.avro").code == 0
            fill(worker, 2)
        self.before = {name: seen(worker) for name, worker in self.workers.items()}
        self.topics = {kind: self.workers["one"].topic(kind) for kind in TopicType}

    def lose(self, admin: Admin, kind: TopicType, *, anew: bool) -> None:
        topic = self.topics[kind]
        (described,) = admin.describe_topics([topic]).values()
        delete_known(admin, topic)
        if anew:
            assert self.call("create", "topics", "-w", self.files["one"], "--although-lost", "--yes").code == 0
            now = admin.describe_topics([topic])[topic]
            assert now.topic_id != described.topic_id

    def findings(self, *words: str, file: str = "one") -> Any:
        ran = self.call("check", *words, "-w", self.files[file], "--output", "json")
        return ran.code, ran.json["findings"]


@pytest.fixture
def site(
    broker: TestBroker, unique: str, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Site, Admin]]:
    monkeypatch.setattr("connect_share.kafka.admin._SPREAD_S", 0.5)  # this one broker knows when a topic is gone
    with broker.admin() as admin:
        yield Site(broker, unique, tmp_path, call), admin


def advises_removals(ran: Ran) -> bool:
    return re.search(r"connect-share (delete group|repair orphans)", ran.out + ran.err) is not None


def follow_the_page(site: Site, name: str) -> None:
    """Run the commands of the page, as they stand there but for the names of files."""
    block = re.search(r"## A topic that is lost\n.*?```\n\$ (.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert block is not None
    commands = [line.removeprefix("$ ") for line in block[1].splitlines()]
    assert commands[0] == "connect-share check all -w orders.properties"
    for number, command in enumerate(commands):
        words = shlex.split(command.replace("orders.avro", str(site.folder / f"{name}.avro")))
        words = [str(site.files[name]) if word == "orders.properties" else word for word in words]
        ran = site.call(*words[1:])
        assert not advises_removals(ran)
        if number == 0:
            assert ran.code == 1
            assert "is lost, not empty" in ran.out
        elif words[1] != "check":
            assert ran.code == 0, ran.err
        else:
            assert "lost-topic" not in site.call(*words[1:], "--output", "json").out


@pytest.mark.parametrize("anew", [False, True], ids=["deleted", "made anew"])
def test_a_lost_config_topic_is_one_finding_and_comes_back(site: tuple[Site, Admin], anew: bool) -> None:
    here, admin = site
    here.lose(admin, TopicType.CONFIG, anew=anew)
    code, findings = here.findings("all")
    assert (code, [each["id"] for each in findings]) == (1, ["lost-topic"])
    (finding,) = findings
    assert (finding["severity"], finding["where"], finding["group"]) == ("error", here.topics[TopicType.CONFIG], None)
    path = here.files["one"]
    for asked in ("check topics", "check orphans", "check startup", "get connectors", "usage"):
        assert not advises_removals(here.call(*asked.split(), "-w", path))
    for asked in (f"delete group {here.workers['one'].group_id}", "repair orphans --offsets"):
        refused = here.call(*asked.split(), "-w", path, "--yes")
        assert refused.code == 1
        assert "is lost, not empty" in refused.err
    code, findings = here.findings("topics")
    topic_ids = {each["id"] for each in findings if each["where"] == here.topics[TopicType.CONFIG]}
    assert (code, topic_ids) == (1, {"lost-topic"})
    if anew:
        assert "it may be lost, run check all" in here.call("get", "connectors", "-w", path).err
    else:
        for asked in ("get connectors", "create topics --yes", "create topics --dry-run"):
            refused = here.call(*asked.split(), "-w", path)
            said = "is lost, not empty" in refused.err, "if config.storage.topic names the right one" in refused.err
            assert (refused.code, *said) == (1, True, True)
        check_stores(here.workers["one"])
        assert here.topics[TopicType.CONFIG] not in admin.describe_topics(here.topics.values())
    for name in here.files:
        follow_the_page(here, name)
    assert {name: seen(worker) for name, worker in here.workers.items()} == here.before


def check_stores(worker: WorkerConfig) -> None:
    """None of them makes the topic anew."""

    async def start() -> None:
        async with AsyncConnectStorage(worker):
            pass

    starts: list[Callable[[], object]] = [
        ConnectStorage(worker).start,
        lambda: SharedTopics(worker).storage(f"{worker.group_id}-new").start(),
        lambda: asyncio.run(start()),
    ]
    for begin in starts:
        with pytest.raises(LostTopicError, match="restore BACKUP -w FILE --only config"):
            begin()


@pytest.mark.parametrize("anew", [False, True], ids=["deleted", "made anew"])
def test_a_checkpoint_vouches_for_a_set_that_is_lost(site: tuple[Site, Admin], anew: bool) -> None:
    here, admin = site
    worker, path, checkpoint = here.workers["one"], here.files["one"], here.folder / "checkpoint"
    with ConnectStorage(worker, checkpoint=checkpoint):
        pass
    saved = checkpoint.read_bytes()
    for kind in TopicType:
        here.lose(admin, kind, anew=False)
    if anew:
        assert here.call("create", "topics", "-w", path, "--yes").code == 0
    with pytest.raises(LostTopicError, match="restore BACKUP -w FILE --only config") as refused:
        ConnectStorage(worker, checkpoint=checkpoint).start()
    assert f"checkpoint {checkpoint} was taken" in str(refused.value)
    assert (bool(admin.describe_topics(here.topics.values())), checkpoint.read_bytes()) == (anew, saved)
    assert here.call("create", "topics", "-w", path, "--yes").code == 0
    assert here.call("restore", here.folder / "one.avro", "-w", path, "--yes").code == 0
    with ConnectStorage(worker, checkpoint=checkpoint) as storage:
        assert storage.config.snapshot().contains("c")


@pytest.mark.parametrize("kind", [TopicType.OFFSET, TopicType.STATUS])
def test_another_topic_is_lost(site: tuple[Site, Admin], kind: TopicType, printed: Printed) -> None:
    here, admin = site
    here.lose(admin, kind, anew=False)
    assert [each["id"] for each in here.findings("all")[1]] == ["lost-topic"]
    with pytest.raises(LostTopicError, match=f"--only {kind.value}"):
        ConnectStorage(here.workers["two"]).start()
    (finding,) = here.findings("all")[1]
    restore, create = re.findall(r"\((connect-share .*?)\)", finding["remedy"])
    assert printed(create, "--yes", FILE=here.files["one"]).code == 0
    for name, path in here.files.items():
        backup = here.folder / f"{name}.avro"
        assert name != "one" or printed(finding["command"], BACKUP=backup).code == 0
        assert printed(restore, "--yes", BACKUP=backup, FILE=path).code == 0
    found = {name: seen(worker) for name, worker in here.workers.items()}
    for name, (config, tasks, statuses, offset) in here.before.items():
        at = {"position": 1} if kind is TopicType.OFFSET else offset  # what the backup has
        assert found[name] == (config, tasks, statuses, at)


def test_one_kind_is_put_back_without_the_others(site: tuple[Site, Admin]) -> None:
    here, admin = site
    lost = (TopicType.CONFIG, TopicType.STATUS)
    for kind in lost:
        here.lose(admin, kind, anew=False)
    assert [each["where"] for each in here.findings("all")[1]] == [here.topics[kind] for kind in lost]
    create = ("create", "topics", "-w", here.files["one"], "--dry-run")
    with pytest.raises(LostTopicError) as refused:
        ConnectStorage(here.workers["one"]).start()
    for said in (here.call(*create).err, str(refused.value)):
        assert all(f"topic {here.topics[kind]} is lost" in said for kind in lost)
    shown = here.call(*create, "--although-lost").out
    assert all(f"empty, whatever it had: {LOSSES[kind]}" in shown for kind in lost)
    assert LOSSES[TopicType.OFFSET] not in shown  # it is there
    ran = here.call("restore", here.folder / "one.avro", "-w", here.files["one"], "--only", "config", "--yes")
    assert (ran.code, here.topics[TopicType.STATUS] in ran.out + ran.err) == (0, False)
    assert here.topics[TopicType.STATUS] not in admin.describe_topics(here.topics.values())


def test_one_group_is_lost_among_others_that_are_not(site: tuple[Site, Admin]) -> None:
    """Only its own worker file vouches for it: to others it is an orphan, as one that somebody has invented."""
    here, admin = site
    here.lose(admin, TopicType.CONFIG, anew=True)
    assert (
        here.call("restore", here.folder / "two.avro", "-w", here.files["two"], "--only", "config", "--yes").code == 0
    )
    one = here.workers["one"].group_id
    code, findings = here.findings("all")
    assert code == 1
    assert [each["id"] for each in findings if each["group"] == one] == ["lost-topic"]
    assert {each["id"] for each in here.findings("orphans")[1] if each["group"] == one} == {"lost-topic"}
    by_other = {each["id"] for each in here.findings("orphans", file="two")[1]}
    assert by_other == {"orphan-group"}
    words = ("delete", "group", one, "--output", "json")
    assert here.call(*words, "-w", here.files["one"], "--yes").code == 1
    unasked = here.call(*words, "-w", here.files["two"])
    assert (unasked.code, "give --yes" in unasked.err) == (1, True)
    assert here.call(*words, "-w", here.files["two"], "--yes").json["removed"] > 0


def test_new_topics_of_a_group_that_has_nothing_yet_are_made(site: tuple[Site, Admin], unique: str) -> None:
    """A set may have one topic of its own beside those of others; and the flag lets a group start anew."""
    here, admin = site
    properties = {**here.workers["one"].originals, "group.id": f"{unique}-new", "status.storage.topic": f"{unique}-own"}
    with ConnectStorage(WorkerConfig.from_properties(properties)):
        assert f"{unique}-own" in admin.describe_topics([f"{unique}-own"])
    here.lose(admin, TopicType.STATUS, anew=False)
    with ConnectStorage(here.workers["one"], allow_empty=True) as storage:
        assert storage.config.snapshot().contains("c")
        assert storage.status.get("c") is None
