"""The equality of two states: the states of workers are compared, not bytes.

Pure. Both sides are folded with the stores' own replay; a difference names the item and the field, never a value.

The quick half of it finds the connectors that *may* differ without parsing a single value. A connector's state follows from
the connector's own records alone. On the config topic these are all of them in their order, on the status topic those of each
item in theirs, on the offset topic the newest of each key. So where both sides have the same bytes, the states are the same.
The other connectors, the suspects, are read again and folded by Connect's own rules. Only these decide what is a difference:
after a compaction of one side most suspects are equal.
"""

from __future__ import annotations

import enum
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any, Final, Protocol, Self

from connect_share.model.config_state import ClusterConfigState, TargetState
from connect_share.model.connect_json import same
from connect_share.model.keys import BEFORE_ORIGINAL, MARKER, ClusterGroupId, Subject, connector_of, subject_of
from connect_share.model.offsets import OffsetSnapshot
from connect_share.model.places import KeyPlaces
from connect_share.model.records import Record, TopicType
from connect_share.model.status import StatusSnapshot
from connect_share.replay import replay_config, replay_offsets, replay_status
from connect_share.sealing.cipher import is_sealed
from connect_share.transform.rules import PLAIN_KEYS, KeyTransform, TopicText, prefixes_of
from migrator.plan import PlanPart

_STATE_PREFIXES: Final = {each: prefixes_of(each, lambda rule: rule.is_state) for each in TopicType}


class RawMessage(Protocol):
    """The client's message: key and value as bytes or ``None``, timestamp as type and milliseconds."""

    def key(self) -> Any: ...  # noqa: D102
    def value(self) -> Any: ...  # noqa: D102
    def timestamp(self) -> tuple[int, int]: ...  # noqa: D102


@dataclass(frozen=True)
class PairHash:
    """Returns the sum of the hashes of pairs of texts, in any order; keys that have each other's values make another sum.

    Attributes:
        anywhere: it is the same in every process, and four times as slow; else where ``hash`` has the same seed.
        separator: between two texts; it is random, so no key holds it.
    """

    anywhere: bool = False
    separator: bytes = field(default_factory=lambda: os.urandom(16), repr=False)

    def __call__(self, pairs: Iterable[tuple[bytes, bytes]]) -> int:
        """Return the sum."""
        texts = map(self.separator.join, pairs)
        if self.anywhere:
            return sum(int.from_bytes(blake2b(text, digest_size=16).digest()) for text in texts)
        return sum(map(hash, texts))


HERE: Final = PairHash()


class KeySpaceDigest(ABC):
    """The records of one key space in one topic as sums: whoever reads a part of the partitions, they can be added up.

    Attributes:
        sealed: there are sealed values: the same bytes mean the same only to who has the same keys.
        sums: by connector; ``None`` stands for keys that name no connector.
    """

    def __init__(self, hash_of: PairHash = HERE) -> None:
        self.sealed = False
        self.sums: dict[str | None, int] = {}
        self.hash_of = hash_of

    @abstractmethod
    def add(self, original: bytes, message: RawMessage) -> None:
        """Add the next record of its partition; ``original`` is its plain key."""

    @abstractmethod
    def fold(self) -> None:
        """Sum up, and free what was kept: all records were added of the partitions that were read so far."""

    def merge(self, other: Self) -> None:
        """Add the folded digest of other partitions."""
        self.sealed = self.sealed or other.sealed
        for connector, number in other.sums.items():
            self._sum(connector, number)

    def _next(self, number: int, key: bytes, message: RawMessage) -> int:
        """Return the number of some records in their order, after one more."""
        value = message.value()
        return self.hash_of([(b"%d %d %b" % (number, value is None, key), value or b"")])

    def _sum(self, connector: str | None, number: int) -> None:
        self.sums[connector] = self.sums.get(connector, 0) + number

    def closer(self, other: Self) -> Callable[[], Self] | None:  # noqa: ARG002 - two of the three know them at once
        """Return what makes digests that see more, if these two differ and do not know in which connectors."""
        return None

    def suspects(self, other: Self) -> set[str | None]:
        """Return the connectors whose records differ between two folded digests that need not look closer."""
        return {name for name in self.sums.keys() | other.sums.keys() if self.sums.get(name) != other.sums.get(name)}


