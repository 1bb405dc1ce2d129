"""Compares scans with the topics of the cluster: what on the brokers' disks differs. Pure."""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from connect_share.topic_ids.authority.authority import CLUSTER_METADATA, Authority, AuthorityPartition, MetadataMode
from connect_share.topic_ids.scan.scans import CURRENT, LogDir, PartitionDirectory, Scans

_LONGEST_NAME: Final = 255
_UNASSIGNED: Final = frozenset({"AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"})


class IdFindingKind(enum.StrEnum):
    """The kinds of findings; those of directories that are not current are not always wrong."""

    ID_DIFFERS = "id-differs"
    FILE_MISSING = "file-missing"
    FILE_UNREADABLE = "file-unreadable"
    ZERO_ID = "zero-id"
    TOPIC_UNKNOWN = "topic-unknown"
    STRAY_DIRECTORY = "stray-directory"
    DELETE_DIRECTORY = "delete-directory"
    FUTURE_DIRECTORY = "future-directory"
    DUPLICATE_DIRECTORY = "duplicate-directory"
    DIRECTORY_MISSING = "directory-missing"
    DUPLICATE_ID = "duplicate-id"
    AUTHORITY_ID_MISSING = "authority-id-missing"
    FOREIGN_CLUSTER = "foreign-cluster"


_METADATA_KINDS: Final = {
    "missing": IdFindingKind.FILE_MISSING,
    "unreadable": IdFindingKind.FILE_UNREADABLE,
    "inaccessible": IdFindingKind.FILE_UNREADABLE,
    "zero": IdFindingKind.ZERO_ID,
}


