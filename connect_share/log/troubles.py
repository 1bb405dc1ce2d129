"""What the client says instead of a record: most of it passes, and Java's log goes on as well."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from connect_share.client import KafkaError, TopicRight, is_unknown_topic, translate
from connect_share.errors import BrokerError
from connect_share.log.catch_up import is_about_groups

_log = logging.getLogger(__name__)

_SAID_EVERY_S: Final = 30.0
_RECORDS_GONE: Final = ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE")


class Troubles:
    """Errors that a running log survives. The library goes on by itself once the topic, or the right to read it, is back.

    Args:
        topic: its name.
        look_for_topic: asks soon whether the topic is still the one that was read; says whether that can be known.
    """

    def __init__(self, topic: str, look_for_topic: Callable[[], bool]) -> None:
        self._topic = topic
        self._look_for_topic = look_for_topic
        self._said_s = -_SAID_EVERY_S
        self.newest: BrokerError | None = None

    def survive(self, error: KafkaError) -> None:
        """Note and log an error that passes.

        Raises:
            BrokerError: the records at this offset are gone, or nothing would notice another topic of the same name.

        Source: ``KafkaBasedLog.poll``, ``FetchCollector.handleInitializeErrors``.
        """
        trouble = translate(error, f"reading topic {self._topic}", TopicRight.READ)
        if is_about_groups(trouble):
            return
        if trouble.name in _RECORDS_GONE or error.fatal():
            raise trouble
        if is_unknown_topic(trouble) and not self._look_for_topic():
            raise trouble
        self.newest = trouble
        if time.monotonic() - self._said_s >= _SAID_EVERY_S:
            self._said_s = time.monotonic()
            _log.warning("%s; it is followed again when that has passed", trouble)

    def passed(self) -> None:
        """Note that records come again."""
        self.newest = None
