"""Restoring a backup, whole or one connector, under the key space of a worker file; the command of both programs.

Values are opened with the keys of the worker file, and sealed with the first of them, later than what the topic has: a value
as it was would be an old one for readers, and refused.

Nothing is removed: keys only at the destination are kept, and the preview counts them, by connector and never with a value.
Only a hash is kept of each key and each newest value, so a million keys take some hundred megabytes. Records are written in
the order of the file, through one idempotent producer. A second run, after an interruption too, ends in the same state.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import Final

from connect_share.backup.backup_file import BackupContents, BackupFiles, Origin, shown_moment
from connect_share.backup.changes import ConnectorChanges, NewestValues, changes, hash_of
from connect_share.backup.rewrite import Facts, StoppedGroup
from connect_share.console.options import Parser, add_worker_file
from connect_share.console.output import Output, ProgressLine, Result
from connect_share.console.program import Command, Preview, Steps
from connect_share.errors import ConnectShareError, CopyError, RestoreRejectedError, UsageError, also_saying, listed
from connect_share.files import SILENT, Progress
from connect_share.kafka.create import ensure_topic, topic_spec
from connect_share.kafka.due_look import mark_of
from connect_share.kafka.facts import admin_of, check_destination
from connect_share.kafka.shared_set import create_planned, plan_topics
from connect_share.kafka.write_access import TopicNeed, require_access
from connect_share.model.keys import StatusKey, connector_of, prefix_of
from connect_share.model.places import decisive_ms
from connect_share.model.records import Record, TopicType, now_ms
from connect_share.model.removal import is_removal, removal_value
from connect_share.sealing import KEYS_PROPERTY, SEALING_PROPERTY, SealingMode
from connect_share.sealing.cipher import LATEST_MS, SEALED_BYTES, is_sealed, key_id
from connect_share.sealing.seals import refused_of
from connect_share.transform.counter import RecordCounter
from connect_share.transform.rules import PLAIN_KEYS, KeyTransform, SkipReason
from connect_share.transform.sealed import Opener, Sealer, Sealing
from connect_share.worker_config import WorkerConfig

_SHOWN_KEYS: Final = 5


def restore_sealings(
    worker: WorkerConfig,
    transforms: Mapping[TopicType, KeyTransform],
    records: Callable[[], Iterable[tuple[TopicType, Record]]],
) -> tuple[Sealing, Sealing]:
    """Return what opens the values of a backup, and what seals them for a worker file.

    Its group was sealed if a value opens, or if most living keys have a value that looks sealed: others may have written the
    rest. A group that accepts sealed values only has plain ones in a backup from before it was sealed, or because another
    writer has written them: beside sealed ones they are not accepted. Without keys sealed values stay as they are, if their
    keys do.

    ``RestoreRejectedError``: the group was sealed, and no value opens.
    """
    sealing, (first, *_) = Sealing.of(worker), transforms.values()
    if first.source is None:
        return sealing, sealing
    openers = {kind: Opener(sealing, transform) for kind, transform in transforms.items()}
    living: dict[tuple[TopicType, bytes], int | None] = {}
    for kind, record in records() if any(is_sealed(record.value) for _, record in records()) else ():
        if record.key is None or not transforms[kind].takes(record.key):
            continue
        if openers[kind].open(record) is not None and is_sealed(record.value):
            return sealing, sealing
        living.pop((kind, hash_of(record.key)), None)
        if not is_removal(kind, record.value):
            living[kind, hash_of(record.key)] = key_id(record.value) if is_sealed(record.value) else None
    sealed = [number for number in living.values() if number is not None]
    if 2 * len(sealed) <= len(living):
        return replace(sealing, mode=SealingMode.ACCEPT) if sealing.keys is not None else sealing, sealing
    if sealing.keys is None and first.source == first.destination:
        return replace(sealing, as_is=True), replace(sealing, as_is=True)
    if sealing.keys is None and worker.says_sealing and len(sealed) < len(living):
        return sealing, sealing
    raise RestoreRejectedError(
        f"{len(sealed):,} value(s) of the backup are sealed with key {listed(map(str, sorted(set(sealed))), _SHOWN_KEYS)}, "
        f"which the worker file does not have: give it that key in {KEYS_PROPERTY}, behind those that are there; without it "
        f"they cannot be read. Of a group that was never sealed others have written them: {SEALING_PROPERTY}=off, without "
        "keys, leaves them out. Nothing was written"
    )


class BackedUpValues:
    """Opens the records of a backup, and counts them; one pass over the file.

    Attributes:
        sealed: how many are sealed in the backup, by id of the key.
        plain: how many are not; counted if there are keys.
        refused: how many are left out, because their group does not accept them.
        refused_plain: how many of these are only plain.
        as_they_are: marks of the records with sealed values that are put back without having been opened.
    """

    def __init__(self, sealing: Sealing, transforms: Iterable[KeyTransform]) -> None:
        self.sealed = Counter[int]()
        self.plain = self.refused = self.refused_plain = 0
        self.as_they_are: set[str] = set()
        self._as_is = sealing.as_is
        self._openers = {transform.topic_type: Opener(sealing, transform) for transform in transforms}

    def opened(
        self, records: Iterable[tuple[TopicType, Record]]
    ) -> Iterator[tuple[TopicType, bytes | SkipReason, Record]]:
        """Yield the records, opened, with their original keys, or why they are not restored; without what is refused.

        ``RestoreRejectedError``, after the last one: the group says that it uses a key that is not there.
        """
        for topic_type, record in records:
            opener = self._openers[topic_type]
            original = opener.transform.original_key(record.key)
            wanted = opener.is_on or is_sealed(record.value)
            if not wanted or isinstance(original, SkipReason):
                yield topic_type, original, record
                continue
            opened = opener.open(record)
            if opened is None:
                self.refused += 1
                self.refused_plain += not is_sealed(record.value)
            elif is_sealed(record.value):
                self.sealed[key_id(record.value) or 0] += 1
            else:
                self.plain += 1
            if self._as_is and is_sealed(record.value):
                self.as_they_are.add(mark_of(record.key or b"", record.value))
            if opened is not None:
                yield topic_type, original, opened
        config = self._openers.get(TopicType.CONFIG)
        for missing in [] if config is None else config.seals.missing_keys():
            raise RestoreRejectedError(
                f"in the backup {missing}, which the worker file does not have: give it that key in {KEYS_PROPERTY}, behind "
                "those that are there. Nothing was written"
            )


def require_none_newer(
    topic: str, found: Iterable[Record], transform: KeyTransform, backed_up: BackedUpValues
) -> Iterator[Record]:
    """Yield the records of a destination's topic.

    ``RestoreRejectedError``, after the last one: a sealed value there may be newer than what is put back without keys.
    """
    newer = 0
    for record in found:
        taken = bool(backed_up.as_they_are) and is_sealed(record.value) and transform.takes(record.key)
        newer += taken and mark_of(record.key or b"", record.value) not in backed_up.as_they_are
        yield record
    if newer:
        raise RestoreRejectedError(
            f"{topic} has {newer:,} sealed value(s) of {prefix_of(transform.source).decode()}* that are not in the backup "
            "and may be newer: readers would refuse what is put back as it is. Give the worker file the keys in "
            f"{KEYS_PROPERTY}. Nothing was written"
        )


@dataclass(frozen=True)
class RestoreRequest:
    """What is to be restored.

    Attributes:
        connectors: exact names of the only connectors wanted.
        from_group: ``group.id`` of the cluster whose records are meant.
        from_plain: restore the records with plain keys.
        at_ms: of a folder that a continuous backup writes: the newest moment that is not later; ``None``: the last.
        only: the kind of topic that is put back; ``None``: all three.
    """

    connectors: frozenset[str] | None = None
    from_group: str | None = None
    from_plain: bool = False
    at_ms: int | None = None
    only: TopicType | None = None


def describe_origin(origin: Origin) -> str:
    """Return the description of a key space of a backup, for people."""
    whose = "" if origin.group_id is None else f" of {origin.group_id}"
    keys = PLAIN_KEYS if origin.plain else "prefixed keys"
    return f"{keys}{whose}, {'as they were at the source' if origin.side == 'source' else 'found at the destination'}"


def choose_origin(
    contents: BackupContents, filled: frozenset[int], worker: WorkerConfig, request: RestoreRequest
) -> Origin:
    """Decide whose records are meant.

    ``filled`` are the numbers of the sections that hold records.

    Raises:
        RestoreRejectedError: it is not clear; the message lists what there is.
    """
    present = [
        origin
        for origin in contents.origins
        if origin.side == "source"
        or any(contents.topics[number].section in filled for number in origin.topics.values())
    ]
    texts = list(dict.fromkeys(describe_origin(origin) for origin in present))
    there = listed(texts, separator="; ", last="; and ") or "nothing"
    matching = [
        origin
        for origin in present
        if request.from_group in {None, origin.group_id} and (origin.plain or not request.from_plain)
    ]
    if not matching:
        raise RestoreRejectedError(f"the backup has no such records; it holds: {there}")
    if request.from_group is None and not (request.from_plain and len(matching) == 1):
        matching = [origin for origin in matching if worker.group_id in {origin.group_id, origin.becomes}]
        if not matching:
            raise RestoreRejectedError(
                f"the worker file is that of group {worker.group_id}, the backup holds: {there}; choose with "
                "--from-group GROUP whose records are restored under this group, or with --from-plain"
            )
    # First what was at the source, then what has the form of the worker file's own keys.
    for preferred in (
        [origin for origin in matching if origin.side == "source"],
        [origin for origin in matching if origin.plain is not worker.sharing_enabled],
    ):
        matching = [origin for origin in matching if origin in preferred] or matching
    if len(matching) > 1:
        raise RestoreRejectedError(
            f"it is not clear whose records are meant, the backup holds: {there}; say --from-group GROUP, --from-plain, "
            "or both"
        )
    return matching[0]


@dataclass
class RestorePreview:
    """What a restore would do.

    Attributes:
        changes: per topic type and connector; names only.
        records: how many would be written, per topic type.
        skipped: how many of the backup's records would not, and why.
        create: topics that do not exist yet.
        values, refused: what of them is sealed in the backup; how many records its workers refuse at the destination.
    """

    changes: list[ConnectorChanges]
    records: dict[TopicType, int]
    skipped: dict[SkipReason, int]
    create: list[str]
    values: BackedUpValues
    refused: dict[TopicType, int]


@dataclass
class Restored:
    """What was written, per topic type; ``removals`` are those that remove a key."""

    written: Counter[TopicType]
    removals: int
    seconds: float


@dataclass
class Restore:
    """A backup file that was checked, and where its records go. Made by :func:`prepare_restores`.

    Attributes:
        backup_sealing: of the records in the file.
        sealing: of the worker file.
        wanted: the connectors that were asked for by name.
        kinds: of the topics whose records are put back.
        needs: of these topics, as the preview has found it.
    """

    file: BackupFiles
    origin: Origin
    worker: WorkerConfig
    transforms: Mapping[TopicType, KeyTransform]
    backup_sealing: Sealing
    sealing: Sealing
    wanted: frozenset[str] | None = None
    kinds: Sequence[TopicType] = tuple(TopicType)
    _facts: Facts | None = field(default=None, init=False, repr=False)
    _backed_up: dict[TopicType, NewestValues] = field(default_factory=dict, init=False, repr=False)
    _removed_ms: dict[str | None, int] = field(default_factory=dict, init=False, repr=False)
    _openers: dict[TopicType, Opener] = field(default_factory=dict, init=False, repr=False)
    _values: BackedUpValues | None = field(default=None, init=False, repr=False)
    needs: list[TopicNeed] = field(default_factory=list, init=False, repr=False)

    @cached_property
    def stopped(self) -> StoppedGroup:
        """The group whose keys are written."""
        group, group_id = self.worker.cluster_group_id, self.worker.group_id
        again = "This command with --dry-run shows what differs from the backup"
        return StoppedGroup(self.worker, group, group_id, "destination", may_miss=True, again=again, kinds=self.kinds)

    def preview(self, progress: Progress = SILENT, *, beside_workers: bool = False) -> RestorePreview:
        """Compare the backup with what the destination holds now, live workers or not as is asked; writes nothing.

        ``RestoreRejectedError``: there is nothing to restore, or it could not be read: a key is missing, or the topic has
        something newer.
        """
        facts = self.stopped.facts(beside_workers=beside_workers)
        with admin_of(self.worker) as admin:
            for topic_type, topic in facts.items():
                check_destination(admin, self.worker, topic_type, topic)
        added = 0 if self.sealing.keys is None else SEALED_BYTES
        counting = {kind: RecordCounter(each, added_bytes=added) for kind, each in self.transforms.items()}
        topics = {kind: self.file.contents.topics[number] for kind, number in self.origin.topics.items()}
        backed_up = {kind: NewestValues(kind, len(topics[kind].ranges) if kind in topics else 0) for kind in self.kinds}
        progress.phase(f"reading {self.file.path.name}", self.file.records)
        values = BackedUpValues(self.backup_sealing, self.transforms.values())
        for topic_type, original, record in values.opened(_records(self.file, self.origin, progress)):
            if (taken := counting[topic_type].count(record, original)) is not None:
                backed_up[topic_type].add(*taken)
        counts = {topic_type: each.counts() for topic_type, each in counting.items()}
        self._require_found(backed_up.values())
        self._facts, self._backed_up, self._values = facts, backed_up, values
        self.needs = [
            TopicNeed(self.worker, self.worker.topic(kind), ("CREATE", "READ", "WRITE"), each.extent)
            for kind, each in counting.items()
            if counts[kind].to_write
        ]
        found = self._changes(facts, progress)
        skipped = Counter({SkipReason.REFUSED: values.refused} if values.refused else {})
        for each in counts.values():
            skipped.update(each.skipped)
        return RestorePreview(
            changes=found,
            records={topic_type: counts[topic_type].to_write for topic_type in TopicType},
            skipped=dict(sorted(skipped.items(), key=lambda item: item[0].value)),
            create=[topic for topic_type, topic in self.stopped.topics.items() if topic_type not in facts],
            values=values,
            refused=refused_of({topic_type: each.seals for topic_type, each in self._openers.items()}),
        )

    def _require_found(self, backed_up: Collection[NewestValues]) -> None:
        missing = (self.wanted or frozenset()).difference(*(each.names for each in backed_up))
        only = missing or self.transforms[TopicType.CONFIG].connectors
        if missing or not any(each.values for each in backed_up):
            whose = "" if only is None else f" of connector(s) {', '.join(map(repr, sorted(only)))}"
            raise RestoreRejectedError(
                f"{self.file.path} has no record{whose} with {describe_origin(self.origin)}: names are exact, dots, "
                "dashes and case included"
            )

    def verify(self, progress: Progress = SILENT) -> None:
        """Read back, and check that the newest value of each key is that of the backup, else ``CopyError``."""
        found = self._changes(self.stopped.facts(), progress)
        wrong = sum(each.added + each.changed + each.removed for each in found)
        if wrong:
            raise CopyError(f"{wrong:,} key(s) do not have the value that was put back; restore again")

    def _changes(self, facts: Facts, progress: Progress) -> list[ConnectorChanges]:
        """Compare the backup, as the preview has read it, with the destination's topics."""
        found: list[ConnectorChanges] = []
        assert self._values is not None  # noqa: S101 - of the preview
        for topic_type, backed_up in self._backed_up.items():
            back = self.transforms[topic_type].at_destination()
            opener = self._openers[topic_type] = Opener(self.sealing, back)
            topic = facts.get(topic_type)
            newest = NewestValues(topic_type, 0 if topic is None else len(topic.ends), backed_up)
            if topic is not None:
                records = self.stopped.read(topic_type, topic, progress, "comparing with")
                for original, record in back.taken(require_none_newer(topic.topic, records, back, self._values)):
                    if (opened := opener.open(record)) is not None:
                        newest.add(original, opened)
            self._removed_ms |= newest.removed_ms
            found += changes(backed_up, newest)
        return found

    def write(self, progress: Progress = SILENT) -> Restored:
        """Put the records back; topics that are missing are created as ``create topics`` would.

        What is refused, and what others write, is as :meth:`StoppedGroup.write` says; restoring again completes a part.
        """
        began_s = time.monotonic()
        if self._facts is None:
            self.preview(progress)
        facts, self._facts = self._facts or {}, None  # to write again there has to be a new preview
        require_access(self.needs)
        self.stopped.require_stopped()
        with admin_of(self.worker) as admin:
            specs = {kind: topic_spec(self.worker, kind) for kind in self.kinds}
            if create_planned(admin, plan_topics(admin, [specs[kind] for kind in specs if kind not in facts])):
                require_access(self.needs)  # nothing was known of those that were made
            for spec in specs.values():
                ensure_topic(admin, spec, may_be_fenced=True)
        restored = Restored(Counter(), 0, 0.0)
        sealers = {
            topic_type: Sealer(self.sealing, self.transforms[topic_type], opener.freshness.newest())
            for topic_type, opener in self._openers.items()
        }
        progress.phase("restoring", self.file.records)
        outgoing = self._outgoing(sealers, restored, progress)
        self.stopped.write(facts, outgoing, self.worker.file or Path("restore"))
        restored.seconds = round(time.monotonic() - began_s, 3)
        return restored

    def _outgoing(
        self, sealers: Mapping[TopicType, Sealer], restored: Restored, progress: Progress
    ) -> Iterator[Record]:
        values, topics = BackedUpValues(self.backup_sealing, self.transforms.values()), self.stopped.topics
        for topic_type, original, record in values.opened(_records(self.file, self.origin, progress)):
            if isinstance(original, SkipReason):
                continue
            if self._backed_up[topic_type].places.is_replaced(hash_of(original), record):
                continue
            sealer = sealers[topic_type]
            key, value = sealer.prefix + original, record.value
            restored.removals += is_removal(topic_type, value)
            restored.written[topic_type] += 1
            if value is None:
                value = removal_value(topic_type, self.worker.cluster_group_id)
            value = sealer.sealed(key, value, now_ms())
            at_ms = self._shown_ms(original, record)
            yield replace(record, topic=topics[topic_type], timestamp_ms=at_ms, key=key, value=value)

    def _shown_ms(self, original: bytes, record: Record) -> int:
        """Return the time of a record that is put back: its own, unless readers would drop a task's status for that.

        It is later than the removal of its connector's status at the destination if it was later than that in the backup.
        """
        at_ms = decisive_ms(record)
        if record.value is None or not original.startswith(StatusKey.TASK.prefix):
            return at_ms
        name = connector_of(TopicType.STATUS, original)
        was_shown = at_ms > self._backed_up[TopicType.STATUS].removed_ms.get(name, -1)
        behind_ms = min(self._removed_ms.get(name, -1) + 1, LATEST_MS)  # who removed it has chosen its time
        return max(at_ms, behind_ms) if was_shown else at_ms


