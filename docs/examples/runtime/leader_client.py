"""What only the leader may do, done here or asked of it with a signed request (KIP-507)."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from connect_share import ConnectStorage
from connect_share.runtime import ConnectGroupMember, Generation, signature_headers

NOT_AGAIN = ("forward", "false")  # in the query of a request that was forwarded, as in Java
_TIMEOUT_S = 30.0
_MOST_ANSWER_BYTES = 16 * 1024 * 1024


class RestError(Exception):
    """An answer that is not the one that was asked for."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class LeaderClient:
    """The leader of the group, which may be this worker."""

    def __init__(self, storage: ConnectStorage, member: ConnectGroupMember) -> None:
        self._storage, self._member = storage, member

    def generation(self) -> Generation:
        """Return the last rebalance.

        Raises:
            RestError: 503, this worker has not joined yet.
        """
        generation = self._member.generation
        if generation is None:
            raise RestError(503, "This worker is not a member of its group yet; try again")
        return generation

    def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        """Write the configurations of all tasks of a connector."""
        if self.generation().is_leader:
            self._storage.config.put_task_configs(connector, configs)
        else:
            self._ask("POST", f"/connectors/{quote(connector, safe='')}/tasks", json.dumps(configs).encode())

    def fence(self, connector: str) -> None:
        """End the producers of tasks of a source connector that ran before its last task configurations."""
        if self.generation().is_leader:
            self._storage.fence_zombie_source_tasks(connector)
        else:
            self._ask("PUT", f"/connectors/{quote(connector, safe='')}/fence", b"")

    def _ask(self, method: str, path: str, body: bytes) -> None:
        key = self._storage.config.snapshot().session_key
        if key is None:
            raise RestError(503, "There is no session key yet; try again")
        headers = {"Content-Type": "application/json", **signature_headers(key.key, body)}
        forward(method, self.generation().leader_url.rstrip("/") + path, body, headers)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: object, fp: object, code: int, msg: str, headers: object, newurl: str) -> None:  # noqa: PLR0917 - as it is called
        """Return nothing: a redirect is an error of the worker, as any other answer is that is no success."""


def forward(method: str, url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
    """Send a request to another member of the group, and return status and body of its answer.

    Raises:
        RestError: the worker answered with an error, or not at all.
    """
    if not url.startswith(("http://", "https://")):
        raise RestError(503, f"The worker at {url} cannot be reached: its URL is neither http nor https")
    request = urllib.request.Request(url, body or None, dict(headers), method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects)
    try:
        with opener.open(request, timeout=_TIMEOUT_S) as answer:
            return answer.status, answer.read(_MOST_ANSWER_BYTES)
    except urllib.error.HTTPError as error:
        with error:
            raise RestError(error.code, _message(error.read(_MOST_ANSWER_BYTES))) from None
    except OSError as error:
        raise RestError(503, f"The worker at {url} cannot be reached: {error}") from None


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return "no message"
