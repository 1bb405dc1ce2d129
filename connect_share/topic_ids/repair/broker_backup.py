"""What a repair keeps of one broker's files: ids and whole directories with checksums, and how far it is."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from connect_share.errors import UsageError
from connect_share.private_file import sync_folder, write_private_file
from connect_share.topic_ids.authority.authority import Mode
from connect_share.topic_ids.errors import TopicIdRepairError
from connect_share.topic_ids.repair.backup import State, checksum, make_folder, note, read_index
from connect_share.topic_ids.repair.broker_acts import Act, FileState, PutBack, WriteId, copied, metadata_of
from connect_share.topic_ids.repair.broker_folder import entries, held
from connect_share.topic_ids.scan.scanner import ZERO_ID, directory_names, id_bytes, id_text
from connect_share.topic_ids.scan.scans import CURRENT, STRAY

KIND: Final = "broker"
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class BrokerBackup:
    """The part of a repair that one broker's files need, in ``folder``.

    Attributes:
        cluster_id: of the log dirs.
        wrong: replicas with a wrong id when it was made, brokers by topic and partition; those stay out of the ISR, or
            keep others out of it.
        dark: brokers with a file that takes a whole log dir offline.
        peers: host and port of other brokers that have to be stopped as well.
    """

    folder: Path
    mode: Mode
    broker: int
    cluster_id: str | None
    log_dirs: tuple[str, ...]
    acts: tuple[Act, ...]
    wrong: Mapping[tuple[str, int], frozenset[int]] = field(default_factory=dict)
    dark: frozenset[int] = frozenset()
    peers: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    state: State = State.PREPARED

    @property
    def topics(self) -> dict[str, str]:
        """Topics that are touched, with their right ids."""
        return {one.topic: one.topic_id for one in self.acts if isinstance(one, WriteId)}

    def at(self, state: State) -> BrokerBackup:
        """Note on disk how far the repair is.

        Raises:
            TopicIdRepairError: the folder cannot be written.
        """
        found = replace(self, state=state)
        note(self.folder, found.index())
        return found

    def write(self) -> BrokerBackup:
        """Make the folder, as one step, with copies of all that is touched; gives the backup with their checksums.

        Raises:
            UsageError: there is something of this name already.
            TopicIdRepairError: it cannot be written, or has no room on its disk.
        """
        needed = sum(_disk_bytes(Path(one.stray)) for one in self.acts if isinstance(one, PutBack))
        existing = next(one for one in self.folder.absolute().parents if one.exists())
        if needed > shutil.disk_usage(existing).free:
            raise TopicIdRepairError(
                f"{existing} has no room for {needed:,} bytes: give another --backup; nothing was changed"
            )
        acts: list[Act] = []

        def fill(folder: Path) -> dict[str, str]:
            sums: dict[str, str] = {}
            for number, one in enumerate(self.acts, 1):
                if isinstance(one, WriteId):
                    acts.append(one)
                    for suffix, data in (("before", one.before), ("after", one.after)):
                        if data is not None:
                            write_private_file(folder / f"{number}.{suffix}", data)
                            sums[f"{number}.{suffix}"] = checksum(data)
                    continue
                copy = folder / f"{number}.directory"
                copy.mkdir(mode=0o700)
                with held(one.stray) as directory:
                    files = {
                        name: copied(name, directory, copy / name)
                        for name, found in entries(directory).items()
                        if not stat.S_ISDIR(found.st_mode)
                    }
                sync_folder(copy)
                sums |= {f"{copy.name}/{name}": file.sha256 for name, file in files.items()}
                acts.append(replace(one, files=files))
            return sums

        make_folder(self.folder, fill, lambda: replace(self, acts=tuple(acts)).index())
        return replace(self, acts=tuple(acts))

    def index(self) -> bytes:
        """Give ``backup.json``."""
        members = {
            "format": _FORMAT,
            "kind": KIND,
            "state": self.state.value,
            "mode": self.mode.value,
            "broker": self.broker,
            "cluster_id": self.cluster_id,
            "log_dirs": self.log_dirs,
            "wrong": [[topic, number, sorted(brokers)] for (topic, number), brokers in sorted(self.wrong.items())],
            "dark": sorted(self.dark),
            "peers": [[broker, host, port] for broker, (host, port) in sorted(self.peers.items())],
            "acts": [_act_to_dict(number, one) for number, one in enumerate(self.acts, 1)],
        }
        return (json.dumps(members, indent=1) + "\n").encode()


def is_broker_backup(folder: Path) -> bool:
    """Tell whether a folder is a backup of one broker's files; what is wrong with it, reading it tells."""
    try:
        found = read_index(folder)
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("kind") == KIND


