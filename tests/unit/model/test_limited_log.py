"""Anybody may write thousands of records that are wrong: all are counted, and the first ones have a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from connect_share.model.config import ConfigFold
from connect_share.model.keys import ClusterGroupId
from connect_share.model.offsets import OffsetFold
from connect_share.model.records import Record
from connect_share.model.status import StatusFold

MANY = 3_000


@pytest.mark.parametrize(
    ("fold", "key"),
    [
        (lambda: ConfigFold(ClusterGroupId("g")), b"g.connector-c"),
        (ConfigFold, b"stray"),
        (lambda: StatusFold(ClusterGroupId("g")), b"g.status-connector-c"),
        (StatusFold, b"stray"),
        (lambda: OffsetFold(ClusterGroupId("g")), b"g.[%d"),
        (OffsetFold, b"stray"),
    ],
)
def test_a_line_for_the_first_and_a_count_for_all(
    fold: Callable[[], Any], key: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    made = fold()
    for at in range(MANY):
        made.apply(Record("t", 0, at, 0, key % at if b"%" in key else key, b"[7]"))
    assert sum(made.skipped.values()) == MANY
    assert len(caplog.records) == 100
    # What goes on for long is not forgotten.
    made._said.every_s = 0.0
    made.apply(Record("t", 0, MANY, 0, key % MANY if b"%" in key else key, b"[7]"))
    assert len(caplog.records) == 101
