"""Two brokers, so that a topic can lack replicas."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.lab.cluster import LocalCluster
from tests.lab.embedded.broker import LocalBroker

# Topics of tests say themselves how many replicas they need, and Kafka's own have to live on while one broker is down.
_ONE_REPLICA: Final = dict.fromkeys(
    (
        "default.replication.factor",
        "min.insync.replicas",
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
    ),
    "1",
)


@contextmanager
def two_brokers() -> Iterator[tuple[LocalBroker, LocalBroker]]:
    """Start two; the first one is the controller, the second one only keeps copies."""
    with LocalCluster(2, properties=_ONE_REPLICA) as cluster:
        yield cluster.broker(1), cluster.broker(2)