def find_broker_backup(folder: Path) -> BrokerBackup | None:
    """Read a backup; ``None``: there is no such folder.

    Raises:
        UsageError: it is no backup of a broker's files, its files are not those it was made with, or it names something
            other than directories of its topics in its log dirs.
    """
    if not folder.exists():
        return None
    try:
        found = read_index(folder)
        if isinstance(found, dict) and (found.get("format"), found.get("kind")) != (_FORMAT, KIND):
            raise UsageError(
                f"{folder} is no backup of a broker's files of format {_FORMAT}; give another with --backup"
            )
        index = _Index.model_validate(found)
        return BrokerBackup(
            folder,
            index.mode,
            index.broker,
            index.cluster_id,
            index.log_dirs,
            tuple(_act_of(folder, one, index.log_dirs) for one in index.acts),
            {(topic, number): frozenset(ids) for topic, number, ids in index.wrong},
            frozenset(index.dark),
            {broker: (host, port) for broker, host, port in index.peers},
            index.state,
        )
    except (OSError, ValueError, RecursionError) as exc:
        raise UsageError(f"{folder} is no backup of a repair, or is damaged; give another with --backup") from exc


_Text = Annotated[str, Field(strict=True, pattern=r"^[^\x00]*$")]
_Number = Annotated[int, Field(strict=True, ge=0, lt=2**31)]
_Sum = Annotated[str, Field(strict=True, pattern=r"^[0-9a-f]{64}$")]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class _WriteIdPart(_Part):
    act: Literal["write-id"]
    topic: _Text
    partition: _Number
    folder: _Text
    topic_id: _Text
    number: _Number
    before_sha256: _Sum | None


class _PutBackPart(_Part):
    act: Literal["put-back"]
    topic: _Text
    partition: _Number
    folder: _Text
    stray: _Text
    empty: _Text | None
    aside: _Text | None
    number: _Number
    files: dict[_Text, tuple[Annotated[int, Field(strict=True, ge=0, lt=2**63)], _Sum]]


class _Index(_Part):
    """``backup.json``: whoever made it, a repair may run as root by it."""

    format: Literal[1]
    kind: Literal["broker"]
    state: State
    mode: Mode
    broker: _Number
    cluster_id: _Text | None
    log_dirs: tuple[_Text, ...]
    wrong: tuple[tuple[_Text, _Number, tuple[_Number, ...]], ...]
    dark: tuple[_Number, ...]
    peers: tuple[tuple[_Number, _Text, Annotated[int, Field(strict=True, gt=0, lt=2**16)]], ...]
    acts: tuple[Annotated[_WriteIdPart | _PutBackPart, Field(discriminator="act")], ...]


def _act_to_dict(number: int, one: Act) -> dict[str, Any]:
    common = {"topic": one.topic, "partition": one.partition, "folder": one.folder}
    if isinstance(one, WriteId):
        before = None if one.before is None else checksum(one.before)
        return {"act": "write-id", **common, "topic_id": one.topic_id, "number": number, "before_sha256": before}
    files = {name: [file.size, file.sha256] for name, file in one.files.items()}
    return {"act": "put-back", **common, "stray": one.stray, "empty": one.empty, "aside": one.aside} | {
        "number": number,
        "files": files,
    }


def _act_of(folder: Path, found: _WriteIdPart | _PutBackPart, log_dirs: Sequence[str]) -> Act:
    def check(path: str | None, state: str) -> None:
        """Refuse what is no directory of this partition, right in a log dir; Kafka cuts long names that have a mark."""
        place = Path(path or "")
        named = directory_names(place.name)
        if path is not None and not (
            named is not None
            and any(place == Path(one, place.name) for one in log_dirs)
            and named[1:] == (found.partition, state)
            and (named[0] == found.topic if state == CURRENT else found.topic.startswith(named[0]))
        ):
            raise UsageError(
                f"{folder}: backup.json names {path!a}, which is no directory of {found.topic!a}, partition "
                f"{found.partition}, in the broker's log dirs; nothing was changed"
            )

    check(found.folder, CURRENT)
    if isinstance(found, _PutBackPart):
        check(found.stray, STRAY)
        check(found.empty, CURRENT)
        check(found.aside, STRAY)
        if (found.empty is None) != (found.aside is None) or any(Path(one).name != one for one in found.files):
            raise ValueError
        files = {name: FileState(*file) for name, file in found.files.items()}
        return PutBack(found.topic, found.partition, found.folder, found.stray, found.empty, found.aside, files)
    raw = id_bytes(found.topic_id)
    if raw is None or id_text(raw) != found.topic_id or raw == ZERO_ID:
        raise UsageError(f"{folder}: backup.json has an id for {found.topic!a} that no topic has")
    before = None
    if found.before_sha256 is not None:
        path = folder / f"{found.number}.before"
        before = path.read_bytes()
        if checksum(before) != found.before_sha256:
            raise UsageError(f"{path} has another checksum than backup.json says: it was changed")
    return WriteId(found.topic, found.partition, found.folder, found.topic_id, before, metadata_of(found.topic_id))


def _disk_bytes(folder: Path) -> int:
    """Sum up what a directory takes on its disk, in bytes; files with holes take less than their size."""
    try:
        return sum(path.stat().st_blocks * 512 for path in folder.iterdir())
    except OSError as exc:
        raise TopicIdRepairError(f"{folder} cannot be read: {exc.strerror}; nothing was changed") from exc
