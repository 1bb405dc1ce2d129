"""What a store of the group, which no membership shows, commits while a command writes: nobody is overtaken in silence."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest
from confluent_kafka import KafkaError

from connect_share.backup import rewrite
from connect_share.errors import BrokerError
from connect_share.files import Silent
from connect_share.kafka.admin import Admin, unanswered
from connect_share.kafka.write import CheckedWriter, Producers, half_done, write_records
from connect_share.model.config_state import TargetState
from connect_share.model.records import Record, TopicType
from connect_share.storage import ConnectStorage
from connect_share.worker_config import ClientSettings, WorkerConfig
from migrator import apply, checks, cutover, moved_source
from migrator.copy import copy_job
from migrator.moves import Intent
from migrator.verify import verification
from tests.support.console import Call, Ran
from tests.support.flushes import flush_offsets
from tests.support.killed_rewrite import kill_before_the_look
from tests.support.long_forms import LONG
from tests.support.migration_runs import apply_plan
from tests.support.migration_site import SHARED_PARTITIONS, Site, pair, run, run_well
from tests.support.printed import Printed
from tests.support.sealed_sites import worker
from tests.support.sealed_stores import current_state
from tests.support.topics import ordered_producer
from tests.support.waiting import await_that

KEYS = 30
AT_ONCE = 5
REWRITE, CHANGE = f"{rewrite.__name__}:write_records", f"{ConnectStorage.__module__}:ConnectStorage:"
LOOKS = dict.fromkeys(("delete group", "restore", "repair orphans"), ("connect_share", REWRITE))
LOOKS |= {"reseal": ("migrator", REWRITE), "reset offsets": ("connect_share", f"{CHANGE}reset_offsets")}
LOOKS |= {f"{verb} offsets": ("connect_share", f"{CHANGE}alter_offsets") for verb in ("alter", "copy")}
"""The program of each command, and where it writes."""
RUNS = 40 if LONG else 1
OFFSETS = [(name, number) for number in range(KEYS) for name in ("c", "gone")]


def every_pair(names: Sequence[str], ways: Sequence[str]) -> list[tuple[str, str]]:
    """Each name with each way in the long form, else each of both once or more."""
    return [*product(names, ways)] if LONG else [(name, ways[at % len(ways)]) for at, name in enumerate(names)]


def _limit(site: Site, topic: str, most: str | None, partitions: int = 1) -> None:
    with site.admin() as admin:
        admin.alter_topic_configs(topic, {"max.message.bytes": most})

    def refused() -> int:
        producer, errors = ordered_producer(site.settings), list[Any]()
        for partition in range(partitions):
            producer.produce(topic, b"", b"probe", partition, lambda error, _: errors.append(error))
        assert producer.flush(60) == 0
        return sum(error is not None for error in errors)

    # A broker changes the logs of a topic one after another.
    await_that(refused, (0 if most is None else partitions).__eq__, what="the limit to be that of all partitions")


class _Scene:
    """A group of which one connector is configured and another is gone, and a store of it."""

    def __init__(self, site: Site, call: Call, storage: ConnectStorage, file: Path) -> None:
        self.site, self.call, self.storage, self.file = site, call, storage, file
        self.backup, self.position = site.folder / "all.avro", 918_273_000
        self.committed: dict[tuple[str, int], Any] = {}
        self.config = {"name": "c"}
        self.new = site.folder / "offsets.json"
        pairs = [{"partition": {"n": n}, "offset": {"position": -1}} for n in range(9)]
        self.new.write_text(json.dumps({"offsets": pairs}))
        self.fill()
        worker_config = WorkerConfig.from_file(file)
        stopped = rewrite.StoppedGroup(worker_config, worker_config.cluster_group_id, worker_config.group_id, "test")
        stopped.back_up(self.backup, stopped.facts(), "run", Silent())

    def fill(self) -> None:
        self.storage.config.put_connector_config("c", self.config, None)
        self.position += 1
        for name in ("c", "gone"):
            mine = [({"n": number}, {"position": self.position}) for each, number in OFFSETS if each == name]
            flush_offsets(self.storage.offset_writer(name, transactional=False), *mine)

    def keep_apart(self) -> None:
        """Give the connector an offsets topic of its own, and stop it."""
        self.config = {"name": "c", "offsets.storage.topic": self.site.topic("own", TopicType.OFFSET)}
        self.fill()
        self.storage.config.put_target_state("c", TargetState.STOPPED)

    def commit(self, name: str, number: int) -> None:
        self.position += 1
        self.committed[name, number] = {"position": self.position}
        writer = self.storage.offset_writer(name, transactional=False)
        flush_offsets(writer, ({"n": number}, {"position": self.position}))

    def found(self, name: str, number: int) -> Any:
        self.storage.offsets.refresh()
        return self.storage.offset_reader(name).offset({"n": number})

    def limit(self, topic: str, most: str | None) -> None:
        _limit(self.site, topic, most, SHARED_PARTITIONS[TopicType.OFFSET])

    def words(self, name: str) -> list[str]:
        more = {
            "restore": [str(self.backup)],
            "delete group": ["one"],
            "repair orphans": ["--offsets"],
            "reseal": ["--plain"],
        }
        changed = ["c", "--force", "--backup-dir", str(self.site.folder)]
        more |= {"alter offsets": [*changed, "--file", str(self.new)], "reset offsets": changed}
        more["copy offsets"] = ["gone", "--to", *changed]
        return [*name.split(), *more[name], "-w", str(self.file)]

    def command(self, name: str) -> Ran:
        words = [*self.words(name), "--yes"]
        return Ran(*run(*words)) if name == "reseal" else self.call(*words)


@pytest.fixture
def scene(site: Site, call: Call, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Scene]:
    monkeypatch.chdir(site.folder)  # where printed commands write their backups
    site.create("shared", SHARED_PARTITIONS)
    file = worker(site, "shared", "one", 7, mode="accept")
    with ConnectStorage(WorkerConfig.from_file(file)) as storage:
        yield _Scene(site, call, storage, file)


def put_back(printed: Printed, errors: str, *more: str | Path) -> None:
    """Run the command that a message names."""
    named = re.search(r"connect-share ((?:restore|alter) .*?) (?:puts them|takes it) back", errors)
    assert named is not None, errors
    assert printed(f"connect-share {named[1]}", "--yes", *more).code == 0


def migration(errors: str, verb: str) -> str:
    """The command with a plan that a message names."""
    named = re.search(rf"connect-share-migrate {verb} \S+", errors)
    assert named is not None, errors
    return named[0]


def ends(site: Site) -> int:
    return sum(end for (topic, _), end in site.ends().items() if "-shared-" in topic)


@pytest.fixture
def while_it_writes(site: Site, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Act after some records of the next write: once they lie there, once they are sent, and behind the last, by turns."""

    def place(chosen: random.Random, acts: Sequence[Callable[[], None]], module: Any = rewrite) -> None:
        behind = acts[2::3]
        todo = sorted((chosen.randrange(5, KEYS), at) for at in range(len(acts)) if at % 3 < 2)

        def sending(records: Iterable[Any], there: int) -> Iterator[Any]:
            for number, each in enumerate(records):
                while todo and todo[0][0] <= number:
                    if todo[0][1] % 3 == 0:
                        await_that(partial(ends, site), there.__eq__, what="records")
                    acts[todo.pop(0)[1]]()
                    there += 1
                there += 1
                yield each

        def some(workers: Any, records: Iterable[Any], **more: Any) -> Any:
            done = write_records(workers, sending(records, ends(site)), **more)
            for act in [*(acts[at] for _, at in todo), *behind]:
                act()
            return done

        monkeypatch.setattr(module, "write_records", some)

    return place


