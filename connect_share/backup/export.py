"""Exports of groups, whole or by connector, to one file; its format is that of backups, ``docs/backup-format.md``.

What is committed is exported: aborted records of exactly-once groups are not, and what lies behind an open transaction is not
there yet.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from connect_share.backup.backup_file import (
    EXPORT,
    BackupFile,
    BackupLayout,
    KeyTest,
    Origin,
    ReadEngine,
    Reader,
    common_isolation,
    read_here,
    write_backup,
)
from connect_share.contents.groups import MOST_GROUPS
from connect_share.errors import ConnectShareError, listed
from connect_share.files import Progress
from connect_share.kafka.admin import Admin
from connect_share.kafka.read import CONSOLE_CLIENT_ID, topic_ranges
from connect_share.model.keys import ClusterGroupId, connector_of, own_key, split_key
from connect_share.model.records import OffsetRange, TopicType
from connect_share.sealing import KeyRing
from connect_share.worker_config import TopicSet

_SHOWN: Final = 20

Ranges = Mapping[TopicType, Sequence[OffsetRange]]


@dataclass(frozen=True)
class Exported:
    """A file that was written, and the groups in it."""

    file: BackupFile
    groups: tuple[ClusterGroupId | None, ...]


@dataclass
class Present:
    """The groups and connectors that were found."""

    groups: set[ClusterGroupId | None] = field(default_factory=set)
    connectors: set[str | None] = field(default_factory=set)


@dataclass(frozen=True)
class Export:
    """What is exported of which topics.

    Attributes:
        groups: ``None`` in it is the cluster with plain keys; no groups at all: every one that is there.
        connectors: exact names; ``None``: all, and what belongs to no connector.
        keys: the first encrypts the values in the file; ``None``: they are as on the topics.
    """

    topic_set: TopicSet
    groups: frozenset[ClusterGroupId | None] | None = None
    connectors: frozenset[str] | None = None
    keys: KeyRing | None = field(default=None, repr=False)

    def look(self, admin: Admin) -> tuple[dict[TopicType, list[OffsetRange]], list[str]]:
        """Return what there is to read now, and notes for people.

        Raises:
            TopicMissingError: names the topic.
            BrokerError: not reachable, or not allowed.
        """
        isolation = {topic_type: common_isolation(topic_type) for topic_type in self.topic_set.topics}
        found = topic_ranges(admin, replace(self.topic_set, isolation=isolation), self.topic_set.topics)
        ranges = {topic_type: each.ranges for topic_type, each in found.items()}
        return ranges, [note for each in found.values() for note in each.notes]

    def _reader(self, topic_type: TopicType) -> Reader:
        return Reader(self.topic_set.settings, CONSOLE_CLIENT_ID, common_isolation(topic_type))

    def takes(self, topic_type: TopicType) -> KeyTest:
        """Return the test for the keys that are exported."""
        if self.connectors is None and self.groups is not None and len(self.groups) == 1:
            (group,) = self.groups
            return lambda key: key is not None and own_key(topic_type, key, group) is not None
        return lambda key: self._owner(topic_type, key) is not None

    def _owner(self, topic_type: TopicType, key: bytes | None) -> tuple[ClusterGroupId | None, str | None] | None:
        """Return the group of a key and, if connectors were named, its connector; ``None``: it is not exported."""
        parts = None if key is None else split_key(topic_type, key)
        if parts is None or (self.groups is not None and parts[0] not in self.groups):
            return None
        if self.connectors is None:
            return parts[0], None
        name = connector_of(topic_type, parts[1])
        return (parts[0], name) if name in self.connectors else None

    def write(
        self, path: Path, cluster: str, ranges: Ranges, progress: Progress, engine: ReadEngine = read_here
    ) -> Exported:
        """Write what lies in the ranges to a file, with bounded memory.

        Raises:
            ConnectShareError: a group or connector that was named has no record there; nothing was written.
            RecordFileError: there is such a file, or it cannot be written; nothing new bears its name then.
            UnreadableHeadersError: a record cannot be kept whole.
        """
        present = self.present(ranges, progress)
        self._require(present)
        layout = self.layout(cluster, ranges, present.groups)
        file = write_backup(path, layout, f"export-{uuid.uuid4()}", progress, engine)
        return Exported(file, tuple(sorted(present.groups, key=lambda group: group or "")))

    def layout(self, cluster: str, ranges: Ranges, groups: set[ClusterGroupId | None]) -> BackupLayout:
        """Return what the file of these groups holds."""
        layout, topics = BackupLayout(EXPORT, keys=self.keys), self.topic_set.topics
        numbers = {
            kind: layout.add(("source", cluster, topics[kind]), kind, self._reader(kind), parts, self.takes(kind))
            for kind, parts in ranges.items()
        }
        worker, names = self.topic_set.worker, self.connectors
        plain_id = None if worker is None or worker.sharing_enabled else worker.group_id
        layout.origins += [
            Origin(
                side="source",
                group_id=plain_id if group is None else group,
                plain=group is None,
                becomes=group,
                connectors=None if names is None else tuple(sorted(names)),
                topics=numbers,
            )
            for group in sorted(groups, key=lambda group: group or "")
        ]
        return layout

    def present(self, ranges: Ranges, progress: Progress) -> Present:
        """Read the keys alone, until all that was named is found: the file begins with what is in it.

        Raises:
            ConnectShareError: there are too many groups.
        """
        found, connectors = Present(), self.connectors or frozenset()
        progress.phase("looking for groups", sum(part.end - part.start for parts in ranges.values() for part in parts))
        for topic_type, parts in ranges.items():
            for batch in self._reader(topic_type).batches(parts):
                progress.advance(len(batch))
                for message in batch:
                    owner = self._owner(topic_type, message.key())
                    if owner is not None:
                        found.groups.add(owner[0])
                        found.connectors.add(owner[1])
                if self.groups is not None and found.groups >= self.groups and found.connectors >= connectors:
                    return found
                if len(found.groups) > MOST_GROUPS:
                    raise ConnectShareError(
                        f"there are more than {MOST_GROUPS:,} groups on these topics: name those that are wanted with --group"
                    )
        return found

    def _require(self, present: Present) -> None:
        missing = [each or "plain keys" for each in (self.groups or frozenset()) - present.groups]
        missing += [repr(each) for each in (self.connectors or frozenset()) - present.connectors]
        if missing:
            raise ConnectShareError(
                f"{', '.join(self.topic_set.topics.values())} have no record of {listed(sorted(missing), _SHOWN)}: "
                "names are exact, dots, dashes and case included"
            )
