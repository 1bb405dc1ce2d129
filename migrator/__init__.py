"""KafkaConnectTopicMigrator and the jobs around it (KIP-1173)."""
