"""Configurations of connectors: what Connect's definitions refuse is refused here."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Literal

import pytest

from connect_share.runtime import connector_config_errors
from tests.support.java_tests import classes_of, run_java

pytestmark = pytest.mark.xdist_group("worker_plugin")

SOURCES = Path(__file__).with_name("connector_config")
Values = dict[str, list[str | None]]
COMMON: Values = {
    "name": ["c", " c ", "", " ", "a\x01b", "ä"],
    "connector.class": ["X", "", None],
    "tasks.max": ["1", "0", "-1", " 7 ", "x", "", "2147483647", "2147483648", "007", "+3", "1.0", None],
    "tasks.max.enforce": ["true", "FALSE", "yes", "", " true ", None],
    "transforms": ["", "a", "a,b", "a, a", ",", "a,,b", None],
    "predicates": ["", "p", "p,p"],
    "config.action.reload": ["none", "restart", "NONE", "", " none", None],
    "errors.retry.timeout": ["-1", "9223372036854775807", "9223372036854775808", "x", "", None],
    "errors.retry.delay.max.ms": ["0", "-5", "1e3"],
    "errors.tolerance": ["none", "all", "All", "", None],
    "errors.log.enable": ["true", "1", ""],
    "errors.log.include.messages": ["false", "no"],
}
KINDS: dict[Literal["source", "sink"], Values] = {
    "source": {
        "topic.creation.groups": ["", "g", "g,g", "g,h", None],
        "exactly.once.support": ["required", "REQUESTED", "Required", "no", "", None],
        "transaction.boundary": ["poll", "INTERVAL", "Connector", "x", None],
        "transaction.boundary.interval.ms": ["1", "0", "-1", "x", None],
        "offsets.storage.topic": ["t", "", " ", None],
    },
    "sink": {
        "topics": ["t", "t,u", "t,t", "", " ", ",", "dead", "t,dead"],
        "topics.regex": ["", " ", "a.*"],
        "errors.deadletterqueue.topic.name": ["", "dead", "t"],
        "errors.deadletterqueue.topic.replication.factor": ["1", "32767", "32768", "-1", "x"],
        "errors.deadletterqueue.context.headers.enable": ["true", "x"],
    },
}


def test_what_connect_refuses_is_refused(tmp_path: Path) -> None:
    choose = random.Random(341)
    asked: list[tuple[Literal["source", "sink"], dict[str, str | None]]] = []
    for _ in range(3_000):
        kind = choose.choice(list(KINDS))
        values = {**COMMON, **KINDS[kind]}
        names = [*choose.sample(sorted(values), choose.randrange(7)), *choose.choice([[], ["name", "connector.class"]])]
        asked.append((kind, {name: choose.choice(values[name]) for name in names}))
    given = "\n".join(json.dumps({"kind": kind, "config": config}) for kind, config in asked)
    done = run_java(classes_of(SOURCES), "org.apache.kafka.connect.runtime.ConfigAnswers", folder=tmp_path, given=given)
    assert done.returncode == 0, done.stderr[-2_000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    ours = [sorted(connector_config_errors(config, kind)) for kind, config in asked]
    different = [
        (set(java) ^ set(here), each) for each, java, here in zip(asked, answers, ours, strict=True) if java != here
    ]
    assert not different, f"{len(different)}: {different[:5]}"
    assert sum(not each for each in ours) > 10
