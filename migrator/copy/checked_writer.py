"""Writing records so that none is lost, doubled or reordered without a word."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from connect_share import client
from connect_share.records import Record
from connect_share.worker_config.client_settings import ClientSettings
from migrator.errors import CopyError, UnacknowledgedError

POLL_EVERY: Final = 200
"""Records between two looks at acknowledgements: a look at each costs a third of the copy."""

PRODUCER_OVERRIDES: Final[Mapping[str, str]] = {
    # Few large batches: a broker needs longer for the second batch of a new partition (its indexes get their first
    # entries) than for all that a small cluster has. A flush does not wait for it.
    "linger.ms": "300",
    # Bounds the memory of a slice whatever its size; the library's default is 1 GiB.
    "queue.buffering.max.kbytes": "65536",
    # A record that cannot be delivered must end the copy within minutes, not hang it.
    "message.timeout.ms": "120000",
}

ONCE_OVERRIDES: Final[Mapping[str, str]] = {
    **PRODUCER_OVERRIDES,
    # Longer than a record lives: a batch whose answer did not come waits in front of those behind it, and is not sent
    # again. A broker may have taken it and have forgotten who sent it: it forgets producers by the time stamps of their
    # records, and copies keep old ones.
    "retry.backoff.ms": "300000",
    "retry.backoff.max.ms": "300000",
    "topic.metadata.refresh.fast.interval.ms": "100",  # else as the back-off: a leader may not be known at once
}
"""For a producer that sends nothing twice: whoever uses it asks the destination when answers stay away."""

_QUIET_S: Final = 10.0
"""Without any acknowledgement for so long something is wrong; a throttled broker may need a part of it."""
_LOST_S: Final = 1.0
"""The same when a connection is known to be lost."""
_MOST_PATIENT: Final = 3
_DRAIN_S: Final = 90.0
"""The client gives each request up after a minute."""
_LOST: Final = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE"})

Outgoing = tuple[bytes | None, bytes | None, int, Any]
"""Key, value, timestamp in ms, and the headers as the client gives and takes them (``None``: none)."""

_Place = tuple[str, tuple[tuple[str, str], ...]]


def _place(settings: ClientSettings, client_id: str) -> _Place:
    return client_id, tuple(sorted(settings.properties.items()))


class _Answers:
    """Whether acknowledgements still come to one producer.

    Args:
        patience: by how much longer to wait than usual.
    """

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._left = -1
        self._since_s = 0.0
        self._lost = False

    @client.callback
    def hear(self, error: client.KafkaError) -> None:
        """Take the client's word for a lost connection."""
        self._lost = self._lost or error.name() in _LOST

    def wait(self) -> None:
        """Whoever calls this sends nothing from now on and looks at :meth:`stay_away`."""
        self._since_s = time.monotonic()

    def stay_away(self, left: int) -> bool:
        """Tell whether too long nothing has come; ``left`` records wait."""
        now_s = time.monotonic()
        if left != self._left:
            self._left, self._since_s, self._lost = left, now_s, False
        return now_s - self._since_s > (_LOST_S if self._lost else _QUIET_S) * self._patience


