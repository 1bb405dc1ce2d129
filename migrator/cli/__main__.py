"""Entry point of ``connect-share-migrate``."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Final

from connect_share.console import Output, run_program
from connect_share.errors import ConnectShareError
from migrator.cli.apply import apply_command, resume_command
from migrator.cli.arguments import build_parser
from migrator.cli.cutover import cutover_command, rollback_command
from migrator.cli.plan import plan_command
from migrator.cli.restore import restore_command
from migrator.cli.seal import seal_command, unseal_command
from migrator.cli.survey import survey_command
from migrator.cli.verify import verify_command
from migrator.facts.manifest import Manifest, MigrationStatus, manifest_path

_COMMANDS: Final[dict[str, Callable[..., int]]] = {
    "survey": survey_command,
    "plan": plan_command,
    "apply": apply_command,
    "resume": resume_command,
    "cutover": cutover_command,
    "rollback": rollback_command,
    "seal": seal_command,
    "unseal": unseal_command,
    "restore": restore_command,
    "verify": verify_command,
}
_READ_ONLY: Final = ("survey", "plan", "verify")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code, see ``--help``."""
    return run_program(
        build_parser(),
        argv,
        _run,
        command=lambda arguments: str(arguments.command),
        after_interruption=_after_interruption,
    )


def _run(arguments: argparse.Namespace, _: Output) -> int:
    return _COMMANDS[arguments.command](arguments)


def _after_interruption(arguments: argparse.Namespace) -> str:
    if arguments.command in _READ_ONLY or getattr(arguments, "dry_run", False):
        return "nothing was written to Kafka; the same command begins again"
    if arguments.command == "restore":
        return "what was restored so far stays; the same command continues"
    command = f"connect-share-migrate {arguments.command} {shlex.quote(str(arguments.plan))}"
    if arguments.command not in ("apply", "resume"):
        return f"what was done so far stays; {command} continues"
    try:
        path = manifest_path(arguments.plan)
        status = Manifest.load(path).status if path.exists() else None
    except ConnectShareError:
        status = MigrationStatus.PLANNED
    if status is None:
        return f"nothing was copied; {command} begins again"
    verb = "resume" if status is MigrationStatus.PLANNED else "verify"
    return f"what was copied so far stays; next: connect-share-migrate {verb} {shlex.quote(str(arguments.plan))}"


if __name__ == "__main__":
    sys.exit(main())
