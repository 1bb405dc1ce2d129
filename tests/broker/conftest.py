"""Fixtures that tests against the broker share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.secure_broker import SecureBroker
from tests.support.migration_site import Site
from tests.support.printed import Printed
from tests.support.rights import RIGHTS, USERS, allow, rights_of


@pytest.fixture
def site(broker: Any, unique: str, tmp_path: Path) -> Site:
    return Site(broker.bootstrap_servers, unique, tmp_path)


@pytest.fixture
def quiet_site(own_broker: Any, unique: str, tmp_path: Path) -> Site:
    """On a broker of its own, for ``discover`` looks at every topic: on the shared broker at those of all tests."""
    return Site(own_broker.bootstrap_servers, unique, tmp_path)


@pytest.fixture
def printed(request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Printed]:
    """Run commands that were printed; at the end all that docs/remedies.md gives to the test have to be among them."""
    node, folder = request.node, Path(__file__).parents[1]
    file = node.path.relative_to(folder)
    runs = Printed({f"{file}::{node.originalname}", f"{file}::{node.name}"}, tmp_path, capsys)
    yield runs
    runs.require_all()


@pytest.fixture(scope="session")
def secure() -> Iterator[SecureBroker]:
    """A broker that wants TLS, a password and rights; its tests are in one process."""
    with SecureBroker(USERS) as broker:
        for user in RIGHTS:
            allow(broker, user, rights_of(user))
        yield broker
