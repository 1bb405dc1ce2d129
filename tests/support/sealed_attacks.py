"""What somebody who may write to the topics of a sealed group can try, and what readers have that come after the cleaner."""

from __future__ import annotations

import enum
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from connect_share.model.keys import prefix_key
from connect_share.model.records import Record, TopicType
from connect_share.sealing import KeyRing
from tests.support.sealed import KEYS, key_text, sealed

Pair = tuple[bytes, bytes | None]
FLOOD: Final = 300
OLD: Final = {
    TopicType.CONFIG: b'{"properties":{"connector.class":"FileStreamSource","name":"old"}}',
    TopicType.STATUS: b'{"state":"UNASSIGNED","trace":null,"worker_id":"old:1","generation":0}',
    TopicType.OFFSET: b'{"position":0}',
}
"""What the group may have sealed years ago, and what others can write in plain at any time."""

_SAME_ID: Final = KeyRing.parse(f"7:{b64encode(bytes(32)).decode()}")
_OTHER: Final = KeyRing.parse(key_text(9))


class Late(enum.Enum):
    """What a reader without any memory has of the attacked record, when the cleaner has taken the good one under it."""

    KEPT = enum.auto()
    MISSING = enum.auto()
    OLD = enum.auto()
    NO_START = enum.auto()


@dataclass(frozen=True)
class Attacked:
    """One key of the group on one topic.

    Attributes:
        stranger: key of the group that has never been written.
        good: its newest value.
        another: the newest value of another key.
    """

    topic_type: TopicType
    key: bytes
    stranger: bytes
    good: bytes
    another: bytes

    @property
    def old(self) -> bytes:
        return OLD[self.topic_type]

    def sealed(self, keys: KeyRing, key: bytes | None = None) -> bytes | None:
        """Return a value of years ago."""
        return sealed(Record("", 0, 0, 0, key or self.key, self.old), self.topic_type, keys=keys).value

    def flipped(self) -> bytes:
        return bytes([*self.good[:-1], self.good[-1] ^ 1])


def _both(make: Callable[[Attacked], bytes | None]) -> Callable[[Attacked], list[Pair]]:
    """Write the value over the good one, and under a key that has none."""
    return lambda at: [(at.key, make(at)), (at.stranger, make(at))]


def _flood(at: Attacked) -> list[Pair]:
    return [(at.stranger, at.old if number % 2 else None) for number in range(FLOOD)]


@dataclass(frozen=True)
class Attack:
    """A row of the table: what is written, and what is promised to a reader that begins later."""

    records: Callable[[Attacked], list[Pair]]
    late: Late = Late.MISSING


ATTACKS: Final[Mapping[str, Attack]] = {
    "forged": Attack(_both(lambda at: at.sealed(_SAME_ID))),
    "swapped": Attack(_both(lambda at: at.another)),
    "flipped": Attack(_both(Attacked.flipped)),
    "other-group": Attack(
        lambda at: [(at.key, at.sealed(_OTHER, prefix_key("group-b", at.key.partition(b".")[2])))], Late.NO_START
    ),
    "other-group-same-key": Attack(_both(lambda at: at.sealed(KEYS, prefix_key("group-b", at.key.partition(b".")[2])))),
    "plain": Attack(_both(lambda at: at.old)),
    "tombstone": Attack(_both(lambda _: None)),
    "garbage": Attack(_both(lambda _: b"\1garbage")),
    "replay": Attack(lambda at: [(at.key, at.sealed(KEYS))], Late.OLD),
    "flood": Attack(_flood, Late.KEPT),
}
