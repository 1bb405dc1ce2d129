"""Plans applied and verified by Spark: what real workers wrote arrives, once, in order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from pyspark.sql import SparkSession

from connect_share.errors import ConfigError, CopyError
from connect_share.files import Silent
from connect_share.model.murmur2 import partition_for
from connect_share.model.records import Record, TopicType
from connect_share.model.removal import BARRIER_RECORDS
from connect_share.replay import replay_config, replay_offsets, replay_status
from connect_share.sealing import KEYS_PROPERTY, KeyRing
from connect_share.worker_config import SHARING_PROPERTY, WorkerConfig
from migrator.copy.copy_job import BULK, CopyJob, SliceEvidence, Wave
from migrator.planner import make_plan
from migrator.report import folder_of
from migrator.run import Manifest, MigrationStatus, manifest_path
from migrator.verify import verification
from spark_jobs import apply_plan, verify_plan
from spark_jobs.generate_workload import generate
from spark_jobs.tasks import run_as_tasks
from spark_jobs.workload import WorkloadSize
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.captures import captured
from tests.support.console import console
from tests.support.kafka import TestBroker
from tests.support.migration_runs import apply_plan as apply_with
from tests.support.migration_runs import copy_one, roll_back
from tests.support.records import at_offset, by_key
from tests.support.sealed import key_text
from tests.support.topics import ONE_SEGMENT, create_topic, read_topic, write_records

CAPTURE = "3.9.2"
TAMPERED = b'{"properties":{"password":"x"}}'
NAMES = {TopicType.CONFIG: "configs", TopicType.STATUS: "status", TopicType.OFFSET: "offsets"}


@dataclass(frozen=True)
class Scene:
    """Dedicated topics with the capture of a real worker, and a plan that moves them."""

    broker: TestBroker
    source: WorkerConfig
    shared: WorkerConfig
    plan: Path
    keys: KeyRing | None = None

    def shared_records(self, topic_type: TopicType) -> list[Record]:
        topic = self.shared.topic(topic_type)
        with self.broker.admin() as admin:
            return read_topic(admin, self.broker.client_settings, topic)

    def check_states(self) -> None:
        group, keys = self.shared.group_id, self.keys
        config = replay_config(self.shared_records(TopicType.CONFIG), group, keys=keys)
        moved = [record for record in captured(CAPTURE, "configs") if record.key != b"session-key"]
        expected = replay_config(moved)
        assert at_offset(config, 0) == at_offset(expected, 0)
        status = replay_status(self.shared_records(TopicType.STATUS), group, keys=keys)
        assert status == replay_status(captured(CAPTURE, "status"))
        offsets = replay_offsets(captured(CAPTURE, "offsets"))
        assert replay_offsets(self.shared_records(TopicType.OFFSET), group, keys=keys) == offsets

    def check_records(self) -> None:
        """Order, timestamps and places are kept."""
        for topic_type, name in NAMES.items():
            records = self.shared_records(topic_type)
            partitions = 1 if topic_type is TopicType.CONFIG else 5
            for record in records:
                assert record.partition == partition_for(record.key or b"", partitions)
            prefix = len(self.shared.group_id) + 1
            there = by_key(((each.key or b"")[prefix:], (each.timestamp_ms, each.value)) for each in records)
            there.pop(b"target-state-", None)  # the marker that closes the config topic
            wanted = by_key((each.key or b"", (each.timestamp_ms, each.value)) for each in captured(CAPTURE, name))
            assert there == {key: each for key, each in wanted.items() if key[:8] not in (b"session-", b"restart-")}


@pytest.fixture
def scene(broker: TestBroker, unique: str, tmp_path: Path, request: pytest.FixtureRequest) -> Scene:
    """The parameter is the text of the keys that the destination has."""
    keys: str | None = getattr(request, "param", None)
    settings = broker.client_settings
    plain = worker_properties(broker.bootstrap_servers, f"{unique}-old")
    shared = {
        **worker_properties(broker.bootstrap_servers, f"{unique}.new", f"{unique}-shared"),
        SHARING_PROPERTY: "enabled",
        **({} if keys is None else {KEYS_PROPERTY: keys}),
        **{f"{topic_type.value}.storage.segment.ms": ONE_SEGMENT["segment.ms"] for topic_type in TopicType},
    }
    source_file = write_properties(tmp_path / "source.properties", plain)
    shared_file = write_properties(tmp_path / "shared.properties", shared)
    source, destination = WorkerConfig.from_file(source_file), WorkerConfig.from_file(shared_file)
    for topic_type, name in NAMES.items():
        create_topic(settings, source.topic(topic_type), 1 if topic_type is TopicType.CONFIG else 5)
        write_records(settings, source.topic(topic_type), captured(CAPTURE, name))
    plan = make_plan([source_file], [shared_file], now_ms=1, progress=Silent())
    path = tmp_path / "plan.json"
    plan.save(path)
    return Scene(broker, source, destination, path, destination.sealing_keys)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("scene", "bulk_from"),
    [(None, BULK), (None, 0), (key_text(7), BULK)],
    ids=["plain", "bulk", "sealed"],
    indirect=["scene"],
)
def test_apply_and_verify(
    scene: Scene, bulk_from: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply_plan, "BULK", bulk_from)
    assert apply_plan.main([str(scene.plan), "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["manifest"]["engine"] == "spark"
    assert Manifest.load(manifest_path(scene.plan)).status is MigrationStatus.COPIED
    scene.check_states()
    assert verify_plan.main([str(scene.plan), "--output", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["equal"], report["differences"], report["compared"]) == (True, [], 3)
    assert Manifest.load(manifest_path(scene.plan)).status is MigrationStatus.VERIFIED
    runs = json.loads((folder_of(scene.plan) / "runs.json").read_text())["runs"]
    assert [run["command"] for run in runs] == ["apply", "verify"]

    if scene.keys is None:
        scene.check_records()
        check_tampering(scene, capsys)


def check_tampering(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody changes a value of the destination: verify finds it, and does not show it."""
    topic = scene.shared.topic(TopicType.CONFIG)
    key = f"{scene.shared.group_id}.connector-my.conn".encode()
    write_records(scene.broker.client_settings, topic, [Record(topic, 0, 0, 1, key, TAMPERED)])
    assert verify_plan.main([str(scene.plan), "--output", "json"]) == 1
    output = capsys.readouterr().out
    report = json.loads(output)
    assert not report["equal"]
    assert {difference["connector"] for difference in report["differences"]} == {"my.conn"}
    assert '"x"' not in output


