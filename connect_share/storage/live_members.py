"""Refusing writes while Java workers of the same Connect group are alive."""

from __future__ import annotations

import threading
import time
from typing import Final

from connect_share.admin import Admin
from connect_share.errors import LiveMembersError

# Asking for every write would double its round trips. What is written this long after a worker has joined may still come
# through; the worker reads it like any other record.
LIVE_MEMBERS_CACHE_S: Final = 5.0


class LiveMembersGuard:
    """Called before each write; what it knows is a few seconds old at most."""

    def __init__(self, admin: Admin, group_id: str) -> None:
        self._admin = admin
        self._group_id = group_id
        self._lock = threading.Lock()
        self._asked_at: float | None = None
        self._members = 0

    def __call__(self) -> None:
        """Refuse if workers are alive.

        Raises:
            LiveMembersError: they are.
            BrokerError: that could not be learnt.
        """
        with self._lock:
            now = time.monotonic()
            if self._asked_at is None or now - self._asked_at >= LIVE_MEMBERS_CACHE_S:
                self._members = self._admin.connect_groups().get(self._group_id, 0)
                self._asked_at = now
            members = self._members
        if members:
            raise LiveMembersError(
                f"{members} live Connect workers are members of group {self._group_id!r}: two writers would "
                "overwrite each other. Stop the workers, or use allow_live_members=True if you know better"
            )
