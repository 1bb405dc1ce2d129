"""Logs of all three topics and copies of them to which things have happened, for comparisons of both sides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import Record, TopicType
from connect_share.transform.rules import KeyTransform
from migrator.verify.verification import VerifyJob
from tests.support.sides import held

GROUP = ClusterGroupId("big.team")


def job_of(
    topic_type: TopicType,
    there: Sequence[Record],
    here: Sequence[Record],
    source: str | None = None,
    group: ClusterGroupId | None = GROUP,
) -> VerifyJob:
    transform = KeyTransform(topic_type, source is None, None if source is None else frozenset({source}), group)
    return VerifyJob(transform, held(there, at_once=3), held(here, at_once=3))


NAMES = ("a", "a-1", "b", "", "x.y", "ä")
CONFIG_KEYS = [
    *(f"{kind}-{name}" for kind in ("connector", "target-state", "commit", "tasks-fencing") for name in NAMES),
    *(f"task-{name}-{task}" for name in NAMES for task in ("0", "1", "00", "x")),
    "session-key",
    "restart-connector-a",
    "logger-cluster-org.x",
]
STATUS_KEYS = [
    *(f"status-connector-{name}" for name in NAMES),
    *(f"status-task-{name}-{task}" for name in NAMES for task in ("0", "1", "01", "1-", "x")),
    *(f"status-topic-{topic}:connector-{name}" for topic in ("t", "") for name in NAMES),
    "status-topic-t",
]
OFFSET_KEYS = ['["a",{"p":1}]', '["a",{"q":1,"p":1}]', '["a",null]', '["b",{"p":1}]', "[", "[1,2]", '["a"]', '["ä",{}]']
CONFIG_VALUES = [
    '{"properties":{"name":"a"}}',
    '{"properties":{"name":"a","x":"1"}}',
    '{"tasks":0}',
    '{"tasks":1}',
    '{"tasks":2}',
    '{"task-count":1}',
    '{"state":"PAUSED","state.v2":"STOPPED"}',
    '{"state":"STARTED"}',
    "null",
    "{",
    "",
    None,
]
STATUS_VALUES = [
    *(
        f'{{"state":"{state}","trace":null,"worker_id":"w","generation":{generation}}}'
        for state in ("RUNNING", "UNASSIGNED", "FAILED")
        for generation in (1, 2)
    ),
    '{"topic":{"name":"t","connector":"a","task":0,"discoverTimestamp":1}}',
    '{"state":"?"}',
    "null",
    None,
]
OFFSET_VALUES = ['{"position":1}', '{"position":2}', '{"position": 2}', "", "null", None]
ALPHABETS = {
    TopicType.CONFIG: (CONFIG_KEYS, CONFIG_VALUES),
    TopicType.STATUS: (STATUS_KEYS, STATUS_VALUES),
    TopicType.OFFSET: (OFFSET_KEYS, OFFSET_VALUES),
}


def logs(topic_type: TopicType) -> st.SearchStrategy[list[Record]]:
    keys, values = ALPHABETS[topic_type]
    drawn = st.tuples(st.sampled_from(keys), st.sampled_from(values), st.integers(0, 5))
    return st.lists(drawn, max_size=14).map(
        lambda entries: [
            Record("t", 0, at, timestamp_ms, key.encode(), None if value is None else value.encode())
            for at, (key, value, timestamp_ms) in enumerate(entries)
        ]
    )


def prefixed(records: Iterable[Record], group: str = GROUP) -> list[Record]:
    return [replace(record, key=f"{group}.".encode() + (record.key or b"")) for record in records]


@st.composite
def both_sides(draw: Any) -> tuple[TopicType, list[Record], list[Record]]:
    """A log, and a copy to which things have happened: compaction, losses, later writes, foreign records."""
    topic_type = draw(st.sampled_from(TopicType))
    there = draw(logs(topic_type))
    here = prefixed(there)
    if draw(st.booleans()):  # compacted
        here = [each for at, each in enumerate(here) if each.key not in {later.key for later in here[at + 1 :]}]
    lost = draw(st.sets(st.integers(0, 20), max_size=2))
    here = [each for at, each in enumerate(here) if at not in lost]
    here += prefixed(draw(logs(topic_type)))[: draw(st.integers(0, 2))]
    if topic_type is TopicType.CONFIG and draw(st.booleans()):
        here.append(Record("t", 0, 99, 9, f"{GROUP}.target-state-".encode(), b"null"))
    foreign = prefixed(draw(logs(topic_type))[:2], "big") + draw(logs(topic_type))[:2]
    return topic_type, there, foreign + here
