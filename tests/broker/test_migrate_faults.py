"""What goes wrong in the middle of a copy, local engine: nothing lost, nothing twice, nothing out of order."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from connect_share.errors import (
    BrokerError,
    BrokerTimeoutError,
    CopyError,
    PlanFileError,
    TopicError,
    TopicRecreatedError,
)
from connect_share.files import Silent
from connect_share.kafka.admin import Admin
from connect_share.kafka.write import Producers
from connect_share.model.records import Record, TopicType
from connect_share.model.removal import BARRIER_RECORDS
from migrator.copy import copy_job
from migrator.copy.copy_job import CopyJob, SliceEvidence, Wave, copy_all
from migrator.copy.existing_records import ExistingRecords
from migrator.run import Manifest, MigrationStatus, backup_path, manifest_path
from tests.lab.embedded.broker import LocalBroker
from tests.support.kafka import TOPIC_PREFIX
from tests.support.long_forms import LONG
from tests.support.migration_faults import ALL, CONFIG_RECORDS, QUARTER, Allowed, Busy, command, full_disk, recreate
from tests.support.migration_runs import apply_plan, check_bystanders, copy_one, resume_plan, verify_plan
from tests.support.migration_site import GROUP, SHARED_PARTITIONS, SMALL, Site, pair, run, run_well
from tests.support.migration_site import GROUP as SHARED_GROUP
from tests.support.topics import alter_known
from tests.support.waiting import await_that

pytestmark = pytest.mark.xdist_group("migrate-faults")


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
    assert run("resume", plan, "--dry-run")[0] == 0
    assert busy.written(cell) < CONFIG_RECORDS
    verify = [*MIGRATE, "verify", str(plan)]
    assert subprocess.run(verify, capture_output=True, check=False).returncode == 1
    allowed.set(ALL)
    done = subprocess.run(command(size, allowed, "resume", str(plan)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    busy.check(cell)
    assert Manifest.load(manifest_path(plan)).resumed == 2
    assert subprocess.run(verify, capture_output=True, check=False).returncode == 0


def begun(plan: Path) -> list[Path]:
    """What there is of a backup that is not whole; an empty file does not say yet that it is one."""
    return [path for path in plan.parent.glob(f".{backup_path(plan).name}.*") if path.stat().st_size]


def kill_in_the_backup(plan: Path, allowed: Allowed, number: signal.Signals) -> list[Path]:
    """Kill an apply that writes its backup; gives the files it has left."""
    words = command("backup", allowed, "apply", str(plan), "--yes")
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        await_that(lambda: begun(plan) or process.poll() is not None, what="a backup begun", timeout_s=120)
        process.send_signal(number)
    assert not manifest_path(plan).exists()
    assert not backup_path(plan).exists()
    return begun(plan)


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
    plan, allowed = busy.plan("ctrl-c"), Allowed(tmp_path / "allowed")
    allowed.set(QUARTER)
    for attempt, more in enumerate((2, 0, 2)):
        written = busy.written("ctrl-c")
        verb = "resume" if attempt else "apply"
        words = command("small", allowed, verb, str(plan), "--yes")
        resumed = resumes(plan) + (verb == "resume")
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:

            def begun(process: subprocess.Popen[str] = process, resumed: int = resumed) -> bool:
                return process.poll() is not None or (manifest_path(plan).exists() and resumes(plan) == resumed)

            await_that(begun, bool, what=f"{verb} begun", timeout_s=120)
            if more:
                busy.await_more("ctrl-c", written + more - 1)
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=180)[1].splitlines()
        last = f"interrupted: what was copied so far stays; next: connect-share-migrate resume {plan}"
        assert (process.returncode, said[-1]) == (130, f"connect-share-migrate: {last}")
        assert all(line.startswith(("{", "connect-share-migrate: waiting for ")) for line in said[:-1]), said
    assert run("resume", plan, "--yes")[0] == 0
    busy.check("ctrl-c")


def test_the_disk_is_full_when_the_manifest_is_written(busy: Busy) -> None:
    plan = busy.plan("full")
    with (
        full_disk(partial(copy_all, producers=Producers(once=True), progress=Silent()), plan) as engine,
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
    with pytest.raises(TopicRecreatedError, match="is lost, not empty: it was deleted and created again"):
        resume_plan(plan)
    assert [site.read(site.topic("shared", topic_type)) for topic_type in TopicType] == before
    assert len(before[0]) == 4


def test_what_a_broker_has_lost_is_not_gone_on_with(site: Site) -> None:
    apply_plan(plan := site.plan(site.small_source(), site.shared()))
    manifest = Manifest.load(manifest_path(plan))
    lost = manifest.evidence[0].model_copy(update={"written": manifest.evidence[0].written + 1})
    planned = {"status": MigrationStatus.PLANNED, "evidence": (lost, *manifest.evidence[1:])}
    manifest.model_copy(update=planned).save(manifest_path(plan))
    with pytest.raises(CopyError, match="fewer records than were acknowledged to this plan: the broker lost them"):
        resume_plan(plan)


@pytest.mark.parametrize("bulk_from", [200_000, 0], ids=["small", "bulk"])
def test_what_was_refused_is_written_when_it_may_be(
    site: Site, monkeypatch: pytest.MonkeyPatch, bulk_from: int
) -> None:
    """One record in the middle is refused for a while: it is not left out for those behind it that were taken."""
    monkeypatch.setattr("migrator.copy.copy_job.BULK", bulk_from)
    large = {"max.message.bytes": "1100000"}
    site.create("own", configs=large)
    pairs = [pair(f"connector-{number}", json.dumps({"properties": {"x": "x" * 90}})) for number in range(6_000)]
    pairs[3_000] = pair("connector-large", json.dumps({"properties": {"x": "x" * 1_040_000}}))
    site.lay_down("own", TopicType.CONFIG, pairs)
    site.create("shared", SHARED_PARTITIONS, large)
    plan = site.plan(site.worker_file("own", "orders", sharing=False), site.shared())
    topic = site.topic("shared", TopicType.CONFIG)
    with site.admin() as admin:
        alter_known(admin, topic, {"max.message.bytes": "1030000"})
    with pytest.raises(TopicError, match="takes no records of 1,0"):
        apply_plan(plan)
    assert site.read(topic) == []
    with monkeypatch.context() as meanwhile:  # as if it had been changed behind the question
        meanwhile.setattr("migrator.checks.require_access", lambda _: None)
        with pytest.raises(BrokerError, match=f"writing to {topic} failed: MSG_SIZE_TOO_LARGE"):
            apply_plan(plan)
    assert Manifest.load(manifest_path(plan)).status is MigrationStatus.PLANNED
    written = [record.key for record in site.read(topic)]
    assert f"{SHARED_GROUP}.connector-large".encode() not in written
    with site.admin() as admin:
        alter_known(admin, topic, large)
    resume_plan(plan)
    assert verify_plan(plan).equal


@pytest.mark.parametrize("times", ["CreateTime", "LogAppendTime"])
def test_a_repeated_task_writes_nothing_twice(site: Site, times: str) -> None:
    """What Spark does after a failed attempt: the same jobs again, marked as not the first."""
    site.create("shared", SHARED_PARTITIONS, {"message.timestamp.type": times})
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


@pytest.mark.parametrize("times", ["CreateTime", "LogAppendTime"])
def test_a_resume_reads_what_came_after_the_last_wave(site: Site, monkeypatch: pytest.MonkeyPatch, times: str) -> None:
    """What has begun is known although another engine goes on, which begins all that is left, and is interrupted too."""
    site.create("shared", SHARED_PARTITIONS, {"message.timestamp.type": times})
    plan = site.plan(site.small_source(), site.shared())

    def waves(jobs: Sequence[CopyJob]) -> Iterator[SliceEvidence | Wave]:
        yield Wave.of(jobs[:1], jobs)
        yield copy_one(jobs[0])
        yield Wave.of(jobs[1:3], jobs)
        copy_one(jobs[1])
        raise KeyboardInterrupt

    def interrupted(jobs: Sequence[CopyJob]) -> Iterator[SliceEvidence]:
        copy_one(jobs[0], resumed=jobs[0].resumed)
        yield copy_one(jobs[-1], resumed=jobs[-1].resumed)
        copy_one(jobs[-2], resumed=jobs[-2].resumed)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        apply_plan(plan, engine=waves, engine_name="spark")
    manifest = Manifest.load(manifest_path(plan))
    assert manifest.wave is not None
    assert (len(manifest.evidence), len(manifest.wave.slices)) == (1, 2)
    with pytest.raises(KeyboardInterrupt):
        resume_plan(plan, engine=interrupted)
    read: list[CopyJob] = []
    existing = CopyJob.read_existing

    def noted(job: CopyJob) -> ExistingRecords:
        read.append(job)
        return existing(job)

    monkeypatch.setattr(CopyJob, "read_existing", noted)
    resume_plan(plan)
    assert len(read) == len({job.slice_.topic_type for job in read})
    assert {
        job.destination_starts == tuple(manifest.wave.destination_ends[job.slice_.topic_type].items()) for job in read
    } == {True}
    for topic_type in TopicType:
        own = [
            each
            for each in site.read(site.topic("shared", topic_type))
            if BARRIER_RECORDS[topic_type][0] not in (each.key or b"")
        ]
        assert len(own) == len({(each.key, each.value) for each in own}), topic_type
    assert (verify_plan(plan).equal, verify_plan(plan).warnings) == (True, ())
    straggler = next(
        each for each in site.read(site.topic("shared", TopicType.CONFIG)) if b".connector-" in (each.key or b"")
    )
    site.produce([straggler])
    (warning,) = verify_plan(plan).warnings
    assert "1 record(s) of this plan came after its copy had ended and was counted" in warning


def _answering(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Answer ``yes`` to the next question, after something else was done."""

    def answer() -> str:
        meanwhile()
        return "yes\n"

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True, readline=answer))


