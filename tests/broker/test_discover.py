"""``discover`` on a broker of its own: all sets of Connect's topics are found by content, and none is invented."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

import pytest

from connect_share.discover.survey import survey
from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.kafka.read import BoundedReader
from connect_share.worker_config import ClientSettings
from tests.lab.embedded.broker import LocalBroker
from tests.support.connect_member import ConnectMember
from tests.support.connect_sites import LOOK_ALIKES, build, twelve_sets
from tests.support.long_forms import LONG
from tests.support.topics import create_known, delete_known

OTHERS = 2_000 - 12 * 3 - len(LOOK_ALIKES) if LONG else 60


@pytest.mark.timeout(900 if LONG else 600)
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


def test_one_wait_for_all_that_is_deleted(own_broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted in front of each kind of question, asked once; whichever waits whether topics come back does so for an hour."""
    monkeypatch.setattr("connect_share.kafka.admin._SPREAD_S", 3_600)
    settings, again = ClientSettings({"bootstrap.servers": own_broker.bootstrap_servers}), list[set[str]]()
    gone = {call: {f"{call}-{n}" for n in range(3)} for call in ("describe_topics", "settings_of_topics", "bounds")}
    once = {**gone}
    with Admin(settings, client_id="tests") as admin, Admin(settings, client_id="another") as other:
        for topic in {"stays"}.union(*gone.values()):
            create_known(other, NewTopicRequest(topic, 1, 1, {"cleanup.policy": "compact"}))

        def ask(call: str, asked: Collection[Any], **named: Any) -> Any:
            if named.get("expected"):
                again.append({*asked})
                return {}
            delete_known(other, *once.pop(call))
            return getattr(Admin, call)(admin, asked, **named)

        for call in gone:
            monkeypatch.setattr(admin, call, partial(ask, call))
        found = survey(admin, partial(BoundedReader, settings), most=10)
    assert again == [set().union(*gone.values())]
    assert found.kafka.places.keys() - gone["bounds"] == {"stays"}
    assert found.unreadable.keys() == gone["bounds"]
