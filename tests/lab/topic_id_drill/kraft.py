"""The drill with KRaft: three nodes of 4.3.1 set all directories of some topics aside, and get them back."""

from __future__ import annotations

import hashlib
import shutil
import time
from pathlib import Path
from typing import Final

from tests.lab.cluster import LocalCluster
from tests.lab.embedded.broker import DEFAULT_VERSION
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.topic_id_drill.commands import Commands, expect_refusal, run_and_log, succeed
from tests.lab.topic_id_drill.traffic import RECORDS, Traffic, await_that, log

_TOPICS: Final = {"live": (2, 3), "orders": (2, 3), "events": (1, 3), "single": (1, 1), "written": (1, 1)}
"""Partitions and replicas."""
_LIVE: Final = "live"
_EMPTIED: Final = ("orders", "events", "single", "written")
_WRITTEN: Final = "written"
_FEW: Final = 10
_NODES: Final = (1, 2, 3)
_TRIES: Final = 3


def drill_kraft(folder: Path) -> None:
    """Break the topic ids, repair them, and count the records; scans and backups go into an empty folder."""
    began_s = time.monotonic()
    log(f"10. three nodes of {DEFAULT_VERSION} with KRaft start, brokers and controllers in one")
    with LocalCluster(controllers=3) as cluster:
        traffic = Traffic(cluster, _TOPICS, _LIVE)
        traffic.create()
        commands = Commands(
            {node: cluster.broker(node).folder / "server.properties" for node in _NODES},
            folder,
            ["-B", cluster.bootstrap_servers],
        )
        with traffic.running():
            _run(cluster, traffic, commands)
    log(f"   with KRaft: {time.monotonic() - began_s:.0f} s, nothing was lost")


def _run(cluster: LocalCluster, traffic: Traffic, commands: Commands) -> None:
    await_that(lambda: len(traffic.seen) >= RECORDS, "the consumer reads")
    before = {place: value for place, value in traffic.contents().items() if place[0] in _EMPTIED}
    log(f"   {len(before):,} records read back; a producer and a consumer run on {_LIVE}")
    commands.check({})
    log(f"11. all are stopped, partition.metadata of {', '.join(_EMPTIED)} is deleted on each, and all are started")
    _stop(cluster, *_NODES)
    for directory in _directories(cluster):
        (directory / "partition.metadata").unlink()
    _start(cluster)
    traffic.await_isr()
    with cluster.admin() as admin:
        ends = admin.end_offsets([(place[0], place[1]) for place in before])
    if any(ends.values()):
        raise EmbeddedError(f"the topics should be empty: {ends}")
    log("   every one of these topics is empty, with a full ISR and no error anywhere")
    commands.check({"stray-directory": 11})

    log(f"12. {_FEW} records are written to {_WRITTEN}: the obvious repair, the old directory back, would lose these")
    traffic.fill(_WRITTEN, [0], _FEW)
    written = _checksums(cluster, f"{_WRITTEN}-0.*-stray")
    plan = commands.plan()
    reasons = [one["reason"] for one in plan["refused"] if one["topic"] == _WRITTEN]
    if not any("new records were written since" in one for one in reasons):
        raise EmbeddedError(f"the directory must not take the place of new records; planned: {plan}")

    began_s = time.monotonic()
    scans = commands.scans()
    for node in _NODES:
        succeed(commands.step("prepare", node, *scans), codes=(0, 1))  # 1: something else was refused
    log("   on each broker: copies with checksums are made")
    expect_refusal(commands.step("write", 1), "is locked: the broker runs")
    log("13. the obvious repair, one broker after the other: the empty leader would make broker 1 throw all away")
    _stop(cluster, 1)
    expect_refusal(commands.step("write", 1), "broker 2 runs")
    _stop(cluster, 2, 3)
    for node in _NODES:
        if node == _NODES[-1]:
            expect_refusal(commands.step("check", 1, *commands.scans()), "not everything is back on broker")
        run_and_log(commands.step("write", node))
    run_and_log(commands.step("check", 1, *commands.scans()))
    _start(cluster)
    for node in _NODES:
        run_and_log(commands.step("check", node))
    log(f"   from the copies to the full ISR {time.monotonic() - began_s:.0f} s")

    traffic.check_unchanged({place: value for place, value in before.items() if place[0] != _WRITTEN})
    if _checksums(cluster, f"{_WRITTEN}-0.*-stray") != written:
        raise EmbeddedError(f"the directory of {_WRITTEN} that was set aside is not what it was")
    log(f"   what {_WRITTEN} had is set aside as it was")
    for place in [place for place in before if place[0] == _WRITTEN]:
        if traffic.acknowledged.get(place) == before[place]:
            del traffic.acknowledged[place]
    commands.check({"stray-directory": 11})
    for path in _strays(cluster):
        if not any(file.stat().st_size for file in path.glob("*.log")):
            shutil.rmtree(path)
    log("   the empty directories that took their places are removed")
    commands.check({"stray-directory": 1})


def _start(cluster: LocalCluster) -> None:
    """Start all; each waits for the others, so a busy machine may need another try."""
    for left in reversed(range(_TRIES)):
        try:
            cluster.start()
        except EmbeddedError:
            if not left:
                raise
            log("   not all came up in time, and are started again")
        else:
            return


def _stop(cluster: LocalCluster, *nodes: int) -> None:
    for node in nodes:
        cluster.broker(node).stop()


def _directories(cluster: LocalCluster) -> list[Path]:
    return [
        path
        for node in _NODES
        for topic in _EMPTIED
        for number in range(_TOPICS[topic][0])
        for path in cluster.broker(node).data_folder.glob(f"{topic}-{number}")
    ]


def _strays(cluster: LocalCluster) -> list[Path]:
    return [path for node in _NODES for path in cluster.broker(node).data_folder.glob("*-stray")]


def _checksums(cluster: LocalCluster, pattern: str) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for node in _NODES
        for path in sorted(cluster.broker(node).data_folder.glob(f"{pattern}/*.log"))
    }
