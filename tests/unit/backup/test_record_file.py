"""Files of records: exact, whole or not there, honest about damage; encrypted ones; and which files make up a moment."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect_share.backup import record_file
from connect_share.backup.backup_file import (
    BackedUpTopic,
    BackupContents,
    BackupFiles,
    Origin,
    Segment,
    SegmentFile,
    file_name,
    not_needed,
    point_at,
    segment_files,
)
from connect_share.backup.record_file import (
    SCHEMA,
    FileCipher,
    RecordFile,
    WrittenRecordFile,
    remove_half_written,
    write_record_file,
)
from connect_share.backup.restore import moment
from connect_share.errors import ConfigError, RecordFileError, RestoreRejectedError
from connect_share.model.records import OffsetRange, Record, TopicType
from connect_share.sealing import KeyRing
from connect_share.sealing.cipher import Cipher, Opened
from connect_share.worker_config import Isolation
from migrator.bystanders import backed_up
from tests.support.examples import marked
from tests.support.programs import python
from tests.support.records import encoded
from tests.support.sealed import KEYS, key_text

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_BYTES = st.none() | st.binary(max_size=40)
_INT = st.integers(-(2**63), 2**63 - 1)
_RECORDS = st.builds(
    Record,
    topic=_TEXT,
    partition=st.integers(-(2**31), 2**31 - 1),
    offset=_INT,
    timestamp_ms=_INT,
    key=_BYTES,
    value=_BYTES,
    headers=st.lists(st.tuples(_TEXT, _BYTES), max_size=3).map(tuple),
)


def write(path: Path, *sections: list[Record], **about: object) -> WrittenRecordFile:
    return write_record_file(path, about, [encoded(each) for each in sections])


def some(count: int, size: int = 10) -> list[Record]:
    return [Record("t", 0, n, n, b"key-%d" % n, os.urandom(size // 2).hex().encode()) for n in range(count)]


@settings(max_examples=60)
@given(sections=st.lists(st.lists(_RECORDS, max_size=8), min_size=1, max_size=4), note=_TEXT)
def test_every_record_comes_back_exactly(sections: list[list[Record]], note: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.avro")
        result = write(path, *sections, note=note)
        file = RecordFile(path)
        file.check()
        assert file.about == {"note": note}
        expected = [(number, record) for number, records in enumerate(sections) for record in records]
        assert list(file.read_sections()) == expected
        with path.open("rb") as raw:  # any reader of Avro reads it
            rows: list[Any] = list(fastavro.reader(raw))
        assert [
            Record(**{**row, "headers": tuple((each["key"], each["value"]) for each in row["headers"])}) for row in rows
        ] == [record for _, record in expected]
        assert [record for _, record in expected] == list(file.read())
        assert file.records == result.records == len(expected)
        assert file.sections == result.sections


def test_the_schema_and_the_example_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "backup-format.md").read_text()
    told = json.loads(page.split("```json\n")[1].split("```")[0])
    canonical = fastavro.schema.to_parsing_canonical_form
    assert canonical(told) == canonical(SCHEMA)
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "move.backup.avro", some(3))
    ((_, code),) = marked(__file__)
    exec(compile(code, "page", "exec"), {})
    assert capsys.readouterr().out.count("<Record t[0]@") == 3


def test_a_file_is_private_and_a_failure_leaves_nothing_and_keeps_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "x.avro"
    result = write(path, some(3))
    assert (path.stat().st_mode & 0o777, path.stat().st_size) == (0o600, result.size_bytes)
    told = subprocess.run(["sha256sum", result.path], capture_output=True, check=True, text=True)
    assert told.stdout.split()[0] == result.sha256
    assert [each.name for each in tmp_path.iterdir()] == ["x.avro"]
    before = path.read_bytes()
    with pytest.raises(AttributeError):
        write(path, [*some(2), None])  # type: ignore[list-item]
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["x.avro"]
    with pytest.raises(RecordFileError, match=r"no/x.avro cannot be written \(No such file"):
        write(tmp_path / "no" / "x.avro")
    for bad in (
        Record("t", 0, 0, 0, b"k", "secret"),  # type: ignore[arg-type]
        Record("t", 0, 0, 0, b"secret", b"", (("h", 1),)),  # type: ignore[arg-type]
        Record("t", 0, 0, 2**63, b"secret", None),
        Record("t", 2**31, 0, 0, b"secret", None),
        Record("\ud800", 0, 0, 0, b"secret", None),
    ):
        with pytest.raises(RecordFileError, match="does not fit") as caught:
            write(path, [bad])
        assert "secret" not in str(caught.value)


WRITER = """
import os, resource, signal, sys
from pathlib import Path
from connect_share.errors import RecordFileError
from connect_share.backup.record_file import write_record_file
from connect_share.model.records import Record
from tests.support.records import encoded
if sys.argv[2:]:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
def blocks():
    yield from encoded(Record("t", 0, number, 0, b"k", os.urandom(100_000)) for number in range(100))
    print("written", flush=True)
    input()
