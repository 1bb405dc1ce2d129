"""Entry point of ``connect-share-topic-ids``: the commands of this part alone; ``connect-share`` has them, too."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Final

from connect_share.console.program import Program, Verb

_COMMANDS: Final = ["connect_share.topic_ids.cli"]
PROGRAM: Final = Program(
    "connect-share-topic-ids",
    "Find topic ids that brokers, controllers and disks disagree about, and repair them.",
    """\
examples:
  connect-share-topic-ids check topic-ids --scan broker-1.scan --scan broker-2.scan --zookeeper zk:2181
""",
    {
        "check": Verb("compare the topic ids of disks and of the cluster's authority", _COMMANDS),
        "repair": Verb("write the ids that are right, with preview, backup and undo", _COMMANDS),
    },
    metavar="VERB",
    loggers=["connect_share"],
    level=logging.CRITICAL,  # the errors of a command say enough
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code, see ``--help``."""
    return PROGRAM.main(argv)


if __name__ == "__main__":
    sys.exit(main())
