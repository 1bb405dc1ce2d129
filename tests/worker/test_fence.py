"""Old workers that are started by mistake after a cut-over end before they join the Kafka group of the new ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_share import ConnectStorage, TopicType, WorkerConfig
from connect_share.model.keys import MARKER, prefix_key
from connect_share.sealing import KEYS_PROPERTY
from tests.lab.embedded.worker import QUICK_MEMBERS, worker_properties, write_properties
from tests.support.flushes import flush_offsets
from tests.support.java_groups import EXACTLY_ONCE, JAR, SharedTopics, Start, foreign_records
from tests.support.kafka import TestBroker
from tests.support.long_forms import LONG
from tests.support.migration_site import run, run_well
from tests.support.sealed import key_text
from tests.support.waiting import await_that
from tests.worker.test_migration_round_trip import Files, move

JOINED = "Joined group at generation"
FORMS: dict[str, dict[str, str]] = {"4.3.1": {}}
if LONG:
    FORMS |= {"2.8.2": {}, "3.9.2": {}, "3.9.2 exactly once": EXACTLY_ONCE, "4.3.1 exactly once": EXACTLY_ONCE}


@pytest.mark.parametrize("form", FORMS)
def test_an_old_worker_ends_before_it_joins(
    broker: TestBroker, topics: SharedTopics, unique: str, worker_factory: Start, tmp_path: Path, form: str
) -> None:
    version, group, files = form.split(maxsplit=1)[0], topics.group("orders"), Files(topics, tmp_path)
    once = {name: value for name, value in FORMS[form].items() if "interceptor" not in name}
    plain = {**worker_properties(broker.bootstrap_servers, group, f"{unique}-old"), **QUICK_MEMBERS}
    old = {**plain, **once}
    new = {**topics.properties(group, session_timeout_ms="60000"), **FORMS[form]}  # joins are counted
    paths = [write_properties(tmp_path / f"{name}.properties", each) for name, each in (("old", old), ("new", new))]
    file, topic = tmp_path / "source", topics.create_data_topic("source")
    file.write_text("source first\n" * 3)
    config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": topic}
    with ConnectStorage(WorkerConfig.from_properties(plain)) as storage:
        storage.config.put_connector_config("source", {**config, "name": "source"})
        read = ({"filename": str(file)}, {"position": file.stat().st_size})
        flush_offsets(storage.offset_writer("source"), read)
    move(broker, tmp_path, "there", paths[:1], paths[1:])
    plan = tmp_path / "there.json"
    run_well("cutover", plan, "--yes")
    worker = worker_factory(new, class_path=JAR)
    files.append(worker, "source")
    joins = worker.log().count(JOINED)

    # As a pod that is restarted again and again.
    for _ in range(3 if LONG else 1):
        mistaken = worker_factory(old, version=version, wait=False)
        await_that(mistaken.log, lambda log: "ConfigException" in log, what="refused", timeout_s=120)
        await_that(mistaken.rest.answers, lambda answers: not answers, what="without REST")
        log = mistaken.log()
        mistaken.kill()
        assert f"Topic '{unique}-old-configs' supplied via the 'config.storage.topic' property is required" in log
        assert JOINED not in log
    files.append(worker, "source")
    assert worker.log().count(JOINED) == joins
    assert files.values("source") == [b"source appended"] * 2

    # Back again by one command.
    worker.stop()
    broker.await_empty(group)
    assert run("rollback", plan, "--yes", "--although-used")[0] == 0
    if LONG:
        worker_factory(old, version=version).rest.await_state("source", "RUNNING", tasks=1)


@pytest.mark.parametrize("form", [*FORMS, "4.3.1 sealed"])
def test_an_old_worker_with_the_jar_ends_on_a_topic_that_others_use(
    broker: TestBroker, unique: str, worker_factory: Start, tmp_path: Path, form: str
) -> None:
    topics, fresh = (
        SharedTopics(broker.client_settings, broker.bootstrap_servers, name) for name in (unique, f"{unique}-fresh")
    )
    topics.create()
    fresh.create()
    version, group, other = form.split(maxsplit=1)[0], topics.group("orders"), topics.group("other")
    sealing = {} if form in FORMS else {KEYS_PROPERTY: key_text(7)}
    more = FORMS.get(form, sealing)
    old, new = ({**each.properties(group), **more} for each in (topics, fresh))
    paths = [write_properties(tmp_path / f"{name}.properties", each) for name, each in (("old", old), ("new", new))]
    config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": "/none", "topic": f"{unique}-data"}
    for each in (group, other):
        with ConnectStorage(WorkerConfig.from_properties({**topics.properties(each), **sealing})) as storage:
            storage.config.put_connector_config("source", {**config, "name": "source"})
    move(broker, tmp_path, "there", paths[:1], paths[1:])
    plan = tmp_path / "there.json"
    assert run("cutover", plan, "--yes")[0] == 0

    # Who has no key may write under the key of a sealed fence without a pause.
    key = prefix_key(group, MARKER[0])
    *_, fence = [each.value for each in topics.records(topics.topic(TopicType.CONFIG)) if each.key == key]
    stranger = [] if form in FORMS else [(key, fence or b""), (key, (fence or b"")[:-1]), (key, MARKER[1])]
    with foreign_records(topics.settings, topics.topic(TopicType.CONFIG), 200, stranger):
        mistaken = worker_factory(old, version=version, class_path=JAR, wait=False)
        await_that(lambda: mistaken.exit_code, lambda code: code == 1, what="ended with code 1", timeout_s=120)
    assert f"was moved away from topic {topics.topic(TopicType.CONFIG)} by there.json" in mistaken.log()
    assert JOINED not in mistaken.log()
    if LONG:
        others = {**topics.properties(other), **more}
        worker_factory(others, version=version, class_path=JAR).rest.await_state("source", "RUNNING", tasks=1)
    # Records behind the fence lift it, and it is still there to be read.
    assert run("unseal", plan, "--yes")[0] == 0
    worker_factory(old, version=version, class_path=JAR).rest.await_state("source", "RUNNING", tasks=1)