try:
    write_record_file(Path(sys.argv[1]), {}, [blocks()])
except RecordFileError as error:
    sys.exit(str(error))
"""


def test_no_room_is_an_error_with_the_name_of_the_file(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk: the write fails half-way."""
    ended = python("-c", WRITER, tmp_path / "x.avro", "limited")
    assert ended.returncode == 1
    assert "x.avro cannot be written" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_killed_writer_leaves_no_file_of_that_name(tmp_path: Path) -> None:
    program = [sys.executable, "-c", WRITER, str(tmp_path / "x.avro")]
    process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"written\n"
    others = [tmp_path / name for name in (".x.avro", "x.avro.abcd1234", ".x.avro.abcd123", ".y.avro.abcd1234")]
    for path in others:
        path.touch(0o600)
    remove_half_written(tmp_path)  # not what somebody is writing
    assert len(list(tmp_path.iterdir())) == len(others) + 1
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "x.avro").exists()
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.iterdir())
    os.mkfifo(tmp_path / ".pipe.avro.abcd1234")
    write_record_file(tmp_path / "of-another-name.avro", {}, [])  # removes it: it may hold secrets
    left = {".pipe.avro.abcd1234", "of-another-name.avro"}
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in others} | left


def _complaint(path: Path) -> str:
    with pytest.raises(RecordFileError) as caught:
        list(RecordFile(path).read())
    assert str(path) in str(caught.value)
    assert caught.value.__cause__ is None
    return str(caught.value)


def test_a_cut_file_is_refused_wherever_it_was_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_file, "_BLOCK_BYTES", 100)
    whole, cut = tmp_path / "x.avro", tmp_path / "cut.avro"
    write(whole, some(10), some(10))
    data = whole.read_bytes()
    for length in [*range(0, len(data), 7), *range(len(data) - 60, len(data))]:
        cut.write_bytes(data[:length])
        _complaint(cut)
    cut.write_bytes(data + data[-200:])
    _complaint(cut)


def test_a_changed_byte_is_refused_before_anything_is_used(tmp_path: Path) -> None:
    path = tmp_path / "x.avro"
    write(path, some(25, 100), some(25, 100), note="origin")
    data = path.read_bytes()
    header = data.index(data[-16:]) + 16  # the mark between blocks ends the header, and the file
    for at in [*range(header), *range(len(data) - 2_000, len(data), 97)]:
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        with pytest.raises(
            RecordFileError, match=r"x\.avro (is damaged|is an Avro file, but none of|has another schema)"
        ):
            RecordFile(path).check()
    for old, new in (
        (b'"note": "origin"', b'"note": "source"'),
        (b"[25, 25]", b"[49,  1]"),
        (b"records/2", b"records/1"),
    ):
        assert data.count(old) == 1
        path.write_bytes(data.replace(old, new))
        with pytest.raises(RecordFileError, match=r"x\.avro is damaged"):
            RecordFile(path).check()
    path.write_bytes(data)
    RecordFile(path).check()


