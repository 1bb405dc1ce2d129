"""The results of the cells, and their file."""

from __future__ import annotations

import enum
import json
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field

from connect_share.errors import ConfigError
from connect_share.files import write_private_file
from connect_share.model.records import TopicType
from tests.lab.compatibility.cells import JavaKind, Part
from tests.lab.compatibility.worker_log import LogReading


class Outcome(enum.StrEnum):
    """The outcome of a cell: every check held, or one did not."""

    SHARES = "shares"
    FAILS = "fails"


class JavaEvidence(Part):
    """One group of Java workers.

    Attributes:
        connectors: that it had at the end.
        starts: of its worker, the first one included.
        kills: starts that came after a SIGKILL.
        lines_written: to the files of its source connectors.
        lines_arrived: records in their topics; equal, or a line was lost or read twice.
        missing_statuses: task statuses that a 2.8 worker's restart lost (it does so without sharing too); the tasks run.
        alone: restart while the topics held this group's records only; ``None`` if that was not measured.
        beside: restart among the records of all others.
        foreign: records of others in each topic at that restart.
    """

    kind: JavaKind
    connectors: int
    starts: int
    kills: int
    lines_written: int
    lines_arrived: int
    missing_statuses: int
    alone: LogReading | None
    beside: LogReading
    foreign: dict[TopicType, int]


class PythonEvidence(Part):
    """One Python group: what it holds at the end, and how often its stores were started."""

    connectors: int
    statuses: int
    offsets: int
    starts: int


class CellResult(Part):
    """The result of a cell.

    Attributes:
        measured_on: the day, UTC.
        load: processes that wanted a processor when it began, mean of a minute.
        product: version of connect-share.
        machine: where it was measured, for people.
    """

    broker: str
    kinds: tuple[JavaKind, ...]
    outcome: Outcome
    reason: str
    java: tuple[JavaEvidence, ...]
    python: tuple[PythonEvidence, ...]
    seconds: float
    measured_on: str
    load: float
    product: str
    machine: str


class Document(Part):
    """All of a file of results."""

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file; one that is not there has no results."""
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} has no results of this program ({type(error).__name__})") from error


class Matrix(Document):
    """The results of all cells, by their names."""

    model_config = ConfigDict(frozen=True, extra="ignore")  # earlier files say which program has made them

    format: Literal[2] = 2
    cells: dict[str, CellResult] = Field(default_factory=dict)


def save_document(path: Path, found: dict[str, Any]) -> None:
    """Write the file; after a kill it is the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private_file(path, (json.dumps(found, indent=1, ensure_ascii=False) + "\n").encode(), mode=0o644)
