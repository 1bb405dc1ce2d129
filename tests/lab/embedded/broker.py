"""A real Kafka broker: one KRaft node in a JVM of its own, on loopback."""

from __future__ import annotations

import logging
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from connect_share.errors import BrokerError
from connect_share.files import cache_folder, run_folder
from connect_share.kafka.admin import Admin
from connect_share.worker_config import ClientSettings
from tests.lab.embedded.artifacts import ensure_artifacts, locked
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.embedded.jvm import QUICK, STEADY, java_arguments, write_log_settings
from tests.lab.embedded.ports import free_ports
from tests.lab.embedded.processes import ChildProcess, LocalServer

_log = logging.getLogger(__name__)

DEFAULT_VERSION: Final = "4.3.1"
_CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qk"
_START_S: Final = 240.0
_FORMAT_S: Final = 120.0
_STOP_S: Final = 60.0
_STARTED: Final = "Kafka Server started"
_COMMON: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",
    "num.partitions": "1",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.coordinator.threads": "1",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "num.network.threads": "2",
    "background.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "log.cleaner.threads": "1",
    "log.cleaner.io.buffer.size": "262144",
}
_PROFILES: Final[Mapping[str, Mapping[str, str]]] = {
    # Compaction within a second, small buffers.
    "test": {
        "num.io.threads": "2",
        "log.cleaner.dedupe.buffer.size": "2097152",
        "log.cleaner.backoff.ms": "300",
        "log.segment.delete.delay.ms": "100",
        "log.initial.task.delay.ms": "500",
        "log.flush.offset.checkpoint.interval.ms": "1000",
    },
    "bench": {"num.io.threads": "4", "log.cleaner.dedupe.buffer.size": "134217728"},
}


BROKER_SET: Final = "kafka-broker-"
"""Sets with a broker alone; that of the default version has broker and worker."""


class LocalBroker(LocalServer):
    """A broker that lives as long as the ``with`` block, or this process; started again it has its data and ports.

    Profile ``test`` compacts eagerly and is small, ``bench`` has a normal broker's settings. ``classes`` are folders of more
    classes, such as of a policy.
    """

    _name = "broker"
    client_listener = "PLAINTEXT"
    """Security protocol of the listener for clients."""
    format_arguments: Sequence[str] = ()
    """Further arguments of the storage tool."""

    def __init__(
        self,
        profile: Literal["test", "bench"] = "test",
        *,
        properties: Mapping[str, str] | None = None,
        version: str = DEFAULT_VERSION,
        classes: Sequence[Path] = (),
    ) -> None:
        super().__init__()
        self.version = version
        self._profile = profile
        self._classes = classes
        self._extra = dict(properties or {})
        self._ports = free_ports(3)
        """For clients, for other brokers and for controllers."""

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` for clients."""
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def client_settings(self) -> ClientSettings:
        """Settings with which clients of this project reach the broker."""
        return ClientSettings({"bootstrap.servers": self.bootstrap_servers})

    @property
    def folder(self) -> Path:
        """Folder with settings, log and data."""
        if self._folder is None:
            raise EmbeddedError("the broker was not started")
        return self._folder

    @property
    def data_folder(self) -> Path:
        """The broker's ``log.dirs``."""
        return self.folder / "data"

    def close(self) -> None:
        """End it and remove its data."""
        self.kill()  # an orderly end saves data
        super().close()

    def broker_properties(self) -> dict[str, str]:
        """Return the node's settings."""
        client, internal, controller = self._ports
        protocol = self.client_listener
        advertised = f"{protocol}://127.0.0.1:{client},INTERNAL://127.0.0.1:{internal}"
        return {
            **_COMMON,
            **_PROFILES[self._profile],
            "listeners": f"{advertised},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": advertised,
            "listener.security.protocol.map": f"{protocol}:{protocol},INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": str(self.data_folder),
            **self._extra,
        }

    def admin(self, timeout_s: float = 5.0) -> Admin:
        """Return a new admin client with every right."""
        settings = ClientSettings({"bootstrap.servers": f"127.0.0.1:{self._ports[1]}"})
        return Admin(settings, client_id="embedded-broker", timeout_s=timeout_s)

    def _format(self) -> None:
        """Format the storage by Kafka's tool, or copy storage it has formatted before: its JVM takes a second."""
        write_log_settings(self.folder)
        settings = self.folder / "server.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in self.broker_properties().items()))
        more = self.format_arguments
        formatted = cache_folder() / "formatted" / self.version
        if not more and formatted.is_dir():
            shutil.copytree(formatted, self.data_folder)
            return
        arguments = ["format", "-t", _CLUSTER_ID, "-c", str(settings), "--ignore-formatted", *more]
        command = self._java("kafka.tools.StorageTool", arguments, ("-Xmx256m",))
        done = subprocess.run(command, capture_output=True, text=True, timeout=_FORMAT_S, check=False)
        if done.returncode != 0:
            raise EmbeddedError(f"the broker's storage could not be formatted: {(done.stdout + done.stderr)[-1500:]}")
        if not more:
            with locked("formatted"):
                if not formatted.is_dir():
                    copy = formatted.with_name(f"{formatted.name}.new")
                    shutil.rmtree(copy, ignore_errors=True)
                    shutil.copytree(self.data_folder, copy)
                    copy.replace(formatted)

    def _java(self, main_class: str, arguments: list[str], memory: tuple[str, ...]) -> list[str]:
        options = (*(STEADY if self._profile == "bench" else QUICK), *memory)
        kind = "kafka-" if self.version == DEFAULT_VERSION else BROKER_SET
        return java_arguments(
            ensure_artifacts(f"{kind}{self.version}"),
            main_class,
            arguments,
            options=options,
            log_settings=self.folder / "log4j2.properties",
            more_classes=self._classes,
        )

    def _launch(self) -> None:
        if self._folder is None:
            self._folder = run_folder("broker")
            self._format()
        memory = ("-Xms1g", "-Xmx1g") if self._profile == "bench" else ("-Xms128m", "-Xmx512m")
        command = self._java("kafka.Kafka", [str(self.folder / "server.properties")], memory)
        _log.info("Starting Kafka %s on %s", self.version, self.bootstrap_servers)
        self._process = ChildProcess(command, log_path=self.folder / "broker.log", grace_s=_STOP_S)

    def _await_start(self) -> None:
        self._await(self._is_ready, "ready", _START_S)

    def _is_ready(self) -> bool:
        # Its log has to say that it bound all its ports: another program may have taken one, and answer there.
        if _STARTED in self._printed():
            with suppress(BrokerError), self.admin(timeout_s=2.0) as admin:
                return bool(admin.cluster_id()) and admin.broker_count() > 0
        return False
