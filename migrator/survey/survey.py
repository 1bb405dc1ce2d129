"""Facts before a plan: what is in the topics of some worker files, asked of the clusters; nothing is written.

Each topic is read once. Memory holds the records of the config topics and, per connector, counts of the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from connect_share.admin import Admin
from connect_share.errors import ConnectShareError, InvalidClusterGroupIdError
from connect_share.keys import ClusterGroupId
from connect_share.log.ranges import read_ranges
from connect_share.records import OffsetRange, Record, TopicType
from connect_share.state import ClusterConfigState
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.client_settings import Isolation
from connect_share.worker_config.secret_values import clear_text_secrets
from migrator.copy.copy_job import IDLE_TIMEOUT_S
from migrator.facts.worker_clients import client_id_of
from migrator.planner.advice import OWN_OFFSETS_TOPIC
from migrator.planner.make_plan import DEFAULT_MAX_MESSAGE_BYTES
from migrator.planner.record_counter import RECORD_OVERHEAD_BYTES
from migrator.progress import Progress, Silent, counted
from migrator.survey.found import (
    TOPIC_CONFIGS,
    ConnectorSurvey,
    GroupSurvey,
    LargestRecord,
    MoveSurvey,
    NameCollision,
    PartitionFacts,
    SecretPlace,
    Survey,
    TopicSurvey,
)
from migrator.survey.topic_count import GroupCount, TopicCount
from migrator.transform.canonical import canonical_config
from migrator.transform.rules import KeyTransform

SOURCE: Final = "source"
DESTINATION: Final = "destination"
ANSWER_TIMEOUT_S: Final = 30.0
Group = ClusterGroupId | None
Place = tuple[str | None, str]
"""A topic: id of its Kafka cluster, its name."""


@dataclass
class _File:
    """One worker file, and what its cluster said of itself."""

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
    """Collects; what cannot be asked is noted, and the rest goes on."""

    files: list[_File]
    progress: Progress
    timeout_s: float
    unanswered: list[str] = field(default_factory=list)
    topics: dict[Place, TopicSurvey] = field(default_factory=dict)
    counts: dict[Place, TopicCount] = field(default_factory=dict)
    groups: list[GroupSurvey] = field(default_factory=list)

    def ask(self) -> None:
        """Ask each cluster for its topics and workers, and read each topic once."""
        with ExitStack() as stack:
            for file in self.files:
                worker = file.worker
                admin = stack.enter_context(
                    Admin(worker.admin_settings(), client_id=client_id_of(worker), timeout_s=self.timeout_s)
                )
                try:
                    file.cluster = admin.cluster_id()
                except ConnectShareError as error:
                    self.unanswered.append(f"{file.path}: {error}")
                    continue
                try:
                    file.members = admin.connect_groups()
                except ConnectShareError as error:
                    self.unanswered.append(f"{file.path}: workers alive: {error}")
                for topic_type in TopicType:
                    place = file.place(topic_type)
                    if place in self.topics:
                        continue
                    try:
                        self._topic(admin, file, topic_type)
                    except ConnectShareError as error:
                        self.unanswered.append(f"{place[1]}: {error}")

    def _topic(self, admin: Admin, file: _File, topic_type: TopicType) -> None:
        cluster, topic = place = file.place(topic_type)
        described = admin.describe_topics([topic]).get(topic)
        named_by = tuple(str(other.path) for other in self.files if other.worker.topic(topic_type) == topic)
        facts = TopicSurvey(
            kafka_cluster_id=cluster,
            topic=topic,
            topic_type=topic_type,
            named_by=named_by,
            exists=described is not None,
        )
        self.topics[place] = facts
        if described is None:
            return
        configs = admin.topic_configs(topic)
        numbers = [(topic, part.id) for part in described.partitions]
        starts = admin.start_offsets(numbers)
        ends = admin.end_offsets(numbers)
        # Asked for after the ends: what is committed meanwhile only raises it.
        stable = admin.end_offsets(numbers, Isolation.READ_COMMITTED)
        isolation = file.worker.isolation(topic_type)
        readable = ends
        if isolation is Isolation.READ_COMMITTED:
            readable = {at: min(end, stable[at]) for at, end in ends.items()}
        ranges = [OffsetRange(topic, number, starts[topic, number], readable[topic, number]) for _, number in numbers]
        facts = facts.model_copy(
            update={
                "topic_id": described.topic_id,
                "replication_factor": min(len(part.replicas) for part in described.partitions),
                "configs": {name: configs[name] for name in TOPIC_CONFIGS if name in configs},
                "partitions": tuple(
                    PartitionFacts(
                        partition=number,
                        start=starts[at],
                        end=ends[at],
                        last_stable_offset=stable[at],
                        transaction_open=stable[at] < ends[at],
                    )
                    for at in numbers
                    for number in [at[1]]
                ),
            }
        )
        self.topics[place] = facts
        count = TopicCount(topic_type)
        count.read(self._records(file.worker, ranges, isolation))
        self.counts[place] = count
        self.topics[place] = facts.model_copy(
            update={
                "illegal_keys": count.illegal_keys,
                "groups": tuple(
                    each.facts(None if group is None else str(group))
                    for group, each in sorted(
                        count.groups.items(), key=lambda item: (item[0] is not None, item[0] or "")
                    )
                ),
            }
        )

    def _records(self, worker: WorkerConfig, ranges: Sequence[OffsetRange], isolation: Isolation) -> Iterator[Record]:
        self.progress.phase(f"reading {ranges[0].topic}", sum(part.end - part.start for part in ranges))
        records = read_ranges(
            worker.consumer_settings(),
            ranges,
            isolation=isolation,
            client_id=client_id_of(worker),
            idle_timeout_s=IDLE_TIMEOUT_S,
            with_headers=True,
        )
        yield from counted(records, self.progress.advance)

    def gather_groups(self) -> None:
        """Fold the groups of each set of topics; a set that several files name is told once."""
        told: set[tuple[Place, ...]] = set()
        for file in self.files:
            places = file.places()
            if places in told or not any(place in self.counts for place in places):
                continue
            told.add(places)
            found: set[Group] = set()
            for place in places:
                found |= self.counts[place].groups.keys() if place in self.counts else set()
            for group in sorted(found, key=lambda each: (each is not None, each or "")):
                self.groups.append(self._group(file, group))

    def _group(self, file: _File, group: Group) -> GroupSurvey:
        counts = {
            topic_type: self.counts[place].groups.get(group, GroupCount())
            for topic_type in TopicType
            if (place := file.place(topic_type)) in self.counts
        }
        same = [other for other in self.files if other.places() == file.places()]
        of_it = [
            other
            for other in same
            if other.worker.sharing_enabled is (group is not None) and group in {None, other.worker.group_id}
        ]
        ids = (str(group),) if group is not None else tuple(dict.fromkeys(other.worker.group_id for other in of_it))
        known = file.members is not None and bool(ids)
        members = sum((file.members or {}).get(name, 0) for name in ids) if known else None
        connectors, secrets, in_tasks = _connectors(group, counts)
        total = list(counts.values())
        return GroupSurvey(
            kafka_cluster_id=file.cluster,
            topics={topic_type: file.worker.topic(topic_type) for topic_type in TopicType},
            group=None if group is None else str(group),
            side=" and ".join(dict.fromkeys(other.side for other in same)),
            group_ids=ids,
            members=members,
            alive=members is None or members > 0,
            exactly_once=of_it[0].worker.exactly_once_source_support if of_it else None,
            connectors=connectors,
            tasks=sum(connector.tasks for connector in connectors),
            records=sum(count.records for count in total),
            bytes=sum(count.bytes for count in total),
            unparseable=sum(count.unparseable for count in total),
            secrets=secrets,
            secrets_in_tasks=in_tasks,
            two_clusters=_two_clusters(counts, file),
        )


def _two_clusters(counts: dict[TopicType, GroupCount], file: _File) -> str | None:
    found = counts.get(TopicType.STATUS, GroupCount()).clusters.found
    return None if found is None else found.told(file.worker.topic(TopicType.STATUS))


def _connectors(
    group: Group, counts: dict[TopicType, GroupCount]
) -> tuple[tuple[ConnectorSurvey, ...], tuple[SecretPlace, ...], int]:
    config = counts.get(TopicType.CONFIG, GroupCount())
    own = None if group is None else frozenset({str(group)})
    transform = KeyTransform(TopicType.CONFIG, plain=group is None, groups=own, destination=None)
    canonical = canonical_config(transform, config.config)
    config.config.clear()
    state = canonical.believed
    offsets = counts.get(TopicType.OFFSET, GroupCount()).offsets
    workers = counts.get(TopicType.STATUS, GroupCount()).workers
    connectors, secrets, in_tasks = [], [], 0
    for name in sorted(state.connectors()):
        properties = state.connector_config(name) or {}
        secrets += [SecretPlace(connector=name, property=each) for each in clear_text_secrets(properties)]
        in_tasks += _secrets_in_tasks(state, name)
        connectors.append(
            ConnectorSurvey(
                name=name,
                tasks=state.task_count(name),
                sink=bool(properties.get("topics") or properties.get("topics.regex")),
                own_offsets_topic=bool(properties.get(OWN_OFFSETS_TOPIC)),
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


def _secrets_in_tasks(state: ClusterConfigState, name: str) -> int:
    return sum(len(clear_text_secrets(state.task_config(task) or {})) for task in state.tasks(name))


def _moves(surveyor: _Surveyor) -> list[MoveSurvey]:
    sources = [file for file in surveyor.files if file.side == SOURCE]
    destinations = [file for file in surveyor.files if file.side == DESTINATION]
    paired = len(destinations) == len(sources)
    return [
        _move(surveyor, source, destinations[index if paired else 0], paired=paired)
        for index, source in enumerate(sources if destinations else ())
    ]


def _move(surveyor: _Surveyor, source: _File, destination: _File, *, paired: bool) -> MoveSurvey:
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
    there, largest = 0, {}
    for topic_type in TopicType:
        count = surveyor.counts.get(source.place(topic_type))
        mine = None if count is None else count.groups.get(own)
        limit = _limit(surveyor, destination, topic_type)
        if mine is not None and mine.records:
            size = mine.largest_bytes + added + RECORD_OVERHEAD_BYTES
            largest[topic_type] = LargestRecord(largest_bytes=size, limit_bytes=limit, fits=size <= limit)
        shared = surveyor.counts.get(destination.place(topic_type))
        if shared is not None and not illegal and target in shared.groups:
            there += shared.groups[target].records
    group_id = becomes or destination.worker.group_id
    return MoveSurvey(
        source=str(source.path),
        group_id=source.worker.group_id,
        becomes=becomes,
        destination=str(destination.path),
        illegal_id=illegal,
        other_kafka_cluster=source.cluster != destination.cluster,
        records_at_destination=there,
        members_at_destination=None if destination.members is None else destination.members.get(group_id, 0),
        largest=largest,
    )


def _limit(surveyor: _Surveyor, destination: _File, topic_type: TopicType) -> int:
    """Give what the destination's topic takes, or would take once it is created."""
    found = surveyor.topics.get(destination.place(topic_type))
    settings = destination.worker.topic_settings(topic_type) if found is None or not found.exists else found.configs
    return int(settings.get("max.message.bytes", DEFAULT_MAX_MESSAGE_BYTES))


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
    progress: Progress | None = None,
    timeout_s: float = ANSWER_TIMEOUT_S,
) -> Survey:
    """Look at everything that a move between these files would touch; a missing topic is a fact.

    Args:
        source_files: worker files of the clusters that may be moved.
        destination_files: one for all sources, or one for each; none: no move is looked at.
        progress: told how far the reading is.
        timeout_s: longest wait for each answer of a cluster.

    Raises:
        ConfigError: a worker file is wrong.
    """
    files = [_File(Path(path).resolve(), SOURCE, WorkerConfig.from_file(path)) for path in source_files]
    files += [_File(Path(path).resolve(), DESTINATION, WorkerConfig.from_file(path)) for path in destination_files]
    surveyor = _Surveyor(files, progress or Silent(), timeout_s)
    surveyor.ask()
    surveyor.gather_groups()
    return Survey(
        topics=tuple(surveyor.topics.values()),
        groups=tuple(surveyor.groups),
        moves=tuple(_moves(surveyor)),
        collisions=tuple(_collisions(surveyor.groups)),
        unanswered=tuple(surveyor.unanswered),
    )
