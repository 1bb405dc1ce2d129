"""``alter offsets``, ``reset offsets`` and ``copy offsets``: change the source offsets of connectors that do not run."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from connect_share.cli.change_offsets import (
    ConnectorPlan,
    add_change_options,
    add_connectors,
    carry_out,
    check_usage,
    connectors_of,
)
from connect_share.cli.group_worker import Worker
from connect_share.cli.options import Nouns
from connect_share.console import HelpFormatter, Output, Parser, plural, shown_group
from connect_share.errors import ConnectShareError, UsageError
from connect_share.model.keys import shown
from connect_share.stores.alter_offsets import MOST_BYTES, parse_offsets, parse_partition, usable_pairs

_RULES: Final = (
    "No worker of the group that is changed may be alive, and its connectors must be STOPPED. The changes are shown first, "
    "and the old offsets go to a file from which alter offsets puts them back. With exactly-once all tasks are fenced first."
)


def add_alter_to(nouns: Nouns) -> None:
    """Add ``alter offsets``."""
    parser = _parser(
        nouns,
        "set source offsets of a connector",
        "Set the source offsets of a connector, or forget those that are null; others stay as they are.",
        """\
  connect-share get offsets -w worker.properties --connector files --output json > offsets.json
  connect-share alter offsets files -w worker.properties --file offsets.json --dry-run
  curl -s http://worker:8083/connectors/files/offsets | \\
      connect-share alter offsets files -w worker.properties --file - --yes""",
    )
    parser.add_argument("connector", metavar="NAME", help="name of the connector")
    parser.add_argument(
        "--file",
        metavar="FILE",
        required=True,
        help='{"offsets": [{"partition": {..}, "offset": {..} or null}]}, as Connect\'s REST API; - is stdin',
    )
    parser.set_defaults(run=alter)


def add_reset_to(nouns: Nouns) -> None:
    """Add ``reset offsets``."""
    parser = _parser(
        nouns,
        "forget source offsets of connectors",
        "Forget the source offsets of connectors, all of them or those of some source partitions.",
        """\
  connect-share reset offsets files -w worker.properties
  connect-share reset offsets files -w worker.properties --partition '{"filename": "/data/in.txt"}'
  connect-share reset offsets -w worker.properties --matching 'orders-*' --dry-run""",
    )
    add_connectors(parser)
    parser.add_argument(
        "--partition",
        metavar="JSON",
        dest="partitions",
        action="append",
        help="only this source partition, may be repeated; all by default",
    )
    parser.set_defaults(run=reset)


def add_copy_to(nouns: Nouns) -> None:
    """Add ``copy offsets``."""
    parser = _parser(
        nouns,
        "copy source offsets to another connector, group or cluster",
        "Copy the source offsets of connectors to another connector, group or cluster. Source partitions that only the "
        "destination has stay as they are. The source is only read; stop it first, or what it commits later is not copied.",
        """\
  connect-share copy offsets files -w worker.properties --to files-v2
  connect-share copy offsets files -w old.properties --to-worker-config new.properties
  connect-share copy offsets -w old.properties --matching '*' --to-worker-config new.properties --dry-run""",
    )
    add_connectors(parser)
    parser.add_argument("--to", metavar="NAME", help="name of the other connector; the same name by default")
    parser.add_argument(
        "--to-worker-config",
        metavar="FILE",
        type=Path,
        help="properties file of a worker of the other group; the same group by default",
    )
    parser.set_defaults(run=copy)


def alter(arguments: argparse.Namespace, out: Output) -> int:
    """Set the offsets of one connector."""
    check_usage(arguments)
    pairs = parse_offsets(_read(arguments.file))
    with ExitStack() as stack:
        worker = Worker.of_file(arguments.worker_config, stack)
        return carry_out(arguments, out, [ConnectorPlan(worker, arguments.connector, pairs)])


def reset(arguments: argparse.Namespace, out: Output) -> int:
    """Forget the offsets of connectors."""
    check_usage(arguments)
    partitions = [(parse_partition(text), None) for text in arguments.partitions or ()]
    with ExitStack() as stack:
        worker = Worker.of_file(arguments.worker_config, stack)
        return carry_out(
            arguments,
            out,
            [
                ConnectorPlan(worker, name, list(partitions), resets=not partitions)
                for name in connectors_of(arguments, worker)
            ],
        )


def copy(arguments: argparse.Namespace, out: Output) -> int:
    """Copy the offsets of connectors."""
    check_usage(arguments)
    if arguments.to is None and arguments.to_worker_config is None:
        raise UsageError("say where to: --to NAME, --to-worker-config FILE, or both")
    if arguments.to is not None and (len(arguments.connectors) != 1 or arguments.matching):
        raise UsageError("--to is the name for one connector; several keep their names")
    with ExitStack() as stack:
        source = Worker.of_file(arguments.worker_config, stack)
        other = arguments.to_worker_config
        destination = source if other is None else Worker.of_file(other, stack)
        plans = []
        for name in connectors_of(arguments, source):
            to = arguments.to or name
            if to == name and destination.keeps_offsets_with(source):
                raise UsageError(f"connector {shown(name)} would be copied to itself")
            stored = source.stored_offsets(name)
            if not stored and not arguments.matching:
                raise ConnectShareError(
                    f"connector {shown(name)} of group {shown_group(source.group)} has no source offsets to copy"
                )
            pairs = usable_pairs(stored)
            if len(pairs) < len(stored):
                out.note(
                    f"{plural(len(stored) - len(pairs), 'offset')} of {name} not copied: no connector can use them"
                )
            plans.append(ConnectorPlan(destination, to, pairs))
            if not source.is_stopped(name):
                out.note(
                    f"{name} ({shown_group(source.group)}) is not stopped: what it commits from now on is not copied"
                )
        return carry_out(arguments, out, plans)


def _parser(nouns: Nouns, text: str, description: str, examples: str) -> Parser:
    parser = nouns.add_parser(
        "offsets",
        help=text,
        description=f"{description} {_RULES}",
        epilog=f"examples:\n{examples}",
        formatter_class=HelpFormatter,
    )
    add_change_options(parser)
    return parser


def _read(name: str) -> bytes:
    """Read a file, or stdin, no further than it may be long."""
    try:
        if name == "-":
            return sys.stdin.buffer.read(MOST_BYTES + 1)
        with Path(name).open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from None
