"""Plans of repairs: the least dangerous way for each state, and a refusal with the reason where there is none."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connect_share.cli.__main__ import main
from connect_share.topic_ids.compare.causes import topic_reports
from connect_share.topic_ids.compare.compare import compare
from connect_share.topic_ids.repair.plan import plan_repair
from connect_share.topic_ids.repair.steps import RepairMethod, RepairPlan, StepAction
from connect_share.topic_ids.scan.scans import read_brokers_dir
from tests.topic_ids.trees import NAMES, Tree

ORDERS = "VFikBPGgTFa4tSj3PZTVgw"
QUIET = "_1rbZLPtTwuBu_gSZzj94w"
NEW = "RRYSOf9BTOKG7WUAdl0c2g"
OTHER_ID = "AAAAAAAAQACAAAAAAAAABQ"
STRAY = "00ef6bfc14a54b1da530402ecd269582-stray"


def plan(tree: Tree) -> RepairPlan:
    return plan_repair(tree.compared())


def methods(found: RepairPlan) -> dict[str, tuple[RepairMethod, str]]:
    return {one.topic: (one.method, one.topic_id) for one in found.topics}


def actions(found: RepairPlan) -> list[Any]:
    return [(step.action, step.topic or step.broker) for step in found.steps]


def refusal(found: RepairPlan) -> str:
    assert found.steps == []
    [one] = found.refused
    return f"{one.topic}: {one.reason}"


@pytest.fixture
def zk(tmp_path: Path) -> Tree:
    return Tree("healthy-zk", tmp_path)


@pytest.fixture
def kraft(tmp_path: Path) -> Tree:
    return Tree("healthy-kraft", tmp_path)


def test_the_documented_case_is_repaired_without_touching_a_file(tmp_path: Path) -> None:
    tree = Tree("blog-case-zk", tmp_path)
    original = json.loads((tree.folder / "expected.json").read_text())["original_ids"]
    found = plan(tree)
    assert methods(found) == {
        topic: (RepairMethod.WRITE_BACK, original[topic]) for topic in ("events", "orders", "single")
    }
    writes = [("write-znode", topic) for topic in ("events", "orders", "single")]
    assert actions(found) == [("back-up", None), ("pause", None), *writes, ("change-controller", None), ("check", None)]
    before = json.loads(json.loads(tree.zookeeper.read_text())["/brokers/topics/orders"])
    command = found.steps[3].command or ""
    assert command.startswith("set -v VERSION /brokers/topics/orders {")
    assert json.loads(command.split(" ", 4)[4]) == {**before, "topic_id": ORDERS}
    assert (found.refused, found.left) == ([], [])


@pytest.mark.parametrize("case", NAMES)
def test_nothing_that_was_measured_to_lose_records_is_ever_planned(case: str, tmp_path: Path) -> None:
    found = plan(Tree(case, tmp_path))
    for step in found.steps:
        assert "leader-epoch-checkpoint" not in f"{step.path} {step.command}"
        assert "rm " not in (step.command or "")
    assert found.refused == []


@pytest.mark.parametrize("case", ["one-replica-zk", "garbage-file", "zero-id"])
def test_one_file_is_written_while_its_broker_is_stopped(case: str, tmp_path: Path) -> None:
    found = plan(Tree(case, tmp_path))
    assert methods(found) == {"orders": (RepairMethod.FILES, ORDERS)}
    assert actions(found)[2:] == [("stop-broker", 2), ("write-file", "orders"), ("start-broker", 2), ("check", None)]
    assert found.steps[3].path == "logdir-2/orders-0/partition.metadata"
    assert "lock" in found.steps[3].before[0]


def test_a_missing_file_needs_nothing_with_zookeeper(tmp_path: Path) -> None:
    found = plan(Tree("missing-file", tmp_path))
    assert (found.steps, [one.topic for one in found.left]) == ([], ["orders"])


def test_a_stripped_znode_needs_no_new_controller(zk: Tree) -> None:
    zk.change_znode("orders", topic_id=None)
    found = plan(zk)
    assert methods(found) == {"orders": (RepairMethod.WRITE_BACK, ORDERS)}
    assert actions(found)[2:] == [(StepAction.WRITE_ZNODE, "orders"), (StepAction.CHECK, None)]
    zk.change_znode("quiet", topic_id="not-an-id")
    found = plan(zk)
    assert [step.topic for step in found.steps if step.action is StepAction.WRITE_ZNODE] == ["orders", "quiet"]
    assert [step.action for step in found.steps].count(StepAction.CHANGE_CONTROLLER) == 1


def test_a_shared_id_is_taken_from_the_topic_whose_it_is_not(zk: Tree) -> None:
    zk.change_znode("quiet", topic_id=ORDERS)
    found = plan(zk)
    assert methods(found) == {"quiet": (RepairMethod.WRITE_BACK, QUIET)}
    assert [one.topic for one in found.left] == ["orders"]


def test_partitions_added_since(zk: Tree) -> None:
    """Partition 0 has the original id, partition 1 the one that a controller made up."""
    zk.change_znode("orders", topic_id=NEW)
    for directory in zk.directories("orders"):
        if directory.endswith("-1"):
            zk.set_id(directory, NEW)
    larger = {directory: 900 for directory in zk.directories("orders") if directory.endswith("-0")}
    zk.set_sizes(larger)
    found = plan(zk)
    assert methods(found) == {"orders": (RepairMethod.WRITE_BACK_AND_FILES, ORDERS)}
    controller = json.loads(json.loads(zk.zookeeper.read_text())["/controller"])["brokerid"]
    stopped = [step.broker for step in found.steps if step.action is StepAction.STOP_BROKER]
    assert (set(stopped), len(stopped), stopped[-1]) == ({1, 2, 3}, 3, controller)
    kinds = [step.action for step in found.steps]
    assert kinds.index(StepAction.CHANGE_CONTROLLER) < kinds.index(StepAction.STOP_BROKER)
    assert {step.partition for step in found.steps if step.action is StepAction.WRITE_FILE} == {1}
    second = kinds.index(StepAction.STOP_BROKER, kinds.index(StepAction.START_BROKER))
    assert "ISR is full" in " ".join(found.steps[second].before)
    zk.set_sizes(dict.fromkeys(larger, 5))
    found = plan(zk)
    assert methods(found) == {"orders": (RepairMethod.FILES, NEW)}
    assert {step.partition for step in found.steps if step.action is StepAction.WRITE_FILE} == {0}
    (zk.folder / "files.json").unlink()
    assert "which hold more records is not known" in refusal(plan(zk))


def test_a_replica_of_another_log_is_not_given_the_id(tmp_path: Path) -> None:
    """The obvious repair would mix the records of two topics; only the leader epochs show that they are two."""
    tree = Tree("one-replica-zk", tmp_path)
    for broker, epochs in ((1, "0 0\n1 40\n2 90\n"), (3, "0 0\n1 40\n2 90\n"), (2, "0 0\n1 55\n2 90\n")):
        [directory] = [
            one for one in tree.directories("orders") if one.startswith(f"broker-{broker}") and one.endswith("-0")
        ]
        (tree.folder / directory / "leader-epoch-checkpoint").write_text(f"0\n3\n{epochs}")
    assert "its records are another topic's" in refusal(plan(tree))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("disagree", "partition 0: in-sync replicas have different ids, and the leader not ZooKeeper's"),
        ("no-leader", "replicas have 2 different ids and no leader shows"),
        ("no-id", "neither ZooKeeper nor any replica has a usable id"),
        ("moving", "a reassignment is under way"),
        ("deleting", "its deletion is under way"),
        ("tiered-cluster", "whether this topic does is not known"),
        ("tiered-topic", "it uses tiered storage"),
        ("not-scanned", "its replicas on broker 3 were not all read"),
        ("twice", "lies in two log dirs of one broker"),
        ("empty-leader", "an empty one there would make the others throw their records away"),
        ("no-json", "its znode cannot be understood"),
    ],
)
def test_refused(zk: Tree, change: str, reason: str) -> None:
    directories = zk.directories("orders")
    texts = json.loads(zk.zookeeper.read_text())
    if change == "disagree":
        state = json.loads(texts["/brokers/topics/orders/partitions/0/state"])
        for directory in directories:
            mine = directory.startswith(f"broker-{state['leader']}")
            zk.set_id(directory, OTHER_ID if mine and directory.endswith("-0") else ORDERS)
    elif change == "no-leader":
        for name in ("0", "1"):
            texts[f"/brokers/topics/orders/partitions/{name}/state"] = '{"leader":-1,"isr":[]}'
        zk.zookeeper.write_text(json.dumps(texts))
        zk.set_id(directories[0], OTHER_ID)
    elif change == "no-id":
        zk.change_znode("orders", topic_id=None)
        for directory in directories:
            (zk.folder / directory / "partition.metadata").unlink()
    elif change == "empty-leader":
        leader = json.loads(texts["/brokers/topics/orders/partitions/0/state"])["leader"]
        [gone] = [one for one in directories if one.startswith(f"broker-{leader}") and one.endswith("-0")]
        (zk.folder / gone).rename(zk.folder / "elsewhere")
    elif change == "twice":
        broker, log_dir, name = directories[0].split("/")
        other = f"{broker}/logdir-{3 - int(log_dir[-1])}/{name}"
        (zk.folder / other).mkdir()
        zk.set_id(other, ORDERS)
    else:
        zk.change_znode("orders", topic_id=NEW, **({"adding_replicas": {"0": [4]}} if change == "moving" else {}))
        texts = json.loads(zk.zookeeper.read_text())
        texts |= {
            "deleting": {"/admin/delete_topics/orders": ""},
            "tiered-cluster": {
                "/brokers/topics/__remote_log_metadata": texts["/brokers/topics/quiet"].replace(QUIET, OTHER_ID)
            },
            "tiered-topic": {"/config/topics/orders": '{"config":{"remote.storage.enable":"true"}}'},
            "no-json": {"/brokers/topics/orders": "oops"},
        }.get(change, {})
        zk.zookeeper.write_text(json.dumps(texts))
        if change == "not-scanned":
            (zk.folder / "broker-3").rename(zk.folder / "elsewhere")
    found = plan(zk)
    if change == "tiered-cluster":  # whose own topic has no directories here
        found.refused = [one for one in found.refused if one.topic == "orders"]
    assert reason in refusal(found)


def test_kafkas_own_topics_are_repaired_by_the_write_back_only(zk: Tree) -> None:
    zk.change_znode("__consumer_offsets", topic_id=NEW)
    assert methods(plan(zk))["__consumer_offsets"][0] is RepairMethod.WRITE_BACK
    zk.change_znode("__consumer_offsets", topic_id="oNqacNuxQ_aYHyG2slWdGw")
    follower = next(one for one in zk.directories("__consumer_offsets") if one.startswith("broker-1"))
    (zk.folder / follower / "partition.metadata").write_text("garbage")
    assert "only the write into the znode was tried" in refusal(plan(zk))


def test_another_cluster_stops_everything(zk: Tree) -> None:
    zk.change_znode("orders", topic_id=NEW)
    meta = zk.folder / "broker-1/logdir-1/meta.properties"
    meta.write_text(meta.read_text().replace("oPhLrb4P", "xxxxxxxx"))
    assert "None: broker 1, logdir-1: belongs to another cluster" in refusal(plan(zk))


def test_the_truth_has_to_be_that_of_the_brokers(zk: Tree, kraft: Tree) -> None:
    for tree, other, reason in ((zk, kraft, "run with ZooKeeper"), (kraft, zk, "run with KRaft")):
        found = compare(read_brokers_dir(tree.folder), other.authority())
        assert any("is not their authority" in note for note in found.notes)
        assert any(reason in one.reason for one in plan_repair(found).refused)


def test_running_brokers_do_not_know_whose_another_id_was(kraft: Tree) -> None:
    asked = replace(kraft.authority(), from_memory=True)
    shown = replace(asked, topics={name: topic for name, topic in asked.topics.items() if name != "quiet"})
    [hidden] = topic_reports(compare(read_brokers_dir(kraft.folder), shown))
    assert hidden.reasons == ["or the brokers do not show it to this login, which needs DESCRIBE on all topics"]
    sizes = set_aside(kraft, "single")
    assert plan_repair(compare(read_brokers_dir(kraft.folder), asked)).refused == []
    [stray] = [name for name in sizes if name.endswith("-stray")]
    kraft.set_id(stray, OTHER_ID)
    assert "use --metadata-dump FILE" in refusal(plan_repair(compare(read_brokers_dir(kraft.folder), asked)))
    assert [one.method for one in plan(kraft).topics] == [RepairMethod.STRAY_RECOVERY]
    kraft.set_id(kraft.directories("single")[0], OTHER_ID)
    found = plan_repair(compare(read_brokers_dir(kraft.folder), asked))
    assert {"use --metadata-dump FILE" in one.reason for one in found.refused} == {True}
    assert len(found.refused) == 2


def test_a_deleted_topics_directory_is_never_given_the_new_id(tmp_path: Path) -> None:
    found = plan(Tree("recreated-kraft", tmp_path))
    assert (found.steps, found.refused) == ([], [])
    assert any("would mix the deleted topic's records into the new one" in one.reason for one in found.left)


def set_aside(tree: Tree, topic: str, left_out: int = 0) -> dict[str, int]:
    """Do what KRaft brokers do when ``partition.metadata`` was deleted: all replicas stray, and empty ones instead."""
    sizes = {}
    for directory in tree.directories(topic):
        path = tree.folder / directory
        if not directory.startswith(f"broker-{left_out}"):
            path.rename(path.with_name(f"{path.name}.{STRAY}"))
            (path.with_name(f"{path.name}.{STRAY}") / "partition.metadata").unlink()
            path.mkdir()
            sizes[f"{directory}.{STRAY}"] = 500
        topic_id = next(line for line in tree.metadata_dump.read_text().splitlines() if f'"name":"{topic}"' in line)
        tree.set_id(directory, json.loads(topic_id.split("payload: ")[1])["data"]["topicId"])
        sizes[directory] = 0
    tree.set_sizes(sizes)
    return sizes


def test_emptied_topics_get_their_stray_directories_back(kraft: Tree) -> None:
    sizes = set_aside(kraft, "quiet")
    found = plan(kraft)
    assert [(one.topic, one.method) for one in found.topics] == [("quiet", RepairMethod.STRAY_RECOVERY)]
    on_each = ["move-aside", "rename", "write-file"] * 3
    steps = ["back-up", "pause", *["stop-broker"] * 3, *on_each, *["start-broker"] * 3, "check"]
    assert [step.action for step in found.steps] == steps
    assert found.steps[6].path == f"logdir-2/quiet-0.{STRAY}"
    assert found.steps[7].path == "logdir-2/quiet-0/partition.metadata"
    directory = kraft.directories("quiet")[0]
    kraft.set_sizes({**sizes, directory: 7})
    assert "is served, the replica was filled again from the leader" in plan(kraft).left[0].reason
    (kraft.folder / "files.json").unlink()
    assert "sizes of logs are not known" in refusal(plan(kraft))
    for name in ("0.log", "0.index", "0.timeindex"):
        (kraft.folder / f"{directory}.{STRAY}" / name).touch()
    by_hand = [step.command for step in found.steps if step.broker == 1 and step.command]
    subprocess.run(";".join(["umask 077", *by_hand]), shell=True, check=True, cwd=kraft.folder / "broker-1")
    assert {each.name for each in kraft.folder.glob("broker-1/*/quiet-0/0.*")} == {"0.log"}
    assert (kraft.folder / directory / "partition.metadata").stat().st_mode & 0o777 == 0o644


def test_strays_that_cannot_be_put_back(kraft: Tree) -> None:
    set_aside(kraft, "quiet", left_out=2)
    assert "broker 2 set nothing aside; if its empty replica leads" in refusal(plan(kraft))


def test_a_single_replica_with_new_records_is_refused(kraft: Tree) -> None:
    sizes = set_aside(kraft, "single")
    assert [one.method for one in plan(kraft).topics] == [RepairMethod.STRAY_RECOVERY]
    kraft.set_sizes({**sizes, kraft.directories("single")[0]: 1})
    assert "new records were written since" in refusal(plan(kraft))


def test_files_of_kraft_brokers(kraft: Tree) -> None:
    """Followers are best left to the brokers; the only replica, and what keeps a log dir offline, is mended."""
    follower = next(one for one in kraft.directories("orders") if one.startswith("broker-2") and one.endswith("-0"))
    kraft.set_id(follower, OTHER_ID)
    found = plan(kraft)
    assert (found.steps, "copies from the leader" in found.left[0].reason) == ([], True)
    (kraft.folder / follower / "partition.metadata").write_text("garbage")
    found = plan(kraft)
    assert [step.action for step in found.steps][1:4] == ["stop-broker", "write-file", "start-broker"]
    [single] = kraft.directories("single")
    (kraft.folder / single / "partition.metadata").unlink()
    found = plan(kraft)
    assert {one.topic for one in found.topics} == {"orders", "single"}
    kraft.set_id(single, found.topics[0].topic_id)
    assert "has the id of topic orders" in plan(kraft).refused[0].reason


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = Tree("blog-case-zk", tmp_path)
    words = ["repair", "topic-ids", "--brokers-dir", str(tree.folder), *tree.authority_words]
    assert main([*words, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "6. change the controller once" in shown
    assert "   by hand: delete /controller" in shown
    assert shown.endswith("7 steps, nothing refused; nothing was changed\n")
    assert main([*words, "--dry-run", "--output", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["_command"], result["dry_run"], result["mode"]) == ("repair topic-ids", True, "zookeeper")
    assert [step["step"] for step in result["steps"]] == list(range(1, 8))
    assert main(words) == 2
    assert (
        "what can be done from here is done with --zookeeper HOST:PORT; files are changed with --step"
        in capsys.readouterr().err
    )
    assert main([*words, "--undo", "x"]) == 2
    (tree.folder / "broker-3").rename(tmp_path / "elsewhere")
    assert main([*words, "--dry-run"]) == 1
    assert "refused:\n  events: its replicas on broker 3 were not all read" in capsys.readouterr().out
