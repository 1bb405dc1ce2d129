"""``alter offsets``, ``reset offsets`` and ``copy offsets``: change the offsets of connectors that do not run."""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import urllib.parse
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Final

from connect_share.backup.rewrite import StoppedGroup
from connect_share.cli.get import json_text_of
from connect_share.console import (
    Command,
    Group,
    Output,
    Parser,
    Result,
    add_worker_file,
    confirmed,
    plural,
    said_left_out,
    shown_group,
    worker_file,
)
from connect_share.errors import (
    ConnectShareError,
    LiveMembersError,
    PlainTopicsError,
    UsageError,
    also_saying,
    command_line,
    operand,
)
from connect_share.files import write_private_file
from connect_share.kafka.admin import Admin
from connect_share.kafka.create import require_topics
from connect_share.kafka.due_look import mark_of
from connect_share.kafka.facts import (
    TopicFacts,
    gather_facts,
    ranges_since,
    read_records,
    require_no_open_for,
    require_topic,
)
from connect_share.kafka.limits import Extent
from connect_share.kafka.waits import Awaited
from connect_share.kafka.write import Written
from connect_share.kafka.write_access import READ, WRITE, TopicNeed, require_access
from connect_share.model.config_state import ClusterConfigState
from connect_share.model.connect_json import dumps
from connect_share.model.keys import connector_of, own_key, shown
from connect_share.model.offsets import offset_key, offset_value, parse_offset_key, partition_identity
from connect_share.model.records import Record, TopicType
from connect_share.storage.connect_storage import ConnectStorage, refused_by
from connect_share.stores.alter_offsets import (
    MOST_BYTES,
    UNREADABLE,
    ConsumerGroupsAdmin,
    OffsetChange,
    OffsetPair,
    StoredOffset,
    alter_sink_offsets,
    compare,
    is_of_sink,
    is_usable,
    offsets_document,
    parse_offsets,
    parse_partition,
    parsed_sink_offsets,
    reset_sink_offsets,
    sink_admin,
    sink_pairs,
    usable_pairs,
)
from connect_share.stores.connector_offsets import not_stopped, own_offsets_worker_config
from connect_share.stores.offsets import wire_key
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config.override_policy import is_sink
from connect_share.worker_config.strimzi import offsets_in

_RULES: Final = (
    "No worker of the group that is changed may be alive, and its connectors must be STOPPED. The changes are shown first, "
    "and the old offsets go to a file from which alter offsets puts them back. With exactly-once all tasks are fenced first."
)
_Map = Mapping[str, Any]
_UNASKED: Final = "nothing was changed: give --yes to change the offsets without a prompt"
_LONGEST_NAME: Final = 120
_place_of: Final = attrgetter("bootstrap_servers", "cluster_group_id", "offset_storage_topic", "config_storage_topic")


