"""The drill with ZooKeeper: three brokers of 3.9.2 lose their topic ids, and get them back by both methods."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.topic_ids.authority.zookeeper import Znode, ZooKeeper, open_zookeeper
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.topic_id_drill.commands import Commands, expect_refusal, run_and_log, succeed
from tests.lab.topic_id_drill.traffic import RECORDS, Record, Traffic, await_that, log
from tests.lab.zookeeper_cluster import VERSION, ZooKeeperCluster

_TOPICS: Final = {"orders": (2, 3), "events": (1, 3), "single": (1, 1), "quiet": (1, 3)}
"""Partitions and replicas."""
_BROKEN: Final = ("events", "orders", "single")
_LIVE: Final = "orders"
_GHOST: Final = "again"
_FEW: Final = 30


def drill_zookeeper() -> None:
    """Break the topic ids, repair them, and count the records."""
    began_s = time.monotonic()
    log(f"1. three brokers of {VERSION} with ZooKeeper start")
    with ZooKeeperCluster() as cluster:
        traffic = Traffic(cluster, _TOPICS, _LIVE)
        traffic.create()
        commands = Commands(
            {broker: cluster.settings_file(broker) for broker in cluster.ids},
            cluster.folder,
            ["--zookeeper", cluster.hosts],
        )
        with traffic.running():
            _write_back(cluster, traffic, commands)
            _by_files(cluster, traffic, commands)
            _refusal(cluster, traffic, commands)
    log(f"   with ZooKeeper: {time.monotonic() - began_s:.0f} s, nothing was lost")


def _write_back(cluster: ZooKeeperCluster, traffic: Traffic, commands: Commands) -> None:
    await_that(lambda: len(traffic.seen) >= RECORDS, "the consumer reads")
    before = traffic.contents()
    log(f"   {len(_TOPICS)} topics, {len(before):,} records read back; a producer and a consumer run on {_LIVE}")
    commands.check({})
    log(f"2. an old tool writes the znodes of {', '.join(_BROKEN)} without their ids")
    _strip(cluster, _BROKEN)
    commands.check({"authority-id-missing": 3})
    log("   the early alarm: clients notice nothing yet")
    log("3. the controller changes, finds no ids, and makes up new ones")
    cluster.change_controller()
    await_that(lambda: traffic.read_errors["INCONSISTENT_TOPIC_ID"] > 0, "the consumer fails")
    log("   the consumer fails: INCONSISTENT_TOPIC_ID; the producer continues")
    log("4. broker 2 restarts, and does not come back into the ISR")
    cluster.stop_broker(2)
    cluster.start_broker(2)
    await_that(lambda: bool(traffic.not_in_sync()), "a short ISR")
    commands.check({"id-differs": 10})
    log("5. the repair: the original ids go back into the znodes, then one change of the controller")
    _repair(traffic, commands, "backup", before)
    log("6. the repair is taken back (--undo), for the exercise: the fault is there again")
    errors = traffic.read_errors["INCONSISTENT_TOPIC_ID"]
    succeed(["repair", "topic-ids", "--undo", str(cluster.folder / "backup"), *commands.authority, "--yes"])
    await_that(lambda: traffic.read_errors["INCONSISTENT_TOPIC_ID"] > errors, "the consumer fails again")
    commands.check({"id-differs": 10})
    log("7. and repaired again")
    _repair(traffic, commands, "backup-2", before)


def _repair(traffic: Traffic, commands: Commands, backup: str, before: dict[Record, int]) -> None:
    words = ["repair", "topic-ids", *commands.scans(), *commands.authority]
    commands.plan()
    started_s, seen = time.monotonic(), len(traffic.seen)
    run_and_log([*words, "--backup", str(commands.folder / backup), "--yes"])
    await_that(lambda: len(traffic.seen) > seen, "the consumer reads again")
    log(f"   {time.monotonic() - started_s:.1f} s after the command was started the consumer reads again, by itself")
    traffic.await_isr()
    commands.check({})
    traffic.check_unchanged(before)


def _by_files(cluster: ZooKeeperCluster, traffic: Traffic, commands: Commands) -> None:
    log(f"8. the id of {_LIVE} is lost once more, and a partition is added after the controller made up a new one")
    _strip(cluster, [_LIVE])
    errors = traffic.read_errors["INCONSISTENT_TOPIC_ID"]
    cluster.change_controller()
    await_that(lambda: traffic.read_errors["INCONSISTENT_TOPIC_ID"] > errors, "the consumer fails")
    _add_partition(cluster)
    traffic.topics[_LIVE] = (3, 3)
    await_that(lambda: not traffic.not_in_sync(), "the new partition")
    traffic.fill(_LIVE, [2], _FEW)
    commands.check({"id-differs": 6})
    log("   no single id fits: first the znode, then the files of the new partition, broker by broker")
    commands.plan()
    seen = len(traffic.seen)
    backup = ["--backup", str(commands.folder / "backup-3")]
    run_and_log(["repair", "topic-ids", *commands.scans(), *commands.authority, *backup, "--yes"])
    await_that(lambda: len(traffic.seen) > seen, "the consumer reads again")
    commands.check({"id-differs": 3})
    began_s = time.monotonic()
    controller = _controller(cluster)
    scans = commands.scans()
    expect_refusal(commands.step("prepare", controller, *scans), "is controller and comes last")
    for number, broker in enumerate(sorted(cluster.ids, key=lambda one: (one == controller, one))):
        scans = commands.scans()
        run_and_log(commands.step("prepare", broker, *scans))
        if not number:
            expect_refusal(commands.step("write", broker), "is locked: the broker runs")
        cluster.stop_broker(broker)
        run_and_log(commands.step("write", broker))
        cluster.start_broker(broker)
        run_and_log(commands.step("check", broker))
    log(f"   three brokers in {time.monotonic() - began_s:.0f} s")
    traffic.await_isr()
    commands.check({})
    traffic.check_unchanged(dict(traffic.acknowledged))


def _refusal(cluster: ZooKeeperCluster, traffic: Traffic, commands: Commands) -> None:
    log(f"9. topic {_GHOST} is deleted and created again, and an old copy of its directory is put back on broker 2")
    with cluster.admin() as admin:
        admin.create_topic(NewTopicRequest(_GHOST, 1, 3))
    traffic.topics[_GHOST] = (1, 3)
    traffic.await_isr()
    traffic.fill(_GHOST, [0], _FEW)
    forgotten = {place for place in list(traffic.acknowledged) if place[0] == _GHOST}  # it grows meanwhile
    [folder] = (cluster.folder / "broker-2").glob(f"*/{_GHOST}-0")
    cluster.stop_broker(2)
    shutil.copytree(folder, cluster.folder / "old-copy")
    cluster.start_broker(2)
    traffic.await_isr()
    with cluster.admin() as admin:
        admin.delete_topics([_GHOST])
    await_that(lambda: not _there(cluster), "the topic is gone, and its directories")
    for place in forgotten:
        del traffic.acknowledged[place]  # the topic was deleted on purpose
    with cluster.admin() as admin:
        admin.create_topic(NewTopicRequest(_GHOST, 1, 3))
    await_that(lambda: not traffic.not_in_sync(), "the new topic")
    traffic.fill(_GHOST, [0], 2 * _FEW)
    traffic.await_isr()
    before = traffic.contents()
    [now] = (cluster.folder / "broker-2").glob(f"*/{_GHOST}-0")
    cluster.stop_broker(2)
    shutil.move(now, cluster.folder / "set-aside")
    shutil.copytree(cluster.folder / "old-copy", now)
    cluster.start_broker(2)
    plan = commands.plan()
    reasons = [one["reason"] for one in plan["refused"] if one["topic"] == _GHOST]
    if plan["steps"] or not any("its records are another topic's" in one for one in reasons):
        raise EmbeddedError(f"the id must not be written into that directory; planned: {plan}")
    log(
        "   the obvious repair, the right id into that file, would serve the old records; what the refusal says, helps:"
    )
    cluster.stop_broker(2)
    shutil.move(now, cluster.folder / "set-aside-2")
    cluster.start_broker(2)
    traffic.await_isr()
    commands.check({})
    traffic.check_unchanged(before)


def _there(cluster: ZooKeeperCluster) -> bool:
    with open_zookeeper(cluster.hosts) as session:
        known = {*session.children("/brokers/topics"), *session.children("/admin/delete_topics")}
    return _GHOST in known or any(cluster.folder.glob(f"broker-*/*/{_GHOST}-0"))


def _strip(cluster: ZooKeeperCluster, topics: Sequence[str]) -> None:
    for topic in topics:
        _change(cluster, topic, lambda found: {"version": 1, "partitions": found["partitions"]})


def _add_partition(cluster: ZooKeeperCluster) -> None:
    _change(cluster, _LIVE, lambda found: {**found, "partitions": {**found["partitions"], "2": [2, 3, 1]}})


def _change(cluster: ZooKeeperCluster, topic: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    path = f"/brokers/topics/{topic}"
    with open_zookeeper(cluster.hosts) as session:
        znode = _znode(session, path)
        text = json.dumps(change(json.loads(znode.data)), separators=(",", ":"))
        session.set(path, text.encode(), znode.version)


def _controller(cluster: ZooKeeperCluster) -> int:
    with open_zookeeper(cluster.hosts) as session:
        return int(json.loads(_znode(session, "/controller").data)["brokerid"])


def _znode(session: ZooKeeper, path: str) -> Znode:
    znode = session.get(path)
    if znode is None:
        raise EmbeddedError(f"{path} is not there")
    return znode
