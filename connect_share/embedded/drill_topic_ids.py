"""The drill: three brokers of 3.9.2 with ZooKeeper lose their topic ids, are diagnosed and repaired, and have lost nothing.

``make drill-topic-ids``. A producer and a consumer run all the time. The commands are those anyone would type. Exit code
0: every acknowledged record is there; 1: one is not, or a step did not do what it should.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Final

from connect_share.admin.descriptions import NewTopicRequest
from connect_share.client import Message, TopicPartition, consumer, is_end_of_partition, producer
from connect_share.embedded.zookeeper_cluster import VERSION, ZooKeeperCluster
from connect_share.errors import BrokerError, ConnectShareError, EmbeddedError
from connect_share.topic_ids import scanner
from connect_share.topic_ids.zookeeper import open_zookeeper
from connect_share.worker_config.client_settings import Isolation

_TOPICS: Final = {"orders": (2, 3), "events": (1, 3), "single": (1, 1), "quiet": (1, 3)}
"""Partitions and replicas."""
_BROKEN: Final = ("events", "orders", "single")
_LIVE: Final = "orders"
_RECORDS: Final = 200
_PAUSE_S: Final = 0.02
_WAIT_S: Final = 60.0
_COMMAND_S: Final = 300

Record = tuple[str, int, int]
"""Topic, partition, offset."""


class Traffic:
    """A producer (all replicas have to acknowledge) and a consumer on one topic, each in a thread of its own.

    Attributes:
        acknowledged: checksum of each record that a broker said it has.
        unplaced: topic, partition and checksum of those whose offset it did not say: a repeated write that it had already.
        refused: writes that were reported as failed.
        seen: checksums of what the consumer was given.
        read_errors: what the consumer was told instead.
    """

    def __init__(self, cluster: ZooKeeperCluster) -> None:
        self._cluster = cluster
        self._stopped = threading.Event()
        self._drained = threading.Event()
        self._abandoned = threading.Event()
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._produce, self._consume)]
        self.acknowledged: dict[Record, int] = {}
        self.unplaced: list[Record] = []
        self.refused = 0
        self.seen: dict[Record, int] = {}
        self.read_errors: Counter[str] = Counter()
        self.twice = 0

    def fill(self, topic: str, partitions: int) -> None:
        """Write the records that are there before anything breaks."""
        writer = producer(self._cluster.client_settings, client_id="drill-fill", idempotent=True)
        for number in range(_RECORDS):
            writer.produce(
                topic,
                key=f"k{number % 50}",
                value=f"{topic} {number}",
                partition=number % partitions,
                on_delivery=self._told,
            )
        if writer.flush(_WAIT_S):
            raise EmbeddedError(f"{topic}: records were not acknowledged within {_WAIT_S:g} s")

    def start(self) -> None:
        """Begin."""
        for one in self._threads:
            one.start()

    def stop(self) -> None:
        """End the producer, wait for its last acknowledgement, and for the consumer to have seen that."""
        self._stopped.set()
        for one in self._threads:
            one.join(2 * _WAIT_S)

    def abandon(self) -> None:
        """End both at once; what is not acknowledged is given up."""
        self._abandoned.set()
        self.stop()

    def _told(self, error: object, message: Message) -> None:
        if error is not None:
            self.refused += 1
            return
        checksum = _checksum(message.key(), message.value())
        if message.offset() is None:
            self.unplaced.append((str(message.topic()), int(message.partition() or 0), checksum))
        else:
            self.acknowledged[_place(message)] = checksum

    def _produce(self) -> None:
        writer = producer(self._cluster.client_settings, client_id="drill-producer", idempotent=True)
        for number in itertools.count():
            if self._stopped.is_set():
                break
            writer.produce(
                _LIVE, key=f"live{number}", value=f"live {number}", partition=number % 2, on_delivery=self._told
            )
            writer.poll(_PAUSE_S)
            self._stopped.wait(_PAUSE_S)
        if self._abandoned.is_set():
            writer.purge()
        self.refused += writer.flush(_WAIT_S)
        self._drained.set()

    def _written(self) -> int:
        live = sum(place[0] == _LIVE for place in list(self.acknowledged))
        return live + sum(place[0] == _LIVE for place in list(self.unplaced))

    def _consume(self) -> None:
        overrides = {"auto.offset.reset": "error"}
        reader = consumer(
            self._cluster.client_settings,
            client_id="drill-consumer",
            isolation=Isolation.READ_UNCOMMITTED,
            overrides=overrides,
        )
        reader.assign([TopicPartition(_LIVE, partition, 0) for partition in range(_TOPICS[_LIVE][0])])
        end_s = None
        try:
            while end_s is None or time.monotonic() < end_s:
                message = reader.poll(0.2)
                if self._drained.is_set():
                    end_s = end_s or time.monotonic() + _WAIT_S
                    if self._abandoned.is_set() or len(self.seen) >= self._written():
                        return
                if message is None:
                    continue
                if (error := message.error()) is not None:
                    if not is_end_of_partition(error):
                        self.read_errors[error.name()] += 1
                    continue
                self.twice += _place(message) in self.seen
                self.seen[_place(message)] = _checksum(message.key(), message.value())
        finally:
            reader.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the drill; gives the exit code."""
    argparse.ArgumentParser(prog="make drill-topic-ids", description=__doc__).parse_args(argv)
    logging.basicConfig(level=logging.ERROR)  # connections that are dropped are part of the story
    signal.signal(signal.SIGTERM, _interrupted)
    try:
        _drill()
    except KeyboardInterrupt:
        _say("interrupted; everything is stopped and removed")
        return 1
    except (ConnectShareError, subprocess.SubprocessError, OSError) as exc:
        _say(f"FAILED: {exc}")
        return 1
    return 0