class OffsetDigest(KeySpaceDigest):
    """The newest value of each original key, as a sum of hashes; where two differ, the next ones have one a connector.

    Values and keys are kept of the partitions that are being read, so :meth:`fold` bounds the memory. A key in several
    partitions, which Connect does not write, counts once for each; if that makes a difference, Connect's rules decide.
    """

    def __init__(self, hash_of: PairHash = HERE, *, by_connector: bool = False) -> None:
        super().__init__(hash_of)
        self._values: dict[bytes, bytes] = {}
        self._by_connector = by_connector

    def add(self, original: bytes, message: RawMessage) -> None:  # noqa: D102
        self.add_all((message,), (message.key(),), len(message.key()) - len(original))

    def add_all(self, messages: Iterable[RawMessage], beginnings: tuple[bytes, ...], cut: int) -> None:
        """Add the messages whose keys have one of these beginnings, in one loop: there may be millions.

        ``cut`` is the number of bytes before the original key.
        """
        values = self._values
        for message in messages:
            key = message.key()
            if key is not None and key.startswith(beginnings):
                value = message.value()
                if value is None:
                    values.pop(key[cut:], None)
                else:
                    values[key[cut:]] = value

    def fold(self) -> None:  # noqa: D102
        values, self._values = self._values, {}
        self.sealed = self.sealed or any(map(is_sealed, values.values()))
        if self._by_connector:
            for item in values.items():
                self._sum(connector_of(TopicType.OFFSET, item[0]), self.hash_of([item]))
        else:
            self._sum(None, self.hash_of(values.items()))

    def closer(self, other: OffsetDigest) -> Callable[[], OffsetDigest] | None:  # noqa: D102
        if self._by_connector or self.sums == other.sums:
            return None
        return partial(OffsetDigest, self.hash_of, by_connector=True)


class StatusDigest(KeySpaceDigest):
    """The bytes and timestamps of each status in their order, as one number."""

    def __init__(self, hash_of: PairHash = HERE) -> None:
        super().__init__(hash_of)
        self._items: dict[bytes, Subject | None] = {}
        self._digests: dict[Subject, int] = {}

    def add(self, original: bytes, message: RawMessage) -> None:  # noqa: D102
        if original not in self._items:
            self._items[original] = subject_of(TopicType.STATUS, original)
        self.sealed = self.sealed or is_sealed(message.value())
        item = self._items[original]
        if item is not None:  # Connect ignores other keys
            self._digests[item] = self._next(self._digests.get(item, 0), b"%d" % message.timestamp()[1], message)

    def fold(self) -> None:  # noqa: D102
        for item, number in self._digests.items():
            self._sum(item.connector, self.hash_of([(repr((item.kind.label, item.part)).encode(), b"%d" % number)]))
        self._items, self._digests = {}, {}


class ConfigDigest(KeySpaceDigest):
    """The records of each connector in their order, as one number."""

    def __init__(self, hash_of: PairHash = HERE) -> None:
        super().__init__(hash_of)
        self._connectors: dict[bytes, str | None] = {}
        self._digests: dict[str, int] = {}
        self._marked = False

    def add(self, original: bytes, message: RawMessage) -> None:  # noqa: D102
        if (original, message.value()) == MARKER:  # of no connector
            self._marked = True
            return
        if original not in self._connectors:
            self._connectors[original] = connector_of(TopicType.CONFIG, original)
        self.sealed = self.sealed or is_sealed(message.value())
        connector = self._connectors[original]
        if connector is not None:
            self._digests[connector] = self._next(self._digests.get(connector, 0), original, message)

    def fold(self) -> None:  # noqa: D102
        for connector, number in self._digests.items():
            self._sum(connector, number)
        self._connectors, self._digests = {}, {}

    def merge(self, other: ConfigDigest) -> None:  # noqa: D102
        super().merge(other)
        self._marked = self._marked or other._marked

    def suspects(self, other: ConfigDigest) -> set[str | None]:  # noqa: D102
        unlike = super().suspects(other)
        if (self._marked or other._marked) and ("" in self.sums or "" in other.sums):
            unlike.add("")  # a connector without a name, and the marker is one of its records
        return unlike


def digest_of(topic_type: TopicType, hash_of: PairHash = HERE) -> KeySpaceDigest:
    """Return an empty digest."""
    digests = {TopicType.CONFIG: ConfigDigest, TopicType.STATUS: StatusDigest, TopicType.OFFSET: OffsetDigest}
    return digests[topic_type](hash_of)


class KeySpaces:
    """The digests of some key spaces of one topic, to which each record is added by its key.

    Agrees with :func:`connect_share.model.keys.own_key`, which decides on one space at a time.
    """

    def __init__(self, topic_type: TopicType, digests: Mapping[str | None, KeySpaceDigest]) -> None:
        self._prefixes = _STATE_PREFIXES[topic_type]
        self._digests = {
            b"" if group is None else ClusterGroupId(group).prefix: digest for group, digest in digests.items()
        }
        self._before_original = BEFORE_ORIGINAL[topic_type]

    def add(self, messages: Sequence[RawMessage]) -> None:
        """Add the messages of a batch to their digests; those of other key spaces are left out."""
        (prefix, first), *others = self._digests.items()
        if isinstance(first, OffsetDigest) and not others:
            first.add_all(messages, tuple(prefix + each for each in self._prefixes), len(prefix))
            return
        for message in messages:
            key = message.key() or b""
            found = self._before_original.match(key)
            if found is None:
                continue
            cut = found.end()
            digest = self._digests.get(key[:cut])
            if digest is not None and key.startswith(self._prefixes, cut):
                digest.add(key[cut:], message)


