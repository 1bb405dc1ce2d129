"""What goes wrong in the middle of a copy by Spark: nothing lost, nothing twice, nothing out of order."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from connect_share.errors import BrokerError
from connect_share.files import Silent
from connect_share.kafka.write import ONCE_OVERRIDES, PRODUCER_OVERRIDES
from connect_share.model.records import TopicType
from migrator.copy.copy_job import CopyJob, Engine, SliceEvidence
from migrator.run import Manifest, MigrationStatus, manifest_path
from spark_jobs.tasks import copy_in_task, run_as_tasks
from tests.lab.embedded.broker import LocalBroker
from tests.support.kafka import TOPIC_PREFIX, skip_where_brokers_stay, two_brokers
from tests.support.long_forms import LONG
from tests.support.migration_faults import (
    ALL,
    CONFIG_RECORDS,
    QUARTER,
    Allowed,
    At,
    Busy,
    command,
    copy_in_held_task,
    held_copy,
)
from tests.support.migration_runs import apply_plan, resume_plan, verify_plan
from tests.support.migration_site import Site
from tests.support.waiting import await_that

Copy = Any


@pytest.fixture(scope="module")
def busy(broker: Any, tmp_path_factory: pytest.TempPathFactory) -> Busy:
    name = f"{TOPIC_PREFIX}-spark-faults-{uuid.uuid4().hex[:6]}"
    return Busy(Site(broker.bootstrap_servers, name, tmp_path_factory.mktemp("faults")))


def spark_engine(spark: SparkSession, copy: Copy = copy_in_task) -> Engine:
    def run(jobs: Sequence[CopyJob]) -> Sequence[SliceEvidence]:
        each = [[job] for job in jobs]
        return [found for (found,) in run_as_tasks(spark, each, copy, progress=Silent(), what="copying partitions")]

    return run


def killed_in_the_middle(jobs: Sequence[CopyJob]) -> list[SliceEvidence]:
    """The first attempt at the config topic ends by SIGKILL of its Python worker when some of a half is written."""
    (copy_job,) = jobs
    slice_, context = copy_job.slice_, TaskContext.get()
    if slice_.topic_type is TopicType.CONFIG and context is not None and context.attemptNumber() == 0:
        half = slice_.offset_range._replace(end=CONFIG_RECORDS // 2)
        begun = replace(copy_job, slice_=replace(slice_, offset_range=half)).begin()
        at = (slice_.destination_topic, 0)
        with Site(copy_job.producer_settings.properties["bootstrap.servers"], "", Path()).admin() as admin:
            await_that(lambda: begun.writer.is_acknowledged or admin.end_offsets([at])[at] > 0, what="some written")
        os.kill(os.getpid(), signal.SIGKILL)
    return copy_in_task(jobs, bulk=True)


@pytest.mark.slow
def test_a_python_worker_is_killed(busy: Busy, spark: SparkSession) -> None:
    plan = busy.plan("executor")
    manifest = apply_plan(plan, engine=spark_engine(spark, killed_in_the_middle), engine_name="spark")
    busy.check("executor")
    (config,) = (evidence for evidence in manifest.evidence if evidence.topic_type is TopicType.CONFIG)
    assert 0 < config.found_present < CONFIG_RECORDS
    assert verify_plan(plan).equal


@pytest.mark.slow
def test_the_driver_is_killed_and_the_local_engine_goes_on(busy: Busy, tmp_path: Path) -> None:
    """At once: workers of the dead driver may still be writing for a moment."""
    plan, allowed = busy.plan("driver"), Allowed(tmp_path / "allowed")
    allowed.set(QUARTER)
    words = command("spark", allowed, str(plan))
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        busy.await_more("driver", 0, alive=lambda: process.poll() is None)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    resume_plan(plan)
    busy.check("driver")


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[LocalBroker, LocalBroker]]:
    skip_where_brokers_stay()
    with two_brokers() as brokers:
        yield brokers


@pytest.fixture(scope="module")
def busy_pair(pair: tuple[LocalBroker, LocalBroker], tmp_path_factory: pytest.TempPathFactory) -> Busy:
    return Busy(Site(pair[0].bootstrap_servers, "faults", tmp_path_factory.mktemp("pair")), replicas=2)


@pytest.mark.skipif(not LONG, reason="a broker starts three times: make soak")
@pytest.mark.kills_broker
def test_the_destination_is_out_of_replicas(
    busy_pair: Busy, pair: tuple[LocalBroker, LocalBroker], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What was not acknowledged is in the log, and hidden until there are replicas again: in the middle of the resume."""
    _, second = pair
    allowed = Allowed(tmp_path / "allowed")
    allowed.set(QUARTER)

    def starve() -> None:
        second.kill()
        allowed.set(ALL)

    def apply(plan: Path) -> None:
        with held_copy(allowed), pytest.raises(BrokerError, match=r"writing to .* failed: .*MSG_TIMED_OUT"):
            apply_plan(plan)

    with monkeypatch.context() as patched:
        # Instead of minutes: that a broker waits for replicas, that a copy waits for it, and that it asks again.
        patched.setattr("connect_share.kafka.write.ONCE_OVERRIDES", {**ONCE_OVERRIDES, "request.timeout.ms": "3000"})
        patched.setattr("connect_share.kafka.write._QUIET_S", 3.0)
        patched.setattr(
            "connect_share.kafka.write.PRODUCER_OVERRIDES",
            {**PRODUCER_OVERRIDES, "message.timeout.ms": "6000"},
        )
        plan = busy_pair.struck("replicas", starve, apply)
    assert Manifest.load(manifest_path(plan)).status is MigrationStatus.PLANNED
    starting = threading.Thread(target=second.start)
    resume_plan(plan, progress=At("reading what the destination has", starting.start))
    starting.join()
    busy_pair.check("replicas")


@pytest.mark.slow
@pytest.mark.kills_broker
def test_what_was_taken_and_not_acknowledged_is_not_taken_again(
    busy_pair: Busy, pair: tuple[LocalBroker, LocalBroker], spark: SparkSession, tmp_path: Path
) -> None:
    """Without replicas the first broker takes batches and does not answer; killed then, it forgets who sent them."""
    first, second = pair
    allowed = Allowed(tmp_path / "allowed")
    allowed.set(QUARTER)

    def crash() -> None:
        second.kill()
        allowed.set(2 * QUARTER)  # these are under way when the first one ends
        first.kill()
        allowed.set(ALL)
        first.start()
        second.start()

    def apply(plan: Path) -> None:
        apply_plan(
            plan, engine=spark_engine(spark, partial(copy_in_held_task, allowed, bulk=True)), engine_name="spark"
        )

    plan = busy_pair.struck("taken", crash, apply)
    busy_pair.check("taken")
    assert verify_plan(plan).equal
