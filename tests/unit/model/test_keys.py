"""The key rule against hostile ids and names, and on the vectors that the Java suite reads too."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_murmur2

from connect_share.errors import InvalidClusterGroupIdError
from connect_share.model import keys
from connect_share.model.keys import (
    KEY_PREFIXES,
    KINDS,
    ClusterGroupId,
    ConfigKey,
    OffsetKey,
    StatusKey,
    connector_of,
    own_key,
    parse,
    prefix_key,
    shown,
    split_key,
    task_id_of,
)
from connect_share.model.murmur2 import murmur2
from connect_share.model.offsets import offset_key
from connect_share.model.records import ConnectorTaskId, TopicType
from tests.support import histories
from tests.support.key_vectors import VECTORS, bytes_of

SEGMENTS = ["a", "connect-cluster", "session-key", "connectorx", "tasks", "-", "", "42", "x-connector-y"]
NAMES = [*histories.NAMES, "jdbc.", "session-key", 'x.["a",{}]', ""]

legal_ids = (
    st.lists(st.sampled_from(SEGMENTS), min_size=1, max_size=5)
    .map(".".join)
    .filter(lambda text: bool(text) and is_legal(text))
    .map(ClusterGroupId)
)
names = st.sampled_from(NAMES) | st.text(max_size=20)


def is_legal(text: str) -> bool:
    try:
        ClusterGroupId(text)
    except InvalidClusterGroupIdError:
        return False
    return True


@st.composite
def original_keys(draw: st.DrawFn) -> tuple[TopicType, bytes]:
    topic_type = draw(st.sampled_from(TopicType))
    name = draw(names)
    if topic_type is TopicType.OFFSET:
        assume(not any("\ud800" <= character <= "\udfff" for character in name))
        return topic_type, offset_key(
            name, draw(st.none() | st.dictionaries(st.sampled_from(["f", "a.b"]), st.just("x.txt")))
        )
    kind = draw(st.sampled_from(KINDS[topic_type]))
    return topic_type, kind.key("" if kind.is_whole_key else name)


@given(legal_ids | st.none(), original_keys())
def test_a_key_comes_apart_where_it_was_put_together(
    group: ClusterGroupId | None, typed: tuple[TopicType, bytes]
) -> None:
    topic_type, key = typed
    full = key if group is None else prefix_key(group, key)
    assert split_key(topic_type, full) == (group, key)
    assert own_key(topic_type, full, group) == key


@given(st.sampled_from(TopicType), names)
def test_each_kind_reads_what_it_writes(topic_type: TopicType, name: str) -> None:
    for kind in KINDS[topic_type]:
        key = kind.key("" if kind.is_whole_key else name)
        parsed = parse(topic_type, key)
        assert parsed is not None
        assert (parsed.kind, parsed.original, kind.key(parsed.rest)) == (kind, key, key)


@given(
    st.sampled_from(NAMES) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.integers(0, (1 << 31) - 1),
    st.sampled_from(["t", "a.b", ""]),
)
def test_keys_tell_their_connector_task_and_topic(name: str, number: int, topic: str) -> None:
    subjects = {
        ConfigKey.TASK.key(ConnectorTaskId(name, number)): (TopicType.CONFIG, (name, ConfigKey.TASK, number)),
        StatusKey.TASK.key(ConnectorTaskId(name, number)): (TopicType.STATUS, (name, StatusKey.TASK, number)),
        StatusKey.topic_key(topic, name): (TopicType.STATUS, (name, StatusKey.TOPIC, topic)),
        ConfigKey.COMMIT.key(name): (TopicType.CONFIG, (name, ConfigKey.COMMIT, None)),
        offset_key(name, None): (TopicType.OFFSET, (name, OffsetKey.OFFSET, None)),
        ConfigKey.SESSION_KEY.key(""): (TopicType.CONFIG, None),
        ConfigKey.LOGGER_LEVEL.key(name): (TopicType.CONFIG, None),
    }
    for key, (topic_type, subject) in subjects.items():
        parsed = parse(topic_type, key)
        assert parsed is not None
        assert parsed.subject == subject


@given(legal_ids, legal_ids, original_keys())
def test_no_group_takes_anothers_key(
    mine: ClusterGroupId, theirs: ClusterGroupId, typed: tuple[TopicType, bytes]
) -> None:
    topic_type, key = typed
    assume(mine != theirs)
    full = prefix_key(theirs, key)
    assert own_key(topic_type, full, mine) is None
    assert own_key(topic_type, full, None) is None
    assert own_key(topic_type, key, mine) is None


def split_slowly(topic_type: TopicType, key: bytes) -> tuple[str | None, bytes] | None:
    """The rule as it is written down: look at the beginning, then behind each dot."""
    starts = [0, *(at + 1 for at, byte in enumerate(key) if byte == ord("."))]
    for start in starts:
        rest = key[start:]
        if any(
            rest == kind.prefix if kind.is_whole_key else rest.startswith(kind.prefix) for kind in KINDS[topic_type]
        ):
            if start == 0:
                return None, key
            group = key[: start - 1].decode("utf-8", "replace")
            legal = group and set(group) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
            parts = [group[at:] for at in range(len(group)) if at == 0 or group[at - 1] == "."]
            looks = any(part.startswith(prefix.decode()) for part in parts for prefix in KEY_PREFIXES)
            return (group, rest) if legal and not looks else None
    return None


pieces = st.sampled_from(
    [*KEY_PREFIXES, b"session-key", b".", b"..", b"[", b"a", b"-", b"\n", b"\xff", b".session-key", b"task"]
)


@given(st.sampled_from(TopicType), st.lists(pieces, max_size=8).map(b"".join) | st.binary(max_size=60))
def test_any_bytes_are_split_as_the_rule_says(topic_type: TopicType, key: bytes) -> None:
    assert split_key(topic_type, key) == split_slowly(topic_type, key)


HOSTILE_PIECES = [b".", b"a-", b"-", b".tasks-fencing", b"status-task.", b".[", b"session-key.", b"0", b"\xff"]


@pytest.mark.parametrize("piece", HOSTILE_PIECES)
def test_a_key_of_a_megabyte_is_read_at_once(piece: bytes) -> None:
    """Seconds are generous: it takes milliseconds, and took a quarter of a minute for each."""
    key = piece * (1_000_000 // len(piece))
    began = time.process_time()
    for topic_type in TopicType:
        for whole in (key, key + b".session-key", b"task-x-" + key, b"status-task-x-" + key + b"1"):
            split_key(topic_type, whole)
            connector_of(topic_type, whole)
    assert time.process_time() - began < 2


@given(
    st.sampled_from(["task-", "status-task-"]),
    st.text(alphabet="-a0+1\u0660\u0661\U0001d7ce", max_size=12) | st.text(alphabet="-0129", max_size=14),
)
def test_task_numbers_are_those_of_java(prefix: str, rest: str) -> None:
    """Java splits the key at dashes, drops empty pieces at the end, and parses the last as an int."""
    parts = (prefix + rest).split("-")
    while parts and not parts[-1]:
        parts.pop()
    pieces_before = prefix.count("-")
    number = parts[-1].removeprefix("+") if len(parts) >= pieces_before + 2 else ""
    legal = number and all(digit.isdecimal() and digit < "\U00010000" for digit in number) and int(number) < 1 << 31
    expected = ConnectorTaskId("-".join(parts[pieces_before:-1]), int(number)) if legal else None
    assert task_id_of(rest) == expected


def test_every_zero_is_known() -> None:
    zeros = {chr(code) for code in range(0x10000) if unicodedata.decimal(chr(code), None) == 0}
    assert zeros <= set(keys._ZEROS)


@given(st.lists(st.sampled_from([0, 1, 127, 128, 255]), max_size=11).map(bytes))
def test_murmur2_is_that_of_another_client(data: bytes) -> None:
    assert murmur2(data) == kafka_murmur2(data) & 0xFFFFFFFF


# What the objection says, in both languages.
WORDS = {
    "empty": "it is empty",
    "characters": "only the characters A-Z a-z 0-9 . _ - are allowed",
    "begins": "it starts with '",
    "after_dot": "after a dot it goes on with '",
}
NO_TEXTS = [{"id": each, "reason": "characters" if each else "empty"} for each in (None, 10**300, b"a")]


def test_the_vectors_hold_every_kind() -> None:
    """A kind that is added here only fails: Java has to pass the same vectors."""
    assert {entry["reason"] for entry in VECTORS["illegal_ids"]} == set(WORDS)
    for topic_type in TopicType:
        of_type = [entry for entry in VECTORS["keys"] if entry["type"] == topic_type.value]
        assert {bytes_of(entry, "own") is None for entry in of_type} == {True, False}
    own = [(TopicType(entry["type"]), bytes_of(entry, "own")) for entry in VECTORS["keys"]]
    found = {key.kind for topic_type, original in own if original and (key := parse(topic_type, original))}
    assert found == {kind for kinds in KINDS.values() for kind in kinds}
    assert {prefix.decode() for prefix in KEY_PREFIXES} <= {entry["id"] for entry in VECTORS["illegal_ids"]}


@pytest.mark.parametrize("text", VECTORS["legal_ids"])
def test_legal_ids(text: str) -> None:
    assert ClusterGroupId(text) == text


@pytest.mark.parametrize("entry", [*VECTORS["illegal_ids"], *NO_TEXTS], ids=lambda entry: ascii(entry["id"])[:50])
def test_illegal_ids(entry: dict[str, str]) -> None:
    with pytest.raises(InvalidClusterGroupIdError) as caught:
        ClusterGroupId(entry["id"])
    assert isinstance(caught.value, ValueError)
    assert WORDS[entry["reason"]] in str(caught.value)


def test_keys() -> None:
    for entry in VECTORS["keys"]:
        topic_type = TopicType(entry["type"])
        group = ClusterGroupId(entry["group"])
        key = bytes_of(entry, "key")
        assert key is not None
        own = bytes_of(entry, "own")
        assert own_key(topic_type, key, group) == own, entry
        split = split_key(topic_type, key)
        if own is None:
            assert split is None or split[0] != group, entry
        else:
            assert split == (group, own), entry
            assert prefix_key(group, own) == key, entry


@given(st.text(max_size=5), st.sampled_from([0, 190, 197, 198, 199, 200, 201, 500]))
def test_a_name_is_shown_whole_if_it_takes_200_characters_or_fewer(text: str, more: int) -> None:
    """With what it takes to write them; the quotes do not count."""
    name = text + "x" * more
    if len(repr(name)) <= 202:
        assert shown(name) == repr(name)
    else:
        assert shown(name) == f"{repr(name)[:201]}... ({len(name)} characters)"
