"""Which cluster goes where: source and destination worker files paired, and the directions refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from connect_share.errors import ConfigError, InvalidClusterGroupIdError
from connect_share.keys import ClusterGroupId
from connect_share.records import TopicType
from connect_share.state import ClusterConfigState
from connect_share.worker_config import WorkerConfig
from migrator.errors import NotYetSupportedError
from migrator.inspection import load_worker_file
from migrator.plan import SourceTopic


@dataclass
class Move:
    """One source while its plan is made."""

    source_file: Path
    source: WorkerConfig
    destination_file: Path
    destination: WorkerConfig
    group: ClusterGroupId
    kafka_cluster_id: str | None = None
    planned: dict[TopicType, SourceTopic] = field(default_factory=dict)
    state: ClusterConfigState | None = None


def _group_for(text: str, path: Path) -> ClusterGroupId:
    try:
        return ClusterGroupId(text)
    except InvalidClusterGroupIdError as error:
        raise ConfigError(f"{path}: group.id: {error}", property_name="group.id") from error


def pair(source_files: Sequence[Path], destination_files: Sequence[Path]) -> list[Move]:
    """Decide which group each source becomes; ``docs/decisions/0004-several-sources.md``."""
    if not source_files or not destination_files:
        raise ConfigError("a plan needs at least one source and one destination worker file")
    if len(destination_files) not in {1, len(source_files)}:
        raise ConfigError(
            f"{len(source_files)} source worker files and {len(destination_files)} destination worker files: "
            "give one destination for all, or one for each source in the same order"
        )
    sources = [load_worker_file(path) for path in source_files]
    destinations = [load_worker_file(path) for path in destination_files]
    paired = len(destination_files) == len(source_files)
    moves = []
    for index, (path, worker) in enumerate(zip(source_files, sources, strict=True)):
        at = index if paired else 0
        naming, naming_file = (destinations[at], destination_files[at]) if paired else (worker, path)
        moves.append(
            Move(
                source_file=path,
                source=worker,
                destination_file=destination_files[at],
                destination=destinations[at],
                group=_group_for(naming.group_id, naming_file),
            )
        )
    return moves


def refuse_directions(moves: Sequence[Move]) -> None:
    """Refuse what is not dedicated to one set of shared topics, and sources that would be merged.

    Raises:
        NotYetSupportedError: another direction.
        ConfigError: several sets of shared topics, or two sources for one group.
    """
    for move in moves:
        if move.source.sharing_enabled:
            raise NotYetSupportedError(
                f"{move.source_file} has topic sharing enabled: moving from shared topics does not exist yet; "
                "use KafkaConnectTopicMigrator with old.client=false in a loop of your own"
            )
        if not move.destination.sharing_enabled:
            raise NotYetSupportedError(
                f"{move.destination_file} has topic sharing disabled: moving to dedicated topics does not "
                "exist yet; set connect.management.topic.sharing.support=enabled for a move to shared topics"
            )
    first = moves[0]
    for move in moves[1:]:
        for topic_type in TopicType:
            if move.destination.topic(topic_type) != first.destination.topic(topic_type):
                raise ConfigError(
                    f"{first.destination_file} and {move.destination_file} name different "
                    f"{topic_type.value} topics: one plan moves to one set of shared topics",
                    property_name=f"{topic_type.value}.storage.topic",
                )
    groups = Counter(str(move.group) for move in moves)
    for group, count in groups.items():
        if count > 1:
            raise ConfigError(
                f"{count} sources would become the group {group} and be merged into it: give one destination "
                "worker file for each source, each with a group.id of its own",
                property_name="group.id",
            )


def refuse_same_topics(moves: Sequence[Move], destination_cluster: str | None) -> None:
    """Refuse a topic that is on both sides, or that two sources use.

    Raises:
        NotYetSupportedError: moving in place, or splitting clusters that share plain keys.
    """
    taken: dict[tuple[str | None, str], Path] = {}
    shared = {moves[0].destination.topic(topic_type) for topic_type in TopicType}
    for move in moves:
        own = {move.source.topic(topic_type) for topic_type in TopicType}
        for topic in sorted(own):
            if topic in shared and move.kafka_cluster_id == destination_cluster:
                raise NotYetSupportedError(
                    f"{topic} is a topic of {move.source_file} and a shared topic at once: moving in place "
                    "does not exist yet; choose new topics for the destination"
                )
            other = taken.setdefault((move.kafka_cluster_id, topic), move.source_file)
            if other != move.source_file:
                raise NotYetSupportedError(
                    f"{topic} is used by {other} and by {move.source_file}: two clusters on the same plain keys "
                    "cannot be told apart record by record, and splitting them does not exist yet"
                )
