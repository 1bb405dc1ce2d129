"""When records were written, in the words of who wrote them.

The contents of the internal topics: one bounded read, folded for every group that has records there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from connect_share.console import Group, group_order, plural, shown_group
from connect_share.contents.seal_counts import Newest, SealCount
from connect_share.errors import TopicRecreatedError
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import to_record
from connect_share.kafka.facts import topic_ranges
from connect_share.kafka.read import CONSOLE_CLIENT_ID, RangeReader
from connect_share.model.config import ConfigFold
from connect_share.model.config_state import ClusterConfigState
from connect_share.model.keys import KeyKind, parse, split_key
from connect_share.model.offsets import OffsetFold, OffsetSnapshot
from connect_share.model.records import OffsetRange, Record, TopicType
from connect_share.model.status import StatusFold, StatusSnapshot
from connect_share.sealing import TopicSeals
from connect_share.sealing.cipher import is_sealed
from connect_share.worker_config import TopicSet, WorkerConfig


class WriteTimes:
    """When what is believed was written, by the timestamps of its records: any writer may choose them."""

    def __init__(self) -> None:
        self._by_group: defaultdict[tuple[TopicType, Group], dict[bytes, int]] = defaultdict(dict)

    def look(self, topic_type: TopicType, group: Group, original: bytes, believed: Record | None) -> None:
        """Take note of a record."""
        # What stands in the place of a replay has another key.
        if believed is not None and (believed.key or b"").endswith(original):
            self._by_group[topic_type, group][original] = believed.timestamp_ms

    def of(self, topic_type: TopicType, group: Group) -> Mapping[bytes, int]:
        """Return the times in milliseconds by original key."""
        return self._by_group.get((topic_type, group), {})


def newest(times_ms: Iterable[int]) -> int | None:
    """Return the last of times, ``None`` if none is known."""
    known = [at_ms for at_ms in times_ms if at_ms >= 0]
    return max(known) if known else None


_NAMED_GROUPS: Final = 3
MOST_GROUPS: Final = 10_000
"""A limit: any writer of a topic can invent groups, and each takes some kilobytes here."""

_FOLDS: Final[dict[TopicType, Callable[[Group], Any]]] = {
    TopicType.CONFIG: ConfigFold,
    TopicType.STATUS: StatusFold,
    TopicType.OFFSET: OffsetFold,
}

Look = Callable[[TopicType, Group, bytes, Record | None], None]
"""Is shown each record of a group: its original key, and what the group's workers believe of it."""

_Named = dict[KeyKind, dict[str, dict[Any, Newest]]]
"""The newest records by kind of key, connector, and number of the task, name of the topic, or original key of an offset."""


@dataclass
class TopicContents:
    """The records of one topic.

    Attributes:
        groups: state by group, in the type of the topic; only groups that have a record there.
        sealed: groups with sealed values there that cannot be opened; their state is empty, for plain records beside
            sealed ones may be old or forged.
        opened: groups whose worker file is known, and says how values are sealed.
        seals: how the records of each group are sealed.
        end: of all partitions together, so more records were never written.
        others: records of groups that were not asked for.
        two_clusters: if plain keys seem to be those of two clusters: that, and what to do.
    """

    topic: str
    groups: dict[Group, Any] = field(default_factory=dict, repr=False)
    sealed: set[Group] = field(default_factory=set)
    opened: set[Group] = field(default_factory=set)
    seals: dict[Group, SealCount] = field(default_factory=dict, repr=False)
    end: int = 0
    others: int = 0
    unrecognized: int = 0
    notes: list[str] = field(default_factory=list)
    two_clusters: str | None = None

    @property
    def records(self) -> dict[Group, int]:
        """Return the number of records by group."""
        return {group: count.records for group, count in self.seals.items()}

    def forget_replaced(self) -> None:
        """Forget the newest record of each key where the state says more."""
        for group, count in self.seals.items():
            if group not in self.sealed | self.opened:
                count.newest.clear()


