"""Fencing: the old producers of exactly-once sources can write no more."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from connect_share import client
from migrator.cutover.moved_source import MovedSource
from migrator.facts.worker_clients import client_id_of
from migrator.progress import Progress

_AT_ONCE: Final = 8


def fence(ids: Sequence[tuple[MovedSource, str]], progress: Progress) -> int:
    """Fence old producers by their transactional ids, several side by side. Returns how many.

    Raises:
        BrokerError: the cluster refused one; others may be fenced. Fencing again is harmless.
    """
    progress.phase("fencing the old producers", len(ids))

    def fence_one(entry: tuple[MovedSource, str]) -> None:
        worker = entry[0].worker
        client.fence(worker.producer_settings(), entry[1], client_id=client_id_of(worker))

    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="fence")
    try:
        for _ in pool.map(fence_one, ids):
            progress.advance(1)
    finally:
        pool.shutdown(cancel_futures=True)
    return len(ids)
