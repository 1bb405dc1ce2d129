"""The question before anything is changed."""

from __future__ import annotations

import sys
from collections.abc import Callable


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
