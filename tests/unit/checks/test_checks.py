"""Each check against topics with its fault planted and healthy ones; checks and repairs of whatever lies there."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share import checks
from connect_share.backup.rewrites import Mending, _stays, plan_order, plan_orphans, plan_values
from connect_share.checks import collisions, order, orphans, secrets, sizes, values
from connect_share.checks.finding import (
    _POLICY_EFFECTS,
    IDS,
    MOST_FINDINGS,
    Finding,
    Severity,
    errors_first,
    exit_code,
    of_group,
)
from connect_share.checks.order import Order
from connect_share.checks.orphans import is_lost, orphans_of
from connect_share.checks.sources import REQUEST_SIZE, GroupState, TopicsState
from connect_share.checks.topics import FindingKind
from connect_share.cli import admit
from connect_share.cli.check import _is_said
from connect_share.contents.profile import PartitionCounter, TopicProfile
from connect_share.errors import LostTopicError
from connect_share.kafka.create import LOST, ONE_PARTITION
from connect_share.model.records import Record, TopicType
from connect_share.worker_config.override_policy import SINK_GROUP_PROPERTY
from tests.support.captures import VERSIONS, prefixed
from tests.support.checked import CONFIG, OFFSET, STATUS, captured_topics, findings_of, ids, records, state_of
from tests.support.histories import Life, compacted, histories
from tests.support.sealed import all_sealed, key_text, sharing_worker

CONNECTOR = '{"properties":{"connector.class":"C"}}'
TASK = '{"properties":{"task.class":"T","n":"%d"}}'
HEALTHY = [("connector-a", CONNECTOR), ("task-a-0", TASK % 0), ("task-a-1", TASK % 1), ("commit-a", '{"tasks":2}')]


def only(state: TopicsState) -> list[Finding]:
    (group,) = state.groups
    return list(order.find("config", group))


def in_order(*pairs: tuple[str, str | None], group: str | None = "g") -> list[tuple[str, Severity]]:
    return [(each.id, each.severity) for each in only(state_of({CONFIG: records(CONFIG, *pairs, group=group)}))]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("group", [None, "com.acme"])
def test_no_capture_of_a_real_worker_raises_a_false_alarm(version: str, group: str | None) -> None:
    topics: dict[TopicType, list[Record]] = {}
    for topic_type, captured in captured_topics(version).items():
        topics[topic_type] = list(captured) if group is None else prefixed(captured, group)
    found = findings_of(state_of(topics))
    assert not [each for each in found if each.severity is Severity.ERROR]
    # Connect leaves these behind when a connector is removed; the captures have such connectors.
    loud = [each for each in found if each.severity is not Severity.NOTE]
    # A real one: 2.8.2 writes a connector without its tasks, where these stay the same.
    assert [each.id for each in loud] == (["order-compaction"] if version == "2.8.2" else [])
    assert all("connector 42" in each.where for each in loud)


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (HEALTHY, []),
        ([*HEALTHY, HEALTHY[1], ("commit-a", '{"tasks":1}')], []),  # reduced: the second configuration stays for ever
        ([*HEALTHY[1:], HEALTHY[0]], ["order-tasks-dropped"]),
        ([HEALTHY[0], HEALTHY[3], *HEALTHY[1:3]], ["order-tasks-dropped"]),
        ([HEALTHY[0], HEALTHY[1], HEALTHY[3]], ["order-tasks-missing"]),
        ([*HEALTHY, HEALTHY[0]], ["order-compaction"]),
        ([*HEALTHY, ("task-a-0", TASK % 7)], ["order-compaction"]),
        ([*HEALTHY, ("task-a-2", TASK % 2)], ["order-half-reconfiguration"]),
        ([*HEALTHY, ("task-a-2", "null")], []),  # as a repair removes it
        (HEALTHY[:3], ["order-half-reconfiguration"]),
        # Stopped: no tasks on purpose.
        ([*HEALTHY[1:], ("target-state-a", '{"state":"PAUSED","state.v2":"STOPPED"}'), HEALTHY[0]], []),
        # Made again after a removal that is still there: its tasks are not written yet.
        ([*HEALTHY, ("connector-a", "null"), HEALTHY[0]], []),
        # Removed: nobody misses the tasks.
        ([*HEALTHY, ("connector-a", "null")], []),
        ([("commit-a", '{"tasks":2000000000}'), HEALTHY[0]], ["order-tasks-missing"]),
        # Inconsistent since before it was removed; the last commit is for no tasks.
        ([HEALTHY[0], HEALTHY[3], ("connector-a", "null"), ("commit-a", '{"tasks":0}'), HEALTHY[0]], []),
        ([("commit-a", '{"tasks":-1}'), HEALTHY[0]], []),
        ([("commit-a", "garbage"), HEALTHY[0]], []),
    ],
)
@pytest.mark.parametrize("group", [None, "g"])
def test_order(pairs: list[tuple[str, str | None]], expected: list[str], group: str | None) -> None:
    found = in_order(*pairs, group=group)
    assert [kind for kind, _ in found] == expected
    everything = errors_first(findings_of(state_of({CONFIG: records(CONFIG, *pairs, group=group)})))
    assert not expected or everything[0].id == expected[0]
    lost_now = ("order-tasks-dropped", "order-tasks-missing")
    assert all((severity is Severity.ERROR) == (kind in lost_now) for kind, severity in found)


@pytest.mark.parametrize(
    ("topic_type", "key", "value", "found", "has_command"),
    [
        (CONFIG, "connector-a", '{"properties":{"tasks.max":1}}', "'tasks.max' has to be str", True),
        (CONFIG, "connector-a", '{"properties":', "not JSON", True),
        (CONFIG, "connector-a", '{"propertied":{}}', "has to be a map", True),
        (CONFIG, "task-a-1", '{"properties":{"n":["secret"]}}', "task 'a-1': property 'n' has to be str", True),
        (CONFIG, "task-a", TASK % 0, "no task number", True),
        (CONFIG, "target-state-a", '{"state":"HALTED"}', "target state of connector 'a'", True),
        (CONFIG, "commit-a", '{"tasks":-2}', "'tasks' of a commit", False),
        (CONFIG, "tasks-fencing-a", '{"task-count":"2"}', "the task count of connector 'a'", False),
        (CONFIG, "logger-cluster-x", '{"level":7}', "the level of logger 'x'", False),
        (STATUS, "status-connector-a", '{"state":"WALKING"}', "the state of 'a'", False),
        (STATUS, "status-task-a-0", '{"state":"RUNNING","worker_id":"w","generation":"1"}', "'generation'", False),
        (STATUS, "status-topic-t:connector-a", '{"topic":[]}', "'topic' is not an object", False),
        (OFFSET, '["a",{"p":1}]', '{"o":{"secret":1}}', "1 source offset: field 'o'", False),
        (OFFSET, '["a"]', '{"o":1}', "1 source offset: the key has 1 elements", False),
        # What others have written by hand, or with other tools.
        (CONFIG, "connector-a", "[]", "not an object", True),
        (CONFIG, "target-state-a", '"PAUSED"', "not an object", True),
        (CONFIG, "commit-a", "2", "not an object", False),
        (
            STATUS,
            "status-connector-a",
            '{"state":null,"worker_id":"w:1","generation":1}',
            "none that Connect has",
            False,
        ),
        (STATUS, "status-connector-a", '"RUNNING"', "not an object", False),
        (OFFSET, '["a",{"p":1}]', '"17"', "not str", False),
        (OFFSET, '["a","p"]', '{"o":1}', "the second element", False),
    ],
)
def test_values_that_no_store_would_have_written(
    topic_type: TopicType, key: str, value: str, found: str, has_command: bool
) -> None:
    topics: Topics = {CONFIG: records(CONFIG, *HEALTHY, group="g"), STATUS: [], OFFSET: []}
    sound, at = state_of(topics).groups[0], len(topics[topic_type])
    assert list(values.find(TOPICS, sound)) == []
    last = records(topic_type, ("connector-b", CONNECTOR), (key, value), group="g")[-1]
    topics[topic_type].append(replace(last, offset=at))
    (finding,) = values.find(TOPICS, state_of(topics).groups[0])
    assert found in finding.what
    first = errors_first(findings_of(state_of(topics)))[0]  # of all that is found
    assert (first.severity, first == replace(finding, group=first.group)) == (finding.severity, True)
    assert "secret" not in repr(finding)
    assert (finding.command is not None) == has_command
    # The next good one of its key, or its removal, ends it.
    topics[topic_type].append(replace(last, offset=at + 1, value=None))
    assert list(values.find(TOPICS, state_of(topics).groups[0])) == []


@pytest.mark.parametrize("bad", ['{"properties":{"connector.class":"C","n":7,"f":true,"none":null}}', "garbage"])
def test_a_bad_configuration_is_written_again_with_its_tasks_behind_it(bad: str) -> None:
    topics: Topics = {CONFIG: records(CONFIG, *HEALTHY, ("connector-a", bad), group="g")}
    before = state_of(topics).groups[0]
    assert only(state_of(topics)) == []  # nothing that repair order could mend
    mending = plan_values(before, TOPICS)
    after = state_of(with_records(topics, mending.records)).groups[0]
    config = (
        {"connector.class": "C"} if bad == "garbage" else {"connector.class": "C", "n": "7", "f": "true", "none": None}
    )
    assert after.config.connector_config("a") == config
    assert [after.config.task_config(each) for each in after.config.tasks("a")] == [
        {"task.class": "T", "n": "0"},
        {"task.class": "T", "n": "1"},
    ]
    assert only(state_of(with_records(topics, mending.records))) == []


def test_findings_about_made_up_connectors_are_bounded_and_hide_no_error() -> None:
    made_up = [(f"commit-c{n}", "garbage") for n in range(2 * MOST_FINDINGS)]
    log = records(CONFIG, *made_up, ("connector-a", "garbage"), ("commit-last", "garbage"), group="g" * 10_000)
    found = [*of_group(None, values.find(TOPICS, state_of({CONFIG: log}).groups[0]))]
    assert [each.severity for each in found].count(Severity.ERROR) == exit_code(found) == 1
    assert all(len(each.where) < 200 for each in found)
    (more,) = [each.what for each in found if each.what.endswith("of this kind, not shown")]
    assert (len(found), more) == (MOST_FINDINGS + 2, f"and {MOST_FINDINGS + 1} more findings of this kind, not shown")
    # By name the last but one of all, so it is not shown.
    sizes_of = [(b"g%d.connector-a" % n, 11_000 if n == 98 else 8_000) for n in range(MOST_FINDINGS + 5)]
    found = [*sizes.find(profiled(*sizes_of, configs={"max.message.bytes": "10000"}), REQUEST_SIZE)]
    assert [each.severity for each in found].count(Severity.ERROR) == exit_code(found) == 1


STATUS_VALUE = '{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":1}'
TOPIC_VALUE = '{"topic":{"name":"t","connector":"gone","task":0,"discoverTimestamp":1}}'


def test_orphans_of_every_kind_are_found() -> None:
    topics = {
        CONFIG: records(
            CONFIG,
            *HEALTHY,
            ("task-gone-0", TASK % 0),
            ("commit-gone", '{"tasks":1}'),
            ("tasks-fencing-gone", '{"task-count":1}'),
            ("target-state-gone2", '{"state":"PAUSED"}'),
            ("target-state-", "null"),
            group="g",
        ),
        STATUS: records(
            STATUS,
            ("status-connector-a", STATUS_VALUE),
            ("status-task-a-1", STATUS_VALUE),
            ("status-task-a-2", STATUS_VALUE),
            ("status-connector-gone", STATUS_VALUE),
            ("status-task-gone-0", STATUS_VALUE),
            ("status-task-removed-0", STATUS_VALUE),
            ("status-task-removed-0", None),
            ("status-topic-t:connector-gone", TOPIC_VALUE),
            group="g",
        ),
        OFFSET: records(OFFSET, ('["a",{"p":1}]', '{"o":1}'), ('["gone",{"p":1}]', '{"o":1}'), group="g"),
    }
    state = state_of(topics)
    found = findings_of(state)
    kinds = ("offsets", "statuses", "target-states", "task-configs", "task-statuses", "topics")
    assert ids(found) == [f"orphan-{kind}" for kind in kinds]
    by_id = {each.id: each for each in found}
    assert by_id["orphan-statuses"].what == "statuses of connectors without a configuration, 2 records: gone"
    assert by_id["orphan-task-statuses"].what == "statuses of tasks above the number of tasks, 1 record: a-2"
    assert by_id["orphan-task-configs"].what.endswith("3 records: gone")
    assert by_id["orphan-target-states"].what.endswith("1 record: gone2")
    (group,) = state.groups
    counts = [len(orphans.orphans_of(group, topics).keys(each)) for each in (CONFIG, STATUS, OFFSET)]
    assert counts == [4, 4, 1]
    # Without the config topic nothing is known to be an orphan.
    del topics[CONFIG]
    assert findings_of(state_of(topics)) == []


@pytest.mark.parametrize(("members", "expected"), [(None, ["orphan-group"]), (0, ["orphan-group"]), (2, [])])
def test_a_group_with_leftovers_only(members: int | None, expected: list[str]) -> None:
    removed = (("connector-a", CONNECTOR), ("connector-a", "null"))
    assert state_of({CONFIG: records(CONFIG, *removed, group="g")}).groups == []  # it is gone, not an orphan
    topics = {CONFIG: records(CONFIG, *removed, ("restart-connector-a", "{}"), group="g")}
    assert ids(findings_of(state_of(topics), members)) == expected


def test_what_is_refused_may_live() -> None:
    """So its statuses and offsets are no orphans, and a group of which all is refused is not gone."""
    worker, running = sharing_worker("g", key_text(7)), '{"state":"RUNNING","worker_id":"w","generation":1}'
    assert worker.cluster_group_id is not None
    plain = records(CONFIG, *HEALTHY, group="g")
    assert findings_of(state_of({CONFIG: plain}, worker)) == []
    names = ("status-connector-a", "status-task-b-0", "status-connector-gone")
    parts = {CONFIG: [("connector-b", CONNECTOR)], STATUS: [(each, running) for each in names]}
    topics = {
        each: all_sealed(records(each, *of, group="g"), each, worker.cluster_group_id) for each, of in parts.items()
    }
    refused = records(CONFIG, HEALTHY[0], ("commit-b", '{"tasks":1}'), group="g")
    (found,) = findings_of(state_of({**topics, CONFIG: [*topics[CONFIG], *refused]}, worker))
    assert found.what == "statuses of connectors without a configuration, 1 record: gone"


def test_what_a_check_says_hides_nothing_else_of_its_topic() -> None:
    said = [
        Finding(f"topics-{kind}", Severity.ERROR, "t", "x", "", "") for kind in ("partition-count", "cleanup-policy")
    ]
    texts = {
        "startup-problem": [ONE_PARTITION, "a tombstone"],
        "startup-setting": ["cleanup.policy is x", "segment.ms is 1"],
    }
    for kind, (same, other) in texts.items():
        for where, what, hidden in (("t", same, True), ("t", other, False), ("u", same, False)):
            assert _is_said(Finding(kind, Severity.WARNING, where, what, "", ""), said) is hidden


def test_secrets_are_named_and_never_shown() -> None:
    config = '{"properties":{"db.password":"hunter2","db.user":"me","other.password":"${file:/x:y}"}}'
    task = '{"properties":{"url":"jdbc:x://me:hunter2@host/db"}}'
    state = state_of(
        {CONFIG: records(CONFIG, ("connector-a", config), ("task-a-0", task), ("task-gone-0", task), group="g")}
    )
    (group,) = state.groups
    found = list(secrets.find("config", group))
    assert [(each.id, each.severity, each.where, each.what.rpartition(": ")[2]) for each in found] == [
        ("secrets-clear-text", Severity.ERROR, "config, group g, connector a", "db.password, url"),
        ("secrets-clear-text", Severity.ERROR, "config, group g, connector gone", "url"),
    ]
    assert "hunter2" not in str(found)


def test_collisions() -> None:
    fence = ("tasks-fencing-{}", '{"task-count":1}')
    sink = '{"properties":{"connector.class":"org.acme.FileSink","topics":"t"}}'
    mirrors = [f"org.apache.kafka.connect.mirror.Mirror{name}Connector" for name in ("Source", "Checkpoint")]
    offset = ('["src",{"p":1}]', '{"o":1}')
    removed = (("connector-b.connector-d", CONNECTOR), ("connector-b.connector-d", "null"))

    def group(name: str | None, source: str) -> list[Record]:
        return records(
            CONFIG,
            ("connector-src", CONNECTOR),
            ("connector-sink", sink),
            *(
                (f"connector-mirror-{number}", f'{{"properties":{{"connector.class":"{name}","topics":"t"}}}}')
                for number, name in enumerate(mirrors)
            ),
            (f"connector-{source}", CONNECTOR),
            (fence[0].format(source), fence[1]),
            group=name,
        )

    state = state_of(
        {
            CONFIG: [
                *group("com.acme", "orders-eu"),
                *group("com.acme-orders", "eu"),
                *group("com.acme.orders", "x"),
                *records(CONFIG, ("connector-b.connector-c", CONNECTOR), *removed),
            ],
            STATUS: [],
            OFFSET: [*records(OFFSET, offset, group="com.acme"), *records(OFFSET, offset, group="com.acme.orders")],
        }
    )
    every = list(collisions.find(state))
    found = {each.id: each for each in every}
    assert len(found) == len(every)
    assert {kind: each.severity.value for kind, each in found.items()} == {
        "collision-ambiguous-key": "warning",
        "collision-nested-ids": "note",
        "collision-transactional-ids": "error",
        "collision-sink-group": "warning",
        "collision-same-source": "note",
    }
    assert "sink of com.acme, sink of com.acme-orders" in found["collision-sink-group"].what
    assert found["collision-ambiguous-key"].what.endswith(": connector-b.connector-c")
    assert found["collision-nested-ids"].where == "config, status, offset, group com.acme.orders"
    assert "orders-eu of com.acme, eu of com.acme-orders" in found["collision-transactional-ids"].what
    assert "src of com.acme, src of com.acme.orders" in found["collision-same-source"].what


@pytest.mark.parametrize(
    ("ended", "found"),
    [
        (("connector-other", CONNECTOR), ["collision-same-source"]),
        (("target-state-src", '{"state":"PAUSED","state.v2":"STOPPED"}'), []),
        (("connector-src", "null"), []),
    ],
)
def test_a_source_that_one_of_two_groups_has_stopped_is_read_once(ended: tuple[str, str], found: list[str]) -> None:
    topics: Topics = {CONFIG: [], STATUS: [], OFFSET: []}
    for group, pairs in (("a", [("connector-src", CONNECTOR)]), ("b", [("connector-src", CONNECTOR), ended])):
        topics[CONFIG] += records(CONFIG, *pairs, group=group)
        topics[OFFSET] += records(OFFSET, ('["src",{"p":1}]', '{"o":1}'), group=group)
    assert [each.id for each in collisions.find(state_of(topics))] == found


def test_a_group_id_that_is_the_consumer_group_of_a_sink() -> None:
    def group(name: str | None, *configs: str) -> list[Record]:
        pairs = [(f"connector-{n}", f'{{"properties":{{"topics":"t",{each}}}}}') for n, each in enumerate(configs)]
        return records(CONFIG, *pairs, group=name)

    override = f'"connector.class":"C","{SINK_GROUP_PROPERTY}":"%s"'
    plain = group(None, override % "mine")
    state = state_of({CONFIG: [*group("connect-0", override % "own"), *group("b", '"connector.class":"C"'), *plain]})
    (found,) = collisions.find(state)
    assert (found.id, found.severity) == ("collision-group-of-sink", Severity.ERROR)
    assert found.what == "group.id connect-0 is the consumer group of 0 of b"
    assert [each.what for each in collisions.find(state, "mine")] == [
        found.what,
        "group.id mine is the consumer group of 0 of (plain)",
    ]
    # A name of one's own does not help if two choose the same.
    (found,) = collisions.find(state_of({CONFIG: [*group("a", override % "own"), *group("b", override % "own")]}))
    assert found.id == "collision-sink-group"
    assert "0 of a, 0 of b" in found.what


def profiled(*sizes_of: tuple[bytes, int], configs: dict[str, str] | None = None) -> dict[TopicType, TopicProfile]:
    counter = PartitionCounter(CONFIG, 0)
    for offset, (key, size) in enumerate(sizes_of):
        counter.add(offset, 1_000, key, b"x" * size)
    return {CONFIG: TopicProfile.of("configs", CONFIG, [counter.finish()], configs)}


@pytest.mark.parametrize(
    ("size", "configs", "expected"),
    [
        (1_000, {}, []),
        (780_000, {}, []),
        (790_000, {}, ["sizes-near-limit"]),
        (1_048_500, {}, ["sizes-too-large"]),
        (790_000, {"max.message.bytes": "2000000"}, ["sizes-near-limit"]),  # the producer's limit holds
        (8_000, {"max.message.bytes": "10000"}, ["sizes-near-limit"]),
        (8_000, None, []),
    ],
)
def test_sizes(size: int, configs: dict[str, str] | None, expected: list[str]) -> None:
    topics = profiled((b"g.connector-a", size), (b"g.connector-b", 5), (b"connector-p", 7), configs=configs)
    found = list(sizes.find(topics, REQUEST_SIZE))
    assert [each.id for each in found] == expected
    assert all(each.where == "configs, group g, 0@0" for each in found)
    assert [(each["group"], each["bytes"], each["at"]) for each in sizes.largest(topics)] == [
        (None, 11 + 7, "0@2"),
        ("g", 13 + size, "0@0"),
    ]
    assert [each["group"] for each in sizes.largest(topics, [None])] == [None]


def test_a_topic_that_is_not_compacted() -> None:
    topics = profiled(*[(b"g.connector-a", 1_000_000)] * 70)
    found = sizes.find(topics, 10_000_000)
    assert [each.what for each in found] == ["65 MiB of 66 MiB are records that newer ones have replaced"]
    assert list(sizes.find(profiled(*[(b"g.connector-%d" % n, 1_000_000) for n in range(70)]), 10_000_000)) == []


TOPICS = {topic_type: topic_type.value for topic_type in TopicType}
GROUP = "g.h"
Topics = dict[TopicType, list[Record]]


def drawn(data: st.DataObject, group: str | None) -> Topics:
    history = data.draw(histories())
    return {
        topic_type: compacted(data.draw, history.records(topic_type, group, 1, topic=topic_type.value))
        for topic_type in TopicType
    }


@st.composite
def reconfigured(draw: st.DrawFn, group: str | None) -> Topics:
    """A few connectors that are configured again and again, without garbage, and the cleaner."""
    life = Life(itertools.repeat(0), itertools.repeat(group is not None))
    steps = st.sampled_from(("create", "create", "tasks", "tasks", "target", "delete"))
    for step, name, number in draw(
        st.lists(st.tuples(steps, st.sampled_from(("a", "a-0")), st.integers(0, 5)), min_size=3)
    ):
        getattr(life, step)(name, number)
    prefix = b"" if group is None else group.encode() + b"."
    found: Topics = {topic_type: [] for topic_type in TopicType}
    for topic_type, entries in life.log.items():
        for at, (key, value, timestamp_ms) in enumerate(entries):
            found[topic_type].append(Record(topic_type.value, 0, at, timestamp_ms, prefix + (key or b""), value))
    found[CONFIG] = compacted(draw, found[CONFIG])
    return found


def state_in(topics: Topics, group: str | None) -> GroupState | None:
    return next((each for each in state_of(topics).groups if each.group == group), None)


def with_records(topics: Topics, written: Sequence[Record]) -> Topics:
    """The topics when these were written behind all others."""
    found = {}
    for topic_type, before in topics.items():
        first = before[-1].offset + 1 if before else 0
        new = [record for record in written if record.topic == topic_type.value]
        found[topic_type] = before + [replace(each, partition=0, offset=first + at) for at, each in enumerate(new)]
    return found


PLANS: Mapping[str, Callable[[GroupState, Mapping[TopicType, str]], Mending]] = {
    "order": plan_order,
    "orphans": partial(plan_orphans, with_offsets=True),
    "values": plan_values,
}


@pytest.mark.parametrize("group", [None, GROUP])
@pytest.mark.parametrize("repair", PLANS)
@given(st.data())
def test_a_repair_mends_all_it_is_for_and_changes_nothing_else(
    repair: str, group: str | None, data: st.DataObject
) -> None:
    topics = data.draw(reconfigured(group)) if repair == "order" else drawn(data, group)
    before = state_in(topics, group)
    if before is None:
        return
    if repair == "orphans" and is_lost(before):
        with pytest.raises(LostTopicError):
            PLANS[repair](before, TOPICS)
        return
    mending = PLANS[repair](before, TOPICS)
    # A run that was killed has written a part.
    part = data.draw(st.integers(0, len(mending.records)))
    half = with_records(topics, mending.records[:part])
    again = state_in(half, group)
    mended = half if again is None else with_records(half, PLANS[repair](again, TOPICS).records)
    after = state_in(mended, group)
    if after is None:  # leftovers were all that it had
        assert repair != "order"
        return
    assert PLANS[repair](after, TOPICS).records == ()
    assert _stays(before, mending) == _stays(after, mending)
    # What others have there is the same, whatever they have there.
    others = {each.group: each.config for each in state_of(topics).groups if each.group != group}
    assert {each.group: each.config for each in state_of(mended).groups if each.group != group} == others
    if repair == "order":
        order = Order(after)
        assert (order.dropped, order.doomed) == ([], [])
        lately = after.kept.history.compacted()
        assert all(lately.tasks(name) for name in mending.connectors)
    elif repair == "values":
        assert not [each for each in values.find(TOPICS, after) if each.command]
        assert before.config.connectors() == after.config.connectors()
    else:
        orphans = orphans_of(after, TOPICS)
        assert [orphans.keys(each) for each in (CONFIG, STATUS, OFFSET)] == [[], [], []]


@pytest.mark.parametrize("group", [None, GROUP])
@given(st.data())
def test_checks_take_whatever_is_there(group: str | None, data: st.DataObject) -> None:
    topics = drawn(data, group)
    state = state_of(topics)
    found = findings_of(state)
    assert len({(each.id, each.where, each.what) for each in found}) == len(found)
    assert [each.id for each in collisions.find(state)] == [
        each.id for each in found if each.id.startswith("collision")
    ]


def test_every_finding_can_be_left_out() -> None:
    sources = [*Path(checks.__file__).parent.glob("*.py"), Path(admit.__file__)]
    code = "".join(path.read_text() for path in sources if path.name != "finding.py")
    begin = "|".join(sorted({each.partition("-")[0] for each in IDS}))
    found = {*re.findall(rf'"((?:{begin})-[a-z-]+)"', code), LOST}
    found |= {f"workers-{kind}" for kind in re.findall(r'(?<!policy_)finding\((?:\w+, \w+, )?\s*"([a-z-]+)"', code)}
    found |= {f"topics-{kind.value[0]}" for kind in FindingKind} | {f"topics-{kind}" for kind in _POLICY_EFFECTS}
    assert found == set(IDS)
