"""Entry point of ``connect-share-migrate``: its commands, and where they are."""

from __future__ import annotations

import logging
import sys
from typing import Final

from connect_share.console.program import Program, Verb

_EXAMPLES: Final = """\
examples:
  connect-share-migrate survey -w orders.properties billing.properties
  connect-share-migrate survey -w orders.properties --to-worker-config orders-shared.properties
  connect-share-migrate plan -w orders.properties --to-worker-config orders-shared.properties -o move.json
  connect-share-migrate apply move.json          # resume move.json goes on after a kill
  connect-share-migrate verify move.json --output json
  connect-share-migrate cutover move.json        # then start the new workers
  connect-share-migrate rollback move.json --dry-run

Worker files say the direction: sharing enabled means keys with the group's prefix,
disabled means plain keys.
"""


def _verb(text: str, module: str) -> Verb:
    return Verb(text, [f"migrator.cli.{module}"])


PROGRAM: Final = Program(
    "connect-share-migrate",
    "Move the state of Kafka Connect clusters between dedicated and shared internal topics.",
    _EXAMPLES,
    {
        "survey": _verb("facts before a plan: topics, groups, what a move would meet", "plan"),
        "plan": _verb("check and write down what is to be done; writes nothing to Kafka", "plan"),
        "apply": _verb("carry out a plan", "apply"),
        "resume": _verb("continue an apply that was interrupted", "apply"),
        "cutover": _verb("copy what is left, verify, fence and seal the old side", "cutover"),
        "rollback": _verb("remove what a plan has written", "cutover"),
        "verify": _verb("compare the state on both sides; exit 1 on a difference", "cutover"),
        "seal": _verb("seal the old side only, for example after a forgotten cutover", "cutover"),
        "unseal": _verb("put the target states back at the old side; the copies stay", "cutover"),
        "restore": _verb("put back what a backup or export holds, whole or by connector", "reseal"),
        "reseal": _verb("seal all values of a stopped group with its first key", "reseal"),
    },
    metavar="COMMAND",
    loggers=["connect_share", "migrator"],
    level=logging.WARNING,
)


build_parser: Final = PROGRAM.parser
"""Makes the parser of all command lines, for the manual."""
main: Final = PROGRAM.main


if __name__ == "__main__":
    sys.exit(main())
