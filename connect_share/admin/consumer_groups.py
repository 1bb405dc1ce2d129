"""The offsets of consumer groups, such as those of sink connectors."""

from __future__ import annotations

from collections.abc import Mapping

from connect_share.admin.base import AdminBase, result_of
from connect_share.client import ConsumerGroupTopicPartitions, TopicPartition
from connect_share.errors import BrokerError

_NO_GROUP = "GROUP_ID_NOT_FOUND"


class ConsumerGroupsAdmin(AdminBase):
    """An admin client for the offsets of consumer groups.

    Each method raises ``BrokerError``: not reachable, not allowed, or refused because the group has members, with Kafka's
    name for that.
    """

    def group_offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        """Return the committed offsets of a group, by topic and partition; none of a group that does not exist."""

        def ask(timeout_s: float) -> dict[tuple[str, int], int]:
            wanted = [ConsumerGroupTopicPartitions(group_id)]
            (future,) = self._client.list_consumer_group_offsets(wanted, request_timeout=timeout_s).values()
            found = result_of(future, f"reading the offsets of consumer group {group_id}", timeout_s=timeout_s)
            return {(each.topic, each.partition): each.offset for each in found.topic_partitions if each.offset >= 0}

        return self._retried(ask)

    def alter_group_offsets(self, group_id: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Set committed offsets of a group without members."""
        partitions = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]

        def ask(timeout_s: float) -> None:
            wanted = [ConsumerGroupTopicPartitions(group_id, partitions)]
            (future,) = self._client.alter_consumer_group_offsets(wanted, request_timeout=timeout_s).values()
            doing = f"changing the offsets of consumer group {group_id}"
            for each in result_of(future, doing, timeout_s=timeout_s).topic_partitions:
                if each.error is not None:
                    name = str(each.error.name())
                    raise BrokerError(
                        f"{doing} failed: {each.topic}, partition {each.partition}: {each.error.str()}",
                        code=int(each.error.code()),
                        name=name,
                        retriable=bool(each.error.retriable()),
                    )

        self._retried(ask)

    def delete_group(self, group_id: str) -> None:
        """Delete a group without members, with all its offsets; it need not exist."""

        def ask(timeout_s: float) -> None:
            (future,) = self._client.delete_consumer_groups([group_id], request_timeout=timeout_s).values()
            try:
                result_of(future, f"deleting consumer group {group_id}", timeout_s=timeout_s)
            except BrokerError as error:
                if error.name != _NO_GROUP:
                    raise

        self._retried(ask)
