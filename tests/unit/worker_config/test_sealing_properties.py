"""What a worker file says of sealed sharing, and what ``check worker-config`` says of its lines, key files and groups."""

from __future__ import annotations

import pickle
import traceback
from base64 import b64encode
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from connect_share.checks.sealing import check_sealing, compare_files
from connect_share.checks.worker_file import check_properties
from connect_share.errors import ConfigError
from connect_share.jar import INTERCEPTOR_CLASS
from connect_share.model.records import TopicType
from connect_share.sealing import KEYS_PROPERTY, SealingMode
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.secret_values import is_secret_property
from tests.support import worker_files
from tests.support.console import console
from tests.support.sealed import KEYS, key_text, keys_by_provider

STATUS_TOPIC = "status.storage.topic"
MODE = KEYS_PROPERTY.removesuffix(".keys")
SHARING = "connect.management.topic.sharing.support"
TEXT = key_text(7)
WORKER = {**worker_files.WORKER, "group.id": "orders", SHARING: "enabled"}
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


def test_keys_reach_no_client() -> None:
    assert is_secret_property(KEYS_PROPERTY)
    assert not is_secret_property(MODE)
    config = WorkerConfig.from_properties({**WORKER, KEYS_PROPERTY: TEXT})
    for settings in (config.client_settings(), config.consumer_settings(), config.producer_settings()):
        assert not [value for value in settings.properties.values() if MATERIAL in value]
    assert not [value for topic in TopicType for value in config.topic_settings(topic).values() if MATERIAL in value]
    assert pickle.loads(pickle.dumps(config)).sealing_keys == KEYS


RIGHT = {**WORKER, "interceptor.classes": INTERCEPTOR_CLASS}


VAULT = {"config.providers": "vault", "config.providers.vault.class": "com.acme.Vault"}
LITERAL, ADVICE = ("warning", KEYS_PROPERTY, "has the keys themselves"), ("note", KEYS_PROPERTY, "need the same keys")


def found(properties: dict[str, str], path: Path = Path("/nowhere/w")) -> list[tuple[str, str, str]]:
    """Severity, property and text."""
    checked = check_properties(properties)
    findings = list(check_sealing(path, properties, checked.config))
    assert MATERIAL not in str(findings)
    return [(one.severity.value, one.property_name, one.what) for one in findings]


def assert_found(actual: list[tuple[str, str, str]], *expected: tuple[str, str, str]) -> None:
    assert [one[:2] for one in actual] == [one[:2] for one in expected]
    assert all(words in one[2] for one, (*_, words) in zip(actual, expected, strict=True))


def test_a_file_without_keys_is_not_spoken_of() -> None:
    for lines in ({}, {MODE: "off"}, {KEYS_PROPERTY: " "}):
        assert found({**RIGHT, **lines}) == []


@pytest.mark.parametrize(
    ("mode", "more"),
    [
        (None, [ADVICE]),
        ("required", [ADVICE]),
        ("accept", [("note", MODE, "plain records are accepted, whoever wrote them"), ADVICE]),
        ("off", [("warning", MODE, "is off, but there are keys: nothing is sealed")]),
    ],
)
def test_what_a_mode_means(mode: str | None, more: list[tuple[str, str, str]]) -> None:
    mode_line = {} if mode is None else {MODE: mode}
    assert_found(found({**RIGHT, KEYS_PROPERTY: key_text(7), **mode_line}), LITERAL, *more)
    assert_found(found({**RIGHT, **VAULT, KEYS_PROPERTY: "${vault:a:b}", **mode_line}), *more)


def test_one_key_in_the_file_beside_references_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEALING_KEYS", key_text(7))
    provider = worker_files.providers(env="EnvVar")
    assert_found(found({**RIGHT, **provider, KEYS_PROPERTY: f"${{env:SEALING_KEYS}},{key_text(8)}"}), LITERAL, ADVICE)
    assert_found(found({**RIGHT, **provider, KEYS_PROPERTY: " ${env:SEALING_KEYS} "}), ADVICE)


@pytest.mark.parametrize(
    ("mode", "severity"), [(0o644, "warning"), (0o604, "warning"), (0o602, "warning"), (0o640, "note")]
)
def test_files_with_keys_that_others_can_read(tmp_path: Path, mode: int, severity: str) -> None:
    by_file = keys_by_provider(tmp_path)
    held = tmp_path / "keys.properties"
    held.chmod(mode)
    wide = (severity, KEYS_PROPERTY, f"{held}, which holds keys, can be read or changed by ")
    actual = found({**RIGHT, **by_file})
    assert_found(actual, wide, ADVICE)
    assert f"its mode is {mode:04o}; " in actual[0][2]
    own = tmp_path / "worker.properties"
    own.touch(mode)
    own.chmod(mode)
    worker_file = (severity, KEYS_PROPERTY, f"{own}, which holds keys, ")
    assert_found(found({**RIGHT, KEYS_PROPERTY: key_text(7)}, own), LITERAL, worker_file, ADVICE)
    assert_found(found({**RIGHT, **by_file}, own), wide, ADVICE)  # a worker file without keys may be read
    by_folder = {**worker_files.providers(dir="Directory"), KEYS_PROPERTY: f"${{dir:{tmp_path}:one}}"}
    (tmp_path / "one").write_text(key_text(7))
    (tmp_path / "one").chmod(mode)
    assert_found(found({**RIGHT, **by_folder}), (severity, KEYS_PROPERTY, f"{tmp_path / 'one'}, which holds"), ADVICE)
    for file in (held, own):
        file.chmod(0o600)
    assert_found(found({**RIGHT, **by_file}), ADVICE)
    assert_found(found({**RIGHT, KEYS_PROPERTY: key_text(7)}, own), LITERAL, ADVICE)


