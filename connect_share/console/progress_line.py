"""Progress on stderr: a bar on a terminal, JSON lines otherwise."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Final, TextIO

_BAR_WIDTH: Final = 24
_BAR_EVERY_S: Final = 0.1
_LINE_EVERY_S: Final = 2.0


@dataclass
class ProgressLine(AbstractContextManager["ProgressLine"]):
    """The progress of phases with rate and time left. A context manager: its end closes the last phase."""

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    _what: str = ""
    _total: int = 0
    _done: int = 0
    _started_s: float = 0.0
    _shown_s: float = 0.0
    _follows: bool = False

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._what and kind is None:
            self._show(ended=True)
        elif (self._what or self._follows) and self.stream.isatty():
            self._print("\n")  # an error leaves the bar where it was

    def phase(self, what: str, total: int) -> None:
        """Begin a phase of ``total`` offsets; fewer records may come."""
        if self._what:
            self._show(ended=True)
        self._what, self._total, self._done = what, total, 0
        self._started_s = self._shown_s = time.monotonic()
        self._show(ended=False)

    def advance(self, records: int) -> None:
        """Report further records."""
        self._done += records
        if self._is_due():
            self._show(ended=False)

    def follow(self, text: str, members: Mapping[str, object]) -> None:
        """Show where a step without an end is: the text on a terminal, else the members."""
        if self._what:
            self._show(ended=True)
        if self._is_due() or not self._follows:
            self._print(f"\r\x1b[K{text}" if self.stream.isatty() else f"{json.dumps(members)}\n")
        self._what, self._follows = "", True

    def _is_due(self) -> bool:
        now_s = time.monotonic()
        is_due = now_s - self._shown_s >= (_BAR_EVERY_S if self.stream.isatty() else _LINE_EVERY_S)
        self._shown_s = now_s if is_due else self._shown_s
        return is_due

    def _show(self, *, ended: bool) -> None:
        elapsed_s = max(time.monotonic() - self._started_s, 1e-6)
        rate = self._done / elapsed_s
        if not self.stream.isatty():
            line = {
                "phase": self._what,
                "records": self._done,
                "of_at_most": self._total,
                "elapsed_s": round(elapsed_s, 3),
                "ended": ended,
            }
            self._print(f"{json.dumps(line)}\n")
            return
        end = "\n" if ended else ""
        if not self._total:
            self._print(f"\r\x1b[K{self._what}{end}")
            return
        share = 1.0 if ended else min(self._done / self._total, 1.0)
        filled = round(share * _BAR_WIDTH)
        left = "" if ended or not rate else f", {max(self._total - self._done, 0) / rate:.0f} s left"
        bar = f"[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {self._done:,} records, {rate:,.0f}/s{left}"
        self._print(f"\r\x1b[K{self._what} {bar}{end}")

    def _print(self, text: str) -> None:
        with suppress(OSError):  # a closed stderr must not end the work
            print(text, end="", file=self.stream, flush=True)