class Worker:
    """A worker of a group, to read and change offsets as it would; creates no topic. ``stack`` closes it."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.path = path
        self.config = config = WorkerConfig.from_file(path)
        self.stopped = StoppedGroup(config, config.cluster_group_id, config.group_id, "changed")
        self._admin = stack.enter_context(Admin(config.admin_settings(), client_id=config.client_id("console")))
        needs = {TopicType.CONFIG: (READ,), TopicType.STATUS: (READ,), TopicType.OFFSET: (READ, WRITE)}
        require_access((TopicNeed(config, config.topic(each), need) for each, need in needs.items()), to_write=False)
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

    @property
    def group(self) -> Group:
        """The group whose offsets these are."""
        return self.config.cluster_group_id

    @property
    def state(self) -> ClusterConfigState:
        """What is configured."""
        return self.storage.config.snapshot()

    def offset_facts(self, connector: str) -> list[tuple[WorkerConfig, TopicFacts]]:
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

    def refusals(self, connectors: Collection[str], *, force: bool) -> Iterator[ConnectShareError]:
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
    _facts: list[tuple[WorkerConfig, TopicFacts]] = field(init=False, repr=False)

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

    def needs(self) -> Iterator[TopicNeed]:
        """Yield what is needed of each topic where the offsets are."""
        for config, facts in self._facts:
            seals, extent, group = config.seals(TopicType.OFFSET), Extent(), config.cluster_group_id
            for change in self.needed:
                key, value = wire_key(offset_key(self.connector, change.partition), group), offset_value(change.new)
                sealed = value if seals is None else seals.seal(key, value)
                extent.add(Record(facts.topic, 0, 0, 0, key, sealed))
            yield TopicNeed(config, facts.topic, (READ, WRITE), extent)

    def places(self) -> list[tuple[WorkerConfig, TopicFacts]]:
        """Return the topics that are written to, and with whose settings."""
        return self.worker.offset_facts(self.connector)

    def require_access(self) -> None:
        """Refuse what would be refused later: rights, and limits of the topics."""
        require_access(self.needs())

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
        group, keys = self.worker.stopped, self.worker.storage.offsets.wire_keys
        marks = frozenset(
            mark_of(key, offset_value(new))
            for at, new in self.wanted
            for key in {wire_key(offset_key(self.connector, at), group.group), *keys(self.connector, at)}
        )
        for _, facts in self._facts[:1]:  # a kill may leave no time to look
            group.note_due({TopicType.OFFSET: facts}, Written(marks=marks))
        some = f"of {plural(len(self.needed), 'offset')} of connector {shown(self.connector)} some may be there"
        with also_saying(f"Half done: {some}. When that is mended, the same command changes the rest"):
            written = self.apply(force=force)
        with also_saying("The offsets were written; run the command again, which looks at them again"):
            theirs = self._theirs({partition_identity(partition): new for partition, new in self.wanted})
            self.compare()
        group.due.unlink(missing_ok=True)
        counting = {partition_identity(each.partition) for each in self.needed}
        overtaken = [pair for at, pair in theirs.items() if at not in counting]
        texts, of = [], f"of connector {shown(self.connector)}"
        if self.needed:
            texts.append(
                f"{plural(len(self.needed), 'offset')} {of} are not what was written: somebody else has written to them; "
                "look at them again (get offsets)"
            )
        if overtaken:
            path = self.save(folder, overtaken)
            texts.append(
                f"somebody else has written {plural(len(overtaken), 'offset')} {of} meanwhile, and they count no more: find "
                f"out who it is, and stop it. They are in {path}: {self.command(path)} puts them back"
            )
        if texts:
            raise ConnectShareError("; ".join(texts))
        return written

    def save(self, folder: Path, pairs: Iterable[tuple[_Map | None, Any]]) -> Path:
        """Write offsets in the form of ``alter offsets --file``; return where. Nobody can use some partitions."""
        name = f"{self.worker.group or 'plain'}-{urllib.parse.quote(self.connector, safe='')}"[:_LONGEST_NAME]
        now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        path = folder / f"offsets-{name}-{now}.json"
        usable = [
            (at, None if old is UNREADABLE else old)
            for at, old in pairs
            if (old is not None if self.of_sink else is_usable(at))
        ]
        try:
            write_private_file(path, offsets_document(usable))
        except OSError as error:
            raise ConnectShareError(
                f"offsets cannot be written to {path} ({error.strerror}); name another --backup-dir"
            ) from None
        return path

    def command(self, path: Path) -> str:
        """Return the command that puts back what was saved."""
        options = ("-w", self.worker.path, "--file", path)
        return command_line("connect-share", "alter", "offsets", *options, *operand(self.connector))

    def _theirs(self, wanted: Mapping[bytes, Any]) -> dict[bytes, OffsetPair]:
        """Return what others have written last of the partitions that were changed, other values than are wanted."""
        found: dict[bytes, OffsetPair] = {}
        for (config, before), (_, now) in zip(self._facts, self.places(), strict=True):
            ranges, seals = ranges_since(now.topic, before.ends, now.ends), config.seals(TopicType.OFFSET)
            for record in read_records(config, ranges, config.isolation(TopicType.OFFSET)):
                original = own_key(TopicType.OFFSET, record.key or b"", self.worker.group)
                taken = record if seals is None else seals.accepted(record)
                if original is None or taken is None or connector_of(TopicType.OFFSET, original) != self.connector:
                    continue
                partition = parse_offset_key(original)[1]
                at, stored = partition_identity(partition), [] if taken.value is None else [(partition, taken.value)]
                if at in wanted:
                    (change,) = compare(stored, [(partition, wanted[at])])
                    found |= {at: (partition, change.old)} if change.is_change else {}
        return found


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

    def places(self) -> list[tuple[WorkerConfig, TopicFacts]]:
        """Return nothing: a group keeps no history of others' commits."""
        return []

    def require_access(self) -> None:
        """Refuse what would be refused later: rights on the group and its topics."""
        wanted = sorted(parsed_sink_offsets(() if self.resets else self.wanted))
        with self.worker.sink(self.connector) as (admin, group):
            admin.require({topic: (READ,) for topic, _ in wanted}, group, "DELETE" if self.resets else READ)
            there = admin.describe_topics(topic for topic, _ in wanted)
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


