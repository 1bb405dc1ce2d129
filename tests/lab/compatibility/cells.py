"""The cells of the matrix: a version of the broker, and the Java workers that share topics with Python groups on it."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict


class Plugin(enum.StrEnum):
    """How a worker supports sharing."""

    PLAIN = "plain"
    """Nothing: an unmodified worker with plain keys, the KIP's old client."""
    JAR = "jar"
    """It runs with our jar, and is a new client by that."""


class Part(BaseModel):
    """A part of a result."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class JavaKind(Part):
    """A kind of Java worker."""

    version: str
    plugin: Plugin

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.version} {'(Old)' if self.plugin is Plugin.PLAIN else 'with the jar (New)'}"


@dataclass(frozen=True, slots=True)
class Cell:
    """Two Python groups are in every cell; ``java`` are the groups of Java workers beside them, none to two."""

    broker: str
    java: tuple[JavaKind, ...]

    @property
    def row(self) -> str:
        """Name of the cell without its broker, such as ``2.8.2-plain+4.3.1-jar``."""
        return "+".join(f"{kind.version}-{kind.plugin}" for kind in self.java) or "python"

    @property
    def name(self) -> str:
        """Its key in the result file."""
        return f"{self.broker}/{self.row}"

    @property
    def title(self) -> str:
        """The Java side for people."""
        return row_title(self.java)


def row_title(java: Sequence[JavaKind]) -> str:
    """Return the title of a row of workers."""
    return " beside ".join(kind.title for kind in java) or "no Java worker: Python beside Python"


def planned(brokers: Sequence[str], workers: Sequence[str], plugins: Sequence[Plugin]) -> list[Cell]:
    """Return all cells, those of a broker together.

    For each broker: Python alone, each worker with each plugin, and, if both plugins are asked for, each version without
    the jar beside one with it, the oldest beside the newest.
    """
    rows: list[tuple[JavaKind, ...]] = [()]
    rows += [(JavaKind(version=version, plugin=plugin),) for version in workers for plugin in plugins]
    if set(plugins) == set(Plugin):
        rows += [
            (JavaKind(version=old, plugin=Plugin.PLAIN), JavaKind(version=new, plugin=Plugin.JAR))
            for old, new in zip(workers, reversed(workers), strict=True)
        ]
    return [Cell(broker, row) for broker in brokers for row in rows]
