"""All values of a stopped group written again: plain, sealed, with another key, and plain again; killed half-way, too."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

from connect_share.model.config_state import SessionKey, TargetState
from connect_share.model.records import Record, TopicType, now_ms
from connect_share.sealing import KEYS_PROPERTY, KeyRing
from connect_share.sealing.cipher import is_sealed, key_id
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from tests.lab.embedded.worker import write_properties
from tests.support.flushes import flush_offsets
from tests.support.killed_rewrite import kill_in_the_rewrite
from tests.support.migration_site import run, run_well
from tests.support.sealed import key_text, sealed
from tests.support.sealed_sites import essence, life
from tests.support.worker_files import SHARING

SECRET = "hunter2-zebra"
FILE = {"filename": "x.txt"}


def worker_file(shared: Any, folder: Path, keys: str | None, mode: str = "required") -> Path:
    lines = shared.properties(shared.unique) | SHARING
    if keys is not None:
        lines |= {KEYS_PROPERTY: keys, KEYS_PROPERTY.removesuffix(".keys"): mode}
    return write_properties(folder / "worker.properties", lines)


def put(path: Path) -> None:
    """Write what a group writes, and remove one connector; the configuration is changed after the commit."""
    with ConnectStorage(WorkerConfig.from_file(path)) as storage:
        for name in ("c", "gone"):
            storage.config.put_connector_config(name, {"name": name, "password": SECRET}, TargetState.PAUSED)
            storage.config.put_task_configs(name, [{"task": name}, {"password": SECRET}])
            flush_offsets(storage.offset_writer(name), (FILE, {"position": 1}))
        storage.config.put_connector_config("c", {"name": "c", "password": SECRET * 2}, None)
        storage.config.put_session_key(SessionKey(SECRET.encode(), "HmacSHA256", 1))
        storage.config.remove_connector_config("gone")
        flush_offsets(storage.offset_writer("gone"), (FILE, None))


def current_state(path: Path) -> Any:
    found = life(path)
    return *essence(*found), found[0].session_key


def forms(shared: Any) -> set[int | None]:
    """What the newest values of the group are sealed with; ``None`` is plain."""
    newest = {(kind, key): value for kind in ("config", "status", "offset") for key, value in shared.read(kind)}
    own = [value for (_, key), value in newest.items() if key.startswith(shared.unique.encode())]
    return {key_id(value) if value is not None and is_sealed(value) else None for value in own}


def reseal(path: Path, *more: str) -> Any:
    code, said, errors = run("reseal", "--worker-config", path, "--yes", "--output", "json", *more)
    assert code == 0, errors
    assert SECRET not in said + errors
    return json.loads(said)


def test_plain_sealed_rotated_and_plain_again(shared: Any, tmp_path: Path) -> None:
    plain = worker_file(shared, tmp_path, None)
    put(plain)
    before = current_state(plain)
    assert before[0] == {"c": {"name": "c", "password": SECRET * 2}}
    assert len(before[1]) == 2
    steps = (
        (key_text(7), "accept", (), 7),
        (key_text(8, 7), "required", (), 8),
        (key_text(8), "accept", ("--plain",), None),
    )
    for keys, mode, more, form in steps:
        path = worker_file(shared, tmp_path, keys, mode)
        ends = [len(shared.read(kind.value)) for kind in TopicType]
        code, said, _ = run("reseal", "--worker-config", path, "--dry-run", *more)
        assert (code, SECRET in said) == (0, False)
        assert [len(shared.read(kind.value)) for kind in TopicType] == ends
        kill_in_the_rewrite("migrator", "reseal", "--worker-config", path, "--yes", *more)
        assert sum(len(shared.read(kind.value)) for kind in TopicType) == sum(ends) + 4
        assert current_state(path) == before
        told = reseal(path, *more)
        assert Path(told["backup"]).stat().st_mode & 0o777 == 0o600
        assert sum(topic["to_write"] for topic in told["after"].values()) == 0
        assert forms(shared) == {form}
        ends = [len(shared.read(kind.value)) for kind in TopicType]
        assert reseal(path, *more)["backup"] is None  # nothing to do
        assert [len(shared.read(kind.value)) for kind in TopicType] == ends
        after = worker_file(shared, tmp_path, None if form is None else key_text(form))
        assert current_state(after) == before  # also by a worker without the key of before


def test_what_is_refused_is_not_sealed_and_what_it_covers_is_written_again(
    shared: Any, tmp_path: Path, call: Any
) -> None:
    path = worker_file(shared, tmp_path, key_text(7))
    put(path)
    before = current_state(path)
    shared.write("config", [(b"connector-c", b'{"properties":{}}'), (b"connector-evil", b"{}")], group=shared.unique)
    told = reseal(path)
    assert (told["topics"]["config"]["refused"], told["after"]["config"]["refused"]) == (2, 1)
    assert dict(shared.read("config"))[f"{shared.unique}.connector-evil".encode()] == b"{}"
    assert current_state(path) == before
    of_offsets = ("offsets", "c", "-w", path, "--force", "--dry-run")
    for words in (("restore", told["backup"], "-w", path, "--dry-run"), ("reset", *of_offsets)):
        assert call(*words, "--output", "json").json["refused"] == {"config": 2, "status": 0, "offset": 0}
        assert "  config  left out: 2 refused, which the group did not write, or wrote before" in call(*words).out
    assert call("copy", *of_offsets, "--to", "d", "--output", "json").json["refused"]["config"] == 2
    said = run_well("restore", told["backup"], "--destination-worker-config", path, "--yes")
    assert current_state(path) == before
    assert SECRET not in said


def test_two_runs_at_once(shared: Any, tmp_path: Path) -> None:
    """On one machine the second one does not begin; another machine's is another writer (``test_rewrite.py``)."""
    put(worker_file(shared, tmp_path, None))
    path = worker_file(shared, tmp_path, key_text(7), "accept")
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        code, _, errors = run("reseal", "--worker-config", path, "--yes")
        assert (code, "another process is writing the values" in errors) == (1, True)
    assert forms(shared) == {None}


def test_files_that_do_not_fit_are_refused(shared: Any, tmp_path: Path) -> None:
    for keys, mode, more, says in (
        (None, "", (), "encryption.keys is missing"),
        (key_text(7), "off", (), "encryption=off"),
        (key_text(7), "required", ("--plain",), "would refuse plain values"),
    ):
        path = worker_file(shared, tmp_path, keys, mode)
        code, _, errors = run("reseal", "--worker-config", path, "--yes", *more)
        assert code == 2
        assert says in errors


def test_the_time_of_sealing_decides_when_values_are_plain_again(shared: Any, tmp_path: Path) -> None:
    """Also between partitions, where the times of the records say something else."""
    path = worker_file(shared, tmp_path, key_text(7), "accept")
    put(path)
    running, now = b'{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":1}', now_ms()
    pairs = [("task-back-0", running, now), ("connector-back", None, now - 9_000)]
    for key, value, at_ms in [*pairs, ("connector-gone", None, now), ("task-gone-0", running, now - 9_000)]:
        record = Record("", 0, 0, 0, f"{shared.unique}.status-{key}".encode(), value)
        good = sealed(record, TopicType.STATUS, written_ms=at_ms, keys=KeyRing.parse(key_text(7)))
        shared.write("status", [(good.key, good.value)])
    reseal(path, "--plain")
    with ConnectStorage(WorkerConfig.from_file(worker_file(shared, tmp_path, None))) as storage:
        assert storage.status.snapshot().connectors_with_tasks() == {"back"}
