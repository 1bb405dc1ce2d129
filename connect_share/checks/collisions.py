"""Groups that are in each other's way, or look as if."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from connect_share.checks.check import Check
from connect_share.checks.finding import Finding, Severity, limited, named, place
from connect_share.checks.sources import GroupState, TopicsState
from connect_share.console.options import Group, group_order, shown_group
from connect_share.model.config_state import TargetState
from connect_share.model.keys import connector_of
from connect_share.model.records import TopicType
from connect_share.model.status import TAKE_APART
from connect_share.worker_config.override_policy import SINK_GROUP_PROPERTY, is_sink, sink_group_id

_Places = dict[str, list[tuple[Group, str]]]


def find(state: TopicsState, plain_group_id: str | None = None) -> Iterator[Finding]:
    """Yield what is found between the groups of the topics."""
    where = ", ".join(state.topics.values())
    if state.two_clusters is not None:
        yield two_plain_clusters(state.topics[TopicType.STATUS], state.two_clusters)
    yield from _odd_keys(state, where)
    yield from _nested(state.groups, where)
    yield from _transactional_ids(state, where)
    yield from _sinks(state, where)
    ids = {each.group or plain_group_id for each in state.groups}
    yield from _group_of_sinks(sorted(filter(None, ids)), state, where)
    yield from _same_sources(state, where)


TWO_PLAIN_CLUSTERS: Final = "collision-two-plain-clusters"


def two_plain_clusters(status_topic: str, what: str) -> Finding:
    """Return the finding of two clusters with plain keys on one set of topics."""
    return Finding(
        TWO_PLAIN_CLUSTERS,
        Severity.ERROR,
        status_topic,
        what,
        "each runs the connectors of both: every record is read twice, and what is paused or removed in one is so in the "
        "other",
        "stop one of them, and take them apart: OWNERS is a file that says whose each connector is",
        TAKE_APART,
    )


def _odd_keys(state: TopicsState, where: str) -> Iterator[Finding]:
    for each in state.groups:
        if each.kept.odd_keys:
            yield Finding(
                "collision-ambiguous-key",
                Severity.WARNING,
                place(where, each.group),
                f"keys in which a second key seems to begin: {named(sorted(each.kept.odd_keys))}",
                "either connectors have such names, and other tools take them for records of another group; or a group whose "
                "id is no legal cluster group id writes here, and its records are taken for this group's",
                "if there is such a group, give it another group.id; if these are connectors, give them other names",
                group=shown_group(each.group),
            )


def _nested(groups: Iterable[GroupState], where: str) -> Iterator[Finding]:
    ids = {each.group for each in groups if each.group is not None}
    for group in sorted(ids):
        parts = group.split(".")
        outer = [each for end in range(1, len(parts)) if (each := ".".join(parts[:end])) in ids]
        if outer:
            yield Finding(
                "collision-nested-ids",
                Severity.NOTE,
                place(where, group),
                f"its keys begin like those of {named(outer)}",
                "workers and this program tell them apart; a script that looks for a prefix alone takes both",
                "look for the whole key, or choose ids of which none is the beginning of another",
                group=group,
            )


def _transactional_ids(state: TopicsState, where: str) -> Iterator[Finding]:
    found: _Places = defaultdict(list)
    for each in state.groups:
        if each.group is not None:
            for connector in each.config.task_count_records():
                if each.config.contains(connector):
                    found[f"{each.group}-{connector}"].append((each.group, connector))
    for name, places in sorted(found.items()):
        if len(places) > 1:
            yield Finding(
                "collision-transactional-ids",
                Severity.ERROR,
                where,
                f"tasks of {_shown(places)} have the same transactional ids, {named([name])}-<task>",
                "with exactly-once, each fences the other's producers: tasks fail again and again",
                "give one of the connectors another name",
            )


def _sinks(state: TopicsState, where: str) -> Iterator[Finding]:
    for group, places in sorted(_consumer_groups(state.groups).items()):
        if len(places) > 1:
            yield Finding(
                "collision-sink-group",
                Severity.WARNING,
                where,
                f"sinks of several groups have one consumer group: {_shown(places)}",
                f"if they read from one Kafka cluster, they share {named([group])}: each gets a part of the records",
                f"give them different names, or one of them {SINK_GROUP_PROPERTY}",
            )


def _group_of_sinks(group_ids: Iterable[str], state: TopicsState, where: str) -> Iterator[Finding]:
    found = _consumer_groups(state.groups)
    for group_id in group_ids:
        if group_id in found:
            yield Finding(
                "collision-group-of-sink",
                Severity.ERROR,
                where,
                f"group.id {group_id} is the consumer group of {_shown(found[group_id])}",
                "on one Kafka cluster a group is one of workers or one of consumers: whoever comes second fails with "
                "InconsistentGroupProtocolException",
                f"give the sink another name or {SINK_GROUP_PROPERTY}, or the workers another group.id",
            )


def _consumer_groups(groups: Iterable[GroupState]) -> _Places:
    found: _Places = defaultdict(list)
    for each in groups:
        for connector in each.config.connectors():
            config = each.config.connector_config(connector) or {}
            if is_sink(config):
                found[sink_group_id(connector, config)].append((each.group, connector))
    return found


def _same_sources(state: TopicsState, where: str) -> Iterator[Finding]:
    found: dict[bytes, list[Group]] = defaultdict(list)
    for each in state.groups:
        for original in each.offsets.raw:
            found[original].append(each.group)
    writing: _Places = defaultdict(list)
    states = {each.group: each.config for each in state.groups}
    for original, groups in found.items():
        connector = connector_of(TopicType.OFFSET, original) if len(groups) > 1 else None
        if connector is None:
            continue
        started = [
            (group, connector)
            for group in groups
            if states[group].contains(connector) and states[group].target_state(connector) is TargetState.STARTED
        ]
        writing[connector] += [each for each in started if len(started) > 1 and each not in writing[connector]]
    for _, places in sorted(writing.items()):
        if places:
            yield Finding(
                "collision-same-source",
                Severity.NOTE,
                where,
                f"connectors of one name read the same source partitions: {_shown(places)}",
                "if that is one source and not two that are called the same, every record of it is read twice",
                "stop one of them, if one has taken the other's place",
            )


def _shown(places: Iterable[tuple[Group, str]]) -> str:
    ordered = sorted(places, key=lambda each: (group_order(each[0]), each[1]))
    return named([f"{connector} of {shown_group(group)}" for group, connector in ordered])


CHECK: Final = Check(
    "collisions",
    "are groups or connectors in each other's way?",
    "Look for two clusters with plain keys, ids and names that are read in two ways, transactional ids and consumer "
    "groups that connectors of two groups share, and sources that two groups read.",
    lambda sources: limited(find(sources.state, sources.plain_group_id)),
    refuses_group="collisions are between groups",
    place=40,
)
