"""Three brokers, three replicas, two of them in sync: brokers are killed while stores write, read and start.

``make soak`` kills each of them in turn, ``make test`` the first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

import pytest

from connect_share import BrokerError, ConnectShareError, ReadToEndTimeoutError, WriteError
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import Deadline
from connect_share.kafka.create import await_in_sync
from connect_share.model.records import TopicType
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from tests.lab.cluster import LocalCluster
from tests.support.flushes import done
from tests.support.kafka import skip_where_brokers_stay
from tests.support.long_forms import LONG
from tests.support.waiting import await_that
from tests.support.worker_files import SHARING, WORKER

# A cluster costs ten seconds and more: not beside the other one.
pytestmark = [pytest.mark.kills_broker, pytest.mark.xdist_group("cluster")]

KILLED = (1, 2, 3) if LONG else (1,)
READ_S = 20.0
_PAUSE_S = 0.05
STUCK_S = 120.0
"""So much later than its deadline a read has not returned at all, however slow the machine is."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    skip_where_brokers_stay()
    with closing(LocalCluster(3, controllers=3)) as made:
        made.start()
        yield made


def worker(cluster: LocalCluster, group: str) -> WorkerConfig:
    partitions = {f"{kind}.storage.partitions": "3" for kind in ("offset", "status")}
    return WorkerConfig.from_properties(
        {**WORKER, "bootstrap.servers": cluster.bootstrap_servers, "group.id": group, **partitions, **SHARING}
    )


@dataclass
class Numbers:
    """One kind of write, one number after the other; a write that fails may be there or not, and is followed by a next."""

    write: Callable[[int], object]
    sent: int = 0
    acknowledged: int = 0
    failed: list[ConnectShareError] = field(default_factory=list)

    def run(self, ended: threading.Event) -> None:
        while not ended.wait(_PAUSE_S):
            self.sent += 1
            try:
                self.write(self.sent)
            except ConnectShareError as error:
                self.failed.append(error)
            else:
                self.acknowledged = self.sent


@pytest.mark.slow
def test_kill_9_under_writes_reads_and_starts(cluster: LocalCluster) -> None:
    ended = threading.Event()
    names = [worker(cluster, "g").topic(topic_type) for topic_type in TopicType]
    with ConnectStorage(worker(cluster, "g"), allow_live_members=True) as storage, ThreadPoolExecutor(8) as threads:
        source = storage.offset_writer("source")

        def put_offset(number: int) -> None:
            source.offset({"p": number % 5}, {"n": number})
            source.begin_flush()
            done(source.do_flush(), STUCK_S)

        configs = Numbers(lambda number: storage.config.put_connector_config("c", {"n": str(number)}))
        offsets = Numbers(put_offset)
        reads = Numbers(lambda _: storage.offsets.refresh(READ_S))
        running = [threads.submit(each.run, ended) for each in (configs, offsets, reads)]
        moved = 0
        try:
            with cluster.admin() as admin:
                # Each of the five partitions has an offset before the first broker dies.
                await_that(lambda: offsets.acknowledged, lambda count: count >= 5, what="written", timeout_s=STUCK_S)
                for number in KILLED:
                    for topic in names:
                        await_in_sync(admin, topic, replicas=3, deadline=Deadline.after(120))
                    goes_on(configs, offsets, reads)
                    moved += leaders(admin, names).count(number)
                    # Each waits for one broker; of so many, some wait for the one that dies.
                    askers = [Admin(cluster.client_settings, client_id="tests") for _ in range(3)]
                    for asker in askers:
                        await_that(partial(answers, asker, names), what="an answer", timeout_s=STUCK_S)
                    cluster.broker(number).kill()
                    for asker in askers:
                        await_that(
                            partial(answers, asker, names), what="an answer of another broker", timeout_s=STUCK_S
                        )
                        asker.close()
                    starting = threads.submit(start_and_end, worker(cluster, f"other-{number}"))
                    goes_on(configs, offsets, reads)  # the others lead now
                    await_that(lambda: leaders(admin, names), without(number), what="led by others", timeout_s=STUCK_S)
                    finished(starting)
                    if number != KILLED[-1]:
                        cluster.start(number)
        finally:
            ended.set()
            for each in running:
                finished(each)
        assert moved >= 1
        reader = storage.offset_reader("source")
        storage.config.refresh(60)
        storage.offsets.refresh(60)
        live = (number_of(storage), [reader.offset({"p": part}) for part in range(5)])
    with ConnectStorage(worker(cluster, "g")) as again:
        reader = again.offset_reader("source")
        kept = [reader.offset({"p": part}) for part in range(5)]
        assert (number_of(again), kept) == live
    assert configs.acknowledged <= live[0] <= configs.sent
    for part, offset in enumerate(kept):
        last = max(n for n in range(offsets.acknowledged + 1) if n % 5 == part)
        assert offset is not None
        assert last <= offset["n"] <= offsets.sent
    for error in (*configs.failed, *offsets.failed, *reads.failed):
        assert isinstance(error, (WriteError, ReadToEndTimeoutError, BrokerError)), error


def goes_on(*all_of_them: Numbers) -> None:
    """Wait until something that was begun from now on has succeeded, in each."""
    begun = [each.sent for each in all_of_them]

    def behind() -> list[int]:
        return [each.sent for each, at in zip(all_of_them, begun, strict=True) if each.acknowledged <= at]

    await_that(behind, lambda left: left == [], what="going on", timeout_s=STUCK_S)


def answers(admin: Admin, topics: list[str]) -> bool:
    """Ask as those do who may not wait long."""
    try:
        return len(admin.describe_topics(topics, timeout_s=3)) == len(topics)
    except BrokerError:
        return False


def leaders(admin: Admin, topics: list[str]) -> list[int | None]:
    described = admin.describe_topics(topics).values()
    return [partition.leader for topic in described for partition in topic.partitions]


def without(broker: int) -> Callable[[list[int | None]], bool]:
    return lambda found: not {broker, None} & set(found)


def start_and_end(config: WorkerConfig) -> None:
    with ConnectStorage(config, allow_live_members=True) as storage:
        storage.config.put_connector_config("c", {})


def finished(running: Future[None]) -> None:
    running.result(READ_S + STUCK_S)


def number_of(storage: ConnectStorage) -> int:
    return int((storage.config.snapshot().connector_config("c") or {"n": "-1"})["n"])
