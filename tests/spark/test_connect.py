"""What only reads runs on a server of Spark Connect, too; a copy is refused there."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pyspark
import pytest

from connect_share.model.records import TopicType
from migrator.cli.__main__ import main
from tests.support.kafka import TOPIC_PREFIX, TestBroker
from tests.support.migration_site import Site
from tests.support.topics import pairs_of, write_records

pytest.importorskip("grpc", reason="needs pip install 'pyspark[connect]': make compat-spark")
pytestmark = pytest.mark.skipif(pyspark.__version__.startswith("3."), reason="from PySpark 4.0 on")


def job(name: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a job on a server that Spark starts for it."""
    environment = {**os.environ, "SPARK_REMOTE": "local[2]", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", f"spark_jobs.{name}", *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_a_move(broker: TestBroker, tmp_path: Path) -> None:
    site = Site(broker.bootstrap_servers, f"{TOPIC_PREFIX}-on-connect-{uuid.uuid4().hex[:6]}", tmp_path)
    plan = tmp_path / "plan.json"
    source, destination = site.small_source(), site.shared()
    assert main(["plan", "-w", str(source), "--to-worker-config", str(destination), "-o", str(plan)]) == 0
    refused = job("apply_plan", plan)
    assert refused.returncode == 2, refused.stderr
    assert "Nothing was written" in refused.stderr
    assert main(["apply", str(plan), "--yes"]) == 0
    verified = job("verify_plan", plan)
    assert verified.returncode == 0, verified.stderr
    topic = site.topic("shared", TopicType.CONFIG)
    write_records(
        broker.client_settings,
        topic,
        pairs_of(topic, [(b"com.acme.orders.connector-a.b", b'{"properties":{"connector.class":"X"}}')]),
    )
    differs = job("verify_plan", plan)
    assert differs.returncode == 1, differs.stderr
    profiled = job("profile_topics", "-w", destination)
    assert profiled.returncode == 0, profiled.stderr
