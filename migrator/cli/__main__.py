"""Entry point of ``connect-share-migrate``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from connect_share.cli.output import Output, printable, while_somebody_reads
from connect_share.errors import ConnectShareError
from migrator.cli import commands, cutting_over, restoring
from migrator.cli.arguments import build_parser
from migrator.cli.surveying import survey_command

_COMMANDS: Final[dict[str, Callable[..., int]]] = {
    "survey": survey_command,
    "plan": commands.plan_command,
    "apply": commands.apply_command,
    "resume": commands.resume_command,
    "cutover": cutting_over.cutover_command,
    "rollback": cutting_over.rollback_command,
    "restore": restoring.restore_command,
    "verify": commands.verify_command,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 ok, 1 failed or differences found, 2 wrong usage."""
    return while_somebody_reads(partial(_told, list(sys.argv[1:] if argv is None else argv)))


def _told(given: Sequence[str]) -> int:
    form = "text"
    try:
        arguments = build_parser().parse_args(given)
        form = arguments.output
        return _COMMANDS[arguments.command](arguments)
    except SystemExit as ended:  # argparse: --help and wrong usage
        return ended.code if isinstance(ended.code, int) else 2
    except ConnectShareError as error:
        if form == "json":
            return Output(given[0], form).error(error)
        print(f"connect-share-migrate: error: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("connect-share-migrate: interrupted", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
