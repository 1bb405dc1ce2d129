"""Copies that fail, are killed, repeated, elsewhere, or large; what a user confirms is what is applied."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from connect_share.errors import (
    BrokerTimeoutError,
)
from connect_share.files import Silent
from connect_share.kafka.admin import Admin
from connect_share.kafka.write import Producers
from connect_share.model.records import Record, TopicType
from connect_share.worker_config import ClientSettings
from migrator.copy import copy_job as local_engine
from migrator.copy.copy_job import CopyJob, SliceEvidence, copy_one
from migrator.run import Manifest, manifest_path
from migrator.verify.equality import StateDifference
from migrator.verify.verification import VerifyJob
from tests.support.migration_runs import apply_plan, check_bystanders, resume_plan, verify_plan
from tests.support.migration_site import (
    GROUP,
    SHARED_PARTITIONS,
    SMALL,
    Site,
    pair,
    run,
)


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
    source, destination = site.small_source(), site.shared()
    plan = site.plan(source, destination)
    _answering(
        monkeypatch, lambda: [file.write_text("bootstrap.servers=nowhere:1\n") for file in (source, destination)]
    )
    code, _, err = run("apply", plan)
    assert code == 0, err


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
                engine=local_engine.local_engine(Silent(), Producers(once=True, **options)),
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
    with site.admin() as admin:
        known = admin.describe_topics([topic])[topic].partitions
        return {number: end for (_, number), end in admin.end_offsets([(topic, each.id) for each in known]).items()}


def plan_of_500_offsets(site: Site) -> Path:
    source = site.small_source()
    site.lay_down("own", TopicType.OFFSET, OFFSETS)
    return site.plan(source, site.shared())


def test_what_is_acknowledged_is_noted_before_the_end(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_engine, "_UNSETTLED", 100)
    monkeypatch.setattr(local_engine, "TOGETHER", 1)  # a client for each slice
    plan = plan_of_500_offsets(site)
    noted: list[int] = []

    def engine(jobs: Sequence[CopyJob]) -> Iterator[SliceEvidence]:
        for evidence in local_engine.copy_all(jobs, Producers(bulk=True), Silent()):
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
        yield from local_engine.copy_all(jobs, Producers(bulk=True), Silent())

    manifest = apply_plan(plan, engine=engine)
    assert "not where the topics end: no broker has answered" in caplog.text
    assert sum(each.found_present for each in manifest.evidence) == manifest.records_written == 4 + 2 + 1
    assert verify_plan(plan).equal


def test_a_resume_reads_twice_only_what_has_begun(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_engine, "TOGETHER", 1)  # a client for each slice
    plan = plan_of_500_offsets(site)
    copied: list[str] = []

    def interrupted(jobs: Sequence[CopyJob]) -> Iterable[SliceEvidence]:
        full = [job for job in jobs if job.slice_.topic_type is TopicType.OFFSET and job.slice_.offset_range.end]
        copied.extend(each.slice_name for each in local_engine.copy_all(full[:3], Producers(once=True), Silent()))
        raise KeyboardInterrupt  # what was copied is not in the manifest

    with pytest.raises(KeyboardInterrupt):
        apply_plan(plan, engine=interrupted)
    long_way: list[str] = []
    begin = CopyJob.begin

    def noted(job: CopyJob, *arguments: Any, **named: Any) -> Any:
        long_way.append(job.slice_.name)
        return begin(job, *arguments, **named)

    monkeypatch.setattr(CopyJob, "begin", noted)
    manifest = resume_plan(plan)
    assert sorted(long_way) == sorted(copied) != []
    assert sum(each.found_present for each in manifest.evidence) == sum(
        each.written for each in manifest.evidence if each.slice_name in copied
    )
    assert verify_plan(plan).equal
