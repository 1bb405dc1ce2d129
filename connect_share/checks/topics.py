"""``check topics``: replicas of the topics, their places, and whether work continues if a broker fails."""

from __future__ import annotations

import argparse
import enum
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from connect_share.checks.check import Check
from connect_share.checks.finding import Finding, Severity, findings_result, policy_finding
from connect_share.checks.orphans import find_lost
from connect_share.checks.sources import CheckSources
from connect_share.console.options import Parser, add_replication_factor, add_topics, output_file, topic_set_of
from connect_share.console.output import Output, Result, plural
from connect_share.errors import (
    AuthorizationError,
    BrokerError,
    ConnectShareError,
    TopicMissingError,
    UsageError,
    command_line,
)
from connect_share.files import write_private_file, writing
from connect_share.kafka.admin import Admin
from connect_share.kafka.create import (
    MIN_ISR,
    ONE_PARTITION,
    UNCLEAN_ELECTION,
    TopicSpec,
    alter_command,
    counted,
    largest_setting,
    policy_fault,
    safe_min_isr,
    stops_with_one_broker,
    topic_specs,
)
from connect_share.kafka.descriptions import BrokerDescription, NewTopicRequest, PartitionDescription, TopicDescription
from connect_share.kafka.limits import FOREVER_MS, TopicLimits
from connect_share.kafka.read import console_admin
from connect_share.kafka.shared_set import TopicDifference, setting_differences
from connect_share.model.config_state import closed_by
from connect_share.model.records import TopicType
from connect_share.worker_config import ClientSettings

Replicas = Mapping[tuple[str, int], tuple[int, ...]]
"""By topic and partition the brokers that hold it, or should; the first one leads when it can."""


def one_rack(replicas: Sequence[int], racks: Mapping[int, str | None]) -> str | None:
    """Return the rack in which all replicas are; ``None`` if there are several, or one is not known, or one replica only."""
    found = {racks.get(broker) for broker in replicas}
    return found.pop() if len(replicas) > 1 and len(found) == 1 else None


def reassigned(partitions: Replicas, wanted: Mapping[str, int], brokers: Sequence[BrokerDescription]) -> Replicas:
    """Plan the partitions that have too few replicas, or all of them in one rack.

    Existing replicas stay, and stay first, so the leader does not move; the last one is given up only where all are in one
    rack. New ones go to the rack that has fewest of the partition, there to the broker with fewest replicas, then to the
    lowest id: the same input always gives the same plan. A partition that cannot have all replicas wanted is left out.

    Only ``brokers``, which are up, get new replicas. Return the partitions that change, by topic and partition.
    """
    racks = {broker.id: broker.rack for broker in brokers}
    busy = Counter(broker for replicas in partitions.values() for broker in replicas)
    planned = {}
    for place, existing in sorted(partitions.items()):
        replicas = _placed(existing, wanted.get(place[0], 0), racks, busy)
        if replicas != existing:
            busy.subtract(existing)
            busy.update(replicas)
            planned[place] = replicas
    return planned


def _placed(
    existing: tuple[int, ...], wanted: int, racks: Mapping[int, str | None], busy: Mapping[int, int]
) -> tuple[int, ...]:
    kept = list(existing)
    several_racks = len({rack for rack in racks.values() if rack is not None}) > 1
    if several_racks and len(kept) >= wanted and one_rack(kept, racks) is not None:
        kept.pop()
    target = max(wanted, len(existing))
    while len(kept) < target:
        used = Counter(racks.get(broker) for broker in kept)
        free = [broker for broker in racks if broker not in kept]
        if not free:
            return existing
        kept.append(min(free, key=lambda broker: (used[racks[broker]], busy.get(broker, 0), broker)))
    return tuple(kept)


def reassignment_json(planned: Replicas) -> dict[str, Any]:
    """Return the plan in the form that ``kafka-reassign-partitions --reassignment-json-file`` reads."""
    partitions = [
        {"topic": topic, "partition": partition, "replicas": list(replicas)}
        for (topic, partition), replicas in planned.items()
    ]
    return {"version": 1, "partitions": partitions}


_Note = Callable[[str], object]
_STOPS: Final = "workers cannot start, or cannot read and write"
_ONE_FAILURE: Final = "the failure of one broker, or of one rack, stops the groups, or takes records with it"
_MOVE: Final = command_line("connect-share", "check", "topics", "-w", "FILE", "--reassignment", "PLAN")
"""It writes where replicas should be, and prints the command of Kafka that carries it out."""
_E, _W = Severity.ERROR, Severity.WARNING


