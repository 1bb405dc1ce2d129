"""``repair order`` and ``repair orphans`` on real topics: plain, prefixed and sealed groups, beside a group that stays."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.connect_json import JSON_NULL
from connect_share.model.keys import own_key
from connect_share.model.records import Record, TopicType
from connect_share.replay import replay_config, replay_status
from connect_share.sealing import KEYS_PROPERTY
from connect_share.sealing.cipher import is_sealed
from connect_share.worker_config import WorkerConfig
from tests.lab.embedded.worker import write_properties
from tests.support.captures import captured, prefixed
from tests.support.checked import CAPTURED, CONFIG, OFFSET, STATUS, records
from tests.support.console import Call, Ran, console
from tests.support.kafka import TestBroker
from tests.support.sealed import key_text
from tests.support.topics import UNTOUCHED, create_known, read_topic, write_records
from tests.support.worker_files import SHARING, properties_of

CONNECTOR = '{"properties":{"connector.class":"C"}}'
TASK = '{"properties":{"task.class":"T","n":"%d"}}'
RUNNING = '{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":1}'
RECORDS: dict[TopicType, tuple[tuple[str, str | None], ...]] = {
    CONFIG: (
        ("task-late-0", TASK % 0),
        ("task-late-1", TASK % 1),
        ("commit-late", '{"tasks":2}'),
        ("connector-late", CONNECTOR),
        ("connector-doomed", CONNECTOR),
        ("task-doomed-0", TASK % 2),
        ("commit-doomed", '{"tasks":1}'),
        ("connector-doomed", CONNECTOR),
        ("task-gone-0", TASK % 3),
        ("commit-gone", '{"tasks":1}'),
        ("target-state-late", '{"state":"PAUSED"}'),
    ),
    STATUS: (
        ("status-connector-late", RUNNING),
        ("status-task-doomed-0", RUNNING),
        ("status-task-doomed-1", RUNNING),
        ("status-connector-gone", RUNNING),
        ("status-task-gone-0", RUNNING),
    ),
    OFFSET: (('["gone",{"p":1}]', '{"o":1}'), ('["late",{"p":1}]', '{"o":2}')),
}


@dataclass
class Site:
    broker: TestBroker
    file: Path
    worker: WorkerConfig
    other: str

    def topic(self, topic_type: TopicType) -> str:
        return self.worker.topic(topic_type)

    def read(self, topic_type: TopicType) -> list[Record]:
        with self.broker.admin() as admin:
            return read_topic(admin, self.broker.client_settings, self.topic(topic_type))

    def of_other(self) -> list[Record]:
        return [
            r for kind in TopicType for r in self.read(kind) if (r.key or b"").startswith(f"{self.other}.".encode())
        ]

    def newest(self, topic_type: TopicType) -> dict[str, bytes | None]:
        """The newest value of each of the group's keys, by original key."""
        group = self.worker.cluster_group_id
        owned = ((own_key(topic_type, r.key or b"", group), r.value) for r in self.read(topic_type))
        return {original.decode(): value for original, value in owned if original is not None}

    def config_state(self) -> Any:
        return replay_config(self.read(CONFIG), self.worker.cluster_group_id, keys=self.worker.sealing_keys)


@pytest.fixture(params=["prefixed", "sealed", "plain"])
def site(request: pytest.FixtureRequest, broker: TestBroker, unique: str, tmp_path: Path) -> Site:
    lines = properties_of(broker.bootstrap_servers, unique, f"{unique}-")
    lines |= {} if request.param == "plain" else SHARING
    lines |= {KEYS_PROPERTY: key_text(7)} if request.param == "sealed" else {}
    file = write_properties(tmp_path / "worker.properties", lines)
    made = Site(broker, file, WorkerConfig.from_file(file), f"other-{unique}")
    with broker.admin() as admin:
        for kind in TopicType:
            create_known(admin, NewTopicRequest(made.topic(kind), 1, 1, UNTOUCHED))
        for kind in TopicType:
            write(made, kind, prefixed(captured("4.3.1", CAPTURED[kind]), made.other))
            seals = made.worker.seals(kind)
            own = records(kind, *RECORDS[kind], group=made.worker.cluster_group_id)
            values = [r.value if seals is None else seals.seal(r.key or b"", r.value) for r in own]
            write(made, kind, [replace(r, value=value) for r, value in zip(own, values, strict=True)])
    return made


def write(site: Site, topic_type: TopicType, written: list[Record]) -> None:
    write_records(site.broker.client_settings, site.topic(topic_type), written, keep_partition=False)


@pytest.fixture
def run(site: Site, capsys: pytest.CaptureFixture[str]) -> Call:
    def call(*words: str | Path) -> Ran:
        return console(capsys)(*words[:2], "-w", site.file, *words[2:])

    return call


