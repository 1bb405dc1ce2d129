"""What may be refused is asked before the backup and the first write: every command, without each right, with each limit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType

from connect_share.errors import TopicError
from connect_share.model.records import TopicType
from migrator import cutover, moved_source
from migrator.moves import Intent
from migrator.run import manifest_path
from migrator.topic_fence import fence_sources
from tests.lab.secure_broker import SecureBroker
from tests.support.console import Ran
from tests.support.long_forms import LONG
from tests.support.migration_runs import apply_plan, cut_over
from tests.support.migration_site import GROUP, SMALL, Site, pair, run
from tests.support.rights import allow, login
from tests.support.sealed_sites import worker
from tests.support.topics import alter_known

CONFIG, STATUS, OFFSET = TopicType.CONFIG, TopicType.STATUS, TopicType.OFFSET
RUNNING = SMALL[STATUS][0][1]
LATE = (("task-b-0", '{"properties":{"x":"1"}}'), ("commit-b", '{"tasks":1}'), ("connector-b", '{"properties":{}}'))
Call = Callable[..., Ran]
Need = tuple[str, str, TopicType]
"""A right, whose topic, and which."""


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

    def offsets(self) -> list[Any]:
        new = {"offsets": [{"partition": {"filename": "x.txt"}, "offset": {"position": 7}}]}
        (self.site.folder / "new.json").write_text(json.dumps(new))
        return ["-w", self.group(), "--force", "--backup-dir", self.site.folder]

    def planned(self) -> Path:
        self.site.create("shared")
        self.files = [self.site.small_source(), self.site.shared()]
        return self.site.plan(self.files[0], self.files[1])

    def applied(self) -> Path:
        apply_plan(plan := self.planned())
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
        with self.site.admin() as admin:
            topics = admin.describe_topics(name for name in admin.topic_names() if name.startswith(self.site.name))
            ends = admin.end_offsets((name, part.id) for name, topic in topics.items() for part in topic.partitions)
            return ends, admin.settings_of_topics(topics), sorted(self.site.folder.glob("*.avro"))

    def run(self, words: list[Any]) -> tuple[int, str]:
        if words[0] in {"delete", "repair", "restore", "alter", "reset", "copy"}:
            ran = self.call(*words, "--yes")
            return ran.code, ran.err
        code, _, errors = run(*words, "--yes")
        return code, errors


def needs(reads: str, writes: str = "", *more: Need) -> set[Need]:
    """Read all topics of these, write the named ones: ``shared`` is all three, ``own:config`` is one."""
    found = {("READ", who, kind) for who in reads.split() for kind in TopicType}
    for who, _, which in (each.partition(":") for each in writes.split()):
        found |= {("WRITE", who, kind) for kind in TopicType if which in {"", kind.value}}
    return found | {*more}


OPENS = ("ALTER_CONFIGS", "own", CONFIG)
COMMANDS: dict[str, tuple[Callable[[Scene], list[Any]], set[Need], bool]] = {
    "delete": (lambda s: ["delete", "group", GROUP, "-w", s.group(), *s.beside], needs("shared", "shared"), False),
    "order": (lambda s: ["repair", "order", "-w", s.group(), *s.beside], needs("shared", "shared:config"), True),
    "orphans": (lambda s: ["repair", "orphans", "-w", s.group(), *s.beside], needs("shared", "shared:status"), False),
    "restore": (lambda s: ["restore", *s.kept()], needs("shared", "shared"), True),
    "reseal": (lambda s: ["reseal", "-w", s.group(), *s.beside], needs("shared", "shared"), True),
    "alter": (
        lambda s: ["alter", "offsets", "a.b", "--file", s.site.folder / "new.json", *s.offsets()],
        needs("shared", "shared:offset"),
        False,
    ),
    "reset": (lambda s: ["reset", "offsets", "a.b", *s.offsets()], needs("shared", "shared:offset"), False),
    "copy": (lambda s: ["copy", "offsets", "a.b", "--to", "d", *s.offsets()], needs("shared", "shared:offset"), False),
    "apply": (lambda s: ["apply", s.planned()], needs("shared own", "shared"), True),
    "back": (lambda s: ["apply", s.back()], needs("shared own", "own", OPENS), True),
    "resume": (lambda s: ["resume", s.interrupted()], needs("shared own", "shared"), True),
    "cutover": (lambda s: ["cutover", s.applied()], needs("shared own", "shared own:config"), True),
    "seal": (lambda s: ["seal", s.cut()], needs("shared own", "own:config", OPENS), False),
    "unseal": (lambda s: ["unseal", s.cut()], needs("shared own", "own:config", OPENS), False),
    "rollback": (lambda s: ["rollback", s.cut()], needs("shared own", "shared own:config", OPENS), False),
}
"""The words, what is needed, and whether records are written with times that they have."""


@pytest.mark.xdist_group("secure-broker")
@pytest.mark.parametrize("name", COMMANDS)
def test_without_a_right_nothing_is_written(
    name: str, secure: SecureBroker, unique: str, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is taken away behind what seals a source, and given again: the same command completes."""
    with closing(secure.admin()) as admin:
        scene = Scene(Site(admin.bootstrap_servers, unique, tmp_path), call)
    words, wanted = COMMANDS[name][0](scene), COMMANDS[name][1]
    lines = [f"{line}={value}" for line, value in login(secure, "user", "PLAIN").items()]
    for file in scene.files:
        file.write_text("\n".join([*re.sub(r"bootstrap.servers=.*\n", "", file.read_text()).splitlines(), *lines]))
    before, literal = scene.state(), ResourcePatternType.LITERAL

    def on_topics(rights: set[Need]) -> set[tuple[str, str]]:
        return {(right, scene.site.topic(who, kind)) for right, who, kind in rights}

    def run_without(missing: set[Need]) -> tuple[int, str]:
        given = on_topics(wanted - missing) | {("DESCRIBE_CONFIGS", topic) for _, topic in on_topics(wanted)}
        acls = [(ResourceType.TOPIC, topic, literal, AclOperation[right]) for right, topic in given]
        allow(secure, "user", [*acls, (ResourceType.GROUP, "*", literal, AclOperation.DESCRIBE)])
        return scene.run(words)

    def without_fence(*arguments: Any, **more: Any) -> Any:
        monkeypatch.undo()
        with monkeypatch.context() as kept:
            kept.setattr(scene, "run", lambda _: None)
            run_without({("WRITE", "own", CONFIG)})
        return fence_sources(*arguments, **more)

    singles = [{each} for each in sorted(wanted, key=str) if LONG or each[0] != "READ" or each[2] is STATUS]
    for missing in [*singles, {each for each in wanted if each[0] != "READ"}]:
        code, errors = run_without(missing)
        assert (code, scene.state()) == (1, before), (missing, errors)
        named = re.findall(r"([A-Z_, ]+) on topic (\S+)", errors)
        lacking = {(right, topic) for rights, topic in named for right in re.findall("[A-Z_]+", rights)}
        assert lacking & on_topics(wanted) == on_topics(missing), errors
    if name in {"cutover", "seal", "unseal"}:
        monkeypatch.setattr(cutover if name == "unseal" else moved_source, "fence_sources", without_fence)
        code, errors = run_without(set())
        assert (code, "Nothing was written" in errors) == (1, False), errors
        assert (
            "needs the right WRITE on the topic. The record of the fence was not written. What comes before" in errors
        )
    code, errors = run_without(set())
    assert code == 0, errors


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
    written = [(who, kind) for right, who, kind in wanted if right == "WRITE"]
    with site.admin() as admin:
        for which in written:
            alter_known(admin, site.topic(*which), limit)
    refused = {
        site.topic(*each) for each in written if limit is not AN_HOUR or (name, *each) != ("cutover", "own", CONFIG)
    }
    before = scene.state()
    if keeps_times or limit is not AN_HOUR:
        code, errors = scene.run(words)
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
    assert "old-timestamps" not in call("check", "topics", "-w", shared).out
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
