"""The file: one line that says what follows and its hash, then JSON. Holds secrets, hence mode 0600.

A file that is damaged, of another format or another user's is recognised before anything in it is used.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from connect_share.private_file import write_private_file
from connect_share.records import TopicType

FORMAT: Final = "connect-share/checkpoint/1"
_HEAD: Final = re.compile(rb"(connect-share/checkpoint/\d+) bytes=(\d+) sha256=([0-9a-f]{64})\n")
_LONGEST_HEAD: Final = 200


class CheckpointRejected(Exception):  # noqa: N818 - no error: a full read follows
    """Why a checkpoint is not used; the text is safe to log."""


class TopicCheckpoint(BaseModel):
    """One topic as it was when the checkpoint was taken.

    Attributes:
        topic_id: as Kafka prints it.
        isolation: with which it was read, as the client's setting: aborted records may be in the state without it.
        log_starts: first offset of each partition.
        positions: next offset to be read of each partition.
        leader_epochs: of the leaders when the positions were the ends; -1 where they do not say.
        state: what the store's fold gives as saved; never shown, it holds secrets.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    topic: str
    topic_id: str
    isolation: str
    log_starts: dict[int, int]
    positions: dict[int, int]
    leader_epochs: dict[int, int]
    state: Any = Field(repr=False)


class Checkpoint(BaseModel):
    """What the three stores of one cluster group believed.

    Attributes:
        cluster_group_id: ``None`` for a plain cluster.
        taken_at_ms: by the local clock, not later than the time at which all positions were the ends.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

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
    head = f"{FORMAT} bytes={len(body)} sha256={hashlib.sha256(body).hexdigest()}\n"
    write_private_file(path, head.encode() + body)


def read_checkpoint(path: Path) -> Checkpoint | None:
    """Read a file, or ``None`` if there is none.

    Raises:
        CheckpointRejected: it cannot be read, others could have written it, it is damaged, or no checkpoint of this format.
    """
    try:
        # A named pipe would hold the start up for ever.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            # The user who can write it decides what is believed.
            if not stat.S_ISREG(found.st_mode) or found.st_uid not in (0, os.geteuid()):
                raise CheckpointRejected("it belongs to another user, or is not a regular file")
            if found.st_mode & stat.S_IWOTH:
                raise CheckpointRejected("every user may write to it")
            data = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointRejected(f"it cannot be read ({error.strerror})") from None
    head = _HEAD.match(data[:_LONGEST_HEAD])
    if head is None:
        raise CheckpointRejected("it is not a checkpoint")
    if head[1] != FORMAT.encode():
        raise CheckpointRejected(f"its format is {head[1].decode()}, this version reads {FORMAT}")
    body = data[head.end() :]
    if len(body) != int(head[2]) or hashlib.sha256(body).hexdigest().encode() != head[3]:
        raise CheckpointRejected("it is damaged: its checksum does not fit")
    try:
        return Checkpoint.model_validate(_with_numbers(json.loads(body)))
    except (ValidationError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        # The parser's own words would quote what is in the file.
        raise CheckpointRejected("its content is not valid for this version") from None


def _with_numbers(plain: Any) -> Any:
    """Partitions are text in JSON."""
    for topic_type in TopicType:
        part = plain[topic_type.value]
        for name in ("log_starts", "positions", "leader_epochs"):
            part[name] = {int(partition): offset for partition, offset in part[name].items()}
    return plain
