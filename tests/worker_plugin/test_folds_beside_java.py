"""The same random logs to the callbacks of Java's stores and to the folds: what each believes, and what listeners hear.

What may differ is written down in docs/decisions/0003-where-we-differ-from-java.md; each such difference is a rule here,
and everything else has to be equal.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import re
from base64 import b64decode, b64encode
from collections import Counter
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import pytest

from connect_share.errors import ValueFormatError
from connect_share.model.connect_json import loads
from connect_share.model.keys import ClusterGroupId, SkipKind, is_integer, key_text, own_key, split_key
from connect_share.model.offsets import parse_offset_key
from connect_share.model.records import Record, TopicType
from tests.support.fold_answers import FoldAnswer, fold_answer, plain_text
from tests.support.hostile_logs import GROUP, HostileLogs
from tests.support.java_tests import classes_of, run_java
from tests.support.long_forms import LONG

pytestmark = pytest.mark.xdist_group("worker_plugin")

SOURCES = Path(__file__).with_name("stores")
LOGS = 6_500 if LONG else 500
"""For each type of topic, with plain keys and with a group's."""
SEED = int(os.environ.get("CONNECT_SHARE_SOAK_SEED", "1173"))
SEEN = {
    TopicType.CONFIG: [
        *("applied", "committed", "connectors", "deferred", "generations", "inconsistent", "pending_fencing"),
        "session_key",
        *("event updated", "event removed", "event tasks", "event target state", "event session key", "event restart"),
    ],
    TopicType.STATUS: ["connectors", "tasks", "topics", "removed out of time"],
    TopicType.OFFSET: ["data", "partitions", "two spellings"],
}
"""What occurs, and often enough to mean something."""


def _question(topic_type: TopicType, records: list[Record], group: str | None, started: int) -> str:
    def text(data: bytes | None) -> str | None:
        return None if data is None else b64encode(data).decode()

    rows = [[record.offset, text(record.key), text(record.value), record.timestamp_ms] for record in records]
    return json.dumps({"type": topic_type.value, "group": group, "started": started, "records": rows})


