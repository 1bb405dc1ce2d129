"""A worker of one group, as its file says: to look at its connectors and change their offsets as it would."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path

from connect_share.console import Group, plural, shown_group
from connect_share.errors import (
    ConfigError,
    ConnectShareError,
    LiveMembersError,
    PlainTopicsError,
    TopicMissingError,
)
from connect_share.kafka.admin import Admin
from connect_share.model.config_state import ClusterConfigState
from connect_share.model.keys import SkipKind, shown
from connect_share.model.records import TopicType
from connect_share.sealing import KEYS_PROPERTY
from connect_share.storage.connect_storage import ConnectStorage
from connect_share.stores.alter_offsets import StoredOffset
from connect_share.stores.connector_offsets import not_stopped, own_offsets_worker_config
from connect_share.worker_config import TOPIC_PROPERTIES, WorkerConfig


class Worker:
    """A worker of a group, to read and change offsets as it would; a context manager that creates no topic."""

    def __init__(self, path: Path, config: WorkerConfig, stack: ExitStack) -> None:
        self.path = path
        self.config = config
        self._admin = stack.enter_context(Admin(config.admin_settings(), client_id=config.client_id("console")))
        _require_topics(self._admin, {config.topic(each): TOPIC_PROPERTIES[each] for each in TopicType})
        try:
            self.storage = stack.enter_context(ConnectStorage(config))
        except PlainTopicsError as error:
            raise PlainTopicsError(
                f"group {shown_group(self.group)} shares topics by {path}, but they hold only plain records: move these "
                "first (connect-share-migrate plan, apply), or use the worker file of the group that wrote them"
            ) from error
        if config.keys_in_use is None and any(
            SkipKind.REFUSED in store.skipped() for store in (self.storage.config, self.storage.offsets)
        ):
            raise ConfigError(
                f"the values of group {shown_group(self.group)} are sealed, and {path} has no keys in use: its offsets "
                f"cannot be seen here, and its workers would refuse what is written; use a file with {KEYS_PROPERTY}",
                property_name=KEYS_PROPERTY,
            )

    @classmethod
    def of_file(cls, path: Path, stack: ExitStack) -> Worker:
        """Start the worker of a file; ``stack`` closes it.

        Raises:
            ConfigError: the file cannot be read, a property is wrong, or the group is sealed and there are no keys.
            TopicMissingError: a topic does not exist.
            ConnectShareError: as entering a ``ConnectStorage``.
        """
        return cls(path, WorkerConfig.from_file(path), stack)

    @property
    def group(self) -> Group:
        """The group whose offsets these are."""
        return self.config.cluster_group_id

    @property
    def state(self) -> ClusterConfigState:
        """What is configured."""
        return self.storage.config.snapshot()

    def stored_offsets(self, connector: str) -> list[StoredOffset]:
        """Return what a connector's tasks would find.

        Raises:
            TopicMissingError: the connector has an offsets topic of its own, which does not exist.
            StoreError: it cannot be read.
        """
        own = own_offsets_worker_config(self.config, connector, self.state.connector_config(connector) or {})
        if own is not None:
            with Admin(own.admin_settings(), client_id=own.client_id("console")) as admin:
                _require_topics(
                    admin, {own.offset_storage_topic: f"offsets.storage.topic of connector {shown(connector)}"}
                )
        return self.storage.stored_offsets(connector)

    def is_stopped(self, connector: str) -> bool:
        """Return whether what is configured says that nothing of a connector runs."""
        return not_stopped(self.state, connector) is None

    def keeps_offsets_with(self, other: Worker) -> bool:
        """Return whether offsets of the same connector are the same here and there."""
        return self is other or all(
            getattr(self.config, name) == getattr(other.config, name)
            for name in ("bootstrap_servers", "cluster_group_id", "offset_storage_topic", "config_storage_topic")
        )

    def matching(self, patterns: Sequence[str]) -> list[str]:
        """Return the configured connectors whose names match one of the patterns, by name."""
        return sorted(
            name for name in self.state.connectors() if any(fnmatchcase(name, pattern) for pattern in patterns)
        )

    def refusals(self, connectors: Collection[str], *, force: bool) -> list[ConnectShareError]:
        """Return why these connectors may not be changed now, worst first; ``force``: whatever is configured.

        Source: ``DistributedHerder.modifyConnectorOffsetsChecks``; members are looked for because writing goes past them.
        """
        found: list[ConnectShareError] = []
        members = self._admin.connect_groups(self.config.group_id).get(self.config.group_id, 0)
        if members:
            found.append(
                LiveMembersError(
                    f"{plural(members, 'live Connect worker')} of group {self.config.group_id!r}: stop the connectors "
                    "(PUT /connectors/NAME/stop), then all workers of the group, or use the workers' own "
                    "PATCH /connectors/NAME/offsets"
                )
            )
        state = self.state
        for connector in () if force else connectors:
            if not state.contains(connector):
                found.append(
                    ConnectShareError(
                        f"there is no connector {shown(connector)} in group {shown_group(self.group)}; "
                        f"--force changes offsets of a connector that is not configured"
                    )
                )
            elif (why_not := not_stopped(state, connector)) is not None:
                found.append(
                    ConnectShareError(
                        f"{why_not}: start a worker and stop the connector (PUT /connectors/NAME/stop), or give --force "
                        "if nothing of it runs"
                    )
                )
        return found


def _require_topics(admin: Admin, topics: dict[str, str]) -> None:
    """Refuse topics that do not exist, which a worker would create; ``topics``: what names them."""
    there = admin.describe_topics(topics)
    for topic, property_name in topics.items():
        if topic not in there:
            raise TopicMissingError(
                f"topic {topic} does not exist, so there are no offsets to change; check {property_name} and the cluster's "
                "address",
                topic=topic,
            )
