"""Metrics of stores that are embedded in a program of one's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from connect_share.errors import ConnectShareError
from connect_share.model.keys import SkipKind
from connect_share.storage.async_storage import AsyncConnectStorage
from connect_share.storage.connect_storage import ConnectStorage


class StorageMetrics(Collector):
    """Metrics of one ``ConnectStorage`` or ``AsyncConnectStorage``, to be registered where the program has its others.

    ::

        REGISTRY.register(StorageMetrics(storage, group="com.acme.orders"))

    ``connect_share_storage_failed`` is 1 once a store's log has failed, ``connect_share_storage_position`` the next offset
    to be read by topic and partition, ``connect_share_storage_skipped_records_total`` what changed nothing, by reason.

    Args:
        storage: of threads or of asyncio; started, or not yet: then there is nothing but ``failed``.
        group: the label.
    """

    def __init__(self, storage: ConnectStorage | AsyncConnectStorage, *, group: str) -> None:
        self._storage = storage
        self._group = group

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the names depend on what there is."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; a store that is stopped or has failed has none but ``failed``."""
        failed = GaugeMetricFamily(
            "connect_share_storage_failed", "1: the log of a store has failed, start another", labels=["group"]
        )
        failed.add_metric([self._group], self._storage.failed is not None)
        yield failed
        positions = GaugeMetricFamily(
            "connect_share_storage_position", "Next offset to be read", labels=["group", "topic", "partition"]
        )
        skipped = CounterMetricFamily(
            "connect_share_storage_skipped_records", "Records that changed nothing", labels=["group", "topic", "reason"]
        )
        try:
            for store in (self._storage.config, self._storage.status, self._storage.offsets):
                for partition, position in store.positions().items():
                    positions.add_metric([self._group, store.topic, str(partition)], position)
                counts = store.skipped()
                for kind in SkipKind:  # no query sees the growth of what begins above 0
                    skipped.add_metric([self._group, store.topic, kind.value], counts.get(kind, 0))
        except ConnectShareError:
            return
        yield positions
        yield skipped
