"""What tells a topic of Connect from others, and which topics are joined to clusters."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from connect_share.checks.finding import Severity
from connect_share.discover.clusters import JoinedTopics, KafkaFacts, _on_two_sets, join
from connect_share.discover.evidence import Fit, TopicEvidence
from connect_share.discover.survey import _group_row
from connect_share.model.config import connector_config_record, moved_record
from connect_share.model.config_state import Moved
from connect_share.model.connect_json import dumps
from connect_share.model.offsets import offset_key
from connect_share.model.records import Record, TopicType
from connect_share.model.status import ConnectorStatus, State, status_record
from connect_share.worker_config import ClientSettings
from tests.support.captures import VERSIONS, captured_as_seen, prefixed
from tests.support.hostile_records import SECRET, SEED, HostileRecords

FILES = {"configs": TopicType.CONFIG, "status": TopicType.STATUS, "offsets": TopicType.OFFSET}


def evidence_of(*pairs: tuple[bytes | None, bytes | None], topic: str = "t") -> TopicEvidence:
    found = TopicEvidence(topic)
    for offset, pair in enumerate(pairs):
        found.add(Record(topic, 0, offset, 1, *pair))
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("group", [None, "com.acme"])
def test_topics_of_real_workers_are_recognised(version: str, file: str, group: str | None) -> None:
    found = TopicEvidence(file)
    records = captured_as_seen(version, file, committed=True)
    for record in records if group is None else prefixed(records, group):
        found.add(record)
    (role,) = found.roles
    assert (role.topic_type, found.confidence, role.fits[Fit.OTHER]) == (FILES[file], "certain", 0)
    assert group in role.groups
    assert sum(each.records for each in role.groups.values()) == len(records)


def test_an_idle_cluster_is_known_by_its_session_key() -> None:
    value = dumps({"key": "c2VjcmV0", "algorithm": "HmacSHA256", "creation-timestamp": 1})
    (role,) = evidence_of((b"session-key", value)).roles
    assert role.topic_type is TopicType.CONFIG


def test_a_closed_config_topic_is_known_by_the_record_that_closed_it() -> None:
    stopped = (b"target-state-a", b'{"state":"PAUSED","state.v2":"STOPPED"}')
    (role,) = evidence_of(stopped, moved_record(Moved("plan.json", "id", {"cleanup.policy": None}))).roles
    assert role.topic_type is TopicType.CONFIG
    assert role.groups[None].moved is not None


def test_forms_without_proof_are_no_cluster_and_the_reason_is_said() -> None:
    found = evidence_of((b"commit-a", b'{"tasks":1}'), (b"target-state-a", b'{"state":"STARTED"}'))
    assert found.roles == []
    assert "none of them proves it" in found.why


def test_a_few_strange_records_change_the_confidence_only() -> None:
    good = (b"connector-c", b'{"properties":{"connector.class":"C"}}')
    found = evidence_of(*[good] * 8, (b"\xff\xfe", b"x"), (None, b"x"))
    assert (len(found.roles), found.confidence) == (1, "likely")
    assert evidence_of(good, *[(b"\xff\xfe", b"x")] * 8).roles == []


def test_removed_connectors_do_not_count() -> None:
    value = b'{"properties":{"connector.class":"C"}}'
    found = evidence_of((b"connector-a", value), (b"connector-b", value), (b"connector-c", value))
    for removal in (None, b"null"):
        found.add(Record("t", 0, 9, 1, b"connector-a" if removal is None else b"connector-b", removal))
    assert len(found.roles[0].groups[None].connectors) == 1


def test_one_topic_may_have_several_roles() -> None:
    found = evidence_of(
        (b"g.connector-a", b'{"properties":{"connector.class":"C"}}'),
        (b"g.status-connector-a", b'{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":1}'),
        (b'g.["a",{"p":1}]', b'{"o":1}'),
    )
    assert {role.topic_type for role in found.roles} == set(TopicType)


@pytest.mark.parametrize("topic_type", TopicType)
def test_hostile_records_never_fail_and_show_nothing(topic_type: TopicType) -> None:
    found = TopicEvidence("t")
    for record in HostileRecords(SEED).records(topic_type, 500):
        found.add(record)
        assert found.confidence in ("certain", "likely")
        for role in found.roles:
            assert 0 < role.good <= role.judged <= role.keys
    assert found.records == 500
    assert found.keys == sum(each.records for of in found.types.values() for each in of.groups.values())
    assert found.why
    assert SECRET not in f"{found!r} {found.why}"


def config_topic(topic: str, connectors: Sequence[str], *, own: str | None = None) -> TopicEvidence:
    properties = {"connector.class": "C"} | ({} if own is None else {"offsets.storage.topic": own})
    return evidence_of(*(connector_config_record(name, properties) for name in connectors), topic=topic)


def status_topic(topic: str, connectors: Sequence[str], *, worker: str = "w:1") -> TopicEvidence:
    statuses = [ConnectorStatus(name, State.RUNNING, worker, 1) for name in connectors]
    return evidence_of(*map(status_record, statuses), topic=topic)


def offset_topic(topic: str, connectors: Sequence[str]) -> TopicEvidence:
    return evidence_of(*((offset_key(name, {"p": 1}), dumps({"o": 1})) for name in connectors), topic=topic)


def names(joined: JoinedTopics) -> list[list[str]]:
    return [[role.topic for role in cluster.topics.values()] for cluster in joined.clusters]


def test_a_cluster_whose_connectors_are_among_anothers_gets_its_own_status_topic() -> None:
    topics = [
        *(config_topic("m", ["a"]), config_topic("n", ["a", "b", "c"])),
        *(status_topic("n-like", ["a"]), status_topic("m-like", ["a", "b", "c"])),
    ]
    assert names(join(topics)) == [["m", "n-like"], ["n", "m-like"]]


def test_equal_connectors_are_told_apart_by_the_names_of_topics_and_that_is_said() -> None:
    topics = [
        *(config_topic("dev.config", ["a"]), config_topic("prod.config", ["a"])),
        *(status_topic("prod.status", ["a"]), status_topic("dev.status", ["a"])),
    ]
    joined = join(topics)
    assert names(joined) == [["dev.config", "dev.status"], ["prod.config", "prod.status"]]
    assert [len(found) for cluster in joined.clusters for found in cluster.guessed.values()] == [2, 2]


def test_the_own_offsets_topic_of_a_connector_is_not_the_clusters() -> None:
    topics = [
        *(config_topic("x", ["a", "b"], own="mine"), status_topic("y", ["a", "b"])),
        *(offset_topic("mine", ["a"]), offset_topic("z", ["b"])),
    ]
    (cluster,) = join(topics).clusters
    assert [role.topic for role in cluster.topics.values()] == ["x", "y", "z"]
    assert cluster.own_offsets == ["mine"]


def test_a_status_topic_alone_is_a_cluster_whose_other_topics_are_missing() -> None:
    (cluster,) = join([status_topic("s", ["a"])]).clusters
    assert (cluster.name, list(cluster.groups), cluster.plain_workers()) == ("s", [None], {"w:1"})
    looks = [KafkaFacts(ClientSettings(), 1, {}, [], {}, sees_all=is_seen) for is_seen in (True, False)]
    assert [_group_row(cluster, None, None, look, elsewhere=False)["live_members"] for look in looks] == [0, None]


@pytest.mark.parametrize(("live", "severity"), [({"h:1", "h:2"}, Severity.ERROR), ({"h:1"}, Severity.WARNING)])
def test_one_id_on_two_sets_is_an_error_if_workers_of_both_live(live: set[str], severity: Severity) -> None:
    topics = [config_topic("m", ["a"]), status_topic("m-s", ["a"], worker="h:1")]
    topics += [config_topic("n", ["b"]), status_topic("n-s", ["b"], worker="h:2")]
    one, two = join(topics).clusters
    kafka = KafkaFacts(ClientSettings(), 1, {}, [], {"id": live})
    (found,) = _on_two_sets(one, kafka, {None: "id"}, {"id": two})
    assert (found.id, found.severity, found.where) == ("discover-two-sets", severity, "m")
