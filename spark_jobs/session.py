"""One Spark session builder for all jobs: embedded by default, untouched under ``spark-submit`` and on Spark Connect.

What has to be there is asked before anything starts, and said in one line: PySpark and what it needs, a Java that it takes,
what its settings must not be.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from connect_share.errors import ConfigError, ConnectShareError, UsageError
from connect_share.files import run_folder
from connect_share.jar.java_runtime import MINIMUM, java_home_for_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
_complete: Final[set[str]] = set()


def _is_local(master: str | None) -> bool:
    return master is None or master == "local" or master.startswith("local[")


def missing_protection(settings: Callable[[str], str | None]) -> tuple[str, ...]:
    """Return the settings that are off and would keep the credentials in tasks secret on a cluster."""
    if _is_local(settings("spark.master")):
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
            f"{' '.join(f'--conf {name}=true' for name in missing)} (docs/spark-clusters.md)",
            file=sys.stderr,
        )


def is_connect(session: SparkSession) -> bool:
    """Return whether the session is a client of Spark Connect: it has no context, and its driver is elsewhere."""
    return ".connect." in type(session).__module__


def require_single_attempts(session: SparkSession) -> None:
    """Check that Spark runs no second attempt of a task that writes beside the first one, else ``ConfigError``."""
    if is_connect(session):
        raise ConfigError(
            "this session is one of Spark Connect: its server goes on with tasks when this process has ended, beside those "
            "of whoever starts it again, and both would write. Nothing was written; start with spark-submit, or without "
            "SPARK_REMOTE. What only reads works on Spark Connect"
        )
    if (session.conf.get("spark.speculation", None) or "").strip().lower() == "true":
        raise ConfigError(
            "spark.speculation=true: Spark would start a second attempt of a slow task beside the first one, and both would "
            "write: old values could come to lie behind newer ones. Nothing was written; start with "
            "--conf spark.speculation=false",
            property_name="spark.speculation",
        )


_NEEDED: Final = ("pyspark", "pyarrow", "pandas", "numpy")
_ON_EXECUTORS: Final = ("spark_jobs", "migrator", "connect_share", "confluent_kafka", "pydantic", "fastavro")


def require_spark() -> None:
    """Check that PySpark and what it needs are installed, else ``UsageError``."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"Spark needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed here: "
            "pip install pyspark pyarrow pandas numpy"
        )


def require_on_executors(session: SparkSession) -> None:
    """Check once for each application that executors can import what the tasks need, else ``ConfigError``."""
    application = session.conf.get("spark.app.id", None) or ""
    if _is_local(session.conf.get("spark.master", None)) or application in _complete:
        return

    def look(batches: Iterator[Any]) -> Iterator[Any]:  # goes by value: an executor may have nothing of ours
        import importlib

        import pyarrow as pa

        for _ in batches:
            missing = []
            for name in needed:
                try:
                    importlib.import_module(name)
                except ImportError as error:
                    missing.append(error.name or name)
            yield pa.RecordBatch.from_pydict({"missing": [",".join(missing)]})

    needed, tasks = _ON_EXECUTORS, 2 * task_slots(session)
    with failures_explained("looking for what the tasks need"):
        found = session.range(0, tasks, 1, tasks).mapInArrow(look, "missing string").collect()
    missing = sorted({name for row in found for name in row["missing"].split(",") if name})
    if missing:
        raise ConfigError(
            f"{', '.join(missing)} cannot be imported on the executors, nothing was started: install "
            "what the wheel needs there, or send it with --archives or an image, and the wheel with --py-files "
            "(docs/spark-clusters.md)"
        )
    _complete.add(application)


def task_slots(session: SparkSession) -> int:
    """Return how many tasks run at once."""
    if not is_connect(session):
        return int(session.sparkContext.defaultParallelism)
    return int(session.conf.get("spark.default.parallelism", None) or 2)


def workers_hash_alike(session: SparkSession) -> bool:
    """Return whether all Python workers have one seed for ``hash``: PySpark gives them 0, or this process's own."""
    return not is_connect(session) and session.sparkContext.environment.get("PYTHONHASHSEED", "").isdecimal()


_LAST_LINE: Final = re.compile(r"^((?:\w+\.)*[A-Z]\w*): (.+)$", re.MULTILINE)


@contextmanager
def failures_explained(what: str) -> Iterator[None]:
    """Turn what Spark says of failed tasks, hundreds of lines, into one ``ConnectShareError``."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):  # a client of Spark Connect may have no py4j
            raise
        text = str(error).partition("\n\tat ")[0]
        lines = _LAST_LINE.findall(text)
        name, said = lines[-1] if lines else ("", text.strip().partition("\n")[0])
        if not name.startswith("connect_share."):  # else it is an error of ours, which says all
            said = f"{what}: a task failed, each time that Spark tried it: {name}: {said}; executors' logs have more"
        raise ConnectShareError(said) from None


def _require_java(session: SparkSession) -> None:
    """Check that the Java of this session is one with which its Spark works, else ``ConfigError``."""
    from pyspark import __version__

    if is_connect(session) or not __version__.startswith("3."):
        return
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - there is no other way to ask
    java = jvm.java.lang.System.getProperty("java.specification.version")
    if int(java.rpartition(".")[2]) > MINIMUM:
        raise ConfigError(
            f"PySpark {__version__} runs on Java {java} here, with which its Arrow does not work: set JAVA_HOME to a Java "
            f"{MINIMUM}, or install PySpark 4"
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
            copied = str(shutil.copyfile(wheel, folder / f"{wheel.stem}.zip"))
            if is_connect(session):
                session.addArtifacts(copied, pyfile=True)
            else:
                session.sparkContext.addPyFile(copied)


@contextmanager
def spark_session(app_name: str, *, master: str = MASTER) -> Iterator[SparkSession]:
    """Yield a session and stop it afterwards; a session that is there already is used and left alone.

    ``spark-submit`` overrides ``master``, which is that of an embedded session.

    Raises:
        JavaMissingError: there is no Java for an embedded session.
        ConfigError: PySpark is missing, or does not work with this Java.
    """
    require_spark()
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    running = None
    with suppress(PySparkException):  # there is none
        running = SparkSession.active()  # of this thread or another
    if running is not None and (is_connect(running) or running.sparkContext._jsc is not None):  # noqa: SLF001 - it may have ended
        yield running
        return
    builder = SparkSession.builder.appName(app_name)
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "2")
    folder = run_folder("spark")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # Else spark-submit has started this process, or a server of Spark Connect is there, and decides.
    if "PYSPARK_GATEWAY_PORT" not in os.environ and "SPARK_REMOTE" not in os.environ:
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
        _require_java(session)
        _ship_wheel(session, folder)
        yield session
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)
