"""Starts that go on from a checkpoint: as good as reading everything, or everything is read."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from connect_share.errors import ConfigError, LostTopicError, RecordFileError
from connect_share.kafka.admin import Admin
from connect_share.model.config_state import TargetState
from connect_share.model.records import ConnectorTaskId
from connect_share.model.status import ConnectorStatus, State, TaskStatus
from connect_share.storage import ConnectStorage
from connect_share.storage.checkpoint import read_checkpoint, write_checkpoint
from connect_share.worker_config import WorkerConfig
from tests.lab.embedded.broker import LocalBroker
from tests.support.flushes import flush_offsets
from tests.support.topics import COMPACT_NOW, alter_known, delete_known
from tests.support.waiting import await_that
from tests.support.worker_files import SHARING, properties_of

SECRET = "s3cret-of-a-connector"


def put(storage: ConnectStorage, name: str, number: int) -> None:
    storage.config.put_connector_config(name, {"name": name, "password": SECRET, "n": str(number)})
    storage.config.put_task_configs(name, [{"n": str(number)}] * (1 + number % 2))
    storage.config.put_target_state(name, TargetState.PAUSED if number % 2 else TargetState.STARTED)
    storage.status.put(ConnectorStatus(name, State.RUNNING, "w:1", number))
    storage.status.put(TaskStatus(ConnectorTaskId(name, 0), State.FAILED, "w:1", number, SECRET))
    storage.status.flush()
    position = {"position": number}
    flush_offsets(
        storage.offset_writer(name), ({"file": "a"}, position), ({"file": "b"}, position if number % 2 else None)
    )


def current_state(storage: ConnectStorage) -> Any:
    """Return positions and all that the folds save."""
    stores = (storage.config, storage.status, storage.offsets)
    return [(store.positions(), sorted_lists(store.save(30)[1])) for store in stores]


def sorted_lists(saved: Any) -> Any:
    """Partitions have no order among each other, so these have none."""
    if isinstance(saved, dict):
        return {name: sorted_lists(value) for name, value in saved.items()}
    return sorted(saved, key=repr) if isinstance(saved, list) else saved


def whole(config: WorkerConfig) -> Any:
    with ConnectStorage(config) as storage:
        return current_state(storage)


def start(config: WorkerConfig, path: Path) -> tuple[Any, Any]:
    with ConnectStorage(config, checkpoint=path) as storage:
        return current_state(storage), storage.startup


def test_only_what_is_new_is_read(shared: Any, tmp_path: Path) -> None:
    config, other, path = shared.sharing(), shared.sharing("group-b"), tmp_path / "checkpoint"
    with ConnectStorage(config, checkpoint=path) as storage:
        assert storage.startup.full_read_reason == "there is none yet"
        for number in range(3):
            put(storage, f"c{number}", number)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = whole(config)
    found, startup = start(config, path)
    assert (startup.from_checkpoint, startup.full_read_reason) == (True, None)
    assert startup.config.own_records == startup.status.own_records == startup.offsets.own_records == 0
    assert found == before
    with ConnectStorage(other, allow_empty=True) as storage:
        put(storage, "c1", 7)
    with ConnectStorage(config) as storage:
        storage.config.remove_connector_config("c0")
        storage.status.put(ConnectorStatus("c0", State.DESTROYED, "w:1", 9))
        put(storage, "c1", 8)
        put(storage, "c9", 9)
        after = current_state(storage)
    found, startup = start(config, path)
    assert found == after
    assert startup.from_checkpoint
    assert 0 < startup.config.own_records < 20
    assert startup.config.foreign_records == 5
    # The store goes on as any other, and its next checkpoint holds what it did.
    with ConnectStorage(config, checkpoint=path) as storage:
        put(storage, "c1", 11)
        storage.save_checkpoint()
        saved = read_checkpoint(path)
        assert saved is not None
        assert saved.config.positions == dict(storage.config.positions())
        after = current_state(storage)
    assert start(config, path)[0] == after


def reason(config: WorkerConfig, path: Path) -> str:
    found, startup = start(config, path)
    assert not startup.from_checkpoint
    assert found == whole(config)
    return str(startup.full_read_reason)


def test_when_everything_is_read(shared: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config, path = shared.sharing(), tmp_path / "checkpoint"
    with ConnectStorage(config, checkpoint=path) as storage:
        put(storage, "c", 1)
    good = path.read_bytes()

    def with_good() -> Path:
        path.write_bytes(good)
        return path

    assert "of cluster group group-a, not of cluster group group-c" in reason_of_other(shared, with_good())
    path.write_bytes(good[:-7])
    caplog.clear()
    with caplog.at_level("INFO", "connect_share"):
        assert "damaged" in reason(config, path)
    assert "damaged" in caplog.text
    assert SECRET not in caplog.text
    # It was written anew.
    assert start(config, path)[1].from_checkpoint
    saved = read_checkpoint(with_good())
    assert saved is not None
    write_checkpoint(path, saved.model_copy(update={"status": saved.status.model_copy(update={"state": [1]})}))
    assert reason(config, path) == "restarting from it failed"  # good sums of a state that is none

    delete_known(shared.admin, shared.topics["offset"])
    with pytest.raises(LostTopicError):  # the group has records in the others
        start(config, with_good())
    with ConnectStorage(config, allow_empty=True, checkpoint=path) as storage:
        assert f"topic {shared.topics['offset']} does not exist" in str(storage.startup.full_read_reason)
    with pytest.raises(LostTopicError, match="was made anew since checkpoint"):
        start(config, with_good())
    with ConnectStorage(config, allow_empty=True, checkpoint=path) as storage:
        assert f"topic {shared.topics['offset']} was created again" in str(storage.startup.full_read_reason)


def reason_of_other(shared: Any, path: Path) -> str:
    with ConnectStorage(shared.sharing("group-c"), allow_empty=True, checkpoint=path) as storage:
        assert not storage.config.snapshot().connectors()
        return str(storage.startup.full_read_reason)


def test_removals_that_the_cleaner_took_meanwhile(shared: Any, tmp_path: Path) -> None:
    """Whatever settings the topic has by now: the log itself shows that something is gone."""
    config, path, topic = shared.sharing(), tmp_path / "checkpoint", shared.topics["offset"]
    with ConnectStorage(config, checkpoint=path) as storage:
        put(storage, "c", 1)
    alter_known(shared.admin, topic, COMPACT_NOW)
    with ConnectStorage(config) as storage:
        flush_offsets(storage.offset_writer("c"), ({"file": "a"}, None), ({"file": "b"}, None))

        def keys_left() -> list[bytes]:
            flush_offsets(storage.offset_writer("d"), *(({"file": str(each)}, {"position": 1}) for each in range(9)))
            return [key for key, _ in shared.read("offset") if b'"c"' in key]

        await_that(keys_left, lambda left: not left, what="cleaned")
    alter_known(shared.admin, topic, {"delete.retention.ms": "86400000"})
    assert "perhaps with removals" in reason(config, path)
    assert start(config, path)[1].full_read_kind is None  # it was written anew


def test_a_place_that_cannot_be_written(shared: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config, path = shared.sharing(), tmp_path / "no" / "such" / "folder"
    with ConnectStorage(config, allow_empty=True, checkpoint=path) as storage:
        with pytest.raises(RecordFileError, match="cannot be written"):
            storage.save_checkpoint()
        put(storage, "c", 1)
    assert "was not written" in caplog.text
    with ConnectStorage(config) as storage, pytest.raises(ConfigError, match="no checkpoint file"):
        storage.save_checkpoint()


WRITER = """
import json, os, sys
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
with ConnectStorage(WorkerConfig.from_properties(json.loads(sys.argv[1])), checkpoint=sys.argv[2],
                    checkpoint_every_s=0.01) as storage:
    for number in range(100000):
        storage.config.put_connector_config(f"c{number % 50}", {"number": str(number), "padding": "x" * 2000})
        os.write(1, b".")