class FindingKind(enum.Enum):
    """The kinds of findings: the name, which is public, severity, why it matters, and whether the remedy is a command."""

    MISSING = "missing", _E, _STOPS, True
    CANNOT_BE_CREATED = "cannot-be-created", _E, _STOPS, False
    NO_LEADER = "no-leader", _E, _STOPS, False
    PARTITION_COUNT = "partition-count", _E, _STOPS, False
    UNCLEAN_ELECTION = "unclean-leader-election", _W, "workers continue from an older state, without an error", True
    MIN_INSYNC_REPLICAS = "min-insync-replicas", _W, _ONE_FAILURE, True
    TOO_FEW_REPLICAS = "too-few-replicas", _W, _ONE_FAILURE, False
    ONE_RACK = "one-rack", _W, _ONE_FAILURE, False
    UNDER_REPLICATED = "under-replicated", _W, _ONE_FAILURE, False
    OLD_TIMES = "old-timestamps", _W, "what keeps the times of records is refused: restore, reseal, moves", True


_ID: Final = "topics-"


def kind_of(finding: Finding) -> str:
    """Return the kind of a finding about a topic, as :class:`FindingKind` names it."""
    return finding.id.removeprefix(_ID)


def topic_of(finding: Finding) -> str:
    """Return the topic of a finding; findings that differ in the partition only are shown together."""
    return finding.where.removesuffix(f"[{finding.partition}]")


@dataclass(frozen=True, slots=True)
class WatchedTopic:
    """A topic that is checked.

    Attributes:
        replicas: it should have; ``None`` if that cannot be seen.
        factor_from: setting that asks for these, for people.
        needed_by: the effect of a missing topic.
        internal: Kafka creates it when it is first used.
        unclean_wanted: the worker file asks for unclean elections.
    """

    topic: str
    replicas: int | None
    factor_from: str
    needed_by: str
    internal: bool = False
    single_partition: bool = False
    unclean_wanted: bool = False

    def finding(self, kind: FindingKind, what: str, remedy: str, partition: int | None = None) -> Finding:
        """Return a finding about this topic; ``what`` is without its name."""
        where = self.topic if partition is None else f"{self.topic}[{partition}]"
        name, severity, why, is_command = kind.value
        command = remedy if is_command or remedy is _MOVE else None
        return Finding(f"{_ID}{name}", severity, where, what, why, remedy, command, partition=partition)


@dataclass(frozen=True)
class ClusterFacts:
    """The answers of the cluster.

    Settings in ``configs`` are effective ones; a topic is absent where they may not be seen. ``moved_by`` is the plan by
    which the config topic was closed, if every group of it was moved away.
    """

    brokers: Sequence[BrokerDescription]
    topics: Mapping[str, TopicDescription]
    configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    client: ClientSettings = field(default_factory=ClientSettings)
    moved_by: str | None = None


def find(facts: ClusterFacts, watched: Sequence[WatchedTopic]) -> tuple[Finding, ...]:
    """Return the findings, topics in the order given, partitions in order."""
    return tuple(finding for topic in watched for finding in _of_topic(facts, topic))


def plan_replicas(facts: ClusterFacts, watched: Sequence[WatchedTopic]) -> Replicas:
    """Return the partitions whose replicas have to change: there are too few, or all are in one rack."""
    wanted = {topic.topic: topic.replicas or 0 for topic in watched}
    partitions = {
        (topic, partition.id): partition.replicas
        for topic, description in facts.topics.items()
        if topic in wanted
        for partition in description.partitions
    }
    return reassigned(partitions, wanted, facts.brokers)


