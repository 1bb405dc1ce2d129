"""Times starts of the three Python stores in this process; run in a new process for a cold one.

usage: python -m spark_jobs.startup_probe WORKER_FILE RUNS
"""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path

from connect_share.client import library_versions
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig


def start_once(worker: WorkerConfig) -> dict[str, float | int]:
    """Start and stop the stores once; seconds until all three were ready, each, and the records they read."""
    began = time.perf_counter()
    with ConnectStorage(worker, allow_live_members=True) as storage:
        total_s = time.perf_counter() - began
        startup = storage.startup
        return {
            "total_s": total_s,
            "config_s": startup.config.seconds,
            "status_s": startup.status.seconds,
            "offsets_s": startup.offsets.seconds,
            "own_records": sum(store.own_records for store in (startup.config, startup.status, startup.offsets)),
            "foreign_records": sum(
                store.foreign_records for store in (startup.config, startup.status, startup.offsets)
            ),
            "connectors": len(storage.config.snapshot().connectors()),
        }


def main(argv: list[str]) -> int:
    """Print one JSON line a start; run 0 is the first of this process."""
    worker = WorkerConfig.from_file(Path(argv[0]))
    library_versions()
    for run in range(int(argv[1])):
        gc.collect()
        print(json.dumps({"run": run, **start_once(worker)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
