"""The demo's comparison sees every kind of difference, and names it without a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.lab.demo.views import ConnectorView, StatusView, compare_views, count, view_from_rest

_RUNNING = StatusView("RUNNING", "127.0.0.1:8083", "4.3.1", None)
_VIEW = ConnectorView(
    config={"name": "a.b", "password": "hunter2"},
    target_state="STARTED",
    status=_RUNNING,
    tasks={0: _RUNNING, 1: replace(_RUNNING, state="FAILED", trace="why")},
    topics=frozenset({"t"}),
    offsets={'{"file": "x"}': '{"position": 4711}'},
)


def _rest_answer() -> dict[str, Any]:
    return {
        "a.b": {
            "info": {
                "name": "a.b",
                "config": {"name": "a.b", "password": "hunter2"},
                "tasks": [{"connector": "a.b", "task": 0}, {"connector": "a.b", "task": 1}],
                "type": "source",
            },
            "status": {
                "name": "a.b",
                "connector": {"state": "RUNNING", "worker_id": "127.0.0.1:8083", "version": "4.3.1"},
                "tasks": [
                    {"id": 0, "state": "RUNNING", "worker_id": "127.0.0.1:8083", "version": "4.3.1"},
                    {"id": 1, "state": "FAILED", "worker_id": "127.0.0.1:8083", "version": "4.3.1", "trace": "why"},
                ],
                "type": "source",
            },
        }
    }


_OFFSETS = {"a.b": [{"partition": {"file": "x"}, "offset": {"position": 4711}}]}


def test_rest_answers_become_a_view() -> None:
    assert view_from_rest(_rest_answer(), {"a.b": ["t"]}, _OFFSETS) == {"a.b": _VIEW}


@pytest.mark.parametrize("state", ["PAUSED", "STOPPED"])
def test_the_connectors_state_shows_the_target_state(state: str) -> None:
    answer = _rest_answer()
    answer["a.b"]["status"]["connector"]["state"] = state
    answer["a.b"]["info"]["type"] = "sink"
    view = view_from_rest(answer, {"a.b": []}, _OFFSETS)["a.b"]
    assert (view.target_state, view.offsets) == (state, {})  # offsets of a sink are not the stores'


def test_equal_views_are_equal() -> None:
    comparison = compare_views("g", {"a.b": _VIEW}, {"a.b": _VIEW})
    assert comparison.equal
    assert comparison.wanted == comparison.found == count({"a.b": _VIEW})
    assert str(comparison.wanted) == (
        "1 connectors (1 RUNNING), 2 tasks (1 FAILED, 1 RUNNING), 2 properties, 1 active topics, 1 source offsets"
    )
    bare = replace(_VIEW, status=None, tasks={0: None})
    assert compare_views("g", {"a.b": bare}, {"a.b": bare}).equal


_CHANGES: list[tuple[Callable[[ConnectorView], ConnectorView], str]] = [
    (lambda view: replace(view, config={**view.config, "password": "other"}), "property password"),
    (lambda view: replace(view, config={"name": "a.b"}), "property password"),
    (lambda view: replace(view, target_state="PAUSED"), "target state STARTED / PAUSED"),
    (lambda view: replace(view, status=None), "connector status missing in the stores"),
    (lambda view: replace(view, status=replace(_RUNNING, state="PAUSED")), "connector status: state"),
    (lambda view: replace(view, status=replace(_RUNNING, worker_id="x")), "connector status: worker_id"),
    (lambda view: replace(view, status=replace(_RUNNING, version=None)), "connector status: version"),
    (lambda view: replace(view, tasks={0: _RUNNING}), "task 1"),
    (lambda view: replace(view, tasks={**view.tasks, 2: None}), "task 2"),
    (lambda view: replace(view, tasks={**view.tasks, 0: None}), "status of task 0 missing in the stores"),
    (
        lambda view: replace(view, tasks={**view.tasks, 1: replace(_RUNNING, state="FAILED", trace="other")}),
        "status of task 1: trace",
    ),
    (lambda view: replace(view, topics=frozenset()), "1 active topics"),
    (lambda view: replace(view, offsets={}), "1 source offsets"),
    (lambda view: replace(view, offsets={'{"file": "x"}': '{"position": 0}'}), "1 source offsets"),
]


@pytest.mark.parametrize(("change", "told"), _CHANGES)
def test_each_difference_is_named(change: Callable[[ConnectorView], ConnectorView], told: str) -> None:
    comparison = compare_views("g", {"a.b": _VIEW}, {"a.b": change(_VIEW)})
    assert not comparison.equal
    assert comparison.connectors[0].differences == (told,)


@pytest.mark.parametrize(
    ("rest", "stores", "told"),
    [({"a.b": _VIEW}, {}, "missing in the stores"), ({}, {"a.b": _VIEW}, "only in the stores")],
)
def test_a_connector_on_one_side_only_is_a_difference(
    rest: dict[str, ConnectorView], stores: dict[str, ConnectorView], told: str
) -> None:
    comparison = compare_views("g", rest, stores)
    assert not comparison.equal
    assert comparison.connectors[0].differences == (told,)


def test_no_value_leaves_a_comparison() -> None:
    other = replace(_VIEW, config={"password": "swordfish"}, offsets={})
    told = compare_views("g", {"a.b": _VIEW}, {"a.b": other}).model_dump_json()
    for secret in ("hunter2", "swordfish", "4711"):
        assert secret not in told
        assert secret not in repr(_VIEW)
