"""The backup of a plan: every record of the source, exactly, and what the destination would lose."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import pytest

from connect_share.backup.backup_file import read_contents
from connect_share.backup.record_file import RecordFile
from connect_share.errors import AlreadyAppliedError, RecordFileError
from connect_share.files import Silent
from connect_share.model.keys import MARKER
from connect_share.model.records import Record, TopicType
from migrator.copy.copy_job import CopyJob
from migrator.moves import Intent
from migrator.report import folder_of
from migrator.run import Manifest, backup_path, manifest_path
from tests.support.migration_runs import apply_plan, resume_plan, verify_plan
from tests.support.migration_site import GROUP, Site, pair, run


def odd_records(site: Site, who: str = "own") -> None:
    """What Connect never writes, and what it seldom writes."""
    topic = site.topic(who, TopicType.OFFSET)
    headers = (("h", b"1"), ("h", None), ("", b""))
    site.produce(
        [
            Record(topic, 3, 0, 1_700_000_000_001, b'["a.b",{"n":1}]', b'{"n":1}', headers),
            Record(topic, 3, 0, 1_700_000_000_002, b'["a.b",{"n":1}]', None, headers),
            Record(topic, 4, 0, 1_700_000_000_003, b"\xff", b""),
        ]
    )


def in_order(records: list[Record]) -> list[Record]:
    return sorted(records, key=lambda record: (record.topic, record.partition, record.offset))


def of_topics(site: Site, who: str) -> list[Record]:
    return in_order([record for topic_type in TopicType for record in site.read(site.topic(who, topic_type))])


def test_every_record_of_the_source_is_kept_before_anything_is_written(site: Site) -> None:
    """Exactly: tombstones, headers, timestamps, offsets."""
    source = site.small_source()
    odd_records(site)
    path, before = site.plan(source, site.shared()), of_topics(site, "own")

    def engine(jobs: list[CopyJob]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        apply_plan(path, engine=engine)  # type: ignore[arg-type]
    manifest = Manifest.load(manifest_path(path))
    told, file = manifest.backup, RecordFile(backup_path(path))
    assert told is not None
    assert told.file == backup_path(path).name == "plan.backup.avro"
    assert backup_path(path).stat().st_mode & 0o777 == 0o600
    assert hashlib.sha256(backup_path(path).read_bytes()).hexdigest() == told.sha256
    assert told.records == file.records == 12
    assert told.topics == {
        site.topic("own", TopicType.CONFIG): 6,
        site.topic("own", TopicType.STATUS): 2,
        site.topic("own", TopicType.OFFSET): 4,
    }
    assert in_order(list(file.read())) == before
    contents = read_contents(file)
    assert contents.run_id == manifest.run_id
    assert [(origin.group_id, origin.plain, origin.becomes) for origin in contents.origins] == [("orders", True, GROUP)]
    made_ns = backup_path(path).stat().st_mtime_ns
    resume_plan(path)
    assert verify_plan(path).equal
    assert backup_path(path).stat().st_mtime_ns == made_ns
    assert Manifest.load(manifest_path(path)).backup == told


def test_the_evidence_of_a_whole_move(site: Site) -> None:
    """What each command leaves, and that no name from a topic becomes markup and no value gets out."""
    name = "<img src=x onerror=alert(1)>"
    source = site.small_source()
    hunter = json.dumps({"properties": {"password": "hunter2"}})
    site.lay_down("own", TopicType.CONFIG, [pair(f"connector-{name}", hunter)])
    path, elsewhere = site.plan(source, site.shared()), site.folder / "ticket"
    assert run("apply", path, "--yes", "--evidence", elsewhere)[0] == 0
    site.produce(
        [
            Record(
                site.topic("shared", TopicType.CONFIG),
                0,
                0,
                1,
                f"{GROUP}.connector-{name}".encode(),
                b'{"properties":{}}',
            )
        ]
    )
    assert run("verify", path, "--evidence", elsewhere)[0] == 1
    assert run("rollback", path, "--yes", "--although-used")[0] == 0
    runs = json.loads((elsewhere / "runs.json").read_text())["runs"]
    assert [(each["command"], each["outcome"]) for each in runs] == [("apply", "done"), ("verify", "differences found")]
    page = (elsewhere / "report.html").read_text()
    backup = Manifest.load(elsewhere / "manifest.json").backup
    assert backup is not None
    assert backup.sha256 in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "<img" not in page
    assert not any("hunter2" in each.read_text() for each in elsewhere.iterdir())
    assert "rolled back" in (folder_of(path) / "report.html").read_text()


def test_what_is_shared_is_kept_once_and_what_would_be_written_over_too(site: Site) -> None:
    """In place, two sources on the same topics; the destination's marker lies under a key that will be written."""
    site.create("shared")
    config = site.topic("shared", TopicType.CONFIG)
    for group in ("one", "two", "other"):
        site.lay_down("shared", TopicType.CONFIG, [pair(f"{group}.connector-{group}", '{"properties":{}}')])
    shared_config = site.topic("shared", TopicType.CONFIG)
    site.produce([Record(shared_config, 0, 0, 1, key, b"x") for key in (b"\xff", b"one.", b"connector-plain")])
    site.create("second")
    theirs = site.topic("second", TopicType.CONFIG)
    marker = Record(theirs, 0, 0, 1_700_000_000_000, b"two." + MARKER[0], MARKER[1])
    kept = dataclasses.replace(marker, key=b"two.connector-kept", offset=1)
    site.produce([marker, kept, dataclasses.replace(marker, key=b"other." + MARKER[0])])
    sources = [site.worker_file("shared", group, sharing=True) for group in ("one", "two")]
    intent = Intent(job="one")
    path = site.plan(sources[0], site.worker_file("second", "two", sharing=True), intent=intent)
    apply_plan(path)
    file = RecordFile(backup_path(path))
    assert file.sections == (1, 1)  # nothing of the other groups
    assert [record for section, record in file.read_sections() if section == 1] == [marker]
    assert [origin.side for origin in read_contents(file).origins] == ["source", "destination"]
    renamed = [site.worker_file("shared", group, sharing=True) for group in ("one-b", "two-b")]
    second = site.folder / "rename.json"
    assert run(
        "plan", "--source-worker-config", *sources, "--destination-worker-config", *renamed, "-o", second
    )[0] == 0  # fmt: skip
    apply_plan(second)
    assert sorted(record.key or b"" for record in RecordFile(backup_path(second)).read()) == sorted(
        f"{group}.connector-{group}".encode() for group in ("one", "two")
    )
    assert {record.topic for record in RecordFile(backup_path(second)).read()} == {config}


def test_the_backup_of_another_run_is_never_replaced(site: Site, tmp_path: Path) -> None:
    source = site.small_source()
    path = site.plan(source, site.shared())
    apply_plan(path)
    before = backup_path(path).read_bytes()
    manifest_path(path).unlink()
    again = site.plan(source, site.worker_file("fresh", GROUP, sharing=True))
    with pytest.raises(AlreadyAppliedError, match="backup of another run"):
        apply_plan(again, progress=Silent())
    assert backup_path(path).read_bytes() == before
    assert not manifest_path(path).exists()
    backup_path(path).write_bytes(before[:-5])
    with pytest.raises(AlreadyAppliedError):
        apply_plan(again)
    with pytest.raises(RecordFileError, match=r"plan\.backup\.avro is damaged"):
        RecordFile(backup_path(path)).check()
