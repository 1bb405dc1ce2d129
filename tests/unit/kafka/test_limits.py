"""What the settings of a topic say: closed by a move, opened again, losing records, and what it refuses."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from connect_share.kafka.create import FENCE, policy_fault
from connect_share.kafka.limits import FOREVER_MS, Extent, TopicLimits
from connect_share.model.records import Record, TopicType
from connect_share.worker_config import ClientSettings

HOUR = "3600000"
BEFORE, AFTER, OLD = (f"message.timestamp.{side}.max.ms" for side in ("before", "after", "difference"))
COMPACTED, DELETES = {"cleanup.policy": "compact"}, {"cleanup.policy": "delete", "retention.ms": "604800000"}
BOTH = {**FENCE, "retention.ms": "604800000"}
KEEPS = {**FENCE, "cleanup.policy": "delete"}


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
    written, now_ms = Extent(), int(time.time() * 1000)  # by now: the run may have begun an hour ago
    for each in hours:
        written.add(Record("t", 0, 0, now_ms + int(each * int(HOUR)), b"", b"x" * size))
    found = TopicLimits.of(settings).refusals("t", written, "{}={}".format)
    assert [text.partition("(")[2].partition(")")[0] for text in found] == named


@pytest.mark.parametrize("settings", [COMPACTED, DELETES, KEEPS, BOTH, FENCE, {}])
@pytest.mark.parametrize("moved_by", [None, "plan.json"])
@pytest.mark.parametrize("kind", [TopicType.CONFIG, TopicType.OFFSET])
def test_what_a_policy_says(settings: Mapping[str, str], moved_by: str | None, kind: TopicType) -> None:
    is_config, client = kind is TopicType.CONFIG, ClientSettings({"bootstrap.servers": "b:9092"})
    found = policy_fault(kind, "t", settings, client, moved_by if is_config else None)
    is_closed = is_config and settings is FENCE
    expected = "fenced" if is_closed else None if settings in (COMPACTED, {}) else "cleanup-policy"
    if is_config and moved_by and settings and not is_closed:
        expected = "fence-lifted" if settings is COMPACTED else "fence-deletes"
        assert found is not None
        assert ("deleted" in found.what) == (settings in (DELETES, BOTH))
    assert (None if found is None else found.kind) == expected
    may_be_closed = is_config and (moved_by or settings in (KEEPS, BOTH))
    if may_be_closed and found is not None and found.command is not None:
        assert "cleanup.policy=compact " not in f"{found.command} "  # which would open it
