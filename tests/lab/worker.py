"""A Java worker with all of the REST interface that tests and benchmarks use."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from tests.lab.embedded.errors import EmbeddedError
from tests.lab.embedded.rest import ConnectRest, RestError, quoted
from tests.lab.embedded.worker import ConnectWorker

_TIMEOUT_S: Final = 60.0


class LabRest(ConnectRest):
    """The rest of a worker's REST interface."""

    def connectors(self) -> list[str]:
        """Return the names of all connectors."""
        names: list[str] = self.call("GET", "/connectors")
        return names

    def config(self, name: str) -> dict[str, str]:
        """Return the configuration of a connector."""
        found: dict[str, str] = self.call("GET", f"/connectors/{quoted(name)}/config")
        return found

    def status(self, name: str) -> dict[str, Any]:
        """Return the status of a connector and its tasks."""
        found: dict[str, Any] = self.call("GET", f"/connectors/{quoted(name)}/status")
        return found

    def tasks(self, name: str) -> list[dict[str, Any]]:
        """Return ids and configurations of a connector's tasks."""
        found: list[dict[str, Any]] = self.call("GET", f"/connectors/{quoted(name)}/tasks")
        return found

    def alter_offsets(self, name: str, offsets: list[dict[str, Any]]) -> None:
        """Set offsets of a stopped connector; entries as :meth:`offsets` returns them (3.6 and later)."""
        self.call("PATCH", f"/connectors/{quoted(name)}/offsets", {"offsets": offsets})

    def reset_offsets(self, name: str) -> None:
        """Remove all offsets of a stopped connector (3.6 and later)."""
        self.call("DELETE", f"/connectors/{quoted(name)}/offsets")

    def restart(self, name: str, *, tasks: bool = False) -> None:
        """Restart a connector, with ``tasks`` its tasks too (3.0 and later)."""
        options = "?includeTasks=true&onlyFailed=false" if tasks else ""
        self.call("POST", f"/connectors/{quoted(name)}/restart{options}")

    def resume(self, name: str) -> None:
        """Ask for the target state STARTED."""
        self.call("PUT", f"/connectors/{quoted(name)}/resume")

    def await_status(
        self, name: str, accept: Callable[[dict[str, Any]], bool], *, what: str, timeout_s: float = _TIMEOUT_S
    ) -> dict[str, Any]:
        """Wait until a connector's status is as wanted.

        Raises:
            EmbeddedError: it was not in time; has the last status (states only).
        """
        deadline_s = time.monotonic() + timeout_s
        last = "nothing"
        while time.monotonic() < deadline_s:
            try:
                status = self.status(name)
            except RestError as exc:
                last = f"HTTP {exc.status}"
            else:
                if accept(status):
                    return status
                tasks = [task["state"] for task in status["tasks"]]
                last = f"{status['connector']['state']}, tasks {tasks}"
            time.sleep(0.1)
        raise EmbeddedError(f"connector {name!r} was not {what} within {timeout_s:g} s; last seen: {last}")

    def await_state(self, name: str, state: str, *, tasks: int | None = None, timeout_s: float = _TIMEOUT_S) -> None:
        """Wait until a connector, and ``tasks`` tasks of it, are in a state."""

        def accept(status: dict[str, Any]) -> bool:
            states = [task["state"] for task in status["tasks"]]
            return bool(status["connector"]["state"] == state) and (tasks is None or states == [state] * tasks)

        self.await_status(name, accept, what=state, timeout_s=timeout_s)


class LabWorker(ConnectWorker):
    """A worker whose :attr:`rest` is a :class:`LabRest`."""

    rest: LabRest

    @property
    def pid(self) -> int | None:
        """Process id of the Java program, while there is one."""
        return self._process.pid if self._process is not None and self._process.running else None

    def new_rest(self, url: str) -> LabRest:
        """Return a client of the worker."""
        return LabRest(url)
