"""The time from a put to its read-back in running stores: ours and Java's in turn, alone and while other groups write.

Our puts and the other groups' writes run in processes of their own:

usage: python -m tests.lab.benchmarks.startup.latency puts WORKER_FILE PUTS UNCOUNTED
       python -m tests.lab.benchmarks.startup.latency writers WORKER_FILE GROUPS   (until its standard input is closed)
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from connect_share.jar import jar_path
from connect_share.kafka.client import producer
from connect_share.model.keys import prefix_key
from connect_share.model.offsets import offset_key, offset_value
from connect_share.model.records import TopicType
from connect_share.model.status import ConnectorStatus, State
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from spark_jobs.benchmark.results import Latency
from spark_jobs.benchmark.starts import run_python
from spark_jobs.benchmark.suite import Suite
from spark_jobs.benchmark.topics import SERVERS, Connection, worker_of, write_worker
from tests.lab.benchmarks.frame import READY, records_of_others, running, topics_of
from tests.lab.benchmarks.startup.contenders import java_file
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.embedded.java_program import time_java_stores
from tests.lab.embedded.worker import Sharing, worker_properties
from tests.support.topics import written_evenly

PUTS: Final = 1_000
"""Into each store, of each contender, beside each number of groups: so many tell a 99th percentile."""

GROUPS: Final = (1, 20)
CONTENDERS: Final[tuple[Sharing, ...]] = ("python", "java")
_BLOCKS: Final = 2
_UNCOUNTED: Final = 100
_PUTS_S: Final = 600
_MODULE: Final = "tests.lab.benchmarks.startup.latency"
WRITES_A_SECOND: Final = 10
"""Of each other group, to each topic: far more than a group writes that is not just being started."""

_LOOK_EVERY_S: Final = 50e-6
_NAME: Final = "latency"
_STORES: Final[tuple[Literal["config", "status", "offset"], ...]] = ("config", "status", "offset")


def measure_latency(suite: Suite, puts: int, contenders: Sequence[str]) -> None:
    """Measure in blocks that alternate, if the result has not as many; Java's stores have the jar: both share the topics.

    Args:
        suite: keeps what is measured.
        puts: into each store, of each contender, beside each number of groups.
        contenders: of ``python`` and ``java``.
    """
    kinds = list(itertools.product(contenders, _STORES, GROUPS))
    known = {(each.contender, each.store, each.groups): len(each.seconds) for each in suite.result.latencies}
    if all(known.get(kind, 0) >= puts for kind in kinds):
        return
    found: dict[tuple[str, str, int], list[float]] = {kind: [] for kind in kinds}
    blocks = min(_BLOCKS, puts)
    with suite.timed("latency"):
        files: dict[str, Path] = {
            name: _worker_file(suite.folder, suite.connection(), f"{suite.prefix}-latency", name) for name in CONTENDERS
        }
        suite.progress.phase("latency: measuring", blocks * len(GROUPS) * len(contenders))
        with topics_of(worker_of(files["python"])):
            for block, groups in itertools.product(range(blocks), GROUPS):
                count = puts // blocks + (1 if block < puts % blocks else 0)
                with _others(files["python"], groups - 1):
                    for contender in contenders:
                        for store, seconds in _measure_puts(contender, files[contender], count).items():
                            found[contender, store, groups] += seconds
                        suite.progress.advance(1)
        latencies = [
            Latency(contender=contender, store=store, groups=groups, seconds=found[contender, store, groups])
            for contender, store, groups in kinds
        ]
        suite.keep(suite.result.model_copy(update={"latencies": latencies}))


def _worker_file(folder: Path, connection: Connection, prefix: str, contender: Sharing) -> Path:
    properties = {
        **worker_properties(connection[SERVERS], f"latency-{contender}", prefix, sharing=contender),
        **connection,
        "offset.storage.partitions": "25",
    }
    return write_worker(folder / f"{prefix}-{contender}.json", properties)


@contextmanager
def _others(worker_file: Path, groups: int) -> Iterator[None]:
    """Run writers of other groups in the meantime."""
    if groups == 0:
        yield
        return
    with running(_MODULE, "writers", worker_file, groups) as writers:
        yield
        if writers.poll() is not None:
            raise EmbeddedError("the other groups' writers ended early, see above")


def _measure_puts(contender: str, worker_file: Path, count: int) -> dict[str, list[float]]:
    uncounted = min(_UNCOUNTED, count)
    if contender == "java":
        _, stores = time_java_stores([java_file(worker_file), count, uncounted], [jar_path()])
        return {store["store"]: store["seconds"] for store in stores}
    lines = run_python(_MODULE, "puts", worker_file, count, uncounted, timeout_s=_PUTS_S)
    found: dict[str, list[float]] = json.loads(lines[-1])
    return found


def puts(worker: WorkerConfig, count: int, uncounted: int) -> dict[str, list[float]]:
    """Return the seconds of each put by store."""
    found: dict[str, list[float]] = {"config": [], "offset": [], "status": []}
    with ConnectStorage(worker, allow_live_members=True, allow_empty=True) as storage:
        kinds: dict[str, Callable[[ConnectStorage, int], None]] = {
            "config": _put_config,
            "offset": _put_offset,
            "status": _put_status,
        }
        for number in range(-uncounted, count):
            for store, put in kinds.items():
                began = time.perf_counter()
                put(storage, number)
                if number >= 0:
                    found[store].append(time.perf_counter() - began)
    return found


def _put_config(storage: ConnectStorage, number: int) -> None:
    storage.config.put_connector_config(_NAME, {"name": _NAME, "number": str(number)})
    while (storage.config.snapshot().connector_config(_NAME) or {}).get("number") != str(number):
        time.sleep(_LOOK_EVERY_S)


def _put_offset(storage: ConnectStorage, number: int) -> None:
    key = offset_key(_NAME, {"file": "a"})
    if storage.cluster_group_id is not None:
        key = prefix_key(storage.cluster_group_id, key)
    value = offset_value({"position": number})
    storage.offsets.set({key: value}).result(60)
    while storage.offsets.get([key]).result(60)[key] != value:
        pass


def _put_status(storage: ConnectStorage, number: int) -> None:
    generation = number + 1_000_000
    storage.status.put(ConnectorStatus(_NAME, State.RUNNING, "127.0.0.1:8083", generation))
    while (now := storage.status.get(_NAME)) is None or now.generation != generation:
        time.sleep(_LOOK_EVERY_S)


def main(argv: list[str]) -> int:
    """Print one JSON object of puts, or write until standard input ends."""
    what, worker = argv[0], worker_of(Path(argv[1]))
    if what == "puts":
        print(json.dumps(puts(worker, int(argv[2]), int(argv[3]))), flush=True)
        return 0
    groups, sender = (
        int(argv[2]),
        producer(worker.producer_settings(), client_id="others", overrides={"linger.ms": "0"}),
    )
    each_second, records = WRITES_A_SECOND * groups * len(TopicType), records_of_others(worker, groups, list(TopicType))
    with written_evenly(sender, records, each_second, every_s=0.001):
        print(READY, flush=True)
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
