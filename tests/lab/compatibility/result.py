"""The results of the cells, and their file."""

from __future__ import annotations

import enum
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from connect_share.errors import ConfigError
from connect_share.model.records import TopicType
from tests.lab.compatibility.cells import Cell, JavaKind
from tests.lab.compatibility.worker_log import LogReading

FORMAT: Final = 2
_REASON_CHARS: Final = 400


class Outcome(enum.StrEnum):
    """The outcome of a cell."""

    SHARES = "shares"
    """Every check held."""
    EXPLAINED = "explained"
    """These versions cannot work together, shared topics or not; the reason is known."""
    FAILS = "fails"


class Part(BaseModel):
    """A part of a result."""

    model_config = ConfigDict(frozen=True, extra="forbid")


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


class Machine(Part):
    """Where a cell was measured."""

    processors: int
    memory_gb: float
    system: str
    python: str
    java: int | None

    @property
    def title(self) -> str:
        """For people."""
        return (
            f"{self.processors} processors, {self.memory_gb:.0f} GB, {self.system}, "
            f"Java {self.java}, Python {self.python}"
        )


class CellResult(Part):
    """The result of a cell.

    Attributes:
        measured_on: the day, UTC.
        load: processes that wanted a processor when it began, mean of a minute.
        product: version of connect-share.
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
    machine: Machine

    @classmethod
    def of(
        cls,
        cell: Cell,
        found: tuple[Outcome, str],
        machine: Machine,
        *,
        java: Sequence[JavaEvidence] = (),
        python: Sequence[PythonEvidence] = (),
        seconds: float = 0.0,
        load: float | None = None,
    ) -> Self:
        """Put a result together; the day and the product's version are today's."""
        return cls(
            broker=cell.broker,
            kinds=cell.java,
            outcome=found[0],
            reason=found[1],
            java=tuple(java),
            python=tuple(python),
            seconds=round(seconds, 1),
            measured_on=datetime.now(UTC).date().isoformat(),
            load=round(os.getloadavg()[0], 1) if load is None else load,
            product=version("connect-share"),
            machine=machine,
        )


def decide(trouble: str | None, *, cannot: str | None = None) -> tuple[Outcome, str]:
    """Return the outcome of a cell.

    Args:
        trouble: what did not hold; ``None`` if everything did.
        cannot: why these versions cannot work together at all, found in the log of a worker that never got up.
    """
    if trouble is None:
        return Outcome.SHARES, ""
    if cannot is not None:
        return Outcome.EXPLAINED, cannot
    return Outcome.FAILS, " ".join(trouble.split())[:_REASON_CHARS]


def load_results(path: Path) -> dict[str, CellResult]:
    """Read a result file; one that is not there has no cells."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise ConfigError(
                f"{path} has format {data['format']}, this program reads {FORMAT}: measure anew elsewhere"
            )
        return {name: CellResult.model_validate(cell) for name, cell in data["cells"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError) as error:
        raise ConfigError(f"{path} is no result of the compatibility matrix ({type(error).__name__})") from error


def document(results: dict[str, CellResult]) -> dict[str, Any]:
    """Return the results as JSON."""
    return {
        "_command": "compatibility",
        "_version": version("connect-share"),
        "format": FORMAT,
        "cells": {name: cell.model_dump(mode="json") for name, cell in results.items()},
    }


def save_document(path: Path, found: dict[str, Any]) -> None:
    """Write the file; after a kill it is the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    beside.replace(path)
