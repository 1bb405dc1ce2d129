"""Topic ids of a live KRaft broker against its own disk: base64 of two alphabets, and a topic that came again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from connect_share.cli.__main__ import main
from connect_share.kafka.client import ConfigResource, ResourceType, admin_client
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.topic_ids.authority.kraft import authority_of_brokers
from connect_share.topic_ids.compare.compare import IdFindingKind, compare
from connect_share.topic_ids.scan import scanner
from connect_share.topic_ids.scan.scans import scans_of_records
from tests.support.kafka import TestBroker
from tests.support.waiting import await_that


def log_dirs(broker: TestBroker) -> list[str]:
    client = admin_client(broker.client_settings, client_id="tests")
    resource = ConfigResource(ResourceType.BROKER, "1")
    entries = client.describe_configs([resource], request_timeout=30)[resource].result(120)
    found = [str(name).strip() for name in (entries["log.dirs"].value or entries["log.dir"].value).split(",")]
    if not broker.ours or not all(Path(name).is_dir() for name in found):
        pytest.skip("the broker's disk cannot be seen from here")
    return found


def test_a_live_kraft_broker(
    broker: TestBroker, unique: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths, topics = log_dirs(broker), [f"{unique}-{number}" for number in range(20)]
    with broker.admin() as admin:
        for topic in topics:
            admin.create_topic(NewTopicRequest(topic, 1, 1))
        await_that(
            lambda: all(
                any(Path(path, f"{topic}-0/partition.metadata").exists() for path in paths) for topic in topics
            ),
            what="on disk",
        )
        records = list(scanner.scan(paths))
        authority = authority_of_brokers(admin)
        found = compare(scans_of_records(records, "scan"), authority).of_topic()
        assert not set(found) & set(topics)
        # About half of all ids have a letter that the two alphabets write differently.
        ids = [
            str(record["topic_id"])
            for record in records
            if record["record"] == "directory" and record["topic"] in topics
        ]
        assert len(ids) == len(topics)
        assert any("-" in one or "_" in one for one in ids)
        admin.delete_topics(topics[:1])
        await_that(lambda: topics[0] not in admin.describe_topics(topics[:1]), what="deleted")
        admin.create_topic(NewTopicRequest(topics[0], 1, 1))
        again = await_that(lambda: admin.describe_topics(topics[:1]).get(topics[0]), what="created again")
        assert again is not None
        of_topic = compare(scans_of_records(records, "scan"), authority_of_brokers(admin)).of_topic()
    kinds = [(one.kind, one.id_of_authority) for one in of_topic[topics[0]]]
    assert kinds == [(IdFindingKind.ID_DIFFERS, again.topic_id)]
    scan = tmp_path / "scan"
    scan.write_text("".join(json.dumps(record) + "\n" for record in records))
    words = ["check", "topic-ids", "--scan", str(scan), "-B", broker.bootstrap_servers, "--output", "json"]
    assert main(words) == 1
    result = json.loads(capsys.readouterr().out)
    assert result["mode"] == "kraft"
    assert topics[0] in {one["topic"] for one in result["findings"]}
