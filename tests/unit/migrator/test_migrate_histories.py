"""Random lives of Connect clusters are moved, plain and sealed, in every direction and mode: workers believe the same."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect_share.kafka.descriptions import TopicDescription
from connect_share.kafka.facts import TopicFacts
from connect_share.model.config_state import ClusterConfigState, TargetState
from connect_share.model.keys import MARKER, ClusterGroupId, connector_of, own_key
from connect_share.model.murmur2 import partition_for
from connect_share.model.records import OffsetRange, Record, TopicType
from connect_share.replay import replay_config, replay_offsets, replay_status
from connect_share.sealing import KeyRing, SealingMode, TopicSeals
from connect_share.sealing.cipher import is_sealed
from connect_share.transform.canonical import canonical_config
from connect_share.transform.rules import KeyTransform
from connect_share.transform.sealed import NO_SEALING, Opener, Resealer, Sealing, SealTimes
from migrator.copy.copy_job import Tally, rewritten
from migrator.copy.existing_records import ExistingRecords, ResumePoint, identity
from migrator.verify.equality import compare_states
from migrator.verify.verification import VerifyJob
from tests.support.histories import NAMES, Draw, History, by_partition, compacted, histories, interleaved
from tests.support.long_forms import LONG
from tests.support.records import TOMBSTONE, by_key, config_log, properties
from tests.support.sealed import key_text, sealed
from tests.support.sides import differences, held, silence, slice_of

__all__ = ["silence"]

GROUP = "g.h"
HISTORIES = 400 if LONG else 40
SOURCE_PARTITIONS = {TopicType.CONFIG: 1, TopicType.STATUS: 2, TopicType.OFFSET: 3}
PARTITIONS = {TopicType.CONFIG: 1, TopicType.STATUS: 3, TopicType.OFFSET: 2}
DIRECTIONS = {
    "dedicated to shared": (None, "new.home"),
    "shared to shared": (GROUP, "jdbc"),  # the name of a connector, too
    "shared to dedicated": (GROUP, None),
    "plain mirror": (None, None),
}


def transform_of(
    topic_type: TopicType, source: str | None, becomes: str | None, job: str | None = None
) -> KeyTransform:
    destination = None if becomes is None else ClusterGroupId(becomes)
    return KeyTransform.between(topic_type, source, destination, None if job is None else {job})


def streams(transform: KeyTransform, source: Sequence[Record], *, fold: bool = False) -> list[list[Record]]:
    """What each slice writes, in order."""
    found = []
    for log in by_partition(source):
        tally = Tally()
        written = []
        for record in rewritten(
            slice_of(transform, log[0].partition, PARTITIONS, fold=fold),
            log,
            tally,
            resealer=Resealer(transform, NO_SEALING, NO_SEALING, SealTimes()),
        ):
            tally.add(record)
            written.append(record)
        if transform.topic_type is TopicType.CONFIG and tally.tombstones:
            written.append(Record("", 0, 0, 0, transform.prefix + MARKER[0], MARKER[1]))
        found.append(written)
    return found


class Topic:
    """A destination topic."""

    def __init__(self, partitions: int) -> None:
        self.logs: list[list[Record]] = [[] for _ in range(partitions)]

    def write(self, records: Sequence[Record]) -> None:
        for record in records:
            number = partition_for(record.key or b"", len(self.logs))
            log = self.logs[number]
            offset = log[-1].offset + 1 if log else 0
            log.append(replace(record, topic="destination", partition=number, offset=offset))

    def compact(self, draw: Draw) -> None:
        self.logs = [compacted(draw, log) for log in self.logs]

    def read(self, draw: Draw) -> list[Record]:
        return interleaved(draw, self.logs)


def config_of(state: ClusterConfigState, name: str) -> dict[str, object]:
    return {
        "config": state.connector_config(name),
        "target": state.target_state(name),
        "fencing": state.task_count_record(name),
        "tasks": {task.task: state.task_config(task) for task in state.tasks(name)},
        "inconsistent": name in state.inconsistent_connectors() if state.contains(name) else None,
    }


Seen = tuple[Sequence[Record], str | None]
"""Records, and the group whose keys count."""


def check_config(source: Seen, copy: Seen, *, fold: bool, job: str | None) -> None:
    there, here = replay_config(*source), replay_config(*copy)
    names = {job} if job is not None else {*there.connectors(), *there.target_states(), *there.task_count_records()}
    for name in names:
        wanted, found = config_of(there, name), config_of(here, name)
        if fold and wanted["tasks"] != found["tasks"]:
            check_healed(source, there, here, name)
            wanted["tasks"] = found["tasks"]
        if fold and wanted["inconsistent"]:
            wanted["inconsistent"] = found["inconsistent"] and found["tasks"]  # either complete or without any
        assert found == wanted, name
    assert here.connectors() == (there.connectors() & names if job is not None else there.connectors())
    assert here.target_states().keys() <= names
    assert here.session_key is None


def check_healed(source: Seen, there: ClusterConfigState, here: ClusterConfigState, name: str) -> None:
    """Only tasks that Connect dropped are brought back, whole, and none of an earlier connector of that name."""
    assert there.tasks(name) == []
    tasks = here.tasks(name)
    assert tasks
    assert all(here.task_config(task) is not None for task in tasks)
    records, group = source
    back = transform_of(TopicType.CONFIG, group, None)
    connector, prefix = f"connector-{name}".encode(), b"" if group is None else group.encode() + b"."
    removed = max((r.offset for r in records if r.key == prefix + connector and r.value in (None, b"null")), default=-1)
    newest = {back.original_key(r.key): r.offset for r in records}
    for task in tasks:
        assert newest[f"task-{name}-{task.task}".encode()] > removed
    assert newest[f"commit-{name}".encode()] > removed


def check(topic_type: TopicType, source: Seen, copy: Seen, *, fold: bool = False, job: str | None = None) -> None:
    """Compare with the stores' own replay, then hear what verify says."""
    transform = transform_of(topic_type, source[1], copy[1], job)
    if topic_type is TopicType.CONFIG:
        check_config(source, copy, fold=fold, job=job)
    elif topic_type is TopicType.STATUS:
        there, here = replay_status(*source), replay_status(*copy)
        assert job is not None or here == there
        names = {job} if job is not None else there.connectors() | there.connectors_with_tasks()
        for name in names:
            assert here.connector_status(name) == there.connector_status(name)
            assert here.task_statuses(name) == there.task_statuses(name)
            assert here.topic_statuses(name) == there.topic_statuses(name)
    else:
        wanted, found = (dict(replay_offsets(*side).raw) for side in (source, copy))
        if job is not None:
            wanted = {key: value for key, value in wanted.items() if connector_of(topic_type, key) == job}
        assert found == wanted
    verify = VerifyJob(transform, held(source[0]), held(copy[0]), narrowed=job is not None, fold=fold)
    assert differences(verify) == []


