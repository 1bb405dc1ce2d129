"""``repair topic-ids``: shows the plan, asks, and has it carried out or taken back."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, suppress
from typing import Final

from connect_share.cli.topic_ids import about, compared
from connect_share.cli.topic_ids_steps import run_step, undo_step
from connect_share.console import Output, confirmed
from connect_share.errors import UsageError
from connect_share.topic_ids.authority.zookeeper import ZooKeeper, open_zookeeper
from connect_share.topic_ids.errors import TopicIdRepairError
from connect_share.topic_ids.repair import zookeeper_repair
from connect_share.topic_ids.repair.backup import Backup, State, find_backup
from connect_share.topic_ids.repair.broker_backup import is_broker_backup
from connect_share.topic_ids.repair.plan import plan_repair
from connect_share.topic_ids.repair.steps import Plan

_WAIT_S: Final = 30.0

_UNASKED: Final = "nothing was changed: give --yes to go on without a prompt"


def repair_topic_ids(arguments: argparse.Namespace, out: Output) -> int:
    """``repair topic-ids``."""
    if arguments.undo is not None:
        if arguments.step is not None:
            raise UsageError("--step and --undo do not go together")
        return undo_step(arguments, out) if is_broker_backup(arguments.undo) else _undo(arguments, out)
    if arguments.step is not None:
        return run_step(arguments, out)
    if arguments.server_properties is not None:
        raise UsageError("--server-properties goes with --step, or with --undo")
    if not arguments.dry_run and arguments.zookeeper is None:
        raise UsageError(
            "without --dry-run, what can be done from here is done with --zookeeper HOST:PORT; files are changed with --step "
            "on the machine of each broker"
        )
    begun = None if arguments.dry_run else find_backup(arguments.backup)
    if begun is not None:
        if begun.state is not State.PREPARED:
            raise UsageError(
                f"{arguments.backup} is of a repair that is {begun.state.value}; give another folder with --backup"
            )
        out.note(f"going on with the repair begun in {arguments.backup}; what was scanned now is not looked at")
        with _session(arguments) as session:
            return _carry_out(begun, session, arguments, out, new=False)
    found = compared(arguments, out)
    plan = plan_repair(found)
    if arguments.dry_run:
        _note_unfinished(arguments, out)
        if out.is_json:
            out.json({**about(found), "dry_run": True, **plan.to_dict()})
        else:
            _tell_plan(plan, out, "nothing was changed")
        return 1 if plan.refused else 0
    if not out.is_json:
        _tell_plan(plan, out, "nothing was changed so far")
    if plan.steps and (reason := zookeeper_repair.why_by_hand(plan)) is not None:
        raise UsageError(f"nothing of this plan can be done from here: {reason}")
    if not plan.steps:
        if out.is_json:
            out.json({**about(found), "dry_run": False, **plan.to_dict(), "done": [], "backup": None})
        return 1 if plan.refused else 0
    with _session(arguments) as session:
        backup = zookeeper_repair.prepare(found, plan, session, arguments.backup)
        code = _carry_out(backup, session, arguments, out, new=True)
    return code or (1 if plan.refused else 0)


def _note_unfinished(arguments: argparse.Namespace, out: Output) -> None:
    """Warn of a repair that was interrupted: written znodes look healthy, while the controller knows other ids."""
    with suppress(UsageError):  # whatever lies there is no matter for a dry run
        begun = find_backup(arguments.backup)
        if begun is not None and begun.state is State.PREPARED:
            out.note(
                f"the repair begun in {arguments.backup} is not finished: run it without --dry-run to go on with it"
            )


def _carry_out(backup: Backup, session: ZooKeeper, arguments: argparse.Namespace, out: Output, *, new: bool) -> int:
    _preview(zookeeper_repair.preview(backup), out)
    if not arguments.yes and not confirmed("write these ids?", otherwise=_UNASKED, note=out.note):
        return 1
    if new:
        backup.write()
        out.note(f"backup with checksums in {backup.folder}")
    done: list[str] = []
    try:
        zookeeper_repair.carry_out(backup, session, _teller(done, out), _WAIT_S)
    except TopicIdRepairError:
        if done:
            out.note(f"stopped after {len(done)} step{'' if len(done) == 1 else 's'}; the backup is {backup.folder}")
        raise
    after = "scan all brokers again and run check topic-ids; take back with --undo"
    if backup.later:
        after = (
            "then come files: scan all brokers again, and run it with --step prepare on each broker that the plan has"
        )
    _finish(done, backup, after, out)
    return 0


def _undo(arguments: argparse.Namespace, out: Output) -> int:
    if arguments.zookeeper is None:
        raise UsageError("--undo writes into ZooKeeper: give --zookeeper HOST:PORT")
    backup = find_backup(arguments.undo)
    if backup is None:
        raise UsageError(f"there is no backup {arguments.undo}")
    lines = zookeeper_repair.preview(backup, take_back=True)
    if arguments.dry_run:
        if out.is_json:
            out.json({"dry_run": True, "backup": str(backup.folder), "would": lines})
        else:
            out.lines(*lines, "nothing was changed")
        return 0
    _preview(lines, out)
    if not arguments.yes and not confirmed("put this back?", otherwise=_UNASKED, note=out.note):
        return 1
    done: list[str] = []
    with _session(arguments) as session:
        zookeeper_repair.undo(backup, session, _teller(done, out), _WAIT_S)
    _finish(done, backup, "the ids are as they were before the repair", out)
    return 0


def _session(arguments: argparse.Namespace) -> AbstractContextManager[ZooKeeper]:
    return open_zookeeper(arguments.zookeeper, arguments.zookeeper_config, timeout_s=arguments.timeout)


def _teller(done: list[str], out: Output) -> zookeeper_repair.Tell:
    def tell(text: str) -> None:
        done.append(text)
        out.note(text)

    return tell


def _preview(lines: list[str], out: Output) -> None:
    for line in lines:
        out.note(f"to be written: {line}")


def _finish(done: list[str], backup: Backup, text: str, out: Output) -> None:
    if out.is_json:
        out.json({"dry_run": False, "done": done, "backup": str(backup.folder)})
    else:
        out.lines(f"{len(done)} step{'' if len(done) == 1 else 's'} done, backup {backup.folder}; {text}")


def _tell_plan(plan: Plan, out: Output, end: str) -> None:
    for one in plan.topics:
        out.lines(f"{one.topic}: {one.method.value}, id {one.topic_id}; {one.why}")
    for number, step in enumerate(plan.steps, 1):
        out.lines("", f"{number}. {step.text}")
        out.lines(*(f"   before: {check}" for check in step.before))
        if step.command is not None:
            out.lines(f"   by hand: {step.command}")
    for title, verdicts in (("refused", plan.refused), ("left alone", plan.left)):
        if verdicts:
            out.lines("", f"{title}:")
            out.lines(*(f"  {one.topic or 'everything'}: {one.reason}" for one in verdicts))
    steps, refused = len(plan.steps), len(plan.refused)
    out.lines(
        *([""] if steps or refused or plan.left else []),
        f"{steps or 'no'} step{'' if steps == 1 else 's'}, {refused or 'nothing'} refused; {end}",
    )
