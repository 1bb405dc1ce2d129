"""One measured run of MirrorMaker 2: from the start of its JVM until the destination ends where the source does."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from connect_share.admin import Admin
from connect_share.embedded.errors import EmbeddedError
from connect_share.errors import BrokerError
from connect_share.worker_config import ClientSettings
from tests.lab.benchmarks.mirror_maker import MirrorMaker, internal_topics, mirror_properties
from tests.lab.benchmarks.process_cost import Cost, Watch

_LOOK_EVERY_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class MirrorRun:
    """What a run cost.

    Attributes:
        cost: of the JVM, until the last record was there.
        copy_s: from the first record seen at the destination to the last.
        topics: names at the destination by those at the source.
    """

    cost: Cost
    copy_s: float
    topics: Mapping[str, str]


def partitions_of(admin: Admin, topics: Sequence[str]) -> list[tuple[str, int]]:
    """Give the partitions of those topics that exist."""
    described = admin.describe_topics(topics)
    return [(name, part.id) for name, found in described.items() for part in found.partitions]


def mirror(
    alias: str, source: str, destination: str, topics: Sequence[str], prefix: str, *, give_up_s: float
) -> MirrorRun:
    """Mirror topics to their end; the topics it makes are left to :func:`remove`.

    Args:
        alias: of the source, a new one each time.
        source: ``host:port``.
        destination: likewise.
        topics: names at the source, to which nobody writes.
        prefix: put before every key.
        give_up_s: seconds after which it counts as failed.

    Raises:
        EmbeddedError: it ended, or was not done in time; has the end of its log.
    """
    names = {topic: f"{alias}.{topic}" for topic in topics}
    with (
        Admin(ClientSettings({"bootstrap.servers": source}), client_id="benchmark") as there,
        Admin(ClientSettings({"bootstrap.servers": destination}), client_id="benchmark") as here,
    ):
        ends = there.end_offsets(partitions_of(there, topics))
        wanted = {(names[topic], number): end for (topic, number), end in ends.items()}
        properties = mirror_properties(alias, source, destination, topics, prefix)
        began_s, first_s = time.perf_counter(), 0.0
        with MirrorMaker(properties) as maker, Watch(maker.pid) as watch:
            while True:
                found = _ends(here, list(names.values()))
                now_s = time.perf_counter()
                if any(found.values()) and not first_s:
                    first_s = now_s
                if found == wanted:
                    break
                if not maker.running or now_s - began_s > give_up_s:
                    raise EmbeddedError(f"MirrorMaker 2 did not copy everything in time: {maker.log_tail()}")
                time.sleep(_LOOK_EVERY_S)
            cpu_s = watch.cpu_s()
        return MirrorRun(Cost(now_s - began_s, cpu_s, watch.peak_bytes), now_s - first_s, names)


def _ends(admin: Admin, topics: Sequence[str]) -> dict[tuple[str, int], int]:
    try:
        return admin.end_offsets(partitions_of(admin, topics))
    except BrokerError:
        return {}  # while topics are being made their leaders are not known everywhere


def remove(alias: str, destination: str, topics: Sequence[str]) -> None:
    """Delete what a run has left: its copies and its own topics."""
    with Admin(ClientSettings({"bootstrap.servers": destination}), client_id="benchmark") as admin:
        existing = admin.describe_topics([*topics, *internal_topics(alias)])
        admin.delete_topics(list(existing))
