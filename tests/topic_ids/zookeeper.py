"""A real ZooKeeper for tests: the jars that come with pyspark, in a JVM of its own, on loopback."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from connect_share.jar.java_runtime import java_command
from connect_share.topic_ids.authority.authority import Authority
from connect_share.topic_ids.authority.zookeeper import open_zookeeper
from tests.lab.embedded.jvm import QUICK
from tests.lab.embedded.ports import free_ports
from tests.lab.embedded.processes import ChildProcess
from tests.support.waiting import await_that

_SESSION_S: Final = 60.0  # of the test's own client, however slow the machine is
_REST: Final = "admin.enableServer=false\n4lw.commands.whitelist=srvr\n"


def _jars() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        pytest.skip("ZooKeeper's jars come with the extra spark")
    return Path(spec.origin).parent / "jars"


@contextmanager
def zookeeper(folder: Path) -> Iterator[str]:
    """Start one; return ``host:port``."""
    [port] = free_ports(1)
    config = folder / "zoo.cfg"
    config.write_text(f"dataDir={folder}\nclientPort={port}\nclientPortAddress=127.0.0.1\n{_REST}")
    jars = _jars()
    needed = (
        "zookeeper-*",
        "slf4j-api-*",
        "snappy-java-*",
        "metrics-core-*",
        "netty-*",
        "commons-cli-*",
        "commons-io-*",
    )
    class_path = ":".join(str(jar) for pattern in needed for jar in sorted(jars.glob(f"{pattern}.jar")))
    main_class = "org.apache.zookeeper.server.ZooKeeperServerMain"
    command = [str(java_command()), *QUICK, "-Xmx128m", "-cp", class_path, main_class, str(config)]
    process = ChildProcess(command, log_path=folder / "zookeeper.log")

    def serves() -> bool:
        assert process.running, process.log_tail()
        # It takes connections before it serves them.
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
                client.sendall(b"srvr")
                return b"Mode: standalone" in client.recv(4096)
        except OSError:
            return False

    try:
        await_that(serves, what="serving", timeout_s=120)
        yield f"127.0.0.1:{port}"
    finally:
        process.stop()


def read_zookeeper(hosts: str, config: Path | None = None, *, timeout_s: float = 15.0) -> Authority:
    """Read all topics of a cluster."""
    with open_zookeeper(hosts, config, timeout_s=timeout_s) as session:
        return session.authority()


@contextmanager
def zookeeper_client(folder: Path) -> Iterator[tuple[str, Any]]:
    """Start a ZooKeeper in a new folder; return its hosts and a client that is connected."""
    kazoo = pytest.importorskip("kazoo.client")
    folder.mkdir()
    with zookeeper(folder) as hosts:
        client = kazoo.KazooClient(hosts=hosts, timeout=_SESSION_S)
        client.start(timeout=_SESSION_S)
        try:
            yield hosts, client
        finally:
            client.stop()
            client.close()
