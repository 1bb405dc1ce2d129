"""A flush that an exception of a signal cuts off at each of its lines: nothing is lost, and the writer goes on."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from connect_share import MemoryOffsetBackingStore, OffsetStorageReader, OffsetStorageWriter
from connect_share.stores import offsets


def cut_off_at_line(number: int, call: Callable[[], object]) -> bool:
    """Call, and raise what Ctrl-C raises before the given line of the module under test; return whether it had so many."""
    lines = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != offsets.__file__:
            return None
        # Python runs no handler of a signal between the body of a ``with`` and its end.
        if event == "line" and not linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip().startswith(
            "with "
        ):
            lines += 1
            if lines == number:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with suppress(KeyboardInterrupt):
            call()
    finally:
        sys.settrace(before)
    return lines >= number


def test_an_exception_at_each_line_of_a_flush() -> None:
    store = MemoryOffsetBackingStore()
    store.start()
    number, cut_off = 0, True
    while cut_off:
        number += 1
        writer = OffsetStorageWriter(store, f"c{number}")
        writer.offset({"file": "a"}, {"at": 1})
        writer.offset({"file": "b"}, {"at": 1})

        def flush(writer: OffsetStorageWriter = writer) -> None:
            writer.flush(120)
            writer.offset({"file": "c"}, {"at": 3})
            writer.flush(120)

        cut_off = cut_off_at_line(number, flush)
        writer.offset({"file": "a"}, {"at": 2})
        writer.cancel_flush()
        writer.flush(120)
        read = OffsetStorageReader(store, f"c{number}").offsets([{"file": "a"}, {"file": "b"}])
        assert read == [({"file": "a"}, {"at": 2}), ({"file": "b"}, {"at": 1})], number
    assert number > 50
