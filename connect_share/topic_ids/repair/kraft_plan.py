"""The plan for KRaft: never delete a file there; put back what was set aside as stray, mend files of stopped brokers."""

from __future__ import annotations

import shlex
from collections import defaultdict
from typing import Final

from connect_share.topic_ids.authority.authority import AuthorityPartition, AuthorityTopic, shown_id
from connect_share.topic_ids.compare.compare import Comparison, Finding, Kind
from connect_share.topic_ids.repair.steps import (
    BACKED_UP,
    STOPPED,
    Action,
    Method,
    Plan,
    Step,
    TopicPlan,
    Verdict,
    back_up,
    brokers_text,
    check_again,
    internal,
    not_read,
    start_broker,
    stop_broker,
    tiered,
    write_file,
)
from connect_share.topic_ids.scan.scans import PartitionDirectory

_LEFT: Final = {
    Kind.DELETE_DIRECTORY: "directories named -delete go away by themselves after file.delete.delay.ms",
    Kind.FUTURE_DIRECTORY: "a move between log dirs is under way, the broker finishes it",
    Kind.TOPIC_UNKNOWN: "the cluster does not know the topic: at its next start the broker sets the directories aside as "
    "stray; keep a copy if the records are wanted",
}
_REFUSED: Final = {
    Kind.DUPLICATE_DIRECTORY: "a partition lies in two log dirs of one broker: move one of the two out of the log dirs, the "
    "metadata log tells which log dir is right",
    Kind.AUTHORITY_ID_MISSING: "the metadata has no usable id for it, which KRaft does not do: is the dump whole?",
    Kind.DUPLICATE_ID: "several topics have one id, which KRaft does not do: is the dump whole?",
}
_ASK_THE_LOG: Final = (
    "the directory has another id than the topic. If that was a deleted topic's, its records must not be put into this one; "
    "only the metadata log tells: use --metadata-dump FILE"
)
_BAD_FILE: Final = frozenset({Kind.FILE_UNREADABLE, Kind.ZERO_ID})


