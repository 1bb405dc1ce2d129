"""Fixtures that tests against the broker share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.migration_site import Site


@pytest.fixture
def site(broker: Any, unique: str, tmp_path: Path) -> Site:
    return Site(broker.bootstrap_servers, unique, tmp_path)
