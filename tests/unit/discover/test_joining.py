"""Which topics are joined to clusters: by groups and connectors, and by name only where nothing else tells."""

from __future__ import annotations

from collections.abc import Sequence

from connect_share.discover.evidence import TopicEvidence
from connect_share.discover.joining import Joined, join
from connect_share.model.config import connector_config_record
from connect_share.model.connect_json import dumps
from connect_share.model.offsets import offset_key
from connect_share.model.records import Record
from connect_share.model.status import ConnectorStatus, State, connector_status_record


def config_topic(
    topic: str, connectors: Sequence[str], *, prefix: bytes = b"", own: str | None = None
) -> TopicEvidence:
    properties = {"connector.class": "C"} | ({} if own is None else {"offsets.storage.topic": own})
    pairs = [connector_config_record(name, properties) for name in connectors]
    return filled(TopicEvidence(topic), pairs, prefix)


def status_topic(topic: str, connectors: Sequence[str], *, prefix: bytes = b"", worker: str = "w:1") -> TopicEvidence:
    statuses = [ConnectorStatus(name, State.RUNNING, worker, 1) for name in connectors]
    return filled(TopicEvidence(topic), [connector_status_record(each) for each in statuses], prefix)


def offset_topic(topic: str, connectors: Sequence[str], *, prefix: bytes = b"") -> TopicEvidence:
    return filled(TopicEvidence(topic), [(offset_key(name, {"p": 1}), dumps({"o": 1})) for name in connectors], prefix)


def filled(found: TopicEvidence, pairs: Sequence[tuple[bytes, bytes | None]], prefix: bytes) -> TopicEvidence:
    for offset, (key, value) in enumerate(pairs):
        found.add(Record(found.topic, 0, offset, 1, prefix + key, value))
    return found


def names(joined: Joined) -> list[list[str]]:
    return [[role.topic for role in cluster.topics.values()] for cluster in joined.clusters]


def test_plain_topics_are_joined_by_connectors_whatever_they_are_called() -> None:
    topics = [
        *(config_topic("x", ["a", "b"]), status_topic("y", ["a", "b"]), offset_topic("z", ["a"])),
        *(config_topic("y-config", ["c"]), status_topic("x-status", ["c"]), offset_topic("x-offset", ["c", "gone"])),
    ]
    joined = join(topics)
    assert names(joined) == [["x", "y", "z"], ["y-config", "x-status", "x-offset"]]
    assert [cluster.guessed for cluster in joined.clusters] == [{}, {}]


def test_shared_topics_are_joined_by_groups() -> None:
    joined = join(
        [
            *(config_topic("a1", ["c"], prefix=b"one."), status_topic("b1", ["c"], prefix=b"one.")),
            *(config_topic("a2", ["c"], prefix=b"two."), status_topic("b2", ["c"], prefix=b"two.")),
            *(offset_topic("c2", ["c"], prefix=b"two."), offset_topic("c1", ["c"], prefix=b"one.")),
        ]
    )
    assert names(joined) == [["a1", "b1", "c1"], ["a2", "b2", "c2"]]
    assert all(cluster.is_shared for cluster in joined.clusters)


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


def test_offsets_of_no_known_connector_make_no_cluster() -> None:
    joined = join([offset_topic("ktable", ["user"]), config_topic("x", ["a"])])
    assert (names(joined), joined.unclaimed) == ([["x"]], ["ktable"])


def test_two_clusters_that_share_a_status_topic_by_accident_both_have_it() -> None:
    joined = join([config_topic("x", ["a", "b"]), config_topic("y", ["c"]), status_topic("s", ["a", "b", "c"])])
    assert names(joined) == [["x", "s"], ["y", "s"]]


def test_a_status_topic_alone_is_a_cluster_whose_other_topics_are_missing() -> None:
    (cluster,) = join([status_topic("s", ["a"])]).clusters
    assert (cluster.name, list(cluster.groups), cluster.workers(None)) == ("s", [None], {"w:1"})
