"""Running ``connect-share`` in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from connect_share.cli.__main__ import main
from tests.lab.release_fixtures.program import Ran

__all__ = ["Call", "Ran", "console"]


Call = Callable[..., Ran]
"""The fixture ``call``."""


def console(capsys: pytest.CaptureFixture[str], *first: str, secret: str | None = None) -> Call:
    """Return a function that runs a command line and checks that no control characters come out, nor a secret."""

    def call(*words: str | Path) -> Ran:
        capsys.readouterr()
        code = main([*first, *map(str, words)])
        captured = capsys.readouterr()
        assert all(line.isprintable() for line in (captured.out + captured.err).replace("\t", " ").split("\n"))
        assert secret is None or secret not in captured.out + captured.err
        return Ran(code, captured.out, captured.err)

    return call
