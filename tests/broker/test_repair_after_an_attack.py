"""What a person does after an attack on a sealed group: the commands of the page, as they stand there."""

from __future__ import annotations

import os
import random
import re
import shlex
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connect_share.model.records import Record, TopicType
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from tests.support.console import Ran
from tests.support.long_forms import LONG
from tests.support.migration_site import SHARED_PARTITIONS, Site, run
from tests.support.sealed import ATTACKS, Attacked
from tests.support.sealed_sites import essence, life, state, worker
from tests.support.sealed_stores import current_state, put
from tests.support.topics import ordered_producer

Call = Callable[..., Any]
PAGE = Path(__file__).parents[2] / "docs" / "sealed-threats.md"
NAMES = {
    TopicType.CONFIG: b"a.connector-%b",
    TopicType.STATUS: b"a.status-connector-%b",
    TopicType.OFFSET: b'a.["%b",{"filename":"x.txt"}]',
}


def of_the_page(file: Path, backup: Path) -> list[tuple[str, list[str]]]:
    section = PAGE.read_text("utf-8").partition("## Repair after an attack\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```\n(.*?)```", section, re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    words = [shlex.split(line.replace("FILE", str(file)).replace("BACKUP", str(backup))) for line in lines]
    return [(program, rest) for program, *rest in words]


def repair(call: Call, file: Path, backup: Path) -> list[tuple[str, int]]:
    """Run the commands of the page; return each with its exit code."""
    done = []
    for program, words in of_the_page(file, backup):
        ran = call(*words) if program == "connect-share" else Ran(*run(*words))
        done.append((words[0] if program != "connect-share" else " ".join(words[:2]), ran.code))
    return done


def attacks_on(site: Site, who: str, names: list[str]) -> list[Record]:
    """Every attack of the table, each on the connector of its name and on one that the group never had."""
    found = []
    for topic_type, key in NAMES.items():
        good = {record.key: record.value or b"" for record in site.read(site.topic("shared", topic_type))}
        for name in names:
            stranger = key % f"evil-{name}".encode()
            at = Attacked(topic_type, key % name.encode(), stranger, good[key % name.encode()], good[key % b"d"])
            for wire_key, value in ATTACKS[name].records(at):
                found.append(Record(site.topic(who, topic_type), 0, 0, 1, wire_key, value))
    return found


REPAIRED = [("check sealing", 1), ("reseal", 0), ("repair refused", 0), ("repair refused", 0), ("check sealing", 0)]


@pytest.mark.parametrize("when", ["covered", "cleaned away"])
def test_the_commands_of_the_page_repair_every_attack(site: Site, call: Call, when: str) -> None:
    """Where the cleaner has been there, the topics have what it left: the strangers' records, and what was not attacked."""
    names, backup, who = sorted(ATTACKS), site.folder / "a.avro", "shared"
    for each in ("shared", "own"):
        site.create(each, SHARED_PARTITIONS)
    path = worker(site, "shared", "a", 7)
    life(path, *names, "d")
    before = state(path)
    assert call("export", "-w", path, "-o", backup).code == 0
    if when == "cleaned away":
        who, path = "own", worker(site, "own", "a", 7)
        life(path, "d")
    site.produce(attacks_on(site, who, names))
    done = repair(call, path, backup)
    assert done == [*REPAIRED, (f"restore {backup}", 0)]
    assert state(path) == before
    again = call("repair", "refused", "-w", path, "--yes", "--output", "json").json
    assert (again["backup"], again["removed"]) == (None, 0)


def test_what_opens_is_never_removed_and_a_wrong_key_removes_nothing(site: Site, call: Call) -> None:
    site.create("shared", SHARED_PARTITIONS)
    path, other, both = (worker(site, "shared", "a", *keys) for keys in ((7,), (8,), (7, 8)))
    life(path, "c", "d")
    before = state(path)
    text = path.read_text()
    wrong = path.with_name("wrong.properties")
    wrong.write_text(re.sub(r"7:\S+", "7:" + "A" * 43 + "=", text))
    for file in (other, wrong):
        refused = call("repair", "refused", "-w", file, "--yes")
        assert (refused.code > 0, "of the group opens" in refused.err or "opens under key 7" in refused.err) == (
            True,
            True,
        )
    garbage = Record(site.topic("shared", TopicType.STATUS), 0, 0, 1, b"a.status-connector-c", b"\1" + os.urandom(60))
    site.produce([garbage])
    dry = call("repair", "refused", "-w", both, "--dry-run", "--output", "json").json
    assert {kind: each["to_remove"] for kind, each in dry["topics"].items()} == dict.fromkeys(dry["topics"], 0)
    assert dry["refused"] == {"config": 0, "status": 1, "offset": 0}
    assert call("repair", "refused", "-w", both, "--yes").code == 0
    assert state(path) == before


@pytest.mark.skipif(not LONG, reason="make soak")
@pytest.mark.timeout(7_200)
def test_a_group_under_all_attacks_at_once_and_a_person_who_repairs_it(site: Site, call: Call) -> None:
    """Strangers write every attack again and again, and all that the group has written, while its store goes on."""
    site.create("shared", SHARED_PARTITIONS)
    path, names, chosen = worker(site, "shared", "a", 7), sorted(ATTACKS), random.Random(1173)
    life(path, *names, "d")
    stop, counts = threading.Event(), {"attacks": 0, "puts": 0}
    until_s = time.monotonic() + 60 * float(os.environ["CONNECT_SHARE_SOAK_MINUTES"])

    def attack() -> None:
        producer, strange = ordered_producer(WorkerConfig.from_file(path).producer_settings()), random.Random(7)
        while not stop.is_set():
            again = [record for kind in TopicType for record in site.read(site.topic("shared", kind)) if record.key]
            wave = [*attacks_on(site, "shared", names), *strange.sample(again, min(500, len(again)))]
            for each in wave:
                partition = strange.randrange(SHARED_PARTITIONS[kind_of(each.topic)])
                producer.produce(each.topic, each.value, each.key, partition)
            producer.flush(60)
            counts["attacks"] += len(wave)
            stop.wait(0.5)

    def kind_of(topic: str) -> TopicType:
        return next(kind for kind in TopicType if site.topic("shared", kind) == topic)

    attacker = threading.Thread(target=attack)
    with ConnectStorage(WorkerConfig.from_file(path)) as storage:
        attacker.start()
        try:
            while time.monotonic() < until_s:
                put(storage, chosen.choice(names), position=chosen.randrange(1_000_000))
                counts["puts"] += 1
        finally:
            stop.set()
            attacker.join()
        model = essence(*current_state(storage))
        backup = site.folder / "a.avro"
        assert call("export", "-w", path, "-o", backup).code == 0
    print(counts)
    assert repair(call, path, backup)[: len(REPAIRED)] == REPAIRED
    assert state(path) == model
