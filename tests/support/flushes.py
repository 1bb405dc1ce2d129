"""Offsets written as a task writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from connect_share.stores.offsets import OffsetBackingStore, OffsetStorageWriter, SetCallback


def done(flush: Future[None] | None, limit_s: float = 120) -> None:
    """Wait for a flush that was begun."""
    assert flush is not None
    flush.result(limit_s)


def flush_offsets(writer: OffsetStorageWriter, *pairs: tuple[Any, Any], limit_s: float = 120) -> None:
    """Write source partitions with their offsets, and wait until they are acknowledged."""
    for partition, offset in pairs:
        writer.offset(partition, offset)
    assert writer.flush(limit_s)


class HeldBack:
    """A real offset store whose writes are held back until ``let_go``; everything else goes straight on."""

    def __init__(self, store: OffsetBackingStore) -> None:
        self.store = store
        self.held: list[Callable[[], None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def set(self, values: Mapping[bytes, bytes | None], callback: SetCallback | None = None) -> Future[None]:
        outcome: Future[None] = Future()

        def write() -> None:
            sent = self.store.set(values, callback)
            sent.add_done_callback(
                lambda done: (
                    outcome.set_exception(error)
                    if (error := done.exception()) is not None
                    else outcome.set_result(None)
                )
            )

        self.held.append(write)
        return outcome

    def let_go(self) -> None:
        held, self.held = self.held, []
        for write in held:
            write()
