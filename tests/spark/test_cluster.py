"""What a real cluster does: executors in processes of their own that get the packages from the wheel alone."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pyspark
import pytest

from connect_share.jar import JAR_NAME, jar_path
from connect_share.jar.java_runtime import java_home_for_spark
from connect_share.worker_config import SHARING_PROPERTY
from spark_jobs.session import missing_protection
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.kafka import TestBroker

CHECKOUT = Path(__file__).parents[2]
JOB = """
import json, os, sys
from connect_share.contents.startup import CountJob
from connect_share.kafka.read import Reader
from connect_share.model.records import OffsetRange, TopicType
from connect_share.worker_config import Isolation, WorkerConfig
from connect_share.files import Silent
from spark_jobs import generate_workload, profile_topics
from spark_jobs.sources import read_kafka
from spark_jobs.session import spark_session
from spark_jobs.tasks import run_as_tasks

def where(_):
    import connect_share, os
    return [connect_share.__file__, os.getpid()]

with spark_session("cluster test") as spark:
    found = spark.sparkContext.parallelize(range(8), 8).map(where).collect()
    code = generate_workload.main(sys.argv[2:])
    code = code or profile_topics.main([*sys.argv[2:4], "--result", sys.argv[1] + ".profile"])
    worker = WorkerConfig.from_file(sys.argv[3])
    secret = os.environ["NOT_TO_BE_SHOWN"]
    settings = worker.client_settings().overlaid({"sasl.password": secret, "sasl.oauthbearer.extensions": "a=" + secret})
    WorkerConfig.client_settings = lambda _: settings
    topic = [OffsetRange(worker.config_storage_topic, 0, 0, 40)]
    job = CountJob(TopicType.CONFIG, Reader(settings, "test", Isolation.READ_COMMITTED), topic, 60.0, True)
    counted = run_as_tasks(spark, [job], type(job).run, progress=Silent(), what="counting")
    frame = read_kafka(spark, worker, ranges=topic)
    frame.explain(True)
    counts = [counted[0][0].total().records, frame.groupBy("topic").count().collect()[0]["count"]]
    with open(sys.argv[1], "w") as file:
        context = spark.sparkContext
        result = {"master": context.master, "found": found, "code": code, "counts": counts}
        json.dump({**result, "application": context.applicationId}, file)
