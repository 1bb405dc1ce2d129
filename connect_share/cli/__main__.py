"""Entry point of ``connect-share``: its verbs and nouns, and how one command runs."""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from connect_share.cli.options import choose_worker_files
from connect_share.console import (
    EXIT_CODES,
    Output,
    Parser,
    add_completion,
    add_version,
    logs_on_stderr,
    run_program,
)
from connect_share.worker_config.profiles import profile_in_use

_EXAMPLES: Final = """\
examples:
  connect-share discover -B broker:9092
  connect-share get groups -B broker:9092 --config-storage-topic connect-configs \\
      --offset-storage-topic connect-offsets --status-storage-topic connect-status
  connect-share get connectors -w worker.properties
  connect-share get offsets -w worker.properties --all-groups --output json
  connect-share describe group com.acme.orders -w worker.properties
  connect-share describe connector orders.sink -w worker.properties --show-values
  connect-share export -w worker.properties --all-groups -o groups.avro
  connect-share restore groups.avro -w worker.properties --dry-run
  connect-share alter offsets files -w worker.properties --file offsets.json --dry-run
  connect-share usage -w worker.properties
  connect-share exporter -w worker.properties --listen 127.0.0.1:9404
  connect-share worker-jar --to /opt/kafka/libs
  connect-share keys new
  connect-share check all -w worker.properties
  connect-share admit -w new-group.properties
  connect-share check worker-config worker.properties --libs /opt/kafka/libs
  connect-share create topics -w worker.properties --dry-run
  connect-share check topics -w worker.properties --reassignment new-replicas.json
  connect-share check sealing -w worker.properties
  connect-share check rights -w worker.properties
  connect-share check startup -w worker.properties --apply --dry-run
  connect-share check topic-ids --scan broker-1.scan --scan broker-2.scan --zookeeper zk:2181
"""
_PRECEDENCE: Final = """\
precedence, highest first:
  flag, -X, profile (but for the brokers), worker file, default
"""

# Each verb with its help and the functions that add its nouns, in the order of --help. Each noun's parser names the
# function that runs with set_defaults(run=...). They are named as texts: only what a command line needs is imported, for all
# together would take as long as reading the topics of a small cluster.
_VERBS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "get": ("list groups, connectors, tasks, offsets or statuses", ("cli.get.add_to",)),
    "describe": ("show one group or connector", ("cli.describe_group.add_to", "cli.describe_connector.add_to")),
    "check": (
        "check what is on the topics, the topics, worker files, what is sealed, rights, start-up, topic ids, or all of it",
        (
            "cli.check_all.add_to",
            "cli.check_contents.add_to",
            "cli.check_worker_config.add_to",
            "cli.check_topics.add_to",
            "cli.check_sealing.add_to",
            "cli.check_rights.add_to",
            "cli.check_startup.add_to",
            "topic_ids.cli.add_check_to",
        ),
    ),
    "delete": ("retire a group that is shut down", ("cli.delete_group.add_to",)),
    "create": ("create the topics of a worker", ("cli.create_topics.add_to",)),
    "repair": ("mend what checks have found", ("cli.repair_topics.add_to", "topic_ids.cli.add_repair_to")),
    "alter": ("set source offsets", ("cli.offsets.add_alter_to",)),
    "reset": ("forget source offsets", ("cli.offsets.add_reset_to",)),
    "copy": ("copy source offsets to another connector, group or cluster", ("cli.offsets.add_copy_to",)),
    "keys": ("make a key of a sealed group", ("cli.keys_new.add_to",)),
}
# The verbs without nouns, and the functions that add them.
_ALONE: Final = {
    "discover": "cli.discover.add_to",
    "admit": "cli.admit.add_to",
    "export": "cli.export.add_to",
    "restore": "cli.restore.add_to",
    "usage": "cli.usage.add_to",
    "exporter": "cli.exporter.add_to",
    "worker-jar": "cli.worker_jar.add_to",
}


def build_parser(verb: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of one verb's command lines; of all verbs, if it is none of them."""
    parser = Parser(
        prog="connect-share",
        description="Show what Kafka Connect clusters keep in their internal topics, shared or dedicated.",
        epilog=f"{_EXAMPLES}\n{_PRECEDENCE}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_version(parser)
    add_completion(parser)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    known = verb in _VERBS or verb in _ALONE
    for name, (text, add_nouns) in _VERBS.items():
        if name == verb or not known:
            nouns = verbs.add_parser(name, help=text).add_subparsers(
                dest="noun", metavar="NOUN", required=True, parser_class=Parser
            )
            for add_to in add_nouns:
                _function(add_to)(nouns)
    for name, add_to in _ALONE.items():
        if name == verb or not known:
            _function(add_to)(verbs)
    return parser


def _function(name: str) -> Callable[[Any], None]:
    module, _, function = name.rpartition(".")
    found: Callable[[Any], None] = getattr(importlib.import_module(f"connect_share.{module}"), function)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code, see ``--help``."""
    verb = next(iter(sys.argv[1:] if argv is None else argv), None)
    return run_program(build_parser(verb), argv, _run, command=_command, after_interruption=_after_interruption)


def _command(arguments: argparse.Namespace) -> str:
    return f"{arguments.verb} {arguments.noun}".strip()


def _run(arguments: argparse.Namespace, out: Output) -> int:
    # Without --verbose the command's own errors say enough.
    level = logging.INFO if arguments.verbose else logging.CRITICAL
    with logs_on_stderr("connect-share", ["connect_share"], level), profile_in_use(getattr(arguments, "profile", None)):
        choose_worker_files(arguments)
        return int(arguments.run(arguments, out))


def _after_interruption(arguments: argparse.Namespace) -> str:
    # Commands that change something have --dry-run; a check changes something only with --apply.
    changes = getattr(arguments, "dry_run", None) is False and getattr(arguments, "apply", True)
    if changes:
        return "what was done by then stays; run the same command again to continue"
    return "nothing was changed; run the same command again"


if __name__ == "__main__":
    sys.exit(main())
