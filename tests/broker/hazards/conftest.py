"""Stores on topics of a test's own, as in the tests of the stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.broker.stores.conftest import Shared


@pytest.fixture
def shared(broker: Any, unique: str) -> Iterator[Shared]:
    with ExitStack() as stack:
        yield Shared(broker.bootstrap_servers, unique, stack)
