"""What is left on the topics of connectors that have no configuration any more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from connect_share.checks.check import Check
from connect_share.checks.finding import Finding, Severity, named, of_group, place
from connect_share.checks.sources import CheckSources, GroupState
from connect_share.console.options import shown_group
from connect_share.console.output import plural
from connect_share.errors import LostTopicError, command_line, operand
from connect_share.kafka.create import GONE, LOST, way_back
from connect_share.model.keys import MARKER, ConfigKey, StatusKey, connector_of, subject_of
from connect_share.model.records import TopicType
from connect_share.model.removal import is_removal

_CONFIG, _STATUS, _OFFSET = TopicType.CONFIG, TopicType.STATUS, TopicType.OFFSET
_STATUSES, _TASK_STATUSES, _TOPICS = "orphan-statuses", "orphan-task-statuses", "orphan-topics"
_TARGET_STATES, _TASK_CONFIGS, _OFFSETS = "orphan-target-states", "orphan-task-configs", "orphan-offsets"


@dataclass
class Orphans:
    """Original keys of a group that belong to no connector, or to no task, and whose they were, by the finding's id."""

    by_id: defaultdict[str, dict[bytes, str]] = field(default_factory=lambda: defaultdict(dict), repr=False)

    def keys(self, topic_type: TopicType) -> list[bytes]:
        """Return the original keys on a topic."""
        return [key for kind, on, *_ in _KINDS if on is topic_type for key in self.by_id[kind]]


def is_lost(state: GroupState) -> bool:
    """Return whether statuses or offsets are there, and no record of the config topic names a connector, removed or not."""
    named = any(connector_of(_CONFIG, original) for original in state.kept.history.latest)
    others = bool(state.kept.status_ms or state.offsets.raw or state.sealed)
    return others and not named and _CONFIG not in state.sealed


def find_lost(sources: CheckSources) -> list[Finding]:
    """Return the topics that are lost: for all groups, or for each that a worker file or live workers vouch for.

    What only statuses or offsets speak of, beside configurations of others, anybody can have invented: it is an orphan.
    """
    try:
        topics = sources.state.topics
    except LostTopicError as error:
        every, said = sources.topic_set.topics.items(), str(error)
        return [_lost(sources, topic_type, GONE) for topic_type, topic in every if f"topic {topic} is lost," in said]
    lost = [state for state in sources.state.groups if _CONFIG in topics and is_lost(state)]
    what = "has no record that names a connector, and statuses or offsets do: it was made anew, or emptied"
    if lost and len(lost) == len(sources.state.groups):
        return [_lost(sources, _CONFIG, what)]
    own = sources.topic_set.worker_group or ()
    vouched = [each.group for each in lost if each.group in own or sources.members_of(each.group)]
    return [replace(_lost(sources, _CONFIG, what), group=shown_group(group)) for group in vouched]


def _lost(sources: CheckSources, topic_type: TopicType, what: str) -> Finding:
    command = command_line("connect-share", "restore", "BACKUP", "-w", "FILE", "--only", topic_type.value, "--dry-run")
    topic, why = sources.topic_set.topics[topic_type], "workers that start on it begin anew"
    return Finding(LOST, Severity.ERROR, topic, f"is lost, not empty: it {what}", why, way_back(topic_type), command)


def orphans_of(state: GroupState, read: Collection[TopicType]) -> Orphans:
    """Return what of a group belongs to nothing; nothing where its configurations are not known."""
    found = Orphans()
    if _CONFIG not in read or _CONFIG in state.sealed:
        return found
    for original, record in state.kept.history.latest.items():
        subject = subject_of(_CONFIG, original)
        if (
            subject is None
            or is_removal(_CONFIG, record.value)
            or original == MARKER[0]  # what fences a group that was moved away
            or state.may_live(subject.connector)
        ):
            continue
        if subject.kind in (ConfigKey.TASK, ConfigKey.COMMIT, ConfigKey.TASK_COUNT):
            found.by_id[_TASK_CONFIGS][original] = subject.connector
        elif subject.kind is ConfigKey.TARGET_STATE:
            found.by_id[_TARGET_STATES][original] = subject.connector
    if _STATUS in read and _STATUS not in state.sealed:
        for original in state.kept.status_ms:
            _sort_status(state, original, found)
    for original in state.offsets.raw:
        connector = connector_of(_OFFSET, original)
        if connector is not None and not state.may_live(connector):
            found.by_id[_OFFSETS][original] = connector
    return found


