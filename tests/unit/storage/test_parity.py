"""What there is for threads is there for asyncio, for many groups and in memory, with the same arguments: docs/parity.md.

``python -m tests.unit.storage.test_parity`` writes the table of the page, from the classes themselves.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import connect_share as c
from connect_share.runtime.async_member import AsyncConnectGroupMember
from connect_share.runtime.member import ConnectGroupMember

PAGE: Final = Path(__file__).parents[3] / "docs" / "parity.md"
BEGIN, END = "<!-- the table of tests/unit/storage/test_parity.py -->\n", "<!-- its end -->"

STORES: Final = ("config", "status", "offsets")
_BY_STORAGE: Final = "the storage starts and stops it"
_INSIDE: Final = "for the storage's own use"
_BLOCKING_STORE: Final = "of the blocking store, `.sync`"
WITHOUT: Final[dict[str, str]] = {
    **dict.fromkeys((f"{store}.{name}" for store in STORES for name in ("start", "stop")), _BY_STORAGE),
    **dict.fromkeys(
        (
            f"{store}.{name}"
            for store in STORES
            for name in ("fail", "leave_keys_to_config", "prepare", "restore", "save", "saved")
        ),
        _INSIDE,
    ),
    **dict.fromkeys(("offsets.claim", "offsets.set_in_transaction"), "of a transaction, which `TaskOffsetWriter` has"),
    "config.tell": _INSIDE,
    "offsets.wire_keys": _BLOCKING_STORE,
    "many groups.read": _INSIDE,
    "many groups.forget": _INSIDE,
}
"""What has no form on asyncio, and why."""
OTHERWISE: Final[dict[str, str]] = {
    "offsets.set": "no callback: it is awaited",
    "writer.begin_flush": "waits for no earlier flush, as it is not awaited; `await flush(timeout_s)` does",
    "writer.do_flush": "no callback and no future: it is awaited",
    "member.(arguments)": "the config store and the listener are those of asyncio; the listener's methods are coroutines",
}
"""What has other arguments on asyncio, and why."""
MORE: Final[dict[str, str]] = {
    "storage.events": "changes by `async for`",
    "config.events": "changes by `async for`",
    **dict.fromkeys((f"{part}.sync" for part in ("storage", "memory", *STORES, "reader", "writer")), "what blocks"),
}
"""What there is on asyncio only."""
ARGUMENTS: Final[dict[str, str]] = {
    "memory.checkpoint": "there is nothing to restart from but `kafka=`",
    "memory.checkpoint_every_s": "there is nothing to restart from but `kafka=`",
    "many groups.checkpoint": "the topics are read for all groups",
    "many groups.checkpoint_every_s": "the topics are read for all groups",
}
"""What ``ConnectStorage`` takes, and another storage does not, and why."""

PAIRS: Final[dict[str, tuple[type, type]]] = {
    "storage": (c.ConnectStorage, c.AsyncConnectStorage),
    "memory": (c.MemoryConnectStorage, c.AsyncMemoryConnectStorage),
    "many groups": (c.SharedTopics, c.AsyncSharedTopics),
    "config": (c.KafkaConfigBackingStore, c.AsyncConfigStore),
    "status": (c.KafkaStatusBackingStore, c.AsyncStatusStore),
    "offsets": (c.KafkaOffsetBackingStore, c.AsyncOffsetStore),
    "reader": (c.OffsetStorageReader, c.AsyncOffsetReader),
    "writer": (c.OffsetStorageWriter, c.AsyncOffsetWriter),
    "member": (ConnectGroupMember, AsyncConnectGroupMember),
}
MADE_BY_USERS: Final = ("storage", "memory", "many groups", "member")
STORAGES: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    "memory": PAIRS["memory"],
    "many groups": (c.SharedTopics.storage, c.AsyncSharedTopics.storage),
}


def _names(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def _arguments(found: Any) -> list[tuple[str, Any, Any]]:
    if isinstance(found, property):
        return []
    parameters = list(inspect.signature(found).parameters.values())
    return [(each.name, each.kind, each.default) for each in parameters if each.name != "self"]


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield name, what it is on asyncio, and a reason for a difference."""
    for part, (sync, on_asyncio) in PAIRS.items():
        if part in MADE_BY_USERS:
            same = _arguments(sync) == _arguments(on_asyncio)
            yield f"{part}.(arguments)", "the same" if same else "differ", OTHERWISE.get(f"{part}.(arguments)", "")
        inherited = _names(c.ConnectStorage) if part == "memory" else set()
        for name in sorted(
            (_names(sync) | _names(on_asyncio)) - inherited - {"events"}
            | ({"events"} if part in ("storage", "config") else set())
        ):
            where, theirs, ours = f"{part}.{name}", getattr(sync, name, None), getattr(on_asyncio, name, None)
            if ours is None:
                yield where, "not there", WITHOUT.get(where, "")
            elif theirs is None:
                yield where, "there only", MORE.get(where, "")
            elif _arguments(theirs) != _arguments(ours):
                yield where, "differs", OTHERWISE.get(where, "")
            else:
                yield where, "`await`" if inspect.iscoroutinefunction(ours) else "the same", ""


def arguments() -> Iterator[tuple[str, str, str]]:
    """Yield the arguments of ``ConnectStorage`` that storages of other kinds do not take."""
    wanted = {name for name, *_ in _arguments(c.ConnectStorage)}
    for kind, makers in STORAGES.items():
        for maker in makers:
            for name in sorted(wanted - {given for given, *_ in _arguments(maker)}):
                yield f"{kind}.{name}", maker.__qualname__, ARGUMENTS.get(f"{kind}.{name}", "")


def table() -> str:
    """Return the table of the page."""
    lines = ["| for threads | on asyncio | why not the same |", "| --- | --- | --- |"]
    lines += [
        f"| {part} `{name}` | {state} | {why} |" for where, state, why in rows() for part, name in [where.split(".")]
    ]
    lines += ["", "| argument of `ConnectStorage` | not taken by | why |", "| --- | --- | --- |"]
    lines += [f"| `{where.split('.')[1]}` | `{who}` | {why} |" for where, who, why in arguments()]
    return "\n".join(lines) + "\n"


def test_every_difference_has_a_reason() -> None:
    found = list(rows())
    assert [row for row in found if row[1] in ("not there", "there only", "differs", "differ") and not row[2]] == []
    assert [row for row in arguments() if not row[2]] == []
    reasons = {**WITHOUT, **OTHERWISE, **MORE}
    needed = {where for where, _, why in found if why}
    assert set(reasons) == needed, "reasons that nothing needs any more"
    assert set(ARGUMENTS) == {where for where, *_ in arguments()}


def test_the_page_has_the_table() -> None:
    text = PAGE.read_text("utf-8")
    assert text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip() == table().strip(), __doc__


@pytest.mark.parametrize("kind", [kind for pair in PAIRS.values() for kind in pair])
def test_help_shows_how_it_is_called(kind: type) -> None:
    for name in _names(kind):
        found = inspect.getattr_static(kind, name)
        assert inspect.getdoc(found), (kind, name)
        if callable(found):
            text = str(inspect.signature(found))
            assert "args: 'P.args'" not in text
            assert "Steps" not in text, (name, text)


if __name__ == "__main__":
    page = PAGE.read_text("utf-8")
    PAGE.write_text(page[: page.index(BEGIN) + len(BEGIN)] + "\n" + table() + "\n" + page[page.index(END) :], "utf-8")
