"""The part of a repair that is done on each broker's own machine: kept, done while it is stopped, checked, taken back."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connect_share.errors import UsageError
from connect_share.topic_ids.authority.authority import Mode, shown_id
from connect_share.topic_ids.compare.compare import Comparison
from connect_share.topic_ids.errors import TopicIdRepairError
from connect_share.topic_ids.repair.backup import State
from connect_share.topic_ids.repair.broker_acts import (
    Act,
    PutBack,
    WriteId,
    do,
    log_bytes,
    metadata_of,
    read_metadata,
    take_back,
    to_take_back,
    waiting,
)
from connect_share.topic_ids.repair.broker_backup import BrokerBackup
from connect_share.topic_ids.repair.broker_lock import broker_stopped
from connect_share.topic_ids.repair.steps import Action, Plan, Step, brokers_text
from connect_share.topic_ids.scan import scanner
from connect_share.topic_ids.scan.scans import CURRENT, STRAY, Scans, scans_of_records

_FILE_ACTIONS: Final = frozenset({Action.WRITE_FILE, Action.MOVE_ASIDE, Action.RENAME})
_MARK: Final = re.compile(r"\.[^.]+-stray$")
_BAD: Final = frozenset({"unreadable", "zero"})

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LocalBroker:
    """The broker of this machine, by its ``server.properties``."""

    id: int
    log_dirs: tuple[str, ...]
    tiered_storage: bool | None
    settings: Path


def read_local_broker(settings: Path) -> LocalBroker:
    """Read which broker is meant, and where its log dirs are.

    Raises:
        UsageError: the file cannot be read, or the broker's id is neither there nor in ``meta.properties``.
    """
    try:
        broker, log_dirs, tiered = scanner.server_settings(str(settings))
    except (OSError, scanner.Unreadable) as exc:
        raise UsageError(f"cannot read {settings}: {getattr(exc, 'strerror', None) or exc}") from exc
    if not log_dirs or not all(Path(one).is_absolute() for one in log_dirs):
        raise UsageError(f"{settings}: log.dirs has to name folders with their whole paths")
    scan = scans_of_records(scanner.scan(log_dirs, broker, tiered), str(settings))
    [number] = scan.brokers
    return LocalBroker(number, tuple(log_dirs), tiered, settings)


def with_local_scan(scans: Scans, local: LocalBroker) -> Scans:
    """Scan this machine's broker now, in place of what was given of it."""
    found = Scans(
        [one for one in scans.log_dirs if one.broker != local.id],
        [one for one in scans.directories if one.broker != local.id],
        scans.tiered_storage,
        list(scans.notes),
        {broker: started for broker, started in scans.started.items() if broker != local.id},
    )
    records = scanner.scan(local.log_dirs, local.id, local.tiered_storage)
    found.add(scans_of_records(records, str(local.settings), broker=local.id))
    return found


