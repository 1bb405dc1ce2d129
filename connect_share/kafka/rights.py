"""What the principal may do, as the brokers tell it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from connect_share.errors import AuthorizationError, BrokerError
from connect_share.kafka.admin import Admin, result_of
from connect_share.kafka.client import TopicCollection
from connect_share.kafka.descriptions import HeldRights, NewTopicRequest

_MISSING: Final = HeldRights(frozenset({"DESCRIBE"}), complete=False, exists=False)
"""Of a topic that does not exist: who may not describe it is not told so."""


class RightsAdmin(Admin):
    """An admin client that also asks what its principal may do."""

    def topic_rights(self, names: Iterable[str]) -> dict[str, HeldRights]:
        """Return what the principal may do with topics; of those that do not exist only whether it may create them."""
        wanted = sorted(set(names))

        def ask(timeout_s: float) -> dict[str, HeldRights]:
            futures = self._client.describe_topics(
                TopicCollection(wanted), include_authorized_operations=True, request_timeout=timeout_s
            )
            found = {}
            for name, future in futures.items():
                try:
                    topic = result_of(future, f"describing topic {name}", missing_ok=True, timeout_s=timeout_s)
                except AuthorizationError:
                    found[name] = HeldRights()
                else:
                    found[name] = _MISSING if topic is None else _held(topic)
            return found

        found = self._retried(ask) if wanted else {}
        for name, held in found.items():
            if not held.exists and self._may_create(name):
                found[name] = replace(held, names=held.names | {"CREATE"})
        return found

    def _may_create(self, topic: str) -> bool:
        try:
            self.create_topic(NewTopicRequest(topic, 1, -1), validate_only=True)
        except AuthorizationError:
            return False
        except BrokerError as error:
            if error.retriable:
                raise
        return True  # any other refusal comes after the one for a missing right

    def group_rights(self, group_id: str) -> HeldRights:
        """Return what the principal may do with a group; of a Connect group with members only that it may see it."""

        def ask(timeout_s: float) -> HeldRights:
            (future,) = self._client.describe_consumer_groups(
                [group_id], include_authorized_operations=True, request_timeout=timeout_s
            ).values()
            try:
                return _held(result_of(future, f"describing group {group_id}", timeout_s=timeout_s))
            except AuthorizationError:
                return HeldRights()
            except BrokerError as error:
                if error.name != "_INVALID_ARG":
                    raise
                return HeldRights(frozenset({"DESCRIBE"}), complete=False)

        return self._retried(ask)


def _held(description: Any) -> HeldRights:
    operations = description.authorized_operations
    if operations is None:  # a broker before 2.3 does not say
        return HeldRights(complete=False)
    return HeldRights(frozenset(operation.name for operation in operations))
