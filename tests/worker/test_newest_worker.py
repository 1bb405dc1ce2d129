"""A worker of the newest Kafka. Maven has no file connectors and no test jars of it yet, so it runs a source of ours."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from connect_share import ConnectStorage, TopicType, WorkerConfig
from connect_share.model.keys import split_key
from tests.lab.embedded.artifacts import class_path, ensure_artifacts
from tests.lab.embedded.java_program import compiled
from tests.lab.embedded.worker import ConnectWorker
from tests.support.java_groups import EXACTLY_ONCE, JAR, LogLines, SharedTopics, Start, put, write
from tests.support.long_forms import LONG
from tests.support.sealed import keys_by_provider
from tests.support.waiting import await_that

VERSION = "4.4.0"
FOLDER = Path(__file__).with_name("newest_worker")
CLOCK = "my.clock"


def libraries() -> Path:
    return ensure_artifacts(f"worker-{VERSION}", FOLDER / "artifacts.lock.json")


@pytest.fixture
def clock(tmp_path: Path) -> Path:
    """The classes of the source, with the file by which a worker finds it."""
    folder = tmp_path / "classes"
    shutil.copytree(compiled([FOLDER / "Clock.java"], class_path(libraries())), folder)
    services = folder / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "org.apache.kafka.connect.source.SourceConnector").write_text("newest.Clock\n")
    return folder


@pytest.mark.parametrize("form", ["sealed", *(["plain", "exactly once"] if LONG else [])])
def test_it_keeps_its_state_among_records_of_others(
    topics: SharedTopics, worker_factory: Start, tmp_path: Path, clock: Path, form: str
) -> None:
    data, group = topics.create_data_topic("data"), topics.group("com.acme")
    # Groups with ids like its own, and a connector of the same name.
    others = [f"{group}.sub", f"{group}2", group[:-1]]
    write(
        topics.settings,
        topics.topic(TopicType.CONFIG),
        [(f"{other}.connector-{CLOCK}".encode(), b'{"properties":{"name":"x"}}') for other in others],
    )
    write(
        topics.settings,
        topics.topic(TopicType.OFFSET),
        [(f'{other}.["{CLOCK}",{{"clock":"one"}}]'.encode(), b'{"tick":1000000}') for other in others],
    )
    lines = {"sealed": keys_by_provider(tmp_path), "exactly once": EXACTLY_ONCE}.get(form, {})
    properties = topics.properties(group) | lines
    worker = worker_factory(properties, version=VERSION, class_path=(*JAR, clock), libraries=libraries())
    assert worker.rest.connectors() == []
    put(worker, CLOCK, {"connector.class": "newest.Clock", "tasks.max": "1", "topic": data})
    worker.rest.await_state(CLOCK, "RUNNING", tasks=1)
    first = await_that(lambda: tick(worker), lambda at: at > 0, what="an offset")
    assert first < 1_000_000
    worker.kill()
    worker.start()
    worker.rest.await_state(CLOCK, "RUNNING", tasks=1)
    await_that(lambda: tick(worker), lambda at: at > first, what="a later offset")
    worker.rest.stop(CLOCK)
    worker.rest.await_state(CLOCK, "STOPPED")

    with ConnectStorage(WorkerConfig.from_properties(properties), allow_live_members=True) as storage:
        assert storage.config.snapshot().connectors() == {CLOCK}
        assert storage.config.snapshot().connector_config(CLOCK) == worker.rest.config(CLOCK)
        reader = storage.offset_reader(CLOCK)

        def ticks() -> tuple[object, int]:
            return (reader.offset({"clock": "one"}) or {}).get("tick"), tick(worker)

        # The task may commit its last offset when its connector is called stopped already.
        await_that(ticks, lambda both: both[0] == both[1], what="the same offset in both")
    assert [record.value for record in topics.records(data)].count(b"1") == 1  # it has not begun anew
    groups = {
        (split_key(topic_type, record.key or b"") or ("no key of Connect",))[0]
        for topic_type in TopicType
        for record in topics.records(topics.topic(topic_type))
    }
    assert groups == {group, *others}
    log = LogLines(worker, from_start=True)
    assert log.about_foreign() == []
    assert log.count("Topic sharing stopped") == 0
    assert log.count("Topic sharing is on") == 2


def tick(worker: ConnectWorker) -> int:
    """The last offset that the worker's REST interface says, 0 for none."""
    return max((each["offset"]["tick"] for each in worker.rest.offsets(CLOCK)), default=0)
