"""What a topic refuses by its settings, by the names of all versions of Kafka."""

import time

import pytest

from connect_share.kafka.limits import FOREVER_MS, Extent, TopicLimits
from connect_share.model.records import Record

NOW_MS = int(time.time() * 1000)
HOUR = "3600000"
BEFORE, AFTER, OLD = (f"message.timestamp.{side}.max.ms" for side in ("before", "after", "difference"))


@pytest.mark.parametrize(
    ("settings", "hours", "size", "named"),
    [
        ({}, (-99_999, 10), 1_000, []),
        ({"max.message.bytes": "150"}, (0, 0), 20, ["max.message.bytes=150"]),
        ({BEFORE: HOUR, AFTER: HOUR, "max.message.bytes": "150"}, (-0.3, 0), 19, []),
        ({BEFORE: HOUR, AFTER: HOUR}, (-2, 2), 0, [f"{BEFORE}={HOUR}", f"{AFTER}={HOUR}"]),
        ({OLD: HOUR}, (-2, 2), 0, [f"{OLD}={HOUR}"] * 2),
        ({OLD: HOUR, BEFORE: str(FOREVER_MS)}, (-2, 0), 0, [f"{OLD}={HOUR}"]),
        ({BEFORE: "1", AFTER: "1", "message.timestamp.type": "LogAppendTime"}, (-2, 2), 0, []),
    ],
)
def test_what_is_refused_is_named_with_its_setting(
    settings: dict[str, str], hours: tuple[float, float], size: int, named: list[str]
) -> None:
    written = Extent()
    for each in hours:
        written.add(Record("t", 0, 0, NOW_MS + int(each * int(HOUR)), b"", b"x" * size))
    found = TopicLimits.of(settings).refusals("t", written, "{}={}".format)
    assert [text.partition("(")[2].partition(")")[0] for text in found] == named
