"""Directories that KRaft brokers set aside are put back: on each broker, killed at each step, taken back, refused."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connect_share.cli.__main__ import main
from connect_share.errors import UsageError
from connect_share.topic_ids.authority.authority import Authority, AuthorityPartition, AuthorityTopic, MetadataMode
from connect_share.topic_ids.errors import TopicIdRepairError
from connect_share.topic_ids.repair.broker_checks import await_in_sync, check_others_stopped
from connect_share.topic_ids.repair.broker_repair import BrokerBackup, is_broker_backup
from tests.support.json_values import json_values
from tests.topic_ids.brokers import LOG, Brokers, batch, killed
from tests.topic_ids.trees import Tree

STRAY = "00ef6bfc14a54b1da530402ecd269582-stray"
INDEXES = ("00000000000000000000.index", "00000000000000000000.timeindex")
RECORDS = batch(0, 0, 4711) + batch(10, 0, 4712)
WORDS = st.text(max_size=3) | st.sampled_from(["kraft", "prepared", "put-back"])
VALUES = json_values(st.integers(-2, 3) | WORDS, st.sampled_from(["act", "files", "x"]))


class Emptied(Brokers):
    """Three brokers whose topic quiet is empty; its records were set aside. All of them listen, until they are closed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Tree("healthy-kraft", folder))
        self.sockets = {broker: socket.create_server(("127.0.0.1", 0)) for broker in self.ids}
        dump = self.tree.metadata_dump
        text = dump.read_text("utf-8")
        for broker, one in self.sockets.items():
            text = text.replace(f'"port":2110{broker}', f'"port":{one.getsockname()[1]}')
        dump.write_text(text)
        [self.topic_id] = set(re.findall(r'"name":"quiet","topicId":"([^"]+)"', text))
        for directory in self.tree.directories("quiet"):
            path = self.tree.folder / directory
            stray = path.with_name(f"{path.name}.{STRAY}")
            path.rename(stray)
            (stray / "partition.metadata").unlink()
            self.write_log(str(stray.relative_to(self.tree.folder)), RECORDS)
            for name in INDEXES:
                (stray / name).write_bytes(bytes(1200))  # as large as they are made, and never trimmed
            path.mkdir()
            self.tree.set_id(directory, self.topic_id)
            self.write_log(directory, b"")

    def folder(self, broker: int) -> Path:
        [found] = (
            self.tree.folder / one for one in self.tree.directories("quiet") if one.startswith(f"broker-{broker}/")
        )
        return found

    def all_words(self) -> list[str]:
        return [*self.scans(), *self.tree.authority_words]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Emptied]:
    found = Emptied(tmp_path)
    yield found
    for one in found.sockets.values():
        one.close()


