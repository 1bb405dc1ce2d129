"""Whether a record has the form that Connect gives it: its key, and then its value.

What the records of one topic say: whether they are Connect's, of which kind, and of which groups and connectors.

Everything here is bounded: a topic that anybody fills cannot fill this memory.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, assert_never

from connect_share.console.options import Group
from connect_share.console.output import plural
from connect_share.contents.group_room import LONGEST_ID, MOST_GROUPS
from connect_share.errors import ValueFormatError
from connect_share.model.config import MOVED, moved_in
from connect_share.model.config_state import Moved, TargetState
from connect_share.model.connect_json import JSON_NULL, loads
from connect_share.model.keys import MARKER, ConfigKey, Key, KeyKind, OffsetKey, StatusKey, Subject, owner_of, parse
from connect_share.model.offsets import parse_offset_key
from connect_share.model.records import Record, TopicType
from connect_share.model.removal import is_removal
from connect_share.model.status import PlainClusterWatch, State
from connect_share.sealing.cipher import is_sealed
from connect_share.worker_config.override_policy import OWN_TOPIC_PROPERTY

_MOST_BYTES: Final = 4 << 20
"""Bytes; a longer value is not taken apart, and says nothing."""
_STATES: Final = frozenset(state.value for state in State)
_TARGETS: Final = frozenset(state.value for state in TargetState)
_STATUS: Final = frozenset({"state", "trace", "worker_id", "generation"})
_TOPIC: Final = frozenset({"name", "connector", "task", "discoverTimestamp"})

Members = Mapping[str, Any]


class Fit(enum.Enum):
    """What a value says about who wrote it."""

    UNKNOWN = enum.auto()
    """Nothing: a removal."""
    OTHER = enum.auto()
    """Connect does not write this under such a key."""
    FITS = enum.auto()
    """Connect writes such a value, and others may, too."""
    PROVES = enum.auto()
    """Nobody but Connect has a reason to write this."""


def fit_of(key: Key, value: bytes | None, *, of_group: bool) -> tuple[Fit, Members]:
    """Return whether Connect writes this value under this key, and the members of a value that fits. Never raises.

    ``of_group``: the key had a cluster group id before it; only there a value may be sealed.
    """
    if isinstance(key.kind, OffsetKey):
        try:
            parse_offset_key(key.original)
        except ValueFormatError:
            return Fit.OTHER, {}
    if value is None or value == JSON_NULL or len(value) > _MOST_BYTES:
        return Fit.UNKNOWN, {}
    if is_sealed(value):
        return (Fit.PROVES if of_group and not isinstance(key.kind, OffsetKey) else Fit.OTHER), {}
    found: object = None
    with suppress(ValueFormatError):
        found = loads(value)
    if not isinstance(found, dict):
        return Fit.OTHER, {}
    fit = _of_members(key.kind, found)
    return fit, {} if fit is Fit.OTHER else found


def _of_members(kind: KeyKind, found: Members) -> Fit:
    match kind:
        case ConfigKey.CONNECTOR:
            return _of_properties(found, "connector.class")
        case ConfigKey.TASK:
            return _of_properties(found, "task.class")
        case ConfigKey.SESSION_KEY:
            types = {"key": str, "algorithm": str, "creation-timestamp": int}
            return Fit.PROVES if _has(found, types) else Fit.OTHER
        case ConfigKey.TARGET_STATE if Moved.read(found.get(MOVED)) is not None:
            return Fit.PROVES
        case ConfigKey.TARGET_STATE:
            return Fit.FITS if _is_one_of(found.get("state"), _TARGETS) else Fit.OTHER
        case ConfigKey.COMMIT:
            return _fits(found, {"tasks": int})
        case ConfigKey.TASK_COUNT:
            return _fits(found, {"task-count": int})
        case ConfigKey.RESTART:
            return _fits(found, {"include-tasks": bool, "only-failed": bool})
        case ConfigKey.LOGGER_LEVEL:
            return _fits(found, {"level": str})
        case StatusKey.CONNECTOR | StatusKey.TASK:
            is_status = _is_one_of(found.get("state"), _STATES) and _has(found, {"generation": int})
            return Fit.PROVES if is_status and found.keys() >= _STATUS else Fit.OTHER
        case StatusKey.TOPIC:
            topic = found.get("topic")
            return Fit.PROVES if isinstance(topic, dict) and topic.keys() >= _TOPIC else Fit.OTHER
        case OffsetKey.OFFSET:
            return Fit.FITS
    assert_never(kind)


def _of_properties(found: Members, proof: str) -> Fit:
    """Return what a configuration says: nothing but a map of strings, in which the runtime's own property proves it."""
    properties = found.get("properties")
    if len(found) != 1 or not isinstance(properties, dict):
        return Fit.OTHER
    if not all(item is None or isinstance(item, str) for item in properties.values()):
        return Fit.OTHER
    return Fit.PROVES if properties.get(proof) else Fit.FITS