def _of_topic(facts: ClusterFacts, watched: WatchedTopic) -> Iterator[Finding]:
    description = facts.topics.get(watched.topic)
    if description is None:
        yield from _missing(facts, watched)
        return
    alter = partial(alter_command, facts.client, watched.topic)
    configs = facts.configs.get(watched.topic, {})
    topic_type = TopicType.CONFIG if watched.single_partition else TopicType.OFFSET
    moved_by = facts.moved_by if watched.single_partition else None
    fault = policy_fault(topic_type, watched.topic, configs, facts.client, moved_by)
    if fault is not None:
        yield policy_finding("topics", watched.topic, fault)
    if watched.single_partition and len(description.partitions) != 1:
        yield watched.finding(
            FindingKind.PARTITION_COUNT,
            f"has {len(description.partitions)} partitions, so its records have no order and no worker starts",
            ONE_PARTITION,
        )
    if not watched.internal and not watched.unclean_wanted and configs.get(UNCLEAN_ELECTION) == "true":
        yield watched.finding(
            FindingKind.UNCLEAN_ELECTION,
            f"has {UNCLEAN_ELECTION}=true: after a broker's failure workers may read an older state and continue from it",
            alter({UNCLEAN_ELECTION: "false"}),
        )
    min_isr = configs.get(MIN_ISR, "")
    fewest = description.fewest_replicas
    if stops_with_one_broker(min_isr, fewest):
        yield watched.finding(
            FindingKind.MIN_INSYNC_REPLICAS,
            f"has {MIN_ISR}={min_isr} and {fewest} replicas: every write stops as soon as one broker is down",
            alter({MIN_ISR: str(safe_min_isr(fewest))}),
        )
    limit = None if watched.internal else TopicLimits.of(configs).before
    if limit is not None:
        what = f"has {limit[0]}={limit[1]}: nobody may write records that are older than so many milliseconds"
        yield watched.finding(FindingKind.OLD_TIMES, what, alter({limit[0]: str(FOREVER_MS)}))
    racks = {broker.id: broker.rack for broker in facts.brokers}
    for partition in description.partitions:
        yield from _of_partition(facts, watched, partition, racks)


def _missing(facts: ClusterFacts, watched: WatchedTopic) -> Iterator[Finding]:
    up = len(facts.brokers)
    if watched.replicas is not None and watched.replicas > up:
        yield watched.finding(
            FindingKind.CANNOT_BE_CREATED,
            f"does not exist and cannot be created: {watched.factor_from} is {watched.replicas} and "
            f"{counted(up, ' broker')} up; until then {watched.needed_by}",
            f"start more brokers, or set {watched.factor_from} to {up}",
        )
    elif not watched.internal:
        create = command_line("connect-share", "create", "topics", "-w", "FILE")
        yield watched.finding(FindingKind.MISSING, f"does not exist: {watched.needed_by}", create)


def _of_partition(
    facts: ClusterFacts, watched: WatchedTopic, partition: PartitionDescription, racks: Mapping[int, str | None]
) -> Iterator[Finding]:
    if partition.leader is None:
        what = f"has no leader: nothing can be read or written; replicas on brokers {_list(partition.replicas)}"
        remedy = f"start {_of(partition.isr or partition.replicas)}"
        yield watched.finding(FindingKind.NO_LEADER, what, remedy, partition.id)
    elif partition.missing:
        down = [broker for broker in partition.missing if broker not in racks]
        missing = _of(partition.missing)
        what = f"has {len(partition.isr)} of {len(partition.replicas)} replicas in sync, missing {missing}"
        remedy = f"start {_of(down)}" if down else f"look at the logs of {missing}: it is up, but does not replicate"
        yield watched.finding(FindingKind.UNDER_REPLICATED, what, remedy, partition.id)
    count = len(partition.replicas)
    if watched.replicas is not None and count < watched.replicas:
        what = f"has {count} of the {plural(watched.replicas, 'replica')} that {watched.factor_from} asks for"
        remedy = _MOVE
        if len(facts.brokers) < watched.replicas:
            remedy = f"start brokers, {watched.replicas} have to be up; then check again"
        yield watched.finding(FindingKind.TOO_FEW_REPLICAS, what, remedy, partition.id)
    rack = one_rack(partition.replicas, racks)
    if rack is not None and len({broker.rack for broker in facts.brokers} - {None}) > 1:
        what = f"has all replicas in rack {rack}"
        yield watched.finding(FindingKind.ONE_RACK, what, _MOVE, partition.id)


def _of(brokers: Sequence[int]) -> str:
    return f"broker{'' if len(brokers) == 1 else 's'} {_list(brokers)}"


def _list(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers))


_OWN: Final = (
    (
        "__consumer_offsets",
        "offsets.topic.replication.factor",
        "all consumer groups wait without an error, those of sink connectors included",
    ),
    (
        "__transaction_state",
        "transaction.state.log.replication.factor",
        "no transaction can begin, those of exactly-once workers included",
    ),
)
"""Kafka's own topics: name, the brokers' setting for the replicas, the effect if it is missing."""


