"""What a command would do, shown before it writes, and the question whether it may."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from connect_share.console.output import Output
from connect_share.console.prompt import confirmed
from connect_share.errors import ConnectShareError

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
