"""What removes a key, by the topic and by whether it is shared."""

from __future__ import annotations

import pytest

from connect_share.model.keys import ClusterGroupId, StatusKey, prefix_of
from connect_share.model.records import TopicType
from connect_share.model.removal import is_removal, removal
from connect_share.replay import replay_status
from tests.support.checked import STATUS, records

GROUP = ClusterGroupId("g")


@pytest.mark.parametrize("topic_type", TopicType)
@pytest.mark.parametrize("group", [None, GROUP])
def test_only_a_shared_config_topic_has_json_null(topic_type: TopicType, group: ClusterGroupId | None) -> None:
    record = removal(topic_type, "t", b"k", group)
    assert record.value == (b"null" if (topic_type, group) == (TopicType.CONFIG, GROUP) else None)
    assert is_removal(topic_type, record.value)
    assert is_removal(topic_type, b"null") == (topic_type is TopicType.CONFIG)


@pytest.mark.parametrize("group", [None, GROUP])
def test_a_status_put_back_outlives_its_removal(group: ClusterGroupId | None) -> None:
    """Whichever partition is read first; the statuses that are put back have their old timestamps."""
    value = '{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":1}'
    lay = records(STATUS, ("status-connector-c", value), ("status-task-c-0", value), group=group)
    keys = (StatusKey.CONNECTOR.key("c"), StatusKey.TASK.key("c-0"))
    removed = [removal(STATUS, "status", prefix_of(group) + key, group) for key in keys]
    for log in ([*lay, *removed, *lay], [lay[1], *removed, lay[1], lay[0]]):
        assert [each.task_id.task for each in replay_status(log, group).task_statuses("c")] == [0]
