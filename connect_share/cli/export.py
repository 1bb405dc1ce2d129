"""``export``: groups, whole or by connector, to one file that ``restore`` puts back."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from connect_share.admin import Admin
from connect_share.backup.export import Export, Exported
from connect_share.cli.options import Nouns, add_topics, topic_set_of
from connect_share.console import (
    DEFAULT_TIMEOUT_S,
    PLAIN,
    Output,
    ProgressLine,
    add_output,
    groups_of,
    plural,
    shown_group,
)
from connect_share.errors import ConnectShareError
from connect_share.topic_ranges import CLIENT_ID

_EXAMPLES: Final = """\
examples:
  connect-share export -w orders.properties -o orders.avro
  connect-share export -w orders.properties --connector jdbc-sink -o sink.avro
  connect-share export -w orders.properties --all-groups -o all.avro
  connect-share restore all.avro -w orders.properties --dry-run
"""


def add_to(verbs: Nouns) -> None:
    """Add ``export``, which is a verb without nouns."""
    parser = verbs.add_parser(
        "export",
        help="write groups, whole or by connector, to one file",
        description="Write every record that groups have on the topics to one Avro file, which restore puts back exactly.\n"
        "Reads only; workers may run. The file holds secrets and has mode 0600.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_topics(parser)
    what = parser.add_argument_group("what is exported")
    what.add_argument(
        "--group",
        dest="groups",
        metavar="ID",
        action="append",
        help=f"this cluster group, may be repeated; {PLAIN} is the cluster with plain keys; "
        "with a worker file: its own group by default",
    )
    what.add_argument("--all-groups", action="store_true", help="every group, also with a worker file")
    what.add_argument(
        "--connector",
        dest="connectors",
        metavar="NAME",
        action="append",
        help="only this connector, may be repeated; names are exact",
    )
    parser.add_argument("-o", "--file", dest="file", metavar="FILE", type=Path, required=True, help="the file to write")
    add_output(parser, DEFAULT_TIMEOUT_S)
    parser.set_defaults(noun="", run=export)


def export(arguments: argparse.Namespace, out: Output) -> int:
    """Write one file."""
    asked = _asked(arguments)
    if arguments.file.exists():
        raise ConnectShareError(f"{arguments.file} is there already: give another name, or move it away")
    with Admin(asked.topic_set.settings, client_id=CLIENT_ID, timeout_s=arguments.timeout) as admin:
        ranges, notes = asked.look(admin)
        cluster = admin.cluster_id()
    for note in notes:
        out.note(note)
    with ProgressLine(sys.stderr) as progress:
        done = asked.write(arguments.file, cluster, ranges, progress)
    _show(out, arguments.file, done)
    return 0


def _asked(arguments: argparse.Namespace) -> Export:
    topic_set = topic_set_of(arguments)
    groups = groups_of(arguments.groups)
    if groups is None and not arguments.all_groups:
        groups = topic_set.worker_group
    return Export(
        topic_set,
        None if groups is None else frozenset(groups),
        None if arguments.connectors is None else frozenset(arguments.connectors),
    )


def _show(out: Output, path: Path, done: Exported) -> None:
    file = done.file
    if out.is_json:
        out.json({**file.model_dump(mode="json"), "file": str(path), "groups": list(done.groups)})
        return
    out.lines(
        f"{path}: {plural(file.records, 'record')} of {plural(len(done.groups), 'group')}, {file.size_bytes:,} bytes",
        *(f"  {topic}: {plural(count, 'record')}" for topic, count in file.topics.items()),
        *([f"  group {shown_group(done.groups[0])}"] if len(done.groups) == 1 else []),
        *(
            f"  {topic}: {plural(count, 'record')} left out, not readable whole"
            for topic, count in file.left_out.items()
        ),
        "it holds secrets: keep it where worker files may be kept",
    )
