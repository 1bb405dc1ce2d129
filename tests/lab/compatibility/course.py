"""The course of a cell, from empty topics to the last comparison."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final, TypeVar

from connect_share.errors import BrokerError, ConnectShareError
from connect_share.files import run_folder
from connect_share.model.records import TopicType
from spark_jobs.benchmark.results import describe_machine
from tests.lab.compatibility.cells import Cell, Plugin
from tests.lab.compatibility.java_side import JavaSide
from tests.lab.compatibility.python_side import PythonSide
from tests.lab.compatibility.result import CellResult, JavaEvidence, Outcome, PythonEvidence
from tests.lab.compatibility.shared_topics import Place, SharedTopics
from tests.lab.embedded.errors import EmbeddedError

_JAVA_GROUPS: Final = ("com.acme.orders", "com-acme.orders")
_PYTHON_GROUPS: Final = ("com.acme", "com.acme.orders.my.conn")
"""Ids with dots and dashes that begin like each other, or go on like a connector of the other's."""

_REASON_CHARS: Final = 400
_Side = TypeVar("_Side")


def try_cell(cell: Cell, place: Place, *, foreign: int, libraries: Mapping[str, Path]) -> CellResult:
    """Try one cell; whatever goes wrong in it is its result.

    Args:
        cell: who shares.
        place: the broker.
        foreign: records of further groups, about a third in each topic.
        libraries: folders with the jars of workers of one's own, by version.
    """
    began_s, load = time.monotonic(), round(os.getloadavg()[0], 1)
    java: list[JavaEvidence] = []
    python: list[PythonEvidence] = []
    reason = ""
    with ExitStack() as stack:
        folder = run_folder("compatibility")
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            java, python = _Course(cell, place, folder, libraries, stack).run(foreign)
        except (ConnectShareError, TimeoutError) as error:
            reason = " ".join(str(error).split())[:_REASON_CHARS]
    return CellResult(
        broker=cell.broker,
        kinds=cell.java,
        outcome=Outcome.FAILS if reason else Outcome.SHARES,
        reason=reason,
        java=tuple(java),
        python=tuple(python),
        seconds=round(time.monotonic() - began_s, 1),
        measured_on=datetime.now(UTC).date().isoformat(),
        load=load,
        product=version("connect-share"),
        machine=machine(),
    )


def machine() -> str:
    """Describe the machine this runs on."""
    found = describe_machine()
    system, memory_gb = found["system"].split(".")[0], found["memory_bytes"] / 2**30
    return f"{found['processors']} processors, {memory_gb:.0f} GB, {system}, Java {found['java']}, Python {found['python']}"


class _Course:
    def __init__(self, cell: Cell, place: Place, folder: Path, libraries: Mapping[str, Path], stack: ExitStack) -> None:
        self._topics = SharedTopics(place)
        stack.callback(self._remove_topics)
        self._topics.create()
        self._pythons = [PythonSide(self._topics, self._topics.group(name)) for name in _PYTHON_GROUPS]
        for python in self._pythons:
            stack.callback(python.stop)
        self._javas = [
            JavaSide(
                self._topics,
                kind,
                self._topics.group(name),
                folder / name,
                libraries=libraries.get(kind.version),
            )
            for kind, name in zip(cell.java, _JAVA_GROUPS, strict=False)
        ]
        for java in self._javas:
            stack.callback(java.close)

    def run(self, foreign: int) -> tuple[list[JavaEvidence], list[PythonEvidence]]:
        """Everything in its order; the first thing that does not hold is raised."""
        _each(self._javas, JavaSide.start)
        _each(self._javas, JavaSide.first_changes)
        if len(self._javas) == 1:  # with two, none is alone
            self._javas[0].restart_alone()
        _each(self._pythons, PythonSide.start)
        _each(self._pythons, PythonSide.first_changes)
        self._topics.write_others(foreign)
        self._check_all()

        # Everybody goes and comes back; the workers without a goodbye.
        counts = {topic_type: self._topics.groups(topic_type) for topic_type in TopicType}
        _each(self._pythons, PythonSide.stop)
        _each(self._javas, lambda java: java.crash_and_start(self._others_of(java)))
        _each(self._pythons, PythonSide.start)
        self._check_all()

        with ThreadPoolExecutor(2) as threads:  # both sides write at once
            changes = [
                threads.submit(_each, self._javas, JavaSide.later_changes),
                threads.submit(_each, self._pythons, PythonSide.later_changes),
            ]
            for change in changes:
                change.result()
        _each(self._pythons, PythonSide.stop)
        _each(self._pythons, PythonSide.start)
        self._check_all()
        for python in self._pythons:
            python.check_topics()
        self._check_keys()
        evidence = []
        for java in self._javas:
            foreign_to_it = {
                topic_type: sum(number for group, number in found.items() if group != java.id)
                for topic_type, found in counts.items()
            }
            evidence.append(java.evidence(foreign_to_it))
            _check(evidence[-1])
        return evidence, [python.evidence() for python in self._pythons]

    def _check_all(self) -> None:
        _each(self._pythons, PythonSide.check)
        _each(self._javas, JavaSide.await_model)

    def _check_keys(self) -> None:
        """Nobody has written a key of another form than it should."""
        legal = {*self._topics.other_groups(), *(python.group for python in self._pythons)}
        wanted = {*legal, *(java.id for java in self._javas)}
        for topic_type in TopicType:
            found = set(self._topics.groups(topic_type))
            if not found <= wanted:
                raise EmbeddedError(f"{topic_type.value} topic: keys of {sorted(map(str, found - wanted))}")

    def _others_of(self, java: JavaSide) -> tuple[str, ...]:
        groups = [*self._topics.other_groups(), *(python.group for python in self._pythons)]
        return (*groups, *(other.group for other in self._javas if other is not java and other.id is not None))

    def _remove_topics(self) -> None:
        with suppress(BrokerError):  # the broker may be what failed
            self._topics.delete()


def _check(java: JavaEvidence) -> None:
    if java.lines_written != java.lines_arrived:
        raise EmbeddedError(f"{java.lines_arrived} of {java.lines_written} lines arrived from {java.kind.title}")
    said = java.beside.foreign
    if java.kind.plugin is Plugin.JAR and said:
        raise EmbeddedError(
            f"the worker {java.kind.title} logged {said} entries about records of others, should be none"
        )


def _each(sides: Sequence[_Side], action: Callable[[_Side], object]) -> None:
    """Do something on all sides at once; on a single one without a thread, which Ctrl-C would wait for."""
    if len(sides) == 1:
        action(sides[0])
    elif sides:
        with ThreadPoolExecutor(len(sides)) as threads:
            list(threads.map(action, sides))
