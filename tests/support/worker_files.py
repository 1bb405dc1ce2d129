"""Lines of worker files that say nothing particular."""

from __future__ import annotations

from typing import Final

WORKER: Final = {
    "bootstrap.servers": "127.0.0.1:1",
    "group.id": "group-a",
    "config.storage.topic": "configs",
    "offset.storage.topic": "offsets",
    "status.storage.topic": "statuses",
}
SHARING: Final = {"connect.management.topic.sharing.support": "enabled"}


def providers(**kinds: str) -> dict[str, str]:
    """Return the lines that declare Kafka's own config providers: by name ``File``, ``Directory`` or ``EnvVar``."""
    package = "org.apache.kafka.common.config.provider."
    classes = {f"config.providers.{name}.class": f"{package}{kind}ConfigProvider" for name, kind in kinds.items()}
    return {"config.providers": ",".join(kinds), **classes}


def properties_of(bootstrap_servers: str, group: str, prefix: str = "", /, **more: str) -> dict[str, str]:
    """Return a worker file whose topics have one partition and one replica; underscores in names are dots."""
    properties = {"bootstrap.servers": bootstrap_servers, "group.id": group}
    for kind in ("config", "offset", "status"):
        properties |= {f"{kind}.storage.topic": f"{prefix}{kind}s", f"{kind}.storage.replication.factor": "1"}
    properties |= {"offset.storage.partitions": "1", "status.storage.partitions": "1"}
    return properties | {name.replace("__", "-").replace("_", "."): value for name, value in more.items()}
