"""What is kept before the first write: a backup, and the records of other groups as counts and digests, never a key or value.

The figures are taken before the first write, and later again over the same offsets. If they are equal, every record of
the other groups is still there, unchanged and at its offset.

The backup has what the plan reads and what it writes over, in one file beside the plan, written with bounded memory;
``docs/backup-format.md``.
"""

from __future__ import annotations

import enum
import hashlib
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

from connect_share.backup.backup_file import BackupFile, BackupFiles, BackupLayout, Origin, write_backup
from connect_share.backup.rewrite import key_hash
from connect_share.errors import PlanFileError
from connect_share.files import SILENT, Progress
from connect_share.kafka.client import Message, headers_of
from connect_share.kafka.create import TOMBSTONES_MS
from connect_share.kafka.facts import TopicFacts, admin_of, read_messages
from connect_share.kafka.read import Reader
from connect_share.model.keys import connector_of, split_key
from connect_share.model.records import OffsetRange, Record, TopicType, now_ms, size_of
from connect_share.model.removal import BARRIER_RECORDS
from connect_share.transform.rules import PLAIN_KEYS
from connect_share.worker_config import WorkerConfig, common_isolation
from migrator.checks import Opened, planned_facts
from migrator.plan import PlanPart, SourceTopic, Wanted
from migrator.run import GroupDigest, Manifest, MigrationRun, PlannedSource, TopicBaseline, backup_path

ILLEGAL_KEYS: Final = "illegal keys"
"""The name for records whose key Connect does not write. No cluster group id has a blank."""
AT_ONCE: Final = 200_000
"""Offsets read together. Memory grows with them, or with the largest partition: about 40 bytes for each key."""
_MODULUS: Final = 2**64
_PLACE: Final = struct.Struct(">iqqI")
Item = TypeVar("Item")


class KeyOwners:
    """The owners of keys at the destination of a plan that writes to ``wanted``."""

    def __init__(self, topic_type: TopicType, wanted: Wanted) -> None:
        self.topic_type = topic_type
        self._wanted = wanted
        self._own_mark = BARRIER_RECORDS[topic_type][0]

    def owner(self, key: bytes | None) -> str | None:
        """Return the group of a key; ``None`` for what the plan itself writes."""
        parts = split_key(self.topic_type, key)
        if parts is None:
            return ILLEGAL_KEYS
        space, original = parts
        if space in self._wanted:
            connectors = self._wanted[space]
            if (
                connectors is None
                or original == self._own_mark
                or connector_of(self.topic_type, original) in connectors
            ):
                return None
        return PLAIN_KEYS if space is None else space

    def is_written(self, key: bytes | None) -> bool:
        """Return whether a key is one that the plan itself writes."""
        return self.owner(key) is None

    def is_marker(self, key: bytes | None) -> bool:
        """Return whether a key is the marker of a group or a barrier of a resume, not that of a moved record."""
        return key is not None and key.endswith(self._own_mark)


def _digest(message: Message) -> int | None:
    """Return a hash of place, timestamp, key, value and headers of a record, ``None`` without a value."""
    key, value, headers = message.key() or b"", message.value(), headers_of(message)
    if value is None:
        return None
    place = (message.partition() or 0, message.offset() or 0, message.timestamp()[1], len(key))
    hashed = hashlib.blake2b(_PLACE.pack(*place), digest_size=8)
    hashed.update(key)
    hashed.update(value)
    if headers != ():  # headers that cannot be read all count as equal
        hashed.update(repr(headers and [*headers]).encode())
    return int.from_bytes(hashed.digest(), "big")


def bundles(items: Sequence[Item], offsets: Callable[[Item], int], at_once: int) -> list[list[Item]]:
    """Return what is read together, in order: items of at most so many offsets, a larger one alone."""
    together: list[list[Item]] = []
    room = -1
    for item in items:
        room -= offsets(item)
        if room < 0:
            together.append([])
            room = at_once - offsets(item)
        together[-1].append(item)
    return together


