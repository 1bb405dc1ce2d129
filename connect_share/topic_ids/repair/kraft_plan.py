"""The plan for KRaft: put directories back that were set aside as stray, and repair files of stopped brokers."""

from __future__ import annotations

import shlex
from collections import defaultdict
from typing import Final

from connect_share.topic_ids.authority.authority import AuthorityPartition, AuthorityTopic
from connect_share.topic_ids.compare.compare import Comparison, IdFindingKind, TopicIdFinding
from connect_share.topic_ids.repair.steps import (
    BACKED_UP,
    LEFT_ALONE,
    STOPPED,
    LeftAloneError,
    RefusedError,
    RepairMethod,
    RepairPlan,
    RepairStep,
    StepAction,
    TopicRepair,
    brokers_text,
    refuse_internal,
    refuse_tiered,
    refuse_unread,
    start_step,
    stop_step,
    write_file_step,
)
from connect_share.topic_ids.scan.scans import STRAY, PartitionDirectory

_LEFT: Final = {
    **LEFT_ALONE,
    IdFindingKind.TOPIC_UNKNOWN: "the cluster does not know the topic, or does not show it to this login: at its next start "
    "the broker sets directories of an unknown one aside as stray; keep a copy if the records are wanted",
}
_REFUSED: Final = {
    IdFindingKind.DUPLICATE_DIRECTORY: "a partition lies in two log dirs of one broker: move one of the two out of the log "
    "dirs, the metadata log shows which log dir is right",
    IdFindingKind.AUTHORITY_ID_MISSING: "the metadata has no usable id for it, which KRaft does not do: is the dump whole?",
    IdFindingKind.DUPLICATE_ID: "several topics have one id, which KRaft does not do: is the dump whole?",
}
_ASK_THE_LOG: Final = (
    "the directory has another id than the topic. If that was a deleted topic's, its records must not be put into this one; "
    "only the metadata log shows that: use --metadata-dump FILE"
)
_BAD_FILE: Final = frozenset({IdFindingKind.FILE_UNREADABLE, IdFindingKind.ZERO_ID})


def plan_kraft(found: Comparison, plan: RepairPlan) -> None:
    """Add topics, steps and refusals to an empty plan."""
    planner = _KraftPlanner(found, plan)
    planner.decide()
    planner.add_steps()