@pytest.mark.timeout(7_200 if LONG else 600)
@pytest.mark.parametrize("name", ["reseal", "delete group", "restore", "repair orphans"])
def test_nothing_acknowledged_is_lost_in_silence(
    scene: _Scene, name: str, while_it_writes: Any, monkeypatch: pytest.MonkeyPatch, printed: Printed
) -> None:
    seen, chosen = Counter[str](), random.Random(f"1173 {name}")
    for _ in range(RUNS):
        scene.fill()
        keys = chosen.sample([each for each in OFFSETS if name != "repair orphans" or each[0] == "gone"], AT_ONCE)
        while_it_writes(chosen, [partial(scene.commit, *key) for key in keys])
        ran = scene.command(name)
        monkeypatch.undo()
        assert ran.code == 1, ran
        names = ", ".join(sorted({repr(name) for name, _ in keys}))
        assert f"{AT_ONCE} record(s) under {AT_ONCE} key(s) of {names}" in ran.err
        assert str(scene.position)[:-3] not in ran.err
        lost = [key for key in keys if scene.found(*key) != scene.committed[key]]
        seen.update({"overtaken": len(lost), "last": AT_ONCE - len(lost)})
        assert (f"{len(lost)} of these no longer count" if lost else "What it wrote counts") in ran.err
        if lost:
            put_back(printed, ran.err)
        assert all(scene.found(*key) == scene.committed[key] for key in keys)
        assert ("with --dry-run shows what differs" if name == "restore" else "un the command again") in ran.err
        assert name == "restore" or scene.command(name).code == 0
    print(name, dict(seen))
    assert {*seen} == {"overtaken", "last"}


