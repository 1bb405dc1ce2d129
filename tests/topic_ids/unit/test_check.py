"""``check topic-ids``: the captured cases exactly, whatever way they come in, and what else can be wrong with them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from connect_share.topic_ids import __main__ as topic_ids_program
from connect_share.topic_ids.compare.causes import Cause, DataPath, topic_reports
from connect_share.topic_ids.scan import scanner
from tests.topic_ids.trees import NAMES, Tree

ORDERS = "VFikBPGgTFa4tSj3PZTVgw"
OTHER_ID = "AAAAAAAAQACAAAAAAAAABQ"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree("healthy-zk", tmp_path)


@pytest.mark.parametrize("case", NAMES)
def test_captured_cases_exactly(case: str, call: Any, tmp_path: Path) -> None:
    tree = Tree(case, tmp_path)
    ran = call("check", "topic-ids", "--brokers-dir", tree.folder, *tree.authority_words, "--output", "json")
    result = ran.json
    assert result["findings"] == tree.expected
    assert ran.code == (1 if tree.expected else 0)
    assert ran.err == ""
    assert (result["_command"], result["_version"]) == ("check topic-ids", version("connect-share"))
    assert {one["topic"] for one in result["topics"]} == {one["topic"] for one in tree.expected}


@pytest.mark.parametrize("case", ["blog-case-zk", "recreated-kraft"])
def test_scans_say_the_same_as_copies(case: str, call: Any, tmp_path: Path) -> None:
    tree, words = Tree(case, tmp_path), []
    for home in sorted(tree.folder.glob("broker-*")):
        scan = tmp_path / f"{home.name}.scan"
        with scan.open("w") as out:
            log_dirs = sorted(str(path) for path in home.iterdir())
            subprocess.run([sys.executable, "-I", scanner.__file__, "--log-dirs", *log_dirs], stdout=out, check=True)
        words += ["--scan", str(scan)]
    ran = call("check", "topic-ids", *words, *tree.authority_words, "--output", "json")
    found = [{**one, "log_dir": Path(one["log_dir"]).name} for one in ran.json["findings"]]
    assert (ran.code, ran.err, found) == (1, "", tree.expected)
    again = call("check", "topic-ids", *words, "--scan", words[1], *tree.authority_words, "--output", "json")
    assert again.json["findings"] == ran.json["findings"]
    assert "scanned more than once" in again.err


@pytest.mark.parametrize(
    ("case", "reports"),
    [
        ("healthy-kraft", []),
        ("blog-case-zk", [(topic, Cause.ID_LOST, DataPath.BROKEN) for topic in ("events", "orders", "single")]),
        ("one-replica-zk", [("orders", Cause.REPLICA_DIFFERS, DataPath.DEGRADED)]),
        ("missing-file", [("orders", Cause.FILE_LOST, DataPath.DEGRADED)]),
        ("garbage-file", [("orders", Cause.FILE_DAMAGED, DataPath.DEGRADED)]),
        ("zero-id", [("orders", Cause.FILE_DAMAGED, DataPath.DEGRADED)]),
        ("stray-kraft", [("orders", Cause.SET_ASIDE, DataPath.WHOLE)]),
        ("recreated-kraft", [("events", Cause.RECREATED, DataPath.DEGRADED)]),
    ],
)
def test_causes(case: str, reports: list[tuple[str, Cause, DataPath]], tmp_path: Path) -> None:
    found = topic_reports(Tree(case, tmp_path).compared())
    assert [(one.topic, one.cause, one.data_path) for one in found] == reports


def test_a_report_names_replicas_leader_and_isr(call: Any, tmp_path: Path) -> None:
    tree = Tree("blog-case-zk", tmp_path)
    words = ("check", "topic-ids", "--brokers-dir", tree.folder, *tree.authority_words)
    orders = next(one for one in call(*words, "--output", "json").json["topics"] if one["topic"] == "orders")
    assert orders["ids_on_disk"] == [{"id": ORDERS, "replicas": 6}]
    assert orders["partitions"][0] == {
        "partition": 0,
        "leader": 3,
        "replicas": [3, 2, 1],
        "isr": [1, 3],
        "differing": [1, 2, 3],
        "data_path": "broken",
    }
    ran = call(*words)
    assert ran.code == 1
    assert "partition 0: leader 3, in sync 1,3 of 3,2,1, findings on 1,2,3; broken" in ran.out
    assert "13 findings in 3 topics; 19 directories on 3 brokers compared with 5 topics" in ran.out


def finding(
    kind: str, topic: str | None, partition: int | None, broker: int | None, log_dir: str | None
) -> dict[str, Any]:
    ids = {"id_on_disk": ORDERS, "id_of_authority": ORDERS}
    return {"topic": topic, "partition": partition, "broker": broker, "log_dir": log_dir, "kind": kind, **ids}


def test_a_stripped_znode_is_the_early_alarm(tree: Tree) -> None:
    tree.change_znode("orders", topic_id=None)
    assert tree.found() == [{**finding("authority-id-missing", "orders", None, None, None), "id_of_authority": None}]
    [report] = topic_reports(tree.compared())
    assert (report.cause, report.data_path) == (Cause.ID_STRIPPED, DataPath.WHOLE)
    assert [one.partition for one in report.partitions] == [0, 1]


@pytest.mark.parametrize("bad", ["", "not-an-id", 5, "4LkM3+xERaG04D24MLNpzg", "4LkM3-xERaG04D24MLNpz"])
def test_a_damaged_id_in_a_znode(tree: Tree, bad: object) -> None:
    tree.change_znode("orders", topic_id=bad)
    assert [(one["kind"], one["id_of_authority"]) for one in tree.found()] == [("authority-id-missing", None)]
    assert topic_reports(tree.compared())[0].cause is Cause.AUTHORITY_DAMAGED


def test_an_id_of_two_topics(tree: Tree) -> None:
    tree.change_znode("quiet", topic_id=ORDERS)
    found = tree.found()
    assert found[0] == {
        **finding("duplicate-id", None, None, None, None),
        "id_on_disk": None,
        "topics": ["orders", "quiet"],
    }
    assert {(one["kind"], one["topic"]) for one in found[1:]} == {("id-differs", "quiet")}
    assert len(found) == 4
    assert {one.cause for one in topic_reports(tree.compared())} == {Cause.ID_SHARED}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version: 0\n",
        "version: 0\ntopic_id: ",
        "version: 0\ntopic_id: VFikBPGgTFa4tSj3PZTVg",
        "version: 0\ntopic_id: 4LkM3+xERaG04D24MLNpzg",
        "version: 0\ntopic_id: VFikBPGgTFa4tSj3PZTVgw ",
        "version: x\ntopic_id: VFikBPGgTFa4tSj3PZTVgw",
        "version: -1\ntopic_id: VFikBPGgTFa4tSj3PZTVgw",
        "topic_id: VFikBPGgTFa4tSj3PZTVgw\nversion: 0",
        "x" * 5000,
    ],
)
def test_files_that_kafka_does_not_take(tree: Tree, text: str) -> None:
    (tree.folder / "broker-2/logdir-2/orders-0/partition.metadata").write_text(text)
    assert tree.found() == [{**finding("file-unreadable", "orders", 0, 2, "logdir-2"), "id_on_disk": None}]


def test_directories_that_are_missing_or_there_twice(tree: Tree) -> None:
    moved = tree.folder / "broker-2/logdir-1/orders-0"
    (tree.folder / "broker-2/logdir-2/orders-0").rename(moved)
    assert tree.found() == []
    moved.rename(tree.folder / "broker-2/logdir-1/ghost-0")
    assert tree.found() == [
        {**finding("directory-missing", "orders", 0, 2, None), "id_on_disk": None},
        {**finding("topic-unknown", "ghost", 0, 2, "logdir-1"), "id_of_authority": None},
    ]
    twice = tree.folder / "broker-1/logdir-1/orders-0"
    twice.mkdir()
    tree.set_id("broker-1/logdir-1/orders-0", OTHER_ID)
    found = [one for one in tree.found() if one["broker"] == 1]
    assert found == [
        {**finding("duplicate-directory", "orders", 0, 1, "logdir-1"), "id_on_disk": OTHER_ID},
        {**finding("id-differs", "orders", 0, 1, "logdir-1"), "id_on_disk": OTHER_ID},
        finding("duplicate-directory", "orders", 0, 1, "logdir-2"),
    ]


def test_kraft_says_where_a_missing_directory_should_be(tmp_path: Path) -> None:
    tree = Tree("healthy-kraft", tmp_path)
    directory = tree.folder / "broker-1/logdir-2/orders-0"
    assert directory.is_dir()
    directory.rename(directory.with_name("orders-0.0123456789abcdef0123456789abcdef-stray"))
    found = tree.found()
    assert [(one["kind"], one["broker"], one["log_dir"]) for one in found] == [
        ("directory-missing", 1, "logdir-2"),
        ("stray-directory", 1, "logdir-2"),
    ]
    assert found[1]["directory"] == "orders-0.0123456789abcdef0123456789abcdef-stray"


def test_log_dirs_of_another_cluster(tree: Tree, tmp_path: Path) -> None:
    meta = tree.folder / "broker-2/logdir-2/meta.properties"
    meta.write_text(re.sub("cluster.id=.*", "cluster.id=somebody-elses", meta.read_text()))
    tree.set_id("broker-2/logdir-2/orders-0", OTHER_ID)
    [found] = tree.found()
    assert (found["kind"], found["broker"], found["log_dir"]) == ("foreign-cluster", 2, "logdir-2")
    assert (found["topic"], found["id_on_disk"]) == (None, "somebody-elses")
    kraft = Tree("healthy-kraft", tmp_path)  # whose dump does not have the id of the cluster
    for name in ("broker-1", "broker-2"):
        for meta in (kraft.folder / name).glob("*/meta.properties"):
            meta.write_text(re.sub("cluster.id=.*|directory.id=.*", "cluster.id=other", meta.read_text()))
    assert [(one["kind"], one["broker"]) for one in kraft.found()] == [("foreign-cluster", n) for n in (1, 1, 2, 2)]


def test_what_was_not_read_is_reported_and_not_taken_as_missing(tree: Tree, call: Any, tmp_path: Path) -> None:
    (tree.folder / "broker-3").rename(tmp_path / "elsewhere")
    ran = call("check", "topic-ids", "--brokers-dir", tree.folder, *tree.authority_words)
    assert (ran.code, ran.out.splitlines()[0][:11]) == (0, "no findings")
    assert "broker 3 has replicas but was not scanned" in ran.err
    records = [dict(record) for record in scanner.scan([str(tmp_path / "elsewhere/logdir-1"), str(tmp_path / "no")])]
    scan = tmp_path / "half.scan"
    scan.write_text("".join(json.dumps(record) + "\n" for record in records))
    ran = call("check", "topic-ids", "--brokers-dir", tree.folder, "--scan", scan, *tree.authority_words)
    assert ran.code == 0
    assert "not read: there is no such folder" in ran.err
    scan.write_text("".join(json.dumps(record) + "\n" for record in records[:3]))
    ran = call("check", "topic-ids", "--brokers-dir", tree.folder, "--scan", scan, *tree.authority_words)
    assert ran.code == 0
    assert "the scan is cut off" in ran.err


def test_a_name_that_kafka_has_cut(tmp_path: Path) -> None:
    tree = Tree("stray-kraft", tmp_path)
    name = "t" * 249
    tree.metadata_dump.write_text(tree.metadata_dump.read_text().replace('"name":"quiet"', f'"name":"{name}"'))
    for path in tree.directories("quiet"):
        (tree.folder / path).rename(tree.folder / path.replace("quiet-0", f"{name}-0"))
    cut = name[: 255 - len("-0." + "0" * 32 + "-delete")] + "-0." + "0" * 32 + "-delete"
    (tree.folder / "broker-1/logdir-1" / cut).mkdir()
    found = [one for one in tree.found() if one["kind"] == "delete-directory"]
    assert [(one["topic"], one["directory"]) for one in found] == [(name, cut)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--zookeeper-dump", "{dir}/zookeeper.json"], "no scan is given"),
        (["--brokers-dir", "{dir}"], "one authority is needed"),
        (["--brokers-dir", "{dir}", "-B", "x:1", "--zookeeper-dump", "x"], "one authority is needed"),
        (["--brokers-dir", "/nowhere", "--zookeeper-dump", "{dir}/zookeeper.json"], "cannot read /nowhere"),
        (["--brokers-dir", "{dir}/broker-1", "--zookeeper-dump", "{dir}/zookeeper.json"], "has no folder broker-<id>"),
        (["--brokers-dir", "{dir}", "--zookeeper-dump", "/nowhere"], "cannot read /nowhere"),
        (["--brokers-dir", "{dir}", "--zookeeper-dump", "/dev/zero"], "longer than 256 MiB"),
        (["--brokers-dir", "{dir}", "--metadata-dump", "/dev/zero"], "has a line of 16 MiB"),
        (["--brokers-dir", "{dir}", "--zookeeper", "zk:2l8l"], "give host:port"),
        (["--brokers-dir", "{dir}", "--zookeeper-dump", "{dir}/files.json"], "nothing under /brokers/topics"),
        (["--brokers-dir", "{dir}", "--metadata-dump", "{dir}/zookeeper.json"], "has no metadata records"),
        (["--scan", "{dir}/zookeeper.json", "--zookeeper-dump", "{dir}/zookeeper.json"], "is no line of a scan"),
        (["--brokers-dir", "{dir}", "-B", "x:1", "-X", "secret"], "-X: needs the form KEY=VALUE"),
    ],
)
def test_wrong_usage(tree: Tree, call: Any, words: list[str], message: str) -> None:
    ran = call("check", "topic-ids", *(word.replace("{dir}", str(tree.folder)) for word in words))
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_the_scanner_is_handed_out(call: Any) -> None:
    ran = call("check", "topic-ids", "--print-scanner")
    assert (ran.code, ran.out) == (0, Path(scanner.__file__).read_text("utf-8"))


def test_the_part_has_a_program_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert topic_ids_program.main(["check", "topic-ids", "--help"]) == 0
    assert "usage: connect-share-topic-ids check topic-ids" in capsys.readouterr().out
    assert set(topic_ids_program.PROGRAM.verbs) == {"check", "repair"}
