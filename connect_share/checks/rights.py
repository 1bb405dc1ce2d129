"""``check rights``: which rights each use of the topics needs, and what is missing.

docs/access-rights.md is tested against the table here.
"""

from __future__ import annotations

import argparse
import enum
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from connect_share.checks.check import Check
from connect_share.checks.finding import Finding, Severity, errors_first, findings_result
from connect_share.checks.sources import CheckSources
from connect_share.console.options import Parser, add_topics, topic_set_of
from connect_share.console.output import Output, Result, Table
from connect_share.kafka.descriptions import HeldRights
from connect_share.kafka.read import CONSOLE_CLIENT_ID
from connect_share.kafka.write_access import RightsAdmin
from connect_share.worker_config import ClientSettings, TopicSet

_DATA: Final = "configurations, statuses, offsets"
_INCLUDES_DESCRIBE: Final = frozenset({"READ", "WRITE", "ALTER", "DELETE"})


class On(enum.Enum):
    """What a right is on, in the words of the page."""

    TOPICS = "the topics"
    SOURCE = "the source's topics"
    DESTINATION = "the destination's topics"
    GROUP = "group `<group.id>`"
    LEADER = "transactional id `connect-cluster-<group.id>`"
    TASKS = "transactional ids that begin with `<group.id>-`"


class When(enum.Enum):
    """When a right is needed."""

    ALWAYS = enum.auto()
    EXACTLY_ONCE = enum.auto()
    TOPIC_IS_MISSING = enum.auto()
    RECOMMENDED = enum.auto()


class Need(NamedTuple):
    """Rights that a use needs, and what for."""

    rights: tuple[str, ...]
    on: On
    why: str
    when: When = When.ALWAYS


_CREATE: Final = Need(("CREATE",), On.TOPICS, "creating them", When.TOPIC_IS_MISSING)
_GUARD: Final = Need(("DESCRIBE",), On.GROUP, "seeing live workers", When.RECOMMENDED)
_BOTH_SIDES: Final = (
    Need(("READ", "WRITE"), On.SOURCE, "sealing the old side"),
    Need(("DESCRIBE_CONFIGS",), On.SOURCE, "their settings"),
    Need(("READ", "WRITE"), On.DESTINATION, "copying the rest, verifying, removing in a rollback"),
    Need(("DESCRIBE_CONFIGS",), On.DESTINATION, "their settings"),
)
NEEDS: Final[Mapping[str, tuple[Need, ...]]] = {
    "worker": (
        Need(("READ", "WRITE"), On.TOPICS, _DATA),
        Need(("READ",), On.GROUP, "joining the group"),
        Need(("WRITE",), On.LEADER, "records of the leader", When.EXACTLY_ONCE),
        Need(("WRITE",), On.TASKS, "source tasks, and fencing them", When.EXACTLY_ONCE),
        _CREATE,
    ),
    "stores": (
        Need(("READ", "WRITE"), On.TOPICS, _DATA),
        Need(("WRITE",), On.LEADER, "`claim_write_privileges`", When.EXACTLY_ONCE),
        Need(
            ("WRITE",),
            On.TASKS,
            "`task_offset_writer`, `fence_tasks`, and `alter_offsets`, `reset_offsets`: fencing the tasks",
            When.EXACTLY_ONCE,
        ),
        _CREATE,
        _GUARD,
    ),
    "console": (Need(("READ",), On.TOPICS, "reading them once"),),
    "create-topics": (_CREATE, Need(("DESCRIBE",), On.TOPICS, "waiting until all replicas are in sync")),
    "migrator": (*_BOTH_SIDES, _GUARD),
}
"""By use, as ``check rights --for`` names them. Of a move, the file may be the one of either side."""