def prepare(found: Comparison, plan: Plan, local: LocalBroker, folder: Path) -> BrokerBackup | None:
    """Make of a plan what is to be done on this broker; nothing is written, the caller does that.

    Args:
        found: what the plan was made of, this broker scanned just now.
        plan: the whole repair.
        local: the broker.
        folder: for the backup.

    Returns:
        ``None``: nothing is to be done on this broker.

    Raises:
        TopicIdRepairError: another part of the plan comes first, or nobody but a person can tell whether it is safe.
    """
    steps = [one for one in plan.steps if one.broker == local.id and one.action in _FILE_ACTIONS]
    if not steps:
        return None
    unsure = next((one for one in steps if one.unproven), None)
    if unsure is not None:
        raise TopicIdRepairError(
            f"{unsure.path}: nothing proves that its records are those of the topic, which has another id: no batch is known "
            "to be the same as on the leader. The id would have them served; compare by hand (see the plan of --dry-run); "
            "nothing was changed"
        )
    if any(one.action is Action.WRITE_ZNODE for one in plan.steps):
        raise TopicIdRepairError(
            "the znodes come first: run repair topic-ids without --step, then scan again; nothing was changed"
        )
    put_back = {one.broker for one in plan.steps if one.action is Action.RENAME and one.broker is not None}
    if plan.mode is Mode.KRAFT and local.id not in put_back:
        raise TopicIdRepairError(
            "with KRaft only directories that were set aside are put back; follow the plan of "
            "--dry-run by hand for single files"
        )
    peers = {}
    for broker in sorted(put_back - {local.id}):
        if broker not in found.authority.addresses:
            raise TopicIdRepairError(
                f"where broker {broker} listens is not known, so that it is stopped could not be told: use -B while it "
                "is up, or --metadata-dump; nothing was changed"
            )
        peers[broker] = found.authority.addresses[broker]
    wrong: dict[tuple[str, int], frozenset[int]] = {}
    for one in plan.steps:
        if one.action is Action.WRITE_FILE and one.broker is not None and one.partition is not None:
            place = str(one.topic), one.partition
            wrong[place] = wrong.get(place, frozenset()) | {one.broker}
    dark = {
        one.broker
        for topic, number in wrong
        for one in found.replicas.get(topic, {}).get(number, ())
        if one.broker in wrong[topic, number] and one.metadata in _BAD
    }
    clusters = {one.cluster_id for one in found.scans.log_dirs if one.broker == local.id} - {None}
    return BrokerBackup(
        folder,
        plan.mode,
        local.id,
        next(iter(clusters)) if len(clusters) == 1 else None,
        local.log_dirs,
        tuple(_acts(steps)),
        wrong,
        frozenset(dark),
        peers,
    )


def _acts(steps: list[Step]) -> list[Act]:
    found: list[Act] = []
    empty: dict[tuple[str, int], str] = {}
    stray: dict[str, str] = {}
    for one in steps:
        topic, partition, path = str(one.topic), int(one.partition or 0), str(one.path)
        if one.action is Action.MOVE_ASIDE:
            empty[topic, partition] = path
        elif one.action is Action.RENAME:
            folder = str(Path(path).with_name(f"{topic}-{partition}"))
            current = empty.get((topic, partition))
            # As Kafka names them, which cuts long names; a new mark makes it another one.
            new_name = _MARK.sub(f".{uuid.uuid4().hex}-stray", Path(path).name)
            aside = None if current is None else str(Path(current).with_name(new_name))
            found.append(PutBack(topic, partition, folder, path, current, aside))
            stray[folder] = path
        else:
            folder, topic_id = str(Path(path).parent), str(one.topic_id)
            before = read_metadata(stray.get(folder, folder))
            found.append(WriteId(topic, partition, folder, topic_id, before, metadata_of(topic_id)))
    return found


def preview(backup: BrokerBackup, *, undo: bool = False) -> list[str]:
    """Tell what would be done, one line for each act."""
    lines = []
    for one in reversed(backup.acts) if undo else backup.acts:
        if isinstance(one, WriteId):
            kept = undo and one.before is None
            what = "as before" if undo else f"id {one.topic_id}"
            lines.append(f"{one.folder}/{scanner.METADATA_FILE}: {'stays' if kept else what}")
            continue
        old, new = (one.folder, one.stray) if undo else (one.stray, one.folder)
        if one.empty is not None and not undo:
            lines.append(f"{one.empty}, which is empty -> {one.aside}")
        lines.append(f"{old} -> {new}")
        if one.empty is not None and undo:
            lines.append(f"{one.aside} -> {one.empty}")
    return lines


def carry_out(backup: BrokerBackup, local: LocalBroker, check: Callable[[], None], tell: Tell) -> BrokerBackup:
    """Do what is not done yet on this broker; a run that was killed goes on.

    Args:
        backup: whole, on disk.
        local: the broker.
        check: raises if something in the cluster is against it; is asked while the broker cannot start.
        tell: hears of each act.

    Raises:
        UsageError: the backup is of another broker, or the repair is further than this.
        TopicIdRepairError: the broker runs, or something is not as it was when the backup was made.
    """
    refuse_another_broker(backup, local)
    if backup.state is not State.PREPARED:
        raise UsageError(f"{backup.folder} is of a repair that is {backup.state.value}")
    with broker_stopped(local.log_dirs):
        check()
        for one in waiting(backup.acts):
            tell(do(one))
        if waiting(backup.acts):
            raise TopicIdRepairError(f"{backup.folder}: what was done does not read back; undo with --undo")
        return backup.at(State.WRITTEN)


