"""Examples in docstrings that need a broker run as they are written."""

from __future__ import annotations

import doctest
from typing import Any

import pytest

from tests.support.docstring_examples import WORKER, examples, run


@pytest.mark.parametrize("example", examples(with_broker=True), ids=lambda example: example.name)
def test_an_example_is_right(shared: Any, example: doctest.DocTest) -> None:
    mode = "enabled" if "task_offset_writer" in example.name else "disabled"
    worker = shared.sharing(shared.group, exactly_once_source_support=mode)
    assert run(example, {WORKER: worker}) == ""
