"""The lines of a worker's log about records of other groups."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from connect_share.model.keys import KINDS
from connect_share.model.records import TopicType
from tests.lab.compatibility.cells import Part

ABOUT_FOREIGN: Final[Mapping[TopicType, str]] = {
    TopicType.CONFIG: "Discarding config update record with invalid key",
    TopicType.STATUS: "Discarding record with invalid key",
    TopicType.OFFSET: "Ignoring offset partition key with unknown serialization",
}
"""The messages of plain workers, one for each record they cannot place; 2.8 has none about offsets."""

_LEVEL: Final = re.compile(r"^\[\d{4}-\d\d-\d\d [\d:,]+\] (WARN|ERROR) (.*)$", re.MULTILINE)
_READ: Final = re.compile(r"^\[\d{4}-\d\d-\d\d [\d:,]+\].*Started KafkaConfigBackingStore", re.MULTILINE)
"""The config topic is the last of the three. "Herder started" is no measure: since 3.9 it comes after the worker has
joined its group, which takes four seconds more when it was killed before."""


class LogReading(Part):
    """What one start logs, from the launch until the three topics have been read, or later.

    Attributes:
        about_foreign: entries in the known words for records of other groups, by topic.
        other_about_foreign: further WARN and ERROR entries that have a key of another group in them.
    """

    lines: int
    bytes: int
    warnings: int
    errors: int
    about_foreign: dict[TopicType, int]
    other_about_foreign: int

    @property
    def foreign(self) -> int:
        """All entries about records of others."""
        return sum(self.about_foreign.values()) + self.other_about_foreign


def topics_read(text: str) -> int | None:
    """Return where the line ends with which the worker had read its topics."""
    found = _READ.search(text)
    return found.end() if found else None


def read_log(text: str, foreign_ids: Iterable[str]) -> LogReading:
    """Count what a piece of a worker's log says.

    Args:
        text: lines as our workers log them, ``[time] LEVEL text (logger)``.
        foreign_ids: cluster groups whose records are none of the worker's.
    """
    keys = "|".join(re.escape(begin.decode()) for begin in (kind.prefix for kinds in KINDS.values() for kind in kinds))
    ids = "|".join(re.escape(group) for group in foreign_ids)
    of_others = re.compile(rf"(?<![A-Za-z0-9._-])(?:{ids})\.(?:{keys})") if ids else None
    counted = dict.fromkeys(TopicType, 0)
    levels, other = {"WARN": 0, "ERROR": 0}, 0
    for entry in _LEVEL.finditer(text):
        level, words = entry.groups()
        levels[level] += 1
        for topic_type, known in ABOUT_FOREIGN.items():
            if known in words:
                counted[topic_type] += 1
                break
        else:
            other += of_others is not None and of_others.search(words) is not None
    return LogReading(
        lines=text.count("\n"),
        bytes=len(text.encode()),
        warnings=levels["WARN"],
        errors=levels["ERROR"],
        about_foreign=counted,
        other_about_foreign=other,
    )
