"""The task runner against a broker: killed between write and commit, and beside another worker."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter as Counts
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from connect_share import ConnectStorage, WorkerConfig
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.counting_worker import BATCH, CountingWorker
from tests.support.examples import example
from tests.support.kafka import TestBroker
from tests.support.long_forms import LONG
from tests.support.waiting import await_that

SHARING = {"connect.management.topic.sharing.support": "enabled", "offset.flush.interval.ms": "0"}
KILLS = 50 if LONG else 3


def values(broker: TestBroker, topic: str, isolation: str = "read_committed") -> list[int]:
    """All records of a topic, with or without those of aborted transactions; none while it is not there."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "values", "isolation.level": isolation}
    with closing(Consumer(settings | {"enable.partition.eof": "true", "enable.auto.commit": "false"})) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[int] = []
        while (message := consumer.poll(30)) is not None and message.error() is None:
            found.append(int(message.value() or b""))
        return found


@pytest.mark.parametrize("exactly_once", [True, False], ids=["exactly-once", "at-least-once"])
def test_killed_between_write_and_commit(broker: TestBroker, unique: str, exactly_once: bool) -> None:
    properties = worker_properties(broker.bootstrap_servers, unique) | SHARING
    properties["exactly.once.source.support"] = "enabled" if exactly_once else "disabled"
    topic, end = f"{unique}-numbers", (KILLS + 1) * 2 * BATCH
    config = {"connector.class": "Counter", "topic": topic, "end": str(end)}
    with ConnectStorage(WorkerConfig.from_properties(properties)) as storage:
        storage.config.claim_write_privileges()
        storage.config.put_connector_config("count", config)
    for _ in range(KILLS):
        worker = CountingWorker(properties)
        worker.await_written()
        worker.commit()
        worker.await_written()
        worker.kill()
    last = CountingWorker(properties)
    for _ in range(KILLS + 2):
        last.await_written()
        last.commit()
    await_that(lambda: values(broker, topic)[-1:], lambda found: found == [end - 1], what="the end")
    last.kill()
    committed, written = values(broker, topic), values(broker, topic, "read_uncommitted")
    assert len(written) == end + KILLS * BATCH  # each kill was inside
    if exactly_once:
        assert committed == [*range(end)]
    else:
        assert sorted(Counts(committed).values()).count(2) == KILLS * BATCH
        assert sorted(set(committed)) == [*range(end)]


def test_the_source_of_the_documentation(broker: TestBroker, unique: str, tmp_path: Path) -> None:
    """Twenty lines, with exactly-once; each run goes on where the one before ended."""
    properties = worker_properties(broker.bootstrap_servers, unique) | SHARING
    properties["exactly.once.source.support"] = "enabled"
    write_properties(tmp_path / "worker.properties", properties)
    with ConnectStorage(WorkerConfig.from_properties(properties)) as storage:
        storage.config.claim_write_privileges()
        storage.config.put_connector_config(
            "read", {"connector.class": "Lines", "file": "in.txt", "topic": f"{unique}-lines"}
        )
    for end in (10, 20):
        (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in range(end)))
        with subprocess.Popen([sys.executable, "-c", example("writing-a-runtime.md")], cwd=tmp_path) as process:
            found = await_that(
                lambda: values(broker, f"{unique}-lines"),
                lambda found: found[-1:] == [end - 1],  # noqa: B023
                what="read",
            )
            process.send_signal(signal.SIGINT)
            assert process.wait(60) != 0
        assert found == [*range(end)]
