"""Random logs of the three internal topics, most records as a worker writes them, some as none should be: seeded."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from typing import Any, Final

from connect_share.model.records import Record, TopicType

GROUP: Final = "com.acme.orders"
TOPIC: Final = "shared"

_NAMES: Final = ("a", "b", "b", "my.conn", "x-1")
_ODD_NAMES: Final = (
    *("", "-", "a-", "a--b", "task-a", "ä", "😀", "a:b", "a:connector-b", "a\0"),
    *("com.acme.orders.a", "n" * 300),
)
_FOREIGN: Final = ("", "com.acme.", "com.acme.orders.", "com.acme.orders.x.", "B.", ".", "-")
_ODD_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 2.0, 1.5, 1e300, -0.0),
    *("", "1", "x", [], {}, [1], {"a": None}),
)
_STATES: Final = (
    *("RUNNING", "RUNNING", "UNASSIGNED", "UNASSIGNED", "FAILED", "PAUSED", "STOPPED", "RESTARTING"),
    "DESTROYED",
)
_NUMBERS: Final = (
    *("007", "-0", "1E5", "1e400", "-1e400", "1e-400", "0.1e1", "9223372036854775807", "9223372036854775808"),
    "4294967297",
    *("2147483647", "2147483648", "-2147483649", "123456789012345678901234567890"),
    *("1" * 1_001, "1." + "3" * 400, "1e2147483648"),
    *("0." + "0" * 999, "0" * 5_000 + "7", "NaN", "Infinity", "+1", ".5", "5.", "0x1", "1_0", "-"),
)
_ENDS: Final = (b"", b" ", b"}", b" {}", b"x", b"\xff", b"\0", b",", b'"')
_STARTS: Final = (b"", b" ", b"\n\t", b"\xef\xbb\xbf", b"\0", b"//", b"\xff\xfe")
_NO_UTF_8: Final = (
    *(b"\xff", b"\x80", b"\xc0\xaf", b"\xed\xa0\x80", b"\xed\xa0", b"\xed\xbf\xbfx", b"\xe0\x80\x80"),
    *(b"\xe2\x82", b"\xf0\x9f\x98", b"\xf4\x90\x80\x80", b"\xf0\x80\x80\x80", b"\xf8\x88\x80\x80\x80"),
    *(b"\xed\xa0\xbd\xed\xb8\x80", b"\xc3(", b"\xe2(\xa1"),
)
_PADDING: Final = 0xFF
"""Never put inside a text: Jackson pads names with it, and takes one that holds it for a shorter one it has seen before."""
_WORDS: Final = (
    *("null", "true", "[]", "{}", '"x"', "", " ", "nul", "nullx", "[", "{"),
    *('{"a"', "'a'", '{"a":1,}', "[1,]", "\\u0041"),
)


class HostileLogs:
    """Makes one log after the other.

    Args:
        seed: the same one gives the same logs.
        group: prefix of own keys; ``None``: plain keys.
    """

    def __init__(self, seed: int, group: str | None) -> None:
        self._rng = random.Random(seed)
        self._group = group
        self._burst: list[tuple[bytes, bytes]] = []

    def log(self, topic_type: TopicType) -> list[Record]:
        """Return the next log, of up to 40 records; timestamps rise in half of the logs and are anything in the others."""
        rng = self._rng
        make = {TopicType.CONFIG: self._config, TopicType.STATUS: self._status, TopicType.OFFSET: self._offset}[
            topic_type
        ]
        rising, hostility = rng.random() < 0.5, rng.choice((0.0, 0.1, 0.4))
        self._burst = []
        key: bytes | None
        records, offset = [], rng.choice((0, 0, 7, 1 << 40))
        for number in range(rng.choice((2, 8, 15, 40))):
            key, value = self._burst.pop() if self._burst else make(hostility)
            if rng.random() < hostility:
                key = self._odd_key(key)
            if value is not None and rng.random() < hostility:
                value = self._odd_value(value)
            stamp = 1_000 + number if rising else rng.choice((1_000, 1_001, 1_002, 5, 0, -1, (1 << 63) - 1))
            whole = self._with_group(key, hostility) if key is not None else None
            records.append(Record(TOPIC, 0, offset, stamp, whole, value))
            offset += rng.choice((1, 1, 1, 2, 50))
        return records

    def _with_group(self, key: bytes, hostility: float) -> bytes:
        rng = self._rng
        if rng.random() < hostility / 2:
            return rng.choice(_FOREIGN).encode() + key
        return key if self._group is None else f"{self._group}.".encode() + key

    def _name(self, hostility: float) -> str:
        return self._rng.choice(_ODD_NAMES if self._rng.random() < hostility / 2 else _NAMES)

    def _odd_key(self, key: bytes) -> bytes | None:
        rng = self._rng
        match rng.randrange(6):
            case 0:
                return None
            case 1:
                return key[: rng.randrange(len(key) + 1)]
            case 2:
                return key + rng.choice((b"-", b"-0", b"--1", b"-+1", b"-\xd9\xa1", b"-2147483648", b":", *_NO_UTF_8))
            case 3:
                at = rng.randrange(len(key) + 1)
                return key[:at] + bytes([rng.randrange(_PADDING)]) + key[at:]
            case 4:
                return rng.choice(
                    (b"", b"session-key", b"CONNECTOR-a", b"null", b" " + key, b"\xef\xbb\xbf" + key, b"." * 300)
                )
            case _:
                return key.upper()

    def _odd_value(self, value: bytes) -> bytes:
        rng = self._rng
        match rng.randrange(9):
            case 0:
                return value[: rng.randrange(len(value) + 1)]
            case 1:
                return rng.choice(_STARTS) + value + rng.choice(_ENDS)
            case 2:
                return rng.choice(_WORDS).encode()
            case 3:
                at = rng.randrange(len(value) + 1)
                return value[:at] + bytes([rng.randrange(_PADDING)]) + value[at:]
            case 4:  # a member twice: with what was first, then with anything
                members = value.strip(b"{}")
                name = members.partition(b":")[0]
                return b"{" + members + b"," + name + b":" + self._anything() + b"}"
            case 5:
                return value.replace(b":", b" : ").replace(b",", b"\r\n,\t")
            case 6:
                return value.replace(b"1", rng.choice(_NUMBERS).encode(), 1).replace(
                    b"0", rng.choice(_NUMBERS).encode(), 1
                )
            case 7:
                return self._deep(rng.choice((3, 400, 990, 998, 999, 1_000, 1_001, 1_100)))
            case _:
                return value.replace(b'"', rng.choice((b'\\"', b"'", b'"\\ud800', b'"\\uD83D\\uDE00', b'"\\x')), 1)

    def _deep(self, depth: int) -> bytes:
        lists = self._rng.random() < 0.5
        inner = b"[" * depth + b"]" * depth if lists else b'{"a":' * depth + b"1" + b"}" * depth
        return (
            self._rng.choice((b"%s", b'{"properties":%s}', b'{"properties":{"x":%s}}', b'{"tasks":1,"x":%s}', b"[%s]"))
            % inner
        )

    def _anything(self) -> bytes:
        rng = self._rng
        return rng.choice(_NUMBERS).encode() if rng.random() < 0.3 else json.dumps(rng.choice(_ODD_VALUES)).encode()

    def _changed(self, value: dict[str, Any], hostility: float) -> bytes:
        """Write a value; now and then with a member gone or of another kind."""
        rng = self._rng
        if rng.random() < hostility and value:
            name = rng.choice(list(value))
            if rng.random() < 0.2:
                del value[name]
            else:
                value[name] = rng.choice(_ODD_VALUES)
        return json.dumps(value, ensure_ascii=rng.random() < 0.5, separators=(",", ":")).encode("utf-8", "replace")

    def _config(self, hostility: float) -> tuple[bytes, bytes | None]:
        rng, name = self._rng, self._name(hostility)
        key: str
        value: dict[str, Any]
        counts: tuple[Any, ...]
        words: tuple[Any, ...]
        if rng.random() < 0.08:
            kind = rng.choice(("connector-", "connector-", "target-state-", "task-", "commit-", "tasks-fencing-"))
            return f"{kind}{name}".encode(), rng.choice((None, b"null"))
        match rng.choices(range(8), (4, 6, 5, 3, 2, 2, 1, 1))[0]:
            case 0:
                key, value = f"connector-{name}", {"properties": self._properties(hostility)}
            case 1:
                key, value = f"task-{name}-{rng.choice((0, 0, 1, 2, 5))}", {"properties": self._properties(hostility)}
            case 2 if rng.random() < 0.7:  # as a leader does: all task configs, then the commit
                tasks = rng.choice((0, 1, 2, 3))
                commit = (f"commit-{name}".encode("utf-8", "replace"), b'{"tasks":%d}' % tasks)
                each = [
                    (f"task-{name}-{n}".encode("utf-8", "replace"), b'{"properties":{"n":"%d"}}' % n)
                    for n in range(tasks)
                ]
                *self._burst, first = [commit, *reversed(each)]
                return first
            case 2:
                counts = (
                    (0, 1, 1, 2, 3)
                    if rng.random() >= hostility
                    else (-1, 1 << 31, (1 << 32) + 1, (1 << 31) - 1, 2.0, "1")
                )
                key, value = f"commit-{name}", {"tasks": rng.choice(counts)}
            case 3:
                words = ("STARTED", "PAUSED", "STOPPED") if rng.random() >= hostility else ("started", 7, None, "")
                key, value = f"target-state-{name}", {"state": rng.choice(words), "state.v2": rng.choice(words)}
                if rng.random() < 0.3:
                    del value["state.v2"]
            case 4:
                counts = (1, 2, 6) if rng.random() >= hostility else (-3, 1 << 40, None, 1.0, True)
                key, value = f"tasks-fencing-{name}", {"task-count": rng.choice(counts)}
            case 5:
                key = "session-key"
                value = {
                    "key": self._base64(hostility),
                    "algorithm": "HmacSHA256",
                    "creation-timestamp": rng.randrange(1 << 41),
                }
            case 6:
                key = f"restart-connector-{name}"
                value = {"include-tasks": rng.random() < 0.5, "only-failed": rng.random() < 0.5}
            case _:
                key, value = f"logger-cluster-org.{name}", {"level": rng.choice(("DEBUG", "bogus"))}
        return key.encode("utf-8", "replace"), self._changed(value, hostility)

    def _properties(self, hostility: float) -> dict[str, Any]:
        rng = self._rng
        found: dict[str, Any] = {"name": "a", "tasks.max": str(rng.randrange(3)), "nul": None}
        if rng.random() < hostility:
            found[rng.choice(("x", "ä", "", "\ud800", "n" * 50_001 if rng.random() < 0.05 else "n"))] = rng.choice(
                _ODD_VALUES
            )
        return found

    def _base64(self, hostility: float) -> str:
        rng = self._rng
        text = b64encode(rng.randbytes(rng.choice((1, 2, 3, 32)))).decode()
        if rng.random() >= hostility:
            return text
        odd = (
            *("", "A", "AA", "AA=", "AB==", "AA==AA", "A===", "====", "=", "AA-_"),
            *(" AA==", "AA==\n", "AÄ==", "A A=", "AA==\0"),
        )
        return rng.choice((*odd, text.rstrip("="), text[:-1], text + "="))

    def _status(self, hostility: float) -> tuple[bytes, bytes | None]:
        rng, name = self._rng, self._name(hostility)
        match rng.choices(range(3), (3, 6, 2))[0]:
            case 0:
                key = f"status-connector-{name}"
            case 1:
                key = f"status-task-{name}-{rng.choice((0, 0, 1, 2))}"
            case _:
                topic = rng.choice(("t", "t", "server1.inventory.customers", "" if rng.random() < hostility else "u"))
                key = f"status-topic-{topic}:{rng.choice(('connector-',) * 9 + ('xxxxxxxxxx',))}{name}"
                number = rng.choice((0, 3, 1 << 33))
                inner = {"name": topic, "connector": name, "task": number, "discoverTimestamp": rng.randrange(1 << 41)}
                if rng.random() < hostility:
                    inner[rng.choice(list(inner))] = rng.choice(_ODD_VALUES)
                if rng.random() < 0.2:
                    return key.encode("utf-8", "replace"), None
                return key.encode("utf-8", "replace"), self._changed({"topic": inner}, hostility)
        if rng.random() < 0.15:
            return key.encode("utf-8", "replace"), rng.choice((None, None, b"null", b""))
        value: dict[str, Any] = {
            "state": rng.choice(_STATES) if rng.random() >= hostility / 2 else "running",
            "trace": rng.choice((None, "java.lang.X: a\n\tat b")),
            "worker_id": rng.choice(("w1:8083", "w2:8083")),
            "generation": rng.choice((0, 1, 2, 3, 1 << 32)),
        }
        if rng.random() < 0.5:
            value["version"] = rng.choice((None, "4.3.1"))
        return key.encode("utf-8", "replace"), self._changed(value, hostility)

    def _offset(self, hostility: float) -> tuple[bytes, bytes | None]:
        rng, name = self._rng, self._name(hostility)
        partitions: tuple[Any, ...] = ({"file": "x"}, {"file": "y"}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {}, None)
        odd: tuple[Any, ...] = (
            *({"a": 1.0, "b": 2}, {"a": True}, {"a": [1]}, {"a": {"b": None}}, {"a": -0.0}),
            *([], "x", 1),
        )
        partition = rng.choice(odd if rng.random() < hostility else partitions)
        whole: Any = [name, partition]
        if rng.random() < hostility / 2:
            whole = rng.choice(([partition], [name, partition, 1], [1, partition], [None, {}], {}, name, []))
        spaces = (", ", ": ") if rng.random() < 0.1 else (",", ":")
        key = json.dumps(whole, separators=spaces, ensure_ascii=rng.random() < 0.5).encode("utf-8", "replace")
        if rng.random() < hostility / 5:
            key = b'["a",' + self._deep(rng.choice((10, 997))) + b"]"
        if rng.random() < hostility / 5:
            key = b'["a",{"n":' + rng.choice(_NUMBERS).encode() + b',"n":1}]'
        return key, None if rng.random() < 0.25 else self._changed({"position": rng.randrange(1 << 40)}, hostility)
