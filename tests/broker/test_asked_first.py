"""What may be refused is asked before the backup and the first write: every command, without each right, with each limit."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType

from connect_share.backup.rewrite import StoppedGroup
from connect_share.errors import TopicError
from connect_share.kafka import client
from connect_share.kafka.admin import Admin
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.records import TopicType
from connect_share.model.removal import is_removal
from connect_share.sealing.cipher import is_sealed
from connect_share.stores.alter_offsets import ConsumerGroupsAdmin
from connect_share.worker_config import WorkerConfig
from migrator.apply import follow_plan
from migrator.cli import apply as apply_command
from migrator.moves import NO_INTENT, Intent
from migrator.run import MigrationRun, manifest_path
from tests.lab.secure_broker import SecureBroker
from tests.support.console import Call
from tests.support.long_forms import LONG
from tests.support.migration_runs import apply_plan, cut_over
from tests.support.migration_site import GROUP, SMALL, Site, pair, run
from tests.support.printed import Printed
from tests.support.rights import allow, login
from tests.support.sealed_sites import worker
from tests.support.topics import ONE_SEGMENT, alter_known
from tests.support.waiting import await_that

CONFIG, STATUS, OFFSET = TopicType.CONFIG, TopicType.STATUS, TopicType.OFFSET
RUNNING = SMALL[STATUS][0][1]
X_TXT = {"filename": "x.txt"}
SINKS = ("connect-s", "connect-d")
LATE = (("task-b-0", '{"properties":{"x":"1"}}'), ("commit-b", '{"tasks":1}'), ("connector-b", '{"properties":{}}'))
_RUN_ID = re.compile(rb"[0-9a-f]{32}")
Need = tuple[str, str, TopicType | ResourceType]
"""A right, and on which topic of whom; or on the group or transactional id of this name."""
Rights = dict[tuple[str, str], ResourceType]
"""Rights by the name of what they are on."""


class Scene:
    """A group on shared topics, or one that moves there; what commands need is in ``COMMANDS``."""

    def __init__(self, site: Site, call: Call) -> None:
        self.site, self.call, self.files = site, call, list[Path]()
        self.beside = ["--backup", site.folder / "written.avro"]

    def group(self) -> Path:
        """It has an orphan, tasks before their connector, and accepts plain values beside sealed ones."""
        self.site.create("shared")
        self.site.lay_group("shared", f"{GROUP}.")
        self.site.lay_down("shared", STATUS, [pair(f"{GROUP}.status-connector-gone", RUNNING)])
        self.site.lay_down("shared", CONFIG, [pair(f"{GROUP}.{key}", value) for key, value in LATE])
        self.files = [worker(self.site, "shared", GROUP, 7, mode="accept")]
        return self.files[0]

    def kept(self) -> list[Any]:
        file, kept = self.group(), self.site.folder / "kept.avro"
        assert self.call("export", "-w", file, "-o", kept).code == 0
        return [kept, "-w", file]

    def offsets(self, at: Any = X_TXT, to: Any = {"position": 7}, **more: str) -> list[Any]:  # noqa: B006
        (self.site.folder / "new.json").write_text(json.dumps({"offsets": [{"partition": at, "offset": to}]}))
        file = self.group()
        file.write_text("\n".join([file.read_text(), *(f"{key}={value}" for key, value in more.items())]))
        return ["-w", file, "--force", "--backup-dir", self.site.folder]

    def own_offsets(self) -> list[Any]:
        """The connector has its offsets in a topic of its own."""
        words, own = self.offsets(), {"name": "a.b", "offsets.storage.topic": self.site.topic("own", OFFSET)}
        self.site.create("own")
        self.site.lay_down("own", OFFSET, SMALL[OFFSET])
        self.site.lay_down("shared", CONFIG, [pair(f"{GROUP}.connector-a.b", json.dumps({"properties": own}))])
        return words

    def sinks(self) -> list[Any]:
        """A sink that has read a topic, and one that is not configured yet."""
        topic = self.site.topic("own", STATUS)
        self.site.create("own")
        words = self.offsets({"kafka_topic": topic, "kafka_partition": 1}, {"kafka_offset": 7})
        sink = json.dumps({"properties": {"topics": topic}})
        self.site.lay_down("shared", CONFIG, [pair(f"{GROUP}.connector-s", sink)])
        with ConsumerGroupsAdmin(self.site.settings, client_id="test") as admin:
            for group in SINKS:
                admin.delete_group(group)
            admin.alter_group_offsets(SINKS[0], {(topic, 1): 3, (topic, 2): 4})
        return words

    def exactly_once(self) -> list[Any]:
        return self.offsets(**{"exactly.once.source.support": "enabled"})

    def committed(self) -> set[tuple[str, str, int, int]]:
        """What the sinks have read of topics of this site."""
        with ConsumerGroupsAdmin(self.site.settings, client_id="test") as admin:
            found = [(group, *at, to) for group in SINKS for at, to in admin.group_offsets(group).items()]
        return {
            (each[0], each[1].removeprefix(self.site.name), *each[2:]) for each in found if self.site.name in each[1]
        }

    def missing(self) -> Path:
        self.site.create("shared")
        self.files = [self.site.worker_file("own", GROUP, sharing=True)]
        return self.files[0]

    def advised(self) -> list[Any]:
        """Two topics have a setting that makes starts slow, by a model in which records are dear."""
        file, model = self.group(), self.site.folder / "model.json"
        costs = {"fixed_s": 0.1, "per_record_s": 0.01, "per_byte_s": 0.0, "per_own_record_s": 0.0, "error": 0.5}
        model.write_text(json.dumps({"model": costs, "machine": {"processors": 64}}))
        for kind in (OFFSET, STATUS):
            with self.site.admin() as admin:
                alter_known(admin, self.site.topic("shared", kind), ONE_SEGMENT)
            (key, value, _), *_ = SMALL[kind]
            self.site.lay_down("shared", kind, [pair(f"{GROUP}.{key}", value)] * 300)
        return ["-w", file, "--model", model]

    def planned(self, intent: Intent = NO_INTENT) -> Path:
        self.site.create("shared")
        self.files = [self.site.small_source(), self.site.shared()]
        self.site.lay_down("own", CONFIG, [pair("target-state-a.b", '{"state":"STARTED"}')])
        return self.site.plan(self.files[0], self.files[1], intent=intent)

    def applied(self) -> Path:
        apply_plan(plan := self.planned())
        return plan

    def followed(self) -> Path:
        """Its source has gone on."""
        apply_plan(plan := self.planned(Intent(follow=True)))
        self.site.lay_down("own", OFFSET, [pair(key, '{"position":43}') for key, *_ in SMALL[OFFSET]])
        return plan

    def interrupted(self) -> Path:
        path = manifest_path(plan := self.applied())
        path.write_text(json.dumps({**json.loads(path.read_text()), "status": "planned", "evidence": []}))
        return plan

    def cut(self, **how: Any) -> Path:
        cut_over(plan := self.applied(), **how)
        return plan

    def back(self) -> Path:
        """Onto the topics that the group has left, and that were closed behind it."""
        self.cut(how="remove")
        return self.site.plan(self.files[1], self.files[0], "back.json")

    def state(self) -> object:
        """Where all topics end, their settings, and the backups there are."""
        ends = self.site.ends()
        with self.site.admin() as admin:
            settings = admin.settings_of_topics({topic for topic, _ in ends})
        return ends, settings, sorted(self.site.folder.glob("*.avro")), self.committed()

    def ends(self) -> dict[str, int]:
        """How many records each topic has ever had."""
        ends = self.site.ends()
        return {name: sum(end for (topic, _), end in ends.items() if topic == name) for name, _ in ends}

    def picture(self) -> dict[str, Any]:
        """What readers have of every group, opened, and the settings of its topics."""
        found: dict[str, Any] = {}
        workers = [WorkerConfig.from_file(file) for file in self.files]
        groups = [StoppedGroup(each, each.cluster_group_id, each.group_id, "test") for each in workers]
        with self.site.admin() as admin:
            there = admin.describe_topics(name for name in admin.topic_names() if name.startswith(self.site.name))
            settings = admin.settings_of_topics(there)
        for who, kind in product(("own", "shared"), TopicType):
            if (topic := self.site.topic(who, kind)) not in there:
                continue
            values: dict[Any, Any] = {}
            for record in self.site.read(topic):
                opened = [
                    g._opened(kind, record)[1] for g in groups if g.is_own(kind, record.key) and is_sealed(record.value)
                ]
                value = next(iter(opened), record.value)
                stored = _RUN_ID.sub(b"", value or b"").replace(self.site.name.encode(), b"")
                values[record.key] = None if is_removal(kind, value) else (bool(opened), stored)
            found[f"{who} {kind.value}"] = {key: value for key, value in values.items() if value}, settings[topic]
        return found | {"sinks": ({repr(each).encode(): (False, b"") for each in self.committed()}, {})}

    def run(self, words: list[Any], end: str = "--yes") -> tuple[int, str]:
        if words[0] in {"delete", "repair", "restore", "alter", "reset", "copy", "create", "check"}:
            ran = self.call(*words, end)
            return ran.code, ran.err
        return run(*words, end)[::2]

    def refused(self, words: list[Any]) -> tuple[int, str]:
        """Run what is refused; its dry run says so, too."""
        code, errors = self.run(words)
        dry = self.run(words, "--dry-run")
        assert (dry[0], dry[1].partition("error: ")[2].strip() in errors) == (code, True), (dry, errors)
        return code, errors


def needs(reads: str, writes: str = "", *more: Need) -> set[Need]:
    """Read all topics of these, write the named ones: ``shared`` is all three, ``own:config`` is one."""
    found: set[Need] = {("READ", who, kind) for who in reads.split() for kind in TopicType}
    for who, _, which in (each.partition(":") for each in writes.split()):
        found |= {("WRITE", who, kind) for kind in TopicType if which in {"", kind.value}}
    return found | {*more}


def change(
    name: str, to: str = "", scene: Callable[[Scene], list[Any]] = Scene.offsets
) -> Callable[[Scene], list[Any]]:
    """Return what makes a scene, and the words that alter, reset or copy offsets of a connector there."""

    def words(s: Scene) -> list[Any]:
        found = scene(s)
        more: dict[str, list[Any]] = {
            "alter": ["--file", s.site.folder / "new.json"],
            "reset": [],
            "copy": ["--to", to],
        }
        return [verb, "offsets", connector, *more[verb], *found]

    verb, _, connector = name.partition(" ")
    return words


OPENS: Need = ("ALTER_CONFIGS", "own", CONFIG)
COMMITS: Need = ("WRITE", f"{GROUP}-a.b-0", ResourceType.TRANSACTIONAL_ID)
OWN_OFFSETS: set[Need] = {("READ", "own", OFFSET), ("WRITE", "own", OFFSET)}
CREATES: set[Need] = {("CREATE", "own", kind) for kind in TopicType}
SETS: set[Need] = {("ALTER_CONFIGS", "shared", kind) for kind in TopicType}
COMMANDS: dict[str, tuple[Callable[[Scene], list[Any]], set[Need], bool]] = {
    "delete": (lambda s: ["delete", "group", GROUP, "-w", s.group(), *s.beside], needs("shared", "shared"), False),
    "order": (lambda s: ["repair", "order", "-w", s.group(), *s.beside], needs("shared", "shared:config"), True),
    "orphans": (lambda s: ["repair", "orphans", "-w", s.group(), *s.beside], needs("shared", "shared:status"), False),
    "restore": (lambda s: ["restore", *s.kept()], needs("shared", "shared"), True),
    "reseal": (lambda s: ["reseal", "-w", s.group(), *s.beside], needs("shared", "shared"), True),
    "alter": (change("alter a.b"), needs("shared", "shared:offset"), False),
    "reset": (change("reset a.b"), needs("shared", "shared:offset"), False),
    "copy": (change("copy a.b", "d"), needs("shared", "shared:offset"), False),
    "apply": (lambda s: ["apply", s.planned()], needs("shared own", "shared"), True),
    "back": (lambda s: ["apply", s.back()], needs("shared own", "own", OPENS), True),
    "resume": (lambda s: ["resume", s.interrupted()], needs("shared own", "shared"), True),
    "cutover": (lambda s: ["cutover", s.applied()], needs("shared own", "shared own:config"), True),
    "seal": (lambda s: ["seal", s.cut()], needs("shared own", "own:config", OPENS), False),
    "unseal": (lambda s: ["unseal", s.cut()], needs("shared own", "own:config", OPENS), False),
    "rollback": (lambda s: ["rollback", s.cut()], needs("shared own", "shared own:config", OPENS), False),
}
"""The words, what is needed, and whether records are written with times that they have."""


def on_sinks(name: str, right: str) -> set[Need]:
    """A right on the consumer group of a sink; whoever commits has to read the topic, too, and others have to see it."""
    return {(right, f"connect-{name}", ResourceType.GROUP), ("READ", "own", STATUS)}


ASKED: dict[str, tuple[Callable[[Scene], list[Any]], set[Need]]] = {
    **{name: command[:2] for name, command in COMMANDS.items()},
    "create": (lambda s: ["create", "topics", "-w", s.missing()], needs("own", "", *CREATES)),
    "startup": (lambda s: ["check", "startup", "--apply", *s.advised()], needs("shared", "", *SETS)),
    "alter own": (change("alter a.b", scene=Scene.own_offsets), needs("shared", "shared:offset", *OWN_OFFSETS)),
    "reset own": (change("reset a.b", scene=Scene.own_offsets), needs("shared", "shared:offset", *OWN_OFFSETS)),
    "alter sink": (change("alter s", scene=Scene.sinks), needs("shared", "", *on_sinks("s", "READ"))),
    "reset sink": (change("reset s", scene=Scene.sinks), needs("shared", "", *on_sinks("s", "DELETE"))),
    "copy sink": (change("copy s", "d", Scene.sinks), needs("shared", "", *on_sinks("d", "READ"))),
    "follow": (lambda s: ["apply", s.followed(), "--follow"], needs("shared own", "shared")),
}
"""What can be asked; what may be done with transactional ids Kafka tells to nobody."""
EACH_WAY = ("orphans", "restore", "alter", "back", "cutover", "rollback", "create", "startup", "copy sink")
"""One for each place that asks."""
DISTURBED = ASKED | {
    "seal": (lambda s: ["seal", s.cut(how="none")], ASKED["seal"][1]),  # it writes target states, too
    "alter once": (change("alter a.b", scene=Scene.exactly_once), needs("shared", "shared:offset", COMMITS)),
    "reset once": (change("reset a.b", scene=Scene.exactly_once), needs("shared", "shared:offset", COMMITS)),
}


def rights_on(site: Site, needed: Collection[Need]) -> Rights:
    """Return these rights by the names of topics, groups and transactional ids."""
    return {
        (right, site.topic(name, kind) if isinstance(kind, TopicType) else name): ResourceType.TOPIC
        if isinstance(kind, TopicType)
        else kind
        for right, name, kind in needed
    }


def give(secure: SecureBroker, rights: Rights, known: Rights) -> None:
    """Give the user these rights, to see groups, and the settings of all topics that are known."""
    literal = ResourcePatternType.LITERAL
    sees = {name for (_, name), kind in known.items() if kind is ResourceType.TOPIC}
    acls = [(kind, name, literal, AclOperation[right]) for (right, name), kind in rights.items()]
    acls += [(ResourceType.TOPIC, name, literal, AclOperation.DESCRIBE_CONFIGS) for name in sees]
    allow(secure, "user", [*acls, (ResourceType.GROUP, "*", literal, AclOperation.DESCRIBE)])


def follow_once(migration: MigrationRun, **more: Any) -> Any:
    """Mirror what is there now, and end."""
    return follow_plan(migration, **{**more, "stopped": lambda: True})


def log_in(secure: SecureBroker, scene: Scene) -> None:
    """Let the worker files of a scene log in as the user, with all clients."""
    lines = login(secure, "user", "PLAIN")
    for client_of in ("consumer", "producer"):
        lines |= {
            f"{client_of}.{name}": value for name, value in lines.items() if name.startswith(("sasl", "sec", "ssl"))
        }
    for file in scene.files:
        kept = re.sub(r"bootstrap.servers=.*\n", "", file.read_text()).splitlines()
        file.write_text("\n".join([*kept, *(f"{name}={value}" for name, value in lines.items())]))


@pytest.mark.xdist_group("secure-broker")
@pytest.mark.parametrize("name", ASKED if LONG else EACH_WAY)
def test_without_a_right_nothing_is_written(
    name: str, secure: SecureBroker, unique: str, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply_command, "follow_plan", follow_once)
    with closing(secure.admin()) as admin:
        scene = Scene(Site(admin.bootstrap_servers, unique, tmp_path), call)
    words, wanted = ASKED[name][0](scene), ASKED[name][1]
    log_in(secure, scene)
    before, known = scene.state(), rights_on(scene.site, wanted)

    few = {each for each in wanted if LONG or each[0] != "READ" or each[2] not in {CONFIG, OFFSET}}
    all_at_once = {each for each in wanted if each[0] != "READ"}
    for missing in [*({each} for each in sorted(few, key=str)), *([all_at_once] if all_at_once else [])]:
        give(secure, rights_on(scene.site, wanted - missing), known)
        code, errors = scene.refused(words)
        assert (code, scene.state()) == (1, before), (missing, errors)
        named = re.findall(r"([A-Z_, ]+) on (?:topic|group) (\S+?)\.?(?: |$)", errors, re.MULTILINE)
        read = re.findall(r"topic (\S+) failed: .* the right ([A-Z]+) on the topic", errors)  # by who reads it first
        named += [(right, topic) for topic, right in read]
        lacking = {(right, of) for rights, of in named for right in re.findall("[A-Z_]+", rights)}
        unseen = {of for right, of in lacking if right == "DESCRIBE"}  # what else is missing there nobody knows
        lacking = {("READ", of) for of in unseen} | {each for each in lacking if each[1] not in unseen}
        assert lacking & {*known} == {*rights_on(scene.site, missing)}, errors
    give(secure, rights_on(scene.site, wanted), known)
    code, errors = scene.run(words)
    assert code == 0, errors


class Steps:
    """Notes what a command asks of topics while it reads, writes and changes, and acts in front of one of these steps."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int, act: Callable[[str, str], None]) -> None:
        self.seen = list[tuple[str, str]]()
        self._at, self._act, self._lock = at, act, threading.RLock()
        alter, create, taken = Admin.alter_topic_configs, Admin.create_topic, self

        class Producing(Producer):
            def __init__(self, settings: dict[str, Any], **more: Any) -> None:
                self.transactional_id = settings.get("transactional.id", "")
                super().__init__(settings, **more)

            def init_transactions(self, *arguments: Any) -> None:
                taken.step("WRITE", self.transactional_id)
                super().init_transactions(*arguments)

            def commit_transaction(self, *arguments: Any) -> None:
                taken.step("WRITE", self.transactional_id)
                super().commit_transaction(*arguments)

            def produce(self, topic: str, *arguments: Any, **more: Any) -> None:
                taken.step("WRITE", topic, self.flush)
                super().produce(topic, *arguments, **more)

        class Reading(Consumer):
            def assign(self, places: list[TopicPartition]) -> None:
                taken.step("READ", places[0].topic)
                super().assign(places)

        def altering(admin: Admin, topic: str, *arguments: Any, **more: Any) -> None:
            if not more.get("validate_only"):
                self.step("ALTER_CONFIGS", topic)
            alter(admin, topic, *arguments, **more)

        def creating(admin: Admin, request: NewTopicRequest, **more: Any) -> None:
            if not more.get("validate_only"):
                self.step("CREATE", request.topic)
            create(admin, request, **more)

        def committing(admin: ConsumerGroupsAdmin, group: str, *arguments: Any) -> None:
            self.step("READ", group)
            commit(admin, group, *arguments)

        def deleting(admin: ConsumerGroupsAdmin, group: str) -> None:
            self.step("DELETE", group)
            delete(admin, group)

        commit, delete = ConsumerGroupsAdmin.alter_group_offsets, ConsumerGroupsAdmin.delete_group
        patch.setattr(ConsumerGroupsAdmin, "alter_group_offsets", committing)
        patch.setattr(ConsumerGroupsAdmin, "delete_group", deleting)
        patch.setattr(client, "Producer", Producing)
        patch.setattr(client, "Consumer", Reading)
        patch.setattr(Admin, "alter_topic_configs", altering)
        patch.setattr(Admin, "create_topic", creating)

    def step(self, right: str, topic: str, settle: Callable[[], object] = int) -> None:
        with self._lock:
            self.seen.append((right, topic))
            if len(self.seen) - 1 == self._at:
                settle()  # what was written before is there
                self._act(right, topic)


