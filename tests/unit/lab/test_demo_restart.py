"""The demo's checks of workers that are back: each one sees what it is for, and names it without a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from connect_share.model.records import Record, TopicType
from tests.lab.demo.report import summary_lines
from tests.lab.demo.restart_checks import (
    DataState,
    Place,
    compare_data,
    compare_restart,
    count_plain_keys,
    foreign_log_lines,
    search_segments,
)
from tests.lab.demo.result import DataAgain, GroupAgain, SealedGroup, SegmentSearch, SharedTopic
from tests.lab.demo.views import ConnectorView, StatusView, compare_views, count

_OLD, _NEW = "127.0.0.1:1111", "127.0.0.1:2222"
_LINE = b"swordfish"


def _view(worker_id: str) -> ConnectorView:
    running = StatusView("RUNNING", worker_id, "4.3.1", None)
    return ConnectorView(
        config={"name": "a.b", "password": "hunter2"},
        target_state="STARTED",
        status=running,
        tasks={0: running, 1: replace(running, state="FAILED", trace=f"at {worker_id}")},
        topics=frozenset({"t"}),
        offsets={'{"file": "x"}': '{"position": 4711}'},
    )


_BEFORE, _AGAIN = {"a.b": _view(_OLD)}, {"a.b": _view(_NEW)}


def test_statuses_written_anew_are_compared_by_state() -> None:
    (line,) = compare_restart("g", _BEFORE, _AGAIN, _NEW).connectors
    assert line.differences == ()
    assert line.wanted == line.found is not None
    (line,) = compare_restart("g", {}, _AGAIN, _NEW).connectors  # deleted before, and back
    assert line.differences == ("only in REST again",)


_CHANGES: list[tuple[Callable[[ConnectorView], ConnectorView | None], str]] = [
    (lambda _: None, "missing in REST again"),
    (lambda view: replace(view, status=replace(view.tasks[1], state="PAUSED")), "connector status: state"),  # type: ignore[type-var]
    (lambda view: replace(view, tasks={**view.tasks, 1: view.tasks[0]}), "status of task 1: state"),
    (
        lambda view: replace(view, status=StatusView("RUNNING", _OLD, "4.3.1", None)),
        "connector status: worker_id",
    ),
    (
        lambda view: replace(view, tasks={**view.tasks, 0: StatusView("RUNNING", _OLD, "4.3.1", None)}),
        "status of task 0: worker_id",
    ),
]


@pytest.mark.parametrize(("change", "told"), _CHANGES)
def test_what_is_not_as_it_was_is_named(change: Callable[[ConnectorView], ConnectorView | None], told: str) -> None:
    changed = change(_AGAIN["a.b"])
    (line,) = compare_restart("g", _BEFORE, {} if changed is None else {"a.b": changed}, _NEW).connectors
    assert line.differences == (told,)


_TOPIC: Place = ("data topic", "t")
_IDLE: Place = ("data topic", "idle")
_SINK: Place = ("file of sink", "sink")
_STATE: DataState = {_TOPIC: [b"one", b"two"], _IDLE: [b"one"], _SINK: [b"one", b"two"]}
_AT_END: DataState = {**_STATE, _TOPIC: [b"one", b"two", _LINE], _SINK: [b"one", b"two", _LINE]}


def _data(started: DataState = _STATE, changed: DataState | None = None) -> dict[str, DataAgain]:
    found = compare_data(_STATE, started, {**_AT_END, **(changed or {})}, {_TOPIC: _LINE, _SINK: _LINE})
    return {each.name: each for each in found}


def test_a_line_that_arrives_once_is_right() -> None:
    data = _data()
    assert {name: each.differences for name, each in data.items()} == {"t": (), "idle": (), "sink": ()}
    assert (data["t"].before, data["t"].after_start, data["t"].at_end) == (2, 2, 3)
    assert (data["t"].lines_appended, data["t"].lines_arrived) == (1, 1)
    assert (data["idle"].lines_appended, data["idle"].lines_arrived) == (0, 0)


@pytest.mark.parametrize("place", [_TOPIC, _SINK])
@pytest.mark.parametrize(
    ("content", "told"),
    [
        ([b"one", b"two"], "the appended line arrived 0 times"),
        ([b"one", b"two", _LINE, _LINE], "the appended line arrived 2 times"),
        ([b"one", b"two", b"read before", None, _LINE], "2 lines that nobody appended"),
        ([b"ONE", b"two", _LINE], "what was in it before is not in it any more"),
    ],
)
def test_wrong_content_is_named(place: Place, content: list[bytes | None], told: str) -> None:
    assert _data(changed={place: content})[place[1]].differences == (told,)


def test_what_is_written_by_the_start_and_where_nothing_runs_is_named() -> None:
    assert _data(changed={_IDLE: [b"one", _LINE]})["idle"].differences == ("1 lines that nobody appended",)
    assert _data({**_STATE, _TOPIC: [b"one", b"two"] * 2})["t"].differences == ("changed by the start",)


# As the measured workers log them; the last ones are what a healthy worker says too.
_LOG = """[2026-01-01 00:00:00,000] ERROR Discarding config update record with invalid key: B.x (org.apache.kafka.X)
[2026-01-01 00:00:00,000] WARN Discarding record with invalid key B.status-connector-my.conn (org.apache.kafka.X)
[2026-01-01 00:00:00,000] WARN Ignoring offset partition key with unknown serialization. Expected json. (org.X)
org.apache.kafka.connect.errors.DataException: invalid key
\tat org.apache.kafka.X.invalid(X.java:1)
[2026-01-01 00:00:00,000] ERROR Ignoring task configuration because a couldn't be parsed as a task config key (org.X)
[2026-01-01 00:00:00,000] ERROR Invalid data for config for connector 'x.session-key': 'properties' (org.X)
[2026-01-01 00:00:00,000] WARN Catching up to assignment's config offset. (org.X)
[2026-01-01 00:00:00,000] INFO Discarding nothing (org.X)
[2026-01-01 00:00:00,000] ERROR WorkerSinkTask{id=broken-0} Task threw an uncaught exception (org.X)
"""


def test_log_lines_about_records_of_others_are_counted() -> None:
    assert foreign_log_lines(_LOG) == 5
    assert foreign_log_lines("\n".join(_LOG.splitlines()[-3:])) == 0


def test_plain_and_unknown_keys_are_counted() -> None:
    def record(key: bytes | None) -> Record:
        return Record("shared-configs", 0, 0, 0, key, b"{}")

    keys = [b"g.connector-a", b"a.b.session-key", b"connector-a", b"session-key", b"nothing known", None]
    found = count_plain_keys("shared-configs", TopicType.CONFIG, map(record, keys))
    assert found == SharedTopic(topic="shared-configs", records=6, plain_keys=4)


def _group() -> GroupAgain:
    return GroupAgain(
        seconds=1.0,
        restart=compare_restart("g", _BEFORE, _AGAIN, _NEW),
        data=tuple(_data().values()),
        stores=compare_views("g", _AGAIN, _AGAIN),
        foreign_log_lines=0,
    )


_RIGHT = compare_views("g", _BEFORE, _BEFORE)
_PLAIN = SharedTopic(topic="shared-configs", records=6, plain_keys=4)


def test_the_last_lines_say_that_all_is_equal() -> None:
    said = str(count(_BEFORE))
    since = (
        "1 lines appended to source files, 1 arrived in topics, 1 in sink files; 0 records read twice; "
        "Python stores beside it: equal"
    )
    assert summary_lines([_RIGHT], [_group()], [_PLAIN.model_copy(update={"plain_keys": 0})]) == [
        "g",
        f"  REST said:         {said}",
        f"  Python stores say: {said}",
        f"  REST says again:   {said}",
        f"  and since then:    {since}",
        "  equal: yes",
    ]
    assert summary_lines([_RIGHT], [_group()], [_PLAIN])[0] == (
        "differs: shared-configs: 4 of 6 keys without a group's prefix"
    )


def test_a_password_has_to_be_where_it_was_and_nowhere_else(tmp_path: Path) -> None:
    """Else the search cannot find it, or the group is not sealed; other topics and files do not count."""
    for name, content in {
        "old-configs-0/0.log": b"..secret..",
        "old-configs-12/7.log": b"",
        "shared-configs-0/0.log": b"..s3aled..",
        "shared-configs-0/0.index": b"secret",
        "shared-configs-old-0/0.log": b"secret",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    old, shared = (search_segments(tmp_path, {f"{name}-configs"}, b"secret") for name in ("old", "shared"))
    assert (old, shared) == (SegmentSearch(files=2, with_text=1), SegmentSearch(files=1, with_text=0))
    none = SegmentSearch(files=0, with_text=0)
    for dedicated, now, equal in ((old, shared, True), (old, old, False), (shared, shared, False), (old, none, False)):
        sealed = SealedGroup(cluster_group_id="g", dedicated=dedicated, shared=now)
        assert sealed.equal is equal
        assert summary_lines([_RIGHT], sealed=sealed)[-1] == f"  equal: {'yes' if equal else 'no'}"
    assert "in 1 of 2 segment files of the dedicated topics, in 1 of 2 of the shared" in "".join(
        summary_lines([_RIGHT], sealed=SealedGroup(cluster_group_id="g", dedicated=old, shared=old))
    )


_WRONG = [
    ({"restart": compare_restart("g", _BEFORE, {}, _NEW)}, "'a.b' on the shared topics: missing in REST again"),
    (
        {"data": tuple(_data(changed={_TOPIC: _STATE[_TOPIC]}).values())},
        "data topic 't': the appended line arrived 0 times",
    ),
    (
        {"data": tuple(_data(changed={_SINK: _STATE[_SINK]}).values())},
        "file of sink 'sink': the appended line arrived 0 times",
    ),
    ({"stores": compare_views("g", _AGAIN, {})}, "'a.b' in the stores beside Java: missing in the stores"),
    ({"foreign_log_lines": 3}, "the worker's log: 3 warnings or errors about records of others"),
]


@pytest.mark.parametrize(("wrong", "told"), _WRONG)
def test_each_part_that_is_wrong_makes_the_group_unequal(wrong: dict[str, object], told: str) -> None:
    group = _group().model_copy(update=wrong)
    assert group.differences == (told,)
    assert not group.equal
    assert summary_lines([_RIGHT], [group])[-2:] == [f"  differs: {told}", "  equal: no"]


def test_no_value_leaves_the_checks() -> None:
    wrong = _group().model_copy(
        update={
            "restart": compare_restart("g", _BEFORE, {"a.b": replace(_AGAIN["a.b"], offsets={}, config={})}, _NEW),
            "data": tuple(_data(changed={_TOPIC: [_LINE, b"hunter2"], _SINK: [b"hunter2"]}).values()),
        }
    )
    told = wrong.model_dump_json() + "".join(wrong.differences)
    for secret in ("hunter2", "swordfish", "4711"):
        assert secret not in told
