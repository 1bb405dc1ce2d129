"""The fence of the old side after a cut-over: settings of its config topic, and a record; put up, found, and lifted again."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from connect_share.errors import GroupMovedError, TopicNotCompactedError
from connect_share.kafka.create import FENCE, OLD_TOPICS, is_fenced
from connect_share.model.records import TopicType
from connect_share.replay import replay_config
from connect_share.storage import ConnectStorage
from connect_share.storage.start import StorageStart
from connect_share.stores.config import KafkaConfigBackingStore
from connect_share.worker_config import WorkerConfig
from migrator.run import Manifest, manifest_path
from tests.support.console import Call
from tests.support.long_forms import LONG
from tests.support.migration_runs import apply_plan, cut_over, roll_back, seal_plan, unseal_plan, verify_plan
from tests.support.migration_site import GROUP, SHARED_PARTITIONS, Site, pair, run
from tests.support.printed import in_bash
from tests.support.programs import killed
from tests.support.sealed_sites import life, worker
from tests.support.topics import delete_known
from tests.support.waiting import await_that

BEFORE = {"cleanup.policy": "compact", "retention.ms": "86400000"}
"""One setting of its own, one that is a default."""


def moved_out(site: Site, name: str = "plan.json", **extra: str) -> tuple[Path, Path]:
    """A dedicated source whose group was moved: its worker file, and the plan, applied."""
    site.create("shared", SHARED_PARTITIONS)
    source = site.small_source(configs={"retention.ms": "86400000"}, **extra)
    plan = site.plan(source, site.shared(), name)
    apply_plan(plan)
    return source, plan


def settings(site: Site, who: str = "own") -> dict[str, str]:
    with site.admin() as admin:
        return admin.own_topic_configs(site.topic(who, TopicType.CONFIG))


def await_settings(site: Site, wanted: Mapping[str, str]) -> None:
    """Wait until the brokers return them: they need a moment."""
    await_that(lambda: settings(site), lambda found: found == wanted, what=f"set to {wanted}")


def start(file: Path) -> None:
    with ConnectStorage(WorkerConfig.from_file(file), allow_empty=True):
        pass


def moved(site: Site, who: str, group: str | None = None) -> Any:
    return replay_config(site.read(site.topic(who, TopicType.CONFIG)), group).moved


@pytest.mark.parametrize(("how", "back"), [("stop", unseal_plan), ("stop", roll_back), ("remove", roll_back)])
def test_an_old_config_topic_is_closed_and_opened_again(site: Site, how: Any, back: Any) -> None:
    source, plan = moved_out(site)
    await_settings(site, BEFORE)
    _, said, _ = run("cutover", plan, "--seal", how, "--dry-run")
    assert f"close {site.topic('own', TopicType.CONFIG)} to old workers: cleanup.policy=compact,delete" in said
    shown = json.loads(run("cutover", plan, "--seal", how, "--dry-run", "--output", "json")[1])
    assert shown["fences"][0]["settings"] == {**BEFORE, "retention.bytes": None}
    await_settings(site, BEFORE)
    code, said, _ = run("cutover", plan, "--seal", how, "--yes")
    assert (code, "is closed: old workers end before they join their group" in said) == (0, True)
    await_settings(site, FENCE)
    assert cut_over_settings(plan) == {**BEFORE, "retention.bytes": None}
    # A store does not start, and nothing that it says would lift the fence.
    with pytest.raises(TopicNotCompactedError, match="unseal PLAN or rollback, with the plan of the move") as refused:
        start(source)
    assert "kafka-configs" not in str(refused.value)
    # Of removed originals there is nothing to compare with.
    assert run("verify", plan)[0] == (0 if how == "stop" else 1)
    start(site.shared())
    if how == "remove":
        assert run("unseal", plan, "--yes")[0] == 1
        backup = plan.with_name(f"{plan.stem}.backup.avro")
        assert run("restore", backup, "--destination-worker-config", source, "--yes")[0] == 0
        await_settings(site, FENCE)
    seal_plan(plan)  # once more
    if how == "remove":
        assert run("restore", backup, "--destination-worker-config", source, "--yes")[0] == 0
    back(plan)
    await_settings(site, BEFORE)
    assert moved(site, "own") is None
    assert replay_config(site.read(site.topic("own", TopicType.CONFIG))).connectors() == {"a.b"}
    start(source)
    assert Manifest.load(manifest_path(plan)).fences == ()


def test_a_closed_topic_is_said_before_what_its_record_says(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    source, plan = moved_out(site)
    assert run("cutover", plan, "--yes")[0] == 0
    await_settings(site, FENCE)
    known, look, begin = threading.Event(), StorageStart._check_policies, KafkaConfigBackingStore.start

    def later(starting: StorageStart) -> None:
        assert known.wait(300)
        look(starting)

    def first(store: KafkaConfigBackingStore) -> None:
        try:
            begin(store)
        finally:
            known.set()

    monkeypatch.setattr(StorageStart, "_check_policies", later)
    monkeypatch.setattr(KafkaConfigBackingStore, "start", first)
    with pytest.raises(TopicNotCompactedError):
        start(source)


def cut_over_settings(plan: Path) -> dict[str, str | None]:
    (fence,) = Manifest.load(manifest_path(plan)).fences
    return fence.settings


def discovered(site: Site, call: Call) -> dict[str, Any]:
    rows = call("discover", "-B", site.bootstrap_servers, "--output", "json").json["clusters"]
    (row,) = (row for row in rows if row["topics"]["config"] == site.topic("own", TopicType.CONFIG))
    return dict(row)


def test_old_topics_stay_as_long_as_is_said(quiet_site: Site, call: Call) -> None:
    plan = quiet_site.folder / "plan.json"
    quiet_site.create("shared", SHARED_PARTITIONS)
    source = quiet_site.small_source()
    quiet_site.lay_down("own", TopicType.CONFIG, [pair("connector-a.b", '{"properties":{"connector.class":"a.B"}}')])
    assert OLD_TOPICS in run("plan", "-w", source, "--to-worker-config", quiet_site.shared(), "-o", plan)[1]
    assert f"{OLD_TOPICS}. `plan`, `cutover` and `discover` print this." in Path("docs/cutting-over.md").read_text(
        "utf-8"
    )
    apply_plan(plan)
    before = discovered(quiet_site, call)
    assert (before["moved"], [each["id"] for each in before["in_the_way"]]) == (None, ["sharing-group-unknown"])
    code, said, _ = run("cutover", plan, "--yes")
    assert (code, OLD_TOPICS in said) == (0, True)
    after = discovered(quiet_site, call)
    to = {"config": quiet_site.topic("shared", TopicType.CONFIG), "group": GROUP}
    assert (after["moved"], after["in_the_way"]) == ({"plan": "plan.json", "to": to}, [])
    said = call("discover", "-B", quiet_site.bootstrap_servers).out
    assert f"moved away by plan.json, to group {GROUP} on {to['config']}: {OLD_TOPICS}" in said
    with quiet_site.admin() as admin:
        delete_known(admin, *(quiet_site.topic("own", topic_type) for topic_type in TopicType))
    for command in ("rollback", "unseal"):
        assert run(command, plan, "--yes")[0] == 1
    for file, connectors in ((quiet_site.shared(), {"a.b"}), (source, set())):
        with ConnectStorage(WorkerConfig.from_file(file), allow_empty=True) as storage:
            assert storage.config.snapshot().connectors() == connectors


_KILLED = """
import os, signal, sys

