"""Which files make up a moment, and which may be deleted, whatever bases, increments and parts there are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.backup.backup_file import (
    BackedUpTopic,
    BackupContents,
    BackupFiles,
    Segment,
    SegmentFile,
    file_name,
    half_written_in,
    not_needed,
    point_at,
    segment_files,
)
from connect_share.backup.record_file import RecordFileWriter
from connect_share.errors import RecordFileError, RestoreRejectedError
from connect_share.model.records import Record, TopicType
from connect_share.worker_config import Isolation


def files_of(kinds: str, first: int = 1) -> list[SegmentFile]:
    """One file for each letter, ten milliseconds apart: B and I end at moments, b and i are parts."""
    return [
        SegmentFile(Path(kind), first + number, kind in "Bb", kind.isupper(), (first + number) * 10)
        for number, kind in enumerate(kinds)
    ]


def numbers(files: list[SegmentFile]) -> list[int]:
    return [each.sequence for each in files]


@pytest.mark.parametrize(
    ("kinds", "at_ms", "expected"),
    [
        ("BIIBI", None, [4, 5]),
        ("BIIBI", 39, [1, 2, 3]),
        ("BIIBI", 40, [4]),
        ("BIIBI", 10, [1]),
        ("bIIBI", 25, [1, 2]),
        ("BiIbI", 49, [1, 2, 3]),
        ("BiIbI", 50, [4, 5]),
        ("BIi", 1_000, [1, 2]),
    ],
)
def test_a_moment_is_a_base_and_what_follows_it(kinds: str, at_ms: int | None, expected: list[int]) -> None:
    assert numbers(point_at(files_of(kinds), at_ms)) == expected


def test_a_moment_that_is_not_there_is_refused() -> None:
    with pytest.raises(RestoreRejectedError, match=r"the first is 1970-01-01T00:00:00\.020Z"):
        point_at(files_of("bII"), 15)
    with pytest.raises(RestoreRejectedError, match="there is none yet"):
        point_at([], None)
    with pytest.raises(RestoreRejectedError, match="the base before"):
        point_at(files_of("IIB"), 25)
    files = files_of("BIIII")
    with pytest.raises(RestoreRejectedError, match="files are missing"):
        point_at(files[:2] + files[3:], None)


@given(st.text("BbIi", max_size=40), st.integers(0, 420))
def test_what_is_deleted_is_needed_by_no_moment_since_the_horizon(kinds: str, horizon_ms: int) -> None:
    files = files_of("B" + kinds)
    gone = not_needed(files, horizon_ms)
    assert gone == files[: len(gone)]
    left = files[len(gone) :]
    moments = [each.at_ms for each in files if each.is_point and each.at_ms >= horizon_ms]
    if horizon_ms >= files[0].at_ms:
        moments.append(horizon_ms)
    for moment in moments:
        assert point_at(left, moment) == point_at(files, moment)


def contents(sequence: int, start: int, end: int, *, base: bool = False, topic_id: str = "x") -> BackupContents:
    topic = BackedUpTopic(
        section=0,
        kafka_cluster_id="c",
        topic="configs",
        topic_type=TopicType.CONFIG,
        isolation=Isolation.READ_COMMITTED,
        ranges={0: (start, end)},
        topic_id=topic_id,
    )
    segment = Segment(
        sequence=sequence, kind="base" if base else "increment", at_ms=sequence * 10, groups=None, connectors=None
    )
    return BackupContents(
        what="export", run_id="r", made_at_ms=0, version="1", topics=(topic,), origins=(), segment=segment
    )


def write(folder: Path, made: BackupContents, *, named: int | None = None) -> Path:
    segment = made.segment
    assert segment is not None
    path = folder / file_name(named or segment.sequence, segment.kind, is_point=True)
    start, end = made.topics[0].ranges[0]
    with RecordFileWriter(path, made.model_dump(mode="json")) as writer:
        for offset in range(start, end):
            writer.write(Record("configs", 0, offset, offset, b"k", b"%d" % offset))
    return path


def test_a_chain_reads_as_one_file(tmp_path: Path) -> None:
    for made in (contents(1, 0, 3, base=True), contents(2, 3, 3), contents(3, 3, 5)):
        write(tmp_path, made)
    (tmp_path / "notes.txt").write_text("of somebody else")
    chain = BackupFiles.at(tmp_path, None)
    chain.check()
    assert [record.offset for _, record in chain.read_sections()] == [0, 1, 2, 3, 4]
    assert (chain.records, chain.sections, chain.names[1]) == (5, (5,), "0000000003-increment.avro")
    assert BackupFiles.at(tmp_path, 29).records == 3


@pytest.mark.parametrize("second", [contents(2, 4, 5), contents(2, 2, 5), contents(2, 3, 5, topic_id="other")])
def test_files_that_do_not_follow_each_other_are_refused(tmp_path: Path, second: BackupContents) -> None:
    write(tmp_path, contents(1, 0, 3, base=True))
    write(tmp_path, second)
    with pytest.raises(RecordFileError, match="does not begin where the file before it ends"):
        BackupFiles.at(tmp_path, None)
    assert BackupFiles.at(tmp_path, 10).records == 3


def test_a_file_under_another_name_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, contents(1, 0, 3, base=True), named=2)
    with pytest.raises(RecordFileError, match="that its name says"):
        segment_files(tmp_path)
    path.rename(tmp_path / "0000000001-base.avro")
    write(tmp_path, contents(1, 0, 3))
    with pytest.raises(RecordFileError, match="two files with one number"):
        segment_files(tmp_path)


def test_what_killed_writers_leave_is_told_from_everything_else(tmp_path: Path) -> None:
    names = (
        ".0000000001-base.part.avro.abcd_123",
        ".0000000001-base.part.avro",
        "0000000001-base.part.avro",
        ".x.avro.abcd1234",
    )
    for name in names:
        (tmp_path / name).touch()
    assert [path.name for path in half_written_in(tmp_path)] == [names[0]]
