"""What counts of a topic: what the group's workers see, by their own worker file; all commands against one small model."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from connect_share.backup.record_file import RecordFile
from connect_share.backup.rewrite import StoppedGroup
from connect_share.cli.offset_changes import ConnectorPlan
from connect_share.contents.groups import TopicReading
from connect_share.errors import OpenTransactionError
from connect_share.exporter.followed_topic import FollowedTopic
from connect_share.kafka.create import topic_specs
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import TopicType
from connect_share.worker_config import Isolation, TopicSet
from migrator.planner import make_plan
from tests.support.console import Ran
from tests.support.long_forms import LONG
from tests.support.migration_runs import apply_plan, check_bystanders
from tests.support.migration_site import Site, run
from tests.support.topics import in_transaction, pairs_of, read_topic, transaction
from tests.support.waiting import await_that

CONFIG, OFFSET = TopicType.CONFIG, TopicType.OFFSET
ONE = ClusterGroupId("one")
ENDS, SUPPORTS, WHOSE = ("commit", "abort", "open"), ("enabled", "disabled"), ("own", "stranger")
CASES = [("enabled", "commit", "stranger"), ("disabled", "abort", "own")]
CASES += [("enabled", end, "own") for end in ("abort", "open")] + [("enabled", "open", "stranger")]
in_every_case = pytest.mark.parametrize(
    ("support", "end", "whose"), list(product(SUPPORTS, ENDS, WHOSE)) if LONG else CASES
)


@dataclass(frozen=True)
class Model:
    """What is to be expected of a transaction that ended so, for a group with this support, by this writer."""

    support: str
    end: str
    whose: str

    @property
    def is_open(self) -> bool:
        return self.end == "open"

    @property
    def seen(self) -> bool:
        """Whether the group's workers see a record of it under their keys, at the latest when it is committed."""
        return self.whose == "own" and (self.support == "disabled" or self.end == "commit")

    @property
    def aborted(self) -> bool:
        """Whether records of the group are left out as aborted."""
        return (self.support, self.end, self.whose) == ("enabled", "abort", "own")

    @property
    def may_be_seen(self) -> bool:
        return self.whose == "own" and (self.support == "disabled" or self.end != "abort")

    @property
    def waits(self) -> bool:
        return self.is_open and self.support == "enabled"

    @property
    def of_others(self) -> Model:
        """What is shown of these records to whoever does not have their worker file: what is committed."""
        return Model("enabled", self.end, "own")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connect_share.kafka.facts.BUSY_TOPIC_WAIT_S", 0.3)


def migrate(*words: str | Path) -> Ran:
    return Ran(*run(*words))


def refused(ran: Ran, topic: str, whose: str = "stranger") -> None:
    """An open transaction is refused, and the message says where and whose."""
    assert ran.code == 1, ran.err
    assert f"{topic}[0]: a transaction is open, the last stable offset is" in ran.err
    assert f"it appears to belong to cluster group '{'one' if whose == 'own' else 'two'}'" in ran.err
    assert "kafka-transactions.sh --bootstrap-server" in ran.err


def group_one(site: Site, support: str = "enabled") -> Path:
    site.create("shared")
    site.lay_group("shared", "one.")
    return site.worker_file("shared", "one", sharing=True, exactly_once_source_support=support)


def opened_by_a_stranger(site: Site, topic: str) -> Any:
    return transaction(site.settings, site.name, pairs_of(topic, [(b"two.connector-x", b"{}")], 0), "open")


def offsets_in(got: Ran, group: str = "one") -> dict[str, int]:
    found = [each for each in got.json["offsets"] if each["group"] == group and "at" in each["partition"]]
    return {each["partition"]["at"]: each["offset"]["n"] for each in found}


def living_by_group(call: Any, file: Path) -> dict[str, int]:
    return {each["group"]: each["live_keys"] for each in call("usage", "-w", file, "--output", "json").json["groups"]}


