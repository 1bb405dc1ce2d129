"""A cut-over that was forgotten, and sealing and unsealing as steps of their own, on a real broker."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from connect_share.errors import AlreadyAppliedError, DestinationUsedError, LiveMembersError, PlanRejectedError
from connect_share.model.config_state import TargetState
from connect_share.model.records import TopicType
from connect_share.replay import replay_config, replay_offsets
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from migrator.moves import Intent
from migrator.run import Manifest, MigrationStatus, manifest_path
from tests.support.connect_member import ConnectMember
from tests.support.flushes import flush_offsets
from tests.support.migration_runs import apply_plan, cut_over, follow_plan, preview_cutover, preview_seal, seal_plan
from tests.support.migration_site import GROUP, SHARED_PARTITIONS, Site, pair, run

FILE = {"filename": "x.txt"}


def work(worker_file: Path, position: int) -> None:
    """Do what new workers do: go on with the source connector."""
    with ConnectStorage(WorkerConfig.from_file(worker_file)) as storage:
        flush_offsets(storage.offset_writer("a.b"), (FILE, {"position": position}))


def states(site: Site) -> dict[str, TargetState | None]:
    state = replay_config(site.read(site.topic("own", TopicType.CONFIG)))
    return {name: state.target_state(name) for name in state.connectors()}


def position(site: Site, group: str = GROUP) -> object:
    offsets = replay_offsets(site.read(site.topic("shared", TopicType.OFFSET)), group)
    return offsets.offset("a.b", FILE)


def test_a_forgotten_cutover_starts_no_old_worker(site: Site) -> None:
    old, new = f"{site.name}-old", f"{site.name}-new"  # members are seen by every test that shares the broker
    source = site.small_source(group=old, exactly_once_source_support="enabled")
    site.lay_down(
        "own",
        TopicType.CONFIG,
        [
            pair("connector-second", '{"properties":{}}'),
            pair("target-state-second", '{"state":"PAUSED"}'),
            pair("connector-third", '{"properties":{}}'),
        ],
    )
    before = {"a.b": TargetState.STOPPED, "second": TargetState.PAUSED, "third": TargetState.STARTED}
    plan = site.plan(source, site.shared(new))
    apply_plan(plan)
    with pytest.raises(PlanRejectedError, match=r"no new worker has written since the copy: .* cutover"):
        preview_seal(plan)
    assert "is not sealed" in run("unseal", plan, "--yes")[2]
    work(site.shared(new), 99)
    for verb in (("cutover", plan, "--yes"), ("cutover", plan, "--dry-run")):
        code, _, said = run(*verb)
        assert code == 1
        assert f"new workers have written since: records of 'a.b' under {new}. Do not start the old" in said
        assert f"connect-share-migrate seal {plan}" in said
        assert "may be started" not in said
    with ConnectMember(site.bootstrap_servers, new):
        assert "Do not start the old ones" in run("cutover", plan, "--yes")[2]
    code, said, _ = run("verify", plan)
    assert code == 1
    assert "warning: new workers have written since: records of 'a.b'; do not start the old ones" in said
    assert states(site) == before

    # Sealed at last, while the new ones run; an old one that runs is found.
    with ConnectMember(site.bootstrap_servers, old), pytest.raises(LiveMembersError):
        seal_plan(plan)
    with ConnectMember(site.bootstrap_servers, new):
        code, said, _ = run("seal", plan, "--yes", "--output", "json")
    assert code == 0
    assert json.loads(said)["fenced"] == 2
    assert set(states(site).values()) == {TargetState.STOPPED}
    assert Manifest.load(manifest_path(plan)).status is MigrationStatus.CUT_OVER
    assert position(site, new) == {"position": 99}
    code, said, _ = run("verify", plan)
    assert (code, "'a.b' was not judged" in said) == (0, True)

    # And back, by whoever knows what was done meanwhile.
    code, said, _ = run("unseal", plan, "--dry-run")
    assert (code, "3 connector(s)" in said, "needs --although-used" in said) == (0, True, True)
    assert "--although-used" in run("unseal", plan, "--yes")[2]
    assert run("unseal", plan, "--yes", "--although-used")[0] == 0
    assert states(site) == before
    assert "needs --although-used" in run("rollback", plan, "--dry-run")[1]
    assert json.loads(run("rollback", plan, "--dry-run", "--output", "json")[1])["needs_although_used"] is True
    assert run("rollback", plan, "--although-used", "--yes")[0] == 0
    assert "nothing to seal" in run("seal", plan, "--yes")[2]


def test_nothing_is_mirrored_over_what_new_workers_wrote(site: Site) -> None:
    source = site.small_source(configs={"segment.ms": "3000000000000"})
    site.create("shared", SHARED_PARTITIONS)
    plan = site.plan(source, site.shared(), intent=Intent(follow=True))
    apply_plan(plan)
    follow_plan(plan, stopped=lambda: True, report=lambda _: None)
    site.lay_down("own", TopicType.OFFSET, [pair('["a.b",{"filename":"x.txt"}]', '{"position":50}')])
    noted = Manifest.load(manifest_path(plan))
    follow_plan(plan, stopped=lambda: True, report=lambda _: None)
    noted.save(manifest_path(plan))  # killed before the round was written down: those records are the plan's own
    assert preview_cutover(plan).how == "stop"
    site.lay_down("own", TopicType.OFFSET, [pair('["a.b",{"filename":"x.txt"}]', '{"position":51}')])
    work(site.shared(), 99)
    with pytest.raises(DestinationUsedError):
        cut_over(plan)
    with pytest.raises(DestinationUsedError):
        follow_plan(plan, stopped=lambda: True, report=lambda _: None)
    assert position(site) == {"position": 99}


def test_what_an_exit_left_is_removed_later_while_new_workers_run(site: Site) -> None:
    group = f"{site.name}-live"  # members are seen by every test that shares the broker
    site.create("shared", SHARED_PARTITIONS)
    source = site.small_source()
    there = site.plan(source, site.shared(group), "there.json")
    apply_plan(there)
    cut_over(there)
    site.lay_down("shared", TopicType.CONFIG, [pair(f"{group}.session-key", "{}"), pair("other.connector-z", "{}")])
    plain = site.worker_file("fresh", group, sharing=False)
    out = site.plan(site.shared(group), plain, "out.json")
    apply_plan(out)
    cut_over(out)
    before = site.read(site.topic("fresh", TopicType.CONFIG))
    with ConnectMember(site.bootstrap_servers, group):
        code, said, _ = run("seal", out, "--seal", "remove", "--dry-run")
        assert (code, "make sure that they are the new ones" in said) == (0, True)
        assert "a tombstone for each record" in said
        assert run("seal", out, "--seal", "remove", "--yes")[0] == 0
    for topic_type in TopicType:
        newest = {record.key: record.value for record in site.read(site.topic("shared", topic_type))}
        living = {key for key, value in newest.items() if value not in {None, b"null"}}
        assert living == ({b"other.connector-z"} if topic_type is TopicType.CONFIG else set())
    assert site.read(site.topic("fresh", TopicType.CONFIG)) == before
    with pytest.raises(AlreadyAppliedError, match="no connector is left to stop"):
        seal_plan(out, "stop")
    assert f"restore {out.with_name('out.backup.avro')}" in run("unseal", out, "--yes")[2]
    assert "seal and unseal" in run("cutover", out, "--yes")[2]
    # Sealing once more changes nothing, and one may come in again.
    assert seal_plan(out).manifest.sealed is not None
    apply_plan(site.plan(plain, site.shared(group), "again.json"))


def test_a_cutover_that_was_killed_while_it_sealed_is_repeated(site: Site) -> None:
    """Of workers that were stopped before: what it had written is no growth of the source."""
    source = site.small_source()
    site.lay_down("own", TopicType.CONFIG, [pair("connector-second", '{"properties":{}}')])
    plan = site.plan(source, site.shared())
    apply_plan(plan)
    done = cut_over(plan).manifest
    assert done.sealed is not None
    assert done.sealed.target_states == ({"a.b": TargetState.STOPPED, "second": TargetState.STARTED},)
    killed = {"status": MigrationStatus.VERIFIED, "finished_at_ms": None}
    done.model_copy(update=killed).save(manifest_path(plan))
    assert run("cutover", plan, "--yes")[0] == 0
    assert set(states(site).values()) == {TargetState.STOPPED}
    assert Manifest.load(manifest_path(plan)).status is MigrationStatus.CUT_OVER


def test_what_was_mirrored_is_backed_up_before_it_is_removed(site: Site) -> None:
    """Of one connector of several, and taken back in the end."""
    source = site.small_source(configs={"segment.ms": "3000000000000"})
    site.lay_down("own", TopicType.CONFIG, [pair("connector-stays", '{"properties":{}}')])
    plan = site.plan(source, site.shared(), intent=Intent(follow=True, job="a.b"))
    assert run("apply", plan, "--yes")[0] == 0
    site.lay_down("own", TopicType.OFFSET, [pair('["a.b",{"filename":"x.txt"}]', '{"position":50}')])
    site.lay_down("own", TopicType.OFFSET, [pair('["stays",{}]', "{}")])
    code, _, said = run("cutover", plan, "--seal", "remove", "--yes")
    assert code == 0, said
    manifest = Manifest.load(manifest_path(plan))
    assert manifest.mirrored_backup is not None
    assert manifest.mirrored_backup.records == 2  # both are of this group
    assert position(site) == {"position": 50}
    assert states(site).keys() == {"stays"}
    code, _, said = run("rollback", plan, "--yes")
    assert code == 1
    commands = re.findall(r"connect-share-migrate (restore \S+ --destination-worker-config [^\s,]+)", said)
    assert [Path(each.split()[1]).name for each in commands] == ["plan.backup.avro", "plan.mirrored.avro"]
    for each in commands:
        assert run(*each.split(), "--yes")[0] == 0
    assert run("rollback", plan, "--yes")[0] == 0
    assert position(site) is None
    assert states(site)["a.b"] is TargetState.STOPPED
    own = replay_offsets(site.read(site.topic("own", TopicType.OFFSET)))
    assert own.offset("a.b", FILE) == {"position": 50}


def test_unsealed_followed_and_cut_over_again(site: Site) -> None:
    source = site.small_source(configs={"segment.ms": "3000000000000"})
    paused = [pair("connector-second", '{"properties":{}}'), pair("target-state-second", '{"state":"PAUSED"}')]
    site.lay_down("own", TopicType.CONFIG, paused)
    log_append = {"message.timestamp.type": "LogAppendTime"}  # records are recognised all the same
    site.create("shared", SHARED_PARTITIONS, log_append)
    plan = site.plan(source, site.shared(), intent=Intent(follow=True))
    apply_plan(plan)
    for at in range(2):
        site.lay_down("own", TopicType.OFFSET, [pair('["a.b",{"filename":"x.txt"}]', f'{{"position":{at}}}')])
        noted = Manifest.load(manifest_path(plan))
        follow_plan(plan, stopped=lambda: True, report=lambda _: None)
        if at:
            noted.save(manifest_path(plan))  # a round that was killed
        verification = cut_over(plan).verification
        assert verification is not None
        assert verification.equal
        assert position(site) == {"position": at}
        assert set(states(site).values()) == {TargetState.STOPPED}
        assert run("unseal", plan, "--yes")[0] == 0
        assert states(site)["second"] is TargetState.PAUSED
    new = replay_config(site.read(site.topic("shared", TopicType.CONFIG)), GROUP)
    assert new.target_state("second") is TargetState.PAUSED