@dataclass
class Contents:
    """The topics that were read, by type."""

    topics: dict[TopicType, TopicContents] = field(default_factory=dict)
    times: WriteTimes | None = field(default=None, repr=False)
    _sealed_times: dict[tuple[TopicType, Group], dict[bytes, int]] = field(default_factory=dict, repr=False)
    _names: dict[tuple[TopicType, Group], _Named] = field(default_factory=dict, repr=False)

    def groups(self) -> list[Group]:
        """Return all groups in any of the topics, the plain cluster first."""
        return sorted({group for topic in self.topics.values() for group in topic.groups}, key=group_order)

    def config_of(self, group: Group) -> ClusterConfigState:
        """Return a group's configurations; empty if it has none, or the config topic was not read."""
        state: ClusterConfigState = self._of(TopicType.CONFIG, group)
        return state

    def status_of(self, group: Group) -> StatusSnapshot:
        """Return a group's statuses; empty if it has none, or the status topic was not read."""
        snapshot: StatusSnapshot = self._of(TopicType.STATUS, group)
        return snapshot

    def offsets_of(self, group: Group) -> OffsetSnapshot:
        """Return a group's source offsets; empty if it has none, or the offset topic was not read."""
        snapshot: OffsetSnapshot = self._of(TopicType.OFFSET, group)
        return snapshot

    def is_sealed(self, topic_type: TopicType, group: Group) -> bool:
        """Return whether a group has values in a topic that was read, and they cannot be opened."""
        return topic_type in self.topics and group in self.topics[topic_type].sealed

    def named(self, topic_type: TopicType, group: Group) -> _Named:
        """Return what the keys of a group name whose values cannot be opened, removed ones too; nothing of other groups."""
        at = (topic_type, group)
        if at not in self._names:
            found: _Named = {}
            newest = self.topics[topic_type].seals[group].newest if self.is_sealed(topic_type, group) else {}
            for original, record in newest.items():
                key = parse(topic_type, original)
                subject = None if key is None else key.subject
                if subject is not None:
                    part = original if topic_type is TopicType.OFFSET else subject.part
                    found.setdefault(subject.kind, {}).setdefault(subject.connector, {})[part] = record
            self._names[at] = found
        return self._names[at]

    def written_ms(self, topic_type: TopicType, group: Group, originals: Iterable[bytes]) -> int | None:
        """Return when the newest record of these original keys was written, in the words of who wrote it."""
        times = self._times_of(topic_type, group)
        return newest([times[original] for original in originals if original in times])

    def last_written_ms(self, topic_type: TopicType, group: Group) -> int | None:
        """Return when the newest record of a group was written, in the words of who wrote it."""
        return newest(self._times_of(topic_type, group).values())

    def _times_of(self, topic_type: TopicType, group: Group) -> Mapping[bytes, int]:
        at = (topic_type, group)
        if self.is_sealed(*at):
            if at not in self._sealed_times:
                records = self.topics[topic_type].seals[group].newest
                self._sealed_times[at] = {original: record.timestamp_ms for original, record in records.items()}
            return self._sealed_times[at]
        return {} if self.times is None else self.times.of(*at)

    def notes(self) -> Iterator[str]:
        """Yield what people have to know of the topics themselves."""
        for topic in self.topics.values():
            yield from topic.notes
            if topic.unrecognized:
                yield f"{topic.topic}: {plural(topic.unrecognized, 'record')} ignored: their keys are not Connect's"

    def _of(self, topic_type: TopicType, group: Group) -> Any:
        topic = self.topics.get(topic_type)
        return topic.groups[group] if topic and group in topic.groups else _FOLDS[topic_type](group).snapshot()


def read_topics(
    topic_set: TopicSet,
    wanted: Collection[TopicType],
    *,
    groups: Collection[Group] | None = None,
    timeout_s: float,
    look: Look | None = None,
    unshown: Collection[KeyKind] = (),
) -> Contents:
    """Read topics to the end they have now.

    Read only ``groups``, if they are given. ``timeout_s`` is the longest wait for an answer, and without progress; ``look``
    is shown each record of the groups. Records of kinds that are ``unshown`` are counted, but may be left out of the state.

    Raises:
        TopicMissingError: names the topic and the property.
        BrokerError: not reachable, or not allowed.
        ReadToEndTimeoutError: no progress for so long.
    """
    reading = TopicReading(topic_set, wanted, groups=groups, timeout_s=timeout_s, look=look, unshown=unshown)
    with Admin(topic_set.settings, client_id=CONSOLE_CLIENT_ID, timeout_s=timeout_s) as admin:
        reading.read_on(admin)
    contents = reading.contents()
    for topic in contents.topics.values():
        topic.forget_replaced()
    return contents


