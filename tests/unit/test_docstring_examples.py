"""Examples in docstrings run as they are written, and every public name that does something has one."""

from __future__ import annotations

import dataclasses
import doctest
import enum
import inspect

import pytest

import connect_share
from tests.support.examples import PUBLIC_NAMES, examples, run


@pytest.mark.parametrize("example", examples(with_broker=False), ids=lambda example: example.name)
def test_an_example_is_right(example: doctest.DocTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "")  # what an example sets is taken back
    assert run(example, {}) == ""


def test_every_public_name_has_an_example() -> None:
    # Errors, and data without behaviour, are in the examples of others. Transactions of the leader are made by its store.
    without = {"TransactionalWriter", "OffsetRange"}
    for name in PUBLIC_NAMES:
        found = getattr(connect_share, name)
        data = inspect.isclass(found) and (
            issubclass(found, (Exception, enum.Enum)) or dataclasses.is_dataclass(found) or found.__module__ == "typing"
        )
        if name in without or data or not callable(found) or getattr(found, "_is_protocol", False):
            continue
        assert ">>> " in (inspect.getdoc(found) or ""), name