def everybody_sees(call: Any, site: Site, model: Model, file: Path, before: dict[str, int]) -> None:
    """The own group is shown as its workers read it, others as all agree, by every command that shows or counts groups."""
    other, others = site.worker_file("shared", "three", sharing=True), model.of_others
    flags = ("-B", site.bootstrap_servers, "--offset-storage-topic", site.topic("shared", OFFSET))
    group = "one" if model.whose == "own" else "two"
    for where, seen, waits in (
        (("-w", file), model.seen if group == "one" else others.seen, model.waits),
        (("-w", other), others.seen, others.waits),
        (flags, others.seen, others.waits),
    ):
        shown = call("get", "offsets", *where, "--all-groups", "--output", "json")
        assert ("x" in offsets_in(shown, group)) == seen, where
        assert ("z" in offsets_in(shown)) == (not waits), where
        assert (
            "two" in {each["group"] for each in call("get", "groups", *where, "--output", "json").json["groups"]}
        ) == (group == "two" and seen)
        if where is flags:
            continue
        counted = living_by_group(call, Path(where[1]))
        assert counted["one"] - before["one"] == (0 if waits else 2 + 2 * (seen and group == "one"))
        assert ("two" in counted) == (group == "two" and seen)
        found = call("check", "orphans", *where, "--output", "json").json["findings"]
        assert ("two" in {each["group"] for each in found}) == (group == "two" and seen)
        assert (("one", "orphan-offsets") in {(each["group"], each["id"]) for each in found}) == (
            seen and group == "one"
        )


def exported(call: Any, file: Path, number: int, *more: str) -> tuple[bool, set[tuple[str, str]]]:
    """Whether an export says that it waits, and the groups and places of the offsets in its file."""
    path = file.with_name(f"{number}.avro")
    ran = call("export", "-w", file, "-o", path, *more)
    assert ran.code == 0
    keys, places = [record.key for record in RecordFile(path).read()], product(("one", "two"), "xyz")
    found = {each for each in places if '{}.["a.b",{{"at":"{}"}}]'.format(*each).encode() in keys}
    return "an open transaction holds back the end" in ran.err, found


@in_every_case
def test_what_a_group_has(site: Site, call: Any, support: str, end: str, whose: str) -> None:
    model, topic = Model(support, end, whose), site.topic("shared", OFFSET)
    file = group_one(site, support)
    before = living_by_group(call, file)
    backup, altered = site.folder / "one.avro", site.folder / "altered.json"
    assert call("export", "-w", file, "-o", backup).code == 0
    altered.write_text(json.dumps({"offsets": [{"partition": {"at": place}, "offset": {"n": 9}} for place in "xyz"]}))
    group = "one" if whose == "own" else "two"
    keys = ('["a.b",{"at":"x"}]', '["a.b",{"at":"y"}]', '["gone",{}]')
    records = pairs_of(topic, [(f"{group}.{key}".encode(), b'{"n":1}') for key in keys], 0)
    with transaction(site.settings, site.name, records, end):
        behind = pairs_of(topic, [(b'one.["a.b",{"at":"y"}]', b'{"n":2}'), (b'one.["a.b",{"at":"z"}]', b'{"n":2}')], 0)
        site.produce(behind)  # y was written again, in front of the end; x was not
        new = {"y": 2, "z": 2, **({"x": 1} if model.seen else {})}
        if LONG or not model.is_open or whose == "own":
            everybody_sees(call, site, model, file, before)
        got = call("get", "offsets", "-w", file, "--output", "json")
        assert offsets_in(got) == ({} if model.waits else new)
        own = {("one", place) for place in new}
        assert exported(call, file, 1) == (model.waits, set() if model.waits else own)
        others = {("two", place) for place in "xy" if group == "two" and model.of_others.seen}
        assert exported(call, file, 2, "--all-groups") == (model.is_open, set() if model.is_open else own | others)
        if model.waits:
            assert "an open transaction holds back the end" in got.err
            where = re.search(r"get groups (.*) shows all", got.err)
            assert where is not None
            all_there_is = offsets_in(call("get", "offsets", *where[1].split(), "--output", "json"))
            assert all_there_is == {"y": 2, "z": 2, **({"x": 1} if whose == "own" else {})}
        alter = call(
            "alter", "offsets", "a.b", "-w", file, "--file", altered, "--force", "--dry-run", "--output", "json"
        )
        if model.waits:
            refused(alter, topic, whose)
        else:
            old = {each["partition"]["at"]: (each["old"] or {}).get("n") for each in alter.json["changes"]}
            assert old == {"x": None, **new}
        for words in (
            ("delete", "group", "one", "-w", file),
            ("restore", backup, "-w", file),
            ("repair", "orphans", "-w", file, "--offsets"),
        ):
            ran = call(*words, "--dry-run", "--output", "json")
            if model.is_open:
                refused(ran, topic, whose)
                continue
            assert ran.json["aborted"]["offset"] == 3 * model.aborted
            if words[0] == "delete":
                said = call(*words, "--dry-run").out
                assert ("offset  left out: 3 of aborted transactions" in said) == model.aborted
                assert ran.json["topics"]["offset"]["to_remove"] == 1 + len(new) + model.seen
            elif words[0] == "restore":
                assert sum(each["remaining"] for each in ran.json["changes"]) == len(new) + model.seen
            else:
                assert ran.json["records"] == {"config": 0, "status": 0, "offset": model.seen}
        other = site.worker_file("other", "one", sharing=True)
        plan = ("plan", "-w", file, "--to-worker-config", other, "--dry-run", "--output", "json")
        if model.is_open:
            refused(migrate(*plan), topic, whose)
        else:
            (source,) = migrate(*plan).json["plan"]["sources"]
            counts = source["topics"]["offset"]["counts"]
            assert (counts["to_write"], counts["skipped"].get("aborted", 0)) == (3 + 3 * model.seen, 3 * model.aborted)


