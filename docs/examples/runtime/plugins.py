"""The connectors of this runtime: lines of a file to a topic, and a topic to a file.

Class names, source partitions and offsets are those of Kafka's ``FileStreamSource`` and ``FileStreamSink``, so that a group
can be run by Java's workers and by this runtime, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

Config = Mapping[str, str]


@dataclass(frozen=True)
class SourceRecord:
    """A record, and how far the source has been read with it."""

    topic: str
    value: bytes
    partition: Mapping[str, Any]
    offset: Mapping[str, Any]


class SourceTask(Protocol):
    """Reads a source; called by one thread."""

    def start(self, config: Config, stored_offset: Callable[[Mapping[str, Any]], Mapping[str, Any] | None]) -> None:
        """Open the source where the stored offsets say."""

    def poll(self) -> Sequence[SourceRecord]:
        """Return what is new, at once; nothing: it is asked again later."""

    def stop(self) -> None:
        """Close the source."""


class SinkTask(Protocol):
    """Writes records somewhere; called by one thread."""

    def start(self, config: Config) -> None:
        """Open the sink."""

    def put(self, values: Sequence[bytes]) -> None:
        """Take records."""

    def flush(self) -> None:
        """Make sure of what was taken: the consumer's offsets are committed next."""

    def stop(self) -> None:
        """Close the sink."""


@dataclass(frozen=True)
class Plugin:
    """A kind of connector.

    Attributes:
        java_class: its name as ``connector.class``; short names are taken, too.
        required: properties that a connector has to have.
        most_tasks: how many tasks it can use.
    """

    java_class: str
    kind: Literal["source", "sink"]
    task: Callable[[], Any]
    required: tuple[str, ...]
    most_tasks: int

    @property
    def short_name(self) -> str:
        return self.java_class.rpartition(".")[2].removesuffix("Connector")

    def task_configs(self, config: Config) -> list[dict[str, str]]:
        """Return one configuration for each task.

        Raises:
            ValueError: a property is missing or wrong; names it.
        """
        for name in self.required:
            if not config.get(name, "").strip():
                raise ValueError(f"{name} is missing")
        wanted = int(config.get("tasks.max", "1"))
        if wanted < 1:
            raise ValueError("tasks.max has to be 1 or more")
        task_class = self.java_class.removesuffix("Connector") + "Task"
        return [{**config, "task.class": task_class} for _ in range(min(wanted, self.most_tasks))]


class FileStreamSource:
    """One record for each line of ``file``, to ``topic``; ``position`` counts bytes."""

    def start(self, config: Config, stored_offset: Callable[[Mapping[str, Any]], Mapping[str, Any] | None]) -> None:
        self._topic, self._partition = config["topic"], {"filename": config["file"]}
        self._file = Path(config["file"]).open("rb")
        self._position = int((stored_offset(self._partition) or {}).get("position", 0))
        self._most = int(config.get("batch.size", "2000"))

    def poll(self) -> list[SourceRecord]:
        self._file.seek(self._position)
        found: list[SourceRecord] = []
        while len(found) < self._most and (line := self._file.readline()).endswith(b"\n"):
            self._position += len(line)
            found.append(SourceRecord(self._topic, line[:-1], self._partition, {"position": self._position}))
        return found

    def stop(self) -> None:
        self._file.close()


class FileStreamSink:
    """One line in ``file`` for each record of ``topics``."""

    def start(self, config: Config) -> None:
        self._file = Path(config["file"]).open("ab")

    def put(self, values: Sequence[bytes]) -> None:
        self._file.writelines(value + b"\n" for value in values)

    def flush(self) -> None:
        self._file.flush()

    def stop(self) -> None:
        self._file.close()


_PACKAGE = "org.apache.kafka.connect.file"
PLUGINS = (
    Plugin(f"{_PACKAGE}.FileStreamSourceConnector", "source", FileStreamSource, ("file", "topic"), 1),
    Plugin(f"{_PACKAGE}.FileStreamSinkConnector", "sink", FileStreamSink, ("file", "topics"), 1000),
)


def plugin_of(config: Config) -> Plugin:
    """Return the plug-in of a connector.

    Raises:
        ValueError: ``connector.class`` is missing, or there is none of that name.
    """
    name = config.get("connector.class", "")
    for plugin in PLUGINS:
        if name in (plugin.java_class, plugin.short_name, f"{plugin.short_name}Connector"):
            return plugin
    raise ValueError(f"connector.class {name!r}: this runtime has {[plugin.short_name for plugin in PLUGINS]}")
