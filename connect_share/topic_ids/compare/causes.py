"""The cause of the findings of each topic, and their effect on clients. Pure."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from connect_share.topic_ids.authority.authority import NO_ID, AuthorityTopic, MetadataMode
from connect_share.topic_ids.compare.compare import Comparison, IdFindingKind, TopicIdFinding
from connect_share.topic_ids.scan.scans import STRAY

_ON_REPLICAS: Final = frozenset(
    {IdFindingKind.ID_DIFFERS, IdFindingKind.FILE_MISSING, IdFindingKind.FILE_UNREADABLE, IdFindingKind.ZERO_ID}
)


class Cause(enum.StrEnum):
    """The causes of findings."""

    ID_STRIPPED = "id-stripped"
    ID_LOST = "id-lost"
    ID_LOST_AND_EXTENDED = "id-lost-and-extended"
    AUTHORITY_DAMAGED = "authority-damaged"
    ID_SHARED = "id-shared"
    REPLICA_DIFFERS = "replica-differs"
    REPLICAS_DISAGREE = "replicas-disagree"
    RECREATED = "recreated"
    FILE_DAMAGED = "file-damaged"
    FILE_LOST = "file-lost"
    LEFT_OVER = "left-over"
    SET_ASIDE = "set-aside"
    INTERRUPTED_MOVE = "interrupted-move"
    REPLICA_LOST = "replica-lost"
    MOVE = "move"
    DELETION = "deletion"


_MEANING: Final[Mapping[Cause, str]] = {
    Cause.ID_STRIPPED: "the znode has lost its id (tools older than 2.8 write it without one), the controller still "
    "remembers it: nothing is broken yet, but the next controller makes up a new id",
    Cause.ID_LOST: "the znode had lost its id and a controller made up a new one; all replicas still have the old one",
    Cause.ID_LOST_AND_EXTENDED: "the znode had lost its id, a controller made up a new one, and partitions added since "
    "have the new one while the others have the old one",
    Cause.AUTHORITY_DAMAGED: "the id in the znode is not valid: at the next election no broker can become controller",
    Cause.ID_SHARED: "several topics have one id in ZooKeeper: at the next election no broker can become controller",
    Cause.REPLICA_DIFFERS: "single replicas have another id than the cluster: edited, restored from elsewhere, or left "
    "over from an earlier topic of this name",
    Cause.REPLICAS_DISAGREE: "replicas have several ids, and none of them is the cluster's",
    Cause.RECREATED: "the topic was deleted and created again while the broker was down: its directory is of the deleted "
    "topic",
    Cause.FILE_DAMAGED: "partition.metadata cannot be used: the log dir goes offline, or the broker does not start",
    Cause.FILE_LOST: "partition.metadata is missing; with ZooKeeper it is written again, with KRaft the directory is set "
    "aside as stray at the next start",
    Cause.LEFT_OVER: "the cluster does not know the topic; with ZooKeeper a new topic of this name would be crippled",
    Cause.SET_ASIDE: "a KRaft broker has set a directory aside whose id it did not know; the replica began anew",
    Cause.INTERRUPTED_MOVE: "the partition lies in two log dirs of one broker, which does not start with that",
    Cause.REPLICA_LOST: "a broker has no directory for a replica; new topics are late for some seconds",
    Cause.MOVE: "a replica is being moved to another log dir",
    Cause.DELETION: "directories wait for their deletion, a minute after the topic or replica was deleted",
}


class DataPath(enum.StrEnum):
    """The effect on clients, the worst first."""

    BROKEN = "broken"
    EMPTIED = "emptied"
    DEGRADED = "degraded"
    UNKNOWN = "unknown"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """One partition of a topic with findings; broker ids.

    Attributes:
        differing: brokers whose replica has a finding.
    """

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    differing: tuple[int, ...]
    data_path: DataPath


@dataclass(frozen=True, slots=True)
class TopicReport:
    """One topic with findings.

    Attributes:
        ids_on_disk: ids of current directories, with the number of replicas that have them; most first.
    """

    topic: str
    cause: Cause
    data_path: DataPath
    id_of_authority: str | None
    ids_on_disk: Mapping[str, int]
    partitions: Sequence[PartitionReport]
    reasons: Sequence[str]

    @property
    def meaning(self) -> str:
        """The cause in words."""
        return _MEANING[self.cause]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON members."""
        return {
            **asdict(self),
            "meaning": self.meaning,
            "ids_on_disk": [{"id": name, "replicas": number} for name, number in self.ids_on_disk.items()],
        }


def topic_reports(found: Comparison) -> list[TopicReport]:
    """Return a report for each topic with findings, by name."""
    return [_report(found, topic, findings) for topic, findings in sorted(found.of_topic().items())]


