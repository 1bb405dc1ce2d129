"""What plans of repairs are made of: steps, what must hold before each, and why something is not done."""

from __future__ import annotations

import enum
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from connect_share.topic_ids.authority.authority import INTERNAL_TOPICS, Authority, AuthorityTopic, Mode
from connect_share.topic_ids.compare.compare import Comparison
from connect_share.topic_ids.scan.scanner import METADATA_FILE
from connect_share.topic_ids.scan.scans import PartitionDirectory


class Method(enum.Enum):
    """Ways to repair, the least dangerous first."""

    WRITE_BACK = "write-back"
    """The original id goes back into the znode: no broker is restarted, no file is touched."""
    WRITE_BACK_AND_FILES = "write-back-and-files"
    FILES = "files"
    """``partition.metadata`` is written while the broker is stopped, one broker after the other."""
    STRAY_RECOVERY = "stray-recovery"
    """What a KRaft broker has set aside is put back."""


class Action(enum.Enum):
    """What a step does."""

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
class Step:
    """One thing to do.

    Attributes:
        text: what, for people.
        before: what must hold before it is done.
        path: of the znode, or of the file or directory on the broker.
        topic_id: that is written.
        version: of the znode the write goes over; ``None`` in a write: to be looked up.
        command: how to do it by hand.
        unproven: a check before it needs a person, so no program does it.
    """

    action: Action
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
        """Give it as JSON; what does not apply is left out."""
        found: dict[str, Any] = {"action": self.action.value, "text": self.text, "before": list(self.before)}
        for name in ("topic", "partition", "broker", "path", "topic_id", "version", "command"):
            value = getattr(self, name)
            if value is not None:
                found[name] = value
        if self.unproven:
            found["unproven"] = True
        return found


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What is done for a topic, and the id it has afterwards."""

    topic: str
    method: Method
    topic_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why nothing is done for a topic; ``None``: for none at all."""

    topic: str | None
    reason: str


@dataclass
class Plan:
    """A whole repair.

    Attributes:
        refused: what is wrong and cannot be repaired safely with what is known.
        left: what is best left alone, or needs nothing.
    """

    mode: Mode
    topics: list[TopicPlan] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    refused: list[Verdict] = field(default_factory=list)
    left: list[Verdict] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Give it as JSON."""
        return {
            "mode": self.mode.value,
            "topics": [
                {"topic": one.topic, "method": one.method.value, "topic_id": one.topic_id, "why": one.why}
                for one in self.topics
            ],
            "steps": [{"step": number, **one.to_dict()} for number, one in enumerate(self.steps, 1)],
            "refused": [{"topic": one.topic, "reason": one.reason} for one in self.refused],
            "left": [{"topic": one.topic, "reason": one.reason} for one in self.left],
        }


STOPPED: Final = "the broker's process is gone, and nothing holds the lock on .lock in its log dirs"
BACKED_UP: Final = "the backup is there, with checksums"


def tiered(topic: AuthorityTopic, found: Comparison) -> str | None:
    """Say why a topic must not be touched for tiered storage; ``None``: it may be."""
    if topic.remote_storage:
        return "it uses tiered storage, whose segments go by topic id: repairs with it were never tried"
    if topic.remote_storage is None and (found.authority.tiered_storage or found.scans.tiered_storage):
        return "the cluster uses tiered storage, and whether this topic does is not known"
    return None


def internal(topic: AuthorityTopic) -> str | None:
    """Say why files of a topic must not be touched; ``None``: they may be."""
    if topic.name not in INTERNAL_TOPICS:
        return None
    return "is one of Kafka's own topics: only the write into the znode was tried with these, no change of files"


def not_read(topic: AuthorityTopic, found: Comparison) -> str | None:
    """Say which replicas of a topic were not seen; ``None``: all were."""
    half = {one.broker for one in found.scans.log_dirs if one.status != "ok"}
    missing = sorted(
        {broker for one in topic.partitions.values() for broker in one.replicas}
        & (half | ({broker for one in topic.partitions.values() for broker in one.replicas} - found.scans.brokers))
    )
    if not missing:
        return None
    return f"its replicas on {brokers_text(missing)} were not all read: scan every log dir of every broker that has one"


def brokers_text(brokers: Sequence[int]) -> str:
    """Name brokers: ``broker 1``, ``brokers 1, 2``."""
    return f"broker{'' if len(brokers) == 1 else 's'} {', '.join(map(str, brokers))}"


def back_up(paths: Sequence[str]) -> Step:
    """Keep everything that the plan touches."""
    return Step(
        Action.BACK_UP,
        f"keep what is changed, with SHA-256 checksums: {', '.join(paths)}",
    )


def stop_broker(broker: int, before: Sequence[str]) -> Step:
    """Stop one broker, cleanly."""
    return Step(Action.STOP_BROKER, f"stop broker {broker}, cleanly (not kill -9)", tuple(before), broker=broker)


def start_broker(broker: int, before: Sequence[str] = ()) -> Step:
    """Start one broker again."""
    return Step(Action.START_BROKER, f"start broker {broker}", tuple(before), broker=broker)


def write_file(
    one: PartitionDirectory, folder: str, topic: str, topic_id: str, before: Sequence[str], *, unproven: bool = False
) -> Step:
    """Write ``partition.metadata``: to another name first, because an empty file keeps the broker from starting."""
    path = f"{folder}/{METADATA_FILE}"
    new = shlex.quote(path + ".new")
    return Step(
        Action.WRITE_FILE,
        f"write id {topic_id} into {path}: to a temporary name, flushed, then renamed; same owner and mode; "
        "leader-epoch-checkpoint is not touched",
        (STOPPED, BACKED_UP, *before),
        topic=topic,
        partition=one.partition,
        broker=one.broker,
        path=path,
        topic_id=topic_id,
        unproven=unproven,
        command=f"printf 'version: 0\\ntopic_id: {topic_id}' > {new} && sync {new} && mv {new} {shlex.quote(path)}",
    )


def check_again(authority: Authority) -> Step:
    """Look whether it is all well."""
    return Step(
        Action.CHECK,
        f"scan all brokers again and run check topic-ids against {authority.source}: no finding but directories that "
        "wait for their deletion; kafka-topics --describe shows the same ids, and the ISR is full everywhere",
    )
