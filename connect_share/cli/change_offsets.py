"""What ``alter``, ``reset`` and ``copy offsets`` have in common: options, preview, backup, writing, reading back."""

from __future__ import annotations

import argparse
import datetime
import os
import shlex
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from connect_share.cli.group_worker import Worker
from connect_share.cli.rows import json_text_of
from connect_share.console import Output, Parser, add_output, confirmed, plural, shown_group
from connect_share.errors import ConnectShareError, UsageError
from connect_share.files import write_private_file
from connect_share.model.keys import shown
from connect_share.stores.alter_offsets import (
    UNREADABLE,
    OffsetChange,
    OffsetPair,
    StoredOffset,
    compare,
    is_usable,
    offsets_document,
)

_UNASKED: Final = "nothing was changed: give --yes to change the offsets without a prompt"
_LONGEST_NAME: Final = 120


@dataclass
class ConnectorPlan:
    """What is to be done to the offsets of one connector; ``resets``: all of them are forgotten."""

    worker: Worker = field(repr=False)
    connector: str
    wanted: list[OffsetPair] = field(repr=False)
    resets: bool = False
    changes: list[OffsetChange] = field(init=False, repr=False)
    _stored: list[StoredOffset] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.compare()

    @property
    def needed(self) -> list[OffsetChange]:
        """The changes of which something has to be written."""
        return [change for change in self.changes if change.is_change]

    def compare(self) -> None:
        """Look at what is there now."""
        self._stored = self.worker.stored_offsets(self.connector)
        if self.resets:
            self.wanted = [(partition, None) for partition, _ in self._stored]
        self.changes = compare(self._stored, self.wanted)

    def check_unchanged(self) -> None:
        """Refuse if what is there is no longer what was shown.

        Raises:
            ConnectShareError: nothing was written.
        """
        if self.worker.stored_offsets(self.connector) != self._stored:
            raise ConnectShareError(
                f"offsets of connector {shown(self.connector)} were changed by somebody else after they were shown; nothing "
                "was changed here, look again"
            )

    def write(self, *, force: bool) -> int:
        """Write what is needed, and read it back; return the number of records.

        Raises:
            ConnectShareError: not allowed, not written, or somebody else has written meanwhile.
        """
        storage = self.worker.storage
        if self.resets:
            written = storage.reset_offsets(self.connector, force=force)
        else:
            written = storage.alter_offsets(self.connector, self.wanted, force=force)
        self.compare()
        if self.needed:
            raise ConnectShareError(
                f"{plural(len(self.needed), 'offset')} of connector {shown(self.connector)} are not what was written: "
                "somebody else has written to them; look at them again (get offsets)"
            )
        return written


def add_change_options(parser: Parser) -> None:
    """Add where the group is and how its offsets are changed."""
    parser.add_argument(
        "-w",
        "--worker-config",
        metavar="FILE",
        type=Path,
        required=True,
        help="properties file of a worker of the group",
    )
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
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="show what would change, change nothing")
    add_output(parser)


def add_connectors(parser: Parser) -> None:
    """Add the connectors of a command that takes many."""
    parser.add_argument("connectors", metavar="NAME", nargs="*", help="name of a connector")
    parser.add_argument(
        "--matching",
        metavar="PATTERN",
        action="append",
        default=[],
        help="all configured connectors whose names match, such as 'orders-*' or '*'; may be repeated",
    )


def connectors_of(arguments: argparse.Namespace, worker: Worker) -> list[str]:
    """Return the connectors that were named or match, each once.

    Raises:
        UsageError: there is none.
    """
    found = list(dict.fromkeys([*arguments.connectors, *worker.matching(arguments.matching)]))
    if not found:
        raise UsageError(
            f"no connector of group {shown_group(worker.group)} matches"
            if arguments.matching
            else "name a connector, or give --matching PATTERN"
        )
    return found


def check_usage(arguments: argparse.Namespace) -> None:
    """Refuse what can never work, before a cluster is asked.

    Raises:
        UsageError: there is no such folder for backups, or it cannot be written to.
    """
    if not arguments.backup_dir.is_dir() or not os.access(arguments.backup_dir, os.W_OK):
        raise UsageError(f"--backup-dir: {arguments.backup_dir} is not a folder that can be written to")


