"""Brokers of 3.9.2 with ZooKeeper, on loopback, each in a JVM of its own: the last ones of their kind."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Self

from connect_share.files import run_folder
from connect_share.kafka.admin import Admin
from connect_share.topic_ids.authority.zookeeper import open_zookeeper
from connect_share.worker_config import ClientSettings
from tests.lab.embedded.artifacts import ensure_artifacts
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.embedded.jvm import QUICK, java_arguments, write_log_settings
from tests.lab.embedded.ports import free_ports
from tests.lab.embedded.processes import ChildProcess
from tests.lab.waiting import holds, until

VERSION: Final = "3.9.2"
CHROOT: Final = "/kafka"
_ARTIFACTS: Final = f"kafka-broker-{VERSION}"
_START_S: Final = 90.0


def start_zookeeper(folder: Path, port: int) -> ChildProcess:
    """Start a ZooKeeper with its data in a folder; returns when it serves, which is later than it takes connections."""
    config = folder / "zoo.cfg"
    config.write_text(
        f"dataDir={folder / 'zookeeper'}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
        "4lw.commands.whitelist=srvr\n"
    )
    process = _java(folder, "zookeeper", "org.apache.zookeeper.server.ZooKeeperServerMain", config, "-Xmx128m")

    def serves() -> bool:
        if not process.running:
            raise EmbeddedError(f"ZooKeeper has ended: {process.log_tail()}")
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
                client.sendall(b"srvr")
                return b"Mode: standalone" in client.recv(4096)
        except OSError:
            return False

    try:
        until(serves, bool, what="ZooKeeper to serve", timeout_s=_START_S)
    except BaseException:
        process.stop()
        raise
    return process


def _java(folder: Path, name: str, main_class: str, settings: Path, memory: str) -> ChildProcess:
    command = java_arguments(
        ensure_artifacts(_ARTIFACTS),
        main_class,
        [str(settings)],
        options=(*QUICK, memory),
        log_settings=write_log_settings(folder),
    )
    return ChildProcess(command, log_path=folder / f"{name}.log", grace_s=20.0)


class ZooKeeperCluster:
    """One ZooKeeper and some brokers, two log dirs each; lives as long as the ``with`` block, or this process."""

    def __init__(self, brokers: int = 3) -> None:
        self.ids = tuple(range(1, brokers + 1))
        self.folder = Path()
        self._zookeeper: ChildProcess | None = None
        self._brokers: dict[int, ChildProcess] = {}
        self._ports = free_ports(1 + brokers)

    @property
    def hosts(self) -> str:
        """``host:port/chroot`` of ZooKeeper."""
        return f"127.0.0.1:{self._ports[0]}{CHROOT}"

    @property
    def client_settings(self) -> ClientSettings:
        """Settings for clients."""
        servers = ",".join(f"127.0.0.1:{port}" for port in self._ports[1:])
        return ClientSettings({"bootstrap.servers": servers})

    def admin(self, timeout_s: float = 10.0) -> Admin:
        """Return a new admin client."""
        return Admin(self.client_settings, client_id="zookeeper-cluster", timeout_s=timeout_s)

    def __enter__(self) -> Self:
        self.folder = run_folder("zookeeper-cluster")
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        self._zookeeper = start_zookeeper(self.folder, self._ports[0])
        for broker in self.ids:
            self._launch(broker)
        self._await_registered(set(self.ids))
        with self.admin() as admin:
            self._until(lambda: admin.broker_count() == len(self.ids), "all brokers answer")

    def settings_file(self, broker: int) -> Path:
        """The broker's ``server.properties``."""
        return self.folder / f"broker-{broker}.properties"

    def stop_broker(self, broker: int) -> None:
        """Stop a broker in order; returns when ZooKeeper no longer has it."""
        self._brokers.pop(broker).stop()
        self._await_registered(set(self._brokers))

    def start_broker(self, broker: int) -> None:
        """Start a broker on its data and port; returns when ZooKeeper has it."""
        self._launch(broker)
        self._await_registered(set(self._brokers))

    def change_controller(self) -> None:
        """Have the controller elected anew."""
        with open_zookeeper(self.hosts, timeout_s=_START_S) as session:
            old = session.get("/controller")
            session.delete("/controller")
            self._until(
                lambda: (
                    (new := session.get("/controller")) is not None and (old is None or new.created_at > old.created_at)
                ),
                "a new controller",
            )

    def close(self) -> None:
        """Stop everything and remove the data; brokers first, since they say goodbye to ZooKeeper."""
        brokers, self._brokers = list(self._brokers.values()), {}
        with ThreadPoolExecutor(max(len(brokers), 1)) as threads:
            list(threads.map(ChildProcess.stop, brokers))
        if self._zookeeper is not None:
            self._zookeeper.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _launch(self, broker: int) -> None:
        log_dirs = ",".join(str(self.folder / f"broker-{broker}" / f"logdir-{number}") for number in (1, 2))
        properties = {
            "broker.id": str(broker),
            "listeners": f"PLAINTEXT://127.0.0.1:{self._ports[broker]}",
            "zookeeper.connect": self.hosts,
            "zookeeper.session.timeout.ms": "6000",
            "log.dirs": log_dirs,
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": str(len(self.ids)),
            "group.initial.rebalance.delay.ms": "0",
            "replica.lag.time.max.ms": "6000",
            "num.recovery.threads.per.data.dir": "1",
            "log.cleaner.dedupe.buffer.size": "2097152",
        }
        settings = self.settings_file(broker)
        settings.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self._brokers[broker] = _java(self.folder, f"broker-{broker}", "kafka.Kafka", settings, "-Xmx320m")

    def _await_registered(self, brokers: set[int]) -> None:
        hosts = self.hosts.removesuffix(CHROOT)
        with open_zookeeper(hosts, timeout_s=_START_S) as session:
            wanted = {str(broker) for broker in brokers}
            self._until(
                lambda: set(session.children(f"{CHROOT}/brokers/ids")) == wanted,
                f"brokers {sorted(brokers)} in ZooKeeper",
            )

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        def look() -> bool:
            for process in (*([self._zookeeper] if self._zookeeper else []), *self._brokers.values()):
                if not process.running:
                    raise EmbeddedError(f"{process.log_path.name}: it ended: {process.log_tail(2_000)}")
            return holds(condition)

        until(look, bool, what=what, timeout_s=_START_S)