@pytest.mark.usefixtures("spark")
def test_a_resume_reads_behind_the_last_wave_and_leaves_one_barrier_in_each_partition(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And checks know it. Cores come while it works."""
    monkeypatch.setattr(apply_plan, "TOGETHER", 0)
    monkeypatch.setattr(apply_plan, "_BUNDLES", 1)
    monkeypatch.setattr(apply_plan, "task_slots", MagicMock(side_effect=[2, 1, 2, 3, *[2] * 20]))

    def engine(jobs: Sequence[CopyJob]) -> Iterator[SliceEvidence | Wave]:
        waves = 0
        for each in apply_plan.copy_engine(Silent())(jobs):
            if waves == 3:  # which is written, and not noted
                raise RuntimeError("the driver is gone")
            waves += isinstance(each, Wave)
            yield each

    with pytest.raises(RuntimeError):
        apply_with(scene.plan, engine=engine, engine_name="spark")
    begun = Manifest.load(manifest_path(scene.plan))
    assert begun.wave is not None
    assert (len(begun.evidence), len(begun.wave.slices)) == (3, 3)
    monkeypatch.delattr(verification, "read_groups")  # the ends explain themselves: nothing is read once more
    assert apply_plan.main([str(scene.plan), "--resume", "--output", "json"]) == 0
    scene.check_states()
    barriers = {each: f"{scene.shared.group_id}.".encode() + BARRIER_RECORDS[each][0] for each in TopicType}
    for topic_type, places in ((TopicType.STATUS, [*range(5)]), (TopicType.OFFSET, [])):
        written = [each for each in scene.shared_records(topic_type) if each.key == barriers[topic_type]]
        assert sorted(each.partition for each in written) == places
    assert sum(each.found_present for each in Manifest.load(manifest_path(scene.plan)).evidence) > 0
    capsys.readouterr()
    found = console(capsys)("check", "startup", "-w", scene.plan.parent / "shared.properties", "--output", "json").json
    assert [topic["keys_in_several_partitions"] for topic in found["topics"]] == [0, 0, 0]
    assert found["problems"] == []


@pytest.fixture
def speculative(spark: SparkSession) -> Iterator[SparkSession]:
    guard = "spark.sql.legacy.setCommandRejectsSparkCoreConfs"
    spark.conf.set(guard, "false")
    spark.conf.set("spark.speculation", "true")
    yield spark
    spark.conf.unset("spark.speculation")
    spark.conf.unset(guard)


def test_speculation_is_refused_before_anything_is_written(
    scene: Scene, speculative: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ([str(scene.plan)], [str(scene.plan), "--resume"]):
        assert apply_plan.main(words) == 2
        said = capsys.readouterr().err
        assert "spark.speculation=true: Spark would start a second attempt" in said
        assert "--conf spark.speculation=false" in said
    with pytest.raises(ConfigError, match=r"spark\.speculation"):
        generate(speculative, scene.shared, WorkloadSize(), progress=Silent())
    assert not manifest_path(scene.plan).exists()
    with scene.broker.admin() as admin:
        assert not admin.describe_topics([scene.shared.topic(topic_type) for topic_type in TopicType])


def copied_twice(job: CopyJob) -> SliceEvidence:
    """As two attempts do that do not know each other."""
    copy_one(job)
    return copy_one(job)


def test_what_two_attempts_have_written_is_not_called_copied(scene: Scene, spark: SparkSession) -> None:
    def engine(jobs: Sequence[CopyJob]) -> list[SliceEvidence]:
        return run_as_tasks(spark, jobs, copied_twice, progress=Silent(), what="copying twice")

    with pytest.raises(CopyError, match=r"records of this plan, \d+ were reported: two attempts of a task") as refused:
        apply_with(scene.plan, engine=engine, engine_name="spark")
    assert f"rollback {scene.plan}" in str(refused.value)
    assert Manifest.load(manifest_path(scene.plan)).status is MigrationStatus.PLANNED
    roll_back(scene.plan)
    assert replay_config(scene.shared_records(TopicType.CONFIG), scene.shared.group_id).connectors() == frozenset()


@pytest.mark.usefixtures("spark")
def test_a_straggler_is_named_as_what_it_is(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    assert apply_plan.main([str(scene.plan)]) == 0
    records = scene.shared_records(TopicType.CONFIG)
    newest = {record.key: record for record in records}
    old = next(
        each for each in records if each.value != newest[each.key].value and b".target-state-" in (each.key or b"")
    )
    # An attempt that was given up writes what lies there once more: first the newest value, then an old one.
    for again, equal in ((newest[old.key], True), (old, False)):
        write_records(scene.broker.client_settings, again.topic, [again])
        capsys.readouterr()
        assert verify_plan.main([str(scene.plan), "--output", "json"]) == (0 if equal else 1)
        report = json.loads(capsys.readouterr().out)
        assert report["equal"] is equal
        (warning,) = report["warnings"]
        assert "of this plan came after its copy had ended and was counted: a task that Spark had given up" in warning
