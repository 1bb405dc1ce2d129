"""The write-back on a real ZooKeeper: done, refused, killed and gone on with, taken back. A watch plays the brokers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connect_share.cli.__main__ import main
from connect_share.errors import UsageError
from connect_share.topic_ids.authority.zookeeper import ZooKeeper, with_id
from connect_share.topic_ids.cli import repair as repair_command
from connect_share.topic_ids.repair.backup import checksum
from connect_share.topic_ids.repair.zookeeper_repair import ZnodeBackup, ZnodeChange
from tests.topic_ids.brokers import Brokers, killed
from tests.topic_ids.trees import Tree
from tests.topic_ids.zookeeper import zookeeper_client

LOST = ("events", "orders", "single")
SESSION = "connect_share.topic_ids.authority.zookeeper:ZooKeeper"


class Site(Brokers):
    """ZooKeeper as the documented case left it, with scans of the brokers."""

    def __init__(self, hosts: str, client: Any, folder: Path) -> None:
        super().__init__(Tree("blog-case-zk", folder))
        self.client = client
        self.folder = folder
        self.hosts = f"{hosts}/kafka"
        self.tree.fill(client)
        self.scan_words = self.scans()
        self.electing = True
        client.exists("/kafka/controller", watch=self._elect)

    def _elect(self, _event: object) -> None:
        """Do what brokers do when the controller is gone."""
        if not self.electing:
            return
        for path, text in json.loads(self.tree.zookeeper.read_text()).items():
            if path.endswith("/state"):
                full = {**json.loads(text), "isr": [3] if "single" in path else [1, 2, 3]}
                self.client.set_async(f"/kafka{path}", json.dumps(full).encode())
        self.client.create_async("/kafka/controller", b'{"brokerid":2}')
        self.client.exists_async("/kafka/controller", watch=self._elect)

    def command(self, verb: str, *more: str) -> list[str]:
        return [verb, "topic-ids", *self.scan_words, "--zookeeper", self.hosts, *more]

    def text(self, topic: str) -> bytes:
        data, _ = self.client.get(f"/kafka/brokers/topics/{topic}")
        assert isinstance(data, bytes)
        return data

    def texts(self) -> dict[str, bytes]:
        return {topic: self.text(topic) for topic in self.client.get_children("/kafka/brokers/topics")}

    def controller(self) -> int:
        _, stat = self.client.get("/kafka/controller")
        return int(stat.czxid)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with zookeeper_client(tmp_path / "zk") as (hosts, client):
        yield Site(hosts, client, tmp_path)


def test_written_back_killed_and_taken_back(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = site.folder / "backup"
    repair = site.command("repair", "--backup", str(backup))
    before, controller = site.texts(), site.controller()
    assert main(repair) == 1
    assert "give --yes to go on without a prompt" in capsys.readouterr().err
    assert main([*repair, "--dry-run"]) == 0
    assert (site.texts(), site.controller(), backup.exists()) == (before, controller, False)

    # Killed before the first write, between writes, and before the controller changes; each run goes on where it was.
    for call, calls, written in (("set", 0, 0), ("set", 2, 2), ("delete", 0, 3)):
        assert killed([*repair, "--yes"], calls, SESSION, call)
        assert sum(text != before[topic] for topic, text in site.texts().items()) == written
        assert (site.controller(), backup.exists()) == (controller, True)
    assert main([*repair, "--dry-run"]) == 0
    output = capsys.readouterr()
    assert "no steps, nothing refused" in output.out  # the znodes look healthy, so this has to be reported:
    assert "is not finished: run it without --dry-run" in output.err
    assert main([*repair, "--yes", "--output", "json"]) == 0
    output = capsys.readouterr()
    assert "continuing the repair begun in" in output.err
    assert json.loads(output.out)["done"] == [
        "controller changed, it is broker 2 now",
        "all replicas of these topics are in sync",
    ]
    after = site.texts()
    assert {topic for topic in after if after[topic] != before[topic]} == set(LOST)
    assert b'"topic_id":"VFikBPGgTFa4tSj3PZTVgw"' in after["orders"]
    assert json.loads(after["orders"]) == {**json.loads(before["orders"]), "topic_id": "VFikBPGgTFa4tSj3PZTVgw"}
    assert site.controller() > max(
        site.client.get(f"/kafka/brokers/topics/{topic}")[1].mzxid for topic in LOST
    )  # one that has read the new texts
    assert main(site.command("check")) == 0
    sums = (line.split() for line in (backup / "SHA256SUMS").read_text().splitlines())
    kept = {name: digest for digest, name in sums}
    assert {hashlib.sha256(before[topic]).hexdigest() for topic in LOST} <= set(kept.values())
    assert all(hashlib.sha256((backup / name).read_bytes()).hexdigest() == digest for name, digest in kept.items())
    assert {path.stat().st_mode & 0o777 for path in (backup, *backup.iterdir())} == {0o700, 0o600}
    assert main([*repair, "--yes"]) == 2
    assert "is of a repair that is done" in capsys.readouterr().err

    undo = ["repair", "topic-ids", "--undo", str(backup), "--zookeeper", site.hosts]
    assert (main([*undo, "--dry-run"]), main([*undo, "--server-properties", "x"])) == (0, 2)
    assert site.texts() == after
    old = site.controller()
    cluster, _ = site.client.get("/kafka/cluster/id")
    site.client.set("/kafka/cluster/id", b'{"version":"1","id":"RRYSOf9BTOKG7WUAdl0c2g"}')
    assert main([*undo, "--yes"]) == 2
    assert "is of another cluster than" in capsys.readouterr().err
    site.client.set("/kafka/cluster/id", cluster)
    assert (site.texts(), site.controller()) == (after, old)
    assert killed([*undo, "--yes"], 1, SESSION, "set")
    assert (sum(text != after[topic] for topic, text in site.texts().items()), site.controller()) == (1, old)
    assert main([*repair, "--yes"]) == 2
    assert "is of a repair that is undoing" in capsys.readouterr().err
    # Nobody becomes controller: nothing more is done, and it goes on when somebody does.
    site.electing = False
    monkeypatch.setattr(repair_command, "WAIT_S", 0.3)
    assert main([*undo, "--yes"]) == 1
    assert "no broker became controller within 0.3 s" in (err := capsys.readouterr().err)
    assert "Run it again with the same --undo to go on" in err
    assert site.texts() == before
    assert site.client.exists("/kafka/controller") is None
    monkeypatch.undo()
    site.client.create("/kafka/controller", b'{"brokerid":2}')
    assert main([*undo, "--yes"]) == 0
    assert site.texts() == before
    assert site.controller() > old
    assert main([*undo, "--yes"]) == 2
    assert "was undone already" in capsys.readouterr().err


def test_nothing_is_written_that_was_not_planned(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    repair = site.command("repair", "--yes", "--backup", str(site.folder / "backup"))
    before, controller = site.texts(), site.controller()

    def refused(words: list[str], reason: str, code: int = 1) -> None:
        assert main(words) == code
        assert reason in capsys.readouterr().err
        assert {topic: text for topic, text in site.texts().items() if topic in before} == before
        assert site.controller() == controller

    refused(
        ["repair", "topic-ids", "--brokers-dir", str(site.tree.folder), *repair[8:]], "it is not known when broker 1"
    )
    site.scans(-60)
    refused(repair, "was scanned before the znode of events was written last")
    site.scans()
    site.client.create("/kafka/admin/reassign_partitions", b"{}", makepath=True)
    refused(repair, "let the reassignment end")
    site.client.delete("/kafka/admin/reassign_partitions")
    # The plan can do nothing for this topic, and a new controller would make up an id for it.
    site.client.create("/kafka/brokers/topics/ghost", b'{"version":1,"partitions":{"0":[9]}}')
    refused(repair, "the znode of ghost would have no usable id")
    site.client.delete("/kafka/brokers/topics/ghost")
    refused(
        [*site.command("repair", "--yes")[:8], *site.tree.authority_words],
        "what can be done from here is done with --zookeeper",
        2,
    )
    (site.folder / "other").mkdir()
    refused(site.command("repair", "--yes", "--backup", str(site.folder / "other")), "is no backup of a repair", 2)
    assert not (site.folder / "backup").exists()

    real_authority, real_set = ZooKeeper.authority, ZooKeeper.set
    asked = 0

    def changed_after_the_plan(session: ZooKeeper, *arguments: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 2:
            site.client.set("/kafka/brokers/topics/orders", before["orders"])  # the same text, another version
        return real_authority(session, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(ZooKeeper, "authority", changed_after_the_plan)
        refused(repair, "the cluster has changed since the plan was made")
    assert not (site.folder / "backup").exists()

    def overtaken(session: ZooKeeper, path: str, data: bytes, version: int) -> bool:
        if path.endswith("/orders"):
            site.client.set("/kafka/brokers/topics/orders", before["orders"])
        return real_set(session, path, data, version)

    site.scans()
    with monkeypatch.context() as patch:
        patch.setattr(ZooKeeper, "set", overtaken)
        assert main(repair) == 1
    output = capsys.readouterr().err
    assert "/brokers/topics/orders was written by another client in this moment" in output
    assert "stopped after 1 step" in output
    changed = {topic for topic, text in site.texts().items() if text != before[topic]}
    assert (changed, site.controller()) == ({"events"}, controller)
    assert main(repair) == 1
    assert "was written by another client since the backup was made" in capsys.readouterr().err
    assert main(["repair", "topic-ids", "--undo", str(site.folder / "backup"), "--zookeeper", site.hosts, "--yes"]) == 0
    assert site.texts() == before

    index = site.folder / "backup" / "1.before"
    index.write_bytes(index.read_bytes() + b" ")
    assert main(["repair", "topic-ids", "--undo", str(site.folder / "backup"), "--zookeeper", site.hosts, "--yes"]) == 2
    assert "has another checksum" in capsys.readouterr().err


def test_the_early_alarm_needs_no_new_controller(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    whole = site.texts()
    backup = site.folder / "backup"
    for topic in LOST:
        znode = json.loads(whole[topic])
        site.client.set(
            f"/kafka/brokers/topics/{topic}", json.dumps({"version": 1, "partitions": znode["partitions"]}).encode()
        )
    stripped, controller = site.texts(), site.controller()
    site.scans()
    assert main(site.command("repair", "--yes", "--backup", str(backup))) == 0
    assert json.loads(site.text("orders")) == {**json.loads(stripped["orders"]), "topic_id": "VFikBPGgTFa4tSj3PZTVgw"}
    assert main(site.command("check")) == 0
    assert main(["repair", "topic-ids", "--undo", str(backup), "--zookeeper", site.hosts, "--yes"]) == 0
    assert (site.texts(), site.controller()) == (stripped, controller)
    capsys.readouterr()


def test_a_backup_of_znodes_that_was_changed_is_refused(tmp_path: Path) -> None:
    """Whatever it says, nothing but the id of a topic is written."""
    before, topic_id = b'{"version":3,"partitions":{"0":[1]}}', "VFikBPGgTFa4tSj3PZTVgw"
    after = with_id(before.decode(), topic_id).encode()
    change = ZnodeChange.of(1, "orders", 4, before, after)
    backup = ZnodeBackup(folder=tmp_path / "backup", cluster_id=None, change_controller=False, znodes=(change,))
    backup.write()
    assert ZnodeBackup.find(backup.folder) == backup
    index = json.loads((backup.folder / "backup.json").read_text())

    def reason(text: bytes = after, more: str = "", **members: object) -> str:
        (backup.folder / "1.after").write_bytes(text)
        znode = {**index["znodes"][0], "after_sha256": checksum(text), **members}
        (backup.folder / "backup.json").write_text(json.dumps({**index, "znodes": [znode]}) + more)
        with pytest.raises(UsageError) as caught:
            ZnodeBackup.find(backup.folder)
        return str(caught.value)

    assert "more than the id of orders" in reason(with_id('{"partitions":{}}', topic_id).encode())
    assert "more than the id of orders" in reason(with_id(before.decode(), "A" * 22).encode())
    assert "more than the id of orders" in reason(with_id(before.decode(), "../x").encode())
    for topic in ("..", ".", "", "a/b", "a\n", "x" * 250):
        assert "no topic's" in reason(topic=topic, path=f"/brokers/topics/{topic}")
    assert "no topic's" in reason(path="/config/topics/orders")
    for text in (b"", b"[]", b"{}", b"\xff", b"[" * 100_000):
        assert "is damaged" in reason(text)
    for version in (1e400, None, "x"):
        assert "is damaged" in reason(version=version)
    assert "is damaged" in reason(more="]")
