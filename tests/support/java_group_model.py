"""A group of Java workers, and what it has been asked to be: every change is made through REST and noted."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from connect_share import TopicType, replay_offsets
from tests.lab.embedded.rest import RestError, when_possible
from tests.lab.embedded.worker import ConnectWorker
from tests.support.java_groups import JAR, SharedTopics, delete, file_source, put
from tests.support.soak import Faults
from tests.support.waiting import await_that

NAMES = ("my.conn", "connector-a", "orders-1")
_LINE = "a line of text\n"
# With exactly-once a task asks the leader to fence its predecessor. If the leader was killed just then the task fails for
# good (KIP-618 retries nothing), with the jar and without; operators restart it.
_ASKED_A_DEAD_LEADER = "trying to forward REST request"


@dataclass
class Connector:
    """The expected state of a connector. Sources only: their offsets are in the shared topics."""

    config: dict[str, str]
    file: Path
    topic: str
    target: str = "RUNNING"


@dataclass
class JavaGroup:
    """One cluster group: its workers, its model, and the steps that change both."""

    topics: SharedTopics
    group: str
    version: str
    folder: Path
    choose: random.Random
    extra: dict[str, str] = field(default_factory=dict)
    model: dict[str, Connector] = field(default_factory=dict)
    expected_lines: dict[str, int] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    all_workers: list[ConnectWorker] = field(default_factory=list, repr=False)
    done: list[str] = field(default_factory=list)
    faults: Faults = field(default_factory=Faults, repr=False)
    wait_s: float = 180.0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.properties = {**self.topics.properties(self.group), **self.extra}
        self.worker = self._new_worker()
        for name in NAMES:
            self.topics.create_data_topic(f"{self.group}-{name}")
            self._file(name).write_text("")
            self.expected_lines[name] = 0

    @property
    def alters_offsets(self) -> bool:
        return self.version != "2.8.2"

    def start(self) -> None:
        self.worker.start()

    def close(self) -> None:
        for worker in self.all_workers:
            worker.kill()
            worker.close()

    def steps(self) -> list[Callable[[], None]]:
        """One of each kind, in random order."""
        steps = [self.create, self.create, self.append, self.pause, self.resume, self.remove, self.restart_connector]
        steps += [self.kill_worker, self.second_worker, self.restart_worker]
        if self.alters_offsets:
            steps += [self.alter_offsets, self.reset_offsets]
        self.choose.shuffle(steps)
        return [self.create, self.append, *steps]

    def create(self) -> None:
        name = self.choose.choice(NAMES)
        batch = {"batch.size": str(self.choose.randrange(100, 3_000))}
        config = file_source(self._file(name), f"{self.topics.prefix}-{self.group}-{name}", **batch)
        put(self.worker, name, config, timeout_s=self.wait_s)
        target = self.model[name].target if name in self.model else "RUNNING"
        self.model[name] = Connector({**config, "name": name}, self._file(name), config["topic"], target)
        self.await_model()

    def append(self) -> None:
        for name, connector in self.model.items():
            number = self.choose.randrange(1, 20)
            with connector.file.open("a") as file:
                file.write(_LINE * number)
            self.expected_lines[name] += number
        self.await_model()

    def pause(self) -> None:
        self._set_target("PAUSED", self.worker.rest.pause)

    def resume(self) -> None:
        self._set_target("RUNNING", self.worker.rest.resume)

    def remove(self) -> None:
        if self.model:
            name = self.choose.choice(sorted(self.model))
            self._idle()
            delete(self.worker, name, timeout_s=self.wait_s)
            del self.model[name]
            self.removed.add(name)
            self.await_model()

    def restart_connector(self) -> None:
        running = [name for name, connector in self.model.items() if connector.target == "RUNNING"]
        if running:
            name = self.choose.choice(running)
            self._when_possible(lambda: self.worker.rest.restart(name, tasks=self.version != "2.8.2"))
            self.await_model()

    def alter_offsets(self) -> None:
        name = self._stopped_source()
        if name is not None:
            size = self.model[name].file.stat().st_size
            back = self.choose.randrange(0, size // len(_LINE) + 1)  # lines read twice count twice as expected ones
            position = size - back * len(_LINE)
            wanted = [{"partition": {"filename": str(self.model[name].file)}, "offset": {"position": position}}]
            self._when_possible(lambda: self.worker.rest.alter_offsets(name, wanted))
            self._await_offsets(name, wanted)
            self._read_again(name, back)

    def reset_offsets(self) -> None:
        name = self._stopped_source()
        if name is not None:
            self._when_possible(lambda: self.worker.rest.reset_offsets(name))
            self._await_offsets(name, [])
            self._read_again(name, self.model[name].file.stat().st_size // len(_LINE))

    def restart_worker(self) -> None:
        self._idle()
        self.worker.stop()
        self.worker.start()
        self.await_model()

    def kill_worker(self) -> None:
        self._idle()
        self.worker.kill()
        self.faults.note(f"java {self.version}: kill -9")
        self.worker.start()
        self.await_model()

    def second_worker(self) -> None:
        """Another worker joins, takes over, and the first is killed."""
        second = self._new_worker()
        second.start()
        first, self.worker = self.worker, second
        self.await_model()
        self._idle()
        first.kill()
        self.faults.note(f"java {self.version}: kill -9 of one of two")
        self.await_model()

    def await_model(self) -> None:
        """Wait until REST says what the model says."""
        what = f"as {self.group}'s model after {self.done}"
        await_that(self._differences, lambda found: found == [], what=what, timeout_s=self.wait_s)

    def target_states(self) -> dict[str, str]:
        return {name: {"RUNNING": "STARTED"}.get(each.target, each.target) for name, each in self.model.items()}

    def _idle(self) -> None:
        """Offsets of running sources are committed: what comes next must not read a line again."""
        self.await_model()

    def _differences(self) -> list[str]:
        rest, found = self.worker.rest, []
        if not self.worker.running:
            return [f"worker of {self.group} has ended with {self.worker.exit_code}"]
        try:
            expanded = rest.call("GET", "/connectors?expand=info&expand=status", timeout_s=10)
            if set(expanded) != set(self.model):
                return [f"connectors {sorted(expanded)}, not {sorted(self.model)}"]
            for name, wanted in self.model.items():
                info, status = expanded[name]["info"], expanded[name]["status"]
                if info["config"] != wanted.config:
                    found.append(f"{name}: another configuration")
                states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
                if name in self.removed and len(states) == 1 and wanted.target != "STOPPED":
                    # A worker that joins reads the status topic's partitions in any order, and the tombstone of a connector
                    # that was removed takes task statuses written long after it (seen on dedicated topics without the jar,
                    # in 2.8.2 and 4.3.1). One that is missing counts as right, a wrong one does not.
                    states *= 2
                if states != [wanted.target] * (1 if wanted.target == "STOPPED" else 2):
                    traces = [str(task.get("trace", ""))[:2_000] for task in status["tasks"]]
                    found.append(f"{name}: {states}, not {wanted.target} {''.join(traces)}")
                    if any(_ASKED_A_DEAD_LEADER in trace for trace in traces):
                        rest.restart(name, tasks=True)
                size = wanted.file.stat().st_size
                if wanted.target == "RUNNING" and size and self._offsets(name) != [{"position": size}]:
                    found.append(f"{name}: offsets {self._offsets(name)}, not {size}")
        except Exception as error:  # noqa: BLE001 - whatever REST says while it rebalances is said at the deadline
            return [repr(error)]
        return found

    def _offsets(self, name: str) -> list[dict[str, Any] | None]:
        if self.alters_offsets:
            return [each["offset"] for each in self.worker.rest.offsets(name)]
        # No such question in 2.8: what the group wrote to the shared topic.
        state = replay_offsets(self.topics.records(self.topics.topic(TopicType.OFFSET)), self.group)
        return [state.offset(name, partition) for partition in state.partitions(name)]

    def _set_target(self, target: str, ask: Callable[[str], Any]) -> None:
        if self.model:
            name = self.choose.choice(sorted(self.model))
            self._idle()
            self._when_possible(lambda: ask(name))
            self.model[name].target = target
            self.await_model()

    def _stopped_source(self) -> str | None:
        idle = [name for name in self.model if self.model[name].target == "RUNNING"]
        if not idle:
            return None
        name = self.choose.choice(sorted(idle))
        self._idle()
        self._when_possible(lambda: self.worker.rest.stop(name))
        self.model[name].target = "STOPPED"
        self.await_model()
        return name

    def _read_again(self, name: str, lines: int) -> None:
        self.expected_lines[name] += lines
        self._when_possible(lambda: self.worker.rest.resume(name))
        self.model[name].target = "RUNNING"
        self.await_model()

    def _when_possible(self, action: Callable[[], object]) -> None:
        when_possible(action, self.wait_s)

    def _await_offsets(self, name: str, wanted: list[dict[str, Any]]) -> None:
        def read() -> Any:
            try:
                return self.worker.rest.offsets(name)
            except RestError as error:
                return str(error)

        await_that(read, lambda found: found == wanted, what=f"as set in {self.group}", timeout_s=self.wait_s)

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.txt"

    def _new_worker(self) -> ConnectWorker:
        worker = ConnectWorker(self.properties, version=self.version, class_path=JAR)
        self.all_workers.append(worker)
        return worker
