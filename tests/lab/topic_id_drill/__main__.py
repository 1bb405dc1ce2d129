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
import subprocess
import sys
import time
from collections.abc import Sequence

from connect_share.errors import ConnectShareError
from connect_share.jar.cache import run_folder
from tests.lab.topic_id_drill.kraft import drill_kraft
from tests.lab.topic_id_drill.traffic import log
from tests.lab.topic_id_drill.zookeeper import drill_zookeeper


def main(argv: Sequence[str] | None = None) -> int:
    """Run the drill; return the exit code."""
    parser = argparse.ArgumentParser(prog="make drill-topic-ids", description=__doc__)
    parser.add_argument("--only", choices=("zookeeper", "kraft"), help="one half of it")
    only = parser.parse_args(argv).only
    logging.basicConfig(level=logging.ERROR)  # dropped connections are part of the drill
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began_s = time.monotonic()
    folder = run_folder("drill")
    try:
        if only != "kraft":
            drill_zookeeper()
        if only != "zookeeper":
            drill_kraft(folder)
    except KeyboardInterrupt:
        log("interrupted; everything is stopped and removed")
        return 1
    except (ConnectShareError, subprocess.SubprocessError, OSError) as exc:
        log(f"FAILED: {exc}")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    log(f"done in {time.monotonic() - began_s:.0f} s: nothing was lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
