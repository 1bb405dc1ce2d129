"""Entry point and grammar of ``connect-share-migrate``."""

from __future__ import annotations

import argparse
import importlib
import logging
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from connect_share.console import (
    EXIT_CODES,
    Output,
    Parser,
    add_completion,
    add_examples,
    add_output,
    add_version,
    logs_on_stderr,
    run_program,
    seconds,
)
from connect_share.errors import ConnectShareError
from connect_share.worker_config.profiles import profile_in_use
from connect_share.worker_config.worker import files_in_folders

_COMMANDS: Final = {
    "survey": "survey",
    "plan": "plan",
    "apply": "apply",
    "resume": "apply",
    "cutover": "cutover",
    "rollback": "cutover",
    "seal": "seal",
    "unseal": "seal",
    "verify": "verify",
    "reseal": "reseal",
}
"""Modules of ``migrator.cli`` by command: only that of the command is imported."""
_READ_ONLY: Final = ("survey", "plan", "verify")
_SURVEY_TIMEOUT_S: Final = 30.0
_EXAMPLES: Final = """examples:
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code, see ``--help``."""
    verb = next(iter(sys.argv[1:] if argv is None else argv), None)
    return run_program(
        build_parser(verb),
        argv,
        _run,
        command=lambda arguments: str(arguments.command),
        after_interruption=_after_interruption,
    )


def _run(arguments: argparse.Namespace, out: Output) -> int:
    level = logging.INFO if arguments.verbose else logging.WARNING
    with (
        logs_on_stderr("connect-share-migrate", ["connect_share", "migrator"], level),
        profile_in_use(arguments.profile),
    ):
        if arguments.command == "restore":
            return int(arguments.run(arguments, out))
        if "sources" in arguments:
            arguments.sources, arguments.destinations = files_in_folders(arguments.sources, arguments.destinations)
        module = importlib.import_module(f"migrator.cli.{_COMMANDS[arguments.command]}")
        run: Callable[[argparse.Namespace], int] = getattr(module, f"{arguments.command}_command")
        return run(arguments)


