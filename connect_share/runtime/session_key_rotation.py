"""When the leader writes a new session key, and which (KIP-507)."""

from __future__ import annotations

import secrets
from typing import Final

from connect_share.errors import refusal
from connect_share.model.config_state import SessionKey
from connect_share.model.keys import INT32_MAX
from connect_share.model.records import now_ms
from connect_share.runtime.internal_request_signature import KEY_BYTES
from connect_share.stores.config import ConfigBackingStore
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.client_translation import whole_number

_TTL_MS: Final = 3_600_000
_LONGEST_BYTES: Final = 4_096


class SessionKeyRotation:
    """The rules of the worker file.

    ``inter.worker.key.ttl.ms`` (one hour; 0: for ever), ``inter.worker.key.generation.algorithm``, ``inter.worker.key.size``.

    Raises:
        ConfigError: a setting is wrong; names it.

    Source: ``DistributedHerder.checkForKeyRotation``.
    """

    def __init__(self, worker_config: WorkerConfig) -> None:
        given = worker_config.originals
        self.algorithm: str = given.get("inter.worker.key.generation.algorithm", "").strip() or "HmacSHA256"
        if self.algorithm.lower() not in KEY_BYTES:
            raise refusal("inter.worker.key.generation.algorithm", f"{self.algorithm!r} is not known here")
        size = given.get("inter.worker.key.size", "").strip()
        bits = whole_number("inter.worker.key.size", size) if size else 8 * KEY_BYTES[self.algorithm.lower()]
        if not 0 < bits <= 8 * _LONGEST_BYTES:
            raise refusal("inter.worker.key.size", f"has to be 1 to {8 * _LONGEST_BYTES} bits")
        self.key_bytes: int = (bits + 7) // 8
        ttl = given.get("inter.worker.key.ttl.ms", "").strip()
        self.ttl_ms: int = whole_number("inter.worker.key.ttl.ms", ttl) if ttl else _TTL_MS
        if not 0 <= self.ttl_ms <= INT32_MAX:
            raise refusal("inter.worker.key.ttl.ms", f"has to be 0 to {INT32_MAX}")

    def due_ms(self, key: SessionKey | None) -> int | None:
        """Return when a new key is due, in milliseconds since the epoch: 0 for at once, ``None`` for never."""
        if key is None or key.algorithm != self.algorithm or len(key.key) != self.key_bytes:
            return 0
        return key.creation_timestamp_ms + self.ttl_ms if self.ttl_ms else None

    def is_due(self, key: SessionKey | None, now_ms: int) -> bool:
        """Return whether the leader has to write a new key."""
        due_ms = self.due_ms(key)
        return due_ms is not None and due_ms <= now_ms

    def rotate(self, store: ConfigBackingStore) -> SessionKey | None:
        """Write a new key if it is due, and return it. Only the leader calls this.

        Raises:
            ConnectShareError: as ``ConfigBackingStore.put_session_key``.
        """
        at_ms = now_ms()
        if not self.is_due(store.snapshot().session_key, at_ms):
            return None
        key = SessionKey(secrets.token_bytes(self.key_bytes), self.algorithm, at_ms)
        store.put_session_key(key)
        return key
