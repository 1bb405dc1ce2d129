"""A running ``connect-share exporter``."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families


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
