"""A group of Java workers in a cell: what it is asked to be, and whether it is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from connect_share.jar import jar_path
from connect_share.model.config_state import TargetState
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import TopicType
from connect_share.replay import replay_config, replay_offsets, replay_status
from tests.lab.compatibility.cells import JavaKind, Plugin
from tests.lab.compatibility.result import JavaEvidence, Start
from tests.lab.compatibility.shared_topics import SharedTopics
from tests.lab.compatibility.worker_log import LogReading, read_log, topics_read
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.embedded.rest import ConnectRest, RestError
from tests.lab.embedded.worker import ConnectWorker
from tests.lab.waiting import until, when_possible

_LINE: Final = "a line of text\n"
_START_S: Final = 180.0
_WAIT_S: Final = 120.0
_RUNNING: Final = "my.conn"
_PAUSED: Final = "connector-a"
_REMOVED: Final = "gone.for-good"
_LATE: Final = "late-1"
_TARGET: Final = {"RUNNING": TargetState.STARTED, "PAUSED": TargetState.PAUSED}
"""The request for a target state, by the state that shows it."""


@dataclass
class _Connector:
    """The expected state of a source connector."""

    config: dict[str, str]
    file: Path
    topic: str
    target: str = "RUNNING"
    lines: int = 0
    """Written to the file."""
    due: int = 0
    """Of them, those that have to be in the topic: none that came while it was paused."""


@dataclass
class JavaSide:
    """One worker, and a model of everything it was asked for; the two are compared."""

    topics: SharedTopics
    kind: JavaKind
    group: str
    folder: Path
    libraries: Path | None = None
    model: dict[str, _Connector] = field(default_factory=dict)
    removed: list[_Connector] = field(default_factory=list)
    starts: int = 0
    kills: int = 0
    alone: Start | None = None
    _missing_statuses: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        jar = self.kind.plugin is Plugin.JAR
        properties = self.topics.properties(self.group, sharing=jar, plugin=self.kind.plugin)
        self.worker = ConnectWorker(
            properties,
            version=self.kind.version,
            class_path=(jar_path(),) if jar else (),
            libraries=self.libraries,
            wait=False,
        )
        self.id = ClusterGroupId(self.group) if jar else None
        self.beside: tuple[Start, LogReading] | None = None

    @property
    def rest(self) -> ConnectRest:
        """The worker's REST interface."""
        return self.worker.rest

    def start(self, *, foreign_ids: tuple[str, ...] = ()) -> tuple[Start, LogReading]:
        """Launch the worker, look at what this costs until it has read its topics, and wait until it is healthy."""
        begin, began_s = len(self.worker.log()), time.time()
        self.worker.start()
        self.starts += 1
        cpu_s: float | None = None

        def started() -> tuple[str, int] | None:
            nonlocal cpu_s
            cpu_s = _cpu_seconds(self.worker.pid)
            if not self.worker.running:
                raise EmbeddedError(f"the worker ended with exit code {self.worker.exit_code} at its start")
            return topics_read(self.worker.log()[begin:])

        at = until(started, lambda found: found is not None, what="the worker has read its topics", timeout_s=_START_S)
        if at is None:
            raise EmbeddedError("the worker did not read its topics to the end")
        reading = read_log(self.worker.log()[begin : begin + at[1]], foreign_ids)
        self.worker.await_healthy(_START_S)
        start = Start(
            seconds=round(datetime.strptime(at[0], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp() - began_s, 2),
            cpu_seconds=cpu_s,
            log_lines=reading.lines,
            log_bytes=reading.bytes,
            warnings=reading.warnings,
            errors=reading.errors,
        )
        return start, reading

    def restart_alone(self) -> None:
        """Restart in order, on records of its own."""
        self.worker.stop()
        self.alone, _ = self.start()
        self.await_model()

    def crash_and_start(self, foreign_ids: tuple[str, ...]) -> None:
        """SIGKILL, and a start among the records of others."""
        self.worker.kill()
        self.kills += 1
        self.beside = self.start(foreign_ids=foreign_ids)

    def close(self) -> None:
        """End the worker at once; nobody looks at it any more."""
        self.worker.kill()
        self.worker.close()

    def first_changes(self) -> None:
        """Connectors that run, that are paused and that are removed again."""
        for name, lines in ((_RUNNING, 5), (_PAUSED, 3), (_REMOVED, 2)):
            self._create(name, lines)
        self.await_model()
        self._set_target(_PAUSED, "PAUSED", self.rest.pause)
        self._when_possible(lambda: self.rest.delete(_REMOVED), gone_is_fine=True)
        self.removed.append(self.model.pop(_REMOVED))
        self.await_model()

    def later_changes(self) -> None:
        """Go on where it was: more lines, another configuration, a resumed connector, a new one."""
        self._append(_RUNNING, 4)
        self._append(_PAUSED, 2)
        self.await_model()
        running = self.model[_RUNNING]
        self._put(_RUNNING, {**running.config, "batch.size": "1234"})
        self._create(_LATE, 3)
        self.await_model()
        self._set_target(_PAUSED, "RUNNING", self.rest.resume)
        self._append(_RUNNING, 1)
        self.await_model()

    def await_model(self) -> None:
        """Wait until REST, the topics and the data say what was asked for."""
        what = f"the group of {self.kind.title} to be what was asked for"
        until(self.differences, lambda found: found == [], what=what, timeout_s=_WAIT_S)

    def differences(self) -> list[str]:
        """Compare the worker's REST interface, the records as our replays read them, and the data, with the model."""
        if not self.worker.running:
            raise EmbeddedError(f"the worker ended with exit code {self.worker.exit_code}")
        try:
            expanded = self.rest.call("GET", "/connectors?expand=info&expand=status", timeout_s=20)
        except RestError as error:
            return [f"REST: {error}"]
        if set(expanded) != set(self.model):
            return [f"connectors {sorted(expanded)} instead of {sorted(self.model)}"]
        found = []
        self._missing_statuses = 0
        for name, wanted in self.model.items():
            if expanded[name]["info"]["config"] != wanted.config:
                found.append(f"{name} has another configuration")
            found += self._state_differences(name, wanted, expanded[name]["status"])
            arrived = self.topics.records_written(wanted.topic)
            if arrived != wanted.due:
                found.append(f"{name}: {arrived} lines arrived instead of {wanted.due}")
        return found or self._differences_in_topics()

    def evidence(self, foreign: dict[TopicType, int]) -> JavaEvidence:
        """Return what was seen.

        Args:
            foreign: records of others in each topic when it was started among them.
        """
        if self.beside is None:
            raise EmbeddedError(f"the worker {self.kind.title} was not started among others")
        start, reading = self.beside
        every = [*self.model.values(), *self.removed]
        return JavaEvidence(
            kind=self.kind,
            connectors=len(self.model),
            starts=self.starts,
            kills=self.kills,
            lines_written=sum(connector.lines for connector in every),
            lines_arrived=sum(self.topics.records_written(connector.topic) for connector in every),
            missing_statuses=self._missing_statuses,
            alone=self.alone,
            beside=start,
            foreign=foreign,
            about_foreign=dict(reading.about_foreign),
            other_about_foreign=reading.other_about_foreign,
        )

    def _state_differences(self, name: str, wanted: _Connector, status: dict[str, Any]) -> list[str]:
        states = [task["state"] for task in status["tasks"]]
        if self.kind.version.startswith("2.8.") and not states and self.starts > 1:
            # A 2.8 worker that joins loses the status of a task now and then, on topics of its own as well; the task runs.
            self._missing_statuses += 1
            states = [wanted.target]
        seen = [status["connector"]["state"], *states]
        return [] if seen == [wanted.target] * 2 else [f"{name} is {seen} instead of {wanted.target}"]

    def _differences_in_topics(self) -> list[str]:
        """Fold the group's records as a fresh worker would."""
        config = replay_config(self.topics.records(TopicType.CONFIG), self.id)
        status = replay_status(self.topics.records(TopicType.STATUS), self.id)
        offsets = replay_offsets(self.topics.records(TopicType.OFFSET), self.id)
        if config.connectors() != set(self.model):
            return [f"the config topic says connectors {sorted(config.connectors())}"]
        found = []
        for name, wanted in self.model.items():
            target = config.target_state(name) or TargetState.STARTED
            if config.connector_config(name) != wanted.config or target is not _TARGET[wanted.target]:
                found.append(f"the config topic says something else of {name}")
            seen = status.connector_status(name)
            if seen is None or seen.state.name != wanted.target or status.topics(name) != {wanted.topic}:
                found.append(f"the status topic says something else of {name}")
            partitions = offsets.partitions(name)
            if [offsets.offset(name, each) for each in partitions] != [{"position": wanted.due * len(_LINE)}]:
                found.append(f"the offset topic says something else of {name}")
        return found

    def _create(self, name: str, lines: int) -> None:
        file = self.folder / f"{name}.txt"
        file.write_text(_LINE * lines)
        topic = self.topics.create_data_topic(f"{self.group.removeprefix(self.topics.tag)[1:]}-{name}")
        config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": topic}
        self.model[name] = _Connector({**config, "name": name}, file, topic, lines=lines, due=lines)
        self._put(name, config)

    def _put(self, name: str, config: dict[str, str]) -> None:
        self._when_possible(lambda: self.rest.put_config(name, config))
        self.model[name].config = {**config, "name": name}

    def _append(self, name: str, lines: int) -> None:
        connector = self.model[name]
        with connector.file.open("a") as file:
            file.write(_LINE * lines)
        connector.lines += lines
        if connector.target == "RUNNING":
            connector.due = connector.lines

    def _set_target(self, name: str, target: str, ask: Callable[[str], None]) -> None:
        self._when_possible(lambda: ask(name))
        connector = self.model[name]
        connector.target = target
        if target == "RUNNING":
            connector.due = connector.lines

    def _when_possible(self, action: Callable[[], None], *, gone_is_fine: bool = False) -> None:
        when_possible(action, _WAIT_S, gone_is_fine=gone_is_fine)


def _cpu_seconds(pid: int | None) -> float | None:
    """Return the CPU seconds of a process, where the system knows them (Linux)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return round((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), 2)
