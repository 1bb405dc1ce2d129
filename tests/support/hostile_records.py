"""Records and connector configurations such as whoever may write to the topics can make them; the same for a seed.

Half of each is right, for a reader looks further into what begins well: a right key with a bad value, a right value with
one member of another type. No record is larger than ``largest`` bytes, or so.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from connect_share.model.keys import KINDS
from connect_share.model.records import Record, TopicType
from connect_share.model.status import State
from tests.support.long_forms import LONG
from tests.support.raw_records import RawRecord, write_raw

SEED: Final = int(os.environ.get("CONNECT_SHARE_SOAK_SEED") or (time.time_ns() // 1_000_000 if LONG else 20_261_122))
SECRET: Final = "hunter2-hunter2"
"""In configurations, session keys, offsets and traces: no message may hold it."""

NAMES: Final = (
    "good", "c", "", ".", "..", "-", "a-0", "a--", "a.connector-b", "task-x-1", "session-key", "größe-😀-日本", "a:b",
    "\x1b[2J\x1b[31m", "\u202eevil", "a\nb", "\x00", "\ufffd", "\u2028", "<script>alert(1)</script>", "'\"&<>",
    "=1+1", "%s%n",
    "{0}", "${file:/etc/passwd:root}", "../../etc/passwd", "con", "a" * 255, "٣", "+1", "x" * 3_000, "\u0661-\u0660",
)  # fmt: skip
NUMBERS: Final = (
    *(*range(4), -1, 7, 255, 10_000, 10_001, 2**32 + 1),
    *(sign * 2**bits + more for bits in (31, 63) for sign, more in ((1, -1), (1, 0), (-1, 0))),
)
TIMES: Final = (-1, 0, 1, 1_000, 1_700_000_000_000, 2**41, 2**62, -(2**40))
STATES: Final = (*(state.value for state in State), "running", "DANCING", "")
LEAVES: Final = (
    b"null", b"true", b"false", b"0", b"-0", b"-0.0", b"1.0", b"1e400", b"-1e400", b"1e-400", b"00012", b"NaN",
    b"Infinity", b"0x1",
    b'""', b'"a"', b'"\\ud800"', b'"\\u0000"', b'"\\x"', b'"\xff"', b'"', b"'a'", b"9" * 30, b"9" * 1_200,
    b"0." + b"1" * 1_200, b"nul",
    b"\xef\xbb\xbf1", b"", b" ", b"\x00", b"\xff\xfe", b"//", b"/**/1", b"1 2", b"[1,]", b"{,}", b'{"a":1,"a":2}',
    b'{"a"}', b"{a:1}",
)  # fmt: skip
SHAPES: Final[dict[str, dict[str, Any]]] = {
    "connector": {"properties": {"name": "good", "password": SECRET}},
    "task": {"properties": {"task.class": "x", "password": SECRET}},
    "commit": {"tasks": 1},
    "target-state": {"state": "PAUSED", "state.v2": "STOPPED"},
    "tasks-fencing": {"task-count": 2},
    "restart-connector": {"include-tasks": True, "only-failed": False},
    "logger-cluster": {"level": "DEBUG"},
    "session-key": {"key": "aHVudGVyMi1odW50ZXIy", "algorithm": "HmacSHA256", "creation-timestamp": 1},
    "status": {"state": "RUNNING", "trace": SECRET, "worker_id": "w:1", "generation": 3, "version": "4.3.1"},
    "topic": {"topic": {"name": "t", "connector": "good", "task": 0, "discoverTimestamp": 1}},
    "offset": {"position": 7, "token": SECRET},
}
PROPERTY_NAMES: Final = (
    "name", "connector.class", "tasks.max", "topics", "topics.regex", "offsets.storage.topic", "config.providers",
    "config.providers.file.class", "producer.override.bootstrap.servers", "producer.override.sasl.jaas.config",
    "consumer.override.isolation.level", "admin.override.security.protocol", "producer.override.config.providers",
    "producer.override.transactional.id", "transforms", "errors.deadletterqueue.topic.name", "db.password",
    "aws.secret.key",
    "bootstrap.servers", "", ".", "a\x00b", "\ud800", "<b>", "password\n", "x" * 500,
)  # fmt: skip
PROPERTY_VALUES: Final[tuple[Any, ...]] = (
    "", " ", "x", "5", "topic-a", "a b", "${", "${" + ":" * 2_000, "${a:b", "${a:b:c}" * 50,
    "${" * 200 + "}" * 200, "${file:/etc/passwd:root}",
    "\ud800", "\x00", "\x1b[31m", "<script>", SECRET, "localhost:1",
    "org.apache.kafka.common.security.plain.PlainLoginModule required password=",
    "true", "null", None, 0, 1.5, True, [], {}, {"a": {"b": []}}, [[[1]]],
)  # fmt: skip

# Topics that take times of any year, in one segment that is never closed: the cleaner would take what was looked at.
TAKES_ALL: Final = {
    "message.timestamp.after.max.ms": str(2**63 - 1),
    "max.message.bytes": "20000000",
    "segment.ms": str(2**63 - 1),
}
_AT_ONCE: Final = 100


class HostileRecords:
    """Makes them.

    Args:
        seed: decides everything.
        group: under whose prefix a good part of the keys lies.
        largest: bytes of the largest values.
    """

    def __init__(self, seed: int, *, group: str = "group-a", largest: int = 20_000) -> None:
        self._pick = random.Random(seed)
        self._prefixes = (
            *(f"{group}.".encode(),) * 6,
            b"", b"", b"other.", b"other.group.", group.encode(), f"{group}..".encode(), b".", b"\xff.", b"a b.",
            b"connector-.",
            f"{group}.connector-x.".encode(), group.upper().encode() + b".",
        )  # fmt: skip
        self._largest = largest

    def records(self, topic_type: TopicType, count: int, *, topic: str = "t", partitions: int = 3) -> Iterator[Record]:
        """Return records as a reader sees them, offsets in order within each partition."""
        ends = [0] * partitions
        for raw in self.raw(topic_type, count):
            partition = self._pick.randrange(partitions) if topic_type is not TopicType.CONFIG else 0
            yield Record(topic, partition, ends[partition], raw.timestamp_ms, raw.key, raw.value)
            ends[partition] += self._pick.choice((1, 1, 1, 2, 100))  # compaction leaves holes

    def raw(self, topic_type: TopicType, count: int) -> Iterator[RawRecord]:
        """Return records with headers whose names are bytes."""
        for _ in range(count):
            key, kind = self._key(topic_type)
            yield RawRecord(key, self._value(kind), self._headers(), self._pick.choice(TIMES))

    def configurations(self, count: int) -> Iterator[dict[str, Any]]:
        """Return properties of connectors."""
        for _ in range(count):
            names = self._pick.choices(PROPERTY_NAMES, k=self._pick.randrange(8))
            yield {name: self._pick.choice(PROPERTY_VALUES) for name in names}

    def _key(self, topic_type: TopicType) -> tuple[bytes | None, str]:
        """Return a key, and the kind of value that belongs to it."""
        pick = self._pick
        if pick.random() < 0.02:
            return None, "status"
        if pick.random() < 0.05:
            piece = pick.choice((b".", b"a-", b".tasks-fencing", b"\xff", b"[", b"connector-", b'["'))
            return pick.choice(self._prefixes) + piece * (pick.randrange(self._largest) // len(piece)), "status"
        prefix, name = pick.choice(self._prefixes), pick.choice(NAMES).encode("utf-8", "surrogatepass")
        if topic_type is TopicType.OFFSET:
            return prefix + self._offset_key(), "offset"
        key_kind = pick.choice(KINDS[topic_type])
        begin, kind = key_kind.prefix, key_kind.label
        if topic_type is TopicType.STATUS:
            kind = "topic" if kind == "status-topic" else "status"
            if begin == b"status-topic-" and pick.random() < 0.8:
                name = pick.choice((b"t", b"", b"a:b", b"t" * 300)) + b":connector-" + name
        if begin in (b"task-", b"status-task-"):
            name += pick.choice(
                (b"-0", b"-1", b"-00", b"-+1", b"-", b"-2147483647", b"-2147483648", "-٣".encode(), b"-x", b"")
            )
        if key_kind.is_whole_key:
            name = b"" if pick.random() < 0.8 else name
        return prefix + begin + name, kind

    def _offset_key(self) -> bytes:
        pick = self._pick
        if pick.random() < 0.3:
            return b"[" + self._json() + pick.choice((b"]", b"", b",", b",{}]"))
        name = json.dumps(pick.choice(NAMES), ensure_ascii=pick.random() < 0.5).encode("utf-8", "surrogatepass")
        partition = pick.choice(
            (b"{}", b"null", b'{"p":1}', b'{"p":1.0}', b'{"b":1,"a":2}', b'{"a":2,"b":1}', self._json())
        )
        return b"[" + name + b"," + partition + b"]"

    def _value(self, kind: str) -> bytes | None:
        pick, chance = self._pick, self._pick.random()
        if chance < 0.1:
            return pick.choice((None, b"", b"null"))
        if chance < 0.25:
            return self._json()
        if kind == "connector" and chance < 0.5:
            return json.dumps({"properties": next(self.configurations(1))}).encode()
        shape: dict[str, Any] = json.loads(json.dumps(SHAPES[kind]))
        text = json.dumps(shape)
        if chance < 0.85:
            inner = shape.get("topic") or shape.get("properties") or shape
            inner = inner if pick.random() < 0.7 else shape
            where = pick.choice([*inner, "extra"])
            inner[where] = "@here"
            text = json.dumps(shape).replace('"@here"', "@here", 1)
            if pick.random() < 0.1:
                inner.pop(where)
                text = json.dumps(shape)
        value = text.encode().replace(b"@here", self._member())
        return value if pick.random() < 0.95 else value[: pick.randrange(len(value) + 1)]

    def _member(self) -> bytes:
        pick = self._pick
        number = str(pick.choice(NUMBERS)).encode()
        text = json.dumps(pick.choice((*NAMES, *STATES))).encode()
        return pick.choice((number, number, text, text, self._json()))

    def _json(self) -> bytes:
        """Return bytes that may be JSON, often large, wide or deep."""
        pick = self._pick
        if pick.random() < 0.6:
            return pick.choice(LEAVES)
        size = int(self._largest * pick.random() ** 4) + 1
        makers: Sequence[Callable[[], bytes]] = (
            lambda: pick.randbytes(size),
            lambda: b'"' + b"a" * size + b'"',
            lambda: b'"' + b"\\u0041" * (size // 6) + b'"',
            lambda: b'"' + "😀".encode() * (size // 4) + b'"',
            lambda: b"[" + b"1," * (size // 2) + b"1]",
            lambda: b"[" + b'{"a":[]},' * (size // 9) + b"1]",
            lambda: b"{" + b",".join(b'"%d":%d' % (at, at) for at in range(size // 12)) + b"}",
            lambda: self._nested(min(size, pick.choice((3, 100, 499, 500, 999, 1_000, 1_001, 5_000)))),
            lambda: b"9" * size,
            lambda: b" " * size,
            lambda: b'"' * size,
            lambda: b"\\" * size,
        )
        return pick.choice(makers)()

    def _nested(self, depth: int) -> bytes:
        begin, end = self._pick.choice(((b"[", b"]"), (b'{"a":', b"}"), (b'[{"":', b"}]")))
        times = depth // len(end)
        closed = times if self._pick.random() < 0.8 else self._pick.randrange(times + 1)
        return begin * times + self._pick.choice((b"1", b"", b'"x"')) + end * closed

    def _headers(self) -> list[tuple[bytes, bytes | None]]:
        if self._pick.random() < 0.9:
            return []
        names = (b"h", b"", b"\xff\xfe", b"\xed\xa0\x80", b"a\x00b", b"n" * 3_000, "größe".encode())
        return [
            (self._pick.choice(names), self._pick.choice((None, b"", b"1"))) for _ in range(self._pick.randrange(1, 4))
        ]


def write_hostile(
    bootstrap_servers: str, topics: Mapping[TopicType, str], made: HostileRecords, count: int, carried: bool = False
) -> None:
    """Write hostile records to the first partition of compacted topics.

    Args:
        carried: only what a move carries as it is: without names of headers that nobody can read, which are refused, and
            without the time 0, which becomes that of the write; a plan warns of both.
    """
    for topic_type, topic in topics.items():
        records = [
            each for each in made.raw(topic_type, count) if each.key is not None
        ]  # a compacted topic takes no other
        if carried:
            records = [RawRecord(each.key, each.value, (), each.timestamp_ms or 1) for each in records]
        for first in range(0, len(records), _AT_ONCE):
            write_raw(bootstrap_servers, topic, records[first : first + _AT_ONCE])
