"""What ZooKeeper and the metadata log say, whole, damaged or hostile; and the door to a live ZooKeeper."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connect_share.cli.__main__ import main
from connect_share.errors import AuthorizationError, BrokerUnavailableError, ConfigError, UsageError
from connect_share.topic_ids.authority.authority import AuthorityPartition, MetadataMode
from connect_share.topic_ids.authority.kraft import authority_of_metadata_log
from connect_share.topic_ids.authority.zookeeper import (
    authority_of_znodes,
    client_arguments,
    read_zookeeper_dump,
    with_id,
)
from tests.support.json_values import json_values
from tests.topic_ids.trees import CASES, Tree
from tests.topic_ids.zookeeper import read_zookeeper, zookeeper_client

ORDERS = "VFikBPGgTFa4tSj3PZTVgw"

VALUES = json_values(st.integers() | st.floats(allow_nan=False) | st.text(max_size=8))
CHANGE = "PARTITION_CHANGE_RECORD"
record_types = st.sampled_from(
    ["TOPIC_RECORD", "REMOVE_TOPIC_RECORD", "PARTITION_RECORD", CHANGE, "REGISTER_BROKER_RECORD", "CONFIG_RECORD"]
)
members = st.sampled_from(
    [
        *("name", "topicId", "partitionId", "replicas", "isr", "leader", "directories"),
        *("brokerId", "logDirs", "resourceType"),
    ]
)
record_values = VALUES | st.just(ORDERS) | st.lists(st.integers(), max_size=3)


def line(kind: str, data: Any) -> str:
    return "| payload: " + json.dumps({"type": kind, "version": 0, "data": data})


def test_a_zookeeper_dump(tmp_path: Path) -> None:
    tree = Tree("one-replica-zk", tmp_path)
    texts = json.loads(tree.zookeeper.read_text())
    texts["/config/topics/orders"] = '{"version":1,"config":{"remote.storage.enable":"true"}}'
    texts["/admin/delete_topics/quiet"] = ""
    found = authority_of_znodes(
        {f"/kafka{path}": text for path, text in texts.items()}, "x", {"/kafka/brokers/topics/orders": 7}
    )
    assert (found.mode, found.cluster_id, found.controller) == (MetadataMode.ZOOKEEPER, "oPhLrb4PSg2J8l8TTqd5Pw", 1)
    orders = found.topics["orders"]
    assert (orders.topic_id, orders.version, orders.remote_storage) == (ORDERS, 7, True)
    assert orders.partitions[0] == AuthorityPartition((3, 2, 1), 3, (1, 3))
    assert (found.deleting, found.tiered_storage, found.topics["quiet"].remote_storage) == (
        frozenset({"quiet"}),
        True,
        None,
    )
    with pytest.raises(UsageError, match="2 clusters"):
        authority_of_znodes({"/a/brokers/topics/x": "", "/b/brokers/topics/x": ""}, "x")


def test_a_metadata_log() -> None:
    found = authority_of_metadata_log((CASES / "recreated-kraft/metadata-dump.txt").read_text().splitlines(), "x")
    assert found.removed == {"ibVal61VRkKRekTgcXKqBA": "events"}
    assert sorted(found.topics) == ["__consumer_offsets", "events", "orders", "quiet", "single"]
    orders = found.topics["orders"].partitions[1]
    assert (orders.leader, orders.isr, orders.replicas) == (1, (1, 2), (1, 2, 3))
    assert orders.directories == ("YhLWB8ZskbKbBcrH1aSiMA", "K6DM06mra_O5Qv3iBIW2IA", "m7oe81VbRvDlGxcZEYkW1A")
    assert found.log_dirs[3] == ("m7oe81VbRvDlGxcZEYkW1A", "niULvWMMOILy5n6lsIsfqQ")
    assert found.topics["single"].remote_storage is None  # this dump has no settings
    more = [
        line("TOPIC_RECORD", {"name": "a", "topicId": ORDERS}),
        line("PARTITION_RECORD", {"partitionId": 0, "topicId": ORDERS, "replicas": [1], "isr": [1], "leader": 1}),
        line("PARTITION_CHANGE_RECORD", {"partitionId": 0, "topicId": ORDERS, "leader": -1, "addingReplicas": [2]}),
        line(
            "CONFIG_RECORD", {"resourceType": 2, "resourceName": "b", "name": "remote.storage.enable", "value": "true"}
        ),
        "| payload: {cut off",
        "Snapshot end offset: 7",
    ]
    found = authority_of_metadata_log(more, "x")
    assert found.topics["a"].partitions == {0: AuthorityPartition((1,), None, (1,))}
    assert (found.topics["a"].moving, found.topics["a"].remote_storage, found.tiered_storage) == (True, False, True)
    assert found.notes == ["x: 1 damaged records were passed over; the dump may be cut off"]


@given(
    st.dictionaries(st.sampled_from(["topic_id", "partitions", "adding_replicas", "version"]), VALUES | st.just(ORDERS))
)
@example({"partitions": {"0": [1, "x", None, True], "x": [1]}, "topic_id": ORDERS})
def test_any_text_may_be_in_a_znode(znode: dict[str, Any]) -> None:
    texts = {
        f"/brokers/topics/{name}": text for name, text in (("a", json.dumps(znode)), ("b", "{"), ("c", "[" * 99_999))
    }
    texts["/brokers/topics/a/partitions/0/state"] = json.dumps(znode)
    texts["/controller"] = texts["/cluster/id"] = texts["/config/topics/a"] = json.dumps(znode)
    found = authority_of_znodes(texts, "x")
    assert (found.topics["b"].topic_id, found.topics["c"].topic_id) == (None, None)
    assert (found.topics["a"].topic_id is None) == (found.topics["a"].problem is not None)
    assert json.loads(with_id(json.dumps(znode), "X")) == json.loads(json.dumps({**znode, "topic_id": "X"}))


@settings(max_examples=50)
@given(st.lists(st.tuples(record_types, st.dictionaries(members, record_values)), max_size=8), st.text(max_size=30))
def test_any_record_may_be_in_the_log(records: list[tuple[str, dict[str, Any]]], text: str) -> None:
    lines = [line(kind, data) for kind, data in records]
    found = authority_of_metadata_log([*lines, f"payload: {text}", text, line("X", {})], "x")
    assert all(topic.topic_id is not None for topic in found.topics.values())


@pytest.mark.parametrize("text", ["", "[]", "{", "{}", "[" * 99_999, '{"a": 5}'])
def test_a_file_that_is_no_zookeeper_dump(tmp_path: Path, text: str) -> None:
    (tmp_path / "dump").write_text(text)
    with pytest.raises(UsageError, match="dump"):
        read_zookeeper_dump(tmp_path / "dump")


def test_the_id_of_a_znode_is_put_where_it_was() -> None:
    text = '{"partitions":{"0":[3,1]},"topic_id":"old","adding_replicas":{},"version":3}'
    assert with_id(text, "new") == text.replace("old", "new")
    assert with_id('{"version":1,"partitions":{}}', "new") == '{"version":1,"partitions":{},"topic_id":"new"}'


def test_properties_for_zookeeper(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text("")
    sasl = {"sasl.mechanism": "DIGEST-MD5", "sasl.username": "u", "sasl.password": "p"}
    assert client_arguments({"ca": str(ca), "verify_certs": "false", **sasl}) == {
        "ca": str(ca),
        "verify_certs": False,
        "use_ssl": True,
        "sasl_options": {"mechanism": "DIGEST-MD5", "username": "u", "password": "p"},
    }
    assert client_arguments({"auth.digest": "u:p"}) == {"auth_data": [("digest", "u:p")]}
    wrong = {"ssl": "x", "ca": "/none", "sasl.password": "hunter2", "auth.digest": "hunter2", "use_ssl": "1"}
    for each in wrong.items():
        with pytest.raises(ConfigError) as caught:
            client_arguments(dict([each]))
        assert "hunter2" not in str(caught.value)


def test_zookeeper_that_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        BrokerUnavailableError, match=r"no answer from ZooKeeper 127\.0\.0\.1:1 within 0\.3 s"
    ) as unavailable:
        read_zookeeper("127.0.0.1:1", timeout_s=0.3)
    assert unavailable.value.retriable
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    with pytest.raises(UsageError, match=r"pip install kazoo") as missing:
        read_zookeeper("127.0.0.1:1")
    assert missing.value.exit_code == 2


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree("blog-case-zk", tmp_path)


def test_a_live_zookeeper(
    tree: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    security = pytest.importorskip("kazoo.security")
    caplog.set_level(logging.DEBUG)
    words = ["topic-ids", "--brokers-dir", str(tree.folder), "--output", "json"]
    with zookeeper_client(tmp_path / "zk") as (hosts, client):
        tree.fill(client)
        client.set("/kafka/brokers/topics/orders", client.get("/kafka/brokers/topics/orders")[0])
        client.create("/kafka/config/topics/orders", b'{"config":{"remote.storage.enable":"false"}}', makepath=True)
        assert main(["check", *words, "--zookeeper", f"{hosts}/kafka"]) == 1
        assert json.loads(capsys.readouterr().out)["findings"] == tree.expected
        assert main(["repair", *words, "--dry-run", "--zookeeper", f"{hosts}/kafka"]) == 0
        steps = json.loads(capsys.readouterr().out)["steps"]
        versions = {one["topic"]: one["version"] for one in steps if one["action"] == "write-znode"}
        assert versions == {"events": 0, "orders": 1, "single": 0}
        found = read_zookeeper(f"{hosts}/kafka")
        assert (found.live, found.controller) == (frozenset({1, 2, 3}), 1)
        assert found.topics["orders"].remote_storage is False
        with pytest.raises(UsageError, match="is the chroot right"):
            read_zookeeper(hosts)
        client.add_auth("digest", "reader:hunter2")
        acl = [security.make_digest_acl("reader", "hunter2", all=True)]
        client.set_acls("/kafka/brokers/topics/orders", acl)
        with pytest.raises(AuthorizationError, match=r"sasl\.mechanism or auth\.digest"):
            read_zookeeper(f"{hosts}/kafka")
        config = tmp_path / "zk.properties"
        config.write_text("auth.digest=reader:hunter2\n")
        caplog.clear()
        assert read_zookeeper(f"{hosts}/kafka", config).topics["orders"] == found.topics["orders"]
        assert "hunter2" not in "".join(
            one.getMessage() for one in caplog.records if one.name.startswith("connect_share")
        )
        client.delete("/kafka/controller")
        client.delete("/kafka/brokers/topics/quiet", recursive=True)
        again = read_zookeeper(f"{hosts}/kafka", config)
        assert (again.controller, "quiet" in again.topics) == (None, False)