class TopicReading:
    """Topics that are read to their end, and later on from there; arguments as of :func:`read_topics`."""

    def __init__(
        self,
        topic_set: TopicSet,
        wanted: Collection[TopicType],
        *,
        groups: Collection[Group] | None,
        timeout_s: float,
        look: Look | None = None,
        unshown: Collection[KeyKind] = (),
    ) -> None:
        self._topic_set = topic_set
        self._wanted = wanted
        self._timeout_s = timeout_s
        self._folds = {
            topic_type: _TopicFold(
                topic_set.topics[topic_type], topic_type, groups, topic_set.worker, look=look, unshown=unshown
            )
            for topic_type in wanted
        }
        self._ids: dict[str, str | None] = {}
        self._ends: dict[tuple[str, int], int] = {}
        self._notes: dict[TopicType, list[str]] = {}

    def read_on(self, admin: Admin) -> bool:
        """Read what was not read before; return whether there was anything.

        Raises:
            TopicRecreatedError: a topic is no longer the one that was read.
            TopicMissingError, BrokerError, ReadToEndTimeoutError: as of :func:`read_topics`.
        """
        self._note_ids(admin)
        ranges = topic_ranges(admin, self._topic_set, self._wanted)
        self._notes = {topic_type: notes for topic_type, (_, notes) in ranges.items()}
        new = {topic_type: [self._rest_of(each) for each in found] for topic_type, (found, _) in ranges.items()}
        with ExitStack() as stack:
            readers = {
                topic_type: stack.enter_context(
                    RangeReader(
                        self._topic_set.settings,
                        found,
                        isolation=self._topic_set.isolation[topic_type],
                        client_id=CONSOLE_CLIENT_ID,
                    )
                )
                for topic_type, found in new.items()
            }
            for topic_type, reader in readers.items():
                batches = reader.batches(self._timeout_s)
                self._folds[topic_type].take(to_record(message) for batch in batches for message in batch)
                self._ends |= {(each.topic, each.partition): max(each.start, each.end) for each in new[topic_type]}
        return any(each.end > each.start for found in new.values() for each in found)

    def _note_ids(self, admin: Admin) -> None:
        for name, topic in admin.describe_topics([self._topic_set.topics[kind] for kind in self._wanted]).items():
            if self._ids.setdefault(name, topic.topic_id) != topic.topic_id:
                raise TopicRecreatedError(f"{name} was deleted and created again", topic=name)

    def _rest_of(self, whole: OffsetRange) -> OffsetRange:
        return whole._replace(start=max(whole.start, self._ends.get((whole.topic, whole.partition), 0)))

    def contents(self) -> Contents:
        """Return what is believed of all that was read; later reads do not change it."""
        contents = Contents({topic_type: fold.contents() for topic_type, fold in self._folds.items()})
        for topic_type, topic in contents.topics.items():
            topic.notes += self._notes[topic_type]
            topic.end = sum(end for (name, _), end in self._ends.items() if name == topic.topic)
        return contents


@dataclass
class _GroupFold:
    """One group's records of a topic, folded as its own workers fold them where their worker file is known."""

    group: Group
    fold: Any = field(repr=False)
    seals: TopicSeals | None
    count: SealCount = field(repr=False)
    sealed: bool = False

    @classmethod
    def of(cls, topic_type: TopicType, group: Group, worker: WorkerConfig | None) -> _GroupFold:
        """Return the empty fold of a group."""
        fold = _FOLDS[topic_type](group)
        if group is None or worker is None or group != worker.cluster_group_id:
            return cls(group, fold, None, SealCount())
        keys = worker.keys_in_use
        seals, count = worker.seals(topic_type), SealCount(() if keys is None else keys.ids)
        if seals is not None:
            count.reasons = seals.refused
        return cls(group, fold, seals, count)

    def take(self, record: Record, original: bytes, *, is_shown: bool) -> Record | None:
        """Count the next record, and apply it if it may be believed; return what was applied."""
        if self.group is None:
            self.count.plain += 1
            self.fold.apply(record)
            return record
        taken = record if self.seals is None else self.seals.take(record)
        # What stands in the place of a replay has another key.
        self.count.add(record, original, believed=taken is not None and taken.key == record.key)
        self.sealed = self.sealed or (self.seals is None and is_sealed(record.value))
        if taken is None or self.sealed:
            return None
        if is_shown or self.seals is not None:
            self.fold.apply(taken)
        return taken


