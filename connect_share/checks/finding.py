"""The form of what a check finds: what, where, why it matters, and what to do; how findings are chosen and shown."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from connect_share.console.options import Container, Group, shown_group
from connect_share.console.output import Result, Table, plural
from connect_share.errors import listed
from connect_share.kafka.create import PolicyFault

MOST_FINDINGS: Final = 100
"""A limit for each kind: any writer of a topic can make up connectors."""
IDS: Final = """
look-due lost-topic groups-left-out values-config values-status values-offset secrets-clear-text
order-tasks-dropped order-tasks-missing order-compaction order-half-reconfiguration
orphan-statuses orphan-task-statuses orphan-target-states orphan-task-configs orphan-topics orphan-offsets orphan-group
collision-two-plain-clusters collision-transactional-ids collision-ambiguous-key collision-sink-group
collision-group-of-sink collision-nested-ids collision-same-source sizes-too-large sizes-near-limit sizes-outgrown
transactions-open transactions-hanging liveness-no-workers liveness-unknown-worker liveness-unassigned
liveness-not-stopped liveness-no-status workers-other-topic workers-not-settled workers-protocol workers-idle
workers-leader-unreachable workers-rest-silent workers-rest-differs startup-setting startup-problem startup-slow
topics-missing topics-cannot-be-created topics-no-leader topics-partition-count topics-unclean-leader-election
topics-min-insync-replicas topics-too-few-replicas topics-one-rack topics-under-replicated topics-old-timestamps
topics-cleanup-policy topics-fenced topics-fence-lifted topics-fence-deletes worker-config worker-config-connector
sealing-plain-values sealing-plain-groups sealing-plain-beside-sealed sealing-plain-replaced sealing-refused-values
sealing-unknown-keys sealing-unused-keys sealing-many-values rights-missing rights-unknown rights-guard-blind
admit-id-illegal admit-not-shared admit-id-in-use admit-live-members admit-id-similar admit-id-dashes
admit-plain-cluster admit-exactly-once admit-sealing admit-startup
""".split()  # noqa: SIM905 - a list has a line for each
"""What checks and ``admit`` find; ``--ignore`` takes these."""
_MOST_NAMES: Final = 10
_LONGEST_NAME: Final = 100


class Severity(enum.Enum):
    """The severity of a finding, the worst one first; only errors make a check fail."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


_MEMBERS: Final = ("id", "severity", "group", "where", "what", "why", "remedy", "command")


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of any check.

    Attributes:
        id: of the kind of finding; public.
        where: a topic, a group or a file.
        command: that helps, ready for a shell; ``None`` if none does.
        group: whose, as ``--group`` takes it; ``None``: that of no group in particular.
        partition: of the topic; ``None``: the whole topic, or no topic.
        property_name: of a worker file, or of a connector; empty: none in particular.
        connector: whose configuration it is about; ``None``: none.
        add: lines for the end of a worker file; of several lines for one name the last one counts.
    """

    id: str
    severity: Severity
    where: str
    what: str
    why: str
    remedy: str
    command: str | None = None
    group: str | None = None
    partition: int | None = None
    property_name: str = ""
    connector: str | None = None
    add: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the members for JSON that findings of all checks have."""
        return {name: getattr(self, name) for name in _MEMBERS} | {"severity": self.severity.value}


_POLICY_EFFECTS: Final = {
    "cleanup-policy": "what Connect needs is deleted by age or size, and workers refuse to start on such a topic",
    "fenced": "its group runs elsewhere, and old workers that start by mistake end here",
    "fence-lifted": "an old worker runs everything twice, or joins the new ones' Kafka group",
    "fence-deletes": "a way back, and what compares both sides, need the records that lie here",
}


def policy_finding(command: str, topic: str, fault: PolicyFault) -> Finding:
    """Return the finding of a command for the policy of a topic."""
    severity, why = Severity.NOTE if fault.kind == "fenced" else Severity.ERROR, _POLICY_EFFECTS[fault.kind]
    return Finding(f"{command}-{fault.kind}", severity, topic, fault.what, why, fault.remedy, fault.command)


def of_group(group: Group, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings as those of one group, as many as :func:`limited` does."""
    return (replace(finding, group=shown_group(group)) for finding in limited(findings))


def errors_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings by severity, else in their order."""
    return sorted(findings, key=lambda finding: list(Severity).index(finding.severity))


def named(names: Sequence[str]) -> str:
    """Return the first of many names for people, each cut; they come from a topic."""
    shown = [name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..." for name in names]
    return listed(shown, _MOST_NAMES)


def place(topic: str, group: Group, connector: str | None = None) -> str:
    """Return where something is, for people."""
    of = "" if connector is None else f", connector {named([connector])}"
    return f"{topic}, group {named([shown_group(group)])}{of}"


def limited(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings of each kind up to :data:`MOST_FINDINGS`, then for each kind one that says how many more there are.

    Errors and warnings count each for themselves: who makes up warnings hides no error.
    """
    counts, last = Counter[tuple[str, Severity]](), dict[tuple[str, Severity], Finding]()
    for finding in findings:
        kind = (finding.id, finding.severity)
        counts[kind] += 1
        if counts[kind] <= MOST_FINDINGS:
            yield finding
        else:
            last[kind] = finding
    for kind, finding in last.items():
        more = plural(counts[kind] - MOST_FINDINGS, "more finding")
        yield replace(finding, what=f"and {more} of this kind, not shown")


def finding_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield findings as text."""
    for finding in findings:
        yield f"{finding.severity.value}: {finding.where}: {finding.what}"
        said = dict.fromkeys((finding.why, finding.remedy, finding.command))  # a remedy may be the command
        yield from (f"    {line}" for line in said if line)


def counted(findings: Iterable[Finding]) -> str:
    """Return how many findings there are, for people."""
    counts = Counter(finding.severity for finding in findings)
    found = ", ".join(plural(counts[severity], severity.value) for severity in Severity if counts[severity])
    return found or "nothing found"


def findings_result(
    findings: Sequence[Finding], where: str, members: Mapping[str, Any], *, between: Iterable[str | Table] = ()
) -> Result:
    """Return findings as what a command prints, with further members, and lines before the verdict."""
    return Result(
        {"findings": [finding.to_dict() for finding in findings], **members},
        [*finding_lines(findings), *between, f"{where}: {counted(findings)}"],
        exit_code(findings),
    )


def add_ignore(parser: Container) -> None:
    """Add ``--ignore``."""
    parser.add_argument(
        "--ignore",
        metavar="FINDING",
        choices=IDS,
        action="append",
        default=[],
        help="leave out findings with this id, may be repeated",
    )


def wanted(findings: Sequence[Finding], ignored: Collection[str]) -> list[Finding]:
    """Return findings without those of ignored kinds, errors first."""
    return errors_first(each for each in findings if each.id not in ignored)


def exit_code(findings: Sequence[Finding]) -> int:
    """Return 1 if a finding is an error."""
    return 1 if any(finding.severity is Severity.ERROR for finding in findings) else 0
