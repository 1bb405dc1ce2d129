"""What ``alter offsets``, ``reset offsets`` and ``copy offsets`` change of one connector, and how it is written."""

from __future__ import annotations

import datetime
import urllib.parse
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

from connect_share.backup.rewrite import Facts, StoppedGroup
from connect_share.console.options import Group, shown_group
from connect_share.console.output import plural
from connect_share.errors import (
    ConnectShareError,
    CopyError,
    LiveMembersError,
    PlainTopicsError,
    UsageError,
    also_saying,
    command_line,
    operand,
)
from connect_share.files import write_private_file, writing
from connect_share.kafka.admin import Admin
from connect_share.kafka.create import require_topics
from connect_share.kafka.due_look import due_path, load_due, mark_of
from connect_share.kafka.facts import TopicFacts, gather_facts, read_records, require_no_open_for, require_topic
from connect_share.kafka.limits import Extent
from connect_share.kafka.waits import Awaited
from connect_share.kafka.write import Written
from connect_share.kafka.write_access import TopicNeed, require_access
from connect_share.model.config_state import ClusterConfigState
from connect_share.model.connect_json import dumps
from connect_share.model.keys import connector_of, own_key, shown
from connect_share.model.offsets import offset_key, offset_value, parse_offset_key, partition_identity
from connect_share.model.records import Record, TopicType
from connect_share.storage.connect_storage import ConnectStorage
from connect_share.stores.alter_offsets import (
    UNREADABLE,
    ConsumerGroupsAdmin,
    OffsetChange,
    OffsetPair,
    StoredOffset,
    alter_sink_offsets,
    compare,
    is_usable,
    offsets_document,
    parsed_sink_offsets,
    reset_sink_offsets,
    sink_admin,
    sink_pairs,
)
from connect_share.stores.connector_offsets import OwnOffsetsConfig, not_stopped, own_offsets_worker_config
from connect_share.stores.offsets import wire_key
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.override_policy import is_sink

_Map = Mapping[str, Any]
_LONGEST_NAME: Final = 120
Places = list[tuple[WorkerConfig, TopicFacts]]
"""Topics up to their ends, and with whose settings they are read."""


