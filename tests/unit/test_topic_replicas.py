"""Where replicas should be, what is found in topics, which settings are refused: all without a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.checks import topics
from connect_share.checks.topics import (
    ClusterFacts,
    Replicas,
    WatchedTopic,
    find,
    kind_of,
    one_rack,
    plan_replicas,
    reassigned,
    reassignment_json,
)
from connect_share.errors import ConfigError
from connect_share.kafka.create import TopicSpec, refuse_illegal, safe_min_isr, vetted_settings
from connect_share.kafka.descriptions import BrokerDescription, PartitionDescription, TopicDescription
from connect_share.model.records import TopicType

RACKS = {1: "a", 2: "a", 3: "b"}
BROKERS = [BrokerDescription(number, rack) for number, rack in RACKS.items()]


def planned(*replicas: tuple[int, ...], wanted: int = 3) -> list[tuple[int, ...]]:
    partitions = {("t", number): brokers for number, brokers in enumerate(replicas)}
    return [*{**partitions, **reassigned(partitions, {"t": wanted}, BROKERS)}.values()]


def test_new_replicas_go_to_other_racks_first_and_leaders_stay() -> None:
    assert planned((1,), (3,), wanted=2) == [(1, 3), (3, 2)]
    assert planned((1,), (1,)) == [(1, 3, 2), (1, 3, 2)]
    assert planned((2, 1), wanted=2) == [(2, 3)]
    assert planned((2, 1), wanted=3) == [(2, 1, 3)]
    assert planned((1,), (2, 3), (3,), wanted=2) == [(1, 3), (2, 3), (3, 1)]  # what moves counts once
    assert planned((1, 9), wanted=2) == [(1, 9)]  # broker 9 is down, and may come back
    assert planned((1, 9), wanted=4) == [(1, 9, 3, 2)]
    assert planned((1, 2), (1,), wanted=5) == [(1, 2), (1,)]  # not enough brokers: nothing by halves
    assert reassignment_json({("t", 4): (2, 3)}) == {
        "version": 1,
        "partitions": [{"topic": "t", "partition": 4, "replicas": [2, 3]}],
    }


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[BrokerDescription], Replicas, dict[str, int]]:
    ids = draw(st.lists(st.integers(1, 9), min_size=1, max_size=7, unique=True))
    racks = st.sampled_from(["a", "b", "c"]) if draw(st.booleans()) else st.none()
    brokers = [BrokerDescription(number, draw(racks)) for number in sorted(ids)]
    partitions = {
        (topic, number): tuple(draw(st.lists(st.integers(1, 12), min_size=1, max_size=4, unique=True)))
        for topic in ("t", "u")
        for number in range(draw(st.integers(0, 4)))
    }
    return brokers, partitions, {"t": draw(st.integers(0, 5)), "u": draw(st.integers(0, 5))}


@given(clusters())
def test_any_plan_is_complete_safe_and_final(case: tuple[list[BrokerDescription], Replicas, dict[str, int]]) -> None:
    brokers, partitions, wanted = case
    plan = reassigned(partitions, wanted, brokers)
    assert [*plan.items()] == [*reassigned(dict([*partitions.items()][::-1]), wanted, brokers).items()]
    racks = {broker.id: broker.rack for broker in brokers}
    for place, replicas in plan.items():
        old = partitions[place]
        assert replicas != old
        assert replicas[0] == old[0]
        assert len(set(replicas)) == len(replicas) == max(len(old), wanted[place[0]])
        assert set(replicas) - set(old) <= set(racks)
        assert set(old) <= set(replicas) or one_rack(old, racks) is not None
        assert one_rack(replicas, racks) is None or len(set(racks.values())) == 1
    assert reassigned({**partitions, **plan}, wanted, brokers) == {}


def topic(*partitions: tuple[int | None, tuple[int, ...], tuple[int, ...]]) -> TopicDescription:
    return TopicDescription(
        "t", None, tuple(PartitionDescription(number, *found) for number, found in enumerate(partitions))
    )


def found_in(
    description: TopicDescription | None,
    configs: Mapping[str, str] | None = None,
    *,
    wanted: int | None = 3,
    **more: bool,
) -> list[tuple[str, int | None]]:
    watched = WatchedTopic("t", wanted, "the.factor", "nothing works", **more)
    facts = ClusterFacts(BROKERS, {} if description is None else {"t": description}, {"t": configs or {}})
    findings = find(facts, [watched])
    for finding in findings:
        assert finding.where == ("t" if finding.partition is None else f"t[{finding.partition}]")
        assert finding.remedy
    plan_replicas(facts, [watched])
    return [(kind_of(finding), finding.partition) for finding in findings]


def test_what_is_found() -> None:
    whole = (1, (1, 2, 3), (1, 2, 3))
    assert found_in(topic(whole, whole), {"cleanup.policy": "compact", "min.insync.replicas": "2"}) == []
    assert found_in(topic(whole, whole), single_partition=True) == [("partition-count", None)]
    assert found_in(topic(whole), {"cleanup.policy": "compact,delete"}) == [("cleanup-policy", None)]
    unclean = {"unclean.leader.election.enable": "true"}
    assert found_in(topic(whole), unclean) == [("unclean-leader-election", None)]
    assert found_in(topic(whole), unclean, unclean_wanted=True) == found_in(topic(whole), unclean, internal=True) == []
    limits = {"min.insync.replicas": "3", "message.timestamp.before.max.ms": "1"}
    assert found_in(topic(whole), limits) == [("min-insync-replicas", None), ("old-timestamps", None)]
    assert found_in(topic((1, (1,), (1,))), {"min.insync.replicas": "1"}, wanted=1) == []
    assert found_in(topic((1, (1, 3), (1, 3))), wanted=None) == []
    assert found_in(topic(whole, (3, (3, 1, 2), (3, 1)))) == [("under-replicated", 1)]
    assert found_in(topic((None, (3, 1, 2), (3,)))) == [("no-leader", 0)]
    assert found_in(topic(whole, (1, (1, 2), (1, 2)))) == [("too-few-replicas", 1), ("one-rack", 1)]
    assert found_in(None) == [("missing", None)]
    assert found_in(None, wanted=4) == [("cannot-be-created", None)]
    assert found_in(None, internal=True) == []  # made when it is first used
    assert found_in(None, wanted=4, internal=True) == [("cannot-be-created", None)]


def test_check_all_says_of_each_partition_what_is_to_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = ClusterFacts(BROKERS, {"t": topic((None, (7,), ()), (None, (8,), ()), (None, (8,), ()))})
    found = find(facts, [WatchedTopic("t", 1, "the.factor", "nothing works")])
    monkeypatch.setattr(topics, "_inspected", lambda *_: ([], topics.Inspection(("t",), found, {})))
    shown = [(each.where, each.remedy) for each in topics.CHECK.find(Mock(topic_set=Mock(topics={})))]
    assert shown == [("t[0]", "start broker 7"), ("t[1-2]", "start broker 8")]


@pytest.mark.parametrize("topic_type", TopicType)
def test_vetted_settings_are_never_refused(topic_type: TopicType) -> None:
    for replicas in (1, 2, 3, 5):
        spec = TopicSpec("t", topic_type, replication_factor=replicas, configs={"max.message.bytes": "99999999"})
        settings = vetted_settings(spec, replicas, 1_048_588)
        values = {setting.name: setting.value for setting in settings}
        refuse_illegal(spec, values, replicas)
        assert values["min.insync.replicas"] == str(max(1, replicas - 1)) == str(safe_min_isr(replicas))
        assert values["cleanup.policy"] == "compact"
        assert values["unclean.leader.election.enable"] == "false"
        assert int(values["segment.bytes"]) == 99_999_999  # the largest record has to fit
        assert all(setting.why for setting in settings)
    assert "min.insync.replicas" not in {setting.name for setting in vetted_settings(spec, None)}


@pytest.mark.parametrize(
    ("replicas", "own", "name", "words"),
    [
        (3, {"min.insync.replicas": "3"}, "min.insync.replicas", "would stop as soon as one broker is down"),
        (1, {"min.insync.replicas": "2"}, "min.insync.replicas", "writes need more replicas than there are"),
        (
            3,
            {"segment.bytes": "2000000", "max.message.bytes": "3000000"},
            "segment.bytes",
            "smaller than offset.storage",
        ),
    ],
)
def test_what_fails_later_is_refused(replicas: int, own: dict[str, str], name: str, words: str) -> None:
    spec = TopicSpec("t", TopicType.OFFSET, 25, replicas, own)
    values = {setting.name: setting.value for setting in vetted_settings(spec, replicas)}
    with pytest.raises(ConfigError, match=words) as caught:
        refuse_illegal(spec, values, replicas)
    assert caught.value.property_name == f"offset.storage.{name}"


def test_what_the_worker_file_says_wins_and_secrets_that_got_there_are_hidden() -> None:
    spec = TopicSpec("t", TopicType.STATUS, 5, 3, {"segment.ms": "77", "password": "zebra", "cleanup.policy": "delete"})
    found = {setting.name: setting for setting in vetted_settings(spec, 3)}
    assert (found["segment.ms"].value, found["segment.ms"].from_worker_file) == ("77", True)
    assert found["segment.ms"].why == "status.storage.segment.ms"
    assert found["cleanup.policy"].value == "compact"
    assert "zebra" not in found["password"].shown_value
