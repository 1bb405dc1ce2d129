"""Starts of whole Java workers: on shared topics with the jar, and on dedicated topics beside those of all other groups.

From ``exec`` of the JVM, with the options of Kafka's own script, until all connectors and tasks run, by REST. Then, while the
other groups write, configurations are put and a connector is restarted. The parts of a start are those of its process:
``stores`` the time in which its three logs read their topics, ``put`` and ``restart`` medians.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from connect_share.jar import jar_path
from connect_share.kafka.client import producer
from connect_share.model.records import Record, TopicType
from connect_share.worker_config.properties import load_properties
from spark_jobs.benchmark.results import Scenario, Start
from spark_jobs.benchmark.starts import Run
from spark_jobs.benchmark.suite import Suite
from spark_jobs.benchmark.topics import DEDICATED, PARTITIONS, Connection, Files, Plan, worker_of, workload
from tests.lab.benchmarks.frame import in_turns
from tests.lab.benchmarks.startup.contenders import java_file, with_jar
from tests.lab.embedded.jvm import STEADY
from tests.lab.embedded.rest import RestError, when_possible
from tests.lab.embedded.worker import ConnectWorker
from tests.support.topics import written_evenly

KIP_GROUPS: Final = 20
TINY: Final = 3
"""So many groups are a few records, to try it out."""

_JOBS: Final = 5
_PUTS: Final = 5
_RESTARTS: Final = 3
_WRITERS: Final = 19
_WRITES_A_SECOND: Final = 5.0
"""Of each other group, offsets and statuses: many more than a group writes that is not just being started."""

_START_S: Final = 180.0
_LOOK_S: Final = 0.01
_OPTIONS: Final = (*STEADY, "-Xms256m", "-Xmx2g")
_LOG: Final = re.compile(r"^\[(\S+ \S+)\] INFO Start(ing|ed) KafkaBasedLog (?:with|for) topic (\S+)", re.MULTILINE)
_RESTARTED: Final = "Completed plan to restart"


_ROUNDS: Final = {1: 6, 20: 24}
"""By groups; at the KIP's twenty as many as of its other rows that decide."""
_ROUNDS_OF_SETTING: Final = 12
"""Of the KIP's twenty with another setting, which is shown and does not decide: the whole has to end within an hour."""


def worker_plan(groups: int, setting: str = "", title: str = "") -> Plan:
    """Return the KIP's records of so many groups, of which one's worker starts; the setting is of the cluster."""
    each, config_bytes = (40, 40_000) if groups == TINY else (400, 1_600_000)
    return Plan(
        Scenario(
            name="-".join(filter(None, ("workers", str(groups), setting))),
            title=f"{groups:,} {'group' if groups == 1 else 'groups'} of the KIP's{title}",
            series="workers",
            groups=groups,
            jobs=_JOBS,
            config_records=each * groups,
            status_records=each * groups,
            offset_records=each * groups,
            config_bytes=config_bytes * groups,
            status_bytes=each * 375 * groups,
            offset_bytes=0,
            partitions=dict(PARTITIONS),
        ),
        ("worker-jar", f"worker{DEDICATED}"),
        0,
        _ROUNDS_OF_SETTING if setting else _ROUNDS.get(groups, 8),
    )


def measure_workers(suite: Suite, plans: Sequence[Plan], connection: Callable[[], Connection]) -> None:
    """Measure what the suite's result has not yet."""
    with ExitStack() as stack:
        runs = {
            "worker-jar": _run(stack, plans, with_jar, (jar_path(),)),
            f"worker{DEDICATED}": _run(stack, plans, lambda files: java_file(files.dedicated), ()),
        }
        suite.result = replace(suite, plans=plans, runs=runs, connection=connection, storms=()).run()


def _run(stack: ExitStack, plans: Sequence[Plan], file_of: Callable[[Files], Path], jars: tuple[Path, ...]) -> Run:
    """Return a contender; a scenario's worker is prepared at its first start."""
    made: dict[Path, _Measured] = {}

    def run(files: Files, _warm: int) -> list[Start]:
        if files.ours not in made:
            (plan,) = (each for each in plans if files.ours.name.endswith(f"-{each.scenario.name}-ours.json"))
            made[files.ours] = _Measured(stack, plan, files, load_properties(file_of(files)), jars)
        return [made[files.ours].start()]

    return run