def _connectors_of(arguments: argparse.Namespace, worker: Worker) -> list[str]:
    """Return the connectors that were named or match, each once."""
    matching = sorted(
        name for name in worker.state.connectors() if any(fnmatchcase(name, each) for each in arguments.matching)
    )
    found = list(dict.fromkeys([*arguments.connectors, *matching]))
    if not found:
        raise UsageError(
            f"no connector of group {shown_group(worker.group)} matches"
            if arguments.matching
            else "name a connector, or give --matching PATTERN"
        )
    return found


def _check_usage(arguments: argparse.Namespace) -> None:
    """Refuse what can never work, before a cluster is asked."""
    if not arguments.backup_dir.is_dir() or not os.access(arguments.backup_dir, os.W_OK):
        raise UsageError(f"--backup-dir: {arguments.backup_dir} is not a folder that can be written to")


def _alter(arguments: argparse.Namespace, out: Output) -> Result | int:
    """Set the offsets of one connector."""
    _check_usage(arguments)
    data = offsets_in(_read(arguments.file))
    pairs = parse_offsets(data, of_sinks=True)
    with ExitStack() as stack:
        worker, name = Worker(arguments.worker_config, stack), arguments.connector
        if any(is_of_sink(at) for at, _ in pairs) and (worker.is_sink(name) or not worker.state.contains(name)):
            return _carry_out(arguments, out, [SinkPlan(worker, name, pairs)])
        return _carry_out(arguments, out, [ConnectorPlan(worker, name, parse_offsets(data))])


def _reset(arguments: argparse.Namespace, out: Output) -> Result | int:
    """Forget the offsets of connectors."""
    _check_usage(arguments)
    partitions = [(parse_partition(text), None) for text in arguments.partitions or ()]
    with ExitStack() as stack:
        worker = Worker(arguments.worker_config, stack)
        plans = list[ConnectorPlan]()
        for name in _connectors_of(arguments, worker):
            plan_of = SinkPlan if worker.is_sink(name) else ConnectorPlan
            plans.append(plan_of(worker, name, [*partitions], resets=not partitions))
        return _carry_out(arguments, out, plans)


def _copy(arguments: argparse.Namespace, out: Output) -> Result | int:
    """Copy the offsets of connectors."""
    _check_usage(arguments)
    if arguments.to is None and arguments.to_worker_config is None:
        raise UsageError("say where to: --to NAME, --to-worker-config FILE, or both")
    if arguments.to is not None and (len(arguments.connectors) != 1 or arguments.matching):
        raise UsageError("--to is the name for one connector; several keep their names")
    with ExitStack() as stack:
        source = Worker(arguments.worker_config, stack)
        other = arguments.to_worker_config
        destination = source if other is None else Worker(other, stack)
        plans: list[ConnectorPlan] = []
        for name in _connectors_of(arguments, source):
            to = arguments.to or name
            if to == name and (destination is source or _place_of(destination.config) == _place_of(source.config)):
                raise UsageError(f"connector {shown(name)} would be copied to itself")
            try:
                if source.is_sink(name):
                    plans.append(_copied_sink(source, destination, name, to))
                    continue
            except ConnectShareError as error:
                if not arguments.matching:
                    raise
                out.note(f"{name} not copied: {error}")
            stored = source.stored_offsets(name)
            if not stored and not arguments.matching:
                raise ConnectShareError(
                    f"connector {shown(name)} of group {shown_group(source.group)} has no source offsets to copy"
                )
            pairs = usable_pairs(stored)
            if len(pairs) < len(stored):
                out.note(
                    f"{plural(len(stored) - len(pairs), 'offset')} of {name} not copied: no connector can use them"
                )
            plans.append(ConnectorPlan(destination, to, pairs))
            if not_stopped(source.state, name) is not None:
                out.note(
                    f"{name} ({shown_group(source.group)}) is not stopped: what it commits from now on is not copied"
                )
        return _carry_out(arguments, out, plans)


