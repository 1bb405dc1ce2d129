"""The parts of a repair plan: steps, the conditions of each step, and the reasons why a topic is not repaired."""

from __future__ import annotations

import enum
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from connect_share.topic_ids.authority.authority import INTERNAL_TOPICS, Authority, AuthorityTopic, MetadataMode
from connect_share.topic_ids.compare.compare import Comparison, IdFindingKind
from connect_share.topic_ids.scan.scanner import METADATA_FILE
from connect_share.topic_ids.scan.scans import PartitionDirectory

STOPPED: Final = "the broker's process is gone, and nothing holds the lock on .lock in its log dirs"
BACKED_UP: Final = "the backup is there, with checksums"
LEFT_ALONE: Final = {
    IdFindingKind.DELETE_DIRECTORY: "directories named -delete go away by themselves after file.delete.delay.ms",
    IdFindingKind.FUTURE_DIRECTORY: "a move between log dirs is under way, the broker finishes it",
}


class RepairMethod(enum.StrEnum):
    """Ways to repair, the least dangerous first."""

    WRITE_BACK = "write-back"
    """Write the original id into the znode: no broker is restarted, no file is touched."""
    WRITE_BACK_AND_FILES = "write-back-and-files"
    FILES = "files"
    """Write ``partition.metadata`` of stopped brokers, one broker after the other."""
    STRAY_RECOVERY = "stray-recovery"
    """Put directories back that KRaft brokers have set aside."""


class StepAction(enum.StrEnum):
    """The kinds of steps."""

    BACK_UP = "back-up"
    PAUSE = "pause"
    WRITE_ZNODE = "write-znode"
    CHANGE_CONTROLLER = "change-controller"
    STOP_BROKER = "stop-broker"
    WRITE_FILE = "write-file"
    MOVE_ASIDE = "move-aside"
    RENAME = "rename"
    START_BROKER = "start-broker"
    CHECK = "check"


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One step of a plan.

    Attributes:
        text: for people.
        before: conditions that must hold before it.
        path: of the znode, or of the file or directory on the broker.
        topic_id: the id to write.
        version: of the znode to replace; ``None``: to be looked up.
        command: to do it by hand.
        unproven: only a person can check one of the conditions, so no program does this step.
    """

    action: StepAction
    text: str
    before: tuple[str, ...] = ()
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    path: str | None = None
    topic_id: str | None = None
    version: int | None = None
    command: str | None = None
    unproven: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON members, without those that do not apply."""
        return {name: value for name, value in asdict(self).items() if value is not None and value is not False}


@dataclass(frozen=True, slots=True)
class TopicRepair:
    """The method for one topic, and its id after the repair."""

    topic: str
    method: RepairMethod
    topic_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Unrepaired:
    """The reason why a topic is not repaired; ``topic`` is ``None`` if it holds for all topics."""

    topic: str | None
    reason: str


