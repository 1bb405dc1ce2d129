"""The connectors of this runtime: lines of a file to a topic, and a topic to a file.

Class names, source partitions and offsets are those of Kafka's ``FileStreamSource`` and ``FileStreamSink``, so that a group
can be run by Java's workers and by this runtime, one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from connect_share import Record
from connect_share.files import open_regular
from connect_share.tasks import SinkTask, SourceRecord, SourceTask

_PACKAGE = "org.apache.kafka.connect.file"


def _task_configs(
    config: Mapping[str, str], tasks: int, task_class: str, required: Sequence[str]
) -> list[dict[str, str]]:
    for name in required:
        if not config.get(name, "").strip():
            raise ValueError(f"{name} is missing")
    if tasks < 1:
        raise ValueError("tasks.max has to be 1 or more")
    return [{**config, "task.class": f"{_PACKAGE}.{task_class}"} for _ in range(tasks)]


class FileStreamSource(SourceTask):
    """One record for each line of ``file``, to ``topic``; ``position`` counts bytes."""

    java_class, required = f"{_PACKAGE}.FileStreamSourceConnector", ("file", "topic")

    @classmethod
    def task_configs(cls, config: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        return _task_configs(config, min(max_tasks, 1), "FileStreamSourceTask", cls.required)

    def start(self, config: Mapping[str, str]) -> None:
        self._topic, self._partition = config["topic"], {"filename": config["file"]}
        self._file = open_regular(Path(config["file"]))
        self._position = int((self.context.offset(self._partition) or {}).get("position", 0))
        self._most = int(config.get("batch.size", "2000"))

    def poll(self) -> list[SourceRecord]:
        self._file.seek(self._position)
        found: list[SourceRecord] = []
        while len(found) < self._most and (line := self._file.readline()).endswith(b"\n"):
            self._position += len(line)
            found.append(SourceRecord(self._partition, {"position": self._position}, self._topic, line[:-1]))
        return found

    def stop(self) -> None:
        self._file.close()


class FileStreamSink(SinkTask):
    """One line in ``file`` for each record of ``topics``."""

    java_class, required = f"{_PACKAGE}.FileStreamSinkConnector", ("file", "topics")

    @classmethod
    def task_configs(cls, config: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        return _task_configs(config, max_tasks, "FileStreamSinkTask", cls.required)

    def start(self, config: Mapping[str, str]) -> None:
        path = Path(config["file"])
        if path.exists() and not path.is_file():
            raise ValueError("file is no regular file")
        self._file = path.open("ab")

    def put(self, records: Sequence[Record]) -> None:
        self._file.writelines((record.value or b"") + b"\n" for record in records)
        self._file.flush()

    def stop(self) -> None:
        self._file.close()


PLUGINS = (FileStreamSource, FileStreamSink)
CONNECTORS = {
    name: plugin for plugin in PLUGINS for name in (plugin.java_class, plugin.__name__, f"{plugin.__name__}Connector")
}
