"""What the author of a connector writes: source and sink tasks, by Connect's names, for threads or for an event loop."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from connect_share.model.config_state import MOST_TASKS
from connect_share.model.records import ConnectorTaskId, Headers, Record

T = TypeVar("T")
Perhaps: TypeAlias = T | Awaitable[T]
"""What a method returns, or what gives it on the loop of a runner in ``async with``, where the end cancels a ``poll``."""
Config = Mapping[str, str]
SourceMap = Mapping[str, Any]
TopicPartitionId = tuple[str, int]


class RetriableError(Exception):
    """Not now: ``poll`` is called again, ``put`` with the same records, after pauses that grow from 0.5 s to a minute."""


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A record, and how far the source has been read with it: ``context.offset(source_partition)`` gives that back."""

    source_partition: SourceMap | None = field(repr=False)
    source_offset: SourceMap | None = field(repr=False)
    topic: str
    value: bytes | None = field(repr=False)
    key: bytes | None = field(default=None, repr=False)
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Headers = field(default=(), repr=False)


@dataclass(slots=True)
class TaskContext:
    """What a task knows of where it runs; ``offset`` is for sources, ``assignment`` for sinks.

    Attributes:
        stopping: set when the task is to end; a ``poll`` that waits should wait for this.
        offset: returns the stored offset of a source partition, ``None`` if there is none.
        assignment: topics and partitions that the task has now.
    """

    task: ConnectorTaskId
    stopping: threading.Event
    offset: Callable[[SourceMap | None], dict[str, Any] | None] = field(repr=False)
    assignment: frozenset[TopicPartitionId] = frozenset()


class _ConnectorTask:
    """What all tasks have. The class itself stands for the connector: :meth:`task_configs` says what its tasks are."""

    kind: ClassVar[Literal["source", "sink"]]
    context: TaskContext

    @classmethod
    def task_configs(cls, config: Config, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Return the configuration of each task of a connector; what it raises is the connector's status.

        By default a source has one task, and a sink as many as it may have, 10,000 at most.
        """
        return [config] * (1 if cls.kind == "source" else min(max_tasks, MOST_TASKS))

    def start(self, config: Config) -> Perhaps[None]:
        """Open source or sink."""

    def stop(self) -> Perhaps[None]:
        """Close it; called after a start that failed, too."""


class SourceTask(_ConnectorTask):
    """Reads a source, from where ``self.context.offset(partition)`` says. Methods are called one after the other.

    With ``exactly.once.source.support=enabled`` records and offsets go in one transaction. Otherwise offsets are stored
    behind acknowledged records: after a kill some are given again, and none is lost.
    """

    kind: ClassVar[Literal["source"]] = "source"

    def poll(self) -> Perhaps[Iterable[SourceRecord] | None]:
        """Return what is new; nothing: it is asked again soon. It may wait, but not longer than for ``context.stopping``."""
        raise NotImplementedError

    def commit_record(self, record: SourceRecord) -> Perhaps[None]:
        """A record was written, and its offset stored."""

    def commit(self) -> Perhaps[None]:
        """All records so far were written, and their offsets stored."""


class SinkTask(_ConnectorTask):
    """Writes records somewhere, each at least once. Methods are called one after the other."""

    kind: ClassVar[Literal["sink"]] = "sink"

    def open(self, partitions: Sequence[TopicPartitionId]) -> Perhaps[None]:
        """This task has these from now on."""

    def put(self, records: Sequence[Record]) -> Perhaps[None]:
        """Take records; after a ``RetriableError`` the same come again."""
        raise NotImplementedError

    def flush(self, offsets: Mapping[TopicPartitionId, int]) -> Perhaps[None]:
        """Make sure of everything that was put: these offsets, each behind the last record, are committed next."""

    def pre_commit(self, offsets: Mapping[TopicPartitionId, int]) -> Perhaps[Mapping[TopicPartitionId, int]]:
        """Return what may be committed, at most these offsets: in place of :meth:`flush`, where the task knows better."""
        return offsets

    def close(self, partitions: Sequence[TopicPartitionId]) -> Perhaps[None]:
        """This task has these no longer; what was put of them was committed, unless another has them already."""


Task = SourceTask | SinkTask