def _drill() -> None:
    began_s = time.monotonic()
    _say(f"1. three brokers of {VERSION} with ZooKeeper start")
    with ZooKeeperCluster() as cluster:
        traffic = Traffic(cluster)
        _create(cluster)
        for topic, (partitions, _) in _TOPICS.items():
            traffic.fill(topic, partitions)
        _await_isr(cluster)
        traffic.start()
        try:
            _story(cluster, traffic)
        except BaseException:
            traffic.abandon()
            raise
        traffic.stop()
        _judge(cluster, traffic)
    _say(f"done in {time.monotonic() - began_s:.0f} s: nothing was lost")


def _story(cluster: ZooKeeperCluster, traffic: Traffic) -> None:
    _await(lambda: len(traffic.seen) >= _RECORDS, "the consumer reads")
    before = _contents(cluster)
    _say(f"   {len(_TOPICS)} topics, {len(before):,} records read back; a producer and a consumer go on on {_LIVE}")
    _check(cluster, {})
    _say(f"2. an old tool writes the znodes of {', '.join(_BROKEN)} without their ids")
    with open_zookeeper(cluster.hosts) as session:
        for topic in _BROKEN:
            path = f"/brokers/topics/{topic}"
            znode = session.get(path)
            if znode is None:
                raise EmbeddedError(f"{path} is not there")
            text = json.dumps({"version": 1, "partitions": json.loads(znode.data)["partitions"]}, separators=(",", ":"))
            session.set(path, text.encode(), znode.version)
    _check(cluster, {"authority-id-missing": 3})
    _say("   the early alarm: clients notice nothing yet")
    _say("3. the controller changes, finds no ids, and makes up new ones")
    cluster.change_controller()
    _await(lambda: traffic.read_errors["INCONSISTENT_TOPIC_ID"] > 0, "the consumer fails")
    _say("   the consumer fails: INCONSISTENT_TOPIC_ID; the producer goes on")
    _say("4. broker 2 restarts, and does not come back into the ISR")
    cluster.stop_broker(2)
    cluster.start_broker(2)
    _await(lambda: bool(_short(cluster)), "a short ISR")
    _check(cluster, {"id-differs": 10})
    _say("5. the repair: the original ids go back into the znodes, then one change of the controller")
    _repair(cluster, traffic, "backup")
    _same(cluster, before)
    _say("6. the repair is taken back (--undo), for the exercise: the fault is there again")
    undo = ["repair", "topic-ids", "--undo", str(cluster.folder / "backup"), "--zookeeper", cluster.hosts, "--yes"]
    errors = traffic.read_errors["INCONSISTENT_TOPIC_ID"]
    _succeed(undo)
    _await(lambda: traffic.read_errors["INCONSISTENT_TOPIC_ID"] > errors, "the consumer fails again")
    _check(cluster, {"id-differs": 10})
    _say("7. and repaired again")
    _repair(cluster, traffic, "backup-2")
    _same(cluster, before)