OWN = " apart"
KILLED = [*LOOKS, *(f"{verb} offsets{OWN}" for verb in ("alter", "reset", "copy"))]


@pytest.mark.parametrize("name", KILLED if LONG else ["reseal", "alter offsets", f"reset offsets{OWN}"])
def test_a_command_that_is_killed_before_it_looks(scene: _Scene, name: str, printed: Printed) -> None:
    """Checks say so, and the command that they print looks."""
    name, own, _ = name.partition(OWN)
    whose, file = "gone" if name == "repair orphans" else "c", scene.file
    if own:
        scene.keep_apart()
    scene.commit("gone", 3)  # else there is nothing to copy
    kill_before_the_look(*LOOKS[name], file, whose, *scene.words(name))
    [found] = scene.call("check", "order", "-w", file, "--output", "json").json["findings"]
    assert (found["id"], found["severity"], found["where"]) == ("look-due", "error", str(file))
    previewed = scene.call(*scene.words(name), "--dry-run") if name.endswith("offsets") else None  # it looks, too
    looked = printed(found["command"])
    ran = previewed or looked
    assert (ran.code, "an earlier command wrote" in ran.err, looked.code) == (1, True, previewed is None), ran
    assert "1 record(s) under 1 key(s) of" in ran.err
    assert "1 of these no longer count" in ran.err
    assert scene.found(whose, 3) != {"position": 7}
    put_back(printed, ran.err)
    assert scene.found(whose, 3) == {"position": 7}
    assert scene.call("check", "order", "-w", file).code == 0
    assert name == "restore" or scene.command(name).code == 0


@pytest.mark.parametrize("words", ["cutover --yes", "cutover --dry-run", *(["rollback --yes"] if LONG else [])])
def test_a_move_that_is_killed_before_it_looks(site: Site, printed: Printed, words: str) -> None:
    """What is hidden is put where the group is now, and the same command ends the move."""
    command, how = words.split()
    source, new = site.small_source(), site.shared("new")
    site.lay_down("own", TopicType.OFFSET, [pair('["a.b",{"n":3}]')])
    apply_plan(plan := site.plan(source, new))
    at = new if command == "rollback" else source
    kill_before_the_look("migrator", f"{moved_source.__name__}:write_records", at, "a.b", command, plan)
    code, _, errors = run(command, plan, how)
    assert (code, "an earlier command wrote" in errors) == (1, True), errors
    put_back(printed, errors)
    assert offsets_at(new, [{"n": 3}]) == [{"position": 7}]
    assert run(command, plan, "--yes", *(["--although-used"] if command == "rollback" else []))[0] == 0