def _records(file: BackupFiles, origin: Origin, progress: Progress) -> Iterator[tuple[TopicType, Record]]:
    """Return the records of an origin's topics, those of others included, in the order of the file."""
    return file.read(progress, [file.contents.topics[number] for number in origin.topics.values()])


def prepare_restores(
    path: Path, worker_files: Iterable[Path], request: RestoreRequest | None = None, progress: Progress = SILENT
) -> list[Restore]:
    """Check a backup file whole, read the worker files, and decide whose records go where; needs no broker.

    Raises:
        RecordFileError: the file is missing, damaged or no backup.
        ConfigError: the worker file is wrong.
        InvalidClusterGroupIdError: its ``group.id`` cannot be a prefix.
        RestoreRejectedError: it is not clear whose records are meant.
    """
    request = request or RestoreRequest()
    # Each group reads the file for itself, up to three times: for what seals it, for the preview, and to be written. Records
    # are written while they are read, one group whole before the next begins, or memory would hold them; so one read for
    # each stays. The others decide by the keys of that group's worker file, and count whatever is none of its own.
    file = BackupFiles.at(path, request.at_ms)
    progress.phase(f"checking {file.path.name}", 0)
    file.check()
    return [_restore_of(copy(file), WorkerConfig.from_file(each), request) for each in worker_files]


