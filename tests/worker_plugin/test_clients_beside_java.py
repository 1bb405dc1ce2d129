"""What a worker makes of a connector's configuration for the clients of its own offsets topic: Java's answer and ours."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from connect_share.errors import ConfigError
from connect_share.model.records import TopicType
from connect_share.stores import connector_offsets as own_offsets_topic
from connect_share.stores.connector_offsets import own_offsets_worker_config
from connect_share.worker_config import WorkerConfig
from tests.support import worker_files
from tests.support.java_tests import classes_of, run_java

pytestmark = pytest.mark.xdist_group("worker_plugin")

SOURCES = Path(__file__).with_name("clients")
CLIENTS = ("admin", "consumer", "producer")
POLICY = "connector.client.config.override.policy"
ENDING = "ConnectorClientConfigOverridePolicy"
PACKAGE = "org.apache.kafka.connect.connector.policy."
WORKER = {
    **worker_files.WORKER,
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}
SETTINGS = {
    "bootstrap.servers": ["other:1", "a:1, b:2"],
    "security.protocol": ["PLAINTEXT"],
    "sasl.mechanism": ["PLAIN"],
    "linger.ms": ["7", "100"],
    "fetch.min.bytes": ["3"],
    "isolation.level": ["read_committed", "read_uncommitted"],
    "compression.type": ["lz4"],
    "interceptor.classes": ["com.acme.One"],
    "offset.storage.topic": ["anything"],
}
# What Java sets before it looks at properties, and what the stores set themselves.
FIXED = {
    *("key.serializer", "value.serializer", "key.deserializer", "value.deserializer", "max.block.ms", "acks"),
    *("enable.idempotence", "max.in.flight.requests.per.connection", "delivery.timeout.ms", "client.id", "group.id"),
    *("enable.auto.commit", "auto.offset.reset"),
}


def question(choose: random.Random) -> dict[str, dict[str, str]]:
    worker, connector = (
        dict(WORKER),
        {"name": "c", "connector.class": "FileStreamSource", "offsets.storage.topic": "own"},
    )
    if choose.random() < 0.9:
        name = choose.choice(["All", "All", "None", "Principal", "Allowlist", "none", "com.acme.Ours"])
        worker[POLICY] = choose.choice(["{}", "{}" + ENDING, PACKAGE + "{}" + ENDING, PACKAGE + "{}", " {} "]).format(
            name
        )
    if choose.random() < 0.6:
        listed = choose.sample(sorted(SETTINGS), choose.randrange(4))
        worker["connector.client.config.override.allowlist"] = choose.choice([",", " , "]).join(listed)
    worker["exactly.once.source.support"] = choose.choice(["disabled", "preparing", "enabled"])
    for prefix, properties, most in (("", worker, 2), ("{}.", worker, 4), ("{}.override.", connector, 3)):
        for _ in range(choose.randrange(most)):
            setting = choose.choice(
                sorted(set(SETTINGS) - ({"bootstrap.servers", "offset.storage.topic"} if not prefix else set()))
            )
            where = CLIENTS if setting == "bootstrap.servers" else [choose.choice(CLIENTS)]
            value = choose.choice(SETTINGS[setting])
            properties |= {prefix.format(client) + setting: value for client in where}
    return {"worker": worker, "connector": connector}


def answer(worker: dict[str, str], connector: dict[str, str]) -> dict[str, Any]:
    config = WorkerConfig.from_properties(worker)
    try:
        own = own_offsets_worker_config(config, "c", connector)
    except ConfigError as error:
        return {"refused": str(error)}
    assert own is not None
    overrides = own_offsets_topic._overrides(config, "c", connector)
    clients: dict[str, Any] = {
        client: own_offsets_topic._laid_over(own_offsets_topic._of_the_worker(config, client), overrides[client])
        for client in CLIENTS
    }
    clients["consumer"]["isolation.level"] = own.isolation(TopicType.OFFSET).value
    return clients


def test_clients_are_made_of_what_java_makes_them_of(tmp_path: Path) -> None:
    choose = random.Random(1173)
    asked = [question(choose) for _ in range(1_000)]
    given = "\n".join(json.dumps(each) for each in asked)

    main_class = "org.apache.kafka.connect.runtime.ClientAnswers"
    done = run_java(classes_of(SOURCES), main_class, folder=tmp_path, given=given)

    assert done.returncode == 0, done.stderr[-2_000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(asked)
    seen = {"refused": 0, "made": 0, "overridden": 0}
    for each, java in zip(asked, answers, strict=True):
        ours = answer(**each)
        overridden = any(".override." in name for name in each["connector"])
        if "refused" in java and not overridden and POLICY in str(ours.get("refused", POLICY)):
            continue  # a policy that does not exist matters here once there is something to judge
        assert ("refused" in ours) == ("refused" in java), (each, java, ours)
        seen["refused" if "refused" in java else "made"] += 1
        seen["overridden"] += overridden and "refused" not in java
        if "refused" not in java:
            for client in CLIENTS:
                theirs, mine = ({n: v for n, v in found[client].items() if n in SETTINGS} for found in (java, ours))
                assert mine == theirs, (client, each)
                extra = {name for name in java[client] if name not in FIXED and name not in ours[client]}
                assert all(name.startswith("metrics.context.") for name in extra), (client, extra)
    assert min(seen.values()) > 150, seen
