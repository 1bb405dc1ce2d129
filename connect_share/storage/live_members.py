"""Refusing writes while Java workers of the same Connect group are alive."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Final

from connect_share.errors import BrokerError, BrokerUnavailableError, LiveMembersError, safe_text
from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import GroupMember
from connect_share.log.threads import BackgroundThread, SafeCondition
from connect_share.stores.base import WriteGuard

_logger = logging.getLogger(__name__)

# Asking for every write would double its round trips. What is written this long after a worker has joined may still come
# through; the worker reads it like any other record.
LIVE_MEMBERS_CACHE_S: Final = 5.0
AllowLiveMembers = bool | Callable[[GroupMember], bool]
"""Whether all live members may be there, or which: the workers of the runtime itself, whose herder orders their writes."""

_ASK_S: Final = 3.0
_RETRY_S: Final = 0.2
_FIRST_ANSWER_S: Final = 10.0


class LiveMembersGuard:
    """What is called before each write; a thread of its own asks the cluster, and one answer serves all who write.

    ``group_id`` ``None``: it asks for all Connect groups at once. ``policies`` ends when the topics have been checked: until
    then nothing is written, for a topic may be refused.

    While the cluster does not answer, the last answer counts for those who do not wait: what Java would queue is queued.
    """

    def __init__(self, admin: Admin, group_id: str | None, policies: Future[None]) -> None:
        self._admin = admin
        self._group_id = group_id
        self._policies = policies
        self._changed = SafeCondition()
        self._members: Mapping[str, tuple[GroupMember, ...]] = {}
        self._asked_s = -math.inf  # when the newest answer was asked for, by the monotonic clock
        self._needed_s = -math.inf  # an answer that was asked for later than this is waited for
        self._error: Exception | None = None
        self._stopping = False

    def start(self, failed: Callable[[BaseException], object]) -> None:
        """Begin to ask, and wait for the first answer for a while; ``failed`` hears if no more is asked."""
        BackgroundThread("connect-storage-live-members", self._run, failed).start()
        try:
            self._await_answer(_FIRST_ANSWER_S, time.monotonic())
        except BrokerError as error:
            _logger.warning("Writes of %s are not refused until it is known: %s", self._whose, error)

    def stop(self) -> None:
        """End the thread; it may be asking a broker that is gone, so it is not waited for."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def of(self, group_id: str, allowed: AllowLiveMembers) -> WriteGuard:
        """Return the guard of a group: it refuses if workers are alive, by an answer that is a few seconds old at most.

        It raises ``LiveMembersError`` if they are, ``BrokerError`` if that could not be learnt in time.
        """
        return partial(self._check, group_id, allowed)

    @property
    def _whose(self) -> str:
        return "any group" if self._group_id is None else f"group {self._group_id}"

    def _check(self, group_id: str, allowed: AllowLiveMembers, within_s: float = 0.0, *, at_once: bool = False) -> None:
        self._policies.result()
        if allowed is True:
            return
        if within_s > 0:
            self._await_answer(within_s, time.monotonic() - (0.0 if at_once else LIVE_MEMBERS_CACHE_S))
        live = self._members.get(group_id, ())
        members = [each for each in live if not (allowed(each) if callable(allowed) else allowed)]
        if members:
            raise LiveMembersError(
                f"{len(members)} live Connect workers are members of group {group_id!r}: two writers would "
                "overwrite each other. Stop the workers, or use allow_live_members=True if no worker writes"
            )

    def _await_answer(self, within_s: float, later_than_s: float) -> None:
        with self._changed:
            self._needed_s = max(self._needed_s, later_than_s)
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._stopping or self._asked_s > later_than_s, within_s):
                raise BrokerUnavailableError(
                    f"whether Java workers of {self._whose} are alive could not be learnt within "
                    f"{within_s:g} s: {safe_text(self._error) if self._error else 'the cluster did not answer'}",
                    retriable=True,
                )

    def _run(self) -> None:
        while not self._stopping:
            asked_s = time.monotonic()
            error: Exception | None = None
            members: Mapping[str, tuple[GroupMember, ...]] = {}
            try:
                members = self._admin.connect_members(self._group_id, timeout_s=_ASK_S)
            except Exception as exc:  # noqa: BLE001 - writes wait for this thread: it asks again
                error = exc
            with self._changed:
                self._error = error
                if error is None:
                    self._members, self._asked_s = members, asked_s
                    self._changed.notify_all()
                    self._changed.wait_for(
                        lambda: self._stopping or self._asked_s <= self._needed_s, LIVE_MEMBERS_CACHE_S
                    )
                else:
                    self._changed.wait_for(lambda: self._stopping, _RETRY_S)
