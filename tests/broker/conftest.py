"""Fixtures that tests against the broker share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.secure_broker import SecureBroker
from tests.support.console import Ran, console
from tests.support.migration_site import Site
from tests.support.rights import RIGHTS, USERS, allow, rights_of


@pytest.fixture
def site(broker: Any, unique: str, tmp_path: Path) -> Site:
    return Site(broker.bootstrap_servers, unique, tmp_path)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run ``connect-share``."""
    return console(capsys)


@pytest.fixture(scope="session")
def secure() -> Iterator[SecureBroker]:
    """A broker that wants TLS, a password and rights; its tests are in one process."""
    with SecureBroker(USERS) as broker:
        for user in RIGHTS:
            allow(broker, user, rights_of(user))
        yield broker
