"""The header of a backup file; ``docs/backup-format.md``."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from connect_share.errors import RecordFileError
from connect_share.record_file import RecordFile
from connect_share.records import TopicType
from connect_share.worker_config.client_settings import Isolation

What = Literal["backup of a migration", "export"]
BACKUP: Final = "backup of a migration"
EXPORT: Final = "export"


class BackedUpTopic(BaseModel):
    """One topic in a backup.

    Attributes:
        section: number of the section of the file that holds its records.
        ranges: per partition what was read, ``[start, end)``.
        topic_id: in a segment: of the topic that was read.
    """

    model_config = ConfigDict(frozen=True)

    section: int
    kafka_cluster_id: str | None
    topic: str
    topic_type: TopicType
    isolation: Isolation
    ranges: dict[int, tuple[int, int]]
    topic_id: str | None = None


class Origin(BaseModel):
    """One key space whose records are in a backup.

    Attributes:
        side: of the migration.
        group_id: ``group.id`` of the workers it belonged to; at a destination with plain keys that is not known.
        plain: its keys are plain; otherwise they have the prefix ``group_id``.
        becomes: the prefix the migration gave it; ``None``: plain keys.
        connectors: what was moved of it; ``None`` is everything.
        topics: number of its topics in ``BackupContents.topics``.
    """

    model_config = ConfigDict(frozen=True)

    side: Literal["source", "destination"]
    group_id: str | None
    plain: bool
    becomes: str | None = None
    connectors: tuple[str, ...] | None = None
    topics: dict[TopicType, int]


class Segment(BaseModel):
    """The place of a file in a continuous backup.

    Attributes:
        sequence: the files follow each other without a gap.
        kind: a base holds all that the topics had, an increment what was written behind the file before it.
        at_ms: by the clock of this machine, when the ends of its ranges were known: nothing written later is in it.
        groups: what is backed up; ``None`` in it is the cluster with plain keys, no groups at all: every one.
        connectors: the only ones; ``None``: all.
    """

    model_config = ConfigDict(frozen=True)

    sequence: int
    kind: Literal["base", "increment"]
    at_ms: int
    groups: tuple[str | None, ...] | None
    connectors: tuple[str, ...] | None


class BackupContents(BaseModel):
    """The header of a backup; holds no record and no secret.

    Attributes:
        encrypted_with: id of the key that the values are encrypted with; ``None``: they are as on the topics.
    """

    model_config = ConfigDict(frozen=True)

    what: What = BACKUP
    run_id: str
    made_at_ms: int
    version: str
    topics: tuple[BackedUpTopic, ...]
    origins: tuple[Origin, ...]
    segment: Segment | None = None
    encrypted_with: int | None = None


class BackupFile(BaseModel):
    """The backup that was made before the first write.

    Attributes:
        file: its name; it lies beside the plan.
        topics: how many records of each topic are in it.
        sha256: of the file's bytes.
        seconds: what it took.
        left_out: by topic: records of its groups that are not moved and could not be carried whole.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    records: int
    topics: dict[str, int]
    size_bytes: int
    sha256: str
    seconds: float
    left_out: dict[str, int] = {}


def read_contents(file: RecordFile) -> BackupContents:
    """Return the header of a backup.

    Raises:
        RecordFileError: the file is no backup.
    """
    try:
        return BackupContents.model_validate(file.about)
    except ValidationError as error:
        raise RecordFileError(
            f"{file.path} holds records, but is no {BACKUP} and no {EXPORT} that this version can read",
            path=str(file.path),
        ) from error
