"""Replicas on three real brokers: two that join late, racks, a repair with Kafka's own tool, one that dies."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from connect_share.cli.__main__ import build_parser
from connect_share.console.output import Output
from connect_share.console.program import run_command
from connect_share.errors import ReplicationFactorError
from connect_share.kafka import client
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import Deadline
from connect_share.kafka.create import TopicSpec, await_in_sync, ensure_topic
from connect_share.kafka.descriptions import NewTopicRequest, TopicDescription
from connect_share.model.records import TopicType
from tests.lab.cluster import LocalCluster
from tests.support.console import Ran
from tests.support.kafka import skip_where_brokers_stay
from tests.support.long_forms import LONG
from tests.support.printed import Printed
from tests.support.waiting import await_that

# A cluster costs ten seconds: all its tests in one process.
pytestmark = [pytest.mark.slow, pytest.mark.kills_broker, pytest.mark.xdist_group("cluster")]


def console(*words: object) -> Ran:
    """Run a command as the entry point does, on any thread."""
    arguments = build_parser().parse_args([str(word) for word in words])
    stdout, stderr = io.StringIO(), io.StringIO()
    out = Output(arguments.command.name, arguments.output, stdout=stdout, stderr=stderr)
    return Ran(run_command(arguments.command, arguments, out), stdout.getvalue(), stderr.getvalue())


def worker_file(path: Path, cluster: LocalCluster, prefix: str) -> Path:
    lines = [f"bootstrap.servers={cluster.bootstrap_servers}", f"group.id={prefix}", "offset.storage.partitions=4"]
    lines += [f"{kind}.storage.topic={prefix}-{kind}" for kind in ("config", "offset", "status")]
    path.write_text("\n".join([*lines, "status.storage.partitions=2"]))
    return path


@dataclass
class Joining:
    """What happened while one broker was up, and when two joined."""

    cluster: LocalCluster
    errors: list[ReplicationFactorError] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    made_alone: list[str] = field(default_factory=list)
    check: Ran | None = None
    dry_run: Ran | None = None
    create: Ran | None = None
    late: TopicDescription | None = None


class _Lines(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.INFO)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())


@pytest.fixture(scope="module")
def joining(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Joining]:
    skip_where_brokers_stay()
    with closing(LocalCluster(3, racks=("a", "a", "b"))) as cluster, ThreadPoolExecutor(3) as threads:
        cluster.start(1)
        seen = Joining(cluster)
        path = worker_file(tmp_path_factory.mktemp("joining") / "worker.properties", cluster, "joining")
        checked = threads.submit(console, "check", "topics", "-w", path, "--output", "json")
        dry = threads.submit(console, "create", "topics", "-w", path, "--dry-run")
        logger, handler = logging.getLogger("connect_share.kafka"), _Lines(seen.logged)
        with cluster.admin() as admin:
            logger.addHandler(handler)
            level = logger.level
            logger.setLevel(logging.INFO)
            try:
                for replicas in (3, -1):
                    with pytest.raises(ReplicationFactorError) as caught:
                        ensure_topic(admin, TopicSpec("early", TopicType.STATUS, 2, replicas), timeout_s=0.6)
                    seen.errors.append(caught.value)
            finally:
                logger.removeHandler(handler)
                logger.setLevel(level)
            seen.check, seen.dry_run = checked.result(180), dry.result(180)
            seen.made_alone = sorted(admin.topic_names())
            late = threads.submit(ensure_topic, admin, TopicSpec("late", TopicType.STATUS, 2, 3), timeout_s=180)
            create = threads.submit(console, "create", "topics", "-w", path, "--yes", "--timeout", "180")
            cluster.start(2, 3)
            assert late.result(200) is True
            seen.create = create.result(200)
            # Another broker than the one that was asked to create it may answer, and hear of it later.
            found = await_that(lambda: admin.describe_topics(["late"]), what="known")
            seen.late = found["late"]
        yield seen


def test_never_with_fewer_replicas_and_with_all_as_soon_as_brokers_join(joining: Joining) -> None:
    with_three, with_default = map(str, joining.errors)
    assert "'early' could not be created with 3 replicas within" in with_three
    assert "3 replicas (the brokers' default.replication.factor)" in with_default
    for message in (with_three, with_default):
        assert "1 broker is up" in message
        assert "status.storage.replication.factor" in message
    assert [line.split(";")[0] for line in joining.logged] == ["Topic early needs 3 brokers, 1 is up"] * 2
    assert joining.made_alone == []

    assert joining.dry_run is not None
    assert joining.dry_run.code == 1
    assert "3 replicas need 3 brokers and 1 is up" in joining.dry_run.err
    assert joining.check is not None
    assert joining.check.code == 1
    findings = {(found["topic"], found["kind"]): found for found in joining.check.json["findings"]}
    assert ("joining-config", "cannot-be-created") in findings
    hanging = findings["__consumer_offsets", "cannot-be-created"]
    assert "offsets.topic.replication.factor is 3 and 1 broker is up" in hanging["message"]
    assert "wait without an error" in hanging["message"]

    assert joining.late is not None
    assert [len(partition.replicas) for partition in joining.late.partitions] == [3, 3]
    assert joining.create is not None
    assert joining.create.code == 0, joining.create.err
    with joining.cluster.admin() as admin:
        names = ["joining-config", "joining-offset", "joining-status"]
        made = await_that(lambda: admin.describe_topics(names), lambda known: len(known) == 3, what="known")
        assert {name: len(found.partitions) for name, found in made.items()} == {
            "joining-config": 1,
            "joining-offset": 4,
            "joining-status": 2,
        }
        assert all(len(partition.replicas) == 3 for found in made.values() for partition in found.partitions)
        assert admin.topic_configs("joining-config")["min.insync.replicas"] == "2"
        admin.delete_topics(["late"])


def test_a_new_topic_is_there_whichever_broker_answers(joining: Joining) -> None:
    names = [f"new-{number}" for number in range(40 if LONG else 10)]
    with joining.cluster.admin() as maker, joining.cluster.admin() as other:
        other.topic_names()  # it knows the brokers
        for name in names:
            maker.create_topic(NewTopicRequest(name, 1, 3, {"cleanup.policy": "compact"}))
            assert other.end_offsets([(name, 0)]) == {(name, 0): 0}
            assert other.topic_configs(name)["cleanup.policy"] == "compact"
            assert name in maker.describe_topics([name])
        maker.delete_topics(names)


def test_old_topics_are_found_and_mended_and_a_dead_broker_is_named(
    joining: Joining, tmp_path: Path, printed: Printed
) -> None:
    cluster = joining.cluster
    path = worker_file(tmp_path / "worker.properties", cluster, "old")
    file = tmp_path / "new.json"
    with cluster.admin() as admin:
        # As clusters made before KIP-115, or in a hurry: everything on one broker, or in one rack.
        assigned(cluster, "__consumer_offsets", [[1], [1]])
        assigned(cluster, "__transaction_state", [[2]])
        assigned(cluster, "old-config", [[1, 2]], {"min.insync.replicas": "2"})
        assigned(cluster, "old-offset", [[1]] * 4)
        assigned(cluster, "old-status", [[1, 2, 3], [3, 2, 1]])
        expected = {
            *(("__consumer_offsets", "too-few-replicas", partition) for partition in (0, 1)),
            ("__transaction_state", "too-few-replicas", 0),
            ("old-config", "min-insync-replicas", None),
            ("old-config", "one-rack", 0),
            ("old-config", "too-few-replicas", 0),
            *(("old-offset", "too-few-replicas", partition) for partition in range(4)),
        }

        def findings(ran: Ran) -> set[tuple[object, ...]]:
            return {(found["topic"], found["kind"], found["partition"]) for found in ran.json["findings"]}

        # A replica that had no time to follow for three seconds is found, too, and is in sync again soon.
        check = await_that(
            lambda: console("check", "topics", "-w", path, "--output", "json", "--reassignment", file),
            lambda ran: findings(ran) == expected,
            what="as made",
        )
        assert check.code == 1
        assert json.loads(file.read_text()) == check.json["reassignment"]
        (command,) = {found["command"] for found in check.json["findings"] if found["kind"] == "too-few-replicas"}
        shown = printed(command, PLAN=file)
        assert (
            "warning: old-offset[0-3]: has 1 of the 3 replicas that offset.storage.replication.factor asks for\n"
            in shown.out
        )
        (named,) = re.findall(r"kafka-reassign-partitions.sh .* --execute", shown.out)
        assert printed(named).code == 0
        mended = await_that(
            lambda: console("check", "topics", "-w", path), lambda ran: ran.code == 0, what="mended", timeout_s=120
        )
        assert "nothing found" in mended.out

        # Broker 3 dies: what it has is short or gone, and nothing new is made that counts on it.
        assigned(cluster, "alone", [[3]])
        cluster.broker(3).kill()
        cluster.await_gone(3)
        flags = [f"--{kind}-storage-topic=old-{kind}" for kind in ("config", "offset")]
        command = ("check", "topics", "-B", cluster.bootstrap_servers, *flags, "--status-storage-topic=alone")
        admin.delete_topics(["__transaction_state"])
        # The brokers hear of it one after the other.
        gone = "__transaction_state does not exist; if it is needed now it gets replicas on brokers that are down"
        check = await_that(
            lambda: console(*command, "--replication-factor", "1"), lambda ran: gone in ran.err, what="gone"
        )
        # It would be made, the dead broker is still registered.
        assert "error: __transaction_state: does not exist" not in check.out
        assert "warning: old-config[0]: has 2 of 3 replicas in sync, missing broker 3\n" in check.out
        assert "error: alone[0]: has no leader: nothing can be read or written; replicas on brokers 3\n" in check.out
        assert "    start broker 3\n" in check.out
        with pytest.raises(ReplicationFactorError, match="2 brokers are up"):
            ensure_topic(admin, TopicSpec("after", TopicType.STATUS, 2, 3), timeout_s=0.5)
        assert admin.describe_topics(["after"]) == {}
        # The controller itself would count the dead one, and grant it.
        admin.create_topic(NewTopicRequest("after", 2, 3, {"cleanup.policy": "compact"}))

        def refusal() -> str:
            with pytest.raises(ReplicationFactorError) as caught:
                await_in_sync(admin, "after", replicas=3, deadline=Deadline.after(0.3))
            return str(caught.value)

        # Not every broker has heard of the topic yet.
        words = "after[0], after[1] on brokers 3; bring the brokers up"
        await_that(refusal, lambda said: words in said, what="the refusal")


def assigned(
    cluster: LocalCluster, topic: str, replicas: list[list[int]], configs: dict[str, str] | None = None
) -> None:
    """Create a topic with its replicas on given brokers."""
    admin = client.admin_client(cluster.client_settings, client_id="tests")
    new = client.NewTopic(
        topic,
        num_partitions=len(replicas),
        replica_assignment=replicas,
        config={"cleanup.policy": "compact", **(configs or {})},
    )
    admin.create_topics([new], operation_timeout=30)[topic].result(120)
    with Admin(cluster.client_settings, client_id="tests") as ours:
        expected = [tuple(brokers) for brokers in replicas]

        def there() -> list[tuple[int, ...]]:
            found: Any = ours.describe_topics([topic]).get(topic)
            return [] if found is None else [partition.replicas for partition in found.partitions]

        await_that(there, lambda found: found == expected, what=f"{topic} there")
