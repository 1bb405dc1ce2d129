"""Views of a Connect cluster, from a worker's REST interface or from the Python stores, and their differences.

A view holds configurations and offsets, so it is compared in memory and never written anywhere; what leaves
this module are counts, states, names and the names of what differs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from connect_share.model.records import ConnectorTaskId
from connect_share.storage import ConnectStorage
from tests.lab.compatibility.cells import Part
from tests.lab.embedded.rest import ConnectRest

# REST shows no target state. A connector's state says it: PAUSED and STOPPED are as wanted, all others STARTED.
_TARGET_OF_STATE = {"PAUSED": "PAUSED", "STOPPED": "STOPPED"}

Status = Mapping[str, str | None]
"""The members of a status that both sides show: ``state``, ``worker_id``, ``version`` and ``trace``."""


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
    status: Status | None
    tasks: Mapping[int, Status | None]
    topics: frozenset[str]
    offsets: Mapping[str, str]

    @property
    def state(self) -> str:
        """Its state, if there is a status."""
        return _state_text(self.status)

    def facts(self) -> dict[str, object]:
        """Return what is compared, by the name that a difference has."""
        statuses = {"connector status": self.status, **{f"status of task {task}": s for task, s in self.tasks.items()}}
        return {
            **{f"property {name}": value for name, value in self.config.items()},
            "target state": self.target_state,
            "tasks": set(self.tasks),
            **{f"{what}: {name}": value for what, each in statuses.items() for name, value in (each or {}).items()},
            "active topics": self.topics,
            "source offsets": self.offsets,
        }


ClusterView = Mapping[str, ConnectorView]


class ConnectorLine(Part):
    """The state of one connector as it has to be, and as it was found; ``None`` where it is absent."""

    connector: str
    wanted: str | None
    found: str | None
    differences: tuple[str, ...]


class GroupComparison(Part):
    """One cluster group in numbers, as it has to be, and as it was found."""

    cluster_group_id: str
    wanted: str
    found: str
    connectors: tuple[ConnectorLine, ...]

    @property
    def equal(self) -> bool:
        """Whether nothing at all differs."""
        return not any(line.differences for line in self.connectors)


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True)


def view_from_rest(rest: ConnectRest) -> dict[str, ConnectorView]:
    """Return a view of what a worker answers about all connectors."""
    view: dict[str, ConnectorView] = {}
    for name, answer in rest.call("GET", "/connectors?expand=info&expand=status").items():
        info, status = answer["info"], answer["status"]
        statuses = {task["id"]: _status_of(task) for task in status["tasks"]}
        offsets = rest.offsets(name) if info["type"] == "source" else []
        view[name] = ConnectorView(
            config=dict(info["config"]),
            target_state=_TARGET_OF_STATE.get(status["connector"]["state"], "STARTED"),
            status=_status_of(status["connector"]),
            tasks={task["task"]: statuses.get(task["task"]) for task in info["tasks"]},
            topics=frozenset(rest.topics(name)),
            offsets={_canonical(each["partition"]): _canonical(each["offset"]) for each in offsets},
        )
    return view


def _status_of(answer: Mapping[str, Any]) -> Status:
    return {name: answer.get(name) for name in ("state", "worker_id", "version", "trace")}


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


def _status_in_store(status: Any) -> Status | None:
    return status and {
        "state": status.state.name,
        "worker_id": status.worker_id,
        "version": status.version,
        "trace": status.trace,
    }


def states_alone(view: ClusterView, worker_id: str | None = None) -> ClusterView:
    """Return a view whose statuses have nothing but a state and who wrote it: this worker, or the one that did."""

    def states(status: Status | None) -> Status | None:
        return status and {"state": status["state"], "worker_id": worker_id or status["worker_id"]}

    return {
        name: replace(each, status=states(each.status), tasks={task: states(s) for task, s in each.tasks.items()})
        for name, each in view.items()
    }


def count(view: ClusterView) -> str:
    """Return a view in numbers: fit to be shown."""
    connectors = view.values()
    states = Counter(connector.state for connector in connectors)
    tasks = Counter(_state_text(status) for connector in connectors for status in connector.tasks.values())
    properties = sum(len(connector.config) for connector in connectors)
    topics = sum(len(connector.topics) for connector in connectors)
    offsets = sum(len(connector.offsets) for connector in connectors)
    return (
        f"{len(view)} connectors ({_listed(states)}), {tasks.total()} tasks ({_listed(tasks)}), {properties} properties, "
        f"{topics} active topics, {offsets} source offsets"
    )


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {state}" for state, number in sorted(counts.items())) or "none"


def _state_text(status: Status | None) -> str:
    return str(status["state"]) if status else "no status"


def compare_views(cluster_group_id: str, wanted: ClusterView, found: ClusterView) -> GroupComparison:
    """Compare a cluster on two sides, connectors by name; what differs is named, never shown."""
    lines = []
    for name in sorted(wanted.keys() | found.keys()):
        one, other = wanted.get(name), found.get(name)
        if one is None or other is None:
            differences = ["missing" if other is None else "not expected"]
        else:
            here, there = one.facts(), other.facts()
            differences = [fact for fact in sorted(here.keys() | there.keys()) if here.get(fact) != there.get(fact)]
        states = [None if each is None else each.state for each in (one, other)]
        lines.append(ConnectorLine(connector=name, wanted=states[0], found=states[1], differences=tuple(differences)))
    return GroupComparison(
        cluster_group_id=cluster_group_id, wanted=count(wanted), found=count(found), connectors=tuple(lines)
    )
