"""The plan file: what it says, who may read it, what an edited one is refused for; and the keys that it knows."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from connect_share.errors import ConfigError, CopyError, PlanFileError, PlanRejectedError
from connect_share.files import SILENT
from connect_share.kafka.due_look import load_due, save_due
from connect_share.model.records import Record, TopicType
from connect_share.sealing import KEYS_PROPERTY
from connect_share.transform.rules import KeyTransform
from connect_share.worker_config import SHARING_PROPERTY, Isolation, WorkerConfig
from migrator.cli.options import plan_lines
from migrator.moves import Intent, pair, refuse_same_topics
from migrator.plan import (
    Destination,
    DestinationTopic,
    MigrationPlan,
    PlannedPartition,
    SourceTopic,
    plan_fingerprint,
    write_plan_file,
)
from migrator.planner import warn_about
from migrator.run import MigrationRun
from migrator.survey import MOST_WORKER_IDS, TopicCount, _connectors, _move, _Surveyor, _WorkerFile, survey
from tests.lab.embedded.worker import write_properties
from tests.support.checked import records, state_of
from tests.support.plans import a_plan
from tests.support.sealed import key_text
from tests.support.worker_files import properties_of


def test_a_plan_comes_back_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan = a_plan(path)
    assert MigrationPlan.load(path) == plan
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["format"] == "connect-share/migration-plan/2"
    assert [entry.name for entry in tmp_path.iterdir()] == ["plan.json"]


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c: c.update(format="connect-share/migration-plan/1"), "format"),
        (lambda c: c.update(surprise=1), "surprise"),
        (lambda c: c.pop("run_id"), "run_id"),
        (lambda c: c.update(mode="other"), "mode"),
        (lambda c: c.update(mode="state"), "fingerprint"),
        (lambda c: c.update(mode="state", follow=True), "follow needs the mode mirror"),
        (lambda c: c["sources"][0].update(only_connectors=["a"]), "fingerprint"),
        (lambda c: c["sources"][0].update(sharing=True), "fingerprint"),
        (lambda c: c["sources"].clear(), "sources"),
        (lambda c: c["sources"][0].update(cluster_group_id="other"), "fingerprint"),
        (lambda c: c["sources"][0].update(cluster_group_id="task-x"), "task-"),
        (lambda c: c["sources"].append(c["sources"][0]), "merged"),
        (lambda c: c["sources"][0]["topics"].pop("status"), "exactly the topics"),
        (lambda c: c["destination"]["topics"]["config"].update(partitions=3), "exactly one partition"),
        (lambda c: c["sources"][0]["topics"]["config"]["partitions"][0].update(start=11), "behind end"),
        (lambda c: c["sources"][0]["topics"]["config"]["partitions"][0].update(start=-1), "start"),
    ],
)
def test_an_edited_plan_is_checked(tmp_path: Path, change: Callable[[dict[str, Any]], None], says: str) -> None:
    path = tmp_path / "plan.json"
    a_plan(path)
    edit(path, change)
    with pytest.raises(PlanFileError) as caught:
        MigrationPlan.load(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)


def test_the_fingerprint_of_a_transform_is_that_of_every_other_process() -> None:
    many = frozenset("abcdefgh")  # in which order, depends on the process
    transform = KeyTransform(TopicType.CONFIG, plain=False, groups=many, destination=None, connectors=many)
    assert transform.fingerprint == "sha256:9a56c3c4eed7053bd2efd1bade59b607eba3ba1f783b2042d616f2c983a1a802"


def test_what_cannot_be_read_or_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for content in (b"", b"{", b"[]", b"\xff\xfe"):
        (tmp_path / "plan.json").write_bytes(content)
        with pytest.raises(PlanFileError):
            MigrationPlan.load(tmp_path / "plan.json")
    a_plan(path := tmp_path / "plan.json")
    path.write_text(path.read_text().replace("{", '{"mode": "state",', 1))
    with pytest.raises(PlanFileError, match="two members of the same name"):
        MigrationPlan.load(path)
    with pytest.raises(PlanFileError, match="/dev/zero cannot be read: it is longer than 256 MiB"):
        MigrationPlan.load(Path("/dev/zero"))
    with pytest.raises(PlanFileError, match="cannot be written"):
        write_plan_file(tmp_path / "no" / "such" / "folder.json", "x")
    save_due(tmp_path / "note", {})
    monkeypatch.setattr("connect_share.kafka.due_look.LARGEST_BYTES", 1)
    with pytest.raises(CopyError, match="note cannot be read"):
        load_due(tmp_path / "note")


def test_unparseable_and_workers() -> None:
    count = TopicCount(TopicType.STATUS)
    values: list[bytes | None] = [b'{"worker_id":"w%d"}' % number for number in range(MOST_WORKER_IDS + 5)]
    values += [b"{", b"\xff", None, b"null", b'"text"', b'{"worker_id":3}']
    count.read(Record("t", 0, offset, 1, b"status-connector-a", value) for offset, value in enumerate(values))
    count.read([Record("t", 0, 99, 1, b"status-task-a", b"{}"), Record("t", 0, 99, 1, b"g.status-task-a-0", b"{}")])
    plain = count.groups[None]
    assert plain.unparseable == 3  # two values, and a key without a task number
    assert len(plain.workers["a"]) == MOST_WORKER_IDS
    (shared,) = [group for name, group in count.groups.items() if name is not None]
    assert shared.workers == {}
    assert (plain.tombstones, shared.tombstones) == (1, 0)


MODE = KEYS_PROPERTY.removesuffix(".keys")


def worker_file(folder: Path, name: str, *, sharing: str = "enabled", group: str | None = None, **sealing: str) -> Path:
    lines = properties_of("a:9092", group or name, f"{name if group is None else 'shared'}-") | {
        SHARING_PROPERTY: sharing
    }
    lines |= {{"keys": KEYS_PROPERTY, "mode": MODE}[each]: value for each, value in sealing.items()}
    return write_properties(folder / f"{name}.properties", lines)


@pytest.mark.parametrize("kept", TopicType)
def test_no_topic_of_the_destination_may_hold_the_group_already(tmp_path: Path, kept: TopicType) -> None:
    source, destination = worker_file(tmp_path, "g"), worker_file(tmp_path, "here", group="g")
    destination.write_text(destination.read_text().replace(f"shared-{kept.value}s", f"g-{kept.value}s"))
    (move,) = moves = pair([source], [destination])
    move.learn(kafka_cluster_id="one")
    move.destination_cluster = "one"
    with pytest.raises(ConfigError, match=f"g-{kept.value}s holds the records of .* under g already"):
        refuse_same_topics(moves)
    move.destination_cluster = "another"
    refuse_same_topics(moves)


def test_no_topic_of_a_source_may_be_one_of_another_type_at_the_destination(tmp_path: Path) -> None:
    source, crossed = worker_file(tmp_path, "a"), worker_file(tmp_path, "b")
    crossed.write_text(crossed.read_text().replace("b-statuss", "a-offsets"))
    (move,) = pair([source], [crossed])
    move.learn(kafka_cluster_id="one")
    move.destination_cluster = "one"
    with pytest.raises(ConfigError, match=r"a-offsets is the offset topic of .* and the status topic of"):
        refuse_same_topics([move])


def test_files_that_do_not_say_what_becomes_of_whom_are_refused(tmp_path: Path) -> None:
    sources = [worker_file(tmp_path, name, sharing="disabled", group=name) for name in ("a", "b", "c")]
    for refused in (pair, survey):
        with pytest.raises(ConfigError, match="3 source worker files and 2 destination worker files"):
            refused(sources, sources[:2])
    with pytest.raises(ConfigError, match="0 source worker files and 1 destination worker files"):
        pair([], sources[:1])
    worker = WorkerConfig.from_file(sources[0])
    sides = [_WorkerFile(sources[0], "", worker, cluster) for cluster in (None, "one")]
    assert _move(_Surveyor([], SILENT), *sides, paired=True).other_kafka_cluster is None  # one has not answered
    with pytest.raises(ConfigError, match=r"3 sources would become g and be merged"):
        pair(sources, [worker_file(tmp_path, "g")] * 3)
    illegal = worker_file(tmp_path, "task-runner", sharing="disabled")
    with pytest.raises(ConfigError, match=r"group\.id"):
        pair([illegal, sources[0]], [worker_file(tmp_path, "g")])
    assert pair([illegal], [worker_file(tmp_path, "g")])[0].plan.new_space == "g"  # the destination names it
    moves = pair(sources[:2], [worker_file(tmp_path, "x")])
    for move in moves:
        move.learn(kafka_cluster_id="one")
        move.destination_cluster = "one"
    with pytest.raises(
        ConfigError, match=r"shared-configs is used by .*a\.properties and by .*b\.properties with the same"
    ):
        refuse_same_topics(moves)
    moves[1].learn(kafka_cluster_id="another")
    refuse_same_topics(moves)


def test_wishes_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    sources = [worker_file(tmp_path, name, group=name) for name in ("a", "b", "c")]
    assign = {"a": ("x",), "b": ("y",), "c": ()}
    for intent, owned in ((Intent(job="x"), ["x", "x", "x"]), (Intent(assign=assign), ["x", "y", ""])):
        assert ["".join(move.plan.only_connectors or ()) for move in pair(sources, sources, intent)] == owned
    for at in (1, 2):
        destinations = [*sources[:at], worker_file(tmp_path, f"other-{at}"), *sources[at + 1 :]]
        with pytest.raises(
            ConfigError, match=rf"a\.properties and .*other-{at}\.properties name different config topics"
        ):
            pair(sources, destinations)


def test_every_direction_is_taken(tmp_path: Path) -> None:
    files = [
        worker_file(tmp_path, "dedicated", sharing="disabled"),
        worker_file(tmp_path, "plain"),
        worker_file(tmp_path, "sealed", keys=key_text(7)),
        worker_file(tmp_path, "accepting", keys=key_text(8), mode="accept"),
        worker_file(tmp_path, "off", keys=key_text(8), mode="off"),
    ]
    for source in files:
        for destination in files:
            [move] = pair([source], [destination])
            assert not move.may_copy_as_is("mirror") or source == destination
    [move] = pair([files[1]], [worker_file(tmp_path, "there", group="plain")])
    assert move.may_copy_as_is("mirror")
    assert not move.may_copy_as_is("state")
    [move] = pair([files[4]], [worker_file(tmp_path, "there", group="off")])
    assert not move.may_copy_as_is("mirror")  # the file has keys: they are to be used


def test_keys_belong_to_one_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [worker_file(tmp_path, name) for name in ("a", "b")]
    one = worker_file(tmp_path, "one", group="c", keys=key_text(7))
    with pytest.raises(ConfigError, match=r"has the keys of c, but the records become a") as caught:
        pair(sources, [one])
    assert caught.value.property_name == KEYS_PROPERTY
    two = worker_file(tmp_path, "two", group="c", keys=key_text(8))
    with pytest.raises(ConfigError, match="have different keys for c"):
        pair(sources, [one, two], Intent(merge=True))
    assert len(pair(sources, [one, one], Intent(merge=True))) == 2
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(ConfigError, match="sealed sharing needs the library cryptography"):
        pair(sources, [one, one], Intent(merge=True))


def planned(folder: Path, source: Path, destination: Path) -> Path:
    """A plan between these files, made without a broker."""
    [move] = pair([source], [destination])
    part = PlannedPartition(partition=0, start=0, end=0, last_stable_offset=0)
    read = partial(SourceTopic, topic_id=None, isolation=Isolation.READ_UNCOMMITTED, partitions=(part,))
    move.learn(topics={kind: read(topic=move.worker.topic(kind)) for kind in TopicType})
    topics = {
        kind: DestinationTopic(topic=move.destination.topic(kind), topic_id=None, partitions=1, create=True)
        for kind in TopicType
    }
    MigrationPlan(
        run_id="r",
        created_at_ms=1,
        sources=(move.plan,),
        destination=Destination(kafka_cluster_id=None, topics=topics),
        fingerprint=plan_fingerprint((move.plan,), "mirror"),
    ).save(folder / "plan.json")
    return folder / "plan.json"


def test_a_plan_knows_its_keys_and_shows_none(tmp_path: Path) -> None:
    def sides(there: str | None, here: str | None, there_mode: str = "required", here_mode: str = "required") -> None:
        for name, keys, mode in (("a", there, there_mode), ("b", here, here_mode)):
            worker_file(tmp_path, name, **({} if keys is None else {"keys": keys, "mode": mode}))

    sides(key_text(7, 8), key_text(9))
    path = planned(tmp_path, tmp_path / "a.properties", tmp_path / "b.properties")
    run = MigrationRun.load(path)
    assert run.sources[0].sealing.keys == run.workers[0].sealing_keys
    assert run.sources[0].destination_sealing.keys == run.destinations[0].sealing_keys
    shown = "\n".join([path.read_text(), *plan_lines(run.plan)])
    assert "  values  sealed with key 7 -> sealed with key 9" in shown
    assert not [each for each in (7, 8, 9) if key_text(each).partition(":")[2] in shown]
    for changed in ((key_text(8, 7, 6), key_text(6, 9)), (key_text(7, 8), key_text(9), "required", "accept")):
        sides(*changed)
        MigrationRun.load(path)
    another = key_text(6).replace("6:", "9:")
    for name, refused in (
        ("a", (key_text(7), key_text(9))),
        ("a", (None, key_text(9))),
        ("a", (key_text(7, 8), key_text(9), "accept")),
        ("b", (key_text(7, 8), another)),
        ("b", (key_text(7, 8), key_text(9), "required", "off")),
    ):
        sides(*refused)
        with pytest.raises(PlanRejectedError, match=rf"{name}\.properties was changed .*\.encryption"):
            MigrationRun.load(path)
    sides(None, None)
    path = planned(tmp_path, tmp_path / "a.properties", tmp_path / "b.properties")
    assert "values" not in "\n".join(plan_lines(MigrationRun.load(path).plan))
    sides(None, key_text(9))
    with pytest.raises(PlanRejectedError, match=r"b\.properties was changed .*\.encryption\.keys"):
        MigrationRun.load(path)


def test_a_mirror_has_topics_and_is_no_sink() -> None:
    classes = {"mirror": "org.apache.kafka.connect.mirror.MirrorSourceConnector", "sink": "S"}
    count = TopicCount(TopicType.CONFIG)
    for offset, (name, of_class) in enumerate(classes.items()):
        value = json.dumps({"properties": {"connector.class": of_class, "topics": "t"}}).encode()
        count.read([Record("t", 0, offset, 1, f"connector-{name}".encode(), value)])
    connectors, *_ = _connectors(None, {TopicType.CONFIG: count.groups[None]})
    assert [(each.name, each.sink) for each in connectors] == [("mirror", False), ("sink", True)]


def test_a_worker_file_of_several_goes_with_its_plan(tmp_path: Path) -> None:
    file, kind = tmp_path / "there" / "connect.json", {"apiVersion": "kafka.strimzi.io/v1beta2", "kind": "KafkaConnect"}
    specs = {
        name: {"config": properties_of("a:9092", name, name) | {SHARING_PROPERTY: "enabled"}} for name in ("a", "b")
    }
    items = [{**kind, "metadata": {"name": name}, "spec": spec} for name, spec in specs.items()]
    file.parent.mkdir()
    file.write_text(json.dumps({"kind": "List", "items": items}))
    planned(file.parent, file / "a", file / "b")
    here = file.parent.rename(tmp_path / "here")
    run = MigrationRun.load(here / "plan.json")
    assert [each.group_id for each in (*run.workers, *run.destinations)] == ["a", "b"]
    (here / "connect.json").unlink()
    with pytest.raises(
        PlanFileError, match=r"there/connect\.json that the plan names .* or as connect\.json beside the plan"
    ):
        MigrationRun.load(here / "plan.json")


def test_a_move_to_another_kafka_cluster_names_the_consumer_groups_of_its_sinks(tmp_path: Path) -> None:
    configs = {
        "sink": {"connector.class": "S", "topics": "t"},
        "named": {"connector.class": "S", "topics.regex": "t.*", "consumer.override.group.id": "own"},
        "stays": {"connector.class": "S", "topics": "t"},
        "source": {"connector.class": "FileStreamSource", "topic": "t"},
    }
    written = [(f"connector-{name}", json.dumps({"properties": config})) for name, config in configs.items()]
    (group,) = state_of({TopicType.CONFIG: records(TopicType.CONFIG, *written)}).groups
    file = worker_file(tmp_path, "old", sharing="disabled")
    [move] = pair([file], [file], Intent(assign={"old": ("sink", "named", "source")}))
    move.learn(kafka_cluster_id="here")
    move.destination_cluster, move.state = "there", group.config
    (warning,) = (each for each in warn_about([move], "offsets") if "another Kafka cluster" in each)
    assert warning.endswith("--to-datetime TIME --execute): own, connect-sink")
    move.destination_cluster = "here"
    assert not [each for each in warn_about([move], "offsets") if "another Kafka cluster" in each]
