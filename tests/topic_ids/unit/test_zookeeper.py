"""A live ZooKeeper through kazoo: what a dump says, with a chroot, access lists, and topics that come and go."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from connect_share.cli.__main__ import main
from connect_share.errors import AuthorizationError, UsageError
from tests.topic_ids.trees import Tree
from tests.topic_ids.zookeeper import read_zookeeper, zookeeper_client


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
        assert {one["topic"]: one["version"] for one in steps if one["action"] == "write-znode"} == {
            "events": 0,
            "orders": 1,
            "single": 0,
        }
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
