"""The question before anything is changed."""

from __future__ import annotations

import sys
from collections.abc import Callable


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def confirmed(question: str, *, otherwise: str, say: Callable[[str], None] = _say) -> bool:
    """Ask on a terminal; only ``y`` and ``yes`` mean yes, and after anything else it is said that nothing was done.

    Args:
        question: without the choice.
        otherwise: what is said where there is no terminal to ask on, for example in a pipeline; the answer is no then.
        say: says it, on stderr.
    """
    if not sys.stdin.isatty():
        say(otherwise)
        return False
    print(f"\n{question} [yes/no] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):  # Ctrl-D leaves the cursor behind the question
        print(file=sys.stderr)
    if answer.strip().lower() in ("y", "yes"):
        return True
    say("nothing was done")
    return False
