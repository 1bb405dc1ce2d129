"""A client of a Connect worker's REST interface."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from tests.lab.embedded.errors import EmbeddedError
from tests.lab.waiting import until

_TIMEOUT_S: Final = 180.0
_AGAIN_S: Final = 0.02
_CONFLICT: Final = 409
_NO_ANSWER: Final = (OSError, http.client.HTTPException)
"""The latter comes from a worker that was killed while it answered."""


class RestError(EmbeddedError):
    """The worker answered with an error; ``status`` is its HTTP status."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


def quoted(name: str) -> str:
    """Return the name of a connector as a part of a path."""
    return urllib.parse.quote(name, safe="")


class ConnectRest:
    """REST client of one worker."""

    def __init__(self, url: str) -> None:
        self.url = url

    def call(self, method: str, path: str, body: Any = None, *, timeout_s: float = _TIMEOUT_S) -> Any:
        """Send a request and return the parsed answer (``None`` if empty).

        A GET that meets a rebalance (409) is sent again until ``timeout_s`` is over. Raise ``RestError`` for an HTTP status
        of 400 or above, or for no answer (status 0).
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                return self._send(method, path, body, timeout_s)
            except RestError as exc:
                if method != "GET" or exc.status != _CONFLICT or time.monotonic() > deadline_s:
                    raise
            time.sleep(_AGAIN_S)

    def _send(self, method: str, path: str, body: Any, timeout_s: float) -> Any:
        data = None if body is None else json.dumps(body).encode("utf-8")
        request = urllib.request.Request(self.url + path, data=data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:
                text = answer.read()
        except urllib.error.HTTPError as exc:
            detail = b""
            with exc, suppress(*_NO_ANSWER):
                detail = exc.read()[:300]
            detail_text = detail.decode("utf-8", "replace")
            raise RestError(f"{method} {path}: HTTP {exc.code} {detail_text}", status=exc.code) from exc
        except _NO_ANSWER as exc:
            raise RestError(f"{method} {path}: no answer ({exc})") from exc
        return json.loads(text) if text else None

    def answers(self, path: str = "/connectors") -> bool:
        """Return whether the worker answers a GET without an error."""
        try:
            self.call("GET", path, timeout_s=5.0)
        except RestError:
            return False
        return True

    def put_config(self, name: str, config: Mapping[str, str]) -> None:
        """Create or change a connector."""
        self.call("PUT", f"/connectors/{quoted(name)}/config", dict(config))

    def topics(self, name: str) -> list[str]:
        """Return the active topics of a connector, sorted."""
        found = self.call("GET", f"/connectors/{quoted(name)}/topics")
        return sorted(found.get(name, {}).get("topics", []))

    def offsets(self, name: str) -> list[dict[str, Any]]:
        """Return the offsets of a connector; of a sink those of its consumer group."""
        found: list[dict[str, Any]] = self.call("GET", f"/connectors/{quoted(name)}/offsets")["offsets"]
        return found

    def pause(self, name: str) -> None:
        """Ask for the target state PAUSED."""
        self.call("PUT", f"/connectors/{quoted(name)}/pause")

    def stop(self, name: str) -> None:
        """Ask for the target state STOPPED."""
        self.call("PUT", f"/connectors/{quoted(name)}/stop")

    def delete(self, name: str) -> None:
        """Remove a connector."""
        self.call("DELETE", f"/connectors/{quoted(name)}")

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
        """Wait until a connector's status is as wanted."""

        def ask() -> Any:
            try:
                return self.status(name)
            except RestError as exc:
                return f"HTTP {exc.status}"

        def is_wanted(seen: Any) -> bool:
            return isinstance(seen, dict) and accept(seen)

        found: dict[str, Any] = until(ask, is_wanted, what=f"connector {name!r} to be {what}", timeout_s=timeout_s)
        return found

    def await_state(self, name: str, state: str, *, tasks: int | None = None, timeout_s: float = _TIMEOUT_S) -> None:
        """Wait until a connector, and ``tasks`` tasks of it, are in a state."""

        def accept(status: dict[str, Any]) -> bool:
            states = [task["state"] for task in status["tasks"]]
            return bool(status["connector"]["state"] == state) and (tasks is None or states == [state] * tasks)

        self.await_status(name, accept, what=state, timeout_s=timeout_s)


def when_possible(action: Callable[[], object], timeout_s: float = _TIMEOUT_S, *, gone_is_fine: bool = False) -> None:
    """Send a request over REST until the group answers and does not rebalance (409; 500 or 503 of a killed leader).

    Args:
        action: the request; may be sent several times.
        timeout_s: limit of all tries.
        gone_is_fine: a later try may find that an earlier one has removed the connector.

    Raises:
        RestError: another answer.
        EmbeddedError: none was in time; has the last one.
    """
    tries = 0

    def attempt() -> str:
        nonlocal tries
        tries += 1
        try:
            action()
        except RestError as error:
            if gone_is_fine and tries > 1 and error.status == 404:
                return ""
            if error.status in (0, 409, 500, 503):
                return str(error)
            raise
        return ""

    until(attempt, lambda said: not said, what="REST to accept a change", timeout_s=timeout_s)
