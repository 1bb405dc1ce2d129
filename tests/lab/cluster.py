"""Several real brokers on loopback: nodes that join, die and come back, racks, a quorum of controllers."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, Self

from connect_share.errors import BrokerError
from connect_share.kafka.admin import Admin
from connect_share.worker_config import ClientSettings
from tests.lab.embedded.broker import DEFAULT_VERSION, LocalBroker
from tests.lab.waiting import until

_SEEN_S: Final = 60.0
# The cluster notices a dead broker after 3 seconds instead of 9, a replica that lags after 3 instead of 30.
_QUICK: Final[Mapping[str, str]] = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
}


class ClusterNode(LocalBroker):
    """One broker of a :class:`LocalCluster`: ``start()``, ``stop()`` and ``kill()`` as of a :class:`LocalBroker`."""

    def __init__(self, cluster: LocalCluster, node_id: int, properties: Mapping[str, str]) -> None:
        super().__init__(properties=properties, version=cluster.version)
        self.id = node_id
        self._cluster = cluster

    @property
    def started_once(self) -> bool:
        """Whether it has data."""
        return self._folder is not None

    @property
    def controller_address(self) -> str:
        """``id@host:port`` for the quorum."""
        return f"{self.id}@127.0.0.1:{self._ports[2]}"

    @property
    def internal_address(self) -> str:
        """``host:port`` of the listener between brokers, on which clients have every right, too."""
        return f"127.0.0.1:{self._ports[1]}"

    def broker_properties(self) -> dict[str, str]:
        """Settings of the node; one that does not vote has no listener for controllers."""
        properties = {
            **super().broker_properties(),
            "node.id": str(self.id),
            "controller.quorum.voters": self._cluster.voters,
        }
        if not self._cluster.votes(self.id):
            properties["process.roles"] = "broker"
            for name in ("listeners", "advertised.listeners"):
                listeners = properties[name].split(",")
                properties[name] = ",".join(part for part in listeners if not part.startswith("CONTROLLER"))
        rack = self._cluster.racks.get(self.id)
        return {**properties, **({} if rack is None else {"broker.rack": rack})}

    def _format(self) -> None:
        super()._format()
        # A copy of storage that was formatted before has the ids of another node.
        own = {"node.id": str(self.id), "directory.id": _random_id()}
        path = self.data_folder / "meta.properties"
        kept = [line for line in path.read_text().splitlines() if line.split("=", 1)[0] not in own]
        path.write_text("\n".join([*kept, *(f"{name}={value}" for name, value in own.items()), ""]))


class LocalCluster:
    """Brokers with ids 1, 2, ... that live as long as the ``with`` block, or this process.

    Brokers 1 to ``controllers`` are controllers too. With one controller (the default) the others can join and die one after
    the other, and broker 1 has to be up for anything to change; with three, any one of three brokers may be killed.

    Args:
        brokers: how many there can be.
        controllers: how many of them vote; these are started together.
        racks: of the brokers in order; none by default.
        properties: further settings of every broker. By default topics, Kafka's own too, get as many replicas as there are
            brokers (three at most), and one of them may be out of sync.
        version: of Kafka.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        controllers: int = 1,
        racks: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        version: str = DEFAULT_VERSION,
    ) -> None:
        if not 1 <= controllers <= brokers or (racks and len(racks) != brokers):
            raise ValueError("1 <= controllers <= brokers, and a rack for each broker or none")
        replicas = min(3, brokers)
        factors = {
            "default.replication.factor": str(replicas),
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "share.coordinator.state.topic.replication.factor": str(replicas),
            "min.insync.replicas": str(max(1, replicas - 1)),
            "transaction.state.log.min.isr": str(max(1, replicas - 1)),
            "share.coordinator.state.topic.min.isr": str(max(1, replicas - 1)),
        }
        self.racks: dict[int, str] = dict(enumerate(racks, start=1))
        self.version = version
        self._controllers = controllers
        self._nodes = {
            number: ClusterNode(self, number, {**factors, **_QUICK, **(properties or {})})
            for number in range(1, brokers + 1)
        }

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def broker(self, node_id: int) -> ClusterNode:
        """Return one broker, running or not; ``kill()`` crashes it, ``start()`` brings it back on its data and port."""
        return self._nodes[node_id]

    @property
    def brokers(self) -> tuple[ClusterNode, ...]:
        """All brokers, running or not."""
        return tuple(self._nodes.values())

    @property
    def bootstrap_servers(self) -> str:
        """Comma list of all brokers that were ever started; addresses stay over restarts."""
        return ",".join(node.bootstrap_servers for node in self.brokers if node.started_once)

    @property
    def client_settings(self) -> ClientSettings:
        """Settings with which clients of this project reach the cluster."""
        return ClientSettings({"bootstrap.servers": self.bootstrap_servers})

    @property
    def voters(self) -> str:
        """``controller.quorum.voters``."""
        return ",".join(node.controller_address for node in self.brokers if self.votes(node.id))

    def votes(self, node_id: int) -> bool:
        """Return whether a broker is a controller, too."""
        return node_id <= self._controllers

    def admin(self, timeout_s: float = 30.0) -> Admin:
        """Return a new admin client with every right."""
        addresses = ",".join(node.internal_address for node in self.brokers if node.started_once)
        return Admin(
            ClientSettings({"bootstrap.servers": addresses}), client_id="embedded-cluster", timeout_s=timeout_s
        )

    def start(self, *node_ids: int) -> None:
        """Start brokers side by side, all by default; return when the cluster counts them as up.

        Brokers that run already keep running. The first start starts all controllers, also those that were not asked for.
        """
        wanted = set(node_ids or self._nodes)
        voters = {node.id for node in self.brokers if self.votes(node.id)}
        if not any(self.broker(number).started_once for number in voters):
            wanted |= voters
        resting = [node for node in self.brokers if node.id in wanted and not node.running]
        with ThreadPoolExecutor(len(self._nodes)) as threads:
            list(threads.map(ClusterNode.start, resting))
        self.await_brokers(wanted)

    def await_brokers(self, node_ids: set[int], timeout_s: float = _SEEN_S) -> None:
        """Wait until these brokers, at least, are up according to the cluster."""
        self._await_up(lambda up: node_ids <= up, f"brokers {sorted(node_ids)} up", timeout_s)

    def await_gone(self, node_id: int, timeout_s: float = _SEEN_S) -> None:
        """Wait until the cluster no longer counts a broker that was killed as up."""
        self._await_up(lambda up: node_id not in up, f"broker {node_id} gone", timeout_s)

    def _await_up(self, accept: Callable[[set[int]], bool], what: str, timeout_s: float) -> None:
        def look() -> bool:
            with suppress(BrokerError):  # the broker that was asked may be the one that has just died
                return accept({broker.id for broker in admin.brokers()})
            return False

        with self.admin() as admin:
            until(look, bool, what=what, timeout_s=timeout_s)

    def close(self) -> None:
        """Stop all brokers and remove their data."""
        with ThreadPoolExecutor(len(self._nodes)) as threads:
            list(threads.map(ClusterNode.close, self.brokers))


def _random_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
