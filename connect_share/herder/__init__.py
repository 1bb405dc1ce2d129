"""Parts of Connect's herder for those who write one: signatures of internal requests."""

from connect_share.herder.internal_request_signature import (
    SIGNATURE_ALGORITHM_HEADER,
    SIGNATURE_HEADER,
    is_valid_signature,
    signature_headers,
)

__all__ = ["SIGNATURE_ALGORITHM_HEADER", "SIGNATURE_HEADER", "is_valid_signature", "signature_headers"]