from connect_share.kafka.admin import Admin
alter = Admin.alter_topic_configs
def killed(self, topic, changes, **named):
    return alter(self, topic, changes, **named) if named else os.kill(os.getpid(), signal.SIGKILL)
Admin.alter_topic_configs = killed
from migrator.cli.__main__ import main
main(sys.argv[1:])
"""


def test_a_kill_between_the_manifest_and_the_request_loses_no_setting(site: Site) -> None:
    source, plan = moved_out(site)
    for command, now in (("cutover", BEFORE), ("unseal", FENCE)):
        killed(_KILLED, command, plan, "--yes")
        await_settings(site, now)
        assert cut_over_settings(plan) == {**BEFORE, "retention.bytes": None}
        assert run(command, plan, "--yes")[0] == 0
        await_settings(site, FENCE if command == "cutover" else BEFORE)
    start(source)


def test_a_manifest_without_a_fence_is_unsealed_and_rolled_back(site: Site) -> None:
    """As 0.3.0 wrote it."""
    source, plan = moved_out(site)
    path = manifest_path(plan)
    cut_over(plan)
    before = {"retention.ms": "1000000000"}
    with site.admin() as admin:
        admin.alter_topic_configs(site.topic("own", TopicType.CONFIG), {**dict.fromkeys(FENCE), **before})
    await_settings(site, before)
    older = json.loads(path.read_text())
    del older["fences"]
    path.write_text(json.dumps(older))
    unseal_plan(plan)
    roll_back(plan)
    await_settings(site, before)
    assert source.exists()


def shared_neighbours(site: Site, *keys: int) -> tuple[Path, Path, Path]:
    """Two groups on shared topics, and fresh topics for one of them: worker files of the leaving one, the other, the new."""
    site.create("shared", SHARED_PARTITIONS)
    site.create("fresh", SHARED_PARTITIONS)
    old, other = worker(site, "shared", GROUP, *keys), worker(site, "shared", "other")
    life(old, "a")
    life(other, "z")
    return old, other, worker(site, "fresh", GROUP, *keys)


@pytest.mark.parametrize(("keys", "back"), [((), "unseal"), ((1,), "rollback")], ids=["plain", "sealed"])
def test_a_group_that_leaves_a_shared_topic_is_fenced_alone(site: Site, keys: tuple[int, ...], back: str) -> None:
    old, other, new = shared_neighbours(site, *keys)
    plan = site.plan(old, new)
    code, said, _ = run("plan", "-w", old, "--to-worker-config", new, "--dry-run")
    assert (code, "cannot be closed to old workers: other groups use it: other" in said) == (0, True)
    apply_plan(plan)
    before = settings(site, "shared")
    cut_over(plan)
    assert settings(site, "shared") == before
    with pytest.raises(
        GroupMovedError, match=r"moved away from .* by plan\.json .* unseal plan.json or rollback with that plan"
    ):
        start(old)
    start(other)
    start(new)
    assert run("verify", plan)[0] == 0
    # A fenced group is no source of another plan, and its backup goes where it was.
    assert "plan the move from where it is now" in run("plan", "-w", old, "--to-worker-config", new, "--dry-run")[2]
    assert run(back, plan, "--yes", *(["--although-used"] if back == "rollback" else []))[0] == 0
    start(old)


def test_a_topic_of_nothing_but_moved_groups_is_closed(site: Site) -> None:
    old, other, new = shared_neighbours(site)
    first, second = site.plan(old, new, "first.json"), site.plan(other, worker(site, "fresh", "other"), "second.json")
    for plan in (first, second):
        apply_plan(plan)
        cut_over(plan)
    await_that(lambda: settings(site, "shared"), is_fenced, what="closed")
    roll_back(second)
    await_that(lambda: settings(site, "shared"), lambda found: not is_fenced(found), what="open")
    with pytest.raises(GroupMovedError):
        start(old)
    start(other)


@pytest.mark.parametrize("kept", [True, False], ids=["same id", "another id"])
def test_a_move_in_place_has_no_settings_that_fence(site: Site, kept: bool) -> None:
    source = site.small_source()
    new = site.worker_file("own", "orders" if kept else "com.acme.orders", sharing=True)
    plan = site.plan(source, new)
    warnings = json.loads(plan.read_text())["warnings"]
    assert any("give the destination another group.id" in each for each in warnings) is kept
    apply_plan(plan)
    before = settings(site)
    cut_over(plan)
    await_settings(site, before)
    with pytest.raises(GroupMovedError, match="the cluster with plain keys was moved away"):
        start(source)
    start(new)


def test_a_part_never_shares_a_kafka_group_with_what_stays(site: Site) -> None:
    source = site.small_source()
    site.lay_group("own", name="stays")
    site.create("shared", SHARED_PARTITIONS)
    plan = site.folder / "job.json"
    wanted = ("plan", "-w", source, "--job", "a.b", "-o", plan, "--to-worker-config")
    code, _, said = run(*wanted, site.shared("orders"))
    assert code == 1
    assert "another group.id, or move the whole group, without --job" in said
    assert not plan.exists()
    # Another id is the way, and what stays is not fenced.
    assert run(*wanted, site.shared())[0] == 0
    apply_plan(plan)
    before = settings(site)
    cut_over(plan)
    await_settings(site, before)
    start(source)
    # So is the whole.
    assert run("plan", "-w", source, "--to-worker-config", site.shared("orders"), "--dry-run")[0] == 0


def test_a_plan_back_puts_the_settings_back_and_its_rollback_the_fence(site: Site) -> None:
    source, plan = moved_out(site)
    cut_over(plan, how="remove")
    back = site.plan(site.shared(), source, "back.json")
    apply_plan(back)
    await_settings(site, BEFORE)
    roll_back(back)
    await_settings(site, FENCE)
    again = site.plan(site.shared(), source, "again.json")
    apply_plan(again)
    assert verify_plan(again).equal
    cut_over(again)
    await_settings(site, BEFORE)
    start(source)


Said = dict[str, tuple[str, str | None]]


def findings(site: Site, source: Path, console: Call) -> Said:
    """Return severity and command by id: what the commands that look at topics say of how the old one is cleaned."""
    found = console("check", "topics", "-w", source, "--output", "json").json["findings"]
    for cluster in console("discover", "-B", site.bootstrap_servers, "--output", "json").json["clusters"]:
        found += cluster["problems"]
    topic = site.topic("own", TopicType.CONFIG)
    here = [each for each in found if each["where"] == topic and ("fence" in each["id"] or "policy" in each["id"])]
    return {each["id"]: (each["severity"], each["command"]) for each in here}


def carry_out(site: Site, command: str | None) -> None:
    """Do what a printed kafka-configs command does."""
    assert command is not None
    (added,) = re.findall(r"--add-config (\S+)", " ".join(in_bash(command)))
    changes = {name: value.strip("[]") for name, value in re.findall(r"([a-z.]+)=(\[[^]]*\]|[^,]*)", added)}
    with site.admin() as admin:
        admin.alter_topic_configs(site.topic("own", TopicType.CONFIG), changes)


def test_checks_know_a_closed_topic_and_find_one_that_was_opened(quiet_site: Site, call: Call) -> None:
    source, plan = moved_out(quiet_site)
    topic = quiet_site.topic("own", TopicType.CONFIG)

    def found_when(wanted: Mapping[str, str]) -> Said:
        await_settings(quiet_site, wanted)
        return findings(quiet_site, source, call)

    assert findings(quiet_site, source, call) == {}
    cut_over(plan)
    closed: Said = {"topics-fenced": ("note", None), "discover-fenced": ("note", None)}
    assert found_when(FENCE) == closed
    assert "closed to workers, as the old side of a move" in run("survey", "-w", source)[1]
    assert "lifts the fence" in call("create", "topics", "-w", source).out
    assert call("check", "startup", "-w", source).out.count("cleanup.policy") == 0
    # What somebody has changed is found, and each command that is printed closes the topic again.
    deletes, a_week = {"cleanup.policy": "delete"}, {"retention.ms": "604800000"}
    changes = [({"cleanup.policy": "compact"}, "lifted"), ({**deletes, **a_week}, "deletes")]
    for change, kind in [*changes, *([(deletes, "deletes"), (a_week, "deletes")] if LONG else [])]:
        with quiet_site.admin() as admin:
            admin.alter_topic_configs(topic, change)
        found = found_when({**FENCE, **change})
        names = (f"topics-fence-{kind}", f"discover-fence-{kind}")
        assert {name: severity for name, (severity, _) in found.items()} == dict.fromkeys(names, "error")
        (command,) = {command for _, command in found.values()}
        carry_out(quiet_site, command)
        await_settings(quiet_site, FENCE)
    assert findings(quiet_site, source, call) == closed
    roll_back(plan)
    assert found_when(BEFORE) == {}
    # Of a topic that no record speaks of, nothing is said that would open it or let something be deleted.
    for retention in ("-1", a_week["retention.ms"]):
        with quiet_site.admin() as admin:
            admin.alter_topic_configs(topic, {**FENCE, "retention.ms": retention})
        found = found_when({**FENCE, "retention.ms": retention})
        opened = {"topics-cleanup-policy", "discover-cleanup-policy"}
        assert found.keys() == (closed.keys() if retention == "-1" else opened)
        for _, command in found.values():
            if command is not None:
                carry_out(quiet_site, command)
        await_settings(quiet_site, FENCE)


def test_what_is_left_of_a_moved_group_is_removed_and_the_fence_stays(site: Site, call: Call) -> None:
    old, _, new = shared_neighbours(site)
    plan = site.plan(old, new)
    apply_plan(plan)
    cut_over(plan)
    assert "repair orphans" not in call("check", "orphans", "-w", old, "--group", GROUP).out
    call("repair", "orphans", "-w", old, "--yes")
    assert call("delete", "group", GROUP, "-w", old, "--yes").code == 0
    with pytest.raises(GroupMovedError):
        start(old)
