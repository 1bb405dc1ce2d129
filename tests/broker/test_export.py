"""Groups exported to one file and put back: exact, whole and by connector, into the same and other groups and topics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connect_share.backup.record_file import RecordFile
from connect_share.kafka.client import producer
from connect_share.model.records import Record, TopicType
from connect_share.sealing import KEYS_PROPERTY
from connect_share.sealing.cipher import is_sealed
from tests.support.console import console
from tests.support.migration_site import SMALL, Site, pair
from tests.support.sealed import key_text
from tests.support.sealed_sites import life, worker
from tests.support.sealed_stores import MODE

LEFT_OUT = (b"session-key", b"restart-connector-a.b")


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Any:
    return console(capsys)


@pytest.fixture
def shared(site: Site) -> Site:
    """Shared topics with the groups one and two, a cluster with plain keys, garbage, headers, and a removed connector."""
    site.create("shared")
    for group in ("one.", "two.", ""):
        for topic_type, records in SMALL.items():
            site.lay_down("shared", topic_type, [(group + key, value, None) for key, value, _ in records])
    config = [pair("one.connector-gone", "{}"), pair("one.connector-gone", "null"), pair("garbage", "x")]
    site.lay_down("shared", TopicType.CONFIG, [*config, pair("one.connector-b", '{"properties":{}}')])
    topic = site.topic("shared", TopicType.OFFSET)
    headers = (("h", b"1"), ("h", None))
    site.produce([Record(topic, 0, 0, 1_700_000_000_500, b'one.["b",{}]', None, headers)])
    return site


def of_group(site: Site, who: str, topic_type: TopicType, group: str) -> list[tuple[object, ...]]:
    begin = f"{group}.".encode()
    found = [each for each in site.read(site.topic(who, topic_type)) if (each.key or b"").startswith(begin)]
    records: list[tuple[object, ...]] = [
        (each.key, each.value, each.timestamp_ms, each.headers or ())
        for each in found
        if (each.key or b"")[len(begin) :] not in LEFT_OUT
    ]
    return records if topic_type is TopicType.CONFIG else sorted(records, key=repr)


def test_a_group_goes_out_and_comes_back_exactly(shared: Site, call: Any) -> None:
    file = shared.folder / "one.avro"
    worker = shared.worker_file("shared", "one", sharing=True)
    told = call("export", "-w", worker, "-o", file, "--output", "json").json
    assert (told["groups"], told["records"]) == (["one"], 13)
    assert file.stat().st_mode & 0o777 == 0o600
    elsewhere = shared.worker_file("elsewhere", "one", sharing=True)
    done = call("restore", file, "-w", elsewhere, "--yes", "--output", "json")
    assert (done.code, done.json["verified"]) == (0, True)
    for topic_type in TopicType:
        assert of_group(shared, "elsewhere", topic_type, "one") == of_group(shared, "shared", topic_type, "one")
    again = call("export", "-w", worker, "-o", file)
    assert (again.code, again.out) == (1, "")
    assert "is there already" in again.err
    dry = call("restore", file, "-w", elsewhere, "--dry-run", "--output", "json").json
    assert {(each["added"], each["changed"], each["removed"]) for each in dry["changes"]} == {(0, 0, 0)}


def test_all_groups_lie_in_one_file_and_go_where_they_are_wanted(shared: Site, call: Any) -> None:
    """Without a worker file; one group under another name, and the plain cluster into shared topics."""
    file = shared.folder / "all.avro"
    flags = [word for t in TopicType for word in (f"--{t.value}-storage-topic", shared.topic("shared", t))]
    told = call("export", "-B", shared.bootstrap_servers, *flags, "-o", file, "--output", "json").json
    assert told["groups"] == [None, "one", "two"]
    keys = [record.key for record in RecordFile(file).read()]
    assert b"garbage" not in keys
    third = shared.worker_file("elsewhere", "three", sharing=True)
    refused = call("restore", file, "-w", third, "--yes")
    assert refused.code == 1
    assert "choose with --from-group" in refused.err
    assert call("restore", file, "-w", third, "--from-group", "two", "--yes").code == 0
    fourth = shared.worker_file("elsewhere", "four", sharing=True)
    assert call("restore", file, "-w", fourth, "--from-plain", "--yes").code == 0
    expected = [b".connector-a.b", b".task-a.b-0", b".commit-a.b", b".target-state-a.b"]
    found = [record.key for record in shared.read(shared.topic("elsewhere", TopicType.CONFIG))]
    assert found == [b"three" + key for key in expected] + [b"four" + key for key in expected]


def test_connectors_are_exported_and_restored_by_their_exact_names(shared: Site, call: Any) -> None:
    worker = shared.worker_file("shared", "one", sharing=True)
    file = shared.folder / "two.avro"
    words = ("export", "-w", worker, "-o", file)
    refused = call(*words, "--connector", "b", "--connector", "B")
    assert (refused.code, file.exists()) == (1, False)
    assert "no record of 'B': names are exact" in refused.err
    unknown = call(*words, "--group", "three")
    assert "no record of three" in unknown.err
    assert call(*words, "--connector", "b", "--connector", "a.b").code == 0
    keys = [record.key or b"" for record in RecordFile(file).read()]
    assert len(keys) == 10
    assert all(b"gone" not in key and b"session" not in key for key in keys)
    elsewhere = shared.worker_file("elsewhere", "one", sharing=True)
    missing = call("restore", file, "-w", elsewhere, "--yes", "--connector", "b", "--connector", "gone")
    assert missing.code == 1
    assert "no record of connector(s) 'gone'" in missing.err
    assert call("restore", file, "-w", elsewhere, "--yes", "--connector", "b").code == 0
    found = {record.key for t in TopicType for record in shared.read(shared.topic("elsewhere", t))}
    assert found == {b"one.connector-b", b'one.["b",{}]'}


def test_what_is_not_committed_is_not_exported(shared: Site, call: Any, unique: str) -> None:
    """An aborted record is left out; what an open transaction holds back is named, and not in the file."""
    topic = shared.topic("shared", TopicType.CONFIG)
    writer = producer(shared.settings, client_id="tests", overrides={"transactional.id": unique})
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce(topic, key=b"two.connector-aborted", value=b"{}")
    writer.abort_transaction(30)
    worker = shared.worker_file("shared", "two", sharing=True)
    first, second = (shared.folder / name for name in ("first.avro", "second.avro"))
    assert call("export", "-w", worker, "-o", first).code == 0
    writer.begin_transaction()
    writer.produce(topic, key=b"two.connector-open", value=b"{}")
    assert writer.flush(30) == 0
    held = call("export", "-w", worker, "-o", second)
    writer.abort_transaction(30)
    assert held.code == 0
    assert "an open transaction holds back the end" in held.err

    def records_of(file: Path) -> list[Record]:
        return sorted(RecordFile(file).read(), key=lambda each: (each.topic, each.partition, each.offset))

    assert records_of(first) == records_of(second)
    assert all(b"aborted" not in (record.key or b"") for record in records_of(first))


def test_an_encrypted_file_tells_no_value_and_opens_with_its_key_only(shared: Site, call: Any) -> None:
    """Of a group that is not sealed, and of one that is."""
    off = {MODE: "off", KEYS_PROPERTY: key_text(7)}
    plain = shared.worker_file("shared", "one", sharing=True)
    refused = call("export", "-w", plain, "-o", shared.folder / "no.avro", "--encrypt")
    assert (refused.code, "needs a worker file with keys" in refused.err) == (2, True)
    keyed = shared.worker_file("shared", "one", sharing=True, **off)
    file, group = shared.folder / "one.avro", shared.worker_file("elsewhere", "one", sharing=True)
    assert call("export", "-w", keyed, "-o", file, "--encrypt").code == 0
    assert all(is_sealed(record.value) for record in RecordFile(file).read())
    without = call("restore", file, "-w", group, "--yes")
    assert (without.code, "is encrypted with key 7: give the worker file that key" in without.err) == (2, True)
    other = shared.worker_file("elsewhere", "one", sharing=True, **{**off, KEYS_PROPERTY: key_text(8)})
    assert "is encrypted with key 7" in call("restore", file, "-w", other, "--yes").err
    right = shared.worker_file("elsewhere", "one", sharing=True, **{**off, KEYS_PROPERTY: key_text(8, 7)})
    assert call("restore", file, "-w", right, "--yes").code == 0
    for topic_type in TopicType:
        assert of_group(shared, "elsewhere", topic_type, "one") == of_group(shared, "shared", topic_type, "one")


def test_an_encrypted_file_of_a_sealed_group_comes_back(shared: Site, call: Any) -> None:
    path = worker(shared, "shared", "a", 7)
    life(path, "c")
    file = shared.folder / "a.avro"
    assert call("export", "-w", path, "-o", file, "--encrypt").code == 0
    elsewhere = worker(shared, "elsewhere", "a", 7)
    assert call("restore", file, "-w", elsewhere, "--yes").code == 0
    assert set(life(elsewhere)[0].connectors()) == {"c"}
