"""Tasks that run: a thread each, which reads or writes, commits offsets, and says how it is."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from connect_share import ConnectorTaskId, ConnectStorage, State, TaskOffsetWriter, TopicStatus, WorkerConfig
from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.runtime import sink_group_id

from .plugins import Config, Plugin, SinkTask, SourceRecord, SourceTask

_IDLE_S = 0.05
_SEND_S = 30.0
_STOP_S = 20.0

OnState = Callable[[State, str | None], None]


class RunningTask(threading.Thread):
    """A task; ``on_state`` is called when its state changes."""

    def __init__(
        self, task_id: ConnectorTaskId, config: Config, plugin: Plugin, storage: ConnectStorage, worker: WorkerConfig
    ) -> None:
        super().__init__(name=f"task-{task_id}", daemon=True)
        self.task_id = task_id
        self.on_state: OnState = lambda state, trace: None
        self._config, self._plugin, self._storage, self._worker = config, plugin, storage, worker
        self._stopping, self._paused = threading.Event(), threading.Event()
        self._topics: set[str] = set()

    def pause(self, paused: bool) -> None:
        """Let it rest, or go on."""
        if paused:
            self._paused.set()
        else:
            self._paused.clear()

    def ask_to_stop(self) -> None:
        """Let it end soon."""
        self._stopping.set()

    def stop(self) -> None:
        """End it; returns when it has ended, or after 20 seconds."""
        self.ask_to_stop()
        if self.is_alive():
            self.join(_STOP_S)

    def run(self) -> None:
        try:
            if self._plugin.kind == "sink":
                self._run_sink(self._plugin.task())
            elif self._worker.exactly_once_source_support == "enabled":
                self._run_exactly_once(self._plugin.task())
            else:
                self._run_source(self._plugin.task())
        except Exception:
            if not self._stopping.is_set():
                self.on_state(State.FAILED, traceback.format_exc())

    def _wants_more(self) -> bool:
        """Return whether the task is to go on; says and keeps up a pause."""
        if self._paused.is_set() and not self._stopping.is_set():
            self.on_state(State.PAUSED, None)
            while self._paused.is_set() and not self._stopping.wait(_IDLE_S):
                pass
            if not self._stopping.is_set():
                self.on_state(State.RUNNING, None)
        return not self._stopping.is_set()

    def _make_topic(self, topic: str) -> None:
        """Create the topic of a source if it is not there: with the partitions and replicas the brokers have as default."""
        if topic in self._topics:
            return
        with Admin(self._worker.admin_settings(), client_id=f"task-{self.task_id}") as admin:
            if not admin.describe_topics([topic]):
                admin.create_topic(NewTopicRequest(topic, -1, -1))
        self._note_topic(topic)

    def _note_topic(self, topic: str) -> None:
        """Let the group know that the connector uses a topic."""
        if topic not in self._topics:
            self._topics.add(topic)
            connector, task = self.task_id.connector, self.task_id.task
            self._storage.status.put(TopicStatus(topic, connector, task, time.time_ns() // 1_000_000))

    def _run_exactly_once(self, task: SourceTask) -> None:
        connector = self.task_id.connector
        # From the claim on no earlier producer of this task can write: only then are the offsets final.
        with self._storage.task_offset_writer(connector, self.task_id.task) as writer:
            task.start(self._config, self._storage.offset_reader(connector).offset)
            self.on_state(State.RUNNING, None)
            try:
                while self._wants_more():
                    self._send_in_transaction(writer, task.poll())
            finally:
                task.stop()

    def _send_in_transaction(self, writer: TaskOffsetWriter, records: Sequence[SourceRecord]) -> None:
        for record in records:
            self._make_topic(record.topic)
            writer.send(record.topic, record.value)
            writer.offset(record.partition, record.offset)
        if records:
            writer.commit()
        else:
            self._stopping.wait(_IDLE_S)

    def _run_source(self, task: SourceTask) -> None:
        connector = self.task_id.connector
        writer = self._storage.offset_writer(connector)
        producer = Producer({**self._worker.producer_settings().properties, "enable.idempotence": "true"})
        task.start(self._config, self._storage.offset_reader(connector).offset)
        self.on_state(State.RUNNING, None)
        try:
            while self._wants_more():
                records = task.poll()
                if not records:
                    self._stopping.wait(_IDLE_S)
                    continue
                self._send(producer, records)
                # Acknowledged, all of them: their offsets may be stored.
                for record in records:
                    writer.offset(record.partition, record.offset)
                writer.flush(_SEND_S)
        finally:
            task.stop()

    def _send(self, producer: Producer, records: Sequence[SourceRecord]) -> None:
        failures: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        for record in records:
            self._make_topic(record.topic)
            producer.produce(record.topic, record.value, on_delivery=on_delivery)
            producer.poll(0)
        if producer.flush(_SEND_S) or failures:
            raise KafkaException(failures[0] if failures else "records were not acknowledged in time")

    def _run_sink(self, task: SinkTask) -> None:
        topics = [name.strip() for name in self._config["topics"].split(",")]
        consumer = Consumer(
            {
                **self._worker.consumer_settings().properties,
                "group.id": sink_group_id(self.task_id.connector, self._config),
                "enable.auto.commit": "false",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        try:
            consumer.subscribe(topics)
            task.start(self._config)
            self.on_state(State.RUNNING, None)
            while self._wants_more():
                values = [self._value(message) for message in consumer.consume(500, timeout=_IDLE_S)]
                if taken := [value for value in values if value is not None]:
                    task.put(taken)
                    task.flush()
                    consumer.commit(asynchronous=False)
        finally:
            task.stop()
            consumer.close()

    def _value(self, message: Message) -> bytes | None:
        error = message.error()
        if error is None:
            self._note_topic(message.topic() or "")
            return message.value() or b""
        if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:  # its source may make it later
            raise KafkaException(error)
        return None
