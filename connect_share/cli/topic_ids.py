"""``check topic-ids``: reads scans and the authority, and leaves judging to the core."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from connect_share.admin import Admin
from connect_share.console import Output, client_settings_of
from connect_share.errors import UsageError
from connect_share.topic_ids.authority.authority import Authority
from connect_share.topic_ids.authority.brokers import authority_of_brokers
from connect_share.topic_ids.authority.metadata_log import read_metadata_dump
from connect_share.topic_ids.authority.znodes import read_zookeeper_dump
from connect_share.topic_ids.authority.zookeeper import read_zookeeper
from connect_share.topic_ids.compare.causes import TopicReport, topic_reports
from connect_share.topic_ids.compare.compare import Comparison, compare
from connect_share.topic_ids.repair.broker_repair import LocalBroker, with_local_scan
from connect_share.topic_ids.scan import scanner
from connect_share.topic_ids.scan.scans import Scans, read_brokers_dir, read_scan
from connect_share.worker_config import TopicSet

_AUTHORITIES: Final = ("--zookeeper", "--zookeeper-dump", "--metadata-dump", "-B or -w")
_CLIENT_ID: Final = "connect-share-check-topic-ids"


def check_topic_ids(arguments: argparse.Namespace, out: Output) -> int:
    """``check topic-ids``."""
    if arguments.print_scanner:
        sys.stdout.write(Path(scanner.__file__).read_text("utf-8"))
        return 0
    found = compared(arguments, out)
    reports = topic_reports(found)
    if out.is_json:
        out.json(
            {
                **about(found),
                "findings": [finding.to_dict() for finding in found.findings],
                "topics": [report.to_dict() for report in reports],
            }
        )
    else:
        _tell_findings(found, reports, out)
    return 1 if found.findings else 0


def compared(arguments: argparse.Namespace, out: Output, local: LocalBroker | None = None) -> Comparison:
    """Read scans and the authority that the options name, and compare them.

    Args:
        arguments: of the command line.
        out: hears of progress.
        local: a broker of this machine, which is scanned now.

    Raises:
        UsageError: the options do not go together, or a file is not what it should be.
        BrokerError: the authority does not answer.
    """
    if not arguments.scans and arguments.brokers_dir is None and local is None:
        raise UsageError(
            "nothing says what is on the disks; use --scan FILE (what the scanner printed) or --brokers-dir DIR"
        )
    _check_authority(arguments)
    found = compare(scans_of(arguments, out, local), authority_of(arguments, out))
    for note in found.notes:
        out.note(note)
    return found


def scans_of(arguments: argparse.Namespace, out: Output, local: LocalBroker | None = None) -> Scans:
    """Read the scans that the options name.

    Raises:
        UsageError: one is none.
    """
    scans = Scans()
    if arguments.brokers_dir is not None:
        scans.add(
            read_brokers_dir(
                arguments.brokers_dir, lambda number, where: out.note(f"{number:,} directories read, now in {where}")
            )
        )
    for path in arguments.scans:
        scans.add(read_scan(path))
    return scans if local is None else with_local_scan(scans, local)


def _check_authority(arguments: argparse.Namespace) -> None:
    authorities = (
        arguments.zookeeper,
        arguments.zookeeper_dump,
        arguments.metadata_dump,
        arguments.bootstrap_servers or arguments.worker_config,
    )
    if sum(one is not None for one in authorities) != 1:
        raise UsageError(f"one authority is needed, of {', '.join(_AUTHORITIES)}")
    if arguments.zookeeper_config is not None and arguments.zookeeper is None:
        raise UsageError("--zookeeper-config goes with --zookeeper")


def authority_of(arguments: argparse.Namespace, out: Output) -> Authority:
    """Ask whoever the options name.

    Raises:
        UsageError: a dump cannot be read, or is none.
        BrokerError: no answer.
    """
    if arguments.zookeeper_dump is not None:
        return read_zookeeper_dump(arguments.zookeeper_dump)
    if arguments.metadata_dump is not None:
        return read_metadata_dump(arguments.metadata_dump)
    if arguments.zookeeper is not None:
        return read_zookeeper(
            arguments.zookeeper, arguments.zookeeper_config, timeout_s=arguments.timeout, progress=out.note
        )
    given = client_settings_of(arguments.client_settings)
    if arguments.worker_config is not None:
        way = TopicSet.from_worker_file(
            arguments.worker_config, bootstrap_servers=arguments.bootstrap_servers, client=given
        )
    else:
        way = TopicSet.from_flags(arguments.bootstrap_servers, {}, given)
    with Admin(way.settings, client_id=_CLIENT_ID, timeout_s=arguments.timeout) as admin:
        return authority_of_brokers(admin)


def about(found: Comparison) -> dict[str, object]:
    """Say in JSON what was compared with what."""
    return {
        "mode": found.authority.mode.value,
        "authority": found.authority.source,
        "brokers": sorted(found.scans.brokers),
        "directories": len(found.scans.directories),
        "topics_of_authority": len(found.authority.topics),
        "notes": found.notes,
    }


def _tell_findings(found: Comparison, reports: Sequence[TopicReport], out: Output) -> None:
    if found.findings:
        out.table(
            ("KIND", "TOPIC", "PARTITION", "BROKER", "LOG DIR", "ID ON DISK", "ID OF AUTHORITY", "DIRECTORY"),
            [
                (
                    one.kind.value,
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
        out.lines(
            "", f"{report.topic}: {report.cause.value}; data path {report.data_path.value}", f"  {report.meaning}"
        )
        for partition in report.partitions:
            leader = "no leader" if partition.leader is None else f"leader {partition.leader}"
            out.lines(
                f"  partition {partition.partition}: {leader}, in sync {_numbers(partition.isr)} of "
                f"{_numbers(partition.replicas)}, findings on {_numbers(partition.differing)}; {partition.data_path.value}"
            )
        out.lines(*(f"  {reason}" for reason in report.reasons))
    count, topics = len(found.findings), len(reports)
    brokers = len(found.scans.brokers)
    out.lines(
        *([""] if found.findings else []),
        f"{count or 'no'} finding{'' if count == 1 else 's'}"
        + (f" in {topics} topic{'' if topics == 1 else 's'}" if topics else "")
        + f"; {len(found.scans.directories):,} directories on {brokers} broker{'' if brokers == 1 else 's'} compared with "
        f"{len(found.authority.topics):,} topics of {found.authority.source}",
    )
    if count:
        out.lines("repair topic-ids --dry-run with the same options shows what can be done")


def _numbers(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers)) or "none"
