"""Workers of the example runtime, as processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Self

from connect_share.kafka.connect_protocol import ConnectorsAndTasks
from connect_share.runtime import Generation
from tests.lab.embedded.ports import free_ports
from tests.lab.embedded.rest import ConnectRest
from tests.lab.embedded.worker import write_properties
from tests.support.waiting import await_that

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
FAST = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "300", "rebalance.timeout.ms": "15000"}


class RuntimeWorker:
    """One worker; its log is a file beside its properties."""

    def __init__(self, properties: dict[str, str], folder: Path) -> None:
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self.url = f"http://{self.address}"
        self.rest = ConnectRest(self.url)
        file = write_properties(folder / f"{self.address.replace(':', '-')}.properties", FAST | properties)
        self._log = file.with_suffix(".log").open("wb")
        command = [sys.executable, "-m", "runtime", str(file), "--listen", self.address]
        self.process = subprocess.Popen(command, cwd=EXAMPLES, stdout=self._log, stderr=subprocess.STDOUT)

    @property
    def log(self) -> str:
        return Path(self._log.name).read_text()

    def await_joined(self) -> None:
        """Wait until it is a member of its group."""

        def answers() -> bool:
            assert self.process.poll() is None, self.log
            return self.rest.answers("/health")

        await_that(answers, what="answering")

    def kill(self) -> None:
        self.process.kill()
        self._end()

    def stop(self) -> int:
        self.process.terminate()
        return self._end()

    def _end(self) -> int:
        code = self.process.wait(60)
        self._log.close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


class Idle:
    """A listener that does nothing."""

    def on_revoked(self, items: ConnectorsAndTasks) -> None:
        pass

    def on_assigned(self, items: ConnectorsAndTasks, generation: Generation) -> None:
        pass
