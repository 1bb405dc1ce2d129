"""Every command that reads, beside many records of others under the keys that cost most; `make soak` has five million."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connect_share.contents.profile import FURTHER
from connect_share.kafka import client
from connect_share.model.records import Record, TopicType
from tests.lab.benchmarks.process_cost import measured
from tests.support.long_forms import LONG
from tests.support.migration_site import Site
from tests.support.topics import ANYWHERE, send

RECORDS = int(os.environ.get("CONNECT_SHARE_FOREIGN_RECORDS") or (5_000_000 if LONG else 1_000))
MOST = 10.0
ORIGINALS = {
    TopicType.CONFIG: ("connector-{}", "task-a-{}", "commit-{}"),
    TopicType.STATUS: ("status-connector-{}", "status-task-a-{}", "status-topic-t{}:connector-a"),
    TopicType.OFFSET: ('["a",{{"n":{}}}]', '["a{}",{{}}]', '["a",{{"m":{}}}]'),
}
FINDINGS_TOO = ("sh", "-c", '"$@" || test $? = 1', "sh")  # exit code 1 may be findings
COMMANDS = (
    "get connectors --all-groups --output json",
    "get groups --output json",
    "get offsets --all-groups --output json",
    "describe group own",
    "check all",
    "check startup",
    "usage",
    "export -o {}/own.avro",
    "export --all-groups -o {}/all.avro",
    "discover",
)


def foreign(topic: str, topic_type: TopicType, count: int) -> Iterator[Record]:
    """Groups without end, one with all keys it wants, long ids, and keys that are none of Connect's."""
    for number in range(count):
        original = ORIGINALS[topic_type][number % 3].format(number)
        group = (f"g{number}.", "large.", f"{'a-.' * 60}{number}.", f"no key {'.connecto' * 20}")[number % 4]
        yield Record(topic, ANYWHERE, 0, 0, (group + original).encode(), b'{"tasks":1}')


@pytest.mark.timeout(4 * 3_600 if LONG else 300)
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
        for command in COMMANDS[:-1]:
            assert call(*command.format(tmp_path).split(), "-w", path).code in {0, 1}, command
        monkeypatch.setattr("connect_share.checks.sources.MOST_CHECKED", 2)
        monkeypatch.setattr("connect_share.contents.group_room.MOST_GROUPS", 3)
        found = call("check", "orphans", "-w", path, "--output", "json").json["findings"]
        assert len([each for each in found if each["id"] == "groups-left-out"]) == len(TopicType)
        assert {each["group"] for each in found} - {None, "own"} <= {"large", "g0"}
        used = call("usage", "-w", path, "--output", "json").json["groups"]
        assert {each["group"] for each in used} > {"own", FURTHER}
        assert len(used) == 5
        return
    costs = {}
    for command in ("get connectors", *COMMANDS):
        words = [
            *FINDINGS_TOO,
            sys.executable,
            "-m",
            "connect_share",
            *command.format(tmp_path).split(),
            "-w",
            str(path),
        ]
        costs[command] = measured(words)[0]
        cost, least = costs[command], costs["get connectors"]
        print(f"{command:<44}{cost.wall_s:7.1f} s {cost.cpu_s:7.1f} CPU s {cost.peak_bytes / 1e6:7.0f} MB "
              f"{cost.cpu_s / least.cpu_s:5.1f}", flush=True)  # fmt: skip
    assert {command: cost for command, cost in costs.items() if cost.cpu_s > MOST * costs["get connectors"].cpu_s} == {}
