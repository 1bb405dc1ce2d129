"""A running ``connect-share exporter``, and topics with captured groups for it."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.keys import prefix_key
from connect_share.model.records import Record
from connect_share.worker_config import ClientSettings
from tests.support.captures import captured
from tests.support.topics import ANYWHERE, create_known, ordered_producer, send

TOPICS = {"configs": 1, "offsets": 5, "status": 5}
FLAGS = {
    "configs": "--config-storage-topic",
    "offsets": "--offset-storage-topic",
    "status": "--status-storage-topic",
}


def fill(settings: ClientSettings, admin: Admin, prefix: str, groups: dict[str, str]) -> list[str]:
    """Put captured records (version by group) on new topics; return the flags that name these."""
    records: list[Record] = []
    for name, partitions in TOPICS.items():
        create_known(admin, NewTopicRequest(f"{prefix}-{name}", partitions, 1, {"cleanup.policy": "compact"}))
        for group, version in groups.items():
            records += [
                replace(each, topic=f"{prefix}-{name}", partition=ANYWHERE, key=prefix_key(group, each.key or b""))
                for each in captured(version, name)
            ]
    send(ordered_producer(settings), records)
    return [word for name, flag in FLAGS.items() for word in (flag, f"{prefix}-{name}")]


@dataclass(frozen=True)
class Exporter:
    """A process that answers scrapes."""

    process: subprocess.Popen[str]
    address: str

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{self.address}{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def samples(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """Return the values by name and labels."""
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(self.get("/metrics")[1])
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float | None:
        return self.samples().get((name, tuple(sorted(labels.items()))))

    def is_up(self) -> bool:
        return self.get("/-/healthy")[0] == 200


@contextmanager
def exporter(servers: str, flags: Sequence[str], *more: str) -> Iterator[Exporter]:
    command = [
        sys.executable,
        "-m",
        "connect_share",
        "exporter",
        "-B",
        servers,
        *flags,
        "--listen",
        "127.0.0.1:0",
        *more,
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = re.search(r"http://(\S+)/metrics", line)
            assert found, line + (process.stderr.read() if process.poll() is not None else "")
            yield Exporter(process, found[1])
        finally:
            if process.poll() is None:
                process.kill()


def labelled(
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float], name: str, **labels: str
) -> list[dict[str, Any]]:
    """Return the labels of a metric's samples that have these labels too."""
    return [
        dict(found) | {"value": value}
        for (metric, found), value in samples.items()
        if metric == name and labels.items() <= dict(found).items()
    ]
