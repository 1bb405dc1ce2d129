"""The demo's verdict: each difference is seen, named without a value, and makes the whole unequal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from connect_share.model.records import Record, TopicType
from tests.lab.demo.report import summary_lines
from tests.lab.demo.restart_checks import (
    DataState,
    Place,
    compare_data,
    compare_restart,
    count_plain_keys,
)
from tests.lab.demo.result import DemoResult, GroupAgain, Move, SealedGroup, SegmentSearch, SharedTopic
from tests.lab.demo.views import ConnectorView, StatusView, compare_views

_RUNNING = StatusView("RUNNING", "127.0.0.1:8083", "4.3.1", None)
_VIEW = ConnectorView(
    config={"name": "a.b", "password": "hunter2"},
    target_state="STARTED",
    status=_RUNNING,
    tasks={0: _RUNNING, 1: replace(_RUNNING, state="FAILED", trace="why")},
    topics=frozenset({"t"}),
    offsets={'{"file": "x"}': '{"position": 4711}'},
)
_CHANGES: list[tuple[Callable[[ConnectorView], ConnectorView], str]] = [
    (lambda view: replace(view, config={**view.config, "password": "swordfish"}), "property password"),
    (lambda view: replace(view, config={"name": "a.b"}), "property password"),
    (lambda view: replace(view, target_state="PAUSED"), "target state STARTED / PAUSED"),
    (lambda view: replace(view, status=None), "connector status missing in the stores"),
    *(
        (
            lambda view, field=field: replace(view, status=replace(_RUNNING, **{field: "x"})),
            f"connector status: {field}",
        )
        for field in ("state", "worker_id", "version", "trace")
    ),
    (lambda view: replace(view, tasks={0: _RUNNING}), "task 1"),
    (lambda view: replace(view, tasks={**view.tasks, 2: None}), "task 2"),
    (lambda view: replace(view, tasks={**view.tasks, 0: None}), "status of task 0 missing in the stores"),
    (lambda view: replace(view, tasks={**view.tasks, 1: replace(_RUNNING, state="FAILED")}), "status of task 1: trace"),
    (lambda view: replace(view, topics=frozenset()), "1 active topics"),
    (lambda view: replace(view, offsets={'{"file": "x"}': '{"position": 815}'}), "1 source offsets"),
]


@pytest.mark.parametrize(("change", "told"), _CHANGES)
def test_each_difference_is_named_and_no_value(change: Callable[[ConnectorView], ConnectorView], told: str) -> None:
    assert compare_views("g", {"a.b": _VIEW}, {"a.b": _VIEW}).equal
    found = compare_views("g", {"a.b": _VIEW}, {"a.b": change(_VIEW)})
    assert not found.equal
    assert found.connectors[0].differences == (told,)
    for secret in ("hunter2", "swordfish", "4711", "815"):
        assert secret not in found.model_dump_json() + repr(_VIEW)


def test_a_connector_on_one_side_only_is_a_difference() -> None:
    for rest, stores, told in (
        ({"a.b": _VIEW}, {}, "missing in the stores"),
        ({}, {"a.b": _VIEW}, "only in the stores"),
    ):
        assert compare_views("g", rest, stores).connectors[0].differences == (told,)


def _restart(status: StatusView) -> tuple[str, ...]:
    was, now = ({"a.b": replace(_VIEW, status=each, tasks={0: each})} for each in (_RUNNING, status))
    return compare_restart("g", was, now, "new:1").connectors[0].differences


def test_statuses_after_a_restart_have_the_state_of_before_and_the_worker_of_now() -> None:
    assert _restart(replace(_RUNNING, worker_id="new:1", version="5.0")) == ()
    assert _restart(_RUNNING) == ("connector status: worker_id", "status of task 0: worker_id")
    paused = replace(_RUNNING, worker_id="new:1", state="PAUSED")
    assert _restart(paused) == ("connector status: state", "status of task 0: state")


_LINE = b"swordfish"
_TOPIC: Place = ("data topic", "t")
_IDLE: Place = ("data topic", "idle")
_STATE: DataState = {_TOPIC: [b"one", b"two"], _IDLE: [b"one"]}


@pytest.mark.parametrize(
    ("place", "content", "told"),
    [
        (_TOPIC, [b"one", b"two", _LINE], ()),
        (_TOPIC, [b"one", b"two"], ("the appended line arrived 0 times",)),
        (_TOPIC, [b"one", b"two", _LINE, _LINE], ("the appended line arrived 2 times",)),
        (_TOPIC, [b"one", b"two", b"read before", None, _LINE], ("2 lines that nobody appended",)),
        (_TOPIC, [b"ONE", b"two", _LINE], ("what was in it before is not in it any more",)),
        (_IDLE, [b"one", _LINE], ("1 lines that nobody appended",)),
    ],
)
def test_a_line_has_to_arrive_once_and_nothing_else(
    place: Place, content: list[bytes | None], told: tuple[str, ...]
) -> None:
    at_end = {**_STATE, _TOPIC: [b"one", b"two", _LINE], place: content}
    found = {each.name: each for each in compare_data(_STATE, _STATE, at_end, {_TOPIC: _LINE})}
    assert found[place[1]].differences == told
    assert _LINE.decode() not in str(found)
    (started, _) = compare_data(_STATE, {**_STATE, _TOPIC: [b"one", b"two"] * 2}, at_end, {_TOPIC: _LINE})
    assert "changed by the start" in started.differences


def test_plain_and_unknown_keys_are_counted() -> None:
    keys = [b"g.connector-a", b"a.b.session-key", b"connector-a", b"session-key", b"nothing known", None]
    records = (Record("configs", 0, 0, 0, key, b"{}") for key in keys)
    found = count_plain_keys("configs", TopicType.CONFIG, records)
    assert found == SharedTopic(topic="configs", records=6, plain_keys=4)


def test_the_demo_succeeds_only_if_every_part_is_right() -> None:
    """A search that finds the password nowhere proves nothing."""
    equal = compare_views("g", {"a.b": _VIEW}, {"a.b": _VIEW})
    wrong = compare_views("g", {"a.b": _VIEW}, {})
    data = compare_data(_STATE, _STATE, _STATE, {})
    lost = compare_data(_STATE, _STATE, _STATE, {_TOPIC: _LINE})
    again = GroupAgain(seconds=1, restart=equal, data=data, stores=equal, foreign_log_lines=0)
    none, some, one = (SegmentSearch(files=files, with_text=found) for files, found in ((0, 0), (1, 0), (1, 1)))
    right = DemoResult(
        versions={},
        seconds=1,
        phases=(),
        move=Move(warnings=(), verified_equal=True, differences=()),
        starts=(),
        groups=(equal,),
        again=(again,),
        shared_topics=(SharedTopic(topic="t", records=1, plain_keys=0),),
        sealed=SealedGroup(cluster_group_id="g", dedicated=one, shared=some),
    )
    assert right.equal
    assert summary_lines(right.groups, right.again, right.shared_topics, right.sealed)[-1] == "  equal: yes"
    changes: list[dict[str, object]] = [
        {"move": Move(warnings=(), verified_equal=False, differences=())},
        {"groups": (wrong,)},
        {"again": ()},
        {"again": (again.model_copy(update={"restart": wrong}),)},
        {"again": (again.model_copy(update={"stores": wrong}),)},
        {"again": (again.model_copy(update={"data": lost}),)},
        {"again": (again.model_copy(update={"foreign_log_lines": 3}),)},
        {"shared_topics": (SharedTopic(topic="t", records=1, plain_keys=1),)},
        {"sealed": SealedGroup(cluster_group_id="g", dedicated=one, shared=one)},
        {"sealed": SealedGroup(cluster_group_id="g", dedicated=some, shared=some)},
        {"sealed": SealedGroup(cluster_group_id="g", dedicated=one, shared=none)},
    ]
    for update in changes:
        assert not right.model_copy(update=update).equal, update
