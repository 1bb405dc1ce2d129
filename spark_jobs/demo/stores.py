"""After the move: the Python stores of a group, beside what REST said."""

from __future__ import annotations

from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from spark_jobs.demo.result import GroupStart, StoreStart
from spark_jobs.demo.views import GroupComparison, compare_views, view_from_storage
from spark_jobs.demo.workers import Captured


def start_stores(captured: Captured) -> tuple[GroupStart, GroupComparison]:
    """Start the three stores of one group on the shared topics and compare them with what REST said.

    Raises:
        StoreError: the stores could not be started or read.
    """
    with ConnectStorage(WorkerConfig.from_file(captured.shared_worker_file)) as storage:
        startup = storage.startup
        comparison = compare_views(captured.cluster.group_id, captured.view, view_from_storage(storage))
    stores = tuple(
        StoreStart(
            topic=store.topic,
            milliseconds=store.seconds * 1e3,
            own_records=store.own_records,
            foreign_records=store.foreign_records,
        )
        for store in (startup.config, startup.status, startup.offsets)
    )
    group = captured.cluster.group_id
    return GroupStart(cluster_group_id=group, milliseconds=startup.seconds * 1e3, stores=stores), comparison
