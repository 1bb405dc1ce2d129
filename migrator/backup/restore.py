"""Putting back what a backup holds, whole or one connector, under the key space of a worker file.

Nothing is removed: keys that the backup does not know stay, and are told. Records go out in the order of the file, through
one idempotent producer; doing it again, after an interruption too, ends in the same state.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from connect_share.admin import Admin
from connect_share.keys import ClusterGroupId
from connect_share.log.ranges import read_ranges
from connect_share.record_file import RecordFile
from connect_share.records import OffsetRange, Record, TopicType
from connect_share.topics import check_cleanup_policy, check_partition_count, ensure_topic, topic_spec
from connect_share.topics.shared_set import create_missing
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.client_settings import Isolation
from migrator.backup.backup import BackupContents, Origin, read_contents
from migrator.backup.restore_diff import ConnectorChanges, Newest, changes
from migrator.copy.checked_writer import CheckedWriter, Producers
from migrator.copy.copy_job import IDLE_TIMEOUT_S, MARKER_VALUE
from migrator.errors import RestoreRejectedError
from migrator.facts.inspection import (
    client_id_of,
    load_worker_file,
    read_facts,
    require_no_live_workers,
)
from migrator.planning.counting import Counting
from migrator.planning.planning import DEFAULT_MAX_MESSAGE_BYTES
from migrator.progress import Progress, Silent, counted
from migrator.transform.rules import PLAIN_KEYS, KeyTransform, Skipped, SkipReason

# With sharing, a tombstone of the config topic is written as JSON null: config-position rule, decision 2.
_REMOVAL: Final = MARKER_VALUE


@dataclass(frozen=True)
class RestoreRequest:
    """What is to be restored.

    Attributes:
        connector: exact name of the only connector wanted.
        from_group: ``group.id`` of the cluster whose records are meant.
        from_plain: the records with plain keys are meant.
    """

    connector: str | None = None
    from_group: str | None = None
    from_plain: bool = False


def describe_origin(origin: Origin) -> str:
    """Name a key space of a backup for people."""
    whose = "" if origin.group_id is None else f" of {origin.group_id}"
    keys = PLAIN_KEYS if origin.plain else "prefixed keys"
    return f"{keys}{whose}, {'as they were at the source' if origin.side == 'source' else 'found at the destination'}"


def choose_origin(
    contents: BackupContents, filled: frozenset[int], worker: WorkerConfig, wish: RestoreRequest
) -> Origin:
    """Decide whose records are meant.

    Args:
        contents: what the backup says of itself.
        filled: numbers of the sections that hold records.
        worker: where they go.
        wish: what was asked for.

    Raises:
        RestoreRejectedError: it is not clear; the message lists what there is.
    """
    there = [
        origin
        for origin in contents.origins
        if origin.side == "source"
        or any(contents.topics[number].section in filled for number in origin.topics.values())
    ]
    told = "; ".join(dict.fromkeys(describe_origin(origin) for origin in there)) or "nothing"
    meant = [
        origin
        for origin in there
        if (wish.from_group is None or origin.group_id == wish.from_group) and (origin.plain or not wish.from_plain)
    ]
    if not meant:
        raise RestoreRejectedError(f"the backup has no such records; it holds: {told}")
    named = wish.from_group is not None or (wish.from_plain and len(meant) == 1)
    if not named:
        own = [origin for origin in meant if worker.group_id in _names(origin)]
        if not own:
            raise RestoreRejectedError(
                f"the worker file is that of group {worker.group_id}, the backup holds: {told}; say with --from-group "
                "GROUP whose records are to become those of this group"
            )
        meant = own
    # What was at the source is what a backup is asked for; then what has the form of the worker file's own keys.
    for preferred in (
        [origin for origin in meant if origin.side == "source"],
        [origin for origin in meant if origin.plain is not worker.sharing_enabled],
    ):
        meant = [origin for origin in meant if origin in preferred] or meant
    if len(meant) > 1:
        raise RestoreRejectedError(
            f"it is not clear whose records are meant, the backup holds: {told}; say --from-group GROUP, --from-plain, "
            "or both"
        )
    return meant[0]


def _names(origin: Origin) -> frozenset[str]:
    return frozenset(name for name in (origin.group_id, origin.becomes) if name is not None)


@dataclass
class RestorePreview:
    """What restoring would do.

    Attributes:
        changes: per topic type and connector; names only.
        records: how many would be written, per topic type.
        skipped: how many of the backup's records would not, and why.
        create: topics that do not exist yet.
    """

    file: Path
    contents: BackupContents
    origin: Origin
    becomes: str | None
    topics: dict[TopicType, str]
    changes: list[ConnectorChanges]
    records: dict[TopicType, int]
    skipped: dict[SkipReason, int]
    create: list[str]


@dataclass
class Restored:
    """What was written, per topic type; ``removals`` are those without a value."""

    written: dict[TopicType, int]
    removals: int
    seconds: float


@dataclass
class Restoring:
    """A backup file that was checked, and where its records go.

    Made by :func:`prepare_restore`.
    """

    file: RecordFile
    contents: BackupContents
    origin: Origin
    worker: WorkerConfig
    transforms: Mapping[TopicType, KeyTransform]
    _places: dict[tuple[int, str], TopicType] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for topic_type, number in self.origin.topics.items():
            topic = self.contents.topics[number]
            self._places[topic.section, topic.topic] = topic_type

    @property
    def client_id(self) -> str:
        """Of every client used."""
        return client_id_of(self.worker)

    def _records(self, progress: Progress) -> Iterator[tuple[TopicType, Record]]:
        """Yield the records of the origin's topics, those of others included, in the order of the file."""
        for section, record in counted(self.file.read_sections(), progress.advance):
            topic_type = self._places.get((section, record.topic))
            if topic_type is not None:
                yield topic_type, record

    def preview(self, progress: Progress | None = None) -> RestorePreview:
        """Compare the backup with what the destination holds now; writes nothing.

        Raises:
            RestoreRejectedError: there is nothing to restore.
            PlanRejectedError: a record does not fit into the destination's topic.
            TopicError: a topic there cannot be used.
            BrokerError: the cluster refused.
        """
        progress = progress or Silent()
        topics = {topic_type: self.worker.topic(topic_type) for topic_type in TopicType}
        with Admin(self.worker.admin_settings(), client_id=self.client_id) as admin:
            require_no_live_workers(admin, self.worker.group_id, side="destination")
            facts = read_facts(admin, set(topics.values()))
            limits = {}
            for topic_type, topic in topics.items():
                spec = topic_spec(self.worker, topic_type)
                settings = self.worker.topic_settings(topic_type)
                if topic in facts:
                    check_cleanup_policy(admin, spec)
                    check_partition_count(spec, len(facts[topic].ends))
                    settings = admin.topic_configs(topic)
                limits[topic_type] = int(settings.get("max.message.bytes", DEFAULT_MAX_MESSAGE_BYTES))
        backed_up = {topic_type: Newest(topic_type) for topic_type in TopicType}
        found = {topic_type: Newest(topic_type) for topic_type in TopicType}
        progress.phase(f"reading {self.file.path.name}", self.file.records)
        counted = {
            topic_type: Counting(transform, limits[topic_type], lambda _: None)
            for topic_type, transform in self.transforms.items()
        }
        for topic_type, record in self._records(progress):
            original = counted[topic_type].count(record)
            if original is not None:
                backed_up[topic_type].see(original, record.value)
        counts = {topic_type: counting.counts() for topic_type, counting in counted.items()}
        if not any(each.to_write for each in counts.values()):
            only = self.transforms[TopicType.CONFIG].connectors
            whose = "" if only is None else f" of connector(s) {', '.join(map(repr, sorted(only)))}"
            raise RestoreRejectedError(
                f"{self.file.path} has no record{whose} with {describe_origin(self.origin)}: names are exact, dots, "
                "dashes and case included"
            )
        for topic_type, topic in topics.items():
            if topic in facts:
                self._read_destination(facts[topic].ranges(), found[topic_type], progress)
        skipped: Counter[SkipReason] = Counter()
        for each in counts.values():
            skipped.update(each.skipped)
        return RestorePreview(
            file=self.file.path,
            contents=self.contents,
            origin=self.origin,
            becomes=self.worker.group_id if self.worker.sharing_enabled else None,
            topics=topics,
            changes=[
                change for topic_type in TopicType for change in changes(backed_up[topic_type], found[topic_type])
            ],
            records={topic_type: counts[topic_type].to_write for topic_type in TopicType},
            skipped=dict(sorted(skipped.items(), key=lambda item: item[0].value)),
            create=[topic for topic in topics.values() if topic not in facts],
        )

    def _read_destination(self, ranges: list[OffsetRange], newest: Newest, progress: Progress) -> None:
        back = self.transforms[newest.topic_type].at_destination()
        records = read_ranges(
            self.worker.consumer_settings(),
            ranges,
            isolation=Isolation.READ_UNCOMMITTED,
            client_id=self.client_id,
            idle_timeout_s=IDLE_TIMEOUT_S,
        )
        progress.phase(
            f"comparing with {self.worker.topic(newest.topic_type)}", sum(part.end - part.start for part in ranges)
        )
        for record in counted(records, progress.advance):
            original = back.original_key(record.key)
            if isinstance(original, bytes):
                newest.see(original, record.value)

    def write(self, progress: Progress | None = None) -> Restored:
        """Put the records back; topics that are missing are created as ``create topics`` would.

        Raises:
            LiveMembersError: workers of the group are alive.
            TopicError: a topic cannot be used.
            BrokerError: a record was refused; a part was written, restoring again completes it.
            CopyError: an acknowledgement is missing; likewise.
        """
        progress, began_s = progress or Silent(), time.monotonic()
        with Admin(self.worker.admin_settings(), client_id=self.client_id) as admin:
            require_no_live_workers(admin, self.worker.group_id, side="destination")
            specs = [topic_spec(self.worker, topic_type) for topic_type in TopicType]
            create_missing(admin, specs)
            for spec in specs:
                ensure_topic(admin, spec)
        producers, settings = Producers(), self.worker.producer_settings()
        writers = {
            topic_type: CheckedWriter(producers, settings, self.worker.topic(topic_type), self.client_id)
            for topic_type in TopicType
        }
        written: Counter[TopicType] = Counter()
        removals = 0
        progress.phase("restoring", self.file.records)
        try:
            for topic_type, record in self._records(progress):
                answer = self.transforms[topic_type].apply(record)
                if isinstance(answer, Skipped):
                    continue
                removals += answer.value is None
                if answer.value is None and topic_type is TopicType.CONFIG and self.worker.sharing_enabled:
                    answer = replace(answer, value=_REMOVAL)
                writers[topic_type].write(answer)
                written[topic_type] += 1
            for writer in writers.values():
                writer.finish()
        except BaseException:
            for writer in writers.values():
                writer.abandon()
            raise
        return Restored(dict(written), removals, round(time.monotonic() - began_s, 3))


