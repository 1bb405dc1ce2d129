"""A real Java Connect worker, unmodified, in a JVM of its own."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from connect_share.files import run_folder
from connect_share.jar import INTERCEPTOR_CLASS
from connect_share.worker_config import SHARING_PROPERTY
from tests.lab.embedded.artifacts import ensure_artifacts
from tests.lab.embedded.broker import DEFAULT_VERSION
from tests.lab.embedded.jvm import QUICK, java_arguments, write_log_settings
from tests.lab.embedded.ports import free_ports
from tests.lab.embedded.processes import ChildProcess, LocalServer
from tests.lab.embedded.rest import ConnectRest

_log = logging.getLogger(__name__)

_START_S: Final = 300.0
_STOP_S: Final = 60.0
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]")
_NOT_IN_VALUES: Final = re.compile(r"[^ -~]|\\|\A ")
_DEFAULTS: Final[Mapping[str, str]] = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "offset.storage.partitions": "5",
    "status.storage.partitions": "5",
    "offset.flush.interval.ms": "1000",
    "rest.advertised.host.name": "127.0.0.1",
    "plugin.discovery": "service_load",  # no scan of the class path: the quickest start
    "scheduled.rebalance.max.delay.ms": "0",
    "task.shutdown.graceful.timeout.ms": "1000",
}
Sharing = Literal["", "python", "java"]
"""Whether topics are shared, and by whom."""

QUICK_MEMBERS: Final[Mapping[str, str]] = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1500",
    "rebalance.timeout.ms": "10000",
}
"""With these a group soon misses a worker that was killed."""


def worker_properties(
    bootstrap_servers: str,
    group_id: str,
    topic_prefix: str | None = None,
    *,
    sharing: Sharing = "",
) -> dict[str, str]:
    """Return the properties of a worker of a group with topics ``<prefix>-configs``, ``-offsets`` and ``-status``.

    ``sharing`` these topics: a Python worker needs one more line, a Java worker with the jar two.
    """
    prefix = topic_prefix or group_id
    return {
        **_DEFAULTS,
        "bootstrap.servers": bootstrap_servers,
        "group.id": group_id,
        "config.storage.topic": f"{prefix}-configs",
        "offset.storage.topic": f"{prefix}-offsets",
        "status.storage.topic": f"{prefix}-status",
        **({SHARING_PROPERTY: "enabled"} if sharing else {}),
        **({"interceptor.classes": INTERCEPTOR_CLASS} if sharing == "java" else {}),
    }


def write_properties(path: Path, properties: Mapping[str, str]) -> Path:
    """Write a properties file that Java reads back the same; only its owner may read it."""
    lines = [
        f"{_NOT_IN_NAMES.sub(_escaped, name)}={_NOT_IN_VALUES.sub(_escaped, value)}\n"
        for name, value in properties.items()
    ]
    path.write_text("".join(lines), encoding="ascii")
    path.chmod(0o600)
    return path


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{high << 8 | low:04X}" for high, low in zip(units[::2], units[1::2], strict=True))


class ConnectWorker(LocalServer):
    """A distributed worker that lives as long as the ``with`` block, or this process.

    A loopback REST listener is added to its properties. ``libraries`` is the folder with the jars of a Kafka of one's
    own, by default those of the artifact lock. Without ``wait``, :meth:`start` returns before the worker is healthy. The
    ``options`` are those of the JVM.
    """

    _name = "worker"

    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        version: str = DEFAULT_VERSION,
        class_path: tuple[Path, ...] = (),
        libraries: Path | None = None,
        wait: bool = True,
        options: Sequence[str] = (*QUICK, "-Xms96m", "-Xmx512m"),
    ) -> None:
        super().__init__()
        self._options = options
        self._properties = dict(properties)
        self._version = version
        self._class_path = class_path
        self._libraries = libraries
        self._wait = wait
        self.rest = ConnectRest("")

    @property
    def pid(self) -> int | None:
        """Process id of the Java program, while there is one."""
        return self._process.pid if self._process is not None and self._process.running else None

    def start(self) -> None:
        """Start the worker, again if it ran before; raise ``EmbeddedError`` if it did not get healthy in time."""
        if self._wait:
            super().start()
        else:
            self._launch()

    def await_healthy(self, timeout_s: float = _START_S) -> None:
        """Wait until it has read its topics and joined its group; raise ``EmbeddedError`` if it ended, or was not in time."""
        self._await(self._is_healthy, "healthy", timeout_s)

    _await_start = await_healthy

    def _is_healthy(self) -> bool:
        # Its log has to say that it bound its port: another program may have taken the port, and answer there.
        logged = self._printed()
        # GET /health came with 3.9; before, lists are answered while the topics are still being read.
        if tuple(map(int, self._version.split(".")[:2])) >= (3, 9):
            return "REST server listening at" in logged and self.rest.answers("/health")
        return "Herder started" in logged and self.rest.answers()

    def _launch(self) -> None:
        if self._folder is None:
            self._folder = run_folder("worker")
            write_log_settings(self._folder)
        port = free_ports(1)[0]
        self.rest = ConnectRest(f"http://127.0.0.1:{port}")
        settings = write_properties(
            self._folder / "worker.properties", {**self._properties, "listeners": f"http://127.0.0.1:{port}"}
        )
        command = java_arguments(
            self._libraries or ensure_artifacts(f"kafka-{self._version}"),
            "org.apache.kafka.connect.cli.ConnectDistributed",
            [str(settings)],
            options=self._options,
            log_settings=self._folder / "log4j2.properties",
            more_classes=self._class_path,
        )
        _log.info("Starting a Connect %s worker of group %s", self._version, self._properties.get("group.id"))
        log_path = self._folder / "worker.log"
        self._process = ChildProcess(command, log_path=log_path, grace_s=_STOP_S, cwd=self._folder)
