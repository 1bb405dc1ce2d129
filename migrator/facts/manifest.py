"""The manifest of a plan: what was done with it. Written before the first record and while slices end."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from connect_share.backup.contents import BackupFile
from connect_share.records import OffsetRange, TopicType
from connect_share.state import TargetState
from migrator.copy.evidence import SliceEvidence
from migrator.facts.bystanders import TopicBaseline
from migrator.plan.plan import load_model, write_plan_file

MANIFEST_FORMAT: Final = "connect-share/migration-manifest/2"


class MigrationStatus(enum.Enum):
    """The progress of a plan.

    ``PLANNED``: writing was allowed to begin and has not ended; the destination holds nothing or a part.
    ``COPIED``: every slice is there. ``VERIFIED``: both sides were found equal too. ``CUT_OVER``: the source was fenced
    and sealed too; new workers may run. ``ROLLED_BACK``: what was written was removed again.
    """

    PLANNED = "planned"
    COPIED = "copied"
    VERIFIED = "verified"
    CUT_OVER = "cut_over"
    ROLLED_BACK = "rolled_back"


class WrittenTopic(BaseModel):
    """A destination topic as it was when writing began.

    Attributes:
        end_offsets: per partition the end before the first record was written.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    topic: str
    topic_id: str | None
    created: bool
    end_offsets: dict[int, int]


class Followed(BaseModel):
    """The mirroring of a live source behind the planned ends.

    Attributes:
        positions: per source topic partition (``Manifest.place``) the next offset to be read.
        destination_ends: per topic type and partition the end of what the plan wrote at the destination. Behind it lies
            what a killed run has left, and what new workers have written.
        written: records written while following.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    positions: dict[str, int] = {}
    destination_ends: dict[TopicType, dict[int, int]] = {}
    written: int = 0


class Sealed(BaseModel):
    """The records written to the source so that a worker started there by mistake runs nothing.

    Attributes:
        how: ``stop`` wrote the target state STOPPED, ``remove`` removed the records that were moved.
        records: how many were written.
        target_states: per source the target state that each connector had before ``stop``; the cleaner takes the records.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    how: Literal["stop", "remove"]
    records: int
    at_ms: int
    target_states: tuple[dict[str, TargetState], ...] = ()


class Manifest(BaseModel):
    """The record of one ``apply``.

    Attributes:
        plan_sha256: of the plan file's bytes.
        destination: the topics written to, as they were before.
        resumed: how often an interrupted run was continued.
        evidence: of the slices that were copied to their end.
        followed: how far the source was mirrored afterwards.
        sealed: what was done to the source after the cut-over.
        isolation: the records of other groups at the destination before the first write, with ``--isolation-proof``.
        backup: the file that holds what was read and replaced; ``None``: no backup was wanted.
        mirrored_backup: the file with what was mirrored behind it, made before originals are removed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["connect-share/migration-manifest/2"] = MANIFEST_FORMAT
    run_id: str
    plan_sha256: str
    fingerprint: str
    engine: str
    status: MigrationStatus
    started_at_ms: int
    finished_at_ms: int | None = None
    destination: dict[TopicType, WrittenTopic]
    slices_planned: int
    resumed: int = 0
    evidence: tuple[SliceEvidence, ...] = ()
    followed: Followed | None = None
    sealed: Sealed | None = None
    isolation: dict[TopicType, TopicBaseline] | None = None
    backup: BackupFile | None = None
    mirrored_backup: BackupFile | None = None

    @property
    def records_written(self) -> int:
        """Records acknowledged so far, markers not counted."""
        return sum(evidence.written for evidence in self.evidence)

    @staticmethod
    def place(source_index: int, offset_range: OffsetRange) -> str:
        """Return the name of a source partition inside :class:`Followed`."""
        return f"{source_index}/{offset_range.topic}[{offset_range.partition}]"

    def read_ranges_of(self, source_index: int, planned: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
        """Return the source ranges that were copied: the planned ones, and what was mirrored behind them."""
        positions = {} if self.followed is None else self.followed.positions
        return tuple(each._replace(end=positions.get(self.place(source_index, each), each.end)) for each in planned)

    def written_up_to(self, topic_type: TopicType, evidence: Iterable[SliceEvidence] = ()) -> dict[int, int]:
        """Return per partition the end of what the plan has written to a topic, or else the end there was before.

        Args:
            topic_type: of the topic.
            evidence: of what was mirrored and is not noted yet.
        """
        ends = dict(self.destination[topic_type].end_offsets)
        if self.followed is not None:
            for number, end in self.followed.destination_ends.get(topic_type, {}).items():
                ends[number] = max(ends.get(number, 0), end)
        for each in (*self.evidence, *evidence):
            if each.topic_type is topic_type:
                for number, (_, offset) in each.destination_offsets.items():
                    ends[number] = max(ends.get(number, 0), offset + 1)
        return ends

    def save(self, path: Path) -> None:
        """Replace the file as one step, mode 0600."""
        write_plan_file(path, self.model_dump_json(indent=2) + "\n")

    @classmethod
    def load(cls, path: Path) -> Manifest:
        """Read a manifest.

        Raises:
            PlanFileError: missing or damaged.
        """
        return load_model(cls, path, "manifest")


def manifest_path(plan_path: Path) -> Path:
    """Return where the manifest of a plan is: ``move.json`` has ``move.manifest.json``."""
    return plan_path.with_name(f"{plan_path.stem}.manifest.json")


def backup_path(plan_path: Path) -> Path:
    """Return where the backup of a plan is: ``move.json`` has ``move.backup.avro``."""
    return plan_path.with_name(f"{plan_path.stem}.backup.avro")


def mirrored_backup_path(plan_path: Path) -> Path:
    """Return where the backup of what was mirrored is: ``move.json`` has ``move.mirrored.avro``."""
    return plan_path.with_name(f"{plan_path.stem}.mirrored.avro")
