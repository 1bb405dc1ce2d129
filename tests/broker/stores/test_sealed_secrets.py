"""Secrets of a sealed group, and its keys, are nowhere: not on the broker's disk, in logs, errors, or what is shown."""

from __future__ import annotations

import faulthandler
import logging
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest

from connect_share.errors import ConfigError
from connect_share.model.config_state import SessionKey
from connect_share.sealing import KEYS_PROPERTY
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from tests.lab.embedded.broker import LocalBroker
from tests.lab.embedded.worker import write_properties
from tests.support.console import console
from tests.support.migration_site import run as migrate
from tests.support.sealed import key_text
from tests.support.sealed_stores import MODE, SECRET, SHARING, believed, fresh, put, worker

pytestmark = pytest.mark.broker

PLAIN = b"hunter2-plain"
"""The secret of a cluster that does not share and does not seal: what looks for secrets has to find this one."""
KEYS = [entry.partition(":")[2] for entry in key_text(7, 8).split(",")]
OF_KEYS = [each.encode() for key in KEYS for each in (key, key.rstrip("="), b64decode(key).hex(), str(b64decode(key)))]
OF_KEYS += map(b64decode, KEYS)
WHATS = ("groups", "connectors", "tasks", "offsets", "statuses")
OF_VALUES = [SECRET, b64encode(SECRET), SECRET.hex().encode()]


@pytest.fixture
def broker(own_broker: LocalBroker) -> LocalBroker:
    """A broker whose disk can be read."""
    return own_broker


def test_secrets_of_a_sealed_group_are_nowhere(
    shared: Any,
    broker: LocalBroker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    checkpoint = tmp_path / "checkpoint"
    own = shared.properties("own") | {f"{kind}.storage.topic": f"{shared.unique}-own-{kind}" for kind in shared.topics}
    with ConnectStorage(WorkerConfig.from_properties(own)) as plain:
        plain.config.put_connector_config("p", {"name": "p", "password": PLAIN.decode()})
    shown = []
    with ConnectStorage(worker(shared, key_text(7, 8)), checkpoint=checkpoint) as storage:
        put(storage)
        storage.config.put_session_key(SessionKey(SECRET, "HmacSHA256", 1))
        stores = (storage.config, storage.status, storage.offsets)
        shown += [repr(each) for each in (storage, *stores, *believed(storage), worker(shared, key_text(7, 8)))]
        shown += [repr(vars(each)) for each in stores]
        with (tmp_path / "dump").open("w") as dump:
            faulthandler.dump_traceback(dump)
        shown += [(tmp_path / "dump").read_text()]
        assert "Thread" in shown[-1]
    shared.write("config", [(b"group-a.connector-c", b"\1garbage"), (b"group-a.session-key", None)])
    fresh(shared, keys=key_text(7, 8))
    for keys, words in ((key_text(8), "is sealed with key 7"), (key_text(8)[:-2] + "*", "entry 1 of the keys")):
        with pytest.raises(ConfigError, match=words) as caught:
            fresh(shared, keys=keys)
        shown += [str(caught.value), repr(caught.value)]
    files = worker_files(shared, tmp_path, own)
    shown += printed(files["none"], capsys)
    everything = "".join((*shown, caplog.text)).encode()
    assert_nowhere(everything, OF_VALUES)
    # Who has the keys may be shown values, and never a key.
    planned = ("--source-worker-config", files["own"], "--destination-worker-config", files["accept"])
    code, out, err = migrate("plan", *planned, "-o", tmp_path / "plan.json")
    assert code == 0, err
    everything += "".join((*printed(files["sealed"], capsys), out, err, caplog.text)).encode()
    assert_nowhere(everything, OF_KEYS)
    assert PLAIN not in everything

    remembered = checkpoint.read_bytes()
    assert SECRET in remembered  # opened, as a checkpoint always is, and for its owner only
    assert checkpoint.stat().st_mode & 0o077 == 0
    assert_nowhere(remembered, OF_KEYS)
    assert_nowhere((tmp_path / "plan.json").read_bytes(), [*OF_KEYS, PLAIN])
    on_disk = [path.read_bytes() for path in broker.folder.rglob("*") if path.is_file()]
    assert any(PLAIN in data for data in on_disk)
    for data in on_disk:
        assert_nowhere(data, OF_VALUES + OF_KEYS)


def assert_nowhere(data: bytes, secrets: list[bytes]) -> None:
    """Do not show the data when it fails."""
    assert [number for number, secret in enumerate(secrets) if secret in data] == []


def worker_files(shared: Any, folder: Path, own: dict[str, str]) -> dict[str, Path]:
    properties = shared.properties("group-a") | SHARING
    sealed = properties | {KEYS_PROPERTY: key_text(7, 8)}
    accept = sealed | {MODE: "accept", "group.id": "group-new"}
    forms = {"none": properties, "sealed": sealed, "accept": accept, "own": own}
    return {name: write_properties(folder / f"{name}.properties", lines) for name, lines in forms.items()}


def printed(file: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What the command line says."""
    run = console(capsys)
    found = [run("get", what, "-w", file, "--all-groups") for what in WHATS]
    assert [ran.code for ran in found] == [0] * len(WHATS)
    assert "group-a" in found[0].out
    found += [run("describe", "connector", "c", "-w", file), run("check", "worker-config", file)]
    return [ran.out + ran.err for ran in found]
