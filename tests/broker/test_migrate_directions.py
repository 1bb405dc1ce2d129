"""Every direction of a move, local engine, real broker; each is verified, and looked at record by record."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_share.errors import ConfigError, DestinationNotEmptyError, PlanRejectedError
from connect_share.model.records import Record, TopicType
from connect_share.replay import replay_config, replay_offsets, replay_status
from migrator.cli.options import plan_lines
from migrator.moves import Intent
from migrator.plan import MigrationPlan
from migrator.planner import make_plan
from tests.support.migration_runs import apply_plan, verify_plan
from tests.support.migration_site import SHARED_PARTITIONS, Site, pair, run, run_well


def carry_out(path: Path) -> MigrationPlan:
    apply_plan(path)
    verification = verify_plan(path)
    assert verification.equal, verification.differences
    assert verification.warnings == ()
    return MigrationPlan.load(path)


def keys(site: Site, who: str, topic_type: TopicType) -> list[bytes | None]:
    return [record.key for record in site.read(site.topic(who, topic_type))]


def fill(site: Site, who: str, names: list[str], prefix: str = "") -> None:
    for name in names:
        site.lay_group(who, prefix, name)


def said(plan: MigrationPlan) -> str:
    return "\n".join(plan_lines(plan))


def test_shared_to_shared_takes_one_group_of_many(site: Site) -> None:
    site.create("shared")
    fill(site, "shared", ["a", "b"], "eu.orders.")
    fill(site, "shared", ["a"], "eu.")
    fill(site, "shared", ["a"], "other.")
    site.produce([Record(site.topic("shared", TopicType.CONFIG), 0, 0, 1, b"\xff", b"x")])
    target = site.worker_file("second", "orders-2", sharing=True)
    plan = carry_out(site.plan(site.worker_file("shared", "eu.orders", sharing=True), target))
    assert plan.sources[0].connectors == 2
    expected = ("transactional ids", "interceptor.classes does not have")
    assert all(any(words in warning for words in expected) for warning in plan.warnings)  # others' records: no warning
    for topic_type in TopicType:
        found = keys(site, "second", topic_type)
        assert found
        assert all(key is not None and key.startswith(b"orders-2.") for key in found)
    assert replay_config(site.read(site.topic("second", TopicType.CONFIG)), "orders-2").connectors() == {"a", "b"}


def test_several_groups_are_merged_on_request(site: Site) -> None:
    site.create("shared")
    fill(site, "shared", ["a", "a.b"], "one.")
    fill(site, "shared", ["c"], "two.")
    marker = [pair(f"{group}.target-state-", "null") for group in ("one", "two")]  # of groups that were moved before
    site.lay_down("shared", TopicType.CONFIG, marker)
    sources = [site.worker_file("shared", group, sharing=True) for group in ("one", "two")]
    target = site.worker_file("second", "both", sharing=True)
    path = site.folder / "plan.json"
    with pytest.raises(ConfigError, match="--merge"):
        make_plan(sources, [target, target], now_ms=1)
    make_plan(sources, [target], now_ms=1, intent=Intent(merge=True)).save(path)
    carry_out(path)
    state = replay_config(site.read(site.topic("second", TopicType.CONFIG)), "both")
    assert state.connectors() == {"a", "a.b", "c"}
    assert [state.task_count(name) for name in ("a", "a.b", "c")] == [1, 1, 1]
    fill(site, "shared", ["a"], "two.")
    third = site.worker_file("third", "both", sharing=True)
    with pytest.raises(PlanRejectedError, match="'a' in one, two"):
        make_plan(sources, [third], now_ms=1, intent=Intent(merge=True))


def test_the_plain_mirror(site: Site) -> None:
    """KIP-1173: an old cluster becomes the one plain group of shared topics."""
    source = site.small_source()
    site.create("shared")
    fill(site, "shared", ["a"], "other.")
    plain = site.worker_file("shared", "orders", sharing=False)
    carry_out(site.plan(source, plain))
    assert replay_config(site.read(site.topic("shared", TopicType.CONFIG))).connectors() == {"a.b"}
    second = site.small_source("own2", "billing")
    with pytest.raises(DestinationNotEmptyError, match="plain keys"):
        make_plan([second], [plain], now_ms=1)


def test_the_sharing_lines_of_the_files_are_judged(site: Site) -> None:
    """By the rules of ``check worker-config``, of the destination and of the source."""
    site.create("shared", SHARED_PARTITIONS)
    for group in ("team.a", "team.b"):
        site.lay_down("shared", TopicType.CONFIG, [pair(f"{group}.connector-x", '{"properties":{}}')])
    source, destination = site.small_source(), site.worker_file("shared", "orders", sharing=True)
    kept = [line for line in destination.read_text().splitlines() if "topic.sharing.support" not in line]
    destination.write_text("\n".join(kept))
    files = ("--source-worker-config", source, "--destination-worker-config", destination)
    shown = run_well("plan", *files, "--dry-run")
    (warned, *_) = [line for line in shown.splitlines() if line.startswith("warning: ")]
    missing = "connect.management.topic.sharing.support is missing; add connect.management"
    assert warned.startswith(f"warning: {destination}: {missing}")
    assert "team.a, team.b share under their prefixes" in warned
    destination.write_text("\n".join([*kept, "interceptor.classes=connectshare.TopicSharingInterceptor"]))
    for both in (([source], [destination]), ([destination], [source])):
        with pytest.raises(PlanRejectedError, match=r"has the interceptor, but .*sharing\.support is missing; add"):
            make_plan(*both, now_ms=1)


LIKE_NAMES = ["jdbc", "jdbc-0", "jdbc.x", "jdb", "jdbc-1-0", "0"]


def test_one_job_among_names_that_look_like_it(site: Site) -> None:
    job = "jdbc-0"
    site.create("own")
    fill(site, "own", LIKE_NAMES)
    source = site.worker_file("own", "orders", sharing=False)
    target = site.worker_file("shared", "new.home", sharing=True)
    path = site.plan(source, target, intent=Intent(job=job))
    plan = carry_out(path)
    assert plan.sources[0].connectors == 1
    assert f"orders becomes new.home (only connector {job!r})" in said(plan)
    assert f"copy the records of connector {job!r} of orders" in said(plan)
    state = replay_config(site.read(site.topic("shared", TopicType.CONFIG)), "new.home")
    assert state.connectors() == {job}
    assert state.task_count(job) == 1
    statuses = replay_status(site.read(site.topic("shared", TopicType.STATUS)), "new.home")
    assert statuses.connectors() == {job}
    assert len(statuses.task_statuses(job)) == 1
    offsets = replay_offsets(site.read(site.topic("shared", TopicType.OFFSET)), "new.home")
    assert offsets.connectors() == {job}
    # A second one joins the group that is there now; the same one again is refused.
    other = next(name for name in LIKE_NAMES if name != job)
    carry_out(site.plan(source, target, "second.json", Intent(job=other)))
    assert replay_config(site.read(site.topic("shared", TopicType.CONFIG)), "new.home").connectors() == {job, other}
    with pytest.raises(DestinationNotEmptyError, match="connector"):
        site.plan(source, target, "third.json", Intent(job=job))


def test_a_job_that_is_nowhere_or_twice(site: Site) -> None:
    first, second = site.small_source("one", "orders"), site.small_source("two", "billing")
    plan = make_plan([first, second], [site.shared()], now_ms=1)
    assert [source.cluster_group_id for source in plan.sources] == ["orders", "billing"]
    assert any("not used" in warning for warning in plan.warnings)
    assert any("'a.b' exists in orders, billing" in warning for warning in plan.warnings)
    with pytest.raises(PlanRejectedError, match=r"'a\.b' exists in orders, billing"):
        make_plan([first, second], [site.shared()], now_ms=1, intent=Intent(job="a.b"))
    with pytest.raises(PlanRejectedError, match="none of the sources has a record of connector 'a'"):
        make_plan([first, second], [site.shared()], now_ms=1, intent=Intent(job="a"))
    site.lay_down("one", TopicType.OFFSET, [pair('["a",{"n":1}]', '{"position":1}', 0)])
    plan = make_plan([first, second], [site.shared()], now_ms=1, intent=Intent(job="a"))
    assert "connector 'a' has no configuration any more: only what is left of it is moved" in plan.warnings


def test_two_clusters_that_share_plain_keys_are_split(site: Site) -> None:
    site.create("own")
    fill(site, "own", ["a", "b", "c.d", "e"])
    files = [site.worker_file("own", group, sharing=False) for group in ("one", "two")]
    targets = [site.worker_file("shared", group, sharing=True) for group in ("one", "two")]
    with pytest.raises(ConfigError, match="--assign"):
        make_plan(files, targets, now_ms=1)
    assignment = site.folder / "assign.json"
    arguments: list[str | Path] = ["plan", "--source-worker-config", *files, "--destination-worker-config", *targets]
    arguments += ["--assign", assignment, "-o", site.folder / "split.json"]
    assignment.write_text('{"one": ["a", "c.d"], "two": ["b"]}')
    code, _, said = run(*arguments)
    assert (code, "1 connector(s) are in no group of the assignment: 'e'" in said) == (1, True)
    assignment.write_text('{"one": ["a", "c.d"], "two": ["b", "a"]}')
    assert "'a' to two groups" in run(*arguments)[2]
    assignment.write_text('{"one": "a"}')
    code, _, said = run(*arguments)
    assert (code, "at one" in said) == (2, True)
    assignment.write_text('{"one": ["a", "c.d"], "two": ["b", "e"]}')
    assert run(*arguments)[0] == 0
    carry_out(site.folder / "split.json")
    records = site.read(site.topic("shared", TopicType.CONFIG))
    assert replay_config(records, "one").connectors() == {"a", "c.d"}
    assert replay_config(records, "two").connectors() == {"b", "e"}
