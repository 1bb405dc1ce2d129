"""Moving the state of Connect clusters between dedicated and shared topics.

What asks a cluster raises ``BrokerError`` if that refuses, and ``ReadToEndTimeoutError`` if an end is not reached in time;
docstrings name the other errors.
"""

from migrator.topic_migrator import KafkaConnectTopicMigrator, Skipped, SkipReason

__all__ = ["KafkaConnectTopicMigrator", "SkipReason", "Skipped"]
