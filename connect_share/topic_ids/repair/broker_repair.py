"""The part of a repair on a broker's own machine: prepare it, do it while the broker is stopped, check it, undo it."""

from __future__ import annotations

import re
import shutil
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidationError

from connect_share.errors import UsageError
from connect_share.topic_ids.authority.authority import MetadataMode
from connect_share.topic_ids.compare.compare import Comparison
from connect_share.topic_ids.errors import TopicIdRepairError, explained
from connect_share.topic_ids.repair.backup import Number, RepairBackup, RepairState, Report, Text, checksum, read_index
from connect_share.topic_ids.repair.broker_lock import broker_stopped
from connect_share.topic_ids.repair.file_changes import FileChange, PutBack, WriteId, log_bytes, read_metadata
from connect_share.topic_ids.repair.steps import RepairPlan, RepairStep, StepAction
from connect_share.topic_ids.scan import scanner
from connect_share.topic_ids.scan.scans import CURRENT, STRAY, Scans, scans_of_records

_FILE_ACTIONS: Final = frozenset({StepAction.WRITE_FILE, StepAction.MOVE_ASIDE, StepAction.RENAME})
_MARK: Final = re.compile(r"\.[^.]+-stray$")

_Port = Annotated[int, Field(strict=True, gt=0, lt=2**16)]
_Act = Annotated[FileChange, Field(discriminator="act")]


class BrokerBackup(RepairBackup):
    """The changes of one broker.

    Attributes:
        cluster_id: of the log dirs.
        wrong: topic, partition and the brokers whose replica had a wrong id when the backup was made; such a replica is
            not in the ISR, or keeps others out of it.
        dark: brokers with a file that takes a whole log dir offline.
        peers: other brokers that have to be stopped as well, with host and port.
    """

    kind: Literal["broker"] = "broker"
    mode: MetadataMode
    broker: Number
    cluster_id: Text | None
    log_dirs: tuple[Text, ...]
    wrong: tuple[tuple[Text, Number, tuple[Number, ...]], ...] = ()
    dark: tuple[Number, ...] = ()
    peers: tuple[tuple[Number, Text, _Port], ...] = ()
    changes: tuple[_Act, ...] = Field(alias="acts")

    @property
    def topics(self) -> dict[str, str]:
        """The changed topics with their right ids."""
        return {one.topic: one.topic_id for one in self.changes if isinstance(one, WriteId)}

    @property
    def wrong_replicas(self) -> Mapping[tuple[str, int], frozenset[int]]:
        """The brokers of ``wrong`` by topic and partition."""
        return {(topic, number): frozenset(brokers) for topic, number, brokers in self.wrong}

    @property
    def other_brokers(self) -> set[int]:
        """The other brokers with a wrong id."""
        return {broker for _, _, brokers in self.wrong for broker in brokers} - {self.broker}

    @property
    def stopped_together(self) -> list[int]:
        """The brokers that have to be stopped at the same time, this one included."""
        return sorted({self.broker, *(broker for broker, _, _ in self.peers)})

    @property
    def peer_ids(self) -> list[int]:
        """The other brokers that have to be stopped."""
        return [broker for broker, _, _ in self.peers]

    def write(self) -> Self:
        """Create the folder, if its disk has room for the copies."""
        needed = sum(_disk_bytes(Path(one.stray)) for one in self.changes if isinstance(one, PutBack))
        existing = next(one for one in self.folder.absolute().parents if one.exists())
        if needed > shutil.disk_usage(existing).free:
            raise TopicIdRepairError(
                f"{existing} has no room for {needed:,} bytes: give another --backup; nothing was changed"
            )
        return super().write()


@dataclass(frozen=True, slots=True)
class ScannedBroker:
    """The broker of this machine, as its ``server.properties`` describe it and as it was scanned now."""

    id: int
    log_dirs: tuple[str, ...]
    settings: Path
    scans: Scans


def read_server_properties(settings: Path) -> ScannedBroker:
    """Read the settings of a broker, and scan it; raise ``UsageError`` if they cannot be read, or it has no id."""
    try:
        broker, log_dirs, tiered = scanner.server_settings(str(settings))
    except scanner.Unreadable as exc:
        raise UsageError(f"cannot read {settings}: {exc}") from exc
    if not log_dirs or not all(Path(one).is_absolute() for one in log_dirs):
        raise UsageError(f"{settings}: log.dirs has to name folders with their whole paths")
    scans = scans_of_records(scanner.scan(log_dirs, broker, tiered), str(settings))
    [number] = scans.brokers
    return ScannedBroker(number, tuple(log_dirs), settings, scans)


