"""The cluster that a benchmark runs on: the settings that lead to it, and what it is asked for beforehand."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from connect_share.errors import ConfigError
from connect_share.kafka.admin import Admin
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.profiles import profile_in_use
from connect_share.worker_config.worker import connection_settings
from spark_jobs.startup.scenarios import Plan
from spark_jobs.units import size
from tests.lab.embedded.worker import worker_properties

SERVERS: Final = "bootstrap.servers"
PREFIX: Final = "connect-share-benchmark-"
"""All topics that a benchmark makes, and deletes, begin with it."""

_SECURITY: Final = re.compile(r"((producer|consumer|admin)\.)?(security|ssl|sasl)\..+")
_PLACE: Final = re.compile(
    rf"((producer|consumer|admin)\.)?({re.escape(SERVERS)}|client\.dns\.lookup)"
    r"|(config|offset|status)\.storage\.replication\.factor"
)
_BROKERS_DEFAULT: Final = {f"{kind}.storage.replication.factor": "-1" for kind in ("config", "offset", "status")}
_SHOWN: Final = 3

Connection = Mapping[str, str]
"""Properties of a worker file, at least :data:`SERVERS`; may hold secrets."""


def connection_from(worker_file: Path | None, servers: str | None, profile: str | None) -> Connection:
    """Return how to get to the cluster, and how many replicas its topics have: the brokers' default unless a file says it.

    Args:
        worker_file: a worker's; only its connection is read, references to config providers are resolved.
        servers: instead of a worker file.
        profile: as ``--profile`` of the console; wins over the file, but for its brokers. ``None``: that of the environment.

    Raises:
        ConfigError, InvalidClusterGroupIdError: as :meth:`WorkerConfig.from_file`; no brokers are named.
    """
    with profile_in_use(profile):
        if worker_file is not None:
            given: Mapping[str, str] = WorkerConfig.from_file(worker_file).originals
        else:
            given = connection_settings() | ({SERVERS: servers} if servers else {})
    if SERVERS not in given:
        raise ConfigError(
            "give --embedded for a broker of its own, or your cluster: --worker-config, --bootstrap-servers, or a "
            f"profile with {SERVERS}",
            property_name=SERVERS,
        )
    found = {name: value for name, value in given.items() if _PLACE.fullmatch(name) or _SECURITY.fullmatch(name)}
    return _BROKERS_DEFAULT | found


def is_secured(connection: Connection) -> bool:
    """Return whether a client needs more than the address of the brokers."""
    return any(_SECURITY.fullmatch(name) for name in connection)


def look_at(connection: Connection) -> tuple[dict[str, object], list[str]]:
    """Return what a result says of the cluster, and the topics of benchmarks that are there already.

    Raises:
        BrokerError: it cannot be reached, or refuses the principal.
    """
    worker = WorkerConfig.from_properties({**worker_properties(connection[SERVERS], "benchmark"), **connection})
    with Admin(worker.admin_settings(), client_id="benchmark") as admin:
        known: dict[str, object] = {"cluster": admin.cluster_id(), "brokers": len(admin.brokers())}
        return known, sorted(name for name in admin.topic_names() if name.startswith(PREFIX))


def announcement(
    connection: Connection, plans: Sequence[Plan], contenders: Collection[str], puts: int, left: Sequence[str]
) -> Iterator[str]:
    """Yield what will be done on a user's cluster; ``left``: topics of benchmarks that are there already."""
    records, total, most = 0, 0, 0
    for plan in plans:
        # The Java stores' plain keys are a second copy.
        copies = 2 if plan.scenario.shared and "java" in contenders and "java" in plan.contenders else 1
        records += copies * plan.scenario.records
        total += copies * plan.scenario.bytes
        most = max(most, copies * plan.scenario.bytes)
    yield f"cluster: {connection[SERVERS]}"
    yield f"writes: about {records:,} made-up records, {size(total)}, at most {size(most)} at a time; each replica once"
    if puts:
        yield "then: some writers of a few small records a second, for the times of puts"
    yield f"topics: only its own, {PREFIX}...; deleted at the end, and when it is interrupted"
    if left:
        more = ", ..." if len(left) > _SHOWN else ""
        yield (
            f"note: {len(left)} such topics are there ({', '.join(left[:_SHOWN])}{more}): another benchmark runs, or was "
            "killed; this one leaves them alone"
        )