def _repair(cluster: ZooKeeperCluster, traffic: Traffic, backup: str) -> None:
    words = ["repair", "topic-ids", *_scanned(cluster), "--backup", str(cluster.folder / backup)]
    plan = json.loads(_succeed([*words, "--dry-run", "--output", "json"]).stdout)
    for one in plan["topics"]:
        _say(f"   planned: {one['topic']}: {one['method']}, id {one['topic_id']}")
    started_s, seen = time.monotonic(), len(traffic.seen)
    for line in _succeed([*words, "--yes"]).stderr.splitlines():
        _say(f"   {line.removeprefix('connect-share: ')}")
    _await(lambda: len(traffic.seen) > seen, "the consumer goes on")
    _say(f"   {time.monotonic() - started_s:.1f} s after the command was started the consumer reads again, by itself")
    _await_isr(cluster)
    _check(cluster, {})


def _same(cluster: ZooKeeperCluster, before: dict[Record, int]) -> None:
    now = _contents(cluster)
    if any(now.get(place) != checksum for place, checksum in before.items()):
        raise EmbeddedError("records of before are not what they were")
    _say(f"   the checksum of each of the {len(before):,} records of before is the same; the ISR is full")


def _judge(cluster: ZooKeeperCluster, traffic: Traffic) -> None:
    found = _contents(cluster)
    there = Counter((topic, number, checksum) for (topic, number, _), checksum in found.items())
    lost: list[object] = [place for place, checksum in traffic.acknowledged.items() if found.get(place) != checksum]
    lost += [one for one in traffic.unplaced if one not in there]
    twice = [one for one, count in there.items() if count > 1]
    missed = [place for place in found if place[0] == _LIVE and traffic.seen.get(place) != found[place]]
    errors = ", ".join(f"{name} {count} times" for name, count in sorted(traffic.read_errors.items()))
    number = len(traffic.acknowledged) + len(traffic.unplaced)
    _say(
        f"8. {number:,} records acknowledged, {traffic.refused} writes failed, {len(lost)} lost, {len(twice)} there twice"
    )
    _say(
        f"   the consumer was told {errors or 'no error'}; it missed {len(missed)} records, {traffic.twice} came twice"
    )
    if lost or twice or missed or traffic.twice or traffic.refused:
        raise EmbeddedError(f"records were lost, missed or came twice, such as {[*lost, *missed, *twice][:3]}")


def _create(cluster: ZooKeeperCluster) -> None:
    with cluster.admin(_WAIT_S) as admin:
        for topic, (partitions, replicas) in _TOPICS.items():
            admin.create_topic(NewTopicRequest(topic, partitions, replicas))


def _short(cluster: ZooKeeperCluster) -> list[str]:
    """Name partitions whose ISR is not full, or that are not there."""
    with cluster.admin() as admin:
        found = admin.describe_topics(_TOPICS)
    return [
        f"{topic}-{one.id}"
        for topic in _TOPICS
        for one in (found[topic].partitions if topic in found else ())
        if one.missing or len(one.isr) < _TOPICS[topic][1]
    ] + sorted(set(_TOPICS) - set(found))