def test_a_file_that_is_not_there_is_left_to_others(tmp_path: Path) -> None:
    by_file = {**keys_by_provider(tmp_path), KEYS_PROPERTY: "${file:/nowhere/keys:keys}"}
    assert [one[0] for one in found({**RIGHT, **by_file})] == ["note"]


OTHER = key_text(7).replace("7:", "9:", 1)


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        ({}, {}, []),
        ({KEYS_PROPERTY: key_text(7)}, {KEYS_PROPERTY: key_text(7), MODE: "required"}, []),
        ({KEYS_PROPERTY: key_text(7, 8)}, {KEYS_PROPERTY: key_text(8, 7)}, []),
        ({KEYS_PROPERTY: key_text(7)}, {KEYS_PROPERTY: key_text(7, 8)}, [("warning", KEYS_PROPERTY)]),
        ({KEYS_PROPERTY: key_text(7)}, {KEYS_PROPERTY: key_text(8)}, [("error", KEYS_PROPERTY)]),
        ({KEYS_PROPERTY: key_text(7)}, {KEYS_PROPERTY: key_text(8, 7)}, [("error", KEYS_PROPERTY)]),
        ({KEYS_PROPERTY: key_text(9)}, {KEYS_PROPERTY: OTHER}, [("error", KEYS_PROPERTY)]),
        ({KEYS_PROPERTY: key_text(7)}, {}, [("error", KEYS_PROPERTY)]),
        ({KEYS_PROPERTY: key_text(7), MODE: "off"}, {}, []),
        ({KEYS_PROPERTY: key_text(7), MODE: "off"}, {KEYS_PROPERTY: key_text(7)}, [("error", KEYS_PROPERTY)]),
        ({KEYS_PROPERTY: key_text(7), MODE: "accept"}, {KEYS_PROPERTY: key_text(7)}, [("error", MODE)]),
        (
            {KEYS_PROPERTY: key_text(7), MODE: "accept"},
            {KEYS_PROPERTY: key_text(8)},
            [("error", MODE), ("error", KEYS_PROPERTY)],
        ),
        ({KEYS_PROPERTY: key_text(7), MODE: "accept"}, {KEYS_PROPERTY: key_text(8), "group.id": "other"}, []),
        ({**VAULT, KEYS_PROPERTY: "${vault:a:b}"}, {KEYS_PROPERTY: key_text(7)}, [("note", KEYS_PROPERTY)]),
        ({KEYS_PROPERTY: "x"}, {KEYS_PROPERTY: key_text(7)}, [("note", KEYS_PROPERTY)]),
        ({STATUS_TOPIC: "others"}, {}, [("error", STATUS_TOPIC)]),
        ({STATUS_TOPIC: "others"}, {"group.id": "other"}, []),
        ({STATUS_TOPIC: "others", "bootstrap.servers": "elsewhere:9092"}, {}, []),
        ({}, {"group.id": "other"}, []),
        ({}, {"group.id": "other", SHARING: "disabled"}, [("error", SHARING)]),
    ],
)
def test_files_of_one_group_are_compared(
    one: dict[str, str], two: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    files = [
        (Path(name), check_properties({**RIGHT, **more}))
        for name, more in (("a.properties", one), ("b.properties", two))
    ]
    for pair in permutations(files):
        compared = list(compare_files(pair))
        assert [(finding.severity.value, finding.property_name) for finding in compared] == expected
        assert all("a.properties" in finding.what and "b.properties" in finding.what for finding in compared)
        assert all(MATERIAL not in finding.what for finding in compared)
        assert b64encode(bytes([8]) * 32).decode()[:16] not in str(compared)


def test_several_files_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KAFKA_HOME", "CLASSPATH"):
        monkeypatch.delenv(name, raising=False)
    run: Any = console(capsys)
    files = []
    for number, keys in enumerate((key_text(7), key_text(8), key_text(7))):
        files.append(tmp_path / f"{number}.properties")
        lines = {**RIGHT, KEYS_PROPERTY: keys}
        files[-1].write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    words = ("check", "worker-config", "--offline")
    same = run(*words, files[0], files[2])
    assert (same.code, same.err) == (0, "")
    assert all(f"{files[number]}: right for topic sharing" in same.out for number in (0, 2))
    ran = run(*words, *files)
    assert ran.code == 1
    differ = f"error: {KEYS_PROPERTY} seals in one with a key that the other does not have"
    assert ran.out.splitlines()[-2:] == [
        f"{differ}: {one} and {two}, both of group orders" for one, two in (files[:2], files[1:])
    ]
    result = run(*words, *files, "--output", "json")
    assert (result.code, result.json["ok"], len(result.json["findings"])) == (1, False, 2)
    assert [each["file"] for each in result.json["files"]] == [str(file) for file in files]
    assert all(each["ok"] for each in result.json["files"])
    assert MATERIAL not in ran.out + result.out
    files[1].write_text(f"{SHARING}=enabled\n")
    assert run(*words, *files).code == 1
    (tmp_path / "bad").write_text("a=\\u00zz\n")
    broken = run(*words, files[0], tmp_path / "bad", "--output", "json")
    assert (broken.code, [each["ok"] for each in broken.json["files"]]) == (1, [True, False])
