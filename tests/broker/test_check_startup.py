"""``check startup`` on real topics: what it shows, what it changes, and that the cleaner then does what was promised."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from connect_share.model.records import Record
from tests.support.console import Ran, console
from tests.support.kafka import TestBroker
from tests.support.printed import Printed
from tests.support.profiled_topics import SECRET, UPDATES, ProfiledTopics, write_profiled_topics
from tests.support.topics import ONE_SEGMENT, write_records
from tests.support.waiting import await_that


@pytest.fixture
def topics(broker: TestBroker, unique: str, tmp_path: Path) -> ProfiledTopics:
    return write_profiled_topics(broker, unique, tmp_path)


@pytest.fixture
def check(topics: ProfiledTopics, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*words: str, dear: bool = True) -> Ran:
        model = ["--model", topics.model_file] if dear else []
        ran = console(capsys)("check", "startup", "-w", topics.worker_file, *model, *words)
        assert SECRET not in ran.out + ran.err
        return ran

    return call


def test_what_is_shown(topics: ProfiledTopics, check: Any) -> None:
    ran = check("--output", "json", dear=False)
    assert ran.code == 0  # by the package's own model so few records cost nothing
    assert all("is not as create topics would make it: " in line for line in ran.err.splitlines() if line[0] != "{")
    result = ran.json
    assert result["_command"] == "check startup"
    assert (result["findings"], result["advice"]["changes"], result["problems"]) == ([], [], [])
    groups = {group["group"]: group for group in result["groups"]}
    assert groups.keys() == {None, *topics.groups}
    for name in topics.groups:
        group = groups[name]
        assert group["records"] == 3 + 2 + UPDATES
        assert (group["superseded_records"], group["tombstones"], group["json_nulls"]) == (UPDATES - 1, 1, 1)
        assert group["live_keys"] == 2 + 1 + 1
        kinds = {kind["kind"]: kind["records"] for kind in group["kinds"]}
        assert kinds == {
            "connector": 1,
            "target-state": 1,
            "session-key": 1,
            "status-task": 1,
            "status-connector": 1,
            "offset": UPDATES,
        }
        assert group["start"]["at_least_seconds"] < group["start"]["seconds"] < group["start"]["at_most_seconds"]
        assert group["start"]["alone_seconds"] < group["start"]["seconds"]
    by_type = {topic["topic_type"]: topic for topic in result["topics"]}
    config = by_type["config"]
    assert (config["records"], config["unrecognized"]["records"], config["partitions"]) == (8, 1, 1)
    assert by_type["offset"]["settings"]["segment.ms"] == ONE_SEGMENT["segment.ms"]
    assert by_type["offset"]["estimated"]["hidden_superseded_records_at_most"] == 2 * (UPDATES - 1)
    assert by_type["offset"]["estimated"]["dirty_ratio_at_least"] is None
    assert result["model"]["file"] == "shipped"

    ran = check("--limit", "6", "--group", topics.groups[1])
    assert ran.code == 1
    assert f"above the limit of 6 s: {topics.groups[1]}" in ran.out
    assert topics.groups[0] not in ran.out
    assert (
        f"advice: {topics.topic('offsets')}: segment.ms {ONE_SEGMENT['segment.ms']} -> 3600000 (saves up to" in ran.out
    )
    assert "processors 64" in ran.out
    assert check("--limit", "60", dear=False).code == 0


def test_settings_are_changed_and_can_be_taken_back(topics: ProfiledTopics, check: Any, printed: Printed) -> None:
    topic = topics.topic("offsets")
    with topics.broker.admin() as admin:
        before = admin.own_topic_configs(topic)
        assert before == {"cleanup.policy": "compact", **ONE_SEGMENT}
        ran = check("--apply", "--dry-run")
        assert ran.code == 1
        assert "dry run: nothing was written" in ran.out
        undo = f"--entity-name {topic} --add-config segment.ms={ONE_SEGMENT['segment.ms']}"
        assert undo in ran.out
        refused = check("--apply")
        assert refused.code == 1
        assert "give --yes" in refused.err
        assert undo in refused.err
        assert check("--apply", "--dry-run", "--output", "json").json["applied"] is False
        assert admin.own_topic_configs(topic) == before

        (command,) = {each["command"] for each in check("--output", "json").json["findings"]}
        ran = printed(command, "--yes", "--output", "json")
        assert ran.code == 0
        result = ran.json
        changed = {change["setting"]: change["new"] for change in result["advice"]["changes"]}
        assert changed["segment.ms"] == "3600000"
        assert result["applied"] is True
        assert "to undo it:" in ran.err
        await_that(lambda: admin.own_topic_configs(topic), lambda own: own == {**before, **changed}, what="changed")

        # The next record closes the segment, and the cleaner takes what was promised.
        now_ms = int(time.time() * 1000)
        write_records(
            topics.broker.client_settings,
            topic,
            [Record(topic, partition, 0, now_ms, b'new.["c",{}]', b"{}") for partition in (0, 1)],
        )
        cleaned = await_that(
            lambda: check("--output", "json").json,
            lambda result: _superseded(result) < UPDATES // 2,
            what="cleaned",
            timeout_s=120,
        )
        assert 2 * (UPDATES - 1) - _superseded(cleaned) >= result["advice"]["gain_records"] - 2
        assert cleaned["advice"]["changes"] == []

        for one in result["undo"]:
            admin.alter_topic_configs(one["topic"], {one["setting"]: one["value"]})
        await_that(lambda: admin.own_topic_configs(topic), lambda own: own == before, what="as before")


def _superseded(result: Any) -> int:
    return sum(group["superseded_records"] for group in result["groups"] if group["group"] != "new")