def test_a_plan_that_is_changed_at_the_question_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = site.plan(site.small_source(), site.shared())
    text = plan.read_text()
    _answering(monkeypatch, lambda: plan.write_text(text + "\n"))
    code, _, err = run("apply", plan)
    assert code == 1
    assert f"{plan} was changed while this command was running, and nothing was written" in err
    assert not manifest_path(plan).exists()
    with site.admin() as admin:
        assert admin.describe_topics([site.topic("shared", TopicType.CONFIG)]) == {}
    plan.write_text(text)
    _answering(monkeypatch, lambda: None)
    assert run("apply", plan)[0] == 0


def test_a_worker_file_that_is_changed_at_the_question_changes_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = site.small_source(), site.shared()
    plan = site.plan(*files)
    _answering(monkeypatch, lambda: [each.write_text("bootstrap.servers=nowhere:1\n") for each in files])
    run_well("apply", plan)


def test_one_command_at_a_time_from_the_question_on(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = site.plan(site.small_source(), site.shared())
    others: list[tuple[int, str, str]] = []
    _answering(monkeypatch, lambda: others.append(run("apply", plan, "--yes")))
    assert run("apply", plan)[0] == 0
    ((code, _, err),) = others
    assert code == 1
    assert f"another process is applying {plan} right now" in err


OFFSETS = [pair(f'["a.b",{{"n":{number}}}]') for number in range(500)]
LOCAL_AND_BULK: tuple[dict[str, bool], ...] = ({}, {"bulk": True})


def test_a_bulk_copy_has_the_evidence_of_any_other(site: Site) -> None:
    source = site.small_source()
    site.lay_down("own", TopicType.CONFIG, [pair("connector-gone", None)])  # its marker follows
    site.lay_down("own", TopicType.OFFSET, OFFSETS)
    site.create("shared", SHARED_PARTITIONS)
    others = Record(site.topic("shared", TopicType.OFFSET), 0, 0, 1, b'x.["a",{"f":1}]', b"{}")
    site.produce([others, others])
    found: list[Manifest] = []
    for number, options in enumerate(LOCAL_AND_BULK):
        destination = site.worker_file("shared", f"{GROUP}.{number}", sharing=True)
        plan = site.plan(source, destination, f"{number}.json")
        found.append(
            apply_plan(
                plan,
                engine=partial(copy_all, producers=Producers(once=True, **options), progress=Silent()),
                isolation_proof=True,
            )
        )
        assert verify_plan(plan).equal
        assert check_bystanders(plan).isolated
        for topic_type, topic in found[-1].destination.items():
            assert found[-1].written_up_to(topic_type) == ends_of(site, topic.topic)

    def facts(manifest: Manifest) -> list[dict[str, Any]]:
        # Digests are of the new keys, and these have the group in them.
        groups = {"cluster_group_id", "bytes_written", "digest", "destination_offsets"}
        return [each.model_dump(exclude=groups) for each in sorted(manifest.evidence, key=lambda each: each.slice_name)]

    assert facts(found[0]) == facts(found[1])
    assert any(each.marker_written for each in found[1].evidence)


def ends_of(site: Site, topic: str) -> dict[int, int]:
    return {number: end for (name, number), end in site.ends().items() if name == topic}


def test_what_is_acknowledged_is_noted_before_the_end(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_job, "_UNSETTLED", 100)
    monkeypatch.setattr(copy_job, "TOGETHER", 1)  # a client for each slice
    source = site.small_source()
    site.lay_down("own", TopicType.OFFSET, OFFSETS)
    plan = site.plan(source, site.shared())
    noted: list[int] = []

    def engine(jobs: Sequence[CopyJob]) -> Iterator[SliceEvidence]:
        for evidence in copy_job.copy_all(jobs, Producers(bulk=True), Silent()):
            # What is noted is there, whatever becomes of the rest.
            noted.append(sum(ends_of(site, site.topic("shared", TopicType.OFFSET)).values()))
            yield evidence

    manifest = apply_plan(plan, engine=engine)
    assert 0 < noted[0] < noted[-1] == 501
    assert manifest.records_written == 501 + len(SMALL[TopicType.STATUS]) + 4
    assert verify_plan(plan).equal


def test_without_an_answer_where_the_topics_end_the_destination_is_read(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As after an outage: nothing is written twice, and the evidence is whole."""
    plan = site.plan(site.small_source(), site.shared())
    end_offsets, outages = Admin.end_offsets, [BrokerTimeoutError("no broker has answered", retriable=True)]

    def answered_the_second_time(admin: Admin, *arguments: Any, **named: Any) -> Any:
        if outages:
            raise outages.pop()
        return end_offsets(admin, *arguments, **named)

    def engine(jobs: Sequence[CopyJob]) -> Iterator[SliceEvidence]:
        monkeypatch.setattr(Admin, "end_offsets", answered_the_second_time)
        yield from copy_job.copy_all(jobs, Producers(bulk=True), Silent())

    manifest = apply_plan(plan, engine=engine)
    assert "not where the topics end: no broker has answered" in caplog.text
    assert sum(each.found_present for each in manifest.evidence) == manifest.records_written == 4 + 2 + 1
    assert verify_plan(plan).equal
