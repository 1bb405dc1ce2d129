"""What the groups of the internal topics have there: one bounded read, folded and counted for every group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from connect_share.console.options import Group, group_order, named_groups, shown_group
from connect_share.console.output import plural
from connect_share.contents.group_room import GroupRoom
from connect_share.contents.seals import Newest, SealCount
from connect_share.errors import TopicRecreatedError
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import to_record
from connect_share.kafka.read import console_admin, topic_ranges
from connect_share.model.config import ConfigFold
from connect_share.model.config_state import ClusterConfigState
from connect_share.model.keys import KeyKind, split_key, subject_of
from connect_share.model.offsets import OffsetFold, OffsetSnapshot
from connect_share.model.records import Record, TopicType
from connect_share.model.removal import is_removal
from connect_share.model.status import StatusFold, StatusSnapshot
from connect_share.sealing.cipher import is_sealed, removes
from connect_share.worker_config import TopicSet, WorkerConfig

FOLDS: Final[Mapping[TopicType, Callable[[Group], Any]]] = {
    TopicType.CONFIG: ConfigFold,
    TopicType.STATUS: StatusFold,
    TopicType.OFFSET: OffsetFold,
}

Look = Callable[[TopicType, Group, bytes, Record | None], None]
"""Is shown each record of a group: its original key, and what its fold applied, ``None`` for a refused one."""

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
        times: when the records in the state, or under the keys of a sealed group, were written, in milliseconds by original
            key, if that was asked for; by their timestamps, which any writer may choose.
        end: of all partitions together, so more records were never written.
        others: records of groups that were not asked for.
        beyond: of these, records of groups for which there was no room.
        two_clusters: if plain keys seem to be those of two clusters: that, and what to do.
    """

    topic: str
    groups: dict[Group, Any] = field(default_factory=dict, repr=False)
    sealed: set[Group] = field(default_factory=set)
    opened: set[Group] = field(default_factory=set)
    seals: dict[Group, SealCount] = field(default_factory=dict, repr=False)
    times: dict[Group, dict[bytes, int]] = field(default_factory=dict, repr=False)
    end: int = 0
    others: int = 0
    beyond: int = 0
    unrecognized: int = 0
    notes: list[str] = field(default_factory=list)
    two_clusters: str | None = None

    def records_of(self, group: Group) -> int:
        """Return the number of records of a group."""
        return self.seals[group].records if group in self.seals else 0

    def forget_replaced(self) -> None:
        """Forget the newest record of each key where the state says more."""
        for group in self.seals.keys() - self.sealed - self.opened:
            self.seals[group].newest.clear()


@dataclass
class Contents:
    """The topics that were read, by type."""

    topics: dict[TopicType, TopicContents] = field(default_factory=dict)
    _names: dict[tuple[TopicType, Group], _Named] = field(default_factory=dict, repr=False)

    def groups(self) -> list[Group]:
        """Return the groups of which a key lives in any of the topics, the plain cluster first; others were removed."""
        seals = (each for topic in self.topics.values() for each in topic.seals.items())
        return sorted({group for group, count in seals if any(count.living.values())}, key=group_order)

    def config_of(self, group: Group) -> ClusterConfigState:
        """Return a group's configurations; empty if it has none, or the config topic was not read."""
        found = self.topics.get(TopicType.CONFIG)
        return found.groups[group] if found and group in found.groups else ConfigFold(group).snapshot()

    def status_of(self, group: Group) -> StatusSnapshot:
        """Return a group's statuses; empty if it has none, or the status topic was not read."""
        found = self.topics.get(TopicType.STATUS)
        return found.groups[group] if found and group in found.groups else StatusFold(group).snapshot()

    def offsets_of(self, group: Group) -> OffsetSnapshot:
        """Return a group's source offsets; empty if it has none, or the offset topic was not read."""
        found = self.topics.get(TopicType.OFFSET)
        return found.groups[group] if found and group in found.groups else OffsetFold(group).snapshot()

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
                subject = subject_of(topic_type, original)
                if subject is not None:
                    part = original if topic_type is TopicType.OFFSET else subject.part
                    found.setdefault(subject.kind, {}).setdefault(subject.connector, {})[part] = record
            self._names[at] = found
        return self._names[at]

    def written_ms(self, topic_type: TopicType, group: Group, *originals: bytes) -> int | None:
        """Return when the newest record of these original keys, or of the group, was written, in its writer's words."""
        times = self.topics[topic_type].times.get(group, {}) if topic_type in self.topics else {}
        known = (times.get(original, -1) for original in originals or times)
        return max((at_ms for at_ms in known if at_ms >= 0), default=None)

    def notes(self) -> Iterator[str]:
        """Yield what people have to know of the topics themselves."""
        for topic in self.topics.values():
            yield from topic.notes
            if topic.unrecognized:
                yield f"{topic.topic}: {plural(topic.unrecognized, 'record')} ignored: their keys are not Connect's"


