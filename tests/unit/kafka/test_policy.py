"""What the settings of a topic say: compacted, closed by a move, opened again, or one that loses records."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from connect_share.kafka.create import FENCE, policy_fault
from connect_share.model.records import TopicType
from connect_share.worker_config import ClientSettings

COMPACTED, DELETES = {"cleanup.policy": "compact"}, {"cleanup.policy": "delete", "retention.ms": "604800000"}
BOTH = {**FENCE, "retention.ms": "604800000"}
KEEPS = {**FENCE, "cleanup.policy": "delete"}


@pytest.mark.parametrize("settings", [COMPACTED, DELETES, KEEPS, BOTH, FENCE, {}])
@pytest.mark.parametrize("moved_by", [None, "plan.json"])
@pytest.mark.parametrize("kind", [TopicType.CONFIG, TopicType.OFFSET])
def test_what_a_policy_says(settings: Mapping[str, str], moved_by: str | None, kind: TopicType) -> None:
    found = policy_fault(
        kind,
        "t",
        settings,
        ClientSettings({"bootstrap.servers": "b:9092"}),
        moved_by if kind is TopicType.CONFIG else None,
    )
    is_closed = kind is TopicType.CONFIG and settings is FENCE
    expected = "fenced" if is_closed else None if settings in (COMPACTED, {}) else "cleanup-policy"
    if kind is TopicType.CONFIG and moved_by and settings and not is_closed:
        expected = "fence-lifted" if settings is COMPACTED else "fence-deletes"
        assert found is not None
        assert ("deleted" in found.what) == (settings in (DELETES, BOTH))
    assert (None if found is None else found.kind) == expected
    if (
        found is not None
        and found.command is not None
        and (moved_by or settings in (KEEPS, BOTH))
        and kind is TopicType.CONFIG
    ):
        assert "cleanup.policy=compact " not in f"{found.command} "  # which would open it
