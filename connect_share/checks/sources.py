"""What the checks look at: the state of each group, the few things about records that no state keeps, and how it is read.

Each source is asked for once, and only if a check needs it.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from connect_share.checks.finding import Finding, Severity
from connect_share.console.options import Group, for_java, groups_of, shown_group, topic_set_of
from connect_share.console.output import Output
from connect_share.contents.cost_model import load_model
from connect_share.contents.group_room import MOST_GROUPS, GroupRoom
from connect_share.contents.groups import Contents, read_topics
from connect_share.contents.startup import CountPlan, StartupProfile, count_topics, startup_profile
from connect_share.contents.workers import ANY_GROUP, live_worker_ids, not_seen
from connect_share.errors import command_line
from connect_share.kafka.create import number_of, require_topics
from connect_share.kafka.due_look import due_path
from connect_share.kafka.read import ASK_S, CONSOLE_CLIENT_ID, OpenTransaction, console_admin, find_open_transactions
from connect_share.kafka.waits import longest_wait_s
from connect_share.model.config_state import ClusterConfigState
from connect_share.model.keys import KEY_PREFIXES, ConfigKey, StatusKey, key_text, parse
from connect_share.model.offsets import OffsetSnapshot
from connect_share.model.records import Record, TopicType, now_ms
from connect_share.model.removal import is_removal
from connect_share.model.status import StatusSnapshot
from connect_share.model.writable import fault_of
from connect_share.transform.canonical import ConfigHistory
from connect_share.transform.rules import KeyTransform
from connect_share.worker_config import TopicSet

MOST_CHECKED: Final = 1_000
"""A limit: each group takes a millisecond of all checks, and any writer of a topic can invent groups."""
_MOST_KEPT: Final = 1_000
# What a reader that looks for the last dot, or for another group's prefix, takes for the beginning of an original key.
_SECOND_KEY: Final = re.compile(rb"\.(?:%b|session-key\Z)" % b"|".join(map(re.escape, KEY_PREFIXES)))


class GroupRecords:
    """What is kept of the records of one group while its topics are read.

    Attributes:
        history: of its config topic, as its workers have it.
        status_ms: the time of the newest status, by original key.
        refused: hashes of the keys on the config topic with a record that the group's workers refuse.
        odd_keys: original keys that live, and in which another key seems to begin.
        bad_statuses: statuses that no store would have written, and why, by original key; the newest of each key.
    """

    def __init__(self, group: Group) -> None:
        self.group = group
        self.history = ConfigHistory(KeyTransform.between(TopicType.CONFIG, group, group))
        self.status_ms: dict[bytes, int] = {}
        self.refused: set[int] = set()
        self.odd_keys: set[str] = set()
        self.bad_statuses: dict[bytes, tuple[Record, str]] = {}

    def add(self, topic_type: TopicType, original: bytes, applied: Record | None) -> None:
        """Take the next record; ``applied`` is what its workers apply in its place."""
        if topic_type is TopicType.OFFSET:
            return  # there may be millions, and their state is all that is needed
        if applied is not None and topic_type is TopicType.CONFIG:
            self.history.add([applied])
        if applied is not None and not (applied.key or b"").endswith(original):
            return  # it stands in the place of a replay
        if applied is not None and is_removal(topic_type, applied.value):
            self.odd_keys.discard(key_text(original))
        elif b"." in original and len(self.odd_keys) < _MOST_KEPT and _is_odd(topic_type, original):
            self.odd_keys.add(key_text(original))
        if applied is None:
            if topic_type is TopicType.CONFIG and len(self.refused) < _MOST_KEPT:
                self.refused.add(hash(original))
        elif topic_type is TopicType.STATUS:
            self._add_status(original, applied)

    def _add_status(self, original: bytes, record: Record) -> None:
        if record.value is None:
            self.status_ms.pop(original, None)
        else:
            self.status_ms[original] = record.timestamp_ms
        fault = fault_of(TopicType.STATUS, original, record.value)
        if fault is None:
            self.bad_statuses.pop(original, None)
        elif len(self.bad_statuses) < _MOST_KEPT:
            self.bad_statuses[original] = replace(record, value=None, headers=()), fault


def _is_odd(topic_type: TopicType, original: bytes) -> bool:
    key = parse(topic_type, original)
    # Names of loggers and topics have dots, and no reader looks for a key in them.
    free = key is None or key.kind in (ConfigKey.LOGGER_LEVEL, StatusKey.TOPIC)
    return not free and _SECOND_KEY.search(original) is not None


@dataclass(frozen=True)
class GroupState:
    """One group in the topics that were read; a state is empty where its topic was not.

    Attributes:
        sealed: topics whose values of this group cannot be opened; its state is empty there.
    """

    group: Group
    config: ClusterConfigState
    status: StatusSnapshot
    offsets: OffsetSnapshot
    kept: GroupRecords = field(repr=False)
    sealed: frozenset[TopicType] = frozenset()
    records: Mapping[TopicType, int] = field(default_factory=dict)

    def is_unknown(self, original: bytes) -> bool:
        """Return whether all that a key on the config topic says may be refused; of too many keys it is not known."""
        refused = self.kept.refused
        return original not in self.kept.history.latest and (hash(original) in refused or len(refused) == _MOST_KEPT)

    def may_live(self, connector: str) -> bool:
        """Return whether a connector is configured, or its configuration was refused."""
        return self.config.contains(connector) or self.is_unknown(ConfigKey.CONNECTOR.key(connector))

    @cached_property
    def config_faults(self) -> dict[bytes, str]:
        """What is wrong with the newest records of the config topic, by original key."""
        latest = self.kept.history.latest
        judged = ((key, fault_of(TopicType.CONFIG, key, record.value)) for key, record in latest.items())
        return {key: fault for key, fault in judged if fault is not None}


@dataclass(frozen=True)
class TopicsState:
    """The topics that were read.

    Attributes:
        two_clusters: if plain keys seem to be those of two clusters: that, and what to do.
    """

    topics: Mapping[TopicType, str]
    groups: Sequence[GroupState]
    two_clusters: str | None = None


_LOOK_DUE: Final = Finding(
    "look-due",
    Severity.ERROR,
    "",
    "a command that wrote to the group was ended before it looked for what others wrote meanwhile",
    "an offset or a configuration that another writer knows to be written may lie behind a record of that command",
    "look now: what is hidden goes to a file, and the command that puts it back is printed",
    command_line("connect-share", "repair", "order", "-w", "FILE", "--dry-run"),
)
_LOOK_AT_OWN: Final = command_line("connect-share", "reset", "offsets", "-w", "FILE", "--matching", "*", "--dry-run")
REQUEST_SIZE: Final = 1_048_576
"""Default of a producer's ``max.request.size``."""