def prepare_files(found: Comparison, plan: RepairPlan, local: ScannedBroker, folder: Path) -> BrokerBackup | None:
    """Return what a plan changes on this broker, which has to be scanned anew; ``None``: nothing. Nothing is written.

    Raise ``TopicIdRepairError`` if another part of the plan comes first, or only a person can check whether it is safe.
    """
    steps = [one for one in plan.steps if one.broker == local.id and one.action in _FILE_ACTIONS]
    if not steps:
        return None
    put_back, addresses = plan.brokers(StepAction.RENAME), found.authority.addresses
    _check_plan(plan, steps, local.id, put_back - addresses.keys())
    wrong: dict[tuple[str, int], set[int]] = defaultdict(set)
    for one in plan.steps:
        if one.action is StepAction.WRITE_FILE and one.broker is not None:
            wrong[str(one.topic), one.partition or 0].add(one.broker)
    dark = {
        one.broker
        for (topic, number), brokers in wrong.items()
        for one in found.current(topic, number)
        if one.broker in brokers and one.metadata in ("unreadable", "zero")
    }
    clusters = {one.cluster_id for one in found.scans.log_dirs if one.broker == local.id} - {None}
    try:
        return BrokerBackup(
            folder=folder,
            mode=plan.mode,
            broker=local.id,
            cluster_id=next(iter(clusters)) if len(clusters) == 1 else None,
            log_dirs=local.log_dirs,
            acts=tuple(_changes(steps)),
            wrong=tuple((topic, number, tuple(sorted(brokers))) for (topic, number), brokers in sorted(wrong.items())),
            dark=tuple(sorted(dark)),
            peers=tuple((broker, *addresses[broker]) for broker in sorted(put_back - {local.id})),
        )
    except ValidationError as exc:
        names = ", ".join(sorted({str(error["loc"][0]) for error in exc.errors()}))
        raise TopicIdRepairError(
            f"the plan has values that no broker has ({names}): check the metadata and the log dirs; nothing was changed"
        ) from exc


def _check_plan(plan: RepairPlan, steps: Sequence[RepairStep], broker: int, unknown: Collection[int]) -> None:
    """Raise ``TopicIdRepairError`` if these steps may not be done on a broker now; ``unknown`` have no known address."""
    unsure = next((one for one in steps if one.unproven), None)
    if unsure is not None:
        raise TopicIdRepairError(
            f"{unsure.path}: nothing proves that its records are those of the topic, which has another id: no batch is known "
            "to be the same as on the leader. The id would have them served; compare by hand (see the plan of --dry-run); "
            "nothing was changed"
        )
    if plan.has(StepAction.WRITE_ZNODE):
        raise TopicIdRepairError(
            "the znodes come first: run repair topic-ids without --step, then scan again; nothing was changed"
        )
    if plan.mode is MetadataMode.KRAFT and broker not in plan.brokers(StepAction.RENAME):
        raise TopicIdRepairError(
            "with KRaft only directories that were set aside are put back; follow the plan of "
            "--dry-run by hand for single files"
        )
    for other in sorted(set(unknown) - {broker}):
        raise TopicIdRepairError(
            f"where broker {other} listens is not known, so whether it is stopped could not be checked: use -B while it "
            "is up, or --metadata-dump; nothing was changed"
        )


def _changes(steps: Sequence[RepairStep]) -> list[FileChange]:
    found: list[FileChange] = []
    empty: dict[tuple[str, int], str] = {}
    strays: dict[str, str] = {}
    for one in steps:
        topic, partition, path = str(one.topic), one.partition or 0, str(one.path)
        place: dict[str, Any] = {"topic": topic, "partition": partition, "number": len(found) + 1}
        if one.action is StepAction.MOVE_ASIDE:
            empty[topic, partition] = path
        elif one.action is StepAction.RENAME:
            folder = str(Path(path).with_name(f"{topic}-{partition}"))
            current = empty.get((topic, partition))
            # The name of the other directory, which Kafka may have cut, with a new mark.
            new_name = _MARK.sub(f".{uuid.uuid4().hex}-stray", Path(path).name)
            aside = None if current is None else str(Path(current).with_name(new_name))
            found.append(PutBack(**place, folder=folder, stray=path, empty=current, aside=aside))
            strays[folder] = path
        else:
            folder = str(Path(path).parent)
            before = read_metadata(strays.get(folder, folder))
            digest = None if before is None else checksum(before)
            new = WriteId(**place, folder=folder, topic_id=str(one.topic_id), before_sha256=digest, before=before)
            found.append(new)
    return found


