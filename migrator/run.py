"""A plan with everything that belongs to it, read once: what a user confirms is the object that is applied.

Its manifest says what was done with it. It is written before the first record and while slices end.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import Field, NonNegativeInt

from connect_share.backup.backup_file import BackupFile
from connect_share.backup.record_file import remove_half_written
from connect_share.errors import PlanFileError, PlanRejectedError, command_line
from connect_share.files import lock_alone, open_to_lock
from connect_share.model.config_state import TargetState
from connect_share.model.records import OffsetRange, TopicType
from connect_share.sealing import KEYS_PROPERTY, SEALING_PROPERTY
from connect_share.transform.sealed import Sealing
from connect_share.worker_config import SHARING_PROPERTY, WorkerConfig
from connect_share.worker_config.worker import file_of
from migrator.copy.copy_job import LOCAL_ENGINE, SliceEvidence, Wave
from migrator.plan import MigrationPlan, PlannedSealing, PlanPart, SourceCluster, load_model, read_plan_file

MANIFEST_FORMAT: Final = "connect-share/migration-manifest/2"


def plan_command(verb: str, plan: Path | str) -> str:
    """Return a command with a plan."""
    return command_line("connect-share-migrate", verb, plan)


class MigrationStatus(enum.Enum):
    """The progress of a plan.

    ``PLANNED``: writing was allowed to begin and has not ended; the destination holds nothing or a part.
    ``COPIED``: every slice is there. ``VERIFIED``: both sides were found equal too. ``CUT_OVER``: the source was fenced
    and sealed too; new workers may run. ``ROLLED_BACK``: what was written was removed again.
    """

    PLANNED = "planned"
    COPIED = "copied"
    VERIFIED = "verified"
    CUT_OVER = "cut_over"
    ROLLED_BACK = "rolled_back"


IS_COPIED: Final = (MigrationStatus.COPIED, MigrationStatus.VERIFIED, MigrationStatus.CUT_OVER)


class WrittenTopic(PlanPart):
    """A destination topic as it was when writing began.

    Attributes:
        end_offsets: per partition the end before the first record was written.
    """

    topic: str
    topic_id: str | None
    created: bool
    end_offsets: dict[int, NonNegativeInt]


class Followed(PlanPart):
    """The mirroring of a live source behind the planned ends.

    Attributes:
        positions: per source topic partition (``Manifest.place``) the next offset to be read.
        destination_ends: per topic type and partition where the destination ended when nothing under the plan's keys was of
            others. Behind it lies what a killed run has left, and what new workers have written.
        written: records written while following.
    """

    positions: dict[str, NonNegativeInt] = Field(default_factory=dict)
    destination_ends: dict[TopicType, dict[int, NonNegativeInt]] = Field(default_factory=dict)
    written: int = 0


class Sealed(PlanPart):
    """The records written to the source so that a worker started there by mistake runs nothing.

    Attributes:
        how: ``stop`` wrote the target state STOPPED, ``remove`` removed the records that were moved.
        records: how many were written.
        target_states: per source the target state that each connector had before ``stop``; the cleaner takes the records.
    """

    how: Literal["stop", "remove"]
    records: int
    at_ms: int
    target_states: tuple[dict[str, TargetState], ...] = ()


class SourceFence(PlanPart):
    """What keeps old workers from starting on the config topic of sources.

    Attributes:
        sources: their places in the plan; each has a record that fences it.
        settings: the topic's own settings before, ``None``: a default; empty: those of the topic were not changed.
        objection: why they were not; ``None``: they were.
        is_refused: because the brokers refused it.
    """

    topic: str
    sources: tuple[int, ...]
    settings: dict[str, str | None] = Field(default_factory=dict)
    objection: str | None = None
    is_refused: bool = False


class GroupDigest(PlanPart):
    """The living records of one group in one topic.

    Attributes:
        keys: keys whose newest record has a value.
        digest: sum modulo 2**64 over those records of a hash of place, timestamp, key, value and headers.
    """

    keys: int
    digest: str


class TopicBaseline(PlanPart):
    """One destination topic before the first write.

    Attributes:
        ends: per partition the end of what was read, that of committed records, exclusive.
        groups: by group; illegal keys and plain keys count as one group each.
    """

    ends: dict[int, NonNegativeInt]
    groups: dict[str, GroupDigest]


class Manifest(PlanPart):
    """The record of one ``apply``.

    Attributes:
        plan_sha256: of the plan file's bytes.
        destination: the topics written to, as they were before.
        resumed: how often an interrupted run was continued.
        evidence: of the slices that were copied to their end.
        wave: the slices that began last, if they do not begin all at once.
        followed: how far the source was mirrored afterwards.
        sealed: what was done to the source after the cut-over.
        fences: what keeps its workers from starting, noted before it is put up.
        isolation: the records of other groups at the destination before the first write, with ``--isolation-proof``.
        backup: the file that holds what was read and replaced; ``None``: no backup was wanted.
        mirrored_backup: the file with what was mirrored behind it, made before originals are removed.
    """

    format: Literal["connect-share/migration-manifest/2"] = MANIFEST_FORMAT
    run_id: str
    plan_sha256: str
    fingerprint: str
    engine: str
    status: MigrationStatus
    started_at_ms: int
    finished_at_ms: int | None = None
    destination: dict[TopicType, WrittenTopic]
    slices_planned: int
    resumed: int = 0
    evidence: tuple[SliceEvidence, ...] = ()
    wave: Wave | None = None
    followed: Followed | None = None
    sealed: Sealed | None = None
    fences: tuple[SourceFence, ...] = ()
    isolation: dict[TopicType, TopicBaseline] | None = None
    backup: BackupFile | None = None
    mirrored_backup: BackupFile | None = None

    @property
    def may_go_on(self) -> bool:
        """Whether a task that its engine gave up may still write, also of a copy that was resumed in this process."""
        return self.engine != LOCAL_ENGINE or self.wave is not None

    @property
    def records_written(self) -> int:
        """Records acknowledged so far, markers not counted."""
        return sum(evidence.written for evidence in self.evidence)

    @staticmethod
    def place(source_index: int, offset_range: OffsetRange) -> str:
        """Return the name of a source partition inside :class:`Followed`."""
        return f"{source_index}/{offset_range.topic}[{offset_range.partition}]"

    def read_ranges_of(self, source_index: int, planned: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
        """Return the source ranges that were copied: the planned ones, and what was mirrored behind them."""
        positions = {} if self.followed is None else self.followed.positions
        return tuple(each._replace(end=positions.get(self.place(source_index, each), each.end)) for each in planned)

    def written_up_to(self, topic_type: TopicType, evidence: Iterable[SliceEvidence] = ()) -> dict[int, int]:
        """Return per partition the end of what the plan has written to a topic, or else the end there was before.

        ``evidence`` is that of what was mirrored and is not noted yet.
        """
        ends = dict(self.destination[topic_type].end_offsets)
        if self.followed is not None:
            for number, end in self.followed.destination_ends.get(topic_type, {}).items():
                ends[number] = max(ends.get(number, 0), end)
        for each in (*self.evidence, *evidence):
            if each.topic_type is topic_type:
                for number, (_, offset) in each.destination_offsets.items():
                    ends[number] = max(ends.get(number, 0), offset + 1)
        return ends

    @classmethod
    def load(cls, path: Path) -> Manifest:
        """Read a manifest.

        Raises:
            PlanFileError: missing or damaged.
        """
        return load_model(cls, path, "manifest")


def manifest_path(plan_path: Path) -> Path:
    """Return where the manifest of a plan is: ``move.json`` has ``move.manifest.json``."""
    return plan_path.with_name(f"{plan_path.stem}.manifest.json")


def backup_path(plan_path: Path, what: str = "backup") -> Path:
    """Return where the backup of a plan is: ``move.json`` has ``move.backup.avro``, and ``move.mirrored.avro``."""
    return plan_path.with_name(f"{plan_path.stem}.{what}.avro")


@dataclass
class PlannedSource:
    """A source of a plan, and its worker files.

    Attributes:
        index: its place in the plan, by which files name it.
        plan: what the plan says of it.
        worker: of its own worker file.
        destination: of the worker file used for writing.
        destination_cluster: id of the Kafka cluster to which that leads.
    """

    index: int
    plan: SourceCluster
    worker: WorkerConfig
    destination: WorkerConfig
    destination_cluster: str | None = None

    @classmethod
    def load(cls, plan: MigrationPlan, index: int) -> Self:
        """Read its worker files, which have to say what they said when the plan was made."""
        source, there = plan.sources[index], plan.destination
        file, own = source.worker_config_file, {kind: topic.topic for kind, topic in source.topics.items()}
        worker = _load_worker(file, source.group_id, own, source.sealing, sharing=source.sharing)
        if source.sealing is not None and worker.sealing_mode is not source.sealing.mode:
            raise _changed(file, [SEALING_PROPERTY])
        # A prefix that is the source's own group.id may come from one destination file for several sources.
        group_id = None if source.cluster_group_id == source.group_id else source.cluster_group_id
        file, sharing = source.destination_worker_config_file, source.cluster_group_id is not None
        shared = {kind: topic.topic for kind, topic in there.topics.items()}
        destination = _load_worker(file, group_id, shared, source.destination_sealing, sharing=sharing)
        return cls(index, source, worker, destination, there.kafka_cluster_id)

    @property
    def sealing(self) -> Sealing:
        """What opens its values."""
        return Sealing.of(self.worker, as_is=self.plan.sealed_as_is)

    @property
    def destination_sealing(self) -> Sealing:
        """What seals their copies, and opens them."""
        return Sealing.of(self.destination, as_is=self.plan.sealed_as_is)

    @property
    def new_group_id(self) -> str:
        """``group.id`` of the workers that will run on the destination."""
        return self.plan.cluster_group_id or self.destination.group_id

    @property
    def stays_on_cluster(self) -> bool:
        """Whether both sides are on one Kafka cluster."""
        return self.plan.kafka_cluster_id == self.destination_cluster

    @property
    def keeps_its_members(self) -> bool:
        """Whether Kafka cannot tell old workers from new ones: one Kafka cluster, one ``group.id``."""
        return self.stays_on_cluster and self.new_group_id == self.plan.group_id


@dataclass
class MigrationRun:
    """One plan, the worker files that it names and its manifest.

    Attributes:
        sources: in the order of the plan.
        manifest: what was done with the plan so far; ``None``: nothing.
    """

    plan_path: Path
    plan_text: str
    plan: MigrationPlan
    sources: list[PlannedSource]
    manifest: Manifest | None

    @classmethod
    def load(cls, plan_path: Path | str) -> MigrationRun:
        """Read the plan, its worker files and its manifest.

        Raises:
            PlanFileError: a file is missing or damaged.
            ConfigError: a worker file is wrong.
            PlanRejectedError: a worker file says something else than when the plan was made.
        """
        path = Path(plan_path)
        text = read_plan_file(path, "plan")
        plan = MigrationPlan.load(path, text)
        run = cls(path, text, plan, [PlannedSource.load(plan, index) for index in range(len(plan.sources))], None)
        if run.manifest_path.exists():
            run.manifest = Manifest.load(run.manifest_path)
        return run

    @property
    def workers(self) -> list[WorkerConfig]:
        """Those of the sources."""
        return [source.worker for source in self.sources]

    @property
    def destinations(self) -> list[WorkerConfig]:
        """For each source that of its destination."""
        return [source.destination for source in self.sources]

    @property
    def destination(self) -> WorkerConfig:
        """The worker of the destination; those of several sources name the same topics."""
        return self.sources[0].destination

    @cached_property
    def groups(self) -> dict[str | None, WorkerConfig]:
        """The groups that the sources become (``None``: plain keys), and a worker of each."""
        return {source.plan.cluster_group_id: source.destination for source in self.sources}

    @property
    def manifest_path(self) -> Path:
        """The place of the manifest, beside the plan."""
        return manifest_path(self.plan_path)

    def command(self, verb: str) -> str:
        """Return a command with this plan."""
        return plan_command(verb, self.plan_path)

    @cached_property
    def plan_sha256(self) -> str:
        """The hash of the plan file's bytes."""
        return hashlib.sha256(self.plan_text.encode()).hexdigest()

    def applied(self) -> Manifest:
        """Return the manifest of a plan that was applied; ``PlanFileError``: there is none, or it is that of another plan."""
        if self.manifest is None:
            raise PlanFileError(
                f"there is no manifest {self.manifest_path}: nothing was written to Kafka with this plan from here; begin "
                f"with {self.command('apply')}"
            )
        if self.manifest.plan_sha256 != self.plan_sha256 or self.manifest.run_id != self.plan.run_id:
            raise PlanFileError(
                f"{self.plan_path} is not the plan that {self.manifest_path} was written for: it was changed since; put "
                "the plan that was applied back"
            )
        return self.manifest

    def save(self, manifest: Manifest) -> Manifest:
        """Write the manifest, which is that of this run from now on."""
        manifest.save(self.manifest_path)
        self.manifest = manifest
        return manifest

    def update(self, **changes: Any) -> Manifest:
        """Write the manifest with some members changed."""
        return self.save(self.applied().model_copy(update=changes))

    def reload_manifest(self) -> Manifest:
        """Read the manifest again: another process has held the plan since."""
        self.manifest = Manifest.load(self.manifest_path) if self.manifest_path.exists() else None
        return self.applied()


