"""Rights on a broker that wants TLS, a password and a right for everything, and worker files of its users."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.lab.embedded.worker import write_properties
from tests.lab.secure_broker import SecureBroker
from tests.support.waiting import await_that

PAGE = Path(__file__).parents[2] / "docs" / "access-rights.md"

Acl = tuple[ResourceType, str, ResourcePatternType, AclOperation]


def allow(broker: SecureBroker, user: str, wanted: Sequence[Acl]) -> None:
    """Give ``user`` these rights; of those that it had it loses the others, and at no moment more."""
    with closing(broker.admin(timeout_s=120)) as admin:
        client = admin._client
        anything: Any = None
        its_own = AclBindingFilter(
            ResourceType.ANY,
            anything,
            ResourcePatternType.ANY,
            f"User:{user}",
            anything,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        bindings = {
            AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
            for kind, name, pattern, operation in wanted
        }
        there = set(client.describe_acls(its_own).result(60))
        new = [*(bindings - there)]
        for future in client.create_acls(new).values() if new else ():
            future.result(60)
        old = [
            AclBindingFilter(
                each.restype,
                each.name,
                each.resource_pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission_type,
            )
            for each in there - bindings
        ]
        for future in client.delete_acls(old).values() if old else ():
            future.result(60)
        # The controller answers before the broker knows them.
        await_that(lambda: set(client.describe_acls(its_own).result(60)), bindings.__eq__, what="allowed")


Row = tuple[str, str]  # one right, and what the page says it is on


def table(title: str, number: int = 0) -> list[tuple[str, ...]]:
    """The cells of one table below a heading of docs/access-rights.md."""
    section = re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    text = next(part for part in section if part.startswith(f"{title}\n"))
    tables = re.findall(r"^\| --- .*\n((?:\|.*\n)+)", text, flags=re.MULTILINE)
    return [tuple(cell.strip() for cell in line.strip("|\n").split("|")) for line in tables[number].splitlines()]


def rows(title: str, number: int = 0) -> list[Row]:
    """The rows of a table, one for each right."""
    return [(right, cells[1]) for cells in table(title, number) for right in cells[0].split(", ")]


KINDS = ("config", "offset", "status")
USERS = {"owner": "s3cr;t='$#:", "reader": "reader-pw", "nobody": "nobody-pw"}
USERS |= {"user": "pw", "root": "pw"}  # of tests that give their rights themselves
# What a worker needs, by resource; all topics and groups of a test begin with the user's name.
TOPIC_RIGHTS = ("CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE")
RIGHTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "owner": {"topic": TOPIC_RIGHTS, "group": ("READ", "DESCRIBE")},
    "reader": {"topic": ("DESCRIBE", "READ"), "group": ("READ",)},
    "nobody": {},
    "user": {},
    "root": {},
}


def rights_of(user: str, denied: Sequence[str] = ()) -> list[Acl]:
    kinds = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP}
    return [
        (kinds[kind], "shared-", ResourcePatternType.PREFIXED, AclOperation[right])
        for kind, rights in RIGHTS[user].items()
        for right in rights
        if kind != "topic" or right not in denied
    ]


def login(broker: SecureBroker, user: str, mechanism: Any = "PLAIN") -> dict[str, str]:
    """Return the lines of a worker file with which a user logs in; another trust store takes a keytool for each client."""
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(broker.certificate)}
    properties = broker.worker_properties(user, mechanism=mechanism) | trust
    del properties["ssl.truststore.password"]
    return properties


def worker_file(
    folder: Path, broker: SecureBroker, user: str, mechanism: Any = "SCRAM-SHA-512", **changes: str
) -> Path:
    properties = {
        **login(broker, user, mechanism),
        "group.id": f"shared-{user}",
        "connect.management.topic.sharing.support": "enabled",
        **{f"{kind}.storage.topic": f"shared-{kind}" for kind in KINDS},
        **{f"{kind}.storage.{number}": "1" for kind in KINDS for number in ("replication.factor", "partitions")},
        **{name.replace("_", "."): value for name, value in changes.items()},
    }
    return write_properties(folder / f"{user}.properties", properties)
