"""Signatures of the requests that Connect workers send each other (Java: ``InternalRequestSignature``, KIP-507)."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from typing import Final

SIGNATURE_HEADER: Final = "X-Connect-Authorization"
SIGNATURE_ALGORITHM_HEADER: Final = "X-Connect-Request-Signature-Algorithm"

# Bytes of a key of each algorithm where the worker file names no size: those of Java's generators.
KEY_BYTES: Final = {"hmacsha1": 64, "hmacsha224": 28, "hmacsha256": 32, "hmacsha384": 48, "hmacsha512": 64}


def signature_headers(key: bytes, body: bytes, algorithm: str = "HmacSHA256") -> dict[str, str]:
    """Return the two headers of a request with this body; ``algorithm`` by Java's name, in any case.

    Raises:
        ValueError: the algorithm is not known, or the key is empty.

    >>> signature_headers(b"key", b"[]")["X-Connect-Request-Signature-Algorithm"]
    'HmacSHA256'
    """
    signature = base64.b64encode(_sign(key, body, algorithm)).decode()
    return {SIGNATURE_HEADER: signature, SIGNATURE_ALGORITHM_HEADER: algorithm}


def is_valid_signature(
    key: bytes, body: bytes, headers: Mapping[str, str], allowed_algorithms: frozenset[str] = frozenset({"HmacSHA256"})
) -> bool:
    """Return whether both headers are there, the algorithm is allowed, and the signature is that of the body.

    The names of the headers may be in any case. ``allowed_algorithms`` are the worker's
    ``inter.worker.verification.algorithms``, spelled as there.

    Raises:
        ValueError: an allowed algorithm is not known, or the key is empty.

    >>> is_valid_signature(b"key", b"[]", signature_headers(b"key", b"[]"))
    True
    """
    by_name = {name.lower(): value for name, value in headers.items()}
    algorithm = by_name.get(SIGNATURE_ALGORITHM_HEADER.lower())
    signature = by_name.get(SIGNATURE_HEADER.lower())
    if signature is None or algorithm is None or algorithm not in allowed_algorithms:
        return False
    try:
        claimed = base64.b64decode(signature, validate=True)
    except ValueError:
        return False
    return hmac.compare_digest(claimed, _sign(key, body, algorithm))


def _sign(key: bytes, body: bytes, algorithm: str) -> bytes:
    name = algorithm.lower()
    if name not in KEY_BYTES:
        raise ValueError(f"{algorithm!r} is no algorithm of signatures; one of HmacSHA256, HmacSHA384, HmacSHA512 is")
    if not key:
        raise ValueError("the session key is empty")
    return hmac.digest(key, body, name.removeprefix("hmac"))
