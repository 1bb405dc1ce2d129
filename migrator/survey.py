"""The facts before a plan: the contents of the topics that worker files name; nothing is written.

Each topic is read once. Memory holds the records of the config topics until their group was folded and, per connector,
counts of the others, of as many groups as there is room for. What was found holds names, counts and sizes; never a value of
a configuration or an offset.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from connect_share.console.options import Group, group_order
from connect_share.contents.group_room import GroupRoom
from connect_share.contents.groups import GroupFolds
from connect_share.contents.seals import KEY_BYTES
from connect_share.contents.workers import live_worker_ids
from connect_share.errors import ConnectShareError, InvalidClusterGroupIdError, ValueFormatError
from connect_share.files import SILENT, Progress, counted
from connect_share.kafka.admin import Admin
from connect_share.kafka.facts import admin_of, read_facts, read_records
from connect_share.kafka.limits import RECORD_OVERHEAD_BYTES, TopicLimits
from connect_share.model import connect_json
from connect_share.model.keys import ClusterGroupId, connector_of
from connect_share.model.records import Record, TopicType, size_of
from connect_share.model.status import PlainClusterWatch
from connect_share.sealing import SealingMode
from connect_share.sealing.cipher import SEALED_BYTES, is_sealed, key_id
from connect_share.transform.canonical import canonical_config
from connect_share.transform.rules import KeyTransform, TopicText
from connect_share.transform.sealed import NO_SEALING, Opener, Sealing
from connect_share.worker_config import Isolation, WorkerConfig
from connect_share.worker_config.override_policy import OWN_TOPIC_PROPERTY, is_sink
from connect_share.worker_config.secret_values import clear_text_secrets
from migrator.moves import require_pairs

MOST_WORKER_IDS: Final = 20
"""Worker ids kept for each connector: a long history of restarts must not fill the memory."""


@dataclass
class GroupInTopic:
    """The records of one group in one topic.

    Attributes:
        group: cluster group id, ``None`` for plain keys.
        bytes: keys and values.
        largest_bytes: of the largest record, with the key it has; an upper bound for its batch.
        unparseable: records whose key or value Connect cannot read.
        refused: sealed records without their key among them, and what the workers of a sealed group refuse.
        unopened: keys whose newest value is sealed with a key that is in no worker file here.
        unreadable_headers: records that cannot be carried whole, for the name of a header is not UTF-8.
        first_unreadable: where the first of them is.
    """

    group: str | None = None
    records: int = 0
    tombstones: int = 0
    bytes: int = 0
    largest_bytes: int = 0
    unparseable: int = 0
    refused: int = 0
    unopened: int = 0
    unreadable_headers: int = 0
    first_unreadable: str | None = None


@dataclass
class GroupCount(GroupInTopic):
    """The same while they are counted.

    Attributes:
        config: its records of the config topic, opened, in order.
        offsets: offset records by connector.
        workers: worker ids by connector, from statuses of plain keys.
        clusters: whether plain statuses seem to be those of two clusters.
        strange: hashes of the keys whose newest value is sealed with a key that is in no worker file here.
        opener: of its values; ``None`` with plain keys.
        kept: about how many bytes are kept.
    """

    group: Group = None
    config: list[Record] = field(default_factory=list, repr=False)
    offsets: Counter[str] = field(default_factory=Counter)
    workers: dict[str, set[str]] = field(default_factory=dict)
    clusters: PlainClusterWatch = field(default_factory=PlainClusterWatch)
    strange: set[int] = field(default_factory=set, repr=False)
    opener: Opener | None = field(default=None, repr=False)
    kept: int = 0

    def figures(self) -> GroupInTopic:
        """Return the figures alone."""
        return GroupInTopic(**{each.name: getattr(self, each.name) for each in fields(GroupInTopic)})


@dataclass
class TopicCount:
    """Everything counted in one topic.

    Attributes:
        sealings: of the groups whose worker files are here; sealed values of others are not opened.
        room: which groups are counted, those of the caller in any case; shared by the topics of a set.
    """

    topic_type: TopicType
    sealings: Mapping[str, Sealing] = field(default_factory=dict)
    room: GroupRoom = field(default_factory=GroupRoom)

    def __post_init__(self) -> None:
        self.folds = GroupFolds(self.topic_type, self._new, self.room)

    @property
    def groups(self) -> Mapping[Group, GroupCount]:
        """The groups that have room, with what was counted."""
        return self.folds.by_group

    def _new(self, group: Group) -> GroupCount:
        sealing = self.sealings.get(group or "", NO_SEALING)
        opener = None if group is None else Opener(sealing, KeyTransform.between(self.topic_type, group, None))
        return GroupCount(group, opener=opener)

    def read(self, records: Iterable[Record]) -> None:
        """Count all records of the topic, in order within each partition."""
        for record in records:
            found = self.folds.find(record)
            if found is None:
                continue
            count, original = found
            unknown = is_sealed(record.value) and self._is_unknown(count.group, key_id(record.value))
            opened = None if unknown else record if count.opener is None else count.opener.open(record)
            further = -len(count.strange)
            (count.strange.add if unknown else count.strange.discard)(hash(original))
            further += len(count.strange)
            size = len(record.key or b"") + len(record.value or b"")
            count.bytes += size
            if record.headers is None:
                count.unreadable_headers += 1
                count.first_unreadable = count.first_unreadable or record.place
            else:
                size += record.headers_size()
            count.largest_bytes = max(count.largest_bytes, size)
            count.tombstones += record.value is None
            if opened is None:
                count.refused += 1
            else:
                further += self._count(count, original, opened)
            self.folds.keep(count, further * (KEY_BYTES + size))
        for count in self.groups.values():
            count.unopened = len(count.strange)

    def _is_unknown(self, group: Group, number: int | None) -> bool:
        keys = self.sealings.get(group or "", NO_SEALING).keys
        return group is not None and number is not None and (keys is None or number not in keys.ids)

    def _count(self, count: GroupCount, original: bytes, record: Record) -> int:
        """Count a record that was opened; return how many further things are kept for it."""
        connector = connector_of(self.topic_type, original)
        parsed = None
        try:
            parsed = connect_json.loads(record.value)
            # On the config topic a key without a connector, such as the session key, can be read too.
            count.unparseable += connector is None and self.topic_type is not TopicType.CONFIG
        except ValueFormatError:
            count.unparseable += 1
        if self.topic_type is TopicType.CONFIG:
            count.config.append(record)
            return 1
        if connector is None:
            return 0
        if self.topic_type is TopicType.OFFSET:
            count.offsets[connector] += 1
            return count.offsets[connector] == 1
        if count.group is not None:
            return 0
        status = parsed if isinstance(parsed, dict) else {}
        worker, generation = status.get("worker_id"), status.get("generation")
        worker = worker if isinstance(worker, str) else None
        further = int(connector not in count.workers)
        seen = count.workers.setdefault(connector, set())
        if worker is not None and worker not in seen and len(seen) < MOST_WORKER_IDS:
            seen.add(worker)
            further += 1
        if isinstance(generation, int):
            count.clusters.look(record.partition, worker, generation)
        return further


TOPIC_CONFIGS: Final = (
    "cleanup.policy",
    "min.insync.replicas",
    "max.message.bytes",
    "message.timestamp.type",
    "retention.ms",
    "retention.bytes",
    "segment.ms",
    "segment.bytes",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
    "delete.retention.ms",
)
"""Topic settings that matter for a move; the others are not asked for."""


class _Fact(BaseModel):
    model_config = ConfigDict(frozen=True)  # the JSON of the command has more members


class PartitionFacts(_Fact):
    """One partition: ``start`` is the first offset kept, ``end`` the high watermark.

    ``transaction_open``: the last stable offset is below the end; committed readers stop there.
    """

    partition: int
    start: int
    end: int
    last_stable_offset: int
    transaction_open: bool


class TopicSurvey(_Fact):
    """One topic; a missing one has no id, no partitions and no groups.

    Attributes:
        named_by: worker files that name it.
        replication_factor: of its partition with the fewest replicas.
        illegal_keys: records whose key Connect does not write to such a topic; null keys count too.
        left_out_records: of groups for which there was no room.
        left_out_groups: these, those with the most records first, ``None`` for plain keys; of many a hundred.
    """

    kafka_cluster_id: str | None
    topic: str
    topic_type: TopicType
    named_by: tuple[str, ...]
    exists: bool
    topic_id: str | None = None
    replication_factor: int | None = None
    configs: dict[str, str] = Field(default_factory=dict)
    partitions: tuple[PartitionFacts, ...] = ()
    illegal_keys: int = 0
    groups: tuple[GroupInTopic, ...] = ()
    left_out_records: int = 0
    left_out_groups: tuple[str | None, ...] = ()


class SecretPlace(_Fact):
    """Where a secret stands in clear text."""

    connector: TopicText
    property: TopicText


class ConnectorSurvey(_Fact):
    """One connector of a group.

    Attributes:
        sink: it seems to be one: on one Kafka cluster its consumer group is ``connect-<name>``.
        own_offsets_topic: its offsets are in a topic of its own, which a plan does not move; to another Kafka cluster
            a plan refuses it.
        inconsistent: Connect gives its workers no tasks as the records stand.
        state_mode: what ``plan --mode state`` would do: ``heals`` or ``leaves_without_tasks``; ``None``: nothing.
        fenced_tasks: tasks that were counted for the fencing of exactly-once sources, ``None`` without.
        offset_records: in the worker's offset topic.
        worker_ids: seen in its statuses, for plain keys only: whose connector it is, where clusters share by accident.
    """

    name: str
    tasks: int
    sink: bool
    own_offsets_topic: bool
    inconsistent: bool
    state_mode: str | None
    fenced_tasks: int | None
    offset_records: int
    worker_ids: tuple[TopicText, ...] = ()


class GroupSurvey(_Fact):
    """One group on one set of three topics.

    Attributes:
        group: cluster group id, ``None`` for plain keys.
        group_ids: ``group.id`` of its workers: the group itself; for plain keys those of the worker files that name
            these topics with sharing disabled.
        members: workers alive, ``None`` when nobody could say.
        alive: unknown counts as alive.
        exactly_once: ``exactly.once.source.support`` of its worker file, ``None`` without a file.
        secrets: in clear text in connector configurations.
        secrets_in_tasks: how many further ones are in task configurations.
        refused: records that its workers refuse.
        unopened: keys whose values cannot be opened here; then there are no connectors, for the rest may be old or forged.
        two_clusters: if plain keys seem to be those of two clusters: that, and what to do.
    """

    kafka_cluster_id: str | None
    topics: dict[TopicType, str]
    group: str | None
    side: str
    group_ids: tuple[str, ...]
    members: int | None
    alive: bool
    exactly_once: str | None
    connectors: tuple[ConnectorSurvey, ...]
    tasks: int
    records: int
    bytes: int
    unparseable: int
    secrets: tuple[SecretPlace, ...]
    secrets_in_tasks: int
    refused: int = 0
    unopened: int = 0
    two_clusters: str | None = None


class LargestRecord(_Fact):
    """The largest record of a source with its new key, against what the destination takes (bytes)."""

    largest_bytes: int
    limit_bytes: int
    fits: bool


class MoveSurvey(_Fact):
    """What the worker files amount to: where a source would go.

    Attributes:
        becomes: cluster group id at the destination, ``None`` for plain keys.
        illegal_id: that id cannot be a key prefix.
        other_kafka_cluster: source and destination are on different ones; ``None``: one of them did not answer.
        records_at_destination: under those keys already.
        members_at_destination: workers alive there under the ``group.id`` that will be used; ``None`` is unknown.
    """

    source: str
    group_id: str
    becomes: str | None
    destination: str
    illegal_id: bool
    other_kafka_cluster: bool | None
    records_at_destination: int
    members_at_destination: int | None
    largest: dict[TopicType, LargestRecord]


class NameCollision(_Fact):
    """A connector name in several groups of one Kafka cluster; sinks among them share ``connect-<name>``."""

    kafka_cluster_id: str | None
    connector: str
    groups: tuple[str, ...]
    sinks: int


class Survey(_Fact):
    """All facts; ``unanswered`` names what could not be asked."""

    topics: tuple[TopicSurvey, ...]
    groups: tuple[GroupSurvey, ...]
    moves: tuple[MoveSurvey, ...]
    collisions: tuple[NameCollision, ...]
    unanswered: tuple[str, ...] = ()


SOURCE: Final = "source"
DESTINATION: Final = "destination"
Place = tuple[str | None, str]
"""A topic: the id of its Kafka cluster, its name."""


@dataclass
class _WorkerFile:
    path: Path
    side: str
    worker: WorkerConfig
    cluster: str | None = None
    members: dict[str, int] | None = None

    def place(self, topic_type: TopicType) -> Place:
        return self.cluster, self.worker.topic(topic_type)

    def places(self) -> tuple[Place, ...]:
        return tuple(self.place(topic_type) for topic_type in TopicType)


@dataclass
class _Surveyor:
    """The facts collected so far. A question that fails is noted, and the survey continues."""

    files: list[_WorkerFile]
    progress: Progress
    unanswered: list[str] = field(default_factory=list)
    topics: dict[Place, TopicSurvey] = field(default_factory=dict)
    counts: dict[Place, TopicCount] = field(default_factory=dict)
    rooms: dict[tuple[Place, ...], GroupRoom] = field(default_factory=dict)
    groups: list[GroupSurvey] = field(default_factory=list)

    @contextmanager
    def _asking(self, where: str) -> Iterator[None]:
        try:
            yield
        except ConnectShareError as error:
            self.unanswered.append(f"{where}: {error}")

    def read_clusters(self) -> None:
        for file in self.files:
            with admin_of(file.worker) as admin, self._asking(str(file.path)):
                file.cluster = admin.cluster_id()
                for topic_type in TopicType:
                    if file.place(topic_type) not in self.topics:
                        with self._asking(file.worker.topic(topic_type)):
                            self._read_topic(admin, file, topic_type)
                ids = {str(group) for count in self.counts.values() for group in count.groups if group is not None}
                with self._asking(f"{file.path}: workers alive"):
                    asked = live_worker_ids(admin, ids | {each.worker.group_id for each in self.files})
                    file.members = {group: len(live) for group, live in asked.items()}

    def _read_topic(self, admin: Admin, file: _WorkerFile, topic_type: TopicType) -> None:
        cluster, topic = place = file.place(topic_type)
        found = read_facts(admin, [topic]).get(topic)
        facts = TopicSurvey(
            kafka_cluster_id=cluster,
            topic=topic,
            topic_type=topic_type,
            named_by=tuple(str(other.path) for other in self.files if other.worker.topic(topic_type) == topic),
            exists=found is not None,
        )
        self.topics[place] = facts
        if found is None:
            return
        configs, parts = admin.topic_configs(topic), found.ranges()
        # The ends were read before: what is committed meanwhile can only raise the last stable offset.
        stable = admin.end_offsets([part[:2] for part in parts], Isolation.READ_COMMITTED)
        facts = facts.model_copy(
            update={
                "topic_id": found.topic_id,
                "replication_factor": found.description.fewest_replicas,
                "configs": {name: configs[name] for name in TOPIC_CONFIGS if name in configs},
                "partitions": tuple(
                    PartitionFacts(
                        partition=part.partition,
                        start=part.start,
                        end=part.end,
                        last_stable_offset=stable[part[:2]],
                        transaction_open=stable[part[:2]] < part.end,
                    )
                    for part in parts
                ),
            }
        )
        self.topics[place] = facts
        isolation = file.worker.isolation(topic_type)
        committed = isolation is Isolation.READ_COMMITTED
        ranges = [part._replace(end=min(part.end, stable[part[:2]])) for part in parts] if committed else parts
        self.progress.phase(f"reading {topic}", sum(map(size_of, ranges)))
        # This file counts most: another Kafka cluster may have a topic and a group of these names, and other keys.
        named = [each.worker for each in self.files if each.worker.topic(topic_type) == topic]
        sealings = {worker.group_id: Sealing.of(worker) for worker in (*named, file.worker) if worker.sharing_enabled}
        own = {*(each.worker.group_id for each in self.files), *(worker.cluster_group_id for worker in named)}
        count = TopicCount(topic_type, sealings, self.rooms.setdefault(file.places(), GroupRoom(own)))
        records = read_records(file.worker, ranges, isolation, with_headers=True)
        count.read(counted(records, self.progress.advance))
        self.counts[place] = count

    def count_groups(self) -> None:
        """Note what was counted, when all topics were read: a group for which there is no room on one is on none."""
        for place, count in self.counts.items():
            counted_here = {
                "illegal_keys": count.folds.unrecognized,
                "groups": tuple(count.groups[group].figures() for group in sorted(count.groups, key=group_order)),
                "left_out_records": count.folds.beyond,
                "left_out_groups": tuple(count.room.most_left_out()) if count.folds.beyond else (),
            }
            self.topics[place] = self.topics[place].model_copy(update=counted_here)

    def fold_groups(self) -> None:
        """Fold the groups of each set of topics once, also if several files name the set."""
        seen: set[tuple[Place, ...]] = set()
        for file in self.files:
            places = file.places()
            counts = [self.counts[place] for place in places if place in self.counts]
            if places in seen or not counts:
                continue
            seen.add(places)
            groups = {group for count in counts for group in count.groups}
            self.groups += [self._group(file, group) for group in sorted(groups, key=group_order)]

    def _group(self, file: _WorkerFile, group: Group) -> GroupSurvey:
        counts = {
            topic_type: self.counts[place].groups.get(group, GroupCount())
            for topic_type in TopicType
            if (place := file.place(topic_type)) in self.counts
        }
        same_topics = [other for other in self.files if other.places() == file.places()]
        own_files = [
            other
            for other in same_topics
            if other.worker.sharing_enabled is (group is not None) and group in {None, other.worker.group_id}
        ]
        ids = (str(group),) if group is not None else tuple(dict.fromkeys(other.worker.group_id for other in own_files))
        live = [(file.members or {}).get(name) for name in ids]
        members = sum(filter(None, live)) if live and None not in live else None
        unopened = sum(count.unopened for count in counts.values())
        config = counts.get(TopicType.CONFIG, GroupCount())
        hidden = 2 * config.unopened > len({record.key for record in config.config}) + config.unopened
        connectors, secrets, in_tasks = ((), (), 0) if hidden else _connectors(group, counts)
        two_clusters = counts.get(TopicType.STATUS, GroupCount()).clusters.found
        return GroupSurvey(
            kafka_cluster_id=file.cluster,
            topics={topic_type: file.worker.topic(topic_type) for topic_type in TopicType},
            group=group,
            side=" and ".join(dict.fromkeys(other.side for other in same_topics)),
            group_ids=ids,
            members=members,
            alive=members is None or members > 0,
            exactly_once=own_files[0].worker.exactly_once_source_support if own_files else None,
            connectors=connectors,
            tasks=sum(connector.tasks for connector in connectors),
            records=sum(count.records for count in counts.values()),
            bytes=sum(count.bytes for count in counts.values()),
            unparseable=sum(count.unparseable for count in counts.values()),
            secrets=secrets,
            secrets_in_tasks=in_tasks,
            refused=sum(count.refused for count in counts.values()),
            unopened=unopened,
            two_clusters=None if two_clusters is None else two_clusters.warning(file.worker.topic(TopicType.STATUS)),
        )


def _connectors(
    group: Group, counts: dict[TopicType, GroupCount]
) -> tuple[tuple[ConnectorSurvey, ...], tuple[SecretPlace, ...], int]:
    config = counts.get(TopicType.CONFIG, GroupCount())
    canonical = canonical_config(KeyTransform.between(TopicType.CONFIG, group, None), config.config)
    config.config.clear()
    state = canonical.state
    offsets = counts.get(TopicType.OFFSET, GroupCount()).offsets
    workers = counts.get(TopicType.STATUS, GroupCount()).workers
    connectors, secrets, in_tasks = [], [], 0
    for name in sorted(state.connectors()):
        properties = state.connector_config(name) or {}
        secrets += [SecretPlace(connector=name, property=each) for each in clear_text_secrets(properties)]
        in_tasks += sum(len(clear_text_secrets(state.task_config(task) or {})) for task in state.tasks(name))
        connectors.append(
            ConnectorSurvey(
                name=name,
                tasks=state.task_count(name),
                sink=is_sink(properties),
                own_offsets_topic=bool(properties.get(OWN_TOPIC_PROPERTY)),
                inconsistent=name in state.inconsistent_connectors(),
                state_mode="heals"
                if name in canonical.healed
                else "leaves_without_tasks"
                if name in canonical.left_without_tasks
                else None,
                fenced_tasks=state.task_count_record(name),
                offset_records=offsets[name],
                worker_ids=tuple(sorted(workers.get(name, ()))),
            )
        )
    return tuple(connectors), tuple(secrets), in_tasks


def _move(surveyor: _Surveyor, source: _WorkerFile, destination: _WorkerFile, *, paired: bool) -> MoveSurvey:
    sharing = destination.worker.sharing_enabled
    becomes = (destination if paired else source).worker.group_id if sharing else None
    illegal = False
    target: Group = None
    try:
        target = None if becomes is None else ClusterGroupId(becomes)
    except InvalidClusterGroupIdError:
        illegal = True
    own = source.worker.cluster_group_id
    added = len(becomes or "") + (becomes is not None) - len(own or "") - (own is not None)
    becomes_sealed = source.worker.sealing_mode is SealingMode.OFF is not destination.worker.sealing_mode
    seals = SEALED_BYTES if becomes_sealed else 0
    there, largest = 0, {}
    for topic_type in TopicType:
        count = surveyor.counts.get(source.place(topic_type))
        mine = None if count is None else count.groups.get(own)
        found = surveyor.topics.get(destination.place(topic_type))
        limit = TopicLimits.of(
            destination.worker.topic_settings(topic_type) if found is None or not found.exists else found.configs
        ).largest_bytes
        if mine is not None and mine.records:
            size = mine.largest_bytes + added + seals + RECORD_OVERHEAD_BYTES
            largest[topic_type] = LargestRecord(largest_bytes=size, limit_bytes=limit, fits=size <= limit)
        shared = surveyor.counts.get(destination.place(topic_type))
        if shared is not None and not illegal and target in shared.groups:
            there += shared.groups[target].records
    group_id, clusters = becomes or destination.worker.group_id, (source.cluster, destination.cluster)
    return MoveSurvey(
        source=str(source.path),
        group_id=source.worker.group_id,
        becomes=becomes,
        destination=str(destination.path),
        illegal_id=illegal,
        other_kafka_cluster=None if None in clusters else clusters[0] != clusters[1],
        records_at_destination=there,
        members_at_destination=(destination.members or {}).get(group_id),
        largest=largest,
    )


def _collisions(groups: Sequence[GroupSurvey]) -> list[NameCollision]:
    owners: dict[tuple[str | None, str], list[tuple[str, bool]]] = defaultdict(list)
    for group in groups:
        whose = group.group or f"plain keys of {group.topics[TopicType.CONFIG]}"
        for connector in group.connectors:
            owners[group.kafka_cluster_id, connector.name].append((whose, connector.sink))
    return [
        NameCollision(
            kafka_cluster_id=cluster,
            connector=name,
            groups=tuple(whose for whose, _ in found),
            sinks=sum(sink for _, sink in found),
        )
        for (cluster, name), found in sorted(owners.items(), key=str)
        if len(found) > 1
    ]


def survey(
    source_files: Sequence[Path],
    destination_files: Sequence[Path] = (),
    *,
    progress: Progress = SILENT,
) -> Survey:
    """Read everything that a move between these files would touch; a missing topic is a fact.

    ``destination_files``: one for all sources, or one for each, else ``ConfigError``; none: no move is judged.
    """
    paired = bool(destination_files) and require_pairs(source_files, destination_files)
    files = [
        _WorkerFile(Path(path).resolve(), side, WorkerConfig.from_file(path))
        for side, paths in ((SOURCE, source_files), (DESTINATION, destination_files))
        for path in paths
    ]
    surveyor = _Surveyor(files, progress)
    surveyor.read_clusters()
    surveyor.count_groups()
    surveyor.fold_groups()
    sources, destinations = ([file for file in files if file.side == side] for side in (SOURCE, DESTINATION))
    return Survey(
        topics=tuple(surveyor.topics.values()),
        groups=tuple(surveyor.groups),
        moves=tuple(
            _move(surveyor, source, destinations[index if paired else 0], paired=paired)
            for index, source in enumerate(sources if destinations else ())
        ),
        collisions=tuple(_collisions(surveyor.groups)),
        unanswered=tuple(surveyor.unanswered),
    )