def test_order(site: Site, run: Any, tmp_path: Path) -> None:
    others, before, offset = site.of_other(), site.config_state(), len(site.read(CONFIG))
    backup = tmp_path / "before.avro"
    assert [each.task for each in before.tasks("doomed")] == [0]
    assert before.tasks("late") == []
    assert run("check", "order", "--group", site.worker.cluster_group_id or "(plain)").code == 1

    ran = run("repair", "order", "--dry-run", "--output", "json")
    assert (ran.code, ran.json["connectors"], ran.json["records"]["config"]) == (0, ["doomed", "late"], 5)
    assert run("repair", "order").code == 1  # nobody to ask
    assert len(site.read(CONFIG)) == offset
    assert not backup.exists()
    places = ((tmp_path / "no" / "x.avro", "no is no folder"), (site.file, "is there already"))
    for end, (place, why) in product(("--dry-run", "--yes"), places):
        ran = run("repair", "order", end, "--backup", place)
        assert (ran.code, why in ran.err, ran.err.count('"ended": true')) == (1, True, 3)  # the topics were read once

    ran = run("repair", "order", "--yes", "--backup", backup, "--output", "json")
    assert (ran.code, ran.json["backup"]) == (0, str(backup))
    after = site.config_state()
    assert {each.task: (after.task_config(each) or {})["n"] for each in after.tasks("late")} == {0: "0", 1: "1"}
    assert {each.task: (after.task_config(each) or {})["n"] for each in after.tasks("doomed")} == {0: "2"}
    assert after.connectors() == before.connectors()
    assert after.target_states() == before.target_states()
    assert site.of_other() == others
    written = site.read(CONFIG)[offset:]
    assert [is_sealed(record.value) for record in written] == [site.worker.sealing_keys is not None] * 5

    ran = run("check", "order", "--group", site.worker.cluster_group_id or "(plain)", "--output", "json")
    assert (ran.code, ran.json["findings"]) == (0, [])
    assert "nothing to repair" in run("repair", "order", "--yes").out
    assert len(site.read(CONFIG)) == offset + 5
    # The backup has the state before.
    ran = run("restore", backup, "--dry-run")
    assert ran.code == 0
    assert backup.stat().st_mode & 0o777 == 0o600


def test_values(site: Site, run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command that the finding prints is run as it stands, and the finding is gone."""
    bad = (
        ("connector-doomed", '{"properties":{"connector.class":"C","tasks.max":1}}'),
        ("target-state-late", "garbage"),
    )
    seals, own = site.worker.seals(CONFIG), records(CONFIG, *bad, group=site.worker.cluster_group_id)
    write(site, CONFIG, [replace(r, value=seals.seal(r.key or b"", r.value) if seals else r.value) for r in own])
    others, before = site.of_other(), site.config_state()
    group = site.worker.cluster_group_id or "(plain)"
    ran = run("check", "values", "--group", group, "--output", "json")
    assert (ran.code, [each["id"] for each in ran.json["findings"]]) == (1, ["values-config"] * 2)
    (command,) = {each["command"] for each in ran.json["findings"]}
    assert run("check", "order", "--group", group, "--output", "json").json["findings"][0]["where"].endswith("late")

    program, *words = shlex.split(command)
    assert program == "connect-share"
    ran = console(capsys)(*words, "--yes", "--backup", tmp_path / "before.avro", "--output", "json")
    assert (ran.code, ran.json["connectors"]) == (0, ["doomed", "late"])
    after = site.config_state()
    assert after.connector_config("doomed") == {"connector.class": "C", "tasks.max": "1"}
    assert [after.task_config(each) for each in after.tasks("doomed")] == [{"task.class": "T", "n": "2"}]
    assert after.target_states() == before.target_states()
    assert site.of_other() == others
    assert run("check", "values", "--group", group, "--output", "json").json["findings"] == []
    assert "nothing to repair" in console(capsys)(*words, "--yes").out


def test_orphans(site: Site, run: Any, tmp_path: Path) -> None:
    """What was removed comes back whole: statuses put back are older than their removal, which must not outdo them."""

    def statuses() -> Any:
        return replay_status(site.read(STATUS), site.worker.cluster_group_id, keys=site.worker.sealing_keys)

    others, before, statuses_before, backup = site.of_other(), site.config_state(), statuses(), tmp_path / "before.avro"
    ran = run("repair", "orphans", "--dry-run", "--output", "json")
    assert ran.json["records"] == {"config": 2, "offset": 0, "status": 3}
    assert ran.json["connectors"] == ["doomed", "gone"]
    assert run("repair", "orphans", "--yes", "--backup", backup).code == 0
    removal = JSON_NULL if site.worker.cluster_group_id is not None else None
    config, status = site.newest(CONFIG), site.newest(STATUS)
    gone = [config["task-gone-0"], config["commit-gone"]]
    if site.worker.sealing_keys is None:
        assert gone == [removal] * 2
        assert {name for name, value in status.items() if value is None} == {
            *("status-connector-gone", "status-task-gone-0", "status-task-doomed-1")
        }
        assert site.newest(OFFSET)['["gone",{"p":1}]'] == b'{"o":1}'
    else:
        assert all(map(is_sealed, gone))
    after = site.config_state()
    assert after.connectors() == before.connectors()
    assert {name: after.tasks(name) for name in after.connectors()} == {n: before.tasks(n) for n in before.connectors()}
    assert site.of_other() == others
    group = site.worker.cluster_group_id or "(plain)"
    found = run("check", "orphans", "--group", group, "--output", "json")
    assert [each["id"] for each in found.json["findings"]] == ["orphan-offsets"]

    assert run("repair", "orphans", "--offsets", "--yes").code == 0
    assert run("check", "orphans", "--group", group, "--output", "json").json["findings"] == []
    assert "nothing to repair" in run("repair", "orphans", "--offsets", "--yes").out
    offsets = run("get", "offsets", "--output", "json").json["offsets"]
    assert [row["connector"] for row in offsets if row["group"] == site.worker.cluster_group_id] == ["late"]
    assert run("restore", backup, "--yes").code == 0
    assert statuses() == statuses_before