def differs(topic_type: TopicType, source: Seen, copy: Seen, *, fold: bool) -> bool:
    """Tell whether workers would believe something else, apart from what state mode heals."""
    if topic_type is TopicType.STATUS:
        return replay_status(*source) != replay_status(*copy)
    if topic_type is TopicType.OFFSET:
        return replay_offsets(*source) != replay_offsets(*copy)
    if fold:
        source = canonical_config(transform_of(topic_type, source[1], copy[1]), source[0]).records, copy[1]
    there, here = replay_config(*source), replay_config(*copy)
    names = {
        name
        for side in (there, here)
        for name in (*side.connectors(), *side.target_states(), *side.task_count_records())
    }
    states = [[config_of(side, name) for name in sorted(names)] for side in (there, here)]
    for state in (each for side in states for each in side if each["target"] is None):
        state["target"] = TargetState.STARTED  # nobody has said anything of it
    return states[0] != states[1]


def scene(draw: Draw, history: History, topic_type: TopicType, group: str | None) -> list[Record]:
    return compacted(draw, history.records(topic_type, group, SOURCE_PARTITIONS[topic_type]))


@pytest.mark.parametrize("fold", [False, True], ids=["mirror", "state"])
@pytest.mark.parametrize("direction", DIRECTIONS)
@settings(max_examples=HISTORIES)
@given(history=histories(), data=st.data())
def test_every_connector_s_state_is_what_it_was(
    direction: str, fold: bool, history: History, data: st.DataObject
) -> None:
    group, becomes = DIRECTIONS[direction]
    for topic_type in TopicType:
        source = scene(data.draw, history, topic_type, group)
        topic = Topic(PARTITIONS[topic_type])
        topic.write(interleaved(data.draw, streams(transform_of(topic_type, group, becomes), source, fold=fold)))
        read = interleaved(data.draw, by_partition(source))
        copy = topic.read(data.draw)
        check(topic_type, (read, group), (copy, becomes), fold=fold)
        if copy:
            spoilt = data.draw(st.integers(0, len(copy) - 1))
            del copy[spoilt]
            job = VerifyJob(transform_of(topic_type, group, becomes), held(read), held(copy), fold=fold)
            assert differences(job) or not differs(topic_type, (read, group), (copy, becomes), fold=fold)


