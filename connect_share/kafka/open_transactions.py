"""Who holds up readers of committed records: the transaction that is open at the last stable offset."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from connect_share.errors import ConnectShareError, ReadToEndTimeoutError
from connect_share.kafka.admin import Admin
from connect_share.kafka.read import read_ranges
from connect_share.model.keys import ClusterGroupId, connector_of, shown, split_key
from connect_share.model.records import OffsetRange, Record, TopicType
from connect_share.worker_config.client_settings import ClientSettings, Isolation

_log = logging.getLogger(__name__)

ASK_S: Final = 3.0
LOG_AFTER_S: Final = 5.0
"""A start that takes longer than this says what it waits for."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that readers of committed records have to wait for.

    Clients of this language cannot list transactions, so all that is known comes from the key of its first record, which
    its writer has chosen: a claim.

    Attributes:
        start_offset: of its first record, the last stable offset.
        cluster_group_id: who claims to have written that record; ``None`` if the key is plain or not one of Connect's.
        plain: the key is one of Connect's, without a prefix.
        transactional_id: what Connect gives the producer of such a record; ``None`` if the key does not say, as on the
            offset topic, where tasks write too.
        connector: whose offsets these are, on an offset topic.
        since_ms: time of its first record, milliseconds since the epoch; its writer has chosen that, too.
    """

    topic: str
    partition: int
    start_offset: int
    cluster_group_id: ClusterGroupId | None
    plain: bool
    transactional_id: str | None
    connector: str | None = None
    since_ms: int | None = None

    def text(self, bootstrap_servers: str) -> str:
        """Return whose it claims to be and what to do."""
        tool = f"kafka-transactions.sh --bootstrap-server {bootstrap_servers}"
        place = f"--topic {self.topic} --partition {self.partition}"
        return (
            f"a transaction is open at {self.topic}[{self.partition}]@{self.start_offset}. {self.claim()}. It ends when it "
            f"is committed or aborted, at the latest after its transaction.timeout.ms (a minute by default), also if its "
            f"producer is dead: wait. If it stays for longer, it hangs. The broker shows the producer id and epoch: "
            f"{tool} describe-producers {place}; stop that producer, then {tool} abort {place} "
            f"--start-offset {self.start_offset}"
        )

    def claim(self) -> str:
        """Return what the key of the first record says; any writer of the topic can choose it."""
        if self.plain:
            return "The key of its first record is that of a cluster with plain keys, transactional id unknown"
        if self.cluster_group_id is None:
            return "Its first record is no record of Connect, transactional id unknown"
        group, leader = str(self.cluster_group_id), shown(f"connect-cluster-{self.cluster_group_id}")
        task = "" if self.connector is None else f"{shown(f'{group}-{self.connector}-<task>')} of a source task or "
        claim = f"it appears to belong to cluster group {shown(group)}, transactional id {task}{leader}"
        return f"By the key of its first record {claim}"


def find_open_transactions(
    admin: Admin,
    settings: ClientSettings,
    topic: str,
    partitions: Collection[int],
    *,
    client_id: str,
    timeout_s: float = ASK_S,
) -> list[OpenTransaction]:
    """Look in which partitions a transaction is open now, and whose it is.

    ``timeout_s`` is the longest wait for each of three answers.

    Raises:
        BrokerError: the brokers did not say.
        ReadToEndTimeoutError: a record could not be read in time.
    """
    at = [(topic, partition) for partition in partitions]
    ends = admin.end_offsets(at, timeout_s=timeout_s)
    # Asked for after the ends: what is committed meanwhile only raises it.
    stable = admin.end_offsets(at, Isolation.READ_COMMITTED, timeout_s=timeout_s)
    # The log is not cleaned from there on, so these are the transactions' own first records.
    first = [OffsetRange(*place, offset, offset + 1) for place, offset in stable.items() if offset < ends[place]]
    records = read_ranges(
        settings, first, isolation=Isolation.READ_UNCOMMITTED, client_id=client_id, idle_timeout_s=timeout_s
    )
    found = {record.partition: record for record in records}
    return [_described(each, found.get(each.partition)) for each in first]


def _described(at: OffsetRange, record: Record | None) -> OpenTransaction:
    topic, partition, offset, _ = at
    key = None if record is None else record.key
    since_ms = None if record is None or record.timestamp_ms < 0 else record.timestamp_ms
    for topic_type in TopicType:  # keys of the three topics have nothing in common
        parts = split_key(topic_type, key or b"")
        if parts is not None:
            group, original = parts
            of_offsets = topic_type is TopicType.OFFSET
            leader = None if group is None or of_offsets else f"connect-cluster-{group}"
            connector = connector_of(topic_type, original) if of_offsets else None
            return OpenTransaction(topic, partition, offset, group, group is None, leader, connector, since_ms)
    return OpenTransaction(topic, partition, offset, None, False, None, since_ms=since_ms)


class OpenTransactions:
    """What a log says of transactions that hold it up.

    Readers of uncommitted records wait for none.
    """

    def __init__(
        self, topic: str, admin: Admin, settings: ClientSettings, *, client_id: str, isolation: Isolation
    ) -> None:
        self._topic = topic
        self._admin = admin
        self._settings = settings
        self._client_id = client_id
        self._committed_only = isolation is Isolation.READ_COMMITTED
        self._log_at_s: float | None = None
        self._logged = False

    def look(self, partitions: Collection[int]) -> None:
        """Called again and again during the first read: after a while, log once what is open in the topic."""
        if not self._committed_only or self._logged:
            return
        if self._log_at_s is None:
            self._log_at_s = time.monotonic() + LOG_AFTER_S
        if time.monotonic() < self._log_at_s:
            return
        self._logged = True
        for found in self._find(self._topic, partitions):
            _log.warning("Reading topic %s waits: %s", self._topic, found.text(self._settings.bootstrap_servers))

    def explained(self, error: ReadToEndTimeoutError) -> ReadToEndTimeoutError:
        """Add whose transaction it is, if one is open where a read to the end got stuck."""
        if error.topic is None or error.partition is None or not self._committed_only:
            return error
        for found in self._find(error.topic, [error.partition]):
            return ReadToEndTimeoutError(
                f"{str(error).split(';', 1)[0]}; {found.text(self._settings.bootstrap_servers)}",
                topic=error.topic,
                partition=error.partition,
                position=error.position,
                end_offset=error.end_offset,
                blocked_by=None if found.cluster_group_id is None else str(found.cluster_group_id),
                transactional_id=found.transactional_id,
            )
        return error

    def _find(self, topic: str, partitions: Collection[int]) -> list[OpenTransaction]:
        try:
            return find_open_transactions(
                self._admin, self._settings, topic, partitions, client_id=self._client_id, timeout_s=ASK_S
            )
        except ConnectShareError as error:  # the time-out itself is the news
            _log.debug("Whether a transaction is open in %s could not be learnt: %s", topic, error)
            return []
