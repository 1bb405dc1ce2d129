"""What users hold on to: the names, and that they stay where they are."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pickle
import re
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pytest

import connect_share
import connect_share.runtime
import connect_share.tasks
from connect_share import errors
from connect_share._old_modules import NEW_NAMES
from connect_share.model.config import ConfigEvent
from connect_share.stores.config import call_method
from tests.support.examples import PUBLIC_NAMES
from tests.support.programs import python


def test_the_list_of_public_names_is_sorted_and_whole() -> None:
    assert sorted(set(PUBLIC_NAMES)) == PUBLIC_NAMES
    for name in PUBLIC_NAMES:
        assert getattr(connect_share, name) is not None
    assert set(PUBLIC_NAMES) <= set(dir(connect_share))


_KAFKA_CLIENT = ["confluent_kafka"]
_ALL = ["connect_share.stores", "connect_share.storage", "fastavro", "jinja2"]


@pytest.mark.parametrize(
    ("statement", "left_out"),
    [
        ("import connect_share; connect_share.__version__", [*_KAFKA_CLIENT, *_ALL, "pydantic"]),
        ("from connect_share import prefix_key, Record", [*_KAFKA_CLIENT, *_ALL]),
        ("import connect_share; connect_share.errors.ConfigError", [*_KAFKA_CLIENT, *_ALL, "pydantic"]),
        ("import connect_share.cli.__main__", [*_KAFKA_CLIENT, *_ALL]),
        ("import migrator.cli.__main__", [*_KAFKA_CLIENT, *_ALL]),
        (
            "import migrator.cli.__main__, migrator.cli.apply",
            ["connect_share.stores", "connect_share.storage", "pyspark", "spark_jobs", "migrator.cutover", "jinja2"],
        ),
    ],
)
def test_what_is_not_needed_is_not_imported(statement: str, left_out: list[str]) -> None:
    program = f"{statement}\nimport sys\nprint([name for name in {left_out} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[]\n"


def test_every_public_name_is_in_the_reference() -> None:
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text("utf-8")
    named = re.findall(r"^\.\. auto(?:class|exception|function|data):: ([\w.]+)$", page, re.MULTILINE)
    assert len(named) == len(set(named))
    runtime = {f"connect_share.runtime.{name}" for name in vars(connect_share.runtime)["__all__"]}
    tasks = {f"connect_share.tasks.{name}" for name in connect_share.tasks.__all__}
    migrator = {f"migrator.{name}" for name in ("KafkaConnectTopicMigrator", "Skipped", "SkipReason")}
    core = {f"connect_share.{name}" for name in PUBLIC_NAMES if name != "__version__"}
    assert set(named) == core | runtime | tasks | migrator


def test_every_error_is_public() -> None:
    for name, found in inspect.getmembers(errors, inspect.isclass):
        if issubclass(found, errors.ConnectShareError) and not issubclass(found, errors.MigrationError):
            assert name in PUBLIC_NAMES


def test_a_name_that_moved_is_still_found() -> None:
    name = "TopicIdRepairError"
    assert name not in PUBLIC_NAMES
    with pytest.warns(DeprecationWarning, match=f"{name} has moved to connect_share.topic_ids.errors"):
        assert issubclass(getattr(connect_share, name), errors.ConnectShareError)
    with pytest.raises(AttributeError, match="no attribute"):
        getattr(connect_share, f"No{name}")


def test_every_event_of_the_config_fold_is_a_method_of_the_listener() -> None:
    calls: list[tuple[str, tuple[object, ...]]] = []

    class Recorder(connect_share.ConfigUpdateListener):
        def __getattribute__(self, name: str) -> Any:
            called = lambda *arguments: calls.append((name, arguments))  # noqa: E731
            return called if name.startswith("on_") else super().__getattribute__(name)

    for kind in typing.get_args(ConfigEvent):
        arguments = tuple(field.name for field in dataclasses.fields(kind))
        call_method(kind(*arguments), Recorder())
        assert set(calls[-1][1]) == set(arguments)
    methods = {name for name in vars(connect_share.ConfigUpdateListener) if name.startswith("on_")}
    assert {name for name, _ in calls} == methods - {"on_task_config_update"}  # which the one with the connector calls


def _errors() -> list[type[errors.ConnectShareError]]:
    found = [errors.ConnectShareError]
    for kind in found:
        found.extend(kind.__subclasses__())
    return sorted(set(found), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", _errors())
def test_errors_survive_pickling_with_their_context(kind: type[errors.ConnectShareError]) -> None:
    parameters = inspect.signature(kind.__init__).parameters.values()
    context: dict[str, Any] = {
        parameter.name: 1 for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    error = kind("what, where, what to do", **context)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == "what, where, what to do"
    assert vars(copy) == vars(error)
    assert kind.__doc__


@pytest.mark.parametrize(("old", "new"), NEW_NAMES.items())
def test_an_old_name_is_the_new_module(old: str, new: str) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} has moved to {new}") as warned:
        found = importlib.import_module(old)
    assert found is importlib.import_module(new)
    assert found.__name__ == new
    # The collector may find what another test has left just then.
    assert len([each for each in warned if each.category is DeprecationWarning]) == 1


def test_the_warning_names_the_line_that_imports() -> None:
    program = "import connect_share\n\nfrom connect_share.herder import RestartPlan\nprint(RestartPlan.__module__)"
    run = python("-W", "always", "-c", program)
    assert (run.returncode, run.stdout) == (0, "connect_share.runtime.restart_plan\n")
    assert "<string>:3: DeprecationWarning" in run.stderr
