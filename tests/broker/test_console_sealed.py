"""The console over a sealed group, the same group in plain, and what strangers wrote under the keys of the sealed one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connect_share.kafka.client import producer
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.keys import ClusterGroupId, prefix_key
from connect_share.model.records import Record
from tests.broker.test_console import Filled, worker_file
from tests.support.captures import TOPICS, captured, prefixed, rest_answers
from tests.support.checked import CAPTURED
from tests.support.kafka import TOPIC_PREFIX, TestBroker
from tests.support.sealed import all_sealed, key_text, keys_by_provider
from tests.support.topics import UNTOUCHED, create_known, pairs_of, send

SEALED_GROUP = ClusterGroupId("team.sealed")


@pytest.fixture(scope="module")
def sealed(broker: TestBroker) -> Iterator[Filled]:
    """What a worker wrote, sealed; the same as a plain group; and what strangers wrote under keys of the sealed one."""
    topics = Filled(broker.bootstrap_servers, f"{TOPIC_PREFIX}-sealed-{uuid.uuid4().hex[:6]}")
    records: list[Record] = []
    for kind, name in CAPTURED.items():
        for group in ("team-plain", SEALED_GROUP):
            written = prefixed(captured("4.3.1", name), group)
            sealed = all_sealed(written, kind, SEALED_GROUP)
            records += [replace(record, topic=topics.topic(name), partition=0) for record in sealed]
    strangers = [(b"connector-\x1b[2Jevil", b"\1\0\0\0\7"), (b"connector-my.conn", b'{"properties":{"evil":"yes"}}')]
    strangers += [(b"session-key", b"\1" + number.to_bytes(4, "big") + bytes(40)) for number in range(1_000, 4_000)]
    records += pairs_of(topics.topic("configs"), [(prefix_key(SEALED_GROUP, key), value) for key, value in strangers])
    with broker.admin() as admin:
        for name in TOPICS:  # one partition: the groups' keys would go to different ones, which are read in any order
            create_known(admin, NewTopicRequest(topics.topic(name), 1, 1, UNTOUCHED))
        try:
            send(producer(broker.client_settings, client_id="tests"), records)
            yield topics
        finally:
            admin.delete_topics([topics.topic(name) for name in TOPICS])


def keyed_worker_file(folder: Path, topics: Filled, keys: str) -> list[str]:
    path = worker_file(folder, topics, SEALED_GROUP, sharing=True)
    lines = "".join(f"{name}={value}\n" for name, value in keys_by_provider(folder, keys).items())
    path.write_text(path.read_text() + lines)
    return ["-w", str(path)]


def test_a_sealed_group_without_its_keys(sealed: Filled, call: Any) -> None:
    flags = [*sealed.flags(), "--output", "json"]
    rows = {row["group"]: row for row in call("get", "groups", *flags).json["groups"]}
    written = sum(len(captured("4.3.1", name)) for name in TOPICS)
    plain, mine = rows["team-plain"], rows[SEALED_GROUP]
    assert (plain["sealed"], plain["plain"], plain["refused"]) == ({}, written, 0)
    assert (mine["sealed"]["7"], mine["plain"], mine["refused"]) == (written, 1, 1)
    assert (len(mine["sealed"]), sum(mine["sealed"].values()) + mine["sealed_more"]) == (16, written + 3_000)
    assert (mine["connectors"], mine["tasks"], mine["source_partitions"]) == (None, None, None)
    table = {line.split()[0]: line.split() for line in call("get", "groups", *sealed.flags()).out.splitlines()}
    assert table["team-plain"][-1] == "-"
    assert table[SEALED_GROUP][1:4] == ["[sealed]"] * 3
    assert table[SEALED_GROUP][5:7] == ["7,", "1000,"]
    assert table[SEALED_GROUP][-3:] == ["more,", "plain,", "refused"]

    group = ["--group", SEALED_GROUP]
    connectors = call("get", "connectors", *flags, *group).json["connectors"]
    expected = rest_answers("4.3.1")["connectors_expanded"]
    assert {row["connector"] for row in connectors} >= {*expected, "\x1b[2Jevil"}
    assert {(row["state"], row["target_state"], row["worker_id"]) for row in connectors} == {
        ("[sealed]", "[sealed]", None)
    }
    users = call("get", "connectors", *flags, *group, "--topic", "server1.inventory.customers").json["connectors"]
    assert {row["connector"] for row in users} == {"a.b-c-1", "my.conn"}  # active ones are named by keys
    assert {row["state"] for row in call("get", "tasks", *flags, *group).json["tasks"]} == {"[sealed]"}
    assert {row["state"] for row in call("get", "statuses", *flags, *group).json["statuses"]} == {"[sealed]"}
    ran = call("get", "offsets", *flags, *group)
    assert {row["offset"] for row in ran.json["offsets"]} == {"[sealed]"}
    assert f"has sealed values of {SEALED_GROUP}: only what the keys of such records say is shown" in ran.err


def test_what_would_open_a_sealed_group_is_named(sealed: Filled, call: Any) -> None:
    property_name = "connect.management.topic.sharing.encryption.keys"
    words = ["describe", "connector", "my.conn", *sealed.flags(), "--group", SEALED_GROUP, "--show-values"]
    (described,) = call(*words, "--output", "json").json["connectors"]
    assert (described["config"], described["active_topics"], described["opens_with"]) == ("[sealed]",) * 2 + (
        property_name,
    )
    assert [row["offset"] for row in described["offsets"]] == ["[sealed]"]
    assert {row["kind"] for row in described["newest_records"]} >= {"connector", "task", "commit", "status-connector"}
    assert all(row["size"] and row["timestamp_ms"] for row in described["newest_records"])
    # Times are known without keys, in the words of who wrote: those of a stranger for the configuration.
    newest = [record for record in captured("4.3.1", "offsets") if b'"my.conn"' in (record.key or b"")][-1]
    assert [row["written_ms"] for row in described["offsets"]] == [newest.timestamp_ms]
    assert described["config_written_ms"] == max(
        row["timestamp_ms"] for row in described["newest_records"] if row["kind"] == "connector"
    )
    shown = call(*words).out
    assert f"{property_name} in the worker file of the group; give it with -w FILE" in shown
    assert "configuration: [sealed]" in shown
    assert "evil" not in shown
    words = ["describe", "group", SEALED_GROUP, *sealed.flags()]
    shown = call(*words).out
    assert f"{property_name} in the worker file of the group; give it with -w FILE" in shown
    assert "the ids are what the records claim" in shown
    assert "  my.conn: [sealed]\n" in shown
    assert "  \\x1b[2Jevil: [sealed]\n" in shown
    assert call(*words, "--output", "json").json["opens_with"] == property_name
    plain = call("describe", "group", "team-plain", *sealed.flags())
    assert "my.conn: RUNNING" in plain.out
    assert "opens" not in plain.out
    assert call("describe", "group", "nope", *sealed.flags()).code == 1


def test_with_its_keys_a_sealed_group_is_as_a_plain_one(sealed: Filled, call: Any, tmp_path: Path) -> None:
    mine = [*keyed_worker_file(tmp_path, sealed, key_text(8, 7)), "--output", "json", "--group"]
    for words, what in (
        (["get", "connectors"], "connectors"),
        (["get", "tasks"], "tasks"),
        (["get", "offsets"], "offsets"),
    ):
        opened, plain = (call(*words, *mine, group).json[what] for group in (SEALED_GROUP, "team-plain"))
        assert opened
        assert [{**row, "group": ""} for row in opened] == [{**row, "group": ""} for row in plain]
    words = ["describe", "connector", "my.conn", "--show-values", *mine]
    opened, plain = (call(*words, group).json["connectors"][0] for group in (SEALED_GROUP, "team-plain"))
    assert {**opened, "group": ""} == {**plain, "group": ""}
    (row,) = call("get", "groups", *mine, SEALED_GROUP).json["groups"]
    assert (list(row["sealed"]), row["plain"], row["refused"]) == (["7"], 1, 3_001)