@pytest.mark.slow
def test_put_back_killed_and_taken_back(site: Emptied, capsys: pytest.CaptureFixture[str]) -> None:
    before = {broker: site.contents(broker) for broker in site.ids}
    options, refused = site.all_words(), partial(site.refuses, capsys)
    with site.running(1):
        assert main(site.words("prepare", 1, *options, "--dry-run")) == 0
        assert "which is empty ->" in capsys.readouterr().out
        assert not (site.tree.folder / "backup-1").exists()
        for broker in site.ids:
            assert main(site.words("prepare", broker, *options)) == 0
        assert "run --step prepare on brokers 1, 2 too" in capsys.readouterr().out
        refused(site.words("prepare", 1, *options), "is there already, of a repair that is prepared", 2)
        refused(site.words("write", 1, "--yes"), ".lock is locked: the broker runs")
    # The obvious repair: one broker after the other. The empty leader would make this one throw all away.
    refused(site.words("write", 1, "--yes"), "broker 2 runs")
    refused(site.words("write", 1, "--dry-run"), "not now: broker 2 runs")
    for one in site.sockets.values():
        one.close()
    refused(site.words("write", 1), "give --yes to go on without a prompt")
    refused(site.words("write", 2, "--yes", "--server-properties", str(site.settings(1))), "is of broker 2 with", 2)
    site.write_log(str(site.folder(1).relative_to(site.tree.folder)), RECORDS[:100])
    refused(site.words("write", 1, "--yes"), "the two logs cannot be joined")
    site.write_log(str(site.folder(1).relative_to(site.tree.folder)), b"")
    assert site.contents(1) == before[1]

    deaths = 0  # before the first rename, between the two, before the id is written, and before that is noted
    while killed(site.words("write", 1, "--yes"), 1 if deaths else 0):
        deaths += 1
        assert deaths < 9
    assert deaths == 4
    home = site.folder(1)
    assert ((home / LOG).read_bytes(), (home / "partition.metadata").read_text()) == (
        RECORDS,
        f"version: 0\ntopic_id: {site.topic_id}",
    )
    assert not any((home / name).exists() for name in INDEXES)  # zeros in them would make retention delete the records
    refused(site.words("check", 1, *options), "not everything is back on brokers 2, 3")
    refused(site.words("write", 1, "--yes"), "is of a repair that is written", 2)
    for path in site.tree.folder.glob("broker-3/*/.lock"):
        path.unlink()  # as newer brokers do when they stop
    for broker in (2, 3):
        assert main(site.words("write", broker, "--yes", "--output", "json")) == 0
        assert json.loads(capsys.readouterr().out)["state"] == "written"
    assert not list(site.tree.folder.glob("broker-3/*/.lock"))
    options = site.all_words()
    assert main(site.words("check", 3, *options)) == 0
    assert "all is back: start brokers 1, 2, 3" in capsys.readouterr().out
    assert main(["check", "topic-ids", *options, "--output", "json"]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [(one["kind"], one["topic"]) for one in found] == [("stray-directory", "quiet")] * 3  # the empty ones
    assert main(["repair", "topic-ids", *options, "--dry-run"]) == 0
    assert "what was set aside is empty" in capsys.readouterr().out

    backup = site.tree.folder / "backup-1"
    sums = {
        name: digest for digest, name in (line.split("  ") for line in (backup / "SHA256SUMS").read_text().splitlines())
    }
    assert sums[f"1.directory/{LOG}"] == hashlib.sha256(RECORDS).hexdigest()
    assert all(hashlib.sha256((backup / name).read_bytes()).hexdigest() == digest for name, digest in sums.items())
    assert {path.stat().st_mode & 0o077 for path in (backup, *backup.rglob("*"))} == {0}

    (home / LOG).write_bytes(RECORDS + RECORDS)
    refused(site.undo(1, "--yes"), "what was acknowledged since would be lost")
    (home / LOG).write_bytes(RECORDS)
    with site.running(1):
        refused(site.undo(1, "--yes"), ".lock is locked: the broker runs")
    assert main(site.undo(1, "--dry-run")) == 0
    deaths = 0
    while killed(site.undo(1, "--yes"), 2 if deaths else 0):  # the first change of each run notes that it goes on
        deaths += 1
        assert deaths < 9
    assert deaths == 3
    kept = f"{home.parent.name}/{home.name}.{STRAY}/partition.metadata"
    assert {name: data for name, data in site.contents(1).items() if name != kept} == {
        name: data for name, data in before[1].items() if not name.endswith(INDEXES)
    }
    refused(site.undo(1, "--yes"), "was undone already", 2)


def test_what_is_prepared_has_to_be_whole(site: Emptied, capsys: pytest.CaptureFixture[str]) -> None:
    options = site.scans()
    dump = site.tree.metadata_dump
    text = dump.read_text("utf-8")
    dump.write_text("".join(line for line in text.splitlines(True) if '"brokerId":3' not in line))
    assert main(site.words("prepare", 1, *options, *site.tree.authority_words)) == 1
    assert "where broker 3 listens is not known" in capsys.readouterr().err
    port = site.sockets[3].getsockname()[1]
    dump.write_text(text.replace(f'"port":{port}', '"port":0'))
    assert main(site.words("prepare", 1, *options, *site.tree.authority_words)) == 1
    assert "the plan has values that no broker has (peers)" in capsys.readouterr().err
    dump.write_text(text)
    [stray] = site.tree.folder.glob("broker-1/*/quiet-0.*-stray")
    unreadable = stray.with_name(os.fsdecode(b"quiet-0.\xff-stray"))  # Kafka makes no such names, and JSON has none
    stray.rename(unreadable)
    assert main(site.words("prepare", 1, *site.all_words())) == 1
    assert "nothing was changed" in capsys.readouterr().err
    assert not (site.tree.folder / "backup-1").exists()
    unreadable.rename(stray)
    for path in site.tree.folder.glob("broker-2/*/quiet-0.*-stray"):
        path.rename(site.tree.folder / "elsewhere")
    assert main(site.words("prepare", 1, *site.all_words())) == 1
    captured = capsys.readouterr()
    assert "broker 2 set nothing aside" in captured.err
    assert "nothing to do on broker 1" in captured.out
    assert main(["repair", "topic-ids", *options, *site.tree.authority_words, "--server-properties", "x"]) == 2
    assert main([*site.words("prepare", 1)[:-1], "nowhere"]) == 2
    capsys.readouterr()


@given(VALUES, st.sampled_from(["state", "mode", "broker", "acts", "wrong", "dark", "peers", "log_dirs", "format"]))
@example([{"act": "write-id", "topic": "t", "partition": 0, "folder": "/", "number": 1, "before_sha256": "x"}], "acts")
def test_a_damaged_index_is_reported(value: object, member: str) -> None:
    index = {"format": 1, "kind": "broker", "state": "prepared", "mode": "kraft", "broker": 1, "cluster_id": None}
    index |= {"log_dirs": [], "wrong": [], "dark": [], "peers": [], "acts": []}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "backup.json").write_text(json.dumps({**index, member: value}))
        assert is_broker_backup(Path(folder))
        try:
            found = BrokerBackup.find(Path(folder))
        except UsageError:
            return
        assert found is not None
        assert json.loads(found.index()).keys() == index.keys()