def _after_interruption(arguments: argparse.Namespace) -> str:
    if arguments.command in _READ_ONLY or getattr(arguments, "dry_run", False):
        return "nothing was written to Kafka; the same command begins again"
    if arguments.command == "restore":
        return "what was restored so far stays; the same command continues"
    if arguments.command == "reseal":
        return "what was written so far stays; the same command completes it"
    command = f"connect-share-migrate {arguments.command} {shlex.quote(str(arguments.plan))}"
    if arguments.command not in ("apply", "resume"):
        return f"what was done so far stays; {command} continues"
    from migrator.run import Manifest, MigrationStatus, manifest_path  # which takes longer than --help

    try:
        path = manifest_path(arguments.plan)
        status = Manifest.load(path).status if path.exists() else None
    except ConnectShareError:
        status = MigrationStatus.PLANNED
    if status is None:
        return f"nothing was copied; {command} begins again"
    verb = "resume" if status is MigrationStatus.PLANNED else "verify"
    return f"what was copied so far stays; next: connect-share-migrate {verb} {shlex.quote(str(arguments.plan))}"


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the whole command line; for a ``command`` of the migrator alone without ``restore``."""
    parser = Parser(
        prog="connect-share-migrate",
        description="Move the state of Kafka Connect clusters between dedicated and shared internal topics.",
        epilog=f"{_EXAMPLES}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_version(parser)
    add_completion(parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    survey = commands.add_parser("survey", help="facts before a plan: topics, groups, what a move would meet")
    _add_files(survey, destination_required=False)
    _add_output(survey, timeout_s=_SURVEY_TIMEOUT_S)
    add_examples(
        survey,
        "connect-share-migrate survey -w orders.properties billing.properties",
        "connect-share-migrate survey -w orders.properties --to-worker-config orders-shared.properties --output json",
    )
    _add_plan(commands.add_parser("plan", help="check and write down what is to be done; writes nothing to Kafka"))
    _add_apply(commands.add_parser("apply", help="carry out a plan"))
    resume = commands.add_parser("resume", help="continue an apply that was interrupted")
    _add_plan_file(resume, engine=True)
    resume.add_argument("--yes", action="store_true", help="as for apply, which has asked: resume asks nothing")
    _add_output(resume, evidence=True)
    add_examples(
        resume, "connect-share-migrate resume move.json", "connect-share-migrate resume move.json --engine spark"
    )
    _add_cutover(commands.add_parser("cutover", help="copy what is left, verify, fence and seal the old side"))
    rollback = commands.add_parser("rollback", help="remove what a plan has written")
    _add_undo(rollback, stays="that stays", shown="removed")
    add_examples(
        rollback, "connect-share-migrate rollback move.json --dry-run", "connect-share-migrate rollback move.json"
    )
    verify = commands.add_parser("verify", help="compare the state on both sides; exit 1 on a difference")
    _add_plan_file(verify, engine=True)
    verify.add_argument(
        "--isolation",
        action="store_true",
        help="instead: prove that no key of another group was touched; needs apply --isolation-proof",
    )
    _add_output(verify, evidence=True)
    add_examples(
        verify,
        "connect-share-migrate verify move.json",
        "connect-share-migrate verify move.json --isolation --output json",
    )
    _add_seal(commands.add_parser("seal", help="seal the old side only, for example after a forgotten cutover"))
    unseal = commands.add_parser("unseal", help="put the target states back at the old side; the copies stay")
    _add_undo(unseal, stays="the copies stay", shown="done")
    add_examples(
        unseal, "connect-share-migrate unseal move.json --dry-run", "connect-share-migrate unseal move.json --yes"
    )
    if command not in _COMMANDS:
        from connect_share.backup.restore_command import add_restore_to

        _add_output(add_restore_to(commands))
    _add_reseal(commands.add_parser("reseal", help="seal all values of a stopped group with its first key"))
    return parser


def _add_plan_file(parser: argparse.ArgumentParser, *, engine: bool = False) -> None:
    parser.add_argument("plan", metavar="PLAN", type=Path)
    if engine:
        parser.add_argument("--engine", choices=("local", "spark"), default="local")


def _add_output(parser: argparse.ArgumentParser, *, evidence: bool = False, timeout_s: float | None = None) -> None:
    if evidence:
        parser.add_argument(
            "--evidence",
            metavar="DIR",
            type=Path,
            help="folder for the evidence; default: <plan>.evidence beside the plan",
        )
    add_output(parser, timeout_s)


def _add_yes(parser: argparse.ArgumentParser, *, dry_run: str) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help=dry_run)


def _add_files(parser: argparse.ArgumentParser, *, destination_required: bool = True) -> None:
    parser.add_argument(
        "-w",
        "--source-worker-config",
        "--worker-config",
        dest="sources",
        metavar="FILE",
        type=Path,
        nargs="+",
        action="extend",
        required=True,
        help="worker file of a cluster that is moved, or a folder of them; may be repeated",
    )
    parser.add_argument(
        "--to-worker-config",
        "--destination-worker-config",
        dest="destinations",
        metavar="FILE",
        type=Path,
        nargs="+",
        action="extend",
        default=None if destination_required else [],
        required=destination_required,
        help="worker file of where it goes: one for all sources, one for each in the same order, or a folder with one for "
        "each group.id",
    )


def _add_plan(parser: argparse.ArgumentParser) -> None:
    _add_files(parser)
    parser.add_argument("-o", "--plan", dest="plan", metavar="PLAN", type=Path, help="the plan file to write")
    parser.add_argument("--job", metavar="NAME", help="move this connector only, to the destination file's group")
    parser.add_argument(
        "--assign",
        metavar="FILE",
        type=Path,
        help='for clusters that share plain keys by accident: JSON, {"group.id": ["connector", ...], ...}',
    )
    parser.add_argument("--merge", action="store_true", help="let several sources become one group")
    parser.add_argument(
        "--mode",
        choices=("mirror", "state"),
        default="mirror",
        help="mirror: record for record; state: the current state only, in Connect's own order",
    )
    parser.add_argument("--follow", action="store_true", help="the sources' workers may be alive until the cut-over")
    parser.add_argument("--dry-run", action="store_true", help="show the plan, write no file")
    _add_output(parser)
    add_examples(
        parser,
        "connect-share-migrate plan -w orders.properties --to-worker-config orders-shared.properties -o move.json",
        "connect-share-migrate plan -w orders.properties --to-worker-config shared.properties --job my.conn -o job.json",
        "connect-share-migrate plan -w /etc/connect --to-worker-config /etc/connect-shared -o all.json --dry-run",
    )


def _add_apply(parser: argparse.ArgumentParser) -> None:
    _add_plan_file(parser, engine=True)
    parser.add_argument("--follow", action="store_true", help="mirror until Ctrl-C or the cut-over")
    parser.add_argument(
        "--isolation-proof",
        action="store_true",
        help="first note the records of other groups at the destination, for verify --isolation",
    )
    parser.add_argument("--no-backup", action="store_true", help="write no backup first: nothing can be restored then")
    _add_yes(parser, dry_run="check everything, write nothing")
    _add_output(parser, evidence=True)
    add_examples(
        parser,
        "connect-share-migrate apply move.json --dry-run",
        "connect-share-migrate apply move.json --engine spark --yes",
        "connect-share-migrate apply move.json --follow",
    )


def _add_cutover(parser: argparse.ArgumentParser) -> None:
    _add_plan_file(parser)
    parser.add_argument(
        "--seal",
        choices=("stop", "remove", "none"),
        help="stop: every connector at the source gets the target state STOPPED; remove: the originals are removed; "
        "none. Default: remove if originals and copies are in the same topics, else stop",
    )
    parser.add_argument(
        "--timeout",
        type=partial(seconds, most=86_400),
        metavar="SECONDS",
        help="for copying what is left",
    )
    _add_yes(parser, dry_run="show what would be done, write nothing")
    _add_output(parser, evidence=True)
    add_examples(
        parser,
        "connect-share-migrate cutover move.json --dry-run",
        "connect-share-migrate cutover move.json --seal none",
    )


def _add_undo(parser: argparse.ArgumentParser, *, stays: str, shown: str) -> None:
    _add_plan_file(parser)
    parser.add_argument(
        "--although-used", action="store_true", help=f"go on although new workers have written; {stays}"
    )
    _add_yes(parser, dry_run=f"show what would be {shown}, write nothing")
    _add_output(parser, evidence=True)


def _add_seal(parser: argparse.ArgumentParser) -> None:
    _add_plan_file(parser)
    parser.add_argument(
        "--seal",
        choices=("stop", "remove"),
        help="stop: every connector at the source gets the target state STOPPED; remove: the originals are removed. "
        "Default: as it was sealed before, else as cutover does",
    )
    _add_yes(parser, dry_run="show what would be done, write nothing")
    _add_output(parser, evidence=True)
    add_examples(parser, "connect-share-migrate seal move.json --dry-run", "connect-share-migrate seal move.json")


def _add_reseal(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-w",
        "--worker-config",
        metavar="FILE",
        type=Path,
        required=True,
        help="worker file of the group, with its keys",
    )
    parser.add_argument(
        "--plain", action="store_true", help="make the values plain instead, to take the keys away afterwards"
    )
    parser.add_argument(
        "--backup", metavar="FILE", type=Path, help="the backup that is written first; default: beside the worker file"
    )
    _add_yes(parser, dry_run="show what would be written, write nothing")
    _add_output(parser)
    add_examples(
        parser,
        "connect-share-migrate reseal -w orders.properties --dry-run",
        "connect-share-migrate reseal -w orders.properties --plain",
    )


if __name__ == "__main__":
    sys.exit(main())
