"""Any Singer tap as a source: its records as JSON, and its states as offsets.

A tap is a program that writes records and states to its standard output. Each of its states is stored with the records before
it, so that the next run of the tap goes on there. Which program runs is said here, and never in a topic.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from connect_share.tasks import SourceRecord, SourceTask

_LONGEST_LINE = 1 << 24


class SingerTap(SourceTask):
    """Runs ``command`` again and again, ``poll.interval.s`` after it has ended; properties ``tap.*`` configure it."""

    command: ClassVar[tuple[str, ...]]

    async def start(self, config: Mapping[str, str]) -> None:
        self._topic, self._interval_s = config["topic"], float(config.get("poll.interval.s", "60"))
        self._partition = {"tap": self.command[0]}
        stored = await asyncio.to_thread(self.context.offset, self._partition)
        self._state: str | None = None if stored is None else stored["state"]
        self._folder = TemporaryDirectory()  # for its owner only: the configuration may have secrets
        own = {name.removeprefix("tap."): value for name, value in config.items() if name.startswith("tap.")}
        self._write("config.json", json.dumps(own))
        self._process: asyncio.subprocess.Process | None = None

    async def poll(self) -> list[SourceRecord]:
        """Return the records up to the next state: only with it the tap can go on behind them."""
        process = self._process = self._process or await self._run()
        lines = process.stdout or asyncio.StreamReader()
        found: list[dict[str, Any]] = []
        while line := await lines.readline():
            message = json.loads(line)
            if message["type"] == "RECORD":
                found.append(message)
            elif message["type"] == "STATE":
                self._state = json.dumps(message["value"])
                break
        else:
            code = await process.wait()
            self._process = None  # not earlier: stopping ends a tap that is waited for
            if code:
                raise RuntimeError(f"the tap ended with {code}; its own log says why")
            if not found:
                await asyncio.sleep(self._interval_s)
        return [
            SourceRecord(
                self._partition,
                {"state": self._state},
                self._topic,
                json.dumps(each["record"]).encode(),
                each["stream"].encode(),
            )
            for each in found
        ]

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        self._folder.cleanup()

    async def _run(self) -> asyncio.subprocess.Process:
        command = [*self.command, "--config", str(Path(self._folder.name) / "config.json")]
        if self._state is not None:
            command += ["--state", self._write("state.json", self._state)]
        return await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, limit=_LONGEST_LINE)

    def _write(self, name: str, text: str) -> str:
        path = Path(self._folder.name) / name
        path.write_text(text)
        return str(path)