def _copied_sink(source: Worker, destination: Worker, name: str, to: str) -> SinkPlan:
    with source.sink(name) as (admin, group), destination.sink(to) as (other, _):
        if admin.cluster_id() != other.cluster_id():
            by_time = other.settings.setting_by_time()
            raise UsageError(
                f"sink {shown(name)} and {shown(to)} read two Kafka clusters: the same number is another record there. Set "
                f"those of the other sink by time: {by_time}"
            )
        return SinkPlan(destination, to, [*sink_pairs(admin.group_offsets(group))])


def _carry_out(arguments: argparse.Namespace, out: Output, plans: Sequence[ConnectorPlan]) -> Result | int:
    """Show the changes, and make them after a backup, unless something forbids it."""
    plans[0].worker.stopped.end_due_look()
    needed = [plan for plan in plans if plan.needed]
    refusals = [*plans[0].worker.refusals([plan.connector for plan in plans], force=arguments.force)]
    if refusals and not arguments.dry_run:
        if len(refusals) > 1:
            out.note(f"{plural(len(refusals), 'reason')} not to change anything; --dry-run shows all")
        raise refusals[0]
    rows = [_row(plan, change) for plan in plans for change in plan.changes if change.is_change]
    unchanged = sum(len(plan.changes) for plan in plans) - len(rows)
    left_out, counts = said_left_out({}, refused_by(plans[0].worker.storage))
    members: dict[str, Any] = {"changes": rows, "unchanged": unchanged, "dry_run": arguments.dry_run, **counts}
    lines = [*(line for plan in plans for line in _lines(plan)), *left_out]
    if arguments.dry_run or not needed:
        verdict = "nothing was changed: --dry-run" if needed else "nothing to do"
        out.show(Result({**members, "written": 0, "backups": []}, [*lines, verdict]))
        return max([0, *(out.error(refusal) for refusal in refusals)])
    if not out.is_json:
        out.lines(*lines)
    if not arguments.yes:
        if out.is_json:  # a preview as JSON cannot stand before the question
            out.note(_UNASKED)
            return 1
        if not confirmed("change these offsets?", otherwise=_UNASKED, note=out.note):
            return 1
    for plan in needed:
        plan.check_unchanged()
    with also_saying("Nothing was changed"):
        for plan in needed:
            plan.require_access()
        backups = [
            plan.save(arguments.backup_dir, [(each.partition, each.old) for each in plan.needed]) for plan in needed
        ]
    for plan, path in zip(needed, backups, strict=True):
        _note_backup(out, plan, path)
    written = 0
    for done, plan in enumerate(needed):
        try:
            written += plan.write(folder=arguments.backup_dir, force=arguments.force)
        except ConnectShareError:
            if done:
                out.note(f"{done} of {plural(len(needed), 'connector')} are done; the same command continues")
            raise
    files = [
        {"group": plan.worker.group, "connector": plan.connector, "file": str(path)}
        for plan, path in zip(needed, backups, strict=True)
    ]
    done_text = f"{plural(len(rows), 'offset')} of {plural(len(needed), 'connector')} changed and read back"
    return Result({**members, "written": written, "backups": files}, [done_text])


def _row(plan: ConnectorPlan, change: OffsetChange) -> dict[str, Any]:
    return {
        "group": plan.worker.group,
        "connector": plan.connector,
        "partition": change.partition,
        "old": change.old,
        "new": change.new,
    }


def _lines(plan: ConnectorPlan) -> list[str]:
    needed, whose = plan.needed, f"{plan.connector} ({shown_group(plan.worker.group)})"
    return [
        f"{whose}: {plural(len(needed), 'offset')} to change, {len(plan.changes) - len(needed)} as wanted",
        *(f"  {json_text_of(each.partition)}: {_shown(each.old)} -> {_shown(each.new)}" for each in needed),
    ]


def _shown(offset: Any) -> str:
    if offset is None:
        return "none"
    return UNREADABLE if offset is UNREADABLE else json_text_of(offset)


