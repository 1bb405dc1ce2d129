"""Groups exported to a file and put back, into the same and other groups; ``export --follow``: any moment comes back."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from connect_share.backup.backup_file import BackupFiles, segment_files, shown_moment
from connect_share.backup.export import locked_folder
from connect_share.backup.record_file import RecordFile
from connect_share.files import Silent
from connect_share.model.config_state import TargetState
from connect_share.model.records import Record, TopicType
from connect_share.sealing import KEYS_PROPERTY
from connect_share.sealing.cipher import is_sealed
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from tests.support.java_groups import foreign_records
from tests.support.migration_site import SHARED_PARTITIONS, Site, pair
from tests.support.python_group import view
from tests.support.raw_records import RawRecord, write_raw
from tests.support.sealed import key_text
from tests.support.sealed_stores import MODE, put, write_offset
from tests.support.topics import COMPACT_NOW, alter_known, delete_known
from tests.support.waiting import await_that

LEFT_OUT = (b"session-key", b"restart-connector-a.b")


@pytest.fixture
def shared(site: Site) -> Site:
    """Shared topics with the groups one and two, a cluster with plain keys, garbage, headers, and a removed connector."""
    site.create("shared")
    for prefix in ("one.", "two.", ""):
        site.lay_group("shared", prefix)
    config = [pair("one.connector-gone", "{}"), pair("one.connector-gone", "null"), pair("garbage", "x")]
    site.lay_down("shared", TopicType.CONFIG, [*config, pair("one.connector-b", '{"properties":{}}')])
    topic = site.topic("shared", TopicType.OFFSET)
    headers = (("h", b"1"), ("h", None))
    site.produce([Record(topic, 0, 0, 1_700_000_000_500, b'one.["b",{}]', None, headers)])
    return site


def of_group(site: Site, who: str, topic_type: TopicType, group: str) -> list[tuple[object, ...]]:
    begin = f"{group}.".encode()
    found = [each for each in site.read(site.topic(who, topic_type)) if (each.key or b"").startswith(begin)]
    records: list[tuple[object, ...]] = [
        (each.key, each.value, each.timestamp_ms, each.headers or ())
        for each in found
        if (each.key or b"")[len(begin) :] not in LEFT_OUT
    ]
    return records if topic_type is TopicType.CONFIG else sorted(records, key=repr)


def test_a_group_goes_out_and_comes_back_exactly(shared: Site, call: Any) -> None:
    file = shared.folder / "one.avro"
    worker = shared.worker_file("shared", "one", sharing=True)
    told = call("export", "-w", worker, "-o", file, "--output", "json").json
    assert (told["groups"], told["records"]) == (["one"], 13)
    assert file.stat().st_mode & 0o777 == 0o600
    elsewhere = shared.worker_file("elsewhere", "one", sharing=True)
    done = call("restore", file, "-w", elsewhere, "--yes", "--output", "json")
    assert (done.code, done.json["verified"]) == (0, True)
    for topic_type in TopicType:
        assert of_group(shared, "elsewhere", topic_type, "one") == of_group(shared, "shared", topic_type, "one")
    assert ", 2 of them removals" in call("restore", file, "-w", elsewhere, "--yes").out
    again = call("export", "-w", worker, "-o", file)
    assert (again.code, again.out) == (1, "")
    assert "is there already" in again.err
    nowhere = call("export", "-w", worker, "--all-groups", "-o", file.with_name("no") / file.name)
    assert ("no is no folder" in nowhere.err, "looking for groups" in nowhere.err) == (True, False)
    dry = call("restore", file, "-w", elsewhere, "--dry-run", "--output", "json").json
    assert {(each["added"], each["changed"], each["removed"]) for each in dry["changes"]} == {(0, 0, 0)}


def test_all_groups_lie_in_one_file_and_go_where_they_are_wanted(shared: Site, call: Any) -> None:
    """Without a worker file; one group under another name, and the plain cluster into shared topics."""
    file = shared.folder / "all.avro"
    flags = [word for t in TopicType for word in (f"--{t.value}-storage-topic", shared.topic("shared", t))]
    told = call("export", "-B", shared.bootstrap_servers, *flags, "-o", file, "--output", "json").json
    assert told["groups"] == [None, "one", "two"]
    refused = call("export", "-B", shared.bootstrap_servers, *flags[:3], flags[1], "-o", "x.avro")
    assert (refused.code, "is given as several topics" in refused.err) == (1, True)
    keys = [record.key for record in RecordFile(file).read()]
    assert b"garbage" not in keys
    third = shared.worker_file("elsewhere", "three", sharing=True)
    assert call("restore", file, "-w", third, "--from-group", "two", "--yes").code == 0
    fourth = shared.worker_file("elsewhere", "four", sharing=True)
    assert call("restore", file, "-w", fourth, "--from-plain", "--yes").code == 0
    expected = [b".connector-a.b", b".task-a.b-0", b".commit-a.b", b".target-state-a.b"]
    found = [record.key for record in shared.read(shared.topic("elsewhere", TopicType.CONFIG))]
    assert found == [b"three" + key for key in expected] + [b"four" + key for key in expected]


def test_several_groups_come_back_behind_one_question(shared: Site, call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file, folder = shared.folder / "all.avro", shared.folder / "files"
    assert call("export", "-w", shared.worker_file("shared", "one", sharing=True), "--all-groups", "-o", file).code == 0
    folder.mkdir()
    files = {group: shared.worker_file("elsewhere", group, sharing=True) for group in ("one", "two", "three")}
    files = {group: path.rename(folder / path.name) for group, path in files.items()}
    both = ("restore", file, "-w", folder, "--group", "one", "--group", "two")
    for words, message in (
        ((*both, "--group", "three", "--yes"), "choose with --from-group"),
        ((*both, "--from-group", "two", "--yes"), "would go to several groups"),
        (
            ("restore", file, "-w", files["one"], "--group", "one", "--group", "two", "--yes"),
            "-w is the worker file of one",
        ),
        ((*both, "--group", "four", "--yes"), "has 3 worker files"),
    ):
        refused = call(*words)
        assert refused.code in (1, 2)
        assert message in refused.err
    checked, check = list[RecordFile](), RecordFile.check

    def counted(one: RecordFile) -> None:
        checked.append(one)
        check(one)

    monkeypatch.setattr(RecordFile, "check", counted)
    shown = call(*both)
    assert (shown.code, shown.out, len(checked)) == (1, "", 1)
    assert all(f"become keys under the prefix {group}." in shown.err for group in ("one", "two"))
    with shared.admin() as admin:
        assert shared.topic("elsewhere", TopicType.CONFIG) not in admin.topic_names()  # nothing was written so far
    done = call(*both, "--yes", "--output", "json")
    assert (done.code, done.json["verified"], len(done.json["restores"])) == (0, True, 2)
    for topic_type in TopicType:
        for group in ("one", "two"):
            assert of_group(shared, "elsewhere", topic_type, group) == of_group(shared, "shared", topic_type, group)
    shared.produce([Record(shared.topic("elsewhere", TopicType.CONFIG), 0, 0, 1, b"two.commit-a.b", b"{}")])
    shown = call(*both, "--dry-run").out
    (changed,) = [line for line in shown.splitlines() if "'" in line]
    assert changed == "          'a.b': 0 added, 1 changed, 3 same, 0 removed, 0 only at the destination: kept"
    assert re.findall(r"unchanged in (\d) more", shown) == ["2", "1", "1", "1", "1"], shown


def test_connectors_are_exported_and_restored_by_their_exact_names(shared: Site, call: Any) -> None:
    worker = shared.worker_file("shared", "one", sharing=True)
    file = shared.folder / "two.avro"
    words = ("export", "-w", worker, "-o", file)
    refused = call(*words, "--connector", "b", "--connector", "B")
    assert (refused.code, file.exists()) == (1, False)
    assert "no record of 'B': names are exact" in refused.err
    unknown = call(*words, "--group", "three")
    assert "no record of three" in unknown.err
    assert call(*words, "--connector", "b", "--connector", "a.b").code == 0
    keys = [record.key or b"" for record in RecordFile(file).read()]
    assert len(keys) == 10
    assert all(b"gone" not in key and b"session" not in key for key in keys)
    elsewhere = shared.worker_file("elsewhere", "one", sharing=True)
    missing = call("restore", file, "-w", elsewhere, "--yes", "--connector", "b", "--connector", "gone")
    assert missing.code == 1
    assert "no record of connector(s) 'gone'" in missing.err
    assert call("restore", file, "-w", elsewhere, "--yes", "--connector", "b").code == 0
    found = {record.key for t in TopicType for record in shared.read(shared.topic("elsewhere", t))}
    assert found == {b"one.connector-b", b'one.["b",{}]'}


def test_an_encrypted_file_tells_no_value_and_opens_with_its_key_only(shared: Site, call: Any) -> None:
    """Of a group that is not sealed, and of one that is."""
    off = {MODE: "off", KEYS_PROPERTY: key_text(7)}
    plain = shared.worker_file("shared", "one", sharing=True)
    refused = call("export", "-w", plain, "-o", shared.folder / "no.avro", "--encrypt")
    assert (refused.code, "needs a worker file with keys" in refused.err) == (2, True)
    keyed = shared.worker_file("shared", "one", sharing=True, **off)
    file, group = shared.folder / "one.avro", shared.worker_file("elsewhere", "one", sharing=True)
    assert call("export", "-w", keyed, "-o", file, "--encrypt").code == 0
    assert all(is_sealed(record.value) for record in RecordFile(file).read())
    without = call("restore", file, "-w", group, "--yes")
    assert (without.code, "is encrypted with key 7: give the worker file that key" in without.err) == (2, True)
    other = shared.worker_file("elsewhere", "one", sharing=True, **{**off, KEYS_PROPERTY: key_text(8)})
    assert "is encrypted with key 7" in call("restore", file, "-w", other, "--yes").err
    right = shared.worker_file("elsewhere", "one", sharing=True, **{**off, KEYS_PROPERTY: key_text(8, 7)})
    done = call("restore", file, "-w", right, "--yes")
    assert (done.code, "not encrypted" in done.out) == (0, False)
    for topic_type in TopicType:
        assert of_group(shared, "elsewhere", topic_type, "one") == of_group(shared, "shared", topic_type, "one")
    bare = shared.folder / "bare.avro"
    assert call("export", "-w", keyed, "-o", bare).code == 0  # as one whose header has lost what says so
    assert "the backup is not encrypted: nothing shows" in call("restore", bare, "-w", right, "--dry-run").out
    assert not call("restore", bare, "-w", right, "--dry-run", "--output", "json").json["encrypted"]


COMPACTING = {**COMPACT_NOW, "delete.retention.ms": "600000"}
"""The cleaner takes what is replaced at once, and tombstones later than any round takes."""
STEPS = 12


def wipe(site: Site) -> None:
    with site.admin() as admin:
        delete_known(admin, *(site.topic("shared", topic_type) for topic_type in TopicType))


class Following:
    """``export --follow`` as a process of its own."""

    def __init__(self, worker: Path, folder: Path) -> None:
        self.folder = folder
        self._words = [sys.executable, "-m", "connect_share", "export", "-w", str(worker), "--follow", str(folder)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self._process = subprocess.Popen([*self._words, "--every", "0.1", "--base-every", "0.02"])

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def await_moment(self) -> int:
        """Wait until everything that is written by now is in the backup; return a time that means that."""
        now_ms = int(time.time() * 1000)

        def is_there() -> bool:
            assert self._process is not None
            assert self._process.poll() is None
            return any(each.is_point and each.at_ms > now_ms for each in segment_files(self.folder))

        await_that(is_there, what="a moment in the backup")
        return int(time.time() * 1000)


@contextmanager
def following(worker: Path, folder: Path) -> Iterator[Following]:
    process = Following(worker, folder)
    process.start()
    try:
        yield process
    finally:
        process.kill()


def live(storage: ConnectStorage, choose: random.Random) -> None:
    """Do what workers do, at random: put, change, remove, commit offsets."""
    for _ in range(STEPS):
        name = choose.choice(["c", "d.e", "task-f-0"])
        known = storage.config.snapshot().contains(name)
        match choose.choice(["put", "offset", "offset", "target", "remove"] if known else ["put"]):
            case "put":
                put(storage, name, choose.randrange(10**6))
            case "offset":
                write_offset(storage, name, choose.choice([None, choose.randrange(10**6)]))
            case "target":
                storage.config.put_target_state(name, choose.choice(list(TargetState)))
            case _:
                storage.config.remove_connector_config(name)
        storage.config.refresh()


def test_three_moments_come_back_as_they_were(site: Site, call: Any) -> None:
    """Others write without a pause, the cleaner runs, the backup is killed; then the topics are gone."""
    site.create("shared", SHARED_PARTITIONS, COMPACTING)
    path, folder = site.worker_file("shared", "one", sharing=True), site.folder / "backup"
    choose = random.Random(site.name)
    moments: list[tuple[int, Any]] = []
    others = (site.settings, site.topic("shared", TopicType.CONFIG), 200)
    with following(path, folder) as process, ConnectStorage(WorkerConfig.from_file(path)) as storage:
        with foreign_records(*others):
            for _ in range(3):
                live(storage, choose)
                process.kill()
                live(storage, choose)
                process.start()
                moments.append((process.await_moment(), view(storage)))
        put(storage, "after", 1)
    files = segment_files(folder)
    assert [each.sequence for each in files] == list(range(1, len(files) + 1))
    for at_ms, model in moments:
        wipe(site)
        done = call("restore", folder, "-w", path, "--at", shown_moment(at_ms), "--yes", "--output", "json")
        assert done.code == 0, done.err
        assert done.json["verified"]
        with ConnectStorage(WorkerConfig.from_file(path)) as storage:
            assert view(storage) == model


def test_old_files_go_and_new_topics_begin_anew(site: Site, call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    site.create("shared", SHARED_PARTITIONS)
    path, folder = site.worker_file("shared", "one", sharing=True), site.folder / "backup"
    topic = site.topic("shared", TopicType.CONFIG)

    def write(name: str, *more: str) -> list[str]:
        site.produce([Record(topic, 0, 0, 1, f"one.connector-{name}".encode(), b'{"properties":{}}')])
        return once(*more)

    def once(*more: str) -> list[str]:
        done = call("export", "-w", path, "--follow", folder, "--once", *more)
        assert done.code == 0, done.err
        return sorted(each.name for each in folder.glob("*.avro"))

    assert once() == ["0000000001-base.avro"]
    assert write("a") == ["0000000001-base.avro", "0000000002-increment.avro"]
    assert once() == ["0000000001-base.avro", "0000000002-increment.avro"]
    before = shown_moment(int(time.time() * 1000))
    assert [record.offset for _, record in BackupFiles.at(folder, None).read(Silent())] == [0]
    (folder / ".0000000003-base.part.avro.abcdefgh").write_bytes(b"Obj\x01 connect-share.format")
    wipe(site)
    site.create("shared", SHARED_PARTITIONS)
    assert write("b")[2:] == ["0000000003-base.avro"]
    assert {each.name for each in folder.iterdir()} == set(once())
    other = site.worker_file("shared", "two", sharing=True)
    refused = call("export", "-w", other, "--follow", folder, "--once")
    assert (refused.code, "is the backup of other topics, groups or connectors" in refused.err) == (1, True)
    assert call("restore", folder, "-w", path, "--at", "2020-01-01", "--yes").code == 1
    shown = call("describe", "backup", folder, "--output", "json").json
    assert [len(shown["moments"]), shown["at"]] == [3, shown["moments"][-1]]
    assert shown["groups"] == [
        {"group": "one", "records": {"config": 1, "status": 0, "offset": 0}, "connectors": ["b"]}
    ]
    shown = call("describe", "backup", folder, "--at", before, "--moments")
    assert re.search(r"one +1 +0 +0 +a$", shown.out, re.MULTILINE)
    assert call("describe", "backup", folder, "--at", "9000 days ago").code == 1
    assert call("describe", "backup", folder / "0000000003-base.avro", "--moments").code == 2
    told = call("restore", folder, "-w", path, "--at", before, "--dry-run", "--output", "json").json
    assert {each["connector"]: (each["added"], each["remaining"]) for each in told["changes"]} == {
        "a": (1, 0),
        "b": (0, 1),
    }
    assert write("c", "--keep", "0") == ["0000000003-base.avro", "0000000004-increment.avro"]
    (folder / "0000000003-base.avro").unlink()  # an increment is of no use then
    assert write("d") == ["0000000004-increment.avro", "0000000005-base.avro"]
    # A clock that is far ahead for one round deletes nothing, and what comes then follows a new base.
    kept, ahead_s = once(), time.time() + 400 * 86_400
    with monkeypatch.context() as clock:
        clock.setattr("time.time", lambda: ahead_s)
        assert write("e", "--keep", "2") == [*kept, "0000000006-base.avro"]
    assert write("f", "--keep", "2")[-1] == "0000000007-base.avro"
    assert {*kept} <= {*once()}
    with locked_folder(folder):
        locked = call("export", "-w", path, "--follow", folder, "--once")
    assert (locked.code, "another process writes to" in locked.err) == (1, True)


def written(folder: Path) -> list[str]:
    return [each.path.name.split(".")[0].partition("-")[2] for each in segment_files(folder)]


def test_what_strangers_write_ends_no_backup(shared: Site, call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that no file takes, and invented groups that lie first: all else is written, and what is not is named."""
    config, path = shared.topic("shared", TopicType.CONFIG), shared.worker_file("shared", "two", sharing=True)
    before, folder = shared.folder / "before.avro", shared.folder / "two"
    assert call("export", "-w", path, "-o", before).code == 0
    bad = [RawRecord(group + b".connector-zzz", b"{}", [(b"\xff\xfe", b"x")]) for group in (b"one", b"two")]
    first = write_raw(shared.bootstrap_servers, config, bad)
    file = shared.folder / "with.avro"
    done = call("export", "-w", path, "-o", file, "--output", "json")
    assert (done.code, done.json["left_out"]) == (0, {config: 1})
    assert done.json["left_out_first"] == f"{config}[0]@{first + 1}"
    assert sorted(map(repr, RecordFile(file).read())) == sorted(map(repr, RecordFile(before).read()))
    once = ("export", "-w", path, "--follow", folder, "--once")
    told = call(*once)
    assert told.code == 0
    assert f"their headers are not readable: {config}: 1 record, the first at {config}[0]@{first + 1}" in told.out

    monkeypatch.setattr("connect_share.contents.group_room.MOST_GROUPS", 2)
    folder, flags = shared.folder / "all", ("export", "-w", path, "--all-groups")
    everything = call(*flags, "-o", shared.folder / "all.avro", "--output", "json")
    assert (everything.code, everything.json["groups"]) == (0, [None, "one", "two"])
    assert "too many keys of one" not in everything.err
    shared.produce([Record(config, 0, 0, 1, b"three.connector-a", b"{}")])
    assert call(*flags, "--follow", folder, "--once", "--output", "json").json["records"] > 0
    shared.produce([Record(config, 0, 0, 1, f"{group}.connector-b".encode(), b"{}") for group in ("three", "two")])
    increment = call(*flags, "--follow", folder, "--once", "--output", "json")
    assert increment.json["records"] == 1  # of a group that is not whole in the base there is nothing
    assert "more than 2 groups" in increment.err
    assert ": 1 record(s) were left out, of three; name those that are wanted with --group" in increment.err
    third = shared.worker_file("elsewhere", "three", sharing=True)
    assert call("restore", folder, "-w", third, "--yes").code == 1
    assert call("restore", folder, "-w", shared.worker_file("elsewhere", "two", sharing=True), "--yes").code == 0
    assert b"two.connector-b" in {each.key for each in shared.read(shared.topic("elsewhere", TopicType.CONFIG))}


