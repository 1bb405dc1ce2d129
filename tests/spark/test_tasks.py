"""Jobs as tasks: results in order, errors as those of this process, and what they carry in no place that Spark shows."""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from connect_share.errors import BrokerError, ConfigError, ConnectShareError, TopicMissingError
from connect_share.files import Silent
from connect_share.worker_config import ClientSettings
from spark_jobs import session, tasks
from spark_jobs.session import failures_explained, require_on_executors, require_single_attempts, workers_hash_alike
from spark_jobs.tasks import RESULTS, run_as_tasks
from tests.support.programs import python


@dataclass(frozen=True)
class Attempts:
    """A job that notes each attempt, in a file: tasks are other processes."""

    notes: Path
    error: Exception | None

    def run(self) -> int:
        with self.notes.open("a") as file:
            file.write("x")
        if self.error is not None:
            raise self.error
        return len(self.notes.read_text())


def _run(spark: SparkSession, jobs: list[Attempts]) -> list[int]:
    return run_as_tasks(spark, jobs, Attempts.run, progress=Silent(), what="trying jobs")


def test_an_error_that_no_repetition_mends_is_raised_as_it_is_after_one_attempt(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    error = TopicMissingError("topic t is not there: create it", topic="t")
    jobs = [Attempts(tmp_path / "well", None), Attempts(tmp_path / "ill", error)]
    with pytest.raises(TopicMissingError, match=r"^topic t is not there: create it$") as raised:
        _run(spark, jobs)
    assert raised.value.topic == "t"
    assert (tmp_path / "ill").read_text() == "x"
    assert "Traceback" not in capfd.readouterr().err


def test_an_error_that_passes_is_tried_again_and_then_said_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    error = BrokerError("reading t failed: the leader is away", name="LEADER_NOT_AVAILABLE", retriable=True)
    with pytest.raises(ConnectShareError, match=r"^reading t failed: the leader is away$"):
        _run(spark, [Attempts(tmp_path / "passing", error)])
    assert (tmp_path / "passing").read_text() == "xxx"
    with pytest.raises(ConnectShareError) as raised:
        _run(spark, [Attempts(tmp_path / "bug", ZeroDivisionError("division by zero"))])
    said = str(raised.value)
    assert said.startswith(
        "trying jobs: a task failed, each time that Spark tried it: ZeroDivisionError: division by zero"
    )
    assert "\n" not in said


def _frozen(_: int) -> int:
    return gc.get_freeze_count()


def test_what_tasks_import_is_not_collected_after_each(spark: SparkSession) -> None:
    """By Spark, which takes longer than a small task; the first job of each process is without."""
    counts = run_as_tasks(spark, range(6), _frozen, progress=Silent(), what="counting")
    assert sum(count > 10_000 for count in counts) >= 4


def test_what_executors_lack_is_named_before_anything_starts(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_is_local", lambda _: False)
    monkeypatch.setattr(session, "_complete", set())
    require_on_executors(spark)
    assert session._complete == {spark.conf.get("spark.app.id")}
    session._complete.clear()
    monkeypatch.setattr(session, "_ON_EXECUTORS", ("connect_share", "no_such_library"))
    with pytest.raises(ConfigError, match=r"no_such_library cannot be imported on the executors, nothing was started"):
        run_as_tasks(spark, [1], str, progress=Silent(), what="x")


def test_other_failures_keep_their_first_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "py4j.protocol", None)  # a client of Spark Connect may have none
    with pytest.raises(ConnectShareError, match=r"copying: .*ExecutorLostFailure"), failures_explained("copying"):
        raise PySparkException("Job aborted: Lost task 0.3 in stage 1.0: ExecutorLostFailure\n\tat java.lang.X")


SECRET = "hunter2-canary"


def test_what_jobs_carry_is_in_no_column_plan_or_option(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event log and the logs of executors: ``test_cluster.py``."""
    frames: list[Any] = []
    made = type(spark.range(1)).mapInArrow

    def kept(frame: Any, *arguments: Any, **others: Any) -> Any:
        frames.append(made(frame, *arguments, **others))
        return frames[-1]

    monkeypatch.setattr(type(spark.range(1)), "mapInArrow", kept)
    settings, number = ClientSettings({"sasl.password": SECRET}), next(tasks._numbers) + 1
    found = run_as_tasks(spark, [(settings, n) for n in range(3)], itemgetter(1), progress=Silent(), what="telling")
    assert found == [0, 1, 2]
    (frame,) = frames
    assert frame.schema.simpleString() == f"struct<{RESULTS.replace(' ', ':').replace(',:', ',')}>"
    plans = frame._jdf.queryExecution().toString()
    assert "telling" in plans  # the plan names what is done
    rows = frame.collect()
    for text in (plans, repr(rows), *(bytes(row.result).decode("latin-1") for row in rows)):
        assert SECRET not in text
    context = spark.sparkContext
    tracker = context.statusTracker()
    (job,) = tracker.getJobIdsForGroup(f"connect-share-telling-{number}")
    info = tracker.getJobInfo(job)
    assert info is not None
    stages = [tracker.getStageInfo(stage) for stage in info.stageIds]
    assert [stage and stage.numTasks for stage in stages] == [3]
    assert context.getLocalProperty("spark.jobGroup.id") is None


def test_a_copy_on_spark_connect_is_refused_with_the_reason() -> None:
    connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(ConfigError, match="its server goes on with tasks when this process has ended"):
        require_single_attempts(cast("SparkSession", connect))


@pytest.mark.parametrize(
    "statement", ["spark_jobs.read_kafka", "spark_jobs.decode", "__import__('spark_jobs.apply_plan')"]
)
def test_without_spark_it_is_said_what_to_install(statement: str) -> None:
    """A finder that finds no PySpark stands in for an environment without it."""
    program = f"""
import sys
from importlib.abc import MetaPathFinder
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in ("pyspark", "pandas") else found(name, *rest)
import spark_jobs
from connect_share.errors import UsageError
try:
    {statement}
    from spark_jobs.session import spark_session
    with spark_session("none"):
        raise AssertionError
except UsageError as error:
    print(error)
assert "pyspark" not in sys.modules
"""
    done = python("-c", program)
    assert done.stdout.strip() == (
        "Spark needs pyspark, pandas, which are not installed here: pip install pyspark pyarrow pandas numpy"
    ), done.stderr


def test_a_session_of_another_thread_is_used_and_left_alone(spark: SparkSession) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(session.spark_session("in a thread")(bool)).result()
    assert spark.range(1).count() == 1


def test_texts_have_one_hash_in_all_workers(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    assert workers_hash_alike(spark)
    assert len(set(run_as_tasks(spark, [b"text"] * 6, hash, progress=Silent(), what="hashing"))) == 1
    monkeypatch.setitem(spark.sparkContext.environment, "PYTHONHASHSEED", "random")
    assert not workers_hash_alike(spark)
