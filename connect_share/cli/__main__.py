"""Entry point of ``connect-share``."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from connect_share.cli import (
    check,
    check_startup,
    check_topics,
    commands,
    create_topics,
    describe,
    topic_ids,
    topic_ids_repair,
    worker_jar,
)
from connect_share.cli.arguments import build_parser
from connect_share.console import Output, printable, run_program

_COMMANDS: Final[dict[tuple[str, str], Callable[[argparse.Namespace, Output], int]]] = {
    ("get", "groups"): commands.get_groups,
    ("get", "connectors"): commands.get_connectors,
    ("get", "tasks"): commands.get_tasks,
    ("get", "offsets"): commands.get_offsets,
    ("get", "statuses"): commands.get_statuses,
    ("describe", "connector"): describe.describe_connector,
    ("check", "worker-config"): check.check_worker_config,
    ("check", "topics"): check_topics.check_topics,
    ("create", "topics"): create_topics.create_topics,
    ("check", "startup"): check_startup.check_startup,
    ("check", "topic-ids"): topic_ids.check_topic_ids,
    ("repair", "topic-ids"): topic_ids_repair.repair_topic_ids,
    ("worker-jar", ""): worker_jar.worker_jar,
}


class _EscapingFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code, see ``--help``."""
    return run_program(build_parser(), argv, _run, command=_command, after_interruption=_after_interruption)


def _command(arguments: argparse.Namespace) -> str:
    return f"{arguments.verb} {arguments.noun}".strip()


def _run(arguments: argparse.Namespace, out: Output) -> int:
    with _logging(arguments.verbose):
        return _COMMANDS[arguments.verb, arguments.noun](arguments, out)


def _after_interruption(arguments: argparse.Namespace) -> str:
    changes = arguments.verb in ("create", "repair") or getattr(arguments, "apply", False)
    if changes and not getattr(arguments, "dry_run", False):
        return "what was done by then stays; the same command goes on from there"
    return "nothing was changed; the same command begins again"


@contextmanager
def _logging(verbose: bool) -> Iterator[None]:
    """Send log lines to stderr, escaped; without ``--verbose`` the command's own errors say enough."""
    handler = logging.StreamHandler()
    handler.setFormatter(_EscapingFormatter("connect-share: %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("connect_share")
    before = logger.handlers, logger.propagate, logger.level
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.INFO if verbose else logging.CRITICAL)
    try:
        yield
    finally:
        logger.handlers, logger.propagate, logger.level = before


if __name__ == "__main__":
    sys.exit(main())