def digests_of(
    worker: WorkerConfig,
    owners: KeyOwners,
    ranges: Sequence[OffsetRange],
    on_progress: Callable[[int], None],
    newer: dict[int, str],
) -> dict[str, GroupDigest]:
    """Read committed records and return the figures of every group but that of the plan.

    ``newer`` are keys, as ``key_hash``; those that live in the ranges are removed from it.
    """
    keys, digests = Counter[str](), Counter[str]()
    newest: dict[int, int] = {}
    for portion in bundles(ranges, size_of, AT_ONCE):
        for batch in read_messages(worker, portion, common_isolation(owners.topic_type)):
            for message in batch:
                owner = owners.owner(message.key())
                if owner is not None:
                    at, digest = key_hash(message.partition() or 0, message.key()), _digest(message)
                    before = newest.pop(at, None)
                    if digest is not None:
                        newest[at] = digest
                    digests[owner] += (digest or 0) - (before or 0)
                    keys[owner] += (digest is not None) - (before is not None)
            on_progress(len(batch))
        for key in newest:
            newer.pop(key, None)
        newest.clear()  # a key lives in one partition
    return {
        owner: GroupDigest(keys=count, digest=f"{digests[owner] % _MODULUS:016x}")
        for owner, count in sorted(keys.items())
        if count
    }


def take_baseline(run: MigrationRun, opened: Opened, progress: Progress) -> dict[TopicType, TopicBaseline]:
    """Read the destination's topics before anything is written."""
    baseline, worker, wanted = dict[TopicType, TopicBaseline](), run.destination, run.plan.wanted()
    with admin_of(worker) as admin:
        for topic_type, (facts, _) in opened.items():
            partitions = [(facts.topic, number) for number in facts.ends]
            # Records of transactions that are open now belong to nobody yet.
            stable = admin.end_offsets(partitions, common_isolation(topic_type))
            ends = {number: min(end, stable[facts.topic, number]) for number, end in facts.ends.items()}
            ranges = replace(facts, ends=ends).ranges()
            progress.phase(f"noting what {facts.topic} holds of others", sum(map(size_of, ranges)))
            groups = digests_of(worker, KeyOwners(topic_type, wanted), ranges, progress.advance, {})
            baseline[topic_type] = TopicBaseline(ends=ends, groups=groups)
    return baseline


_NONE: Final = GroupDigest(keys=0, digest=f"{0:016x}")


class BystanderVerdict(enum.Enum):
    """The result for one group in one topic.

    ``EQUAL``: nothing was written under its keys, and every record is still there. ``WROTE_SINCE``: it has newer
    records, none of them by this plan; they superseded what is missing. ``UNCLEAR``: compaction has removed what would
    prove it. ``TOUCHED``: records are gone, or are others than before.
    """

    EQUAL = "equal"
    WROTE_SINCE = "wrote_since"
    UNCLEAR = "unclear"
    TOUCHED = "touched"


class BystanderGroup(PlanPart):
    """One group in one topic of the destination.

    Attributes:
        group: cluster group id, ``plain keys``, or ``illegal keys``.
        keys_before: living keys before the first write.
        keys_now: of those offsets, today.
        written_since: records behind those offsets.
        among_written: how many of them lie between the first and the last record that the plan wrote.
    """

    topic_type: TopicType
    topic: str
    group: str
    verdict: BystanderVerdict
    keys_before: int
    keys_now: int
    written_since: int
    among_written: int


class OwnRecords(PlanPart):
    """The records that the plan itself wrote to one topic.

    Attributes:
        written: acknowledged records, markers not counted.
        found: records under the plan's own keys, up to the last offset that was acknowledged to it.
        accounted: as many are found as were acknowledged, so none was written under another key.
    """

    written: int
    found: int
    accounted: bool


class BystanderReport(PlanPart):
    """The result of ``verify --isolation``; ``isolated`` only if no group was touched and none is unclear."""

    run_id: str
    isolated: bool
    own: dict[TopicType, OwnRecords]
    groups: tuple[BystanderGroup, ...]


def check_bystanders(run: MigrationRun, *, progress: Progress = SILENT) -> BystanderReport:
    """Check at the destination that no key of another group was touched; writes nothing.

    Raises:
        PlanFileError: the plan was not applied from here, or without ``--isolation-proof``.
        TopicError: a topic is missing or was recreated.
    """
    manifest = run.applied()
    if manifest.isolation is None:
        raise PlanFileError(
            f"{run.manifest_path} does not say what others had before: apply with --isolation-proof notes it"
        )
    worker, wanted = run.destination, run.plan.wanted()
    checks = []
    with admin_of(worker) as admin:
        for topic_type, found in planned_facts(admin, manifest.destination).items():
            kept_ms = admin.topic_configs(found.topic).get("delete.retention.ms", TOMBSTONES_MS)
            check = _TopicCheck(
                topic_type=topic_type,
                facts=found,
                baseline=manifest.isolation.get(topic_type, TopicBaseline(ends={}, groups={})),
                manifest=manifest,
                worker=worker,
                owners=KeyOwners(topic_type, wanted),
                removals_stay=now_ms() < manifest.started_at_ms + int(kept_ms),
            )
            check.read(progress)
            checks.append(check)
    own = _account_for(checks, manifest)
    groups = [
        check.judge(name, own[check.topic_type])
        for check in checks
        for name in sorted({*check.baseline.groups, *check.now, *check.written})
    ]
    return BystanderReport(
        run_id=manifest.run_id,
        isolated=all(group.verdict in {BystanderVerdict.EQUAL, BystanderVerdict.WROTE_SINCE} for group in groups),
        own=own,
        groups=tuple(groups),
    )


