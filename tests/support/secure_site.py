"""A broker that wants TLS, a password and a right for everything, and worker files of users that have some rights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType

from tests.lab.secure_broker import SecureBroker
from tests.support.rights import Acl

KINDS = ("config", "offset", "status")
USERS = {"owner": "s3cr;t='$#:", "reader": "reader-pw", "mute": "mute-pw", "nobody": "nobody-pw"}
# What a worker needs, by resource; all topics and groups of a test begin with the user's name.
TOPIC_RIGHTS = ("CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE")
RIGHTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "owner": {"topic": TOPIC_RIGHTS, "group": ("READ", "DESCRIBE")},
    "reader": {"topic": ("DESCRIBE", "READ"), "group": ("READ",)},
    "mute": {"topic": tuple(right for right in TOPIC_RIGHTS if right != "WRITE"), "group": ("READ", "DESCRIBE")},
    "nobody": {},
}


def rights_of(user: str, denied: Sequence[str] = ()) -> list[Acl]:
    kinds = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP}
    return [
        (kinds[kind], "shared-", ResourcePatternType.PREFIXED, AclOperation[right])
        for kind, rights in RIGHTS[user].items()
        for right in rights
        if kind != "topic" or right not in denied
    ]


def worker_file(
    folder: Path, broker: SecureBroker, user: str, mechanism: Any = "SCRAM-SHA-512", **changes: str
) -> Path:
    properties = {
        **broker.worker_properties(user, mechanism=mechanism),
        "group.id": f"shared-{user}",
        "connect.management.topic.sharing.support": "enabled",
        **{f"{kind}.storage.topic": f"shared-{kind}" for kind in KINDS},
        **{f"{kind}.storage.{number}": "1" for kind in KINDS for number in ("replication.factor", "partitions")},
        **{name.replace("_", "."): value for name, value in changes.items()},
    }
    path = folder / f"{user}.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), "ascii")
    return path
