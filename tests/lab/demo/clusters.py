"""The demo's clusters: their connectors, worker files and data files, before and after the move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from connect_share.sealing import KEYS_PROPERTY
from tests.lab.embedded.worker import QUICK_MEMBERS, worker_properties

Fate = Literal["runs", "is paused", "is stopped", "fails", "is deleted"]

SEALED_GROUP: Final = "billing.eu-west"
"""Its values are sealed on the shared topics."""
PASSWORD: Final = "hunter2-of-invoices"
"""Of one of its connectors: nowhere on the shared topics, and found on the dedicated ones."""

_SHARED_TOPICS: Final = "shared"


@dataclass(frozen=True, slots=True)
class Connector:
    """A file source (reads a file into a topic) or file sink (writes topics into a file)."""

    name: str
    kind: Literal["source", "sink"]
    topic: str
    fate: Fate = "runs"
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Connect cluster on dedicated topics of its own."""

    group_id: str
    connectors: tuple[Connector, ...]


# Names are chosen to be hard to split: dots, dashes, an emoji, names that look like keys of the internal topics, and
# the same name in several clusters.
CLUSTERS: Final = (
    Cluster(
        "orders",
        (
            Connector("orders.eu-west.source", "source", "orders.raw"),
            Connector("orders.eu-west.archive", "sink", "orders.raw"),
            Connector("🚚-deliveries.v2", "source", "orders.deliveries", extra={"batch.size": "1000"}),
            Connector("returns.paused-1", "source", "orders.returns", "is paused"),
            Connector("broken.disk-sink", "sink", "orders.raw", "fails"),
            Connector("gone.for-good-2", "source", "orders.gone", "is deleted"),
        ),
    ),
    Cluster(
        "billing.eu-west",
        (
            Connector("invoices.source", "source", "billing.invoices", extra={"database.password": PASSWORD}),
            Connector("connector-task-invoices-1", "sink", "billing.invoices", extra={"tasks.max": "2"}),
            Connector("commit-🧾.paused", "sink", "billing.invoices", "is paused"),
            Connector("stopped.source-1", "source", "billing.stopped", "is stopped"),
            Connector("broken.disk-sink", "sink", "billing.invoices", "fails"),
            Connector("gone.for-good-2", "sink", "billing.invoices", "is deleted"),
        ),
    ),
    Cluster(
        "connect-cluster",
        (
            Connector("orders.eu-west.source", "source", "other.raw"),
            Connector("other.archive", "sink", "other.raw"),
            Connector("orders.source-1", "source", "other.paused", "is paused"),
            Connector("broken.disk-sink", "sink", "other.raw", "fails"),
            Connector("orders", "source", "other.gone", "is deleted"),
        ),
    ),
)


# A killed worker stays a member until then, and the migrator refuses a group with members; a killed sink keeps its
# partitions for as long, and whoever takes its place has to wait.
_MISSED_SOON: Final = {
    **QUICK_MEMBERS,
    "consumer.session.timeout.ms": "6000",
    "consumer.heartbeat.interval.ms": "1500",
}


def dedicated_properties(bootstrap_servers: str, cluster: Cluster) -> dict[str, str]:
    """Return the worker file of a cluster as it runs before the move."""
    return {**worker_properties(bootstrap_servers, cluster.group_id), **_MISSED_SOON}


def shared_properties(bootstrap_servers: str, cluster: Cluster, keys_file: Path) -> dict[str, str]:
    """Return the worker file of a cluster as it runs after the move: other topics, and two lines more; sealed, five."""
    sealing = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        KEYS_PROPERTY: f"${{file:{keys_file}:keys}}",
    }
    return {
        **worker_properties(bootstrap_servers, cluster.group_id, _SHARED_TOPICS, sharing="java"),
        **_MISSED_SOON,
        **(sealing if cluster.group_id == SEALED_GROUP else {}),
    }


def connector_config(folder: Path, connector: Connector) -> dict[str, str]:
    """Return a connector's configuration; its file is in the cluster's folder."""
    source = connector.kind == "source"
    return {
        "connector.class": "FileStreamSource" if source else "FileStreamSink",
        "file": str(data_file(folder, connector)),
        "topic" if source else "topics": connector.topic,
        "tasks.max": "1",
        **connector.extra,
    }


def data_file(folder: Path, connector: Connector) -> Path:
    """Return the file that a source reads or a sink writes; a sink that is to fail gets one that cannot be made."""
    if connector.fate == "fails":
        return folder / "no-such-folder" / "out.txt"
    # Java cannot open names with an emoji where the locale is a plain C one.
    name = connector.name.encode("ascii", "replace").decode("ascii").replace("?", "emoji")
    return folder / f"{name}.{'in' if connector.kind == 'source' else 'out'}.txt"
