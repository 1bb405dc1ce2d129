"""When records were written, in the words of who wrote them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from connect_share.console import Group
from connect_share.records import Record, TopicType


class WriteTimes:
    """When what is believed was written, by the timestamps of its records: any writer may choose them."""

    def __init__(self) -> None:
        self._by_group: defaultdict[tuple[TopicType, Group], dict[bytes, int]] = defaultdict(dict)

    def look(self, topic_type: TopicType, group: Group, original: bytes, believed: Record | None) -> None:
        """Take note of a record."""
        # What stands in the place of a replay has another key.
        if believed is not None and (believed.key or b"").endswith(original):
            self._by_group[topic_type, group][original] = believed.timestamp_ms

    def of(self, topic_type: TopicType, group: Group) -> Mapping[bytes, int]:
        """Return the times in milliseconds by original key."""
        return self._by_group.get((topic_type, group), {})


def newest(times_ms: Iterable[int]) -> int | None:
    """Return the last of times, ``None`` if none is known."""
    known = [at_ms for at_ms in times_ms if at_ms >= 0]
    return max(known) if known else None
