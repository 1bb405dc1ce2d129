"""Offsets written as a task writes them."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from connect_share.stores.offsets import OffsetStorageWriter


def done(flush: Future[None] | None, limit_s: float = 30) -> None:
    """Wait for a flush that was begun."""
    assert flush is not None
    flush.result(limit_s)


def flush_offsets(writer: OffsetStorageWriter, *pairs: tuple[Any, Any], limit_s: float = 30) -> None:
    """Write source partitions with their offsets, and wait until they are acknowledged."""
    for partition, offset in pairs:
        writer.offset(partition, offset)
    assert writer.begin_flush(limit_s)
    done(writer.do_flush(), limit_s)
