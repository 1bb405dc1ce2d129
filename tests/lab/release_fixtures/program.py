"""The two programs, run in this process, and the shape of the JSON that they print."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PROGRAMS: Final = {"connect-share": "connect_share", "connect-share-migrate": "migrator"}


@dataclass(frozen=True)
class Ran:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The JSON on stdout; of several lines a list."""
        try:
            return json.loads(self.out)
        except json.JSONDecodeError:
            return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> Any:
        """The JSON of the error on stderr, if there is one."""
        _, brace, rest = f"\n{self.err}".partition("\n{\n")
        return json.loads(brace + rest) if brace else None


def run(program: str, *words: str | Path) -> Ran:
    """Run a command line."""
    main = importlib.import_module(f"{PROGRAMS[program]}.__main__").main
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])
    return Ran(code, out.getvalue(), err.getvalue())


def done(program: str, *words: str | Path) -> Ran:
    """Run a command line that has to succeed."""
    ran = run(program, *words)
    if ran.code:
        raise RuntimeError(f"{program} {' '.join(map(str, words))} ended with {ran.code}: {ran.err}")
    return ran


def shape_of(value: Any, names: dict[str, str], path: str = "") -> dict[str, set[str]]:
    """Return by path which types of JSON stand there.

    Args:
        value: plain JSON.
        names: that were made up for this run, with what stands for them in paths.
        path: of the value.
    """
    shape = {path or ".": {_TYPES.get(type(value), type(value).__name__)}}
    items: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        items = [(f"{path}.{_neutral(name, names)}", each) for name, each in value.items()]
    elif isinstance(value, list):
        items = [(f"{path}[]", each) for each in value]
    for inner, each in items:
        for place, types in shape_of(each, names, inner).items():
            shape.setdefault(place, set()).update(types)
    return shape


_TYPES: Final[dict[type, str]] = {int: "number", float: "number", type(None): "null"}


def _neutral(text: str, names: dict[str, str]) -> str:
    for name, neutral in names.items():
        text = text.replace(name, neutral)
    return text
