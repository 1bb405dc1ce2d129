"""Every command that reads, beside many records of others under the keys that cost most; `make soak` has five million."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from connect_share.checks.sources import CheckSources
from connect_share.console.output import Output
from connect_share.contents.group_room import GroupRoom
from connect_share.contents.profile import FURTHER
from connect_share.kafka import client
from connect_share.model.records import Record, TopicType
from migrator.survey import Survey
from tests.lab.benchmarks.process_cost import Cost, measured
from tests.support.long_forms import LONG
from tests.support.migration_site import Site, run
from tests.support.topics import ANYWHERE, send

RECORDS = int(os.environ.get("CONNECT_SHARE_FOREIGN_RECORDS") or (5_000_000 if LONG else 1_000))
MOST = 10.0
ORIGINALS = {
    TopicType.CONFIG: ("connector-{}", "task-a-{}", "commit-{}"),
    TopicType.STATUS: ("status-connector-{}", "status-task-a-{}", "status-topic-t{}:connector-a"),
    TopicType.OFFSET: ('["a",{{"n":{}}}]', '["a{}",{{}}]', '["a",{{"m":{}}}]'),
}
VALUES = (b'{"tasks":1}', b'{"tasks":', b"\x01" + bytes(60), b'{"properties":{"name":"a"}}')
MIGRATOR = {"survey", "plan"}
FIRST = ("get connectors", "export -o {folder}/own.avro")
COMMANDS = (
    "get connectors --all-groups --output json",
    "get groups --output json",
    "get offsets --all-groups --output json",
    "describe group own",
    "check all",
    "check startup",
    "usage",
    "survey",
    "export --all-groups -o {folder}/all.avro",
    "discover",
)
MORE = (
    "get tasks --all-groups",
    "get statuses --all-groups",
    "describe connector a.b",
    "check sealing",
    "check rights",
    "admit -w {new}",
    "export --follow {folder}/followed --once",
    "reset offsets a.b --force --dry-run",
    "repair order --dry-run",
    "repair orphans --dry-run",
    "repair refused --dry-run",
    "delete group own --dry-run",
    "restore {folder}/own.avro --dry-run",
    "plan -w {plain} --to-worker-config {own} --dry-run",
)


def foreign(topic: str, topic_type: TopicType, count: int) -> Iterator[Record]:
    """Groups without end, one with all keys it wants, long ids, and keys that are none of Connect's."""
    for number in range(count):
        original = ORIGINALS[topic_type][number % 3].format(number)
        group = (f"g{number}.", "large.", f"{'a-.' * 60}{number}.", f"no key {'.connecto' * 20}", f"own.{number}.")[
            number % 5
        ]
        yield Record(topic, ANYWHERE, 0, 0, (group + original).encode(), VALUES[number % len(VALUES)])


def words(command: str, **named: Path) -> list[str]:
    """Return the words of a command, with the worker file of the group ``own`` if it names none."""
    found = command.format(**named).split()
    return [*found, *(() if "-w" in found else ("-w", str(named["own"])))]


@pytest.mark.timeout(4 * 3_600 if LONG else 600)
def test_reading_commands_end_in_ten_times_the_time_of_the_shortest(
    site: Site, call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.create("shared")
    site.lay_group("shared", "own.")
    writer = client.producer(site.settings, client_id="tests", overrides={"linger.ms": "20", "compression.type": "lz4"})
    for topic_type in TopicType:
        send(writer, foreign(site.topic("shared", topic_type), topic_type, RECORDS // 3))
    path = site.worker_file("shared", "own", sharing=True)
    if not LONG:  # a process takes longer to start than to read so few records
        for command in [each for each in (*FIRST, *COMMANDS) if each not in {"survey", "discover"}]:
            assert call(*words(command, folder=tmp_path, own=path)).code in {0, 1}, command
        monkeypatch.setattr("connect_share.checks.sources.MOST_CHECKED", 2)
        monkeypatch.setattr("connect_share.contents.group_room.MOST_GROUPS", 3)
        found = call("check", "orphans", "-w", path, "--output", "json").json["findings"]
        assert len([each for each in found if each["id"] == "groups-left-out"]) == len(TopicType)
        assert {each["group"] for each in found} - {None, "own"} <= {"large", "g0"}
        used = call("usage", "-w", path, "--output", "json").json["groups"]
        assert {each["group"] for each in used} > {"own", FURTHER}
        assert len(used) == 5
        small = partial(GroupRoom, most_bytes=20_000)
        monkeypatch.setattr("connect_share.checks.sources.GroupRoom", small)
        contents, kept = CheckSources.of_file(path, Output("test"))._read
        assert {*kept} == {group for topic in contents.topics.values() for group in topic.groups}
        surveyed = Survey.model_validate_json(run("survey", "-w", path, "--output", "json")[1]).topics
        assert all({group.group for group in topic.groups} > {"own"} for topic in surveyed)
        assert {len(topic.groups) for topic in surveyed} == {4}
        assert all(topic.left_out_records and "own.4" in topic.left_out_groups for topic in surveyed)
        assert f"{surveyed[0].left_out_records:,} record(s) were left out, of " in run("survey", "-w", path)[1]
        return
    files = {"own": path, "folder": tmp_path, "new": site.worker_file("shared", "new", sharing=True)}
    site.create("old")
    site.lay_group("old")
    files["plain"] = site.worker_file("old", "moves", sharing=False)
    costs: dict[str, Cost] = {}

    def run_one(command: str) -> None:
        module = "migrator" if command.split(maxsplit=1)[0] in MIGRATOR else "connect_share"
        costs[command], _ = measured([sys.executable, "-m", module, *words(command, **files)], codes=(0, 1))
        cost, least = costs[command], costs["get connectors"]
        print(f"{command:<52}{cost.wall_s:7.1f} s {cost.cpu_s:7.1f} CPU s {cost.peak_bytes / 1e6:7.0f} MB "
              f"{cost.cpu_s / least.cpu_s:5.1f}", file=sys.__stdout__, flush=True)  # fmt: skip

    for command in FIRST:
        run_one(command)
    with ThreadPoolExecutor(2) as threads:  # of the processor's time the load beside it takes none
        [*threads.map(run_one, (*COMMANDS, *MORE))]
    assert {command: cost for command, cost in costs.items() if cost.cpu_s > MOST * costs["get connectors"].cpu_s} == {}
