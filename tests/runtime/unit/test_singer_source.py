"""A tap of Singer's own SDK as a source with exactly-once, over topics in memory."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

from connect_share import MemoryConnectStorage, MemoryKafka, State, WorkerConfig
from connect_share.runtime import SoleMember
from connect_share.tasks import TaskRunner
from tests.support.runtime_workers import EXAMPLES
from tests.support.waiting import await_that
from tests.support.worker_files import WORKER

pytest.importorskip("singer_sdk", reason="of the extra dev")

TAP = """
import atexit, os, signal, sys
from pathlib import Path
from singer_sdk import Stream, Tap, typing as th

class Lines(Stream):
    name, primary_keys, replication_key, is_sorted = "lines", ("number",), "number", True
    schema = th.PropertiesList(th.Property("number", th.IntegerType), th.Property("text", th.StringType)).to_dict()

    def get_records(self, context):
        Path(self.config["file"] + ".pid").write_text(str(os.getpid()))
        first = self.get_starting_replication_key_value(context) or 0
        for number, text in enumerate(Path(self.config["file"]).read_text().splitlines(), 1):
            if number > first:
                yield {"number": number, "text": text}

class LinesTap(Tap):
    name = "lines-tap"
    config_jsonschema = th.PropertiesList(th.Property("file", th.StringType, required=True)).to_dict()

    def discover_streams(self):
        return [Lines(self)]

atexit.register(lambda: (sys.stdout.flush(), os.close(1), signal.pause()))  # it does not end by itself
LinesTap.cli()
"""


def test_each_run_of_a_tap_goes_on_behind_its_last_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    lines_tap = type("LinesTap", (import_module("runtime.singer").SingerTap,), {"command": (sys.executable, "-c", TAP)})
    kafka, file = MemoryKafka(), tmp_path / "lines.txt"
    worker = WorkerConfig.from_properties({**WORKER, "exactly.once.source.support": "enabled"})
    given = {"connector.class": "Lines", "topic": "lines", "tap.file": str(file), "poll.interval.s": "0.1"}
    texts = [f"line {number}" for number in range(1, 9)]

    def found() -> list[str]:
        return [json.loads(record.value or b"")["text"] for record in kafka.records("lines")]

    async def run(count: int) -> None:
        file.write_text("".join(f"{text}\n" for text in texts[:count]))
        storage, url = partial(MemoryConnectStorage, kafka=kafka), "http://here:8083/"
        async with TaskRunner(
            worker, {"Lines": lines_tap}, worker_url=url, storage=storage, member=SoleMember
        ) as runner:
            config = runner.storage.config
            await asyncio.to_thread(config.claim_write_privileges)
            await asyncio.to_thread(config.put_connector_config, "lines", given)
            await asyncio.to_thread(await_that, found, lambda seen: seen == texts[:count], what="read")
            (status,) = runner.storage.status.snapshot().task_statuses("lines")
            assert status.state is State.RUNNING, status.trace

    for count in (5, 8):
        asyncio.run(run(count))
        with pytest.raises(ProcessLookupError):
            os.kill(int(file.with_suffix(".txt.pid").read_text()), 0)
    assert found() == texts
