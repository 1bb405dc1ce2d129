"""Several logs that are started at the same time are read by one client: its threads and connections are made once."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Self

from connect_share.client import Consumer, TopicPartition
from connect_share.log.catch_up import CatchUp, Reading, catch_up, catch_up_consumer
from connect_share.records import TopicType
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.client_settings import ClientSettings, Isolation

_LOOK_S = 0.05


class SharedReader:
    """One read for the logs of several topics; each log asks for its own part, and waits for all.

    The last log to ask does the reading, in its thread. A log that fails before it asks has to withdraw, or the others
    would wait for it.

    Args:
        begin: where to begin, for all partitions of the topics whose logs will ask: fetching begins at once, while the
            caller still asks whether these positions are good, or for the ends.
        settings: how to read.
        client_id: shown in the broker's logs.
        isolation: which records of transactions are seen, by all of them.
        from_the_beginning: an offset that is gone means the beginning; else it is an error.
    """

    def __init__(
        self,
        begin: Mapping[str, Mapping[int, int]],
        settings: ClientSettings,
        *,
        client_id: str,
        isolation: Isolation,
        from_the_beginning: bool = True,
    ) -> None:
        began = time.monotonic()
        self._isolation = isolation
        self._client: Consumer | None = catch_up_consumer(
            settings, client_id=client_id, isolation=isolation, from_the_beginning=from_the_beginning
        )
        self._begun = frozenset(begin)
        self._expected = set(begin)
        where = [(topic, partition, at) for topic in sorted(begin) for partition, at in begin[topic].items()]
        self._client.assign([TopicPartition(*each) for each in where])
        self._asked: dict[str, Reading] = {}
        self._changed = threading.Condition()
        self._reading = False
        self._ended = False
        self._found: dict[str, CatchUp] = {}
        self._error: BaseException | None = None
        self.connect_s = time.monotonic() - began

    @classmethod
    def of_worker(
        cls, worker: WorkerConfig, begin: Mapping[str, Mapping[int, int]], *, from_the_beginning: bool
    ) -> Self | None:
        """Make one for those of a worker's topics that were found and are read alike; the others are read alone.

        ``begin``: where, for each partition of those that were found. ``None`` if there is no topic at all.
        """
        alike: dict[Isolation, dict[str, Mapping[int, int]]] = {}
        for topic_type in TopicType:
            topic = worker.topic(topic_type)
            if topic in begin:
                alike.setdefault(worker.isolation(topic_type), {})[topic] = begin[topic]
        if not alike:
            return None
        isolation, most = max(alike.items(), key=lambda item: len(item[1]))
        return cls(
            most,
            worker.consumer_settings(),
            client_id=worker.client_id("shared-start"),
            isolation=isolation,
            from_the_beginning=from_the_beginning,
        )

    def covers(self, topic: str, isolation: Isolation) -> bool:
        """Tell whether a log is one of those."""
        return topic in self._expected and isolation is self._isolation

    def withdraw(self, topic: str) -> None:
        """Say that a log will not ask; harmless afterwards."""
        with self._changed:
            self._expected.discard(topic)
            self._changed.notify_all()

    def close(self) -> None:
        """Let go of the client; may be called twice."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def read(self, reading: Reading, timeout_s: float) -> CatchUp:
        """Read everything together with the others; give what was found in this topic.

        Raises:
            ReadToEndTimeoutError, BrokerError: as :func:`connect_share.log.catch_up.catch_up`, for each of the logs.
            BaseException: what a log's ``go_on`` raised.
        """
        with self._changed:
            self._asked[reading.topic] = reading
            self._changed.notify_all()
            while not self._ended and (self._reading or self._asked.keys() < self._expected):
                reading.go_on()
                self._changed.wait(_LOOK_S)
            mine = not self._ended
            self._reading = True
        if mine:
            self._read(timeout_s)
        if self._error is not None:
            raise self._error
        return self._found[reading.topic]

    def _read(self, timeout_s: float) -> None:
        try:
            if self._client is not None:
                # One that withdrew is fetched as well: then the client is told anew what to fetch.
                self._found = catch_up(
                    self._client,
                    list(self._asked.values()),
                    timeout_s=timeout_s,
                    isolation=self._isolation,
                    assigned=self._begun == self._asked.keys(),
                )
        except BaseException as error:  # noqa: BLE001 - each log raises it in its own thread
            self._error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()
