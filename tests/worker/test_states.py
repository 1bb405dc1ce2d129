"""States of a real worker's group: what ``check all`` says of each, and that it says nothing of healthy ones."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pytest

from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.records import Record, TopicType
from tests.lab.embedded.worker import QUICK_MEMBERS, ConnectWorker, worker_properties, write_properties
from tests.support.captured_states import FILE, capture, captured_states, keep, told_again
from tests.support.console import Call, console
from tests.support.java_groups import Start, file_source, put
from tests.support.kafka import TestBroker
from tests.support.long_forms import LONG
from tests.support.printed import Printed, in_bash
from tests.support.topics import (
    add_partitions,
    alter_known,
    create_known,
    delete_known,
    in_transaction,
    pairs_of,
    write_records,
)
from tests.support.waiting import await_that

long = pytest.mark.skipif(not LONG, reason="a Java worker for each state, ten minutes; CI has captures: make soak")
CONFIG, STATUS, OFFSET = TopicType.CONFIG, TopicType.STATUS, TopicType.OFFSET
HOUR_MS: Final = 3_600_000


@dataclass
class Cluster:
    """A plain cluster of one worker on topics of its own, with source ``c`` that runs and has read a line.

    ``workers`` are all that were started.
    """

    admin: Admin
    broker: TestBroker
    name: str
    folder: Path
    make: Start
    run: Call
    properties: dict[str, str]
    workers: list[ConnectWorker] = field(default_factory=list)

    def start(self, properties: Mapping[str, str] | None = None, **options: Any) -> ConnectWorker:
        self.workers.append(self.make(properties or self.properties, **options))
        return self.workers[-1]

    @property
    def worker(self) -> ConnectWorker:
        return self.workers[0]

    @cached_property
    def file(self) -> Path:
        return write_properties(self.folder / "worker.properties", self.properties)

    @cached_property
    def lines(self) -> Path:
        return self.folder / "lines.txt"

    def topic(self, kind: TopicType) -> str:
        return self.properties[f"{kind.value}.storage.topic"]

    def source(self, name: str = "c", **more: str) -> dict[str, str]:
        return file_source(self.lines, f"{self.name}-lines", name=name, **more)

    def sink(self, name: str = "s", **more: str) -> dict[str, str]:
        config = {"connector.class": "FileStreamSink", "tasks.max": "1", "file": str(self.folder / "out"), "name": name}
        return {**config, "topics": f"{self.name}-lines", **more}

    def put(self, config: Mapping[str, str], state: str = "RUNNING", tasks: int = 1) -> None:
        put(self.worker, config["name"], config)
        states = [state] * tasks
        self.worker.rest.await_status(
            config["name"], lambda seen: [t["state"] for t in seen["tasks"]] == states, what=state
        )

    def write(self, kind: TopicType, key: str, value: Any, *, age_ms: int = 0, partition: int = -1) -> None:
        """Write a record as another program would; text as it is."""
        written = value if value is None or isinstance(value, str) else json.dumps(value)
        data = None if written is None else written.encode()
        at_ms = time.time_ns() // 1_000_000 - age_ms
        record = Record(self.topic(kind), partition, 0, at_ms, key.encode(), data)
        write_records(self.broker.client_settings, self.topic(kind), [record])

    def config(self, name: str, properties: object) -> None:
        self.write(CONFIG, f"connector-{name}", {"properties": properties})

    def alter(self, kind: TopicType, **settings: str) -> None:
        alter_known(self.admin, self.topic(kind), {name.replace("_", "."): value for name, value in settings.items()})

    def alone(self) -> None:
        """Wait until no worker of the group lives."""
        self.broker.await_empty(self.name)

    def stopped(self) -> None:
        while self.workers:
            self.workers.pop().stop()
        self.alone()

    def without(self, kind: TopicType) -> None:
        self.stopped()
        delete_known(self.admin, self.topic(kind))

    def partitions(self, kind: TopicType, count: int) -> None:
        add_partitions(self.admin, self.broker.client_settings, self.topic(kind), count)

    def findings(self) -> list[str]:
        return [each["id"] for each in found(self.run, self.file)]


def found(run: Call, file: Path) -> list[Any]:
    ran = run("check", "all", "-w", file, "--all", "--output", "json")
    assert ran.code in (0, 1), ran.err
    # What Kafka does not tell about rights is a note of every group.
    return [each for each in ran.json["findings"] if each["id"] != "rights-unknown"]


@pytest.fixture(scope="module")
def captures() -> Iterator[dict[str, Any]]:
    """What brokers told of the states: ``CONNECT_SHARE_CAPTURE`` names the folder to write it to."""
    seen: dict[str, Any] = {}
    yield seen
    if folder := os.environ.get("CONNECT_SHARE_CAPTURE"):
        keep(seen, Path(folder) / FILE.name)


@pytest.fixture
def cluster(broker: TestBroker, unique: str, tmp_path: Path, worker_factory: Start, call: Call) -> Iterator[Cluster]:
    properties = {**worker_properties(broker.bootstrap_servers, unique), **QUICK_MEMBERS}
    with broker.admin() as admin:
        create_known(admin, NewTopicRequest(f"{unique}-lines", 1, 1))
        made = Cluster(admin, broker, unique, tmp_path, worker_factory, call, properties)
        worker = made.start()
        made.lines.write_text("a line\n")
        made.put(made.source())
        await_that(lambda: worker.rest.offsets("c"), bool, what="an offset")
        yield made


State = Callable[[Cluster], Any]
STATES: dict[str, tuple[list[str], State]] = {}


def state(*expected: str) -> Callable[[State], State]:
    """Add a state, with what is found in it, first first."""

    def add(make: State) -> State:
        STATES[make.__name__] = ([*expected], make)
        return make

    return add


def status(state: str, worker: str = "10.0.0.9:8083", generation: int = 1) -> dict[str, Any]:
    return {"state": state, "trace": None, "worker_id": worker, "generation": generation, "version": "1"}


@state()
def healthy(cluster: Cluster) -> None:
    pass


@state()
def a_worker_joins(cluster: Cluster) -> None:
    cluster.start(wait=False)
    await_that(lambda: cluster.admin.connect_groups().get(cluster.name, 0) == 2, what="joined", timeout_s=120)


@state()
def paused(cluster: Cluster) -> None:
    cluster.worker.rest.pause("c")
    cluster.worker.rest.await_state("c", "PAUSED", tasks=1)


@state()
def stopped(cluster: Cluster) -> None:
    cluster.worker.rest.stop("c")
    cluster.worker.rest.await_state("c", "STOPPED", tasks=0)


@state()
def restarted_with_its_tasks(cluster: Cluster) -> None:
    cluster.worker.rest.restart("c", tasks=True)
    cluster.worker.rest.await_state("c", "RUNNING", tasks=1)


@state()
def offsets_altered_by_rest(cluster: Cluster) -> None:
    stopped(cluster)
    cluster.worker.rest.alter_offsets("c", [{"partition": {"filename": str(cluster.lines)}, "offset": {"position": 0}}])


@state()
def a_name_with_blanks_and_umlauts(cluster: Cluster) -> None:
    cluster.put(cluster.source("a b ü"))


@state()
def a_task_that_fails(cluster: Cluster) -> None:
    cluster.put(cluster.sink(file=str(cluster.folder / "missing" / "out")), "FAILED")


@state()
def a_sink_that_runs(cluster: Cluster) -> None:
    cluster.put(cluster.sink())


@state("orphan-task-configs", "orphan-offsets")
def a_connector_removed_by_rest(cluster: Cluster) -> None:
    cluster.worker.rest.delete("c")
    await_that(lambda: not cluster.worker.rest.connectors(), what="removed")


@state()
def a_connector_made_again(cluster: Cluster) -> None:
    cluster.worker.rest.delete("c")
    cluster.put(cluster.source())


@state()
def fewer_tasks(cluster: Cluster) -> None:
    cluster.put(cluster.sink(**{"tasks.max": "3"}), tasks=3)
    cluster.put(cluster.sink())


@state("liveness-no-workers")
def all_workers_killed(cluster: Cluster) -> None:
    cluster.workers.pop().kill()
    cluster.alone()


@state("liveness-unassigned")
def unassigned_for_long(cluster: Cluster) -> None:
    cluster.write(STATUS, "status-task-c-0", status("UNASSIGNED", generation=100), age_ms=HOUR_MS)


@state("values-config")
def a_config_without_properties(cluster: Cluster) -> None:
    cluster.write(CONFIG, "connector-n", {"config": cluster.source("n")})


@state("values-config")
def a_config_that_is_a_list(cluster: Cluster) -> None:
    cluster.write(CONFIG, "connector-n", [cluster.source("n")])


@state("order-tasks-dropped", "liveness-no-workers")
def tasks_in_front_of_their_connector(cluster: Cluster) -> None:
    cluster.stopped()
    cluster.write(CONFIG, "task-n-0", {"properties": {"task.class": "x"}})
    cluster.write(CONFIG, "commit-n", {"tasks": 1})
    cluster.config("n", cluster.source("n"))


@state("order-compaction", "liveness-no-workers")
def task_configs_without_a_commit(cluster: Cluster) -> None:
    cluster.stopped()
    cluster.write(CONFIG, "task-c-0", {"properties": {"task.class": "x"}})


@state(
    "liveness-no-workers", "orphan-statuses", "orphan-group", "orphan-topics", "orphan-task-configs", "orphan-offsets"
)
def a_config_removed_by_hand(cluster: Cluster) -> None:
    cluster.workers.pop().kill()
    cluster.alone()
    cluster.write(CONFIG, "connector-c", None)


@state("lost-topic")
def the_config_topic_lost_while_a_worker_runs(cluster: Cluster) -> None:
    delete_known(cluster.admin, cluster.topic(CONFIG))


@state("lost-topic")
def the_config_topic_made_anew(cluster: Cluster) -> None:
    cluster.without(CONFIG)
    create_known(cluster.admin, NewTopicRequest(cluster.topic(CONFIG), 1, 1, {"cleanup.policy": "compact"}))


@state("lost-topic")
def a_worker_that_made_the_lost_topic_anew(cluster: Cluster) -> None:
    cluster.without(CONFIG)
    cluster.start()


@state("topics-cleanup-policy")
def an_offsets_topic_that_deletes_too(cluster: Cluster) -> None:
    cluster.alter(OFFSET, cleanup_policy="compact,delete", retention_ms="3600000")


@state("topics-partition-count", "liveness-no-workers")
def a_config_topic_of_three_partitions(cluster: Cluster) -> None:
    cluster.stopped()
    cluster.partitions(CONFIG, 3)


@state()
def more_partitions_of_offsets(cluster: Cluster) -> None:
    cluster.partitions(OFFSET, 9)


@state("secrets-clear-text")
def a_password_in_clear(cluster: Cluster) -> None:
    cluster.put(cluster.source("p", **{"db.password": "canary-of-states"}))


@state("sizes-near-limit", "sizes-near-limit")
def a_config_that_nearly_is_too_large(cluster: Cluster) -> None:
    cluster.put(cluster.source("l", note="x" * 900_000))


@state("sizes-too-large", "sizes-too-large")
def a_limit_that_was_lowered(cluster: Cluster) -> None:
    cluster.put(cluster.source("l", note="x" * 60_000))
    cluster.alter(CONFIG, max_message_bytes="50000")


@state("collision-group-of-sink")
def a_sink_with_the_id_of_its_workers(cluster: Cluster) -> None:
    cluster.config("s", cluster.sink(**{"consumer.override.group.id": cluster.name}))  # REST refuses it


@state("collision-ambiguous-key")
def a_name_that_looks_like_another_key(cluster: Cluster) -> None:
    cluster.put(cluster.source("x.connector-y"))


@state("liveness-unknown-worker")
def two_clusters_on_one_set(cluster: Cluster) -> None:
    other = cluster.start({**cluster.properties, "group.id": f"{cluster.name}-2"})
    other.rest.await_state("c", "RUNNING", tasks=1)


@state("workers-other-topic")
def one_id_on_two_sets(cluster: Cluster) -> None:
    cluster.write(CONFIG, "connector-old", {"properties": cluster.source("old")}, age_ms=HOUR_MS)
    cluster.worker.rest.await_state("old", "RUNNING", tasks=1)
    topics = worker_properties(cluster.broker.bootstrap_servers, cluster.name, f"{cluster.name}-b")
    cluster.start({**topics, **QUICK_MEMBERS}, wait=False)
    await_that(lambda: "workers-other-topic" in cluster.findings(), what="both in the group", timeout_s=120)


@state("workers-protocol")
def an_older_protocol(cluster: Cluster) -> None:
    cluster.stopped()
    cluster.start({**cluster.properties, "connect.protocol": "eager"})
    cluster.start({**cluster.properties, "connect.protocol": "eager"})


@state("transactions-open", "orphan-offsets")
def a_transaction_that_is_open(cluster: Cluster) -> object:
    topic = cluster.topic(OFFSET)
    record = pairs_of(topic, [(b'["other",{"p":1}]', b'{"o":1}')])
    return in_transaction(cluster.broker.client_settings, f"{cluster.name}-t", record)


OTHER = json.dumps(["c", {"filename": "other"}])
OLD_STATE, TASK = {"state": "PAUSED", "state.v2": "STOPPED"}, {"properties": {"task.class": "x"}}
# The name of the state and what is found in it, and the record that makes it.
RECORDS: list[tuple[str, TopicType, str, Any]] = [
    (
        "statuses_of_a_worker_that_is_gone liveness-unknown-worker",
        STATUS,
        "status-connector-c",
        status("RUNNING", generation=100),
    ),
    ("a_config_that_is_no_json values-config", CONFIG, "connector-n", "name=n\ntasks.max=1\n"),
    ("a_target_state_of_another_word values-config", CONFIG, "target-state-c", {"state": "RUNNING"}),
    ("a_target_state_that_is_no_json values-config", CONFIG, "target-state-c", "PAUSED"),
    ("task_configs_that_are_no_json values-config", CONFIG, "task-c-0", "task.class=x"),
    ("a_commit_for_more_tasks order-tasks-missing", CONFIG, "commit-c", {"tasks": 3}),
    ("a_target_state_of_no_connector orphan-target-states", CONFIG, "target-state-gone", OLD_STATE),
    ("a_task_config_of_no_connector orphan-task-configs", CONFIG, "task-gone-0", TASK),
    (
        "a_status_of_no_connector liveness-unknown-worker orphan-statuses",
        STATUS,
        "status-connector-gone",
        status("FAILED"),
    ),
    ("a_status_of_a_task_too_many orphan-task-statuses", STATUS, "status-task-c-7", status("UNASSIGNED")),
    ("a_status_that_is_no_json values-status", STATUS, "status-connector-c", "RUNNING"),
    ("a_status_of_another_word values-status", STATUS, "status-connector-c", status("HEALTHY", generation=100)),
    ("an_offset_that_is_no_json values-offset", OFFSET, OTHER, "12"),
    ("an_offset_with_a_list_in_it values-offset", OFFSET, OTHER, {"positions": [1, 2]}),
]
for _names, *_record in RECORDS:
    STATES[_names.split()[0]] = _names.split()[1:], lambda at, record=_record: at.write(*record)  # type: ignore[misc]
# The same with settings of a topic.
SETTINGS: list[tuple[str, TopicType, dict[str, str]]] = [
    ("a_config_topic_that_deletes topics-cleanup-policy", CONFIG, {"cleanup_policy": "delete"}),
    ("a_status_topic_that_deletes topics-cleanup-policy", STATUS, {"cleanup_policy": "delete"}),
    ("unclean_leaders topics-unclean-leader-election", OFFSET, {"unclean_leader_election_enable": "true"}),
    ("no_old_time_stamps topics-old-timestamps", CONFIG, {"message_timestamp_before_max_ms": "3600000"}),
]
for _names, _kind, _to in SETTINGS:
    STATES[_names.split()[0]] = _names.split()[1:], lambda at, of=_kind, to=_to: at.alter(of, **to)  # type: ignore[misc]
for _name, _lost in (("config", CONFIG), ("status", STATUS), ("offsets", OFFSET)):
    STATES[f"the_{_name}_topic_lost"] = ["lost-topic"], lambda at, kind=_lost: at.without(kind)  # type: ignore[misc]
# Properties that a connector "n" has, too.
PROPERTIES: list[tuple[str, dict[str, Any]]] = [
    ("a_number_as_tasks_max values-config", {"tasks.max": 1}),
    ("null_as_a_property", {"note": None}),
    ("an_object_as_a_property values-config", {"transforms": {"type": "x"}}),
]
for _names, _more in PROPERTIES:
    STATES[_names.split()[0]] = _names.split()[1:], lambda at, more=_more: at.config("n", at.source("n") | more)  # type: ignore[misc]


Finding = dict[str, Any]


def restart(cluster: Cluster, finding: Finding) -> None:
    while len(cluster.workers) > 1:  # of a cluster that ought not to be there
        stop_the_other(cluster, finding)
    cluster.worker.rest.restart("c", tasks=True)


def write_offsets_again(cluster: Cluster, finding: Finding) -> None:
    cluster.worker.rest.stop("c")
    cluster.worker.rest.await_state("c", "STOPPED", tasks=0)
    cluster.stopped()
    assert cluster.run("reset", "offsets", "c", "-w", cluster.file, "--backup-dir", cluster.folder, "--yes").code == 0
    cluster.start().rest.resume("c")


def put_back(cluster: Cluster, finding: Finding) -> None:
    """Of ``lost-topic``, whose command only shows what it would do."""
    cluster.stopped()
    words = [{"BACKUP": str(cluster.folder / "backup.avro")}.get(word, word) for word in in_bash(finding["command"])]
    assert cluster.run(*words[1:]).code == 0
    ran = cluster.run(*words[1:-1], "--yes")
    assert ran.code == 0, ran.err
    cluster.start()


def to_one_partition(cluster: Cluster, finding: Finding) -> None:
    backup = cluster.folder / "one.avro"
    assert cluster.run("export", "-w", cluster.file, "-o", backup).code == 0
    cluster.properties["config.storage.topic"] += "-2"
    write_properties(cluster.file, cluster.properties)
    for words in ("create topics --although-lost", f"restore {backup} --only config"):
        assert cluster.run(*words.split(), "-w", cluster.file, "--yes").code == 0


def put_secret_into_a_file(cluster: Cluster, finding: Finding) -> None:
    secrets = write_properties(cluster.folder / "secrets.properties", {"password": "canary-of-states"})
    provider = "org.apache.kafka.common.config.provider.FileConfigProvider"
    cluster.stopped()
    cluster.start({**cluster.properties, "config.providers": "file", "config.providers.file.class": provider})
    cluster.put(cluster.source("p", **{"db.password": f"${{file:{secrets}:password}}"}))


def raise_limits(cluster: Cluster, finding: Finding) -> None:
    cluster.alter(CONFIG, max_message_bytes="2000000")
    cluster.properties["max.request.size"] = "2000000"
    write_properties(cluster.file, cluster.properties)
    cluster.stopped()
    cluster.start()


def rename(cluster: Cluster, finding: Finding) -> None:
    cluster.worker.rest.delete("x.connector-y")
    cluster.put(cluster.source("y"))


def stop_the_other(cluster: Cluster, finding: Finding) -> None:
    cluster.workers.pop().stop()


def start_with_one_file(cluster: Cluster, finding: Finding) -> None:
    cluster.stopped()
    cluster.start()


BY_A_PERSON: dict[str, Callable[[Cluster, Finding], Any]] = {
    "liveness-no-workers": lambda cluster, _: cluster.start(),
    "liveness-unassigned": restart,
    "liveness-unknown-worker": restart,
    "values-status": restart,
    "values-offset": write_offsets_again,
    "order-tasks-missing": lambda cluster, _: cluster.put(cluster.source()),
    "lost-topic": put_back,
    "topics-partition-count": to_one_partition,
    "secrets-clear-text": put_secret_into_a_file,
    "sizes-near-limit": raise_limits,
    "sizes-too-large": raise_limits,
    "collision-group-of-sink": lambda cluster, _: cluster.put(cluster.sink(**{"consumer.override.group.id": "x"})),
    "collision-ambiguous-key": rename,
    "workers-other-topic": stop_the_other,
    "workers-protocol": start_with_one_file,
}
"""What is done where a finding has no command, or one that only shows: as its remedy says."""


def mend(cluster: Cluster, printed: Printed) -> None:
    """Do what the first finding says, until there is none; nothing twice but what a stop of the workers brings back."""
    done: list[str] = []
    while seen := [each for each in found(cluster.run, cluster.file) if each["id"] not in done]:
        kind, command = seen[0]["id"], seen[0]["command"]
        if kind in BY_A_PERSON:
            BY_A_PERSON[kind](cluster, seen[0])
        elif command is not None:
            if " repair " in command and cluster.workers:
                cluster.stopped()
            ran = printed(command, *(["--yes"] if command.startswith("connect-share") else []))
            assert ran.code == 0, (command, ran.out + ran.err)
        done.append(kind)
    if not cluster.workers:
        cluster.start()
    await_that(cluster.findings, lambda seen: not seen, what="mended", timeout_s=30)
    assert "c" in cluster.worker.rest.call("GET", "/connectors?expand=info")  # 500 with a value that it cannot read


@long
@pytest.mark.parametrize("name", STATES)
def test_what_is_found(
    cluster: Cluster, captures: dict[str, Any], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected, make = STATES[name]
    backup = cluster.folder / "backup.avro"
    assert cluster.run("export", "-w", cluster.file, "-o", backup).code == 0
    kept = make(cluster)  # a transaction ends with its writer
    await_that(cluster.findings, lambda seen: seen == expected, what=f"{expected}", timeout_s=30 if expected else 0)
    settings, at = cluster.broker.client_settings, (cluster.properties, cluster.folder, cluster.name)
    captures[name] = capture(cluster.admin, settings, *at)
    del kept
    mend(cluster, Printed(set(), tmp_path, capsys))


@pytest.mark.parametrize("name", STATES)
def test_what_is_found_in_a_capture(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = captured_states()[name]
    told_again(monkeypatch, state)
    file = write_properties(tmp_path / "worker.properties", state["properties"])
    assert [each["id"] for each in found(console(capsys), file)] == STATES[name][0]
