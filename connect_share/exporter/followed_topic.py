"""One topic that is followed for as long as the exporter runs: what ends its log begins it anew."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import Final

from connect_share.contents.group_room import GroupRoom
from connect_share.errors import ConnectShareError, safe_text
from connect_share.exporter.topic_states import TopicStates
from connect_share.kafka.admin import Admin
from connect_share.kafka.create import TopicSpec
from connect_share.kafka.facts import gather_facts, require_topic
from connect_share.kafka.read import Reader
from connect_share.log.first_read import StartContext
from connect_share.log.kafka_based_log import KafkaBasedLog
from connect_share.log.protocol import RecordFeed
from connect_share.model.limited_log import LimitedLog
from connect_share.worker_config import ClientSettings, Isolation, WorkerConfig

_log = logging.getLogger(__name__)

CLIENT_ID: Final = "connect-share-exporter"
_AGAIN_S: Final = 5.0
_LOOK_S: Final = 5.0


@dataclass(eq=False, repr=False)
class FollowedTopic:
    """Reads a topic to its end and follows it, in a thread of its own. Nothing is written or created.

    Attributes:
        states: of all groups; empty while the topic is read for the first time after a failure.
        lag: offsets of one look ago that are not read yet, for a transaction is open, say; ``None``: it is not known.
    """

    spec: TopicSpec
    settings: ClientSettings
    isolation: Isolation
    admin: Admin
    worker: WorkerConfig | None = None
    room: GroupRoom = field(default_factory=GroupRoom)

    def __post_init__(self) -> None:
        self.states = TopicStates(self.spec.topic_type, room=self.room)
        self.lag: int | None = None
        self._stopping = threading.Event()
        self._ends: dict[tuple[str, int], int] = {}
        self._said = LimitedLog(_log, at_first=1, every_s=30.0)
        self._kafka_based_log: KafkaBasedLog | None = None
        self._thread = threading.Thread(target=self._run, name=f"exporter-{self.spec.topic_type.value}", daemon=True)

    @property
    def is_up(self) -> bool:
        """Return whether the topic was read to its end, and the brokers answer."""
        return self.lag is not None

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close the clients."""
        self._stopping.set()
        log = self._kafka_based_log
        if log is not None:
            log.stop(0.1)
        self._thread.join(_AGAIN_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except BaseException as error:  # noqa: BLE001 - what is shown would stand still for ever
                if not self._stopping.is_set():
                    self._said.warning("Reading topic %s begins anew: %s", self.spec.topic, safe_text(error))
            self.lag = None
            self._stopping.wait(_AGAIN_S)

    def _follow(self) -> None:
        """Follow the topic until its log fails."""
        topic = self.spec.topic
        facts = gather_facts(self.admin, [topic])
        require_topic(facts, topic, remedy="create it again, or end the exporter")
        states = TopicStates(self.spec.topic_type, self.worker, self.room)
        log = self._kafka_based_log = KafkaBasedLog(
            self.spec,
            feed=RecordFeed(apply=states.apply),
            admin=self.admin,
            reader=Reader(self.settings, CLIENT_ID, self.isolation),
            context=StartContext(facts=facts),
        )
        try:
            log.start()
            self.states, self._ends = states, {}
            while not self._stopping.is_set():
                self.lag = self._lag_of(log)
                self._stopping.wait(_LOOK_S)
        finally:
            log.stop(0.1)

    def _lag_of(self, log: KafkaBasedLog) -> int | None:
        """Return how many offsets are not read yet; ``None`` while the brokers do not answer."""
        log.check_topic()
        positions, before = log.positions(), self._ends
        try:
            self._ends = self.admin.end_offsets((self.spec.topic, partition) for partition in positions)
        except ConnectShareError as error:
            self._said.warning("The end of topic %s is not known: %s", self.spec.topic, error)
            return None
        return sum(max(0, end - positions[partition]) for (_, partition), end in before.items())
