"""The plan of a migration: a JSON file that a person can read before anything is written.

It names topics by id and records by exact offset ranges, so what is applied is what was planned. It holds no secret:
the worker files are read again when the plan is applied.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from connect_share.errors import InvalidClusterGroupIdError, PlanFileError, listed
from connect_share.files import LARGEST_BYTES, members_once, read_bounded, write_private_file, writing
from connect_share.model.config_state import Moved
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import OffsetRange, TopicType
from connect_share.sealing import KeyRing, SealingMode
from connect_share.transform.rules import PLAIN_KEYS, RULE_VERSION, Count, KeyTransform, RecordCounts
from connect_share.worker_config import Isolation, WorkerConfig
from connect_share.worker_config.worker import file_of

PLAN_FORMAT: Final = "connect-share/migration-plan/2"
_NAMED: Final = 5
Wanted = Mapping[str | None, frozenset[str] | None]
"""Key spaces (``None``: plain keys), and which of their connectors; ``None`` is everything in it."""


Model = TypeVar("Model", bound=BaseModel)


class PlanPart(BaseModel):
    """A part of a plan, or of what is noted beside it."""

    # A typing error in an edited plan must not be overlooked, hence no unknown members.
    model_config = ConfigDict(frozen=True, extra="forbid")

    def save(self, path: Path) -> None:
        """Replace the file as one step, mode 0600."""
        write_plan_file(path, self.model_dump_json(indent=2) + "\n")


class PlannedPartition(PlanPart):
    """The records of one source partition that are read: ``[start, end)``.

    Attributes:
        start: first offset of the log when the plan was made.
        end: high watermark then, exclusive.
        last_stable_offset: equal to ``end``; a plan is refused otherwise.
    """

    partition: Count
    start: Count
    end: Count
    last_stable_offset: Count

    @model_validator(mode="after")
    def _ordered(self) -> PlannedPartition:
        if self.start > self.end:
            raise ValueError(f"partition {self.partition}: start {self.start} is behind end {self.end}")
        return self


class SourceTopic(PlanPart):
    """One topic of a source: its id, the isolation of its own worker, and the ranges that are read."""

    topic: str
    topic_id: str | None
    isolation: Isolation
    partitions: tuple[PlannedPartition, ...]
    counts: RecordCounts = RecordCounts()

    def ranges(self) -> tuple[OffsetRange, ...]:
        """Return the planned ranges, one per partition."""
        return tuple(OffsetRange(self.topic, part.partition, part.start, part.end) for part in self.partitions)


class PlannedSealing(PlanPart):
    """The keys of a worker file, as far as others may know them.

    Attributes:
        key_ids: the first one seals.
        fingerprint: of all of them, see :meth:`connect_share.sealing.KeyRing.fingerprint`.
    """

    mode: SealingMode
    key_ids: tuple[Annotated[int, Field(ge=1)], ...]
    fingerprint: str

    @classmethod
    def of(cls, worker: WorkerConfig) -> Self | None:
        """Return those of a worker file; ``None``: it seals nothing."""
        keys = worker.keys_in_use
        if keys is None:
            return None
        return cls(mode=worker.sealing_mode, key_ids=keys.ids, fingerprint=keys.fingerprint())

    def is_part_of(self, keys: KeyRing) -> bool:
        """Return whether all the keys of the plan are among these."""
        return KeyRing(each for each in keys.items() if each[0] in self.key_ids).fingerprint() == self.fingerprint


class SourceCluster(PlanPart):
    """One Connect cluster and its destination.

    Attributes:
        worker_config_file: path of its worker file, absolute or from the plan's folder.
        sharing: its topics are shared: only the keys under its own prefix are its own.
        cluster_group_id: the prefix its records get; ``None`` gives them plain keys.
        only_connectors: exact names of the connectors that are moved; ``None`` moves the whole cluster.
        destination_worker_config_file: path of the worker file used for writing, likewise.
        connectors: how many connectors of its config topic are moved.
        sealing: the keys that open its values; ``None``: they are plain, or ``sealed_as_is``.
        destination_sealing: the keys that seal their copies; ``None``: nothing does.
        sealed_as_is: all is sealed, and there are no keys: the copies are the same bytes under the same keys.
    """

    worker_config_file: str
    group_id: str
    sharing: bool = False
    kafka_cluster_id: str | None
    cluster_group_id: str | None
    only_connectors: tuple[str, ...] | None = None
    destination_worker_config_file: str
    connectors: Count
    sealing: PlannedSealing | None = None
    destination_sealing: PlannedSealing | None = None
    sealed_as_is: bool = False
    topics: dict[TopicType, SourceTopic]

    @property
    def becomes(self) -> str:
        """The key space it gets, for people."""
        return self.cluster_group_id or PLAIN_KEYS

    @property
    def space(self) -> ClusterGroupId | None:
        """The key space it leaves, ``None``: plain keys."""
        return ClusterGroupId(self.group_id) if self.sharing else None

    @property
    def new_space(self) -> ClusterGroupId | None:
        """The key space it gets, likewise; ``InvalidClusterGroupIdError``: it was edited into an illegal one."""
        return None if self.cluster_group_id is None else ClusterGroupId(self.cluster_group_id)

    def transform(self, topic_type: TopicType) -> KeyTransform:
        """Return the transform for the records of one of its topics; raises as :attr:`new_space`."""
        return KeyTransform.between(topic_type, self.space, self.new_space, self.only_connectors)


class DestinationTopic(PlanPart):
    """One shared topic. ``topic_id`` is empty when ``apply`` has to create it, as ``create topics`` would.

    ``fence`` is that of an earlier move, which is lifted when the copy is complete.
    """

    topic: str
    topic_id: str | None
    partitions: Annotated[int, Field(ge=1)]
    create: bool
    fence: Moved | None = None


class Destination(PlanPart):
    """The shared topics and the Kafka cluster that holds them."""

    kafka_cluster_id: str | None
    topics: dict[TopicType, DestinationTopic]


class PlanStep(PlanPart):
    """One step of the whole move: who does what."""

    who: Literal["operator", "connect-share-migrate"]
    what: str


@dataclass(frozen=True, slots=True)
class CopySlice:
    """The unit of work of every engine: one source partition, never split (splitting it reorders records).

    Attributes:
        source_index: place of the source cluster in the plan.
        transform: from old keys to new ones.
        fold: re-emit the state (``--mode state``) instead of every record.
        replaced: original keys whose record that counts is in another partition: theirs are left out.
    """

    source_index: int
    topic_type: TopicType
    offset_range: OffsetRange
    isolation: Isolation
    destination_topic: str
    destination_partitions: int
    transform: KeyTransform
    fold: bool = False
    replaced: frozenset[bytes] = field(default=frozenset(), repr=False)

    @property
    def name(self) -> str:
        """Its name, unique inside the plan: ``0/config/connect-configs[0]``."""
        where = f"{self.offset_range.topic}[{self.offset_range.partition}]"
        return f"{self.source_index}/{self.topic_type.value}/{where}"


class MigrationPlan(PlanPart):
    """A move of Connect clusters, or of some of their connectors, onto one set of topics.

    Attributes:
        mode: ``mirror`` copies record for record, ``state`` re-emits the folded state.
        follow: the workers of the sources may be alive; what they write is mirrored until the cut-over.
        merge: several sources become one group, on purpose.
    """

    format: Literal["connect-share/migration-plan/2"] = PLAN_FORMAT
    run_id: str
    created_at_ms: Count
    mode: Literal["mirror", "state"] = "mirror"
    follow: bool = False
    merge: bool = False
    sources: Annotated[tuple[SourceCluster, ...], Field(min_length=1)]
    destination: Destination
    rule_version: int = RULE_VERSION
    fingerprint: str
    warnings: tuple[str, ...] = ()
    steps: tuple[PlanStep, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> MigrationPlan:
        every = set(TopicType)
        if set(self.destination.topics) != every or any(set(s.topics) != every for s in self.sources):
            raise ValueError("each source and the destination need exactly the topics config, status and offset")
        groups = [source.cluster_group_id for source in self.sources]
        if len(set(groups)) != len(groups) and not self.merge:
            raise ValueError("two sources have the same cluster_group_id: they would be merged into one group")
        if self.follow and self.mode != "mirror":
            raise ValueError("follow needs the mode mirror: a folded state has no order to follow")
        if any(len(source.topics[TopicType.CONFIG].partitions) != 1 for source in self.sources):
            raise ValueError("a config topic has exactly one partition")
        if self.destination.topics[TopicType.CONFIG].partitions != 1:
            raise ValueError("the destination's config topic has exactly one partition")
        expected = plan_fingerprint(self.sources, self.mode)
        if self.fingerprint != expected:
            raise ValueError(
                f"fingerprint is {self.fingerprint}, but the transform of this plan by this version gives "
                f"{expected}: cluster_group_id was edited or the rules changed; make the plan anew"
            )
        return self

    @classmethod
    def load(cls, path: Path, text: str | None = None) -> MigrationPlan:
        """Read and check a plan file, or its text. A worker file that is not where it was is looked for beside the plan.

        Raises:
            PlanFileError: missing, not JSON, of another format, or inconsistent; it says where.
        """
        plan, folder = load_model(cls, path, "plan", text), path.parent
        sources = tuple(
            source.model_copy(
                update={
                    "worker_config_file": _found(source.worker_config_file, folder),
                    "destination_worker_config_file": _found(source.destination_worker_config_file, folder),
                }
            )
            for source in plan.sources
        )
        return plan.model_copy(update={"sources": sources})

    def in_place(self, source: SourceCluster, topic_type: TopicType) -> bool:
        """Return whether a source's topic is the destination's too: originals and copies lie side by side."""
        return (
            source.kafka_cluster_id == self.destination.kafka_cluster_id
            and source.topics[topic_type].topic == self.destination.topics[topic_type].topic
        )

    @property
    def is_in_place(self) -> bool:
        """Whether any originals lie beside their copies."""
        return any(self.in_place(source, topic_type) for source in self.sources for topic_type in TopicType)

    @property
    def leaves_topics(self) -> bool:
        """Whether it leaves old topics behind on which nothing stays that is used."""
        return not self.is_in_place and any(not each.sharing and each.only_connectors is None for each in self.sources)

    def wanted(self) -> Wanted:
        """Return the key spaces that are written to, and which of their connectors."""
        return key_spaces((source.cluster_group_id, source.only_connectors) for source in self.sources)

    def slices(self) -> list[CopySlice]:
        """Return one slice for each source partition, config topics first, in the order of the plan."""
        return [
            CopySlice(
                source_index=index,
                topic_type=topic_type,
                offset_range=offset_range,
                isolation=source.topics[topic_type].isolation,
                destination_topic=self.destination.topics[topic_type].topic,
                destination_partitions=self.destination.topics[topic_type].partitions,
                transform=source.transform(topic_type),
                fold=self.mode == "state",
            )
            for topic_type in TopicType
            for index, source in enumerate(self.sources)
            for offset_range in source.topics[topic_type].ranges()
        ]


def key_spaces(moved: Iterable[tuple[str | None, Collection[str] | None]]) -> Wanted:
    """Return what is written by moves, each to a key space, of some connectors or of all (``None``)."""
    wanted: dict[str | None, frozenset[str] | None] = {}
    for space, only in moved:
        known = wanted.get(space, frozenset())
        wanted[space] = None if known is None or only is None else known | frozenset(only)
    return wanted


def named_connectors(names: Collection[str]) -> str:
    """Return the connectors that are moved, for people."""
    shown = listed(map(repr, sorted(names)), _NAMED)
    return f"connector{'' if len(names) == 1 else 's'} {shown}" if names else "no connector"


def _found(file: str, folder: Path) -> str:
    """Return the path of a worker file: where it was, or beside a plan that was carried to another machine."""
    planned = folder / file
    beside = folder / planned.relative_to(file_of(planned).parent)
    return str(beside if not file_of(planned).exists() and file_of(beside).exists() else planned)


def plan_fingerprint(sources: tuple[SourceCluster, ...], mode: str) -> str:
    """Return the hash of all transforms of a plan, in order; ``ValueError`` for an illegal ``cluster_group_id``."""
    digest = hashlib.sha256(mode.encode())
    for source in sources:
        for topic_type in TopicType:
            try:
                digest.update(source.transform(topic_type).fingerprint.encode())
            except InvalidClusterGroupIdError as error:
                raise ValueError(str(error)) from error
    return f"sha256:{digest.hexdigest()}"


def load_model(model: type[Model], path: Path, what: str, text: str | None = None) -> Model:
    """Read a JSON file into a pydantic model; errors (``PlanFileError``) name the place in the file, never its content.

    ``what`` names the file in errors; ``text`` is that of the file, if it was read already.
    """
    try:
        return model.model_validate_json(read_plan_file(path, what) if text is None else text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the top"
        raise PlanFileError(f"{what} {path} is not usable, at {where}: {first['msg']}") from error


def write_plan_file(path: Path, text: str) -> None:
    """Replace ``path`` by ``text`` as one step, mode 0600: a reader sees the old file or the new one.

    ``PlanFileError``: it cannot be written; what was there before is untouched.
    """
    with writing(path, PlanFileError):
        write_private_file(path, text.encode())


def read_plan_file(path: Path, what: str) -> str:
    """Return the text of a plan or manifest; ``PlanFileError``: missing, unreadable, not UTF-8, or a name is there twice."""
    try:
        text = read_bounded(path, LARGEST_BYTES).decode()  # no newline is translated: a plan is hashed
        with suppress(json.JSONDecodeError, RecursionError):  # which the caller's parser says
            json.loads(text, object_pairs_hook=members_once)
    except FileNotFoundError:
        raise PlanFileError(f"{what} {path} does not exist") from None
    except OSError as error:
        raise PlanFileError(f"{what} {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PlanFileError(f"{what} {path} is no UTF-8 text") from error
    except ValueError as error:
        raise PlanFileError(f"{what} {path} is not usable: {error}") from None
    return text
