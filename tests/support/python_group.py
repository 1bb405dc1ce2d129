"""A runtime of one cluster group in a process of its own; it reads commands from stdin, and may be killed at any time.

usage: python -m tests.support.python_group WORKER_FILE
Each line is ``{"do": ..., ...}``; each answer is ``{"done": ...}``, given when the change is acknowledged, or
``{"failed": ...}``: then it may have been carried out or not, and can be asked for again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from connect_share import ConnectShareError, ConnectStorage, WorkerConfig
from connect_share.model.config_state import TargetState
from connect_share.model.status import ConnectorStatus, State
from connect_share.stores.alter_offsets import reset_offsets
from tests.support.flushes import flush_offsets


def view(storage: ConnectStorage) -> dict[str, Any]:
    """Everything the stores believe, as JSON."""
    storage.config.refresh(120)
    config, offsets = storage.config.snapshot(), {}
    storage.offsets.get(()).result(120)
    for name in sorted(storage.offsets.snapshot().connectors()):
        pairs = storage.offset_reader(name).offsets(storage.offsets.connector_partitions(name))
        offsets[name] = [[partition, offset] for partition, offset in pairs]
    connectors = {}
    for name in sorted(config.connectors()):
        target = config.target_state(name)
        connectors[name] = {
            "config": config.connector_config(name),
            "target": "STARTED" if target is None else target.name,
            "tasks": len(config.tasks(name)),
        }
    return {"connectors": connectors, "offsets": {name: pairs for name, pairs in offsets.items() if pairs}}


def _carry_out(storage: ConnectStorage, order: dict[str, Any]) -> Any:
    name = order.get("connector", "")
    match order["do"]:
        case "put":
            storage.config.put_connector_config(name, order["config"])
            storage.config.put_task_configs(name, [{**order["config"], "task.class": "x"}] * order["tasks"])
            storage.status.put(ConnectorStatus(name, State.RUNNING, "python:1", 1, None, None))
        case "target":
            storage.config.put_target_state(name, TargetState[order["state"]])
        case "delete":
            storage.config.remove_connector_config(name)
        case "offset":
            flush_offsets(storage.offset_writer(name), (order["partition"], order["offset"]))
        case "reset":
            reset_offsets(storage.offsets, name)
        case "view":
            return view(storage)
        case other:
            raise ValueError(other)
    return True


def serve(worker_file: Path, orders: Iterable[str], answers: IO[str]) -> None:
    with ConnectStorage(WorkerConfig.from_file(worker_file), allow_empty=True) as storage:
        print(json.dumps({"done": "started"}), file=answers, flush=True)
        for line in orders:
            answer: dict[str, Any]
            try:
                answer = {"done": _carry_out(storage, json.loads(line))}
            except ConnectShareError as error:
                answer = {"failed": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), file=answers, flush=True)


class OrderFailedError(Exception):
    """The group has said so."""


class PythonGroup:
    """The other end: starts, orders, kills."""

    def __init__(self, worker_file: Path) -> None:
        self._worker_file = worker_file
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start its process.

        Raises:
            OrderFailedError: it ended, having said why on stderr.
        """
        command = [sys.executable, "-m", "tests.support.python_group", str(self._worker_file)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._answer(starting=True) == "started"

    def order(self, **order: Any) -> Any:
        """Have something done.

        Raises:
            OrderFailedError: it was not, or that is not known.
        """
        self.begin(**order)
        return self._answer()

    def begin(self, **order: Any) -> None:
        """Have something done, and do not wait for it."""
        assert self._process is not None
        assert self._process.stdin is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)

    def kill(self) -> None:
        self._end(kill=True)

    def stop(self) -> None:
        self._end(kill=False)

    def _answer(self, *, starting: bool = False) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if starting and not line:
            self.kill()
            raise OrderFailedError("it did not start")
        assert line, "the process of a Python group has ended"
        answer = json.loads(line)
        if "failed" in answer:
            raise OrderFailedError(answer["failed"])
        return answer["done"]

    def _end(self, *, kill: bool) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with process:  # closes the pipes, which ends it in order, and waits
            if kill:
                process.kill()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.stdin, sys.stdout)