def _account_for(checks: Sequence[_TopicCheck], manifest: Manifest) -> dict[TopicType, OwnRecords]:
    """Compare the number of records under the plan's own keys with what was acknowledged to it."""
    mirrored = 0 if manifest.followed is None else manifest.followed.written
    whole = sum(check.own for check in checks) == manifest.records_written + mirrored
    own = {}
    for check in checks:
        written = sum(each.written for each in manifest.evidence if each.topic_type is check.topic_type)
        # What was mirrored afterwards is counted over all topics together.
        accounted = whole if mirrored else check.own == written
        own[check.topic_type] = OwnRecords(written=written, found=check.own, accounted=accounted)
    return own


@dataclass
class _TopicCheck:
    """The check of one topic.

    Attributes:
        removals_stay: no tombstone written since the first write can have been cleaned away yet.
        now: by group, what lives before the noted ends.
        written: by group, how many records lie behind the noted ends.
        among: how many of those lie among the records of the plan.
        superseded: by group, how many keys have a newer record and none before the noted ends.
        own: records of the plan.
    """

    topic_type: TopicType
    facts: TopicFacts
    baseline: TopicBaseline
    manifest: Manifest
    worker: WorkerConfig
    owners: KeyOwners
    removals_stay: bool
    now: dict[str, GroupDigest] = field(default_factory=dict)
    written: Counter[str] = field(default_factory=Counter)
    among: Counter[str] = field(default_factory=Counter)
    superseded: Counter[str] = field(default_factory=Counter)
    own: int = 0

    def read(self, progress: Progress) -> None:
        topic, ends = self.facts.topic, self.baseline.ends
        before = [
            OffsetRange(topic, number, self.facts.starts.get(number, end), end) for number, end in sorted(ends.items())
        ]
        since = [
            OffsetRange(topic, number, max(ends.get(number, 0), self.facts.starts[number]), end)
            for number, end in sorted(self.facts.ends.items())
        ]
        progress.phase(f"looking at {topic}", sum(map(size_of, (*before, *since))))
        newer = self._count_newer(since, progress.advance)
        self.now = digests_of(self.worker, self.owners, before, progress.advance, newer)
        self.superseded = Counter(newer.values())

    def _count_newer(self, ranges: list[OffsetRange], advance: Callable[[int], None]) -> dict[int, str]:
        """Count the records behind the noted ends. Returns the keys of other groups in them, with their owner."""
        first = self.manifest.destination[self.topic_type].end_offsets
        last = self.manifest.written_up_to(self.topic_type)
        keys: dict[int, str] = {}
        for batch in read_messages(self.worker, ranges, common_isolation(self.topic_type)):
            for message in batch:
                key, number = message.key(), message.partition() or 0
                among = first.get(number, 0) <= (message.offset() or 0) < last.get(number, 0)
                owner = self.owners.owner(key)
                if owner is not None:
                    self.written[owner] += 1
                    self.among[owner] += among
                    keys[key_hash(message.partition(), key)] = owner
                elif among and not self.owners.is_marker(key):
                    self.own += 1
            advance(len(batch))
        return keys

    def judge(self, name: str, own: OwnRecords) -> BystanderGroup:
        before, now = self.baseline.groups.get(name, _NONE), self.now.get(name, _NONE)
        gone = before.keys - now.keys
        verdict = BystanderVerdict.WROTE_SINCE if self.written[name] else BystanderVerdict.EQUAL
        if gone < 0 or (gone == 0 and now != before):
            verdict = BystanderVerdict.TOUCHED
        elif gone > self.superseded[name]:  # and nothing newer of these keys is there
            verdict = BystanderVerdict.TOUCHED if self.removals_stay else BystanderVerdict.UNCLEAR
        elif self.among[name] and not own.accounted:
            verdict = BystanderVerdict.UNCLEAR
        return BystanderGroup(
            topic_type=self.topic_type,
            topic=self.facts.topic,
            group=name,
            verdict=verdict,
            keys_before=before.keys,
            keys_now=now.keys,
            written_since=self.written[name],
            among_written=self.among[name],
        )


