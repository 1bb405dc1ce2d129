"""One sealed value: the vectors that Java has to pass too, and that nothing but what was sealed is ever opened."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.model.records import TopicType
from connect_share.sealing import Refusal
from connect_share.sealing.cipher import LATEST_MS, Cipher, Opened, _aes_gcm, is_sealed, key_id, removes
from tests.support.programs import python
from tests.support.sealed import KEYS, SealedVector, key_text, sealed_vectors

ALL = sealed_vectors()
topic_types = st.sampled_from(TopicType)
times = st.integers(0, LATEST_MS)
values = st.none() | st.binary(max_size=100)


@pytest.mark.parametrize("vector", ALL, ids=lambda vector: vector.topic_type.value)
def test_the_vectors(vector: SealedVector) -> None:
    cipher = Cipher(vector.keys, vector.topic_type)
    assert cipher._sealed(vector.key, vector.value, vector.written_ms, vector.iv) == vector.sealed
    assert cipher.open(vector.key, vector.sealed) == Opened(vector.value, vector.written_ms)
    assert key_id(vector.sealed) == 7


@pytest.mark.parametrize("vector", ALL, ids=lambda vector: vector.topic_type.value)
def test_every_bit_that_flips_is_refused(vector: SealedVector) -> None:
    cipher = Cipher(vector.keys, vector.topic_type)
    for bit in range(len(vector.sealed) * 8):
        changed = bytearray(vector.sealed)
        changed[bit // 8] ^= 1 << bit % 8
        wanted = Refusal.MALFORMED if bit < 8 else Refusal.UNKNOWN_KEY if bit < 40 else Refusal.FORGED
        assert cipher.open(vector.key, bytes(changed)) is wanted
    for end in range(len(vector.sealed)):
        assert cipher.open(vector.key, vector.sealed[:end]) in {Refusal.MALFORMED, Refusal.FORGED}
    assert cipher.open(vector.key, vector.sealed + b"\0") is Refusal.FORGED


@given(topic_types, st.binary(max_size=50), values, times)
def test_what_is_sealed_is_opened(topic_type: TopicType, key: bytes, value: bytes | None, written_ms: int) -> None:
    cipher = Cipher(KEYS, topic_type)
    sealed = cipher.seal(key, value, written_ms)
    assert len(sealed) == 42 + len(value or b"")
    assert is_sealed(sealed)
    assert cipher.open(key, sealed) == Opened(value, written_ms)
    assert removes(topic_type, cipher.seal(key, b"null", written_ms)) is (topic_type is TopicType.CONFIG)


@given(st.data(), st.binary(max_size=40), values)
def test_no_change_of_key_or_topic_is_opened(data: st.DataObject, key: bytes, value: bytes | None) -> None:
    topic_type = data.draw(topic_types)
    cipher = Cipher(KEYS, topic_type)
    sealed = cipher.seal(key, value, 1)
    other = data.draw(st.binary(max_size=40).filter(lambda found: found != key))
    assert cipher.open(other, sealed) is Refusal.FORGED
    elsewhere = data.draw(topic_types.filter(lambda found: found is not topic_type))
    assert Cipher(KEYS, elsewhere).open(key, sealed) is Refusal.FORGED
    # The border between what goes before a key and the key itself cannot be moved either.
    config = Cipher(KEYS, TopicType.CONFIG)
    assert config.open(b"\0" + key, config.seal(key, b"", 1)) is Refusal.FORGED


@given(st.binary(max_size=120) | st.binary(max_size=120).map(lambda rest: b"\1\0\0\0\7" + rest))
def test_any_bytes_are_refused_without_an_error(made_up: bytes) -> None:
    assert isinstance(Cipher(KEYS, TopicType.OFFSET).open(b"g.[", made_up), Refusal)


@pytest.mark.parametrize(
    "plaintext",
    [
        b"\2" + bytes(8) + b"null",  # a kind that there is not
        b"\x80" + bytes(8),
        b"\1" + bytes(8) + b"x",  # a removal with a value
        b"\0" + b"\xff" * 8 + b"x",  # before 1970
    ],
)
def test_a_plaintext_of_another_form_is_refused(plaintext: bytes) -> None:
    make, _ = _aes_gcm()
    iv = bytes(12)
    body = make(dict(KEYS.items())[7]).encrypt(iv, plaintext, b"connect-share/sealed/1\0config\0k")
    assert Cipher(KEYS, TopicType.CONFIG).open(b"k", b"\1\0\0\0\7" + iv + body) is Refusal.MALFORMED


def test_no_two_values_are_alike() -> None:
    cipher = Cipher(KEYS, TopicType.CONFIG)
    assert len({cipher.seal(b"k", b"v", 1) for _ in range(100)}) == 100


def test_the_library_is_asked_for_where_there_are_keys_and_nowhere_else() -> None:
    program = """
import sys
sys.modules["cryptography"] = None
import connect_share
from connect_share.sealing import TopicSeals
ring = connect_share.KeyRing.parse(sys.argv[1])
TopicSeals(connect_share.TopicType.CONFIG, connect_share.ClusterGroupId("g"), None)
try:
    connect_share.replay_config([], "g", keys=ring)
except connect_share.ConfigError as error:
    assert error.__cause__ is None
    print(error)
"""
    ran = python("-c", program, key_text(7))
    missing = "sealed sharing needs the library cryptography: pip install cryptography\n"
    assert (ran.returncode, ran.stdout) == (0, missing)
