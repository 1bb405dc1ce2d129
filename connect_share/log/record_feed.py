"""The way of a topic's records from a client to the store they are for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from connect_share.client import KafkaError, Message, TopicPartition, is_end_of_partition, to_record
from connect_share.log.protocol import RecordSink

KeyWatch = Callable[[Sequence[bytes | None]], bool]
"""Looks at the keys of a batch; returns whether it wants to see more."""

_SEPARATOR: Final = b"\n"


class RecordFeed:
    """Hands a topic's own records to a sink and counts all of them; the only place that tells own from foreign by key.

    ``key_watch`` sees all keys, own and foreign, until it has seen enough.

    Attributes:
        own: records whose key has the sink's prefix.
        foreign: all others.
        first_at_s: when the first record came, by the monotonic clock.
        apply_s: seconds in which the sink applied records.
    """

    def __init__(self, sink: RecordSink, key_watch: KeyWatch | None = None) -> None:
        self._sink = sink
        self._prefix = sink.key_prefix
        self._key_watch = key_watch
        self._ends_seen: dict[int, int] = {}
        self.own = 0
        self.foreign = 0
        self.first_at_s: float | None = None
        self.apply_s = 0.0

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
        if self._key_watch is not None and not self._key_watch(keys):
            self._key_watch = None
        own = self._apply_own(messages, keys, joined)
        self.own += own
        self.foreign += len(messages) - own

    def _apply_own(self, messages: list[Message], keys: list[Any], joined: bytes) -> int:
        """Apply the records that are for the sink, and return how many they are; ``joined``: all keys in one text."""
        own = messages
        if self._prefix:
            # One look at all keys at once: most batches of a large topic hold nothing of one's own.
            if self._prefix not in joined:
                return 0
            prefix = self._prefix
            pairs = zip(messages, keys, strict=True)
            own = [message for message, key in pairs if key is not None and key.startswith(prefix)]
        if own:
            began = time.monotonic()
            self._sink.apply([to_record(message) for message in own])
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