Ranges = Callable[[PlannedSource, SourceTopic], Sequence[OffsetRange]]
"""Returns what is read of a topic of a source."""


def _lay_out_sources(run: MigrationRun, ranges: Ranges) -> BackupLayout:
    layout = BackupLayout()
    for source in run.sources:
        planned = source.plan
        numbers = {
            topic_type: layout.add(
                ("source", planned.kafka_cluster_id, topic.topic),
                topic_type,
                Reader.of(source.worker, topic.isolation),
                ranges(source, topic),
                partial(_is_own, topic_type, planned.space, replace(transform, connectors=None).sure_beginnings[0]),
                required=transform.takes,
            )
            for topic_type, topic in planned.topics.items()
            for transform in (planned.transform(topic_type),)
        }
        layout.origins.append(
            Origin(
                side="source",
                group_id=planned.group_id,
                plain=not planned.sharing,
                becomes=planned.cluster_group_id,
                connectors=planned.only_connectors,
                topics=numbers,
            )
        )
    return layout


def _is_own(topic_type: TopicType, group: str | None, beginnings: tuple[bytes, ...], key: bytes | None) -> bool:
    """Return whether a key is of a source, not of other groups; illegal keys count as plain ones."""
    if key is not None and key.startswith(beginnings):
        return True
    parts = split_key(topic_type, key)
    return (None if parts is None else parts[0]) == group


def back_up(run: MigrationRun, opened: Opened, progress: Progress) -> BackupFile:
    """Write what the sources of a plan hold, and what the destination holds under the keys it writes, to one file.

    Records of other groups on the same topics are not in it. Returns and raises as :func:`write_backup`.
    """
    layout, plan = _lay_out_sources(run, lambda _, topic: topic.ranges()), run.plan
    wanted, worker, cluster = plan.wanted(), run.destination, plan.destination.kafka_cluster_id
    replaced: dict[TopicType, int] = {}
    for topic_type, (facts, created) in opened.items():
        if created:
            continue
        known = [each.ranges for each in layout.topics if (each.cluster, each.topic) == (cluster, facts.topic)]
        unread = [
            part._replace(
                start=max([part.start, *(each[part.partition].end for each in known if part.partition in each)])
            )
            for part in facts.ranges()
        ]
        reader, place = Reader.of(worker, worker.isolation(topic_type)), ("destination", cluster, facts.topic)
        replaced[topic_type] = layout.add(place, topic_type, reader, unread, KeyOwners(topic_type, wanted).is_written)
    if replaced:
        layout.origins += [
            Origin(side="destination", group_id=space, plain=space is None, becomes=space, topics=replaced)
            for space in wanted
        ]
    return write_backup(backup_path(run.plan_path), layout, run.plan.run_id, progress)


def back_up_mirrored(run: MigrationRun, manifest: Manifest, progress: Progress) -> BackupFile:
    """Write what was mirrored behind the planned ranges, and is still at the sources, to a file of its own."""

    def behind(source: PlannedSource, topic: SourceTopic) -> list[OffsetRange]:
        planned = topic.ranges()
        copied = manifest.read_ranges_of(source.index, planned)
        return [each._replace(start=part.end) for part, each in zip(planned, copied, strict=True)]

    path = backup_path(run.plan_path, "mirrored")
    return write_backup(path, _lay_out_sources(run, behind), run.plan.run_id, progress)


def backed_up(run: MigrationRun, index: int, topic_type: TopicType, part: OffsetRange) -> Iterator[Record]:
    """Yield what the backups of a plan have of a range of a source; topics of several clusters may have one name."""
    manifest = run.applied()
    for backup in filter(None, (manifest.backup, manifest.mirrored_backup)):
        files = BackupFiles.at(run.plan_path.with_name(backup.file), None)
        topic = files.contents.topics[files.contents.origins[index].topics[topic_type]]
        for _, record in files.read(SILENT, [topic]):
            if record.partition == part.partition and part.start <= record.offset < part.end:
                yield record
