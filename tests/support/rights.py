"""Rights of users on a broker that asks for one for everything."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
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
