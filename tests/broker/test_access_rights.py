"""The tables of docs/access-rights.md: with exactly these rights everything works, with a row less it does not."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType

from connect_share.cli.__main__ import main as console
from connect_share.errors import BrokerError, ConnectShareError
from connect_share.jar import INTERCEPTOR_CLASS
from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.records import TopicType
from connect_share.model.status import ConnectorStatus, State
from connect_share.storage import ConnectStorage
from connect_share.worker_config import SHARING_PROPERTY, TOPIC_PROPERTIES, WorkerConfig
from migrator.checks import times_at_destination
from migrator.cli.__main__ import main as migrate
from tests.lab.embedded.worker import ConnectWorker, write_properties
from tests.lab.secure_broker import SecureBroker
from tests.support.flushes import flush_offsets
from tests.support.java_groups import EXACTLY_ONCE, JAR
from tests.support.long_forms import LONG
from tests.support.rights import Acl, Row, allow, login, rows
from tests.support.topics import create_known
from tests.support.waiting import await_that

# One broker with TLS and rights, not one for each process.
pytestmark = pytest.mark.xdist_group("secure-broker")

GROUP = "orders"
EVERYTHING = [
    (kind, "*", ResourcePatternType.LITERAL, AclOperation.ALL)
    for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
]
_number = itertools.count()


def acls(row: Row, topics: str, source_topics: str) -> list[Acl]:
    """What a row means for topics with these prefixes; a text that is not known is a KeyError."""
    right, where = row
    literal, prefixed = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
    resources = {
        "the topics": [(ResourceType.TOPIC, f"{topics}-{kind.value}", literal) for kind in TopicType],
        "the destination's topics": [(ResourceType.TOPIC, f"{topics}-{kind.value}", literal) for kind in TopicType],
        "the source's topics": [(ResourceType.TOPIC, f"{source_topics}-{kind.value}", literal) for kind in TopicType],
        "the cluster": [(ResourceType.BROKER, "kafka-cluster", literal)],
        "the offset topic": [(ResourceType.TOPIC, f"{topics}-offset", literal)],
        "group `<group.id>`": [(ResourceType.GROUP, GROUP, literal)],
        "transactional id `connect-cluster-<group.id>`": [
            (ResourceType.TRANSACTIONAL_ID, f"connect-cluster-{GROUP}", literal)
        ],
        "transactional ids that begin with `<group.id>-`": [(ResourceType.TRANSACTIONAL_ID, f"{GROUP}-", prefixed)],
    }
    return [(*resource, AclOperation[right]) for resource in resources[where]]


@dataclass
class Scene:
    """Topics of one try, and the worker files that lead to them."""

    broker: SecureBroker
    folder: Path
    source: str = field(default_factory=lambda: f"source-{next(_number)}")
    shared: str = field(default_factory=lambda: f"shared-{next(_number)}")

    def create(self, prefix: str) -> None:
        with closing(self.broker.admin(timeout_s=120)) as admin:
            for kind in TopicType:
                admin.create_topic(NewTopicRequest(f"{prefix}-{kind.value}", 1, 1, {"cleanup.policy": "compact"}))

    def properties(self, prefix: str, user: str = "user", **more: str) -> dict[str, str]:
        converter = "org.apache.kafka.connect.storage.StringConverter"
        return {
            **login(self.broker, user),
            "group.id": GROUP,
            "key.converter": converter,
            "value.converter": converter,
            **{TOPIC_PROPERTIES[kind]: f"{prefix}-{kind.value}" for kind in TopicType},
            "offset.flush.interval.ms": "1000",
            **{f"{kind.value}.storage.replication.factor": "1" for kind in TopicType},
            **{f"{kind.value}.storage.partitions": "1" for kind in TopicType if kind is not TopicType.CONFIG},
            **more,
        }

    def file(self, prefix: str, user: str = "user", **more: str) -> Path:
        return write_properties(self.folder / f"{user}-{prefix}.properties", self.properties(prefix, user, **more))

    def shared_file(self, **more: str) -> Path:
        return self.file(self.shared, **{SHARING_PROPERTY: "enabled", "interceptor.classes": INTERCEPTOR_CLASS}, **more)

    def write_source(self) -> None:
        """Lay down a small group on topics of its own."""
        with ConnectStorage(WorkerConfig.from_file(self.file(self.source, user="root"))) as storage:
            storage.config.put_connector_config("c", {"name": "c", "connector.class": "X"})
            storage.config.put_task_configs("c", [{"a": "b"}])
            flush(storage)


def flush(storage: ConnectStorage) -> None:
    flush_offsets(storage.offset_writer("c", transactional=False), ({"file": "a"}, {"position": 1}), limit_s=120)


def use_stores(scene: Scene, **more: str) -> None:
    """Write and read back what a runtime writes."""
    worker = WorkerConfig.from_file(scene.shared_file(**more))
    with ConnectStorage(worker) as storage:
        if more:
            storage.config.claim_write_privileges()
        storage.config.put_connector_config("c", {"name": "c", "connector.class": "X"})
        status = ConnectorStatus("c", State.RUNNING, "w:1", 1)
        storage.status.put(status)
        flush(storage)
        storage.status.refresh(120)
        assert storage.status.get("c") == status
        assert storage.offset_reader("c").offset({"file": "a"}) == {"position": 1}
        if more:
            storage.config.put_task_count_record("c", 1)
            storage.alter_offsets("c", [({"file": "a"}, {"position": 2})], force=True)
    backup = scene.folder / f"{scene.shared}.avro"
    run(console, "delete", "group", GROUP, "-w", worker.file, "--backup", backup, "--yes")
    run(console, "restore", backup, "-w", worker.file, "--yes")


def run(main: Callable[[Sequence[str]], int], *words: object) -> None:
    """Run a command; what it says is the error if it fails."""
    if main([str(word) for word in words]) != 0:
        raise ConnectShareError(f"{words[0]} failed")


def look(scene: Scene) -> None:
    run(console, "get", "connectors", "-w", scene.shared_file())
    run(console, "check", "startup", "-w", scene.shared_file())


def change_offsets(scene: Scene) -> None:
    words = ["-w", scene.shared_file(**{"exactly.once.source.support": "enabled"}), "--backup-dir", scene.folder]
    run(console, "reset", "offsets", "c", "--force", "--yes", *words)


def create_topics(scene: Scene) -> None:
    run(console, "create", "topics", "-w", scene.shared_file(), "--yes")


def move(scene: Scene) -> Path:
    files = ["-w", scene.file(scene.source), "--to-worker-config", scene.shared_file()]
    plan = scene.folder / f"{scene.shared}.json"
    run(migrate, "survey", *files)
    run(migrate, "plan", *files, "-o", plan)
    run(migrate, "apply", plan, "--yes")
    run(migrate, "verify", plan)
    return plan


def move_and_cut_over(scene: Scene) -> None:
    plan = move(scene)
    run(migrate, "cutover", plan, "--yes")
    run(migrate, "rollback", plan, "--yes", "--although-used")


def failure(action: Callable[[Scene], object], scene: Scene) -> str | None:
    try:
        action(scene)
    except ConnectShareError as error:
        return str(error)
    return None


def run_worker(scene: Scene, **more: str) -> None:
    """Start a Java worker with the jar; it has to write into each topic and read it back."""
    properties = scene.properties(
        scene.shared, **{SHARING_PROPERTY: "enabled", "interceptor.classes": INTERCEPTOR_CLASS}, **more
    )
    lines = {name: value for name, value in properties.items() if name.startswith(("security.", "sasl.", "ssl."))}
    properties |= {f"{client}.{name}": lines[name] for client in ("producer", "consumer", "admin") for name in lines}
    file = scene.folder / f"{scene.shared}.txt"
    file.write_text("a line\n")
    with closing(ConnectWorker(properties, class_path=JAR)) as worker:
        worker.start()
        source = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": "data"}
        worker.rest.put_config("c", source)
        worker.rest.await_state("c", "RUNNING", tasks=1, timeout_s=120)
        await_that(lambda: worker.rest.offsets("c"), lambda found: len(found) == 1, what="committed", timeout_s=120)
    # All tries are of one group: where a worker lives the next one may not write.
    with closing(scene.broker.admin(timeout_s=120)) as admin:
        await_that(lambda: admin.connect_groups(GROUP).get(GROUP, 0), lambda members: not members, what="left")


def run_worker_exactly_once(scene: Scene) -> None:
    run_worker(scene, **EXACTLY_ONCE)


@pytest.fixture(scope="module")
def broker(secure: SecureBroker) -> SecureBroker:
    allow(secure, "root", EVERYTHING)
    with closing(secure.admin(timeout_s=120)) as admin:
        create_known(admin, NewTopicRequest("data", 1, 1))
        of_others = ConsumerGroupTopicPartitions("of others", [TopicPartition("data", 0, 0)])
        admin._client.alter_consumer_group_offsets([of_others])["of others"].result(60)
    return secure


@pytest.fixture
def scene(broker: SecureBroker, tmp_path: Path) -> Scene:
    return Scene(broker, tmp_path)


def prepare(scene: Scene, action: Callable[[Scene], object], page_rows: Sequence[Row], *, exists: bool) -> None:
    """Create what an action finds, and give its user the rights of these rows."""
    if action in {move, move_and_cut_over}:
        scene.write_source()
    if exists:
        scene.create(scene.shared)
    if action in {look, change_offsets}:
        owner = scene.shared_file if action is change_offsets else partial(scene.file, scene.shared)
        with ConnectStorage(WorkerConfig.from_file(owner(user="root"))) as storage:
            storage.config.put_connector_config("c", {"name": "c", "connector.class": "X"})
            storage.status.put(ConnectorStatus("c", State.RUNNING, "w:1", 1))
            flush(storage)
    wanted = [acl for row in page_rows for acl in acls(row, scene.shared, scene.source)]
    if action in {run_worker, run_worker_exactly_once}:
        wanted.append((ResourceType.TOPIC, "data", ResourcePatternType.LITERAL, AclOperation.WRITE))
    allow(scene.broker, "user", wanted)


STORES = rows("Python stores")
STORES_EXACTLY_ONCE = STORES + rows("Python stores", 1)
MISSING = rows("Topics that do not exist yet")
WORKER = rows("Java worker")
CHANGE = "Console: alter, reset, copy offsets"
SITUATIONS: list[tuple[Callable[[Scene], object], list[Row], bool]] = [
    (use_stores, STORES, True),
    (lambda scene: use_stores(scene, **{"exactly.once.source.support": "enabled"}), STORES_EXACTLY_ONCE, True),
    (use_stores, MISSING, False),
    (look, rows("Console: get, describe, check sealing, check startup"), True),
    (change_offsets, rows(CHANGE) + rows(CHANGE, 1), True),
    (create_topics, rows("Console: create topics"), False),
    (move, rows("Migrator: survey, plan, apply, verify"), True),
    (move_and_cut_over, rows("Migrator: cutover, seal, rollback"), True),
]


@pytest.mark.slow
@pytest.mark.parametrize(("action", "page_rows", "exists"), SITUATIONS)
def test_a_table_is_enough_and_no_row_too_much(
    broker: SecureBroker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    action: Callable[[Scene], object],
    page_rows: list[Row],
    exists: bool,
) -> None:
    enough = Scene(broker, tmp_path)
    prepare(enough, action, page_rows, exists=exists)
    action(enough)
    # A store that may not read waits 30 s for its first write, so each row is tried in the long form only.
    for row in page_rows if LONG else [row for row in page_rows if row[0] in {"WRITE", "CREATE"}][:1]:
        fewer = Scene(broker, tmp_path)
        prepare(fewer, action, [other for other in page_rows if other != row], exists=exists)
        capsys.readouterr()
        error = failure(action, fewer)
        assert error is not None, f"{action.__name__} works without {row}"
        if row[0] in {"WRITE", "CREATE"}:
            assert row[0] in error + capsys.readouterr().err


def planned(scene: Scene, page_rows: list[Row], denied: Sequence[Any] = ()) -> Path:
    scene.write_source()
    scene.create(scene.shared)
    wanted = [acl for row in page_rows for acl in acls(row, scene.shared, scene.source)]
    allow(scene.broker, "user", [acl for acl in wanted if acl not in denied])
    files = ("--source-worker-config", scene.file(scene.source), "--destination-worker-config", scene.shared_file())
    run(migrate, "plan", *files, "-o", scene.folder / "plan.json")
    return scene.folder / "plan.json"


@pytest.mark.parametrize("missing", [["ALTER_CONFIGS"], ["ALTER_CONFIGS", "DESCRIBE_CONFIGS"]])
def test_a_plan_says_that_a_right_for_the_fence_is_missing(scene: Scene, missing: list[str]) -> None:
    page_rows = [*rows("Migrator: survey, plan, apply, verify"), ("ALTER_CONFIGS", "the source's topics")]
    config = (ResourceType.TOPIC, f"{scene.source}-config", ResourcePatternType.LITERAL)
    plan = planned(scene, page_rows, [(*config, AclOperation[right]) for right in missing])
    [warning] = [each for each in json.loads(plan.read_text())["warnings"] if "cannot be closed" in each]
    assert f"needs the right {missing[-1]} on the topic" in warning
    assert "a worker without DescribeConfigs looks at no settings" in warning


def test_settings_that_can_no_longer_be_read_hide_no_foreign_record(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The right is gone since the plan was made, and another writer writes while it is applied."""
    page_rows = rows("Migrator: survey, plan, apply, verify")
    plan = planned(scene, page_rows)
    kept = [row for row in page_rows if row[0] != "DESCRIBE_CONFIGS"]
    allow(scene.broker, "user", [acl for row in kept for acl in acls(row, scene.shared, scene.source)])

    def written_meanwhile(*arguments: Any, **named: Any) -> Any:
        with ConnectStorage(WorkerConfig.from_file(scene.shared_file(user="root")), allow_empty=True) as storage:
            flush(storage)
        return times_at_destination(*arguments, **named)

    monkeypatch.setattr("migrator.apply.times_at_destination", written_meanwhile)
    assert migrate(["apply", str(plan), "--yes"]) == 1
    assert "another writer has written under the keys of group orders" in capsys.readouterr().err


