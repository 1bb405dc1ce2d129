"""The exactly-once leader's producer: writes in transactions, and fences whoever wrote before."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Final

from connect_share import client
from connect_share.errors import PrivilegedWriteError, StoreError
from connect_share.log.protocol import RecordMetadata
from connect_share.worker_config import ClientSettings

_logger = logging.getLogger(__name__)

# Connect overrides what the user set for these; a transactional producer is idempotent by definition.
LEADER_PRODUCER: Final = {
    "enable.idempotence": "true",
    "max.in.flight.requests.per.connection": "5",
    "acks": "all",
}
# Java's default; librdkafka demands that the message time-out is not above it.
TRANSACTION_TIMEOUT_MS: Final = "60000"
CLAIM_TIMEOUT_S: Final = 60.0
COMMIT_TIMEOUT_S: Final = 60.0


class TransactionalWriter:
    """Writes records to one topic, each call in a transaction of its own.

    Nothing can be written before :meth:`claim`. Claiming fences every earlier producer with the same
    transactional id. After any failure the producer is closed at once and writing needs a new claim.

    Args:
        settings: how to reach the cluster.
        client_id: client id of the producer.
        transactional_id: who is fenced by whom.
        topic: where records go.

    Source: the leader's part of ``KafkaConfigBackingStore`` (``claimWritePrivileges``, ``sendPrivileged``).
    """

    def __init__(self, settings: ClientSettings, *, client_id: str, transactional_id: str, topic: str) -> None:
        self._settings = settings
        self._client_id = client_id
        self._transactional_id = transactional_id
        self._topic = topic
        self._lock = threading.Lock()
        self._producer: client.Producer | None = None

    @property
    def claimed(self) -> bool:
        """Whether records can be written now, as far as this side knows."""
        return self._producer is not None

    def claim(self) -> None:
        """Make the producer and fence earlier ones; nothing happens if it is there already.

        Raises:
            StoreError: the claim failed, the cause is attached; nothing is held afterwards.
        """
        with self._lock:
            if self._producer is not None:
                return
            timeout_ms = self._settings.properties.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
            producer = client.producer(
                self._settings,
                client_id=self._client_id,
                overrides={
                    **LEADER_PRODUCER,
                    "transactional.id": self._transactional_id,
                    "transaction.timeout.ms": timeout_ms,
                    "message.timeout.ms": timeout_ms,
                },
            )
            try:
                producer.init_transactions(CLAIM_TIMEOUT_S)
            except client.KafkaException as error:
                _close(producer)
                doing = f"claiming write privileges for {self._topic} with transactional.id {self._transactional_id}"
                raise StoreError(str(client.translate(error, doing))) from error
            self._producer = producer

    def write(self, records: Sequence[tuple[bytes, bytes | None]]) -> list[RecordMetadata]:
        """Write all records in one transaction.

        Raises:
            PrivilegedWriteError: never claimed, lost to another producer, or failed; claim again.
        """
        with self._lock:
            producer = self._producer
            if producer is None:
                raise PrivilegedWriteError(
                    f"{self._topic} cannot be written: write privileges were not claimed, or were lost; "
                    "call claim_write_privileges() first"
                )
            try:
                return self._in_transaction(producer, records)
            except (client.KafkaException, BufferError) as error:
                self._producer = None
                _close(producer)
                why = client.translate(error, f"writing to {self._topic} in a transaction")
                _logger.warning("Write privileges for %s are lost: %s", self._topic, why)
                raise PrivilegedWriteError(f"{why}; claim write privileges again") from why

    def _in_transaction(
        self, producer: client.Producer, records: Sequence[tuple[bytes, bytes | None]]
    ) -> list[RecordMetadata]:
        written: list[RecordMetadata] = []

        def on_delivery(error: client.KafkaError | None, message: client.Message) -> None:
            if error is None:
                written.append(RecordMetadata(self._topic, message.partition() or 0, message.offset() or 0))

        producer.begin_transaction()
        for key, value in records:
            producer.produce(self._topic, value, key, on_delivery=on_delivery)
        producer.flush(COMMIT_TIMEOUT_S)
        producer.commit_transaction(COMMIT_TIMEOUT_S)
        return written

    def close(self) -> None:
        """Give up the producer; may be called twice."""
        with self._lock:
            producer, self._producer = self._producer, None
        if producer is not None:
            _close(producer)


def _close(producer: client.Producer) -> None:
    """Drop what is queued: after a failed transaction none of it may reach the topic later."""
    producer.purge()
    producer.close()