class Resource(NamedTuple):
    """A topic, a group or a transactional id: the kind as ``kafka-acls`` names it, and the name."""

    kind: str
    name: str
    prefixed: bool = False

    def __str__(self) -> str:
        kind = self.kind.replace("-", " ")
        return f"{kind}s that begin with {self.name}" if self.prefixed else f"{kind} {self.name}"


def resources(on: On, topics: Sequence[str], group_id: str | None) -> list[Resource]:
    """Return what the words of the page are here; no group is known without a worker file."""
    if on in (On.TOPICS, On.SOURCE, On.DESTINATION):
        return [Resource("topic", topic) for topic in topics]
    if group_id is None:
        return []
    if on is On.GROUP:
        return [Resource("group", group_id)]
    if on is On.LEADER:
        return [Resource("transactional-id", f"connect-cluster-{group_id}")]
    return [Resource("transactional-id", f"{group_id}-", prefixed=True)]


class Missing(NamedTuple):
    """A right that a use needs and the principal lacks; ``unknown``: it could not be seen."""

    use: str
    right: str
    on: Resource
    need: Need
    unknown: bool


def missing(
    use: str, held: Mapping[Resource, HeldRights], topics: Sequence[str], group_id: str | None, *, exactly_once: bool
) -> Iterator[Missing]:
    """Yield what a use needs and the principal does not have, as far as that is known."""
    for need in NEEDS[use]:
        if need.when is When.EXACTLY_ONCE and not exactly_once:
            continue
        for resource in resources(need.on, topics, group_id):
            has = held.get(resource, HeldRights(complete=False))
            if has.exists and need.when is When.TOPIC_IS_MISSING:
                continue
            for right in need.rights:
                implied = right == "DESCRIBE" and _INCLUDES_DESCRIBE & has.names
                if right not in has.names and not implied:
                    yield Missing(use, right, resource, need, unknown=not has.complete and right != "CREATE")


def find(found: Collection[Missing], held: Mapping[Resource, HeldRights], client: ClientSettings) -> Iterator[Finding]:
    """Yield one finding for each resource and reason."""
    for resource in dict.fromkeys(each.on for each in found):
        here = [each for each in found if each.on == resource]
        lacking = [each for each in here if not each.unknown]
        if needed := [each for each in lacking if each.need.when is not When.RECOMMENDED]:
            rights, uses = _rights(needed), _uses(needed)
            gone = not held[resource].exists
            yield Finding(
                "rights-missing",
                Severity.ERROR,
                str(resource),
                "it does not exist and may not be created" if gone else f"{rights} not allowed",
                f"needed by {uses}",
                "create it, or give the principal the right; User:NAME stands for it"
                if gone
                else "give the principal the right; User:NAME stands for it",
                _allow(client, resource, needed),
            )
        if recommended := [each for each in lacking if each.need.when is When.RECOMMENDED]:
            yield Finding(
                "rights-guard-blind",
                Severity.WARNING,
                str(resource),
                "live workers of this group cannot be seen: DESCRIBE not allowed",
                f"{' and '.join(each.use for each in recommended)} refuse to write while workers of the group run; without "
                "this right Kafka hides the workers, and nothing is refused",
                "give the principal the right; User:NAME stands for it",
                _allow(client, resource, recommended),
            )
        if unknown := [each for each in here if each.unknown]:
            yield Finding(
                "rights-unknown",
                Severity.NOTE,
                str(resource),
                f"whether {_rights(unknown)} is allowed cannot be seen: {_unseen(resource)}",
                f"needed by {_uses(unknown)}",
                "look at the ACLs; User:NAME stands for the principal",
                client.kafka_tool("kafka-acls", "--list", "--principal", "User:NAME"),
            )


def _rights(found: Collection[Missing]) -> str:
    return ", ".join(sorted({each.right for each in found}))


def _uses(found: Collection[Missing]) -> str:
    return "; ".join(dict.fromkeys(f"{each.use} ({each.need.why})" for each in found))