def _sort_status(state: GroupState, original: bytes, found: Orphans) -> None:
    subject = subject_of(_STATUS, original)
    if subject is None:
        return
    if not state.may_live(subject.connector):
        found.by_id[_TOPICS if subject.kind is StatusKey.TOPIC else _STATUSES][original] = subject.connector
    elif subject.kind is StatusKey.TASK and isinstance(subject.part, int):
        # Only where a commit is known to say how many there are.
        known = subject.connector not in state.config.inconsistent_connectors()
        known = known and not state.is_unknown(ConfigKey.COMMIT.key(subject.connector))
        if known and subject.part >= state.config.task_count(subject.connector):
            found.by_id[_TASK_STATUSES][original] = f"{subject.connector}-{subject.part}"


_STALE: Final = "tools show them as if it were there; a leader removes them at its next rebalance, if it still runs"
_GONE: Final = "connectors without a configuration"
_KINDS: Final = (
    (_STATUSES, _STATUS, Severity.WARNING, f"statuses of {_GONE}", _STALE),
    (_TASK_STATUSES, _STATUS, Severity.WARNING, "statuses of tasks above the number of tasks", _STALE),
    (
        _TOPICS,
        _STATUS,
        Severity.NOTE,
        f"topics in use by {_GONE}",
        "a connector of that name that is made again seems to use them",
    ),
    (
        _TASK_CONFIGS,
        _CONFIG,
        Severity.NOTE,
        f"task configurations, commits and task counts of {_GONE}",
        "Connect never removes them; every start of every group reads them, and they may hold secrets",
    ),
    (
        _TARGET_STATES,
        _CONFIG,
        Severity.WARNING,
        f"target states of {_GONE}",
        "a connector of that name that is made again begins in that state",
    ),
    (
        _OFFSETS,
        _OFFSET,
        Severity.NOTE,
        f"source offsets of {_GONE}",
        "Connect keeps them: a connector of that name that is made again continues there instead of at the beginning",
    ),
)


def find(topics: Mapping[TopicType, str], state: GroupState, members: int | None) -> Iterator[Finding]:
    """Yield what is found of a group; ``members`` is the number of its live workers, ``None`` if that is not known."""
    orphans = orphans_of(state, topics)
    for kind, topic_type, severity, what, why in _KINDS:
        keys = orphans.by_id[kind]
        offsets = ["--offsets"] if topic_type is _OFFSET else []
        if keys and not is_lost(state):
            yield Finding(
                kind,
                severity,
                place(topics[topic_type], state.group),
                f"{what}, {plural(len(keys), 'record')}: {named(sorted(set(keys.values())))}",
                why,
                "remove them, unless such a connector is about to be made again",
                command_line("connect-share", "repair", "orphans", "-w", "FILE", *offsets),
            )
    is_known = _CONFIG in topics and not state.kept.refused and _CONFIG not in state.sealed
    is_empty = is_known and not state.config.connectors() and state.config.moved is None
    if is_empty and not members:
        yield Finding(
            "orphan-group",
            Severity.WARNING,
            place(", ".join(topics.values()), state.group),
            f"{plural(sum(state.records.values()), 'record')} and no connector"
            + ("" if members is None else ", and no worker of it is alive"),
            "every start of every group on these topics reads them",
            "check a group that is in use with its own worker file: its configurations may be lost. If it is gone for good, "
            "remove what is left of it",
            None
            if state.group is None or is_lost(state)
            else command_line("connect-share", "delete", "group", "-w", "FILE", "--dry-run", *operand(state.group)),
        )


def _in_groups(sources: CheckSources) -> Iterator[Finding]:
    yield from (lost := find_lost(sources))
    gone = {each.group for each in lost}
    if None in gone:
        return  # there is nothing that could be read
    for state in [each for each in sources.groups if shown_group(each.group) not in gone]:
        yield from of_group(state.group, find(sources.state.topics, state, sources.members_of(state.group)))
    for topic in sources.contents.topics.values():
        if topic.beyond:
            yield Finding(
                "groups-left-out",
                Severity.WARNING,
                topic.topic,
                f"{topic.beyond:,} record(s) of further groups were not looked at, by any check",
                "who may write to a topic can invent groups; each start of every group reads them",
                "name those that are wanted with --group, or in the worker file; remove the right of whoever invents them",
            )


CHECK: Final = Check(
    "orphans",
    "what is left of connectors and groups that are gone?",
    "Look for statuses, topics in use, target states, task configurations and offsets of connectors without a "
    "configuration, for statuses of tasks above the number of tasks, and for groups without any connector.",
    _in_groups,
    needs=(_CONFIG,),
    place=55,
)
