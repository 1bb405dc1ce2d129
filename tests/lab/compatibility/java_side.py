"""A group of Java workers in a cell: what it is asked to be, and whether it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from connect_share.jar import jar_path
from connect_share.model.config_state import TargetState
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import TopicType
from connect_share.replay import replay_config, replay_offsets, replay_status
from tests.lab.compatibility.cells import JavaKind, Plugin
from tests.lab.compatibility.result import JavaEvidence
from tests.lab.compatibility.shared_topics import SharedTopics
from tests.lab.compatibility.sources import LINE, WAIT_S, Source, Sources
from tests.lab.compatibility.worker_log import LogReading, read_log, topics_read
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.embedded.rest import ConnectRest
from tests.lab.embedded.worker import ConnectWorker
from tests.lab.waiting import until

_START_S: Final = 180.0
_RUNNING: Final = "my.conn"
_PAUSED: Final = "connector-a"
_REMOVED: Final = "gone.for-good"
_LATE: Final = "late-1"
_TARGET: Final = {"RUNNING": TargetState.STARTED, "PAUSED": TargetState.PAUSED}
"""The request for a target state, by the state that shows it."""


class JavaSide(Sources):
    """One worker, and a model of everything it was asked for; the two are compared."""

    def __init__(
        self, topics: SharedTopics, kind: JavaKind, group: str, folder: Path, *, libraries: Path | None = None
    ) -> None:
        super().__init__(topics, folder, group.removeprefix(topics.tag)[1:])
        folder.mkdir(parents=True)
        jar = kind.plugin is Plugin.JAR
        self.kind = kind
        self.group = group
        self.id = ClusterGroupId(group) if jar else None
        self.worker = ConnectWorker(
            topics.properties(group, "java" if jar else ""),
            version=kind.version,
            class_path=(jar_path(),) if jar else (),
            libraries=libraries,
            wait=False,
        )
        self.starts = self.kills = 0
        self.alone: LogReading | None = None
        self.beside: LogReading | None = None
        self._removed: list[Source] = []
        self._missing_statuses = 0

    @property
    def rest(self) -> ConnectRest:
        """The worker's REST interface."""
        return self.worker.rest

    def start(self, *, foreign_ids: tuple[str, ...] = ()) -> LogReading:
        """Launch the worker, read what it logs until it has read its topics, and wait until it is healthy."""
        begin = len(self.worker.log())
        self.worker.start()
        self.starts += 1

        def end() -> int | None:
            if not self.worker.running:
                raise EmbeddedError(f"the worker ended with exit code {self.worker.exit_code} at its start")
            return topics_read(self.worker.log()[begin:])

        at = until(end, bool, what="the worker has read its topics", timeout_s=_START_S) or 0
        reading = read_log(self.worker.log()[begin : begin + at], foreign_ids)
        self.worker.await_healthy(_START_S)
        return reading

    def restart_alone(self) -> None:
        """Restart in order, on records of its own."""
        self.worker.stop()
        self.alone = self.start()
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
            self.create(self.rest, name, lines)
        self.await_model()
        self.pause(self.rest, _PAUSED)
        self._removed.append(self.delete(self.rest, _REMOVED))
        self.await_model()

    def later_changes(self) -> None:
        """Go on where it was: more lines, another configuration, a resumed connector, a new one."""
        self.append(_RUNNING, 4)
        self.append(_PAUSED, 2)
        self.await_model()
        self.change(self.rest, _RUNNING, batch_size="1234")
        self.create(self.rest, _LATE, 3)
        self.await_model()
        self.resume(self.rest, _PAUSED)
        self.append(_RUNNING)
        self.await_model()

    def await_model(self) -> None:
        """Wait until REST, the topics and the data say what was asked for."""
        what = f"the group of {self.kind.title} to be what was asked for"
        until(self.differences, lambda found: found == [], what=what, timeout_s=WAIT_S)

    def differences(self) -> list[str]:
        """Compare the worker's REST interface, the records as our replays read them, and the data, with the model."""
        if not self.worker.running:
            raise EmbeddedError(f"the worker ended with exit code {self.worker.exit_code}")
        self._missing_statuses = 0
        found = self.rest_differences(self.rest)
        for name, wanted in self.model.items():
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
        every = [*self.model.values(), *self._removed]
        return JavaEvidence(
            kind=self.kind,
            connectors=len(self.model),
            starts=self.starts,
            kills=self.kills,
            lines_written=sum(connector.lines for connector in every),
            lines_arrived=sum(self.topics.records_written(connector.topic) for connector in every),
            missing_statuses=self._missing_statuses,
            alone=self.alone,
            beside=self.beside,
            foreign=foreign,
        )

    def task_states(self, status: dict[str, Any]) -> list[str]:
        """Return the states of a connector's tasks that count."""
        states = super().task_states(status)
        if self.kind.version.startswith("2.8.") and not states and self.starts > 1:
            # A 2.8 worker that joins loses the status of a task now and then, on topics of its own as well; the task runs.
            self._missing_statuses += 1
            return [str(status["connector"]["state"])]
        return states

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
            if config.connector_config(name) != wanted.config or target is not _TARGET[wanted.state]:
                found.append(f"the config topic says something else of {name}")
            seen = status.connector_status(name)
            if seen is None or seen.state.name != wanted.state or status.topics(name) != {wanted.topic}:
                found.append(f"the status topic says something else of {name}")
            partitions = offsets.partitions(name)
            if [offsets.offset(name, each) for each in partitions] != [{"position": wanted.due * len(LINE)}]:
                found.append(f"the offset topic says something else of {name}")
        return found