def _is_one_of(value: object, names: frozenset[str]) -> bool:
    return isinstance(value, str) and value in names


def _has(found: Members, types: Mapping[str, Callable[..., object]]) -> bool:
    return all(type(found.get(name)) is kind for name, kind in types.items())


def _fits(found: Members, types: Mapping[str, Callable[..., object]]) -> Fit:
    return Fit.FITS if len(found) == len(types) and _has(found, types) else Fit.OTHER


MOST_ITEMS: Final = 100_000
"""Connectors and tasks of a topic that are remembered, as hashes."""
_MOST_WORKERS: Final = 1_000
_MOST_NAMED_TOPICS: Final = 1_000
_LONGEST_NAME: Final = 300
_LONGEST_VALUE: Final = 3_000
_TAKEN_APART: Final = 1_000
"""Values of each type that are always taken apart; of later ones only those that say more than whose they are."""
_ENOUGH: Final = 0.5
_NEARLY_ALL: Final = 0.95


@dataclass(slots=True)
class GroupEvidence:
    """What one group has in one topic.

    Attributes:
        is_real: a value has the form of Connect's; whoever may write here can invent keys.
        connectors: hashes of the names of those that are configured now, of a config topic.
        workers: ids of plain statuses; those of other groups say nothing that their keys do not say.
        moved: what fences it on a config topic that it has left.
    """

    records: int = 0
    size_bytes: int = 0
    is_real: bool = False
    connectors: set[int] = field(default_factory=set, repr=False)
    workers: set[str] = field(default_factory=set)
    moved: Moved | None = None


