"""Two brokers, so that a topic can be out of replicas: one alone is always enough for Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from connect_share.embedded.broker import LocalBroker
from tests.support.waiting import await_that

_QUICK: Final = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
}


class SecondBroker(LocalBroker):
    """A node that only keeps copies; the first one is its controller."""

    def __init__(self, first: LocalBroker) -> None:
        super().__init__(properties={**_QUICK, "node.id": "2", "process.roles": "broker"})
        self._first = first

    def broker_properties(self) -> dict[str, str]:
        properties = super().broker_properties()
        without = {
            name: ",".join(part for part in properties[name].split(",") if not part.startswith("CONTROLLER"))
            for name in ("listeners", "advertised.listeners")
        }
        return {
            **properties,
            **without,
            "controller.quorum.voters": self._first.broker_properties()["controller.quorum.voters"],
        }


@contextmanager
def two_brokers() -> Iterator[tuple[LocalBroker, SecondBroker]]:
    with LocalBroker(properties=_QUICK) as first, SecondBroker(first) as second:
        with first.admin() as admin:
            await_that(admin.broker_count, lambda count: count == 2, what="two brokers", timeout_s=60)
        yield first, second
