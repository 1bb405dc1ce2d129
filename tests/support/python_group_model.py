"""A group that runs on our stores, and what it has been asked to be."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.java_group_model import NAMES
from tests.support.python_group import OrderFailedError, PythonGroup
from tests.support.soak import Soak

_PATIENCE_S = 180.0


class PythonModel:
    """One Python group: its process, its model, and the steps that change both.

    An order that fails while a broker is away may have been carried out or not; it is given again until it succeeds.

    Attributes:
        connectors: name to config, target and number of tasks.
    """

    def __init__(self, worker_file: Path, choose: random.Random, soak: Soak) -> None:
        self._group = PythonGroup(worker_file)
        self._choose = choose
        self._soak = soak
        self.connectors: dict[str, Any] = {}
        self._offsets: dict[str, list[list[dict[str, Any]]]] = {}

    def run(self) -> int:
        """Do steps until the soak is over; return how many."""
        done = 0
        self._again("start", self._group.start)
        try:
            while not self._soak.over_after(done):
                self._step()
                self._compare()
                done += 1
        finally:
            self._group.kill()
        return done

    def _step(self) -> None:
        name = self._choose.choice(NAMES)
        known = ["target", "delete"] if name in self.connectors else []
        match self._choose.choice(["put", "offset", "reset", "kill", "kill at work", "restart", *known]):
            case "put":
                self._order(**self._put(name))
            case "target":
                state = self._choose.choice(["STARTED", "PAUSED", "STOPPED"])
                self._order(do="target", connector=name, state=state)
                self.connectors[name]["target"] = state
            case "delete":
                self._order(do="delete", connector=name)
                del self.connectors[name]
            case "offset":
                pair: list[dict[str, Any]] = [
                    {"p": self._choose.randrange(3)},
                    {"position": self._choose.randrange(10**9)},
                ]
                self._order(do="offset", connector=name, partition=pair[0], offset=pair[1])
                kept = [each for each in self._offsets.get(name, []) if each[0] != pair[0]]
                self._offsets[name] = [*kept, pair]
            case "reset":
                self._order(do="reset", connector=name)
                self._offsets.pop(name, None)
            case "kill at work":
                # Half of it may be written; what is asked for again makes it whole.
                order = self._put(name)
                self._group.begin(**order)
                time.sleep(self._choose.uniform(0, 0.03))
                self._kill("python: kill -9 at work")
                self._order(**order)
            case "kill":
                self._kill("python: kill -9")
            case _:
                self._group.stop()
                self._again("start", self._group.start)

    def _put(self, name: str) -> dict[str, Any]:
        config, tasks = {"name": name, "x": str(self._choose.random())}, self._choose.randrange(1, 4)
        target = self.connectors[name]["target"] if name in self.connectors else "STARTED"
        self.connectors[name] = {"config": config, "target": target, "tasks": tasks}
        return {"do": "put", "connector": name, "config": config, "tasks": tasks}

    def _kill(self, kind: str) -> None:
        self._group.kill()
        self._soak.faults.note(kind)
        self._again("start", self._group.start)

    def _order(self, **order: Any) -> Any:
        return self._again(order["do"], lambda: self._group.order(**order))

    def _again(self, what: str, action: Callable[[], Any]) -> Any:
        deadline_s = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return action()
            except OrderFailedError as error:
                if time.monotonic() > deadline_s:
                    raise AssertionError(f"{what} was not possible within {_PATIENCE_S:g} s: {error}") from error
                self._soak.faults.note_repeated(f"python: {what}: {str(error).split(':')[0]}")

    def _compare(self) -> None:
        seen = self._order(do="view")
        assert seen["connectors"] == self.connectors
        assert _sorted(seen["offsets"]) == _sorted(self._offsets)


def _sorted(offsets: dict[str, Any]) -> dict[str, list[str]]:
    return {name: sorted(map(str, pairs)) for name, pairs in offsets.items()}
