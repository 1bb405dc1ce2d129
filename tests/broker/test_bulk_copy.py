"""Copies of large plans: their producer reports failures only, so the topics are asked where they end; and their resume."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from connect_share.errors import BrokerTimeoutError
from connect_share.files import Silent
from connect_share.kafka.admin import Admin
from connect_share.kafka.write import Producers
from connect_share.model.records import Record, TopicType
from migrator.copy import local_engine
from migrator.copy.copy_job import CopyJob, SliceEvidence
from migrator.run import Manifest
from tests.support.migration_runs import apply_plan, check_bystanders, resume_plan, verify_plan
from tests.support.migration_site import GROUP, SHARED_PARTITIONS, SMALL, Site, pair

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