def _restore_of(file: BackupFiles, worker: WorkerConfig, request: RestoreRequest) -> Restore:
    file.keys = worker.sealing_keys
    filled = frozenset(number for number, count in enumerate(file.sections) if count)
    origin = choose_origin(file.contents, filled, worker, request)
    kinds = tuple(TopicType) if request.only is None else (request.only,)
    topics = {kind: number for kind, number in origin.topics.items() if kind in kinds}
    origin = origin.model_copy(update={"topics": topics})
    names = origin.connectors if request.connectors is None else request.connectors
    own = None if origin.plain else str(origin.group_id)
    transforms = {kind: KeyTransform.between(kind, own, worker.cluster_group_id, names) for kind in TopicType}
    sealings = restore_sealings(worker, transforms, lambda: _records(file, origin, SILENT))
    return Restore(file, origin, worker, transforms, *sealings, request.connectors, kinds)


_AGO: Final = re.compile(r"(\d{1,6}) (second|minute|hour|day)s? ago")


def moment(text: str) -> int:
    """Return a moment on a command line, in milliseconds since the epoch."""
    ago = _AGO.fullmatch(text.strip().lower())
    try:
        at = datetime.now(UTC) - timedelta(**{f"{ago[2]}s": int(ago[1])}) if ago else datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError("has to be a time such as 2026-01-31T12:00:00Z, or 10 minutes ago") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def _restore(arguments: argparse.Namespace, _: Output) -> Steps:
    """Show what would change, of all groups that are named, ask, put the records back, compare."""
    names = None if arguments.connectors is None else frozenset(arguments.connectors)
    only = None if arguments.only is None else TopicType(arguments.only)
    request = RestoreRequest(names, arguments.from_group, arguments.from_plain, arguments.at, only)
    given: Path | list[Path] = arguments.destination
    members, lines = list[dict[str, object]](), list[str]()
    aborted, refused, objections = Counter[TopicType](), Counter[TopicType](), list[ConnectShareError]()
    with ProgressLine() as progress:
        restores = prepare_restores(arguments.file, [given] if isinstance(given, Path) else given, request, progress)
        _require_named(arguments.groups, restores)
        for restore in restores:
            preview = restore.preview(progress, beside_workers=arguments.dry_run)
            members.append(_members(restore, preview))
            lines += [*([""] if lines else []), *_lines(restore, preview)]
            aborted.update(restore.stopped.aborted())
            refused.update(preview.refused)
            objections += restore.stopped.objections(partial(require_access, restore.needs))
    shown = members[0] if isinstance(given, Path) else {"restores": members}
    yield Preview(lines, shown, "put these back?", aborted, refused, objections)
    done = list[Restored]()
    shown_groups = [restore.stopped.shown for restore in restores]
    for number, restore in enumerate(restores):
        parts = [listed(some) or "none" for some in (shown_groups[:number], shown_groups[number:])]
        said = "Put back and compared: {}; not yet: {}".format(*parts)
        saying = also_saying(said) if len(restores) > 1 else nullcontext()
        with saying, ProgressLine() as progress:
            done.append(restore.write(progress))
            restore.verify(progress)
    records, removals = (sum(each.written.total() for each in done), sum(each.removals for each in done))
    seconds = round(sum(each.seconds for each in done), 3)
    yield Result(
        {"dry_run": False, **shown, "seconds": seconds, "verified": True},
        [
            f"{records:,} records put back, {removals:,} of them removals, in {seconds} s",
            "read back: the destination has the newest value of each key of the backup",
            "the workers may be started",
        ],
    )


