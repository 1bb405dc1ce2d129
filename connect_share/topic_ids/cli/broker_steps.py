"""``repair topic-ids --step``: the part of a repair on each broker's machine, and its undo."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from connect_share.console.output import Output, Result
from connect_share.console.program import Preview, Steps
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


def to_be(done: str, lines: Sequence[str]) -> list[str]:
    """Return the lines of a preview of what is to be ``done``."""
    return [f"to be {done}: {line}" for line in lines]


class BrokerSteps:
    """The steps for the broker whose ``server.properties`` the arguments name."""

    def __init__(self, arguments: argparse.Namespace, out: Output) -> None:
        if arguments.server_properties is None:
            raise UsageError("which broker is meant? Give --server-properties FILE of the one on this machine")
        self._arguments = arguments
        self._out = out
        self._local = read_server_properties(arguments.server_properties)

    def run(self) -> Result | Steps:
        """Run the step that the arguments name."""
        if self._arguments.step == "write":
            return self._write()
        return self._prepare() if self._arguments.step == "prepare" else self._check()

    def undo(self) -> Steps:
        """Undo the changes on this broker."""
        backup = read_backup(self._arguments.undo, self._local)
        lines = backup.preview(undo=True)
        if self._arguments.dry_run:
            yield self._try(backup, lines, writing=False)
            return
        yield Preview(to_be("changed", lines), {}, "put this back?")
        log = StepLog(self._out)
        backup = undo_files(backup, lambda: self._check_cluster(backup, writing=False), log)
        after = "start the broker"
        if backup.peers:
            after = f"undo it on {brokers_text(backup.peer_ids)} as well, before any of them is started"
        yield self._result(backup, log.done, after)

    def _prepare(self) -> Result:
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
        code = 1 if plan.refused else 0
        if backup is None:
            return self._nothing(plan, code)
        self._check_before(backup, found)
        lines = backup.preview()
        if not arguments.dry_run:
            backup = backup.write()
            out.note(f"backup with checksums in {backup.folder}")
        after = f"stop {brokers_text(backup.stopped_together)}, cleanly (not kill -9), then run --step write"
        if backup.peers:
            others = brokers_text(backup.peer_ids)
            after = f"run --step prepare on {others} too, let nobody write to these topics, {after}"
        return self._result(backup, lines, after, code)

    def _nothing(self, plan: RepairPlan, code: int) -> Result:
        broker = self._local.id
        others = sorted({one.broker for one in plan.steps if one.broker is not None})
        after = f"the plan has steps for {brokers_text(others)}" if others else "the plan has no steps"
        members = {"step": "prepare", "broker": broker, "backup": None, "would": [], **plan.to_dict()}
        return Result(members, [f"nothing to do on broker {broker}; {after}"], code)

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

    def _write(self) -> Steps:
        backup = read_backup(self._arguments.backup, self._local)
        lines = backup.preview()
        if self._arguments.dry_run:
            yield self._try(backup, lines, writing=True)
            return
        yield Preview(to_be("changed", lines), {}, f"change this on broker {self._local.id}?")
        log = StepLog(self._out)
        backup = write_files(backup, lambda: self._check_cluster(backup, writing=True), log)
        after = f"start broker {self._local.id}, then run --step check"
        if backup.peers:
            after = (
                f"start nothing yet: run --step write on {brokers_text(backup.peer_ids)} too, scan all of them, then run "
                "--step check with the scans"
            )
        yield self._result(backup, log.done, after)

    def _check(self) -> Result:
        arguments, out, local = self._arguments, self._out, self._local
        backup = read_backup(arguments.backup, local)
        check_written(backup)
        if is_stopped(local.log_dirs):
            return self._check_stopped(backup)
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
        return self._result(backup, log.done, after)

    def _check_stopped(self, backup: BrokerBackup) -> Result:
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
        return self._result(
            backup, [], f"all is back: start {brokers_text(backup.stopped_together)}, then run this again"
        )

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

    def _try(self, backup: BrokerBackup, lines: list[str], *, writing: bool) -> Result:
        """Return what would be done, and whether it could be done now."""
        after, code = "this could be done now", 0
        try:
            with broker_stopped(self._local.log_dirs):
                self._check_cluster(backup, writing=writing)
                (backup.not_done if writing else backup.not_undone)(backup.changes)
        except TopicIdRepairError as exc:
            after, code = f"not now: {exc}", 1
        return self._result(backup, lines, after, code)

    def _result(self, backup: BrokerBackup, lines: list[str], after: str, code: int = 0) -> Result:
        arguments = self._arguments
        step = "undo" if arguments.undo is not None else arguments.step
        would = arguments.dry_run or step == "prepare"
        members = {
            "step": step,
            "broker": backup.broker,
            "dry_run": bool(arguments.dry_run),
            "backup": str(backup.folder),
            "state": backup.state.value,
            "would" if would else "done": lines,
            "next": after,
        }
        changed = "; nothing was changed" if arguments.dry_run else ""
        return Result(members, [*(lines if would else []), f"broker {backup.broker}: {after}{changed}"], code)