@pytest.mark.parametrize("fold", [False, True], ids=["mirror", "state"])
@settings(max_examples=HISTORIES)
@given(history=histories(), job=st.sampled_from(NAMES), other=histories(), plain=st.booleans(), data=st.data())
def test_one_job_and_nothing_else(
    fold: bool, history: History, job: str, other: History, plain: bool, data: st.DataObject
) -> None:
    """Into a group that holds other connectors already."""
    group = None if plain else GROUP
    for topic_type in TopicType:
        source = scene(data.draw, history, topic_type, group)
        topic = Topic(PARTITIONS[topic_type])
        there = [
            record
            for record in other.records(topic_type, "new.home", 1)
            if (original := transform_of(topic_type, "new.home", None).original_key(record.key))
            and not (isinstance(original, bytes) and connector_of(topic_type, original) == job)
        ]
        topic.write(there)
        topic.write(
            interleaved(data.draw, streams(transform_of(topic_type, group, "new.home", job), source, fold=fold))
        )
        copy = topic.read(data.draw)
        transform = transform_of(topic_type, group, "new.home", job)
        verify = VerifyJob(transform, held(source), held(copy), narrowed=True, fold=fold)
        assert differences(verify) == []
        topic = Topic(PARTITIONS[topic_type])
        topic.write(interleaved(data.draw, streams(transform, source, fold=fold)))
        check(topic_type, (source, group), (topic.read(data.draw), "new.home"), fold=fold, job=job)


