"""Checkpoints: when one and what is new are provably as good as a full read, and writing one while the stores run.

The file is one line that says what follows and its hash, then JSON. It holds secrets, hence mode 0600. One that is damaged,
of another format or another user's is recognised before anything in it is used.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import re
import stat
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field

from connect_share.errors import RecordFileError, TopicRecreatedError, safe_text
from connect_share.files import open_regular, write_private_file, writing
from connect_share.kafka.admin import Admin
from connect_share.kafka.facts import TopicFacts, read_facts
from connect_share.log.threads import BackgroundThread
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import TopicType, now_ms
from connect_share.stores.base import KafkaTopicBasedBackingStore
from connect_share.worker_config import WorkerConfig

FORMAT: Final = "connect-share/checkpoint/1"
_HEAD: Final = re.compile(rb"(connect-share/checkpoint/\d+) bytes=(\d+) sha256=([0-9a-f]{64})\n")
_LONGEST_HEAD: Final = 200
LARGEST_BYTES: Final = 1 << 30  # a larger state comes as soon from its topics


class NotUsed(StrEnum):
    """Why everything is read in place of going on from a checkpoint: all there is, for logs and counters."""

    NO_FILE = "no-file"
    NOT_READABLE = "not-readable"
    NOT_PRIVATE = "not-private"
    OTHER_FORMAT = "other-format"
    DAMAGED = "damaged"
    NOT_VALID = "not-valid"
    OTHER_GROUP = "other-group"
    OTHER_TOPIC = "other-topic"
    TOPIC_MISSING = "topic-missing"
    NO_TOPIC_ID = "no-topic-id"
    TOPIC_RECREATED = "topic-recreated"
    OTHER_ISOLATION = "other-isolation"
    OTHER_PARTITIONS = "other-partitions"
    BEGINNING_DELETED = "beginning-deleted"
    TRUNCATED = "truncated"
    OTHER_LEADER = "other-leader"
    OFFSETS_MISSING = "offsets-missing"
    FAILED = "failed"


class CheckpointRejected(Exception):  # noqa: N818 - no error: a full read follows
    """Why a checkpoint is not used; the text is safe to log."""

    def __init__(self, reason: NotUsed, text: str) -> None:
        super().__init__(text)
        self.reason = reason


_Partition = Annotated[int, Field(ge=0, lt=2**31, strict=False)]  # text in JSON, as all names of members
_Offset = Annotated[int, Field(ge=0, lt=2**63)]


class TopicCheckpoint(BaseModel):
    """One topic as it was when the checkpoint was taken.

    Attributes:
        isolation: with which it was read, as the client's setting: aborted records may be in the state without it.
        leader_epochs: of the leaders when the positions were the ends; -1 where they do not say.
        state: what the store's fold gives as saved; never shown, it holds secrets.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    topic: str
    topic_id: str
    isolation: str
    log_starts: dict[_Partition, _Offset]
    positions: dict[_Partition, _Offset]
    leader_epochs: dict[_Partition, Annotated[int, Field(ge=-1, lt=2**31)]]
    state: Any = Field(repr=False)


