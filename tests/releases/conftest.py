"""The releases whose fixtures are here, each in a folder with its version as name."""

from __future__ import annotations

from pathlib import Path

import pytest

RELEASES = sorted(path.parent for path in Path(__file__).parent.glob("*/names.json"))


@pytest.fixture(params=RELEASES, ids=lambda path: str(path.name))
def release(request: pytest.FixtureRequest) -> Path:
    """The folder of a release."""
    path: Path = request.param
    return path