@dataclass
class RepairPlan:
    """A whole repair.

    Attributes:
        refused: topics that cannot be repaired safely with what is known.
        left: topics that need no repair, or are best left alone.
    """

    mode: MetadataMode
    topics: list[TopicRepair] = field(default_factory=list)
    steps: list[RepairStep] = field(default_factory=list)
    refused: list[Unrepaired] = field(default_factory=list)
    left: list[Unrepaired] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON members."""
        steps = [{"step": number, **one.to_dict()} for number, one in enumerate(self.steps, 1)]
        return {**asdict(self), "steps": steps}

    def refuse(self, topic: str | None, reason: object) -> None:
        """Add a reason why a topic, or none at all, is repaired."""
        self.refused.append(Unrepaired(topic, str(reason)))

    def leave(self, topic: str, reason: object) -> None:
        """Add a reason why a topic is left alone."""
        self.left.append(Unrepaired(topic, str(reason)))

    @contextmanager
    def judging(self, topic: str) -> Iterator[None]:
        """Add the reason, if what is judged in the block is refused or left alone."""
        try:
            yield
        except RefusedError as exc:
            self.refuse(topic, exc)
        except LeftAloneError as exc:
            self.leave(topic, exc)

    def add_back_up(self, paths: Sequence[str]) -> None:
        """Add the step that keeps everything that the plan changes."""
        text = f"keep what is changed, with SHA-256 checksums: {', '.join(paths)}"
        self.steps.append(RepairStep(StepAction.BACK_UP, text))

    def add_check(self, authority: Authority) -> None:
        """Add the step that checks the result."""
        text = (
            f"scan all brokers again and run check topic-ids against {authority.source}: no finding but directories that "
            "wait for their deletion; kafka-topics --describe shows the same ids, and the ISR is full everywhere"
        )
        self.steps.append(RepairStep(StepAction.CHECK, text))

    def brokers(self, action: StepAction) -> set[int]:
        """Return the brokers with a step of this kind."""
        return {one.broker for one in self.steps if one.action is action and one.broker is not None}

    def has(self, action: StepAction) -> bool:
        """Return whether there is a step of this kind."""
        return any(one.action is action for one in self.steps)


class RefusedError(Exception):
    """A topic cannot be repaired; the text is the reason."""


class LeftAloneError(Exception):
    """A topic, or a partition of it, is best left alone; the text is the reason."""


def refuse_tiered(topic: AuthorityTopic, found: Comparison) -> None:
    """Raise ``RefusedError`` if the topic may use tiered storage."""
    if topic.remote_storage:
        raise RefusedError("it uses tiered storage, whose segments go by topic id: repairs with it were never tried")
    if topic.remote_storage is None and (found.authority.tiered_storage or found.scans.tiered_storage):
        raise RefusedError("the cluster uses tiered storage, and whether this topic does is not known")


def refuse_internal(topic: AuthorityTopic) -> None:
    """Raise ``RefusedError`` for topics whose files must not be changed."""
    if topic.name in INTERNAL_TOPICS:
        raise RefusedError(
            "is one of Kafka's own topics: only the write into the znode was tried with these, no change of files"
        )


def refuse_unread(topic: AuthorityTopic, found: Comparison) -> None:
    """Raise ``RefusedError`` if a broker of the topic was not scanned completely."""
    incomplete = {one.broker for one in found.scans.log_dirs if one.status != "ok"}
    missing = sorted(topic.brokers() - (found.scans.brokers - incomplete))
    if missing:
        raise RefusedError(
            f"its replicas on {brokers_text(missing)} were not all read: scan every log dir of every broker that has one"
        )


def brokers_text(brokers: Iterable[int]) -> str:
    """Return ``broker 1``, or ``brokers 1, 2``, in the order given."""
    names = list(map(str, brokers))
    return f"broker{'' if len(names) == 1 else 's'} {', '.join(names)}"


def stop_step(broker: int, before: Sequence[str]) -> RepairStep:
    """Return the step that stops one broker."""
    text = f"stop broker {broker}, cleanly (not kill -9)"
    return RepairStep(StepAction.STOP_BROKER, text, tuple(before), broker=broker)


def start_step(broker: int, before: Sequence[str] = ()) -> RepairStep:
    """Return the step that starts one broker again."""
    return RepairStep(StepAction.START_BROKER, f"start broker {broker}", tuple(before), broker=broker)


def write_file_step(
    one: PartitionDirectory, folder: str, topic: str, topic_id: str, before: Sequence[str], *, unproven: bool = False
) -> RepairStep:
    """Return the step that writes ``partition.metadata``: a broker dies of an empty file, and of one only root can read."""
    path = f"{folder}/{METADATA_FILE}"
    old, new = shlex.quote(path), shlex.quote(path + ".new")
    return RepairStep(
        StepAction.WRITE_FILE,
        f"write id {topic_id} into {path}: to a temporary name, flushed, then renamed; same owner and mode; "
        "leader-epoch-checkpoint is not touched",
        (STOPPED, BACKED_UP, *before),
        topic=topic,
        partition=one.partition,
        broker=one.broker,
        path=path,
        topic_id=topic_id,
        unproven=unproven,
        command=f"(umask 022; printf 'version: 0\\ntopic_id: {topic_id}' > {new}) && sync {new} && mv {new} {old}",
    )