@dataclass(frozen=True)
class Inspection:
    """What was found of the topics of a worker, and of Kafka's own.

    Attributes:
        reassignment: partitions that should get other replicas.
        differences: of existing topics from how ``create topics`` would make them; none of them is a finding.
    """

    topics: tuple[str, ...]
    findings: tuple[Finding, ...]
    reassignment: Replicas
    differences: tuple[tuple[str, TopicDifference], ...] = ()


def _inspect_topics(admin: Admin, specs: Sequence[TopicSpec], moved_by: str | None, note: _Note) -> Inspection:
    """Check the topics of a worker, and ``__consumer_offsets`` and ``__transaction_state`` against the brokers' settings."""
    settings: dict[int, dict[str, str]] = {}
    try:
        settings = admin.broker_settings()
    except AuthorizationError as exc:
        note(f"the replication factors that the brokers are set to were not checked: {exc}")
    for name in ("default.replication.factor", *(factor for _, factor, _ in _OWN)):
        values = {found.get(name) for found in settings.values()} - {None}
        if len(values) > 1:
            shown = ", ".join(f"{found.get(name)} on broker {broker}" for broker, found in sorted(settings.items()))
            note(f"the brokers differ in {name} ({shown}); the largest is what is checked")
    watched = [_watched(spec, largest_setting(settings, "default.replication.factor")) for spec in specs]
    watched += [
        WatchedTopic(topic, largest_setting(settings, factor), factor, stops, internal=True)
        for topic, factor, stops in _OWN
    ]
    looked_at = tuple(topic.topic for topic in watched)
    facts, watched = _asked(admin, watched, note)
    facts = replace(facts, moved_by=moved_by)
    watched = [topic for topic in watched if not _granted_anyway(admin, facts, topic, note)]
    findings, reassignment = find(facts, watched), plan_replicas(facts, watched)
    return Inspection(looked_at, findings, reassignment, tuple(_differences(facts, specs, watched)))


def _differences(
    facts: ClusterFacts, specs: Sequence[TopicSpec], watched: Sequence[WatchedTopic]
) -> Iterator[tuple[str, TopicDifference]]:
    wanted = {topic.topic: topic.replicas for topic in watched}
    for spec in specs:
        if spec.topic in facts.configs:
            has, settings = facts.topics[spec.topic].fewest_replicas, facts.configs[spec.topic]
            for difference in setting_differences(spec, wanted.get(spec.topic), settings, has=has):
                if not difference.matters:  # those that matter are among the findings
                    yield spec.topic, difference


def _watched(spec: TopicSpec, default: int | None) -> WatchedTopic:
    factor = spec.setting_name("replication.factor")
    return WatchedTopic(
        spec.topic,
        spec.replication_factor if spec.replication_factor > 0 else default,
        factor if spec.replication_factor > 0 else f"default.replication.factor ({factor} is -1)",
        "workers without the right to create topics will not start",
        single_partition=spec.topic_type is TopicType.CONFIG,
        unclean_wanted=spec.configs.get(UNCLEAN_ELECTION) == "true",
    )


def _asked(admin: Admin, watched: Sequence[WatchedTopic], note: _Note) -> tuple[ClusterFacts, list[WatchedTopic]]:
    """Return the brokers' answers, and the topics that can be judged by them."""
    topics = admin.describe_topics((each.topic for each in watched if not each.internal), together=True)
    configs: dict[str, dict[str, str]] = {}
    seen = []
    for topic in watched:
        try:
            if topic.internal:
                topics |= admin.describe_topics([topic.topic])
            seen.append(topic)
            if topic.topic in topics:
                configs[topic.topic] = admin.topic_configs(topic.topic)
        except AuthorizationError as exc:
            note(f"{topic.topic} was checked only in part: {exc}")
    return ClusterFacts(admin.brokers(), topics, configs, admin.settings), seen


def _granted_anyway(admin: Admin, facts: ClusterFacts, watched: WatchedTopic, note: _Note) -> bool:
    """Return whether Kafka would create its own topic although brokers are missing: on KRaft dead ones count."""
    if not watched.internal or watched.topic in facts.topics or (watched.replicas or 0) <= len(facts.brokers):
        return False
    try:
        admin.create_topic(NewTopicRequest(watched.topic, 1, watched.replicas or -1), validate_only=True)
    except BrokerError:  # Kafka would not, or the request is not allowed
        return False
    note(f"{watched.topic} does not exist; if it is needed now it gets replicas on brokers that are down")
    return True


def _add_options(parser: Parser) -> None:
    add_topics(parser)
    add_replication_factor(parser)
    parser.add_argument(
        "--reassignment",
        metavar="FILE",
        type=output_file,
        help="write where replicas should be, for kafka-reassign-partitions; only if some have to move",
    )


