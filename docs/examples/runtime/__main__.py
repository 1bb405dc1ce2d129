"""One worker of a group: ``python -m runtime worker.properties --listen 127.0.0.1:8083``."""

from __future__ import annotations

import argparse
import logging
import signal
import sys

import uvicorn

from connect_share import ConnectShareError, WorkerConfig

from .herder import Herder
from .rest import application
from .worker import Worker

_MOST_AT_ONCE = 200  # connections; the next one is answered with 503


def main() -> int:
    """Run until a signal or an error ends it; return 1 after an error."""
    parser = argparse.ArgumentParser(prog="runtime", description="A worker of a small Connect-like runtime.")
    parser.add_argument("worker_config", help="properties of a Connect worker")
    parser.add_argument("--listen", default="127.0.0.1:8083", metavar="HOST:PORT", help="where REST is served")
    arguments = parser.parse_args()
    logging.basicConfig(level="WARNING", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        return _run(arguments.worker_config, arguments.listen)
    except ConnectShareError as error:
        print(f"the worker does not start: {error}", file=sys.stderr)
        return 1


def _run(worker_config: str, listen: str) -> int:
    host, _, port = listen.rpartition(":")
    failures: list[ConnectShareError] = []

    def on_failed(error: ConnectShareError) -> None:
        failures.append(error)
        server.should_exit = True

    worker = Worker(WorkerConfig.from_file(worker_config), f"http://{listen}/", on_failed)
    asked = application(Herder(worker))
    config = uvicorn.Config(
        asked, host=host, port=int(port), log_level="warning", lifespan="off", limit_concurrency=_MOST_AT_ONCE
    )
    server = uvicorn.Server(config)
    listener = config.bind_socket()  # which ends a worker whose address is taken before it is in the group
    worker.start()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # the server sends what ended it once more: the worker has to end in order
    try:
        server.run(sockets=[listener])
    finally:
        worker.stop()
    for failure in failures:
        print(f"the worker has failed: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
