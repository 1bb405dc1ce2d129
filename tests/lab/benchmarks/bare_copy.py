"""Reads the topics of one worker file and writes each record again, as it is, to those of another: no move can be sooner.

The clients have the settings of a large move, but the producer retries: a move reads the destination instead, this copy
does not, and new topics may have no leader yet. Nothing is checked, no key is changed. As a move does, it creates the topics.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from connect_share.errors import ConnectShareError
from connect_share.kafka import client
from connect_share.kafka.write import BULK_OVERRIDES, PRODUCER_OVERRIDES
from connect_share.model.records import TopicType
from connect_share.worker_config import WorkerConfig
from spark_jobs import command_line
from tests.lab.benchmarks.frame import create_topics
from tests.lab.benchmarks.migration_audit import whole_topics

_ACKNOWLEDGED_S = 120.0


def _copy(source: WorkerConfig, destination: WorkerConfig) -> int:
    names = {source.topic(each): destination.topic(each) for each in TopicType}
    producer = client.producer(
        destination.producer_settings(),
        client_id="benchmark",
        overrides={**PRODUCER_OVERRIDES, "linger.ms": BULK_OVERRIDES["linger.ms"]},
        idempotent=True,
    )
    acknowledged, sent = 0, 0

    @client.callback
    def delivered(error: client.KafkaError | None, _: client.Message) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    for batch in whole_topics(source.admin_settings(), list(names)):
        for message in batch:
            record = (names[message.topic() or ""], message.value(), message.key(), -1)
            while True:
                try:
                    producer.produce(*record, delivered, delivered, message.timestamp()[1], None)
                    break
                except BufferError:
                    producer.poll(0.1)
        sent += len(batch)
        producer.poll(0)
    client.flush(producer, _ACKNOWLEDGED_S)
    if acknowledged != sent:
        raise ConnectShareError(f"{acknowledged} of {sent} records were acknowledged")
    return sent


def main(argv: Sequence[str]) -> int:
    """Copy once, from one worker file to another; one JSON line. 0 done, 1 failed."""
    source, destination = (WorkerConfig.from_file(Path(name)) for name in argv)
    create_topics(destination)
    began_s = time.perf_counter()
    records = _copy(source, destination)
    print(json.dumps({"copy_s": time.perf_counter() - began_s, "records": records}))
    return 0


if __name__ == "__main__":
    command_line.exit_with(main)
