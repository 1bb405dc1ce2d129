"""Kafka's own integration tests of Connect, with the jar and topic sharing in every worker."""
