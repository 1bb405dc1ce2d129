"""What lists show of contents, without a cluster, and of topics in which anybody may have invented groups."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from connect_share.cli.__main__ import main
from connect_share.cli.get import list_connectors, list_offsets
from connect_share.console.options import named_groups, shown_group
from connect_share.console.output import Result, Table
from connect_share.contents.group_room import LONGEST_ID, GroupRoom
from connect_share.contents.groups import Contents, TopicFold
from connect_share.discover.evidence import TopicEvidence
from connect_share.model.config import connector_config_record, task_commit_record, task_config_record
from connect_share.model.keys import ClusterGroupId, StatusKey, prefix_key
from connect_share.model.offsets import offset_key
from connect_share.model.records import ConnectorTaskId, Record, TopicType
from connect_share.model.status import ConnectorStatus, State, TaskStatus, status_record
from connect_share.sealing import KeyRing
from connect_share.sealing.cipher import Cipher
from connect_share.worker_config import WorkerConfig
from tests.support.checked import folded
from tests.support.sealed import GROUP, KEYS, sharing_worker

Pair = tuple[bytes, bytes | None]


def read(group: str = "g", **topics: Iterable[Pair]) -> Contents:
    """Fold records of one group, each written a millisecond after the one before."""
    found = Contents()
    for name, pairs in topics.items():
        kind = TopicType(name)
        records = [
            Record(name, 0, at, 1_000 + at, prefix_key(ClusterGroupId(group), key), value)
            for at, (key, value) in enumerate(pairs)
        ]
        found.topics[kind] = folded(kind, records, topic=name, timed=True)
    return found


def asked(**more: Any) -> argparse.Namespace:
    return argparse.Namespace(
        **({"connector": None, "topic": None, "states": None, "groups": None, "output": "json"} | more)
    )


def configs(name: str, tasks: int, written: int | None = None, **config: str) -> list[Pair]:
    number = tasks if written is None else written
    return [
        connector_config_record(name, {"name": name, **config}),
        *(task_config_record(ConnectorTaskId(name, task), {}) for task in range(number)),
        task_commit_record(name, tasks),
    ]


def status(name: str, state: State, *tasks: State) -> list[Pair]:
    return [
        status_record(ConnectorStatus(name, state, "w:1", 1)),
        *(status_record(TaskStatus(ConnectorTaskId(name, task), each, "w:1", 1)) for task, each in enumerate(tasks)),
    ]


def states() -> Contents:
    return read(
        config=[*configs("a", 1), *configs("b", 2), *configs("c", 2, 1), *configs("d", 3), *configs("e", 1)],
        status=[
            *status("a", State.RUNNING, State.RUNNING),
            *status("b", State.RUNNING, State.RUNNING, State.UNASSIGNED),
            *status("c", State.RUNNING, State.RUNNING),
            *status("d", State.RUNNING, State.FAILED),
            *status("e", State.FAILED, State.RUNNING, State.FAILED),
        ],
    )


def names(listing: Result) -> list[str]:
    return [row["connector"] for row in listing.members["connectors"]]


def test_failures_come_first_then_what_does_not_run() -> None:
    listing = list_connectors(states(), asked())
    assert names(listing) == ["d", "e", "b", "c", "a"]
    assert [cells[4] for table in listing.lines if isinstance(table, Table) for cells in table.rows] == [
        "3 (1 FAILED)",
        1,
        "2 (1 UNASSIGNED)",
        "2 (inconsistent)",
        1,
    ]
    rows = {row["connector"]: row["task_states"] for row in listing.members["connectors"]}
    assert rows["d"] == {"FAILED": 1, "UNKNOWN": 2}
    assert rows["e"] == {"RUNNING": 1}  # the failure is that of a task that there is no longer
    assert listing.members["states"] == {"FAILED": 1, "RUNNING": 4}
    assert listing.title == (
        "5 connectors: 1 FAILED, 4 RUNNING; their tasks: 1 FAILED, 1 UNASSIGNED, 4 RUNNING, 2 UNKNOWN"
    )


def test_an_empty_list_says_why() -> None:
    assert list_connectors(read(config=[]), asked(groups=["g"])).notes == [
        "no connectors were found in config: g has no records there"
    ]
    hidden = read(config=configs("a", 1))
    hidden.topics[TopicType.CONFIG].seals.clear()
    hidden.topics[TopicType.CONFIG].others = 3
    assert list_connectors(hidden, asked()).notes == [
        "no connectors were found in config; 3 records there of other groups: --all-groups shows them"
    ]


def test_offsets_that_a_worker_would_take_for_removals_are_left_out() -> None:
    partition = {"z": 1, "a": 2}
    pairs = [(offset_key("c", partition), b'{"position":7}'), (offset_key("c", {"f": 2}), b'"no offset"')]
    listing = list_offsets(read(offset=pairs), asked(connector="c"))
    assert (listing.bare, listing.members) == (True, {"offsets": [{"partition": partition, "offset": {"position": 7}}]})
    assert listing.notes == ["1 offset left out, for the value is no object"]
    ((pair,),) = listing.members.values()
    assert list(pair["partition"]) == ["z", "a"]  # the order is part of the key
    rows = list_offsets(read(offset=pairs), asked()).members["offsets"]
    assert [(row["offset"], row["written_ms"]) for row in rows] == [(None, 1_001), ({"position": 7}, 1_000)]


@pytest.mark.parametrize("at_ms", [-1, -(2**63), 2**63 - 1])
def test_times_are_what_a_writer_says(at_ms: int) -> None:
    key = StatusKey.CONNECTOR.key("c")
    group = ClusterGroupId("g")
    record = Record("s", 0, 0, at_ms, prefix_key(group, key), b"{}")
    found = Contents({TopicType.STATUS: folded(TopicType.STATUS, [record], timed=True)})
    assert found.written_ms(TopicType.STATUS, group, key) == (at_ms if at_ms >= 0 else None)
    assert found.written_ms(TopicType.STATUS, group) == (at_ms if at_ms >= 0 else None)


def test_invented_groups_are_folded_up_to_a_limit_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connect_share.contents.group_room.MOST_GROUPS", 3)
    records = [Record("t", 0, at, 0, b'g%d.["c",{"a":1}]' % (at % 5), b"{}") for at in range(20)]
    seen = folded(TopicType.OFFSET, records)
    assert [seen.records_of(ClusterGroupId(f"g{number}")) for number in range(5)] == [4, 4, 4, 0, 0]
    assert seen.others == 8
    (note,) = seen.notes
    assert "t has more than 3 groups, or too many keys of one: 8 record(s) were left out, of g3, g4;" in note
    asked_for = folded(TopicType.OFFSET, records, groups=[ClusterGroupId("g4")])
    assert ([*asked_for.seals], asked_for.records_of(ClusterGroupId("g4")), asked_for.notes) == (["g4"], 4, [])


@pytest.mark.parametrize("group", ["large.", ""], ids=["large", "plain keys"])
def test_who_has_too_many_keys_is_left_out_and_nobody_else(group: str) -> None:
    keys = [f'{who}["c",{{"n":{number}}}]' for number in range(5) for who in ("small.", "own.", group, group)]
    records = [Record("t", 0, at, 0, key.encode() + b"x" * (at % 4 == 3), b"{}") for at, key in enumerate(keys)]
    fold = TopicFold("t", TopicType.OFFSET, room=GroupRoom([ClusterGroupId("own")], 6_000), timed=True)
    fold.apply([each for each in records for _ in range(2)])
    seen = fold.contents()
    left = ClusterGroupId("large") if group else None
    assert {each: seen.records_of(each) for each in seen.groups} == {"small": 10, "own": 10}
    assert (left in seen.times, seen.others) == (False, 20)
    assert f"20 record(s) were left out, of {shown_group(left)};" in seen.notes[0]
    with_room = TopicFold("t", TopicType.OFFSET, room=GroupRoom([left], 6_000))
    with_room.apply(records)
    assert {*with_room.contents().groups} == {"small", "own", left}


def test_a_group_that_no_cluster_can_have_takes_no_room() -> None:
    """Ten thousand of such ids, a million characters each, are a few megabytes where they are compressed."""
    group = ClusterGroupId("g" * (LONGEST_ID + 1))
    room = GroupRoom()
    assert [room.admits(each) for each in (group, group, None)] == [False, False, True]
    assert [(len(each or ""), records) for each, records in room.left_out.items()] == [(101, 2)]
    assert len(named_groups([group])) < 400
    assert GroupRoom([group]).admits(group)
    evidence = TopicEvidence("t")
    evidence.add(Record("t", 0, 0, 0, prefix_key(group, _OFFSET), b"{}"))
    assert (evidence.types[TopicType.OFFSET].groups, evidence.types[TopicType.OFFSET].is_cut) == ({}, True)


@pytest.mark.parametrize("group", ["large.", ""], ids=["large", "plain keys"])
def test_what_replaces_a_value_takes_its_room(group: str) -> None:
    keys = [f'{group}["c",{{"n":{number}}}]'.encode() for number in range(2)]
    fold = TopicFold("t", TopicType.OFFSET, room=GroupRoom(most_bytes=6_000))
    for is_left_out, value in ((False, None), (False, b"{}"), (True, b"x" * 3_000)):
        fold.apply(Record("t", 0, 0, 0, key, each) for _ in range(20) for key in keys for each in (b"{}", value))
        assert bool(fold.contents().beyond) is is_left_out


_OFFSET = b'["c",{"f":1}]'


def _offsets(*values: bytes | None) -> list[Record]:
    key = prefix_key(GROUP, _OFFSET)
    return [Record("offsets", 0, at, 0, key, value) for at, value in enumerate(values)]


def _sealed(position: int, keys: KeyRing = KEYS) -> bytes:
    return Cipher(keys, TopicType.OFFSET).seal(
        prefix_key(GROUP, _OFFSET), b'{"position":%d}' % position, 1_000 + position
    )


def _shown(records: list[Record], worker: WorkerConfig | None) -> tuple[Mapping[str, object] | None, str]:
    seen = folded(TopicType.OFFSET, records, topic="offsets", worker=worker)
    return seen.groups[GROUP].offset("c", {"f": 1}), "".join(seen.notes)


@pytest.mark.parametrize("worker", [None, sharing_worker("other")], ids=["no worker file", "another group's"])
@pytest.mark.parametrize("beside", [(), (b'{"position":9}',)], ids=["all sealed", "a plain one behind"])
def test_no_state_of_a_sealed_group_is_shown_without_its_worker_file(
    worker: WorkerConfig | None, beside: tuple[bytes, ...]
) -> None:
    """A plain value beside sealed ones may be old, or forged."""
    shown, note = _shown(_offsets(_sealed(1), *beside), worker)
    assert shown is None
    assert "offsets has sealed values of com.acme: only what the keys of such records say is shown" in note


def test_a_group_without_keys_is_shown_as_its_workers_see_it() -> None:
    """A co-tenant cannot hide a plain group from its owner by one record that looks sealed."""
    shown, note = _shown(_offsets(b'{"position":9}', _sealed(1)), sharing_worker())
    assert shown == {"position": 9}
    assert "refused (1 NO_KEYS)" in note


def test_a_new_key_opens_what_it_seals(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "new"]) == 0
    text, nothing = capsys.readouterr()
    assert nothing == ""
    assert _shown(_offsets(_sealed(5, KeyRing.parse(text.strip()))), sharing_worker(keys=text.strip())) == (
        {"position": 5},
        "",
    )
    assert main(["keys", "new", "--output", "json"]) == 0
    assert KeyRing.parse(json.loads(capsys.readouterr().out)["key"]) != KeyRing.parse(text.strip())