@pytest.mark.parametrize("meanwhile", ["nothing", "compaction", "refusals"])
@pytest.mark.parametrize("fold", [False, True], ids=["mirror", "state"])
@settings(max_examples=HISTORIES)
@given(history=histories(max_steps=20), data=st.data())
def test_what_is_interrupted_goes_on_where_it_was(
    fold: bool, meanwhile: str, history: History, data: st.DataObject
) -> None:
    """Every slice is cut somewhere in every destination partition, several times over."""
    for topic_type in TopicType:
        transform = transform_of(topic_type, None, "new.home")
        source = scene(data.draw, history, topic_type, None)
        partitions = PARTITIONS[topic_type]
        sent = [log for log in streams(transform, source, fold=fold) if log]
        sent = [[r for r in log if r.key != transform.prefix + MARKER[0] or r.timestamp_ms] for log in sent]
        topic = Topic(partitions)
        topic.write([Record("", 0, 0, 1, b"other.connector-x", b"{}")])
        for _ in range(data.draw(st.integers(0, 2))):
            cuts = [cut(data.draw, left_of(log, topic, transform), partitions) for log in sent]
            if meanwhile == "refusals":
                cuts = [[record for record in log if data.draw(st.integers(0, 3))] for log in cuts]
            topic.write(interleaved(data.draw, cuts))
            if meanwhile == "compaction":
                topic.compact(data.draw)
        topic.write(interleaved(data.draw, [left_of(log, topic, transform) for log in sent]))

        wanted = by_key((record.key, identity(record)) for log in sent for record in log)
        own = [record for log in topic.logs for record in log if record.key != b"other.connector-x"]
        found = by_key((record.key, identity(record)) for record in own)
        if meanwhile == "nothing":
            assert found == wanted
            continue
        tombstones = {identity(record) for log in sent for record in log if record.value is None}
        for key, each in wanted.items():
            there = found.get(key, [])
            assert there[-1:] == each[-1:] or (not there and each[-1] in tombstones)
            if meanwhile == "compaction":
                for before, after in pairwise(there):
                    assert each.index(before) <= len(each) - 1 - each[::-1].index(after)
        for log in sent:
            newest = {record.key: None for record in reversed(log)}  # last first
            for partition in topic.logs:
                order = {record.key: None for record in reversed(partition) if record.key in newest}
                assert list(order) == [key for key in newest if key in order]


def resumed(sent: Sequence[Record], *written: Sequence[Record]) -> list[bytes | None]:
    """Values that lie at the destination after what was written there and one resume that is not interrupted."""
    transform = transform_of(TopicType.CONFIG, None, "g")
    topic = Topic(1)
    for each in written:
        topic.write(each)
    topic.write(left_of(sent, topic, transform))
    return [record.value for record in topic.logs[0]]


def test_a_resume_of_a_gap_is_interrupted() -> None:
    """A broker refused the first records and took the others; the resume that fills the gap is killed in it."""
    keys = [b"g.connector-a", b"g.task-a-0", b"g.commit-a", b"g.connector-a", b"g.task-a-0", b"g.commit-a"]
    sent = [Record("", 0, 0, 1, key, b"%d" % number) for number, key in enumerate(keys)]
    assert resumed(sent, sent[3:], sent[1:2]) == [b"3", b"4", b"5", b"1", b"2", b"3", b"4", b"5"]
    assert resumed(sent, sent[4:], sent[:4]) == [b"4", b"5", b"0", b"1", b"2", b"3", b"2", b"3", b"4", b"5"]


def test_a_commit_lies_behind_its_tasks_and_what_is_there_twice_in_order_is_not_sent_again() -> None:
    sent = [Record("", 0, 0, 1, key, b"") for key in (b"g.task-a-0", b"g.commit-a")]
    sent = [replace(record, value=b"%d" % number) for number, record in enumerate(sent)]
    assert resumed(sent, sent[1:], sent[:1]) == [b"1", b"0", b"1"]
    sent = [Record("", 0, 0, 1, key, b"1") for key in (b"g.connector-a", b"g.connector-b", b"g.connector-a")]
    assert len(resumed(sent, sent)) == 3
    assert len(resumed(sent, sent, sent)) == 6


def test_an_identical_record_was_compacted_away() -> None:
    keys = [b"g.commit-a", b"g.commit-b", b"g.commit-a", b"g.connector-c", b"g.connector-c"]
    sent = [Record("", 0, 0, 1, key, b"1") for key in keys]
    sent[4] = replace(sent[4], value=b"2")
    assert len(resumed(sent, [sent[1], sent[2], sent[4]])) == 3
    assert resumed(sent, [sent[0], sent[1], sent[4]])[3:] == [b"1", b"1", b"2"]  # the second was refused


def left_of(log: Sequence[Record], topic: Topic, transform: KeyTransform) -> list[Record]:
    """What a copy that goes on writes of a slice."""
    written = (record for each in topic.logs for record in each)
    present = ExistingRecords.read(written, Opener(NO_SEALING, transform.at_destination()))
    resume_point = present.resume_point(log, len(topic.logs))
    left = [record for record in log if not resume_point.passes(record)]
    keys = [(record.key or b"")[len(transform.prefix) :] for record in log]
    assert present.may_have_begun(transform, keys) or left == log
    return left


