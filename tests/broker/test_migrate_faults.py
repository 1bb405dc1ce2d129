"""What goes wrong in the middle of a copy, local engine: nothing lost, nothing twice, nothing out of order."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from connect_share.backup.record_file import half_written
from connect_share.errors import BrokerError, PlanFileError, TopicRecreatedError
from connect_share.files import Silent
from connect_share.model.records import TopicType
from migrator.copy.copy_job import CopyJob, SliceEvidence, copy_one, local_engine
from migrator.run import Manifest, MigrationStatus, backup_path, manifest_path
from tests.lab.embedded.broker import LocalBroker
from tests.support.kafka import TOPIC_PREFIX
from tests.support.long_forms import LONG
from tests.support.migration_faults import (
    ALL,
    CONFIG_RECORDS,
    QUARTER,
    Allowed,
    Busy,
    command,
    full_disk,
    recreate,
    set_topic_config,
)
from tests.support.migration_runs import apply_plan, resume_plan, verify_plan
from tests.support.migration_site import GROUP as SHARED_GROUP
from tests.support.migration_site import SHARED_PARTITIONS, SMALL, Site, pair, run
from tests.support.waiting import await_that


@pytest.fixture(scope="module")
def busy(broker: Any, tmp_path_factory: pytest.TempPathFactory) -> Busy:
    name = f"{TOPIC_PREFIX}-faults-{uuid.uuid4().hex[:6]}"
    return Busy(Site(broker.bootstrap_servers, name, tmp_path_factory.mktemp("faults")))


MIGRATE = (sys.executable, "-m", "migrator")


def resumes(plan: Path) -> int:
    path = manifest_path(plan)
    return Manifest.load(path).resumed if path.exists() else 0


def kill_in_the_middle(busy: Busy, cell: str, size: str, allowed: Allowed, verb: str, plan: Path, *more: str) -> None:
    """Start a command and kill it when it has written some more (one record is what a resume settles with)."""
    allowed.set(0)
    resumed = resumes(plan) + (verb == "resume")
    words = command(size, allowed, verb, str(plan), *more)
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:

        def alive() -> bool:
            return process.poll() is None

        def begun() -> bool:
            assert alive()
            return manifest_path(plan).exists() and resumes(plan) == resumed

        # Until then the broker may still take what the one before had sent.
        await_that(begun, what=f"{verb} begun", timeout_s=120)
        written = busy.written(cell)
        allowed.set(QUARTER)
        busy.await_more(cell, written + 1, alive=alive)
        process.kill()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("size", ["small", "bulk"])
def test_the_process_is_killed_and_the_one_that_goes_on_too(busy: Busy, tmp_path: Path, size: str) -> None:
    allowed, cell = Allowed(tmp_path / "allowed"), f"killed-{size}"
    plan = busy.plan(cell)
    kill_in_the_middle(busy, cell, size, allowed, "apply", plan, "--yes")
    code, _, said = run("apply", plan, "--yes")
    assert (code, "resume" in said, Manifest.load(manifest_path(plan)).resumed) == (1, True, 0)
    assert re.search(r"interrupted after \d+ of \d+ slices", said)
    kill_in_the_middle(busy, cell, size, allowed, "resume", plan)
    assert busy.written(cell) < CONFIG_RECORDS
    verify = [*MIGRATE, "verify", str(plan)]
    assert subprocess.run(verify, capture_output=True, check=False).returncode == 1
    allowed.set(ALL)
    done = subprocess.run(command(size, allowed, "resume", str(plan)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    busy.check(cell)
    assert Manifest.load(manifest_path(plan)).resumed == 2
    assert subprocess.run(verify, capture_output=True, check=False).returncode == 0


def kill_in_the_backup(plan: Path, allowed: Allowed, number: signal.Signals) -> list[Path]:
    """Kill an apply that writes its backup; gives the files it has left."""
    words = command("backup", allowed, "apply", str(plan), "--yes")
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        await_that(
            lambda: half_written(backup_path(plan)) or process.poll() is not None, what="a backup begun", timeout_s=120
        )
        process.send_signal(number)
    assert not manifest_path(plan).exists()
    assert not backup_path(plan).exists()
    return half_written(backup_path(plan))


@pytest.mark.slow
def test_a_kill_in_the_backup_is_gone_on_from(busy: Busy, tmp_path: Path) -> None:
    plan, allowed = busy.plan("backup"), Allowed(tmp_path / "allowed")
    allowed.set(1)  # one block
    assert kill_in_the_backup(plan, allowed, signal.SIGKILL)
    beside = plan.with_name(f".{backup_path(plan).name}.json.backup.avro.abcd_123")
    beside.touch()  # of a plan whose name begins alike
    code, _, said = run("resume", plan)
    assert code == 1
    assert (
        f"nothing was written to Kafka with this plan from here; begin with connect-share-migrate apply {plan}" in said
    )
    assert list(plan.parent.glob(f".{backup_path(plan).name}.*")) == [beside]
    kill_in_the_backup(plan, allowed, signal.SIGTERM)
    assert run("apply", plan, "--yes")[0] == 0
    assert list(plan.parent.glob(f".{backup_path(plan).name}.*")) == [beside]
    busy.check("backup")
    assert Manifest.load(manifest_path(plan)).backup is not None


@pytest.mark.slow
def test_ctrl_c_ends_a_copy_with_the_next_command(busy: Busy, tmp_path: Path) -> None:
    """At any moment: in a callback of the library, in its own code, while the destination is asked."""
    moments = random.Random("ctrl-c")
    plan, allowed = busy.plan("ctrl-c"), Allowed(tmp_path / "allowed")
    allowed.set(QUARTER)
    for attempt in range(3):
        verb = "resume" if attempt else "apply"
        words = command("small", allowed, verb, str(plan), "--yes")
        resumed = resumes(plan) + (verb == "resume")
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:

            def begun(process: subprocess.Popen[str] = process, resumed: int = resumed) -> bool:
                return process.poll() is not None or (manifest_path(plan).exists() and resumes(plan) == resumed)

            await_that(begun, bool, what=f"{verb} begun", timeout_s=120)
            time.sleep(moments.random() * 0.1)
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=60)[1].splitlines()
        last = f"interrupted: what was copied so far stays; next: connect-share-migrate resume {plan}"
        assert (process.returncode, said[-1]) == (130, f"connect-share-migrate: {last}")
        assert all(line.startswith("{") for line in said[:-1]), said
    assert run("resume", plan, "--yes")[0] == 0
    busy.check("ctrl-c")


def test_the_disk_is_full_when_the_manifest_is_written(busy: Busy) -> None:
    plan = busy.plan("full")
    with (
        full_disk(local_engine(Silent()), plan) as engine,
        pytest.raises(PlanFileError, match=r"cannot be written.*make room"),
    ):
        apply_plan(plan, engine=engine)
    manifest = Manifest.load(manifest_path(plan))
    assert (manifest.status, len(manifest.evidence)) == (MigrationStatus.PLANNED, 1)
    assert sorted(path.name for path in plan.parent.glob(f".{manifest_path(plan).name}*")) == []
    resumed = resume_plan(plan)
    assert sum(evidence.found_present for evidence in resumed.evidence) > 0
    busy.check("full")


@pytest.mark.slow
@pytest.mark.kills_broker
@pytest.mark.parametrize("size", ["bulk", *(["small"] if LONG else [])])
def test_the_broker_is_killed_and_comes_back(own_broker: LocalBroker, tmp_path: Path, size: str) -> None:
    busy, allowed = Busy(Site(own_broker.bootstrap_servers, "faults", tmp_path)), Allowed(tmp_path / "allowed")
    allowed.set(QUARTER)

    def crash() -> None:
        own_broker.kill()
        allowed.set(ALL)
        own_broker.start()

    def apply(plan: Path) -> None:
        words = command(size, allowed, "apply", str(plan), "--yes")
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr  # it goes on by itself

    plan = busy.struck("crashed", crash, apply)
    busy.check("crashed")
    assert verify_plan(plan).equal


def test_a_source_created_again_is_not_gone_on_with(site: Site) -> None:
    plan = site.plan(site.small_source(), site.shared())

    def interrupted(jobs: Sequence[CopyJob]) -> Iterator[SliceEvidence]:
        yield copy_one(jobs[0])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        apply_plan(plan, engine=interrupted)
    before = [site.read(site.topic("shared", topic_type)) for topic_type in TopicType]
    recreate(site, site.topic("own", TopicType.OFFSET))
    site.lay_down("own", TopicType.OFFSET, SMALL[TopicType.OFFSET])
    with pytest.raises(TopicRecreatedError, match="deleted and created again"):
        resume_plan(plan)
    assert [site.read(site.topic("shared", topic_type)) for topic_type in TopicType] == before
    assert len(before[0]) == 4


@pytest.mark.parametrize("bulk_from", [200_000, 0], ids=["small", "bulk"])
def test_what_was_refused_is_written_when_it_may_be(
    site: Site, monkeypatch: pytest.MonkeyPatch, bulk_from: int
) -> None:
    """One record in the middle is refused for a while: it is not left out for those behind it that were taken."""
    monkeypatch.setattr("migrator.copy.copy_job._BULK", bulk_from)
    large = {"max.message.bytes": "1100000"}
    site.create("own", configs=large)
    pairs = [pair(f"connector-{number}", json.dumps({"properties": {"x": "x" * 90}})) for number in range(6_000)]
    pairs[3_000] = pair("connector-large", json.dumps({"properties": {"x": "x" * 1_040_000}}))
    site.lay_down("own", TopicType.CONFIG, pairs)
    site.create("shared", SHARED_PARTITIONS, large)
    plan = site.plan(site.worker_file("own", "orders", sharing=False), site.shared())
    topic = site.topic("shared", TopicType.CONFIG)
    set_topic_config(site, topic, "max.message.bytes", "1030000")
    with pytest.raises(BrokerError, match=f"writing to {topic} failed: MSG_SIZE_TOO_LARGE"):
        apply_plan(plan)
    assert Manifest.load(manifest_path(plan)).status is MigrationStatus.PLANNED
    written = [record.key for record in site.read(topic)]
    assert f"{SHARED_GROUP}.connector-large".encode() not in written
    set_topic_config(site, topic, "max.message.bytes", "1100000")
    resume_plan(plan)
    assert verify_plan(plan).equal
