"""What a real cluster does: executors in processes of their own that get the packages from the wheel alone.

It is started, and given its jobs, by the lines of docs/spark-clusters.md.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest
from hatchling.builders.sdist import SdistBuilder

from connect_share.jar import JAR_NAME, jar_path
from connect_share.jar.java_runtime import java_home_for_spark
from connect_share.worker_config import SHARING_PROPERTY
from migrator.run import Manifest, MigrationStatus, manifest_path
from spark_jobs.benchmark.results import StartupResult
from spark_jobs.session import missing_protection
from tests.lab.embedded.ports import free_ports
from tests.lab.embedded.worker import worker_properties, write_properties
from tests.support.kafka import TestBroker
from tests.support.long_forms import LONG
from tests.support.migration_site import Site
from tests.support.waiting import await_that

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
    return [connect_share.__file__, os.getcwd()]

with spark_session("cluster test") as spark:
    found = spark.sparkContext.parallelize(range(8), 8).map(where).collect()
    code = generate_workload.main(sys.argv[2:])
    code = code or profile_topics.main([*sys.argv[2:4], "--result", sys.argv[1] + ".profile"])
    worker = WorkerConfig.from_file(sys.argv[3])
    secret = os.environ["NOT_TO_BE_SHOWN"]
    settings = worker.client_settings().overlaid({"sasl.password": secret, "sasl.oauthbearer.extensions": "a=" + secret})
    WorkerConfig.client_settings = lambda _: settings
    topic = [OffsetRange(worker.config_storage_topic, 0, 0, 40)]
    job = CountJob(TopicType.CONFIG, Reader(settings, "test", Isolation.READ_COMMITTED), topic, 60.0)
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
    own = re.compile(r"\tat |\d\d/\d\d/\d\d .{9}(INFO|WARN) ")
    return "\n".join(line for line in log.splitlines() if not own.match(line))[-4000:]


PAGE = (CHECKOUT / "docs" / "spark-clusters.md").read_text("utf-8")


def lines_of(heading: str) -> list[str]:
    """Return the commands of a section of the page, which name what they need by variables and in ``dist``."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [line for block in re.findall(r"```bash\n(.*?)```", section, re.DOTALL) for line in block.splitlines()]


WHEEL, JOBS, LIBRARIES, ARCHIVE = lines_of("Build")
MASTER, WORKER, APPLY, VERIFY, VERIFY_WITH_ARCHIVE = lines_of("Standalone")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # The environment has what builds it: nothing is fetched inside a test.
    command = [sys.executable, "-m", *shlex.split(WHEEL)[:-1], "--no-build-isolation", str(CHECKOUT)]
    subprocess.run([*command, "--quiet", "--disable-pip-version-check"], cwd=folder, check=True, timeout=500)
    return next((folder / "dist").glob("*.whl"))


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
    source = {Path(each.relative_path).parts[0] for each in SdistBuilder(str(CHECKOUT)).recurse_included_files()}
    assert source == {*product, "README.md", "pyproject.toml"}


