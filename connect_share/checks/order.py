"""Task configurations that Connect drops because of where they lie (KAFKA-16838, KAFKA-17719).

A worker takes task configurations from a commit that comes after them and after their connector. Compaction moves records
apart: it keeps the newest of each key, so a connector that was configured again can end up behind the commit of its tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from connect_share.checks.check import Check, in_each_group
from connect_share.checks.finding import Finding, Severity, place
from connect_share.checks.sources import GroupState
from connect_share.console.output import plural
from connect_share.errors import command_line
from connect_share.model.config_state import ClusterConfigState, TargetState
from connect_share.model.keys import ConfigKey, connector_of, prefix_of, subject_of
from connect_share.model.records import Record, TopicType
from connect_share.model.removal import is_removal

_SILENT: Final = (
    "a starting worker of 3.9 or later gives it no tasks and reports no error; one that runs may still have them"
)
_REPAIR: Final = (
    "stop the workers, and write the task configurations and the commit once more behind the connector",
    command_line("connect-share", "repair", "order", "-w", "FILE"),
)
_CONFIGURE: Final = (
    "restart the connector, or send its configuration to REST once more: its workers then write the tasks anew"
)


class Order:
    """How the task configurations of a group lie.

    Attributes:
        dropped: connectors whose task configurations are all there, and which a worker that starts does not take.
        missing: connectors with a commit of task configurations that are not all there.
        doomed: connectors that lose their tasks, or get other ones, when the cleaner has taken all it may.
        half: connectors with task configurations that no commit follows, and how many.
        records: what would be written to mend ``dropped`` and ``doomed``, in order.
    """

    def __init__(self, state: GroupState) -> None:
        ordered, self._latest = state.kept.history.ordered(), state.kept.history.latest
        now, after = ordered.state, state.kept.history.compacted()
        # A stopped connector has no tasks on purpose; what is left of its earlier ones is never used. Where a value is bad,
        # tasks written behind it would be lost with it all the same: that is another check's.
        states = ConfigKey.TARGET_STATE.prefix
        bad = {connector_of(TopicType.CONFIG, key) for key in state.config_faults if not key.startswith(states)}
        names = sorted(
            now.connectors()
            - bad
            - {name for name in now.connectors() if now.target_state(name) is TargetState.STOPPED}
        )
        self.dropped = [name for name in names if name in ordered.healed]
        self.missing = [name for name in names if name in ordered.left_without_tasks]
        broken = ordered.healed | ordered.left_without_tasks
        self.doomed = [name for name in names if name not in broken and not _same_tasks(name, now, after)]
        behind = self._behind_commit()
        self.half = {name: behind[name] for name in names if name in behind and name not in broken}
        mended = {*self.dropped, *self.doomed}
        self.records = [record for record in ordered.records if self._connector(record, state) in mended]

    def _behind_commit(self) -> dict[str, int]:
        """Return how many task configurations of each connector lie behind its commit, or have none."""
        counts: dict[str, int] = {}
        for original, record in self._latest.items():
            task = subject_of(TopicType.CONFIG, original)
            if task is None or task.kind is not ConfigKey.TASK or is_removal(TopicType.CONFIG, record.value):
                continue
            commit = self._latest.get(ConfigKey.COMMIT.key(task.connector))
            if commit is None or commit.offset < record.offset:
                counts[task.connector] = counts.get(task.connector, 0) + 1
        return counts

    @staticmethod
    def _connector(record: Record, state: GroupState) -> str | None:
        """Return of which connector a record is a task configuration or the commit."""
        subject = subject_of(TopicType.CONFIG, (record.key or b"")[len(prefix_of(state.group)) :])
        if subject is None or subject.kind not in (ConfigKey.TASK, ConfigKey.COMMIT):
            return None
        return subject.connector


def _same_tasks(name: str, now: ClusterConfigState, after: ClusterConfigState) -> bool:
    # As many as there are configurations: more make a connector inconsistent, which then has none.
    tasks = now.tasks(name)
    return tasks == after.tasks(name) and all(now.task_config(task) == after.task_config(task) for task in tasks)


_DROPPED: Final = (
    "its task configurations and their commit lie before the connector's own record, or behind each other",
    _SILENT,
    *_REPAIR,
)
_MISSING: Final = ("its commit is for more tasks than there are configurations", _SILENT, _CONFIGURE)
_DOOMED: Final = (
    "it loses its tasks, or gets other ones, when the cleaner has taken what newer records replace",
    "a worker of 3.9 or later that starts then gives it no tasks, or others, and reports no error",
    *_REPAIR,
)


def find(topic: str, state: GroupState) -> Iterator[Finding]:
    """Yield what is found on the config topic of a group."""
    order = Order(state)

    for names, kind, severity, texts in (
        (order.dropped, "order-tasks-dropped", Severity.ERROR, _DROPPED),
        (order.missing, "order-tasks-missing", Severity.ERROR, _MISSING),
        (order.doomed, "order-compaction", Severity.WARNING, _DOOMED),
    ):
        yield from (Finding(kind, severity, place(topic, state.group, name), *texts) for name in names)
    yield from (
        Finding(
            "order-half-reconfiguration",
            Severity.WARNING,
            place(topic, state.group, name),
            f"{plural(number, 'task configuration')} without a commit behind",
            "a worker writes the commit right after them; one that ended in between leaves them to the next commit",
            f"if no worker is writing right now: {_CONFIGURE}",
        )
        for name, number in order.half.items()
        if name not in order.doomed
    )


CHECK: Final = Check(
    "order",
    "does a connector lose its tasks because of the order of its records?",
    "Look for task configurations that workers do not take, or will not take once the topic was compacted "
    "(KAFKA-17719): a commit before its connector or its tasks, a commit of more tasks than there are, half a "
    "reconfiguration.",
    in_each_group(find, TopicType.CONFIG),
    needs=(TopicType.CONFIG,),
    reads=(TopicType.CONFIG,),
    place=45,
)