def read_topics(
    topic_set: TopicSet,
    wanted: Collection[TopicType],
    *,
    groups: Collection[Group] | None = None,
    look: Look | None = None,
    room: GroupRoom | None = None,
) -> Contents:
    """Read topics to the end they have now.

    Read only ``groups``, if they are given. ``look`` is shown each record of the groups. ``room``: which groups are kept.
    """
    reading = TopicReading(topic_set, wanted, groups=groups, look=look, room=room)
    with console_admin(topic_set) as admin:
        contents = reading.read_on(admin)
    assert contents is not None  # noqa: S101 - the first time
    for topic in contents.topics.values():
        topic.forget_replaced()
    return contents


class TopicReading:
    """Topics that are read to their end, and later on from there; arguments as of :func:`read_topics`.

    With ``timed`` the contents say when the records in the state were written. Records of kinds that are ``unshown`` are
    counted, but may be left out of the state.
    """

    def __init__(
        self,
        topic_set: TopicSet,
        wanted: Collection[TopicType],
        *,
        groups: Collection[Group] | None,
        look: Look | None = None,
        unshown: Collection[KeyKind] = (),
        timed: bool = False,
        room: GroupRoom | None = None,
    ) -> None:
        self._topic_set = topic_set
        room = room or GroupRoom(topic_set.own | {*(groups or ())})
        self._partitions = Counter[TopicType]()
        self._wanted, self._groups = wanted, groups
        self._folds = {
            topic_type: TopicFold(
                topic_set.topics[topic_type],
                topic_type,
                groups,
                topic_set.worker,
                look=look,
                unshown=unshown,
                timed=timed,
                partitions=partial(self._partitions.__getitem__, topic_type),
                room=room,
            )
            for topic_type in wanted
        }
        self._ids: dict[TopicType, str | None] = {}
        self._starts: dict[tuple[str, int], int] = {}
        self._ends: dict[tuple[str, int], int] = {}
        self._notes: dict[TopicType, list[str]] = {}
        self._is_first = True

    def read_on(self, admin: Admin) -> Contents | None:
        """Read what was not read before; return the contents if there was anything, and the first time."""
        found = topic_ranges(admin, self._topic_set, self._wanted, self._groups, self._ends)
        for topic_type, topic in found.items():
            if self._ids.setdefault(topic_type, topic.topic_id) != topic.topic_id:
                name = self._topic_set.topics[topic_type]
                raise TopicRecreatedError(f"{name} was deleted and created again", topic=name)
        self._notes = {topic_type: topic.notes for topic_type, topic in found.items()}
        self._partitions |= {topic_type: len(topic.ranges) for topic_type, topic in found.items()}
        new = {
            topic_type: [each._replace(start=max(each.start, self._starts.get(each[:2], 0))) for each in topic.ranges]
            for topic_type, topic in found.items()
        }
        with ExitStack() as stack:
            readers = {kind: stack.enter_context(topic.reader.open(new[kind])) for kind, topic in found.items()}
            for topic_type, reader in readers.items():
                self._folds[topic_type].apply(to_record(message) for batch in reader.batches() for message in batch)
                self._ends |= {each[:2]: max(each.start, each.end) for each in new[topic_type]}
                stable = found[topic_type].stable
                self._starts |= {each[:2]: min(stable[each[:2]], self._ends[each[:2]]) for each in new[topic_type]}
        is_new = self._is_first or any(each.end > each.start for ranges in new.values() for each in ranges)
        self._is_first = False
        return self.contents() if is_new else None

    def contents(self) -> Contents:
        """Return the state after all that was read; later reads do not change it."""
        contents = Contents({topic_type: fold.contents() for topic_type, fold in self._folds.items()})
        for topic_type, topic in contents.topics.items():
            topic.notes += self._notes[topic_type]
            topic.end = sum(end for (name, _), end in self._ends.items() if name == topic.topic)
        return contents


