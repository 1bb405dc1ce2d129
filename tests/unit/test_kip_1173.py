"""KIP-1173 as it is written, beside what we do: the smallest log on which the two differ.

One test or more for each point of docs/kip-1173.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from connect_share.model.keys import MARKER, ClusterGroupId, own_key, prefix_key, split_key
from connect_share.model.murmur2 import partition_for
from connect_share.model.records import Record, TopicType
from connect_share.replay import replay_config, replay_offsets
from migrator import KafkaConnectTopicMigrator, Skipped, SkipReason
from tests.support.records import JSON_NULL, TOMBSTONE, config_log, properties

ROOT = Path(__file__).parents[2]
B = ClusterGroupId("B")
CONFIG, STATUS, OFFSET = TopicType.CONFIG, TopicType.STATUS, TopicType.OFFSET
RUNNING = b'{"state":"RUNNING","trace":null,"worker_id":"w:8083","generation":1}'
STRAIGHT = {"destination.cluster.name": "B", "topic.type": "config"}


# The KIP as written


def parse_key(key: bytes | None) -> tuple[str, str] | None:
    """The KIP's ``parseKey``: Java's split at dots, which drops empty parts at the end; two parts or nothing."""
    parts = (key or b"").decode(errors="replace").split(".")
    while parts and not parts[-1]:
        parts.pop()
    return (parts[0], parts[1]) if len(parts) == 2 else None


def read_as_written(records: Iterable[Record], group: str, *, normal_flow: bool = False) -> Iterator[Record]:
    """What a store of the group is given.

    ``normal_flow`` takes the section on compatibility at its word: a key without a group id "goes into the normal
    flow". Otherwise such a record is skipped, as ``parseKey`` suggests.
    """
    for record in records:
        parts = parse_key(record.key)
        if parts is None:
            if normal_flow:
                yield record
        elif parts[0] == group:
            yield replace(record, key=parts[1].encode())


def position_of_everything(records: list[Record]) -> int:
    """The config position of a worker that filters behind the line that counts; values are all readable here."""
    return records[-1].offset + 1


def migrate_as_written(record: Record, destination: str) -> Record:
    """The KIP's transform in its default: the key gets the destination's prefix; nothing else is mentioned or changes."""
    return replace(record, key=prefix_key(destination, record.key or b""))


# Logs by hand


def record(key: bytes, value: bytes | None = b"{}", *, partition: int = 0, offset: int = 0) -> Record:
    return Record("topic", partition, offset, 1_000 + offset, key, value)


def cleaned(log: list[Record]) -> list[Record]:
    """What the cleaner leaves when tombstones have had their time."""
    newest = {entry.key: entry.offset for entry in log}
    return [entry for entry in log if newest[entry.key] == entry.offset and entry.value is not None]


# Keys


@pytest.mark.parametrize(
    ("topic_type", "group", "original"),
    [
        (CONFIG, "B", "connector-my.conn"),
        (CONFIG, "B", "logger-cluster-org.apache.kafka.connect"),
        (CONFIG, "com.acme", "connector-foo"),
        (STATUS, "B", "status-topic-server1.inventory.customers:connector-dbz"),
        (OFFSET, "B", '["foo",{"filename":"x.txt"}]'),
        (OFFSET, "B", '["foo",{"share":1.5}]'),
    ],
)
def test_keys_with_dots_are_lost(topic_type: TopicType, group: str, original: str) -> None:
    key = prefix_key(group, original.encode())
    assert parse_key(key) is None
    assert split_key(topic_type, key) == (group, original.encode())
    assert own_key(topic_type, key, ClusterGroupId(group)) == original.encode()


def test_a_dot_at_the_end_names_another_connector() -> None:
    log = config_log([("connector-foo", properties(a="1")), ("connector-foo.", properties(a="2"))], prefix="B.")
    as_written, ours = replay_config(read_as_written(log, B)), replay_config(log, B)
    assert as_written.connectors() == {"foo"}
    assert as_written.connector_config("foo") == {"a": "2"}  # that of the other one
    assert ours.connectors() == {"foo", "foo."}
    assert ours.connector_config("foo") == {"a": "1"}


# Plain records on shared topics


def test_under_the_normal_flow_a_removed_connector_comes_back() -> None:
    log = config_log([("connector-foo", properties()), ("B.connector-foo", properties()), ("B.connector-foo", None)])
    assert replay_config(read_as_written(log, B, normal_flow=True)).connectors() == frozenset()
    assert replay_config(read_as_written(cleaned(log), B, normal_flow=True)).connectors() == {"foo"}
    assert replay_config(cleaned(log), B).connectors() == frozenset()


# Offsets


def test_a_prefix_inside_the_name_is_part_of_a_name() -> None:
    inside = b'["B.foo",{}]'  # foo of group B, or B.foo of the plain cluster
    assert replay_offsets([record(inside)]).connectors() == {"B.foo"}
    in_front = [record(b'B.["foo",{}]', b'{"at":1}'), record(inside, b'{"at":2}')]
    assert replay_offsets(in_front, B).offset("foo", {}) == {"at": 1}
    assert replay_offsets(in_front).offset("B.foo", {}) == {"at": 2}


# The config topic's position


def test_foreign_records_move_the_position() -> None:
    own = config_log([("B.connector-a", properties())])
    foreign = config_log([("C.connector-a", properties())], first=1)
    # Two workers with the same state; one has read a little further. Connect compares for equality.
    assert (position_of_everything(own), position_of_everything([*own, *foreign])) == (1, 2)
    assert replay_config(own, B).offset == replay_config([*own, *foreign], B).offset == 1


@pytest.mark.parametrize("removal", [TOMBSTONE, JSON_NULL])
def test_a_cleaned_tombstone_moves_the_position_back(removal: bytes | None) -> None:
    """The filter in front of the position, the other way to read the KIP."""
    log = config_log(
        [
            ("B.connector-keep", properties()),
            ("B.connector-gone", properties()),
            ("B.target-state-gone", {"state": "PAUSED"}),
            ("B.connector-gone", removal),
            ("B.target-state-gone", removal),
            ("C.connector-other", properties()),
        ]
    )
    live, late = list(read_as_written(log, B)), list(read_as_written(cleaned(log), B))
    assert replay_config(live).connectors() == replay_config(late).connectors() == {"keep"}
    assert replay_config(live).offset == 5
    assert replay_config(late).offset == (1 if removal is TOMBSTONE else 5)
    assert replay_config(cleaned(log), B) == replay_config(late)
    # The marker heals what tombstones have done, in either reading.
    log.append(replace(log[-1], key=prefix_key(B, MARKER[0]), value=MARKER[1], offset=6))
    assert replay_config(cleaned(log), B).offset == replay_config(log, B).offset == 7
    assert replay_config(cleaned(log), B).connectors() == {"keep"}


# Migration


def test_a_copy_in_the_sources_partition_is_never_merged() -> None:
    plain = b'["foo",{"filename":"x.txt"}]'
    source = record(plain, b'{"at":1}', partition=partition_for(plain, 25))
    copied = migrate_as_written(source, "B")
    assert copied.key is not None
    home = partition_for(copied.key, 25)
    assert (copied.partition, home) == (0, 10)
    newer = replace(copied, value=b'{"at":2}', partition=home)  # what the connector writes afterwards
    # Partitions have no order: a worker believes the one that it reads last. Our stores have a rule.
    assert replay_offsets([copied], B).offset("foo", {"filename": "x.txt"}) == {"at": 1}
    for log in ([copied, newer], [newer, copied]):
        assert replay_offsets(log, B, partitions=25).offset("foo", {"filename": "x.txt"}) == {"at": 2}
    placed = replace(copied, partition=home)  # ours: one partition, one order, and the cleaner takes the old one
    assert replay_offsets([placed, newer], B).offset("foo", {"filename": "x.txt"}) == {"at": 2}


def test_the_default_gives_prefixed_keys_a_second_prefix() -> None:
    source = record(b"A.connector-foo", b'{"properties":{}}')
    twice = migrate_as_written(source, "B")
    assert twice.key == b"B.A.connector-foo"
    assert parse_key(twice.key) is None  # nobody's, for ever
    assert replay_config([twice], B).connectors() == frozenset()
    assert KafkaConnectTopicMigrator(STRAIGHT).apply(source) == Skipped(SkipReason.ALREADY_PREFIXED)


# The page


def test_the_page_names_a_test_for_each_point() -> None:
    page = (ROOT / "docs" / "kip-1173.md").read_text(encoding="utf-8")
    points = re.split(r"^### (?=\d+\. )", page, flags=re.MULTILINE)[1:]
    assert [int(point.split(".")[0]) for point in points] == list(range(1, len(points) + 1))
    named = re.compile(r"`(?:(tests/[\w/]+\.py)::)?(test_\w+)`")
    for point in points:
        assert named.findall(point.split("\n## ")[0]), point.splitlines()[0]
    here = {name for path, name in named.findall(page) if not path}
    mine = set(re.findall(r"^def (test_\w+)\(", Path(__file__).read_text(encoding="utf-8"), re.MULTILINE))
    assert {name for name in mine if "_the_page" not in name} == here


def test_figures_of_the_page_are_those_of_the_pages_it_names() -> None:
    page = (ROOT / "docs" / "kip-1173.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.*) \| \[.*\]\((.*)\) \|$", page.split("## Measured")[1], re.MULTILINE)
    assert rows
    number = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?!\w)")
    for row, link in rows:
        there = set(number.findall((ROOT / "docs" / link.partition("#")[0]).read_text(encoding="utf-8")))
        figures = set(number.findall(row.split(" | ")[1]))
        assert figures
        assert figures <= there, f"{link} says otherwise: measured again? {sorted(figures - there)}"
