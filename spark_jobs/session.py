"""One Spark session builder for all jobs: embedded by default, untouched under ``spark-submit``.

Running jobs of the migrator as Spark tasks: one job is one task, and only its result comes back.

Records never cross the JVM: a task consumes, rewrites and produces in one Python call. What travels is the pickled job,
which holds client settings and keys, and so never goes into options, plans or logs.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from pyspark import SparkContext, TaskContext
from pyspark.sql import SparkSession

from connect_share.errors import ConfigError
from connect_share.files import Progress
from connect_share.jar.cache import run_folder
from connect_share.jar.java_runtime import java_home_for_spark
from migrator.copy.copy_job import CopyJob, SliceEvidence, copy_one

MASTER: Final = "local[*,3]"
"""All cores, and three attempts: a plain ``local[*]`` never repeats a failed task."""

_LOG4J: Final = """status = error
rootLogger.level = error
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""

_NETWORK: Final = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
_PROTECTION: Final = (("spark.authenticate",), _NETWORK, ("spark.io.encryption.enabled",))
_warned: Final[set[str]] = set()


def missing_protection(settings: Callable[[str], str | None]) -> tuple[str, ...]:
    """Return the settings that are off and would keep the credentials in tasks secret on a cluster."""
    master = settings("spark.master") or "local"
    if master == "local" or master.startswith("local["):
        return ()
    return tuple(
        names[0] for names in _PROTECTION if not any((settings(name) or "").strip().lower() == "true" for name in names)
    )


def warn_of_missing_protection(session: SparkSession) -> None:
    """Print once for each application that others may read the credentials that its tasks carry."""

    def setting(name: str) -> str | None:
        return session.conf.get(name, None)

    missing, application = missing_protection(setting), setting("spark.app.id") or ""
    if missing and application not in _warned:
        _warned.add(application)
        print(
            f"warning: the tasks carry the credentials of the worker files, and {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} off: who reaches Spark's ports or disks can take them; start with "
            f"{' '.join(f'--conf {name}=true' for name in missing)} (docs/migrating.md, Spark on a cluster)",
            file=sys.stderr,
        )


def refuse_speculation(session: SparkSession) -> None:
    """Check that Spark starts no second attempt of a task that writes beside the first one, else ``ConfigError``."""
    if (session.conf.get("spark.speculation", None) or "").strip().lower() == "true":
        raise ConfigError(
            "spark.speculation=true: Spark would start a second attempt of a slow task beside the first one, and both would "
            "write: old values could come to lie behind newer ones. Nothing was written; start with "
            "--conf spark.speculation=false",
            property_name="spark.speculation",
        )


def _embedded_settings(folder: Path) -> dict[str, str]:
    log_settings = folder / "log4j2.properties"
    log_settings.write_text(_LOG4J)
    # The JVM lives for one job: the quick compiler and the small collector save two seconds of start.
    options = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile={log_settings}"
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": options,
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _ship_wheel(session: SparkSession, folder: Path) -> None:
    """Send the wheel that this code runs from, if it does (``--py-files`` puts it on the driver's path), to executors.

    It gets a name that they import: Spark puts ``.zip`` files on the path, not ``.whl`` files.
    """
    for wheel in Path(__file__).parents:
        if wheel.suffix == ".whl" and wheel.is_file():
            session.sparkContext.addPyFile(str(shutil.copyfile(wheel, folder / f"{wheel.stem}.zip")))


@contextmanager
def spark_session(app_name: str, *, master: str = MASTER) -> Iterator[SparkSession]:
    """Yield a session and stop it afterwards; a session that is there already is used and left alone.

    ``spark-submit`` overrides ``master``, which is that of an embedded session.

    Raises:
        JavaMissingError: there is no Java for an embedded session.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    builder = SparkSession.builder.appName(app_name)
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "2")
    folder = run_folder("spark")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else spark-submit has started this process, and decides
        home = java_home_for_spark()
        if home is not None:
            os.environ["JAVA_HOME"] = str(home)
        # Python workers are separate processes: they need this interpreter, not the first "python3" on PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.master(master)
        for name, value in _embedded_settings(folder).items():
            builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        _ship_wheel(session, folder)
        yield session
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)


J = TypeVar("J")
R = TypeVar("R")

_TICK_S = 0.5


def copy_in_task(job: CopyJob) -> SliceEvidence:
    """Copy one slice; an attempt after a failed one first reads back what that has written."""
    context = TaskContext.get()
    return copy_one(job, resumed=context is not None and context.attemptNumber() > 0)


def run_as_tasks(
    spark: SparkSession, jobs: Sequence[J], function: Callable[[J], R], *, progress: Progress, what: str
) -> list[R]:
    """Run each job once (again if its task fails); return the results in the order of the jobs.

    Jobs are pickled; the function is imported by name on the executors.
    """
    if not jobs:
        return []
    warn_of_missing_protection(spark)
    context: SparkContext = spark.sparkContext
    with _reported(context, len(jobs), progress, what):
        return list(context.parallelize(list(jobs), len(jobs)).map(function).collect())


@contextmanager
def _reported(context: SparkContext, total: int, progress: Progress, what: str) -> Iterator[None]:
    """Report regularly how many tasks have ended."""
    group = f"connect-share-{what.replace(' ', '-')}"
    context.setJobGroup(group, what)
    progress.phase(what, total)
    ended = threading.Event()
    seen = 0

    def finished() -> int:
        tracker: Any = context.statusTracker()
        jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
        stages = filter(None, (tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds))
        return sum(stage.numCompletedTasks for stage in stages)

    def tick() -> None:
        nonlocal seen
        while not ended.wait(_TICK_S):
            now = min(finished(), total)
            if now > seen:
                progress.advance(now - seen)
                seen = now

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    progress.advance(total - seen)
