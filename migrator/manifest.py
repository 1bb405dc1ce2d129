"""What was done with a plan: a file beside it, written before the first record and after each slice."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from connect_share.records import TopicType
from migrator.evidence import SliceEvidence
from migrator.plan import load_model
from migrator.private_file import write_private_file

MANIFEST_FORMAT: Final = "connect-share/migration-manifest/2"


class MigrationStatus(enum.Enum):
    """How far a plan has come.

    ``PLANNED``: writing was allowed to begin and has not ended; the destination holds nothing or a part.
    ``COPIED``: every slice is there. ``VERIFIED``: and both sides were found equal.
    """

    PLANNED = "planned"
    COPIED = "copied"
    VERIFIED = "verified"


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


class Manifest(BaseModel):
    """The record of one ``apply``.

    Attributes:
        plan_sha256: of the plan file's bytes.
        destination: the topics written to, as they were before.
        resumed: how often an interrupted run was gone on with.
        evidence: of the slices that were copied to their end.
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

    @property
    def records_written(self) -> int:
        """Records acknowledged so far, markers not counted."""
        return sum(evidence.written for evidence in self.evidence)

    def save(self, path: Path) -> None:
        """Replace the file as one step, mode 0600."""
        write_private_file(path, self.model_dump_json(indent=2) + "\n")

    @classmethod
    def load(cls, path: Path) -> Manifest:
        """Read a manifest.

        Raises:
            PlanFileError: missing or damaged.
        """
        return load_model(cls, path, "manifest")


def manifest_path(plan_path: Path) -> Path:
    """Where the manifest of a plan is: ``move.json`` has ``move.manifest.json``."""
    return plan_path.with_name(f"{plan_path.stem}.manifest.json")
