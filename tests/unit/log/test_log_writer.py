"""A log without a broker: positions, and what its writer hands to the client."""

from __future__ import annotations

import pytest

from connect_share.errors import BrokerError, StoreClosedError
from connect_share.log.tail import LogState
from connect_share.log.writer import LogWriter
from connect_share.worker_config import ClientSettings


def test_a_record_waits_for_the_one_before_it_with_its_key() -> None:
    settings = ClientSettings({"bootstrap.servers": "127.0.0.1:1"})
    writer = LogWriter("t", settings, client_id="test", acknowledged=lambda *_: None)
    sent = [writer.send(key, value, {}) for key, value in ((b"a", b"1"), (b"a", b"2"), (b"b", b"1"), (b"a", None))]
    assert {key: [each.value for each in behind] for key, behind in writer._behind.items()} == {
        b"a": [b"2", None],
        b"b": [],
    }
    writer.close(0.0)
    for each in sent:
        with pytest.raises((BrokerError, StoreClosedError)):
            each.result(30)


def test_positions_never_fall() -> None:
    state = LogState("t")
    assert state.advance({0: 5, 1: 0})
    assert not state.advance({0: 3, 1: 0})
    assert state.positions() == {0: 5, 1: 0}
