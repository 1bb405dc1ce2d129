"""What must hold in the cluster before a broker's files are changed, and after: the others serve, or are all stopped."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

from connect_share.errors import UsageError, listed
from connect_share.topic_ids.authority.authority import Authority
from connect_share.topic_ids.authority.zookeeper import ZooKeeper
from connect_share.topic_ids.errors import TopicIdRepairError
from connect_share.topic_ids.repair.backup import Report
from connect_share.topic_ids.repair.broker_repair import BrokerBackup
from connect_share.topic_ids.repair.steps import brokers_text
from connect_share.topic_ids.repair.zookeeper_repair import refuse_reassignment
from connect_share.topic_ids.scan.scanner import parse_properties
from connect_share.topic_ids.scan.scans import json_object
from connect_share.worker_config.properties import read_whole

_UNCLEAN: Final = "unclean.leader.election.enable"
_CONNECT_S: Final = 5.0
_POLL_S: Final = 0.2
_SHOWN: Final = 10


def _out_of_sync(
    now: Authority, wrong: Mapping[tuple[str, int], Collection[int]], excused: Collection[int]
) -> list[str]:
    """Return the partitions whose ISR is not full, though it could be. ``excused`` brokers need not be in any ISR.

    Brokers with a ``wrong`` id cannot follow; where one leads, or nobody does, no other replica can follow either.
    """
    found = []
    for name, topic in sorted(now.topics.items()):
        for number, one in sorted(topic.partitions.items()):
            ours = wrong.get((name, number), ())
            if ours and (one.leader is None or one.leader in ours):
                continue
            in_sync = (
                () if one.leader is None else one.isr
            )  # the last replica stays in the ISR when its log dir is offline
            if set(one.replicas) - set(in_sync) - set(excused) - set(ours):
                found.append(f"{name}-{number}")
    return found


def check_others_serve(backup: BrokerBackup, now: Authority, session: ZooKeeper) -> None:
    """Check that it is this broker's turn, and that all other brokers with ZooKeeper are up and in sync.

    Raise ``UsageError`` for another cluster, ``TopicIdRepairError`` if the broker has to wait, or files must not change.
    """
    if now.cluster_id != backup.cluster_id:
        raise UsageError(f"the log dirs of broker {backup.broker} are of another cluster than {now.source}")
    check_ids(backup, now)
    refuse_reassignment(session)
    if now.controller is None:
        raise TopicIdRepairError("no broker is controller: put that right first; nothing was changed")
    if now.controller == backup.broker and backup.other_brokers:
        raise TopicIdRepairError(
            f"broker {backup.broker} is controller and comes last: {brokers_text(sorted(backup.other_brokers))} first; "
            "nothing was changed"
        )
    down = sorted(now.brokers() - (now.live or frozenset()) - set(backup.dark) - {backup.broker})
    if down:
        raise TopicIdRepairError(
            f"{brokers_text(down)} down: one broker after the other, all others have to be up; nothing was changed"
        )
    short = _out_of_sync(now, backup.wrong_replicas, {backup.broker, *backup.dark})
    if short:
        raise TopicIdRepairError(
            f"not all other replicas are in sync: {listed(short, _SHOWN)}. The ISR has to be full before the next "
            "broker is stopped; nothing was changed"
        )


def check_ids(backup: BrokerBackup, now: Authority) -> None:
    """Raise ``TopicIdRepairError`` if a topic was deleted since, or has another id than the one to write."""
    for name, topic_id in backup.topics.items():
        topic = now.topics.get(name)
        if topic is None or name in now.deleting:
            raise TopicIdRepairError(f"{name} was deleted meanwhile; nothing was changed")
        if topic.topic_id != topic_id:
            raise TopicIdRepairError(
                f"{name} has another id in {now.source} than the backup says: {topic.topic_id}, not {topic_id}. "
                "It was created again, or is not written back yet; nothing was changed"
            )


def refuse_unclean(backup: BrokerBackup, now: Authority, session: ZooKeeper, settings: Path) -> None:
    """Raise ``TopicIdRepairError`` if a replica that is not in sync would lead while this broker is stopped.

    That is so if it has the only replica in sync of a partition for which unclean elections are on. ``settings`` are the
    broker's own ``server.properties``.
    """
    own = parse_properties(read_whole(settings)).get(_UNCLEAN, "false").strip().lower()
    default = _config(session, "/config/brokers/<default>").get(_UNCLEAN, own)
    for name, topic in sorted(now.topics.items()):
        alone = sorted(
            number
            for number, one in topic.partitions.items()
            if set(one.isr) == {backup.broker} and len(one.replicas) > 1
        )
        if alone and _config(session, f"/config/topics/{name}").get(_UNCLEAN, default) == "true":
            raise TopicIdRepairError(
                f"{name}-{alone[0]}: broker {backup.broker} has the only replica in sync, and {_UNCLEAN} is true. While it "
                "is stopped a replica that lacks acknowledged records would lead, and they would be cut off: switch "
                "that off first; nothing was changed"
            )


def check_others_stopped(backup: BrokerBackup) -> None:
    """Raise ``TopicIdRepairError`` if one of the other brokers answers, or may be running."""
    for broker, host, port in sorted(backup.peers):
        try:
            socket.create_connection((host, port), timeout=_CONNECT_S, all_errors=True).close()
        except (OSError, ExceptionGroup) as exc:
            errors = [exc] if isinstance(exc, OSError) else [*exc.exceptions]  # of each address; a silent one counts
            unsure = [each for each in errors if not isinstance(each, ConnectionRefusedError)]
            if len(unsure) < len(errors) and not any(isinstance(each, TimeoutError) for each in unsure):
                continue
            raise TopicIdRepairError(
                f"whether broker {broker} is stopped is not known: {host}:{port}: "
                f"{getattr(unsure[-1], 'strerror', None) or 'no answer'}; nothing was changed"
            ) from exc
        raise TopicIdRepairError(
            f"broker {broker} runs ({host}:{port} answers). If it leads with its empty replica, it makes this one throw away "
            f"all that is put back: stop {brokers_text(backup.stopped_together)} first; nothing was changed"
        )


def await_in_sync(backup: BrokerBackup, read: Callable[[], Authority], report: Report, wait_s: float) -> None:
    """Read the cluster until its ISR is as full as it can be with this broker back; report that.

    Raise ``TopicIdRepairError`` if it was not full in time, or an id is another one.
    """
    # With peers, everything was put back before any broker was started, so none is excused.
    wrong = {} if backup.peers else {one: brokers - {backup.broker} for one, brokers in backup.wrong_replicas.items()}
    dark = set(backup.dark) - {backup.broker}
    deadline_s = time.monotonic() + wait_s
    while True:
        now = read()
        check_ids(backup, now)
        up = now.live is None or backup.broker in now.live
        short = _out_of_sync(now, wrong, dark)
        if up and not short:
            partly = dark or any(wrong.values())
            report("all replicas that can be are in sync" if partly else "the ISR is full everywhere")
            return
        if time.monotonic() > deadline_s:
            raise TopicIdRepairError(
                f"{wait_s:g} s later not all replicas are in sync: {listed(short, _SHOWN)}"
                if up
                else f"broker {backup.broker} is not up after {wait_s:g} s: start it, and look into its log"
            )
        time.sleep(_POLL_S)


def _config(session: ZooKeeper, path: str) -> dict[str, str]:
    znode = session.get(path)
    config = None if znode is None else json_object(znode.data).get("config")
    if not isinstance(config, dict):
        return {}
    return {str(name): str(value).strip().lower() for name, value in config.items()}
