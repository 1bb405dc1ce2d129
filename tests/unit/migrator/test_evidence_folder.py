"""The evidence of a move: whole, private, one page without anything from elsewhere, safe against hostile names."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from connect_share.backup.backup_file import BackupFile
from connect_share.console.output import printable
from connect_share.errors import CopyError, PlanFileError
from connect_share.model.records import TopicType
from connect_share.transform.rules import SkipReason
from migrator import report as evidence_folder
from migrator.copy.copy_job import SliceEvidence
from migrator.plan import MigrationPlan
from migrator.report import evidence_of, folder_of, unwritable
from migrator.run import Manifest, MigrationRun, MigrationStatus, Sealed, WrittenTopic, manifest_path
from migrator.verify.equality import Mismatch, StateDifference, Verification
from tests.support.html_page import PageReader, check_self_contained
from tests.support.plans import a_plan

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'&\u202e\x1b[31m"
PRIVATE = 0o600


def a_manifest(path: Path, plan: MigrationPlan, name: str = "orders", **changes: object) -> Manifest:
    manifest = Manifest(
        run_id=plan.run_id,
        plan_sha256="0" * 64,
        fingerprint=plan.fingerprint,
        engine="local",
        status=MigrationStatus.COPIED,
        started_at_ms=1_700_000_001_000,
        finished_at_ms=1_700_000_002_000,
        destination={
            topic_type: WrittenTopic(topic=f"{name}-shared", topic_id=name, created=True, end_offsets={0: 0})
            for topic_type in TopicType
        },
        slices_planned=3,
        evidence=tuple(
            SliceEvidence(
                slice_name=slice_.name,
                source_index=slice_.source_index,
                cluster_group_id="g0",
                topic_type=slice_.topic_type,
                topic=slice_.offset_range.topic,
                partition=0,
                start=0,
                end=9,
                destination_topic=slice_.destination_topic,
                first_offset=0,
                last_offset=8,
                read=1234,
                written=1111,
                found_present=0,
                tombstones=21,
                bytes_written=98765,
                skipped={SkipReason.SESSION_KEY: 123},
                digest="00ff00ff00ff00ff",
                marker_written=False,
                destination_offsets={0: (0, 1110)},
            )
            for slice_ in plan.slices()
        ),
        backup=BackupFile(
            file="move.backup.avro",
            records=3702,
            topics={f"{name}-config": 1234},
            size_bytes=55555,
            sha256="ab" * 32,
            seconds=1.5,
        ),
        sealed=Sealed(how="stop", records=1, at_ms=1_700_000_003_000),
    ).model_copy(update=changes)
    manifest.save(manifest_path(path))
    return manifest


def a_run(path: Path) -> MigrationRun:
    """What is read of a plan, but for the worker files."""
    manifest = Manifest.load(manifest_path(path)) if manifest_path(path).exists() else None
    return MigrationRun(path, path.read_text(), MigrationPlan.load(path), [], manifest)


def a_verification(name: str = "orders", *, count: int = 1) -> Verification:
    return Verification(
        run_id="r1",
        equal=not count,
        compared=3,
        differences=tuple(
            StateDifference(
                cluster_group_id="g0",
                topic_type=TopicType.OFFSET,
                kind="offset",
                connector=name,
                item=f'["{name}",{number}]',
                field=name,
                problem=Mismatch.MISSING,
            )
            for number in range(count)
        ),
        warnings=(name,),
    )


def page_of(path: Path, verification: Verification | None = None) -> str:
    with evidence_of(a_run(path), None, "verify") as evidence:
        evidence.verification = verification
    return (folder_of(path) / "report.html").read_text()


def left(folder: Path, name: str, verification: Verification | None = None, **changes: object) -> str:
    folder.mkdir()
    path = folder / "move.json"
    a_manifest(path, a_plan(path, name), name, **changes)
    with evidence_of(a_run(path), None, "apply"):
        pass
    return page_of(path, verification)


def test_everything_is_there_and_private(tmp_path: Path) -> None:
    path = tmp_path / "move.json"
    plan = a_plan(path)
    manifest = a_manifest(path, plan)
    with evidence_of(a_run(path), None, "apply"):
        pass
    with evidence_of(a_run(path), None, "verify") as evidence:
        evidence.verification = a_verification()
    with evidence_of(a_run(path), None, "resume"):  # brings the folder up to date, and keeps the verification
        pass
    folder = folder_of(path)
    assert folder.name == "move.evidence"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()} == dict.fromkeys(
        ["plan.json", "manifest.json", "verification.json", "runs.json", "report.html"], PRIVATE
    )
    assert (folder / "plan.json").read_bytes() == path.read_bytes()
    assert Manifest.load(folder / "manifest.json") == manifest
    told = json.loads((folder / "verification.json").read_text())
    assert told["equal"] is False
    assert told["differences"][0]["problem"] == "missing"
    runs = json.loads((folder / "runs.json").read_text())["runs"]
    assert [(run["command"], run["outcome"]) for run in runs] == [
        ("apply", "done"),
        ("verify", "differences found"),
        ("resume", "done"),
    ]
    text = PageReader((folder / "report.html").read_text()).text
    figures = ("1,234", "1,111", "98,765", "369 session_key", "ab" * 32, "move.backup.avro", "3,702", "55,555")
    words = (plan.fingerprint, "stop all workers of orders", "1 differences", "target states STOPPED", "[0] 0-1,110")
    for shown in (*figures, *words, "2023-11-14 22:13:20 UTC", "2023-11-14 22:13:22 UTC"):
        assert shown in text, shown


def test_names_of_others_stay_text(tmp_path: Path) -> None:
    """As many tags as with harmless names, and what turns the reading direction is an escape."""
    hostile = PageReader(left(tmp_path / "a", HOSTILE, a_verification(HOSTILE)))
    page = left(tmp_path / "b", "harmless", a_verification("harmless"))
    check_self_contained(page)
    harmless = PageReader(page)
    assert hostile.tags == harmless.tags
    assert not {"script", "img"} & {tag.split()[0] for tag in hostile.tags}
    assert sum("harmless" in text for text in harmless.texts) > 15
    assert sum(printable("<script>") in text for text in hostile.texts) == sum(
        "harmless" in text for text in harmless.texts
    )
    assert "\u202e" not in hostile.text
    assert "\x1b" not in hostile.text


def test_the_verdict_is_the_results(tmp_path: Path) -> None:
    equal = left(tmp_path / "a", "orders", a_verification(count=0), status=MigrationStatus.VERIFIED)
    assert equal.count('class="yes"') == 2
    assert 'class="no"' not in equal
    assert left(tmp_path / "b", "orders", a_verification()).count('class="no"') == 1
    back = left(tmp_path / "c", "orders", None, status=MigrationStatus.ROLLED_BACK, backup=None)
    assert back.count('class="no"') == 2
    assert "None was made: nothing can be restored" in back
    (tmp_path / "d").mkdir()
    a_plan(tmp_path / "d" / "move.json")
    page = page_of(tmp_path / "d" / "move.json")
    assert "not applied" in page
    assert not (tmp_path / "d" / "move.evidence" / "manifest.json").exists()


def test_a_page_stays_one_that_opens(tmp_path: Path) -> None:
    path = tmp_path / "move.json"
    a_manifest(path, a_plan(path, sources=1_000))
    page = page_of(path, a_verification(count=20_000))
    assert "and 19,700 more" in page
    assert len(page) < 1_000_000


def test_a_failure_is_recorded_and_its_own_error_comes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "move.json"
    plan = a_plan(path)
    with pytest.raises(CopyError), evidence_of(a_run(path), None, "apply"):  # refused before there was a manifest
        raise CopyError("no")
    assert not folder_of(path).exists()
    a_manifest(path, plan)
    for error in (CopyError("no"), KeyboardInterrupt()):
        with pytest.raises(type(error)), evidence_of(a_run(path), None, "apply"):
            raise error
    assert [run["outcome"] for run in json.loads((folder_of(path) / "runs.json").read_text())["runs"]] == [
        "CopyError",
        "interrupted",
    ]
    monkeypatch.setattr(evidence_folder, "write_plan_file", Mock(side_effect=PlanFileError("no room")))
    with pytest.raises(CopyError), evidence_of(a_run(path), None, "apply"):
        raise CopyError("no")
    with pytest.raises(PlanFileError, match="no room"), evidence_of(a_run(path), None, "apply"):
        pass


def test_another_folder_but_not_that_of_another_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, second = tmp_path / "move.json", tmp_path / "second.json"
    a_plan(path)
    a_plan(second, run_id="r2")
    mine = tmp_path / "deep" / "evidence"
    with evidence_of(a_run(path), mine, "apply"):
        pass
    before = (mine / "plan.json").read_bytes()
    began = []
    shutil.copytree(mine, folder_of(second))
    for folder in (mine, None):
        with pytest.raises(PlanFileError, match="another plan"), evidence_of(a_run(second), folder, "apply"):
            began.append(1)
    assert began == []
    assert (mine / "plan.json").read_bytes() == before
    (tmp_path / "file").write_text("")
    under_a_file = tmp_path / "file" / "x"
    with pytest.raises(PlanFileError, match="cannot be written"), evidence_of(a_run(path), under_a_file, "apply"):
        began.append(1)
    assert began == []
    monkeypatch.setattr(os, "access", lambda place, _: place != tmp_path)
    assert [str(each).partition(":")[0] for each in unwritable(a_run(path), mine)] == [
        f"{tmp_path} cannot be written to"
    ]
