"""``repair topic-ids --step``: the part of a repair that is done on each broker's machine, and how it is taken back."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from connect_share.cli.topic_ids import authority_of, compared, scans_of
from connect_share.console import Output, confirmed
from connect_share.errors import UsageError
from connect_share.topic_ids.authority.authority import Mode
from connect_share.topic_ids.authority.zookeeper import open_zookeeper
from connect_share.topic_ids.compare.compare import Comparison
from connect_share.topic_ids.errors import TopicIdRepairError
from connect_share.topic_ids.repair.backup import State
from connect_share.topic_ids.repair.broker_acts import to_take_back, waiting
from connect_share.topic_ids.repair.broker_backup import BrokerBackup, find_broker_backup
from connect_share.topic_ids.repair.broker_checks import (
    await_in_sync,
    check_ids,
    check_others_serve,
    check_others_stopped,
    refuse_unclean,
)
from connect_share.topic_ids.repair.broker_lock import broker_stopped, is_stopped
from connect_share.topic_ids.repair.broker_repair import (
    LocalBroker,
    brokers_left,
    carry_out,
    check_written,
    not_back,
    prepare,
    preview,
    read_local_broker,
    refuse_another_broker,
    undo,
)
from connect_share.topic_ids.repair.plan import plan_repair
from connect_share.topic_ids.repair.steps import Plan, brokers_text
from connect_share.topic_ids.repair.zookeeper_repair import refuse_old_scans

WAIT_S: Final = 60.0
_UNASKED: Final = "nothing was changed: give --yes to go on without a prompt"


def run_step(arguments: argparse.Namespace, out: Output) -> int:
    """``repair topic-ids --step``."""
    local = _local(arguments)
    return {"prepare": _prepare, "write": _write, "check": _check}[arguments.step](arguments, local, out)


def undo_step(arguments: argparse.Namespace, out: Output) -> int:
    """``repair topic-ids --undo`` with the backup of a broker."""
    local, backup = _local(arguments), _begun(arguments.undo)

    def check() -> None:
        _with_cluster(arguments, backup, local, writing=False)

    lines = preview(backup, undo=True)
    if arguments.dry_run:
        return _try(arguments, out, backup, lines, local=local, look=lambda: to_take_back(backup.acts), check=check)
    if not _agreed(arguments, lines, "put this back?", out):
        return 1
    done: list[str] = []
    backup = undo(backup, local, check, _teller(done, out))
    others = sorted(backup.peers)
    after = (
        f"undo it on {brokers_text(others)} as well, before any of them is started" if others else "start the broker"
    )
    _finish(arguments, out, backup, done, after)
    return 0


def _prepare(arguments: argparse.Namespace, local: LocalBroker, out: Output) -> int:
    begun = find_broker_backup(arguments.backup)
    if begun is not None:
        raise UsageError(
            f"{arguments.backup} is there already, of a repair that is {begun.state.value}: go on with --step write, or give "
            "another folder with --backup"
        )
    found = compared(arguments, out, local)
    plan = plan_repair(found)
    backup = prepare(found, plan, local, arguments.backup)
    for one in plan.refused:
        out.note(f"refused: {one.topic or 'everything'}: {one.reason}")
    if backup is None:
        return _nothing(plan, local, out)
    _check_before(arguments, backup, found, local)
    lines = preview(backup)
    if not arguments.dry_run:
        backup = backup.write()
        out.note(f"backup with checksums in {backup.folder}")
    stop = brokers_text(sorted({local.id, *backup.peers}))
    after = f"stop {stop}, cleanly (not kill -9), then run --step write"
    if backup.peers:
        after = (
            f"run --step prepare on {brokers_text(sorted(backup.peers))} too, let nobody write to these topics, {after}"
        )
    _finish(arguments, out, backup, lines, after)
    return 1 if plan.refused else 0


def _nothing(plan: Plan, local: LocalBroker, out: Output) -> int:
    others = sorted({one.broker for one in plan.steps if one.broker is not None})
    after = f"the plan has steps for {brokers_text(others)}" if others else "the plan has no steps"
    if out.is_json:
        out.json({"step": "prepare", "broker": local.id, "backup": None, "would": [], **plan.to_dict()})
    else:
        out.lines(f"nothing to do on broker {local.id}; {after}")
    return 1 if plan.refused else 0


def _check_before(arguments: argparse.Namespace, backup: BrokerBackup, found: Comparison, local: LocalBroker) -> None:
    """Check what has to hold before a backup is worth making."""
    check_ids(backup, found.authority)
    if backup.mode is Mode.KRAFT:
        return
    _need_zookeeper(arguments)
    with open_zookeeper(arguments.zookeeper, arguments.zookeeper_config, timeout_s=arguments.timeout) as session:
        now = session.authority()
        check_others_serve(backup, now, session)
        refuse_unclean(backup, now, session, local.settings)
        for topic in backup.topics:
            znode = session.get(f"/brokers/topics/{topic}")
            if znode is not None:
                refuse_old_scans(found, now.topics[topic], znode)


def _write(arguments: argparse.Namespace, local: LocalBroker, out: Output) -> int:
    backup = _begun(arguments.backup)

    def check() -> None:
        _with_cluster(arguments, backup, local, writing=True)

    lines = preview(backup)
    if arguments.dry_run:
        return _try(arguments, out, backup, lines, local=local, look=lambda: waiting(backup.acts), check=check)
    if not _agreed(arguments, lines, f"change this on broker {local.id}?", out):
        return 1
    done: list[str] = []
    backup = carry_out(backup, local, check, _teller(done, out))
    after = f"start broker {local.id}, then run --step check"
    if backup.peers:
        after = (
            f"start nothing yet: run --step write on {brokers_text(sorted(backup.peers))} too, scan all of them, then run "
            "--step check with the scans"
        )
    _finish(arguments, out, backup, done, after)
    return 0


def _check(arguments: argparse.Namespace, local: LocalBroker, out: Output) -> int:
    backup = _begun(arguments.backup)
    check_written(backup, local)
    told: list[str] = []
    stopped = is_stopped(local.log_dirs)
    if stopped and not backup.peers:
        raise TopicIdRepairError(f"all is written, but broker {local.id} is stopped: start it, and run this again")
    if stopped:
        waits = not_back(scans_of(arguments, out, local), backup)
        everybody = brokers_text(sorted({local.id, *backup.peers}))
        if waits:
            raise TopicIdRepairError(
                f"not everything is back on {brokers_text(waits)}: start no broker before it is, or an empty replica may "
                "lead; run --step write there, and scan again"
            )
        _finish(arguments, out, backup, told, f"all is back: start {everybody}, then run this again")
        return 0
    if backup.mode is Mode.ZOOKEEPER:
        _need_zookeeper(arguments)
        with open_zookeeper(arguments.zookeeper, arguments.zookeeper_config, timeout_s=arguments.timeout) as session:
            await_in_sync(backup, session.authority, _teller(told, out), WAIT_S)
            controller = session.authority().controller
    else:
        if not (arguments.bootstrap_servers or arguments.worker_config):
            raise UsageError("the brokers run: give -B HOST:PORT, to ask whether all replicas are in sync")
        controller = None
        await_in_sync(backup, lambda: authority_of(arguments, out), _teller(told, out), WAIT_S)
    check_written(backup, local)
    if not arguments.dry_run:
        backup = backup.at(State.DONE)
    left = None if backup.mode is Mode.KRAFT else brokers_left(backup, controller)
    after = f"next: {left}" if left is not None else "scan all brokers again and run check topic-ids"
    _finish(arguments, out, backup, told, after)
    return 0


def _with_cluster(arguments: argparse.Namespace, backup: BrokerBackup, local: LocalBroker, *, writing: bool) -> None:
    """Check what has to hold in the cluster while this broker is stopped."""
    if backup.mode is Mode.KRAFT:
        check_others_stopped(backup)
        return
    _need_zookeeper(arguments)
    with open_zookeeper(arguments.zookeeper, arguments.zookeeper_config, timeout_s=arguments.timeout) as session:
        now = session.authority()
        if now.live is not None and local.id in now.live:
            raise TopicIdRepairError(
                f"/brokers/ids/{local.id} is there: the broker runs, or was killed and its session has not run out yet; "
                "nothing was changed"
            )
        if writing:
            check_others_serve(backup, now, session)
        elif now.cluster_id != backup.cluster_id:
            raise UsageError(f"{backup.folder} is of another cluster than {now.source}: nothing was changed")
        else:
            check_ids(backup, now)


def _try(
    arguments: argparse.Namespace,
    out: Output,
    backup: BrokerBackup,
    lines: Sequence[str],
    *,
    local: LocalBroker,
    look: Callable[[], object],
    check: Callable[[], None],
) -> int:
    """Show what would be done, and whether it could be done now."""
    refuse_another_broker(backup, local)
    reason = None
    try:
        with broker_stopped(local.log_dirs):
            check()
            look()
    except TopicIdRepairError as exc:
        reason = str(exc)
    after = f"not now: {reason}" if reason else "this could be done now"
    _finish(arguments, out, backup, list(lines), after)
    return 1 if reason else 0


def _begun(folder: Path) -> BrokerBackup:
    backup = find_broker_backup(folder)
    if backup is None:
        raise UsageError(f"there is no backup {folder}: run --step prepare first, or name it")
    return backup


def _local(arguments: argparse.Namespace) -> LocalBroker:
    if arguments.server_properties is None:
        raise UsageError("which broker is meant? Give --server-properties FILE of the one on this machine")
    return read_local_broker(arguments.server_properties)


def _need_zookeeper(arguments: argparse.Namespace) -> None:
    if arguments.zookeeper is None:
        raise UsageError("what the other brokers do has to be asked: give --zookeeper HOST:PORT")


def _agreed(arguments: argparse.Namespace, lines: Sequence[str], question: str, out: Output) -> bool:
    for line in lines:
        out.note(f"to be changed: {line}")
    return arguments.yes or confirmed(question, otherwise=_UNASKED, note=out.note)


def _teller(done: list[str], out: Output) -> Callable[[str], None]:
    def tell(text: str) -> None:
        done.append(text)
        out.note(text)

    return tell


def _finish(arguments: argparse.Namespace, out: Output, backup: BrokerBackup, lines: list[str], after: str) -> None:
    step = "undo" if arguments.undo is not None else arguments.step
    if out.is_json:
        out.json(
            {
                "step": step,
                "broker": backup.broker,
                "dry_run": bool(arguments.dry_run),
                "backup": str(backup.folder),
                "state": backup.state.value,
                ("would" if arguments.dry_run or step == "prepare" else "done"): lines,
                "next": after,
            }
        )
        return
    if arguments.dry_run or step == "prepare":
        out.lines(*lines)
    changed = "; nothing was changed" if arguments.dry_run else ""
    out.lines(f"broker {backup.broker}: {after}{changed}")
