"""What a log gives its store, what it needs of it, and operations that wait, written once for threads and event loops.

An operation is a generator. It yields what it waits for, and gets the result, or the error, where it stands. A thread
carries it out and blocks, or an event loop does and goes on meanwhile.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial, wraps
from inspect import signature
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from connect_share.errors import UsageError
from connect_share.kafka.client import KafkaError, Message, TopicPartition, is_end_of_partition, to_record
from connect_share.model.records import Record

T = TypeVar("T")

STOP_TIMEOUT_S: Final = 10.0
"""How long what is under way may take at a stop, unless the caller says so."""


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Where an acknowledged record went."""

    topic: str
    partition: int
    offset: int


KeyWatch = Callable[[Sequence[bytes | None]], bool]
"""Is given the keys of a batch; returns whether it wants more."""

_SEPARATOR: Final = b"\n"


class RecordFeed:
    """Hands a topic's own records to a store and counts all of them; the only place that tells own from foreign by key.

    Attributes:
        key_prefix: keys that do not start with these bytes are foreign; ``b""`` lets every record through, null keys too.
        apply: applies the next own records. It is called from one thread at a time, in log order per partition. It must not
            raise for a bad record (it is counted instead); what it does raise ends the log with ``LogFailedError``.
        key_watch: sees all keys, own and foreign, until it has seen enough.
        first_at_s: when the first record came, by the monotonic clock.
        apply_s: seconds in which records were applied.
    """

    def __init__(self, key_prefix: bytes = b"", apply: Callable[[Sequence[Record]], object] = lambda _: None) -> None:
        self.key_prefix = key_prefix
        self.apply = apply
        self.key_watch: KeyWatch | None = None
        self._ends_seen: dict[int, int] = {}
        self.own: int = 0
        self.foreign: int = 0
        self.first_at_s: float | None = None
        self.apply_s: float = 0.0

    def deliver(self, messages: list[Message], on_error: Callable[[KafkaError], None]) -> None:
        """Apply the own records of a batch; ``on_error`` is called with each error that came instead of a record."""
        came_s = time.monotonic()
        keys: list[Any] = [message.key() for message in messages]
        try:
            joined: bytes = _SEPARATOR.join(keys)
        except TypeError:
            # There is a null: only now can there be events among the records; a null key itself is rare.
            messages = [message for message in messages if not self._is_event(message, on_error)]
            keys = [message.key() for message in messages]
            joined = _SEPARATOR.join(key for key in keys if key is not None)
        if not messages:
            return
        if self.first_at_s is None:
            self.first_at_s = came_s
        if self.key_watch is not None and not self.key_watch(keys):
            self.key_watch = None
        own = self._apply_own(messages, keys, joined)
        self.own += own
        self.foreign += len(messages) - own

    def _apply_own(self, messages: list[Message], keys: list[Any], joined: bytes) -> int:
        """Apply the own records, and return how many they are; ``joined``: all keys in one text."""
        own = messages
        prefix = self.key_prefix
        if prefix:
            # All keys are searched at once: most batches of a large topic hold nothing of one's own.
            if prefix not in joined:
                return 0
            pairs = zip(messages, keys, strict=True)
            own = [message for message, key in pairs if key is not None and key.startswith(prefix)]
        if own:
            began = time.monotonic()
            self.apply([to_record(message) for message in own])
            self.apply_s += time.monotonic() - began
        return len(own)

    def position(self, at: TopicPartition) -> int:
        """Return the next offset to be read: the client's position, or an end that it met behind it."""
        return max(at.offset, self._ends_seen.get(at.partition, 0))

    def _is_event(self, message: Message, on_error: Callable[[KafkaError], None]) -> bool:
        error = message.error()
        if error is None:
            return False
        if is_end_of_partition(error):
            self._ends_seen[message.partition() or 0] = message.offset() or 0
        else:
            on_error(error)
        return True


def waits_for_itself(topic: str) -> UsageError:
    """Return the error for what would wait for the thread it runs on, such as in a listener."""
    return UsageError(
        f"a listener or callback of topic {topic} waits for the thread that it runs on, for ever: "
        "take note, return, and wait in a thread of your own"
    )


class CompactedLog(Protocol):
    """What a store needs of its log: a topic that is read to its end, followed, and written to. Errors: ``KafkaBasedLog``."""

    @property
    def foreign_records(self) -> int:
        """Number of records read whose key does not have the store's prefix."""

    def positions(self) -> Mapping[int, int]:
        """Return the next offset to be read of each partition."""

    def start(self) -> None:
        """Read everything, then follow."""

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Send what is under way, and end; may be called twice."""

    def check_topic(self) -> None:
        """Raise if what was read may not be that of the topic any more."""

    def fail(self, error: BaseException) -> None:
        """End: :meth:`check_topic`, and with it every later call, raises what has happened."""

    def check_may_wait(self) -> None:
        """Raise ``UsageError`` in a thread that a wait would wait for."""

    def send(self, key: bytes, value: bytes | None, partition: int = -1) -> Future[RecordMetadata]:
        """Write one record, where murmur2 places its key, or into this partition."""

    def flush(self, timeout_s: float) -> None:
        """Wait until what was sent is acknowledged or has failed."""

    def read_to_end(self, timeout_s: float) -> None:
        """Return once everything that is there now was applied."""

    def reading_past(self, written: RecordMetadata, timeout_s: float) -> Steps[None]:
        """Wait until an acknowledged record was applied."""

    def between_batches(self, read: Callable[[Mapping[int, int]], T], timeout_s: float) -> T:
        """Read to the end, then return the result of ``read`` while nothing is being applied."""


P = ParamSpec("P")
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for a future, so long at most; then ``TimeoutError``."""

    future: Future[Any] = field(repr=False)
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Call:
    """Call what blocks. Calls of one storage are made one after the other, in the order in which they come up."""

    function: Callable[[], Any] = field(repr=False)


Steps = Generator[Wait | Call, Any, T]


def run_blocking(steps: Steps[T]) -> T:
    """Carry out an operation in this thread, and return its result."""
    try:
        step = next(steps)
        while True:
            try:
                result = step.future.result(step.timeout_s) if isinstance(step, Wait) else step.function()
            except BaseException as error:  # noqa: BLE001 - the operation decides what it means
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as ended:
        result_of_all: T = ended.value
        return result_of_all


def operation(steps: Callable[Concatenate[S, P], Steps[T]]) -> Callable[Concatenate[S, P], T]:
    """Make a method that blocks of one that gives steps; :func:`steps_of` gives them to an event loop."""

    @wraps(steps)
    def blocking(store: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run_blocking(steps(store, *args, **kwargs))

    # For help(): what is returned is the result of the steps.
    shown = signature(steps)
    result = re.fullmatch(r"Steps\[(.*)\]", str(shown.return_annotation))
    vars(blocking)["__signature__"] = shown.replace(return_annotation=result[1] if result else shown.return_annotation)
    return blocking


def steps_of(method: Callable[P, T]) -> Callable[P, Steps[T]]:
    """Return the method of an object from which :func:`operation` made the one that blocks."""
    bound: Any = method
    return partial(bound.__func__.__wrapped__, bound.__self__)