def test_pages_are_made_from_the_templates_in_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """Which nobody unpacks where ``--py-files`` brings it."""
    program = """
import sys
sys.path.insert(0, sys.argv[1])
from migrator.report import __file__ as file, templates_of
assert file.startswith(sys.argv[1])
print(*templates_of("migrator").list_templates())
"""
    command = [sys.executable, "-c", program, str(wheel)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == sorted(each.name for each in (CHECKOUT / "migrator/templates").iterdir())


@dataclass(frozen=True)
class Cluster:
    """A master and two workers of one core, whose folder has the wheel in ``dist``."""

    folder: Path
    environment: dict[str, str]

    @property
    def master(self) -> str:
        return f"spark://{self.environment['SPARK_MASTER_HOST']}:{self.environment['SPARK_MASTER_PORT']}"

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", line],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )

    @contextmanager
    def started(self) -> Iterator[None]:
        """Start the master, then workers: one that finds none tries again after many seconds."""
        address = self.environment["SPARK_MASTER_HOST"], int(self.environment["SPARK_MASTER_PORT"])

        def listens() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(address) == 0

        with ExitStack() as stack:
            for line in (MASTER, WORKER, WORKER):
                log = stack.enter_context((self.folder / "daemons.log").open("a"))
                daemon = subprocess.Popen(
                    ["bash", "-c", f"exec {line}"], env=self.environment, cwd=self.folder, stdout=log, stderr=log
                )
                stack.callback(daemon.wait)
                stack.callback(daemon.terminate)
                await_that(listens, what="the master listens")
            yield


@pytest.fixture
def cluster(tmp_path: Path, wheel: Path, bare_python: Path) -> Iterator[Cluster]:
    shutil.copytree(wheel.parent, tmp_path / "dist")
    events = tmp_path / "events"
    events.mkdir()
    on = [f"{name} true" for name in PROTECTION[:2]]
    log = ["spark.eventLog.enabled true", "spark.eventLog.compress false", f"spark.eventLog.dir {events.as_uri()}"]
    small = ["spark.executor.memory 512m", "spark.ui.enabled false", f"spark.local.dir {tmp_path / 'spark'}"]
    # The JVMs live for seconds: the quick compiler and the small collector start soonest.
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    small += [f"spark.{role}.extraJavaOptions {quick}" for role in ("driver", "executor")]
    small += ["spark.scheduler.minRegisteredResourcesRatio 1.0"]
    conf = [*on, "spark.authenticate.secret for-this-test", *log, *small]
    (tmp_path / "spark.conf").write_text("\n".join(conf))
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))
    }
    [port] = free_ports(1)
    environment |= {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_MASTER_HOST": "127.0.0.1",
        "SPARK_MASTER_PORT": str(port),
        **{f"SPARK_{each}_WEBUI_PORT": "0" for each in ("MASTER", "WORKER")},
        "SPARK_WORKER_CORES": "1",
        "SPARK_WORKER_MEMORY": "600m",
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": quick,
        "PYSPARK_PYTHON": str(bare_python),
        "PYSPARK_DRIVER_PYTHON": str(bare_python),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "NOT_TO_BE_SHOWN": SECRET,
    }
    java_home = java_home_for_spark()
    if java_home is not None:
        environment["JAVA_HOME"] = str(java_home)
    made = Cluster(tmp_path, environment)
    with made.started():
        yield made


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_job_runs_on_executors_that_have_only_the_wheel(
    broker: TestBroker, unique: str, tmp_path: Path, cluster: Cluster
) -> None:
    """What the tasks carry is in none of Spark's logs; what would keep it from others and is off is said once."""
    properties = {**worker_properties(broker.bootstrap_servers, unique), SHARING_PROPERTY: "enabled"}
    worker_file = write_properties(tmp_path / "worker.properties", properties)
    job, result = tmp_path / "job.py", tmp_path / "result.json"
    job.write_text(JOB)
    words = [str(job), str(result), "-w", str(worker_file), "--groups", "4", "--jobs", "1", "--config-records", "40"]
    words += ["--status-records", "20", "--offset-records", "20", "--config-bytes", "20000"]
    done = cluster.run(APPLY.replace("dist/jobs/spark_jobs/apply_plan.py move.json", shlex.join(words)))
    assert done.returncode == 0, _told(done.stdout + done.stderr)
    report = json.loads(result.read_text())
    assert report["master"] == cluster.master
    assert report["code"] == 0
    assert all(".zip" in file and str(CHECKOUT) not in file for file, _ in report["found"]), report["found"]
    assert len({folder for _, folder in report["found"]}) == 2  # of two executors
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
    written = [path for at in ("events", "work") for path in (tmp_path / at).rglob("*") if path.is_file()]
    assert {"stdout", "stderr"} <= {path.name for path in written}
    texts = {str(path): path.read_text("utf-8", "replace") for path in written if path.suffix != ".zip"}
    assert any('"SparkListenerTaskEnd"' in text for text in texts.values())
    assert any('"spark.job.description":"counting"' in text for text in texts.values())
    for text in (*texts.values(), done.stdout, done.stderr):
        assert not [secret for secret in IN_ALL_FORMS if secret in text]


@pytest.mark.skipif(not LONG, reason="fetches libraries, and packs them: make soak")
@pytest.mark.timeout(1800)
def test_every_line_of_the_page(broker: TestBroker, unique: str, tmp_path: Path, cluster: Cluster) -> None:
    site = Site(broker.bootstrap_servers, unique, tmp_path)
    site.plan(site.small_source(), site.shared(), "move.json")
    lines = [JOBS, APPLY, VERIFY, LIBRARIES, ARCHIVE, VERIFY_WITH_ARCHIVE]
    for line in lines:
        done = cluster.run(line)
        assert done.returncode == 0, (line, _told(done.stdout + done.stderr))
    manifest = Manifest.load(manifest_path(tmp_path / "move.json"))
    assert (manifest.engine, manifest.status) == ("spark", MigrationStatus.VERIFIED)
    storm = ["-B", broker.bootstrap_servers, "--scenarios", "tiny", "--rounds", "1", "--contenders", "python"]
    storm += ["--storm", "6", "--yes", "--result", str(tmp_path / "result.json")]
    done = cluster.run(APPLY.replace("apply_plan.py move.json", shlex.join(["benchmark_startup.py", *storm])))
    assert done.returncode == 0, _told(done.stdout + done.stderr)
    found = StartupResult.model_validate_json((tmp_path / "result.json").read_bytes())
    assert [(each.at_once, len(each.seconds), each.failed) for each in found.storms] == [(1, 6, 0), (2, 6, 0)]


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
