"""``discover`` on a broker of its own: all sets of Connect's topics are found by content, and none is invented."""

from __future__ import annotations

from typing import Any

import pytest

from connect_share.worker_config import ClientSettings
from tests.lab.embedded.broker import LocalBroker
from tests.support.connect_member import ConnectMember
from tests.support.connect_sites import LOOK_ALIKES, build, twelve_sets
from tests.support.long_forms import LONG

OTHERS = 2_000 - 12 * 3 - len(LOOK_ALIKES) if LONG else 60


@pytest.mark.timeout(900 if LONG else 120)
def test_all_are_found_and_none_is_invented(own_broker: LocalBroker, call: Any) -> None:
    sets = twelve_sets()
    build(ClientSettings({"bootstrap.servers": own_broker.bootstrap_servers}), sets, OTHERS)
    with ConnectMember(own_broker.bootstrap_servers, "orders"):
        ran = call("discover", "-B", own_broker.bootstrap_servers, "--output", "json")
    assert (ran.code, ran.err) == (0, "")
    found = {row["topics"]["config"]: row for row in ran.json["clusters"]}
    wanted = {each.found()["config"]: each for each in sets}
    assert {name: row["topics"] for name, row in found.items()} == {name: each.found() for name, each in wanted.items()}
    for name, row in found.items():
        assert {group["group"] for group in row["groups"]} == set(wanted[name].groups)
        records = sum(count for group in row["groups"] for count in group["records"].values())
        assert records == sum(map(len, wanted[name].records.values()))
    assert [name for name, row in sorted(found.items()) if row["shared"]] == ["everybody", "second-home"]
    orders = next(group for group in found["everybody"]["groups"] if group["group"] == "orders")
    assert (orders["live_members"], found["zebra"]["live_members"]) == (1, 0)
    look_alikes = {each["topic"] for each in ran.json["look_alikes"]}
    assert look_alikes == {"charging-stations", "geo.features", "todo-list"}
    assert ran.json["unclaimed_offset_topics"] == ["ktable-changelog"]
    problems = {name: {problem["id"] for problem in row["problems"]} for name, row in found.items()}
    assert "discover-cleanup-policy" in problems["events-compacted"]
    assert "discover-config-partitions" in problems["two.partitions"]
    assert "discover-no-offset-topic" in problems["users-by-id"]
    assert problems["zebra"] == {"discover-one-replica"}
    savings = ran.json["savings"]
    assert (savings["shared"]["topics"], savings["on"]["config"]) == (3, "everybody")
    assert savings["topics"] == savings["now"]["topics"] - 3
