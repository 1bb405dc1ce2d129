"""The file method on a real ZooKeeper: one stopped broker's partition.metadata, when its turn has come, and back again."""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from connect_share.cli.__main__ import main
from connect_share.topic_ids.authority.zookeeper import open_zookeeper
from connect_share.topic_ids.cli import broker_steps
from connect_share.topic_ids.compare.compare import compare
from connect_share.topic_ids.errors import TopicIdRepairError
from connect_share.topic_ids.repair.broker_checks import refuse_unclean
from connect_share.topic_ids.repair.broker_lock import broker_stopped, is_stopped
from connect_share.topic_ids.repair.broker_repair import BrokerBackup
from connect_share.topic_ids.repair.plan import plan_repair
from connect_share.topic_ids.repair.steps import RepairMethod, StepAction
from connect_share.topic_ids.scan.scans import Scans, read_scan
from tests.support.waiting import await_that
from tests.topic_ids.brokers import Brokers, batch, holding, killed
from tests.topic_ids.trees import Tree
from tests.topic_ids.zookeeper import zookeeper_client

ORDERS = "VFikBPGgTFa4tSj3PZTVgw"
QUIET = "_1rbZLPtTwuBu_gSZzj94w"
RIGHT = f"version: 0\ntopic_id: {ORDERS}".encode()


class Site(Brokers):
    """Broker 2 has another id for orders-0 and is stopped; ZooKeeper has the rest."""

    def __init__(self, hosts: str, client: Any, folder: Path) -> None:
        self.hosts = f"{hosts}/kafka"
        super().__init__(Tree("one-replica-zk", folder), "--zookeeper", self.hosts)
        self.client = client
        self.tree.fill(client)
        written_s = time.time()
        for broker in self.ids:
            self.write_log(self.orders(broker), batch(0, 0, 4711))
        # Scans count if they are newer than the znodes, and their clock has seconds.
        await_that(lambda: int(time.time()), lambda now: now > written_s, what="a second later")

    def orders(self, broker: int) -> str:
        [found] = [
            one for one in self.tree.directories("orders") if one.startswith(f"broker-{broker}/") and one[-1] == "0"
        ]
        return found

    def change(self, path: str, **members: object) -> bytes:
        """Change members of a znode; return what was there before."""
        before, _ = self.client.get(f"/kafka{path}")
        assert isinstance(before, bytes)
        self.client.set(f"/kafka{path}", json.dumps({**json.loads(before), **members}).encode())
        return before


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with zookeeper_client(tmp_path / "zk") as (hosts, client):
        yield Site(hosts, client, tmp_path)