@pytest.fixture
def prepared(site: Emptied, capsys: pytest.CaptureFixture[str]) -> Emptied:
    assert main(site.words("prepare", 1, *site.all_words())) == 0
    capsys.readouterr()
    for one in site.sockets.values():
        one.close()
    return site


def test_a_backup_that_was_changed_leads_nowhere_else(prepared: Emptied, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither out of the log dirs, nor to another partition, whatever it says."""
    outside = prepared.tree.folder / "elsewhere" / "quiet-0"
    outside.mkdir(parents=True)
    (outside / "partition.metadata").write_bytes(b"")
    path = prepared.tree.folder / "backup-1" / "backup.json"
    index = json.loads(path.read_text())
    back, write = (one["act"] for one in index["acts"])
    assert (back, write) == ("put-back", "write-id")
    log_dir = str(prepared.folder(1).parent)
    other = str(next(one for one in Path(log_dir).iterdir() if one.is_dir() and not one.name.startswith("quiet-0")))
    damaged = "is no backup of a repair, or is damaged"
    elsewhere = "in the broker's log dirs; nothing was changed"
    changes: list[tuple[int, str, object, str]] = [
        *((1, "folder", folder, elsewhere) for folder in (str(outside), "/etc", f"{log_dir}/../elsewhere/quiet-0")),
        *((1, "folder", folder, elsewhere) for folder in (other, log_dir, "quiet-0", "", f"{log_dir}/quiet-0/..")),
        *((0, name, f"{outside}.{STRAY}", elsewhere) for name in ("stray", "aside")),
        *((0, name, str(prepared.folder(1)), elsewhere) for name in ("stray", "aside")),
        *((0, name, str(outside), elsewhere) for name in ("folder", "empty")),
        (0, "aside", None, damaged),
        *((0, "files", {name: [size, "0" * 64]}, damaged) for name, size in (("../x.log", 1), ("x.log", -1))),
        *((0, "files", value, damaged) for value in ("x", None)),
        *((1, "topic_id", one, "has an id for 'quiet' that no topic has") for one in ("", "A" * 22, "x\n", "../../x")),
        (1, "topic_id", prepared.topic_id + "==", "has an id for 'quiet' that no topic has"),
        *((1, "topic", topic, elsewhere) for topic in ("../elsewhere/quiet", "quiet-0", "", "\x1b[2J")),
        *((1, "partition", number, elsewhere) for number in (1, 2**31 - 1)),
        *((1, "partition", number, damaged) for number in (-1, 2**31, 0.0, True, "0", 10**400)),
        *((1, "before_sha256", digest, damaged) for digest in ("", "x" * 64, 5)),
        (1, "more", "x", damaged),
    ]
    before = prepared.contents(1)
    for number, member, value, reason in changes:
        acts = [dict(one) for one in index["acts"]]
        acts[number][member] = value
        path.write_text(json.dumps({**index, "acts": acts}))
        assert main(prepared.words("write", 1, "--yes")) == 2
        shown = capsys.readouterr().err
        assert reason in shown
        assert "\x1b" not in shown
    for text in ('{"kind": "broker", "format": 1, "broker": 1e400}', "[" * 100_000, '{"kind": "broker", "format": []}'):
        path.write_text(text)
        assert main(prepared.words("write", 1, "--yes")) == 2
        assert "give another with --backup" in capsys.readouterr().err
    path.write_text(json.dumps({**index, "log_dirs": [str(outside.parent)]}))
    for more in ("--yes", "--dry-run"):
        assert main(prepared.words("write", 1, more)) == 2
    assert prepared.contents(1) == before
    assert (outside / "partition.metadata").read_bytes() == b""
    path.write_text(json.dumps(index))
    assert main(prepared.words("write", 1, "--yes")) == 0


def test_links_and_files_of_others_are_not_followed(prepared: Emptied, capsys: pytest.CaptureFixture[str]) -> None:
    """The broker's user may write into the log dirs, and the repair may run as root."""
    outside = prepared.tree.folder / "secret"
    outside.write_bytes(b"of somebody else")
    outside.chmod(0o600)
    home = prepared.folder(1)
    [stray] = home.parent.glob("quiet-0.*-stray")
    empty = home / "partition.metadata"

    def unchanged() -> None:
        assert (outside.read_bytes(), outside.stat().st_mode & 0o777) == (b"of somebody else", 0o600)

    # What a killed run may have left, and what somebody put there in its place.
    new = stray / "partition.metadata.new"
    new.symlink_to(outside)
    lock = home.parent / ".lock"
    lock.unlink()
    lock.symlink_to(prepared.tree.folder / "made by root")
    assert main(prepared.words("write", 1, "--yes")) == 1
    assert "whether the broker is stopped is not known" in capsys.readouterr().err
    assert not (prepared.tree.folder / "made by root").exists()
    lock.unlink()
    lock.touch()

    for path in (stray / "partition.metadata", stray / LOG):
        kept = path.read_bytes() if path.exists() else None
        path.unlink(missing_ok=True)
        path.symlink_to(outside)
        assert main(prepared.words("write", 1, "--yes")) == 1
        capsys.readouterr()
        unchanged()
        assert empty.exists()
        assert main(prepared.words("prepare", 1, *prepared.all_words(), "--backup", str(outside) + ".backup")) != 0
        capsys.readouterr()
        assert not Path(f"{outside}.backup").exists()
        path.unlink()
        if kept is not None:
            path.write_bytes(kept)

    real = stray.with_name("moved")
    stray.rename(real)
    stray.symlink_to(real)
    assert main(prepared.words("write", 1, "--yes")) == 1
    assert "is neither as it was" in capsys.readouterr().err
    stray.unlink()
    real.rename(stray)

    assert main(prepared.words("write", 1, "--yes")) == 0
    unchanged()
    written = home / "partition.metadata"
    assert (written.read_text(), written.is_symlink()) == (f"version: 0\ntopic_id: {prepared.topic_id}", False)
    assert not (home / new.name).is_symlink()
    assert main(prepared.undo(1, "--yes")) == 0


def test_what_no_broker_leads_is_not_in_sync() -> None:
    """The log dir is offline, and the only replica stays in the ISR."""
    backup = SimpleNamespace(peers=[(2, "h", 9)], wrong_replicas={}, dark=(), broker=1, topics={})
    topics = {"t": AuthorityTopic("t", None, {0: AuthorityPartition((1,), None, (1,))})}
    with pytest.raises(TopicIdRepairError, match="not all replicas are in sync: t-0"):
        await_in_sync(cast("BrokerBackup", backup), lambda: Authority(MetadataMode.KRAFT, "x", topics), print, 0)


def test_of_a_host_one_address_that_says_nothing_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object, all_errors: bool = False, **__: object) -> None:
        raise ExceptionGroup("", [others[0], ConnectionRefusedError()]) if all_errors else ConnectionRefusedError()

    monkeypatch.setattr(socket, "create_connection", connect)
    others, backup = [OSError("no route"), TimeoutError()], cast("BrokerBackup", SimpleNamespace(peers=[(2, "h", 9)]))
    check_others_stopped(backup)
    del others[0]
    with pytest.raises(TopicIdRepairError, match="is stopped is not known: h:9: no answer"):
        check_others_stopped(backup)
