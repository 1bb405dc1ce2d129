"""Entry point of ``connect-share``."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
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
from connect_share.cli.arguments import NOT_YET, build_parser
from connect_share.cli.output import Output, printable, while_somebody_reads
from connect_share.errors import ConnectShareError, UsageError

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
    """Run one command; 0 ok, 1 failed, 2 wrong usage."""
    return while_somebody_reads(partial(_told, list(sys.argv[1:] if argv is None else argv)))


def _told(given: Sequence[str]) -> int:
    words = given[:2] if given[:1] in (["get"], ["describe"], ["check"], ["create"], ["repair"]) else given[:1]
    out = Output(" ".join(words), _form(given))
    try:
        return _run(given, out)
    except SystemExit as ended:  # argparse: --help
        return ended.code if isinstance(ended.code, int) else 2
    except ConnectShareError as error:
        return out.error(error)
    except KeyboardInterrupt:
        out.note("interrupted")
        return 1


def _run(given: Sequence[str], out: Output) -> int:
    if given and given[0] in NOT_YET and not {"-h", "--help"} & set(given):
        raise UsageError(f"not available in this version: {given[0]}; {NOT_YET[given[0]]}")
    if (
        given[1:]
        and given[0] in ("check", "create", "repair")
        and given[1][:1] != "-"
        and (given[0], given[1]) not in _COMMANDS
    ):
        known = ", ".join(f"{verb} {noun}" for verb, noun in _COMMANDS if verb == given[0])
        raise UsageError(f"not available in this version: {given[0]} {given[1]}; there are {known}")
    arguments = build_parser().parse_args(given)
    if arguments.verb in NOT_YET:
        raise UsageError(f"not available in this version: {arguments.verb}; {NOT_YET[arguments.verb]}")
    with _logging(arguments.verbose):
        return _COMMANDS[arguments.verb, arguments.noun](arguments, out)


def _form(given: Sequence[str]) -> str:
    """Find ``--output`` before the arguments are understood: wrong usage is told in that form too."""
    for position, word in enumerate(given):
        if word == "--output=json" or (word == "--output" and given[position + 1 : position + 2] == ["json"]):
            return "json"
    return "text"


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