class Producers(threading.local):
    """Producers kept from one slice to the next; each thread has its own, so callbacks need no lock.

    A new idempotent producer waits half a second for its id, which is most of the time of a small slice.

    Args:
        once: no batch is sent a second time when its answer does not come; writing then ends with
            ``UnacknowledgedError``.
    """

    def __init__(self, *, once: bool = False) -> None:
        self._once = once
        self._made: dict[_Place, tuple[client.Producer, _Answers]] = {}
        self._lost = 0

    def get(self, settings: ClientSettings, client_id: str) -> client.Producer:
        """Return this thread's producer for these settings; one that is asked for early has its id when it is needed."""
        at = _place(settings, client_id)
        if at not in self._made:
            overrides = ONCE_OVERRIDES if self._once else PRODUCER_OVERRIDES
            answers = _Answers(2 ** min(self._lost, _MOST_PATIENT))
            made = client.producer(
                settings, client_id=client_id, overrides=overrides, idempotent=True, on_error=answers.hear
            )
            self._made[at] = (made, answers)
        return self._made[at][0]

    def answers(self, producer: client.Producer) -> _Answers | None:
        """Give what watches a producer's acknowledgements; ``None`` if the client itself sends again."""
        kept = (answers for made, answers in self._made.values() if made is producer)
        return next(kept, None) if self._once else None

    def drain(self, producer: client.Producer) -> None:
        """Let go of a producer whose acknowledgements stay away: afterwards nothing it was given is under way."""
        self._lost += 1
        self.forget(producer)
        until_s = time.monotonic() + _DRAIN_S
        while len(producer) and time.monotonic() < until_s:
            # What waits is dropped, what was sent is waited for: it may still be taken.
            producer.purge(in_flight=False)
            producer.flush(0.5)
        producer.purge()
        producer.flush(0.5)

    def forget(self, producer: client.Producer) -> None:
        """Let go of a producer that failed: the next slice gets a new one."""
        self._made = {at: kept for at, kept in self._made.items() if kept[0] is not producer}


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
        self._failures: list[client.KafkaError] = []
        self._sent = 0
        self._polled = 0
        self._acknowledged = 0
        self._first: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._delivered = self._listener()

    @property
    def offsets(self) -> dict[int, tuple[int, int]]:
        """Per partition the first and last offset acknowledged."""
        return {partition: (first, self._last[partition]) for partition, first in self._first.items()}

    def _open(self) -> client.Producer:
        if self._producer is None:
            self._producer = self._producers.get(self._settings, self._client_id)
        return self._producer

    def _listener(self) -> Callable[[client.KafkaError | None, client.Message], None]:
        """Give what is called with each acknowledgement: a million times, hence local names.

        One idempotent producer is told of each partition's records in their order.
        """
        first, last, failures = self._first, self._last, self._failures

        @client.callback
        def delivered(error: client.KafkaError | None, message: client.Message) -> None:
            if error is not None:
                failures.append(error)
                return
            self._acknowledged += 1
            partition, offset = message.partition() or 0, message.offset() or 0
            if partition not in last:
                first[partition] = offset
            last[partition] = offset

        return delivered

    def write(self, record: Record) -> None:
        """Queue one record; blocks while the queue is full."""
        self.write_all(((record.key, record.value, record.timestamp_ms, [*record.whole_headers()] or None),))

    def write_all(self, records: Sequence[Outgoing]) -> None:
        """Queue records in this order; blocks while the queue is full.

        Raises:
            BrokerError: a record was refused.
            UnacknowledgedError: acknowledgements stay away, and the producer sends nothing twice.
        """
        producer = self._open()
        produce, topic, delivered = producer.produce, self._topic, self._delivered
        self._raise_failure()
        for key, value, timestamp_ms, headers in records:
            waiting = False
            while True:
                try:
                    produce(topic, value, key, -1, delivered, delivered, timestamp_ms, headers)
                except BufferError:
                    waiting = self._look(producer, begin=not waiting)
                    producer.poll(0.1)
                    self._raise_failure()
                    continue
                except client.KafkaException as error:
                    raise client.translate(error, doing=f"writing to {topic}", needs=client.TopicRight.WRITE) from error
                break
        self._sent += len(records)
        if self._sent - self._polled >= POLL_EVERY:
            producer.poll(0)
            self._polled = self._sent

    @property
    def is_acknowledged(self) -> bool:
        """Whether every record is at the destination, as far as acknowledgements were looked at.

        Raises:
            BrokerError: a record was refused.
        """
        self._raise_failure()
        return self._acknowledged == self._sent

    @property
    def is_whole(self) -> bool:
        """Whether every record was acknowledged, as far as acknowledgements were looked at; raises nothing."""
        return self._acknowledged == self._sent

    def finish(self) -> None:
        """Wait for all acknowledgements.

        Raises:
            BrokerError: a record was refused or not acknowledged in time.
            CopyError: fewer acknowledgements than records.
            UnacknowledgedError: acknowledgements stay away, and the producer sends nothing twice.
        """
        # Each record has a time-out of its own (message.timeout.ms), so this loop ends. What is left at its end may belong
        # to other slices.
        waiting = False
        while (
            self._acknowledged < self._sent
            and self._producer is not None
            and len(self._producer)
            and not self._failures
        ):
            waiting = self._look(self._producer, begin=not waiting)
            self._producer.flush(0.5)
        self._raise_failure()
        if self._acknowledged != self._sent:
            raise CopyError(
                f"{self._topic}: {self._sent} records were sent but {self._acknowledged} acknowledged; "
                "the destination holds a part of them"
            )

    def _look(self, producer: client.Producer, *, begin: bool) -> bool:
        """Give up when acknowledgements stay away; everything that is under way has ended then."""
        answers = self._producers.answers(producer)
        if answers is not None:
            if begin:
                answers.wait()
            if answers.stay_away(len(producer)):
                self._producers.drain(producer)
                raise UnacknowledgedError(
                    f"{self._topic}: nothing is acknowledged any more; what the destination has is not known"
                )
        return True

    def abandon(self) -> None:
        """Drop what is still queued, and the producer: its state is not known."""
        if self._producer is not None:
            self._producers.forget(self._producer)
            self._producer.purge()
            self._producer.poll(0)

    def _raise_failure(self) -> None:
        if self._failures:
            raise client.translate(self._failures[0], doing=f"writing to {self._topic}", needs=client.TopicRight.WRITE)


PROCESS_PRODUCERS: Final = Producers(once=True)
"""Kept by every thread of this process; Spark's workers live on from task to task."""
