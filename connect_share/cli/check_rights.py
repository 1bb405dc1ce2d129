"""``check rights``: what the principal may do, against what each use of the topics needs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Final

from connect_share.checks.finding import Finding
from connect_share.checks.rights import NEEDS, Missing, On, Resource, find, missing, resources
from connect_share.cli.findings import counted, exit_code, finding_lines, wanted
from connect_share.cli.options import add_topics, topic_set_of
from connect_share.console import DEFAULT_TIMEOUT_S, Command, Output, Parser, Result, Table
from connect_share.kafka.descriptions import HeldRights
from connect_share.kafka.read import CONSOLE_CLIENT_ID
from connect_share.kafka.rights import RightsAdmin
from connect_share.worker_config import TopicSet

_DEFAULT: Final = ("worker", "stores", "console")


def _add_options(parser: Parser) -> None:
    add_topics(parser)
    parser.add_argument(
        "--for",
        dest="uses",
        metavar="USE",
        choices=tuple(NEEDS),
        action="append",
        help=f"{', '.join(NEEDS)}; may be repeated; {', '.join(_DEFAULT)} by default",
    )


def _check_rights(arguments: argparse.Namespace, out: Output) -> Result:
    """Check rights; 1 if one is missing for what is asked for."""
    topic_set = topic_set_of(arguments)
    if topic_set.worker is None:
        out.note("without -w FILE no group is known: only rights on the topics were checked")
    uses, topics = list(dict.fromkeys(arguments.uses or _DEFAULT)), topic_set.topics.values()
    findings, lacking = findings_of(topic_set, uses, arguments.timeout)
    members = {use: _members(found) for use, found in lacking.items()}
    return Result(
        {"findings": [finding.to_dict() for finding in findings], "uses": members, "checked": uses},
        [
            *finding_lines(findings),
            Table(("USE", "CHECKED", "MISSING"), [_row(use, found, uses) for use, found in lacking.items()]),
            f"{', '.join(topics)}: {counted(findings)}",
        ],
        exit_code(findings),
    )


def findings_of(
    topic_set: TopicSet, uses: Sequence[str], timeout_s: float
) -> tuple[list[Finding], dict[str, list[Missing]]]:
    """Return what is found for these uses, errors first, and what is missing for each use there is."""
    worker, topics = topic_set.worker, list(topic_set.topics.values())
    group_id = None if worker is None else worker.group_id
    with RightsAdmin(topic_set.settings, client_id=CONSOLE_CLIENT_ID, timeout_s=timeout_s) as admin:
        held = _held(admin, topics, group_id)
    exactly_once = worker is not None and worker.uses_transactional_leader
    lacking = {use: list(missing(use, held, topics, group_id, exactly_once=exactly_once)) for use in NEEDS}
    secure = topic_set.settings.properties.get("security.protocol", "plaintext").lower() != "plaintext"
    tool = ["kafka-acls", "--bootstrap-server", topic_set.settings.bootstrap_servers]
    tool += ["--command-config", "admin.properties"] if secure else []
    return wanted(list(find([each for use in uses for each in lacking[use]], held, tool)), ()), lacking


def _held(admin: RightsAdmin, topics: list[str], group_id: str | None) -> Mapping[Resource, HeldRights]:
    held = {Resource("topic", topic): rights for topic, rights in admin.topic_rights(topics).items()}
    if group_id is not None:
        (group,) = resources(On.GROUP, topics, group_id)
        held[group] = admin.group_rights(group_id)
    return held


def _members(found: list[Missing]) -> dict[str, object]:
    return {
        name: [{"right": each.right, "on": str(each.on)} for each in found if each.unknown is unknown]
        for name, unknown in (("missing", False), ("unknown", True))
    }


def _row(use: str, found: list[Missing], uses: list[str]) -> tuple[str, str, str]:
    texts = [f"{each.right} on {each.on}{' (cannot be seen)' if each.unknown else ''}" for each in found]
    return use, "yes" if use in uses else "no", "; ".join(texts) or "nothing"


COMMANDS: Final = [
    Command(
        "check rights",
        _check_rights,
        "may the principal do what is needed?",
        about="Ask Kafka what the principal of the worker file may do with the topics and the group, and compare that "
        "with what each use needs: a Java worker, the Python stores, the console, create topics, the migrator. Reads only; "
        "exit code 1 if something is missing for what is asked for with --for.",
        examples=[
            "connect-share check rights -w worker.properties",
            "connect-share check rights -w worker.properties --for stores --for migrator --output json",
        ],
        options=_add_options,
        timeout_s=DEFAULT_TIMEOUT_S,
    )
]
