"""The options of ``check topic-ids`` and ``repair topic-ids``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TypeAlias

from connect_share.console import DEFAULT_TIMEOUT_S, Parser, add_client_settings, add_output
from connect_share.topic_ids.cli.check import check_topic_ids
from connect_share.topic_ids.cli.repair import repair_topic_ids

Nouns: TypeAlias = "argparse._SubParsersAction[Parser]"  # noqa: SLF001 - there is no public name


def add_check_to(nouns: Nouns) -> None:
    """Add ``check topic-ids``."""
    parser = nouns.add_parser(
        "topic-ids",
        help="do all replicas on disk have the topic ids that the cluster has?",
        description="Compare the topic ids in the brokers' log dirs with those of ZooKeeper or KRaft, and show per topic "
        "what is wrong and why. Reads only. Any finding, directories that wait for their deletion included, is exit code 1.",
    )
    _add_sources(parser)
    parser.add_argument(
        "--print-scanner",
        action="store_true",
        help="print the scanner (one file, Python 3.8 or later, no dependencies) and do nothing else",
    )
    add_output(parser, DEFAULT_TIMEOUT_S)
    parser.set_defaults(run=check_topic_ids)


def add_repair_to(nouns: Nouns) -> None:
    """Add ``repair topic-ids``."""
    parser = nouns.add_parser(
        "topic-ids",
        help="repair topic ids that differ, or plan it",
        description="Show the least dangerous way back to equal topic ids, step by step, with what must hold before each "
        "step. With --zookeeper znodes are written after a prompt: everything is checked and kept in --backup before the "
        "first write. What has to be done to files is done on each broker's machine with --step. Exit code 1 if something "
        "cannot be repaired safely.",
    )
    _add_sources(parser)
    parser.add_argument("--dry-run", action="store_true", help="show the plan, change nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--backup",
        metavar="DIR",
        type=Path,
        default=Path("topic-ids-backup"),
        help="new folder for what is written over; one of a repair that was interrupted: go on with it "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--undo",
        metavar="BACKUP",
        type=Path,
        help="take a repair back; needs --zookeeper, and --server-properties for the backup of a broker's files",
    )
    files = parser.add_argument_group("files, on the machine of each broker")
    files.add_argument(
        "--step",
        choices=("prepare", "write", "check"),
        help="prepare: check whether its turn has come, and keep what is touched; write: while it is stopped; check: "
        "that it serves again",
    )
    files.add_argument(
        "--server-properties", metavar="FILE", type=Path, help="of the broker; its log dirs are scanned now"
    )
    add_output(parser, DEFAULT_TIMEOUT_S)
    parser.set_defaults(run=repair_topic_ids)


def _add_sources(parser: Parser) -> None:
    disks = parser.add_argument_group("what is on the brokers' disks")
    disks.add_argument(
        "--scan",
        dest="scans",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="output of the scanner on one broker, may be repeated; 'check topic-ids --print-scanner' hands it out",
    )
    disks.add_argument(
        "--brokers-dir",
        metavar="DIR",
        type=Path,
        help="copies of log dirs: DIR/broker-<id>/<log dir>/<topic>-<partition>/",
    )
    authority = parser.add_argument_group("where the right ids are; one of")
    authority.add_argument("--zookeeper", metavar="HOST:PORT,...[/CHROOT]", help="ZooKeeper, asked now")
    authority.add_argument(
        "--zookeeper-dump", metavar="FILE", type=Path, help="JSON object: path of a znode -> its text"
    )
    authority.add_argument(
        "--metadata-dump",
        metavar="FILE",
        type=Path,
        help="KRaft's metadata log as kafka-dump-log --cluster-metadata-decoder prints it",
    )
    authority.add_argument("-B", "--bootstrap-servers", metavar="HOST:PORT,...", help="KRaft brokers, asked now")
    authority.add_argument(
        "-w", "--worker-config", metavar="FILE", type=Path, help="worker file with the settings to reach them"
    )
    how = parser.add_argument_group("how to reach it")
    add_client_settings(how, "client setting for -B and -w")
    how.add_argument(
        "--zookeeper-config",
        metavar="FILE",
        type=Path,
        help="properties for --zookeeper under kazoo's names: ca, certfile, keyfile, keyfile_password, verify_certs, "
        "check_hostname, sasl.mechanism, sasl.username, sasl.password, auth.digest",
    )