class _Planner:
    def __init__(self, found: Comparison, plan: Plan) -> None:
        self._found = found
        self._plan = plan
        self._removed = {shown_id(raw): name for raw, name in found.authority.removed.items()}
        self._own = {shown_id(topic.topic_id): name for name, topic in found.authority.topics.items()}
        self._files: dict[int, list[Step]] = defaultdict(list)
        self._strays: list[tuple[AuthorityTopic, int, list[PartitionDirectory]]] = []

    def run(self) -> None:
        for name, findings in sorted(self._found.of_topic().items()):
            topic = self._found.authority.topics.get(name)
            for kind in sorted({finding.kind for finding in findings}, key=lambda kind: kind.value):
                if kind in _LEFT:
                    self._left(name, _LEFT[kind])
                elif kind in _REFUSED:
                    self._refuse(name, _REFUSED[kind])
            if topic is None or topic.topic_id is None:
                self._strays_of_unknown(name, findings)
                continue
            wanted = [one for one in findings if one.kind not in _LEFT and one.kind not in _REFUSED]
            reason = (tiered(topic, self._found) or internal(topic) or not_read(topic, self._found)) if wanted else None
            if reason is not None:
                self._refuse(name, reason)
                continue
            for number in sorted({one.partition for one in wanted if one.partition is not None}):
                self._partition(topic, number, [one for one in wanted if one.partition == number])
        self._write()

    def _left(self, topic: str, reason: str) -> None:
        self._plan.left.append(Verdict(topic, reason))

    def _refuse(self, topic: str, reason: str) -> None:
        self._plan.refused.append(Verdict(topic, reason))

    def _strays_of_unknown(self, name: str, findings: list[Finding]) -> None:
        if any(one.kind is Kind.STRAY_DIRECTORY for one in findings):
            self._left(name, "the cluster does not know the topic: its stray directories can only be copied elsewhere")

    def _partition(self, topic: AuthorityTopic, number: int, findings: list[Finding]) -> None:
        kinds = {one.kind for one in findings}
        partition = topic.partitions.get(number)
        if partition is None:
            self._refuse(topic.name, f"partition {number} is on disk, but the cluster has no such partition")
            return
        if Kind.STRAY_DIRECTORY in kinds:
            self._stray(topic, number, partition)
            kinds -= {Kind.DIRECTORY_MISSING}
        for finding in findings:
            if finding.kind in kinds and finding.kind is not Kind.STRAY_DIRECTORY:
                self._replica(topic, partition, finding)

    def _replica(self, topic: AuthorityTopic, partition: AuthorityPartition, finding: Finding) -> None:
        broker, number = finding.broker, finding.partition
        where = f"partition {number} on broker {broker}"
        others = partition.leader not in (None, broker) and bool(set(partition.isr) - {broker})
        refills = (
            "at its next start the broker sets the directory aside as stray and copies from the leader; nothing is lost"
        )
        if finding.id_on_disk in self._removed and finding.kind is Kind.ID_DIFFERS:
            self._left(
                topic.name,
                f"{where}: the directory is of a deleted topic of this name. Writing the new id into it would mix the "
                "deleted topic's records into the new one: leave it, the broker sets it aside as stray at its next start",
            )
        elif finding.kind is Kind.DIRECTORY_MISSING:
            if others:
                self._left(
                    topic.name, f"{where}: there is no directory; the broker makes one and copies from the leader"
                )
            else:
                self._refuse(topic.name, f"{where}: there is no directory, and no other in-sync replica to copy from")
        elif finding.kind not in _BAD_FILE and others:
            self._left(topic.name, f"{where}: {refills}")
        elif finding.kind is Kind.ID_DIFFERS and finding.id_on_disk in self._own:
            self._refuse(topic.name, f"{where}: the directory has the id of topic {self._own[finding.id_on_disk]}")
        elif finding.kind is Kind.ID_DIFFERS and self._found.authority.from_memory:
            self._refuse(topic.name, f"{where}: {_ASK_THE_LOG}")
        else:
            self._mend(topic, finding)

    def _mend(self, topic: AuthorityTopic, finding: Finding) -> None:
        for one in self._found.replicas[topic.name][finding.partition or 0]:
            if one.broker != finding.broker:
                continue
            if one.metadata == "inaccessible":
                self._refuse(topic.name, f"broker {one.broker}, {one.path}: {one.reason}; scan as the broker's user")
                return
            before = (
                [] if finding.kind in _BAD_FILE else ["the records in it are this topic's (kafka-dump-log shows them)"]
            )
            topic_id = str(shown_id(topic.topic_id))
            self._files[one.broker].append(
                write_file(one, one.path, topic.name, topic_id, before, unproven=bool(before))
            )
            self._use(
                topic, Method.FILES, "the right id is in the metadata log; the file is written, nothing is deleted"
            )

    def _use(self, topic: AuthorityTopic, method: Method, why: str) -> None:
        used = TopicPlan(topic.name, method, str(shown_id(topic.topic_id)), why)
        if used not in self._plan.topics:
            self._plan.topics.append(used)

    def _stray(self, topic: AuthorityTopic, number: int, partition: AuthorityPartition) -> None:
        where = f"partition {number}"
        strays = [
            one for one in self._found.others.get(topic.name, ()) if one.partition == number and one.state == "stray"
        ]
        current = self._found.replicas.get(topic.name, {}).get(number, [])
        if all(shown_id(one.topic_id) in self._removed for one in strays):
            self._left(
                topic.name, f"{where}: what was set aside is of a deleted topic of this name; delete it when unwanted"
            )
            return
        if any(shown_id(one.topic_id) in self._removed for one in strays):
            self._refuse(topic.name, f"{where}: some of what was set aside is of a deleted topic of this name")
            return
        others = {shown_id(one.topic_id) for one in strays if one.metadata == "ok"} - {shown_id(topic.topic_id)}
        if others & self._own.keys():
            self._refuse(topic.name, f"{where}: what was set aside has the id of another topic")
            return
        if others and self._found.authority.from_memory:
            self._refuse(topic.name, f"{where}: {_ASK_THE_LOG}")
            return
        if any(one.log_bytes is None for one in [*strays, *current]):
            self._refuse(topic.name, f"{where}: sizes of logs are not known: scan the brokers themselves, not copies")
            return
        if not any(one.log_bytes for one in strays):
            self._left(topic.name, f"{where}: what was set aside is empty")
            return
        if any(one.log_bytes for one in current):
            if len(partition.replicas) > 1:
                self._left(
                    topic.name,
                    f"{where}: is served, the replica was filled again from the leader; what was set aside takes disk "
                    "space only, delete it when you have compared the records",
                )
            else:
                self._refuse(
                    topic.name, f"{where}: new records were written since; the two logs cannot be joined this way"
                )
            return
        holders = [one.broker for one in strays]
        if len(set(holders)) != len(holders):
            self._refuse(topic.name, f"{where}: a broker has several directories set aside; choose by hand")
            return
        bare = sorted(set(partition.replicas) - set(holders))
        if bare:
            self._refuse(
                topic.name,
                f"{where}: {brokers_text(bare)} set nothing aside; if its empty replica leads, it makes the others throw "
                "away what is put back",
            )
            return
        strangers = sorted(set(holders) - set(partition.replicas))
        if strangers:
            self._refuse(topic.name, f"{where}: {brokers_text(strangers)} has no such replica any more")
            return
        self._strays.append((topic, number, strays))
        self._use(topic, Method.STRAY_RECOVERY, "all replicas are empty, and the records lie in directories set aside")

    def _write(self) -> None:
        if not self._files and not self._strays:
            return
        steps = self._plan.steps
        touched = [f"broker {broker}: {one.path}" for broker, files in sorted(self._files.items()) for one in files]
        touched += [f"broker {one.broker}: {one.path} (whole)" for _, _, strays in self._strays for one in strays]
        steps.append(back_up(touched))
        if self._strays:
            self._stray_steps()
        done: list[int] = []
        for broker in sorted(self._files.keys() - {one.broker for _, _, strays in self._strays for one in strays}):
            before = [BACKED_UP, *([f"{brokers_text(done)} back, and the ISR is full"] if done else [])]
            steps += [stop_broker(broker, before), *self._files[broker], start_broker(broker)]
            done.append(broker)
        steps.append(check_again(self._found.authority))

    def _stray_steps(self) -> None:
        steps = self._plan.steps
        brokers = sorted({one.broker for _, _, strays in self._strays for one in strays})
        names = ", ".join(sorted(f"{topic.name}-{number}" for topic, number, _ in self._strays))
        steps.append(Step(Action.PAUSE, f"let nobody write to {names} until the end"))
        steps += [
            stop_broker(broker, [BACKED_UP, f"{names}: still empty on all brokers (end offset 0)"])
            for broker in brokers
        ]
        for topic, number, strays in self._strays:
            for one in strays:
                self._put_back(topic, number, one, brokers)
        for broker in brokers:
            steps += self._files.get(broker, [])
        steps += [start_broker(broker, [f"{brokers_text(brokers)}: all steps above are done"]) for broker in brokers]

    def _put_back(self, topic: AuthorityTopic, number: int, stray: PartitionDirectory, brokers: list[int]) -> None:
        steps = self._plan.steps
        name = f"{topic.name}-{number}"
        all_down = f"{brokers_text(brokers)} {'is' if len(brokers) == 1 else 'are all'} stopped"
        for one in self._found.replicas.get(topic.name, {}).get(number, ()):
            if one.broker == stray.broker:
                steps.append(
                    Step(
                        Action.MOVE_ASIDE,
                        f"move the empty {one.path} to a place on the same disk outside of every log dir",
                        (STOPPED, all_down, f"every .log file in it has 0 bytes; look for {name} in all log dirs"),
                        topic=topic.name,
                        partition=number,
                        broker=one.broker,
                        path=one.path,
                        command=f"mv {shlex.quote(one.path)} OUTSIDE/",
                    )
                )
        target = f"{stray.log_dir}/{name}"
        steps.append(
            Step(
                Action.RENAME,
                f"remove the .index and .timeindex files in {stray.path} (the broker makes them anew; as they are, retention "
                f"may delete the records), and rename it to {name}, in its own log dir",
                (STOPPED, all_down, f"{BACKED_UP}: a copy of the whole directory", f"no log dir has a {name}"),
                topic=topic.name,
                partition=number,
                broker=stray.broker,
                path=stray.path,
                command=f"mv {shlex.quote(stray.path)} {shlex.quote(target)}",
            )
        )
        steps.append(write_file(stray, target, topic.name, str(shown_id(topic.topic_id)), [all_down]))


def plan_kraft(found: Comparison, plan: Plan) -> None:
    """Add topics, steps and refusals to an empty plan."""
    _Planner(found, plan).run()
