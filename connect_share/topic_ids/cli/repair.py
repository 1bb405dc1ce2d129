"""``repair topic-ids``: show the plan, ask, and write the znodes or undo that; files are changed by ``--step``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from connect_share.console.options import DEFAULT_TIMEOUT_S, Parser
from connect_share.console.output import Output, Result, plural
from connect_share.console.program import NOTHING_CHANGED, STAYS, Command, Preview, Steps
from connect_share.errors import UsageError
from connect_share.topic_ids.authority.zookeeper import ZooKeeper
from connect_share.topic_ids.cli.broker_steps import BrokerSteps, StepLog, to_be
from connect_share.topic_ids.cli.check import AUTHORITIES, SCANS, add_sources, compared, summary, zookeeper_session
from connect_share.topic_ids.errors import TopicIdRepairError
from connect_share.topic_ids.repair.backup import RepairState
from connect_share.topic_ids.repair.broker_repair import is_broker_backup
from connect_share.topic_ids.repair.plan import plan_repair
from connect_share.topic_ids.repair.steps import RepairPlan
from connect_share.topic_ids.repair.zookeeper_repair import (
    ZnodeBackup,
    manual_reason,
    prepare_znodes,
    undo_znodes,
    write_znodes,
)

WAIT_S: Final = 30.0


def _repair_topic_ids(arguments: argparse.Namespace, out: Output) -> Result | Steps:
    if arguments.undo is not None:
        return BrokerSteps(arguments, out).undo() if is_broker_backup(arguments.undo) else _undo(arguments, out)
    if arguments.step is not None:
        return BrokerSteps(arguments, out).run()
    if arguments.dry_run:
        with suppress(UsageError):  # a dry run does not need the folder
            begun = ZnodeBackup.find(arguments.backup)
            # The znodes of an interrupted repair look healthy, but the controller still has other ids.
            if begun is not None and begun.state is RepairState.PREPARED:
                out.note(
                    f"the repair begun in {arguments.backup} is not finished: run it without --dry-run to continue it"
                )
        return _repair(arguments, out)
    if arguments.zookeeper is None:
        raise UsageError(
            "without --dry-run, what can be done from here is done with --zookeeper HOST:PORT; files are changed with --step "
            "on the machine of each broker"
        )
    begun = ZnodeBackup.find(arguments.backup)
    if begun is None:
        return _repair(arguments, out)
    if begun.state is not RepairState.PREPARED:
        raise UsageError(
            f"{arguments.backup} is of a repair that is {begun.state.value}; give another folder with --backup"
        )
    out.note(f"continuing the repair begun in {arguments.backup}; the scans are ignored")
    return _continue(begun, arguments, out)


def _continue(begun: ZnodeBackup, arguments: argparse.Namespace, out: Output) -> Steps:
    with zookeeper_session(arguments) as session:
        yield from _write(begun, session, out, new=False)


def _repair(arguments: argparse.Namespace, out: Output) -> Steps:
    found = compared(arguments, out)
    plan = plan_repair(found)
    code = 1 if plan.refused else 0
    if arguments.dry_run or not plan.steps:
        result: dict[str, object] = {} if arguments.dry_run else {"done": [], "backup": None}
        members = {**summary(found), "dry_run": bool(arguments.dry_run), **plan.to_dict(), **result}
        yield Result(members, _plan_lines(plan, "nothing was changed"), code)
        return
    lines = _plan_lines(plan, "nothing was changed so far")
    if (reason := manual_reason(plan)) is not None:
        yield Preview(lines, {}, "", objections=[UsageError(f"nothing of this plan can be done from here: {reason}")])
    with zookeeper_session(arguments) as session:
        backup = prepare_znodes(found, plan, session, arguments.backup)
        yield from _write(backup, session, out, lines, code, new=True)


def _write(
    backup: ZnodeBackup, session: ZooKeeper, out: Output, lines: Sequence[str] = (), code: int = 0, *, new: bool
) -> Steps:
    yield Preview([*lines, *to_be("written", backup.preview())], {}, "write these ids?")
    if new:
        backup = backup.write()
        out.note(f"backup with checksums in {backup.folder}")
    log = StepLog(out)
    try:
        write_znodes(backup, session, log, WAIT_S)
    except TopicIdRepairError:
        if log.done:
            out.note(f"stopped after {plural(len(log.done), 'step')}; the backup is {backup.folder}")
        raise
    after = "scan all brokers again and run check topic-ids; take back with --undo"
    if backup.later:
        after = (
            "then come files: scan all brokers again, and run it with --step prepare on each broker that the plan has"
        )
    yield _result(log, backup, after, code)


def _undo(arguments: argparse.Namespace, out: Output) -> Steps:
    if arguments.zookeeper is None:
        raise UsageError("--undo writes into ZooKeeper: give --zookeeper HOST:PORT")
    backup = ZnodeBackup.find(arguments.undo)
    if backup is None:
        raise UsageError(f"there is no backup {arguments.undo}")
    if arguments.server_properties is not None:
        raise UsageError(f"{backup.folder} has znodes only, and no broker's files: leave --server-properties out")
    lines = backup.preview(undo=True)
    yield Preview(to_be("written", lines), {"backup": str(backup.folder), "would": lines}, "put this back?")
    log = StepLog(out)
    with zookeeper_session(arguments) as session:
        undo_znodes(backup, session, log, WAIT_S)
    yield _result(log, backup, "the ids are as they were before the repair")


def _result(log: StepLog, backup: ZnodeBackup, text: str, code: int = 0) -> Result:
    done = f"{plural(len(log.done), 'step')} done, backup {backup.folder}; {text}"
    return Result({"dry_run": False, "done": log.done, "backup": str(backup.folder)}, [done], code)


def _plan_lines(plan: RepairPlan, end: str) -> list[str]:
    lines = [f"{one.topic}: {one.method.value}, id {one.topic_id}; {one.why}" for one in plan.topics]
    for number, step in enumerate(plan.steps, 1):
        lines += ["", f"{number}. {step.text}", *(f"   before: {check}" for check in step.before)]
        if step.command is not None:
            lines.append(f"   by hand: {step.command}")
    for title, topics in (("refused", plan.refused), ("left alone", plan.left)):
        if topics:
            lines += ["", f"{title}:", *(f"  {one.topic or 'everything'}: {one.reason}" for one in topics)]
    steps = plural(len(plan.steps), "step") if plan.steps else "no steps"
    lines += [""] if plan.steps or plan.refused or plan.left else []
    return [*lines, f"{steps}, {len(plan.refused) or 'nothing'} refused; {end}"]


def _add_options(parser: Parser) -> None:
    add_sources(parser)
    parser.add_argument("--dry-run", action="store_true", help="show the plan, change nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--backup",
        metavar="DIR",
        type=Path,
        default=Path("topic-ids-backup"),
        help="new folder for what is written over; one of a repair that was interrupted: go on with it "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--undo",
        metavar="BACKUP",
        type=Path,
        help="take a repair back; needs --zookeeper, and --server-properties for the backup of a broker's files",
    )
    files = parser.add_argument_group("files, on the machine of each broker")
    files.add_argument(
        "--step",
        choices=("prepare", "write", "check"),
        help="prepare: check whether its turn has come, and keep what is touched; write: while it is stopped; check: "
        "that it serves again",
    )
    files.add_argument(
        "--server-properties", metavar="FILE", type=Path, help="of the broker; its log dirs are scanned now"
    )
    parser.refuse("--server-properties", without="--step or --undo")
    parser.refuse(f"--step --backup {SCANS} {AUTHORITIES}", beside="--undo")
    parser.refuse(SCANS, beside="--step write")


REPAIR: Final = Command(
    "repair topic-ids",
    _repair_topic_ids,
    "repair topic ids that differ, or plan it",
    about="Show the least dangerous way back to equal topic ids, step by step, with what must hold before each "
    "step. With --zookeeper znodes are written after a prompt: everything is checked and kept in --backup before the "
    "first write. What has to be done to files is done on each broker's machine with --step. Exit code 1 if something "
    "cannot be repaired safely.",
    examples=[
        "connect-share repair topic-ids --scan broker-1.scan --scan broker-2.scan --zookeeper zk:2181 --dry-run",
        "connect-share repair topic-ids --scan broker-1.scan --scan broker-2.scan --zookeeper zk:2181",
    ],
    options=_add_options,
    timeout_s=DEFAULT_TIMEOUT_S,
    after_interruption=lambda arguments: NOTHING_CHANGED if arguments.dry_run else STAYS,
)