def _report(found: Comparison, topic: str, findings: Sequence[TopicIdFinding]) -> TopicReport:
    known = found.authority.topics.get(topic)
    replicas = [one for partition in found.replicas.get(topic, {}).values() for one in partition]
    counts = Counter(str(one.topic_id) for one in replicas if one.metadata == "ok")
    numbers = {finding.partition for finding in findings if finding.partition is not None}
    if known is not None and any(finding.partition is None for finding in findings):
        numbers |= set(known.partitions)
    partitions = [_partition(found, known, topic, number, findings) for number in sorted(numbers)]
    paths = {one.data_path for one in partitions} or {DataPath.UNKNOWN}
    return TopicReport(
        topic,
        _cause(found, known, topic, findings),
        next(path for path in DataPath if path in paths),
        None if known is None else known.topic_id,
        dict(counts.most_common()),
        partitions,
        sorted({finding.reason for finding in findings if finding.reason is not None}),
    )


def _cause(found: Comparison, known: AuthorityTopic | None, topic: str, findings: Sequence[TopicIdFinding]) -> Cause:
    kinds = {finding.kind for finding in findings}
    if IdFindingKind.AUTHORITY_ID_MISSING in kinds:
        # With no id, or one that is all zero, the controller uses the id in its memory.
        stripped = known is None or known.problem in (NO_ID, "the id is all zero")
        return Cause.ID_STRIPPED if stripped else Cause.AUTHORITY_DAMAGED
    if IdFindingKind.DUPLICATE_ID in kinds:
        return Cause.ID_SHARED
    if IdFindingKind.ID_DIFFERS in kinds:
        differing = {finding.id_on_disk for finding in findings if finding.kind is IdFindingKind.ID_DIFFERS}
        if differing & found.authority.removed.keys():
            return Cause.RECREATED
        return _cause_of_difference(found, known, topic, differing)
    for kind, cause in (
        (IdFindingKind.DUPLICATE_DIRECTORY, Cause.INTERRUPTED_MOVE),
        (IdFindingKind.ZERO_ID, Cause.FILE_DAMAGED),
        (IdFindingKind.FILE_UNREADABLE, Cause.FILE_DAMAGED),
        (IdFindingKind.FILE_MISSING, Cause.FILE_LOST),
        (IdFindingKind.TOPIC_UNKNOWN, Cause.LEFT_OVER),
        (IdFindingKind.STRAY_DIRECTORY, Cause.SET_ASIDE),
        (IdFindingKind.DIRECTORY_MISSING, Cause.REPLICA_LOST),
        (IdFindingKind.FUTURE_DIRECTORY, Cause.MOVE),
    ):
        if kind in kinds:
            return cause
    return Cause.DELETION


def _cause_of_difference(
    found: Comparison, known: AuthorityTopic | None, topic: str, differing: set[str | None]
) -> Cause:
    if found.authority.mode is MetadataMode.KRAFT:
        return Cause.REPLICA_DIFFERS  # KRaft does not lose ids
    by_partition = [
        {one.topic_id for one in replicas if one.metadata == "ok"}
        for replicas in found.replicas.get(topic, {}).values()
    ]
    right_somewhere = any((known and known.topic_id) in ids for ids in by_partition)
    if len(differing) == 1 and not right_somewhere:
        return Cause.ID_LOST
    if len(differing) == 1 and all(len(ids) <= 1 for ids in by_partition):
        return Cause.ID_LOST_AND_EXTENDED
    return Cause.REPLICA_DIFFERS if right_somewhere else Cause.REPLICAS_DISAGREE


def _partition(
    found: Comparison, known: AuthorityTopic | None, topic: str, number: int, findings: Sequence[TopicIdFinding]
) -> PartitionReport:
    assigned = None if known is None else known.partitions.get(number)
    own = [finding for finding in findings if finding.partition == number]
    differing = {finding.broker for finding in own if finding.broker is not None}
    if assigned is None:
        return PartitionReport(number, None, (), (), tuple(sorted(differing)), DataPath.UNKNOWN)
    damaged = {finding.broker for finding in own if finding.kind in _ON_REPLICAS}
    if found.authority.mode is MetadataMode.ZOOKEEPER:
        # A missing file does no harm there: the broker has the id in memory, or writes the file again.
        damaged -= {finding.broker for finding in own if finding.kind is IdFindingKind.FILE_MISSING}
    replicas = found.current(topic, number)
    aside = [one for one in found.others.get(topic, ()) if one.partition == number and one.state == STRAY]
    if assigned.leader is None or assigned.leader in damaged:
        path = DataPath.BROKEN
    elif any(one.log_bytes for one in aside) and replicas and all(one.log_bytes == 0 for one in replicas):
        path = DataPath.EMPTIED
    elif damaged or set(assigned.replicas) - set(assigned.isr):
        path = DataPath.DEGRADED
    else:
        path = DataPath.WHOLE
    return PartitionReport(number, assigned.leader, assigned.replicas, assigned.isr, tuple(sorted(differing)), path)
