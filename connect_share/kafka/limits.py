"""What is to be written to a topic, and what of it the topic refuses by its settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from connect_share.errors import BrokerError
from connect_share.kafka.admin import Admin
from connect_share.kafka.create import number_of
from connect_share.model.records import Record, now_ms, shown_time
from connect_share.model.removal import OLDEST_MS
from connect_share.worker_config import ClientSettings

RECORD_OVERHEAD_BYTES: Final = 61 + 70
"""A batch header and the lengths and deltas of one record, rounded up."""
FOREVER_MS: Final = (1 << 63) - 1
_BATCH_BYTES: Final = 1_000_000
"""What the client library puts together at most, if nothing else is set."""
_MARGIN_MS: Final = 600_000
"""For clocks that differ, and for the time until a record is at its broker."""


@dataclass(slots=True)
class Extent:
    """The largest record that is to be written to a topic, with all around it, where it is from, and the times of all."""

    largest_bytes: int = 0
    largest_at: str = ""
    oldest_ms: int = FOREVER_MS
    newest_ms: int = 0

    def add(self, record: Record) -> None:
        """Add a record; one without a time gets that of the write, and one to be as old as possible what the topic takes."""
        size = len(record.key or b"") + len(record.value or b"") + record.headers_size() + RECORD_OVERHEAD_BYTES
        self.extend(size, [record.timestamp_ms] if record.timestamp_ms > OLDEST_MS else [])

    def extend(self, largest_bytes: int, times_ms: Sequence[int], at: str = "") -> None:
        """Add records with these times."""
        if largest_bytes > self.largest_bytes:
            self.largest_bytes, self.largest_at = largest_bytes, at
        self.oldest_ms = min((self.oldest_ms, *times_ms))
        self.newest_ms = max((self.newest_ms, *times_ms))


@dataclass(frozen=True)
class TopicLimits:
    """The largest record that a topic takes, how far times may be from the brokers' (setting, ms), whether it sets them."""

    largest_bytes: int = 1_048_588
    before: tuple[str, int] | None = None
    after: tuple[str, int] | None = None
    stamps: bool = False

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> TopicLimits:
        """Return the limits in the settings of a topic; what is not there does not limit."""
        largest = number_of(settings, "max.message.bytes") or cls.largest_bytes
        if settings.get("message.timestamp.type") == "LogAppendTime":
            return cls(largest, stamps=True)
        return cls(largest, _limit(settings, "before"), _limit(settings, "after"))

    @classmethod
    def seen(cls, admin: Admin, topics: Iterable[str]) -> dict[str, TopicLimits]:
        """Return the limits of topics that exist; none where the settings may not be read."""
        found, none = admin.settings_of_topics(topics), cls(largest_bytes=1 << 31)
        return {name: none if isinstance(each, BrokerError) else cls.of(each) for name, each in found.items()}

    def batched(self, settings: ClientSettings) -> ClientSettings:
        """Return the settings of a producer with batches that the topic takes: they are limited as one record is."""
        size = int(settings.properties.get("batch.size", _BATCH_BYTES))
        return settings.overlaid({"batch.size": str(min(size, self.largest_bytes))})

    def oldest_ms(self) -> int:
        """Return the oldest time that the topic takes."""
        limit = FOREVER_MS if self.before is None else self.before[1]
        return max(OLDEST_MS, now_ms() - limit + min(limit // 2, _MARGIN_MS))

    def refusals(self, topic: str, extent: Extent, remedy: Callable[[str, str], str]) -> Iterator[str]:
        """Yield what the topic refuses of what is to be written, each with the remedy for its setting."""
        found = list[tuple[str, str, int, int]]()
        if extent.largest_bytes > self.largest_bytes:
            size, at = extent.largest_bytes, extent.largest_at and f" as of {extent.largest_at}"
            found.append((f"no records of {size:,} bytes{at}", "max.message.bytes", self.largest_bytes, size))
        if self.before is not None and extent.oldest_ms < self.oldest_ms():
            found.append((f"no records as old as {shown_time(extent.oldest_ms)}", *self.before, FOREVER_MS))
        if self.after is not None and extent.newest_ms > now_ms() + self.after[1]:
            found.append((f"no records as late as {shown_time(extent.newest_ms)}", *self.after, FOREVER_MS))
        for what, name, limit, enough in found:
            yield f"topic {topic} takes {what} ({name}={limit}); {remedy(name, str(enough))}"


def _limit(settings: Mapping[str, str], side: str) -> tuple[str, int] | None:
    # Up to 3.5 there is the old name alone, up to 3.9 both; it counts where the new one does not limit.
    names = (f"message.timestamp.{side}.max.ms", "message.timestamp.difference.max.ms")
    limits = ((name, number_of(settings, name)) for name in names)
    return next(((name, limit) for name, limit in limits if limit is not None and limit < FOREVER_MS), None)