def undo(backup: BrokerBackup, local: LocalBroker, check: Callable[[], None], tell: Tell) -> BrokerBackup:
    """Put back what was there before, while the broker is stopped; a run that was killed goes on.

    A ``partition.metadata`` that was not there before stays: no such file is ever deleted.

    Raises:
        UsageError: the backup is of another broker, or undone already.
        TopicIdRepairError: the broker runs, or something was changed since.
    """
    refuse_another_broker(backup, local)
    if backup.state is State.UNDONE:
        raise UsageError(f"{backup.folder}: this repair was undone already")
    with broker_stopped(local.log_dirs):
        check()
        acts = to_take_back(backup.acts)
        backup = backup.at(State.UNDOING)
        for one in acts:
            tell(take_back(one, backup.acts))
        return backup.at(State.UNDONE)


def check_written(backup: BrokerBackup, local: LocalBroker) -> None:
    """See to it that this broker's disk is as it was to be, and that no log was cut since.

    Raises:
        UsageError: the backup is of another broker, or nothing was written yet.
        TopicIdRepairError: it is not; the message says what to do.
    """
    refuse_another_broker(backup, local)
    if backup.state not in (State.WRITTEN, State.DONE):
        raise UsageError(f"{backup.folder} is of a repair that is {backup.state.value}: run --step write first")
    for one in backup.acts:
        if isinstance(one, WriteId) and read_metadata(one.folder) != one.after:
            raise TopicIdRepairError(f"{one.folder}/{scanner.METADATA_FILE} has not the id {one.topic_id}: scan again")
        if isinstance(one, PutBack):
            kept = sum(file.size for name, file in one.files.items() if name.endswith(".log"))
            now = log_bytes(one.folder)
            if now < kept:
                raise TopicIdRepairError(
                    f"{one.folder} has {now:,} bytes of records and had {kept:,}: it was cut, by retention or "
                    f"to those of another replica. The whole directory is in {backup.folder}: if it is the latter, stop all "
                    "brokers of it and put that copy in its place, without its .index and .timeindex files"
                )


def not_back(scans: Scans, backup: BrokerBackup) -> list[int]:
    """Give the brokers on which a partition of this repair is not back yet, by scans of all of them."""
    waits = set()
    for (topic, number), brokers in backup.wrong.items():
        for broker in brokers:
            ours = [
                one for one in scans.directories if (one.topic, one.partition, one.broker) == (topic, number, broker)
            ]
            here = [one for one in ours if one.state == CURRENT]
            largest = max((one.log_bytes or 0 for one in ours if one.state == STRAY), default=0)
            known = shown_id(here[0].topic_id) if len(here) == 1 else None
            if known != backup.topics.get(topic, known) or known is None or (here[0].log_bytes or 0) < largest:
                waits.add(broker)
    return sorted(waits)


def brokers_left(backup: BrokerBackup, controller: int | None) -> str | None:
    """Name the brokers that come after this one, the controller last; ``None``: there are none."""
    others = {broker for brokers in backup.wrong.values() for broker in brokers} - {backup.broker}
    if not others:
        return None
    ordered = sorted(others, key=lambda broker: (broker == controller, broker))
    return brokers_text(ordered)


def refuse_another_broker(backup: BrokerBackup, local: LocalBroker) -> None:
    """See to it that a backup is of this broker, and of the log dirs that it has now.

    Raises:
        UsageError: it is not.
    """
    if backup.broker != local.id or backup.log_dirs != local.log_dirs:
        raise UsageError(
            f"{backup.folder} is of broker {backup.broker} with log dirs {', '.join(backup.log_dirs)}, {local.settings} is "
            f"of broker {local.id}: nothing was changed"
        )


def shown_topics(backup: BrokerBackup) -> str:
    """Name what is touched, for people."""
    return ", ".join(sorted({f"{one.topic}-{one.partition}" for one in backup.acts}))
