"""A real ZooKeeper for tests, of the brokers that still had one, in a JVM of its own, on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from connect_share.topic_ids.authority.authority import Authority
from connect_share.topic_ids.authority.zookeeper import open_zookeeper
from tests.lab.embedded.ports import free_ports
from tests.lab.zookeeper_cluster import start_zookeeper

_SESSION_S: Final = 180.0  # of the test's own client, however slow the machine is


def read_zookeeper(hosts: str, config: Path | None = None, *, timeout_s: float = 60.0) -> Authority:
    """Read all topics of a cluster."""
    with open_zookeeper(hosts, config, timeout_s=timeout_s) as session:
        return session.authority()


@contextmanager
def zookeeper_client(folder: Path) -> Iterator[tuple[str, Any]]:
    """Start a ZooKeeper in a new folder; return its hosts and a client that is connected."""
    kazoo = pytest.importorskip("kazoo.client")
    folder.mkdir()
    [port] = free_ports(1)
    process, hosts = start_zookeeper(folder, port), f"127.0.0.1:{port}"
    client = kazoo.KazooClient(hosts=hosts, timeout=_SESSION_S)
    try:
        client.start(timeout=_SESSION_S)
        yield hosts, client
    finally:
        client.stop()
        client.close()
        process.stop()
