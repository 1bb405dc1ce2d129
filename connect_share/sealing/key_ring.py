"""The keys of a cluster group, as a worker file has them."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Final

from connect_share.errors import ConfigError
from connect_share.model.keys import BLANKS

KEY_BYTES: Final = 32
_LARGEST_ID: Final = 2**32 - 1
_ID: Final = re.compile(r"[1-9][0-9]{0,9}")
_KEY: Final = re.compile(r"[A-Za-z0-9+/]{43}=")
_CHECK: Final = b"connect-share/key-ring/1"


class KeyRing:
    """Keys of AES-256-GCM by their ids: the first one seals, all of them open.

    Nothing of a key is ever shown: not by ``repr``, and not in an error.

    Attributes:
        ids: of all keys, in the order of the text.

    >>> KeyRing.parse("1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").ids
    (1,)
    """

    __slots__ = ("_keys", "ids")

    def __init__(self, keys: Iterable[tuple[int, bytes]]) -> None:
        self._keys = dict(keys)
        self.ids: tuple[int, ...] = tuple(self._keys)

    @classmethod
    def parse(cls, text: str) -> KeyRing:
        """Return the keys in ``<id>:<base64 of 32 bytes>[,...]``; blanks around entries do not count.

        An id is a decimal number from 1 to 4294967295 without leading zeros, and is there once.

        Raises:
            ConfigError: names the entry, by its position, and what is wrong with it; never what it holds.
        """
        keys: dict[int, bytes] = {}
        for position, entry in enumerate(text.split(","), 1):
            number, key = _parsed(position, entry.strip(BLANKS))
            if number in keys:
                raise _refused(position, f"has key id {number} again; an id names one key for ever")
            keys[number] = key
        return cls(keys.items())

    @property
    def sealing_id(self) -> int:
        """Id of the key that seals."""
        return self.ids[0]

    def items(self) -> Iterable[tuple[int, bytes]]:
        """Return ids and keys; for ciphers only."""
        return self._keys.items()

    def fingerprint(self) -> str:
        """Return a text that is the same for the same keys under the same ids, in any order, and tells nothing about them."""
        found = hashlib.sha256(_CHECK)
        for number in sorted(self._keys):
            found.update(hmac.digest(self._keys[number], _CHECK + number.to_bytes(4, "big"), "sha256"))
        return found.hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KeyRing):
            return NotImplemented
        return self.ids == other.ids and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self.ids)

    def __repr__(self) -> str:
        return f"<KeyRing of {', '.join(map(str, self.ids))}>"


def new_key() -> str:
    """Return a new key as :meth:`KeyRing.parse` reads it: a random id and 32 random bytes."""
    return f"{1 + secrets.randbelow(_LARGEST_ID)}:{b64encode(secrets.token_bytes(KEY_BYTES)).decode()}"


def _parsed(position: int, entry: str) -> tuple[int, bytes]:
    if not entry:
        raise _refused(position, "is empty; it has to be <id>:<base64 of 32 bytes>")
    number, colon, encoded = entry.partition(":")
    if not colon:
        raise _refused(position, "has no colon; it has to be <id>:<base64 of 32 bytes>")
    if not _ID.fullmatch(number) or int(number) > _LARGEST_ID:
        raise _refused(
            position, f"has no key id before the colon: a number from 1 to {_LARGEST_ID}, without leading zeros"
        )
    if not _KEY.fullmatch(encoded):
        raise _refused(position, f"has no base64 of {KEY_BYTES} bytes behind the colon: 43 characters and one =")
    key = b64decode(encoded)
    if b64encode(key).decode() != encoded:  # spare bits: a character was changed
        raise _refused(position, "has no whole base64 behind the colon: its last character is none that 32 bytes give")
    return int(number), key


def _refused(position: int, why: str) -> ConfigError:
    return ConfigError(f"entry {position} of the keys {why}")