def test_removals_that_the_cleaner_took_meanwhile(site: Site, call: Any) -> None:
    """Whatever settings the topic has by now, and had when it was looked at: the log shows that something is gone."""
    long = {"delete.retention.ms": "86400000"}
    site.create("shared", SHARED_PARTITIONS, COMPACT_NOW | long)
    path, folder = site.worker_file("shared", "one", sharing=True), site.folder / "backup"
    topic = site.topic("shared", TopicType.OFFSET)

    def once() -> list[str]:
        assert call("export", "-w", path, "--follow", folder, "--once").code == 0
        return written(folder)

    def write(key: bytes, value: bytes | None) -> None:
        site.produce([Record(topic, 0, 0, int(time.time() * 1000), key, value)])

    def left() -> list[bytes | None]:
        write(b'one.["d",{}]', b'{"n":1}')
        return [each.key for each in site.read(topic)]

    gone = b'one.["c",{}]'
    with site.admin() as admin:
        write(gone, b'{"n":1}')
        assert once() == ["base"]
        alter_known(admin, topic, {"delete.retention.ms": "0"})
        write(gone, None)
        await_that(left, lambda keys: gone not in keys, what="cleaned")
        alter_known(admin, topic, long)
    assert once()[-1] == "base"
    elsewhere = site.worker_file("elsewhere", "one", sharing=True)
    assert call("restore", folder, "-w", elsewhere, "--yes").code == 0
    assert gone not in {each.key for each in site.read(site.topic("elsewhere", TopicType.OFFSET))}