def _require_named(groups: Collection[str] | None, restores: Sequence[Restore]) -> None:
    """Check that each group that was named is one of these, and each once."""
    files = {restore.worker.group_id for restore in restores}
    if groups is not None and files != set(groups):
        raise UsageError(
            f"--group names {listed(sorted(groups))}, and -w is the worker file of "
            f"{listed(sorted(files))}: give the folder that has the worker files of all"
        )
    if len(restores) > 1 and len({restore.origin.group_id for restore in restores}) < len(restores):
        raise UsageError("the same records of the backup would go to several groups: restore these one by one")


def _members(restore: Restore, preview: RestorePreview) -> dict[str, object]:
    origin, becomes = restore.origin, restore.worker.cluster_group_id
    return {
        "file": str(restore.file.path),
        "at": None if restore.file.contents.segment is None else shown_moment(restore.file.contents.segment.at_ms),
        "run_id": restore.file.contents.run_id,
        "encrypted": restore.file.is_encrypted,
        "from": {"group": origin.group_id, "plain": origin.plain, "side": origin.side},
        "to": {"group": becomes, "plain": becomes is None},
        "topics": {topic_type.value: restore.worker.topic(topic_type) for topic_type in TopicType},
        "create": preview.create,
        "records": {topic_type.value: count for topic_type, count in preview.records.items()},
        "skipped": {reason.value: count for reason, count in preview.skipped.items()},
        "values": {
            "sealed": {str(number): count for number, count in sorted(preview.values.sealed.items())},
            "plain": preview.values.plain,
            "refused": preview.values.refused,
            "become": _sealing_key(restore),
        },
        "changes": [{**asdict(change), "topic_type": change.topic_type.value} for change in preview.changes],
    }


