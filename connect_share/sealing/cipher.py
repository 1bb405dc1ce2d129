"""One sealed value: Tink's AEAD ciphertext of AES-256-GCM. The only module that imports ``cryptography``.

::

    value     = 0x01 | key id (4, big endian) | IV (12, random) | AES-256-GCM(plaintext, AAD) | tag (16)
    plaintext = kind (1: 0 value, 1 removal) | written at (8, big endian, milliseconds) | value
    AAD       = "connect-share/sealed/1" 00 "config"|"status"|"offset" 00 <whole key as on the topic>

The key is in the AAD, so no value opens under another key, of another group or on another kind of topic. No JSON text begins
with the first byte, so sealed and plain values are told apart without keys.

Source of the outer form: https://developers.google.com/tink/wire-format, AEAD with output prefix TINK.
"""

from __future__ import annotations

import enum
import os
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeGuard

from connect_share.errors import ConfigError
from connect_share.model.connect_json import JSON_NULL
from connect_share.model.records import TopicType
from connect_share.model.removal import is_removal
from connect_share.sealing.key_ring import KeyRing

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_VERSION: Final = b"\x01"
_HEAD: Final = struct.Struct(">cI12s")
_WRITTEN: Final = struct.Struct(">Bq")
_TAG_BYTES: Final = 16
_VALUE, _REMOVAL = 0, 1
_CONTEXT: Final = {kind: b"connect-share/sealed/1\0" + kind.value.encode() + b"\0" for kind in TopicType}
LATEST_MS: Final = 2**63 - 1
SEALED_BYTES: Final = _HEAD.size + _WRITTEN.size + _TAG_BYTES
"""By how many bytes a sealed value is longer; none is shorter."""


class Refusal(enum.Enum):
    """Why a record under a key of the group is refused; the text goes on after the place of the record."""

    PLAIN = "its value is not sealed, whoever wrote it"
    TOMBSTONE = "it is a tombstone: only a sealed removal removes"
    NO_KEYS = "its value is sealed, and this worker has no keys"
    MALFORMED = "its value begins like a sealed one, and is none"
    UNKNOWN_KEY = "its value is sealed with a key that this worker does not have"
    FORGED = "its value was not sealed for this place with a key of the group, or was changed"
    REPLAYED = "its value is older than the newest one of this key"
    REPEATED = "its value is the one that counts, written again"
    OVERTAKEN = "its value was sealed here, and a newer one of this key was written before it"


class Opened(NamedTuple):
    """What was sealed.

    Attributes:
        value: ``None`` is a removal.
        written_ms: by the hybrid clock of the writer.
    """

    value: bytes | None
    written_ms: int

    def __repr__(self) -> str:
        """Show when it was written; the value may be a secret."""
        return f"<Opened written_ms={self.written_ms}>"


def is_sealed(value: bytes | None) -> TypeGuard[bytes]:
    """Return whether a value claims to be sealed: nothing that Connect writes begins so."""
    return value is not None and value[:1] == _VERSION


def removes(topic_type: TopicType, value: bytes | None) -> bool:
    """Return whether a value removes its key; that of a sealed one is told by its length: no other value is so short."""
    if not is_sealed(value):
        return is_removal(topic_type, value)
    longest = SEALED_BYTES + (len(JSON_NULL) if topic_type is TopicType.CONFIG else 0)
    return len(value) in (SEALED_BYTES, longest)


def iv_of(sealed: bytes) -> bytes:
    """Return the IV of a sealed value, by which it is told from all others."""
    return sealed[_HEAD.size - 12 : _HEAD.size]


def key_id(sealed: bytes) -> int | None:
    """Return the id of the key that a value claims to be sealed with, ``None`` if it is too short for any."""
    return None if len(sealed) < SEALED_BYTES else int(_HEAD.unpack_from(sealed)[1])


class Cipher:
    """Seals and opens values of one kind of topic. Thread-safe.

    Args:
        keys: of the group.
        topic_type: what kind of records the topic holds; not its name, so a mirror under another name still opens.

    Raises:
        ConfigError: the library that does it is not installed.
    """

    def __init__(self, keys: KeyRing, topic_type: TopicType) -> None:
        make, self._invalid = _aes_gcm()
        self._ciphers: dict[int, AESGCM] = {number: make(key) for number, key in keys.items()}
        self.keys = keys
        self._context = _CONTEXT[topic_type]

    def seal(self, wire_key: bytes, value: bytes | None, written_ms: int, under: int | None = None) -> bytes:
        """Return the value, or the removal for ``None``, as it goes to the topic under this whole key.

        ``under``: the id of the key; ``None``: that of the first one.
        """
        return self._sealed(wire_key, value, written_ms, os.urandom(12), under)

    def _sealed(
        self, wire_key: bytes, value: bytes | None, written_ms: int, iv: bytes, under: int | None = None
    ) -> bytes:
        """Seal with this IV, which must never be used twice with one key."""
        number = self.keys.sealing_id if under is None else under
        plaintext = _WRITTEN.pack(_REMOVAL if value is None else _VALUE, written_ms) + (value or b"")
        head = _HEAD.pack(_VERSION, number, iv)
        return head + self._ciphers[number].encrypt(iv, plaintext, self._context + wire_key)

    def open(self, wire_key: bytes, sealed: bytes) -> Opened | Refusal:
        """Return what was sealed for this whole key, or why that is not known. Never raises for its content."""
        if len(sealed) < SEALED_BYTES or not is_sealed(sealed):
            return Refusal.MALFORMED
        _, number, iv = _HEAD.unpack_from(sealed)
        cipher = self._ciphers.get(number)
        if cipher is None:
            return Refusal.UNKNOWN_KEY
        try:
            plaintext = cipher.decrypt(iv, sealed[_HEAD.size :], self._context + wire_key)
        except self._invalid:
            return Refusal.FORGED
        kind, written_ms = _WRITTEN.unpack_from(plaintext)
        value = plaintext[_WRITTEN.size :]
        if kind > _REMOVAL or written_ms < 0 or (kind == _REMOVAL and value):
            return Refusal.MALFORMED
        return Opened(None if kind == _REMOVAL else value, written_ms)


def load_library() -> None:
    """Load the library, if it is installed, so that the first cipher need not wait for that."""
    with suppress(ConfigError):
        _aes_gcm()


def _aes_gcm() -> tuple[type[AESGCM], type[Exception]]:
    try:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise ConfigError("sealed sharing needs the library cryptography: pip install cryptography") from None
    return AESGCM, InvalidTag
