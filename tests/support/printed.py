"""The commands of docs/remedies.md, and a way to run them as they were printed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from connect_share.cli.__main__ import main as console
from migrator.cli.__main__ import main as migrate
from tests.lab.embedded.artifacts import ensure_artifacts
from tests.lab.embedded.broker import DEFAULT_VERSION
from tests.lab.embedded.jvm import QUICK, java_arguments, write_log_settings
from tests.lab.house.printed import ROOT
from tests.support.console import Ran

PAGE = ROOT / "docs" / "remedies.md"
_FILLED = re.compile(r"(?:(?: |(?<==))…)+|\b(?:User:)?[A-Z][A-Z_]+\b")


class Row(NamedTuple):
    """A command of the page and the tests that run it, by file and name."""

    command: str
    tests: tuple[str, ...]

    @property
    def literal(self) -> int:
        """How much of it says what it is."""
        return len("".join(_FILLED.sub("", self.command).split()))

    def matches(self, words: Sequence[str]) -> bool:
        """Whether a printed command is this one."""
        parts = [re.escape(each) if each else "" for each in _FILLED.split(self.command)]
        return re.fullmatch(".*".join(parts), " ".join(words), re.DOTALL) is not None


@cache
def rows() -> tuple[Row, ...]:
    """The table of the page."""
    lines = re.findall(r"^\| `([^`]+)` \|.*\| (`[^|]+`) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    return tuple(Row(command, tuple(re.findall(r"`([^`]+)`", tests))) for command, tests in lines)


TOOLS = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
}


class Printed:
    """Runs printed commands as they stand, and notes which of the page these are."""

    def __init__(self, here: set[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._here, self._folder, self._capsys = here, folder, capsys
        self._ran: set[str] = set()

    def __call__(self, text: str, *more: str | Path, **places: str | Path | Sequence[str | Path]) -> Ran:
        """Run a command; ``more`` answers its question, ``places`` are what words in capitals stand for."""
        words = in_bash(text)
        known = [row for row in rows() if row.matches(words)]
        known = [row for row in known if row.literal == max(each.literal for each in known)]
        assert known, f"docs/remedies.md has no {text}"
        self._ran |= {row.command for row in known}
        words = [*(str(places.get(word, word)) for word in words), *map(str, more)]
        if words[0] in TOOLS:
            return run_tool(words[0], words[1:], self._folder)
        self._capsys.readouterr()
        code = {"connect-share": console, "connect-share-migrate": migrate}[words[0]](words[1:])
        return Ran(code, *self._capsys.readouterr())

    def require_all(self) -> None:
        """Every command that the page gives to this test was run."""
        wanted = {row.command for row in rows() if self._here & {*row.tests}}
        assert wanted <= self._ran, f"not run: {wanted - self._ran}"


def in_bash(text: str) -> list[str]:
    """The words of a command line, parted by a shell."""
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {text}"], capture_output=True, check=True)
    return done.stdout.decode().split("\0")[:-1]


def run_tool(tool: str, words: Sequence[str], folder: Path) -> Ran:
    """Run one of Kafka's own tools."""
    libraries = ensure_artifacts(f"kafka-{DEFAULT_VERSION}")
    logs = write_log_settings(folder, "warn")
    command = java_arguments(libraries, TOOLS[tool], list(words), options=QUICK, log_settings=logs)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)
