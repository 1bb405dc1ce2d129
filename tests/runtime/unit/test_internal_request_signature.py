"""Signatures of internal requests, against those of Java's own class."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from connect_share.runtime import SIGNATURE_ALGORITHM_HEADER, SIGNATURE_HEADER, is_valid_signature, signature_headers

_VECTORS = json.loads(
    (Path(__file__).parents[2] / "vectors" / "internal-request-signatures.json").read_text(encoding="utf-8")
)
_KEY = bytes.fromhex(_VECTORS["key"])
_BODY = b'[{"task.class":"a.B"}]'


@pytest.mark.parametrize("request_", _VECTORS["requests"])
def test_java_signs_the_same(request_: dict[str, Any]) -> None:
    algorithm, body = request_["algorithm"], base64.b64decode(request_["body"])
    java = {SIGNATURE_HEADER: request_["signature"], SIGNATURE_ALGORITHM_HEADER: request_["algorithm_header"]}
    assert signature_headers(_KEY, body, algorithm) == java
    assert is_valid_signature(_KEY, body, java, frozenset({algorithm}))


def test_header_names_may_be_in_any_case() -> None:
    headers = {name.lower(): value for name, value in signature_headers(_KEY, _BODY).items()}
    assert is_valid_signature(_KEY, _BODY, headers)


def test_another_key_or_body_is_refused() -> None:
    headers = signature_headers(_KEY, _BODY)
    assert not is_valid_signature(_KEY + b"x", _BODY, headers)
    assert not is_valid_signature(_KEY, _BODY + b" ", headers)


@pytest.mark.parametrize("missing", [SIGNATURE_HEADER, SIGNATURE_ALGORITHM_HEADER])
def test_a_missing_header_is_refused(missing: str) -> None:
    headers = signature_headers(_KEY, _BODY)
    del headers[missing]
    assert not is_valid_signature(_KEY, _BODY, headers)


@pytest.mark.parametrize("signature", ["", "=", "AAAA", "no base64!", "\u00e9", "A" * 100_000])
def test_a_hostile_signature_is_refused(signature: str) -> None:
    headers = signature_headers(_KEY, _BODY) | {SIGNATURE_HEADER: signature}
    assert not is_valid_signature(_KEY, _BODY, headers)


def test_an_algorithm_that_is_not_allowed_is_refused() -> None:
    headers = signature_headers(_KEY, _BODY, "HmacSHA1")
    assert not is_valid_signature(_KEY, _BODY, headers)
    assert not is_valid_signature(_KEY, _BODY, headers | {SIGNATURE_ALGORITHM_HEADER: "none"})


@pytest.mark.parametrize(("key", "algorithm"), [(b"", "HmacSHA256"), (_KEY, "SHA256"), (_KEY, "")])
def test_nothing_is_signed_with_an_empty_key_or_an_unknown_algorithm(key: bytes, algorithm: str) -> None:
    with pytest.raises(ValueError, match=r"session key is empty|no algorithm of signatures"):
        signature_headers(key, _BODY, algorithm)
