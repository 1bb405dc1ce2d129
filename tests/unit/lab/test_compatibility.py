"""The compatibility matrix without its brokers: what a worker's log says of others."""

from __future__ import annotations

from connect_share.model.records import TopicType
from tests.lab.compatibility.worker_log import read_log, topics_read

LOG = """[2026-01-02 03:04:05,678] INFO Kafka Connect worker initializing ... (org.apache.kafka.connect.cli)
[2026-01-02 03:04:06,000] WARN The configuration 'x' was supplied but isn't a known config. (o.a.k.AdminClientConfig)
[2026-01-02 03:04:06,001] ERROR Discarding config update record with invalid key: t.com.acme.connector-a (o.a.k)
[2026-01-02 03:04:06,002] WARN Discarding record with invalid key t.com.acme.status-task-a-0 (o.a.k)
[2026-01-02 03:04:06,003] WARN Ignoring offset partition key with unknown serialization. Expected json. (o.a.k)
org.apache.kafka.connect.errors.DataException: Converting byte[] to Kafka Connect data failed
	at org.apache.kafka.connect.json.JsonConverter.toConnectData(JsonConverter.java:1) WARN
[2026-01-02 03:04:06,004] ERROR Failed to do something with t.com.acme.commit-a (o.a.k)
[2026-01-02 03:04:06,005] WARN [Worker clientId=1, groupId=t.com.acme.orders] left (o.a.k)
[2026-01-02 03:04:06,006] ERROR Failed to do something with t.com.acme.orders.commit-a (o.a.k)
[2026-01-02 03:04:07,890] INFO Started KafkaConfigBackingStore (o.a.k.KafkaConfigBackingStore)
[2026-01-02 03:04:08,000] INFO [Worker clientId=1] Herder started (o.a.k.DistributedHerder)
"""


def test_a_log_is_counted_by_what_it_says_of_others() -> None:
    end = topics_read(LOG) or 0
    assert LOG[:end].endswith("03:04:07,890] INFO Started KafkaConfigBackingStore")
    reading = read_log(LOG[:end], ["t.com.acme", "t.team-7.my.conn"])
    assert reading.about_foreign == {TopicType.CONFIG: 1, TopicType.STATUS: 1, TopicType.OFFSET: 1}
    # Neither its own group id, which begins like the other's, nor its own keys.
    assert reading.other_about_foreign == 1
    assert reading.foreign == 4
    assert (reading.lines, reading.warnings, reading.errors) == (10, 4, 3)
    assert reading.bytes == len(LOG[:end].encode())
    assert read_log(LOG, []).other_about_foreign == 0
    assert topics_read("[2026-01-02 03:04:05,678] INFO Starting KafkaConfigBackingStore (x)\n") is None