class _Measured:
    """A worker with the KIP's five jobs, which are sinks of an empty topic."""

    def __init__(
        self, stack: ExitStack, plan: Plan, files: Files, properties: Mapping[str, str], jars: tuple[Path, ...]
    ) -> None:
        self._others = partial(_records_of_others, plan, files, is_shared=bool(jars))
        self._writes = plan.scenario.groups in (TINY, KIP_GROUPS)
        self._worker_of_files = worker_of(files.ours)
        self._names = [plan.size.connector(files.group, job) for job in range(_JOBS)]
        settings = {**properties, "session.timeout.ms": "10000", "heartbeat.interval.ms": "3000"}
        self._worker = stack.enter_context(ConnectWorker(settings, class_path=jars, wait=False, options=_OPTIONS))
        self._worker.await_healthy()
        for name in self._names:
            when_possible(partial(self._put, name, "first"))
        self._await_running()
        self._worker.stop()

    def start(self) -> Start:
        """Start it, with the KIP's groups put and restart while others write, and stop it in order."""
        before = len(self._worker.log().encode())
        self._worker.start()
        began = time.monotonic()  # the supervisor answers as soon as the JVM was executed
        self._await_running()
        ready_s = time.monotonic() - began
        stores = _seconds_of_logs(self._worker.log(before))
        parts = {"stores": stores}
        if self._writes:
            parts |= self._beside_writers()
        self._worker.stop()  # for a member that was killed the next start would wait until its session ends
        return Start(seconds=stores, ready_at=ready_s, phases=parts)

    def _beside_writers(self) -> dict[str, float]:
        sender = producer(self._worker_of_files.producer_settings(), client_id="others", overrides={"linger.ms": "0"})
        records, each_second = self._others()
        with written_evenly(sender, records, each_second, every_s=0.001):
            puts = [self._timed_put(str(number)) for number in range(_PUTS)]
            restarts = [self._timed_restart() for _ in range(_RESTARTS)]
        return {"put": statistics.median(puts), "restart": statistics.median(restarts)}

    def _put(self, name: str, generation: str) -> None:
        sink = {"connector.class": "FileStreamSink", "tasks.max": "1", "topics": f"{self._names[0]}-data"}
        self._worker.rest.put_config(name, {**sink, "generation": generation})

    def _timed_put(self, generation: str) -> float:
        began = self._accepted(partial(self._put, self._names[0], generation))
        return time.monotonic() - began

    def _timed_restart(self) -> float:
        before = len(self._worker.log().encode())
        began = self._accepted(partial(self._worker.rest.restart, self._names[0], tasks=True))
        self._await_running(lambda: _RESTARTED in self._worker.log(before))
        return time.monotonic() - began

    def _accepted(self, request: Callable[[], None]) -> float:
        """Send a request until no rebalance is in its way; return when the one was sent that the worker accepted."""
        deadline_s = time.monotonic() + _START_S
        while True:
            self._await_running()
            began = time.monotonic()
            try:
                request()
            except RestError as error:
                if error.status != HTTPStatus.CONFLICT or began > deadline_s:
                    raise
            else:
                return began
            time.sleep(_LOOK_S)

    def _await_running(self, also: Callable[[], bool] = lambda: True) -> None:
        """Wait until all connectors and tasks run; looks often, for this is timed."""
        deadline_s = time.monotonic() + _START_S
        while not (also() and self._runs()):
            if not self._worker.running or time.monotonic() > deadline_s:
                raise RestError(f"the connectors of a worker do not run: {self._worker.log_tail(2_000)}")
            time.sleep(_LOOK_S)

    def _runs(self) -> bool:
        try:
            found: dict[str, Any] = self._worker.rest.call("GET", "/connectors?expand=status", timeout_s=5.0)
        except RestError:
            return False
        states = [found.get(name, {}).get("status", {"connector": {}, "tasks": []}) for name in self._names]
        tasks = [task["state"] for each in states for task in each["tasks"]]
        return [each["connector"].get("state") for each in states] + tasks == ["RUNNING"] * 2 * _JOBS


def _seconds_of_logs(log: str) -> float:
    """Return how long the worker's three logs read their topics, one after the other."""
    began: dict[str, float] = {}
    seconds = 0.0
    for when, what, topic in _LOG.findall(log):
        at_s = datetime.strptime(when, "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()
        if what == "ing":
            began[topic] = at_s
        else:
            seconds += at_s - began.pop(topic)
    return seconds


def _records_of_others(plan: Plan, files: Files, *, is_shared: bool) -> tuple[Iterator[Record], float]:
    """Return what other groups write to the topics that they are on, without an end, and how many a second."""
    size, kinds = workload(plan.scenario, prefixed=is_shared), (*(TopicType.OFFSET,) * 5, TopicType.STATUS)
    groups = [group for group in range(size.groups) if group != files.group][:_WRITERS]
    turns = [
        (worker_of(files.ours if is_shared else files.alone[group]).topic(kind), group, kind)
        for kind in kinds
        for group in groups
    ]
    return in_turns(size, turns), _WRITES_A_SECOND * len(groups)