def cut(draw: Draw, log: Sequence[Record], partitions: int) -> list[Record]:
    """Keep the beginning of what goes to each partition, as a killed producer leaves it."""
    if not log:
        return []
    keep = {number: draw(st.integers(0, len(log))) for number in range(partitions)}
    at: Counter[int] = Counter()
    kept = []
    for record in log:
        number = partition_for(record.key or b"", partitions)
        at[number] += 1
        if at[number] <= keep[number]:
            kept.append(record)
    return kept


RUNNING = b'{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":%d}'
HARD_CASES: dict[str, tuple[TopicType, list[tuple[bytes, bytes | None]]]] = {
    "more tasks than there can be": (
        TopicType.CONFIG,
        [(b"connector-a", b'{"properties":{}}'), (b"commit-a", b'{"tasks":2147483647}')],
    ),
    "tasks that went with their connector": (
        TopicType.STATUS,
        [(b"status-task-a-0", RUNNING % 1), (b"status-task-a-1", RUNNING % 1), (b"status-connector-a", None)],
    ),
    "and the connector came back": (
        TopicType.STATUS,
        [(b"status-task-a-0", RUNNING % 1), (b"status-connector-a", None), (b"status-connector-a", RUNNING % 2)],
    ),
    "a status that nobody understands": (
        TopicType.STATUS,
        [(b"status-connector-a", RUNNING % 5), (b"status-connector-a", b"{}")],
    ),
}


@pytest.mark.parametrize("fold", [False, True], ids=["mirror", "state"])
@pytest.mark.parametrize("case", HARD_CASES)
def test_hard_cases(case: str, fold: bool) -> None:
    topic_type, entries = HARD_CASES[case]
    partitions = SOURCE_PARTITIONS[topic_type]
    source = [
        Record("source", partition_for(key, partitions), number, 1_000 + number, key, value)
        for number, (key, value) in enumerate(entries)
    ]
    topic = Topic(PARTITIONS[topic_type])
    for log in streams(transform_of(topic_type, None, GROUP), source, fold=fold):
        topic.write(log)
    check(topic_type, (source, None), ([record for log in topic.logs for record in log], GROUP), fold=fold)


def test_spans_begin_with_what_was_there_and_ranges_where_it_was_noted_or_at_the_beginning() -> None:
    point = ResumePoint({0: 1, 1: 1}, 2, {0: (3, 5), 1: (2, 9)})
    assert point.spans({0: (9, 12)}) == {0: (3, 12), 1: (2, 9)}
    facts = TopicFacts(TopicDescription("t", None, ()), ends={0: 1, 1: 5})
    assert facts.since({1: 4}).ranges() == [OffsetRange("t", 0, 0, 1), OffsetRange("t", 1, 4, 5)]


C, GONE, NONE = ("connector-c", properties(v="C")), ("connector-c", TOMBSTONE), ("commit-c", {"tasks": 0})
T, NEWER, DONE = ("task-c-0", properties(v="T")), ("task-c-0", properties(v="N")), ("commit-c", {"tasks": 1})
PAUSED, ODD = [("target-state-c", {"state": word, "state.v2": word}) for word in ("PAUSED", "BOGUS")]