@pytest.mark.slow
def test_one_broker_after_the_other(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = site.contents(2)
    path = site.tree.folder / site.orders(2) / "partition.metadata"
    wrong = path.read_bytes()
    refused = partial(site.refuses, capsys)

    # Whose records these are decides; the id alone would have them served.
    site.write_log(site.orders(2), batch(0, 0, 815))
    refused(site.words("prepare", 2, *site.scans()), "batches contradict those of broker 1")
    site.write_log(site.orders(2), batch(7, 0, 815))
    refused(site.words("prepare", 2, *site.scans()), "nothing proves that its records are those of the topic")
    site.write_log(site.orders(2), batch(0, 0, 4711))
    scans = site.scans()

    # Its turn has not come while others are away or behind.
    state = site.change("/brokers/topics/quiet/partitions/0/state", isr=[1])
    refused(site.words("prepare", 2, *scans), "not all other replicas are in sync: quiet-0")
    site.client.set("/kafka/brokers/topics/quiet/partitions/0/state", state)
    controller = site.change("/controller", brokerid=2)
    other = site.tree.folder / site.orders(3) / "partition.metadata"
    other.write_bytes(b"garbage")
    refused(site.words("prepare", 2, *site.scans()), "broker 2 is controller and comes last: broker 3 first")
    other.write_bytes(RIGHT)
    scans = site.scans()
    site.client.set("/kafka/controller", controller)
    site.client.delete("/kafka/brokers/ids/3")
    refused(site.words("prepare", 2, *scans), "broker 3 down")
    site.client.create("/kafka/brokers/ids/3", b"{}")
    state = site.change("/brokers/topics/events/partitions/0/state", isr=[2], leader=2)
    refused(site.words("prepare", 2, *scans), "not all other replicas are in sync")
    site.client.set("/kafka/brokers/topics/events/partitions/0/state", state)
    refused(site.words("prepare", 2, *site.scans(-(10**9))), "was scanned before the znode of orders was written last")
    refused(site.words("prepare", 1, *scans), "nothing to do on broker 1; the plan has steps for broker 2", 0)
    refused(
        ["repair", "topic-ids", *scans, "--zookeeper", site.hosts, "--yes"], "so run it with --step on the machine", 2
    )
    assert not site.backup(2).exists()

    assert main(site.words("prepare", 2, *site.scans(), "--output", "json")) == 0
    assert json.loads(capsys.readouterr().out)["would"] == [f"{path}: id {ORDERS}"]
    state = site.change("/brokers/topics/events/partitions/0/state", isr=[2], leader=2)
    with open_zookeeper(site.hosts) as session:
        begun = BrokerBackup.find(site.backup(2))
        assert begun is not None
        refuse_unclean(begun, session.authority(), session, site.settings(2))
        unclean = b'{"config":{"unclean.leader.election.enable":"true"}}'
        site.client.create("/kafka/config/topics/events", unclean, makepath=True)
        with pytest.raises(TopicIdRepairError, match="a replica that lacks acknowledged records would lead"):
            refuse_unclean(begun, session.authority(), session, site.settings(2))
    site.client.set("/kafka/brokers/topics/events/partitions/0/state", state)
    with site.running(2):
        refused(site.words("write", 2, "--yes"), ".lock is locked: the broker runs")
    site.client.create("/kafka/brokers/ids/2", b"{}")
    refused(site.words("write", 2, "--yes"), "or was killed and its session has not run out yet")
    site.client.delete("/kafka/brokers/ids/2")
    site.client.delete("/kafka/controller")
    refused(site.words("write", 2, "--yes"), "no broker is controller")
    site.client.create("/kafka/controller", controller)
    znode = site.change("/brokers/topics/orders", topic_id="RRYSOf9BTOKG7WUAdl0c2g")
    refused(site.words("write", 2, "--yes"), "It was created again, or is not written back yet")
    site.client.set("/kafka/brokers/topics/orders", znode)
    cluster = site.change("/cluster/id", id="RRYSOf9BTOKG7WUAdl0c2g")
    refused(site.words("write", 2, "--yes"), "are of another cluster", 2)
    refused(site.undo(2, "--yes"), "is of another cluster", 2)
    site.client.set("/kafka/cluster/id", cluster)

    deaths = 0  # before the id is there, and before that is noted
    while killed(site.words("write", 2, "--yes"), 1 if deaths else 0):
        deaths += 1
        assert deaths < 9
    assert deaths == 2
    now = site.contents(2)
    assert {name: now[name] for name in now if now[name] != before.get(name)} == {
        str(path.relative_to(path.parents[2])): RIGHT
    }
    assert now.keys() == before.keys()
    refused(site.words("check", 2), "but broker 2 is stopped: start it")
    with site.running(2):
        monkeypatch.setattr(broker_steps, "WAIT_S", 0.3)
        refused(site.words("check", 2), "broker 2 is not up after")
        site.client.create("/kafka/brokers/ids/2", b"{}")
        refused(site.words("check", 2), "not all replicas are in sync")
        for one in json.loads(site.tree.zookeeper.read_text()):
            if one.endswith("/state") and "single" not in one:
                site.change(one, isr=[1, 2, 3])
        assert main(site.words("check", 2)) == 0
        assert "the ISR is full everywhere" in capsys.readouterr().err
        assert main(["check", "topic-ids", *site.scans(), "--zookeeper", site.hosts]) == 0
        refused(site.undo(2, "--yes"), ".lock is locked: the broker runs")
    site.client.delete("/kafka/brokers/ids/2")
    assert main(site.undo(2, "--dry-run")) == 0
    assert path.read_bytes() == RIGHT
    assert killed(site.undo(2, "--yes"), 1)
    assert main(site.undo(2, "--yes")) == 0
    assert (path.read_bytes(), site.contents(2)) == (wrong, before)
    refused(site.undo(2, "--yes"), "was undone already", 2)
    (site.backup(2) / "1.before").write_bytes(b"x")
    refused(site.undo(2, "--yes"), "has another checksum than backup.json says", 2)


def test_an_original_id_that_cannot_be_used(tmp_path: Path) -> None:
    """All replicas have the id that is another topic's by now: ZooKeeper's goes into the files, if the records differ."""
    brokers = Brokers(Tree("healthy-zk", tmp_path))
    for topic, crc in (("orders", 1), ("quiet", 2)):
        for directory in brokers.tree.directories(topic):
            brokers.write_log(directory, batch(0, 0, crc))
    for directory in brokers.tree.directories("quiet"):
        brokers.tree.set_id(directory, ORDERS)

    def planned() -> Any:
        scans = Scans()
        for path in brokers.scans()[1::2]:
            scans.add(read_scan(Path(path)))
        return plan_repair(compare(scans, brokers.tree.authority()))

    found = planned()
    assert [(one.topic, one.method, one.topic_id) for one in found.topics] == [("quiet", RepairMethod.FILES, QUIET)]
    assert {one.action for one in found.steps}.isdisjoint({StepAction.WRITE_ZNODE, StepAction.CHANGE_CONTROLLER})
    assert [one.broker for one in found.steps if one.action is StepAction.WRITE_FILE] == [1, 3, 2]  # 2 is controller
    assert not any(one.unproven for one in found.steps)
    for directory in brokers.tree.directories("quiet"):
        brokers.write_log(directory, batch(0, 0, 1))  # a copy of the other topic
    found = planned()
    assert found.steps == []
    assert "its replicas have the id that orders has too" in found.refused[0].reason


@pytest.mark.parametrize("restarted", [False, True])
def test_a_broker_that_starts_while_its_lock_is_taken(
    restarted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the file that was made for the lock, or the one before it was removed as it stopped."""
    (tmp_path / "meta.properties").touch()
    lock, real = tmp_path / ".lock", fcntl.lockf
    if restarted:
        lock.touch()
    with ExitStack() as stack:

        def late(handle: int, how: int) -> None:
            monkeypatch.undo()
            if restarted:
                lock.unlink()
                lock.touch()
            stack.enter_context(holding([lock]))
            real(handle, how)

        monkeypatch.setattr(fcntl, "lockf", late)
        with pytest.raises(TopicIdRepairError, match="the broker runs"), broker_stopped([str(tmp_path)]):
            pytest.fail("the broker runs")
        assert not is_stopped([str(tmp_path)])  # its lock file is still there
    assert is_stopped([str(tmp_path)])