def _lines(restore: Restore, preview: RestorePreview) -> Iterator[str]:
    contents = restore.file.contents
    group = restore.worker.cluster_group_id
    becomes = PLAIN_KEYS if group is None else f"keys under the prefix {group}."
    head = f"made {shown_moment(contents.made_at_ms)} by run {restore.file.contents.run_id}"
    if restore.file.contents.segment is not None:
        names = " to ".join(dict.fromkeys(restore.file.names))
        head = f"state of {shown_moment(restore.file.contents.segment.at_ms)}, {names}"
    yield f"{restore.file.path}: {head}"
    yield f"{describe_origin(restore.origin)}, become {becomes}"
    for topic_type in restore.kinds:
        topic = restore.worker.topic(topic_type)
        new = " (to be created)" if topic in preview.create else ""
        yield f"  {topic_type.value:6}  {topic}{new}: {preview.records[topic_type]:,} records"
        found = [change for change in preview.changes if change.topic_type is topic_type]
        for change in found:
            if change.added or change.changed or change.removed:
                name = "no connector" if change.connector is None else repr(change.connector)
                yield (
                    f"          {name}: {change.added:,} added, {change.changed:,} changed, {change.same:,} same, "
                    f"{change.removed:,} removed, {change.remaining:,} only at the destination: kept"
                )
        equal = [change for change in found if not (change.added or change.changed or change.removed)]
        if equal:
            same, kept = (sum(getattr(change, name) for change in equal) for name in ("same", "remaining"))
            yield f"          unchanged in {len(equal):,} more: {same:,} same, {kept:,} only at the destination: kept"
    yield from (f"  not restored: {count:,} {reason.value}" for reason, count in preview.skipped.items())
    yield from _lines_on_values(restore, preview)