@pytest.mark.parametrize(
    ("history", "written", "healed", "left"),
    [
        ([C, T, DONE], [C, T, DONE], False, False),
        ([T, C, DONE, NEWER], [C, T, DONE], False, False),  # what was not committed is not the state
        ([C, T, DONE, NONE], [C, NONE], False, False),
        ([C, PAUSED, ODD], [C, PAUSED], False, False),  # what workers pass over is not the state either
        ([T, DONE, C], [C, T, DONE], True, False),  # compaction left them so, and Connect drops the tasks
        ([C, DONE, T], [C, T, DONE], True, False),
        ([C, DONE], [C], False, True),
        ([DONE, C], [C], False, True),
        # Inconsistent since before it was removed; the last commit is for no tasks.
        ([C, DONE, GONE, NONE, C], [C, NONE], False, False),
        # Tasks and commits of an earlier connector heal nothing.
        ([C, T, DONE, GONE, C, DONE], [C], False, True),
        ([C, DONE, GONE, C, T], [C], False, True),
    ],
)
def test_a_config_topic_in_order(history: list[Any], written: list[Any], healed: bool, left: bool) -> None:
    found = canonical_config(transform_of(TopicType.CONFIG, None, None), config_log(history))
    pairs, wanted = (
        [(record.key, json.loads(record.value or b"")) for record in each]
        for each in (found.records, config_log(written))
    )
    assert pairs == wanted
    assert (found.healed, found.left_without_tasks) == ({"c"} if healed else set(), {"c"} if left else set())


OTHER = "new.home"
KEYS, NEW_KEYS = KeyRing.parse(key_text(7)), KeyRing.parse(key_text(8))
SEALED, RESEALED = Sealing(KEYS, SealingMode.REQUIRED), Sealing(NEW_KEYS, SealingMode.REQUIRED)
MINUTES_MS = 120_000
CLAIMED_MS = 1_700_000_000_000
Side = tuple[str | None, Sealing]
SOURCES: tuple[Side, ...] = ((None, NO_SEALING), (GROUP, NO_SEALING), (GROUP, SEALED))
DESTINATIONS: tuple[Side, ...] = (*SOURCES, (GROUP, RESEALED), (OTHER, SEALED), (OTHER, NO_SEALING))
every_topic = pytest.mark.parametrize("topic_type", TopicType)


def between(topic_type: TopicType, source: Side, destination: Side) -> KeyTransform:
    return transform_of(topic_type, source[0], destination[0])


def laid(records: Sequence[Record]) -> list[Record]:
    """The records with the offsets of their places."""
    ends = [0] * 8
    found = []
    for record in records:
        found.append(replace(record, offset=ends[record.partition]))
        ends[record.partition] += 1
    return found


def attacked(draw: Draw, topic_type: TopicType, records: Sequence[Record], side: Side) -> list[Record]:
    """The same records as the group has sealed them, with what others have written between them.

    All claim the same time, which says nothing: that of the sealing counts.
    """
    group, sealing = side
    if sealing.keys is None or group is None:
        return list(records)
    found: list[Record] = []
    older: dict[bytes, Record] = {}
    for record in records:
        if record.key is None or own_key(topic_type, record.key, ClusterGroupId(group)) is None:
            found.append(record)
            continue
        good = sealed(record, topic_type, written_ms=record.timestamp_ms, keys=sealing.keys)
        good = replace(good, timestamp_ms=CLAIMED_MS)
        found.append(good)
        attacks = [replace(good, value=value) for value in (b'{"evil":1}', None, b"\1garbage", b"\1" + b"x" * 60)][:3]
        if record.key in older:
            attacks.append(older[record.key])
        found += draw(st.lists(st.sampled_from(attacks), max_size=2))
        older.setdefault(record.key, good)
    return laid(found)


def copied(
    transform: KeyTransform, source: Side, destination: Side, records: Sequence[Record], *, fold: bool
) -> list[Record]:
    """What a copy writes, where a producer puts it."""
    written = []
    for log in by_partition(records):
        resealer = Resealer(transform, source[1], destination[1], SealTimes())
        part = slice_of(transform, log[0].partition, PARTITIONS, fold=fold)
        for record in rewritten(part, log, Tally(), resealer=resealer):
            sent = resealer.sealed(record)
            number = partition_for(sent.key or b"", PARTITIONS[transform.topic_type])
            written.append(replace(sent, topic="copy", partition=number))
        resealer.add_times_to(SealTimes())
    return laid(written)


