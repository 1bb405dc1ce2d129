"""Where the partitions of a topic end, also with brokers that cannot tell the admin client."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final

from connect_share.admin import Admin
from connect_share.client import KafkaException, TopicPartition, TopicRight, consumer, is_unsupported, translate
from connect_share.errors import BrokerError, StoreError
from connect_share.log.writer import remaining_s
from connect_share.worker_config.client_settings import ClientSettings, Isolation

_RETRY_S: Final = 0.1


class EndOffsets:
    """Asks the admin client, which cannot block; where brokers are too old for that, a consumer.

    Source: ``KafkaBasedLog.readEndOffsets``.
    """

    def __init__(
        self,
        topic: str,
        admin: Admin,
        settings: ClientSettings,
        *,
        client_id: str,
        isolation: Isolation,
        stopping: threading.Event,
    ) -> None:
        self._topic = topic
        self._admin = admin
        self._settings = settings
        self._client_id = client_id
        self._isolation = isolation
        self._stopping = stopping
        self._admin_knows = True

    def ask(self, partitions: Sequence[int], timeout_s: float) -> dict[int, int]:
        """Give the high watermarks.

        Raises:
            StoreError: only a consumer could tell, and it would stop at open transactions.
            BrokerError: the ends could not be learnt.
        """
        if self._admin_knows:
            try:
                found = self._admin.end_offsets(
                    ((self._topic, partition) for partition in partitions), timeout_s=timeout_s
                )
            except BrokerError as exc:
                if not is_unsupported(exc):
                    raise
                if self._isolation is Isolation.READ_COMMITTED:
                    raise StoreError(
                        f"reading {self._topic} with read_committed needs a broker that can list offsets; "
                        f"upgrade the brokers or switch exactly-once off"
                    ) from exc
                self._admin_knows = False
            else:
                return {partition: end for (_, partition), end in found.items()}
        return self._watermarks(partitions, timeout_s)

    def _watermarks(self, partitions: Sequence[int], timeout_s: float) -> dict[int, int]:
        reader = consumer(self._settings, client_id=self._client_id, isolation=Isolation.READ_UNCOMMITTED)
        deadline_s = time.monotonic() + timeout_s
        try:
            while True:
                try:
                    return {
                        partition: reader.get_watermark_offsets(
                            TopicPartition(self._topic, partition), timeout=max(0.1, remaining_s(deadline_s))
                        )[1]
                        for partition in partitions
                    }
                except KafkaException as exc:
                    error = translate(exc, f"asking for the end of topic {self._topic}", TopicRight.DESCRIBE)
                    if not error.retriable or time.monotonic() > deadline_s or self._stopping.wait(_RETRY_S):
                        raise error from exc
        finally:
            reader.close()
