"""What a repair keeps of one broker's files: ids and whole directories with checksums, and how far it is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from connect_share.errors import TopicIdRepairError, UsageError
from connect_share.private_file import sync_folder, write_private_file
from connect_share.topic_ids.authority.authority import Mode
from connect_share.topic_ids.repair.backup import INDEX, State, checksum, make_folder, note
from connect_share.topic_ids.repair.broker_acts import Act, FileState, PutBack, WriteId, copied, metadata_of

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
                files = {
                    path.name: copied(path, copy / path.name)
                    for path in sorted(Path(one.stray).iterdir())
                    if path.is_file()
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
        found = json.loads((folder / INDEX).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("kind") == KIND


def find_broker_backup(folder: Path) -> BrokerBackup | None:
    """Read a backup; ``None``: there is no such folder.

    Raises:
        UsageError: it is no backup of a broker's files, or its files are not those it was made with.
    """
    if not folder.exists():
        return None
    try:
        index = json.loads((folder / INDEX).read_bytes())
        if index["format"] != _FORMAT or index["kind"] != KIND:
            raise UsageError(
                f"{folder} is no backup of a broker's files of format {_FORMAT}; give another with --backup"
            )
        return BrokerBackup(
            folder,
            Mode(index["mode"]),
            int(index["broker"]),
            index["cluster_id"],
            tuple(str(one) for one in index["log_dirs"]),
            tuple(_act_of(folder, one) for one in index["acts"]),
            {(str(topic), int(number)): frozenset(map(int, ids)) for topic, number, ids in index["wrong"]},
            frozenset(map(int, index["dark"])),
            {int(broker): (str(host), int(port)) for broker, host, port in index["peers"]},
            State(index["state"]),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as exc:
        raise UsageError(f"{folder} is no backup of a repair, or is damaged; give another with --backup") from exc


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


def _act_of(folder: Path, found: Mapping[str, Any]) -> Act:
    topic, partition, home, number = str(found["topic"]), int(found["partition"]), str(found["folder"]), found["number"]
    if found["act"] == "put-back":
        files = {str(name): FileState(int(size), str(digest)) for name, (size, digest) in found["files"].items()}
        empty, aside = (None if found[name] is None else str(found[name]) for name in ("empty", "aside"))
        return PutBack(topic, partition, home, str(found["stray"]), empty, aside, files)
    before = None
    if found["before_sha256"] is not None:
        path = folder / f"{int(number)}.before"
        before = path.read_bytes()
        if checksum(before) != found["before_sha256"]:
            raise UsageError(f"{path} has another checksum than backup.json says: it was changed")
    topic_id = str(found["topic_id"])
    return WriteId(topic, partition, home, topic_id, before, metadata_of(topic_id))


def _disk_bytes(folder: Path) -> int:
    """Sum up what a directory takes on its disk, in bytes; files with holes take less than their size."""
    try:
        return sum(path.stat().st_blocks * 512 for path in folder.iterdir())
    except OSError as exc:
        raise TopicIdRepairError(f"{folder} cannot be read: {exc.strerror}; nothing was changed") from exc