def test_files_of_the_first_format_are_read(tmp_path: Path) -> None:
    path = Path(__file__).parents[2] / "vectors" / "records-1.avro"
    file = RecordFile(path)
    file.check()
    assert (file.about, file.sections) == ({"what": "of version 0.2.0"}, (1, 1))
    assert list(file.read()) == [
        Record("configs", 0, 7, 1_700_000_000_000, b"connector-a", None, (("h", None),)),
        Record("offsets", 3, 9, -1, None, b""),
    ]
    data = path.read_bytes()
    (tmp_path / "x.avro").write_bytes(data[:-20] + bytes([data[-20] ^ 1]) + data[-19:])
    with pytest.raises(RecordFileError, match="damaged"):
        RecordFile(tmp_path / "x.avro").check()


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.avro"
    assert "does not exist" in _complaint(path)
    path.write_text("no Avro")
    assert "no file of records" in _complaint(path)
    with path.open("wb") as file:
        fastavro.writer(file, SCHEMA, [])
    assert "none of connect-share/records/2" in _complaint(path)
    keys_as_text = json.loads(json.dumps(SCHEMA).replace('["null", "bytes"]', '"string"'))
    header = {
        "connect-share.format": "connect-share/records/2",
        "connect-share.about": "{}",
        "connect-share.sums": json.dumps({"sections": [0], "sha256": ""}),
    }
    with path.open("wb") as file:
        fastavro.writer(file, keys_as_text, [], metadata=header)
    assert "another schema" in _complaint(path)
    os.mkfifo(tmp_path / "0000000001-base.avro")
    for use, of in ((RecordFile, Path("/dev/zero")), (segment_files, tmp_path)):
        with pytest.raises(RecordFileError, match="no regular file"):
            use(of)


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path, value = tmp_path / "x.avro", b"x" * 4_000
    tracemalloc.start()
    try:
        write_record_file(path, {}, [encoded(Record("t", 0, n, 0, b"key", value) for n in range(8_000))])
        assert sum(1 for _ in RecordFile(path).read()) == 8_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000  # 32 MB went through


PLACE = Record("configs", 0, 5, 1, b"one.connector-c", b"hunter2")


def encrypted(record: Record) -> Record:
    place = (record.topic, record.partition, record.offset)
    return replace(record, value=FileCipher(KEYS).seal(TopicType.CONFIG, place, record.key, record.value))


@pytest.mark.parametrize("value", [None, b"", b"hunter2", b"\1sealed"])
def test_a_value_comes_back(value: bytes | None) -> None:
    record = replace(PLACE, value=value)
    assert FileCipher(KEYS).opened(TopicType.CONFIG, encrypted(record)) == record
    assert b"hunter2" not in (encrypted(record).value or b"")


@pytest.mark.parametrize(
    "change",
    [{"topic": "x"}, {"partition": 1}, {"offset": 6}, {"key": b"one.connector-d"}, {"value": None}, {"value": b"x"}],
)
def test_a_value_opens_nowhere_else(change: dict[str, object]) -> None:
    with pytest.raises(RecordFileError, match="is not what was encrypted") as caught:
        FileCipher(KEYS).opened(TopicType.CONFIG, replace(encrypted(PLACE), **change))  # type: ignore[arg-type]
    assert "hunter2" not in str(caught.value)
    with pytest.raises(RecordFileError):
        FileCipher(KEYS).opened(TopicType.STATUS, encrypted(PLACE))
    value = encrypted(PLACE).value or b""  # nor does it on a topic
    assert not isinstance(Cipher(KEYS, TopicType.CONFIG).open(PLACE.key or b"", value), Opened)
    with pytest.raises(ConfigError, match="encrypted with key 7"):
        FileCipher(KeyRing.parse(key_text(8))).opened(TopicType.CONFIG, encrypted(PLACE))


