"""``check topic-ids``: read scans and the topics of the cluster, compare them, print the findings."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from connect_share.console.options import DEFAULT_TIMEOUT_S, Parser, add_client_settings, add_worker_file, topic_set_of
from connect_share.console.output import Output, Result, Table, plural
from connect_share.console.program import Command
from connect_share.errors import UsageError
from connect_share.kafka.admin import Admin
from connect_share.topic_ids.authority.authority import Authority
from connect_share.topic_ids.authority.kraft import authority_of_brokers, read_metadata_dump
from connect_share.topic_ids.authority.zookeeper import ZooKeeper, open_zookeeper, read_zookeeper_dump
from connect_share.topic_ids.compare.causes import TopicReport, topic_reports
from connect_share.topic_ids.compare.compare import Comparison, compare
from connect_share.topic_ids.repair.broker_repair import ScannedBroker
from connect_share.topic_ids.scan import scanner
from connect_share.topic_ids.scan.scans import Scans, read_brokers_dir, read_scan

_CLIENT_ID: Final = "connect-share-check-topic-ids"
SCANS: Final = "--scan --brokers-dir"
AUTHORITIES: Final = "--zookeeper-dump --metadata-dump -B -w"


def add_sources(parser: Parser) -> None:
    """Add the options that name the scans and the authority."""
    disks = parser.add_argument_group("what is on the brokers' disks")
    disks.add_argument(
        "--scan",
        dest="scans",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="output of the scanner on one broker, may be repeated; 'check topic-ids --print-scanner' prints it",
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
    add_worker_file(authority, "worker file with the settings to reach them", required=False)
    how = parser.add_argument_group("how to reach it")
    add_client_settings(how, "client setting for -B and -w")
    how.add_argument(
        "--zookeeper-config",
        metavar="FILE",
        type=Path,
        help="properties for --zookeeper under kazoo's names: ca, certfile, keyfile, keyfile_password, verify_certs, "
        "check_hostname, sasl.mechanism, sasl.username, sasl.password, auth.digest",
    )
    parser.refuse("--zookeeper-config", without="--zookeeper")
    parser.refuse("-X --profile", without="-B or -w")


def _check_topic_ids(arguments: argparse.Namespace, out: Output) -> Result | int:
    if arguments.print_scanner:
        sys.stdout.write(Path(scanner.__file__).read_text("utf-8"))
        return 0
    found = compared(arguments, out)
    reports = topic_reports(found)
    findings = [finding.to_dict() for finding in found.findings]
    return Result(
        {**summary(found), "findings": findings, "topics": [report.to_dict() for report in reports]},
        _lines(found, reports),
        1 if found.findings else 0,
    )


def compared(arguments: argparse.Namespace, out: Output, local: ScannedBroker | None = None) -> Comparison:
    """Read the scans and the topics that the options name, and compare them; a broker of this machine is scanned now.

    Raise ``UsageError`` if the options do not go together or a file is wrong, ``BrokerError`` without an answer.
    """
    if not arguments.scans and arguments.brokers_dir is None and local is None:
        raise UsageError("no scan is given; use --scan FILE (what the scanner printed) or --brokers-dir DIR")
    given = (
        arguments.zookeeper,
        arguments.zookeeper_dump,
        arguments.metadata_dump,
        arguments.bootstrap_servers or arguments.worker_config,
    )
    if sum(one is not None for one in given) != 1:
        raise UsageError("one authority is needed, of --zookeeper, --zookeeper-dump, --metadata-dump, -B or -w")
    found = compare(scans_of(arguments, out, local), authority_of(arguments, out))
    out.note(*found.notes)
    return found


def scans_of(arguments: argparse.Namespace, out: Output, local: ScannedBroker | None = None) -> Scans:
    """Read the scans that the options name; raise ``UsageError`` for a file that is no scan."""
    scans = Scans()
    if arguments.brokers_dir is not None:
        scans.add(
            read_brokers_dir(
                arguments.brokers_dir, lambda number, where: out.note(f"{number:,} directories read, now in {where}")
            )
        )
    for path in arguments.scans:
        scans.add(read_scan(path))
    if local is not None:
        scans.drop(local.id)  # older scans of it
        scans.add(local.scans)
    return scans


def authority_of(arguments: argparse.Namespace, out: Output) -> Authority:
    """Read the topics from what the options name; raise ``UsageError`` for no dump, ``BrokerError`` without an answer."""
    if arguments.zookeeper_dump is not None:
        return read_zookeeper_dump(arguments.zookeeper_dump)
    if arguments.metadata_dump is not None:
        return read_metadata_dump(arguments.metadata_dump)
    if arguments.zookeeper is not None:
        with zookeeper_session(arguments) as session:
            return session.authority(out.note)
    settings = topic_set_of(arguments, or_none=True).settings
    with Admin(settings, client_id=_CLIENT_ID, timeout_s=arguments.timeout) as admin:
        return authority_of_brokers(admin)


def zookeeper_session(arguments: argparse.Namespace) -> AbstractContextManager[ZooKeeper]:
    """Open the ZooKeeper that the options name."""
    if arguments.zookeeper is None:
        raise UsageError("what the other brokers do has to be asked: give --zookeeper HOST:PORT")
    return open_zookeeper(arguments.zookeeper, arguments.zookeeper_config, timeout_s=arguments.timeout)


def summary(found: Comparison) -> dict[str, object]:
    """Return the JSON members that say what was compared."""
    return {
        "mode": found.authority.mode,
        "authority": found.authority.source,
        "brokers": sorted(found.scans.brokers),
        "directories": len(found.scans.directories),
        "topics_of_authority": len(found.authority.topics),
        "notes": found.notes,
    }


def _lines(found: Comparison, reports: Sequence[TopicReport]) -> Iterator[str | Table]:
    if found.findings:
        yield Table(
            ("KIND", "TOPIC", "PARTITION", "BROKER", "LOG DIR", "ID ON DISK", "ID OF AUTHORITY", "DIRECTORY"),
            [
                (
                    one.kind,
                    ", ".join(one.topics) or one.topic,
                    one.partition,
                    one.broker,
                    one.log_dir,
                    one.id_on_disk,
                    one.id_of_authority,
                    one.directory,
                )
                for one in found.findings
            ],
        )
    for report in reports:
        yield ""
        yield f"{report.topic}: {report.cause}; data path {report.data_path}"
        yield f"  {report.meaning}"
        for one in report.partitions:
            leader = "no leader" if one.leader is None else f"leader {one.leader}"
            yield (
                f"  partition {one.partition}: {leader}, in sync {_numbers(one.isr)} of {_numbers(one.replicas)}, "
                f"findings on {_numbers(one.differing)}; {one.data_path}"
            )
        yield from (f"  {reason}" for reason in report.reasons)
    count = len(found.findings)
    findings = plural(count, "finding") if count else "no findings"
    topics = f" in {plural(len(reports), 'topic')}" if reports else ""
    yield from ([""] if count else [])
    yield (
        f"{findings}{topics}; "
        f"{len(found.scans.directories):,} directories on {plural(len(found.scans.brokers), 'broker')} compared with "
        f"{len(found.authority.topics):,} topics of {found.authority.source}"
    )
    if count:
        yield "repair topic-ids --dry-run with the same options shows what can be done"


def _numbers(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers)) or "none"


def _add_options(parser: Parser) -> None:
    add_sources(parser)
    parser.add_argument(
        "--print-scanner",
        action="store_true",
        help="print the scanner (one file, Python 3.8 or later, no dependencies) and do nothing else",
    )
    parser.refuse(f"{SCANS} {AUTHORITIES} --zookeeper --output", beside="--print-scanner")


CHECK: Final = Command(
    "check topic-ids",
    _check_topic_ids,
    "do all replicas on disk have the topic ids that the cluster has?",
    about="Compare the topic ids in the brokers' log dirs with those of ZooKeeper or KRaft, and show per topic "
    "what is wrong and why. Reads only. Any finding, directories that wait for their deletion included, is exit code 1.",
    examples=[
        "connect-share check topic-ids --print-scanner > scanner.py   # run it on each broker",
        "connect-share check topic-ids --scan broker-1.scan --scan broker-2.scan --zookeeper zk:2181",
        "connect-share check topic-ids --scan broker-1.scan -B broker:9092",
    ],
    options=_add_options,
    timeout_s=DEFAULT_TIMEOUT_S,
)
