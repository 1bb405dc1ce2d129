"""The move of dedicated topics onto shared ones with the local engine, on a real broker."""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connect_share import client
from connect_share.errors import (
    BrokerError,
    ConfigError,
    LiveMembersError,
    OpenTransactionError,
    PartitionCountError,
    TopicMissingError,
    TopicNotCompactedError,
    TopicRecreatedError,
)
from connect_share.keys import split_key
from connect_share.murmur2 import partition_for
from connect_share.records import Record, TopicType
from connect_share.state import replay_config, replay_offsets, replay_status
from connect_share.worker_config.client_settings import ClientSettings, Isolation
from migrator.copy.copy_job import CopyJob
from migrator.copy.engine import copy_one
from migrator.copy.evidence import SliceEvidence
from migrator.errors import (
    AlreadyAppliedError,
    DestinationNotEmptyError,
    PlanRejectedError,
    SourceChangedError,
)
from migrator.facts.manifest import Manifest, MigrationStatus, manifest_path
from migrator.plan.plan import MigrationPlan
from migrator.planner.make_plan import make_plan
from migrator.transform.rules import SkipReason
from migrator.verify.equality import Mismatch, StateDifference
from migrator.verify.verify_job import VerifyJob
from tests.support.captures import VERSIONS, captured
from tests.support.connect_member import ConnectMember
from tests.support.console import console as console_of
from tests.support.migration_runs import apply_plan, check_plan, verify_plan
from tests.support.migration_site import (
    GROUP,
    SHARED_PARTITIONS,
    SMALL,
    Site,
    lay_down,
    pair,
    run,
    shared,
    small_source,
)
from tests.support.waiting import await_that

pytestmark = pytest.mark.broker

