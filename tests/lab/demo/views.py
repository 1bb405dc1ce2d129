"""Views of a Connect cluster, from a worker's REST interface or from the Python stores, and their differences.

A view holds configurations and offsets, so it is compared in memory and never written anywhere; what leaves
this module are counts, states, names and the names of what differs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from connect_share.model.records import ConnectorTaskId
from connect_share.storage import ConnectStorage

# REST shows no target state. A connector's state says it: PAUSED and STOPPED are as wanted, all others STARTED.
_TARGET_OF_STATE = {"PAUSED": "PAUSED", "STOPPED": "STOPPED"}

STATUS_FIELDS: Final = ("state", "worker_id", "version", "trace")


@dataclass(frozen=True, slots=True)
class StatusView:
    """One status, as both sides show it."""

    state: str
    worker_id: str
    version: str | None
    trace: str | None


@dataclass(frozen=True, slots=True, repr=False)
class ConnectorView:
    """Everything both sides know about one connector.

    Attributes:
        target_state: what the user wants it to be, by Connect's name.
        topics: active topics.
        offsets: source partitions to offsets, both as canonical JSON; empty for sinks, whose offsets are those of a
            consumer group and stay where they are.
    """

    config: Mapping[str, str]
    target_state: str
    status: StatusView | None
    tasks: Mapping[int, StatusView | None]
    topics: frozenset[str]
    offsets: Mapping[str, str]


ClusterView = Mapping[str, ConnectorView]


class Shown(BaseModel):
    """A part of the demo's result: names and numbers, no configuration and no offset."""

    model_config = ConfigDict(frozen=True)


class ConnectorLine(Shown):
    """The state of one connector as it has to be, and as it was found; ``None`` where it is absent."""

    connector: str
    wanted: str | None
    found: str | None
    differences: tuple[str, ...]


class GroupComparison(Shown):
    """One cluster group in numbers, as it has to be, and as it was found."""

    cluster_group_id: str
    wanted: str
    found: str
    connectors: tuple[ConnectorLine, ...]

    @property
    def equal(self) -> bool:
        """Whether nothing at all differs."""
        return not any(line.differences for line in self.connectors)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {state}" for state, number in sorted(counts.items())) or "none"


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True)


def view_from_rest(
    expanded: Mapping[str, Any], topics: Mapping[str, Sequence[str]], offsets: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, ConnectorView]:
    """Return a view of what a worker answered.

    Args:
        expanded: ``GET /connectors?expand=info&expand=status``.
        topics: per connector, ``GET /connectors/C/topics``.
        offsets: per connector, the list in ``GET /connectors/C/offsets``.
    """
    view: dict[str, ConnectorView] = {}
    for name, answer in expanded.items():
        info, status = answer["info"], answer["status"]
        statuses = {task["id"]: _status_of(task) for task in status["tasks"]}
        source = info["type"] == "source"
        view[name] = ConnectorView(
            config=dict(info["config"]),
            target_state=_TARGET_OF_STATE.get(status["connector"]["state"], "STARTED"),
            status=_status_of(status["connector"]),
            tasks={task["task"]: statuses.get(task["task"]) for task in info["tasks"]},
            topics=frozenset(topics[name]),
            offsets={_canonical(each["partition"]): _canonical(each["offset"]) for each in offsets[name]}
            if source
            else {},
        )
    return view


def _status_of(answer: Mapping[str, Any]) -> StatusView:
    return StatusView(answer["state"], answer["worker_id"], answer.get("version"), answer.get("trace"))


def view_from_storage(storage: ConnectStorage) -> dict[str, ConnectorView]:
    """Return a view of the state that started stores have."""
    config, statuses = storage.config.snapshot(), storage.status.snapshot()
    view: dict[str, ConnectorView] = {}
    for name in config.connectors():
        target = config.target_state(name)
        partitions = storage.offsets.connector_partitions(name)
        found = storage.offset_reader(name).offsets(partitions)
        view[name] = ConnectorView(
            config=config.connector_config(name) or {},
            target_state="STARTED" if target is None else target.name,
            status=_status_in_store(statuses.connector_status(name)),
            tasks={
                task.task: _status_in_store(statuses.task_status(ConnectorTaskId(name, task.task)))
                for task in config.tasks(name)
            },
            topics=statuses.topics(name),
            offsets={_canonical(partition): _canonical(offset) for partition, offset in found},
        )
    return view


def _status_in_store(status: Any) -> StatusView | None:
    return status and StatusView(status.state.name, status.worker_id, status.version, status.trace)


def count(view: ClusterView) -> str:
    """Return a view in numbers: fit to be shown."""
    connectors = view.values()
    states = Counter(_state_text(connector.status) for connector in connectors)
    tasks = Counter(_state_text(status) for connector in connectors for status in connector.tasks.values())
    properties, topics, offsets = (
        (
            sum(len(part) for part in parts)
            for parts in zip(*((each.config, each.topics, each.offsets) for each in connectors), strict=True)
        )
        if view
        else (0, 0, 0)
    )
    return (
        f"{len(view)} connectors ({_listed(states)}), {tasks.total()} tasks ({_listed(tasks)}), {properties} properties, "
        f"{topics} active topics, {offsets} source offsets"
    )


def _state_text(status: StatusView | None) -> str:
    return "no status" if status is None else status.state


def compare_views(
    cluster_group_id: str,
    wanted: ClusterView,
    found: ClusterView,
    sides: tuple[str, str] = ("REST", "the stores"),
    status_fields: Sequence[str] = STATUS_FIELDS,
) -> GroupComparison:
    """Compare a cluster on two sides, connectors by name; what differs is named, never shown.

    Args:
        cluster_group_id: of the cluster.
        wanted: one side.
        found: the other side.
        sides: names of the two.
        status_fields: members of a status that have to be the same.
    """
    lines = []
    for name in sorted(wanted.keys() | found.keys()):
        one, other = wanted.get(name), found.get(name)
        if one is None or other is None:
            differences = [f"missing in {sides[1]}" if other is None else f"only in {sides[1]}"]
        else:
            differences = list(_differences(one, other, sides, status_fields))
        states = [None if each is None else _state_text(each.status) for each in (one, other)]
        lines.append(ConnectorLine(connector=name, wanted=states[0], found=states[1], differences=tuple(differences)))
    return GroupComparison(
        cluster_group_id=cluster_group_id, wanted=count(wanted), found=count(found), connectors=tuple(lines)
    )


def _differences(
    there: ConnectorView, here: ConnectorView, sides: tuple[str, str], status_fields: Sequence[str]
) -> Iterator[str]:
    for name in sorted(there.config.keys() | here.config.keys()):
        if there.config.get(name) != here.config.get(name):
            yield f"property {name}"
    if there.target_state != here.target_state:
        yield f"target state {there.target_state} / {here.target_state}"
    statuses = [("connector status", there.status, here.status)]
    for task in sorted(there.tasks.keys() | here.tasks.keys()):
        if task in there.tasks and task in here.tasks:
            statuses.append((f"status of task {task}", there.tasks[task], here.tasks[task]))
        else:
            yield f"task {task}"
    for what, one, other in statuses:
        if one is not None and other is not None:
            yield from (f"{what}: {field}" for field in status_fields if getattr(one, field) != getattr(other, field))
        elif one is not other:
            yield f"{what} missing in {sides[1] if other is None else sides[0]}"
    if there.topics != here.topics:
        yield f"{len(there.topics ^ here.topics)} active topics"
    if unequal := {partition for partition, _ in there.offsets.items() ^ here.offsets.items()}:
        yield f"{len(unequal)} source offsets"
