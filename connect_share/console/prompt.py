"""The question before anything is changed.

What a command would do, shown before it writes, and the question whether it may.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from connect_share.console.output import Output
from connect_share.errors import ConnectShareError


def _print(text: str) -> None:
    print(text, file=sys.stderr)


def confirmed(question: str, *, otherwise: str, note: Callable[[str], None] = _print) -> bool:
    """Ask on a terminal; only ``y`` and ``yes`` mean yes. Any other answer is followed by a note that nothing was done.

    ``otherwise`` is the note where there is no terminal to ask on, for example in a pipeline; the answer is no then.
    """
    if not sys.stdin.isatty():
        note(otherwise)
        return False
    print(f"\n{question} [yes/no] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):  # Ctrl-D leaves the cursor behind the question
        print(file=sys.stderr)
    if answer.strip().lower() in ("y", "yes"):
        return True
    note("nothing was done")
    return False


NEEDS_YES: Final = "nothing was written: give --yes to go on without a prompt"


def show_preview(
    arguments: argparse.Namespace,
    output: Output,
    lines: Sequence[str],
    members: Mapping[str, object],
    question: str,
    *,
    refusal: ConnectShareError | None = None,
) -> int | None:
    """Show what a command would do and ask, unless ``--yes`` was given.

    Args:
        arguments: with ``dry_run`` and ``yes``.
        output: of the command; what is shown before a question goes to stderr.
        lines: the preview as text.
        members: the preview as JSON.
        question: without the choice.
        refusal: raised instead of asking.

    Returns:
        The exit code of a command that ends here; ``None``: it is to be carried out.
    """
    if arguments.dry_run and output.is_json:
        output.json({"dry_run": True, **members})
        return 0
    (output if arguments.dry_run else Output(output.command, stdout=sys.stderr)).lines(*lines)
    if arguments.dry_run:
        return 0
    if refusal is not None:
        raise refusal
    return None if arguments.yes or confirmed(question, otherwise=NEEDS_YES) else 1
