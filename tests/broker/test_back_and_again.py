"""There, back, and again onto the same topics."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from connect_share.errors import AlreadyAppliedError, DestinationNotEmptyError
from connect_share.kafka.create import is_fenced
from connect_share.model.records import ConnectorTaskId, TopicType
from connect_share.model.status import ConnectorStatus, State, TaskStatus
from connect_share.replay import replay_config, replay_offsets, replay_status
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from migrator.cli.options import plan_lines
from migrator.moves import Intent
from migrator.plan import MigrationPlan
from tests.support.flushes import flush_offsets
from tests.support.migration_runs import apply_plan, cut_over, roll_back, verify_plan
from tests.support.migration_site import GROUP, SHARED_PARTITIONS, Site, pair, run
from tests.support.sealed_sites import essence
from tests.support.waiting import await_that


def carry_out(plan: Path) -> None:
    apply_plan(plan)
    verification = verify_plan(plan)
    assert verification.equal, verification.differences


def current_state(site: Site, who: str, group: str | None = None) -> Any:
    """What workers of a group would run, and where they would go on."""
    config = replay_config(site.read(site.topic(who, TopicType.CONFIG)), group)
    statuses = replay_status(site.read(site.topic(who, TopicType.STATUS)), group)
    return essence(config, statuses, replay_offsets(site.read(site.topic(who, TopicType.OFFSET)), group))


def is_empty(site: Site, who: str, group: str | None = None) -> bool:
    configs, _, _, offsets, statuses = current_state(site, who, group)
    return not configs and not offsets and statuses == replay_status([])


def another(site: Site, name: str) -> None:
    """One more connector beside that of the small source."""
    site.lay_down("own", TopicType.CONFIG, [pair(f"connector-{name}", '{"properties":{"name":"x"}}')])
    site.lay_down("own", TopicType.OFFSET, [pair(f'["{name}",{{}}]', '{"position":1}')])


def test_a_canary_and_the_whole_are_taken_back_and_go_again(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    source = site.small_source()
    another(site, "second")
    site.create("shared", SHARED_PARTITIONS)
    before = current_state(site, "own")
    canary = site.plan(source, site.shared(), "canary.json", Intent(job="a.b"))
    carry_out(canary)
    roll_back(canary)
    assert is_empty(site, "shared", GROUP)
    whole = site.plan(source, site.shared(), "whole.json")
    carry_out(whole)
    with pytest.raises(DestinationNotEmptyError, match=r"holds .* of connector\(s\) 'a.b' under group"):
        site.plan(source, site.shared(), "refused.json", Intent(job="a.b"))
    roll_back(whole)
    assert is_empty(site, "shared", GROUP)
    with pytest.raises(AlreadyAppliedError, match=r"rolled back: make a new plan"):
        apply_plan(whole)
    again = site.plan(source, site.shared(), "again.json")
    carry_out(again)
    assert cut_over(again).verification is not None
    assert current_state(site, "shared", GROUP) == before
    code, _, said = run("survey", "--source-worker-config", site.shared(), "--destination-worker-config", source)
    assert code == 0
    # The removals of this tool are no records that were discarded.
    assert "Discarding" not in caplog.text + said


def test_a_canary_that_stays_is_followed_by_the_rest(site: Site) -> None:
    source = site.small_source()
    another(site, "second")
    before = current_state(site, "own")
    canary = site.plan(source, site.shared(), "canary.json", Intent(job="a.b"))
    carry_out(canary)
    cut_over(canary, how="remove")
    assert "the others with --assign" in run(
        "plan", "--source-worker-config", source, "--destination-worker-config", site.shared(), "--dry-run"
    )[2]  # fmt: skip
    rest = site.plan(source, site.shared(), "rest.json", Intent(assign={"orders": ("second",)}))
    carry_out(rest)
    cut_over(rest)
    assert current_state(site, "shared", GROUP) == before


def test_out_and_in_again_where_the_originals_were_removed(site: Site) -> None:
    """The old topics are gone back to, and the shared ones again after that."""
    source = site.small_source()
    site.create("shared", SHARED_PARTITIONS)
    before = current_state(site, "own")
    for number in range(2):
        there = site.plan(source, site.shared(), f"there-{number}.json")
        carry_out(there)
        cut_over(there, how="remove")
        assert is_empty(site, "own")
        assert current_state(site, "shared", GROUP) == before
        back = site.plan(site.shared(), source, f"back-{number}.json")
        said = "\n".join(plan_lines(MigrationPlan.load(back)))
        assert "com.acme.orders gets plain keys (1 connector)" in said
        assert "1. you: stop all workers of com.acme.orders, orders and keep them stopped" in said
        assert "cutover: copy what is left, verify, and seal the source" in said
        carry_out(back)
        cut_over(back, how="remove")
        assert is_empty(site, "shared", GROUP)
        assert current_state(site, "own") == before
    # Newest of the group is a record that no cleaner takes.
    newest = [r for r in site.read(site.topic("shared", TopicType.CONFIG)) if (r.key or b"").startswith(b"com.acme")]
    assert newest[-1].key == f"{GROUP}.target-state-".encode()
    assert newest[-1].value is not None
    # The old side cannot be started, and the topic of the new one is as it was made.
    assert replay_config(newest, GROUP).moved is not None
    with site.admin() as admin:
        own = partial(admin.own_topic_configs, site.topic("own", TopicType.CONFIG))
        await_that(own, lambda found: found == {"cleanup.policy": "compact"}, what="as it was made")
        shared = partial(admin.topic_configs, site.topic("shared", TopicType.CONFIG))
        await_that(shared, is_fenced, what="fenced")


def test_a_group_is_renamed_in_place_and_gets_its_old_name_back(site: Site) -> None:
    source = site.small_source()
    shared_now, renamed = (site.worker_file("own", group, sharing=True) for group in ("orders", "renamed"))
    before = current_state(site, "own")
    for number, (old, new) in enumerate(
        ((source, shared_now), (shared_now, renamed), (renamed, shared_now), (shared_now, source), (source, renamed))
    ):
        plan = site.plan(old, new, f"plan-{number}.json")
        carry_out(plan)
        cut_over(plan)
    assert current_state(site, "own", "renamed") == before
    assert is_empty(site, "own")
    assert is_empty(site, "own", "orders")


def test_a_connector_that_its_new_workers_removed_comes_again(site: Site) -> None:
    """Connect leaves task configurations and commits behind, and the tombstones of statuses are new."""
    source = site.small_source()
    site.create("shared", SHARED_PARTITIONS)
    first = site.plan(source, site.shared(), "first.json")
    carry_out(first)
    before = current_state(site, "shared", GROUP)
    with ConnectStorage(WorkerConfig.from_file(site.shared())) as storage:
        storage.config.remove_connector_config("a.b")
        for status in (storage.status.get("a.b"), storage.status.get(ConnectorTaskId("a.b", 0))):
            assert isinstance(status, ConnectorStatus | TaskStatus)
            storage.status.put(dataclasses.replace(status, state=State.DESTROYED))
        storage.status.flush()
    with pytest.raises(DestinationNotEmptyError, match=r"offset already holds 1 living key\(s\)"):
        site.plan(source, site.shared(), "second.json")
    with ConnectStorage(WorkerConfig.from_file(site.shared())) as storage:
        flush_offsets(storage.offset_writer("a.b"), ({"filename": "x.txt"}, None))
    assert is_empty(site, "shared", GROUP)
    carry_out(site.plan(source, site.shared(), "second.json"))
    assert current_state(site, "shared", GROUP)[:3] == before[:3]