@dataclass(frozen=True, slots=True)
class TopicIdFinding:
    """One difference.

    Attributes:
        topic: ``None`` for a log dir (``foreign-cluster``) and for a set of topics (``duplicate-id``).
        id_on_disk: as Kafka prints it; ``None``: none can be read. For ``foreign-cluster`` the cluster's.
        id_of_authority: ``None``: the cluster does not have the topic, or no usable id for it.
        directory: its name, if that is not ``<topic>-<partition>``.
        topics: those with the same id (``duplicate-id``).
        reason: details for people.
    """

    kind: IdFindingKind
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    log_dir: str | None = None
    id_on_disk: str | None = None
    id_of_authority: str | None = None
    directory: str | None = None
    topics: tuple[str, ...] = ()
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON members; ``directory`` and ``topics`` only if they have a value."""
        names = ("topic", "partition", "broker", "log_dir", "id_on_disk", "id_of_authority")
        found = {"kind": self.kind, **{name: getattr(self, name) for name in names}}
        if self.directory is not None:
            found["directory"] = self.directory
        if self.topics:
            found["topics"] = list(self.topics)
        return found

    def order(self) -> tuple[Any, ...]:
        """Return the sort key: broker, log dir, directory; findings without a broker come first."""
        name = self.directory or f"{self.topic}-{self.partition}"
        return (-1 if self.broker is None else self.broker, self.log_dir or "", name, self.kind, self.topics)


@dataclass
class Comparison:
    """The findings, and the scans and topics they are from.

    Attributes:
        replicas: current directories by topic and partition, without those of log dirs of another cluster.
        others: directories that are not current, by topic.
        notes: for the reader of a report.
    """

    scans: Scans
    authority: Authority
    findings: list[TopicIdFinding] = field(default_factory=list)
    replicas: dict[str, dict[int, list[PartitionDirectory]]] = field(default_factory=dict)
    others: dict[str, list[PartitionDirectory]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def of_topic(self) -> dict[str, list[TopicIdFinding]]:
        """Return the findings by topic; one of several topics is in each of them."""
        found = defaultdict(list)
        for finding in self.findings:
            for topic in finding.topics or ((finding.topic,) if finding.topic is not None else ()):
                found[topic].append(finding)
        return dict(found)

    def current(self, topic: str, partition: int) -> list[PartitionDirectory]:
        """Return the current directories of a partition, of all brokers."""
        return self.replicas.get(topic, {}).get(partition, [])

    def find(self, *what: Any, **more: Any) -> None:
        """Add a finding."""
        self.findings.append(TopicIdFinding(*what, **more))

    def add(self, kind: IdFindingKind, one: PartitionDirectory, topic: str, reason: str | None = None) -> None:
        """Add a finding of a directory."""
        known = self.authority.topics.get(topic)
        self.find(
            kind,
            topic,
            one.partition,
            one.broker,
            one.log_dir,
            one.topic_id,
            None if known is None else known.topic_id,
            one.name if one.name != f"{topic}-{one.partition}" else None,
            reason=reason or one.reason,
        )


def compare(scans: Scans, authority: Authority) -> Comparison:
    """Compare scans with the topics of the cluster.

    A broker without a scan is a note and no finding, as is a log dir that could not be read: a directory is missing only
    where everything was read.
    """
    result = Comparison(scans, authority)
    result.notes += [*scans.notes, *authority.notes]
    foreign = _find_foreign(result)
    _sort_directories(result, foreign)
    for topic, partitions in result.replicas.items():
        for replicas in partitions.values():
            brokers = Counter(one.broker for one in replicas)
            for one in replicas:
                _compare_current(result, one, topic, duplicate=brokers[one.broker] > 1)
    for topic, others in result.others.items():
        for one in others:
            result.add(IdFindingKind(f"{one.state}-directory"), one, topic)
    _compare_topics(result)
    _find_missing(result, foreign)
    _note_unread(result)
    result.findings.sort(key=TopicIdFinding.order)
    return result


def _find_foreign(result: Comparison) -> frozenset[tuple[int, str]]:
    """Return the log dirs of another cluster: their directories are not compared."""
    log_dirs = [one for one in result.scans.log_dirs if one.cluster_id is not None]
    own = result.authority.cluster_id or _own_cluster(log_dirs, result.authority)
    foreign = [one for one in log_dirs if own is not None and one.cluster_id != own]
    for one in foreign:
        result.find(
            IdFindingKind.FOREIGN_CLUSTER,
            broker=one.broker,
            log_dir=one.path,
            id_on_disk=one.cluster_id,
            id_of_authority=own,
            reason="meta.properties has the id of another cluster",
        )
        result.notes.append(
            f"broker {one.broker}, {one.path}: is of another cluster; its directories were not compared"
        )
    return frozenset((one.broker, one.path) for one in foreign)


def _own_cluster(log_dirs: Iterable[LogDir], authority: Authority) -> str | None:
    """Return the cluster id that the registered log dirs have, or else that of most log dirs."""
    registered = {log_dir for known in authority.log_dirs.values() for log_dir in known}
    sure = Counter(one.cluster_id for one in log_dirs if one.directory_id in registered)
    counts = sure or Counter(one.cluster_id for one in log_dirs)
    return counts.most_common(1)[0][0] if counts else None


def _sort_directories(result: Comparison, foreign: frozenset[tuple[int, str]]) -> None:
    by_id = {topic.topic_id: topic.name for topic in result.authority.topics.values() if topic.topic_id is not None}
    for one in result.scans.directories:
        if (one.broker, one.log_dir) in foreign or one.topic == CLUSTER_METADATA:
            continue
        if one.state == CURRENT:
            result.replicas.setdefault(one.topic, {}).setdefault(one.partition, []).append(one)
        else:
            result.others.setdefault(_whole_name(one, result.authority, by_id), []).append(one)


def _whole_name(one: PartitionDirectory, authority: Authority, by_id: Mapping[str, str]) -> str:
    """Return the topic of a directory whose name Kafka has cut to 255 characters."""
    if len(one.name) < _LONGEST_NAME or one.topic in authority.topics:
        return one.topic
    if one.topic_id is not None and by_id.get(one.topic_id, "").startswith(one.topic):
        return by_id[one.topic_id]
    fitting = [name for name in authority.topics if name.startswith(one.topic)]
    return fitting[0] if len(fitting) == 1 else one.topic


def _compare_current(result: Comparison, one: PartitionDirectory, topic: str, *, duplicate: bool) -> None:
    known = result.authority.topics.get(topic)
    if duplicate:
        reason = "the same partition lies in two log dirs of this broker, which then does not start"
        result.add(IdFindingKind.DUPLICATE_DIRECTORY, one, topic, reason)
    if known is None:
        hidden = "or the brokers do not show it to this login, which needs DESCRIBE on all topics"
        result.add(IdFindingKind.TOPIC_UNKNOWN, one, topic, hidden if result.authority.from_memory else None)
    elif one.metadata != "ok":
        result.add(_METADATA_KINDS[one.metadata], one, topic)
    elif known.topic_id is not None and one.topic_id != known.topic_id:
        result.add(IdFindingKind.ID_DIFFERS, one, topic)
    else:
        assigned = known.partitions.get(one.partition)
        if known.partitions and (assigned is None or one.broker not in assigned.replicas):
            result.notes.append(
                f"broker {one.broker}, {one.path}: has the right id, but the cluster gives this broker no such replica"
            )


def _compare_topics(result: Comparison) -> None:
    for topic in result.authority.topics.values():
        if topic.topic_id is None:
            replicas = [one for partition in result.replicas.get(topic.name, {}).values() for one in partition]
            on_disk = {one.topic_id for one in replicas} - {None}
            result.find(
                IdFindingKind.AUTHORITY_ID_MISSING,
                topic.name,
                id_on_disk=on_disk.pop() if len(on_disk) == 1 else None,
                reason=topic.problem,
            )
    for topic_id, names in result.authority.duplicates().items():
        reason = "these topics have one id"
        result.find(IdFindingKind.DUPLICATE_ID, id_of_authority=topic_id, topics=names, reason=reason)


def _find_missing(result: Comparison, foreign: frozenset[tuple[int, str]]) -> None:
    """Find replicas without a directory, on brokers whose log dirs were all read."""
    authority, log_dirs = result.authority, result.scans.log_dirs
    whole = result.scans.brokers - {one.broker for one in log_dirs if one.status != "ok"}
    whole -= {broker for broker, _ in foreign}
    paths = {one.directory_id: one.path for one in log_dirs if one.directory_id is not None}
    for topic in authority.topics.values():
        if topic.name == CLUSTER_METADATA or topic.name in authority.deleting:
            continue
        for number, partition in topic.partitions.items():
            have = {one.broker for one in result.current(topic.name, number)}
            for broker in sorted(whole & set(partition.replicas) - have):
                result.find(
                    IdFindingKind.DIRECTORY_MISSING,
                    topic.name,
                    number,
                    broker,
                    paths.get(_assigned(partition, broker) or ""),
                    id_of_authority=topic.topic_id,
                    reason="directories of new topics come late: look again before you act",
                )


def _assigned(partition: AuthorityPartition, broker: int) -> str | None:
    """Return the id of the log dir to which a replica is assigned; ``None``: not known."""
    if len(partition.directories) != len(partition.replicas):
        return None
    found = partition.directories[partition.replicas.index(broker)]
    return None if found in _UNASSIGNED else found


def _note_unread(result: Comparison) -> None:
    authority = result.authority
    formats = {one.version for one in result.scans.log_dirs if one.version is not None}
    result.notes += [
        f"broker {broker} has replicas but was not scanned: nothing is said about them"
        for broker in sorted(authority.brokers() - result.scans.brokers)
    ]
    if authority.mode is MetadataMode.KRAFT and formats == {0}:
        why = "a KRaft metadata log is not their authority"
        if authority.from_memory:
            why = "the brokers only know what the controller remembers; ask ZooKeeper with --zookeeper HOST:PORT"
        result.notes.append(f"these log dirs are of brokers with ZooKeeper: {why}")
    if authority.mode is MetadataMode.ZOOKEEPER and formats == {1}:
        result.notes.append("these log dirs are of KRaft brokers: ZooKeeper is not their authority")