@contextmanager
def locked_run(plan_path: Path | str) -> Iterator[MigrationRun]:
    """Load a plan while no other process works with it; raises as :func:`only_one`."""
    with only_one(Path(plan_path)):
        yield MigrationRun.load(plan_path)


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Lock the plan, so that two runs never write at once; the system unlocks it when the process ends.

    What a run that was killed has left of a backup is removed first: it holds secrets.

    Raises:
        PlanFileError: the plan cannot be read.
        AlreadyAppliedError: another process has locked it.
    """
    try:
        file = open_to_lock(path)
    except FileNotFoundError:
        raise PlanFileError(f"plan {path} does not exist") from None
    except OSError as error:
        raise PlanFileError(f"plan {path} cannot be read: {error.strerror}") from error
    with file:
        lock_alone(file, f"is applying {path}")
        remove_half_written(path.parent)
        yield


def _load_worker(
    file: str,
    group_id: str | None,
    topics: Mapping[TopicType, str],
    sealing: PlannedSealing | None,
    *,
    sharing: bool,
) -> WorkerConfig:
    """Read a worker file that has to say what it said when the plan was made; ``group_id`` ``None``: any."""
    path = file_of(Path(file))
    if not path.exists():
        raise PlanFileError(
            f"the worker file {path} that the plan names is not there; put it there, or as {path.name} beside the plan"
        )
    worker = WorkerConfig.from_file(file)
    changed = [
        f"{topic_type.value}.storage.topic" for topic_type, topic in topics.items() if worker.topic(topic_type) != topic
    ]
    if group_id is not None and worker.group_id != group_id:
        changed.append("group.id")
    if worker.sharing_enabled is not sharing:
        changed.append(SHARING_PROPERTY)
    keys = worker.keys_in_use
    # A key of the plan may not be missing, and there may be none where there were none; more keys do no harm.
    if keys is not None if sealing is None else keys is None or not sealing.is_part_of(keys):
        changed.append(KEYS_PROPERTY)
    if changed:
        raise _changed(file, changed)
    return worker


def _changed(file: str, properties: Iterable[str]) -> PlanRejectedError:
    return PlanRejectedError(
        f"worker file {file} was changed since the plan was made ({', '.join(properties)}); make a new plan"
    )
