"""The moves that worker files describe, and the refusals before any broker is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from connect_share.errors import ConfigError, InvalidClusterGroupIdError
from connect_share.model.config_state import ClusterConfigState
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import TopicType
from connect_share.sealing import KEYS_PROPERTY
from connect_share.worker_config import WorkerConfig
from migrator.plan import PlannedSealing, SourceCluster
from migrator.run import PlannedSource


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
class PlannedMove(PlannedSource):
    """A source while its plan is made, which has what is known so far.

    Attributes:
        state: of its config topic, when that was read, and unless its values are copied unopened.
        connectors_seen: names in keys.
    """

    state: ClusterConfigState | None = None
    connectors_seen: set[str] = field(default_factory=set)

    def learn(self, **facts: Any) -> None:
        """Note members of its plan."""
        self.plan = self.plan.model_copy(update=facts)

    def all_connectors(self) -> frozenset[str]:
        """Return the connectors of the config topic, also those that are not moved; of unopened values those in keys."""
        if self.plan.sealed_as_is:
            return frozenset(self.connectors_seen)
        return self.state.connectors() if self.state is not None else frozenset()

    def connectors(self) -> list[str]:
        """Return the connectors of the config topic that are moved."""
        names, only = self.all_connectors(), self.plan.only_connectors
        return sorted(names if only is None else names.intersection(only))

    def has_records(self) -> bool:
        """Return whether any record would be written."""
        return any(topic.counts.to_write for topic in self.plan.topics.values())

    def may_copy_as_is(self, mode: str) -> bool:
        """Return whether copies open like their originals: the same keys on the topics, and nothing is to be changed."""
        no_keys = self.worker.sealing_keys is None and self.destination.sealing_keys is None
        return no_keys and mode == "mirror" and self.plan.space is not None and self.plan.space == self.plan.new_space


def _group_for(text: str, path: Path) -> ClusterGroupId:
    try:
        return ClusterGroupId(text)
    except InvalidClusterGroupIdError as error:
        raise ConfigError(f"{path}: group.id: {error}", property_name="group.id") from error


def require_pairs(source_files: Sequence[Path], destination_files: Sequence[Path]) -> bool:
    """Return whether each source has a destination of its own; ``ConfigError``: they have neither that nor one for all."""
    if not source_files or len(destination_files) not in {1, len(source_files)}:
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
    paired = require_pairs(source_files, destination_files)
    sources = [WorkerConfig.from_file(path) for path in source_files]
    destinations = [WorkerConfig.from_file(path) for path in destination_files]
    destination_names_it = paired or intent.merge or intent.job is not None
    moves: list[PlannedMove] = []
    for index, (path, worker) in enumerate(zip(source_files, sources, strict=True)):
        at = index if paired else 0
        group = None
        if destinations[at].sharing_enabled:
            naming, naming_file = (destinations[at], destination_files[at]) if destination_names_it else (worker, path)
            group = _group_for(naming.group_id, naming_file)
        if worker.sharing_enabled:
            _group_for(worker.group_id, path)
        planned = SourceCluster(
            worker_config_file=str(path),
            group_id=worker.group_id,
            sharing=worker.sharing_enabled,
            kafka_cluster_id=None,
            cluster_group_id=group,
            only_connectors=_only(intent, worker, path),
            destination_worker_config_file=str(destination_files[at]),
            connectors=0,
            sealing=PlannedSealing.of(worker),
            destination_sealing=PlannedSealing.of(destinations[at]),
            topics={},
        )
        moves.append(PlannedMove(index, planned, worker, destinations[at]))
    _refuse_contradictions(moves, intent)
    for move in moves:
        _refuse_keys_of_another(move, moves[0])
    return moves


def _refuse_keys_of_another(move: PlannedMove, first: PlannedMove) -> None:
    """The keys in a worker file are those of its own group, and a group has one set of keys."""
    keys, file = move.destination_sealing.keys, move.plan.destination_worker_config_file
    if keys is not None and move.destination.group_id != move.plan.cluster_group_id:
        raise ConfigError(
            f"{file}: {KEYS_PROPERTY} has the keys of {move.destination.group_id}, but the records become "
            f"{move.plan.becomes}: give one destination worker file for each source",
            property_name=KEYS_PROPERTY,
        )
    if move.plan.becomes == first.plan.becomes and keys != first.destination_sealing.keys:
        raise ConfigError(
            f"{first.plan.destination_worker_config_file} and {file} have different keys for {move.plan.becomes}",
            property_name=KEYS_PROPERTY,
        )
    for worker in (move.worker, move.destination):
        worker.seals(TopicType.CONFIG)  # raises without the library that it takes


def _only(intent: Intent, worker: WorkerConfig, path: Path) -> tuple[str, ...] | None:
    if intent.job is not None:
        return (intent.job,)
    if intent.assign is None:
        return None
    if worker.group_id not in intent.assign:
        raise ConfigError(
            f"the assignment of connectors has no entry for group.id {worker.group_id} of {path}: add one, empty if it "
            "gets none"
        )
    return tuple(sorted({*intent.assign[worker.group_id]}))


def _refuse_contradictions(moves: Sequence[PlannedMove], intent: Intent) -> None:
    first = moves[0]
    for move in moves:
        files = f"{first.plan.destination_worker_config_file} and {move.plan.destination_worker_config_file}"
        for topic_type in TopicType:
            if move.destination.topic(topic_type) != first.destination.topic(topic_type):
                raise ConfigError(
                    f"{files} name different {topic_type.value} topics: one plan moves to one set of topics",
                    property_name=f"{topic_type.value}.storage.topic",
                )
        if move.destination.sharing_enabled is not first.destination.sharing_enabled:
            raise ConfigError(
                f"{files} differ in topic sharing: one plan writes prefixed keys or plain ones",
                property_name="connect.management.topic.sharing.support",
            )
    if intent.assign is not None:
        unknown = sorted(intent.assign.keys() - {move.plan.group_id for move in moves})
        if unknown:
            raise ConfigError(f"the assignment of connectors names {unknown[0]!r}, which is no group.id of a source")
        owners = Counter(name for move in moves for name in move.plan.only_connectors or ())
        twice = sorted(name for name, count in owners.items() if count > 1)
        if twice:
            raise ConfigError(f"the assignment gives connector {twice[0]!r} to two groups; each has one owner")
    if intent.merge or intent.job is not None:
        return
    for becomes, count in Counter(move.plan.becomes for move in moves).items():
        if count > 1:
            raise ConfigError(
                f"{count} sources would become {becomes} and be merged: give one destination worker file for each "
                "source, each with a group.id of its own, or --merge if you want one group",
                property_name="group.id",
            )


def refuse_same_topics(moves: Sequence[PlannedMove]) -> None:
    """Refuse moves without an effect, and sources whose records cannot be distinguished: ``ConfigError``."""
    taken: dict[tuple[str | None, str, str | None], PlannedMove] = {}
    for move in moves:
        own, only, file = move.plan.space, move.plan.only_connectors, move.plan.worker_config_file
        for topic_type in TopicType:
            topic = move.worker.topic(topic_type)
            for other_type in TopicType:
                if move.stays_on_cluster and move.destination.topic(other_type) == topic:
                    if other_type is not topic_type:
                        raise ConfigError(
                            f"{topic} is the {topic_type.value} topic of {file} and the {other_type.value} "
                            f"topic of {move.plan.destination_worker_config_file}",
                            property_name=f"{other_type.value}.storage.topic",
                        )
                    if own == move.plan.new_space:
                        raise ConfigError(
                            f"{topic} holds the records of {file} under {move.plan.becomes} already: there is "
                            "nothing to move; choose another group.id or other topics for the destination",
                            property_name=f"{topic_type.value}.storage.topic",
                        )
            at = (move.plan.kafka_cluster_id, topic, own)
            other = taken.setdefault(at, move)
            if other is not move and (only is None or only == other.plan.only_connectors):
                raise ConfigError(
                    f"{topic} is used by {other.plan.worker_config_file} and by {file} with the same keys: records do "
                    "not show which of the two wrote them; assign the connectors with --assign"
                )