def _unseen(resource: Resource) -> str:
    if resource.kind == "transactional-id":
        return "Kafka tells it to nobody but a producer that takes the id over"
    return "it does not exist" if resource.kind == "topic" else "Kafka does not tell it of a group of workers"


def _allow(client: ClientSettings, resource: Resource, found: Collection[Missing]) -> str:
    operations = [word for right in sorted({each.right for each in found}) for word in ("--operation", right)]
    pattern = ["--resource-pattern-type", "prefixed"] if resource.prefixed else []
    named = [f"--{resource.kind}", resource.name, *pattern]
    return client.kafka_tool("kafka-acls", "--add", "--allow-principal", "User:NAME", *operations, *named)


_DEFAULT: Final = ("worker", "stores", "console")


def _add_options(parser: Parser) -> None:
    add_topics(parser, folds=False)
    parser.add_argument(
        "--for",
        dest="uses",
        metavar="USE",
        choices=tuple(NEEDS),
        action="append",
        help=f"{', '.join(NEEDS)}; may be repeated; {', '.join(_DEFAULT)} by default",
    )
    parser.set_defaults(all_groups=False)


def _check_rights(arguments: argparse.Namespace, out: Output) -> Result:
    topic_set = topic_set_of(arguments)
    if topic_set.worker is None:
        out.note("without -w FILE no group is known: only rights on the topics were checked")
    uses, topics = list(dict.fromkeys(arguments.uses or _DEFAULT)), topic_set.topics.values()
    findings, lacking = findings_of(topic_set, uses)
    members = {
        use: {
            name: [{"right": each.right, "on": str(each.on)} for each in found if each.unknown is unknown]
            for name, unknown in (("missing", False), ("unknown", True))
        }
        for use, found in lacking.items()
    }
    table = Table(("USE", "CHECKED", "MISSING"), [_row(use, found, uses) for use, found in lacking.items()])
    return findings_result(findings, ", ".join(topics), {"uses": members, "checked": uses}, between=[table])


def findings_of(topic_set: TopicSet, uses: Sequence[str]) -> tuple[list[Finding], dict[str, list[Missing]]]:
    """Return what is found for these uses, errors first, and what is missing for each use there is."""
    worker, topics = topic_set.worker, list(topic_set.topics.values())
    group_id = None if worker is None else worker.group_id
    with RightsAdmin(topic_set.settings, client_id=CONSOLE_CLIENT_ID) as admin:
        held = {Resource("topic", topic): rights for topic, rights in admin.topic_rights(topics).items()}
        if group_id is not None:
            held[Resource("group", group_id)] = admin.group_rights([group_id])[group_id]
    exactly_once = worker is not None and worker.uses_transactional_leader
    lacking = {use: list(missing(use, held, topics, group_id, exactly_once=exactly_once)) for use in NEEDS}
    found = find([each for use in uses for each in lacking[use]], held, topic_set.settings)
    return errors_first(found), lacking


def _row(use: str, found: list[Missing], uses: list[str]) -> tuple[str, str, str]:
    texts = [f"{each.right} on {each.on}{' (cannot be seen)' if each.unknown else ''}" for each in found]
    return use, "yes" if use in uses else "no", "; ".join(texts) or "nothing"


def _find_all(sources: CheckSources) -> list[Finding]:
    uses = ("console",) if sources.topic_set.worker is None else ("worker", "console")
    return findings_of(sources.topic_set, uses)[0]


CHECK: Final = Check(
    "rights",
    "may the principal do what is needed?",
    "Ask Kafka what the principal of the worker file may do with the topics and the group, and compare that "
    "with what each use needs: a Java worker, the Python stores, the console, create topics, the migrator. Reads only; "
    "exit code 1 if something is missing for what is asked for with --for.",
    _find_all,
    place=15,
    run=_check_rights,
    options=_add_options,
    examples=("-w worker.properties", "-w worker.properties --for stores --for migrator --output json"),
)