def check_rights(scene: Scene, use: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, list[Row]]]:
    """Return the exit code, and what is missing or cannot be seen, without the prefix of the scene."""
    capsys.readouterr()
    code = console(["check", "rights", "-w", str(scene.shared_file()), "--for", use, "--output", "json"])
    captured = capsys.readouterr()
    assert captured.err == ""
    found = json.loads(captured.out)
    assert (code == 1) is any(finding["severity"] == "error" for finding in found["findings"])
    return code, {
        name: [(each["right"], each["on"].replace(scene.shared, "shared")) for each in found["uses"][use][name]]
        for name in ("missing", "unknown")
    }


def of_topics(right: str) -> list[Row]:
    return [(right, f"topic shared-{kind.value}") for kind in (TopicType.CONFIG, TopicType.STATUS, TopicType.OFFSET)]


@pytest.mark.parametrize(
    ("use", "page_rows", "blind"), [("worker", WORKER, []), ("stores", STORES, [("DESCRIBE", f"group {GROUP}")])]
)
def test_check_rights_finds_each_row_that_is_missing(
    scene: Scene, use: str, page_rows: list[Row], blind: list[Row], capsys: pytest.CaptureFixture[str]
) -> None:
    def given(wanted: Sequence[Row]) -> None:
        every = [acl for row in wanted for acl in acls(row, scene.shared, scene.shared)]
        allow(scene.broker, "user", list(dict.fromkeys(every)))

    page_rows = list(dict.fromkeys((right, on.replace("source", "destination")) for right, on in page_rows))

    scene.create(scene.shared)
    given(page_rows)
    code, found = check_rights(scene, use, capsys)
    assert (code, found["missing"]) == (0, blind)
    # Kafka does not tell READ on a group that Java workers of another test have used on this broker.
    hidden = [("READ", f"group {GROUP}")] if found["unknown"] else []
    assert found["unknown"] == hidden
    for row in page_rows:
        if hidden and row[1].startswith("group"):
            continue
        given([other for other in page_rows if other != row])
        code, found = check_rights(scene, use, capsys)
        assert code == 1
        expected = [(row[0], f"group {GROUP}")] if row[1].startswith("group") else of_topics(row[0])
        assert set(expected) <= set(found["missing"])


