"""The start-up benchmark on a real broker: small, stopped and gone on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_share.model.records import TopicType
from spark_jobs import benchmark_startup
from spark_jobs.benchmark import suite
from spark_jobs.benchmark.results import Starts, StartupResult
from spark_jobs.benchmark.topics import Files, worker_of
from tests.lab.benchmarks.startup import __main__ as lab
from tests.lab.benchmarks.startup import comparison
from tests.lab.benchmarks.startup.report import render_report
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.kafka import TestBroker
from tests.support.waiting import await_that


@pytest.mark.usefixtures("spark")
def test_what_whole_workers_write_is_said_too(broker: TestBroker, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["-B", broker.bootstrap_servers, "--scenarios", "tiny", "--no-storm", "--no-latency", "--workers", "20,3"]
    assert lab.main(options) == 1
    said = capsys.readouterr().err
    assert "for whole Java workers" in said
    assert "about 48,720 made-up records" in said  # 20 groups of 1,200 records and 3 of 120, on two sets of topics


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_on_a_cluster_of_a_user_nothing_else_is_touched(
    broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = write_properties(tmp_path / "worker.properties", worker_properties(broker.bootstrap_servers, "unused"))
    file = tmp_path / "result.json"
    options = ["-w", str(worker), "--scenarios", "tiny", "--rounds", "1", "--storm", "3"]
    options += ["--contenders", "python,librdkafka", "--result", str(file)]
    assert benchmark_startup.main(options) == 1
    refused = capsys.readouterr().err
    assert f"cluster: {broker.bootstrap_servers}" in refused
    assert "about 360 made-up records" in refused
    assert "--yes" in refused
    assert not file.exists()

    made: set[str] = set()
    with monkeypatch.context() as patched, broker.admin() as admin:

        def interrupted(_plan: object, files: Files, *_: object) -> list[Starts]:
            made.update(worker_of(files.ours).topic(kind) for kind in TopicType)
            assert made <= admin.topic_names()
            raise KeyboardInterrupt

        patched.setattr(suite, "measure", interrupted)
        assert benchmark_startup.main([*options, "--yes"]) == 130
        assert len(made) == 3
        await_that(admin.topic_names, lambda there: not made & there, what="its topics removed")

    assert benchmark_startup.main([*options, "--yes"]) == 0
    found = StartupResult.model_validate_json(file.read_bytes())
    assert {each.contender for each in found.starts} == {"python", "librdkafka"}
    assert found.machine["brokers"] == 1
    assert [(each.starts, each.at_once, len(each.seconds), each.failed) for each in found.storms] == [
        (3, 1, 3, 0),
        (3, 2, 3, 0),
    ]
    assert "python," in capsys.readouterr().out.split()
    page = "".join(render_report(found))
    assert "of the cluster named below, over the network" in page
    assert broker.bootstrap_servers not in page + file.read_text("utf-8")
    assert comparison.main([str(file), str(file)]) == 0
    assert "| Python stores beside bare librdkafka, shared topics, warm |" in capsys.readouterr().out


def test_the_benchmark_wants_a_broker(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark_startup.main([]) == 2
    assert "name the cluster: --worker-config, --bootstrap-servers" in capsys.readouterr().err