def _await_isr(cluster: ZooKeeperCluster) -> None:
    _await(lambda: not _short(cluster), "a full ISR")


def _contents(cluster: ZooKeeperCluster) -> dict[Record, int]:
    """Read all topics to their ends; gives the checksum of each record."""
    partitions = [(topic, number) for topic, (count, _) in _TOPICS.items() for number in range(count)]
    with cluster.admin() as admin:
        ends = admin.end_offsets(partitions)
    reader = consumer(cluster.client_settings, client_id="drill-reader", isolation=Isolation.READ_UNCOMMITTED)
    found: dict[Record, int] = {}
    positions = dict.fromkeys(partitions, 0)
    deadline_s = time.monotonic() + _WAIT_S
    try:
        reader.assign([TopicPartition(topic, number, 0) for topic, number in partitions])
        while any(positions[one] < ends[one] for one in partitions) and time.monotonic() < deadline_s:
            message = reader.poll(0.5)
            if message is not None and message.error() is None:
                topic, number, offset = place = _place(message)
                found[place] = _checksum(message.key(), message.value())
                positions[topic, number] = offset + 1
    finally:
        reader.close()
    return found


def _check(cluster: ZooKeeperCluster, expected: dict[str, int]) -> None:
    done = _run(["check", "topic-ids", *_scanned(cluster), "--output", "json"])
    if done.returncode not in (0, 1):
        raise EmbeddedError(f"check topic-ids ended with {done.returncode}: {done.stderr[-1500:]}")
    told = json.loads(done.stdout)
    kinds = Counter(one["kind"] for one in told["findings"])
    shown = ", ".join(f"{count} x {kind}" for kind, count in sorted(kinds.items()))
    _say(f"   check topic-ids: {shown or 'no finding'} (exit {done.returncode})")
    for topic in told["topics"]:
        _say(f"     {topic['topic']}: {topic['cause']}; data path {topic['data_path']}")
    if kinds != expected:
        raise EmbeddedError(f"check topic-ids should have found {expected or 'nothing'}")


def _scanned(cluster: ZooKeeperCluster) -> list[str]:
    """Run the scanner for each broker, as one would on its machine; gives the options for what it printed."""
    # A scan counts only if it is newer than the znodes, and its clock has seconds.
    time.sleep(1.0 - time.time() % 1.0)
    words = []
    for broker in cluster.ids:
        path = cluster.folder / f"broker-{broker}.scan"
        with path.open("w") as file:
            program = [sys.executable, "-I", str(scanner.__file__), "--quiet", "--server-properties"]
            subprocess.run([*program, str(cluster.settings_file(broker))], stdout=file, check=True, timeout=_COMMAND_S)
        words += ["--scan", str(path)]
    return [*words, "--zookeeper", cluster.hosts]


def _succeed(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    done = _run(words)
    if done.returncode != 0:
        raise EmbeddedError(f"{' '.join(words[:2])} ended with {done.returncode}: {done.stderr[-1500:]}")
    return done


def _run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "connect_share.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_S, check=False)


def _await(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + _WAIT_S
    while True:
        try:
            if condition():
                return
        except BrokerError as exc:
            if not exc.retriable:
                raise
        if time.monotonic() > deadline_s:
            raise EmbeddedError(f"not seen within {_WAIT_S:g} s: {what}")
        time.sleep(0.1)


def _place(message: Message) -> Record:
    return str(message.topic()), int(message.partition() or 0), int(message.offset() or 0)


def _checksum(key: Any, value: Any) -> int:
    return zlib.crc32(bytes(value or b""), zlib.crc32(bytes(key or b"")))


def _say(text: str) -> None:
    print(text, flush=True)


def _interrupted(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
