"""What the console says of sealed groups: key ids, and what keys of records tell without the keys of the group."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.cli import rows
from connect_share.contents.groups import MOST_IDS, SealCount, SealKind, total
from connect_share.model.keys import prefix_key
from connect_share.model.records import Record, TopicType
from connect_share.sealing.cipher import Cipher
from connect_share.worker_config import WorkerConfig
from tests.support.checked import folded
from tests.support.sealed import GROUP, KEYS, key_text, sharing_worker

CONFIG, STATUS, OFFSET = TopicType.CONFIG, TopicType.STATUS, TopicType.OFFSET
PARTITION = b'["c",{"f":1}]'


def claims(number: int, size: int = 42) -> bytes:
    """A value that claims to be sealed with this key."""
    return (b"\1" + number.to_bytes(4, "big") + bytes(size))[:size]


def records(values: Iterable[bytes | None], key: bytes = PARTITION, group: str = GROUP) -> list[Record]:
    return [Record("t", 0, at, 1_000 + at, prefix_key(group, key), value) for at, value in enumerate(values)]


def counted(
    given: list[Record], topic_type: TopicType = OFFSET, owner: WorkerConfig | None = None, group: str = GROUP
) -> SealCount:
    return folded(topic_type, given, worker=owner).seals[group]  # type: ignore[index]


def test_records_are_counted_by_the_key_they_claim() -> None:
    count = counted(records([claims(7)] * 1_204 + [claims(3)] * 12 + [b"{}", b"x", None, b"y"]))
    assert count.members() == {"sealed": {"7": 1204, "3": 12}, "sealed_more": 0, "plain": 4, "refused": 0}
    assert count.detail() == "7 (1,204), 3 (12), plain 4"
    assert count.short() == "7, 3, plain"
    assert count.records == 1_220


def test_plain_groups_have_no_key() -> None:
    assert counted(records([b"{}", None])).short() is None
    assert counted(records([b"{}", None])).detail() == "plain 2"
    plain = folded(OFFSET, [Record("t", 0, 0, 0, PARTITION, claims(7))])
    assert plain.seals[None].members() == {"sealed": {}, "sealed_more": 0, "plain": 1, "refused": 0}
    assert plain.sealed == set()


def test_thousands_of_ids_are_counted_and_some_are_shown() -> None:
    count = counted(records(claims(4_294_967_295 - number) for number in range(5_000)))
    assert len(count.sealed.counts) == MOST_IDS
    assert count.sealed.more == 5_000 - MOST_IDS
    assert count.detail().endswith(f", and more ({5_000 - MOST_IDS:,})")
    assert count.short() == "4294967295, 4294967294, 4294967293, more"
    both = total([count, count])
    assert (len(both.sealed.counts), both.records) == (MOST_IDS, 10_000)


@pytest.mark.parametrize("size", [1, 2, 5, 41])
def test_garbage_that_begins_like_a_sealed_value_is_sealed_with_no_key(size: int) -> None:
    count = counted(records([claims(7, size)]))
    assert count.members() == {"sealed": {}, "sealed_more": 0, "plain": 0, "refused": 1}
    assert (count.short(), count.detail()) == ("refused", "refused 1")


def test_with_keys_only_what_opens_counts_as_sealed() -> None:
    """However many other ids came before."""
    made_up = [claims(number) for number in range(100, 200)]
    key, forged = prefix_key(GROUP, PARTITION), claims(7)
    opens = [Cipher(KEYS, OFFSET).seal(key, b"{}", 1_000 + at) for at in range(3)]
    replayed = Cipher(KEYS, OFFSET).seal(key, b"{}", 100_000_000), opens[0]
    for keys in ((7,), (9, 7)):
        owner = sharing_worker(keys=key_text(*keys))
        count = counted(records([*made_up, *opens, forged, b"{}", None, *replayed]), owner=owner)
        assert count.members() == {"sealed": {"7": 4}, "sealed_more": 0, "plain": 2, "refused": 102}
        assert count.refused_ids.counts[7] == 2
        assert count.refused_ids.more == 100 - MOST_IDS
        assert count.newest[PARTITION].kind is SealKind.REFUSED
    without = counted(records([*opens, b"{}"]), owner=sharing_worker())
    assert without.members() == {"sealed": {}, "sealed_more": 0, "plain": 1, "refused": 3}


@given(st.lists(st.none() | st.binary(max_size=60) | st.binary(max_size=60).map(lambda rest: b"\1" + rest)))
def test_every_record_is_counted_once(values: list[bytes | None]) -> None:
    for owner in (None, sharing_worker(), sharing_worker(keys=key_text(7))):
        count = counted(records(values), owner=owner) if values else SealCount()
        members = count.members()
        told = sum(members["sealed"].values()) + members["sealed_more"] + members["plain"] + members["refused"]
        assert told == count.records == len(values)
        assert (count.short() is None) == (not any((value or b"").startswith(b"\1") for value in values))


def test_a_group_whose_name_is_none_is_no_group() -> None:
    """However its values look."""
    keys = (b"te\x1b[2Jam." + PARTITION, b"connector-x." + PARTITION, b"\xff." + PARTITION, b"a b." + PARTITION)
    seen = folded(OFFSET, [Record("t", 0, 0, 0, key, claims(7)) for key in keys])
    assert (seen.seals, seen.sealed, seen.unrecognized, seen.notes) == ({}, set(), 4, [])


@pytest.mark.parametrize("at_ms", [-(2**63), -1, 0, 1_700_000_000_000, 2**50, 2**63 - 1])
def test_any_time_of_a_record_can_be_shown(at_ms: int) -> None:
    assert (rows.shown_time(at_ms) or "").isprintable()
    assert rows.shown_time(1_700_000_000_000) == "2023-11-14T22:13:20Z"


def test_a_plain_group_keeps_nothing_of_its_keys() -> None:
    assert counted(records([b"{}"])).newest == {}
