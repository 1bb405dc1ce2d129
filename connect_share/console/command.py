"""How a command of either program is declared, and what it gives back; :mod:`connect_share.console.program` runs it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from connect_share.console.options import HelpFormatter, Parser, add_output
from connect_share.console.output import Output, Result
from connect_share.errors import ConnectShareError

NOTHING_CHANGED: Final = "nothing was changed; run the same command again"
STAYS: Final = "what was done by then stays; run the same command again to continue"


@dataclass(frozen=True)
class Preview:
    """What a command would do. Only if it may does it go on behind the ``yield`` of its preview.

    Attributes:
        lines: for people; on stderr before a question.
        members: of the JSON object of ``--dry-run``.
        question: without the choice.
        refusal: raised instead of asking.
    """

    lines: Sequence[str]
    members: Mapping[str, Any] = field(repr=False)
    question: str
    refusal: ConnectShareError | None = None


Steps = Generator[Preview | Result, None, None]
"""What a command yields that shows what it would do before it does it: a preview, then a result."""


@dataclass(frozen=True)
class Command:
    """One command of a program.

    Attributes:
        name: as it is typed, such as ``get groups``.
        run: returns or yields what is to be printed, or prints itself and returns the exit code.
        text: one line for the list of the nouns of a verb; that of a verb without nouns is in the program's list of verbs.
        about: the description in its ``--help``.
        examples: command lines.
        options: adds the options that only this command has.
        changes: help of ``--dry-run``, for a command that writes: it has ``--yes``, too.
        last: adds options that stand behind those that all commands have.
        timeout_s: the default of ``--timeout``.
        forms: of the result.
        asks_cluster: it takes ``--profile``.
        after_interruption: says after Ctrl-C what was done and how to continue.
    """

    name: str
    run: Callable[[argparse.Namespace, Output], Result | Steps | int]
    text: str = ""
    about: str | None = None
    examples: Sequence[str] = ()
    options: Callable[[Parser], object] | None = None
    changes: str | None = None
    last: Callable[[Parser], object] | None = None
    timeout_s: float | None = None
    forms: Sequence[str] = ("text", "json")
    asks_cluster: bool = True
    after_interruption: Callable[[argparse.Namespace], str] | None = None

    def declare(self, parser: Parser) -> None:
        """Give a parser what this command says of itself."""
        parser.description = self.about
        parser.formatter_class = HelpFormatter
        parser.epilog = "\n".join(("examples:", *(f"  {line}" for line in self.examples)))
        if self.options is not None:
            self.options(parser)
        if self.changes is not None:
            parser.add_argument("--yes", action="store_true", help="do not ask")
            parser.add_argument("--dry-run", action="store_true", help=self.changes)
        add_output(parser, self.timeout_s, self.forms, asks_cluster=self.asks_cluster)
        if self.last is not None:
            self.last(parser)
        parser.set_defaults(command=self, parser=parser)

    def interrupted(self, arguments: argparse.Namespace) -> str:
        """Say after Ctrl-C what was done and how to continue."""
        if self.after_interruption is not None:
            return self.after_interruption(arguments)
        return NOTHING_CHANGED if self.changes is None or arguments.dry_run else STAYS


class Verb(NamedTuple):
    """A verb of a program: its line in ``--help``, and the modules with the ``COMMANDS`` that begin with it.

    They are named as texts: only what a command line needs is imported, for all together would take as long as reading the
    topics of a small cluster.
    """

    text: str
    modules: Sequence[str]
    has_nouns: bool = True