def without_secrets(picture: Any) -> Any:
    """What a restore puts back, sealed as the worker file says: no session keys, no requests to restart."""
    return {
        at: {(key, value) for key, (_, value) in values.items() if b"session" not in key and b"restart" not in key}
        for at, (values, _) in picture.items()
    }


@dataclass
class Disturbed:
    """A command that runs as a user from whom a right is taken away in front of one of its steps, and who gets it back."""

    name: str
    secure: SecureBroker
    scene: Scene

    def __post_init__(self) -> None:
        self.words, self.wanted = DISTURBED[self.name][0](self.scene), DISTURBED[self.name][1]
        site = self.scene.site
        site.lay_group("shared", "others.")
        log_in(self.secure, self.scene)
        self.needed = rights_on(site, self.wanted)

    def run(self, at: int = -1, *, other: bool = False) -> tuple[int, str, Steps]:
        self.lost = ("", "")

        def take(right: str, topic: str) -> None:
            another = {"WRITE": "READ", "READ": "WRITE"}.get(right, right), topic
            self.lost = another if other and another in self.needed else (right, topic)
            give(self.secure, {each: kind for each, kind in self.needed.items() if each != self.lost}, self.needed)

        give(self.secure, self.needed, self.needed)
        with pytest.MonkeyPatch.context() as patch:
            steps = Steps(patch, at, take)
            ran = self.scene.run(self.words)
        give(self.secure, self.needed, self.needed)
        return *ran, steps

    def complete(self, errors: str, printed: Printed, before: object, *, takes_back: bool) -> None:
        """Do what the message names: take back and begin again, or go on."""
        if takes_back and (back := re.search(r"(connect-share restore \S+ -w \S+) takes it back", errors)):
            assert printed(back[1], "--yes").code == 0
            assert without_secrets(self.scene.picture()) == without_secrets(before)
        another = self.scene.site.folder / "another.avro"
        again = [another if each == self.scene.beside[1] else each for each in self.words]
        named = re.search(r"(connect-share-migrate \w+ \S+) (?:goes on|continues|completes it)", errors)
        assert named or re.search("same command|run the command again|othing was (written|changed)", errors, re.I), (
            errors
        )
        if named:
            ran = printed(named[1], "--yes")
            assert ran.code == 0, ran
        else:
            ends = "a transaction is open"  # which its own writer might not abort
            code, errors = await_that(
                partial(self.scene.run, again), lambda ran: ends not in ran[1], what="ended", timeout_s=120
            )
            assert code == 0, errors


