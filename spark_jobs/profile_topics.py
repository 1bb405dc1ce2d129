"""Profile the internal topics: bytes and records by group and kind. Not there yet."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from spark_jobs import command_line


def main(argv: Sequence[str]) -> int:  # noqa: ARG001 - it has no options yet
    """Refuse: use ``connect-share get groups`` for counts until this exists."""
    print(
        "error: profile_topics is not available in this version; connect-share get groups shows what the topics hold",
        file=sys.stderr,
    )
    return 2


if __name__ == "__main__":
    command_line.exit_with(main)
