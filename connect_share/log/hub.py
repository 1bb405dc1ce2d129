"""One topic that is read and followed once, for the stores of many groups."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from connect_share.errors import ConnectShareError, LogFailedError, NotStartedError, StoreClosedError
from connect_share.kafka.client import Deadline, Message, to_record
from connect_share.log.kafka_based_log import KafkaBasedLog
from connect_share.log.protocol import STOP_TIMEOUT_S, KeyWatch, RecordFeed, RecordMetadata, Steps
from connect_share.log.tail import OnFailed
from connect_share.model.records import OffsetRange, Record

T = TypeVar("T")


class Routes(Generic[T]):
    """Finds the owners of keys by their prefixes, each of which ends with a dot; how many there are does not count.

    One prefix may begin another, as ``a.`` begins ``a.b.``.

    Attributes:
        shortest: length of the shortest prefix.
        begins: the first so many bytes of all prefixes. A key that begins otherwise has no owner.
    """

    def __init__(self, owned: Sequence[tuple[bytes, T]]) -> None:
        self._owners: dict[bytes, list[T]] = {}
        for prefix, owner in owned:
            self._owners.setdefault(prefix, []).append(owner)
        self.shortest: int = min(map(len, self._owners), default=0)
        self._longest = max(map(len, self._owners), default=0)
        self.begins: set[bytes] = {prefix[: self.shortest] for prefix in self._owners}

    def owners(self, key: bytes) -> list[T]:
        """Return the owners of all prefixes with which a key begins."""
        found: list[T] = []
        end = key.find(b".") + 1
        while 0 < end <= self._longest:
            found += self._owners.get(key[:end], ())
            end = key.find(b".", end) + 1
        return found


_ATTACH_S: Final = 30.0


class Router(RecordFeed):
    """Hands each record to the logs of its group, and looks at no other; groups may come and go while it is used.

    Most records of a large topic are of none of these groups: they are passed over by the first bytes of their keys.

    Attributes:
        log: reads and follows the topic for all; ``make_log`` makes it.
    """

    def __init__(self, make_log: Callable[[RecordFeed], KafkaBasedLog], key_watch: KeyWatch) -> None:
        super().__init__()
        self.key_watch = key_watch
        self.log = make_log(self)
        self._lock = threading.Lock()
        self._logs: list[RoutedLog] = []
        self._routes: Routes[RoutedLog] | None = None

    def log_of(self, feed: RecordFeed, on_failed: OnFailed) -> RoutedLog:
        """Return the log of one group, which gets records from now on."""
        log = RoutedLog(self, feed, on_failed)
        with self._lock:
            self._logs.append(log)
            self._routes = None
        return log

    def remove(self, log: RoutedLog) -> None:
        """Hand nothing more to a log."""
        with self._lock:
            self._logs = [each for each in self._logs if each is not log]
            self._routes = None

    def _apply_own(self, messages: list[Message], keys: list[Any], joined: bytes) -> int:  # noqa: ARG002
        began, own = time.monotonic(), 0
        with self._lock:
            if self._routes is None:
                self._routes = Routes([(log.feed.key_prefix, log) for log in self._logs])
            routes = self._routes
        length, begins = routes.shortest, routes.begins
        pairs = zip(keys, messages, strict=True)
        near = [(key, message) for key, message in pairs if key is not None and key[:length] in begins]
        found: dict[RoutedLog, list[Record]] = {}
        for key, message in near:
            if owners := routes.owners(key):
                own += 1
                record = to_record(message)
                for log in owners:
                    found.setdefault(log, []).append(record)
        for log, records in found.items():
            log.deliver(records)
        self.apply_s += time.monotonic() - began
        return own


class RoutedLog:
    """One group's part of a topic that others follow, too. What goes wrong in its store ends this log alone."""

    def __init__(self, router: Router, feed: RecordFeed, on_failed: OnFailed) -> None:
        self._router = router
        self.feed = feed
        self._on_failed = on_failed
        # The first read has ended: who comes now has to read by itself.
        self._late: list[Record] | None = None if router.log.caught_up is None else []
        self._started = False
        self._stopped = False
        self._failure: ConnectShareError | None = None
        self._unacknowledged: set[Future[RecordMetadata]] = set()
        self.positions, self.check_may_wait = router.log.positions, router.log.check_may_wait

    @property
    def foreign_records(self) -> int:
        """Number of records read whose key does not have the store's prefix."""
        return self._router.own + self._router.foreign - self.feed.own

    def deliver(self, records: Sequence[Record]) -> None:
        """Apply records; called by the thread that reads for all, which nothing may end."""
        if self._stopped or self._failure is not None:
            return
        if self._late is not None:
            self._late += records
            return
        self.feed.own += len(records)
        try:
            self.feed.apply(records)
        except BaseException as error:  # noqa: BLE001 - one group must not hold up the others
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """End this log alone: every later call raises what has happened."""
        if isinstance(error, ConnectShareError) and not self._started:
            self._failure = error
            return
        what = f"the log of topic {self._router.log.topic} has failed and must be started again"
        self._failure = LogFailedError.caused_by(error, what)
        self._on_failed(self._failure)

    def start(self) -> None:
        """Take part in what was read for all; who comes late reads what is there by itself."""
        if self._router.log.caught_up is None:
            raise NotStartedError(f"topic {self._router.log.topic} was not read yet")
        if self._late is not None and self._failure is None:
            self._read_alone()
        # As with any log, what was written before the start is there after it, also what came since the common read.
        self._router.log.read_to_end(_ATTACH_S)
        if self._failure is not None:
            raise self._failure
        self._started = True

    def _read_alone(self) -> None:
        """Read what was there before this log got its first record, apply it, and then what came meanwhile."""
        ends = self._router.log.between_batches(dict, _ATTACH_S)
        topic, prefix = self._router.log.topic, self.feed.key_prefix
        ranges = [OffsetRange(topic, partition, 0, end) for partition, end in ends.items() if end > 0]
        reader = self._router.log.reader._replace(client_id="connect-share-late")
        for batch in reader.batches(ranges, _ATTACH_S):
            own = [message for message in batch if (key := message.key()) is not None and key.startswith(prefix)]
            self.feed.own += len(own)
            if own:
                self.feed.apply([to_record(message) for message in own])

        def attach(_: Mapping[int, int]) -> None:
            late = [record for record in self._late or () if record.offset >= ends.get(record.partition, 0)]
            self._late = None
            if late:
                self.deliver(late)

        self._router.log.between_batches(attach, _ATTACH_S)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Wait for what this group has sent, and take nothing more; the others go on. May be called twice."""
        self._stopped = True
        self._router.remove(self)
        deadline = Deadline.after(timeout_s)
        for sent in list(self._unacknowledged):
            with suppress(TimeoutError):
                sent.exception(deadline.remaining_s())

    def check_topic(self) -> None:
        """Raise if what was read may not be that of the topic any more."""
        if self._failure is not None:
            raise self._failure
        self._router.log.check_topic()

    def send(self, key: bytes, value: bytes | None, partition: int = -1) -> Future[RecordMetadata]:
        """Write one record through the producer that all groups share."""
        self._check_running()
        sent = self._router.log.send(key, value, partition)
        self._unacknowledged.add(sent)
        sent.add_done_callback(self._unacknowledged.discard)
        return sent

    def flush(self, timeout_s: float) -> None:
        """Wait until what was sent is acknowledged or has failed."""
        self._check_running()
        self._router.log.flush(timeout_s)

    def read_to_end(self, timeout_s: float) -> None:
        """Return once everything that is there now was applied."""
        self._check_running()
        self._router.log.read_to_end(timeout_s)
        self.check_topic()

    def reading_past(self, written: RecordMetadata, timeout_s: float) -> Steps[None]:
        """Wait until an acknowledged record was applied."""
        self._check_running()
        yield from self._router.log.reading_past(written, timeout_s)
        self.check_topic()

    def between_batches(self, read: Callable[[Mapping[int, int]], T], timeout_s: float) -> T:
        """Read to the end, then return the result of ``read`` while nothing is being applied."""
        self._check_running()
        return self._router.log.between_batches(read, timeout_s)

    def _check_running(self) -> None:
        self.check_topic()
        if self._stopped:
            raise StoreClosedError(f"the log of topic {self._router.log.topic} was stopped")
        if not self._started:
            raise NotStartedError(f"the log of topic {self._router.log.topic} was not started; call start()")
