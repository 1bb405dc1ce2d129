"""Which protocol a listener speaks, where nothing listens."""

from __future__ import annotations

import pytest

from connect_share.kafka.admin import wrong_protocol
from connect_share.worker_config import ClientSettings


@pytest.mark.parametrize(
    ("servers", "protocol"),
    [
        ("127.0.0.1:1", "ssl"),
        ("no-such-host.invalid:9092", "plaintext"),
        ("x:port", "ssl"),
        ("[::1]:1,127.0.0.1:1", "ssl"),
    ],
)
def test_at_a_closed_port_nothing_is_said_of_the_protocol(servers: str, protocol: str) -> None:
    assert wrong_protocol(ClientSettings({"bootstrap.servers": servers, "security.protocol": protocol})) is None