@settings(max_examples=HISTORIES)
@given(
    history=histories(),
    topic_type=st.sampled_from(TopicType),
    source=st.sampled_from(SOURCES),
    destination=st.sampled_from(DESTINATIONS),
    fold=st.booleans(),
    data=st.data(),
)
def test_both_sides_believe_the_same(
    history: History, topic_type: TopicType, source: Side, destination: Side, fold: bool, data: st.DataObject
) -> None:
    originals = history.records(topic_type, source[0], PARTITIONS[topic_type])
    if source[1].keys is not None or destination[1].keys is not None:  # the times of each key rise
        originals = [replace(each, timestamp_ms=CLAIMED_MS + at * MINUTES_MS) for at, each in enumerate(originals)]
    there = attacked(data.draw, topic_type, originals, source)
    transform = between(topic_type, source, destination)
    here = copied(transform, source, destination, there, fold=fold)
    assert differences(VerifyJob(transform, held(there, source[1]), held(here, destination[1]), fold=fold)) == []
    opened = here
    if destination[1].keys is not None:
        group = ClusterGroupId(destination[0] or "")
        reader = TopicSeals(topic_type, group, destination[1].keys)
        opened = [*reader.open_all(here)]
        assert not reader.refused
        assert all(is_sealed(record.value) for record in here)
        for record in here:
            reader.open(record)
        assert reader.repeated + reader.refused.total() == len(here)  # each counts once
    if not (fold and topic_type is TopicType.CONFIG):  # which heals
        assert not compare_states(
            topic_type, originals, opened, cluster_group_id=destination[0], source_cluster_group_id=source[0]
        )


@every_topic
def test_a_copy_has_the_time_of_its_original_and_is_refused_when_that_is_old(topic_type: TopicType) -> None:
    key = {TopicType.CONFIG: b"connector-c", TopicType.STATUS: b"status-connector-c", TopicType.OFFSET: b'["c",{}]'}
    plain = [
        Record("source", 0, at, 1_700_000_000_000 + at * MINUTES_MS, b"g.h." + key[topic_type], b'{"n":%d}' % at)
        for at in range(3)
    ]
    for source in SOURCES[1:]:
        there, times_ms = plain, [each.timestamp_ms for each in plain]
        if source[1].keys is not None:  # its time counts, not that of the record, which anybody may have written again
            times_ms = [at * MINUTES_MS for at in range(3)]
            dated = zip(plain, times_ms, strict=True)
            there = [sealed(each, topic_type, written_ms=at_ms, keys=KEYS) for each, at_ms in dated]
        for destination in ((GROUP, RESEALED), (OTHER, SEALED)):
            here = copied(between(topic_type, source, destination), source, destination, there, fold=False)
            reader = TopicSeals(topic_type, ClusterGroupId(destination[0]), destination[1].keys)
            opened = [(record.value, record.sealed_ms) for record in reader.open_all(here)]
            assert opened == [(each.value, at_ms) for each, at_ms in zip(plain, times_ms, strict=True)]
            again = reader.open(here[0])
            assert again is None or again.key != here[0].key


@pytest.mark.parametrize("fold", [False, True], ids=["mirror", "state"])
@pytest.mark.parametrize("destination", DESTINATIONS)
def test_the_time_of_sealing_decides_behind_a_move(destination: Side, fold: bool) -> None:
    """Between a removal and the status of a task in another partition, whose records claim one time."""
    task, removal = (b"g.h.status-task-jdbc-0", RUNNING % 1), (b"g.h.status-connector-jdbc", None)
    source, transform = (GROUP, SEALED), between(TopicType.STATUS, (GROUP, SEALED), destination)
    for pairs in ([task, removal], [removal, task]):
        originals = [Record("", at, 0, CLAIMED_MS, *pair) for at, pair in enumerate(pairs)]
        there = [sealed(each, TopicType.STATUS, written_ms=each.partition * MINUTES_MS) for each in originals]
        here = copied(transform, source, destination, there, fold=fold)
        assert differences(VerifyJob(transform, held(there, SEALED), held(here, destination[1]), fold=fold)) == []
        opened = [*Opener(destination[1], transform.at_destination()).open_all(here)]
        assert bool(replay_status(opened, destination[0]).task_statuses("jdbc")) is (pairs[1] == task)


