"""Running ``connect-share`` in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from connect_share.cli.__main__ import main


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Ran]
"""The fixture ``call``."""


def console(capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs a command line and checks that no control characters come out."""

    def call(*words: str | Path) -> Ran:
        capsys.readouterr()
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        assert all(line.isprintable() for line in (captured.out + captured.err).replace("\t", " ").split("\n"))
        return Ran(code, captured.out, captured.err)

    return call
