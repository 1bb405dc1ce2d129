"""The drill: real brokers lose their topic ids, are diagnosed and repaired, and have lost nothing.

``make drill-topic-ids``. Three brokers of 3.9.2 with ZooKeeper, then three nodes of 4.3.1 with KRaft. A producer and a
consumer run all the time. The commands are those anyone would type. Exit code 0: every acknowledged record is there; 1:
one is not, or a step did not do what it should.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import signal
import time
from collections.abc import Sequence

from connect_share.files import run_folder
from spark_jobs import command_line
from tests.lab.topic_id_drill.kraft import drill_kraft
from tests.lab.topic_id_drill.traffic import log
from tests.lab.topic_id_drill.zookeeper import drill_zookeeper


def main(argv: Sequence[str]) -> int:
    """Run the drill; return the exit code."""
    parser = argparse.ArgumentParser(prog="make drill-topic-ids", description=__doc__)
    parser.add_argument("--only", choices=("zookeeper", "kraft"), help="one half of it")
    logging.basicConfig(level=logging.ERROR)  # dropped connections are part of the drill
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def body(options: argparse.Namespace) -> int:
        began_s, folder = time.monotonic(), run_folder("drill")
        try:
            if options.only != "kraft":
                drill_zookeeper()
            if options.only != "zookeeper":
                drill_kraft(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        log(f"done in {time.monotonic() - began_s:.0f} s: nothing was lost")
        return 0

    return command_line.run(parser.parse_args(argv), body)


if __name__ == "__main__":
    command_line.exit_with(main)
