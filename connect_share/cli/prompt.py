"""The question before anything is changed."""

from __future__ import annotations

import sys
from collections.abc import Callable


def _tell(text: str) -> None:
    print(text, file=sys.stderr)


def confirmed(question: str, *, otherwise: str, tell: Callable[[str], None] = _tell) -> bool:
    """Ask on a terminal; only ``yes`` means yes.

    Args:
        question: without the choice.
        otherwise: what is said where nobody can be asked, for example in a pipeline; the answer is no then.
        tell: says it, on stderr.
    """
    if not sys.stdin.isatty():
        tell(otherwise)
        return False
    print(f"\n{question} [yes/no] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() == "yes"
