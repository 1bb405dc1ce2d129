"""Scans against the authority: what on the brokers' disks is not as the cluster has it. Pure."""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from connect_share.topic_ids.authority.authority import CLUSTER_METADATA, Authority, AuthorityPartition, Mode, shown_id
from connect_share.topic_ids.scan.scans import CURRENT, LogDir, PartitionDirectory, Scans

_LONGEST_NAME: Final = 255
_UNASSIGNED: Final = frozenset({"AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"})


class Kind(enum.Enum):
    """What is wrong, or is only worth knowing (directories that are not the current one)."""

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
    "missing": Kind.FILE_MISSING,
    "unreadable": Kind.FILE_UNREADABLE,
    "inaccessible": Kind.FILE_UNREADABLE,
    "zero": Kind.ZERO_ID,
}
_STATE_KINDS: Final = {
    "stray": Kind.STRAY_DIRECTORY,
    "delete": Kind.DELETE_DIRECTORY,
    "future": Kind.FUTURE_DIRECTORY,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact.

    Attributes:
        topic: ``None`` for a log dir (``foreign-cluster``) and for a set of topics (``duplicate-id``).
        id_on_disk: as Kafka prints it; ``None``: none can be read. For ``foreign-cluster`` the cluster's.
        id_of_authority: ``None``: the topic is unknown there, or has no usable id.
        directory: its name, where that is not ``<topic>-<partition>``.
        topics: those that share an id (``duplicate-id``).
        reason: more than the kind says, for people.
    """

    kind: Kind
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
        """Give it as JSON; ``directory`` and ``topics`` only where they say something."""
        found: dict[str, Any] = {
            "topic": self.topic,
            "partition": self.partition,
            "broker": self.broker,
            "log_dir": self.log_dir,
            "kind": self.kind.value,
            "id_on_disk": self.id_on_disk,
            "id_of_authority": self.id_of_authority,
        }
        if self.directory is not None:
            found["directory"] = self.directory
        if self.topics:
            found["topics"] = list(self.topics)
        return found

    def order(self) -> tuple[Any, ...]:
        """Sort by broker, log dir and directory; what concerns no broker comes first."""
        name = self.directory or f"{self.topic}-{self.partition}"
        return (-1 if self.broker is None else self.broker, self.log_dir or "", name, self.kind.value, self.topics)


@dataclass
class Comparison:
    """What came out, and what it is made of.

    Attributes:
        replicas: current directories by topic and partition, those of log dirs of another cluster left out.
        others: directories that are not current, by topic.
        notes: what a reader should know, beyond findings.
    """

    scans: Scans
    authority: Authority
    findings: list[Finding] = field(default_factory=list)
    replicas: dict[str, dict[int, list[PartitionDirectory]]] = field(default_factory=dict)
    others: dict[str, list[PartitionDirectory]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def of_topic(self) -> dict[str, list[Finding]]:
        """Findings by topic; one of several topics counts for each."""
        found = defaultdict(list)
        for finding in self.findings:
            for topic in finding.topics or ((finding.topic,) if finding.topic is not None else ()):
                found[topic].append(finding)
        return dict(found)


def compare(scans: Scans, authority: Authority) -> Comparison:
    """Join scans with the authority. Ids are compared as 16 bytes.

    A broker of which nothing was scanned is no finding but a note, and so are log dirs that could not be read: only
    what is known to be missing is told as missing.
    """
    found = Comparison(scans, authority)
    found.notes += [*scans.notes, *authority.notes]
    foreign = _foreign(found)
    _sort_directories(found, foreign)
    for topic, partitions in found.replicas.items():
        for replicas in partitions.values():
            for one in replicas:
                _compare_current(found, one, topic, duplicate=_is_duplicate(one, replicas))
    for topic, others in found.others.items():
        for one in others:
            found.findings.append(_finding(_STATE_KINDS[one.state], one, topic, authority))
    _compare_topics(found)
    _find_missing(found, foreign)
    _note_what_was_not_seen(found)
    found.findings.sort(key=Finding.order)
    return found


def _foreign(found: Comparison) -> frozenset[tuple[int, str]]:
    """Find log dirs of another cluster; what is in them says nothing about this one."""
    log_dirs = [one for one in found.scans.log_dirs if one.cluster_id is not None]
    own = found.authority.cluster_id or _own_cluster(log_dirs, found.authority)
    foreign = [one for one in log_dirs if own is not None and one.cluster_id != own]
    for one in foreign:
        found.findings.append(
            Finding(
                Kind.FOREIGN_CLUSTER,
                broker=one.broker,
                log_dir=one.path,
                id_on_disk=one.cluster_id,
                id_of_authority=own,
                reason="meta.properties has the id of another cluster",
            )
        )
        found.notes.append(f"broker {one.broker}, {one.path}: is of another cluster; its directories were not compared")
    return frozenset((one.broker, one.path) for one in foreign)


def _own_cluster(log_dirs: Iterable[LogDir], authority: Authority) -> str | None:
    """Find out the id of the cluster where the authority has none: by registered log dirs, else by the most."""
    registered = {log_dir for known in authority.log_dirs.values() for log_dir in known}
    sure = Counter(one.cluster_id for one in log_dirs if one.directory_id in registered)
    counts = sure or Counter(one.cluster_id for one in log_dirs)
    return counts.most_common(1)[0][0] if counts else None


def _sort_directories(found: Comparison, foreign: frozenset[tuple[int, str]]) -> None:
    by_id = {topic.topic_id: topic.name for topic in found.authority.topics.values() if topic.topic_id is not None}
    for one in found.scans.directories:
        if (one.broker, one.log_dir) in foreign or one.topic == CLUSTER_METADATA:
            continue
        if one.state == CURRENT:
            found.replicas.setdefault(one.topic, {}).setdefault(one.partition, []).append(one)
        else:
            found.others.setdefault(_whole_name(one, found.authority, by_id), []).append(one)


def _whole_name(one: PartitionDirectory, authority: Authority, by_id: Mapping[bytes, str]) -> str:
    """Undo what Kafka does to long names: it cuts the topic's, so that the directory's has 255 characters."""
    if len(one.name) < _LONGEST_NAME or one.topic in authority.topics:
        return one.topic
    if one.topic_id is not None and by_id.get(one.topic_id, "").startswith(one.topic):
        return by_id[one.topic_id]
    fitting = [name for name in authority.topics if name.startswith(one.topic)]
    return fitting[0] if len(fitting) == 1 else one.topic


def _is_duplicate(one: PartitionDirectory, replicas: Iterable[PartitionDirectory]) -> bool:
    return any(other is not one and other.broker == one.broker for other in replicas)


def _finding(
    kind: Kind, one: PartitionDirectory, topic: str, authority: Authority, reason: str | None = None
) -> Finding:
    known = authority.topics.get(topic)
    name = f"{topic}-{one.partition}"
    return Finding(
        kind,
        topic,
        one.partition,
        one.broker,
        one.log_dir,
        shown_id(one.topic_id),
        None if known is None else shown_id(known.topic_id),
        one.name if one.name != name else None,
        reason=reason or one.reason,
    )


def _compare_current(found: Comparison, one: PartitionDirectory, topic: str, *, duplicate: bool) -> None:
    authority = found.authority
    known = authority.topics.get(topic)
    if duplicate:
        reason = "the same partition lies in two log dirs of this broker, which then does not start"
        found.findings.append(_finding(Kind.DUPLICATE_DIRECTORY, one, topic, authority, reason))
    if known is None:
        found.findings.append(_finding(Kind.TOPIC_UNKNOWN, one, topic, authority))
    elif one.metadata != "ok":
        found.findings.append(_finding(_METADATA_KINDS[one.metadata], one, topic, authority))
    elif known.topic_id is not None and one.topic_id != known.topic_id:
        found.findings.append(_finding(Kind.ID_DIFFERS, one, topic, authority))
    else:
        assigned = known.partitions.get(one.partition)
        if known.partitions and (assigned is None or one.broker not in assigned.replicas):
            found.notes.append(
                f"broker {one.broker}, {one.path}: has the right id, but the cluster gives this broker no such replica"
            )


def _compare_topics(found: Comparison) -> None:
    authority = found.authority
    for topic in authority.topics.values():
        if topic.topic_id is None:
            on_disk = {one.topic_id for replicas in found.replicas.get(topic.name, {}).values() for one in replicas} - {
                None
            }
            found.findings.append(
                Finding(
                    Kind.AUTHORITY_ID_MISSING,
                    topic.name,
                    id_on_disk=shown_id(on_disk.pop()) if len(on_disk) == 1 else None,
                    reason=topic.problem,
                )
            )
    for raw, names in authority.duplicates().items():
        found.findings.append(
            Finding(Kind.DUPLICATE_ID, id_of_authority=shown_id(raw), topics=names, reason="these topics have one id")
        )


def _find_missing(found: Comparison, foreign: frozenset[tuple[int, str]]) -> None:
    """Find replicas without a directory, on brokers all of whose log dirs were read."""
    authority = found.authority
    whole = {one.broker for one in found.scans.log_dirs if one.status == "ok"}
    whole -= {one.broker for one in found.scans.log_dirs if one.status != "ok"} | {broker for broker, _ in foreign}
    paths = {one.directory_id: one.path for one in found.scans.log_dirs if one.directory_id is not None}
    for topic in authority.topics.values():
        if topic.name == CLUSTER_METADATA or topic.name in authority.deleting:
            continue
        there = found.replicas.get(topic.name, {})
        for number, partition in topic.partitions.items():
            have = {one.broker for one in there.get(number, ())}
            for broker in sorted(whole & set(partition.replicas) - have):
                found.findings.append(
                    Finding(
                        Kind.DIRECTORY_MISSING,
                        topic.name,
                        number,
                        broker,
                        paths.get(_assigned(partition, broker) or ""),
                        id_of_authority=shown_id(topic.topic_id),
                        reason="directories of new topics come late: look again before you act",
                    )
                )


def _assigned(partition: AuthorityPartition, broker: int) -> str | None:
    """Give the id of the log dir in which a replica has to lie, where the authority keeps that."""
    if len(partition.directories) != len(partition.replicas):
        return None
    found = partition.directories[partition.replicas.index(broker)]
    return None if found in _UNASSIGNED else found


def _note_what_was_not_seen(found: Comparison) -> None:
    authority, brokers = found.authority, found.scans.brokers
    wanted = {
        broker for topic in authority.topics.values() for one in topic.partitions.values() for broker in one.replicas
    }
    for broker in sorted(wanted - brokers):
        found.notes.append(f"broker {broker} has replicas but was not scanned: nothing is said about them")
    formats = {one.format for one in found.scans.log_dirs if one.format is not None}
    if authority.mode is Mode.KRAFT and formats == {0}:
        found.notes.append(
            "these log dirs are of brokers with ZooKeeper: "
            + (
                "the brokers only tell what the controller remembers; ask ZooKeeper with --zookeeper HOST:PORT"
                if authority.from_memory
                else "a KRaft metadata log is not their authority"
            )
        )
    if authority.mode is Mode.ZOOKEEPER and formats == {1}:
        found.notes.append("these log dirs are of KRaft brokers: ZooKeeper is not their authority")