def prepare_restore(
    path: Path, worker_file: Path, wish: RestoreRequest | None = None, progress: Progress | None = None
) -> Restoring:
    """Check a backup file whole, read the worker file, and decide whose records go where; asks no broker.

    Raises:
        RecordFileError: the file is missing, damaged or no backup.
        ConfigError: the worker file is wrong.
        InvalidClusterGroupIdError: its ``group.id`` cannot be a prefix.
        RestoreRejectedError: it is not clear whose records are meant.
    """
    wish = wish or RestoreRequest()
    file = RecordFile(path)
    contents = read_contents(file)
    (progress or Silent()).phase(f"checking {file.path.name}", 0)
    file.check()
    worker = load_worker_file(worker_file)
    group = ClusterGroupId(worker.group_id) if worker.sharing_enabled else None
    filled = frozenset(number for number, count in enumerate(file.sections) if count)
    origin = choose_origin(contents, filled, worker, wish)
    connectors = frozenset({wish.connector}) if wish.connector is not None else None
    if connectors is None and origin.connectors is not None:
        connectors = frozenset(origin.connectors)
    transforms = {
        topic_type: KeyTransform(
            topic_type=topic_type,
            plain=origin.plain,
            groups=None if origin.plain else frozenset({str(origin.group_id)}),
            destination=group,
            connectors=connectors,
        )
        for topic_type in TopicType
    }
    return Restoring(file, contents, origin, worker, transforms)