@pytest.mark.xdist_group("secure-broker")
@pytest.mark.timeout(7_200 if LONG else 600)
@pytest.mark.parametrize("name", DISTURBED if LONG else ["cutover", "alter once"])
def test_a_right_that_is_taken_away_while_it_runs(
    name: str,
    secure: SecureBroker,
    unique: str,
    tmp_path: Path,
    call: Call,
    printed: Printed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is said of what was written is so, and the commands that are named end as a run that nobody disturbs."""

    monkeypatch.setattr(apply_command, "follow_plan", follow_once)

    def disturbed(number: int) -> Disturbed:
        (folder := tmp_path / str(number)).mkdir()
        with closing(secure.admin()) as admin:
            return Disturbed(name, secure, Scene(Site(admin.bootstrap_servers, f"{unique}-{number}", folder), call))

    undisturbed = disturbed(0)
    code, errors, steps = undisturbed.run()
    assert code == 0, errors
    model = undisturbed.scene.picture()
    last = max((at for at, step in enumerate(steps.seen) if step[0] == "WRITE"), default=0)

    # With exactly-once a start reads the statuses alone.
    read = [
        at for at, step in enumerate(steps.seen) if step == ("READ", undisturbed.scene.site.topic("shared", STATUS))
    ]
    few = [10 * at for at in (read[:1] if "once" in name else [last])]
    for number, at in enumerate(range(0, 10 * len(steps.seen), len(steps.seen)) if LONG else few):
        one = disturbed(number + 1)
        scene = one.scene
        was, before = scene.picture(), scene.ends()
        code, errors, _ = one.run(at // 10, other=number % 2 == 1)
        after = scene.ends()
        grown = {topic: end - before.get(topic, 0) for topic, end in after.items() if end != before.get(topic, 0)}
        if code:
            right, topic = one.lost
            assert topic in errors
            assert right in errors or (right == "READ" and "DESCRIBE" in errors), errors
            assert not (grown and re.search("othing was (?:written|changed)$", errors.strip())), errors
            for each, count in re.findall(r"(\S+) ([\d,]+) of [\d,]+[,.]", errors):
                assert grown.get(each, 0) == int(count)
            one.complete(errors, printed, was, takes_back=number % 2 == 0)
        # What a connector has in a topic of its own counts; that the group's does not take it is logged.
        left = set() if code or "own" not in name else {"shared offset"}
        assert {**scene.picture(), **dict.fromkeys(left)} == {**model, **dict.fromkeys(left)}, errors
        assert not [*scene.site.folder.glob(".*.look-due.json")]


def carry_out(site: Site, errors: str) -> int:
    """Do what the printed kafka-configs commands do; return how many they are."""
    with site.admin() as admin:
        for topic, *change in (found := re.findall(r"--entity-name (\S+) --add-config ([a-z.]+)=(\d+)", errors)):
            alter_known(admin, topic, dict([change]))
    return len(found)


AN_HOUR = {"message.timestamp.before.max.ms": "3600000"}


A_LITTLE = {"max.message.bytes": "150"}


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        pytest.param(name, limit, id=f"{name}-{next(iter(limit))}")
        for at, name in enumerate(COMMANDS)
        for limit in ((AN_HOUR, A_LITTLE) if LONG else (AN_HOUR,) if at % 2 else (A_LITTLE,))
    ],
)
def test_what_a_topic_refuses_is_named_before_anything_is_written(
    name: str, limit: dict[str, str], site: Site, call: Call
) -> None:
    """All commands do what they say once the printed commands were run; removals are as old as the topics allow."""
    scene, (prepare, wanted, keeps_times) = Scene(site, call), COMMANDS[name]
    words = prepare(scene)
    written = [(who, kind) for right, who, kind in wanted if right == "WRITE" and isinstance(kind, TopicType)]
    with site.admin() as admin:
        for which in written:
            alter_known(admin, site.topic(*which), limit)
    refused = {
        site.topic(*each) for each in written if limit is not AN_HOUR or (name, *each) != ("cutover", "own", CONFIG)
    }
    before = scene.state()
    if keeps_times or limit is not AN_HOUR:
        code, errors = scene.refused(words)
        assert (code, scene.state()) == (1, before), errors
        assert {*re.findall(r"topic (\S+) takes no records", errors)} == refused, errors
        assert carry_out(site, errors) == len(refused)
    code, errors = scene.run(words)
    assert code == 0, errors


def test_a_mirrored_record_that_a_topic_refuses_is_named_before_anything_is_written(site: Site, call: Call) -> None:
    scene, source = Scene(site, call), site.small_source()
    site.create("shared")
    apply_plan(plan := site.plan(source, site.shared(), intent=Intent(follow=True)))
    site.lay_down("own", CONFIG, [pair("target-state-a.b", '{"state":"STARTED"}')])
    site.lay_down("own", OFFSET, [pair('["a.b",{"filename":"x.txt"}]', json.dumps({"position": "x" * 3_000}))])
    with site.admin() as admin:
        alter_known(admin, site.topic("shared", OFFSET), {"max.message.bytes": "2000"})
    before = scene.state()
    code, errors = scene.run(["cutover", plan])
    assert (code, scene.state()) == (1, before), errors
    assert carry_out(site, errors) == 1
    assert scene.run(["cutover", plan])[0] == 0


def test_a_plan_and_a_check_find_topics_that_refuse_old_records(site: Site, call: Call) -> None:
    site.create("shared", configs=AN_HOUR)
    source, shared = site.small_source(), site.shared()
    with pytest.raises(TopicError, match=r"(takes no records as old as 2023-11-14.*){3}"):
        site.plan(source, shared)
    ran = call("check", "topics", "-w", shared, "--output", "json")
    found = [each for each in ran.json["findings"] if each["kind"] == "old-timestamps"]
    assert (ran.code, sum(carry_out(site, each["command"]) for each in found)) == (1, 3)
    assert "old-timestamps" not in call("check", "topics", "-w", shared, "--output", "json").out
    site.plan(source, shared)


def test_topics_that_are_to_be_created_are_asked_for_in_the_worker_file(site: Site) -> None:
    source, shared = site.small_source(), site.shared()
    text = shared.read_text()
    shared.write_text(f"{text}\nconfig.storage.max.message.bytes=140\n")
    with pytest.raises(TopicError, match=r"so add config\.storage") as caught:
        site.plan(source, shared)
    shared.write_text(f"{text}\n{str(caught.value).rpartition('so add ')[2]}\n")
    assert run("apply", site.plan(source, shared), "--yes")[0] == 0


def test_a_batch_is_not_larger_than_a_topic_takes(site: Site) -> None:
    site.create("shared", configs={"max.message.bytes": "1000"})
    source = site.small_source()
    site.lay_down("own", STATUS, [pair(f"status-connector-{at:03}", RUNNING) for at in range(200)])
    plan = site.plan(source, site.shared())
    assert [run(command, plan, "--yes")[0] for command in ("apply", "rollback")] == [0, 0]
