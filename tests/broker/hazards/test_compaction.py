"""The cleaner works, and others write, while stores start."""

from __future__ import annotations

import threading
from contextlib import suppress

from connect_share.kafka import client
from connect_share.storage import ConnectStorage
from tests.broker.stores.conftest import Shared
from tests.support.topics import COMPACT_NOW
from tests.support.waiting import await_that

OWN, OTHER = b"group-a.", b"other.group."
KEYS, STARTS = 7, 4


class Writer:
    """Writes numbers under a few keys of all three topics, over and over; ``acknowledged`` is in all of them."""

    def __init__(self, shared: Shared) -> None:
        self._topics = shared.topics
        self._producer = client.producer(
            shared.worker().client_settings(), client_id="tests", overrides={"linger.ms": "5"}, idempotent=True
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent = self.acknowledged = 0
        self.errors: list[object] = []

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        with suppress(client.KafkaException):
            while not self._ended.is_set():
                self.sent += 1
                for key in range(KEYS):
                    self._send(key, self.sent)
                if self._producer.flush(60) == 0:
                    self.acknowledged = self.sent

    def _send(self, key: int, number: int) -> None:
        for prefix in (OWN, OTHER):
            config = b'{"properties":{"n":"%d"}}' % number
            status = b'{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":%d}' % number
            for kind, wire, value in (
                ("config", b"connector-c%d" % key, config),
                ("status", b"status-connector-c%d" % key, status),
                ("offset", b'["c%d",{}]' % key, b'{"n":%d}' % number),
            ):
                self._producer.produce(self._topics[kind], value, prefix + wire, on_delivery=self._note)

    def _note(self, error: object, _message: object) -> None:
        if error is not None:
            self.errors.append(error)


def test_starts_while_the_cleaner_works(shared: Shared) -> None:
    for kind, partitions in (("config", 1), ("status", 2), ("offset", 3)):
        shared.create(
            shared.topics[kind], partitions=partitions, **{k.replace(".", "_"): v for k, v in COMPACT_NOW.items()}
        )
    worker = shared.sharing()
    cleaned = 0
    with Writer(shared) as writer:
        await_that(lambda: writer.acknowledged >= 1, what="written")
        starts = 0
        while starts < STARTS or cleaned < STARTS // 2:
            before, ends = writer.acknowledged, shared.end_offset("config")
            with ConnectStorage(worker) as storage:
                latest = writer.sent
                found = storage.startup.config
                cleaned += found.own_records + found.foreign_records < ends
                for name in (f"c{key}" for key in range(KEYS)):
                    config = storage.config.snapshot().connector_config(name)
                    status = storage.status.get(name)
                    offset = storage.offset_reader(name).offset({})
                    assert config is not None
                    assert status is not None
                    assert offset is not None
                    assert before <= int(config["n"])
                    assert before <= status.generation
                    assert before <= offset["n"]
                    assert max(int(config["n"]), status.generation) <= max(latest, writer.sent)
                assert storage.config.snapshot().connectors() == {f"c{key}" for key in range(KEYS)}
            starts += 1
            assert starts < 5_000, "the cleaner has not begun"
    assert writer.errors == []
