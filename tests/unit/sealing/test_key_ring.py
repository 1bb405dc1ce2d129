"""The text of the keys, and that nothing of a key is ever shown."""

from __future__ import annotations

import copy
import pickle
import traceback
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share import ConfigError, KeyRing
from tests.support.sealed import key_text

KEY = bytes(range(32))
GOOD = b64encode(KEY).decode()


def test_the_first_seals_and_all_open() -> None:
    ring = KeyRing.parse(f" 4294967295:{GOOD} , 1:{b64encode(bytes(32)).decode()}\n")
    assert ring.ids == (4294967295, 1)
    assert ring.sealing_id == 4294967295
    assert dict(ring.items()) == {4294967295: KEY, 1: bytes(32)}


@pytest.mark.parametrize(
    ("text", "entry", "why"),
    [
        ("", 1, "is empty"),
        (f"7:{GOOD},", 2, "is empty"),
        (GOOD, 1, "has no colon"),
        (f"07:{GOOD}", 1, "has no key id"),
        (f"٧:{GOOD}", 1, "has no key id"),
        (f"4294967296:{GOOD}", 1, "has no key id"),
        (f"7:{b64encode(KEY[:31]).decode()}", 1, "has no base64 of 32 bytes"),
        (f"7:{b64encode(KEY + b'x').decode()}", 1, "has no base64 of 32 bytes"),
        (f"7:{b64encode(bytes([255]) * 32).decode().replace('/', '_')}", 1, "has no base64 of 32 bytes"),
        (f"7:{GOOD[:-2]}9=", 1, "has no whole base64"),
        (f"7:{GOOD},7:{b64encode(bytes(32)).decode()}", 2, "has key id 7 again"),
    ],
)
def test_a_wrong_text_is_refused_by_position_and_reason(text: str, entry: int, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        KeyRing.parse(text)
    assert str(caught.value).startswith(f"entry {entry} of the keys {why}")
    shown = "".join(traceback.format_exception_only(caught.value))
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert not any(text[at : at + 6] in shown for at in range(len(text) - 5) if text[at : at + 6] in GOOD)


def test_equal_keys_in_the_same_order_are_equal() -> None:
    ring = KeyRing.parse(key_text(7, 3))
    for other in (KeyRing.parse(key_text(7, 3)), copy.deepcopy(ring), pickle.loads(pickle.dumps(ring))):
        assert ring == other
        assert hash(ring) == hash(other)
    others = (key_text(3, 7), key_text(7), f"7:{GOOD},3:{GOOD}")
    assert not [text for text in others if KeyRing.parse(text) == ring]
    assert ring != key_text(7, 3)


def test_the_fingerprint_is_of_ids_and_keys_in_any_order() -> None:
    prints = [KeyRing.parse(text).fingerprint() for text in (key_text(7, 3), key_text(3, 7))]
    assert prints[0] == prints[1]
    others = (key_text(7), f"7:{GOOD},3:{GOOD}", key_text(7, 3, 5), key_text(7, 263))
    assert len({prints[0], *(KeyRing.parse(text).fingerprint() for text in others)}) == 5


@given(st.text(alphabet="0123456789:,=+/AZaz \n", max_size=120) | st.text(max_size=60))
def test_any_text_is_a_ring_or_refused(text: str) -> None:
    try:
        ring = KeyRing.parse(text)
    except ConfigError:
        return
    assert KeyRing.parse(",".join(f"{number}:{b64encode(key).decode()}" for number, key in ring.items())) == ring
