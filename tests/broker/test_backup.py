"""Backups of plans: every record of the source, exactly; put back whole, by connector, where they came from and elsewhere."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from connect_share.backup.backup_file import read_contents
from connect_share.backup.record_file import RecordFile
from connect_share.backup.restore import prepare_restores
from connect_share.errors import AlreadyAppliedError, RecordFileError
from connect_share.files import Silent
from connect_share.model.config_state import TargetState
from connect_share.model.keys import MARKER
from connect_share.model.records import Record, TopicType
from connect_share.replay import replay_config, replay_status
from migrator.moves import Intent
from migrator.report import folder_of
from migrator.run import Manifest, backup_path, manifest_path
from tests.support.migration_runs import apply_plan, resume_plan, verify_plan
from tests.support.migration_site import GROUP, Site, pair, run, run_well


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
    with pytest.raises(KeyboardInterrupt):
        apply_plan(path, engine=Mock(side_effect=KeyboardInterrupt))
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
        prepare_restores(backup_path(path), [source])


def backed_up(site: Site, source: Path, destination: Path, name: str = "plan.json", **intent: object) -> Path:
    path = site.plan(source, destination, name, Intent(**intent))  # type: ignore[arg-type]
    apply_plan(path)
    return backup_path(path)


def restored(*arguments: str | Path) -> dict[str, object]:
    out = run_well("restore", *arguments, "--output", "json")
    told: dict[str, object] = json.loads(out)
    return told


def differing(told: dict[str, object]) -> dict[tuple[str, str | None], dict[str, int]]:
    rows: list[dict[str, object]] = told["changes"]  # type: ignore[assignment]
    counts = ("added", "changed", "same", "removed", "remaining")
    return {
        (row["topic_type"], row["connector"]): {name: row[name] for name in counts if row[name]}  # type: ignore[misc]
        for row in rows
    }


def pairs_of(site: Site, who: str, topic_type: TopicType) -> list[tuple[object, ...]]:
    return [(r.key, r.value, r.timestamp_ms, r.headers) for r in site.read(site.topic(who, topic_type))]


def test_a_lost_cluster_comes_back_as_it_was(site: Site) -> None:
    """To fresh topics of the same group: same keys, values, timestamps, order; no session key, no restart request."""
    source = site.small_source()
    site.lay_down("own", TopicType.CONFIG, [pair("connector-gone", "{}"), pair("connector-gone", None)])
    file = backed_up(site, source, site.shared())
    fresh = site.worker_file("fresh", "orders", sharing=False)
    dry = restored(file, "--destination-worker-config", fresh, "--dry-run")
    assert dry["create"] == [site.topic("fresh", topic_type) for topic_type in TopicType]
    with site.admin() as admin:
        assert site.topic("fresh", TopicType.CONFIG) not in admin.describe_topics(dry["create"])
    told = restored(file, "--destination-worker-config", fresh, "--yes")
    assert told["records"] == {"config": 6, "status": 2, "offset": 1}
    assert told["skipped"] == {"restart_request": 1, "session_key": 1}
    assert differing(told) == {
        ("config", "a.b"): {"added": 4},
        ("status", "a.b"): {"added": 2},
        ("offset", "a.b"): {"added": 1},
    }
    for topic_type in TopicType:
        before = [
            each
            for each in pairs_of(site, "own", topic_type)
            if each[0] not in {b"session-key", b"restart-connector-a.b"}
        ]
        assert sorted(pairs_of(site, "fresh", topic_type), key=repr) == sorted(before, key=repr)
        if topic_type is TopicType.CONFIG:
            assert pairs_of(site, "fresh", topic_type) == before
    again = restored(file, "--destination-worker-config", fresh, "--yes")
    assert differing(again) == {
        ("config", "a.b"): {"same": 4},
        ("status", "a.b"): {"same": 2},
        ("offset", "a.b"): {"same": 1},
    }
    records = [record for topic_type in TopicType for record in site.read(site.topic("fresh", topic_type))]
    assert replay_config(r for r in records if "config" in r.topic).target_state("a.b") is TargetState.STOPPED
    # Workers remove the statuses of a connector now; those of its tasks in the backup are older.
    status = site.topic("fresh", TopicType.STATUS)
    running = replay_status(site.read(status))
    keys = (b"status-task-a.b-0", b"status-connector-a.b")
    site.produce([Record(status, -1, 0, int(time.time() * 1000), key, None) for key in keys])
    assert replay_status(site.read(status)).task_statuses("a.b") == []
    restored(file, "--destination-worker-config", fresh, "--yes")
    assert replay_status(site.read(status)) == running


def test_the_preview_shows_every_kind_of_change_and_never_a_value(site: Site) -> None:
    source = site.small_source()
    config = [pair("connector-gone", "{}"), pair("connector-gone", None), pair("connector-x", '{"properties":{}}')]
    site.lay_down("own", TopicType.CONFIG, config)
    file = backed_up(site, source, site.shared())
    prefixed = [
        pair(f"{GROUP}.connector-gone", '{"properties":{"password":"hunter2"}}'),
        pair(f"{GROUP}.connector-a.b", '{"properties":{"password":"hunter2"}}'),
        pair(f"{GROUP}.connector-x", "null"),
        pair(f"{GROUP}.connector-new\x1b[31m", '{"properties":{}}'),
        pair("elsewhere.connector-a.b", '{"properties":{}}'),
    ]
    site.produce(
        [
            Record(site.topic("shared", TopicType.CONFIG), 0, 0, 1, key.encode(), value.encode())
            for key, value, _ in prefixed
        ]
    )
    arguments = (file, "--destination-worker-config", site.shared())
    told = restored(*arguments, "--dry-run")
    assert differing(told) == {
        ("config", "a.b"): {"changed": 1, "same": 3},
        ("config", "gone"): {"removed": 1},
        ("config", "x"): {"added": 1},
        ("config", "new\x1b[31m"): {"remaining": 1},
        ("status", "a.b"): {"same": 2},
        ("offset", "a.b"): {"same": 1},
    }
    code, out, err = run("restore", *arguments, "--dry-run")
    assert code == 0
    assert "'a.b': 0 added, 1 changed, 3 same, 0 removed, 0 only at the destination: kept" in out
    assert "plain keys of orders, as they were at the source, become keys under the prefix com.acme.orders." in out
    for text in (out, err, json.dumps(told)):
        assert "hunter2" not in text
        assert "\x1b" not in text
    before = len(site.read(site.topic("shared", TopicType.CONFIG)))
    code, out, err = run("restore", *arguments)
    assert (code, out) == (1, "")
    assert "nothing was written: give --yes" in err
    assert len(site.read(site.topic("shared", TopicType.CONFIG))) == before
    restored(*arguments, "--yes")
    records = site.read(site.topic("shared", TopicType.CONFIG))[before:]
    state = replay_config(site.read(site.topic("shared", TopicType.CONFIG)), GROUP)
    assert state.connectors() == {"a.b", "x", "new\x1b[31m"}
    assert state.connector_config("a.b") == {"name": "a.b", "tasks.max": "1"}
    # A tombstone under a prefix would move the group's position back once it is cleaned.
    assert [r.value for r in records if r.key == f"{GROUP}.connector-gone".encode()] == [b"{}", b"null"]
    assert all(r.value is not None for r in records)


def test_what_is_not_clear_is_refused(site: Site) -> None:
    """Two groups of one topic, one of them moved whole, of the other one connector."""
    site.create("shared")
    for group, name in (("one", "a"), ("two", "b"), ("two", "c"), ("other", "d")):
        site.lay_down("shared", TopicType.CONFIG, [pair(f"{group}.connector-{name}", '{"properties":{}}')])
    sources = [site.worker_file("shared", group, sharing=True) for group in ("one", "two")]
    targets = [site.worker_file("second", group, sharing=True) for group in ("one-b", "two-b")]
    path = site.folder / "plan.json"
    run_well("plan", "--source-worker-config", *sources, "--destination-worker-config", *targets, "-o", path)
    apply_plan(path)
    file = backup_path(path)

    def refused(worker: Path, *arguments: str) -> str:
        code, out, err = run("restore", file, "--destination-worker-config", worker, "--dry-run", *arguments)
        assert (code, out) == (1, "")
        return err

    third = site.worker_file("third", "three", sharing=True)
    assert "choose with --from-group GROUP whose records" in refused(third)
    for arguments in (("--from-group", "other"), ("--from-plain",), ("--from-group", "one", "--from-plain")):
        assert "it holds: prefixed keys of one, as they were at the source; prefixed keys of two" in refused(
            third, *arguments
        )
    for worker, expected in ((sources[1], {"b", "c"}), (targets[0], {"a"})):  # by its name, and by what it became
        told = restored(file, "--destination-worker-config", worker, "--dry-run")
        assert {connector for _, connector in differing(told)} == expected
    restored(file, "--destination-worker-config", third, "--from-group", "two", "--yes")
    records = site.read(site.topic("third", TopicType.CONFIG))
    assert [record.key for record in records] == [b"three.connector-b", b"three.connector-c"]
    job = backed_up(site, sources[1], site.worker_file("fourth", "two-c", sharing=True), "job.json", job="c")
    told = restored(job, "--destination-worker-config", sources[1], "--dry-run")
    assert differing(told) == {("config", "c"): {"same": 1}}  # what was not moved is left alone
    assert run("restore", job, "--destination-worker-config", sources[1])[0] == 1