class _TopicFold:
    """The records of one topic, folded for each group."""

    def __init__(
        self,
        topic: str,
        topic_type: TopicType,
        groups: Collection[Group] | None,
        worker: WorkerConfig | None,
        *,
        look: Look | None,
        unshown: Collection[KeyKind] = (),
    ) -> None:
        self._unshown = tuple(kind.prefix for kind in unshown)
        self._topic = topic
        self._topic_type = topic_type
        self._groups = groups
        self._worker = worker
        self._look = look
        self._folds: dict[Group, _GroupFold] = {}
        self._unrecognized = 0
        self._others = 0
        self._beyond = 0

    def take(self, records: Iterable[Record]) -> None:
        """Fold the next records."""
        topic_type, folds, look = self._topic_type, self._folds, self._look
        for record in records:
            owner = None if record.key is None else split_key(topic_type, record.key)
            if owner is None:
                self._unrecognized += 1
                continue
            group = owner[0]
            if self._groups is not None and group not in self._groups:
                self._others += 1
                continue
            if group not in folds:
                if len(folds) >= MOST_GROUPS and (self._worker is None or group != self._worker.cluster_group_id):
                    self._others += 1
                    self._beyond += 1
                    continue
                folds[group] = _GroupFold.of(topic_type, group, self._worker)
            taken = folds[group].take(record, owner[1], is_shown=not owner[1].startswith(self._unshown))
            if look is not None:
                look(topic_type, group, owner[1], taken)

    def contents(self) -> TopicContents:
        """Return what is believed now; only the counts of seals change later on."""
        contents = TopicContents(self._topic, unrecognized=self._unrecognized, others=self._others)
        if self._beyond:
            contents.notes.append(
                f"{self._topic} has more than {MOST_GROUPS} groups: {self._beyond} record(s) of the last ones were not "
                "checked; --group shows any of them"
            )
        folds = self._folds
        contents.seals = {group: each.count for group, each in folds.items()}
        contents.sealed = {group for group, each in folds.items() if each.sealed}
        contents.opened = {group for group, each in folds.items() if each.seals is not None}
        empty = _FOLDS[self._topic_type]
        contents.groups = {
            group: (empty(group) if each.sealed else each.fold).snapshot() for group, each in folds.items()
        }
        contents.notes += _notes_of_sealed(contents, folds)
        plain = folds[None].fold if None in folds else None
        if isinstance(plain, StatusFold) and plain.clusters.found is not None:
            contents.two_clusters = plain.clusters.found.warning(self._topic)
            contents.notes.append(contents.two_clusters)
        return contents


def _fold(
    topic: str,
    topic_type: TopicType,
    records: Iterable[Record],
    groups: Collection[Group] | None,
    worker: WorkerConfig | None = None,
    *,
    look: Look | None = None,
) -> TopicContents:
    fold = _TopicFold(topic, topic_type, groups, worker, look=look)
    fold.take(records)
    contents = fold.contents()
    contents.forget_replaced()
    return contents


def _notes_of_sealed(contents: TopicContents, folds: Mapping[Group, _GroupFold]) -> Iterator[str]:
    if contents.sealed:
        named = [shown_group(group) for group in sorted(contents.sealed, key=group_order)]
        more = f" and {len(named) - _NAMED_GROUPS} more" if len(named) > _NAMED_GROUPS else ""
        yield (
            f"{contents.topic} has sealed values of {', '.join(named[:_NAMED_GROUPS])}{more}: only what the keys of such "
            "records say is shown, and anybody may have written it; -w with the worker file of a group opens that group"
        )
    for group, each in folds.items():
        if each.seals is not None and each.seals.refused:
            reasons = ", ".join(
                f"{count} {reason.name}" for reason, count in sorted(each.seals.refused.items(), key=str)
            )
            yield (
                f"{contents.topic}: records under keys of {shown_group(group)} were refused ({reasons}); its workers refuse "
                "them, too"
            )
