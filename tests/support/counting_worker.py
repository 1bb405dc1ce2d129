"""A worker of the task runner that counts, in a process of its own, which stands still between write and commit."""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from connect_share import KafkaOffsetBackingStore, TaskOffsetWriter, WorkerConfig
from connect_share.runtime import SoleMember
from connect_share.tasks import SourceRecord, SourceTask, TaskRunner

BATCH = 20


class Counter(SourceTask):
    """Counts to ``end``, a batch of numbers a poll."""

    def start(self, config: Mapping[str, str]) -> None:
        stored = self.context.offset({"counter": 1})
        self._next, self._end = 0 if stored is None else stored["next"], int(config["end"])
        self._topic = config["topic"]

    def poll(self) -> list[SourceRecord]:
        numbers = range(self._next, min(self._next + BATCH, self._end))
        self._next = numbers.stop
        return [
            SourceRecord({"counter": 1}, {"next": number + 1}, self._topic, str(number).encode()) for number in numbers
        ]


def _serve(properties: dict[str, str], control: Connection) -> None:
    """Run until told to stop. Before each commit it says so, and goes on when it is told to."""

    def standing_still(written: Any) -> Any:
        def stand_still(self: Any, *given: Any) -> Any:
            if isinstance(self, TaskOffsetWriter):
                assert self._producer._producer is not None
                self._producer._producer.flush(120)  # what is in the transaction is with the broker
            control.send("written")
            control.recv()
            return written(self, *given)

        return stand_still

    TaskOffsetWriter.commit = standing_still(TaskOffsetWriter.commit)  # type: ignore[method-assign]
    KafkaOffsetBackingStore.set = standing_still(KafkaOffsetBackingStore.set)  # type: ignore[method-assign]
    config = WorkerConfig.from_properties(properties)
    with TaskRunner(config, {"Counter": Counter}, worker_url="http://counting:1/", member=SoleMember) as runner:
        runner.wait()


class CountingWorker:
    """The other end: starts, lets it commit, kills."""

    def __init__(self, properties: dict[str, str]) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        self._control, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(properties, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def await_written(self) -> None:
        """Wait until records were written whose offsets are not."""
        assert self._control.poll(300)
        assert self._control.recv() == "written"

    def commit(self) -> None:
        self._control.send("go on")

    def kill(self) -> None:
        self._process.kill()
        self._process.join(180)
        self._control.close()
