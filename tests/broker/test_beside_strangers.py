"""Every command that writes, beside what strangers have written under the keys of the group; on a real broker."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connect_share.model.records import Record, TopicType
from connect_share.sealing import KeyRing
from migrator.plan import MigrationPlan
from tests.support.migration_runs import apply_plan
from tests.support.migration_site import SHARED_PARTITIONS, Site, run
from tests.support.sealed import key_text, sealed
from tests.support.sealed_sites import done, left, life, planned, state, worker

Call = Callable[..., Any]
STRANGE = {
    TopicType.CONFIG: b"a.connector-zzz",
    TopicType.STATUS: b"a.status-connector-zzz",
    TopicType.OFFSET: b'a.["zzz",{}]',
}


def strange(site: Site, who: str = "shared", more: int = 0) -> None:
    """What anybody can write: values that look sealed, under ids of keys that exist nowhere, and over a good one."""
    keys = KeyRing.parse(key_text(301))
    for topic_type, key in STRANGE.items():
        topic = site.topic(who, topic_type)
        garbage = b"\1" + os.urandom(60)
        records = [Record(topic, 0, 0, 1, each, garbage) for each in (key, *(key + b"%d" % n for n in range(more)))]
        site.produce([*records, sealed(Record(topic, 0, 0, 1, key, b"{}"), topic_type, keys=keys)])
    site.produce([Record(site.topic(who, TopicType.CONFIG), 0, 0, 1, b"a.connector-c", b"\1" + os.urandom(60))])


@pytest.fixture(params=["sealed", "plain", pytest.param("plain, and says so", marks=pytest.mark.slow)])
def path(site: Site, request: pytest.FixtureRequest) -> Path:
    """The worker file of a group with two connectors, beside strangers."""
    site.create("shared", SHARED_PARTITIONS)
    keys = (7,) if request.param == "sealed" else ()
    path = worker(site, "shared", "a", *keys, mode="off" if "says" in request.param else "required")
    life(path, "c", "d")
    strange(site, more=30 if "says" in request.param else 0)
    return path


def test_every_command_goes_on(site: Site, path: Path, call: Call) -> None:
    before = state(path)
    assert before[0].keys() == {"c", "d"}
    is_sealed = "-7-" in path.name
    backup, offsets = site.folder / "a.avro", site.folder / "offsets.json"
    offsets.write_text(json.dumps({"offsets": [{"partition": {"filename": "x.txt"}, "offset": {"position": 0}}]}))
    assert call("export", "-w", path, "-o", backup).code == 0
    changing = ("-w", path, "--yes", "--force", "--backup-dir", site.folder)
    for words in (
        ("repair", "order", "-w", path, "--yes"),
        ("repair", "orphans", "--offsets", "-w", path, "--yes"),
        ("alter", "offsets", "c", "--file", offsets, *changing),
        ("copy", "offsets", "c", "--to", "d", *changing),
        ("reset", "offsets", "c", *changing),
        ("restore", backup, "-w", path, "--yes"),
    ):
        ran = call(*words)
        assert ran.code == 0, (words, ran.err)
    assert state(path) == before
    copy = worker(site, "copy", "b", *((8, 7) if is_sealed else ()), mode="required" if is_sealed else "off")
    assert done("restore", backup, "--destination-worker-config", copy, "--from-group", "a")["verified"]
    assert life(copy)[0].connectors() == {"c", "d"}
    if is_sealed:
        done("reseal", "--worker-config", path)
        assert state(path) == before
    assert call("delete", "group", "a", "-w", path, "--yes").code == 0
    assert left(path) == []


def test_a_move_goes_on_and_can_be_taken_back(site: Site, path: Path) -> None:
    before, is_sealed = state(path), "-7-" in path.name
    [surveyed] = json.loads(run("survey", "--source-worker-config", path, "--output", "json")[1])["groups"]
    is_hidden = "off" in path.name  # most looks sealed
    assert [each["name"] for each in surveyed["connectors"]] == ([] if is_hidden else ["c", "d"])
    assert surveyed["unopened"] > 0
    there = worker(site, "own", "a", *((7,) if is_sealed else ()), mode="required" if is_sealed else "off")
    plan = planned(site, path, there)
    strange(site)
    strange(site, "own")
    refused = [each.counts.skipped for each in MigrationPlan.load(plan).sources[0].topics.values()]
    assert all(sum(counts.values()) >= 2 for counts in refused)
    assert run("verify", plan)[0] == 0
    assert state(there) == before
    done("cutover", plan)
    strange(site, "own")
    done("rollback", plan)
    assert (left(there), state(path)) == ([], before)
    planned(site, path, there)
    assert state(there) == before


def test_what_was_planned_to_be_copied_as_it_is_can_be_taken_back_of_a_plain_group(site: Site) -> None:
    """Plans of 0.3 say so if there was one value of a stranger."""
    site.create("own shared", SHARED_PARTITIONS)
    source, there = worker(site, "own", "a", mode="off"), worker(site, "shared", "a", mode="off")
    life(source, "c")
    before = state(source)
    strange(site, "own")
    for undo in ("rollback", "unseal"):
        path = site.plan(source, there, name=f"{undo}.json")
        plan = MigrationPlan.load(path)
        [one] = plan.sources
        plan.model_copy(update={"sources": (one.model_copy(update={"sealed_as_is": True}),)}).save(path)
        apply_plan(path)
        assert state(there) == before
        if undo == "unseal":
            done("cutover", path)
            assert state(there) == before
        done(undo, path)
        assert state(source) == before