def test_what_old_workers_do_after_a_cutover_that_failed_is_found(
    site: Site, printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can write to the folder of the worker files, so the plan's has the note."""
    monkeypatch.setattr(rewrite, "is_writable_folder", lambda folder: folder != site.folder)
    source, new, folder = site.small_source(), site.shared("new"), site.folder / "plans"
    folder.mkdir()
    apply_plan(plan := site.plan(source, new, "plans/plan.json", Intent(follow=True)))
    with patch.object(moved_source, "write_records", side_effect=BrokerError("no leader")):
        assert "no leader" in run("cutover", plan, "--yes")[2]
    assert [len([*each.glob(".*.look-due.json")]) for each in (folder, site.folder)] == [1, 0]
    assert "has begun to seal the source" in run("apply", plan, "--follow", "--yes")[2]
    site.lay_down("own", TopicType.OFFSET, [pair('["a.b",{"n":3}]', '{"position":7}')])
    code, _, errors = run("cutover", plan, "--yes")
    assert (code, "1 of these were not moved" in errors) == (1, True), errors
    put_back(printed, errors)
    run_well("cutover", plan, "--yes")
    assert offsets_at(new, [{"n": 3}]) == [{"position": 7}]


def offsets_at(file: Path, partitions: Sequence[dict[str, int]]) -> list[Any]:
    with ConnectStorage(WorkerConfig.from_file(file)) as storage:
        return [storage.offset_reader("a.b").offset(each) for each in partitions]


@pytest.mark.timeout(7_200 if LONG else 600)
@pytest.mark.parametrize("name", ["rollback", "cutover", "cutover in place", "seal"])
def test_nothing_acknowledged_is_lost_in_a_move(
    site: Site, printed: Printed, name: str, while_it_writes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source is sealed with ``stop``, in place with ``remove``; what is committed there is put where the group is now."""
    seen, chosen, prefix, who, (command, *_) = Counter[str](), random.Random(name), "", "own", name.split()
    if name == "cutover in place":
        source, prefix, who = site.worker_file("shared", "old", sharing=True), "old.", "shared"
        site.create("shared")
        site.lay_group("shared", prefix)
    else:
        source = site.small_source()
    site.lay_down(who, TopicType.OFFSET, [pair(f'{prefix}["a.b",{{"n":{number}}}]') for number in range(KEYS)])
    for number in range(1 if "place" in name else RUNS):
        new = site.shared(f"new-{number}")
        apply_plan(plan := site.plan(source, new, f"plan-{number}.json"))
        if name == "seal":
            assert run("cutover", plan, "--yes", "--seal", "none")[0] == 0
        partitions = [{"n": each} for each in chosen.sample(range(KEYS), AT_ONCE)]
        with ConnectStorage(WorkerConfig.from_file(new if name == "rollback" else source)) as storage:
            writer = storage.offset_writer("a.b")
            put = {"position": 1_000 + number}
            commits = [partial(flush_offsets, writer, (each, put)) for each in partitions]
            while_it_writes(chosen, commits, moved_source)
            code, _, errors = run(command, plan, "--yes")
            monkeypatch.undo()
        assert (code, f"{AT_ONCE} record(s) under {AT_ONCE} key(s) of 'a.b'" in errors) == (1, True), errors
        lost = AT_ONCE - offsets_at(new, partitions).count(put)
        seen.update({"overtaken": lost, "last": AT_ONCE - lost})
        assert f"{lost} of these {'no longer count' if name == 'rollback' else 'were not moved'}" in errors
        put_back(printed, errors)
        assert run(command, plan, "--yes", *(["--although-used"] if name == "rollback" else []))[0] == 0
        assert offsets_at(new, partitions) == [put] * AT_ONCE
        if name in {"cutover", "seal"} and LONG:
            assert run("unseal", plan, "--yes", "--although-used")[0] == 0
    print(name, dict(seen))


def silent(*_: Any, **__: Any) -> Any:
    raise unanswered("asking", 1)


@pytest.mark.parametrize("what", ["refused", "timed out"])
@pytest.mark.parametrize("command", ["cutover", *(["seal", "unseal", "rollback"] if LONG else [])])
def test_a_source_that_refuses_or_is_silent_in_the_middle(
    site: Site, command: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is lowered when the command has asked for it, or the next wait ends; then the same command completes."""
    source, new, topic = site.small_source(), site.shared("new"), site.topic("own", TopicType.CONFIG)
    write_watched = moved_source.write_watched
    for number in range(10 if LONG else 1):
        apply_plan(plan := site.plan(source, new, f"plan-{number}.json"))
        more = ["--although-used"] if command in {"unseal", "rollback"} else []
        if command != "cutover":
            assert run("cutover", plan, "--yes", *(["--seal", "none"] if command == "seal" else []))[0] == 0

        def refused(*arguments: Any) -> Any:
            monkeypatch.undo()
            _limit(site, topic, "1")
            return write_watched(*arguments)

        def timed_out(*arguments: Any) -> Any:
            done = write_watched(*arguments)
            monkeypatch.undo()
            monkeypatch.setattr(Admin, "_retried", silent)  # as when --timeout ends
            return done

        monkeypatch.setattr(moved_source, "write_watched", refused if what == "refused" else timed_out)
        code, _, errors = run(command, plan, "--yes", *more)
        monkeypatch.undo()
        known = re.search("the same command completes it|Nothing was written|Everything was written.*again", errors)
        assert (code, bool(known)) == (1, True), errors
        _limit(site, topic, None)
        run_well(command, plan, "--yes", *more)
        if command not in {"unseal", "rollback"} and LONG:
            assert run("unseal", plan, "--yes", "--although-used")[0] == 0
        if command != "rollback" and LONG:
            assert run("rollback", plan, "--yes", "--although-used")[0] == 0


@pytest.fixture
def while_it_copies(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Act in front of a copy, between two records of it, and behind the last, by turns."""

    def place(chosen: random.Random, acts: Sequence[Callable[[], None]]) -> None:
        places: dict[str, list[Callable[[], None]]] = {}
        for at, act in enumerate(acts):
            places.setdefault(("front", "batch", "look")[at % 3], []).append(act)

        def acting(function: Callable[..., Any], where: str) -> Callable[..., Any]:
            def acted(*arguments: Any, **more: Any) -> Any:
                for act in places.pop(where, ()):
                    act()
                return function(*arguments, **more)

            return acted

        def mirror(copy: copy_job.PendingCopy, batch: Sequence[Any]) -> None:
            parts, in_halves = [batch], acting(_mirror, "batch")
            if copy.job.slice_.topic_type is TopicType.OFFSET and len(batch) > 1:
                at = chosen.randrange(1, len(batch))
                parts = [batch[:at], batch[at:]]
            _mirror(copy, parts[0])
            if len(parts) > 1:
                copy.writer.producers.get(copy.job.producer_settings, copy.job.client_id).flush(60)
                in_halves(copy, parts[1])

        _mirror = copy_job._mirror
        monkeypatch.setattr(copy_job, "_mirror", mirror)
        monkeypatch.setattr(apply, "times_at_destination", acting(checks.times_at_destination, "front"))
        monkeypatch.setattr(apply, "look_again", acting(verification.look_again, "look"))

    return place


def killed(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.timeout(7_200 if LONG else 600)
@pytest.mark.parametrize("name", ["apply", "killed", "mirrored"])
def test_nothing_acknowledged_is_lost_at_the_destination_of_a_copy(
    site: Site, printed: Printed, name: str, while_it_copies: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store of the new group commits while it is copied; one copy is killed between its last record and the look."""
    seen, chosen, source = Counter[str](), random.Random(name), site.small_source()
    site.create("shared", SHARED_PARTITIONS)

    def lay_down() -> None:
        site.lay_down("own", TopicType.OFFSET, [pair(f'["a.b",{{"n":{number}}}]') for number in range(KEYS)])

    lay_down()
    for number in range(RUNS):
        new, intent = site.shared(f"new-{number}"), Intent(follow=name == "mirrored")
        plan, command = site.plan(source, new, f"plan-{number}.json", intent), "apply"
        if name == "mirrored":
            assert run("apply", plan, "--yes", "--no-backup")[0] == 0
            lay_down()
            command = "cutover"
        partitions = [{"n": each} for each in chosen.sample(range(KEYS), AT_ONCE)]
        with ConnectStorage(WorkerConfig.from_file(new)) as storage:
            writer = storage.offset_writer("a.b")
            commits = [partial(flush_offsets, writer, (each, {"position": 918_273})) for each in partitions]
            while_it_copies(chosen, commits)
            if name == "killed":
                with monkeypatch.context() as ended:
                    ended.setattr(apply, "look_again", killed)
                    done = run(command, plan, "--yes")
                    assert done[0] == 130, done
                command = "resume"
            code, _, errors = run(command, plan, "--yes")
            monkeypatch.undo()
        assert (code, "918273" in errors) == (1, False), errors
        lost = AT_ONCE - offsets_at(new, partitions).count({"position": 918_273})
        seen.update({"overtaken": lost, "last": AT_ONCE - lost})
        assert f"{lost} record(s) under {lost} key(s) of 'a.b'" in errors
        assert f"{lost} of these no longer count" in errors
        put_back(printed, errors)
        if name != "mirrored":
            assert printed(migration(errors, "resume")).code == 0
        code, _, used = run("cutover", plan, "--yes")
        assert (code, "new workers have written since: offset records of 'a.b'" in used) == (1, True), used
        assert printed(migration(used, "seal"), "--yes").code == 0
        assert offsets_at(new, partitions) == [{"position": 918_273}] * AT_ONCE
        assert not LONG or run("unseal", plan, "--yes", "--although-used")[0] == 0
    print(name, dict(seen))
    assert {*seen} == {"overtaken", "last"}


@pytest.mark.timeout(7_200 if LONG else 600)
@pytest.mark.parametrize(("command", "when"), every_pair(("unseal", "rollback"), ("before", "behind")))
def test_a_target_state_that_is_put_while_a_source_is_unsealed(
    site: Site, printed: Printed, command: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, new, number = site.small_source(), site.shared("new"), 0
    site.lay_down("own", TopicType.CONFIG, [pair("target-state-a.b", '{"state":"STARTED"}')])
    with ConnectStorage(WorkerConfig.from_file(source)) as storage:

        def putting(workers: Any, records: Iterable[Any], watched: Any) -> Any:
            monkeypatch.undo()
            known, put = [*records], partial(storage.config.put_target_state, "a.b", TargetState.PAUSED)
            if when == "before":
                put()
            done = write_watched(workers, known, watched)
            if when == "behind":
                put()
            return done

        for number in range(100 if LONG else 1):
            storage.config.put_target_state("a.b", TargetState.STARTED)
            apply_plan(plan := site.plan(source, new, f"plan-{number}.json"))
            assert run("cutover", plan, "--yes")[0] == 0
            write_watched = moved_source.write_watched
            monkeypatch.setattr(moved_source, "write_watched", putting)
            code, _, errors = run(command, plan, "--yes")
            assert (code, "1 record(s) under 1 key(s) of 'a.b'" in errors) == (1, True), errors
            if when == "before":
                assert "1 of these no longer count" in errors
                put_back(printed, errors)
            assert run(command, plan, "--yes")[0] == 0
            storage.config.refresh()
            assert storage.config.snapshot().target_state("a.b") is TargetState.PAUSED
            assert command == "rollback" or not LONG or run("rollback", plan, "--yes", "--although-used")[0] == 0
    print(command, when, number + 1)


def test_a_source_that_grows_while_both_sides_are_compared(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    source, new = site.small_source(), site.shared("new")
    apply_plan(plan := site.plan(source, new))

    def grown(*arguments: Any, **more: Any) -> Any:
        monkeypatch.undo()
        with ConnectStorage(WorkerConfig.from_file(source)) as storage:
            flush_offsets(storage.offset_writer("a.b"), ({"n": 0}, {"position": 1}))
        return verification.compare_sides(*arguments, **more)

    monkeypatch.setattr(cutover, "compare_sides", grown)
    assert run("cutover", plan, "--yes")[0] == 0
    assert offsets_at(new, [{"n": 0}]) == [{"position": 1}]


WHEN = ("before", f"both{OWN}", "behind", f"before{OWN}", "both", f"behind{OWN}")


@pytest.mark.parametrize(("verb", "when"), every_pair(("alter", "reset", "copy"), WHEN))
def test_nothing_acknowledged_is_lost_in_a_change_of_offsets(
    scene: _Scene, verb: str, when: str, monkeypatch: pytest.MonkeyPatch, printed: Printed
) -> None:
    """Between the last look at what is there, and the look at what was written."""
    folder, (when, own, _) = ("--backup-dir", scene.site.folder), when.partition(OWN)
    if own:
        scene.keep_apart()
    scene.commit("gone", 3)  # else there is nothing to copy
    name = "reset_offsets" if verb == "reset" else "alter_offsets"
    change = getattr(ConnectStorage, name)

    def changing(*arguments: Any, **more: Any) -> Any:
        if when != "behind":
            scene.commit("c", 3)
        done = change(*arguments, **more)
        if when != "before":
            scene.commit("c", 4)
        return done

    monkeypatch.setattr(ConnectStorage, name, changing)
    ran = scene.command(f"{verb} offsets")
    monkeypatch.undo()
    assert ran.code == 1, ran
    assert str(scene.position) not in ran.err
    assert ("1 offset of connector 'c' are not what was written: somebody else" in ran.err) == (when != "before")
    if when != "behind":
        assert scene.found("c", 3) != scene.committed["c", 3]
        put_back(printed, ran.err, *folder)
    assert {key: scene.found(*key) for key in scene.committed} == scene.committed


def state(scene: _Scene) -> Any:
    configs, _, offsets = current_state(scene.storage)
    return {name: configs.connector_config(name) for name in configs.connectors()}, dict(offsets.raw)


@pytest.mark.parametrize(
    ("name", "way"), every_pair(("reseal", "delete group", "restore", "repair orphans"), ("taken back", "completed"))
)
def test_half_done_is_said_and_the_commands_that_it_names_work(
    scene: _Scene, name: str, way: str, while_it_writes: Any, monkeypatch: pytest.MonkeyPatch, printed: Printed
) -> None:
    """The broker takes no more of the offsets, from some moment on."""
    before = backed_up = state(scene)
    chosen = random.Random(f"1173 {name} {way}")
    for _ in range(10 if LONG else 1):
        topic = scene.site.topic("shared", TopicType.OFFSET)
        while_it_writes(chosen, [partial(scene.limit, topic, "1")])
        ran = scene.command(name)
        monkeypatch.undo()
        scene.limit(topic, None)
        assert ran.code == 1
        counts = re.search(rf"Half done: .* were acknowledged: .*{topic} (\d+) of (\d+)", ran.err)
        assert counts is not None, ran.err
        assert int(counts[1]) < int(counts[2])
        assert "the same command completes it" in ran.err
        if name != "restore" and way == "taken back":
            put_back(printed, ran.err)
            assert state(scene) == before
            continue
        assert scene.command(name).code == 0
        kept = {key: value for key, value in before[1].items() if b"gone" not in key}
        left = {"delete group": ({}, {}), "repair orphans": (before[0], kept), "restore": backed_up}
        assert state(scene) == left.get(name, before)
        scene.fill()
        before = state(scene)


def test_what_may_be_there_is_not_said_to_be_missing() -> None:
    late = [KafkaError(KafkaError._MSG_TIMED_OUT)]
    writer = CheckedWriter(Producers(), ClientSettings({}), "t", "c", sent=2, failures=late)
    assert "t 0 of 2, and 1 more may have been written" in half_done([writer], "run it again")
    there = CheckedWriter(Producers(), ClientSettings({}), "t", "c", sent=1, acknowledged=1)
    refused = CheckedWriter(Producers(), ClientSettings({}), "t", "c", sent=1)
    assert "t 1 of 1, t 0 of 1" in half_done([there, refused], "run it again")  # of one name, in two clusters


@pytest.mark.parametrize(("offset", "is_lost"), [(2, False), (7, True)])
def test_of_values_sealed_in_one_millisecond_the_last_counts(offset: int, is_lost: bool) -> None:
    theirs, nobody = Record("t", 0, 4, 0, b"k", None, sealed_ms=9), Any
    since = rewrite.Since([theirs], {}, rewrite.Sample())
    since.add_own(Record("t", 0, offset, 0, b"k", None), 9)
    group = rewrite.StoppedGroup(cast("WorkerConfig", nobody), None, "g", "test")
    assert [*group.lost_of(since)] == ([theirs] if is_lost else [])
