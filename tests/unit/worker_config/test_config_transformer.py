"""References to config providers in connector configurations: resolved for connectors, turned back for topics."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connect_share import (
    ClusterConfigState,
    ConfigData,
    ConfigError,
    ConnectorTaskId,
    MemoryConfigBackingStore,
    MemoryTopic,
    UsageError,
    ValueFormatError,
    WorkerConfig,
    WorkerConfigTransformer,
    replay_config,
    task_configs_changed,
)
from connect_share.model.config import connector_config_record, task_commit_record, task_config_record
from connect_share.model.records import Record
from connect_share.worker_config.config_providers import has_reference
from tests.support import worker_files

WORKER = {
    **worker_files.WORKER,
    **worker_files.providers(file="File", directory="Directory", env="EnvVar"),
    "config.providers": "file,directory,env,vault,java",
    "config.providers.env.param.allowlist.pattern": "SHARE_.*",
    "config.providers.vault.class": "com.example.VaultConfigProvider",
    "config.providers.vault.param.address": "https://vault:8200",
    "config.providers.java.class": "com.example.OnlyJava",
}
SECRET = "hunter2-zebra"


class Vault:
    """A provider of one's own; answers with what it was given, or raises it."""

    def __init__(self, answers: Mapping[str, Any] | None = None) -> None:
        self.answers = answers or {}
        self.parameters: dict[str, str] = {}
        self.asked: list[tuple[str, set[str]]] = []
        self.closed = 0

    def configure(self, configs: Mapping[str, str]) -> None:
        self.parameters = dict(configs)

    def get(self, path: str, keys: Set[str]) -> ConfigData:
        self.asked.append((path, set(keys)))
        answer = self.answers.get(path, ConfigData({}))
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    def close(self) -> None:
        self.closed += 1


def transformer(vault: Vault | None = None, clock: Callable[[], float] = lambda: 100.0) -> WorkerConfigTransformer:
    worker = WorkerConfig.from_properties(WORKER)
    return WorkerConfigTransformer(worker, providers={"vault": vault or Vault()}, clock=clock)


def state_of(*pairs: tuple[bytes, bytes]) -> ClusterConfigState:
    return replay_config([Record("configs", 0, number, 0, *pair) for number, pair in enumerate(pairs)])


def test_each_provider_answers_once_for_each_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s.properties").write_text("user=alice\n", "utf-8")
    (tmp_path / "pin").write_text("4711", "utf-8")
    monkeypatch.setenv("SHARE_HOST", "db")
    monkeypatch.setenv("HOME_OF_OTHERS", SECRET)
    vault = Vault(
        {"db/prod": ConfigData({"password": "p", "more": "never asked"}), "": ConfigData({"k": "${env:SHARE_HOST}"})}
    )
    raw = {
        "url": f"${{file:{tmp_path}/s.properties:user}}:${{vault:db/prod:password}}@${{env:SHARE_HOST}}",
        "again": "${vault:db/prod:password}${vault:db/prod:user}",
        "pin": f"${{directory:{tmp_path}:pin}}",
        "not again": "${vault:k}",
        "forbidden": "${env:HOME_OF_OTHERS}",
        "unknown": "${nobody:a:b}",
        "number": 7,
        "nothing": None,
    }
    assert transformer(vault).transform(raw) == {
        **raw,
        "url": "alice:p@db",
        "again": "p${vault:db/prod:user}",
        "pin": "4711",
        "not again": "${env:SHARE_HOST}",
    }
    assert sorted(vault.asked) == [("", {"k"}), ("db/prod", {"password", "user"})]
    assert vault.parameters == {"address": "https://vault:8200"}


def test_a_store_writes_the_references_of_tasks() -> None:
    topic = MemoryTopic()
    herder = MemoryConfigBackingStore(topic, config_transformer=transformer(Vault({"p": ConfigData({"k": SECRET})})))
    raw = MemoryConfigBackingStore(topic)
    for store in (herder, raw):
        store.start()
    herder.put_connector_config("c", {"name": "c", "password": "${vault:p:k}"})
    config = herder.snapshot().connector_config("c")
    assert config == {"name": "c", "password": SECRET}
    herder.put_task_configs("c", [config, {**config, "url": "u"}])
    assert [raw.snapshot().task_config(task) for task in raw.snapshot().tasks("c")] == [
        {"name": "c", "password": "${vault:p:k}"},
        {"name": "c", "password": "${vault:p:k}", "url": "u"},
    ]
    with pytest.raises(UsageError, match="there is no connector 'd'"):
        herder.put_task_configs("d", [config])
    with pytest.raises(ValueFormatError):
        herder.put_task_configs("c", [config, None])  # type: ignore[list-item]


