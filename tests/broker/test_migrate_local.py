"""The move of dedicated topics onto shared ones with the local engine, on a real broker; and one with secrets everywhere."""

from __future__ import annotations

import json
import logging
import re
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from connect_share.errors import LostTopicError
from connect_share.model.keys import split_key
from connect_share.model.murmur2 import partition_for
from connect_share.model.records import Record, TopicType
from connect_share.replay import replay_config, replay_offsets, replay_status
from connect_share.transform.rules import SkipReason
from migrator.copy.copy_job import CopyJob
from migrator.plan import MigrationPlan
from migrator.planner import make_plan
from migrator.run import Manifest, MigrationStatus, manifest_path
from migrator.verify.equality import Mismatch
from tests.support.captures import VERSIONS, captured
from tests.support.checked import CAPTURED
from tests.support.console import console as console_of
from tests.support.long_forms import LONG
from tests.support.migration_runs import apply_plan, copy_one, verify_plan
from tests.support.migration_site import GROUP, SHARED_PARTITIONS, SMALL, Site, pair, run, run_well
from tests.support.topics import delete_known


@pytest.mark.parametrize("version", VERSIONS if LONG else ("2.8.2", "4.3.1-eos-aborted"))
def test_what_java_workers_wrote_is_moved_and_verified(site: Site, version: str) -> None:
    site.create("own")
    site.create("shared", SHARED_PARTITIONS)
    for topic_type in TopicType:
        records = captured(version, CAPTURED[topic_type])
        site.produce([replace(record, topic=site.topic("own", topic_type)) for record in records])
    plan_path = site.plan(site.worker_file("own", "orders", sharing=False), site.shared())

    manifest = apply_plan(plan_path)
    assert manifest.status is MigrationStatus.COPIED
    verification = verify_plan(plan_path)
    assert verification.equal, verification.differences
    assert verification.warnings == ()
    assert Manifest.load(manifest_path(plan_path)).status is MigrationStatus.VERIFIED

    for topic_type in TopicType:
        before, after = site.read(site.topic("own", topic_type)), site.read(site.topic("shared", topic_type))
        kept = [
            record
            for record in before
            if record.key != b"session-key"
            and not (record.key or b"").startswith(b"restart-connector-")
            and (split_key(topic_type, record.key or b"") or ("none",))[0] is None
        ]
        marker = (GROUP + ".target-state-").encode()
        copied = [record for record in after if record.key != marker]
        assert sorted((GROUP.encode() + b"." + (r.key or b""), r.value or b"-", r.timestamp_ms) for r in kept) == (
            sorted(((r.key or b""), r.value or b"-", r.timestamp_ms) for r in copied)
        )
        assert all(r.partition == partition_for(r.key or b"", SHARED_PARTITIONS[topic_type]) for r in copied)
        has_marker = topic_type is TopicType.CONFIG and any(record.value is None for record in kept)
        assert [r.value for r in after if r.key == marker] == ([b"null"] if has_marker else [])
        if topic_type is TopicType.CONFIG:  # one partition, so the whole order is kept
            assert [r.key for r in copied] == [GROUP.encode() + b"." + (r.key or b"") for r in kept]
            if has_marker:
                assert after[-1].key == marker
            there, here = replay_config(before), replay_config(after, GROUP)
            assert here.connectors() == there.connectors()
            assert here.session_key is None
        elif topic_type is TopicType.STATUS:
            assert replay_status(after, GROUP) == replay_status(before)
        else:
            assert replay_offsets(after, GROUP) == replay_offsets(before)