@dataclass
class TypeEvidence:
    """What a topic has of one type: the topic in one of its roles.

    Attributes:
        items: hashes of groups, of connectors with their group, and of tasks, with the time of their newest record; equal
            ones are equal in all topics.
        texts: hashes of values of a connector's properties, and of its source partitions, which often are the same.
        named_topics: offsets topics of their own that connectors name.
        watch: finds two workers that cannot be of one cluster, if two write plain statuses.
        is_cut: there are more groups, or such as no cluster can have.
    """

    topic_type: TopicType
    topic: str
    fits: dict[Fit, int] = field(default_factory=lambda: dict.fromkeys(Fit, 0))
    groups: dict[Group, GroupEvidence] = field(default_factory=dict)
    items: dict[int, int] = field(default_factory=dict, repr=False)
    texts: set[int] = field(default_factory=set, repr=False)
    named_topics: set[str] = field(default_factory=set)
    watch: PlainClusterWatch = field(default_factory=PlainClusterWatch, repr=False)
    is_cut: bool = False

    @property
    def keys(self) -> int:
        """Return how many records have keys of this type."""
        return sum(self.fits.values())

    @property
    def good(self) -> int:
        """Return how many values have Connect's form."""
        return self.fits[Fit.FITS] + self.fits[Fit.PROVES]

    @property
    def judged(self) -> int:
        """Return how many values say who wrote them, or that it was another."""
        return self.good + self.fits[Fit.OTHER]

    @property
    def is_connects(self) -> bool:
        """Return whether the values are Connect's; of offsets only that they may be, for their form is everybody's."""
        needed = self.good if self.topic_type is TopicType.OFFSET else self.fits[Fit.PROVES]
        return needed > 0 and self.good >= _ENOUGH * self.judged

    def add(self, record: Record, group: Group, original: Key) -> None:
        """Consider one record under a key of this type."""
        if group not in self.groups:
            if len(self.groups) >= MOST_GROUPS or len(group or "") > LONGEST_ID:
                self.is_cut = True
                return
            self.groups[group] = GroupEvidence()
            if group is not None:
                self._remember(hash(group), record)
        own = self.groups[group]
        own.records += 1
        own.size_bytes += len(record.key or b"") + len(record.value or b"")
        members: Members = {}
        says_more = original.kind is ConfigKey.CONNECTOR or (self.topic_type is TopicType.STATUS and group is None)
        if says_more or not own.is_real or self.judged < _TAKEN_APART:
            fit, members = fit_of(original, record.value, of_group=group is not None)
            self.fits[fit] += 1
            own.is_real = own.is_real or fit in (Fit.FITS, Fit.PROVES)
        else:
            self.fits[Fit.UNKNOWN] += 1
        subject = original.subject
        if subject is not None:
            self._note_subject(own, record, group, subject)
        if original.kind in (StatusKey.CONNECTOR, StatusKey.TASK):
            self._note_worker(own, record, group, members)
        elif original.original == MARKER[0]:
            own.moved = moved_in(record.value)
        elif original.kind is ConfigKey.CONNECTOR:
            self._note_properties(members.get("properties"), group, original.rest)
        elif isinstance(original.kind, OffsetKey) and members:
            self._note_partition(group, original)

    def _remember(self, item: int, record: Record) -> None:
        if item in self.items or len(self.items) < MOST_ITEMS:
            self.items[item] = record.timestamp_ms

    def _note_subject(self, own: GroupEvidence, record: Record, group: Group, subject: Subject) -> None:
        connector = hash((group, subject.connector))
        self._remember(connector, record)
        if isinstance(subject.part, int):
            self._remember(hash((group, subject.connector, subject.part)), record)
        if subject.kind is ConfigKey.CONNECTOR:
            if is_removal(TopicType.CONFIG, record.value):
                own.connectors.discard(hash(subject.connector))
            elif len(own.connectors) < MOST_ITEMS:
                own.connectors.add(hash(subject.connector))

    def _note_worker(self, own: GroupEvidence, record: Record, group: Group, members: Members) -> None:
        worker, generation = members.get("worker_id"), members.get("generation")
        if group is not None or not isinstance(worker, str) or not isinstance(generation, int):
            return
        self.watch.look(record.partition, worker, generation)
        if len(own.workers) < _MOST_WORKERS:
            own.workers.add(worker[:_LONGEST_NAME])

    def _note_properties(self, properties: object, group: Group, connector: str) -> None:
        if not isinstance(properties, dict):
            return
        for value in properties.values():
            for text in (value or "")[:_LONGEST_VALUE].split(","):
                self._note_text(group, connector, text.strip())
        topic = properties.get(OWN_TOPIC_PROPERTY)
        if topic and len(topic) <= _LONGEST_NAME and len(self.named_topics) < _MOST_NAMED_TOPICS:
            self.named_topics.add(topic)

    def _note_partition(self, group: Group, original: Key) -> None:
        connector, partition = parse_offset_key(original.original)
        for value in (partition or {}).values():
            if isinstance(value, str):
                self._note_text(group, connector, value[:_LONGEST_VALUE])

    def _note_text(self, group: Group, connector: str, text: str) -> None:
        if text and len(self.texts) < MOST_ITEMS:
            self.texts.add(hash((group, connector, text)))


@dataclass
class TopicEvidence:
    """What the records of one topic say."""

    topic: str
    records: int = 0
    types: dict[TopicType, TypeEvidence] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        """Consider one record. Never raises, whatever is in it."""
        self.records += 1
        owner = owner_of(record.key)
        original = None if owner is None else parse(owner[0], owner[2])
        if owner is not None and original is not None:
            topic_type, group, _ = owner
            if topic_type not in self.types:
                self.types[topic_type] = TypeEvidence(topic_type, self.topic)
            self.types[topic_type].add(record, group, original)

    @property
    def keys(self) -> int:
        """Return how many records have keys of Connect."""
        return sum(of_type.keys for of_type in self.types.values())

    @property
    def roles(self) -> list[TypeEvidence]:
        """Return what the topic is to Connect: usually nothing, or one type."""
        if self.keys < _ENOUGH * self.records:
            return []
        return [of_type for of_type in self.types.values() if of_type.is_connects]

    @property
    def confidence(self) -> str:
        """Return how sure it is: ``certain`` when nearly every key and value has Connect's form."""
        judged = sum(of_type.judged for of_type in self.roles)
        good = sum(of_type.good for of_type in self.roles)
        return "certain" if self.keys >= _NEARLY_ALL * self.records and good >= _NEARLY_ALL * judged else "likely"

    @property
    def why(self) -> str:
        """Return by what it was decided, for people."""
        judged = sum(of_type.judged for of_type in self.types.values())
        good = sum(of_type.good for of_type in self.types.values())
        text = f"{self.keys:,} of {plural(self.records, 'key')} have the form of Connect's"
        if not self.keys:
            return text
        text += f", {good:,} of {plural(judged, 'value')} looked at have it, too"
        if good and not self.roles and self.keys >= _ENOUGH * self.records and good >= _ENOUGH * judged:
            text += "; none of them proves it, as a connector.class or a worker id would"
        return text
