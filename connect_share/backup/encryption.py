"""The values of an encrypted file: sealed with the key ring of a worker file, each for its place.

Topic, partition, offset and key are bound to each value, behind a text that no key of a topic begins with: a value of a file
opens nowhere else, not in another record and not on a topic.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from connect_share.errors import ConfigError, RecordFileError
from connect_share.model.records import Record, TopicType
from connect_share.sealing import KEYS_PROPERTY, KeyRing, Refusal
from connect_share.sealing.cipher import Cipher, Opened, key_id

_CONTEXT: Final = b"\0connect-share/export/1\0"


def _bound(topic: str, partition: int, offset: int, key: bytes | None) -> bytes:
    return _CONTEXT + f"{topic}\0{partition}\0{offset}\0".encode() + (key or b"")


class FileCipher:
    """Seals and opens the values of files.

    Args:
        keys: the first seals, all open.

    Raises:
        ConfigError: the library that does it is not installed.
    """

    def __init__(self, keys: KeyRing) -> None:
        self.key_id = keys.sealing_id
        self._ciphers = {topic_type: Cipher(keys, topic_type) for topic_type in TopicType}

    def seal(self, topic_type: TopicType, place: tuple[str, int, int], key: bytes | None, value: bytes | None) -> bytes:
        """Return a value, or the removal for ``None``, as it goes into the file."""
        return self._ciphers[topic_type].seal(_bound(*place, key), value, 0)

    def opened(self, topic_type: TopicType, record: Record) -> Record:
        """Return a record with its value as it was on the topic.

        Raises:
            ConfigError: the key is missing.
            RecordFileError: the value was not sealed for this place, or was changed.
        """
        place = _bound(record.topic, record.partition, record.offset, record.key)
        opened = self._ciphers[topic_type].open(place, record.value or b"")
        if isinstance(opened, Opened):
            return replace(record, value=opened.value)
        if opened is Refusal.UNKNOWN_KEY:
            raise missing_key(key_id(record.value or b""))
        raise RecordFileError(
            f"{record.topic}[{record.partition}]@{record.offset} in the file is not what was encrypted: use another copy"
        )


def missing_key(number: int | None) -> ConfigError:
    """Return the error that says which key is needed."""
    return ConfigError(
        f"the file is encrypted with key {number}: give the worker file that key in {KEYS_PROPERTY}, behind those that are "
        "there; a group that is not to be sealed needs encryption=off beside it",
        property_name=KEYS_PROPERTY,
    )
