"""Records captured from real Java workers, and their REST answers."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from connect_share.model.keys import prefix_key
from connect_share.model.records import Record

FOLDER = Path(__file__).parents[1] / "vectors" / "java-worker"
VERSIONS = ("2.8.2", "3.9.2", "4.1.2", "4.3.1", "4.3.1-eos", "4.3.1-eos-aborted")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


@cache
def captured(version: str, topic: str) -> tuple[Record, ...]:
    """Records of ``configs``, ``offsets`` or ``status``, as the worker's own isolation level shows them."""
    return captured_as_seen(version, topic, committed=topic != "status")


@cache
def captured_as_seen(version: str, topic: str, *, committed: bool) -> tuple[Record, ...]:
    """Records of a topic as a reader of committed records sees them, or with those of aborted transactions."""
    only_committed = FOLDER / version / f"{topic}.read_committed.jsonl.gz"
    path = only_committed if committed and only_committed.exists() else FOLDER / version / f"{topic}.jsonl.gz"
    records = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            found = json.loads(line)
            records.append(
                Record(
                    found["topic"],
                    found["partition"],
                    found["offset"],
                    found["timestamp_ms"],
                    _bytes(found["key_b64"]),
                    _bytes(found["value_b64"]),
                )
            )
    return tuple(records)


@cache
def captured_state(version: str) -> dict[str, Any]:
    """What was noted beside the records: topics, watermarks, answers of REST."""
    with gzip.open(FOLDER / version / "state.json.gz", "rt", encoding="utf-8") as file:
        state: dict[str, Any] = json.load(file)
    return state


def rest_view(version: str) -> dict[str, Any]:
    """The answers of the worker's REST interface, by connector."""
    view: dict[str, Any] = captured_state(version)["rest"]["connectors"]
    return view


def prefixed(records: tuple[Record, ...] | list[Record], group: str) -> list[Record]:
    """The same records as if the worker shared its topics."""
    return [replace(record, key=prefix_key(group, record.key or b"")) for record in records]