class Worker:
    """A worker of a group, to read and change offsets as it would; creates no topic. ``stack`` closes it."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.path = path
        self.config = config = WorkerConfig.from_file(path)
        self.stopped = StoppedGroup(config, config.cluster_group_id, config.group_id, "changed")
        self._admin = stack.enter_context(Admin(config.admin_settings(), client_id=config.client_id("console")))
        needs = [TopicNeed(config, config.topic(each), ("READ",)) for each in (TopicType.CONFIG, TopicType.STATUS)]
        needs.append(TopicNeed(config, config.topic(TopicType.OFFSET), ("READ", "WRITE")))
        require_access(needs, to_write=False)
        require_topics(self._admin, {each: config.topic(each) for each in TopicType})
        require_no_open_for(config, self._admin)  # a start waits for as long as a transaction may last
        try:
            with Awaited(f"the topics of {path}"):
                self.storage = stack.enter_context(ConnectStorage(config))
        except PlainTopicsError as error:
            move = command_line("connect-share-migrate", "plan", "-w", "OLD", "--to-worker-config", path, "-o", "PLAN")
            raise PlainTopicsError(
                f"group {shown_group(self.group)} shares topics by {path}, but they hold only plain records: move these "
                f"first ({move}, then apply), or use the worker file of the group that wrote them"
            ) from error

    def changed(self, config: WorkerConfig, connector: str) -> ChangedOffsets:
        """Return the offsets of a connector in the topic of these settings."""
        return ChangedOffsets(config, config.cluster_group_id, config.group_id, "changed", connector=connector, at=self)

    def end_due_looks(self) -> None:
        """Look for what others wrote in the place of an earlier command that was killed, in a connector's own topic, too."""
        looks, texts = list[StoppedGroup](), list[str]()
        path = due_path(self.path, self.config.group_id, own=True)
        for due in (load_due(path) or {}).values():
            connector = due.connector or ""
            with also_saying(
                f"{path} says that offsets of it were written; if they are nowhere any more, remove this file"
            ):
                own = own_offsets_worker_config(self.config, connector, self.state.connector_config(connector) or {})
            looks += [] if own is None else [self.changed(own, connector)]
        for group in (*looks, self.stopped):
            try:
                group.end_due_look()
            except CopyError as error:
                texts.append(str(error))
        path.unlink(missing_ok=True)
        if texts:
            raise CopyError("; ".join(texts))

    def save(self, connector: str, folder: Path, pairs: Iterable[tuple[_Map | None, Any]]) -> Path:
        """Write offsets in the form of ``alter offsets --file``; return where."""
        name = f"{self.group or 'plain'}-{urllib.parse.quote(connector, safe='')}"[:_LONGEST_NAME]
        now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        path = folder / f"offsets-{name}-{now}.json"
        usable = [(at, None if old is UNREADABLE else old) for at, old in pairs]
        with writing(path):
            write_private_file(path, offsets_document(usable))
        return path

    def command(self, connector: str, path: Path) -> str:
        """Return the command that puts back what was saved, whether or not the connector is stopped."""
        is_stopped = self.state.contains(connector) and not_stopped(self.state, connector) is None
        options = ("-w", self.path, "--file", path, *([] if is_stopped else ["--force"]))
        return command_line("connect-share", "alter", "offsets", *options, *operand(connector))

    @property
    def group(self) -> Group:
        """The group whose offsets these are."""
        return self.config.cluster_group_id

    @property
    def state(self) -> ClusterConfigState:
        """What is configured."""
        return self.storage.config.snapshot()

    def offset_facts(self, connector: str) -> Places:
        """Return who reads the offsets of a connector, and the topic up to its end; one that is missing is an error."""
        own = own_offsets_worker_config(self.config, connector, self.state.connector_config(connector) or {})
        found = []
        for config in (self.config, *(() if own is None else (own,))):
            with Admin(config.admin_settings(), client_id=config.client_id("console")) as admin:
                remedy = (  # a worker would create it
                    f"so there are no offsets to change; check offsets.storage.topic of connector {shown(connector)} and the "
                    "cluster's address"
                )
                require_no_open_for(config, admin, [TopicType.OFFSET])
                topic = config.offset_storage_topic
                found.append((config, require_topic(gather_facts(admin, [topic]), topic, remedy=remedy)))
        return found

    def is_sink(self, connector: str) -> bool:
        """Return whether a connector seems to be a sink: by its configuration, and it has no source offsets."""
        return is_sink(self.state.connector_config(connector) or {}) and not self.storage.stored_offsets(connector)

    def sink(self, connector: str) -> AbstractContextManager[tuple[ConsumerGroupsAdmin, str]]:
        """Give an admin client of the cluster that a sink reads, and its consumer group."""
        return sink_admin(self.config, connector, self.state.connector_config(connector) or {})

    def stored_offsets(self, connector: str) -> list[StoredOffset]:
        """Return what a connector's tasks would find."""
        self.offset_facts(connector)
        return self.storage.stored_offsets(connector)

    def objections(self, connectors: Collection[str], *, force: bool) -> Iterator[ConnectShareError]:
        """Yield why these connectors may not be changed now, worst first; ``force``: whatever is configured.

        Source: ``DistributedHerder.modifyConnectorOffsetsChecks``; members are looked for because writing goes past them.
        """
        members = self._admin.connect_groups(self.config.group_id).get(self.config.group_id, 0)
        if members:
            yield LiveMembersError(
                f"{plural(members, 'live Connect worker')} of group {self.config.group_id!r}: stop the connectors "
                "(PUT /connectors/NAME/stop), then all workers of the group, or use the workers' own "
                "PATCH /connectors/NAME/offsets"
            )
        state = self.state
        for connector in () if force else connectors:
            if not state.contains(connector):
                yield ConnectShareError(
                    f"there is no connector {shown(connector)} in group {shown_group(self.group)}; "
                    f"--force changes offsets of a connector that is not configured"
                )
            elif (why_not := not_stopped(state, connector)) is not None:
                yield ConnectShareError(
                    f"{why_not}: start a worker and stop the connector (PUT /connectors/NAME/stop), or give --force "
                    "if nothing of it runs"
                )