@every_topic
def test_what_does_not_open_is_compared_where_it_is_copied_as_it_is(topic_type: TopicType) -> None:
    key = {TopicType.CONFIG: b"connector-c", TopicType.STATUS: b"status-connector-c", TopicType.OFFSET: b'["c",{}]'}
    record = Record("t", 0, 0, 1, b"g.h." + key[topic_type], b'{"properties":{}}')
    there = [sealed(record, topic_type, keys=KEYS)]
    transform = between(topic_type, (GROUP, NO_SEALING), (GROUP, NO_SEALING))
    as_is = held(there, Sealing(as_is=True))
    assert differences(VerifyJob(transform, as_is, as_is)) == []
    other = held([sealed(record, topic_type, keys=KEYS)], Sealing(as_is=True))  # the same, sealed once more
    assert [each.kind for each in differences(VerifyJob(transform, as_is, other))] == ["sealed_value"]
    replaced = held([*there, replace(record, offset=1)])  # a plain group, and a value that was never its own
    assert differences(VerifyJob(transform, replaced, held([record], NO_SEALING))) == []


@every_topic
def test_an_interrupted_copy_is_recognised_by_what_it_says(topic_type: TopicType) -> None:
    originals = [
        Record("source", 0, at, 1_700_000_000_000 - at, key, value)
        for at, (key, value) in enumerate(
            {
                TopicType.CONFIG: [(b"connector-c", b"{}"), (b"connector-c", None), (b"connector-c", b'{"a":1}')],
                TopicType.STATUS: [(b"status-connector-c", b"{}"), (b"status-connector-c", None)],
                TopicType.OFFSET: [(b'["c",{}]', b"{}"), (b'["c",{}]', None), (b'["c",{}]', b"")],
            }[topic_type]
        )
    ]
    source, destination = (None, NO_SEALING), (GROUP, SEALED)
    transform = between(topic_type, source, destination)
    whole = copied(transform, source, destination, originals, fold=False)
    for many in range(len(whole) + 1):
        opener = Opener(SEALED, transform.at_destination())
        garbage = Record("copy", whole[0].partition, many, 1, whole[0].key, b"{}")
        existing = ExistingRecords.read([*whole[:many], garbage], opener)
        assert existing.count == many
        resealer = Resealer(transform, NO_SEALING, SEALED, SealTimes(destination=existing.newest))
        sent = [*rewritten(slice_of(transform, 0, PARTITIONS, fold=False), originals, Tally(), resealer=resealer)]
        point = existing.resume_point(sent, PARTITIONS[topic_type])
        rest = [resealer.sealed(record) for record in sent if not point.passes(record)]
        assert len(rest) == len(whole) - many
        reader = TopicSeals(topic_type, ClusterGroupId(GROUP), KEYS)
        assert len([*reader.open_all([*whole[:many], *rest])]) == len(whole)


def test_what_a_job_holds_travels_and_is_not_shown() -> None:
    assert pickle.loads(pickle.dumps(SEALED)) == SEALED
    text = key_text(7).partition(":")[2]
    assert text not in repr(SEALED)
    assert SEALED.salt
    assert SEALED.salt != RESEALED.salt
    one, other = (Sealing(KeyRing.parse(key_text(*ids))) for ids in ((7, 8), (8, 7)))
    assert one.salt == other.salt  # evidence of before and after a rotation is compared
    times = SealTimes({0: {b"hunter2": b"1"}}, {b"hunter2": 2})
    assert pickle.loads(pickle.dumps(times)) == times
    assert "hunter2" not in repr(times)