def _note_backup(out: Output, plan: ConnectorPlan, path: Path) -> None:
    out.note(f"old offsets of {plan.connector} are in {path}; undo: {plan.command(path)}")
    lost = sum(not change.can_be_undone for change in plan.needed)
    if lost:
        out.note(
            f"{plural(lost, 'old value')} of {plan.connector} cannot be put back exactly: no connector can use it, it was "
            "written twice with members in another order, or a sink had none there, which only reset offsets brings back"
        )


def _read(name: str) -> bytes:
    """Read a file, or stdin, no further than it may be long."""
    try:
        if name == "-":
            return sys.stdin.buffer.read(MOST_BYTES + 1)
        with Path(name).open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from None


def _add_where(parser: Parser) -> None:
    add_worker_file(parser, "properties file of a worker of the group")
    parser.add_argument(
        "--force",
        action="store_true",
        help="also connectors that are not STOPPED, or not configured; nothing of them may run",
    )
    parser.add_argument(
        "--backup-dir",
        metavar="DIR",
        type=Path,
        default=Path(),
        help="folder for the files with the old offsets, one for each connector; the current folder by default",
    )


def _add_altered(parser: Parser) -> None:
    parser.add_argument("connector", metavar="NAME", help="name of the connector")
    parser.add_argument(
        "--file",
        metavar="FILE",
        required=True,
        help='{"offsets": [{"partition": {..}, "offset": {..} or null}]}, as Connect\'s REST API; - is stdin',
    )


def _add_reset(parser: Parser) -> None:
    _add_connectors(parser)
    parser.add_argument(
        "--partition",
        metavar="JSON",
        dest="partitions",
        action="append",
        help="only this source partition, may be repeated; all by default",
    )


def _add_copied(parser: Parser) -> None:
    _add_connectors(parser)
    parser.add_argument("--to", metavar="NAME", help="name of the other connector; the same name by default")
    parser.add_argument(
        "--to-worker-config",
        metavar="FILE",
        type=worker_file,
        help="properties file of a worker of the other group; the same group by default",
    )


def _add_connectors(parser: Parser) -> None:
    """Add the connectors of a command that takes many."""
    parser.add_argument("connectors", metavar="NAME", nargs="*", help="name of a connector")
    parser.add_argument(
        "--matching",
        metavar="PATTERN",
        action="append",
        default=[],
        help="all configured connectors whose names match, such as 'orders-*' or '*'; may be repeated",
    )


_Change = partial(Command, options=_add_where, changes="show what would change, change nothing")

COMMANDS: Final = [
    _Change(
        "alter offsets",
        _alter,
        "set offsets of a connector",
        about=f"Set the offsets of a connector, or forget those that are null; others stay as they are. {_RULES}",
        examples=[
            "connect-share get offsets -w worker.properties --connector files --output json > offsets.json",
            "connect-share alter offsets files -w worker.properties --file offsets.json --dry-run",
            "curl -s http://worker:8083/connectors/files/offsets | \\",
            "    connect-share alter offsets files -w worker.properties --file - --yes",
        ],
        last=_add_altered,
    ),
    _Change(
        "reset offsets",
        _reset,
        "forget offsets of connectors",
        about=f"Forget the offsets of connectors, all of them or those of some source partitions. {_RULES}",
        examples=[
            "connect-share reset offsets files -w worker.properties",
            'connect-share reset offsets files -w worker.properties --partition \'{"filename": "/data/in.txt"}\'',
            "connect-share reset offsets -w worker.properties --matching 'orders-*' --dry-run",
        ],
        last=_add_reset,
    ),
    _Change(
        "copy offsets",
        _copy,
        "copy offsets to another connector, group or cluster",
        about="Copy the offsets of connectors to another connector, group or cluster. Source partitions that only the "
        "destination has stay as they are. The source is only read; stop it first, or what it commits later is not copied. "
        f"{_RULES}",
        examples=[
            "connect-share copy offsets files -w worker.properties --to files-v2",
            "connect-share copy offsets files -w old.properties --to-worker-config new.properties",
            "connect-share copy offsets -w old.properties --matching '*' --to-worker-config new.properties --dry-run",
        ],
        last=_add_copied,
    ),
]
