"""Cut-over, seal, unseal and rollback of sealed groups on a real broker: what the old and the new workers believe of it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest

from connect_share.kafka import write as checked_writer
from connect_share.model.config_state import TargetState
from connect_share.model.keys import MARKER
from connect_share.model.records import Record, TopicType
from connect_share.sealing.cipher import is_sealed, key_id
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from migrator import cutover as rollback
from tests.support.migration_runs import roll_back
from tests.support.migration_site import SHARED_PARTITIONS, Site, run
from tests.support.sealed_sites import done, left, life, newest, planned, targets, worker
from tests.support.sealed_stores import refused

pytestmark = pytest.mark.broker


@pytest.mark.slow
def test_the_old_workers_stop_and_start_again_and_the_new_ones_lose_the_copies(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.create("own", SHARED_PARTITIONS)
    site.create("shared", SHARED_PARTITIONS)
    source, destination = worker(site, "own", "a", 7), worker(site, "shared", "b", 8)
    before = life(source, "c", "d")
    topic = site.topic("own", TopicType.CONFIG)
    forged = b'{"state":"PAUSED","state.v2":"STOPPED"}'
    site.produce(
        [
            Record(topic, 0, 0, 1, b"a.target-state-c", forged),  # whoever believes it thinks that c is stopped
            Record(topic, 0, 0, 1, b"a.connector-d", None),
        ]
    )
    plan = planned(site, source, destination)
    shown = json.loads(run("cutover", plan, "--dry-run", "--output", "json")[1])
    assert (shown["seal_records"], shown["connectors"]) == ({topic: 2}, ["c", "d"])
    assert done("cutover", plan)["manifest"]["sealed"]["records"] == 2
    assert targets(source) == {"c": TargetState.STOPPED, "d": TargetState.STOPPED}
    assert life(destination)[1:] == before[1:]
    assert {key_id(record.value) for record in site.read(topic)[-2:] if is_sealed(record.value)} == {7}
    assert done("unseal", plan)["connectors"] == 2
    assert life(source)[1:] == before[1:]
    assert targets(source) == {"c": TargetState.PAUSED, "d": TargetState.PAUSED}

    # Killed between a removal and the tombstone behind it, then repeated.
    def some(workers: Sequence[WorkerConfig], records: Any) -> int:
        checked_writer.write_records(workers, itertools.islice(records, 3))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(rollback, "write_records", some)
        with pytest.raises(KeyboardInterrupt):
            roll_back(plan)
    found = roll_back(plan, dry_run=True)
    assert (found.records, found.newer) == (len(newest(site, "shared", "b")) - 2, {})  # two were removed
    roll_back(plan)
    assert left(destination) == []
    ends = {key: value for key, value in newest(site, "shared", "b").items() if value is not None}
    assert ends.keys() == {b"b." + MARKER[0], b"b.connector-c"}  # the second had no tombstone yet when it was killed
    assert {key_id(value) for value in ends.values()} == {8}
    assert targets(source) == {"c": TargetState.PAUSED, "d": TargetState.PAUSED}
    planned(site, source, destination)  # and again: the copies are newer than the removals
    assert life(destination)[1:] == before[1:]


def test_originals_beside_their_copies_are_removed(site: Site) -> None:
    """First one connector of a group that lives on, then the rest; there is a tombstone only where nobody refuses it."""
    site.create("shared", SHARED_PARTITIONS)
    source, canary, destination = (worker(site, "shared", *each) for each in (("a", 7), ("b", 8), ("c",)))
    before = life(source, "c", "d")
    raw = newest(site, "shared", "a")
    done("cutover", planned(site, source, canary, "--job", "c"))
    assert targets(source) == {"d": TargetState.PAUSED}
    assert targets(canary) == {"c": TargetState.PAUSED}
    assert None not in newest(site, "shared", "a").values()
    with ConnectStorage(WorkerConfig.from_file(source)) as storage:
        assert refused(storage) == [0, 0, 0]
        assert storage.config.snapshot().session_key is not None
    plan = planned(site, source, destination)
    done("cutover", plan)
    assert left(source) == []
    assert targets(destination) == {"d": TargetState.PAUSED}
    assert life(destination)[0].connector_config("d") == before[0].connector_config("d")
    now = newest(site, "shared", "a")
    assert now.keys() == raw.keys() | {b"a." + MARKER[0]}
    of_c = {key for key in raw if b'"c"' in key or (b".status-" in key and key.rstrip(b"-0").endswith(b"-c"))}
    gone = raw.keys() - of_c
    assert {key for key, value in now.items() if value is None} == gone
    assert b"a.session-key" in gone
    code, _, errors = run("rollback", plan, "--yes")
    assert (code, "the originals of a were removed; put them back first" in errors) == (1, True)


def test_a_source_that_nobody_can_look_into_is_not_sealed(site: Site) -> None:
    site.create("own", SHARED_PARTITIONS)
    site.create("shared", SHARED_PARTITIONS)
    life(worker(site, "own", "a", 7), "c")
    plan = planned(site, worker(site, "own", "a"), worker(site, "shared", "a"))
    for command, says in (("cutover", "nobody can see its connectors"), ("rollback", "new workers would believe no")):
        code, _, errors = run(command, plan, "--yes")
        assert (code, says in errors) == (1, True), errors
