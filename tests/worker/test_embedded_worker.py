"""A real broker and a real worker start, answer and stop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from connect_share.worker_config import WorkerConfig, load_properties
from tests.lab.embedded.broker import LocalBroker
from tests.lab.embedded.worker import ConnectWorker, worker_properties, write_properties
from tests.support.java_groups import put
from tests.support.kafka import TestBroker
from tests.support.long_forms import LONG
from tests.support.topics import create_known


def test_a_worker_runs_a_connector_with_a_hostile_name(
    broker: TestBroker, unique: str, worker_factory: Callable[..., ConnectWorker], tmp_path: Path
) -> None:
    name = "größe-😀.x-1"
    source = tmp_path / "in.txt"
    source.write_text("one\n")
    worker = worker_factory(worker_properties(broker.bootstrap_servers, unique))
    with broker.admin() as admin:
        from connect_share.kafka.descriptions import NewTopicRequest

        create_known(admin, NewTopicRequest(f"{unique}-lines", 1, 1))
        put(
            worker,
            name,
            {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(source), "topic": f"{unique}-lines"},
        )
        worker.rest.await_state(name, "RUNNING", tasks=1)
        assert worker.rest.connectors() == [name]
        assert admin.connect_groups()[unique] == 1
    worker.stop()
    assert not worker.running


@pytest.mark.skipif(not LONG, reason="what other tests of a broker that is killed rest upon: make soak")
def test_a_stopped_broker_starts_again_with_its_data(own_broker: LocalBroker) -> None:
    from connect_share.kafka.descriptions import NewTopicRequest

    with own_broker.admin() as admin:
        admin.create_topic(NewTopicRequest("kept", 3, 1))
    own_broker.kill()
    own_broker.start()
    with own_broker.admin() as admin:
        assert len(admin.describe_topics(["kept"])["kept"].partitions) == 3


def test_a_worker_file_comes_back_the_same(tmp_path: Path) -> None:
    properties = {
        **worker_properties("127.0.0.1:1", "gröup 😀", topic_prefix="x"),
        "a b:c=d#!": "  leading \\ and = : # ! \t\n é 😀 ",
    }
    path = write_properties(tmp_path / "worker.properties", properties)
    assert load_properties(path) == properties
    assert WorkerConfig.from_file(path).group_id == "gröup 😀"
