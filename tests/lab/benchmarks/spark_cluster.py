"""A standalone Spark cluster on this machine: a master and two workers of one core each, all programs of their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

import spark_jobs
from connect_share.jar.java_runtime import java_home_for_spark
from tests.lab.benchmarks.process_cost import Cost, Watch, measured
from tests.lab.embedded.ports import free_ports
from tests.lab.embedded.processes import ChildProcess
from tests.lab.waiting import until

WORKERS: Final = 2
_MEMORY: Final = "1536m"
_EXECUTOR_MEMORY: Final = "1g"
_HOME: Final = Path(pyspark.__file__).parent


@dataclass(frozen=True)
class SparkCluster:
    """A cluster that runs."""

    master: str
    workers: tuple[int, ...]

    def run(self, job: str, *arguments: str | Path) -> Cost:
        """Run one of our jobs with ``spark-submit``; return the cost of driver, workers and executors.

        Raises:
            EmbeddedError: it failed; has the end of what it printed.
        """
        script = Path(spark_jobs.__file__).with_name(f"{job}.py")
        command = [_HOME / "bin" / "spark-submit", "--master", self.master]
        command += ["--conf", "spark.ui.enabled=false", "--conf", f"spark.executor.memory={_EXECUTOR_MEMORY}"]
        with ExitStack() as stack:
            watches = [stack.enter_context(Watch(pid)) for pid in self.workers]
            before_s = sum(watch.cpu_s() for watch in watches)
            cost, _ = measured([*map(str, command), str(script), *map(str, arguments)])
            cpu_s = sum(watch.cpu_s() for watch in watches) - before_s
            peak_bytes = sum(watch.peak_bytes for watch in watches)
        return Cost(cost.wall_s, cost.cpu_s + cpu_s, cost.peak_bytes + peak_bytes)


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[SparkCluster]:
    """Start a master and its workers, and stop them afterwards.

    Args:
        folder: for logs, and for what executors write.

    Raises:
        EmbeddedError: a program did not start.
    """
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(_HOME)}
    os.environ |= {} if (java_home := java_home_for_spark()) is None else {"JAVA_HOME": str(java_home)}
    (port,) = free_ports(1)
    master = f"spark://127.0.0.1:{port}"
    at = ("--host", "127.0.0.1", "--webui-port", "0")
    with ExitStack() as stack:
        _start(stack, folder, "master", "master.Master", *at, "--port", str(port))
        own = (*at, "--cores", "1", "--memory", _MEMORY, "--work-dir", str(folder / "executors"), master)
        workers = [_start(stack, folder, f"worker-{number}", "worker.Worker", *own) for number in range(WORKERS)]
        for worker in workers:
            until(worker.log_tail, lambda log: "Successfully registered" in log, what="a Spark worker", timeout_s=60)
        yield SparkCluster(master, tuple(worker.pid for worker in workers))


def _start(stack: ExitStack, folder: Path, name: str, program: str, *arguments: str) -> ChildProcess:
    command: list[str | Path] = [_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{program}", *arguments]
    process = ChildProcess(command, log_path=folder / f"{name}.log", cwd=folder)
    stack.callback(process.stop)
    return process
