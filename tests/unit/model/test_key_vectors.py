"""The key rule on the vectors that the Java suite reads too (``tests/worker_plugin``)."""

from __future__ import annotations

import pytest

from connect_share.errors import InvalidClusterGroupIdError
from connect_share.model.keys import KEY_PREFIXES, KINDS, ClusterGroupId, own_key, parse, prefix_key, split_key
from connect_share.model.records import TopicType
from tests.support.key_vectors import VECTORS, bytes_of

# What the objection says, in both languages.
WORDS = {
    "empty": "it is empty",
    "characters": "only the characters A-Z a-z 0-9 . _ - are allowed",
    "begins": "it starts with '",
    "after_dot": "after a dot it goes on with '",
}


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


@pytest.mark.parametrize("entry", VECTORS["illegal_ids"], ids=lambda entry: ascii(entry["id"]))
def test_illegal_ids(entry: dict[str, str]) -> None:
    with pytest.raises(InvalidClusterGroupIdError) as caught:
        ClusterGroupId(entry["id"])
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
