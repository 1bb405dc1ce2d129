"""Finding a topic at the start of its log, or making it: not every broker has heard of a new topic at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from connect_share.admin import Admin, TopicDescription
from connect_share.client import is_unknown_topic
from connect_share.errors import BrokerError, TopicMissingError
from connect_share.log.end_offsets import EndOffsets
from connect_share.log.facts import TopicFacts
from connect_share.log.writer import remaining_s
from connect_share.topics import TopicSpec, ensure_topic

_ENDS_S: Final = 30.0  # the caller's limit is one for reading
_SPREAD_S: Final = 10.0  # until every broker has heard of a topic
_RETRY_S: Final = 0.1


class TopicBootstrap:
    """What a log asks about its topic before it reads.

    Args:
        spec: the topic, and what to create if it is missing.
        admin: of the cluster.
        end_offsets: tells the ends.
        create_timeout_s: limit of creating the topic.
        stopping: set when the log is being stopped.
        go_on: called between two questions; raises when the log was stopped.
    """

    def __init__(
        self,
        spec: TopicSpec,
        admin: Admin,
        end_offsets: EndOffsets,
        *,
        create_timeout_s: float,
        stopping: threading.Event,
        go_on: Callable[[], None],
    ) -> None:
        self._spec = spec
        self._admin = admin
        self._end_offsets = end_offsets
        self._create_timeout_s = create_timeout_s
        self._stopping = stopping
        self._go_on = go_on

    def find(self) -> TopicFacts:
        """Make sure of the topic, and give its facts.

        Raises:
            TopicError: missing and not to be created, or not as Connect demands.
            BrokerError: the cluster refused, or the ends could not be learnt.
        """
        topic = self._spec.topic
        asked_s = time.monotonic()
        # With a deadline of one's own: brokers may be away just now, as Connect's start allows for.
        known = self._admin.describe_topics([topic], timeout_s=self._create_timeout_s).get(topic)
        made = ensure_topic(
            self._admin, self._spec, timeout_s=self._create_timeout_s, known=known, stopping=self._stopping
        )
        description = known or self._described(_ENDS_S if made else 0.0)
        if description is None:
            raise TopicMissingError(
                f"topic {topic!r} of {self._spec.property_name} does not exist and was not created; create it first",
                topic=topic,
            )
        return TopicFacts(description, self._first_ends(description), asked_s=asked_s)

    def _described(self, timeout_s: float) -> TopicDescription | None:
        """Describe the topic; the broker that is asked may not have heard of a new one yet."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            found = self._admin.describe_topics([self._spec.topic]).get(self._spec.topic)
            if found is not None or time.monotonic() > deadline_s:
                return found
            self._stopping.wait(_RETRY_S)
            self._go_on()

    def _first_ends(self, description: TopicDescription) -> dict[int, int]:
        """Ask for the ends; a leader of a topic that has just been made may not have heard of it yet."""
        deadline_s = time.monotonic() + _ENDS_S
        while True:
            try:
                return self._end_offsets.ask([each.id for each in description.partitions], remaining_s(deadline_s))
            except BrokerError as exc:
                late = time.monotonic() + _RETRY_S > deadline_s
                if late or not is_unknown_topic(exc) or self._described(_SPREAD_S) is None:
                    raise
                self._stopping.wait(_RETRY_S)
                self._go_on()
