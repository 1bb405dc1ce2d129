"""A whole move with secrets everywhere: none of them reaches a screen, a log or a file that is not a copy of records."""

from __future__ import annotations

import json
import logging
import stat
from pathlib import Path

import pytest

from connect_share.model.records import Record, TopicType
from migrator.copy.copy_job import CopyJob
from migrator.copy.local_engine import copy_one
from tests.support.migration_runs import apply_plan
from tests.support.migration_site import GROUP, SHARED_PARTITIONS, Site, pair, run

SESSION_KEY = "U0VTU0lPTi1LRVktU0VDUkVU"
SECRETS = {
    "connector": "hunter2-connector",
    "task": "hunter2-task",
    "bad": "hunter2-unparseable",
    "trace": "hunter2-trace",
    "offset": "hunter2-offset",
    "foreign": "hunter2-foreign",
    "header": "hunter2-header",
    "changed": "hunter2-changed",
    "client": "hunter2-client",
}


def properties(whose: str) -> str:
    return json.dumps({"properties": {"name": "a", "password": SECRETS[whose]}})


def source(site: Site) -> Path:
    site.create("own")
    site.create("shared", SHARED_PARTITIONS)
    status = json.dumps({"state": "FAILED", "trace": SECRETS["trace"], "worker_id": "w:1", "generation": 1})
    site.lay_down(
        "own",
        TopicType.CONFIG,
        [
            pair("session-key", f'{{"key":"{SESSION_KEY}","algorithm":"HmacSHA256","creation-timestamp":1}}'),
            pair("connector-a", properties("connector")),
            pair("task-a-0", properties("task")),
            pair("commit-a", '{"tasks":1}'),
            pair("connector-bad", SECRETS["bad"]),
            pair("target-state-a", json.dumps({"state": SECRETS["bad"]})),
            pair("other.connector-a", properties("foreign")),
            pair("connector-gone", None),
        ],
    )
    site.lay_down(
        "own", TopicType.STATUS, [pair("status-connector-a", status), pair("status-task-a-0", SECRETS["bad"])]
    )
    site.lay_down("own", TopicType.OFFSET, [pair('["a",{"file":"x"}]', json.dumps({"token": SECRETS["offset"]}))])
    topic = site.topic("own", TopicType.OFFSET)
    header = (("h", SECRETS["header"].encode()),)
    site.produce([Record(topic, 0, 0, 1_700_000_000_000, b'["a",{"file":"y"}]', b"{}", header)])
    # A client setting of a worker file that does nothing here.
    return site.worker_file("own", "orders", sharing=False, ssl_key_password=SECRETS["client"])


@pytest.mark.parametrize("mode", ["mirror", "state"])
def test_no_secret_is_shown(site: Site, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    own, target = source(site), site.shared()
    plan = site.folder / "plan.json"
    told: list[str] = []

    def command(*arguments: str | Path, code: int = 0) -> None:
        found, out, said = run(*arguments)
        assert found == code, (arguments, out, said)
        told.extend((out, said))

    files: list[str | Path] = ["--source-worker-config", own, "--destination-worker-config", target]
    command("survey", *files)
    command("survey", *files, "--output", "json")
    command("plan", *files, "--mode", mode, "-o", plan, "--output", "json")

    def interrupted(jobs: list[CopyJob]) -> object:
        yield copy_one(jobs[0])
        raise OSError(repr(jobs))

    with pytest.raises(OSError, match="CopyJob") as broken:
        apply_plan(plan, engine=interrupted)  # type: ignore[arg-type]
    told.append(repr(broken.value))
    command("apply", plan, "--yes", code=1)
    command("resume", plan, "--output", "json")
    command("verify", plan)
    for topic_type, key, value in (
        (TopicType.CONFIG, "connector-a", properties("changed")),
        (TopicType.OFFSET, '["a",{"file":"x"}]', json.dumps({"token": SECRETS["changed"]})),
    ):
        raw = f"{GROUP}.{key}".encode()
        records = site.read(site.topic("shared", topic_type))
        at = next(record.partition for record in records if record.key == raw)
        site.produce([Record(site.topic("shared", topic_type), at, 0, 1_700_000_000_001, raw, value.encode())])
    command("verify", plan, code=1)
    command("verify", plan, "--output", "json", code=1)
    command("rollback", plan, "--dry-run")

    told += [record.getMessage() + str(record.exc_text) + repr(record.args) for record in caplog.records]
    written = [path for path in site.folder.rglob("*") if path.is_file() and path.suffix != ".properties"]
    assert plan in written
    for path in written:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        if path.suffix != ".avro":  # a copy of records, secrets and all
            told.append(path.read_text())
    for what, secret in {**SECRETS, "session key": SESSION_KEY}.items():
        assert not [text[:200] for text in told if secret in text], what
    for topic_type in TopicType:
        for record in site.read(site.topic("shared", topic_type)):
            assert b"session-key" not in (record.key or b"")
            assert SESSION_KEY.encode() not in (record.value or b"")