def test_awkward_records(site: Site) -> None:
    """Tombstones, empty values, the same key twice, foreign prefixes, undecodable keys, headers, no records."""
    site.create("own")
    site.create("shared", SHARED_PARTITIONS)
    site.lay_down(
        "own",
        TopicType.CONFIG,
        [
            *SMALL[TopicType.CONFIG],
            pair("connector-a.b", '{"properties":{"name":"a.b","tasks.max":"2"}}'),
            pair("connector-gone", '{"properties":{}}'),
            pair("connector-gone", None),
            pair("target-state-gone", None),
            pair("other.connector-x", '{"properties":{}}'),
            pair("not a key"),
            pair(b"\xff\xfe\x00"),
            pair(""),
            pair("logger-cluster-org.apache", '{"level":"DEBUG"}'),
        ],
    )
    odd = Record(
        site.topic("own", TopicType.OFFSET), 3, 0, 1_600_000_000_000, b'["a",{}]', b"", (("h", None), ("h", b"\x00"))
    )
    # A time that is not known is -1; 0 cannot be written, which a plan would say.
    times = [Record(site.topic("own", TopicType.STATUS), 0, 0, ms, b"status-connector-a", b"{}") for ms in (-1, 1)]
    site.produce([odd, *times])
    source = site.worker_file("own", "orders", sharing=False)
    plan_path = site.plan(source, site.shared())
    plan = MigrationPlan.load(plan_path)
    counts = plan.sources[0].topics[TopicType.CONFIG].counts
    assert counts.skipped == {
        SkipReason.SESSION_KEY: 1,
        SkipReason.RESTART_REQUEST: 1,
        SkipReason.ALREADY_PREFIXED: 1,
        SkipReason.NOT_A_LEGAL_KEY: 3,
    }
    assert (counts.read, counts.to_write, counts.tombstones) == (15, 9, 2)
    assert sum("left behind" in warning for warning in plan.warnings) == 2
    assert not any("timestamp 0" in warning for warning in plan.warnings)

    manifest = apply_plan(plan_path)
    evidence = {e.slice_name: e for e in manifest.evidence}[f"0/config/{site.topic('own', TopicType.CONFIG)}[0]"]
    assert (evidence.read, evidence.written, evidence.tombstones, evidence.marker_written) == (15, 9, 2, True)
    assert (evidence.first_offset, evidence.last_offset) == (0, 14)
    assert evidence.skipped == counts.skipped
    (copied,) = site.read(site.topic("shared", TopicType.OFFSET))
    assert (copied.key, copied.value) == (GROUP.encode() + b'.["a",{}]', b"")
    assert copied.timestamp_ms == odd.timestamp_ms
    assert copied.headers == odd.headers
    configs = site.read(site.topic("shared", TopicType.CONFIG))
    assert (configs[-1].key, configs[-1].value) == (f"{GROUP}.target-state-".encode(), b"null")
    values = [record.value for record in configs if record.key == (GROUP + ".connector-gone").encode()]
    assert values == [b'{"properties":{}}', None]
    assert [record.timestamp_ms for record in site.read(site.topic("shared", TopicType.STATUS))] == [-1, 1]
    assert verify_plan(plan_path).equal


def test_empty_topics(site: Site) -> None:
    site.create("own")
    plan_path = site.plan(site.worker_file("own", "orders", sharing=False), site.shared())
    assert any("none of its records" in warning for warning in MigrationPlan.load(plan_path).warnings)
    manifest = apply_plan(plan_path)
    assert manifest.records_written == 0
    assert verify_plan(plan_path).equal