def files_of(kinds: str) -> list[SegmentFile]:
    """One file for each letter, ten milliseconds apart: B and I end at moments, b and i are parts."""
    return [
        SegmentFile(Path(kind), number, kind in "Bb", kind.isupper(), number * 10)
        for number, kind in enumerate(kinds, 1)
    ]


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
    assert [each.sequence for each in point_at(files_of(kinds), at_ms)] == expected


@pytest.mark.parametrize(("text", "ago_s"), [("10 minutes ago", 600), ("1 Day ago", 86_400), ("30 seconds ago", 30)])
def test_a_moment_may_be_said_as_time_that_has_passed(text: str, ago_s: int) -> None:
    before = time.time()
    assert (before - ago_s - 1) * 1000 < moment(text) <= (time.time() - ago_s) * 1000


@pytest.mark.parametrize(
    "text", ["yesterday", "minutes ago", "9999999 days ago", "999999 days ago", "-1 hours ago", ""]
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="10 minutes ago"):
        moment(text)


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
    for at_ms in moments:
        assert point_at(left, at_ms) == point_at(files, at_ms)


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


def write_file_of(folder: Path, made: BackupContents, *, named: int | None = None) -> Path:
    segment = made.segment
    assert segment is not None
    path = folder / file_name(named or segment.sequence, segment.kind, is_point=True)
    start, end = made.topics[0].ranges[0]
    records = (Record("configs", 0, offset, offset, b"k", b"%d" % offset) for offset in range(start, end))
    write_record_file(path, made.model_dump(mode="json"), [encoded(records)])
    return path


@pytest.mark.parametrize("second", [contents(2, 4, 5), contents(2, 2, 5), contents(2, 3, 5, topic_id="other")])
def test_files_that_do_not_follow_each_other_are_refused(tmp_path: Path, second: BackupContents) -> None:
    base = write_file_of(tmp_path, contents(1, 0, 3, base=True))
    base.with_name("copy-of-base.avro").write_bytes(base.read_bytes())
    write_file_of(tmp_path, second)
    with pytest.raises(RecordFileError, match="does not begin where the file before it ends"):
        BackupFiles.at(tmp_path, None)
    assert BackupFiles.at(tmp_path, 10).records == 3


def test_originals_of_two_clusters_with_topics_of_one_name(tmp_path: Path) -> None:
    made = contents(1, 0, 9)
    topics = [made.topics[0].model_copy(update={"section": number}) for number in range(2)]
    origins = [Origin(side="source", group_id="g", plain=True, topics={TopicType.CONFIG: at}) for at in range(2)]
    made = made.model_copy(update={"topics": (*topics,), "origins": (*origins,), "segment": None})
    records = [Record("configs", 0, 3, 1, b"k", b"%d" % number) for number in range(2)]
    write_record_file(tmp_path / "x.avro", made.model_dump(mode="json"), [encoded([each]) for each in records])
    manifest = SimpleNamespace(backup=SimpleNamespace(file="x.avro"), mirrored_backup=None)
    run: Any = SimpleNamespace(plan_path=tmp_path / "plan.json", applied=lambda: manifest)
    for number, record in enumerate(records):
        assert [*backed_up(run, number, TopicType.CONFIG, OffsetRange("configs", 0, 0, 9))] == [record]


def test_a_file_under_another_name_is_refused(tmp_path: Path) -> None:
    path = write_file_of(tmp_path, contents(1, 0, 3, base=True), named=2)
    with pytest.raises(RecordFileError, match="that its name says"):
        segment_files(tmp_path)
    path.rename(tmp_path / "0000000001-base.avro")
    write_file_of(tmp_path, contents(1, 0, 3))
    with pytest.raises(RecordFileError, match="two files with one number"):
        segment_files(tmp_path)
