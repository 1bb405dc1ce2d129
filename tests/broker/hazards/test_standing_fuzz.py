"""What strangers may write, against stores, console and migrator on a real broker: at their start, and while they run.

The seed is printed; ``CONNECT_SHARE_SOAK_SEED`` repeats it. The folds alone, with many more records: ``tests/unit``.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from connect_share.backup.backup_file import BackupFile
from connect_share.contents.groups import FOLDS
from connect_share.errors import ConfigError
from connect_share.model.keys import ClusterGroupId, own_key
from connect_share.model.records import TopicType
from connect_share.model.status import ConnectorStatus, State
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from migrator.run import Manifest, manifest_path
from tests.support.console import console
from tests.support.hostile_records import NAMES, SECRET, SEED, TAKES_ALL, HostileRecords, write_hostile
from tests.support.long_forms import LONG
from tests.support.migration_site import GROUP, Site, run

RECORDS: Final = 4_000 if LONG else 200  # of each topic, before and while they run
# Two keys may spell one task (-0 and -00). In two partitions they have no order, in Java as here.
PARTITIONS: Final = dict.fromkeys(TopicType, 1)
OWN: Final = ClusterGroupId(GROUP)


@pytest.fixture(autouse=True)
def _seed() -> None:
    print(f"CONNECT_SHARE_SOAK_SEED={SEED}")


def pour(site: Site, who: str, made: HostileRecords, count: int = RECORDS, *, carried: bool = False) -> None:
    write_hostile(site.bootstrap_servers, {each: site.topic(who, each) for each in TopicType}, made, count, carried)


def model(site: Site, who: str) -> dict[TopicType, Any]:
    """Fold what is in the topics."""
    folds = {topic_type: fold(OWN) for topic_type, fold in FOLDS.items()}
    for topic_type, fold in folds.items():
        for record in site.read(site.topic(who, topic_type)):
            fold.apply(record)
    return folds


def believes_the_model(site: Site, storage: ConnectStorage) -> None:
    folds = model(site, "shared")
    stores = {TopicType.CONFIG: storage.config, TopicType.STATUS: storage.status, TopicType.OFFSET: storage.offsets}
    for topic_type, store in stores.items():
        store.refresh(60)
        assert store.snapshot() == folds[topic_type].snapshot(), topic_type  # type: ignore[attr-defined]


def test_stores_believe_what_the_rules_say(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.create("shared", PARTITIONS, TAKES_ALL)
    worker = WorkerConfig.from_file(site.worker_file("shared", GROUP, sharing=True))
    made = HostileRecords(SEED, group=GROUP)
    pour(site, "shared", made)
    with ConnectStorage(worker, allow_empty=True) as storage:
        believes_the_model(site, storage)
        pour(site, "shared", made)  # while it runs
        believes_the_model(site, storage)
        for name in NAMES:
            storage.status.get(name)
            storage.status.get_all(name)
            own = (storage.config.snapshot().connector_config(name) or {}).get("offsets.storage.topic")
            if not (isinstance(own, str) and re.fullmatch(r"[A-Za-z0-9._-]+", own)):  # which would be made here
                with suppress(ConfigError):  # no text, or no name that a topic can have
                    storage.offset_reader(name).offset({"p": 1})
        storage.config.put_connector_config("after", {"name": "after"})
        storage.status.put(ConnectorStatus("after", State.RUNNING, "w:1", 2**31 - 1))
        storage.status.flush()
        skipped = storage.config.skipped()
        believes_the_model(site, storage)
        assert storage.config.snapshot().connector_config("after") == {"name": "after"}
    with ConnectStorage(worker) as storage:
        believes_the_model(site, storage)
        assert storage.config.skipped() == skipped  # each record for the same reason, read live or at a start
        assert sum(skipped.values()) > 0
    told = [line.getMessage() for line in caplog.records if line.name.startswith("connect_share")]
    assert not [line for line in told if SECRET in line or len(line) > 1_000]


COMMANDS: Final = (
    ("get", "groups"),
    ("get", "connectors", "--all-groups"),
    ("get", "tasks", "--all-groups"),
    ("get", "offsets", "--all-groups"),
    ("get", "statuses", "--all-groups"),
    ("get", "statuses", "--all-groups", "--show-values"),
    ("describe", "connector", "good", "--all-groups"),
    ("describe", "connector", "good", "--all-groups", "--show-values"),
    ("describe", "connector", "\x1b[2J\x1b[31m", "--all-groups", "--show-values"),
    ("describe", "group", GROUP),
    ("check", "sealing", "--all-groups-sealed"),
    ("check", "startup"),
)


def test_the_console_shows_what_is_there(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.create("shared", PARTITIONS, TAKES_ALL)
    pour(site, "shared", HostileRecords(SEED + 1, group=GROUP))
    file = site.worker_file("shared", GROUP, sharing=True)
    call = console(capsys)  # checks each line
    for words in COMMANDS:
        for form in ("text", "json"):
            ran = call(*words, "--worker-config", file, "--output", form)
            assert ran.code in (0, 1), (words, ran.err)
            assert "Traceback" not in ran.err
            if form == "json" and ran.out:
                assert ran.json
            if words[1] == "connector" and "--show-values" not in words:
                assert SECRET not in ran.out + ran.err
    checked = call("check", "worker-config", file, "--output", "json")
    assert checked.code in (0, 1)
    assert SECRET not in checked.out + checked.err


@pytest.mark.parametrize("mode", ["state", *(["mirror"] if LONG else [])])
def test_the_migrator_carries_its_own_and_nothing_else(site: Site, mode: str, tmp_path: Path) -> None:
    """Off shared topics onto plain keys; at the destination lies what others left."""
    site.create("shared own", PARTITIONS, TAKES_ALL)
    pour(site, "shared", HostileRecords(SEED + 2, group=GROUP), carried=True)
    pour(site, "shared", HostileRecords(SEED + 3, group="stranger"), RECORDS // 3)
    source, destination = site.worker_file("shared", GROUP, sharing=True), site.worker_file("own", "o", sharing=False)
    files = ("--source-worker-config", source, "--destination-worker-config", destination)
    for form in ("text", "json"):
        went_well(run("survey", *files, "--output", form))
    plan = tmp_path / "plan.json"
    went_well(run("plan", *files, "-o", plan, "--mode", mode))
    went_well(run("apply", plan, "--yes", "--isolation-proof"))
    for words in ([], ["--isolation"], ["--output", "json"]):
        went_well(run("verify", plan, *words))
    manifest = Manifest.load(manifest_path(plan))
    assert isinstance(manifest.backup, BackupFile)
    page = (tmp_path / "plan.evidence" / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert SECRET not in page
    for topic_type in TopicType:
        there = site.read(site.topic("own", topic_type))
        assert there
        assert all(own_key(topic_type, each.key or b"", None) is not None for each in there)


def went_well(ran: tuple[int, str, str]) -> None:
    code, out, err = ran
    assert code == 0, out + err
    assert "Traceback" not in err
    assert SECRET not in out + err
    assert all(line.isprintable() for line in out.split("\n"))