class _KraftPlanner:
    def __init__(self, found: Comparison, plan: RepairPlan) -> None:
        self._found = found
        self._plan = plan
        self._names = {topic.topic_id: name for name, topic in found.authority.topics.items()}
        self._files: dict[int, list[RepairStep]] = defaultdict(list)
        self._strays: list[tuple[AuthorityTopic, int, list[PartitionDirectory]]] = []

    def decide(self) -> None:
        for name, findings in sorted(self._found.of_topic().items()):
            topic = self._found.authority.topics.get(name)
            kinds = sorted({finding.kind for finding in findings})
            for kind in kinds:
                if kind in _LEFT:
                    self._plan.leave(name, _LEFT[kind])
                elif kind in _REFUSED:
                    self._plan.refuse(name, _REFUSED[kind])
            if topic is None or topic.topic_id is None:
                if IdFindingKind.STRAY_DIRECTORY in kinds:
                    reason = "the cluster does not know the topic: its stray directories can only be copied elsewhere"
                    self._plan.leave(name, reason)
                continue
            wanted = [one for one in findings if one.kind not in _LEFT and one.kind not in _REFUSED]
            if wanted:
                with self._plan.judging(name):
                    refuse_tiered(topic, self._found)
                    refuse_internal(topic)
                    refuse_unread(topic, self._found)
                    for number in sorted({one.partition for one in wanted if one.partition is not None}):
                        self._decide_partition(topic, number, [one for one in wanted if one.partition == number])

    def _decide_partition(self, topic: AuthorityTopic, number: int, findings: list[TopicIdFinding]) -> None:
        partition = topic.partitions.get(number)
        if partition is None:
            self._plan.refuse(topic.name, f"partition {number} is on disk, but the cluster has no such partition")
            return
        kinds = {one.kind for one in findings}
        handled = set()
        if IdFindingKind.STRAY_DIRECTORY in kinds:
            with self._plan.judging(topic.name):
                self._decide_strays(topic, number, partition)
            handled = {IdFindingKind.STRAY_DIRECTORY, IdFindingKind.DIRECTORY_MISSING}
        for finding in findings:
            if finding.kind not in handled:
                with self._plan.judging(topic.name):
                    self._decide_replica(topic, partition, finding)

    def _decide_replica(self, topic: AuthorityTopic, partition: AuthorityPartition, finding: TopicIdFinding) -> None:
        broker, on_disk = finding.broker, finding.id_on_disk
        where = f"partition {finding.partition} on broker {broker}"
        differs = finding.kind is IdFindingKind.ID_DIFFERS
        others = partition.leader not in (None, broker) and bool(set(partition.isr) - {broker})
        if differs and on_disk in self._found.authority.removed:
            raise LeftAloneError(
                f"{where}: the directory is of a deleted topic of this name. Writing the new id into it would mix the "
                "deleted topic's records into the new one: leave it, the broker sets it aside as stray at its next start"
            )
        if finding.kind is IdFindingKind.DIRECTORY_MISSING:
            if others:
                raise LeftAloneError(f"{where}: there is no directory; the broker makes one and copies from the leader")
            raise RefusedError(f"{where}: there is no directory, and no other in-sync replica to copy from")
        if finding.kind not in _BAD_FILE and others:
            raise LeftAloneError(
                f"{where}: at its next start the broker sets the directory aside as stray and copies from the leader; "
                "nothing is lost"
            )
        if differs and on_disk in self._names:
            raise RefusedError(f"{where}: the directory has the id of topic {self._names[on_disk]}")
        if differs and self._found.authority.from_memory:
            raise RefusedError(f"{where}: {_ASK_THE_LOG}")
        for one in self._found.current(topic.name, finding.partition or 0):
            if one.broker == broker:
                self._repair_file(topic, one, finding)

    def _repair_file(self, topic: AuthorityTopic, one: PartitionDirectory, finding: TopicIdFinding) -> None:
        if one.metadata == "inaccessible":
            raise RefusedError(f"broker {one.broker}, {one.path}: {one.reason}; scan as the broker's user")
        proven = finding.kind in _BAD_FILE
        before = [] if proven else ["the records in it are this topic's (kafka-dump-log shows them)"]
        step = write_file_step(one, one.path, topic.name, str(topic.topic_id), before, unproven=not proven)
        self._files[one.broker].append(step)
        why = "the right id is in the metadata log; the file is written, nothing is deleted"
        self._add_topic(topic, RepairMethod.FILES, why)

    def _add_topic(self, topic: AuthorityTopic, method: RepairMethod, why: str) -> None:
        repair = TopicRepair(topic.name, method, str(topic.topic_id), why)
        if repair not in self._plan.topics:
            self._plan.topics.append(repair)

    def _decide_strays(self, topic: AuthorityTopic, number: int, partition: AuthorityPartition) -> None:
        where = f"partition {number}"
        strays = [
            one for one in self._found.others.get(topic.name, ()) if one.partition == number and one.state == STRAY
        ]
        current = self._found.current(topic.name, number)
        removed = [one.topic_id in self._found.authority.removed for one in strays]
        if all(removed):
            raise LeftAloneError(
                f"{where}: what was set aside is of a deleted topic of this name; delete it when unwanted"
            )
        if any(removed):
            raise RefusedError(f"{where}: some of what was set aside is of a deleted topic of this name")
        others = {one.topic_id for one in strays if one.metadata == "ok"} - {topic.topic_id}
        if others & self._names.keys():
            raise RefusedError(f"{where}: what was set aside has the id of another topic")
        if others and self._found.authority.from_memory:
            raise RefusedError(f"{where}: {_ASK_THE_LOG}")
        if any(one.log_bytes is None for one in [*strays, *current]):
            raise RefusedError(f"{where}: sizes of logs are not known: scan the brokers themselves, not copies")
        if not any(one.log_bytes for one in strays):
            raise LeftAloneError(f"{where}: what was set aside is empty")
        if any(one.log_bytes for one in current):
            if len(partition.replicas) > 1:
                raise LeftAloneError(
                    f"{where}: is served, the replica was filled again from the leader; what was set aside takes disk "
                    "space only, delete it when you have compared the records"
                )
            raise RefusedError(f"{where}: new records were written since; the two logs cannot be joined this way")
        holders = {one.broker for one in strays}
        if len(holders) < len(strays):
            raise RefusedError(f"{where}: a broker has several directories set aside; choose by hand")
        if without := sorted(set(partition.replicas) - holders):
            raise RefusedError(
                f"{where}: {brokers_text(without)} set nothing aside; if its empty replica leads, it makes the others throw "
                "away what is put back"
            )
        if unassigned := sorted(holders - set(partition.replicas)):
            raise RefusedError(f"{where}: {brokers_text(unassigned)} has no such replica any more")
        self._strays.append((topic, number, strays))
        why = "all replicas are empty, and the records lie in directories set aside"
        self._add_topic(topic, RepairMethod.STRAY_RECOVERY, why)

    def add_steps(self) -> None:
        if not self._files and not self._strays:
            return
        steps = self._plan.steps
        kept = [f"broker {broker}: {one.path}" for broker, files in sorted(self._files.items()) for one in files]
        kept += [f"broker {one.broker}: {one.path} (whole)" for _, _, strays in self._strays for one in strays]
        self._plan.add_back_up(kept)
        holders = sorted({one.broker for _, _, strays in self._strays for one in strays})
        if holders:
            self._add_stray_steps(holders)
        done: list[int] = []
        for broker in sorted(self._files.keys() - set(holders)):
            before = [BACKED_UP, *([f"{brokers_text(done)} back, and the ISR is full"] if done else [])]
            steps += [stop_step(broker, before), *self._files[broker], start_step(broker)]
            done.append(broker)
        self._plan.add_check(self._found.authority)

    def _add_stray_steps(self, brokers: list[int]) -> None:
        steps = self._plan.steps
        names = ", ".join(sorted(f"{topic.name}-{number}" for topic, number, _ in self._strays))
        steps.append(RepairStep(StepAction.PAUSE, f"let nobody write to {names} until the end"))
        before = [BACKED_UP, f"{names}: still empty on all brokers (end offset 0)"]
        steps += [stop_step(broker, before) for broker in brokers]
        all_down = f"{brokers_text(brokers)} {'is' if len(brokers) == 1 else 'are all'} stopped"
        for topic, number, strays in self._strays:
            for one in strays:
                self._put_back(topic, number, one, all_down)
        for broker in brokers:
            steps += self._files.get(broker, [])
        steps += [start_step(broker, [f"{brokers_text(brokers)}: all steps above are done"]) for broker in brokers]

    def _put_back(self, topic: AuthorityTopic, number: int, stray: PartitionDirectory, all_down: str) -> None:
        steps = self._plan.steps
        name = f"{topic.name}-{number}"
        for one in self._found.current(topic.name, number):
            if one.broker == stray.broker:
                steps.append(
                    RepairStep(
                        StepAction.MOVE_ASIDE,
                        f"move the empty {one.path} to a place on the same disk outside of every log dir",
                        (STOPPED, all_down, f"every .log file in it has 0 bytes; look for {name} in all log dirs"),
                        topic=topic.name,
                        partition=number,
                        broker=one.broker,
                        path=one.path,
                        command=f"mv {shlex.quote(one.path)} OUTSIDE/",
                    )
                )
        target, path = f"{stray.log_dir}/{name}", shlex.quote(stray.path)
        steps.append(
            RepairStep(
                StepAction.RENAME,
                f"remove the .index and .timeindex files in {stray.path} (the broker makes them anew; as they are, retention "
                f"may delete the records), and rename it to {name}, in its own log dir",
                (STOPPED, all_down, f"{BACKED_UP}: a copy of the whole directory", f"no log dir has a {name}"),
                topic=topic.name,
                partition=number,
                broker=stray.broker,
                path=stray.path,
                command=f"rm -f {path}/*.index {path}/*.timeindex && mv {path} {shlex.quote(target)}",
            )
        )
        steps.append(write_file_step(stray, target, topic.name, str(topic.topic_id), [all_down]))