STATUS_FIELDS: Final = ("state", "worker_id", "generation", "trace", "version")


class Mismatch(enum.Enum):
    """The way in which an item differs."""

    MISSING = "missing"
    UNEXPECTED = "unexpected"
    DIFFERENT = "different"


class StateDifference(PlanPart):
    """One item that is not the same on both sides.

    Attributes:
        kind: what it is, such as ``task_config`` or ``offset``.
        connector: its connector; ``None`` when Connect finds none in the key.
        item: which one of several: a task number, a topic, a source partition.
        field: which part differs, such as the name of a configuration property. Never a value.
        problem: missing at the destination, unexpected there, or different.
    """

    cluster_group_id: str | None
    topic_type: TopicType
    kind: str
    connector: TopicText | None
    item: TopicText | None = None
    field: TopicText | None = None
    problem: Mismatch

    def __str__(self) -> str:
        parts = [self.cluster_group_id or PLAIN_KEYS, self.topic_type.value, self.kind, repr(self.connector)]
        parts += [part for part in (self.item, self.field) if part is not None]
        return f"{' '.join(parts)}: {self.problem.value}"


_ABSENT: Final = object()


class Verification(PlanPart):
    """The result of ``verify``."""

    run_id: str
    equal: bool
    compared: int
    differences: tuple[StateDifference, ...]
    warnings: tuple[str, ...] = ()


class _Comparison:
    def __init__(self, cluster_group_id: str | None, topic_type: TopicType) -> None:
        self._group = cluster_group_id
        self._topic_type = topic_type
        self.differences: list[StateDifference] = []

    def compare(
        self, kind: str, connector: str | None, source: object, destination: object, *, item: str | None = None
    ) -> None:
        """Compare one thing that may be absent (``None``); mappings field by field, of which only names are reported."""
        sides: dict[str | None, tuple[object, object]] = {None: (source, destination)}
        if isinstance(source, Mapping) and isinstance(destination, Mapping):
            names = source.keys() | destination.keys()
            sides = {name: (source.get(name, _ABSENT), destination.get(name, _ABSENT)) for name in names}
        for name, (there, here) in sides.items():
            absent = _ABSENT if name is not None else None
            if same(there, here) and type(there) is type(here):
                continue
            problem = Mismatch.DIFFERENT
            if here is absent:
                problem = Mismatch.MISSING
            elif there is absent:
                problem = Mismatch.UNEXPECTED
            self.differences.append(
                StateDifference(
                    cluster_group_id=self._group,
                    topic_type=self._topic_type,
                    kind=kind,
                    connector=connector,
                    item=item,
                    field=name,
                    problem=problem,
                )
            )

    def compare_items(
        self, kind: str, connector: str, source: Mapping[Any, object], destination: Mapping[Any, object]
    ) -> None:
        for item in source.keys() | destination.keys():
            self.compare(kind, connector, source.get(item), destination.get(item), item=str(item))


def compare_config_states(
    source: ClusterConfigState, destination: ClusterConfigState, *, cluster_group_id: str | None
) -> list[StateDifference]:
    """Compare connectors, configurations, tasks, target states, task counts and inconsistency.

    Target states and task counts of removed connectors count too: they come back with the name.
    Session keys are not compared (they are never carried), nor positions (other topics, other offsets).
    """
    comparison = _Comparison(cluster_group_id, TopicType.CONFIG)
    sides = (source, destination)
    names = {name for side in sides for name in (*side.connectors(), *side.target_states(), *side.task_count_records())}
    for name in names:
        there, here = (side.contains(name) for side in sides)
        comparison.compare("connector", name, there or None, here or None)
        if there is not here:
            continue
        comparison.compare("connector_config", name, *(side.connector_config(name) for side in sides))
        comparison.compare("target_state", name, *(_wanted_state(side, name) for side in sides))
        comparison.compare("task_count_record", name, *(side.task_count_record(name) for side in sides))
        comparison.compare("task_count", name, *(side.task_count(name) for side in sides))
        if there:  # of a removed connector nothing reads the tasks
            comparison.compare("inconsistent", name, *(name in side.inconsistent_connectors() for side in sides))
        comparison.compare_items(
            "task_config", name, *({task.task: side.task_config(task) for task in side.tasks(name)} for side in sides)
        )
    return comparison.differences


