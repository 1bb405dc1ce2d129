"""The task runner against a broker: killed between write and commit, and beside another worker."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter as Counts
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from confluent_kafka import Producer

from connect_share import ConnectorTaskId, ConnectStorage, Record, State, TargetState, WorkerConfig
from connect_share.errors import BrokerTimeoutError
from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.runtime import ConsumerGroupsAdmin, SoleMember
from connect_share.tasks import RetriableError, SinkTask, SourceTask, TaskRunner
from connect_share.tasks.running import Assignment, RunningSource
from connect_share.worker_config import Isolation
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.counting_worker import BATCH, CountingWorker
from tests.support.examples import example
from tests.support.kafka import TestBroker
from tests.support.long_forms import LONG
from tests.support.topics import create_topic, ordered_producer, pairs_of, read_topic, send
from tests.support.waiting import await_that

SHARING = {"connect.management.topic.sharing.support": "enabled", "offset.flush.interval.ms": "0"}
KILLS = 50 if LONG else 3


def values(broker: TestBroker, topic: str, isolation: Isolation = Isolation.READ_COMMITTED) -> list[int]:
    """All records of a topic, with or without those of aborted transactions; none while it is not there."""
    with broker.admin() as admin:
        there = admin.describe_topics([topic])
        records = read_topic(admin, broker.client_settings, topic, isolation, up_to=isolation) if there else []
    return [int(record.value or b"") for record in records]


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
    committed, written = values(broker, topic), values(broker, topic, Isolation.READ_UNCOMMITTED)
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
            assert process.wait(300) != 0
        assert found == [*range(end)]


def test_a_topic_that_another_task_makes_meanwhile_fails_none(
    broker: TestBroker, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, topic, asked = Admin.describe_topics, f"{unique}-new", list[Any]()

    def made_behind_the_look(admin: Admin, names: Any, **more: Any) -> Any:
        found = look(admin, names, **more)
        if names == [topic] and not asked:
            asked.append(names)
            raise BrokerTimeoutError("no answer", retriable=True)
        if names == [topic] and not found:
            with broker.admin() as another:
                another.create_topic(NewTopicRequest(topic, 1, 1))
        return found

    worker = WorkerConfig.from_properties(worker_properties(broker.bootstrap_servers, unique) | SHARING)
    with ConnectStorage(worker) as storage:
        monkeypatch.setattr(Admin, "describe_topics", made_behind_the_look)
        found = Assignment(ConnectorTaskId("c", 0), SourceTask, {}, {}, [], storage, worker)
        RunningSource(found, lambda: None, lambda *_: None)._note_topic(topic)
        await_that(lambda: storage.status.snapshot().topics("c"), lambda topics: {*topics} == {topic}, what="noted")


class Collector(SinkTask):
    """Keeps what was put; ``broken`` is what its flush raises."""

    put_so_far: ClassVar[list[bytes]] = []
    flushed: ClassVar[dict[tuple[str, int], int]] = {}
    closed: ClassVar[list[tuple[str, int]]] = []
    broken: ClassVar[Exception | None] = None

    def put(self, records: Sequence[Record]) -> None:
        assert {(record.topic, record.partition) for record in records} <= self.context.assignment
        self.put_so_far.extend(record.value or b"" for record in records)

    def flush(self, offsets: Mapping[tuple[str, int], int]) -> None:
        if self.broken is not None:
            raise self.broken
        self.flushed.update(offsets)

    def close(self, partitions: Sequence[tuple[str, int]]) -> None:
        self.closed.extend(partitions)


def test_a_sink_has_each_record_at_least_once(broker: TestBroker, unique: str) -> None:
    topic = f"{unique}-words"
    with broker.admin() as admin:
        admin.create_topic(NewTopicRequest(topic, 2, 1))
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": unique})
    producer.init_transactions()

    def write(*words: bytes, commits: bool = True) -> None:
        producer.begin_transaction()
        for number, word in enumerate(words):
            producer.produce(topic, word, partition=number % 2)
        producer.flush()
        (producer.commit_transaction if commits else producer.abort_transaction)()

    def await_put(*words: bytes) -> None:
        await_that(lambda: sorted(Collector.put_so_far), lambda found: found == [*words], what="put")

    def await_tasks(runner: TaskRunner, state: State) -> None:
        def states() -> list[State]:
            return [each.state for each in runner.storage.status.snapshot().task_statuses("sink")]

        await_that(states, lambda found: found == [state] * 2, what=state.name)

    worker = WorkerConfig.from_properties(worker_properties(broker.bootstrap_servers, unique) | SHARING)
    connectors = {"Collector": Collector}
    with TaskRunner(worker, connectors, worker_url="http://sink:1/", member=SoleMember) as runner:
        write(b"a", b"b")
        write(b"aborted", commits=False)
        config = {"connector.class": "Collector", "topics.regex": f"{unique}-w.*", "tasks.max": "2"}
        runner.storage.config.put_connector_config("sink", config)
        await_tasks(runner, State.RUNNING)
        await_put(b"a", b"b")
        await_that(lambda: set(Collector.flushed), lambda found: found == {(topic, 0), (topic, 1)}, what="flushed")
        runner.storage.config.put_target_state("sink", TargetState.PAUSED)
        await_tasks(runner, State.PAUSED)
        write(b"c", b"d")
        runner.storage.config.put_target_state("sink", TargetState.STARTED)
        await_put(b"a", b"b", b"c", b"d")
        # What is put and not flushed is given again.
        behind_all = {(topic, 0): 5, (topic, 1): 3}  # each transaction has a marker of its own
        await_that(lambda: Collector.flushed, lambda found: found == behind_all, what="flushed")
        Collector.broken = RuntimeError("full")
        write(b"e", b"f")
        await_that(lambda: Counts(Collector.put_so_far), lambda found: min(found[b"e"], found[b"f"]) > 2, what="again")
        Collector.broken = None
        await_that(lambda: Collector.flushed, {(topic, 0): 7, (topic, 1): 5}.__eq__, what="flushed")
    assert {*Collector.closed} == {(topic, 0), (topic, 1)}
    with ConsumerGroupsAdmin(broker.client_settings, client_id="tests") as groups:
        assert groups.group_offsets("connect-sink") == Collector.flushed
        groups.delete_group("connect-sink")


class Slow(SinkTask):
    """Takes longer for its first records than its group waits for it."""

    calls: ClassVar[list[list[bytes]]] = []

    def put(self, records: Sequence[Record]) -> None:
        self.calls.append([record.value or b"" for record in records])
        if len(self.calls) == 1:
            self.first()

    def first(self) -> None:
        assert not self.context.stopping.wait(9)


class Careful(Slow):
    """Takes records when it is asked again, and knows only every other one to be safe."""

    calls: ClassVar[list[list[bytes]]] = []

    def first(self) -> None:
        raise RetriableError("the other side is away")

    def pre_commit(self, offsets: Mapping[tuple[str, int], int]) -> Mapping[tuple[str, int], int]:
        return {at: offset // 2 * 2 for at, offset in offsets.items()} | {("not-ours", 0): 9}


def test_a_sink_is_asked_again_and_says_what_may_be_committed(broker: TestBroker, unique: str) -> None:
    topic, name = f"{unique}-words", f"sink-{unique}"
    create_topic(broker.client_settings, topic, configs={"cleanup.policy": "delete"})
    send(ordered_producer(broker.client_settings), pairs_of(topic, [(None, word) for word in (b"a", b"b", b"c")]))
    worker = WorkerConfig.from_properties(worker_properties(broker.bootstrap_servers, unique) | SHARING)
    with TaskRunner(worker, {"Careful": Careful}, worker_url="http://careful:1/", member=SoleMember) as runner:
        runner.storage.config.put_connector_config(name, {"connector.class": "Careful", "topics": f"{topic},,{topic}"})
        await_that(lambda: {word for call in Careful.calls[1:] for word in call}, {b"a", b"b", b"c"}.__eq__, what="put")
        (status,) = runner.storage.status.snapshot().task_statuses(name)
        assert status.state is State.RUNNING
    assert Careful.calls[1][: len(Careful.calls[0])] == Careful.calls[0]
    with ConsumerGroupsAdmin(broker.client_settings, client_id="tests") as groups:
        assert groups.group_offsets(f"connect-{name}") == {(topic, 0): 2}


@pytest.mark.slow
def test_a_sink_that_its_group_has_dropped_has_its_records_again(broker: TestBroker, unique: str) -> None:
    topic = f"{unique}-words"
    create_topic(broker.client_settings, topic, configs={"cleanup.policy": "delete"})
    send(ordered_producer(broker.client_settings), pairs_of(topic, [(None, b"a")]))
    patience = {f"consumer.{name}": "6000" for name in ("session.timeout.ms", "max.poll.interval.ms")}
    properties = worker_properties(broker.bootstrap_servers, unique) | SHARING | patience
    worker = WorkerConfig.from_properties(properties | {"offset.flush.interval.ms": "60000"})
    with TaskRunner(worker, {"Slow": Slow}, worker_url="http://slow:1/", member=SoleMember) as runner:
        runner.storage.config.put_connector_config(f"sink-{unique}", {"connector.class": "Slow", "topics": topic})
        await_that(lambda: Slow.calls, lambda found: found == [[b"a"], [b"a"]], what="given again")
        (status,) = runner.storage.status.snapshot().task_statuses(f"sink-{unique}")
        assert status.state is State.RUNNING
    with ConsumerGroupsAdmin(broker.client_settings, client_id="tests") as groups:
        assert groups.group_offsets(f"connect-sink-{unique}") == {(topic, 0): 1}
