"""Moving the state of Connect clusters between dedicated and shared topics."""

from migrator.topic_migrator import KafkaConnectTopicMigrator, Skipped, SkipReason

__all__ = ["KafkaConnectTopicMigrator", "SkipReason", "Skipped"]