def _check_topics(arguments: argparse.Namespace, out: Output) -> Result:
    topic_set = topic_set_of(arguments)
    sources = CheckSources(topic_set, out, worker_file=arguments.worker_config)
    lost, inspection = _inspected(sources, topic_specs(topic_set, arguments.replication_factor))
    gone = {each.where for each in lost}
    found = [each for each in inspection.findings if kind_of(each) != "missing" or each.where not in gone]
    inspection = replace(inspection, findings=tuple(sources.with_file([*lost, *found])))
    plan = reassignment_json(inspection.reassignment) if inspection.reassignment else None
    written = arguments.reassignment if plan is not None else None
    if written is not None:
        with writing(written, UsageError):
            write_private_file(written, f"{json.dumps(plan, indent=2)}\n".encode(), mode=0o644)
    file = written or Path("reassignment.json")
    command = topic_set.settings.kafka_tool("kafka-reassign-partitions", "--reassignment-json-file", file)
    members = {
        "topics": list(inspection.topics),
        "differences": [{"topic": topic, **asdict(found)} for topic, found in inspection.differences],
        "findings": [
            {"kind": kind_of(each), "topic": topic_of(each), "message": f"{each.where} {each.what}"}
            | {"partition": each.partition, **each.to_dict()}
            for each in inspection.findings
        ],
        "reassignment": plan,
        "reassignment_file": None if written is None else str(written),
        "reassignment_command": None if plan is None else command,
    }
    lines, where = _lines(inspection, written, command), ", ".join(inspection.topics)
    code = 1 if any(each.severity is not Severity.NOTE for each in inspection.findings) else 0
    return replace(findings_result(_grouped(inspection.findings), where, members, between=lines), code=code)


def _lines(inspection: Inspection, written: Path | None, command: str) -> Iterator[str]:
    if written is not None:
        partitions = plural(len(inspection.reassignment), "partition")
        yield from ("", f"{written} has the new replicas of {partitions}; carry it out with:")
        yield from (f"    {command} {step}" for step in ("--execute", "--verify"))
    if inspection.differences:
        yield "not as create topics would make it (no finding):"
    for topic, difference in inspection.differences:
        yield f"    {topic}: {difference}"


def _grouped(findings: Sequence[Finding]) -> list[Finding]:
    """Merge findings that differ in the partition only: they are of ``topic[0-24]``."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((topic_of(finding), finding.what, finding.remedy), []).append(finding)
    merged = []
    for (topic, _, _), members in groups.items():
        partitions = [each.partition for each in members if each.partition is not None]
        merged.append(replace(members[0], where=f"{topic}[{_ranges(partitions)}]" if partitions else topic))
    return merged


def _ranges(numbers: Sequence[int]) -> str:
    """Write ascending numbers as ``0-4,7``."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def _on_the_topics(sources: CheckSources) -> tuple[list[Finding], str | None]:
    """Return what is lost, and the plan that has closed the config topic, if every group there was moved away."""
    lost = list[Finding]()
    try:
        lost = find_lost(sources)
        groups = sources.state.groups
        return lost, closed_by(state.config.moved for state in groups if state.records.get(TopicType.CONFIG))
    except TopicMissingError:
        pass  # the findings say so
    except ConnectShareError as error:
        sources.note(f"what lies there was not looked at, nor whether a move has closed the config topic: {error}")
    return lost, None


def _inspected(sources: CheckSources, specs: Sequence[TopicSpec]) -> tuple[list[Finding], Inspection]:
    with console_admin(sources.topic_set) as admin:
        admin.cluster_id()  # where no broker answers, one wait says so
        lost, moved_by = _on_the_topics(sources)
        return lost, _inspect_topics(admin, specs, moved_by, sources.note)


def _find_all(sources: CheckSources) -> list[Finding]:
    return _grouped(_inspected(sources, topic_specs(sources.topic_set))[1].findings)


CHECK: Final = Check(
    "topics",
    "do the topics have their replicas, and do writes continue if a broker fails?",
    "Check the topics of a worker, __consumer_offsets and __transaction_state: replicas, racks, "
    "min.insync.replicas, leaders, cleanup.policy. Reads only. Exit code 1 if something is found.",
    _find_all,
    place=10,
    run=_check_topics,
    options=_add_options,
    examples=("-w worker.properties", "-w worker.properties --reassignment new-replicas.json"),
)