@dataclass(eq=False, repr=False)
class CheckSources:
    """What one run of checks has read so far; notes go to stderr once.

    Attributes:
        only: the groups that are wanted; ``None``: all.
        reads: the topics whose contents are read.
        rest: addresses of workers to ask; an empty one is that which a group's leader gives.
        java: Java workers run the worker file.
        collides: collisions between groups are findings, and no notes.
        limit: how many groups beside those that were named are looked at; the first ones on the config topic come first.
    """

    topic_set: TopicSet
    out: Output
    _: KW_ONLY
    worker_file: Path | None = None
    only: Collection[Group] | None = None
    reads: Collection[TopicType] = tuple(TopicType)
    rest: Sequence[str] = ()
    java: bool = True
    collides: bool = False
    limit: int = MOST_GROUPS

    def __post_init__(self) -> None:
        self.now_ms = now_ms()
        self._noted: set[str] = set()

    @classmethod
    def asked(
        cls,
        arguments: argparse.Namespace,
        out: Output,
        reads: Collection[TopicType] = tuple(TopicType),
        needs: Sequence[TopicType] = (),
    ) -> CheckSources:
        """Return those that the arguments name; without the topics in ``needs`` there is nothing to look at."""
        return cls(
            topic_set_of(arguments, needs),
            out,
            worker_file=arguments.worker_config,
            only=groups_of(arguments.groups),
            reads=reads,
            rest=getattr(arguments, "rest", ()),
            java=for_java(arguments),
            collides=arguments.command.name in ("check all", "check collisions"),
            limit=MOST_CHECKED,
        )

    @classmethod
    def of_file(cls, path: Path, out: Output, *, java: bool = True) -> CheckSources:
        """Return those of a worker file."""
        return cls(TopicSet.from_worker_file(path), out, worker_file=path, java=java)

    def note(self, *texts: str) -> None:
        """Print notes that were not printed yet."""
        for text in texts:
            if text not in self._noted:
                self._noted.add(text)
                self.out.note(text)

    def with_file(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return findings of the groups that are wanted, and of none in particular.

        Their commands name the worker file in the place of ``FILE``, where it is that of their group. The first ones come
        behind that of a look that is due.
        """
        names = None if self.only is None else {None, *map(shown_group, self.only)}
        found, worker = [each for each in findings if names is None or each.group in names], self.topic_set.worker
        if self.worker_file is None or worker is None:
            return found
        commands = {True: _LOOK_AT_OWN, False: _LOOK_DUE.command}  # the first one looks at both
        due = [own for own in commands if due_path(self.worker_file, worker.group_id, own=own).exists()]
        if due and "look-due" not in self._noted:
            self._noted.add("look-due")
            group = shown_group(worker.cluster_group_id)
            found.insert(0, replace(_LOOK_DUE, where=str(self.worker_file), group=group, command=commands[due[0]]))
        own, named = (None, shown_group(worker.cluster_group_id)), f"-w {shlex.quote(str(self.worker_file))}"
        for number, each in enumerate(found):
            if each.command and each.group in own:
                command = re.sub(r"-w FILE(?!\w)", lambda _: named, each.command)
                remedy = command if each.remedy == each.command else each.remedy
                found[number] = replace(each, command=command, remedy=remedy)
        return found

    @cached_property
    def _read(self) -> tuple[Contents, dict[Group, GroupRecords]]:
        kept: dict[Group, GroupRecords] = {}

        def look(topic_type: TopicType, group: Group, original: bytes, applied: Record | None) -> None:
            if group not in kept:
                kept[group] = GroupRecords(group)
            kept[group].add(topic_type, original, applied)

        wanted = [topic_type for topic_type in self.topic_set.topics if topic_type in self.reads]
        room = GroupRoom(self.topic_set.own, limit=self.limit, forget={"records": lambda group: kept.pop(group, None)})
        contents = read_topics(self.topic_set, wanted, look=look, room=room)
        for topic in contents.topics.values():
            self.note(*(text for text in topic.notes if not self.collides or text != topic.two_clusters))
        return contents, kept

    @property
    def contents(self) -> Contents:
        """The topics, folded for every group."""
        return self._read[0]

    @cached_property
    def state(self) -> TopicsState:
        """The same as the checks want it."""
        return topics_state(*self._read)

    @cached_property
    def groups(self) -> list[GroupState]:
        """The groups that are wanted: those that were named, or all."""
        found = [each for each in self.state.groups if self.only is None or each.group in self.only]
        unknown = sorted(map(shown_group, {*(self.only or ())} - {each.group for each in found}))
        self.note(*(f"group {name} has no records on the topics that were read" for name in unknown))
        return found

    @cached_property
    def profile(self) -> StartupProfile:
        """The sizes of all three topics, and what a start costs."""
        plan = CountPlan.of(self.topic_set)
        self.note(*plan.notes)
        return startup_profile(count_topics(plan, self.out), load_model(), now_ms=plan.now_ms)

    @cached_property
    def members(self) -> Mapping[str, tuple[str | None, ...]]:
        """The worker ids of the live members of each Connect group; of those on the topics none that is not known."""
        ids = {self.group_id_of(each.group) or ANY_GROUP for each in self.state.groups}
        ids |= set() if self.topic_set.worker is None else {self.topic_set.worker.group_id}
        with console_admin(self.topic_set) as admin:
            found = live_worker_ids(admin, ids)
        self.note(*not_seen(ids - found.keys()))
        return found

    @cached_property
    def plain_group_id(self) -> str | None:
        """The Connect group of the cluster with plain keys, if its worker file was given."""
        worker = self.topic_set.worker
        return None if worker is None or worker.cluster_group_id is not None else worker.group_id

    @cached_property
    def request_size(self) -> int:
        """The largest request of the worker's producers; Kafka's default without a worker file."""
        worker = self.topic_set.worker
        given = None if worker is None else number_of(worker.originals, "max.request.size")
        return REQUEST_SIZE if given is None else given

    def group_id_of(self, group: Group) -> str | None:
        """Return the Connect group of a group; ``None``: plain keys do not tell whose they are."""
        return self.plain_group_id if group is None else str(group)

    def members_of(self, group: Group) -> int | None:
        """Return the number of live members of a group; ``None``: that is not known."""
        found = self.members.get(self.group_id_of(group) or "")
        return None if found is None else len(found)

    def open_transactions(self) -> list[OpenTransaction]:
        """Return the transactions that are open on the topics now."""
        with console_admin(self.topic_set) as admin:
            topics = require_topics(admin, self.topic_set.topics)
            places = [(name, each.id) for name, topic in topics.items() for each in topic.partitions]
            return find_open_transactions(
                admin, admin.settings, places, client_id=CONSOLE_CLIENT_ID, timeout_s=longest_wait_s(ASK_S)
            )


def topics_state(contents: Contents, kept: Mapping[Group, GroupRecords]) -> TopicsState:
    """Return what was read as the checks want it."""
    status = contents.topics.get(TopicType.STATUS)
    return TopicsState(
        {topic_type: topic.topic for topic_type, topic in contents.topics.items()},
        [
            GroupState(
                group,
                contents.config_of(group),
                contents.status_of(group),
                contents.offsets_of(group),
                kept[group],
                frozenset(topic_type for topic_type in contents.topics if contents.is_sealed(topic_type, group)),
                {topic_type: topic.records_of(group) for topic_type, topic in contents.topics.items()},
            )
            for group in contents.groups()
        ],
        None if status is None else status.two_clusters,
    )
