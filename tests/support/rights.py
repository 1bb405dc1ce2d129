"""Rights of users on a broker that asks for one for everything."""

from __future__ import annotations

import re
from collections.abc import Sequence
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

from tests.lab.secure_broker import SecureBroker
from tests.support.waiting import await_that

PAGE = Path(__file__).parents[2] / "docs" / "access-rights.md"

Acl = tuple[ResourceType, str, ResourcePatternType, AclOperation]


def allow(broker: SecureBroker, user: str, wanted: Sequence[Acl]) -> None:
    """Give ``user`` these rights instead of all that it had."""
    with closing(broker.admin(timeout_s=20)) as admin:
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
        for future in client.delete_acls([its_own]).values():
            future.result(60)
        bindings = [
            AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
            for kind, name, pattern, operation in wanted
        ]
        for future in client.create_acls(bindings).values() if bindings else ():
            future.result(60)
        # The controller answers before the broker knows them.
        await_that(
            lambda: set(client.describe_acls(its_own).result(60)), lambda found: found == set(bindings), what="allowed"
        )


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