"""


def test_kill_9_leaves_a_good_file(shared: Any, tmp_path: Path) -> None:
    kill_after = 90
    config, path = shared.sharing(), tmp_path / "checkpoint"
    properties = shared.properties("group-a") | SHARING
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, json.dumps(properties), str(path)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        assert len(process.stdout.read(kill_after)) == kill_after
        await_that(path.exists, what="a first version")
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait(120)
        process.stdout.close()
    found, startup = start(config, path)
    assert startup.from_checkpoint
    assert found == whole(config)


@pytest.mark.slow
@pytest.mark.kills_broker
def test_a_log_that_was_cut_is_read_whole(own_broker: LocalBroker, tmp_path: Path) -> None:
    """The broker lost its newest records, and others were written in their place."""
    properties = properties_of(own_broker.bootstrap_servers, "group-a") | SHARING
    config, path = WorkerConfig.from_properties(properties), tmp_path / "checkpoint"
    with ConnectStorage(config, checkpoint=path) as storage:
        put(storage, "kept", 1)
        (segment,) = Path(own_broker.broker_properties()["log.dirs"]).glob("configs-0/*.log")
        size = segment.stat().st_size
        put(storage, "lost", 2)
    kept = path.read_bytes()
    own_broker.kill()
    with segment.open("r+b") as file:
        file.truncate(size)
    for index in segment.parent.glob("*index"):
        index.unlink()
    own_broker.start()
    with Admin(config.admin_settings(), client_id="test") as admin:
        await_that(lambda: admin.describe_topics(["configs"])["configs"].partitions[0].leader, what="a leader")
    with ConnectStorage(config, allow_live_members=True) as storage:
        assert storage.config.snapshot().connectors() == {"kept"}
        for number in range(4):
            storage.config.put_connector_config(f"other{number}", {})
        ended = dict(storage.config.positions())
    path.write_bytes(kept)
    saved = read_checkpoint(path)
    assert saved is not None
    assert ended[0] >= saved.config.positions[0]  # its end alone does not tell
    assert "has another leader" in reason(config, path)
