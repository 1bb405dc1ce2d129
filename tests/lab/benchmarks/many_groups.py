"""What many groups in one process cost: over one reader, with a storage each, and one group alone, in one run."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from connect_share import ConnectStorage, SharedTopics, WorkerConfig, client
from connect_share.embedded.broker import LocalBroker
from connect_share.embedded.machine import describe_machine
from connect_share.embedded.worker import worker_properties
from connect_share.keys import prefix_key
from connect_share.records import Record, TopicType
from connect_share.topic_io.facts import admin_of
from connect_share.topics import ensure_topic, topic_spec
from connect_share.worker_config import SHARING_PROPERTY
from spark_jobs import command_line
from spark_jobs.workload import WorkloadSize, group_records
from tests.lab.benchmarks.output import hand_out
from tests.support.topics import ANYWHERE, send

CONTENDERS: Final = ("one", "shared", "side by side")
_WRITES: Final = 20_000
_WRITE_S: Final = 10.0


def worker_of(servers: str, prefix: str, group: str) -> WorkerConfig:
    """Return the worker of a group on the topics of this run."""
    return WorkerConfig.from_properties({**worker_properties(servers, group, prefix), SHARING_PROPERTY: "enabled"})


def group_name(number: int) -> str:
    """Return the id of a group."""
    return f"com.acme.team-{number:04}"


def fill(servers: str, prefix: str, groups: int, records: int) -> None:
    """Write the records of all groups."""
    worker = worker_of(servers, prefix, group_name(0))
    with admin_of(worker) as admin:
        for topic_type in TopicType:
            ensure_topic(admin, topic_spec(worker, topic_type))
    each = records // 3
    size = WorkloadSize(
        prefixed=False,
        groups=groups,
        jobs=10,
        config_records=each,
        status_records=each,
        offset_records=each,
        config_bytes=300 * each,
        status_bytes=200 * each,
    )
    producer = client.producer(worker.producer_settings(), client_id="benchmark", overrides={"linger.ms": "20"})
    for number in range(groups):
        for topic_type in TopicType:
            topic, prefix_of_keys = worker.topic(topic_type), f"{group_name(number)}.".encode()
            send(
                producer,
                (
                    Record(topic, ANYWHERE, 0, 0, prefix_of_keys + key, value)
                    for key, value in group_records(size, number, topic_type)
                ),
            )


def contend(servers: str, prefix: str, kind: str, groups: int) -> dict[str, float]:
    """Start, then follow while another process writes; return seconds and CPU seconds. Runs in a process of its own."""
    names = [group_name(number) for number in range(1 if kind == "one" else groups)]
    with ExitStack() as stack:
        began, cpu = time.perf_counter(), time.process_time()
        storages: list[ConnectStorage]
        if kind == "shared":
            topics = stack.enter_context(SharedTopics(worker_of(servers, prefix, names[0])))
            storages = [topics.storage(name) for name in names]
            for storage in storages:
                storage.start()
        else:
            storages = [stack.enter_context(ConnectStorage(worker_of(servers, prefix, name))) for name in names]
        start_s, start_cpu_s = time.perf_counter() - began, time.process_time() - cpu
        print(json.dumps({"ready": True}), flush=True)
        sys.stdin.readline()
        cpu = time.process_time()
        sys.stdin.readline()
        for storage in storages:
            storage.status.refresh()
        return {"start_s": start_s, "start_cpu_s": start_cpu_s, "tail_cpu_s": time.process_time() - cpu}


def measure(servers: str, prefix: str, kind: str, groups: int) -> dict[str, float]:
    """Run one contender, and write while it follows."""
    command = [sys.executable, "-m", __spec__.name, "--contender", kind, "-B", servers, "--prefix", prefix]
    with subprocess.Popen(
        [*command, "--groups", str(groups)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        worker = worker_of(servers, prefix, group_name(0))
        producer = client.producer(worker.producer_settings(), client_id="load", overrides={"linger.ms": "5"})
        process.stdin.write("\n")
        process.stdin.flush()
        began = time.monotonic()
        for number in range(_WRITES):
            key = prefix_key(group_name(number % groups), f"status-connector-load-{number % 7}".encode())
            value = b'{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":%d}' % number
            producer.produce(worker.topic(TopicType.STATUS), key=key, value=value)
            producer.poll(0)
            time.sleep(max(0.0, began + _WRITE_S * number / _WRITES - time.monotonic()))
        producer.flush()
        process.stdin.write("\n")
        process.stdin.flush()
        found: dict[str, float] = json.loads(process.stdout.readline())
    return found


def _body(options: argparse.Namespace) -> int:
    if options.contender is not None:
        print(json.dumps(contend(options.bootstrap_servers, options.prefix, options.contender, options.groups)))
        return 0
    prefix = f"many-groups-{int(time.time())}"
    with LocalBroker("bench") as broker:
        servers = broker.bootstrap_servers
        fill(servers, prefix, options.groups, options.records)
        measure(servers, prefix, "one", options.groups)  # the first one makes the broker's caches warm
        found = {kind: measure(servers, prefix, kind, options.groups) for kind in CONTENDERS}
    ratios = {name: round(found["shared"][name] / found["one"][name], 2) for name in found["one"]}
    report: dict[str, Any] = {
        "groups": options.groups,
        "records": options.records,
        "contenders": found,
        "shared_to_one": ratios,
        "machine": describe_machine(),
    }
    lines = [
        f"{options.groups} groups, {options.records:,} records",
        f"{'':<16}{'start s':>10}{'CPU s':>10}{'tail CPU s':>12}",
    ]
    lines += [
        f"{kind:<16}{cost['start_s']:>10.2f}{cost['start_cpu_s']:>10.2f}{cost['tail_cpu_s']:>12.2f}"
        for kind, cost in found.items()
    ]
    lines.append(f"{'shared / one':<16}{ratios['start_s']:>10}{ratios['start_cpu_s']:>10}{ratios['tail_cpu_s']:>12}")
    hand_out(options, "benchmark_many_groups", report, lines)
    return 0


def main(argv: Sequence[str]) -> int:
    """Measure many groups in one process. 0 done (whatever the figures), 1 failed, 2 usage."""
    arguments = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__)
    arguments.add_argument("--groups", type=int, default=100)
    arguments.add_argument("--records", type=int, default=1_300_000)
    arguments.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    arguments.add_argument("-B", "--bootstrap-servers", help=argparse.SUPPRESS)
    arguments.add_argument("--prefix", help=argparse.SUPPRESS)
    arguments.add_argument("--result", type=Path, help="file for the whole report as JSON")
    arguments.add_argument("--output", choices=("text", "json"), default="text")
    return command_line.run(arguments.parse_args(argv), _body)


if __name__ == "__main__":
    command_line.exit_with(main)
