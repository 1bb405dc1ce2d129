"""The commands of the drill, as a user types them: each is a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from connect_share.files import cache_folder
from connect_share.topic_ids.scan import scanner
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.topic_id_drill.traffic import log

_COMMAND_S: Final = 600
_FOLDERS: Final = str(cache_folder())


class Commands:
    """The commands for some brokers.

    Args:
        settings: ``server.properties`` of each broker.
        folder: for scans and backups.
        authority: options that name ZooKeeper or the brokers.
    """

    def __init__(self, settings: Mapping[int, Path], folder: Path, authority: Sequence[str]) -> None:
        self.settings = settings
        self.folder = folder
        self.authority = list(authority)

    def scans(self) -> list[str]:
        """Run the scanner for each broker, as on its machine; return the options for its output."""
        # A scan counts only if it is newer than the znodes, and its clock has seconds.
        time.sleep(1.0 - time.time() % 1.0)
        words = []
        for broker, settings in self.settings.items():
            path = self.folder / f"broker-{broker}.scan"
            with path.open("w") as file:
                program = [sys.executable, "-I", str(scanner.__file__), "--quiet", "--server-properties"]
                subprocess.run([*program, str(settings)], stdout=file, check=True, timeout=_COMMAND_S)
            words += ["--scan", str(path)]
        return words

    def check(self, expected: Mapping[str, int]) -> None:
        """Run ``check topic-ids``; raise ``EmbeddedError`` if it finds other kinds, or another number of each.

        Directories that wait for their deletion are not counted: that takes the brokers a minute.
        """
        done = succeed(["check", "topic-ids", *self.scans(), *self.authority, "--output", "json"], codes=(0, 1))
        found = json.loads(done.stdout)
        kinds = Counter(one["kind"] for one in found["findings"])
        shown = ", ".join(f"{count} x {kind}" for kind, count in sorted(kinds.items()))
        log(f"   check topic-ids: {shown or 'no finding'} (exit {done.returncode})")
        for topic in found["topics"]:
            log(f"     {topic['topic']}: {topic['cause']}; data path {topic['data_path']}")
        kinds.pop("delete-directory", None)
        if kinds != expected:
            raise EmbeddedError(f"check topic-ids should have found {expected or 'nothing'}")

    def plan(self) -> dict[str, Any]:
        """Run ``repair topic-ids --dry-run``; return the printed plan."""
        words = ["repair", "topic-ids", *self.scans(), *self.authority, "--dry-run", "--output", "json"]
        plan = json.loads(succeed(words, codes=(0, 1)).stdout)
        for one in plan["topics"]:
            log(f"   planned: {one['topic']}: {one['method']}, id {one['topic_id']}")
        for one in plan["refused"]:
            log(f"   refused: {one['topic']}: {one['reason']}")
        return dict(plan)

    def step(self, step: str, broker: int, *more: str) -> list[str]:
        """Return the words for one step on one broker; its backup is named after it."""
        how = ["--server-properties", str(self.settings[broker]), "--backup", str(self.folder / f"files-{broker}")]
        return ["repair", "topic-ids", "--step", step, *how, *more, *self.authority, "--yes"]


def run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command of ``connect-share`` to its end."""
    command = [sys.executable, "-m", "connect_share.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_S, check=False)


def succeed(words: Sequence[str], *, codes: Sequence[int] = (0,)) -> subprocess.CompletedProcess[str]:
    """Run a command; raise ``EmbeddedError`` if it ends with another code."""
    done = run(words)
    if done.returncode not in codes:
        raise EmbeddedError(f"{' '.join(words[:4])} ended with {done.returncode}: {done.stderr[-1500:]}")
    return done


def run_and_log(words: Sequence[str]) -> None:
    """Run a command that has to succeed, and show its output without the paths of files, which are long here."""
    done = succeed(words)
    for line in [*done.stderr.splitlines(), *done.stdout.splitlines()]:
        text = line.removeprefix("connect-share: ")
        if text.startswith(("broker ", "to be written: ")) or (text != line and not text.startswith(_FOLDERS)):
            log(f"   {text}")


def expect_refusal(words: Sequence[str], reason: str) -> None:
    """Run a command; raise ``EmbeddedError`` if it does not refuse for this reason."""
    done = run(words)
    if done.returncode != 1 or reason not in done.stderr:
        raise EmbeddedError(
            f"{' '.join(words[:4])} should have refused ({reason}), and ended with {done.returncode}: "
            f"{(done.stderr + done.stdout)[-1500:]}"
        )
    line = next(line for line in done.stderr.splitlines() if reason in line)
    log(f"   refused: {line.removeprefix('connect-share: ').removeprefix('error: ')}")
