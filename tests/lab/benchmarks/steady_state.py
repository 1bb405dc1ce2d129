"""What other groups on the same topics cost a running worker: CPU and bytes for each record that is not its own.

A Java worker with the jar and a Python store follow the topics of 1, 10, 50 and 100 groups, of which all others write. What
they need without other writers is subtracted. Linux only.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from connect_share import ConnectStorage, WorkerConfig
from connect_share.errors import ConfigError
from connect_share.jar import jar_path
from connect_share.kafka import client
from connect_share.model.records import Record, TopicType
from spark_jobs import command_line
from tests.lab.benchmarks.frame import (
    READY,
    Site,
    at_least_1,
    new_prefix,
    parser,
    records_of_others,
    run,
    running,
    topics_of,
)
from tests.lab.benchmarks.process_cost import Family
from tests.lab.embedded.worker import ConnectWorker, worker_properties, write_properties
from tests.support.topics import written_evenly

_KINDS: Final = (TopicType.OFFSET,) * 5 + (TopicType.STATUS,)
"""Workers write offsets all the time, statuses seldom, configurations hardly ever."""

_SETTLE_S: Final = 3.0
_TICK_S: Final = 0.001
_WARM_UP_S: Final = 15.0
"""At the highest rate: so long the JVM compiles."""


@dataclass(frozen=True)
class Reading:
    """One window of one contender.

    Attributes:
        contender: ``java`` or ``python``.
        groups: on the topics, the contender's own included.
        rate: records a second that each other group was to write.
        records_per_s: foreign records that were written.
        payload_bytes: of one of them, key and value, in the mean.
        cpu_share: of one processor.
        received_bytes_per_s: read from sockets; ``None``: the system does not count how this client reads them.
    """

    contender: str
    groups: int
    rate: float
    records_per_s: float
    payload_bytes: float
    cpu_share: float
    received_bytes_per_s: float | None


class _Writer:
    """Writes records of other groups, evenly, each by itself, as workers do that do not know of each other."""

    def __init__(self, worker: WorkerConfig) -> None:
        self._worker = worker
        self._producer = client.producer(
            worker.producer_settings(), client_id="benchmark", overrides={"linger.ms": "0"}
        )
        self.written = self.payload = 0

    def writing(self, groups: int, per_second: float) -> AbstractContextManager[None]:
        """Write while the block runs; ``groups`` take turns."""
        return written_evenly(self._producer, self._counted(groups), per_second, every_s=_TICK_S)

    def _counted(self, groups: int) -> Iterator[Record]:
        for record in records_of_others(self._worker, groups, _KINDS):
            self.written += 1
            self.payload += len(record.key or b"") + len(record.value or b"")
            yield record


@dataclass(frozen=True)
class _Process:
    """A contender that runs; the bytes are counted by the process of this id."""

    name: str
    family: Family
    counted: int | None

    def look(self) -> tuple[float, int | None]:
        """CPU seconds, and bytes that were read, since it started."""
        if self.counted is None:
            return self.family.look(), None
        lines = Path(f"/proc/{self.counted}/io").read_text(encoding="ascii").splitlines()
        return self.family.look(), int(lines[0].split()[1])


@contextmanager
def _followers(servers: str, prefix: str, folder: Path) -> Iterator[list[_Process]]:
    with ExitStack() as stack:
        java = worker_properties(servers, "measured-java", prefix, sharing="java")
        worker = stack.enter_context(ConnectWorker(java, class_path=(jar_path(),)))
        python = worker_properties(servers, "measured-python", prefix, sharing="python")
        file = write_properties(folder / "python.properties", python)
        store = stack.enter_context(running("tests.lab.benchmarks.steady_state", "--follow", file))
        yield [
            _Process("java", Family(worker.pid or 0), worker.pid),
            # librdkafka reads by recvmsg(2), which Linux does not count.
            _Process("python", Family(store.pid), None),
        ]


def _follow(file: Path) -> int:
    with ConnectStorage(WorkerConfig.from_file(file)):
        print(READY, flush=True)
        sys.stdin.read()
    return 0


def _readings(site: Site, options: argparse.Namespace) -> list[Reading]:
    prefix = new_prefix("steady")
    found = []
    worker = WorkerConfig.from_properties(worker_properties(site.servers, "writers", prefix, sharing="python"))
    with topics_of(worker), _followers(site.servers, prefix, site.folder) as processes:
        writer = _Writer(worker)
        most = options.groups[-1]
        with writer.writing(most - 1, (most - 1) * options.rates[-1]):
            time.sleep(_WARM_UP_S)
        for rate in options.rates:
            for groups in options.groups:
                with writer.writing(groups - 1, (groups - 1) * rate):
                    time.sleep(_SETTLE_S)
                    before, written, payload = [each.look() for each in processes], writer.written, writer.payload
                    began_s = time.monotonic()
                    time.sleep(options.window)
                    lasted_s = time.monotonic() - began_s
                    after, records = [each.look() for each in processes], writer.written - written
                    size = (writer.payload - payload) / max(1, records)
                for process, (cpu_s, read), (cpu_now_s, read_now) in zip(processes, before, after, strict=True):
                    received = None if read is None or read_now is None else (read_now - read) / lasted_s
                    share = (cpu_now_s - cpu_s) / lasted_s
                    found.append(Reading(process.name, groups, rate, records / lasted_s, size, share, received))
    return found


def steady_report(readings: Sequence[Reading]) -> dict[str, Any]:
    """Return all windows, with CPU and bytes of each foreign record: what is more than with one group, by records."""
    alone = {(each.contender, each.rate): each for each in readings if each.groups == 1}
    rows = []
    for each in readings:
        idle = alone[each.contender, each.rate]
        row: dict[str, Any] = {name: _rounded(value) for name, value in asdict(each).items()}
        if each.records_per_s:
            row["cpu_us_per_record"] = round((each.cpu_share - idle.cpu_share) / each.records_per_s * 1e6, 1)
            if each.received_bytes_per_s is not None and idle.received_bytes_per_s is not None:
                row["received_bytes_per_record"] = round(
                    (each.received_bytes_per_s - idle.received_bytes_per_s) / each.records_per_s, 1
                )
        rows.append(row)
    return {"windows": rows}


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def steady_table(report: Mapping[str, Any]) -> list[str]:
    """Return the report as Markdown lines."""
    heads = (
        "worker",
        "groups",
        "records/s of each",
        "received/s",
        "of a processor",
        "CPU us/record",
        "bytes/record",
        "payload",
    )
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    for row in report["windows"]:
        more = (row.get("cpu_us_per_record", ""), row.get("received_bytes_per_record", ""))
        figures = (row["groups"], f"{row['rate']:g}", f"{row['records_per_s']:,.0f}", f"{row['cpu_share']:.1%}", *more)
        lines.append(f"| {row['contender']} | {' | '.join(map(str, figures))} | {row['payload_bytes']:.0f} |")
    return lines


def _measure(options: argparse.Namespace, site: Site) -> dict[str, Any]:
    options.groups, options.rates = sorted({1, *options.groups}), sorted(set(options.rates))
    if options.rates[0] <= 0 or options.window <= 0:
        raise ConfigError("--rates and --window have to be more than 0")
    return {**steady_report(_readings(site, options)), "window_s": options.window}


def main(argv: Sequence[str]) -> int:
    """Measure what foreign records cost."""
    arguments = parser("steady_state", __doc__)
    arguments.add_argument(
        "--groups", type=at_least_1, nargs="+", default=[10, 50, 100], help="beside 1; default 10 50 100"
    )
    arguments.add_argument(
        "--rates", type=float, nargs="+", default=[1.0, 20.0], help="of each group; default 1 and 20"
    )
    arguments.add_argument("--window", type=float, default=20.0, metavar="SECONDS", help="of one figure; default 20")
    arguments.add_argument("--follow", type=Path, help=argparse.SUPPRESS)
    options = arguments.parse_args(argv)
    return run(options, _measure, steady_table) if options.follow is None else _follow(options.follow)


if __name__ == "__main__":
    command_line.exit_with(main)