def carry_out(arguments: argparse.Namespace, out: Output, plans: Sequence[ConnectorPlan]) -> int:
    """Show the changes, and make them after a backup, unless something forbids it. Return the exit code."""
    needed = [plan for plan in plans if plan.needed]
    worker = plans[0].worker
    refusals = worker.refusals([plan.connector for plan in plans], force=arguments.force)
    if refusals and not arguments.dry_run:
        if len(refusals) > 1:
            out.note(f"{plural(len(refusals), 'reason')} not to change anything; --dry-run shows all")
        raise refusals[0]
    rows = [_row(plan, change) for plan in plans for change in plan.changes if change.is_change]
    unchanged = sum(len(plan.changes) for plan in plans) - len(rows)
    result: dict[str, Any] = {"changes": rows, "unchanged": unchanged, "dry_run": arguments.dry_run}
    if not out.is_json:
        _show(out, plans)
    if arguments.dry_run or not needed:
        _end(out, result, "nothing was changed: --dry-run" if needed else "nothing to do")
        return max([0, *(out.error(refusal) for refusal in refusals)])
    # A preview as JSON cannot stand before the question.
    if not arguments.yes and (out.is_json or not confirmed("change these offsets?", otherwise=_UNASKED, note=out.note)):
        if out.is_json:
            out.note(_UNASKED)
        return 1
    for plan in needed:
        plan.check_unchanged()
    backups = [_backup(arguments.backup_dir, plan) for plan in needed]
    for plan, path in zip(needed, backups, strict=True):
        _note_backup(out, plan, path)
    written, done = 0, 0
    try:
        for plan in needed:
            written += plan.write(force=arguments.force)
            done += 1
    except ConnectShareError as error:
        if done:
            out.note(f"{done} of {plural(len(needed), 'connector')} are done; the same command continues")
        return out.error(error)
    files = [
        {"group": plan.worker.group, "connector": plan.connector, "file": str(path)}
        for plan, path in zip(needed, backups, strict=True)
    ]
    _end(
        out,
        {**result, "written": written, "backups": files},
        f"{plural(len(rows), 'offset')} of {plural(len(needed), 'connector')} changed and read back",
    )
    return 0


def _row(plan: ConnectorPlan, change: OffsetChange) -> dict[str, Any]:
    return {
        "group": plan.worker.group,
        "connector": plan.connector,
        "partition": change.partition,
        "old": change.old,
        "new": change.new,
    }


def _end(out: Output, result: dict[str, Any], verdict: str) -> None:
    if out.is_json:
        out.json({"written": 0, "backups": [], **result})
    else:
        out.lines(verdict)


def _show(out: Output, plans: Sequence[ConnectorPlan]) -> None:
    for plan in plans:
        needed = plan.needed
        out.lines(
            f"{plan.connector} ({shown_group(plan.worker.group)}): {plural(len(needed), 'offset')} to change, "
            f"{len(plan.changes) - len(needed)} as wanted"
        )
        for change in needed:
            out.lines(f"  {json_text_of(change.partition)}: {_shown(change.old)} -> {_shown(change.new)}")


def _shown(offset: Any) -> str:
    if offset is None:
        return "none"
    return UNREADABLE if offset is UNREADABLE else json_text_of(offset)


def _backup(folder: Path, plan: ConnectorPlan) -> Path:
    """Write the old offsets of what will change, in the form of ``alter offsets --file``; return where.

    Raises:
        ConnectShareError: it cannot be written.
    """
    name = f"{plan.worker.group or 'plain'}-{urllib.parse.quote(plan.connector, safe='')}"[:_LONGEST_NAME]
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    path = folder / f"offsets-{name}-{now}.json"
    old = [
        (change.partition, None if change.old is UNREADABLE else change.old)
        for change in plan.needed
        if is_usable(change.partition)
    ]
    try:
        write_private_file(path, offsets_document(old))
    except OSError as error:
        raise ConnectShareError(
            f"the old offsets cannot be written to {path} ({error.strerror}), so nothing was changed; name another "
            "--backup-dir"
        ) from None
    return path


def _note_backup(out: Output, plan: ConnectorPlan, path: Path) -> None:
    undo = ["connect-share", "alter", "offsets", plan.connector, "-w", str(plan.worker.path), "--file", str(path)]
    out.note(f"old offsets of {plan.connector} are in {path}; undo: {shlex.join(undo)}")
    lost = sum(not change.can_be_undone for change in plan.needed)
    if lost:
        out.note(
            f"{plural(lost, 'old value')} of {plan.connector} cannot be put back exactly: no connector can use it, or it was "
            "written twice with members in another order"
        )
