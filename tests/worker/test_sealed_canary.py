"""Secrets and keys of a sealed group of Java workers are nowhere: not on the disk of the broker, and not in the log."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connect_share import TopicType
from tests.lab.embedded.broker import LocalBroker
from tests.lab.embedded.worker import ConnectWorker
from tests.lab.waiting import when_possible
from tests.support.java_groups import JAR, SharedTopics, put, write
from tests.support.java_sources import FileSources
from tests.support.long_forms import LONG
from tests.support.sealed import KEYS, key_text, keys_by_provider
from tests.support.waiting import await_that

pytestmark = [pytest.mark.broker, pytest.mark.worker]

SECRET = "hunter2-zebra"
PLAIN = b"hunter2-plain"
"""What another group does not seal: who looks for secrets has to find this one."""
KEY = key_text(7).removeprefix("7:")
NOWHERE = [
    form for secret in (SECRET.encode(), b64decode(KEY)) for form in (secret, b64encode(secret), secret.hex().encode())
]


@pytest.mark.skipif(not LONG, reason="a broker of its own: make soak")
@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_secrets_of_a_sealed_worker_are_nowhere(
    own_broker: LocalBroker, unique: str, worker_factory: Callable[..., ConnectWorker], tmp_path: Path, version: str
) -> None:
    topics = SharedTopics(own_broker.client_settings, own_broker.bootstrap_servers, unique)
    topics.create()
    sources = FileSources(topics, topics.group("com.acme"), tmp_path)
    sources.create_topic()
    lines = topics.properties(sources.group) | keys_by_provider(tmp_path)
    worker = worker_factory(lines, version=version, class_path=JAR)
    sources.append("my.conn", "1")
    put(worker, "my.conn", sources.config("my.conn", some_password=SECRET))
    sources.await_read(["my.conn"], KEYS)
    when_possible(lambda: worker.rest.stop("my.conn"))
    worker.rest.await_state("my.conn", "STOPPED", tasks=0)
    file = {"filename": str(sources.file("my.conn"))}
    offsets: list[dict[str, Any]] = [{"partition": file, "offset": {"position": 0, "note": SECRET}}]
    when_possible(lambda: worker.rest.alter_offsets("my.conn", offsets))
    await_that(lambda: worker.rest.offsets("my.conn"), lambda found: found == offsets, what="altered")
    evil = f"{sources.group}.connector-my.conn".encode()
    write(topics.settings, topics.topic(TopicType.CONFIG), [(evil, b"\1garbage"), (b"other.connector-x", PLAIN)])
    await_that(lambda: "Refused the record at " in worker.log(), what="refused")
    worker.kill()
    worker.start()
    assert worker.rest.config("my.conn")["some.password"] == SECRET

    segments = [path.read_bytes() for path in own_broker.folder.rglob("*") if path.is_file()]
    assert any(PLAIN in data for data in segments)
    log = worker.log()
    assert "Values are sealed with the first of keys 7" in log
    for data in (*segments, log.encode()):
        assert [number for number, secret in enumerate(NOWHERE) if secret in data] == []