"""
SECRET = "hunter2-canary"
# As it is, and as it is inside of something in base64, wherever it begins there.
IN_ALL_FORMS = [SECRET, *(base64.b64encode(b" " * at + SECRET.encode())[4 : 4 + 8].decode() for at in range(3))]
PROTECTION = ("spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled")


def _told(log: str) -> str:
    """Leave out what Spark says of itself."""
    return "\n".join(line for line in log.splitlines() if " INFO " not in line and not line.startswith("\tat "))[-4000:]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",  # the environment has what builds it: nothing is fetched inside a test
        "-w",
        str(folder),
        str(CHECKOUT),
    ]
    subprocess.run([*command, "--disable-pip-version-check"], check=True, timeout=500)
    return next(folder.glob("*.whl"))


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """An interpreter that sees the installed libraries, but not this project."""
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    python = tmp_path / "bare" / "bin" / "python"
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    # A path file inside the folder that is added here, such as the editable install's, is not followed.
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    seen = subprocess.run([str(python), "-c", "import connect_share"], capture_output=True, cwd=tmp_path, check=False)
    assert seen.returncode != 0, "the project is importable without the wheel: this test would prove nothing"
    return python


def test_the_wheel_holds_the_product_and_the_jar_and_nothing_of_the_lab(wheel: Path) -> None:
    product = {"connect_share", "migrator", "spark_jobs"}
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
        jar = archive.read(f"connect_share/jar/{JAR_NAME}")
    assert jar == jar_path().read_bytes()
    assert {name.partition("/")[0] for name in files} == product
    modules = {
        path.relative_to(CHECKOUT).as_posix() for package in product for path in (CHECKOUT / package).rglob("*.py")
    }
    assert {name for name in files if name.endswith(".py")} == modules
    assert not [name for name in files if "lab/" in name or "/drill" in name or "compatibility" in name]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_job_runs_on_executors_that_have_only_the_wheel(
    broker: TestBroker, unique: str, tmp_path: Path, wheel: Path, bare_python: Path
) -> None:
    """What the tasks carry is in none of Spark's logs; what would keep it from others and is off is said once."""
    properties = {**worker_properties(broker.bootstrap_servers, unique), SHARING_PROPERTY: "enabled"}
    worker_file = write_properties(tmp_path / "worker.properties", properties)
    job, result = tmp_path / "job.py", tmp_path / "result.json"
    job.write_text(JOB)
    home = Path(pyspark.__file__).parent
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))
    }
    environment |= {
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": str(bare_python),
        "PYSPARK_DRIVER_PYTHON": str(bare_python),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "NOT_TO_BE_SHOWN": SECRET,
    }
    java_home = java_home_for_spark()
    if java_home is not None:
        environment["JAVA_HOME"] = str(java_home)
    command = [str(home / "bin" / "spark-submit"), "--master", "local-cluster[1,1,512]"]
    command += ["--conf", "spark.executor.memory=512m", "--conf", "spark.ui.enabled=false"]
    # The JVMs live for seconds: the quick compiler and the small collector start soonest.
    for role in ("driver", "executor"):
        command += ["--conf", f"spark.{role}.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]
    events = tmp_path / "events"
    events.mkdir()
    on = [f"{name} true" for name in PROTECTION[:2]]
    log = ["spark.eventLog.enabled true", "spark.eventLog.compress false", f"spark.eventLog.dir {events.as_uri()}"]
    (tmp_path / "spark.conf").write_text("\n".join([*on, "spark.authenticate.secret for-this-test", *log]))
    command += ["--properties-file", str(tmp_path / "spark.conf")]
    command += ["--conf", f"spark.local.dir={tmp_path / 'spark'}", "--py-files", str(wheel), str(job), str(result)]
    command += ["-w", str(worker_file), "--groups", "4", "--jobs", "1", "--config-records", "40"]
    command += ["--status-records", "20", "--offset-records", "20", "--config-bytes", "20000"]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=800, check=False
    )
    assert done.returncode == 0, _told(done.stdout + done.stderr)
    report = json.loads(result.read_text())
    assert report["master"] == "local-cluster[1,1,512]"
    assert report["code"] == 0
    assert all(".zip" in file and str(CHECKOUT) not in file for file, _ in report["found"]), report["found"]
    with broker.admin() as admin:
        assert admin.end_offsets([(f"{unique}-configs", 0)]) == {(f"{unique}-configs", 0): 40}
    profile = json.loads(result.with_name("result.json.profile").read_text())
    assert sum(topic["records"] for topic in profile["topics"]) == 80
    assert len(profile["groups"]) == 4
    assert report["counts"] == [40, 40]
    warnings = [line for line in (done.stdout + done.stderr).splitlines() if "carry the credentials" in line]
    assert len(warnings) == 1
    assert warnings[0].startswith("warning: ")
    assert "spark.io.encryption.enabled is off" in warnings[0]
    # Where Spark puts what executors say, in this mode.
    executors = home / "work" / report["application"]
    written = [path for folder in (events, executors) for path in folder.rglob("*") if path.is_file()]
    assert {"stdout", "stderr"} <= {path.name for path in written}
    texts = {path.name: path.read_text("utf-8", "replace") for path in written if path.suffix != ".zip"}
    assert any('"SparkListenerTaskEnd"' in text for text in texts.values())
    assert any('"spark.job.description":"counting"' in text for text in texts.values())
    for text in (*texts.values(), done.stdout, done.stderr):
        assert not [secret for secret in IN_ALL_FORMS if secret in text]
    shutil.rmtree(executors)


def test_what_is_off_is_named() -> None:
    def missing(**settings: str) -> tuple[str, ...]:
        return missing_protection({name.replace("_", "."): value for name, value in settings.items()}.get)

    assert missing() == missing(spark_master="local") == missing(spark_master="local[*,3]") == ()
    for master in ("yarn", "k8s://https://h", "spark://h:7077", "local-cluster[2,1,512]"):
        assert missing(spark_master=master) == PROTECTION
        on = {"spark_authenticate": "TRUE", "spark_io_encryption_enabled": "true"}
        assert missing(spark_master=master, **on) == (PROTECTION[1],)
        assert missing(spark_master=master, spark_ssl_rpc_enabled="true", **on) == ()
        assert missing(spark_master=master, spark_network_crypto_enabled="false", **on) == (PROTECTION[1],)
