"""A writer killed at any moment loses nothing that was acknowledged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from tests.support.long_forms import LONG
from tests.support.worker_files import SHARING

# It ends by the kill alone. Acknowledgements are printed only after the put has returned; the pipe survives the process.
WRITER = """
import itertools, json, os, sys
from connect_share import ConnectorStatus, State
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig

def acknowledged(kind, number):
    os.write(1, f"{kind} {number}\\n".encode())

with ConnectStorage(WorkerConfig.from_properties(json.loads(sys.argv[1]))) as storage:
    writer = storage.offset_writer("foo")
    for number in itertools.count():
        storage.config.put_connector_config(f"c{number}", {"number": str(number)})
        acknowledged("config", number)
        writer.offset({"n": number}, {"position": number})
        if writer.begin_flush(30):
            writer.do_flush().result(30)
            acknowledged("offset", number)
        storage.status.put(ConnectorStatus(f"c{number}", State.RUNNING, "w:1", 1))
        storage.status.flush()
        acknowledged("status", number)
"""


@pytest.mark.parametrize("kill_after", [400, *([7, 2_995] if LONG else [])])
def test_acknowledged_puts_survive_kill_9(shared: Any, kill_after: Any) -> None:
    properties = shared.properties() | SHARING
    process = subprocess.Popen([sys.executable, "-c", WRITER, json.dumps(properties)], stdout=subprocess.PIPE)
    output = process.stdout
    assert output is not None
    try:
        lines: list[bytes] = []
        while len(lines) < kill_after and (line := output.readline()):
            lines.append(line)
        os.kill(process.pid, signal.SIGKILL)
        lines += output.readlines()
    finally:
        process.kill()
        process.wait(30)
        output.close()
    assert process.returncode == -signal.SIGKILL
    assert len(lines) >= kill_after
    acknowledged = [(kind, int(number)) for kind, number in (line.decode().split() for line in lines)]
    with ConnectStorage(WorkerConfig.from_properties(properties)) as storage:
        state = storage.config.snapshot()
        offsets = storage.offsets.snapshot()
        for kind, number in acknowledged:
            if kind == "config":
                assert state.connector_config(f"c{number}") == {"number": str(number)}
            elif kind == "offset":
                assert offsets.offset("foo", {"n": number}) == {"position": number}
            else:
                assert storage.status.get(f"c{number}") is not None
        storage.config.put_connector_config("after", {})
