"""Prometheus metrics of what all groups keep in the topics, and of embedded stores; ``docs/monitoring.md``."""

from connect_share.exporter.storage_metrics import StorageMetrics

__all__ = ["StorageMetrics"]