def _wanted_state(state: ClusterConfigState, name: str) -> TargetState | None:
    """Return the target state; that of a removed connector counts only if it was set to another one than STARTED.

    Connect reads STARTED from each connector's own record. Whether a worker still sees that record depends on the cleaner.
    """
    if not name:  # no connector has it, and its key is that of the marker
        return None
    target = state.target_state(name)
    return None if target is TargetState.STARTED and not state.contains(name) else target


def _compare_status_snapshots(
    source: StatusSnapshot, destination: StatusSnapshot, *, cluster_group_id: str | None
) -> list[StateDifference]:
    comparison = _Comparison(cluster_group_id, TopicType.STATUS)
    sides = (source, destination)
    names = {
        name
        for side in sides
        for name in (*side.connectors(), *side.connectors_with_tasks(), *side.connectors_with_topics())
    }
    for name in names:
        comparison.compare("connector_status", name, *(_status_fields(side.connector_status(name)) for side in sides))
        tasks = [{status.task_id.task: _status_fields(status) for status in side.task_statuses(name)} for side in sides]
        comparison.compare_items("task_status", name, *tasks)
        topics = [{status.topic: status for status in side.topic_statuses(name)} for side in sides]
        comparison.compare_items("active_topic", name, *topics)
    return comparison.differences


def _status_fields(status: object | None) -> dict[str, object] | None:
    return None if status is None else {field: getattr(status, field, None) for field in STATUS_FIELDS}


def _compare_offset_snapshots(
    source: OffsetSnapshot, destination: OffsetSnapshot, *, cluster_group_id: str | None
) -> list[StateDifference]:
    comparison = _Comparison(cluster_group_id, TopicType.OFFSET)
    there, here = source.raw, destination.raw
    for key in there.keys() | here.keys():
        if there.get(key) != here.get(key):
            item = key.decode("utf-8", errors="backslashreplace")
            comparison.compare("offset", connector_of(TopicType.OFFSET, key), there.get(key), here.get(key), item=item)
    return comparison.differences


def compare_newest(
    source: Iterable[Record], destination: Iterable[Record], transform: KeyTransform
) -> list[StateDifference]:
    """Compare the newest bytes of each key, and on a config topic their order: of values that cannot be opened here."""
    topic_type = transform.topic_type
    comparison = _Comparison(transform.destination, topic_type)
    there, here = _newest(source, transform), _newest(destination, transform.at_destination())
    for key in there.keys() | here.keys():
        item = key.decode("utf-8", errors="backslashreplace")
        comparison.compare("sealed_value", connector_of(topic_type, key), there.get(key), here.get(key), item=item)
    if topic_type is TopicType.CONFIG and not comparison.differences:
        for one, other in zip(there, here, strict=True):
            if one != other:
                comparison.compare("order", connector_of(topic_type, one), one, other)
                break
    return comparison.differences


def _newest(records: Iterable[Record], transform: KeyTransform) -> dict[bytes, bytes]:
    newest, places = dict[bytes, bytes](), KeyPlaces()
    for original, record in transform.taken(records):
        if original == MARKER[0]:  # which only a config topic has
            continue
        value = places.take(original, record, newest.get).value
        newest.pop(original, None)
        if value is not None:
            newest[original] = value
    return newest


def compare_states(
    topic_type: TopicType,
    source: Iterable[Record],
    destination: Iterable[Record],
    *,
    cluster_group_id: str | None,
    source_cluster_group_id: str | None = None,
    partitions: int = 0,
) -> list[StateDifference]:
    """Fold the records of one topic on both sides and compare the states of workers.

    Records may come in any order of partitions, in log order within each; each side is read once, those of other groups at
    the destination included. A group that is ``None`` has plain keys. ``partitions``: of the source topic; of a key in
    several of them with equal times, the place of murmur2 decides.
    """
    here = None if cluster_group_id is None else ClusterGroupId(cluster_group_id)
    there = None if source_cluster_group_id is None else ClusterGroupId(source_cluster_group_id)
    replay, compare = _RULES[topic_type]
    known = {} if topic_type is TopicType.CONFIG else {"partitions": partitions}
    return compare(replay(source, there, **known), replay(destination, here), cluster_group_id=cluster_group_id)


_RULES: Final[Mapping[TopicType, tuple[Callable[..., Any], Callable[..., list[StateDifference]]]]] = {
    TopicType.CONFIG: (replay_config, compare_config_states),
    TopicType.STATUS: (replay_status, _compare_status_snapshots),
    TopicType.OFFSET: (replay_offsets, _compare_offset_snapshots),
}
