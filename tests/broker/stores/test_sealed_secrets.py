"""Secrets of a sealed group, and its keys, are nowhere: not on the broker's disk, in logs, errors, or what is shown."""

from __future__ import annotations

import logging
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connect_share.embedded.broker import LocalBroker
from connect_share.errors import ConfigError
from connect_share.sealing import KEYS_PROPERTY
from connect_share.state import SessionKey
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from tests.support.console import Ran, console
from tests.support.migration_site import run as migrate
from tests.support.sealed import key_text
from tests.support.sealed_stores import MODE, SECRET, SHARING, believed, fresh, put, worker

pytestmark = pytest.mark.broker

PLAIN = b"hunter2-plain"
"""The secret of a cluster that does not share and does not seal: what looks for secrets has to find this one."""
KEYS = [entry.partition(":")[2] for entry in key_text(7, 8).split(",")]
OF_KEYS = [each.encode() for key in KEYS for each in (key, key.rstrip("="), b64decode(key).hex(), str(b64decode(key)))]
OF_KEYS += map(b64decode, KEYS)
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
    shared.extra_topics |= {value for name, value in own.items() if name.endswith(".storage.topic")}
    with ConnectStorage(WorkerConfig.from_properties(own)) as plain:
        plain.config.put_connector_config("p", {"name": "p", "password": PLAIN.decode()})
    shown = []
    with ConnectStorage(worker(shared, key_text(7, 8)), checkpoint=checkpoint) as storage:
        put(storage)
        storage.config.put_session_key(SessionKey(SECRET, "HmacSHA256", 1))
        stores = (storage.config, storage.status, storage.offsets)
        shown += [repr(each) for each in (storage, *stores, *believed(storage), worker(shared, key_text(7, 8)))]
        shown += [repr(vars(each)) for each in stores]
    shared.write("config", [(b"group-a.connector-c", b"\1garbage"), (b"group-a.session-key", None)])
    fresh(shared, keys=key_text(7, 8))
    for keys, words in ((key_text(8), "is sealed with key 7"), (key_text(8)[:-2] + "*", "entry 1 of the keys")):
        with pytest.raises(ConfigError, match=words) as caught:
            fresh(shared, keys=keys)
        shown += [str(caught.value), repr(caught.value)]
    shown += [ran.out + ran.err for ran in printed(shared, tmp_path, own, capsys)]
    everything = "".join((*shown, caplog.text)).encode()
    assert_nowhere(everything, OF_VALUES + OF_KEYS)
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


def printed(shared: Any, folder: Path, own: dict[str, str], capsys: pytest.CaptureFixture[str]) -> Iterator[Ran]:
    """What the command lines say to somebody with the keys, and without."""
    properties = shared.properties("group-a") | SHARING
    sealed = properties | {KEYS_PROPERTY: key_text(7, 8)}
    forms = {
        "none": properties,
        "sealed": sealed,
        "accept": sealed | {MODE: "accept", "group.id": "group-new"},
        "own": own,
    }
    files = {name: folder / f"{name}.properties" for name in forms}
    for name, lines in forms.items():
        files[name].write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    run = console(capsys)
    for name in ("none", "sealed"):
        for what in ("groups", "connectors", "tasks", "offsets", "statuses"):
            ran = run("get", what, "-w", files[name], "--all-groups")
            assert ran.code == 0
            assert what != "groups" or "group-a" in ran.out
            yield ran
        yield run("describe", "connector", "group-a/c", "-w", files[name], "--show-values")
        yield run("describe", "connector", "c", "-w", files[name], "--show-values")
        yield run("check", "worker-config", files[name])
    for source, destination, code in (("sealed", "own", 1), ("own", "accept", 0)):
        words = ("plan", "--source-worker-config", files[source], "--destination-worker-config", files[destination])
        found, out, err = migrate(*words, "-o", folder / "plan.json")
        yield Ran(found, out, err)
        assert (found == 0) == (code == 0), err