def test_a_worker_file_is_resolved_by_providers_of_ones_own() -> None:
    vault = Vault({"kafka": ConfigData({"password": SECRET})})
    config = WorkerConfig.from_properties(
        {**WORKER, "ssl.key.password": "${vault:kafka:password}"}, providers={"vault": vault}
    )
    assert config.originals["ssl.key.password"] == SECRET
    assert (vault.parameters, vault.closed) == ({"address": "https://vault:8200"}, 0)
    with pytest.raises(
        ConfigError, match=r"ssl\.key\.password: config provider 'vault' has nothing under 'gone' in kafka"
    ):
        WorkerConfig.from_properties({**WORKER, "ssl.key.password": "${vault:kafka:gone}"}, providers={"vault": vault})


def test_providers_are_closed_with_the_transformer() -> None:
    vault = Vault()
    with transformer(vault):
        assert vault.closed == 0
    assert vault.closed == 1


def test_snapshots_stay_raw_unless_a_transformer_is_handed_in() -> None:
    raw = {"name": "c", "password": "${vault:a:b}"}
    task = ConnectorTaskId("c", 0)
    state = state_of(connector_config_record("c", raw), task_config_record(task, raw), task_commit_record("c", 1))
    vault = Vault({"a": ConfigData({"b": SECRET})})
    resolved = state.transformed_by(transformer(vault))
    for config in (state.connector_config("c"), state.task_config(task), state.applied_connector_config("c")):
        assert config == raw
    for config in (resolved.connector_config("c"), resolved.task_config(task), resolved.applied_connector_config("c")):
        assert config == {"name": "c", "password": SECRET}
    assert resolved.raw_connector_config("c") == resolved.raw_task_config(task) == raw
    assert resolved.all_task_configs("c") == {task: raw}
    assert resolved.connector_config("gone") is resolved.task_config(ConnectorTaskId("c", 1)) is None
    assert SECRET not in repr(resolved)
    assert resolved == state == resolved.transformed_by(None)


def test_a_secret_that_changed_makes_tasks_be_written_again() -> None:
    raw = {"name": "c", "password": "${vault:a:b}"}
    record = task_config_record(ConnectorTaskId("c", 0), raw)
    pairs = [connector_config_record("c", raw), record, task_commit_record("c", 1)]
    vault = Vault({"a": ConfigData({"b": "old"})})
    one = transformer(vault)
    state = state_of(*pairs).transformed_by(one)
    assert not task_configs_changed(state, "c", [raw])
    assert task_configs_changed(state, "c", [raw, raw])
    assert task_configs_changed(state, "c", [{**raw, "more": "x"}])
    vault.answers = {"a": ConfigData({"b": "new"})}
    assert task_configs_changed(state, "c", [raw])
    assert not task_configs_changed(state.transformed_by(None), "c", [raw])
    one.forget("c")
    assert not task_configs_changed(state, "c", [raw])
    changed = state_of(*pairs, connector_config_record("c", {**raw, "topics": "t"}))
    assert task_configs_changed(changed, "c", [raw])


def test_the_shortest_time_to_live_reloads_a_connector_once() -> None:
    vault = Vault(
        {"short": ConfigData({"k": "a"}, 10_000), "long": ConfigData({"k": "b"}, 60_000), "": ConfigData({}, -1)}
    )
    now_s = [100.0]
    one = transformer(vault, lambda: now_s[0])
    raw = {"a": "${vault:long:k}", "b": "${vault:short:k}", "c": "${vault:k}"}
    one.transform(raw)
    one.transform({"c": "${vault:k}"}, connector="c")
    one.transform({**raw, "config.action.reload": " none "}, connector="c")
    assert one.next_reload_s() is None
    one.transform({**raw, "config.action.reload": "Restart"}, connector="c")
    one.transform({"a": "${vault:long:k}"}, connector="d")
    now_s[0] += 9
    one.transform(raw, connector="c")  # looking often does not put it off
    assert (one.reloads_due(), one.next_reload_s()) == ([], 1.0)
    now_s[0] += 1
    assert one.next_reload_s() == 0
    assert (one.reloads_due(), one.reloads_due(), one.next_reload_s()) == (["c"], [], 50.0)
    one.forget("d")
    assert one.next_reload_s() is None


@pytest.mark.parametrize("action", ["maybe", "", 7])
def test_an_unknown_reload_action_is_refused(action: object) -> None:
    with pytest.raises(ConfigError, match=r"^config\.action\.reload of connector 'c' has to be restart or none"):
        transformer().transform({"config.action.reload": action}, connector="c")


names = st.sampled_from(["name", "url", "password", "topics", "x"])
texts = st.lists(
    st.sampled_from(
        ["a", " ", "$", "${", "}", ":", "${vault:p:one}", "${vault:two}", "${vault:p:gone}", "${no:p:one}"]
    ),
    max_size=6,
).map("".join)
configs = st.dictionaries(names, texts, max_size=5)
KNOWN = {"p": ConfigData({"one": SECRET}), "": ConfigData({"two": "${vault:p:one}tortoise"})}


