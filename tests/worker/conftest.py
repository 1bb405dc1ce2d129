"""Topics that tests with Java workers share."""

from __future__ import annotations

import pytest

from tests.support.java_groups import SharedTopics
from tests.support.kafka import TestBroker


@pytest.fixture
def topics(broker: TestBroker, unique: str) -> SharedTopics:
    """Shared topics of this test, which are empty."""
    made = SharedTopics(broker.client_settings, broker.bootstrap_servers, unique)
    made.create()
    return made