def write_files(backup: BrokerBackup, check: Callable[[], None], report: Report) -> BrokerBackup:
    """Do everything that is not done yet on this broker; a repair that was killed is continued.

    ``check`` raises an error if the cluster does not allow it; it is called while the broker cannot start. ``report`` is
    called with each change that is done. Raise ``UsageError`` if the repair is in another state, ``TopicIdRepairError`` if
    the broker runs, or something has changed since the backup was made.
    """
    if backup.state is not RepairState.PREPARED:
        raise UsageError(f"{backup.folder} is of a repair that is {backup.state.value}")
    with broker_stopped(backup.log_dirs):
        check()
        for one in backup.not_done(backup.changes):
            report(one.do(backup.changes))
        if backup.not_done(backup.changes):
            raise TopicIdRepairError(f"{backup.folder}: what was done does not read back; undo with --undo")
        return backup.at(RepairState.WRITTEN)


def undo_files(backup: BrokerBackup, check: Callable[[], None], report: Report) -> BrokerBackup:
    """Undo the changes while the broker is stopped; an undo that was killed is continued. Errors: as :func:`write_files`.

    A ``partition.metadata`` that did not exist before stays: no such file is ever deleted.
    """
    if backup.state is RepairState.UNDONE:
        raise UsageError(f"{backup.folder}: this repair was undone already")
    with broker_stopped(backup.log_dirs):
        check()
        changes = backup.not_undone(backup.changes)
        backup = backup.at(RepairState.UNDOING)
        for one in changes:
            report(one.undo(backup.changes))
        return backup.at(RepairState.UNDONE)


def check_written(backup: BrokerBackup) -> None:
    """Check that the disk is as planned and no log was cut since, else ``TopicIdRepairError``; ``UsageError``: too early."""
    if backup.state not in (RepairState.WRITTEN, RepairState.DONE):
        raise UsageError(f"{backup.folder} is of a repair that is {backup.state.value}: run --step write first")
    for one in backup.changes:
        if isinstance(one, WriteId):
            if read_metadata(one.folder) != one.after:
                raise TopicIdRepairError(f"{one.path} has not the id {one.topic_id}: scan again")
        elif (now := log_bytes(one.folder)) < one.log_bytes:
            raise TopicIdRepairError(
                f"{one.folder} has {now:,} bytes of records and had {one.log_bytes:,}: it was cut, by retention or "
                f"to those of another replica. The whole directory is in {backup.folder}: if it is the latter, stop all "
                "brokers of it and put that copy in its place, without its .index and .timeindex files"
            )


def brokers_not_back(scans: Scans, backup: BrokerBackup) -> list[int]:
    """Return the brokers on which a partition of this repair is not back yet, by scans of all of them."""
    waiting = set()
    for (topic, number), brokers in backup.wrong_replicas.items():
        for broker in brokers:
            ours = [
                one for one in scans.directories if (one.topic, one.partition, one.broker) == (topic, number, broker)
            ]
            here = [one for one in ours if one.state == CURRENT]
            largest = max((one.log_bytes or 0 for one in ours if one.state == STRAY), default=0)
            known = here[0].topic_id if len(here) == 1 else None
            if known != backup.topics.get(topic, known) or known is None or (here[0].log_bytes or 0) < largest:
                waiting.add(broker)
    return sorted(waiting)


def read_backup(folder: Path, local: ScannedBroker) -> BrokerBackup:
    """Read the backup of this broker; raise ``UsageError`` if it is another's, or of other log dirs."""
    backup = BrokerBackup.find(folder)
    if backup is None:
        raise UsageError(f"there is no backup {folder}: run --step prepare first, or name it")
    if backup.broker != local.id or backup.log_dirs != local.log_dirs:
        raise UsageError(
            f"{backup.folder} is of broker {backup.broker} with log dirs {', '.join(backup.log_dirs)}, {local.settings} is "
            f"of broker {local.id}: nothing was changed"
        )
    return backup


def is_broker_backup(folder: Path) -> bool:
    """Return whether a folder is a backup of one broker's files, complete or damaged."""
    try:
        return read_index(folder).get("kind") == "broker"
    except (OSError, ValueError, RecursionError):
        return False


def _disk_bytes(folder: Path) -> int:
    """Return the bytes that a directory takes on its disk; files with holes take less than their size."""
    with explained(f"{folder} cannot be read", "; nothing was changed"):
        return sum(path.stat().st_blocks * 512 for path in folder.iterdir())
