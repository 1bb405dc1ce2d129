"""Using a checkpoint for a start, if it is provably as good as a full read, and writing one while the stores run."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

from connect_share.admin import Admin
from connect_share.checkpoint.file import (
    Checkpoint,
    CheckpointRejected,
    TopicCheckpoint,
    read_checkpoint,
    write_checkpoint,
)
from connect_share.checkpoint.proof import TopicNow, why_not_usable
from connect_share.errors import (
    AuthorizationError,
    BrokerError,
    RecordFileError,
    TopicRecreatedError,
    safe_text,
)
from connect_share.keys import ClusterGroupId
from connect_share.log import TopicFacts, gather_facts
from connect_share.records import TopicType
from connect_share.stores.topic_based import KafkaTopicBasedBackingStore
from connect_share.worker_config import WorkerConfig

_logger = logging.getLogger(__name__)

SAVE_EVERY_S: Final = 300.0
_SAVE_TIMEOUT_S: Final = 10.0
_RETENTION: Final = "delete.retention.ms"


def own_checkpoint(path: Path, worker: WorkerConfig) -> Checkpoint:
    """Read a checkpoint of this worker's group; the cluster is not asked, so it may be out of date.

    Raises:
        CheckpointRejected: there is none, it is damaged, or it is another group's.
    """
    checkpoint = read_checkpoint(path)
    if checkpoint is None:
        raise CheckpointRejected("there is none yet")
    group = worker.cluster_group_id
    if checkpoint.cluster_group_id != group:
        raise CheckpointRejected(f"it is of {_whose(checkpoint.cluster_group_id)}, not of {_whose(group)}")
    return checkpoint


def proven(
    checkpoint: Checkpoint, worker: WorkerConfig, admin: Admin, facts: Mapping[str, TopicFacts]
) -> tuple[dict[str, TopicFacts], Mapping[str, Mapping[str, str] | BrokerError]]:
    """Prove that going on from a checkpoint gives what a full read would.

    Returns:
        The facts with where to begin, and the settings of the topics, or why they may not be read.

    Raises:
        CheckpointRejected: it does not, or it cannot be known.
        BrokerError: the cluster did not answer.
    """
    names = {topic_type: worker.topic(topic_type) for topic_type in TopicType}
    missing = [topic for topic in names.values() if topic not in facts]
    if missing:
        raise CheckpointRejected(f"topic {missing[0]} does not exist")
    partitions = [(name, number) for name, topic in facts.items() for number in topic.end_offsets]
    with ThreadPoolExecutor(1, thread_name_prefix="connect-storage-proof") as threads:
        asked_starts = threads.submit(admin.start_offsets, partitions)
        settings = admin.settings_of_topics(names.values())
        starts = asked_starts.result()
    age_ms = _now_ms() - checkpoint.taken_at_ms
    for topic_type, topic in names.items():
        now = TopicNow(
            topic=topic,
            topic_id=facts[topic].description.topic_id,
            isolation=worker.isolation(topic_type).value,
            log_starts={number: starts[topic, number] for number in facts[topic].end_offsets},
            end_offsets=facts[topic].end_offsets,
            leader_epochs=facts[topic].leader_epochs,
            delete_retention_ms=_delete_retention_ms(settings[topic]),
        )
        reason = why_not_usable(checkpoint.of(topic_type), now, age_ms=age_ms)
        if reason is not None:
            raise CheckpointRejected(reason)
    begin = {
        topic: replace(facts[topic], starts=checkpoint.of(topic_type).positions) for topic_type, topic in names.items()
    }
    return {**facts, **begin}, settings


def _whose(group: str | None) -> str:
    return "a plain cluster" if group is None else f"cluster group {group}"


def _delete_retention_ms(settings: Mapping[str, str] | BrokerError) -> int | None:
    if isinstance(settings, AuthorizationError):
        return None
    if isinstance(settings, BrokerError):
        raise settings
    retention_ms = settings.get(_RETENTION, "")
    return int(retention_ms) if retention_ms.isdigit() else None


def _now_ms() -> int:
    return int(time.time() * 1000)


class CheckpointWriter:
    """Writes the checkpoint of running stores: when asked, every few minutes, and once more at the end.

    ``topic_ids`` are those that the topics had when the stores started.
    """

    def __init__(
        self,
        path: Path,
        worker: WorkerConfig,
        admin: Admin,
        stores: Mapping[TopicType, KafkaTopicBasedBackingStore],
        topic_ids: Mapping[TopicType, str | None],
        *,
        every_s: float = SAVE_EVERY_S,
    ) -> None:
        self._path = path
        self._worker = worker
        self._admin = admin
        self._stores = dict(stores)
        self._topic_ids = dict(topic_ids)
        self._every_s = every_s
        self._one_at_a_time = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connect-storage-checkpoint", daemon=True)

    def start(self) -> None:
        """Write the first version now and others later, in a thread."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Write the last version and end the thread, within ``timeout_s``: if not, the file of before stays."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                _logger.warning("Checkpoint %s was not written again: no time was left", self._path)

    def save(self) -> None:
        """Write a version of all that is in the topics now.

        Raises:
            RecordFileError: the file cannot be written, or the topics can give no proof (no id, or a new one).
            ConnectShareError: a store does not run, or did not reach the end of its topic in time.
        """
        with self._one_at_a_time:
            # Before anything else: what is true of this moment is true of the positions, which are not behind it.
            taken_at_ms = _now_ms()
            names = {topic_type: self._worker.topic(topic_type) for topic_type in TopicType}
            facts = gather_facts(self._admin, names.values())
            starts = self._admin.start_offsets((name, number) for name in facts for number in facts[name].end_offsets)
            parts: dict[str, TopicCheckpoint] = {}
            for topic_type, topic in names.items():
                topic_id = self._topic_id(topic_type, facts.get(topic))
                positions, state = self._stores[topic_type].save(_SAVE_TIMEOUT_S)
                parts[topic_type.value] = TopicCheckpoint(
                    topic=topic,
                    topic_id=topic_id,
                    isolation=self._worker.isolation(topic_type).value,
                    log_starts={number: starts[topic, number] for number in facts[topic].end_offsets},
                    positions=positions,
                    leader_epochs=dict(facts[topic].leader_epochs),
                    state=state,
                )
            group: ClusterGroupId | None = self._worker.cluster_group_id
            checkpoint = Checkpoint(
                cluster_group_id=None if group is None else str(group), taken_at_ms=taken_at_ms, **parts
            )
            try:
                write_checkpoint(self._path, checkpoint)
            except OSError as error:
                raise RecordFileError(
                    f"checkpoint {self._path} cannot be written ({error.strerror}): make room or choose another place",
                    path=str(self._path),
                ) from error

    def _topic_id(self, topic_type: TopicType, facts: TopicFacts | None) -> str:
        topic, old_id = self._worker.topic(topic_type), self._topic_ids[topic_type]
        if facts is None or (old_id is not None and facts.description.topic_id != old_id):
            raise TopicRecreatedError(
                f"topic {topic} is not the one that was read; no checkpoint is written",
                topic=topic,
                old_id=old_id,
                new_id=None if facts is None else facts.description.topic_id,
            )
        if old_id is None:
            raise RecordFileError(
                f"no checkpoint is written to {self._path}: the brokers are too old to give the id of topic {topic}",
                path=str(self._path),
            )
        return old_id

    def _run(self) -> None:
        self._try_to_save()
        while not self._stopping.wait(self._every_s):
            self._try_to_save()
        self._try_to_save()

    def _try_to_save(self) -> None:
        try:
            self.save()
        except Exception as error:  # noqa: BLE001 - the next one may be written
            _logger.warning("Checkpoint %s was not written: %s", self._path, safe_text(error))
