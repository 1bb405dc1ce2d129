"""The offsets of consumer groups, such as those of sink connectors."""

from __future__ import annotations

from collections.abc import Mapping

from connect_share.admin.base import AdminBase, result_of
from connect_share.client import ConsumerGroupTopicPartitions, KafkaException, TopicPartition, consumer, translate
from connect_share.errors import BrokerError
from connect_share.worker_config.client_settings import Isolation

_NO_GROUP = "GROUP_ID_NOT_FOUND"


class ConsumerGroupsAdmin(AdminBase):
    """An admin client for the offsets of consumer groups.

    Each method raises ``BrokerError``: not reachable, not allowed, or refused because the group has members, with Kafka's
    name for that.
    """

    def group_offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        """Return the committed offsets of a group, by topic and partition; none of a group that does not exist."""
        doing = f"reading the offsets of consumer group {group_id}"
        # A consumer that never joins, and not the admin client: that one crashes the process where the coordinator is moving
        # or not there yet (librdkafka issue 5040). With a topic the brokers forget its offsets, so all there are are found.
        settings = self._settings.overlaid({"group.id": group_id})
        reader = consumer(settings, client_id="group-offsets", isolation=Isolation.READ_COMMITTED)

        def ask(timeout_s: float) -> dict[tuple[str, int], int]:
            try:
                topics = reader.list_topics(timeout=timeout_s).topics
                wanted = [TopicPartition(name, number) for name, topic in topics.items() for number in topic.partitions]
                found = reader.committed(wanted, timeout=timeout_s) if wanted else []
            except KafkaException as exc:
                raise translate(exc, doing) from exc
            for each in found:
                if each.error is not None:
                    raise translate(each.error, doing)
            return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

        try:
            return self._retried(ask)
        finally:
            reader.close()

    def alter_group_offsets(self, group_id: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Set committed offsets of a group without members."""
        partitions = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]

        def ask(timeout_s: float) -> None:
            wanted = [ConsumerGroupTopicPartitions(group_id, partitions)]
            (future,) = self._client.alter_consumer_group_offsets(wanted, request_timeout=timeout_s).values()
            doing = f"changing the offsets of consumer group {group_id}"
            for each in result_of(future, doing, timeout_s=timeout_s).topic_partitions:
                if each.error is not None:
                    raise translate(each.error, f"{doing}: {each.topic}, partition {each.partition}")

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
