"""The exactly-once leader's producer: writes in transactions, and fences earlier producers."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Protocol, cast

from connect_share.errors import (
    BrokerError,
    BrokerTimeoutError,
    FencedError,
    PrivilegedWriteError,
    StoreError,
    WriteError,
)
from connect_share.kafka import client
from connect_share.kafka.client import Deadline
from connect_share.log.protocol import RecordMetadata
from connect_share.worker_config import ClientSettings

_logger = logging.getLogger(__name__)

Outgoing = tuple[bytes, bytes | None] | tuple[bytes, bytes | None, int]
"""Key and value as they go to the topic; into the partition of murmur2, or this one."""

CLAIM_TIMEOUT_S: Final = 60.0
FENCE_TIMEOUT_S: Final = 60.0
WRITE_TIMEOUT_S: Final = 60.0
ABORT_TIMEOUT_S: Final = 5.0
# Behind the deadline: without a broker there is no answer, with one it takes no longer.
LEAST_ABORT_S: Final = 0.3
LEAST_COMMIT_S: Final = 0.1


class Producers(Protocol):
    """Makes producers, and fences them: the module ``kafka.client``, or a ``MemoryKafka``."""

    def producer(
        self, settings: ClientSettings, *, client_id: str, overrides: Mapping[str, str] | None = None
    ) -> client.Producer:
        """Make a producer."""

    def fence(self, settings: ClientSettings, transactional_id: str, *, client_id: str, timeout_s: float = ...) -> None:
        """Take a transactional id over."""


class TransactionalWriter:
    """Writes records to one topic, each call in a transaction of its own.

    Nothing can be written before :meth:`claim`. Claiming fences every earlier producer with the same
    transactional id. After any failure the producer is closed at once and writing needs a new claim.

    Args:
        settings: how to reach the cluster.
        client_id: client id of the producer.
        transactional_id: who is fenced by whom.
        topic: where records go.
        fences: further transactional ids whose producers may write no more once this is claimed.
        producers: where producers come from.

    Source: the leader's part of ``KafkaConfigBackingStore`` (``claimWritePrivileges``, ``sendPrivileged``).
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        client_id: str,
        transactional_id: str,
        topic: str,
        fences: Sequence[str] = (),
        producers: Producers = client,
    ) -> None:
        self._settings = settings
        self._client_id = client_id
        self._transactional_id = transactional_id
        self._topic = topic
        self._fences = fences
        self._producers = producers
        self._lock = threading.RLock()  # which only its owner can release
        self._producer: client.Producer | None = None
        self._given_up = False
        self._fenced = False
        self._doing = f"writing to {topic}"
        self._clock: Callable[[], float] = getattr(producers, "clock", time.monotonic)

    @property
    def topic(self) -> str:
        """Where records go."""
        return self._topic

    @property
    def took_too_long(self) -> bool:
        """Whether the brokers have ended the last transaction by now, if it was open all the time."""
        return self._clock() - self._begun_s > self._transaction_timeout_s

    @property
    def claimed(self) -> bool:
        """Whether records can be written now, as far as this side knows."""
        return self._producer is not None

    def claim(self) -> None:
        """Make the producer and fence earlier ones; nothing happens if it is there already.

        Raises:
            StoreError: the claim or a fencing failed, the cause is attached; nothing is held afterwards.
        """
        with self._lock:
            if self._producer is not None:
                return
            self._given_up = self._fenced = False
            self._begun_s = math.inf  # none is begun yet
            fence_all(self._settings, self._fences, client_id=self._client_id, producers=self._producers)
            timeout_ms = self._settings.properties.get("transaction.timeout.ms", client.TRANSACTION_TIMEOUT_MS)
            self._transaction_timeout_s = int(timeout_ms) / 1000
            self._producer = self._producers.producer(
                self._settings,
                client_id=self._client_id,
                overrides={
                    "transactional.id": self._transactional_id,
                    "transaction.timeout.ms": timeout_ms,
                    "message.timeout.ms": timeout_ms,  # librdkafka demands that it is not above the other
                },
            )
            failure = self._attempt(
                lambda producer: producer.init_transactions(CLAIM_TIMEOUT_S),
                f"claiming write privileges for {self._topic}",
            )
            if failure is not None:
                raise StoreError(
                    f"{failure}; write privileges with transactional.id {self._transactional_id} are not held"
                ) from failure

    def write(self, records: Sequence[Outgoing], *, timeout_s: float = WRITE_TIMEOUT_S) -> list[RecordMetadata]:
        """Write all records in one transaction.

        Raises:
            PrivilegedWriteError: never claimed, lost to another producer (``fenced``), or failed, or its transaction took
                longer than ``transaction.timeout.ms``; claim again.
            WriteError: another thread's write has not ended in time; nothing was written.
        """
        deadline, held = Deadline.after(timeout_s), False
        try:
            held = self._lock.acquire(timeout=timeout_s)
            if not held:
                raise WriteError(f"{self._topic} was not written: another write has not ended within {timeout_s:g} s")
            if self._producer is None:
                raise PrivilegedWriteError(
                    f"{self._topic} cannot be written: write privileges were not claimed, or were lost; "
                    "call claim_write_privileges() first",
                    fenced=self._fenced,
                )
            written: list[RecordMetadata] = []
            failure = self._attempt(
                lambda producer: self._commit(producer, records, written, deadline), deadline=deadline
            )
            if failure is not None:
                _logger.warning("Write privileges of %s are lost: %s", self._transactional_id, failure)
                self._fenced = isinstance(failure, FencedError)
                raise PrivilegedWriteError(
                    f"{failure} (transactional.id {self._transactional_id}); claim write privileges again",
                    fenced=self._fenced,
                ) from failure
            return written
        finally:
            if self._given_up and held:
                self._abandon(LEAST_ABORT_S)
            with suppress(RuntimeError):  # it is not held; an exception may come between acquiring it and ``held``
                self._lock.release()

    def close(self, timeout_s: float = ABORT_TIMEOUT_S) -> None:
        """Give up the producer; a write that takes longer than ``timeout_s`` fails, and does so. May be called twice."""
        self._given_up, writing = True, self._producer
        if self._lock.acquire(timeout=timeout_s):
            try:
                self._abandon(max(LEAST_ABORT_S, min(timeout_s, ABORT_TIMEOUT_S)))
            finally:
                self._lock.release()
        elif writing is not None:
            writing.purge()

    def _attempt(
        self, action: Callable[[client.Producer], None], doing: str = "", deadline: Deadline | None = None
    ) -> BrokerError | None:
        """Do something with the producer; when that fails it is closed, and the reason is given.

        The reason is returned instead of raised because a traceback would keep the producer alive, and with
        it, perhaps, an open transaction that every reader has to wait for.
        """
        failure = None
        try:
            action(cast("client.Producer", self._producer))
        except (client.KafkaException, BufferError) as error:
            failure = client.translate(error, doing or self._doing, "WRITE")
        except BaseException:
            self._abandon()
            raise
        if failure is not None:
            late = self.took_too_long
            in_time = ABORT_TIMEOUT_S if deadline is None else deadline.remaining_s()
            ended = self._abandon(max(LEAST_ABORT_S, min(in_time, ABORT_TIMEOUT_S)))
            if failure.name == "_FATAL" and ended is not None:  # which error was fatal is not said by what it ends
                failure = client.translate(ended, doing or self._doing, "WRITE")
            if isinstance(failure, FencedError) and late:  # which is what the brokers answer then
                failure = BrokerTimeoutError(
                    f"{doing or self._doing} failed: its transaction took longer than transaction.timeout.ms, so nothing of "
                    "it was written (make transactions shorter, or this time longer)",
                    code=failure.code,
                    name=failure.name,
                )
        return failure

    def _commit(
        self,
        producer: client.Producer,
        records: Sequence[Outgoing],
        written: list[RecordMetadata],
        deadline: Deadline,
    ) -> None:
        def on_delivery(error: client.KafkaError | None, message: client.Message) -> None:
            if error is None:
                written.append(RecordMetadata(self._topic, message.partition() or 0, message.offset() or 0))

        self._begin(producer)
        for key, value, *place in records:
            at = place[0] if place else -1
            client.produce(producer, deadline, self._topic, value, key, partition=at, on_delivery=on_delivery)
        client.flush(producer, deadline.remaining_s())
        producer.commit_transaction(deadline.remaining_s(LEAST_COMMIT_S))

    def _begin(self, producer: client.Producer) -> None:
        self._begun_s = self._clock()
        producer.begin_transaction()

    def _abandon(self, abort_s: float = ABORT_TIMEOUT_S) -> client.KafkaError | None:
        """Drop what is queued, end the transaction if there is one, and let the client go; return why it did not end.

        ``Producer.close`` would do the same but warns on stderr when the producer was fenced.
        """
        producer, self._producer = self._producer, None
        if producer is not None:
            client.give_up(producer)
            try:
                producer.abort_transaction(abort_s)
            except client.KafkaException as error:
                reason: client.KafkaError = error.args[0]
                return reason
        return None


def fence_all(
    settings: ClientSettings, transactional_ids: Sequence[str], *, client_id: str, producers: Producers = client
) -> None:
    """Fence the producers with these transactional ids: they can write no more, and what they have open is aborted.

    Raises:
        StoreError: not all of them were fenced within 60 s, the cause is attached; try again.
    """
    deadline = Deadline.after(FENCE_TIMEOUT_S)

    def fence(transactional_id: str) -> None:
        if deadline.is_within():
            raise BrokerTimeoutError(f"no time was left for {transactional_id}", retriable=True)
        producers.fence(settings, transactional_id, client_id=client_id, timeout_s=deadline.remaining_s())

    try:
        client.fence_together(partial(fence, each) for each in transactional_ids)
    except BrokerError as error:
        raise StoreError(
            f"not all of {len(transactional_ids)} producers were fenced within {FENCE_TIMEOUT_S:g} s: {error}; try again"
        ) from error
