"""What users hold on to: the names, and that they stay where they are."""

from __future__ import annotations

import inspect
import pickle
import typing
from typing import Any

import pytest

import connect_share
import migrator
from connect_share import errors
from connect_share.state.config_fold import ListenerMethod


def test_the_list_of_public_names_is_sorted_and_whole() -> None:
    assert list(connect_share.__all__) == sorted(set(connect_share.__all__))
    for name in connect_share.__all__:
        assert getattr(connect_share, name) is not None


def test_every_error_is_public() -> None:
    for name, found in inspect.getmembers(errors, inspect.isclass):
        if issubclass(found, errors.ConnectShareError):
            assert name in connect_share.__all__


@pytest.mark.parametrize("name", ["EmbeddedError", "TopicIdRepairError"])
def test_a_name_that_moved_is_still_found(name: str) -> None:
    assert name not in connect_share.__all__
    with pytest.warns(DeprecationWarning, match=f"{name} has moved to connect_share"):
        assert issubclass(getattr(connect_share, name), errors.ConnectShareError)
    with pytest.raises(AttributeError, match="no attribute"):
        getattr(connect_share, f"No{name}")


def test_the_migrators_names_are_importable() -> None:
    assert {"KafkaConnectTopicMigrator", "Skipped", "SkipReason"} <= set(dir(migrator))


def test_every_event_of_the_config_fold_is_a_method_of_the_listener() -> None:
    methods = {name for name in vars(connect_share.ConfigUpdateListener) if name.startswith("on_")}
    assert set(typing.get_args(ListenerMethod)) == methods


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