def _sealing_key(restore: Restore) -> int | None:
    keys = restore.sealing.keys
    return None if keys is None else keys.sealing_id


def _lines_on_values(restore: Restore, preview: RestorePreview) -> Iterator[str]:
    values, key_id = preview.values, _sealing_key(restore)
    sealed = " and ".join(f"{count:,} with key {number}" for number, count in sorted(values.sealed.items()))
    if not (restore.file.is_encrypted or restore.worker.sealing_keys is None):
        yield "the backup is not encrypted: nothing shows whether its plain values were changed"
    if sealed:
        yield f"sealed in the backup: {sealed}; without these keys nobody can read them"
    if key_id is not None:
        again = values.sealed.total() + values.plain
        yield f"sealed with key {key_id} on the way: {again:,}, of which {values.plain:,} were plain"
    elif sealed:
        yield "the worker file has no keys: sealed values are put back as they are"
    if values.refused_plain and key_id is not None:
        yield (
            f"{values.refused_plain:,} plain record(s) beside sealed ones are not accepted: to restore them, set "
            "encryption=accept"
        )


def _add_options(parser: Parser) -> None:
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="a backup, what export has written, or the folder that it has written"
    )
    parser.add_argument(
        "--at",
        metavar="TIME",
        type=moment,
        help="of a folder: the newest state that is not later, such as 2026-01-31T12:00:00Z; the last one by default",
    )
    add_worker_file(
        parser,
        "worker file of where the records go; sharing enabled there: keys with its group.id as prefix",
        "--destination-worker-config",
        dest="destination",
    )
    parser.add_argument(
        "--connector",
        dest="connectors",
        metavar="NAME",
        action="append",
        help="this connector only, may be repeated; names are exact",
    )
    parser.add_argument(
        "--only",
        choices=[each.value for each in TopicType],
        help="this topic's records only, such as of one that is lost",
    )
    parser.add_argument(
        "--group",
        dest="groups",
        metavar="ID",
        action="append",
        help="with a folder of worker files: this group, may be repeated; one preview and one question for all",
    )
    parser.set_defaults(of_each_group=True)
    parser.add_argument("--from-group", metavar="GROUP", help="restore the records of this group of the backup")
    parser.add_argument("--from-plain", action="store_true", help="restore the records with plain keys")


def restore_command(program: str) -> Command:
    """Return the command of a program."""
    return Command(
        "restore",
        _restore,
        about="Show what would change, by connector and topic, then put the records back and read them back.\n"
        "Nothing is removed that only the destination has. Workers of the group have to be stopped.",
        examples=[
            f"{program} restore orders.avro -w orders.properties --dry-run",
            f"{program} restore orders.avro -w orders.properties --connector jdbc-sink",
            f"{program} restore all.avro -w orders-2.properties --from-group orders",
            f"{program} restore all.avro -w /etc/connect --group orders --group billing",
            f"{program} restore /backups/orders -w orders.properties --at 2026-01-31T12:00:00Z",
        ],
        options=_add_options,
        changes="show what would change, write nothing",
    )
