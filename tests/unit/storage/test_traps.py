"""What embedders fell over: imports that warn, and a listener whose text is logged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from connect_share import (
    AsyncMemoryConnectStorage,
    ConfigUpdateListener,
    ConnectorTaskId,
    MemoryConfigBackingStore,
    MemoryConnectStorage,
    UsageError,
    WorkerConfig,
)
from connect_share.sealing import KEYS_PROPERTY
from connect_share.storage import TaskConfigsUpdated
from tests.support.programs import python
from tests.support.sealed import key_text
from tests.support.worker_files import SHARING, WORKER


@pytest.mark.parametrize(
    "module", ["connect_share.runtime.member", "connect_share.exporter", "connect_share.pytest_plugin"]
)
def test_an_import_warns_of_nothing(module: str) -> None:
    done = python("-W", "error", "-c", f"import {module}")
    assert (done.returncode, done.stderr) == (0, "")


def test_without_its_extra_a_runtime_says_what_to_install() -> None:
    done = python("-c", "import sys; sys.modules['kafka'] = None; import connect_share.tasks")
    assert done.stderr.rstrip().endswith("needs pip install 'kafka-python>=3.0.12,<3.1'")


def test_what_a_listener_raises_is_not_logged_whole(caplog: pytest.LogCaptureFixture) -> None:
    class Raising(ConfigUpdateListener):
        def on_connector_config_update(self, connector: str) -> None:
            raise KeyError("s3cret")

    caplog.set_level(logging.INFO)
    with MemoryConnectStorage(update_listener=Raising()) as storage:
        storage.config.put_connector_config("c", {"name": "c"})
        assert storage.config.listener_failures == 1
    assert "The update listener failed for ConnectorConfigUpdated: KeyError (raised at " in caplog.text
    assert "test_traps.py" in caplog.text
    assert "s3cret" not in caplog.text


def test_what_is_no_listener_is_refused() -> None:
    with pytest.raises(UsageError, match="object has no method on_connector_config_update"):
        MemoryConfigBackingStore().set_update_listener(object())  # type: ignore[arg-type]


class OfOld(ConfigUpdateListener):
    """Written before 0.4: Connect's own method."""

    def __init__(self) -> None:
        self.updated: list[Any] = []

    def on_task_config_update(self, tasks: Sequence[ConnectorTaskId]) -> None:
        self.updated.append([str(task) for task in tasks])


class OfNow(OfOld):
    def on_connector_tasks_update(self, connector: str, tasks: Sequence[ConnectorTaskId]) -> None:
        self.updated.append((connector, len(tasks)))


class NotDerived:
    """Has the methods of 0.3 by itself."""

    def __init__(self) -> None:
        self.updated: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("on_") or name == "on_connector_tasks_update":
            raise AttributeError(name)
        return self.updated.append if name == "on_task_config_update" else lambda *_: None


@pytest.mark.parametrize(
    ("listener", "heard"),
    [(OfNow(), [("a", 0), ("b", 1)]), (OfOld(), [[], ["b-0"]]), (NotDerived(), [(), (ConnectorTaskId("b", 0),)])],
    ids=["now", "old", "not derived"],
)
def test_a_listener_hears_of_which_connector_the_tasks_are(listener: Any, heard: list[Any]) -> None:
    with MemoryConnectStorage(update_listener=listener) as storage:
        for connector, tasks in (("a", []), ("b", [{"n": "0"}])):
            storage.config.put_connector_config(connector, {"name": connector})
            storage.config.put_task_configs(connector, tasks)
        assert storage.config.listener_failures == 0
    assert listener.updated == heard


def test_each_connector_without_tasks_is_an_event() -> None:
    """Events that are equal wait once: those of two connectors must not be."""

    async def run() -> list[Any]:
        async with AsyncMemoryConnectStorage() as storage:
            for connector in ("a", "b"):
                await storage.config.put_connector_config(connector, {"name": connector})
            events = storage.events()
            for connector in ("a", "b"):
                await storage.config.put_task_configs(connector, [])
        return [event async for event in events]

    assert asyncio.run(run()) == [TaskConfigsUpdated((), "a"), TaskConfigsUpdated((), "b")]


def test_a_worker_file_is_dumped_without_secrets() -> None:
    properties = {**WORKER, **SHARING, KEYS_PROPERTY: key_text(7), "sasl.password": "hunter2", "my.own": "hunter2"}
    worker = WorkerConfig.from_properties(properties)
    texts = [repr(worker), str(worker), str(worker.model_dump()), worker.model_dump_json()]
    for secret in ("hunter2", key_text(7)):
        assert [text for text in texts if secret in text] == []
    assert worker.model_dump()["group_id"] == "group-a"
    assert (worker.originals, worker.sealing_keys is not None) == (properties, True)