def _logs(topic_type: TopicType, group: str | None) -> list[tuple[list[Record], int]]:
    """Make logs, each with the offset from which on listeners hear."""
    made = HostileLogs(SEED, group)
    logs = [made.log(topic_type) for _ in range(LOGS)]
    # In a third of the logs listeners hear from the beginning, in a third from the middle, in a third of nothing.
    starts = [
        log[number % 3 * len(log) // 2 if number % 3 < 2 else -1].offset + number % 3 // 2
        for number, log in enumerate(logs)
    ]
    return list(zip(logs, starts, strict=True))


@pytest.mark.parametrize("topic_type", TopicType)
def test_folds_believe_what_java_believes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, topic_type: TopicType
) -> None:
    """With plain keys and with a group's: one program answers for both."""
    caplog.set_level(logging.CRITICAL, "connect_share")
    asked = {group: _logs(topic_type, group) for group in (None, GROUP)}
    done = run_java(
        classes_of(SOURCES),
        "org.apache.kafka.connect.storage.StoreAnswers",
        folder=tmp_path,
        given="\n".join(_question(topic_type, log, group, at) for group, logs in asked.items() for log, at in logs),
        options=("-Xmx500m", "-Xss4m"),
    )

    assert done.returncode == 0, done.stderr[-2_000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == 2 * LOGS
    for group, found in ((None, answers[:LOGS]), (GROUP, answers[LOGS:])):
        seen: Counter[str] = Counter()
        for number, ((log, start), java) in enumerate(zip(asked[group], found, strict=True)):
            read = log if topic_type is TopicType.OFFSET else [_as_java_reads(record, seen) for record in log]
            ours = fold_answer(topic_type, read, group, start)
            differences = _differences(topic_type, read, group, java, ours, seen)
            if differences:
                pytest.fail(f"seed {SEED}, group {group}, log {number}: {differences}\n{_shown(log)}", pytrace=False)
        print(dict(seen))
        assert min(seen[name] for name in SEEN[topic_type]) > LOGS // 20, seen
        assert (seen["raised"] > LOGS // 20) == (
            topic_type is TopicType.CONFIG or (topic_type is TopicType.STATUS and not group)
        )


_STRING = re.compile(rb'"((?:[^"\\]|\\.)*)"(\s*:)?', re.DOTALL)
_HALF_PAIR = re.compile(
    rb"(?<!\\)(?:\\\\)*(?:(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]..|\\u[dD][89abAB]..(?!\\u[dD][c-fC-F]))"
)
_EXPONENT = re.compile(rb"[0-9](?:\.([0-9]+))?[eE]([+-]?[0-9]{1,1000})")
_LONGEST_NAME = 50_000


def _newly_refused(data: bytes) -> bool:
    """Tell whether 4.3 refuses what 2.8 reads: an odd name of a member, or an exponent of more than 32 bits."""
    names = (match[1] for match in _STRING.finditer(data) if match[2])
    odd = any(len(name.decode("utf-8", "replace")) > _LONGEST_NAME or _HALF_PAIR.search(name) for name in names)
    numbers = ((int(match[2]), len(match[1] or b"")) for match in _EXPONENT.finditer(_STRING.sub(b"", data)))
    return odd or any(abs(exponent) >> 31 or abs(exponent - digits) >> 31 for exponent, digits in numbers)


def _as_java_reads(record: Record, seen: Counter[str]) -> Record:
    """Rule "odd names and exponents": 4.3 takes for illegible what 2.8 reads, and what is read here."""
    if record.value is None or not _newly_refused(record.value) or not _parsed(record.value)[0]:
        return record
    seen["newly refused"] += 1
    return dataclasses.replace(record, value=b"{")


def _shown(log: list[Record]) -> str:
    return "\n".join(f"{r.offset} {r.timestamp_ms} {r.key!r:.200} {r.value!r:.300}" for r in log)


def _differences(
    topic_type: TopicType,
    log: list[Record],
    group: str | None,
    java: dict[str, Any],
    ours: FoldAnswer,
    seen: Counter[str],
) -> list[str]:
    """Say what differs although no rule allows it; count what was compared, and which rules were needed."""
    by_offset = {record.offset: record for record in log}
    found = []
    thrown = dict(java["thrown"])
    expected = {
        offset for offset, kind in ours.skipped.items() if _java_raises(topic_type, by_offset[offset], group, kind)
    }
    if set(thrown) != expected:
        found.append(f"raised by Java: {thrown}, expected at {sorted(expected)}")
    seen["raised"] += len(thrown)
    java_events = [[*event[:2], sorted(event[2])] if event[1] == "tasks" else event for event in java["events"]]
    our_events = [[*event[:2], sorted(event[2])] if event[1] == "tasks" else event for event in ours.events]
    if java_events != our_events:
        found.append(f"events: {[pair for pair in zip_longest(java_events, our_events) if pair[0] != pair[1]][:2]}")
    seen.update(f"event {event[1]}" for event in our_events)
    if topic_type is TopicType.CONFIG:
        found += _position_differences(log, group, dict(java["offsets"]), ours, seen)
    for name, mine in ours.state.items():
        theirs, kept = java["state"][name], mine
        if topic_type is TopicType.STATUS and name == "tasks":
            theirs, kept = _without_removed_out_of_time(log, group, theirs, mine, seen)
        if topic_type is TopicType.OFFSET:
            theirs = _own_offsets(log, group, name, theirs, mine, seen)
        if _in_order(theirs) != _in_order(kept):
            found.append(f"{name}: {_apart(theirs, kept)}")
        seen[name] += len(mine or ())
    return found


def _apart(theirs: Any, mine: Any) -> str:
    """Say in what two states differ, and leave out what is equal."""
    if isinstance(theirs, dict) and isinstance(mine, dict):
        names = sorted(name for name in {*theirs, *mine} if theirs.get(name) != mine.get(name))
        return ", ".join(f"{name!r}: {_apart(theirs.get(name), mine.get(name))}" for name in names)
    return f"Java {theirs}, ours {mine}"


def _in_order(value: Any) -> Any:
    """Sets come as lists in any order."""
    return sorted(value) if isinstance(value, list) and all(isinstance(item, str) for item in value) else value


def _parsed(data: bytes | None) -> tuple[bool, Any]:
    try:
        return True, loads(data)
    except ValueFormatError:
        return False, None


def _java_raises(topic_type: TopicType, record: Record, group: str | None, kind: SkipKind) -> bool:
    """Rules "one bad record" and "null keys": what Java's callback does not survive is counted here, and nothing else."""
    legible, value = _parsed(record.value)
    if kind is SkipKind.NULL_KEY:
        return topic_type is TopicType.STATUS or (topic_type is TopicType.CONFIG and legible)
    if (
        topic_type is not TopicType.CONFIG
        or kind is not SkipKind.BAD_VALUE
        or not isinstance(value, dict)
        or record.key is None
    ):
        return False
    key = key_text(record.key).removeprefix("" if group is None else f"{group}.")
    if key.startswith("commit-"):
        return not is_integer(value.get("tasks"))
    if key.startswith("tasks-fencing-"):
        return not is_integer(value.get("task-count"))
    return key == "session-key" and isinstance(value.get("key"), str) and not _java_decodes(value)


def _java_decodes(value: dict[str, Any]) -> bool:
    """A key whose other members are no good is only decoded; what cannot be is recognised by Java's own alphabet."""
    text = value["key"]
    stripped = text.rstrip("=")
    padding = len(text) - len(stripped)
    alphabet = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    rest = len(stripped) % 4
    legal = set(stripped) <= alphabet and rest != 1 and padding in (0, {0: 0, 2: 2, 3: 1}.get(rest, -1))
    complete = isinstance(value.get("algorithm"), str) and is_integer(value.get("creation-timestamp"))
    return legal and not (complete and not stripped)


def _position_differences(
    log: list[Record], group: str | None, theirs: dict[int, int], ours: FoldAnswer, seen: Counter[str]
) -> list[str]:
    """Rules "null keys" and "key and value": only such a record may leave the positions apart, until the next own one."""
    excused = False
    for record in log:
        if record.offset not in theirs:
            continue
        if theirs[record.offset] == ours.positions[record.offset]:
            excused = False
            continue
        legible, _ = _parsed(record.value)
        foreign = record.key is not None and (split_key(TopicType.CONFIG, record.key) or (None,))[0] is not None
        excused = excused or (group is None and ((record.key is None and legible) or (foreign and not legible)))
        seen["position apart"] += 1
        if not excused:
            return [
                f"position after {record.offset}: Java {theirs[record.offset]}, ours {ours.positions[record.offset]}"
            ]
    return []


def _without_removed_out_of_time(
    log: list[Record], group: str | None, theirs: dict[str, Any], mine: dict[str, Any], seen: Counter[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Rule "a connector's status tombstone": timestamps decide where Java goes by the order; elsewhere they do not count."""
    removed: dict[str, list[int]] = {}
    for record in log:
        key = _own_key(TopicType.STATUS, record, group)
        if key is not None and record.value is None and key.startswith("status-connector-"):
            removed.setdefault(key.removeprefix("status-connector-"), []).append(record.timestamp_ms)
    stamps = [record.timestamp_ms for record in log]
    if all(earlier < later for earlier, later in pairwise(stamps)):
        return theirs, mine
    seen["removed out of time"] += sum(theirs.get(name) != mine.get(name) for name in removed)
    return tuple({name: tasks for name, tasks in side.items() if name not in removed} for side in (theirs, mine))  # type: ignore[return-value]


def _own_key(topic_type: TopicType, record: Record, group: str | None) -> str | None:
    found = (
        None
        if record.key is None
        else own_key(topic_type, record.key, None if group is None else ClusterGroupId(group))
    )
    return None if found is None else key_text(found)


def _own_offsets(
    log: list[Record], group: str | None, name: str, theirs: dict[str, Any], mine: dict[str, Any], seen: Counter[str]
) -> dict[str, Any]:
    """Give what Java would hold by our rules on null and foreign keys, and on partitions spelled in two ways."""
    if name == "data":
        own = {key: value for key, value in theirs.items() if key != "none" and b64decode(key).startswith(b"[")}
        seen["foreign data"] += len(theirs) - len(own)
        return own
    java_lists: dict[tuple[str, str], bool] = {}
    held: dict[tuple[str, str], dict[bytes, bool]] = {}
    prefix = b"" if group is None else f"{group}.".encode()
    for record in log:
        key = (record.key or b"").removeprefix(prefix)
        if group is not None and not (record.key or b"").startswith(prefix + b"["):
            continue  # the jar hands over no such record
        try:
            connector, partition = parse_offset_key(key)
        except ValueFormatError:
            continue
        where = (connector, plain_text(partition))
        if not _newly_refused(key):  # the last record decides, under whichever key it is
            java_lists[where] = record.value is not None
        if key.startswith(b"["):  # any key with a value does
            held.setdefault(where, {})[key] = record.value is not None
    result: dict[str, Any] = {connector: list(partitions) for connector, partitions in theirs.items()}
    for where in {*java_lists, *held}:
        connector, text = where
        found = (text in theirs.get(connector, ()), text in mine.get(connector, ()))
        if found[0] != found[1] and found == (java_lists.get(where, False), any(held.get(where, {}).values())):
            seen["two spellings" if len(held.get(where, {})) > 1 else "loose or newly refused key"] += 1
            (result[connector].remove if found[0] else result.setdefault(connector, []).append)(text)
    return {connector: sorted(partitions) for connector, partitions in result.items() if partitions}
