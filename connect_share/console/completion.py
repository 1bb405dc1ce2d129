"""``--print-completion``: what a shell needs to complete commands and options, by the library shtab."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from connect_share.errors import ConfigError

_SHELLS = ("bash", "zsh", "tcsh")


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Add ``--print-completion`` to a parser that has all commands."""
    parser.add_argument(
        "--print-completion",
        metavar="SHELL",
        action=_PrintCompletion,
        choices=_SHELLS,
        help=f"show the completion script of a shell and exit: {', '.join(_SHELLS)}",
    )


class _PrintCompletion(argparse.Action):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,  # noqa: ARG002 - the signature of argparse
        values: str | Sequence[Any] | None,
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        try:
            import shtab
        except ImportError:
            raise ConfigError("completion needs the library shtab: pip install 'connect-share[completion]'") from None
        for action in _actions(parser):
            if action.metavar in ("FILE", "DIR"):
                action.complete = shtab.FILE if action.metavar == "FILE" else shtab.DIRECTORY  # type: ignore[attr-defined]
        print(shtab.complete(parser, shell=str(values)))
        parser.exit()


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no public name for it
        yield action
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for inner in dict.fromkeys(action.choices.values()):
                yield from _actions(inner)
