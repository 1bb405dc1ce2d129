"""A log outlives its broker."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

import pytest

from connect_share.errors import BrokerError, ReadToEndTimeoutError
from tests.broker.log.conftest import Bench, Collected
from tests.support.long_forms import LONG

pytestmark = pytest.mark.kills_broker


@pytest.mark.slow
@pytest.mark.parametrize("crash", [True, *([False] if LONG else [])])
def test_log_goes_on_after_the_broker_is_back(own_broker: Any, unique: str, crash: bool) -> None:
    with ExitStack() as stack:
        bench = Bench(own_broker.bootstrap_servers, unique, stack)
        sink = Collected()
        log = bench.started(sink, spec=bench.spec(partitions=3))
        for i in range(10):
            log.send(b"k%d" % i, b"before").result(30)
        log.read_to_end(30)
        assert len(sink.records) == 10
        reader = bench.started(Collected(), producer_settings=None)
        (own_broker.kill if crash else own_broker.stop)()
        meanwhile = log.send(b"meanwhile", b"1")
        began = time.monotonic()
        with pytest.raises((BrokerError, ReadToEndTimeoutError)):
            log.read_to_end(0.5)
        with pytest.raises((BrokerError, ReadToEndTimeoutError)):
            reader.read_to_end(0.5)
        assert time.monotonic() - began < 29  # the deadline holds; other limits are 30 s
        own_broker.start()
        meanwhile.result(60)
        log.send(b"after", b"1").result(60)
        log.read_to_end(25)  # leaders and their epochs are new; nobody waits half a minute until the old ones expire
        keys = [record.key or b"" for record in sink.records]
        assert sorted(set(keys)) == sorted([b"k%d" % i for i in range(10)] + [b"meanwhile", b"after"])
        assert keys.count(b"k0") == 1
        assert sum(log.positions().values()) == sum(
            bench.admin.end_offsets((bench.topic, partition) for partition in range(3)).values()
        )
