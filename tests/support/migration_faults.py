"""Parts of fault tests: a source to copy, an action in the middle of the copy, and a count afterwards."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from confluent_kafka.admin import NewTopic

from connect_share.backup.record_file import RecordBlock, WrittenRecordFile, write_record_file
from connect_share.files import Silent
from connect_share.kafka import client
from connect_share.kafka.write import CheckedWriter, Outgoing
from connect_share.model.murmur2 import partition_for
from connect_share.model.records import Record, TopicType
from connect_share.model.removal import BARRIER_RECORDS
from migrator.copy.copy_job import CopyJob, Engine, SliceEvidence, Wave
from migrator.run import manifest_path
from tests.support.migration_site import PARTITIONS, SHARED_PARTITIONS, Site
from tests.support.records import by_key
from tests.support.topics import ONE_SEGMENT, delete_known
from tests.support.waiting import await_that

CONFIG_RECORDS = 6_000
OTHER_RECORDS = 600
GROUP = "g.h"
Found = dict[bytes, list[tuple[bytes | None, int]]]


class Busy:
    """A source of many records with many versions of each key, and destinations for one cell each."""

    def __init__(self, site: Site, *, replicas: int = 1) -> None:
        self.site = site
        self._replicas = replicas
        # A broker forgets the producers of records older than a day when it starts, and with them what they have sent:
        # a client that sends again what was not acknowledged would have it there twice.
        self._began_ms = int(time.time() * 1000) - 3 * 86_400_000
        self.wanted: dict[TopicType, Found] = {}
        self._create("own", PARTITIONS, 1)
        for topic_type, key in (
            (TopicType.CONFIG, "connector-c{}"),
            (TopicType.STATUS, "status-task-c{}-0"),
            (TopicType.OFFSET, '["c{}",{{"file":"f"}}]'),
        ):
            number = CONFIG_RECORDS if topic_type is TopicType.CONFIG else OTHER_RECORDS
            self._fill(topic_type, key, number)
        self.source = site.worker_file("own", "busy", sharing=False)

    def _fill(self, topic_type: TopicType, key: str, number: int) -> None:
        wanted: Found = {}
        records = []
        for at in range(number):
            raw = key.format(at % 300).encode()
            value = None if at % 7 == 6 else b'{"properties":{"n":"%d","x":"%s"}}' % (at, b"x" * 80)
            timestamp_ms = self._began_ms + at
            partition = partition_for(raw, PARTITIONS[topic_type])
            records.append(Record(self.site.topic("own", topic_type), partition, at, timestamp_ms, raw, value))
            wanted.setdefault(f"{GROUP}.".encode() + raw, []).append((value, timestamp_ms))
        self.site.produce(records)
        self.wanted[topic_type] = wanted

    def plan(self, cell: str) -> Path:
        """Write a destination's worker file and a plan that leads there."""
        self._create(cell, SHARED_PARTITIONS, self._replicas)
        # Small requests, so that the middle of a copy lasts long enough to be hit.
        destination = self.site.worker_file(cell, GROUP, sharing=True, producer_batch_size="1000")
        return self.site.plan(self.source, destination, f"{cell}.json")

    def _create(self, who: str, partitions: dict[TopicType, int], min_replicas: int) -> None:
        """Create topics whose leader is the first broker, so that the second may be killed."""
        settings = {"cleanup.policy": "compact", "min.insync.replicas": str(min_replicas), **ONE_SEGMENT}
        where = list(range(1, self._replicas + 1))
        wanted = [
            NewTopic(
                self.site.topic(who, topic_type),
                num_partitions=partitions[topic_type],
                replica_assignment=[where] * partitions[topic_type],
                config=settings,
            )
            for topic_type in TopicType
        ]
        maker = client.admin_client(self.site.settings, client_id="test")
        for future in maker.create_topics(wanted).values():
            future.result(120)
        with self.site.admin() as admin:

            def usable() -> int:
                found = admin.describe_topics([self.site.topic(who, topic_type) for topic_type in TopicType])
                return sum(part.leader is not None for topic in found.values() for part in topic.partitions)

            await_that(usable, lambda count: count == sum(partitions.values()), what=f"topics of {who} usable")

    def check(self, cell: str) -> None:
        """Every record is there, once, in the order of its key."""
        for topic_type, wanted in self.wanted.items():
            records = self.site.read(self.site.topic(cell, topic_type))
            found = by_key((record.key or b"", (record.value, record.timestamp_ms)) for record in records)
            found.pop(f"{GROUP}.".encode() + BARRIER_RECORDS[topic_type][0], None)  # the marker of the config topic too
            there, here = (Counter({key: len(each) for key, each in side.items()}) for side in (wanted, found))
            assert (there - here, here - there) == (Counter(), Counter()), "lost, and twice"
            assert [key for key in wanted if wanted[key] != found[key]] == [], "not in order"

    def written(self, cell: str, topic_type: TopicType = TopicType.CONFIG) -> int:
        topic = self.site.topic(cell, topic_type)
        with self.site.admin() as admin:
            return sum(admin.end_offsets((topic, number) for number in range(SHARED_PARTITIONS[topic_type])).values())

    def await_more(self, cell: str, than: int, *, alive: Callable[[], bool] = lambda: True) -> int:
        """Wait until some of the config topic, and not all of it, is at the destination."""
        topic = self.site.topic(cell, TopicType.CONFIG)
        with self.site.admin() as admin:

            def end() -> int:
                assert alive()
                return admin.end_offsets([(topic, 0)])[topic, 0]

            return await_that(end, lambda seen: seen > than, what=f"{cell} begun", timeout_s=300)

    def struck(self, cell: str, action: Callable[[], None], copy: Callable[[Path], None]) -> Path:
        """Copy, by something that is held, while an action is done that lets it go on. Returns the plan."""
        plan = self.plan(cell)
        with self.in_the_middle(cell, action):
            copy(plan)
        return plan

    @contextmanager
    def in_the_middle(self, cell: str, action: Callable[[], None]) -> Iterator[None]:
        """Do something when some of the config topic is written, while the block copies."""

        def strike() -> None:
            self.await_more(cell, 0)
            action()

        with ThreadPoolExecutor(1) as threads:
            struck = threads.submit(strike)
            yield
        struck.result()


