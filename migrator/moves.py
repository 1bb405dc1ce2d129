"""The moves that worker files describe, and the refusals before any broker is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from connect_share.errors import ConfigError, InvalidClusterGroupIdError
from connect_share.model.config_state import ClusterConfigState
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import TopicType
from connect_share.sealing import KEYS_PROPERTY
from connect_share.transform.rules import PLAIN_KEYS, KeyTransform
from connect_share.transform.sealed import Sealing
from connect_share.worker_config import WorkerConfig
from migrator.plan import SourceTopic


@dataclass(frozen=True)
class Intent:
    """The wishes of the user that worker files cannot express.

    Attributes:
        job: exact name of the one connector to be moved; ``None`` moves whole clusters.
        assign: for clusters that share plain keys by accident: per ``group.id`` of a source the connectors that are its own.
        merge: several sources are to become one group.
        mode: ``mirror`` or ``state``.
        follow: the sources' workers may be alive.
    """

    job: str | None = None
    assign: Mapping[str, tuple[str, ...]] | None = None
    merge: bool = False
    mode: Literal["mirror", "state"] = "mirror"
    follow: bool = False


NO_INTENT: Final = Intent()


@dataclass
class PlannedMove:
    """One source while its plan is made. ``group`` is ``None`` when its records get plain keys."""

    source_file: Path
    source: WorkerConfig
    destination_file: Path
    destination: WorkerConfig
    group: ClusterGroupId | None
    only_connectors: frozenset[str] | None = None
    kafka_cluster_id: str | None = None
    planned: dict[TopicType, SourceTopic] = field(default_factory=dict)
    state: ClusterConfigState | None = None
    connectors_seen: set[str] = field(default_factory=set)
    sealed_as_is: bool = False

    @property
    def becomes(self) -> str:
        """The key space it gets, for people."""
        return self.group or PLAIN_KEYS

    @property
    def destination_group_id(self) -> str:
        """``group.id`` of the workers that will run on the destination."""
        return self.group or self.destination.group_id

    def keeps_its_members(self, destination_cluster: str | None) -> bool:
        """Return whether Kafka cannot tell old workers from new ones: one Kafka cluster, one ``group.id``."""
        return self.kafka_cluster_id == destination_cluster and self.destination_group_id == self.source.group_id

    def all_connectors(self) -> frozenset[str]:
        """Return the connectors of the config topic, also those that are not moved; of unopened values those in keys."""
        if self.sealed_as_is:
            return frozenset(self.connectors_seen)
        return self.state.connectors() if self.state is not None else frozenset()

    def connectors(self) -> list[str]:
        """Return the connectors of the config topic that are moved."""
        names = self.all_connectors()
        return sorted(names if self.only_connectors is None else names & self.only_connectors)

    def has_records(self) -> bool:
        """Return whether any record would be written."""
        return any(topic.counts.to_write for topic in self.planned.values())

    def transform(self, topic_type: TopicType) -> KeyTransform:
        """Return the transform for the records of one of its topics."""
        return KeyTransform.between(topic_type, self.source.cluster_group_id, self.group, self.only_connectors)

    @property
    def sealing(self) -> Sealing:
        """What opens its values."""
        return Sealing.of(self.source, as_is=self.sealed_as_is)

    @property
    def destination_sealing(self) -> Sealing:
        """What seals their copies."""
        return Sealing.of(self.destination, as_is=self.sealed_as_is)

    def may_copy_as_is(self, mode: str) -> bool:
        """Return whether copies open like their originals: the same keys on the topics, and nothing is to be changed."""
        no_keys = self.source.sealing_keys is None and self.destination.sealing_keys is None
        return no_keys and mode == "mirror" and self.group is not None and self.source.cluster_group_id == self.group


def _group_for(text: str, path: Path) -> ClusterGroupId:
    try:
        return ClusterGroupId(text)
    except InvalidClusterGroupIdError as error:
        raise ConfigError(f"{path}: group.id: {error}", property_name="group.id") from error


def require_pairs(source_files: Sequence[Path], destination_files: Sequence[Path]) -> bool:
    """Return whether each source has a destination of its own; ``ConfigError``: they have neither that nor one for all."""
    if len(destination_files) not in {1, len(source_files)}:
        raise ConfigError(
            f"{len(source_files)} source worker files and {len(destination_files)} destination worker files: "
            "give one destination for all, or one for each source in the same order"
        )
    return len(destination_files) == len(source_files)


def pair(
    source_files: Sequence[Path], destination_files: Sequence[Path], intent: Intent = NO_INTENT
) -> list[PlannedMove]:
    """Decide which group each source becomes; ``docs/decisions/0004-several-sources.md``.

    Files and an intent that contradict each other are a ``ConfigError``.
    """
    if not source_files or not destination_files:
        raise ConfigError("a plan needs at least one source and one destination worker file")
    paired = require_pairs(source_files, destination_files)
    if intent.follow and intent.mode != "mirror":
        raise ConfigError("to follow a source and the mode state at once: a folded state has no order to follow")
    if intent.job is not None and intent.assign is not None:
        raise ConfigError("a job and an assignment of connectors at once: one of the two says what is moved")
    sources = [WorkerConfig.from_file(path) for path in source_files]
    destinations = [WorkerConfig.from_file(path) for path in destination_files]
    destination_names_it = paired or intent.merge or intent.job is not None
    moves = []
    for index, (path, worker) in enumerate(zip(source_files, sources, strict=True)):
        at = index if paired else 0
        group = None
        if destinations[at].sharing_enabled:
            naming, naming_file = (destinations[at], destination_files[at]) if destination_names_it else (worker, path)
            group = _group_for(naming.group_id, naming_file)
        if worker.sharing_enabled:
            _group_for(worker.group_id, path)
        moves.append(
            PlannedMove(
                source_file=path,
                source=worker,
                destination_file=destination_files[at],
                destination=destinations[at],
                group=group,
                only_connectors=_only(intent, worker, path),
            )
        )
    _refuse_contradictions(moves, intent)
    for move in moves:
        _refuse_keys_of_another(move, moves[0])
    return moves


def _refuse_keys_of_another(move: PlannedMove, first: PlannedMove) -> None:
    """The keys in a worker file are those of its own group, and a group has one set of keys."""
    keys = move.destination_sealing.keys
    if keys is not None and move.destination.group_id != move.group:
        raise ConfigError(
            f"{move.destination_file}: {KEYS_PROPERTY} has the keys of {move.destination.group_id}, but the records become "
            f"{move.becomes}: give one destination worker file for each source",
            property_name=KEYS_PROPERTY,
        )
    if move.becomes == first.becomes and keys != first.destination_sealing.keys:
        raise ConfigError(
            f"{first.destination_file} and {move.destination_file} have different keys for {move.becomes}",
            property_name=KEYS_PROPERTY,
        )
    for worker in (move.source, move.destination):
        worker.seals(TopicType.CONFIG)  # raises without the library that it takes


def _only(intent: Intent, worker: WorkerConfig, path: Path) -> frozenset[str] | None:
    if intent.job is not None:
        return frozenset({intent.job})
    if intent.assign is None:
        return None
    if worker.group_id not in intent.assign:
        raise ConfigError(
            f"the assignment of connectors has no entry for group.id {worker.group_id} of {path}: add one, empty if it "
            "gets none"
        )
    return frozenset(intent.assign[worker.group_id])


def _refuse_contradictions(moves: Sequence[PlannedMove], intent: Intent) -> None:
    first = moves[0]
    for move in moves:
        for topic_type in TopicType:
            if move.destination.topic(topic_type) != first.destination.topic(topic_type):
                raise ConfigError(
                    f"{first.destination_file} and {move.destination_file} name different "
                    f"{topic_type.value} topics: one plan moves to one set of topics",
                    property_name=f"{topic_type.value}.storage.topic",
                )
        if move.destination.sharing_enabled is not first.destination.sharing_enabled:
            raise ConfigError(
                f"{first.destination_file} and {move.destination_file} differ in topic sharing: one plan writes "
                "prefixed keys or plain ones",
                property_name="connect.management.topic.sharing.support",
            )
    if intent.assign is not None:
        unknown = sorted(intent.assign.keys() - {move.source.group_id for move in moves})
        if unknown:
            raise ConfigError(f"the assignment of connectors names {unknown[0]!r}, which is no group.id of a source")
        owners = Counter(name for move in moves for name in move.only_connectors or ())
        twice = sorted(name for name, count in owners.items() if count > 1)
        if twice:
            raise ConfigError(f"the assignment gives connector {twice[0]!r} to two groups; each has one owner")
    if intent.merge or intent.job is not None:
        return
    for becomes, count in Counter(move.becomes for move in moves).items():
        if count > 1:
            raise ConfigError(
                f"{count} sources would become {becomes} and be merged: give one destination worker file for each "
                "source, each with a group.id of its own, or --merge if you want one group",
                property_name="group.id",
            )


def refuse_same_topics(moves: Sequence[PlannedMove], destination_cluster: str | None) -> None:
    """Refuse moves without an effect, and sources whose records cannot be distinguished: ``ConfigError``."""
    taken: dict[tuple[str | None, str, str | None], PlannedMove] = {}
    for move in moves:
        own, same_cluster = move.source.cluster_group_id, move.kafka_cluster_id == destination_cluster
        for topic_type in TopicType:
            topic = move.source.topic(topic_type)
            for other_type in TopicType:
                if same_cluster and move.destination.topic(other_type) == topic:
                    if other_type is not topic_type:
                        raise ConfigError(
                            f"{topic} is the {topic_type.value} topic of {move.source_file} and the {other_type.value} "
                            f"topic of {move.destination_file}",
                            property_name=f"{other_type.value}.storage.topic",
                        )
                    if own == move.group:
                        raise ConfigError(
                            f"{topic} holds the records of {move.source_file} under {move.becomes} already: there is "
                            "nothing to move; choose another group.id or other topics for the destination",
                            property_name=f"{topic_type.value}.storage.topic",
                        )
            at = (move.kafka_cluster_id, topic, own)
            other = taken.setdefault(at, move)
            if other is not move and (move.only_connectors is None or move.only_connectors == other.only_connectors):
                raise ConfigError(
                    f"{topic} is used by {other.source_file} and by {move.source_file} with the same keys: records do "
                    "not show which of the two wrote them; assign the connectors with --assign"
                )
