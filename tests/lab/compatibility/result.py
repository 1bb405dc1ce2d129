"""The results of the cells, and their file."""

from __future__ import annotations

import enum
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from connect_share.errors import ConfigError
from connect_share.model.records import TopicType
from tests.lab.compatibility.cells import JavaKind
from tests.lab.compatibility.worker_log import LogReading

FORMAT: Final = 2


class Outcome(enum.StrEnum):
    """The outcome of a cell: every check held, or one did not."""

    SHARES = "shares"
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