def test_what_is_read_on_behind_an_open_transaction(site: Site) -> None:
    """The own group does not wait, another is shown when it has committed, and nothing is taken twice."""
    topic, topic_set = site.topic("shared", OFFSET), TopicSet.from_worker_file(group_one(site, "disabled"))
    reading = TopicReading(topic_set, [OFFSET], groups=None)
    pairs = [(b'%s.["a.b",{"at":"new"}]' % group, b'{"n":1}') for group in (b"two", b"one")]
    with site.admin() as admin:
        writer = in_transaction(site.settings, site.name, pairs_of(topic, pairs[:1], 0))
        site.produce(pairs_of(topic, pairs[1:], 0))

        def counts() -> tuple[int, int]:
            found = reading.read_on(admin)
            assert found is not None
            return found.topics[OFFSET].records_of(ONE), len(found.groups())

        assert [counts(), counts()] == [(2, 1), (2, 1)]
        writer.commit_transaction(120)
        await_that(counts, (2, 2).__eq__, what="the other group")


@pytest.mark.parametrize("end", ENDS)
def test_what_the_exporter_follows(site: Site, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all groups what is committed, also of one whose workers see all; at an open transaction it waits, and says so."""
    monkeypatch.setattr("connect_share.exporter.followed_topic._LOOK_S", 0.1)
    topic_set = TopicSet.from_worker_file(group_one(site, "disabled"))
    (spec,) = (each for each in topic_specs(topic_set) if each.topic_type is CONFIG)
    with site.admin() as admin:
        followed = FollowedTopic(spec, topic_set.settings, topic_set.isolation(CONFIG), admin, topic_set.worker)
        followed.start()

        def shown() -> set[str]:
            return {name for group in followed.states.groups() for name in group.state.connectors()}

        try:
            records = [
                pairs_of(spec.topic, [(b"one.connector-" + name, b'{"properties":{}}')], 0)
                for name in (b"in", b"behind")
            ]
            with transaction(site.settings, site.name, records[0], end):
                site.produce(records[1])
                lasting = {"a.b", "behind", *(["in"] if end == "commit" else [])}
                await_that(shown, ({"a.b"} if end == "open" else lasting).__eq__, what="the connectors")
                await_that(lambda: bool(followed.lag), (end == "open").__eq__, what="that it is behind")
            await_that(shown, lasting.__eq__, what="all connectors")
        finally:
            followed.stop()


def living(site: Site, topic_type: TopicType, isolation: Isolation) -> set[bytes]:
    with site.admin() as admin:
        newest = {
            each.key: each.value
            for each in read_topic(admin, site.settings, site.topic("shared", topic_type), isolation)
        }
    return {key for key, value in newest.items() if key and value not in {None, b"null"}}


@in_every_case
def test_what_a_moved_group_has(site: Site, support: str, end: str, whose: str) -> None:
    """An aborted transaction of a new worker is nothing: the move is verified, taken back, and made again."""
    model, topic = Model(support, end, whose), site.topic("shared", CONFIG)
    source = site.small_source()
    one = site.worker_file("shared", "one", sharing=True, exactly_once_source_support=support)
    plan, again = site.plan(source, one), site.folder / "again.json"
    apply_plan(plan)
    group, value = ("one" if whose == "own" else "two").encode(), b'{"properties":{"name":"new"}}'
    records = pairs_of(topic, [(group + b".connector-" + name, value) for name in (b"a.b", b"new")], 0)
    moved = ("plan", "-w", source, "--to-worker-config", one, "-o", again)
    with transaction(site.settings, site.name, records, end):
        verified, unused = migrate("verify", plan), migrate("cutover", plan, "--dry-run")
        if model.waits:
            refused(verified, topic, whose)
        else:
            assert verified.code == model.seen, verified
        assert ("new workers have written" in unused.err) == model.may_be_seen
        if model.waits and not model.may_be_seen:
            refused(unused, topic, whose)
        rollback = migrate("rollback", plan, "--dry-run", "--output", "json")
        if model.is_open:
            refused(rollback, topic, whose)
            refused(migrate("rollback", plan, "--yes", "--although-used"), topic, whose)
        else:
            found = rollback.json
            assert (found["written_since"], found["aborted"]["config"]) == (2 * model.seen, 2 * model.aborted)
    if model.is_open:
        model = Model(support, "abort", whose)
    code, _, err = run("rollback", plan, "--yes")
    assert (code, "new workers have run" in err) == (model.seen, model.seen)
    if model.seen:
        assert run("rollback", plan, "--yes", "--although-used")[0] == 0
    prefix, theirs = b"one.", {records[0].key, records[1].key}
    for topic_type in TopicType:
        for isolation in (
            Isolation if end == "commit" else [Isolation(f"read_{'' if support == 'enabled' else 'un'}committed")]
        ):
            left = {key for key in living(site, topic_type, isolation) if key.startswith(prefix)}
            assert left == (theirs if model.seen and topic_type is CONFIG else set())
    code, _, err = run(*moved)
    assert (code, "already holds 2 living key(s) of group one" in err) == (model.seen, model.seen), err
    if not model.seen:
        apply_plan(again)
        assert run("verify", again)[0] == 0


@in_every_case
def test_what_a_source_has_written_since_its_plan(site: Site, support: str, end: str, whose: str) -> None:
    """Also what is open counts as growth; of others nothing does."""
    model, topic = Model(support, end, whose), site.topic("shared", OFFSET)
    file = group_one(site, support)
    plan = site.plan(file, site.worker_file("other", "one", sharing=True))
    key = b'%s.["a.b",{"at":"x"}]' % (b"one" if whose == "own" else b"two")
    with transaction(site.settings, site.name, pairs_of(topic, [(key, b'{"n":1}')], 0), end):
        code, _, err = run("apply", plan, "--yes")
    assert (code, "was written since the plan was made" in err) == (model.may_be_seen, model.may_be_seen), err


@pytest.mark.parametrize("end", ENDS)
def test_what_bystanders_have_written(site: Site, end: str) -> None:
    topic = site.topic("shared", CONFIG)
    source = site.small_source()
    site.create("shared")
    site.lay_group("shared", "two.")
    plan = site.plan(source, site.shared("one"))
    apply_plan(plan, isolation_proof=True)
    with transaction(site.settings, site.name, pairs_of(topic, [(b"two.connector-a.b", b"{}")], 0), end):
        groups = {(group.topic_type, group.group): group for group in check_bystanders(plan).groups}
    assert groups[CONFIG, "two"].written_since == (end != "abort")


@pytest.mark.parametrize("name", ["restore", "delete", "reset"])
def test_a_transaction_that_is_opened_while_a_command_writes(
    site: Site, call: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers with exactly-once would not see what was written; when it has ended the same command completes it."""
    file, backup, topic = group_one(site), site.folder / "one.avro", site.topic("shared", OFFSET)
    assert call("export", "-w", file, "-o", backup).code == 0
    resets = ("offsets", "a.b", "--force", "--backup-dir", site.folder)
    subject: tuple[str | Path, ...] = {"restore": (backup,), "delete": ("group", "one"), "reset": resets}[name]
    where: tuple[Any, str] = (ConnectorPlan, "apply") if name == "reset" else (StoppedGroup, "write")
    step = getattr(*where)
    with ExitStack() as stack:

        def beside_a_stranger(*arguments: Any, **more: Any) -> Any:
            done = step(*arguments, **more) if name == "reset" else None
            stack.enter_context(opened_by_a_stranger(site, topic))
            return done if name == "reset" else step(*arguments, **more)

        monkeypatch.setattr(*where, beside_a_stranger)
        ran = call(name, *subject, "-w", file, "--yes")
        refused(ran, topic)
        assert "were written" in ran.err or "Everything was written" in ran.err
        assert "may be started" not in ran.out
    monkeypatch.undo()
    assert call(name, *subject, "-w", file, "--yes").code == 0


def test_a_source_whose_workers_would_not_see_their_target_states(site: Site) -> None:
    source = site.small_source(exactly_once_source_support="enabled")
    plan, topic = site.plan(source, site.shared()), site.topic("own", CONFIG)
    apply_plan(plan)
    assert run("cutover", plan, "--yes")[0] == 0
    copies = [living(site, each, Isolation.READ_COMMITTED) for each in TopicType]
    with opened_by_a_stranger(site, topic):
        for name in ("unseal", "rollback", "seal"):
            refused(migrate(name, plan, "--yes"), topic)
    assert [living(site, each, Isolation.READ_COMMITTED) for each in TopicType] == copies
    assert run("rollback", plan, "--yes")[0] == 0


def test_each_group_of_a_plan_is_read_as_its_own_workers_do(site: Site) -> None:
    sources = [site.small_source(each, each) for each in ("first", "second")]
    files = [
        site.worker_file("shared", group, sharing=True, exactly_once_source_support=support)
        for group, support in zip(("one", "two"), SUPPORTS, strict=True)
    ]
    path = site.folder / "plan.json"
    make_plan(sources, files, now_ms=1).save(path)
    apply_plan(path)
    records = pairs_of(site.topic("shared", CONFIG), [(b"one.connector-a.b", b"{}"), (b"two.connector-a.b", b"{}")], 0)
    with transaction(site.settings, site.name, records, "abort"):
        found = json.loads(run("rollback", path, "--dry-run", "--output", "json")[1])
    assert (found["written_since"], found["aborted"]["config"], found["removed"]["config"]) == (1, 1, 7)


def test_copies_that_new_workers_would_not_see(site: Site) -> None:
    site.create("shared")
    one = site.worker_file("shared", "one", sharing=True, exactly_once_source_support="enabled")
    plan, topic = site.plan(site.small_source(), one), site.topic("shared", CONFIG)
    with opened_by_a_stranger(site, topic):
        refused(migrate("apply", plan, "--yes"), topic)
        with pytest.raises(OpenTransactionError) as caught:
            apply_plan(plan)
        place = {"topic": topic, "partition": 0, "last_stable_offset": 0, "end_offset": 1}
        assert vars(caught.value).items() >= place.items()
        assert [record.key for record in site.read(topic)] == [b"two.connector-x"]
    assert migrate("apply", plan, "--yes").code == 0
