"""Java workers of a sealed group whose keys change: plain, sealed, with another key, plain again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from connect_share import ConnectStorage, TopicType, WorkerConfig
from connect_share.model.config_state import TargetState
from connect_share.model.keys import SkipKind
from connect_share.sealing import KEYS_PROPERTY, KeyRing
from connect_share.sealing.cipher import is_sealed, key_id
from tests.lab.embedded.rest import RestError
from tests.lab.embedded.worker import ConnectWorker, write_properties
from tests.support.flushes import flush_offsets
from tests.support.java_groups import EXACTLY_ONCE, JAR, LogLines, SharedTopics, Start, put
from tests.support.java_sources import FileSources
from tests.support.kafka import TestBroker
from tests.support.long_forms import LONG
from tests.support.migration_site import run_well
from tests.support.sealed import key_text, keys_by_provider
from tests.support.topics import COMPACT_NOW
from tests.support.waiting import await_that

pytestmark = [pytest.mark.broker, pytest.mark.worker]

MODE = KEYS_PROPERTY.removesuffix(".keys")
REFUSED = "Refused the record at "
# What reseal has, and what the worker has that starts afterwards.
STEPS: list[tuple[str, str, tuple[str, ...], str | None]] = [(key_text(7), "accept", (), key_text(7))]
if LONG:
    STEPS += [(key_text(8, 7), "required", (), key_text(8)), (key_text(8), "accept", ("--plain",), None)]


@pytest.fixture
def sources(broker: TestBroker, unique: str, tmp_path: Path) -> FileSources:
    topics = SharedTopics(broker.client_settings, broker.bootstrap_servers, unique)
    topics.create(COMPACT_NOW, others=COMPACT_NOW)
    made = FileSources(topics, topics.group("com.acme"), tmp_path)
    made.create_topic()
    return made


def lines_of(sources: FileSources, keys: str | None, mode: str = "required") -> dict[str, str]:
    plain = sources.topics.properties(sources.group)
    return plain if keys is None else plain | keys_by_provider(sources.folder, keys) | {MODE: mode}


def forms(sources: FileSources) -> set[int | None]:
    """What the values of the group are sealed with, also those that the cleaner has not taken; ``None`` is plain."""
    found = set[int | None]()
    for topic_type in TopicType:
        for record in sources.topics.records(sources.topics.topic(topic_type)):
            if (record.key or b"").startswith(f"{sources.group}.".encode()):
                found.add(key_id(record.value) if is_sealed(record.value) else None)
    return found


def await_cleaned(sources: FileSources, form: int | None) -> None:
    """Wait until nothing of the group is on the topics in another form."""

    def left() -> set[int | None]:
        for topic_type in TopicType:
            sources.topics.roll(topic_type)
        return forms(sources)

    await_that(left, lambda found: found == {form}, what=f"nothing but {form}", timeout_s=120)


@pytest.mark.parametrize("version", ["2.8.2", "3.9.2", "4.3.1"] if LONG else ["4.3.1"])
def test_workers_start_with_what_reseal_has_written(
    broker: TestBroker, sources: FileSources, worker_factory: Start, version: str
) -> None:
    """A Java worker needs every key that is on its topics: only when the cleaner was there can the old one go."""
    config = sources.config("my.conn")
    sources.append("my.conn", "0", "1")
    with ConnectStorage(WorkerConfig.from_properties(lines_of(sources, None))) as storage:
        storage.config.put_connector_config("my.conn", config)
        file = {"filename": str(sources.file("my.conn"))}
        flush_offsets(storage.offset_writer("my.conn"), (file, {"position": 2}))
    assert forms(sources) == {None}
    read = ["1"]
    for number, (keys, mode, more, afterwards) in enumerate(STEPS):
        broker.await_empty(sources.group)
        path = write_properties(sources.folder / "worker.properties", lines_of(sources, keys, mode))
        run_well("reseal", "--worker-config", path, "--yes", *more)
        ring = None if afterwards is None else KeyRing.parse(afterwards)
        await_cleaned(sources, None if ring is None else ring.sealing_id)
        worker = worker_factory(lines_of(sources, afterwards), version=version, class_path=JAR)
        assert {name: worker.rest.config(name) for name in worker.rest.connectors()} == {"my.conn": config}
        read.append(f"line {number}")
        sources.append("my.conn", read[-1])
        sources.await_read(["my.conn"], ring)
        assert sources.lines() == read
        assert LogLines(worker, from_start=True).count(REFUSED) == 0
        worker.kill()


class Member:
    """A worker with a file of keys of its own, which it reads when it starts."""

    def __init__(self, sources: FileSources, name: str, more: Mapping[str, str]) -> None:
        self._folder = sources.folder / name
        self._folder.mkdir()
        self.lines = {**sources.topics.properties(sources.group), **more}
        self.give(key_text(7))

    def give(self, keys: str) -> None:
        self.lines |= keys_by_provider(self._folder, keys)


@contextmanager
def repeated(step: Callable[[int], None], every_s: float = 0.0) -> Iterator[Callable[[], int]]:
    """Do a step again and again beside the block; yield how often it was done."""
    ended, done, failures = threading.Event(), [0], list[BaseException]()

    def body() -> None:
        try:
            while not ended.wait(every_s):
                step(done[0])
                done[0] += 1
        except BaseException as error:  # noqa: BLE001 - raised below, in the test's thread
            failures.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    try:
        yield lambda: done[0]
    finally:
        ended.set()
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.skipif(not LONG, reason="eight starts of workers: make soak")
@pytest.mark.parametrize("versions", [("4.3.1", "4.3.1"), ("3.9.2", "4.3.1")])
def test_the_key_is_changed_while_everybody_writes(
    sources: FileSources, worker_factory: Start, versions: tuple[str, str]
) -> None:
    """First the new key is put behind the old one, then before it, on one member after the other."""
    members = [Member(sources, name, more) for name, more in (("one", EXACTLY_ONCE), ("two", EXACTLY_ONCE), ("py", {}))]
    workers = [
        worker_factory(member.lines, version=version, class_path=JAR)
        for member, version in zip(members[:2], versions, strict=True)
    ]
    put(workers[0], "my.conn", sources.config("my.conn"))
    storages = [beside(members[2].lines)]

    def append(number: int) -> None:
        sources.append("my.conn", f"line {number}")

    def put_one(number: int) -> None:
        """Any member may write any configuration; the others have to see it."""
        wanted = {"connector.class": "FileStreamSource", "name": "py", "x": str(number)}
        storages[-1].config.put_connector_config("py", wanted, TargetState.STOPPED)
        await_that(partial(seen, workers, "py"), lambda found: wanted in found, what=f"seen: {number}", timeout_s=120)

    with repeated(append, every_s=0.1) as appended:
        for keys in (key_text(7, 8), key_text(8, 7)):
            for member, worker in zip(members, [*workers, None], strict=True):
                member.give(keys)
                if worker is not None:
                    with repeated(put_one) as done:
                        worker.stop()
                        worker.start()
                        await_more(done)
                else:
                    refused_nothing(storages[-1])
                    storages[-1].close()
                    storages.append(beside(member.lines))
        enough = appended()
    sources.await_read(["my.conn"], KeyRing.parse(key_text(8, 7)))
    refused_nothing(storages[-1])
    storages[-1].close()
    lines = sources.lines()
    assert len(lines) >= enough > 0
    assert lines == sources.file("my.conn").read_text().splitlines()
    for worker in workers:
        text = worker.log()
        assert text.count(REFUSED) + text.count("Topic sharing stopped") == 0
    assert forms(sources) <= {7, 8}
    assert 8 in forms(sources)


def await_more(done: Callable[[], int]) -> None:
    before = done()
    await_that(done, lambda found: found > before, what="done once more", timeout_s=120)


def beside(lines: Mapping[str, str]) -> ConnectStorage:
    storage = ConnectStorage(WorkerConfig.from_properties(lines), allow_live_members=True)
    storage.__enter__()
    return storage


def refused_nothing(storage: ConnectStorage) -> None:
    stores = (storage.config, storage.status, storage.offsets)
    assert [store.skipped().get(SkipKind.REFUSED, 0) for store in stores] == [0, 0, 0]


def seen(workers: list[ConnectWorker], name: str) -> list[Mapping[str, str]]:
    """What those workers say of a connector that answer."""
    found: list[Mapping[str, str]] = []
    for worker in workers:
        try:
            found.append(worker.rest.config(name))
        except RestError:
            continue
    return found