def test_apply_creates_the_shared_topics_with_the_settings_of_create_topics(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    source = site.small_source()
    destination = site.worker_file("shared", GROUP, sharing=True, config_storage_segment_ms="5000")
    plan_path = site.plan(source, destination)
    plan = MigrationPlan.load(plan_path)
    assert all(topic.create for topic in plan.destination.topics.values())
    for value, refused in (("-5", 2), ("5000", 0)):
        destination.write_text(re.sub(r"(segment\.ms=).*", rf"\g<1>{value}", destination.read_text()))
        code, _, said = run("apply", plan_path, "--dry-run")
        assert (code, "cannot be created: " in said) == (refused, bool(refused)), said
    with site.admin() as admin:
        assert admin.describe_topics([site.topic("shared", t) for t in TopicType]) == {}
    manifest = apply_plan(plan_path)
    assert all(topic.created and topic.topic_id for topic in manifest.destination.values())
    with site.admin() as admin:
        for topic_type in TopicType:
            name = site.topic("shared", topic_type)
            assert len(admin.describe_topics([name])[name].partitions) == SHARED_PARTITIONS[topic_type]
            configs = admin.topic_configs(name)
            assert (configs["cleanup.policy"], configs["min.cleanable.dirty.ratio"]) == ("compact", "0.1")
            assert int(configs["segment.bytes"]) <= 16 << 20
            assert configs["segment.ms"] == ("5000" if topic_type is TopicType.CONFIG else "3600000")
    code, out, err = run("verify", plan_path)
    assert (code, out.strip()) == (0, "equal: 3 comparisons, no difference"), err
    files = ("--source-worker-config", source, "--destination-worker-config", destination)
    assert "another name" in run("plan", *files, "-o", plan_path)[2]
    # The three commands judge alike: of what apply made, and of topics with the brokers' own settings.
    console = console_of(capsys)
    for who, file, as_wanted in (("shared", destination, True), ("own", source, False)):
        shown = console("create", "topics", "-w", file).out
        assert (f"{site.topic(who, TopicType.CONFIG)} (config): exists, as wanted" in shown) is as_wanted
        differing = console("check", "topics", "-w", file, "--output", "json").json["differences"]
        assert ("segment.bytes" in {found["what"] for found in differing}) is not as_wanted
        noted = console("check", "startup", "-w", file).err
        assert ("is not as create topics would make it: segment.bytes is 1073741824" in noted) is not as_wanted


def test_a_plan_is_carried_to_another_machine(site: Site, tmp_path: Path) -> None:
    """Together with the worker files: they lie beside it there, or where an edited plan says."""
    source, destination = site.small_source(), site.shared()
    plan = site.plan(source, destination)
    there = tmp_path / "there"
    there.mkdir()
    moved = plan.rename(there / plan.name)
    destination.rename(there / destination.name)
    source.rename(there / "elsewhere")
    code, _, said = run("apply", moved, "--yes")
    assert code == 1
    assert (
        f"the worker file {source} that the plan names is not there; put it there, or as {source.name} beside" in said
    )
    moved.write_text(moved.read_text("utf-8").replace(f'"{source}"', '"elsewhere"'), "utf-8")
    commands: list[list[str | Path]] = [
        ["apply", moved, "--yes"],
        ["verify", moved],
        ["cutover", moved, "--yes"],
        ["rollback", moved, "--dry-run"],
    ]
    for words in commands:
        run_well(*words)
    (there / destination.name).write_text((there / destination.name).read_text().replace("group.id=", "group.id=x"))
    code, _, said = run("verify", moved)
    assert code == 1
    assert "was changed since the plan was made (group.id)" in said


def test_verify_of_a_finished_move_says_that_its_topic_is_lost(site: Site) -> None:
    plan_path = site.plan(site.small_source(), site.shared())
    apply_plan(plan_path)
    topic = site.topic("shared", TopicType.CONFIG)
    with site.admin() as admin:
        delete_known(admin, topic)
        gone = [run(each, plan_path) for each in ("verify", "rollback")]
        with pytest.raises(LostTopicError):  # a move would make it anew, empty but for what is moved
            make_plan([site.small_source("two", "billing")], [site.shared()], now_ms=1)
        site.create_topic(admin, topic, 1, {})
    for code, _, said in (*gone, *(run(each, plan_path) for each in ("verify", "cutover", "rollback"))):
        assert (code, "is lost, not empty" in said) == (1, True), said


def test_verify_finds_what_was_changed_at_the_destination(site: Site) -> None:
    plan_path = site.plan(site.small_source(), site.shared())
    apply_plan(plan_path)
    topic = site.topic("shared", TopicType.OFFSET)
    key = (GROUP + '.["a.b",{"filename":"x.txt"}]').encode()
    site.produce([Record(topic, partition_for(key, 7), 0, 1_700_000_000_000, key, b'{"position":4711002}')])
    config = site.topic("shared", TopicType.CONFIG)
    site.produce([Record(config, 0, 0, 1_700_000_000_000, (GROUP + ".connector-a.b").encode(), b"null")])
    found = verify_plan(plan_path)
    assert not found.equal
    assert {(d.kind, d.connector, d.problem) for d in found.differences} == {
        ("offset", "a.b", Mismatch.DIFFERENT),
        ("connector", "a.b", Mismatch.MISSING),
    }
    assert Manifest.load(manifest_path(plan_path)).status is MigrationStatus.COPIED
    code, out, _ = run("verify", plan_path, "--output", "json")
    told = json.loads(out)
    assert code == 1
    assert told["equal"] is False
    assert told["_command"] == "verify"
    assert told["_version"]
    assert len(told["differences"]) == 2
    assert "4711002" not in out
    code, out, err = run("verify", plan_path)
    assert (code, out.splitlines()[-1], "error" in err) == (1, "different: 2 differences", False)
    # What could not be compared is not different.
    (site.folder / f"shared-{GROUP}-sharing.properties").unlink()
    code, out, err = run("verify", plan_path)
    assert (code, out) == (1, "")
    assert err.splitlines()[-1].startswith("connect-share-migrate: error: the worker file ")


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
    command("rollback", plan, "--dry-run", code=1)

    told += [record.getMessage() + str(record.exc_text) + repr(record.args) for record in caplog.records]
    written = [path for path in site.folder.rglob("*") if path.is_file() and path.suffix != ".properties"]
    assert plan in written
    assert not [path for path in site.folder.glob("*.json") if site.bootstrap_servers in path.read_text()]
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
