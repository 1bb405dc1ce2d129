"""Stores of a group whose values are sealed, on topics that a test of stores has made."""

from __future__ import annotations

from typing import Any

from connect_share.model.config_state import TargetState
from connect_share.model.keys import SkipKind
from connect_share.model.records import ConnectorTaskId, TopicType
from connect_share.model.status import ConnectorStatus, State, TaskStatus
from connect_share.sealing import KEYS_PROPERTY, KeyRing
from connect_share.sealing.cipher import Cipher, Opened
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from tests.support.flushes import flush_offsets
from tests.support.sealed import key_text

SHARING = {"connect.management.topic.sharing.support": "enabled"}
MODE = KEYS_PROPERTY.removesuffix(".keys")
SECRET = b"hunter2-zebra"
FILE = {"filename": "x.txt"}
KINDS = {kind.value: kind for kind in TopicType}


def worker(shared: Any, keys: str | None = key_text(7), mode: str | None = None, **overrides: str) -> WorkerConfig:
    sealing = {name: value for name, value in ((KEYS_PROPERTY, keys), (MODE, mode)) if value is not None}
    return WorkerConfig.from_properties(shared.properties("group-a", **overrides) | SHARING | sealing)


def put(storage: ConnectStorage, name: str = "c", position: int | None = 1) -> None:
    """Write what a worker writes of one connector, and read it back."""
    secret = {"name": name, "password": SECRET.decode()}
    storage.config.put_connector_config(name, secret, TargetState.PAUSED)
    storage.config.put_task_configs(name, [secret])
    storage.status.put(ConnectorStatus(name, State.FAILED, "w:1", 1, SECRET.decode()))
    storage.status.put(TaskStatus(ConnectorTaskId(name, 0), State.RUNNING, "w:1", 1))
    storage.status.flush()
    write_offset(storage, name, position)


def write_offset(storage: ConnectStorage, name: str, position: int | None) -> None:
    offset = None if position is None else {"position": position, "x": SECRET.decode()}
    flush_offsets(storage.offset_writer(name, transactional=False), (FILE, offset))


def current_state(storage: ConnectStorage) -> Any:
    """Return snapshots of the three stores, read to the end."""
    storage.config.refresh()
    storage.status.refresh()
    storage.offsets.refresh()
    return storage.config.snapshot(), storage.status.snapshot(), storage.offsets.snapshot()


def fresh(shared: Any, **options: Any) -> Any:
    with ConnectStorage(worker(shared, **options)) as storage:
        return current_state(storage)


def refused(storage: ConnectStorage) -> list[int]:
    return [store.skipped().get(SkipKind.REFUSED, 0) for store in (storage.config, storage.status, storage.offsets)]


def opened(shared: Any, ring: KeyRing) -> list[tuple[bytes, bytes | None]]:
    """Everything on the topics, which has to be sealed."""
    found = []
    for kind, topic_type in KINDS.items():
        for key, value in shared.read(kind):
            assert SECRET not in value
            one = Cipher(ring, topic_type).open(key, value)
            assert isinstance(one, Opened)
            found.append((key, one.value))
    return found