CAPTURE_NAMES = {TopicType.CONFIG: "configs", TopicType.STATUS: "status", TopicType.OFFSET: "offsets"}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_java_workers_wrote_is_moved_and_verified(site: Site, version: str) -> None:
    site.create("own")
    site.create("shared", SHARED_PARTITIONS)
    for topic_type in TopicType:
        records = captured(version, CAPTURE_NAMES[topic_type])
        site.produce([replace(record, topic=site.topic("own", topic_type)) for record in records])
    plan_path = site.plan(site.worker_file("own", "orders", sharing=False), shared(site))

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
    lay_down(
        site,
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
    site.produce([odd])
    source = site.worker_file("own", "orders", sharing=False)
    plan_path = site.plan(source, shared(site))
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
    assert site.read(site.topic("shared", TopicType.STATUS)) == []
    assert verify_plan(plan_path).equal


def settled(site: Site, topic: str) -> None:
    """Wait for the transaction's marker: the coordinator answers before it is written."""
    with site.admin() as admin:

        def open_records() -> int:
            end = admin.end_offsets([(topic, 0)])[(topic, 0)]
            return end - admin.end_offsets([(topic, 0)], Isolation.READ_COMMITTED)[(topic, 0)]

        await_that(open_records, lambda count: count == 0, what=f"{topic} without an open transaction")


def transactional(site: Site, topic: str, keys: Sequence[str], *, end: str) -> Any:
    """Write keys in a transaction and commit it, abort it or leave it open."""
    producer = client.producer(
        site.settings,
        client_id="test",
        overrides={
            "transactional.id": f"{site.name}-{end}-{keys[0]}",
            "enable.idempotence": "true",
            "transaction.timeout.ms": "600000",
        },
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for key in keys:
        producer.produce(topic, key=key.encode(), value=b'{"properties":{}}', partition=0)
    producer.flush(30)
    if end == "commit":
        producer.commit_transaction(30)
    elif end == "abort":
        producer.abort_transaction(30)
    if end != "open":
        settled(site, topic)
    return producer


def test_a_log_that_ends_in_a_transaction_marker(site: Site) -> None:
    source = small_source(site)
    topic = site.topic("own", TopicType.CONFIG)
    transactional(site, topic, ["connector-t"], end="commit")
    plan_path = site.plan(source, shared(site))
    apply_plan(plan_path)
    assert verify_plan(plan_path).equal
    assert replay_config(site.read(site.topic("shared", TopicType.CONFIG)), GROUP).connectors() == {"a.b", "t"}


@pytest.mark.parametrize(("support", "sees"), [("enabled", {"a.b"}), ("disabled", {"a.b", "ghost"})])
def test_each_source_is_read_as_its_own_worker_reads_it(site: Site, support: str, sees: set[str]) -> None:
    source = small_source(site, exactly_once_source_support=support)
    transactional(site, site.topic("own", TopicType.CONFIG), ["connector-ghost"], end="abort")
    plan_path = site.plan(source, shared(site))
    apply_plan(plan_path)
    assert verify_plan(plan_path).equal
    assert replay_config(site.read(site.topic("shared", TopicType.CONFIG)), GROUP).connectors() == sees


@pytest.mark.parametrize("support", ["enabled", "disabled"])
def test_an_open_transaction_is_refused(site: Site, support: str) -> None:
    source = small_source(site, exactly_once_source_support=support)
    topic = site.topic("own", TopicType.CONFIG)
    producer = transactional(site, topic, ["connector-open"], end="open")
    with pytest.raises(OpenTransactionError) as caught:
        site.plan(source, shared(site))
    assert (caught.value.topic, caught.value.partition) == (topic, 0)
    assert (caught.value.last_stable_offset, caught.value.end_offset) == (6, 7)
    assert "6" in str(caught.value)
    assert "7" in str(caught.value)
    producer.abort_transaction(30)
    settled(site, topic)
    plan_path = site.plan(source, shared(site))
    producer.begin_transaction()
    producer.produce(site.topic("own", TopicType.STATUS), key=b"status-connector-x", value=b"{}", partition=0)
    producer.flush(30)
    with pytest.raises((OpenTransactionError, SourceChangedError)):
        apply_plan(plan_path)
    producer.abort_transaction(30)


def test_gaps_left_by_compaction(site: Site) -> None:
    settings = {
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.0001",
        "max.compaction.lag.ms": "100",
        "delete.retention.ms": "0",
    }
    site.create("own", configs=settings)
    topic = site.topic("own", TopicType.CONFIG)
    deadline = time.monotonic() + 90
    number = 0
    while len(left := site.read(topic)) == number or left[0].offset == 0:
        assert time.monotonic() < deadline, f"no compaction: {len(left)} of {number} records left"
        now_ms = int(time.time() * 1000)  # the age of a segment is told by its records
        site.produce([Record(topic, 0, 0, now_ms, b"connector-a", b'{"properties":{"n":"%d"}}' % number)])
        number += 1
        time.sleep(0.2)  # segments roll by time: nothing can be asked for instead
    plan_path = site.plan(site.worker_file("own", "orders", sharing=False), shared(site))
    apply_plan(plan_path)
    assert verify_plan(plan_path).equal


def test_empty_topics(site: Site) -> None:
    site.create("own")
    plan_path = site.plan(site.worker_file("own", "orders", sharing=False), shared(site))
    assert any("none of its records" in warning for warning in MigrationPlan.load(plan_path).warnings)
    manifest = apply_plan(plan_path)
    assert manifest.records_written == 0
    assert verify_plan(plan_path).equal


def test_apply_creates_the_shared_topics_with_the_settings_of_create_topics(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    source, destination = (
        small_source(site),
        site.worker_file("shared", GROUP, sharing=True, config_storage_segment_ms="5000"),
    )
    plan_path = site.plan(source, destination)
    plan = MigrationPlan.load(plan_path)
    assert all(topic.create for topic in plan.destination.topics.values())
    check_plan(plan_path)
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
    assert verify_plan(plan_path).equal
    # The three commands judge alike: of what apply made, and of topics with the brokers' own settings.
    console = console_of(capsys)
    for who, file, as_wanted in (("shared", destination, True), ("own", source, False)):
        assert (
            f"{site.topic(who, TopicType.CONFIG)} (config): exists, as wanted"
            in console("create", "topics", "-w", file).out
        ) is as_wanted
        differing = console("check", "topics", "-w", file, "--output", "json").json["differences"]
        assert ("segment.bytes" in {found["what"] for found in differing}) is not as_wanted
        noted = console("check", "startup", "-w", file).err
        assert ("is not as create topics would make it: segment.bytes is 1073741824" in noted) is not as_wanted


def test_a_plan_is_carried_to_another_machine(site: Site, tmp_path: Path) -> None:
    """Together with the worker files: they lie beside it there, or where an edited plan says."""
    source, destination = small_source(site), shared(site)
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
        code, _, said = run(*words)
        assert code == 0, said
    (there / destination.name).write_text((there / destination.name).read_text().replace("group.id=", "group.id=x"))
    code, _, said = run("verify", moved)
    assert code == 1
    assert "was changed since the plan was made (group.id)" in said


def test_several_sources_keep_their_names(site: Site) -> None:
    first, second = small_source(site, "one", "orders"), small_source(site, "two", "billing")
    site.create("shared", SHARED_PARTITIONS)
    foreign = Record(site.topic("shared", TopicType.CONFIG), 0, 0, 1, b"third.connector-z", b'{"properties":{}}')
    site.produce([foreign])
    plan_path = site.folder / "plan.json"
    plan = make_plan([first, second], [shared(site)], now_ms=1)
    plan.save(plan_path)
    assert [source.cluster_group_id for source in plan.sources] == ["orders", "billing"]
    assert any("not used" in warning for warning in plan.warnings)
    assert any("'a.b' exists in orders, billing" in warning for warning in plan.warnings)
    apply_plan(plan_path)
    assert verify_plan(plan_path).equal
    records = site.read(site.topic("shared", TopicType.CONFIG))
    assert replay_config(records, "orders").connectors() == {"a.b"}
    assert replay_config(records, "billing").connectors() == {"a.b"}
    assert replay_config(records, "third").connectors() == {"z"}


def test_pairs_of_files_rename_each_source(site: Site) -> None:
    first, second = small_source(site, "one", "orders"), small_source(site, "two", "billing")
    plan = make_plan([first, second], [shared(site, "eu.orders"), shared(site, "eu.billing")], now_ms=1)
    assert [source.cluster_group_id for source in plan.sources] == ["eu.orders", "eu.billing"]
    path = site.folder / "plan.json"
    plan.save(path)
    apply_plan(path)
    assert verify_plan(path).equal


def test_sources_are_never_merged(site: Site) -> None:
    first, second = small_source(site, "one", "orders"), small_source(site, "two", "orders")
    with pytest.raises(ConfigError, match="merged"):
        make_plan([first, second], [shared(site)], now_ms=1)
    with pytest.raises(ConfigError, match="3 source worker files and 2 destination"):
        make_plan([first, second, first], [shared(site), shared(site)], now_ms=1)
    illegal = site.worker_file("one", "task-runner", sharing=False)
    with pytest.raises(ConfigError, match=r"group\.id"):
        make_plan([illegal, second], [shared(site)], now_ms=1)
    make_plan([illegal], [shared(site)], now_ms=1)  # the destination names it


def test_bad_topics_are_refused(site: Site) -> None:
    missing = site.worker_file("none", "orders", sharing=False)
    with pytest.raises(TopicMissingError):
        make_plan([missing], [shared(site)], now_ms=1)
    source = small_source(site)
    site.create("shared", SHARED_PARTITIONS, {"cleanup.policy": "compact,delete"})
    with pytest.raises(TopicNotCompactedError, match=r"cleanup\.policy"):
        make_plan([source], [shared(site)], now_ms=1)
    site.create("wide", {**SHARED_PARTITIONS, TopicType.CONFIG: 3})
    with pytest.raises(PartitionCountError):
        make_plan([source], [site.worker_file("wide", GROUP, sharing=True)], now_ms=1)
    with pytest.raises(PartitionCountError):
        make_plan(
            [site.worker_file("wide", "orders", sharing=False)],
            [site.worker_file("fresh", GROUP, sharing=True)],
            now_ms=1,
        )


def test_a_key_that_makes_its_record_too_large(site: Site) -> None:
    site.create("own")
    lay_down(site, "own", TopicType.CONFIG, [pair("connector-big", "x" * 2000)])
    site.create("shared", SHARED_PARTITIONS, {"max.message.bytes": "2100"})
    with pytest.raises(PlanRejectedError, match=r"max\.message\.bytes=2100") as caught:
        site.plan(site.worker_file("own", "orders", sharing=False), shared(site))
    assert f"{site.topic('own', TopicType.CONFIG)}[0]@0" in str(caught.value)


def test_two_megabytes_pass_when_the_topic_takes_them(site: Site) -> None:
    site.create("own", configs={"max.message.bytes": "4000000"})
    site.create("shared", SHARED_PARTITIONS, {"max.message.bytes": "4000000"})
    topic = site.topic("own", TopicType.CONFIG)
    value = b'{"properties":{"x":"%s"}}' % (b"x" * 2_000_000)
    producer = client.producer(site.settings, client_id="test", overrides={"message.max.bytes": "4000000"})
    producer.produce(topic, key=b"connector-big", value=value, partition=0)
    assert producer.flush(30) == 0
    plan_path = site.plan(site.worker_file("own", "orders", sharing=False), shared(site))
    apply_plan(plan_path)
    (copied,) = site.read(site.topic("shared", TopicType.CONFIG))
    assert copied.value == value


def test_a_destination_that_holds_the_group_is_refused(site: Site) -> None:
    source = small_source(site)
    site.create("shared", SHARED_PARTITIONS)
    topic = site.topic("shared", TopicType.STATUS)
    site.produce([Record(topic, 0, 0, 1, f"{GROUP}.x.status-connector-a".encode(), b"{}")])
    plan_path = site.plan(source, shared(site))  # com.acme.orders.x is another group
    site.produce([Record(topic, 0, 0, 1, f"{GROUP}.status-connector-a".encode(), None)])
    site.plan(source, shared(site), "removed.json")  # what was removed holds nothing up
    site.produce([Record(topic, 0, 0, 1, f"{GROUP}.status-connector-a".encode(), b"{}")])
    with pytest.raises(DestinationNotEmptyError, match=r"1 living key\(s\) of group com\.acme\.orders"):
        site.plan(source, shared(site), "second.json")
    with pytest.raises(DestinationNotEmptyError):
        apply_plan(plan_path)
    assert not manifest_path(plan_path).exists()
    assert site.read(site.topic("shared", TopicType.CONFIG)) == []


def test_what_changed_since_the_plan_is_refused(site: Site) -> None:
    source = small_source(site)
    plan_path = site.plan(source, shared(site))
    lay_down(site, "own", TopicType.OFFSET, [pair('["a.b",{"filename":"y.txt"}]', "{}")])
    with pytest.raises(SourceChangedError, match="was written since"):
        apply_plan(plan_path)

    plan_path = site.plan(source, shared(site))
    topic = site.topic("own", TopicType.CONFIG)
    with site.admin() as admin:
        admin.delete_topics([topic])
        await_that(lambda: topic not in admin.describe_topics([topic]), what="deleted")
        site.create_topic(admin, topic, 1, {})
    lay_down(site, "own", TopicType.CONFIG, SMALL[TopicType.CONFIG])
    with pytest.raises(TopicRecreatedError):
        apply_plan(plan_path)

    plan_path = site.plan(source, shared(site))
    source.write_text(source.read_text().replace("group.id=orders", "group.id=others"))
    with pytest.raises(PlanRejectedError, match=r"group\.id"):
        apply_plan(plan_path)

    plan_path = site.plan(source, shared(site))
    destination = shared(site)
    destination.write_text(destination.read_text().replace(f"group.id={GROUP}", "group.id=somebody.else"))
    with pytest.raises(PlanRejectedError, match=r"group\.id"):
        apply_plan(plan_path)
    with site.admin() as admin:
        assert admin.describe_topics([site.topic("shared", TopicType.CONFIG)]) == {}


def test_a_plan_is_applied_once_and_by_one_process(site: Site) -> None:
    plan_path = site.plan(small_source(site), shared(site))

    def second(_jobs: Sequence[CopyJob]) -> list[SliceEvidence]:
        with pytest.raises(AlreadyAppliedError, match="another process"):
            apply_plan(plan_path)
        raise RuntimeError("before the first record")

    with pytest.raises(RuntimeError, match="before the first record"):
        apply_plan(plan_path, engine=second)
    assert Manifest.load(manifest_path(plan_path)).status is MigrationStatus.PLANNED
    apply_plan(plan_path)  # nothing was written: it may be repeated
    before = {t: site.read(site.topic("shared", t)) for t in TopicType}
    with pytest.raises(AlreadyAppliedError, match="copied"):
        apply_plan(plan_path)
    assert verify_plan(plan_path).equal
    with pytest.raises(AlreadyAppliedError, match="verified"):
        apply_plan(plan_path)
    assert {t: site.read(site.topic("shared", t)) for t in TopicType} == before
    assert stat.S_IMODE(manifest_path(plan_path).stat().st_mode) == 0o600


def test_verify_finds_what_was_changed_at_the_destination(site: Site) -> None:
    plan_path = site.plan(small_source(site), shared(site))
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


def test_live_workers_are_refused(site: Site) -> None:
    source = small_source(site, group=f"{site.name}-orders")
    plan_path = site.plan(source, shared(site, f"{site.name}-eu"))
    with ConnectMember(site.bootstrap_servers, f"{site.name}-orders"):
        with pytest.raises(LiveMembersError, match=f"1 worker.s. of the source group {site.name}-orders"):
            site.plan(source, shared(site, f"{site.name}-eu"))
        with pytest.raises(LiveMembersError):
            apply_plan(plan_path)
    with (
        ConnectMember(site.bootstrap_servers, f"{site.name}-eu"),
        pytest.raises(LiveMembersError, match="destination group"),
    ):
        site.plan(source, shared(site, f"{site.name}-eu"))


def test_kill_in_the_middle_and_a_second_apply(site: Site) -> None:
    """What is there after kill -9 is a part in order; a second apply refuses and says how far the first came."""
    site.create("own")
    site.create("shared", SHARED_PARTITIONS)
    pairs = [pair(f"connector-{n}", '{"properties":{"x":"%s"}}' % ("x" * 200)) for n in range(60_000)]
    lay_down(site, "own", TopicType.CONFIG, pairs)
    lay_down(site, "own", TopicType.OFFSET, SMALL[TopicType.OFFSET])
    # Small requests, so that the middle of the copy lasts long enough to be hit.
    destination = site.worker_file("shared", GROUP, sharing=True, producer_batch_size="3000")
    plan_path = site.plan(site.worker_file("own", "orders", sharing=False), destination)
    process = subprocess.Popen(
        [sys.executable, "-m", "migrator.cli", "apply", str(plan_path), "--yes"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    topic = site.topic("shared", TopicType.CONFIG)
    with site.admin() as admin:

        def end() -> int:
            assert process.poll() is None
            return admin.end_offsets([(topic, 0)])[(topic, 0)]

        await_that(end, what="begun to copy", timeout_s=120)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(30)

    copied = site.read(topic)
    assert 0 < len(copied) < len(pairs)
    assert [record.key for record in copied] == [f"{GROUP}.{key}".encode() for key, _, _ in pairs[: len(copied)]]
    assert Manifest.load(manifest_path(plan_path)).status is MigrationStatus.PLANNED
    code, _, err = run("apply", plan_path, "--yes")
    assert code == 1
    assert re.search(r"interrupted after \d+ of 11 slices", err)
    assert len(site.read(topic)) == len(copied)
    assert not verify_plan(plan_path).equal


def test_a_repeated_task_writes_nothing_twice(site: Site) -> None:
    """What Spark does after a failed attempt: the same jobs again, told that they are not the first."""
    small = small_source(site)
    lay_down(site, "own", TopicType.CONFIG, [pair("connector-gone", None), *SMALL[TopicType.CONFIG]])
    plan_path = site.plan(small, shared(site))

    def twice(jobs: Any) -> Iterator[Any]:
        for job in jobs:
            first = copy_one(job)
            again = copy_one(job, resumed=True)
            assert again.found_present == again.written == first.written
            assert again.digest == first.digest
            yield again

    apply_plan(plan_path, engine=twice, engine_name="twice")
    marker = f"{GROUP}.target-state-".encode()
    keys = [record.key for record in site.read(site.topic("shared", TopicType.CONFIG)) if record.key != marker]
    assert len(keys) == 1 + 2 * 4
    assert verify_plan(plan_path).equal


def test_timestamps(site: Site) -> None:
    """None (-1) and 1 stay; 0 cannot be written, which the plan says."""
    site.create("own")
    topic = site.topic("own", TopicType.CONFIG)
    site.produce([Record(topic, 0, 0, timestamp_ms, b"connector-a", b"{}") for timestamp_ms in (-1, 1)])
    plan_path = site.plan(site.worker_file("own", "orders", sharing=False), shared(site))
    assert not any("timestamp 0" in warning for warning in MigrationPlan.load(plan_path).warnings)
    apply_plan(plan_path)
    assert [record.timestamp_ms for record in site.read(site.topic("shared", TopicType.CONFIG))] == [-1, 1]


def test_a_refused_record_ends_the_copy(site: Site) -> None:
    """The limit of the destination was lowered after the plan was made: nothing counts as copied."""
    site.create("own")
    lay_down(site, "own", TopicType.CONFIG, [pair("connector-a"), pair("connector-big", "x" * 3000)])
    site.create("tiny", SHARED_PARTITIONS, {"max.message.bytes": "2000"})
    plan_path = site.plan(site.worker_file("own", "orders", sharing=False), shared(site))
    tiny = site.topic("tiny", TopicType.CONFIG)

    def lowered(jobs: Sequence[CopyJob]) -> Iterator[SliceEvidence]:
        for job in jobs:
            yield copy_one(replace(job, slice_=replace(job.slice_, destination_topic=tiny)))

    with pytest.raises(BrokerError, match=f"writing to {tiny} failed: MSG_SIZE_TOO_LARGE"):
        apply_plan(plan_path, engine=lowered)
    manifest = Manifest.load(manifest_path(plan_path))
    assert (manifest.status, manifest.evidence) == (MigrationStatus.PLANNED, ())

    def in_this_thread(jobs: Sequence[CopyJob]) -> Iterator[SliceEvidence]:
        yield from (copy_one(job) for job in jobs)

    assert apply_plan(plan_path, engine=in_this_thread).status is MigrationStatus.COPIED  # the shared topics are empty
    assert verify_plan(plan_path).equal


def test_jobs_travel_and_hide_their_secrets(site: Site) -> None:
    """What Spark sends to its workers; a secret in it is not shown when one is printed or logged."""
    plan_path = site.plan(small_source(site), shared(site))
    secret = ClientSettings({"bootstrap.servers": site.bootstrap_servers, "sasl.password": "open-sesame"})
    seen: list[CopyJob] = []

    def travelling(jobs: Sequence[CopyJob]) -> Iterator[SliceEvidence]:
        for job in jobs:
            copy = pickle.loads(pickle.dumps(job))
            assert copy == job
            seen.append(replace(job, consumer_settings=secret, producer_settings=secret))
            yield pickle.loads(pickle.dumps(copy_one(copy)))

    apply_plan(plan_path, engine=travelling, engine_name="travelling")
    assert "open-sesame" not in repr(seen)

    def comparing(jobs: Sequence[VerifyJob]) -> Iterator[list[StateDifference]]:
        for job in jobs:
            yield pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(job)).run()))

    assert verify_plan(plan_path, engine=comparing).equal
    texts = [path.read_text() for path in site.folder.glob("*.json")]
    assert len(texts) == 2
    assert not any(site.bootstrap_servers in text for text in texts)


def test_the_commands(site: Site) -> None:
    source, destination = small_source(site), shared(site)
    plan_path = site.folder / "move.json"
    code, out, err = run(
        "plan", "--source-worker-config", source, "--destination-worker-config", destination, "-o", plan_path
    )
    assert code == 0, err
    assert "orders becomes com.acme.orders (1 connector)" in out
    assert "left behind: 1 session_key" in out
    assert all("phase" in json.loads(line) for line in err.splitlines())
    code, out, err = run("apply", plan_path)
    assert code == 1
    assert "--yes" in err
    code, out, err = run("apply", plan_path, "--dry-run")
    assert code == 0, err
    assert "nothing was written" in out
    assert not manifest_path(plan_path).exists()
    code, out, err = run("apply", plan_path, "--yes", "--output", "json")
    assert code == 0, err
    told = json.loads(out)
    assert (told["_command"], told["manifest"]["status"]) == ("apply", "copied")
    code, out, err = run("verify", plan_path)
    assert (code, out.strip()) == (0, "equal: 3 comparisons, no difference"), err
    code, _, err = run(
        "plan", "--source-worker-config", source, "--destination-worker-config", destination, "-o", plan_path
    )
    assert code == 1
    assert "another name" in err