class GroupFold:
    """One group's records of a topic, folded as its own workers fold them where their worker file is known.

    A worker file is that of one group. With keys it opens what is sealed; without keys, or with sealing off, the group's
    workers refuse what is sealed, and so does this. Sealed values of any other group cannot be opened, and its plain records
    beside them may be old or forged: nothing is folded from the first one on.

    Attributes:
        fold: in the type of the topic.
        records, kept: how many were read, and about how many bytes are kept of them.
        seals: of the group; ``None`` if the worker file is not its own.
        is_sealed: it has values that cannot be opened here.
        is_unsaid: the worker file is its own, and does not say whether it is sealed.
    """

    def __init__(
        self,
        topic_type: TopicType,
        group: Group,
        worker: WorkerConfig | None,
        partitions: Callable[[], int] = lambda: 0,
    ) -> None:
        self.group = group
        self.records = self.kept = 0
        self.fold = FOLDS[topic_type](group)
        self.fold.places.partitions = partitions
        is_own = worker is not None and group == worker.cluster_group_id
        self.seals = worker.seals(topic_type) if worker is not None and is_own else None
        self.is_sealed = False
        self.is_unsaid = self.seals is not None and worker is not None and not worker.says_sealing

    def open(self, record: Record) -> Record | None:
        """Return what the fold has to apply in the place of the next record, ``None``: nothing.

        The record that takes the place of a replayed one has another key.
        """
        if self.seals is not None:
            return self.seals.open(record)
        self.is_sealed = self.is_sealed or (self.group is not None and is_sealed(record.value))
        return None if self.is_sealed else record

    def snapshot(self) -> Any:
        """Return the state; an empty one where values cannot be opened."""
        return (type(self.fold)(self.group) if self.is_sealed else self.fold).snapshot()


class CountedGroup(GroupFold):
    """One group's records of a topic, folded and counted.

    Attributes:
        count: how they are sealed.
        times: when those in the state were written, by original key.
    """

    def __init__(
        self, topic_type: TopicType, group: Group, worker: WorkerConfig | None, partitions: Callable[[], int]
    ) -> None:
        super().__init__(topic_type, group, worker, partitions)
        known = () if worker is None or worker.keys_in_use is None else worker.keys_in_use.ids
        self.count = SealCount() if self.seals is None else SealCount(known, self.seals.refused)
        self.times: dict[bytes, int] = {}
        self._topic_type = topic_type

    def note(self, record: Record, original: bytes, opened: Record | None) -> None:
        """Count the next record; ``opened`` is what the fold has to apply in its place."""
        accepted = self.seals is None or (opened is not None and opened.key == record.key)
        is_gone = is_removal if self.group is None else removes
        removal = is_gone(self._topic_type, record.value)
        self.count.note_life(record, original, accepted=accepted, removal=removal)
        if self.group is None:
            self.count.plain += 1
        else:
            self.count.add(record, original, accepted=accepted)


class _Kept(Protocol):
    group: Group
    records: int
    kept: int


AnyGroupFold = TypeVar("AnyGroupFold", bound=_Kept)


class GroupFolds(Generic[AnyGroupFold]):
    """The folds of the groups of one topic that have room.

    Args:
        groups: the only ones that are folded; ``None``: all.

    Attributes:
        unrecognized: records whose key is not Connect's.
        others: records of groups that were not asked for.
        beyond: records of groups for which there was no room.
    """

    def __init__(
        self,
        topic_type: TopicType,
        new: Callable[[Group], AnyGroupFold],
        room: GroupRoom,
        groups: Collection[Group] | None = None,
    ) -> None:
        self.by_group: dict[Group, AnyGroupFold] = {}
        self.unrecognized = self.others = self.beyond = 0
        self.room = room
        room.forget[topic_type] = self._forget
        self._topic_type = topic_type
        self._new = new
        self._groups = groups
        self._kept = 0

    def find(self, record: Record) -> tuple[AnyGroupFold, bytes] | None:
        """Return the fold of the group of the next record, and its original key; count the record if there is none."""
        owner = split_key(self._topic_type, record.key)
        if owner is None:
            self.unrecognized += 1
            return None
        group, original = owner
        fold = self.by_group.get(group)
        if fold is None:
            if self._groups is not None and group not in self._groups:
                self.others += 1
                return None
            if not self.room.admits(group):
                self.beyond += 1
                return None
            fold = self.by_group[group] = self._new(group)
        fold.records += 1
        return fold, original

    def keep(self, fold: AnyGroupFold, size: int) -> bool:
        """Note that so many more bytes are to be kept of a group; return whether they may be."""
        fold.kept += size
        self._kept += 0 if fold.group in self.room.own else size
        while self._kept > self.room.most_bytes:
            others = (each for each in self.by_group.values() if each.group not in self.room.own)
            largest = max(others, key=lambda each: each.kept).group
            self.room.left_out[largest] = 0
            for forget in [*self.room.forget.values()]:
                forget(largest)
        return fold.group in self.by_group

    def _forget(self, group: Group) -> None:
        fold = self.by_group.pop(group, None)
        if fold is not None:
            self._kept -= fold.kept
            self.beyond += fold.records


