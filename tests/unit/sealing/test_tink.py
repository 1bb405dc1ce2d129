"""Sealed values are Tink's: anybody's Tink opens ours, and we open Tink's."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from connect_share.model.records import TopicType
from connect_share.sealing.cipher import Cipher, Opened
from connect_share.sealing.key_ring import KeyRing
from tests.support.sealed import SealedVector, key_text, sealed_vectors

tink = pytest.importorskip("tink", reason="tink has no wheel for this machine")
CONTEXT = b"connect-share/sealed/1\0%s\0%s"


def aead_of(ring: KeyRing) -> Any:
    """The ring as a key set of Tink: the first key is the primary one, all have the output prefix TINK."""
    from tink import aead, json_proto_keyset_format, secret_key_access

    aead.register()
    # AesGcmKey: field 3, 32 bytes.
    entries = [
        {
            "keyData": {
                "typeUrl": "type.googleapis.com/google.crypto.tink.AesGcmKey",
                "value": b64encode(b"\x1a\x20" + key).decode(),
                "keyMaterialType": "SYMMETRIC",
            },
            "status": "ENABLED",
            "keyId": number,
            "outputPrefixType": "TINK",
        }
        for number, key in ring.items()
    ]
    text = json.dumps({"primaryKeyId": ring.sealing_id, "key": entries})
    return json_proto_keyset_format.parse(text, secret_key_access.TOKEN).primitive(aead.Aead)


@pytest.mark.parametrize("vector", sealed_vectors(), ids=lambda vector: vector.topic_type.value)
def test_tink_opens_the_vectors(vector: SealedVector) -> None:
    context = CONTEXT % (vector.topic_type.value.encode(), vector.key)
    kind = b"\1" if vector.value is None else b"\0"
    plaintext = aead_of(vector.keys).decrypt(vector.sealed, context)
    assert plaintext == kind + vector.written_ms.to_bytes(8, "big") + (vector.value or b"")


def test_what_tink_seals_is_opened_and_the_other_way_round() -> None:
    ring = KeyRing.parse(key_text(4_000_000_000, 7))
    theirs, ours = aead_of(ring), Cipher(ring, TopicType.OFFSET)
    context = CONTEXT % (b"offset", b'g.["c",{}]')
    found = theirs.encrypt(b"\0" + bytes(7) + b"\5" + b'{"p":1}', context)
    assert ours.open(b'g.["c",{}]', found) == Opened(b'{"p":1}', 5)
    assert theirs.decrypt(ours.seal(b'g.["c",{}]', None, 6), context) == b"\1" + bytes(7) + b"\6"
    with pytest.raises(tink.TinkError):
        theirs.decrypt(ours.seal(b'g.["d",{}]', None, 6), context)