def recreate(site: Site, topic: str) -> None:
    """Delete a topic and make another of the same name."""
    with site.admin() as admin:
        partitions = len(admin.describe_topics([topic])[topic].partitions)
        delete_known(admin, topic)
        site.create_topic(admin, topic, partitions, {})


@contextmanager
def full_disk(engine: Engine, plan: Path) -> Iterator[Engine]:
    """Return an engine after whose first slice the disk is full: no file of this process may grow further."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def run(jobs: Sequence[CopyJob]) -> Iterator[SliceEvidence | Wave]:
        for number, evidence in enumerate(engine(jobs)):
            if number == 1:
                size = manifest_path(plan).stat().st_size
                resource.setrlimit(resource.RLIMIT_FSIZE, (size + 1, hard))
            yield evidence

    try:
        yield run
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class At(Silent):
    """Does something when a phase begins for the first time."""

    def __init__(self, phase: str, action: Callable[[], None]) -> None:
        self._phase, self._action = phase, action

    def phase(self, what: str, total: int) -> None:
        del total
        if what == self._phase:
            self._phase = ""
            self._action()


QUARTER = 1_500
"""Records of a copy of :class:`tests.support.migration_faults.Busy`; more than half of its config topic is left."""
ALL = 1_000_000_000


class Allowed:
    """The file that says how many records each process that writes may write; as long as it is missing, none."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def set(self, records: int) -> None:
        self.path.write_text(str(records))

    def now(self) -> int:
        return int(self.path.read_text() or 0) if self.path.exists() else 0

    def await_more(self, than: int) -> int:
        """Wait until more is allowed; end with the process that this one was started by."""
        parent = os.getppid()
        while (allowed := self.now()) <= than:
            if os.getppid() != parent:
                os._exit(1)
            time.sleep(0.01)
        return allowed


@contextmanager
def held_copy(allowed: Allowed) -> Iterator[None]:
    """Hold what this process writes to topics."""
    write_all, written = CheckedWriter.write_all, 0

    def write_held(writer: CheckedWriter, records: Sequence[Outgoing]) -> None:
        nonlocal written
        left = records
        while left:
            room = allowed.await_more(written) - written
            write_all(writer, left[:room])
            written += len(left[:room])
            left = left[room:]

    with patch.object(CheckedWriter, "write_all", write_held):
        yield


@contextmanager
def held_backup(allowed: Allowed) -> Iterator[None]:
    """Hold what this process writes to files of records, before the block that is too much."""
    written = 0

    def held_blocks(blocks: Iterable[RecordBlock]) -> Iterator[RecordBlock]:
        nonlocal written
        for block in blocks:
            allowed.await_more(written)
            yield block
            written += block.records

    def write_held(path: Path, about: Any, sections: Any, **more: Any) -> WrittenRecordFile:
        return write_record_file(path, about, [held_blocks(blocks) for blocks in sections], **more)

    with patch("connect_share.backup.backup_file.write_record_file", write_held):
        yield


def copy_in_held_task(allowed: Allowed, jobs: Sequence[CopyJob], *, bulk: bool = False) -> list[SliceEvidence]:
    """Copy slices in a Spark task; each is allowed so many records."""
    from spark_jobs.tasks import copy_in_task

    with held_copy(allowed):
        return copy_in_task(jobs, bulk=bulk)


def command(what: str, allowed: Allowed, *words: str) -> list[str]:
    """Return the command line of a program that is held."""
    return [sys.executable, "-m", "tests.support.migration_faults", what, str(allowed.path), *words]


def main(what: str, allowed: Allowed, words: Sequence[str]) -> int:
    if what == "spark":
        from spark_jobs import apply_plan

        copy = partial(copy_in_held_task, allowed)
        with patch.object(apply_plan, "copy_in_task", copy), patch.object(apply_plan, "BULK", 0):
            return apply_plan.main(words)
    from migrator.cli.__main__ import main as migrate

    hold = held_backup if what == "backup" else held_copy
    with hold(allowed), patch("migrator.copy.copy_job.BULK", 0) if what == "bulk" else nullcontext():
        return migrate(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Allowed(Path(sys.argv[2])), sys.argv[3:]))
