"""``usage`` on real topics."""

from __future__ import annotations

import csv
from typing import Any

import pytest

from connect_share.kafka.client import producer
from connect_share.model.keys import prefix_key
from tests.support.captures import captured, fill
from tests.support.console import console
from tests.support.kafka import TestBroker
from tests.support.topics import pairs_of, send

GROUPS = {"com.acme.orders": "4.3.1", "billing": "3.9.2"}


def test_groups_their_cost_and_how_many_fit(
    broker: TestBroker, unique: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with broker.admin() as admin:
        flags = ["-B", broker.bootstrap_servers, *fill(broker.client_settings, admin, unique, GROUPS)]
        run = console(capsys)
        found: dict[str, Any] = run("usage", *flags, "--output", "json").json
        groups = {row["group"]: row for row in found["groups"]}
        assert groups.keys() == GROUPS.keys()
        for group, version in GROUPS.items():
            written = [record for name in ("configs", "offsets", "status") for record in captured(version, name)]
            assert groups[group]["records"] == len(written)
            assert groups[group]["bytes"] == sum(
                len(group) + 1 + len(record.key or b"") + len(record.value or b"") for record in written
            )
            # The captures are older than an hour.
            assert groups[group]["records_per_second"] == 0
        assert sum(row["share"] for row in groups.values()) == pytest.approx(1, abs=1e-3)
        assert found["most_groups"] > 100
        assert found["limited_by"] == "start"
        rows = list(csv.DictReader(run("usage", *flags, "--output", "csv").out.splitlines()))
        assert {row["group"]: int(row["records"]) for row in rows} == {
            group: row["records"] for group, row in groups.items()
        }
        text = run("usage", *flags, "--start-limit", "0.1").out
        assert "use a second set" in text
        assert text.splitlines()[0].startswith("GROUP")
    lately = [(prefix_key("billing", b'["c",{"n":%d}]' % number), b"{}") for number in range(36)]
    send(producer(broker.client_settings, client_id="tests"), pairs_of(f"{unique}-offsets", lately))
    found = run("usage", *flags, "--output", "json").json
    assert {row["group"]: row["records_per_second"] for row in found["groups"]} == {
        "billing": 0.01,
        "com.acme.orders": 0,
    }
