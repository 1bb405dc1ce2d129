"""Encrypted values open in their own place only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connect_share.backup.encryption import FileCipher
from connect_share.errors import ConfigError, RecordFileError
from connect_share.model.records import Record, TopicType
from connect_share.sealing import KeyRing
from connect_share.sealing.cipher import Cipher, Opened
from tests.support.sealed import KEYS, key_text

PLACE = Record("configs", 0, 5, 1, b"one.connector-c", b"hunter2")


def encrypted(record: Record) -> Record:
    place = (record.topic, record.partition, record.offset)
    return replace(record, value=FileCipher(KEYS).seal(TopicType.CONFIG, place, record.key, record.value))


@pytest.mark.parametrize("value", [None, b"", b"hunter2", b"\1sealed"])
def test_a_value_comes_back(value: bytes | None) -> None:
    record = replace(PLACE, value=value)
    assert FileCipher(KEYS).opened(TopicType.CONFIG, encrypted(record)) == record
    assert b"hunter2" not in (encrypted(record).value or b"")


@pytest.mark.parametrize(
    "change",
    [{"topic": "x"}, {"partition": 1}, {"offset": 6}, {"key": b"one.connector-d"}, {"value": None}, {"value": b"x"}],
)
def test_a_value_opens_nowhere_else(change: dict[str, object]) -> None:
    with pytest.raises(RecordFileError, match="is not what was encrypted") as caught:
        FileCipher(KEYS).opened(TopicType.CONFIG, replace(encrypted(PLACE), **change))  # type: ignore[arg-type]
    assert "hunter2" not in str(caught.value)
    with pytest.raises(RecordFileError):
        FileCipher(KEYS).opened(TopicType.STATUS, encrypted(PLACE))


def test_a_value_of_a_file_is_none_of_a_topic() -> None:
    value = encrypted(PLACE).value or b""
    assert not isinstance(Cipher(KEYS, TopicType.CONFIG).open(PLACE.key or b"", value), Opened)


def test_a_missing_key_is_named() -> None:
    other = FileCipher(KeyRing.parse(key_text(8)))
    with pytest.raises(ConfigError, match="encrypted with key 7"):
        other.opened(TopicType.CONFIG, encrypted(PLACE))
