"""The interceptor inside the client libraries of three versions of Kafka, no broker: ``java/connectshare/*Checks.java``."""

from __future__ import annotations

import re

import pytest

from tests.support.long_forms import LONG
from tests.worker_plugin.conftest import SOURCES, RunJava

pytestmark = pytest.mark.xdist_group("worker_plugin")


def declared() -> set[str]:
    """Give the names of all checks that the sources declare."""
    return {
        f"{path.stem}.{name}"
        for path in SOURCES.glob("connectshare/*Checks.java")
        for name in re.findall(r"^    public static void (\w+)\(\)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }


@pytest.mark.parametrize("version", ["2.8.2", "4.3.1", *(["3.9.2"] if LONG else [])])
def test_checks(run_java: RunJava, version: str) -> None:
    done = run_java("connectshare.Checks", version, "1173")

    lines = done.stdout.splitlines()
    failed = [line for line in lines if not line.startswith("ok ")]
    assert not failed, "\n".join([*failed, done.stderr[-2_000:]])
    assert done.returncode == 0, done.stderr[-2_000:]
    assert {line.removeprefix("ok ") for line in lines} == declared()
