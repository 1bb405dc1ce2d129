"""The facts before a plan: the contents of the topics that worker files name; nothing is written.

Each topic is read once. Memory holds the records of the config topics and, per connector, counts of the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from connect_share.admin import Admin
from connect_share.errors import ConnectShareError, InvalidClusterGroupIdError
from connect_share.keys import ClusterGroupId
from connect_share.progress import Progress, Silent, counted
from connect_share.records import OffsetRange, TopicType
from connect_share.sealing import SealingMode
from connect_share.sealing.cipher import SEALED_BYTES
from connect_share.topic_io.checked_writer import CLIENT_ID
from connect_share.topic_io.facts import read_records
from connect_share.transform.canonical import canonical_config
from connect_share.transform.record_counter import RECORD_OVERHEAD_BYTES, limit_of
from connect_share.transform.rules import KeyTransform
from connect_share.transform.sealed import Sealing
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.client_settings import Isolation
from connect_share.worker_config.secret_values import clear_text_secrets
from migrator.planner.advice import OWN_OFFSETS_TOPIC
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

SOURCE: Final = "source"
DESTINATION: Final = "destination"
ANSWER_TIMEOUT_S: Final = 30.0
Group = ClusterGroupId | None
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
    timeout_s: float
    unanswered: list[str] = field(default_factory=list)
    topics: dict[Place, TopicSurvey] = field(default_factory=dict)
    counts: dict[Place, TopicCount] = field(default_factory=dict)
    groups: list[GroupSurvey] = field(default_factory=list)

    @contextmanager
    def _asking(self, where: str) -> Iterator[None]:
        try:
            yield
        except ConnectShareError as error:
            self.unanswered.append(f"{where}: {error}")

    def read_clusters(self) -> None:
        for file in self.files:
            worker = file.worker
            with (
                Admin(
                    worker.admin_settings(), client_id=worker.client_id(CLIENT_ID), timeout_s=self.timeout_s
                ) as admin,
                self._asking(str(file.path)),
            ):
                file.cluster = admin.cluster_id()
                with self._asking(f"{file.path}: workers alive"):
                    file.members = admin.connect_groups()
                for topic_type in TopicType:
                    if file.place(topic_type) not in self.topics:
                        with self._asking(worker.topic(topic_type)):
                            self._read_topic(admin, file, topic_type)

    def _read_topic(self, admin: Admin, file: _WorkerFile, topic_type: TopicType) -> None:
        cluster, topic = place = file.place(topic_type)
        described = admin.describe_topics([topic]).get(topic)
        facts = TopicSurvey(
            kafka_cluster_id=cluster,
            topic=topic,
            topic_type=topic_type,
            named_by=tuple(str(other.path) for other in self.files if other.worker.topic(topic_type) == topic),
            exists=described is not None,
        )
        self.topics[place] = facts
        if described is None:
            return
        configs = admin.topic_configs(topic)
        partitions = [(topic, part.id) for part in described.partitions]
        starts = admin.start_offsets(partitions)
        ends = admin.end_offsets(partitions)
        # The ends were read before: what is committed meanwhile can only raise the last stable offset.
        stable = admin.end_offsets(partitions, Isolation.READ_COMMITTED)
        facts = facts.model_copy(
            update={
                "topic_id": described.topic_id,
                "replication_factor": min(len(part.replicas) for part in described.partitions),
                "configs": {name: configs[name] for name in TOPIC_CONFIGS if name in configs},
                "partitions": tuple(
                    PartitionFacts(
                        partition=key[1],
                        start=starts[key],
                        end=ends[key],
                        last_stable_offset=stable[key],
                        transaction_open=stable[key] < ends[key],
                    )
                    for key in partitions
                ),
            }
        )
        self.topics[place] = facts
        isolation = file.worker.isolation(topic_type)
        committed = isolation is Isolation.READ_COMMITTED
        ranges = [
            OffsetRange(*key, starts[key], min(ends[key], stable[key]) if committed else ends[key])
            for key in partitions
        ]
        self.progress.phase(f"reading {topic}", sum(part.end - part.start for part in ranges))
        # This file counts most: another Kafka cluster may have a topic and a group of these names, and other keys.
        named = [each.worker for each in self.files if each.worker.topic(topic_type) == topic]
        sealings = {worker.group_id: Sealing.of(worker) for worker in (*named, file.worker) if worker.sharing_enabled}
        count = TopicCount(topic_type, sealings)
        records = read_records(file.worker, ranges, isolation, with_headers=True)
        count.read(counted(records, self.progress.advance))
        self.counts[place] = count
        groups = tuple(count.groups[group].figures(group) for group in sorted(count.groups, key=_plain_first))
        self.topics[place] = facts.model_copy(update={"illegal_keys": count.illegal_keys, "groups": groups})

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
            self.groups += [self._group(file, group) for group in sorted(groups, key=_plain_first)]

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
        known = file.members is not None and bool(ids)
        members = sum((file.members or {}).get(name, 0) for name in ids) if known else None
        unopened = sum(count.unopened for count in counts.values())
        connectors, secrets, in_tasks = _connectors(group, counts) if not unopened else ((), (), 0)
        two_clusters = counts.get(TopicType.STATUS, GroupCount()).clusters.found
        return GroupSurvey(
            kafka_cluster_id=file.cluster,
            topics={topic_type: file.worker.topic(topic_type) for topic_type in TopicType},
            group=None if group is None else str(group),
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


def _plain_first(group: Group) -> tuple[bool, str]:
    return group is not None, group or ""


def _connectors(
    group: Group, counts: dict[TopicType, GroupCount]
) -> tuple[tuple[ConnectorSurvey, ...], tuple[SecretPlace, ...], int]:
    config = counts.get(TopicType.CONFIG, GroupCount())
    canonical = canonical_config(KeyTransform.between(TopicType.CONFIG, group, None), config.config)
    config.config.clear()
    state = canonical.believed
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


def _moves(surveyor: _Surveyor) -> list[MoveSurvey]:
    sources = [file for file in surveyor.files if file.side == SOURCE]
    destinations = [file for file in surveyor.files if file.side == DESTINATION]
    paired = len(destinations) == len(sources)
    return [
        _move(surveyor, source, destinations[index if paired else 0], paired=paired)
        for index, source in enumerate(sources if destinations else ())
    ]


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
        limit = _limit(surveyor, destination, topic_type)
        if mine is not None and mine.records:
            size = mine.largest_bytes + added + seals + RECORD_OVERHEAD_BYTES
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


def _limit(surveyor: _Surveyor, destination: _WorkerFile, topic_type: TopicType) -> int:
    found = surveyor.topics.get(destination.place(topic_type))
    settings = destination.worker.topic_settings(topic_type) if found is None or not found.exists else found.configs
    return limit_of(settings)


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
    """Read everything that a move between these files would touch; a missing topic is a fact.

    Args:
        source_files: worker files of the clusters that may be moved.
        destination_files: one for all sources, or one for each; none: no move is judged.
        progress: reports the reading.
        timeout_s: longest wait for each answer of a cluster.

    Raises:
        ConfigError: a worker file is wrong.
    """
    files = [
        _WorkerFile(Path(path).resolve(), side, WorkerConfig.from_file(path))
        for side, paths in ((SOURCE, source_files), (DESTINATION, destination_files))
        for path in paths
    ]
    surveyor = _Surveyor(files, progress or Silent(), timeout_s)
    surveyor.read_clusters()
    surveyor.fold_groups()
    return Survey(
        topics=tuple(surveyor.topics.values()),
        groups=tuple(surveyor.groups),
        moves=tuple(_moves(surveyor)),
        collisions=tuple(_collisions(surveyor.groups)),
        unanswered=tuple(surveyor.unanswered),
    )
