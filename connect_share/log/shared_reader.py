"""One client that reads several topics to their ends: its threads and connections are made once."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_share.client import Consumer, TopicPartition
from connect_share.log.catch_up import CatchUp, CatchUpRead, TopicRead, catch_up_consumer
from connect_share.log.topic_bootstrap import TopicFacts
from connect_share.worker_config.client_settings import ClientSettings, Isolation

_LOOK_S = 0.05


class SharedReader:
    """The first read of the logs of one or several topics; each log asks for its own part, and waits for all.

    The last log to ask reads for all, in its thread. A log that fails before it asks has to withdraw, or the others
    would wait for it.

    Fetching begins at once at ``starts``, all partitions of the topics whose logs will ask, while the caller still asks
    whether these positions are good, or for the ends. An offset that is gone means the beginning if the read is
    ``from_the_beginning``; else it is an error.

    Attributes:
        connect_s: seconds in which the client was made.
    """

    def __init__(
        self,
        starts: Mapping[str, Mapping[int, int]],
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
        self._starts = starts
        self._assign(self._client, starts)
        self._expected = set(starts)
        self._asked: dict[str, TopicRead] = {}
        self._changed = threading.Condition()
        self._reading = False
        self._ended = False
        self._found: dict[str, CatchUp] = {}
        self._error: BaseException | None = None
        self._closing = threading.Thread(target=self._close, name="connect-log-reader-close", daemon=True)
        self.connect_s = time.monotonic() - began

    def covers(self, topic: str, isolation: Isolation) -> bool:
        """Return whether the log of a topic takes part."""
        return topic in self._expected and isolation is self._isolation

    def withdraw(self, topic: str) -> None:
        """Take note that a log will not ask; harmless afterwards."""
        with self._changed:
            self._expected.discard(topic)
            self._changed.notify_all()

    def release(self) -> None:
        """Let go of the client, which takes a while, in a thread of its own; :meth:`join` and :meth:`close` wait for it."""
        self._closing.start()

    def join(self) -> None:
        """Wait until a client that was released is gone."""
        if self._closing.ident is not None:
            self._closing.join()

    def close(self) -> None:
        """Let go of the client; may be called twice."""
        self._close()
        self.join()

    def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def read(self, read: TopicRead, timeout_s: float) -> CatchUp:
        """Read everything together with the others; return what was found in this topic.

        Raises:
            ReadToEndTimeoutError, BrokerError: as :meth:`CatchUpRead.run`, for each of the logs.
            BaseException: what a log's ``check`` raised.
        """
        with self._changed:
            self._asked[read.topic] = read
            self._changed.notify_all()
            while not self._ended and (self._reading or self._asked.keys() < self._expected):
                read.check()
                self._changed.wait(_LOOK_S)
            mine = not self._ended
            self._reading = True
        if mine:
            self._read(timeout_s)
        if self._error is not None:
            raise self._error
        return self._found[read.topic]

    def _read(self, timeout_s: float) -> None:
        client = self._client
        try:
            if client is not None:
                if self._asked.keys() != self._starts.keys():
                    # What one that withdrew would have read is fetched as well, until the client is assigned anew.
                    self._assign(client, {topic: self._starts[topic] for topic in self._asked})
                self._found = CatchUpRead(client, list(self._asked.values())).run(timeout_s, self._isolation)
        except BaseException as error:  # noqa: BLE001 - each log raises it in its own thread
            self._error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    @staticmethod
    def _assign(client: Consumer, starts: Mapping[str, Mapping[int, int]]) -> None:
        # Offset 0, and "earliest" where that is gone: asking for the beginning by name costs librdkafka half a second.
        places = [(topic, partition, at) for topic in sorted(starts) for partition, at in starts[topic].items()]
        client.assign([TopicPartition(*place) for place in places])


def _set() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


@dataclass(frozen=True, slots=True)
class StartContext:
    """What logs that start together share. A log that starts alone has an empty one: it asks, and reads, by itself.

    Attributes:
        facts: of those of the topics that exist.
        reader: reads the topics that it covers.
        all_read: nothing is followed before it is set, unless a caller waits for the end: making another client takes
            time from the first reads of others.
    """

    facts: Mapping[str, TopicFacts] = field(default_factory=dict)
    reader: SharedReader | None = None
    all_read: threading.Event = field(default_factory=_set)
