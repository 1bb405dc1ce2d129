"""What a store of the group, which no membership shows, commits while a command writes: nobody is overtaken in silence.

``make soak`` tries many moments with each command.
"""

from __future__ import annotations

import random
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from connect_share.backup import rewrite
from connect_share.files import Silent
from connect_share.kafka import write as written
from connect_share.model.records import TopicType
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from tests.support.console import Ran
from tests.support.flushes import flush_offsets
from tests.support.long_forms import LONG
from tests.support.migration_site import SHARED_PARTITIONS, Site, run
from tests.support.sealed_sites import worker
from tests.support.sealed_stores import believed
from tests.support.waiting import await_that

KEYS = 30
MOMENTS = 200 if LONG else 3
OFFSETS = [(name, {"n": number}) for number in range(KEYS) for name in ("c", "gone")]
Call = Callable[..., Ran]


class _Scene:
    """A group of which one connector is configured and another is gone, and a store of it."""

    def __init__(self, site: Site, call: Call, storage: ConnectStorage, file: Path) -> None:
        self.site, self.call, self.storage, self.file = site, call, storage, file
        self.backup, self.position = site.folder / "all.avro", 0
        self.fill()
        worker_config = WorkerConfig.from_file(file)
        stopped = rewrite.StoppedGroup(worker_config, worker_config.cluster_group_id, worker_config.group_id, "test")
        stopped.back_up(self.backup, stopped.facts(), "run", Silent())

    def fill(self) -> None:
        self.storage.config.put_connector_config("c", {"name": "c"}, None)
        self.position += 1
        for name in ("c", "gone"):
            mine = [(partition, {"position": self.position}) for each, partition in OFFSETS if each == name]
            flush_offsets(self.storage.offset_writer(name, transactional=False), *mine)

    def commit(self, name: str, partition: dict[str, int]) -> None:
        self.position += 1
        flush_offsets(self.storage.offset_writer(name, transactional=False), (partition, {"position": self.position}))

    def found(self, name: str, partition: dict[str, int]) -> Any:
        self.storage.offsets.refresh()
        return self.storage.offset_reader(name).offset(partition)

    def ends(self) -> int:
        with self.site.admin() as admin:
            topics = admin.describe_topics(self.site.topic("shared", kind) for kind in TopicType)
            ends = admin.log_ends((name, part.id) for name, topic in topics.items() for part in topic.partitions)
        return sum(each.offset for each in ends.values())

    def limit(self, topic: str, most: str | None) -> None:
        """Change the largest record that the broker takes."""
        with self.site.admin() as admin:
            admin.alter_topic_configs(topic, {"max.message.bytes": most})

    def command(self, name: str) -> Ran:
        """Run a command that writes, where there is something to write."""
        if name == "restore":
            return self.call("restore", self.backup, "-w", self.file, "--yes")
        if name == "delete group":
            return self.call("delete", "group", "one", "-w", self.file, "--yes")
        if name == "repair orphans":
            return self.call("repair", "orphans", "--offsets", "-w", self.file, "--yes")
        return Ran(*run("reseal", "-w", self.file, "--yes", "--plain"))


@pytest.fixture
def scene(site: Site, call: Call) -> Iterator[_Scene]:
    site.create("shared", SHARED_PARTITIONS)
    file = worker(site, "shared", "one", 7, mode="accept")
    with ConnectStorage(WorkerConfig.from_file(file)) as storage:
        yield _Scene(site, call, storage, file)


@pytest.fixture
def while_it_writes(scene: _Scene, monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str, Callable[[], None]], None]:
    """Do something after so many records of the next rewrite: once they are sent, once they lie there, or behind the last."""
    write = written.write_records

    def place(count: int, when: str, act: Callable[[], None]) -> None:
        def some(workers: Any, records: Iterable[Any], **more: Any) -> Any:
            before, todo = scene.ends(), [act]

            def sending() -> Iterator[Any]:
                for number, each in enumerate(records):
                    if number == count and todo and when != "behind":
                        if when == "there":
                            await_that(scene.ends, (before + number).__eq__, what="records")
                        todo.pop()()
                    yield each

            done = write(workers, sending(), **more)
            for each in todo:
                each()
            return done

        monkeypatch.setattr(rewrite, "write_records", some)

    return place


@pytest.mark.parametrize("name", ["reseal", "delete group", "restore", "repair orphans"])
def test_nothing_acknowledged_is_lost_in_silence(
    scene: _Scene, name: str, while_it_writes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, chosen = Counter[str](), random.Random(f"1173 {name}")
    for moment in range(MOMENTS):
        scene.fill()
        own = [each for each in OFFSETS if name != "repair orphans" or each[0] == "gone"]
        key = chosen.choice(own)
        when = ("sent", "there", "behind")[moment % 3]
        while_it_writes(chosen.randrange(KEYS), when, partial(scene.commit, *key))
        ran = scene.command(name)
        monkeypatch.undo()
        wanted = {"position": scene.position}
        assert ran.code == 1, (when, key, ran)
        assert "another writer has written under the keys of group one while this command wrote" in ran.err
        assert f"1 record(s) under 1 key(s) of '{key[0]}'" in ran.err
        assert str(key[1]) not in ran.err
        back = re.search(r"connect-share (restore \S+ -w \S+) puts them back", ran.err)
        seen["overtaken" if scene.found(*key) != wanted else "last"] += 1
        if back is not None:
            assert scene.call(*shlex.split(back[1]), "--yes").code == 0
        assert scene.found(*key) == wanted, (when, key, ran.err)
        assert ("with --dry-run shows what differs" if name == "restore" else "un the command again") in ran.err
        if name != "restore":
            assert scene.command(name).code == 0
    print(name, dict(seen))
    assert {*seen} == {"overtaken", "last"}


def state(scene: _Scene) -> Any:
    """What a worker would have."""
    configs, _, offsets = believed(scene.storage)
    return {name: configs.connector_config(name) for name in configs.connectors()}, dict(offsets.raw)


@pytest.mark.parametrize("way", ["completed", "taken back"])
@pytest.mark.parametrize("name", ["reseal", "delete group", "restore", "repair orphans"])
def test_half_done_is_said_and_the_commands_that_it_names_work(
    scene: _Scene, name: str, way: str, while_it_writes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker takes no more of the offsets, from some moment on."""
    before, chosen = state(scene), random.Random(f"1173 {name} {way}")
    for _ in range(10 if LONG else 1):
        topic = scene.site.topic("shared", TopicType.OFFSET)
        while_it_writes(chosen.randrange(5, KEYS), "there", partial(scene.limit, topic, "1"))
        ran = scene.command(name)
        monkeypatch.undo()
        scene.limit(topic, None)
        assert ran.code == 1
        counts = re.search(
            rf"Half done: of the records sent so far were acknowledged: .*{topic} (\d+) of (\d+)", ran.err
        )
        assert counts is not None, ran.err
        assert int(counts[1]) < int(counts[2])
        back = re.search(r"the same command completes it, or connect-share (restore \S+ -w \S+) takes it back", ran.err)
        assert (back is None) == (name == "restore")
        if back is not None and way == "taken back":
            assert scene.call(*shlex.split(back[1]), "--yes").code == 0
            assert state(scene) == before
            continue
        assert scene.command(name).code == 0
        left = {
            "delete group": ({}, {}),
            "repair orphans": (before[0], {k: v for k, v in before[1].items() if b"gone" not in k}),
        }
        assert state(scene) == left.get(name, before)
        scene.fill()
        before = state(scene)