@dataclass(frozen=True)
class ChangedOffsets(StoppedGroup):
    """The offsets of one connector, in its group's topic or in one of its own."""

    again: str = "Then look at all of them (get offsets)"
    at: Worker = field(kw_only=True, repr=False, compare=False)

    @property
    def shown(self) -> str:
        """The connector, for people."""
        return f"connector {shown(self.connector or '')}"

    @cached_property
    def due(self) -> Path:
        """Where the note of what was written is."""
        return due_path(self.at.path, self.group_id, own=isinstance(self.worker, OwnOffsetsConfig))

    def is_own(self, topic_type: TopicType, key: bytes | None) -> bool:
        """Return whether a key is the connector's."""
        original = None if key is None else own_key(topic_type, key, self.group)
        return original is not None and connector_of(topic_type, original) == self.connector

    def keep(self, file: Path, facts: Facts, places: Collection[tuple[str, int, int]]) -> str:
        """Write the last offset of each partition at these places to a file; return where, and what puts them back."""
        found: dict[bytes, tuple[_Map | None, Any]] = {}
        isolation = self.worker.isolation_of(self.group, TopicType.OFFSET)
        for record in read_records(self.worker, facts[TopicType.OFFSET].ranges(), isolation):
            original = own_key(TopicType.OFFSET, record.key or b"", self.group)
            if original is not None and (record.topic, record.partition, record.offset) in places:
                partition, (_, value) = parse_offset_key(original)[1], self._opened(TopicType.OFFSET, record)
                (change,) = compare([] if value is None else [(partition, value)], [(partition, None)])
                found[partition_identity(partition)] = partition, change.old
        connector = self.connector or ""
        path = self.at.save(connector, file.parent, [pair for pair in found.values() if is_usable(pair[0])])
        return f"{path}: {self.at.command(connector, path)}"


def _once(places: Places) -> Places:
    """Leave out the worker's own topic where a connector names it, too."""
    return [each for each in places if not (isinstance(each[0], OwnOffsetsConfig) and each[0].is_the_workers)]


@dataclass
class ConnectorPlan:
    """What is to be done to the offsets of one connector; ``resets``: all of them are forgotten."""

    of_sink: ClassVar[bool] = False
    worker: Worker = field(repr=False)
    connector: str
    wanted: list[OffsetPair] = field(repr=False)
    resets: bool = False
    changes: list[OffsetChange] = field(init=False, repr=False)
    _stored: list[StoredOffset] = field(init=False, repr=False)
    _facts: Places = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.compare()

    @property
    def needed(self) -> list[OffsetChange]:
        """The changes of which something has to be written."""
        return [change for change in self.changes if change.is_change]

    def look(self) -> list[StoredOffset]:
        """Return what is there now."""
        return self.worker.stored_offsets(self.connector)

    def compare(self) -> None:
        """Look at what is there now."""
        self._stored = self.look()
        if self.resets:
            self.wanted = [(partition, None) for partition, _ in self._stored]
        self.changes = compare(self._stored, self.wanted)

    def check_unchanged(self) -> None:
        """Refuse, before anything is written, if what is there is no longer what was shown."""
        self._facts = self.places()
        if self.look() != self._stored:
            raise ConnectShareError(
                f"offsets of connector {shown(self.connector)} were changed by somebody else after they were shown; nothing "
                "was changed here, look again"
            )

    def require_access(self) -> None:
        """Refuse what would be refused later: rights, and limits of the topics."""
        needs = list[TopicNeed]()
        for config, facts in self.places():
            seals, extent, group = config.seals(TopicType.OFFSET), Extent(), config.cluster_group_id
            for change in self.needed:
                key, value = wire_key(offset_key(self.connector, change.partition), group), offset_value(change.new)
                extent.add(Record(facts.topic, 0, 0, 0, key, seals.seal(key, value)))
            needs.append(TopicNeed(config, facts.topic, ("READ", "WRITE"), extent))
        require_access(needs)

    def places(self) -> Places:
        """Return the topics that are written to, and with whose settings."""
        return self.worker.offset_facts(self.connector)

    def apply(self, *, force: bool) -> int:
        """Write what is wanted; return the number of records."""
        storage = self.worker.storage
        if self.resets:
            return storage.reset_offsets(self.connector, force=force)
        return storage.alter_offsets(self.connector, self.wanted, force=force)

    def write(self, *, folder: Path, force: bool) -> int:
        """Write what is needed, and read it back; return the number of records. What is overtaken goes to a folder.

        ``ConnectShareError``: not allowed, not written, or somebody else has written meanwhile.
        """
        marks = Written(marks=self._marks())
        changed = [(self.worker.changed(config, self.connector), facts) for config, facts in _once(self._facts)]
        looks = [(group, group.note_due({TopicType.OFFSET: facts}, marks)) for group, facts in changed]
        some = f"of {plural(len(self.needed), 'offset')} of connector {shown(self.connector)} some may be there"
        with also_saying(f"Half done: {some}. When that is mended, the same command changes the rest"):
            written = self.apply(force=force)
        with also_saying("The offsets were written; run the command again, which looks at them again"):
            now = [facts for _, facts in _once(self.places())]
            hidden = [group.hidden(due, [at], folder / "offsets") for (group, due), at in zip(looks, now, strict=True)]
            self.compare()
        for group, _ in looks:
            group.due.unlink(missing_ok=True)
        texts = [str(error) for error in hidden if error is not None]
        if self.needed:
            texts.append(
                f"{plural(len(self.needed), 'offset')} of connector {shown(self.connector)} are not what was written: "
                "somebody else has written to them; look at them again (get offsets)"
            )
        if texts:
            raise ConnectShareError("; ".join(texts))
        return written

    def _marks(self) -> frozenset[str]:
        """Return the marks of all that may be written: each partition under every key that it is known to have."""
        values = {partition_identity(at): offset_value(new) for at, new in self.wanted}
        marks = set[str]()
        for at, _ in (*self.wanted, *self._stored):
            keys = {wire_key(offset_key(self.connector, at), config.cluster_group_id) for config, _ in self._facts}
            keys |= {*self.worker.storage.offsets.wire_keys(self.connector, at)}
            if (identity := partition_identity(at)) in values:
                marks |= {mark_of(key, values[identity]) for key in keys}
        return frozenset(marks)

    def save(self, folder: Path) -> Path:
        """Write the old offsets of what is needed to a file; return where. Nobody can use some partitions."""
        pairs = [(each.partition, each.old) for each in self.needed]
        usable = [(at, old) for at, old in pairs if (old is not None if self.of_sink else is_usable(at))]
        return self.worker.save(self.connector, folder, usable)


