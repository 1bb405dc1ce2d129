"""The start-up benchmark on a real broker: small, stopped and gone on with."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from connect_share.model.records import TopicType
from spark_jobs import benchmark_startup
from spark_jobs.benchmark import suite
from spark_jobs.benchmark.results import PHASES, Starts, StartupResult
from spark_jobs.benchmark.topics import Files, worker_of
from tests.lab.benchmarks.startup import __main__ as lab
from tests.lab.benchmarks.startup import comparison
from tests.lab.benchmarks.startup.report import render_report
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.kafka import TestBroker
from tests.support.long_forms import LONG
from tests.support.waiting import await_that


@pytest.mark.skipif(not LONG, reason="two runs of the benchmark: make soak")
@pytest.mark.usefixtures("spark")
def test_a_run_that_was_stopped_goes_on(
    broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out" / "result.json"
    options = ["-B", broker.bootstrap_servers, "--scenarios", "tiny", "--rounds", "1", "--storm", "3", "--puts", "1"]
    options += ["--contenders", "python,python-dedicated,librdkafka", "--result", str(file), "--yes"]

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(lab, "measure_latency", interrupted)
        assert lab.main(options) == 130
    before = StartupResult.model_validate_json(file.read_bytes())
    assert (len(before.storms), before.latencies) == (2, [])

    capsys.readouterr()
    assert lab.main([*options, "--output", "json", "--report", str(tmp_path / "report")]) == 0
    captured = capsys.readouterr()
    assert "tiny: was measured before" in captured.err
    told = json.loads(captured.out)
    after = StartupResult.model_validate_json(file.read_bytes())
    assert (after.starts, after.storms) == (before.starts, before.storms)
    assert told["starts"] == json.loads(after.model_dump_json())["starts"]
    assert len(told["pairs"]) == 4
    assert all(pair["times"] > 0 for pair in told["pairs"])
    assert (tmp_path / "report" / "report.html").stat().st_size > 1_000

    found = {(starts.contender, starts.warmth): starts for starts in after.starts}
    assert found.keys() == {
        (name, warmth) for name in ("python", "python-dedicated", "librdkafka") for warmth in ("exec", "cold", "warm")
    }
    ours = found["python", "cold"]
    assert ours.size is not None
    assert (ours.size.records, ours.size.own_records) == (360, 120)
    assert ours.phases.keys() <= set(PHASES)
    assert {"read", "parse", "fold"} <= ours.phases.keys()
    each_time = [*ours.phases.values(), *ours.topics.values(), ours.cpu_seconds]
    assert {len(values) for values in each_time} == {1}
    assert found["python", "exec"].seconds > ours.seconds
    alone = found["python-dedicated", "cold"].size
    assert alone is not None
    assert (alone.records, alone.own_records) == (120, 120)  # as many as its group has on the shared topics
    storms = {storm.at_once: storm for storm in after.storms}
    assert storms.keys() == {1, 2}
    assert all((len(storm.seconds), storm.failed) == (3, 0) for storm in storms.values())
    assert all(storm.wall_seconds >= max(storm.seconds) for storm in storms.values())
    assert storms[1].wall_seconds >= sum(storms[1].seconds)
    assert {(each.store, each.groups, len(each.seconds)) for each in after.latencies} == {
        (store, groups, 1) for store in ("config", "status", "offset") for groups in (1, 20)
    }
    assert after.model is not None
    with broker.admin() as admin:
        # Other tests measure on this broker, too.
        own = re.compile(r"connect-share-benchmark-\d+-tiny-(\d-)?(configs|status|offsets)")
        await_that(
            lambda: [name for name in admin.topic_names() if own.fullmatch(name)],
            lambda left: not left,
            what="its topics removed",
        )


@pytest.mark.usefixtures("spark")
def test_what_whole_workers_write_is_said_too(broker: TestBroker, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["-B", broker.bootstrap_servers, "--scenarios", "tiny", "--no-storm", "--no-latency", "--workers", "20,3"]
    assert lab.main(options) == 1
    said = capsys.readouterr().err
    assert "for whole Java workers" in said
    assert "about 48,720 made-up records" in said  # 20 groups of 1,200 records and 3 of 120, on two sets of topics


@pytest.mark.skipif(not LONG, reason="starts of whole Java workers: make soak")
@pytest.mark.usefixtures("spark")
def test_whole_workers_start_beside_the_others_topics(broker: TestBroker, tmp_path: Path) -> None:
    file, report = tmp_path / "result.json", tmp_path / "report"
    options = ["-B", broker.bootstrap_servers, "--scenarios", "tiny", "--rounds", "2", "--contenders", "python"]
    options += ["--no-storm", "--no-latency", "--workers", "3", "--result", str(file), "--report", str(report), "--yes"]
    assert lab.main(options) == 0
    found = StartupResult.model_validate_json(file.read_bytes())
    for contender in ("worker-jar", "worker-dedicated"):
        starts = {each.warmth: each for each in found.starts if each.contender == contender}
        assert len(starts["exec"].seconds) == 2
        assert starts["cold"].phases.keys() == {"stores", "put", "restart"}
        parts = [value for values in starts["cold"].phases.values() for value in values]
        assert min(parts) > 0
        assert starts["cold"].size is not None
        assert starts["cold"].size.own_records == 120
    assert "a Java worker from exec to all connectors running" in (report / "report.md").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_on_a_cluster_of_a_user_nothing_else_is_touched(
    broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = write_properties(tmp_path / "worker.properties", worker_properties(broker.bootstrap_servers, "unused"))
    file = tmp_path / "result.json"
    options = ["-w", str(worker), "--scenarios", "tiny", "--rounds", "1", "--no-storm"]
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
    assert "python," in capsys.readouterr().out.split()
    page = "".join(render_report(found))
    assert "of the cluster named below, over the network" in page
    assert broker.bootstrap_servers not in page + file.read_text("utf-8")
    assert comparison.main([str(file), str(file)]) == 0
    assert "| Python stores beside bare librdkafka, shared topics, warm |" in capsys.readouterr().out


def test_the_benchmark_wants_a_broker_and_scenarios_it_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark_startup.main([]) == 2
    assert "name the cluster: --worker-config, --bootstrap-servers" in capsys.readouterr().err
    assert lab.main(["--embedded", "--scenarios", "nonsense"]) == 2
    assert "no scenario 'nonsense'" in capsys.readouterr().err