@pytest.mark.parametrize(("on", "is_seen"), [("group `<group.id>`", True), ("the cluster", False)])
def test_workers_that_may_not_be_seen_are_not_said_to_be_dead(
    scene: Scene, on: str, is_seen: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [("READ", "the topics"), ("DESCRIBE_CONFIGS", "the topics"), ("DESCRIBE", on)]
    for action in (change_offsets, look):  # a shared group, and one with plain keys beside it
        prepare(scene, action, given, exists=action is change_offsets)

    def shown(main: Callable[[Sequence[str]], int], *words: str) -> Any:
        main([*words, "-w", str(scene.shared_file()), "--output", "json"])
        out, err = capsys.readouterr()
        assert ("orders live is not known" in err) == (main is console and not is_seen)
        return json.loads(out)

    assert ("no worker is alive" in str(shown(console, "check", "liveness"))) == is_seen
    clusters = shown(console, "discover")["clusters"]
    (cluster,) = (each for each in clusters if each["topics"]["config"] == f"{scene.shared}-config")
    seen = {"workers": shown(console, "usage"), "members": shown(migrate, "survey"), "live_members": cluster}
    for member, found in seen.items():
        assert {row["group"]: row[member] for row in found["groups"]} == {GROUP: 0 if is_seen else None, None: None}
    monkeypatch.setattr(Admin, "connect_members", Mock(side_effect=BrokerError("no answer")))
    console(["usage", "-w", str(scene.shared_file())])
    assert capsys.readouterr().err.endswith("}\nconnect-share: how many workers are alive is not known: no answer\n")


def test_check_rights_on_topics_that_do_not_exist(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    for page_rows, missing in ((MISSING, []), (STORES, of_topics("CREATE"))):
        allow(scene.broker, "user", [acl for row in page_rows for acl in acls(row, scene.shared, scene.source)])
        code, found = check_rights(scene, "stores", capsys)
        assert code == (1 if missing else 0)
        assert [each for each in found["missing"] if each[1] != f"group {GROUP}"] == missing
        assert sorted(found["unknown"]) == sorted([*of_topics("READ"), *of_topics("WRITE")])
    console(["check", "rights", "-w", str(scene.shared_file(**EXACTLY_ONCE))])
    out = capsys.readouterr().out
    assert "live workers of this group cannot be seen: DESCRIBE not allowed" in out
    assert "it does not exist and may not be created" in out
    assert "transactional ids that begin with orders-: whether WRITE is allowed cannot be seen" in out
    assert "kafka-acls.sh --bootstrap-server" in out


@pytest.mark.slow
@pytest.mark.worker
@pytest.mark.parametrize(
    ("action", "page_rows"),
    [*([(run_worker, WORKER)] if LONG else []), (run_worker_exactly_once, WORKER + rows("Java worker", 1))],
)
def test_the_tables_of_java_workers_are_enough(
    scene: Scene, action: Callable[[Scene], object], page_rows: list[Row]
) -> None:
    prepare(scene, action, page_rows, exists=True)
    action(scene)