class SinkPlan(ConnectorPlan):
    """What is to be done to the offsets of a sink: those of its consumer group, on the cluster that it reads."""

    of_sink = True

    def look(self) -> list[StoredOffset]:
        """Return what is committed now."""
        with self.worker.sink(self.connector) as (admin, group):
            return [(at, dumps(offset)) for at, offset in sink_pairs(admin.group_offsets(group))]

    def compare(self) -> None:
        """Look at what is there now; a wrong pair is an error before anything is shown."""
        if not self.resets:
            self.wanted = [*sink_pairs(parsed_sink_offsets(self.wanted))]
        super().compare()
        # One offset of a group cannot be removed alone.
        self.changes = [replace(each, can_be_undone=each.old is not None) for each in self.changes]

    def places(self) -> Places:
        """Return nothing: a group keeps no history of others' commits."""
        return []

    def require_access(self) -> None:
        """Refuse what would be refused later: rights on the group and its topics."""
        wanted = sorted(parsed_sink_offsets(() if self.resets else self.wanted))
        with self.worker.sink(self.connector) as (admin, group):
            admin.require({topic: ("READ",) for topic, _ in wanted}, group, "DELETE" if self.resets else "READ")
            there = admin.describe_topics((topic for topic, _ in wanted), expected=True)
        for topic, partition in wanted:  # Kafka would commit the others
            if topic not in there or partition >= len(there[topic].partitions):
                raise UsageError(
                    f"the cluster that {shown(self.connector)} reads has no partition {topic}[{partition}]"
                )

    def apply(self, *, force: bool) -> int:  # noqa: ARG002 - as the caller asks all kinds
        """Commit what is wanted, or delete the group; return the number of offsets."""
        with self.worker.sink(self.connector) as (admin, group):
            if self.resets:
                reset_sink_offsets(admin, group)
            else:
                alter_sink_offsets(admin, group, self.wanted)
        return len(self.needed)
