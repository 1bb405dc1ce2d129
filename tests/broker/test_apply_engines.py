"""Copies that fail, are killed, are repeated or travel to other processes."""

from __future__ import annotations

import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from connect_share.errors import (
    BrokerError,
)
from connect_share.model.records import TopicType
from connect_share.worker_config.client_settings import ClientSettings
from migrator.copy.copy_job import CopyJob, SliceEvidence
from migrator.copy.local_engine import copy_one
from migrator.run import Manifest, MigrationStatus, manifest_path
from migrator.verify.equality import StateDifference
from migrator.verify.verification import VerifyJob
from tests.support.migration_runs import apply_plan, verify_plan
from tests.support.migration_site import (
    GROUP,
    SHARED_PARTITIONS,
    SMALL,
    Site,
    pair,
    run,
)
from tests.support.waiting import await_that

KILLED = """
import os, signal, sys
from connect_share.kafka.write import CheckedWriter
from migrator.cli.__main__ import main
listener = CheckedWriter._listener
offset = int(sys.argv.pop(1))
def killing(writer):
    delivered = listener(writer)
    def until(error, message):
        delivered(error, message)
        if message.offset() == offset:
            os.kill(os.getpid(), signal.SIGKILL)
    return until
CheckedWriter._listener = killing
main(sys.argv[1:])
"""


def test_kill_in_the_middle_and_a_second_apply(site: Site) -> None:
    """What is there after kill -9 is a part in order; a second apply refuses and says how far the first came."""
    site.create("own")
    site.create("shared", SHARED_PARTITIONS)
    pairs = [pair(f"connector-{n}", '{"properties":{"x":"%s"}}' % ("x" * 200)) for n in range(60_000)]
    site.lay_down("own", TopicType.CONFIG, pairs)
    site.lay_down("own", TopicType.OFFSET, SMALL[TopicType.OFFSET])
    # Small requests: only five of them are under way when the process is killed.
    destination = site.worker_file("shared", GROUP, sharing=True, producer_batch_size="500")
    plan_path = site.plan(site.worker_file("own", "orders", sharing=False), destination)
    command = [sys.executable, "-c", KILLED, "1000", "apply", str(plan_path), "--yes"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    topic = site.topic("shared", TopicType.CONFIG)
    with site.admin() as admin:
        # The broker goes on with what the process had sent. Nothing tells when it has taken all of that.
        ends: list[int] = []

        def has_ended() -> bool:
            ends.append(admin.end_offsets([(topic, 0)])[(topic, 0)])
            return ends[-50:] == [ends[-1]] * 50

        await_that(has_ended, what="copied to where the process was killed")
    copied = site.read(topic)
    assert 1_000 < len(copied) < len(pairs)
    assert [record.key for record in copied] == [f"{GROUP}.{key}".encode() for key, _, _ in pairs[: len(copied)]]
    assert Manifest.load(manifest_path(plan_path)).status is MigrationStatus.PLANNED
    code, _, err = run("apply", plan_path, "--yes")
    assert code == 1
    assert re.search(r"interrupted after \d+ of 11 slices", err)
    assert len(site.read(topic)) == len(copied)
    assert not verify_plan(plan_path).equal


def test_a_repeated_task_writes_nothing_twice(site: Site) -> None:
    """What Spark does after a failed attempt: the same jobs again, marked as not the first."""
    small = site.small_source()
    site.lay_down("own", TopicType.CONFIG, [pair("connector-gone", None), *SMALL[TopicType.CONFIG]])
    plan_path = site.plan(small, site.shared())

    def twice(jobs: Any) -> Iterator[Any]:
        for job in jobs:
            first = copy_one(job)
            again = copy_one(job, resumed=True)
            assert again.found_present == again.written == first.written
            assert again.digest == first.digest
            yield again

    apply_plan(plan_path, engine=twice, engine_name="twice")
    marker = f"{GROUP}.target-state-".encode()
    keys = [record.key for record in site.read(site.topic("shared", TopicType.CONFIG)) if record.key != marker]
    assert len(keys) == 1 + 2 * 4
    assert verify_plan(plan_path).equal


def test_a_refused_record_ends_the_copy(site: Site) -> None:
    """The limit of the destination was lowered after the plan was made: nothing counts as copied."""
    site.create("own")
    site.lay_down("own", TopicType.CONFIG, [pair("connector-a"), pair("connector-big", "x" * 3000)])
    site.create("tiny", SHARED_PARTITIONS, {"max.message.bytes": "2000"})
    plan_path = site.plan(site.worker_file("own", "orders", sharing=False), site.shared())
    tiny = site.topic("tiny", TopicType.CONFIG)

    def lowered(jobs: Sequence[CopyJob]) -> Iterator[SliceEvidence]:
        for job in jobs:
            yield copy_one(replace(job, slice_=replace(job.slice_, destination_topic=tiny)))

    with pytest.raises(BrokerError, match=f"writing to {tiny} failed: MSG_SIZE_TOO_LARGE"):
        apply_plan(plan_path, engine=lowered)
    manifest = Manifest.load(manifest_path(plan_path))
    assert (manifest.status, manifest.evidence) == (MigrationStatus.PLANNED, ())

    def in_this_thread(jobs: Sequence[CopyJob]) -> Iterator[SliceEvidence]:
        yield from (copy_one(job) for job in jobs)

    assert apply_plan(plan_path, engine=in_this_thread).status is MigrationStatus.COPIED  # the shared topics are empty
    assert verify_plan(plan_path).equal


def test_jobs_travel_and_hide_their_secrets(site: Site) -> None:
    """What Spark sends to its workers; a secret in it is not shown when one is printed or logged."""
    plan_path = site.plan(site.small_source(), site.shared())
    secret = ClientSettings({"bootstrap.servers": site.bootstrap_servers, "sasl.password": "open-sesame"})
    seen: list[CopyJob] = []

    def travelling(jobs: Sequence[CopyJob]) -> Iterator[SliceEvidence]:
        for job in jobs:
            copy = pickle.loads(pickle.dumps(job))
            assert copy == job
            seen.append(replace(job, consumer_settings=secret, producer_settings=secret))
            yield pickle.loads(pickle.dumps(copy_one(copy)))

    apply_plan(plan_path, engine=travelling, engine_name="travelling")
    assert "open-sesame" not in repr(seen)

    def comparing(jobs: Sequence[VerifyJob]) -> Iterator[list[StateDifference]]:
        for job in jobs:
            yield pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(job)).run()))

    assert verify_plan(plan_path, engine=comparing).equal
    texts = [path.read_text() for path in site.folder.glob("*.json")]
    assert len(texts) == 2
    assert not any(site.bootstrap_servers in text for text in texts)
