"""The plan file: what it says, who may read it, and what an edited one is refused for."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connect_share.errors import PlanFileError
from connect_share.model.records import Record, TopicType
from connect_share.sealing import SealingMode
from connect_share.transform.sealed import Sealing
from migrator.plan import MigrationPlan, write_plan_file
from migrator.survey import MOST_WORKER_IDS, TopicCount
from tests.support.plans import a_plan
from tests.support.sealed import KEYS as KEY_RING
from tests.support.sealed import sealed


def test_a_plan_comes_back_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan = a_plan(path)
    assert MigrationPlan.load(path) == plan
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["format"] == "connect-share/migration-plan/2"
    assert [entry.name for entry in tmp_path.iterdir()] == ["plan.json"]


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c: c.update(format="connect-share/migration-plan/1"), "format"),
        (lambda c: c.update(surprise=1), "surprise"),
        (lambda c: c.pop("run_id"), "run_id"),
        (lambda c: c.update(mode="other"), "mode"),
        (lambda c: c.update(mode="state"), "fingerprint"),
        (lambda c: c.update(mode="state", follow=True), "follow needs the mode mirror"),
        (lambda c: c["sources"][0].update(only_connectors=["a"]), "fingerprint"),
        (lambda c: c["sources"][0].update(sharing=True), "fingerprint"),
        (lambda c: c["sources"].clear(), "sources"),
        (lambda c: c["sources"][0].update(cluster_group_id="other"), "fingerprint"),
        (lambda c: c["sources"][0].update(cluster_group_id="task-x"), "task-"),
        (lambda c: c["sources"].append(c["sources"][0]), "merged"),
        (lambda c: c["sources"][0]["topics"].pop("status"), "exactly the topics"),
        (lambda c: c["destination"]["topics"]["config"].update(partitions=3), "exactly one partition"),
        (lambda c: c["sources"][0]["topics"]["config"]["partitions"][0].update(start=11), "behind end"),
        (lambda c: c["sources"][0]["topics"]["config"]["partitions"][0].update(start=-1), "start"),
    ],
)
def test_an_edited_plan_is_checked(tmp_path: Path, change: Callable[[dict[str, Any]], None], says: str) -> None:
    path = tmp_path / "plan.json"
    a_plan(path)
    edit(path, change)
    with pytest.raises(PlanFileError) as caught:
        MigrationPlan.load(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe"])
def test_what_is_no_plan_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(PlanFileError):
        MigrationPlan.load(path)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_plan_file(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_plan_file(path, "\udc00")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(PlanFileError, match="cannot be written"):
        write_plan_file(tmp_path / "no" / "such" / "folder.json", "x")


def test_unparseable_and_workers() -> None:
    count = TopicCount(TopicType.STATUS)
    values: list[bytes | None] = [b'{"worker_id":"w%d"}' % number for number in range(MOST_WORKER_IDS + 5)]
    values += [b"{", b"\xff", None, b"null", b'"text"', b'{"worker_id":3}']
    count.read(Record("t", 0, offset, 1, b"status-connector-a", value) for offset, value in enumerate(values))
    count.read([Record("t", 0, 99, 1, b"status-task-a", b"{}"), Record("t", 0, 99, 1, b"g.status-task-a-0", b"{}")])
    plain = count.groups[None]
    assert plain.unparseable == 3  # two values, and a key without a task number
    assert len(plain.workers["a"]) == MOST_WORKER_IDS
    (shared,) = [group for name, group in count.groups.items() if name is not None]
    assert shared.workers == {}
    assert (plain.tombstones, shared.tombstones) == (1, 0)


def test_values_of_a_sealed_group_are_opened_by_its_keys_only() -> None:
    group, other = "com.acme.", "x."
    made = [
        sealed(Record("t", 0, number, 1, f"{whose}connector-a".encode(), b'{"properties":{}}'))
        for number, whose in enumerate((group, other))
    ]
    forged = Record("t", 0, 2, 1, b"com.acme.connector-a", b"hunter2")
    count = TopicCount(TopicType.CONFIG, {"com.acme": Sealing(KEY_RING, SealingMode.REQUIRED)})
    count.read([*made, forged, forged])
    figures = {
        str(name): (each.records, each.refused, each.unopened, each.unparseable, len(each.config))
        for name, each in count.groups.items()
    }
    assert figures == {"com.acme": (3, 2, 0, 0, 1), "x": (1, 1, 1, 0, 0)}
    [opened] = next(each.config for name, each in count.groups.items() if name == "com.acme")
    assert opened.value == b'{"properties":{}}'
