"""``repair topic-ids --step``: the part of a repair on each broker's machine, and its undo."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from connect_share.console.output import Output
from connect_share.console.program import confirmed
from connect_share.errors import UsageError
from connect_share.topic_ids.authority.authority import MetadataMode
from connect_share.topic_ids.cli.check import authority_of, compared, scans_of, zookeeper_session
from connect_share.topic_ids.compare.compare import Comparison
from connect_share.topic_ids.errors import TopicIdRepairError
from connect_share.topic_ids.repair.backup import RepairState
from connect_share.topic_ids.repair.broker_checks import (
    await_in_sync,
    check_ids,
    check_others_serve,
    check_others_stopped,
    refuse_unclean,
)
from connect_share.topic_ids.repair.broker_lock import broker_stopped, is_stopped
from connect_share.topic_ids.repair.broker_repair import (
    BrokerBackup,
    brokers_not_back,
    check_written,
    prepare_files,
    read_backup,
    read_server_properties,
    undo_files,
    write_files,
)
from connect_share.topic_ids.repair.plan import plan_repair
from connect_share.topic_ids.repair.steps import RepairPlan, brokers_text
from connect_share.topic_ids.repair.zookeeper_repair import refuse_old_scans

WAIT_S: Final = 60.0


class StepLog:
    """The lines of the steps that were done; each is printed as a note as well."""

    def __init__(self, out: Output) -> None:
        self.done: list[str] = []
        self._out = out

    def __call__(self, line: str) -> None:
        """Keep and print a line."""
        self.done.append(line)
        self._out.note(line)


def agreed(arguments: argparse.Namespace, out: Output, done: str, lines: Sequence[str], question: str) -> bool:
    """Show what is to be ``done``, and ask unless ``--yes`` is given."""
    for line in lines:
        out.note(f"to be {done}: {line}")
    return arguments.yes or confirmed(question)


class BrokerSteps:
    """The steps for the broker whose ``server.properties`` the arguments name."""

    def __init__(self, arguments: argparse.Namespace, out: Output) -> None:
        if arguments.server_properties is None:
            raise UsageError("which broker is meant? Give --server-properties FILE of the one on this machine")
        self._arguments = arguments
        self._out = out
        self._local = read_server_properties(arguments.server_properties)

    def run(self) -> int:
        """Run the step that the arguments name; return the exit code."""
        return {"prepare": self._prepare, "write": self._write, "check": self._check}[self._arguments.step]()

    def undo(self) -> int:
        """Undo the changes on this broker; return the exit code."""
        backup = read_backup(self._arguments.undo, self._local)
        lines = backup.preview(undo=True)
        if self._arguments.dry_run:
            return self._try(backup, lines, writing=False)
        if not agreed(self._arguments, self._out, "changed", lines, "put this back?"):
            return 1
        log = StepLog(self._out)
        backup = undo_files(backup, lambda: self._check_cluster(backup, writing=False), log)
        after = "start the broker"
        if backup.peers:
            after = f"undo it on {brokers_text(backup.peer_ids)} as well, before any of them is started"
        self._print(backup, log.done, after)
        return 0

    def _prepare(self) -> int:
        arguments, out, local = self._arguments, self._out, self._local
        begun = BrokerBackup.find(arguments.backup)
        if begun is not None:
            raise UsageError(
                f"{arguments.backup} is there already, of a repair that is {begun.state.value}: go on with --step write, or "
                "give another folder with --backup"
            )
        found = compared(arguments, out, local)
        plan = plan_repair(found)
        backup = prepare_files(found, plan, local, arguments.backup)
        for one in plan.refused:
            out.note(f"refused: {one.topic or 'everything'}: {one.reason}")
        if backup is None:
            self._print_nothing(plan)
            return 1 if plan.refused else 0
        self._check_before(backup, found)
        lines = backup.preview()
        if not arguments.dry_run:
            backup = backup.write()
            out.note(f"backup with checksums in {backup.folder}")
        after = f"stop {brokers_text(backup.stopped_together)}, cleanly (not kill -9), then run --step write"
        if backup.peers:
            others = brokers_text(backup.peer_ids)
            after = f"run --step prepare on {others} too, let nobody write to these topics, {after}"
        self._print(backup, lines, after)
        return 1 if plan.refused else 0

    def _print_nothing(self, plan: RepairPlan) -> None:
        broker = self._local.id
        others = sorted({one.broker for one in plan.steps if one.broker is not None})
        after = f"the plan has steps for {brokers_text(others)}" if others else "the plan has no steps"
        if self._out.is_json:
            self._out.json({"step": "prepare", "broker": broker, "backup": None, "would": [], **plan.to_dict()})
        else:
            self._out.lines(f"nothing to do on broker {broker}; {after}")

    def _check_before(self, backup: BrokerBackup, found: Comparison) -> None:
        """Check what must hold before a backup is made."""
        check_ids(backup, found.authority)
        if backup.mode is MetadataMode.KRAFT:
            return
        with zookeeper_session(self._arguments) as session:
            now = session.authority()
            check_others_serve(backup, now, session)
            refuse_unclean(backup, now, session, self._local.settings)
            for topic in backup.topics:
                znode = session.get(f"/brokers/topics/{topic}")
                if znode is not None:
                    refuse_old_scans(found, now.topics[topic], znode)

    def _write(self) -> int:
        backup = read_backup(self._arguments.backup, self._local)
        lines = backup.preview()
        if self._arguments.dry_run:
            return self._try(backup, lines, writing=True)
        if not agreed(self._arguments, self._out, "changed", lines, f"change this on broker {self._local.id}?"):
            return 1
        log = StepLog(self._out)
        backup = write_files(backup, lambda: self._check_cluster(backup, writing=True), log)
        after = f"start broker {self._local.id}, then run --step check"
        if backup.peers:
            after = (
                f"start nothing yet: run --step write on {brokers_text(backup.peer_ids)} too, scan all of them, then run "
                "--step check with the scans"
            )
        self._print(backup, log.done, after)
        return 0

    def _check(self) -> int:
        arguments, out, local = self._arguments, self._out, self._local
        backup = read_backup(arguments.backup, local)
        check_written(backup)
        if is_stopped(local.log_dirs):
            self._check_stopped(backup)
            return 0
        log, controller = StepLog(out), None
        if backup.mode is MetadataMode.ZOOKEEPER:
            with zookeeper_session(self._arguments) as session:
                await_in_sync(backup, session.authority, log, WAIT_S)
                controller = session.authority().controller
        else:
            if not (arguments.bootstrap_servers or arguments.worker_config):
                raise UsageError("the brokers run: give -B HOST:PORT, to ask whether all replicas are in sync")
            await_in_sync(backup, lambda: authority_of(arguments, out), log, WAIT_S)
        check_written(backup)
        if not arguments.dry_run:
            backup = backup.at(RepairState.DONE)
        after = "scan all brokers again and run check topic-ids"
        if backup.mode is MetadataMode.ZOOKEEPER and backup.other_brokers:
            left = sorted(backup.other_brokers, key=lambda broker: (broker == controller, broker))
            after = f"next: {brokers_text(left)}"
        self._print(backup, log.done, after)
        return 0

    def _check_stopped(self, backup: BrokerBackup) -> None:
        """Check by scans that the changes are done on all brokers that are stopped together."""
        if not backup.peers:
            raise TopicIdRepairError(
                f"all is written, but broker {self._local.id} is stopped: start it, and run this again"
            )
        missing = brokers_not_back(scans_of(self._arguments, self._out, self._local), backup)
        if missing:
            raise TopicIdRepairError(
                f"not everything is back on {brokers_text(missing)}: start no broker before it is, or an empty replica may "
                "lead; run --step write there, and scan again"
            )
        self._print(backup, [], f"all is back: start {brokers_text(backup.stopped_together)}, then run this again")

    def _check_cluster(self, backup: BrokerBackup, *, writing: bool) -> None:
        """Check what must hold in the cluster while this broker is stopped."""
        if backup.mode is MetadataMode.KRAFT:
            check_others_stopped(backup)
            return
        with zookeeper_session(self._arguments) as session:
            now = session.authority()
            if now.live is not None and self._local.id in now.live:
                raise TopicIdRepairError(
                    f"/brokers/ids/{self._local.id} is there: the broker runs, or was killed and its session has not run out "
                    "yet; nothing was changed"
                )
            if writing:
                check_others_serve(backup, now, session)
            elif now.cluster_id != backup.cluster_id:
                raise UsageError(f"{backup.folder} is of another cluster than {now.source}: nothing was changed")
            else:
                check_ids(backup, now)

    def _try(self, backup: BrokerBackup, lines: list[str], *, writing: bool) -> int:
        """Show what would be done, and whether it could be done now."""
        after, code = "this could be done now", 0
        try:
            with broker_stopped(self._local.log_dirs):
                self._check_cluster(backup, writing=writing)
                (backup.not_done if writing else backup.not_undone)(backup.changes)
        except TopicIdRepairError as exc:
            after, code = f"not now: {exc}", 1
        self._print(backup, lines, after)
        return code

    def _print(self, backup: BrokerBackup, lines: list[str], after: str) -> None:
        arguments, out = self._arguments, self._out
        step = "undo" if arguments.undo is not None else arguments.step
        would = arguments.dry_run or step == "prepare"
        if out.is_json:
            out.json(
                {
                    "step": step,
                    "broker": backup.broker,
                    "dry_run": bool(arguments.dry_run),
                    "backup": str(backup.folder),
                    "state": backup.state.value,
                    "would" if would else "done": lines,
                    "next": after,
                }
            )
            return
        changed = "; nothing was changed" if arguments.dry_run else ""
        out.lines(*(lines if would else []), f"broker {backup.broker}: {after}{changed}")