class Checkpoint(BaseModel):
    """The state of the three stores of one cluster group.

    Attributes:
        cluster_group_id: ``None`` for a plain cluster.
        taken_at_ms: by the local clock, not later than the time at which all positions were the ends; for people.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    cluster_group_id: str | None
    taken_at_ms: int
    config: TopicCheckpoint
    status: TopicCheckpoint
    offset: TopicCheckpoint

    def of(self, topic_type: TopicType) -> TopicCheckpoint:
        """Return the part of one topic."""
        return {TopicType.CONFIG: self.config, TopicType.STATUS: self.status, TopicType.OFFSET: self.offset}[topic_type]


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file as one step, mode 0600.

    Raises:
        OSError: it cannot be written, or a configuration is nested too deeply; what was there before is untouched.
    """
    # Not pydantic's own JSON: numbers in configurations have to come back exactly as they were.
    try:
        body = json.dumps(checkpoint.model_dump(), separators=(",", ":")).encode()
    except RecursionError as error:  # which a record of the group may be made for
        raise OSError(errno.EOVERFLOW, "a configuration is nested too deeply for a checkpoint") from error
    if len(body) > LARGEST_BYTES:
        raise OSError(errno.EFBIG, f"it would be longer than {LARGEST_BYTES >> 20} MiB")
    head = f"{FORMAT} bytes={len(body)} sha256={hashlib.sha256(body).hexdigest()}\n"
    write_private_file(path, head.encode() + body)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a file.

    Raises:
        CheckpointRejected: none is there, it cannot be read, others could write it, it is damaged, or of another format.
    """
    try:
        with open_regular(path) as file:
            found = os.fstat(file.fileno())
            # Who can write it decides what the stores serve.
            if found.st_uid not in (0, getattr(os, "geteuid", int)()):  # Windows has no users of files: 0
                raise CheckpointRejected(NotUsed.NOT_PRIVATE, "it belongs to another user")
            if found.st_mode & stat.S_IWOTH:
                raise CheckpointRejected(NotUsed.NOT_PRIVATE, "every user may write to it")
            data = file.read(_LONGEST_HEAD)
            if _HEAD.match(data):  # of no other file all of it
                data += file.read(min(found.st_size, LARGEST_BYTES))
    except FileNotFoundError:
        raise CheckpointRejected(NotUsed.NO_FILE, "there is none yet") from None
    except OSError as error:
        raise CheckpointRejected(NotUsed.NOT_READABLE, f"it cannot be read ({error.strerror})") from None
    head = _HEAD.match(data[:_LONGEST_HEAD])
    if head is None:
        raise CheckpointRejected(NotUsed.OTHER_FORMAT, "it is not a checkpoint")
    if head[1] != FORMAT.encode():
        raise CheckpointRejected(NotUsed.OTHER_FORMAT, f"its format is {head[1].decode()}, this version reads {FORMAT}")
    body = data[head.end() :]
    if len(body) != int(head[2]) or hashlib.sha256(body).hexdigest().encode() != head[3]:
        raise CheckpointRejected(NotUsed.DAMAGED, "it is damaged: its checksum does not fit")
    try:
        return Checkpoint.model_validate(json.loads(body))
    except (ValueError, RecursionError):
        # The parser's own words would quote what is in the file.
        raise CheckpointRejected(NotUsed.NOT_VALID, "its content is not valid for this version") from None


def require_usable(saved: TopicCheckpoint, now: TopicFacts, *, isolation: str) -> None:
    """Refuse a checkpoint where a full read is needed.

    Four things make a checkpoint as good as a full read: it is the same topic; nothing before the positions went away
    other than by compaction, which keeps what a fold needs; the log behind the positions goes on from the log before them,
    that is each partition still has the leader it had: only a new leader cuts a log; and nothing behind the positions went
    away unread, which the read itself shows: see ``StartContext.gapless``.

    Args:
        saved: what the checkpoint has of the topic.
        now: what the cluster says, with the first offset that is kept of each partition.
        isolation: with which it will be read.
    """
    where = now.topic
    numbers = [set(each) for each in (now.starts, saved.positions, saved.log_starts, saved.leader_epochs)]
    _refuse(saved.topic != where, NotUsed.OTHER_TOPIC, f"it is of topic {saved.topic}, not of {where}")
    _refuse(
        now.topic_id is None, NotUsed.NO_TOPIC_ID, f"the brokers give no id of topic {where}, so it may be another one"
    )
    again = f"topic {where} was created again: its id was {saved.topic_id} and is {now.topic_id}"
    _refuse(saved.topic_id != now.topic_id, NotUsed.TOPIC_RECREATED, again)
    otherwise = f"topic {where} was read {saved.isolation} and is read {isolation}"
    _refuse(saved.isolation != isolation, NotUsed.OTHER_ISOLATION, otherwise)
    _refuse(numbers != [set(now.ends)] * 4, NotUsed.OTHER_PARTITIONS, f"topic {where} has other partitions now")
    for partition, end in sorted(now.ends.items()):
        place, position, start = f"{where}[{partition}]", saved.positions[partition], now.starts[partition]
        moved = f"records at the beginning of {place} were deleted"
        _refuse(start != saved.log_starts[partition], NotUsed.BEGINNING_DELETED, moved)
        cut = f"{place} was truncated: it ended at {position} and ends at {end}"
        _refuse(not start <= position <= end, NotUsed.TRUNCATED, cut)
        before, after = saved.leader_epochs[partition], now.leader_epochs.get(partition, -1)
        other = f"{place} has another leader (epoch {before}, now {after}): its log may have been cut"
        _refuse(before < 0 or before != after, NotUsed.OTHER_LEADER, other)


def _refuse(holds: bool, reason: NotUsed, text: str) -> None:
    if holds:
        raise CheckpointRejected(reason, text)


_logger = logging.getLogger(__name__)

SAVE_EVERY_S: Final = 300.0
_SAVE_TIMEOUT_S: Final = 10.0


def own_checkpoint(path: Path, worker: WorkerConfig) -> Checkpoint:
    """Read a checkpoint of this worker's group; the cluster is not asked, so it may be out of date.

    Raises:
        CheckpointRejected: there is none, it is damaged, or it is another group's.
    """
    checkpoint = read_checkpoint(path)
    group = worker.cluster_group_id
    if checkpoint.cluster_group_id != group:
        text = f"it is of {_whose(checkpoint.cluster_group_id)}, not of {_whose(group)}"
        raise CheckpointRejected(NotUsed.OTHER_GROUP, text)
    return checkpoint


def proven(checkpoint: Checkpoint, worker: WorkerConfig, facts: Mapping[str, TopicFacts]) -> dict[str, TopicFacts]:
    """Prove that going on from a checkpoint gives what a full read would, if then every offset comes.

    Returns:
        The facts with where to begin.

    Raises:
        CheckpointRejected: it does not, or it cannot be known.
    """
    names = {topic_type: worker.topic(topic_type) for topic_type in TopicType}
    missing = [topic for topic in names.values() if topic not in facts]
    if missing:
        raise CheckpointRejected(NotUsed.TOPIC_MISSING, f"topic {missing[0]} does not exist")
    begin: dict[str, TopicFacts] = {}
    for topic_type, topic in names.items():
        saved = checkpoint.of(topic_type)
        require_usable(saved, facts[topic], isolation=worker.isolation(topic_type).value)
        begin[topic] = replace(facts[topic], starts=saved.positions)
    return begin


def _whose(group: str | None) -> str:
    return "a plain cluster" if group is None else f"cluster group {group}"


@dataclass(eq=False, repr=False)
class CheckpointWriter:
    """Writes the checkpoint of running stores: when asked, every few minutes, and once more at the end.

    ``topic_ids`` are those that the topics had when the stores started.
    """

    path: Path
    worker: WorkerConfig
    admin: Admin
    stores: Mapping[TopicType, KafkaTopicBasedBackingStore]
    topic_ids: Mapping[TopicType, str | None]
    every_s: float

    def __post_init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._stopping = threading.Event()
        self._thread = BackgroundThread("connect-storage-checkpoint", self._run, self.stores[TopicType.CONFIG].fail)

    def start(self) -> None:
        """Write the first version now and others later, in a thread."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Write the last version and end the thread, within ``timeout_s``: if not, the file of before stays."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                _logger.warning("Checkpoint %s was not written again: no time was left", self.path)

    def save(self) -> None:
        """Write a version of all that is in the topics now.

        Raises:
            RecordFileError: the file cannot be written, or the topics can give no proof (no id, or a new one).
            ConnectShareError: a store does not run, or did not reach the end of its topic in time.
        """
        with self._one_at_a_time:
            # Before anything else: what is true of this moment is true of the positions, which are not behind it.
            taken_at_ms = now_ms()
            names = {topic_type: self.worker.topic(topic_type) for topic_type in TopicType}
            facts = read_facts(self.admin, names.values(), expected=True)
            parts: dict[str, TopicCheckpoint] = {}
            for topic_type, topic in names.items():
                topic_id = self._topic_id(topic_type, facts.get(topic))
                positions, state = self.stores[topic_type].save(_SAVE_TIMEOUT_S)
                parts[topic_type.value] = TopicCheckpoint(
                    topic=topic,
                    topic_id=topic_id,
                    isolation=self.worker.isolation(topic_type).value,
                    log_starts=dict(facts[topic].starts),
                    positions=positions,
                    leader_epochs=dict(facts[topic].leader_epochs),
                    state=state,
                )
            group: ClusterGroupId | None = self.worker.cluster_group_id
            checkpoint = Checkpoint(
                cluster_group_id=None if group is None else str(group), taken_at_ms=taken_at_ms, **parts
            )
            with writing(self.path, partial(RecordFileError, path=str(self.path))):
                write_checkpoint(self.path, checkpoint)

    def _topic_id(self, topic_type: TopicType, facts: TopicFacts | None) -> str:
        topic, old_id = self.worker.topic(topic_type), self.topic_ids[topic_type]
        if facts is None or (old_id is not None and facts.description.topic_id != old_id):
            raise TopicRecreatedError(
                f"topic {topic} is not the one that was read; no checkpoint is written",
                topic=topic,
                old_id=old_id,
                new_id=None if facts is None else facts.description.topic_id,
            )
        if old_id is None:
            raise RecordFileError(
                f"no checkpoint is written to {self.path}: the brokers are too old to give the id of topic {topic}",
                path=str(self.path),
            )
        return old_id

    def _run(self) -> None:
        self._try_to_save()
        while not self._stopping.wait(self.every_s):
            self._try_to_save()
        self._try_to_save()

    def _try_to_save(self) -> None:
        try:
            self.save()
        except Exception as error:  # noqa: BLE001 - the next one may be written
            _logger.warning("Checkpoint %s was not written: %s", self.path, safe_text(error))
