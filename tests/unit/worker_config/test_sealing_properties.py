"""What a worker file says of sealed sharing: keys, where they come from, and the mode."""

from __future__ import annotations

import pickle
import traceback
from base64 import b64encode
from pathlib import Path

import pytest

from connect_share.checks.finding import Severity
from connect_share.checks.worker_file import check_properties
from connect_share.errors import ConfigError
from connect_share.jar import INTERCEPTOR_CLASS
from connect_share.model.records import TopicType
from connect_share.sealing import KEYS_PROPERTY, SealingMode
from connect_share.worker_config import TopicSet, WorkerConfig
from connect_share.worker_config.client_settings import is_secret_property
from tests.support import worker_files
from tests.support.sealed import KEYS, key_text

MODE = KEYS_PROPERTY.removesuffix(".keys")
SHARING = "connect.management.topic.sharing.support"
TEXT = key_text(7)
WORKER = {
    **worker_files.WORKER,
    "group.id": "orders",
    SHARING: "enabled",
}
MATERIAL = b64encode(bytes([7]) * 32).decode()[:16]


def test_keys_seal_and_are_required_unless_the_file_says_otherwise() -> None:
    config = WorkerConfig.from_properties({**WORKER, KEYS_PROPERTY: f" {TEXT} "})
    assert (config.sealing_keys, config.sealing_mode) == (KEYS, SealingMode.REQUIRED)
    for word in ("accept", " ACCEPT ", "required", "off"):
        config = WorkerConfig.from_properties({**WORKER, KEYS_PROPERTY: TEXT, MODE: word})
        assert config.sealing_mode is SealingMode(word.strip().lower())
    for nothing in ({}, {KEYS_PROPERTY: " ", MODE: "off"}, {MODE: "off"}):
        config = WorkerConfig.from_properties({**WORKER, **nothing})
        assert (config.sealing_keys, config.sealing_mode) == (None, SealingMode.OFF)


@pytest.mark.parametrize(
    ("given", "name", "why"),
    [
        ({MODE: "required"}, KEYS_PROPERTY, "is missing; .*encryption=required needs keys"),
        ({KEYS_PROPERTY: " "}, KEYS_PROPERTY, "is empty, and nothing would be sealed"),
        ({MODE: "accept"}, KEYS_PROPERTY, "is missing; .*encryption=accept needs keys"),
        ({MODE: "on", KEYS_PROPERTY: TEXT}, MODE, "has to be one of required, accept, off"),
        ({KEYS_PROPERTY: TEXT, SHARING: "disabled"}, KEYS_PROPERTY, "is there, but .*support is not enabled"),
        ({KEYS_PROPERTY: f"{TEXT},8:{MATERIAL}"}, KEYS_PROPERTY, "entry 2 of the keys has no base64"),
        ({KEYS_PROPERTY: MATERIAL}, KEYS_PROPERTY, "entry 1 of the keys has no colon"),
        ({KEYS_PROPERTY: f"{TEXT},8"}, KEYS_PROPERTY, "entry 2 of the keys has no colon"),
        ({KEYS_PROPERTY: "x", MODE: "off"}, KEYS_PROPERTY, "entry 1"),
        ({KEYS_PROPERTY: "${vault:a:keys}"}, KEYS_PROPERTY, "refers to a config provider that is not declared"),
    ],
)
def test_what_is_wrong_is_named_and_never_shown(given: dict[str, str], name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name}:? {why}") as caught:
        WorkerConfig.from_properties({**WORKER, **given})
    assert caught.value.property_name == name
    assert MATERIAL not in "".join(traceback.format_exception(caught.value))


def test_plain_workers_may_have_keys_that_are_off() -> None:
    WorkerConfig.from_properties({**WORKER, KEYS_PROPERTY: TEXT, MODE: "off", SHARING: "disabled"})


def test_keys_by_config_providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = "org.apache.kafka.common.config.provider."
    providers = {
        "config.providers": "file,dir,env",
        "config.providers.file.class": package + "FileConfigProvider",
        "config.providers.dir.class": package + "DirectoryConfigProvider",
        "config.providers.env.class": package + "EnvVarConfigProvider",
    }
    (tmp_path / "keys.properties").write_text(f"keys={TEXT}\n")
    (tmp_path / "keys").write_text(f"{TEXT}\n")  # as an editor leaves it
    monkeypatch.setenv("SEALING_KEYS", TEXT)
    for text in (f"${{file:{tmp_path}/keys.properties:keys}}", f"${{dir:{tmp_path}:keys}}", "${env:SEALING_KEYS}"):
        assert WorkerConfig.from_properties({**WORKER, **providers, KEYS_PROPERTY: text}).sealing_keys == KEYS
    both = f"${{env:SEALING_KEYS}},{key_text(8)}"
    ring = WorkerConfig.from_properties({**WORKER, **providers, KEYS_PROPERTY: both}).sealing_keys
    assert ring is not None
    assert ring.ids == (7, 8)


def test_keys_are_secret(tmp_path: Path) -> None:
    assert is_secret_property(KEYS_PROPERTY)
    assert not is_secret_property(MODE)
    config = WorkerConfig.from_properties({**WORKER, KEYS_PROPERTY: TEXT})
    file = tmp_path / "worker.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in {**WORKER, KEYS_PROPERTY: TEXT}.items()))
    topics = TopicSet.from_worker_file(file)
    for shown in (config, topics, topics.worker, config.client_settings(), config.consumer_settings()):
        assert MATERIAL not in f"{shown!r}{shown}"
    for settings in (config.client_settings(), config.consumer_settings(), config.producer_settings()):
        assert not [value for value in settings.properties.values() if MATERIAL in value]
    assert not [value for topic in TopicType for value in config.topic_settings(topic).values() if MATERIAL in value]
    assert pickle.loads(pickle.dumps(config)).sealing_keys == KEYS


RIGHT = {**WORKER, "interceptor.classes": INTERCEPTOR_CLASS}


def test_check_of_keys_that_only_the_worker_can_reach() -> None:
    vault = {"config.providers": "vault", "config.providers.vault.class": "com.acme.Vault"}
    for mode in ({}, {MODE: "required"}, {MODE: "accept"}):
        checked = check_properties({**RIGHT, **vault, **mode, KEYS_PROPERTY: "${vault:a:keys}"})
        assert [(one.severity, one.property_name) for one in checked.findings] == [(Severity.WARNING, KEYS_PROPERTY)]
        assert "this command cannot follow it; the worker may" in checked.findings[0].what
        assert checked.config is not None


def test_check_of_a_mode_without_keys() -> None:
    found = check_properties({**RIGHT, MODE: "required"}).findings
    assert [(one.severity, one.property_name) for one in found] == [(Severity.ERROR, KEYS_PROPERTY)]
