"""What the console says and finds of sealed groups, with their keys and without: ids, names, what is plain or forged."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.checks.finding import Finding, finding_lines
from connect_share.checks.finding import counted as counted_findings
from connect_share.checks.sealing import find
from connect_share.console.output import Output
from connect_share.contents.groups import Contents
from connect_share.contents.seals import MOST_IDS, SealCount, SealKind, total
from connect_share.model.keys import ClusterGroupId, prefix_key
from connect_share.model.records import Record, TopicType, shown_time
from connect_share.sealing import SEALING_PROPERTY, KeyRing
from connect_share.sealing.cipher import Cipher
from connect_share.worker_config import WorkerConfig
from tests.support.checked import folded
from tests.support.sealed import GROUP, KEYS, key_text, sharing_worker

CONFIG, STATUS, OFFSET = TopicType.CONFIG, TopicType.STATUS, TopicType.OFFSET
PARTITION = b'["c",{"f":1}]'


def claims(number: int, size: int = 42) -> bytes:
    """A value that claims to be sealed with this key."""
    return (b"\1" + number.to_bytes(4, "big") + bytes(size))[:size]


def records(values: Iterable[bytes | None]) -> list[Record]:
    return [Record("t", 0, at, 1_000 + at, prefix_key(GROUP, PARTITION), value) for at, value in enumerate(values)]


def counted(given: list[Record], owner: WorkerConfig | None = None) -> SealCount:
    return folded(OFFSET, given, worker=owner).seals[GROUP]


def test_records_are_counted_by_the_key_they_claim() -> None:
    count = counted(records([claims(7)] * 1_204 + [claims(3)] * 12 + [b"{}", b"x", None, b"y"]))
    assert count.members() == {"sealed": {"7": 1204, "3": 12}, "sealed_more": 0, "plain": 4, "refused": 0}
    assert count.detail() == "7 (1,204), 3 (12), plain 4"
    assert count.short() == "7, 3, plain"
    assert count.records == 1_220


def test_plain_groups_have_no_key() -> None:
    assert counted(records([b"{}", None])).short() is None
    assert counted(records([b"{}", None])).detail() == "plain 2"
    assert counted(records([b"{}"])).newest == {}  # nothing is kept of its keys
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


@given(
    st.lists(st.none() | st.just(b"{}") | st.just(claims(7)) | st.just(claims(9)), min_size=1, max_size=4), st.data()
)
def test_what_is_refused_in_another_partition_covers_nothing(refused: list[bytes | None], data: st.DataObject) -> None:
    """Whichever partition is read first: a reader gets batches of several in turn."""
    key = prefix_key(GROUP, PARTITION)
    good = Record("t", 1, 0, 1_000, key, Cipher(KEYS, OFFSET).seal(key, b"{}", 1_000))
    read = [Record("t", 0, at, 2_000 + at, key, value) for at, value in enumerate(refused)]
    read.insert(data.draw(st.integers(0, len(refused))), good)
    count = counted(read, owner=sharing_worker(keys=key_text(7)))
    assert (count.newest[PARTITION].kind, count.records) == (SealKind.SEALED, len(read))
    assert count.living[PARTITION]


def test_a_group_whose_name_is_none_is_no_group() -> None:
    """However its values look."""
    keys = (b"te\x1b[2Jam." + PARTITION, b"connector-x." + PARTITION, b"\xff." + PARTITION, b"a b." + PARTITION)
    seen = folded(OFFSET, [Record("t", 0, 0, 0, key, claims(7)) for key in keys])
    assert (seen.seals, seen.sealed, seen.unrecognized, seen.notes) == ({}, set(), 4, [])


@pytest.mark.parametrize("at_ms", [-(2**63), -1, 0, 1_700_000_000_000, 2**50, 2**63 - 1])
def test_any_time_of_a_record_can_be_shown(at_ms: int) -> None:
    assert (shown_time(at_ms) or "").isprintable()
    assert shown_time(1_700_000_000_000) == "2023-11-14T22:13:20Z"


FILE = Path("/etc/connect/my worker.properties")
RESEAL = f"connect-share-migrate reseal -w '{FILE}'"
A, B, C = (b'["%s",{"f":1}]' % name for name in (b"a", b"b", b"c"))


def sealed(key: bytes, at_ms: int = 1_000, keys: KeyRing = KEYS, group: str = GROUP) -> tuple[str, bytes, bytes]:
    return group, key, Cipher(keys, OFFSET).seal(prefix_key(group, key), b"{}", at_ms)


def mine(key: bytes, value: bytes | None) -> tuple[str, bytes, bytes | None]:
    return GROUP, key, value


def read(*written: tuple[str, bytes, bytes | None], owner: WorkerConfig | None = None, more: Any = ()) -> Contents:
    """All three topics, with these records on the offset topic, and perhaps more on others."""
    records = [Record("t", 0, at, 0, prefix_key(*each[:2]), each[2]) for at, each in enumerate(written)]
    topics: dict[TopicType, list[Record]] = {CONFIG: [], STATUS: [], OFFSET: records, **dict(more)}
    return Contents({kind: folded(kind, given, worker=owner) for kind, given in topics.items()})


def told(owner: WorkerConfig, *written: tuple[str, bytes, bytes | None]) -> list[Finding]:
    """What is found in these records with the worker file of their group."""
    return list(find(read(*written, owner=owner), owner, FILE, all_groups_sealed=False))


def found(contents: Contents, owner: WorkerConfig | None = None, *, all_groups: bool = False) -> list[tuple[str, str]]:
    return [(each.id, each.severity.value) for each in find(contents, owner, FILE, all_groups_sealed=all_groups)]


def keyed(*ids: int, mode: str = "required") -> WorkerConfig:
    return sharing_worker(keys=key_text(*ids), **{SEALING_PROPERTY: mode})


def test_a_group_whose_newest_values_are_all_sealed_is_fine() -> None:
    owner = keyed(7)
    contents = read(sealed(A), sealed(B), sealed(A, 2_000), owner=owner)
    assert found(contents, owner) == []
    assert found(contents, owner, all_groups=True) == []
    assert found(read(sealed(A))) == []


@pytest.mark.parametrize(("mode", "severity"), [("required", "error"), ("accept", "warning")])
def test_plain_values_are_counted_and_placed(mode: str, severity: str) -> None:
    owner = keyed(7, mode=mode)
    (finding,) = told(owner, sealed(A), mine(B, b"{}"), mine(C, None), mine(A, b"{}"), mine(b'["d",{}]', b"{}"))
    assert (finding.id, finding.severity.value, finding.where) == ("sealing-plain-values", severity, "t")
    places = "t[0]@3 (2 bytes), t[0]@1 (2 bytes), t[0]@2 (0 bytes) and more"
    assert finding.what == f"the newest record of 4 keys is plain, or a tombstone: {places}"
    assert f"in this mode, {mode}" in finding.why
    assert finding.command == RESEAL
    contents = read(mine(B, b"{}"), owner=owner)
    assert [len(find(contents, owner, FILE, all_groups_sealed=False, only=[each])) for each in (GROUP, None)] == [1, 0]


def test_plain_values_that_were_replaced_are_a_note() -> None:
    (finding,) = told(keyed(7), mine(A, b"{}"), mine(A, None), sealed(A))
    assert (finding.id, finding.severity.value) == ("sealing-plain-replaced", "note")
    assert finding.what.startswith("2 plain records")


def test_what_the_group_has_not_sealed_is_found_with_the_reason() -> None:
    owner = keyed(7)
    copied = GROUP, B, sealed(A)[2]
    (finding,) = told(owner, sealed(A, 10_000_000), copied, mine(C, b"\1x"), sealed(A, 1))
    assert (finding.id, finding.severity.value) == ("sealing-refused-values", "error")
    assert all(
        f"1 record refused: {words}" in finding.what for words in ("its value was not sealed", "its value is older")
    )
    assert "the newest of 3 keys: " in finding.what
    (unknown, refused) = told(owner, mine(A, b"\1x"), sealed(A), mine(B, claims(8)))
    assert (unknown.id, refused.severity.value) == ("sealing-unknown-keys", "warning")
    assert "newest" not in refused.what
    (mended,) = told(owner, copied, sealed(B))
    assert (mended.id, mended.severity.value) == ("sealing-refused-values", "warning")


def test_keys_that_the_file_does_not_have() -> None:
    other = KeyRing.parse(key_text(8))
    (finding,) = told(keyed(7), sealed(A), sealed(B, keys=other), sealed(B, keys=other))
    assert (finding.id, finding.severity.value) == ("sealing-unknown-keys", "error")
    assert finding.what.endswith(": 8 (2); the newest of 1 key: t[0]@2 (44 bytes)")
    assert told(keyed(7, 8), sealed(A), sealed(B, keys=other)) == []
    for without in (sharing_worker(), keyed(7, 8, mode="off")):
        (finding,) = told(without, sealed(A), sealed(B, keys=other))
        assert (finding.id, finding.why) == ("sealing-unknown-keys", "workers without keys refuse them")
        assert ": 7 (1), 8 (1); the newest of 2 keys: " in finding.what
        assert [each.severity.value for each in told(without, sealed(A), mine(A, b"{}"))] == ["warning"]


def test_thousands_of_made_up_keys_hide_none_of_the_file() -> None:
    flood = [mine(A, claims(number)) for number in range(100, 5_000)]
    (finding,) = told(keyed(7, 8), *flood, sealed(A), sealed(B, keys=KeyRing.parse(key_text(8))))
    assert finding.id == "sealing-unknown-keys"
    assert len(finding.what) < 500
    assert "and more (4,884)" in finding.what


def test_a_key_that_nothing_is_sealed_with_may_go() -> None:
    owner = keyed(7, 8, 9)
    contents = read(sealed(A), mine(A, claims(9)), sealed(A), owner=owner)
    findings = {each.id: each for each in find(contents, owner, FILE, all_groups_sealed=False)}
    assert "sealed with key 8" in findings["sealing-unused-keys"].what  # without 9 a worker would not start
    assert findings["sealing-unused-keys"].severity.value == "note"
    assert told(keyed(9, 7), sealed(A)) == []
    del contents.topics[STATUS]  # not read, so nothing is known
    assert "sealing-unused-keys" not in [name for name, _ in found(contents, owner)]


def test_without_keys_plain_beside_sealed_is_told_by_topic() -> None:
    config = [Record("t", 0, 0, 0, prefix_key("mixed", b"connector-x"), b"{}")]
    mixed = read(
        sealed(A, group="fine"), ("mixed", A, b"{}"), sealed(B, group="mixed"), ("plain", A, b"{}"),
        ("was", A, b"{}"), sealed(A, group="was"), more={CONFIG: config},
    )  # fmt: skip
    findings = find(mixed, None, None, all_groups_sealed=False)
    assert [(each.id, each.severity.value) for each in findings] == [("sealing-plain-beside-sealed", "warning")] * 2
    assert all(each.what.endswith(", too: mixed") for each in findings)
    for only, number in (("mixed", 2), ("fine", 0)):
        assert len(find(mixed, None, None, all_groups_sealed=False, only=[ClusterGroupId(only)])) == number


def test_plain_groups_where_all_are_to_be_sealed() -> None:
    written = [(f"g{number}", A, b"{}") for number in range(30)]
    contents = read(sealed(A), *written)
    contents.topics[STATUS].others = 5
    plain = Record("t", 0, 0, 0, A, claims(7))
    contents.topics[CONFIG] = folded(OFFSET, [plain])
    (finding,) = find(contents, None, None, all_groups_sealed=True)
    assert (finding.id, finding.severity.value) == ("sealing-plain-groups", "error")
    assert finding.what.startswith("nothing of 31 groups is sealed: (plain), g0, g1, g10, ")
    assert finding.what.endswith(" and 11 more; 5 records of further groups not checked")
    assert found(contents) == []


@pytest.mark.parametrize(("ends", "expected"), [((2**30, 2**30 - 1), []), ((2**30, 2**30), ["sealing-many-values"])])
def test_so_many_records_that_a_key_may_be_worn(ends: tuple[int, int], expected: list[str]) -> None:
    contents = read(sealed(A))
    contents.topics[CONFIG].end, contents.topics[OFFSET].end = ends
    assert [name for name, _ in found(contents)] == expected
    contents.topics[OFFSET] = read(("plain", A, b"{}")).topics[OFFSET]
    contents.topics[OFFSET].end = 2**33
    assert found(contents) == []


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_value_is_shown(form: str) -> None:
    owner = keyed(7, 9)
    secret = b'{"secret":"zebra"}'
    other = GROUP, B, Cipher(KeyRing.parse(key_text(8)), TopicType.OFFSET).seal(prefix_key(GROUP, B), secret, 1)
    contents = read(sealed(A), mine(A, secret), other, mine(C, b"\1zebra"), owner=owner)
    findings = find(contents, owner, Path("\x1b[2J"), all_groups_sealed=True)
    assert len({each.id for each in findings}) == 4
    stream = io.StringIO()
    out = Output("check sealing", form, stdout=stream)
    if form == "json":
        out.json({"findings": [each.to_dict() for each in findings]})
        members = json.loads(stream.getvalue())["findings"]
        assert all(len(each) == 8 and each["group"] == GROUP for each in members)
    else:
        out.lines(*finding_lines(findings))
        assert counted_findings(findings) == "3 errors, 1 note"
    assert "zebra" not in stream.getvalue()
    assert all(line.isprintable() for line in stream.getvalue().split("\n"))
