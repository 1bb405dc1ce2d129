"""Writing records so that none is lost, doubled or reordered without a word."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

from connect_share import client
from connect_share.records import Record
from connect_share.worker_config.client_settings import ClientSettings
from migrator.errors import CopyError

POLL_EVERY: Final = 200
"""Records between two looks at acknowledgements: a look at each costs a third of the copy."""

PRODUCER_OVERRIDES: Final[Mapping[str, str]] = {
    # Many small records: few large batches; the flush at the end of a slice waits for no linger.
    "linger.ms": "50",
    # Bounds the memory of a slice whatever its size; the library's default is 1 GiB.
    "queue.buffering.max.kbytes": "65536",
    # A record that cannot be delivered must end the copy within minutes, not hang it.
    "message.timeout.ms": "120000",
}


class Producers(threading.local):
    """Producers kept from one slice to the next; each thread has its own, so callbacks need no lock.

    A new idempotent producer waits half a second for its id, which is most of the time of a small slice.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[str, tuple[tuple[str, str], ...]], client.Producer] = {}

    def get(self, settings: ClientSettings, client_id: str) -> client.Producer:
        """Return this thread's producer for these settings."""
        at = (client_id, tuple(sorted(settings.properties.items())))
        if at not in self._made:
            self._made[at] = client.producer(
                settings, client_id=client_id, overrides=PRODUCER_OVERRIDES, idempotent=True
            )
        return self._made[at]

    def forget(self, producer: client.Producer) -> None:
        """Let go of a producer that failed: the next slice gets a new one."""
        self._made = {at: made for at, made in self._made.items() if made is not producer}


class CheckedWriter:
    """A producer whose every delivery is looked at; the first failure ends the copy.

    The producer is made with the first record: most slices of a small cluster are empty.
    """

    def __init__(self, producers: Producers, settings: ClientSettings, topic: str, client_id: str) -> None:
        self._producers = producers
        self._settings = settings
        self._client_id = client_id
        self._producer: client.Producer | None = None
        self._topic = topic
        self._failure: client.KafkaError | None = None
        self._sent = 0
        self._acknowledged = 0
        self.offsets: dict[int, tuple[int, int]] = {}

    def _open(self) -> client.Producer:
        if self._producer is None:
            self._producer = self._producers.get(self._settings, self._client_id)
        return self._producer

    def _delivered(self, error: client.KafkaError | None, message: client.Message) -> None:
        if error is not None:
            self._failure = self._failure or error
            return
        self._acknowledged += 1
        partition, offset = message.partition() or 0, message.offset() or 0
        known = self.offsets.get(partition)
        self.offsets[partition] = (offset, offset) if known is None else (min(known[0], offset), max(known[1], offset))

    def write(self, record: Record) -> None:
        """Queue one record; blocks while the queue is full."""
        headers: list[tuple[str, str | bytes | None]] | None = [*record.headers] or None
        producer = self._open()
        while True:
            self._raise_failure()
            try:
                producer.produce(
                    self._topic,
                    key=record.key,
                    value=record.value,
                    headers=headers,
                    timestamp=record.timestamp_ms,
                    on_delivery=self._delivered,
                )
            except BufferError:
                producer.poll(0.1)
                continue
            except client.KafkaException as error:
                raise client.translate(error, doing=f"writing to {self._topic}") from error
            break
        self._sent += 1
        if self._sent % POLL_EVERY == 0:
            producer.poll(0)

    def finish(self) -> None:
        """Wait for all acknowledgements.

        Raises:
            BrokerError: a record was refused or not acknowledged in time.
            CopyError: fewer acknowledgements than records.
        """
        # Each record has a time-out of its own (message.timeout.ms), so this loop ends.
        while self._producer is not None and len(self._producer) and self._failure is None:
            self._producer.flush(0.5)
        self._raise_failure()
        if self._acknowledged != self._sent:
            raise CopyError(
                f"{self._topic}: {self._sent} records were sent but {self._acknowledged} acknowledged; "
                "the destination holds a part of them"
            )

    def abandon(self) -> None:
        """Drop what is still queued, and the producer: its state is not known."""
        if self._producer is not None:
            self._producers.forget(self._producer)
            self._producer.purge()
            self._producer.poll(0)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise client.translate(self._failure, doing=f"writing to {self._topic}")


PROCESS_PRODUCERS: Final = Producers()
"""Kept by every thread of this process; Spark's workers live on from task to task."""