@example({"name": "${${vault:p:one}"}, {"url": f"pre-{SECRET}"}, set())
@given(
    configs,
    st.dictionaries(names, st.sampled_from(["${vault:p:one}", "changed", f"pre-{SECRET}", "tortoise"])),
    st.sets(names),
)
def test_no_secret_is_written_under_a_property_that_refers_to_it(
    raw: dict[str, str], changes: dict[str, str], left_out: set[str]
) -> None:
    one = transformer(Vault(KNOWN))
    task = {name: text for name, text in {**one.transform(raw), **changes}.items() if name not in left_out}
    written = one.reverse(raw, task)
    assert set(written) == set(task)
    for name, text in written.items():
        assert text == (raw[name] if has_reference(raw.get(name, "")) else task[name])
    still_there = sorted(name for name, text in written.items() if SECRET in text)
    if any(SECRET in text for text in one.transform(raw).values()):
        assert one.clear_text_secrets(raw, task) == still_there
    assert set(one.clear_text_secrets(raw, task)) <= set(changes)


def test_a_secret_that_the_connector_put_elsewhere_is_named() -> None:
    one = transformer(Vault({"p": ConfigData({"one": SECRET, "pin": "123"})}))
    raw = {"password": "${vault:p:one}", "pin": "${vault:p:pin}", "topics": "t"}
    task = {**one.transform(raw), "url": f"jdbc://u:{SECRET}@h", "port": "1234"}
    assert one.clear_text_secrets(raw, task) == ["url"]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (RuntimeError(f"403 for token {SECRET}"), "^x: config provider 'vault' failed with RuntimeError$"),
        (ConfigError("vault is sealed"), "^x: config provider 'vault': vault is sealed$"),
        (ConfigData({"k": 7}), "^x: config provider 'vault' has to answer with texts"),  # type: ignore[dict-item]
        (ConfigData({"k": SECRET}, 1.5), "^x: config provider 'vault' has to answer with texts"),  # type: ignore[arg-type]
        ({"k": SECRET}, "^x: config provider 'vault' failed with AttributeError$"),
    ],
)
def test_a_provider_that_fails_is_named_and_no_secret(answer: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        transformer(Vault({"p": answer})).transform({"x": "${vault:p:k}"})
    assert caught.value.property_name == "x"
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_no_repr_shows_a_secret() -> None:
    vault = Vault({"p": ConfigData({"k": SECRET}, 5)})
    one = transformer(vault)
    one.transform_applied("c", {"x": "${vault:p:k}"})
    assert SECRET not in repr(one)
    assert repr(ConfigData({"k": SECRET}, 5)) == "ConfigData(ttl_ms=5)"


def test_hostile_configurations_end_soon(tmp_path: Path) -> None:
    big = Vault({"p": ConfigData({"k": "x" * (1 << 20)})})
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for raw, text in (
        ({"x": "${vault:p:k}" * 17}, "^x: with its references replaced it is longer than 16 MiB"),
        ({f"x{n}": "${vault:p:k}" for n in range(17)}, "^x16: with its references replaced it is longer"),
        ({"x": "".join(f"${{vault:{n}:k}}" for n in range(257))}, "^x: more than 256 paths or 10000 keys"),
        ({"x": "".join(f"${{vault:p:{n}}}" for n in range(10_001))}, "^x: more than 256 paths or 10000 keys"),
        ({"x": "${file:/dev/zero:k}"}, "^x: config provider 'file': /dev/zero is not a file"),
        ({"x": f"${{file:{fifo}:k}}"}, "^x: config provider 'file': .*/fifo is not a file"),
        ({"x": "${file:/dev/ptmx:k}"}, "^x: config provider 'file': /dev/ptmx is not a file"),
        ({"a\x1b[2J": "${java:p:k}"}, r"^'a\\x1b\[2J': config provider 'java' is of class 'com\.example\.OnlyJava'"),
        ({"x": "${file:" + "a" * 100_000 + ":k}"}, r"^x: config provider 'file': .{200,260}$"),
        ({"x": "${env:p:k}"}, "^x: config provider 'env': environment variables have no path"),
    ):
        with pytest.raises(ConfigError, match=text):
            transformer(big).transform(raw)


@pytest.mark.parametrize("given_", [None, "text", [("a", "b")]])
def test_no_properties_are_refused(given_: Any) -> None:
    one = transformer()
    with pytest.raises(ValueFormatError, match="have to be a map, not"):
        one.transform(given_)
    for raw, resolved in (({}, given_), (given_, {})):
        with pytest.raises(ValueFormatError, match="have to be a map, not"):
            one.reverse(raw, resolved)