class TopicFold:
    """The records of one topic, folded for each group; arguments as of :class:`TopicReading`."""

    def __init__(
        self,
        topic: str,
        topic_type: TopicType,
        groups: Collection[Group] | None = None,
        worker: WorkerConfig | None = None,
        *,
        look: Look | None = None,
        unshown: Collection[KeyKind] = (),
        timed: bool = False,
        partitions: Callable[[], int] = lambda: 0,
        room: GroupRoom,
    ) -> None:
        self._unshown = tuple(kind.prefix for kind in unshown)
        self._topic = topic
        self._topic_type = topic_type
        self._look = look
        new = partial(CountedGroup, topic_type, worker=worker, partitions=partitions)
        self._folds = GroupFolds(topic_type, new, room, groups)
        self._timed = timed

    def apply(self, records: Iterable[Record]) -> None:
        """Fold the next records."""
        for record in records:
            found = self._folds.find(record)
            if found is None:
                continue
            fold, original = found
            if not self._folds.keep(fold, fold.count.further(record, original)):
                continue
            opened = fold.open(record)
            fold.note(record, original, opened)
            is_shown = fold.group is None or fold.seals is not None or not original.startswith(self._unshown)
            if opened is not None and is_shown:
                fold.fold.apply(opened)
            counted = record if fold.is_sealed else opened
            # What takes the place of a replayed record has another key.
            if self._timed and counted is not None and (counted.key or b"").endswith(original):
                fold.times[original] = counted.timestamp_ms
            if self._look is not None:
                self._look(self._topic_type, fold.group, original, opened)

    def contents(self) -> TopicContents:
        """Return the state after all records so far; only the counts of seals and the times change later on."""
        folds, beyond = self._folds.by_group, self._folds.beyond
        for each in folds.values():
            if each.is_unsaid:  # without keys what looks sealed counts as refused
                each.is_sealed = each.count.refused > each.count.plain
        contents = TopicContents(
            self._topic,
            groups={group: each.snapshot() for group, each in folds.items()},
            sealed={group for group, each in folds.items() if each.is_sealed},
            opened={group for group, each in folds.items() if each.seals is not None},
            seals={group: each.count for group, each in folds.items()},
            times={group: each.times for group, each in folds.items()},
            others=self._folds.others + beyond,
            beyond=beyond,
            unrecognized=self._folds.unrecognized,
        )
        placed = {} if self._topic_type is TopicType.CONFIG else folds  # that has one partition
        several = {group: count for group, each in placed.items() if (count := len(each.fold.places.in_several()))}
        if several:
            whose = named_groups(sorted(several, key=group_order))
            contents.notes.append(
                f"{self._topic}: {plural(sum(several.values()), 'key')} of {whose} in several partitions, as after "
                "partitions were added: the newest record by time counts here, but without the jar what a Java worker reads "
                "last. A move onto other topics leaves one record of each"
            )
        if beyond:
            contents.notes.append(self._folds.room.said(self._topic, beyond))
        if contents.sealed:
            named = named_groups(sorted(contents.sealed, key=group_order))
            contents.notes.append(
                f"{self._topic} has sealed values of {named}: only what the keys of such "
                "records say is shown, and anybody may have written it; -w with the worker file of a group opens "
                "that group, if its keys are in it"
            )
        for group, each in folds.items():
            if each.seals is not None and each.seals.refused and not each.is_sealed:
                refused = sorted(each.seals.refused.items(), key=str)
                reasons = ", ".join(f"{count} {reason.name}" for reason, count in refused)
                contents.notes.append(
                    f"{self._topic}: records under keys of {shown_group(group)} were refused ({reasons}); its workers refuse "
                    "them, too"
                )
        plain = folds[None].fold if None in folds else None
        if isinstance(plain, StatusFold) and plain.clusters.found is not None:
            contents.two_clusters = plain.clusters.found.warning(self._topic)
            contents.notes.append(contents.two_clusters)
        return contents
