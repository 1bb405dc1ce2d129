"""Following a live source, the cut-over, a forgotten one, sealing and unsealing alone, and rollback, on a real broker."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from connect_share.errors import (
    AlreadyAppliedError,
    CutoverError,
    DestinationUsedError,
    LiveMembersError,
    PlanFileError,
    PlanRejectedError,
    SourceChangedError,
)
from connect_share.files import Silent
from connect_share.kafka import client, write
from connect_share.kafka.read import Reader
from connect_share.model.config_state import TargetState
from connect_share.model.records import Record, TopicType
from connect_share.replay import replay_config, replay_offsets
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from migrator.apply import Lag, request_path
from migrator.moves import Intent
from migrator.plan import MigrationPlan
from migrator.run import Manifest, MigrationStatus, manifest_path, only_one
from migrator.verify.equality import StateDifference
from migrator.verify.verification import VerifyJob, local_verify_engine
from tests.support.connect_member import ConnectMember
from tests.support.flushes import flush_offsets
from tests.support.migration_runs import (
    apply_plan,
    cut_over,
    follow_plan,
    preview_cutover,
    preview_seal,
    roll_back,
    seal_plan,
    verify_plan,
)
from tests.support.migration_site import GROUP, SHARED_PARTITIONS, SMALL, Site, pair, run, run_well
from tests.support.topics import COMPACT_NOW, UNTOUCHED, add_partitions, alter_known, pairs_of
from tests.support.waiting import await_that


class Life:
    """What the workers of a live cluster write: offsets that grow, and connectors that come and go."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._ended = threading.Event()
        self.rounds = 0

    def step(self) -> None:
        number = self.rounds
        self.rounds += 1
        name = f"life-{number % 3}"
        gone = number % 5 == 4
        config = [pair(f"connector-{name}", None if gone else json.dumps({"properties": {"round": str(number)}}))]
        if not gone:
            config += [pair(f"task-{name}-0", '{"properties":{}}'), pair(f"commit-{name}", '{"tasks":1}')]
        self._site.lay_down("own", TopicType.CONFIG, config)
        self._site.lay_down("own", TopicType.OFFSET, [pair(f'["{name}",{{"p":{number % 4}}}]', f'{{"at":{number}}}')])

    def run(self) -> None:
        while not self._ended.wait(0.01):
            self.step()

    @contextmanager
    def lived(self) -> Iterator[None]:
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()


def followed_plan(site: Site, **extra: str) -> Path:
    # Record by record is compared: no segment may be rolled (by a record of now behind those of 2023) and cleaned.
    kept = {"segment.ms": "3000000000000"}
    source = site.small_source(group=f"{site.name}-live", configs=kept, **extra)
    site.create("shared", SHARED_PARTITIONS, kept)
    site.lay_down("shared", TopicType.CONFIG, [pair("other.connector-z", '{"properties":{}}')])
    return site.plan(source, site.shared(), intent=Intent(follow=True))


def follower(plan: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "migrator.cli", "apply", str(plan), "--follow", "--yes", "--output", "json"]
    with plan.with_name("follower.log").open("ab") as log:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)


def await_mirrored(plan: Path, process: subprocess.Popen[bytes], more_than: int) -> None:
    def written() -> int:
        assert process.poll() is None, plan.with_name("follower.log").read_text()
        return mirrored(plan)

    await_that(written, lambda found: found > more_than, what=f"beyond {more_than}", timeout_s=180)


def mirrored(plan: Path) -> int:
    path = manifest_path(plan)
    if not path.exists():
        return 0
    followed = Manifest.load(path).followed
    return 0 if followed is None else followed.written


def test_a_verification_keeps_what_was_mirrored_meanwhile(site: Site) -> None:
    plan = followed_plan(site)
    apply_plan(plan)

    def follow_meanwhile(jobs: Sequence[VerifyJob]) -> Iterator[list[StateDifference]]:
        site.lay_down("own", TopicType.OFFSET, [pair('["late",{"p":1}]', '{"at":1}')])
        follow_plan(plan, stopped=lambda: True, report=lambda _: None)
        yield from local_verify_engine(Silent())(jobs)

    before = mirrored(plan)
    assert verify_plan(plan, engine=follow_meanwhile).equal
    assert mirrored(plan) == before + 1
    assert Manifest.load(manifest_path(plan)).status is MigrationStatus.COPIED
    with only_one(plan):
        assert verify_plan(plan).equal
    assert Manifest.load(manifest_path(plan)).status is MigrationStatus.COPIED
    with patch.object(Manifest, "save", side_effect=PlanFileError("no room")):
        assert verify_plan(plan).equal
    assert verify_plan(plan).equal
    assert Manifest.load(manifest_path(plan)).status is MigrationStatus.VERIFIED


def in_order(site: Site, topic_type: TopicType) -> list[tuple[bytes, bytes | None, int]]:
    """Everything the source holds, under the new prefix, per key in order."""
    records = [r for r in site.read(site.topic("own", topic_type)) if r.key is not None]
    skipped = (b"session-key", b"restart-connector-")
    kept = [r for r in records if not (r.key or b"").startswith(skipped)]
    return sorted(((GROUP.encode() + b"." + (r.key or b""), r.value, r.timestamp_ms) for r in kept), key=repr)


def test_a_live_source_is_followed_killed_followed_and_cut_over(site: Site) -> None:
    plan = followed_plan(site)
    life = Life(site)
    with life.lived():
        # Killed while it mirrors, and the next goes on where it was.
        for _ in range(2):
            before = mirrored(plan)
            process = follower(plan)
            await_mirrored(plan, process, before + 40)
            process.kill()
            process.communicate(timeout=180)
        before = mirrored(plan)
        process = follower(plan)
        await_mirrored(plan, process, before)
        with ConnectMember(site.bootstrap_servers, f"{site.name}-live"):
            with pytest.raises(LiveMembersError, match="keep them stopped"):
                cut_over(plan)
            assert preview_cutover_counts(plan, site) == 1
        await_mirrored(plan, process, mirrored(plan))  # a cut-over that is refused ends no run that follows
    # The workers are stopped: the cut-over takes over from the run that follows.
    result = cut_over(plan)
    process.communicate(timeout=180)
    assert process.returncode == 0
    assert result.verification is not None
    assert result.verification.equal
    assert result.manifest.status is MigrationStatus.CUT_OVER
    for topic_type in (TopicType.CONFIG, TopicType.OFFSET):
        # What sealing and a resume after a kill write of their own.
        sealed = [b"target-state-"] if topic_type is TopicType.CONFIG else [b'[" ",{}]']
        expected = [each for each in in_order(site, topic_type) if not any(key in each[0] for key in sealed)]
        copied = [
            r
            for r in site.read(site.topic("shared", topic_type))
            if (r.key or b"").startswith(GROUP.encode() + b".") and not any(key in (r.key or b"") for key in sealed)
        ]
        assert sorted(((r.key, r.value, r.timestamp_ms) for r in copied), key=repr) == expected  # none lost, none twice
    sides = ("shared", GROUP), ("own", None)
    new, old = (replay_config(site.read(site.topic(who, TopicType.CONFIG)), group) for who, group in sides)
    assert new.connectors() == old.connectors()
    assert {new.target_state(name) for name in new.connectors() - {"a.b"}} == {TargetState.STARTED}
    # Sealed: a worker that is started on the old topics runs nothing.
    assert {old.target_state(name) for name in old.connectors()} == {TargetState.STOPPED}
    with pytest.raises(AlreadyAppliedError, match="cut_over"):
        cut_over(plan)
    assert verify_plan(plan).equal
    # New workers write: what they touched is not judged, all else still is.
    keys = [f'{GROUP}.["{name}",{{"p":1}}]'.encode() for name in ("life-1", "other")]
    site.produce(pairs_of(site.topic("shared", TopicType.OFFSET), [(key, b"{}") for key in keys]))
    verification = verify_plan(plan)
    assert verification.equal, verification.differences
    assert any("'life-1', 'other' was not judged" in warning for warning in verification.warnings)

    # And back: only what the plan wrote goes, and the old cluster runs what it ran.
    with pytest.raises(PlanRejectedError, match="--although-used"):
        roll_back(plan)
    assert roll_back(plan, although_used=True).records > 0
    assert replay_config(site.read(site.topic("shared", TopicType.CONFIG)), GROUP).connectors() == frozenset()
    offsets = replay_offsets(site.read(site.topic("shared", TopicType.OFFSET)), GROUP)
    assert offsets.raw.keys() == {b'["life-1",{"p":1}]', b'["other",{"p":1}]'}
    assert replay_config(site.read(site.topic("shared", TopicType.CONFIG)), "other").connectors() == {"z"}
    old = replay_config(site.read(site.topic("own", TopicType.CONFIG)))
    assert {old.target_state(name) for name in old.connectors() - {"a.b"}} == {TargetState.STARTED}
    assert old.target_state("a.b") is TargetState.STOPPED  # as it was


def preview_cutover_counts(plan: Path, site: Site) -> int:
    code, out, errors = run("cutover", plan, "--dry-run", "--output", "json")
    shown = json.loads(out)
    assert shown["seal"] == "stop"
    live: int = shown["live_workers"][f"{site.name}-live"]
    assert (code, "are alive: stop them all" in errors) == (live, live > 0)
    return live


def test_following_for_long_asks_the_brokers_for_no_more(site: Site) -> None:
    """No round needs a producer of its own, and none reads at the destination what another has looked at."""
    plan, lags = followed_plan(site), list[int]()
    apply_plan(plan)

    def live(lag: Lag) -> None:
        lags.append(lag.offsets)
        if len(lags) == 1:
            read.reset_mock()
        site.lay_down("shared", TopicType.STATUS, [pair("other.status-connector-z", "{}", at) for at in (0, 1, 2)])
        site.lay_down("own", TopicType.STATUS, [pair(f"status-connector-a.{len(lags)}")])

    with (
        patch.object(write, "KeptProducer", side_effect=write.KeptProducer) as made,
        patch.object(Reader, "batches", autospec=True, side_effect=Reader.batches) as read,
    ):
        follow_plan(plan, stopped=lambda: len(lags) == 5, report=live)
    ranges = [part for call in read.call_args_list for part in call.args[1] if "-shared-" in part.topic]
    looked = Counter((part[:2], offset) for part in ranges for offset in range(part.start, part.end))
    assert (made.call_count, sum(lags), mirrored(plan), {*looked.values()}) == (1, 4, 4, {1})


def test_partitions_that_a_source_gets_end_the_mirror(site: Site) -> None:
    apply_plan(plan := followed_plan(site))

    def grow(_: Lag) -> None:
        with site.admin() as admin:
            add_partitions(admin, site.settings, site.topic("own", TopicType.OFFSET), 6)

    with pytest.raises(SourceChangedError, match="other partitions than planned"):
        follow_plan(plan, stopped=lambda: False, report=grow)


def test_ctrl_c_ends_following_and_apply_goes_on(site: Site) -> None:
    plan = followed_plan(site)
    request_path(plan).touch()  # of a cut-over that was killed while it waited
    process = follower(plan)
    await_that(lambda: manifest_path(plan).exists() and Manifest.load(manifest_path(plan)).followed, what="following")
    await_that(lambda: not request_path(plan).exists() or process.poll() is not None, what="forgotten")
    Life(site).step()
    await_mirrored(plan, process, 0)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=180)
    assert process.returncode == 0
    assert json.loads(out)["manifest"]["followed"]["written"] == mirrored(plan)
    assert "dry run: nothing was written" in run_well("apply", plan, "--follow", "--dry-run")
    assert "start the new workers now" in run_well("cutover", plan, "--yes", "--seal", "none")
    assert Manifest.load(manifest_path(plan)).sealed is None


def test_exactly_once_producers_are_fenced(site: Site) -> None:
    plan = followed_plan(site, exactly_once_source_support="enabled")
    group = f"{site.name}-live"
    overrides = {"transactional.id": f"{group}-a.b-0", "transaction.timeout.ms": "60000"}
    zombie = client.producer(site.settings, client_id="test", overrides=overrides)
    zombie.init_transactions(120)
    steps = [step.what for step in MigrationPlan.load(plan).steps]
    assert f"cutover: copy what is left, verify, fence the producers of {group}, and seal" in " ".join(steps)
    assert [step for step in steps if step.startswith("stop")] == [
        f"stop all workers of {each} and keep them stopped" for each in (GROUP, group)
    ]
    apply_plan(plan)
    assert set(preview_cutover(plan).transactional_ids) == {f"connect-cluster-{group}", f"{group}-a.b-0"}
    assert cut_over(plan).fenced == 2
    zombie.begin_transaction()
    zombie.produce(site.topic("own", TopicType.OFFSET), key=b'["a.b",{}]', value=b"{}")
    with pytest.raises(client.KafkaException):
        zombie.commit_transaction(120)


def test_a_number_of_tasks_that_cannot_be_true_fences_no_producer(site: Site) -> None:
    source = site.small_source(exactly_once_source_support="enabled")
    many = [pair("connector-x", '{"properties":{}}'), pair("tasks-fencing-x", '{"task-count":2147483647}')]
    site.lay_down("own", TopicType.CONFIG, many)
    plan = site.plan(source, site.shared())
    apply_plan(plan)
    code, _, err = run("cutover", plan, "--yes")
    assert code == 1
    assert "connector 'x' has 2147483647 tasks" in err
    assert Manifest.load(manifest_path(plan)).status is not MigrationStatus.CUT_OVER


def test_a_difference_stops_the_cutover_before_anything_is_sealed(site: Site) -> None:
    plan = site.plan(site.small_source(), site.shared())
    apply_plan(plan)
    site.produce([Record(site.topic("shared", TopicType.CONFIG), 0, 0, 1, f"{GROUP}.connector-a.b".encode(), None)])
    with pytest.raises(CutoverError, match="verify"):
        cut_over(plan)
    state = replay_config(site.read(site.topic("own", TopicType.CONFIG)))
    assert state.target_state("a.b") is TargetState.STOPPED
    assert Manifest.load(manifest_path(plan)).status is not MigrationStatus.CUT_OVER


@pytest.mark.parametrize("later", [{}, {"message.timestamp.before.max.ms": "3600000"}], ids=["stamped", "no old ones"])
def test_an_apply_that_did_not_end_is_rolled_back(site: Site, later: dict[str, str]) -> None:
    site.create("shared", SHARED_PARTITIONS, {} if later else {"message.timestamp.type": "LogAppendTime"})
    manifest = apply_plan(plan := site.plan(site.small_source(), site.shared()))
    interrupted = {"status": MigrationStatus.PLANNED, "evidence": manifest.evidence[:1]}
    manifest.model_copy(update=interrupted).save(manifest_path(plan))
    with site.admin() as admin:
        alter_known(admin, site.topic("shared", TopicType.STATUS), later)
    for words in ("--dry-run", "--yes"):
        out = json.loads(run("rollback", plan, words, "--output", "json")[1])
        assert (out["dry_run"], out["removed"]) == (words == "--dry-run", {"config": 4, "status": 2, "offset": 1})
    written = site.read(site.topic("shared", TopicType.CONFIG))
    assert replay_config(written, GROUP).connectors() == frozenset()
    assert (written[-1].key, written[-1].value) == (f"{GROUP}.target-state-".encode(), b"null")
    assert run("rollback", plan, "--yes")[0] == 1
    assert "says that what was written was removed again" in run("verify", plan)[1]


def test_what_the_cleaner_has_taken_at_the_source_is_rolled_back(site: Site) -> None:
    """As where old workers go on: what was copied of them is no record of new workers."""
    plan = site.plan(site.small_source(configs=UNTOUCHED), site.shared(), intent=Intent(follow=True))
    apply_plan(plan)
    topic, ((key, value, _),) = site.topic("own", TopicType.OFFSET), SMALL[TopicType.OFFSET]
    with site.admin() as admin:
        alter_known(admin, topic, COMPACT_NOW)

    def cleaned() -> bool:
        site.produce(pairs_of(topic, [(key.encode(), b"{}")]))
        return value.encode() not in [record.value for record in site.read(topic)]

    await_that(cleaned, what="cleaned")
    assert (roll_back(plan).newer, position(site)) == ({}, None)


def test_following_needs_a_plan_made_for_it(site: Site) -> None:
    source = site.small_source()
    files = ("--source-worker-config", source, "--destination-worker-config", site.shared())
    followed = site.folder / "followed.json"
    assert run("plan", *files, "--follow", "-o", followed)[1].endswith(f"apply {followed} --follow\n")
    plan = site.plan(source, site.shared())
    assert "make a plan with --follow" in run("apply", plan, "--follow", "--yes")[2]
    apply_plan(plan)
    with pytest.raises(PlanRejectedError, match="--follow"):
        follow_plan(plan, stopped=lambda: True, report=lambda _: None)


FILE = {"filename": "x.txt"}


def work(worker_file: Path, position: int) -> None:
    """Do what new workers do: go on with the source connector."""
    with ConnectStorage(WorkerConfig.from_file(worker_file)) as storage:
        flush_offsets(storage.offset_writer("a.b"), (FILE, {"position": position}))


def states(site: Site) -> dict[str, TargetState | None]:
    state = replay_config(site.read(site.topic("own", TopicType.CONFIG)))
    return {name: state.target_state(name) for name in state.connectors()}


def position(site: Site, group: str = GROUP) -> object:
    offsets = replay_offsets(site.read(site.topic("shared", TopicType.OFFSET)), group)
    return offsets.offset("a.b", FILE)


def test_a_forgotten_cutover_starts_no_old_worker(site: Site) -> None:
    old, new = f"{site.name}-old", f"{site.name}-new"  # members are seen by every test that shares the broker
    source = site.small_source(group=old, exactly_once_source_support="enabled")
    second = [pair("connector-second", '{"properties":{}}'), pair("target-state-second", '{"state":"PAUSED"}')]
    site.lay_down("own", TopicType.CONFIG, [*second, pair("connector-third", '{"properties":{}}')])
    before = {"a.b": TargetState.STOPPED, "second": TargetState.PAUSED, "third": TargetState.STARTED}
    plan = site.plan(source, site.shared(new))
    apply_plan(plan)
    with pytest.raises(PlanRejectedError, match=r"no new worker has written since the copy: .* cutover"):
        preview_seal(plan)
    assert "is not sealed" in run("unseal", plan, "--yes")[2]
    work(site.shared(new), 99)
    for verb in (("cutover", plan, "--yes"), ("cutover", plan, "--dry-run")):
        code, _, said = run(*verb)
        assert code == 1
        assert f"new workers have written since: offset records of 'a.b' under {new}. Do not start the old" in said
        assert f"connect-share-migrate seal {plan}" in said
        assert "may be started" not in said
    with ConnectMember(site.bootstrap_servers, new):
        assert "Do not start the old ones" in run("cutover", plan, "--yes")[2]
    code, said, _ = run("verify", plan)
    assert code == 1
    assert "warning: new workers have written since: offset records of 'a.b'; do not start the old ones" in said
    assert states(site) == before

    # Sealed at last, while the new ones run; an old one that runs is found.
    with ConnectMember(site.bootstrap_servers, old), pytest.raises(LiveMembersError):
        seal_plan(plan)
    with ConnectMember(site.bootstrap_servers, new):
        code, said, _ = run("seal", plan, "--yes", "--output", "json")
    assert code == 0
    assert json.loads(said)["fenced"] == 2
    assert set(states(site).values()) == {TargetState.STOPPED}
    assert Manifest.load(manifest_path(plan)).status is MigrationStatus.CUT_OVER
    assert position(site, new) == {"position": 99}
    code, said, _ = run("verify", plan)
    assert (code, "'a.b' was not judged" in said) == (0, True)

    # And back, by whoever knows what was done meanwhile; one was stopped before.
    for end in ("--dry-run", "--yes"):
        code, said, errors = run("unseal", plan, end)
        assert (code, "2 connector(s)" in said + errors, "again; --although-used unseals" in errors) == (1, True, True)
    assert "would do the same work again" in run("unseal", plan, "--although-used", "--dry-run")[1]
    assert run("unseal", plan, "--yes", "--although-used")[0] == 0
    assert states(site) == before
    code, said, errors = run("rollback", plan, "--dry-run")
    assert (code, "needs --although-used" in said, "--although-used removes what" in errors) == (1, True, True)
    assert json.loads(run("rollback", plan, "--dry-run", "--output", "json")[1])["needs_although_used"] is True
    assert run("rollback", plan, "--although-used", "--yes")[0] == 0
    assert "nothing to seal" in run("seal", plan, "--yes")[2]


def test_nothing_is_mirrored_over_what_new_workers_wrote(site: Site) -> None:
    source = site.small_source(configs={"segment.ms": "3000000000000"})
    site.create("shared", SHARED_PARTITIONS)
    plan = site.plan(source, site.shared(), intent=Intent(follow=True))
    apply_plan(plan)
    follow_plan(plan, stopped=lambda: True, report=lambda _: None)
    assert "the copy, which has ended" in run("apply", plan, "--follow", "--isolation-proof", "--yes")[2]
    site.lay_down("own", TopicType.OFFSET, [pair('["a.b",{"filename":"x.txt"}]', '{"position":50}')])
    noted = Manifest.load(manifest_path(plan))
    follow_plan(plan, stopped=lambda: True, report=lambda _: None)
    noted.save(manifest_path(plan))  # killed before the round was written down: those records are the plan's own
    assert preview_cutover(plan).how == "stop"
    site.lay_down("own", TopicType.OFFSET, [pair('["a.b",{"filename":"x.txt"}]', '{"position":51}')])
    work(site.shared(), 99)
    with pytest.raises(DestinationUsedError):
        cut_over(plan)
    with pytest.raises(DestinationUsedError):
        follow_plan(plan, stopped=lambda: True, report=lambda _: None)
    assert position(site) == {"position": 99}


def test_what_an_exit_left_is_removed_later_while_new_workers_run(site: Site) -> None:
    group = f"{site.name}-live"  # members are seen by every test that shares the broker
    site.create("shared", SHARED_PARTITIONS)
    source = site.small_source()
    there = site.plan(source, site.shared(group), "there.json")
    apply_plan(there)
    cut_over(there)
    site.lay_down("shared", TopicType.CONFIG, [pair(f"{group}.session-key", "{}"), pair("other.connector-z", "{}")])
    plain = site.worker_file("fresh", group, sharing=False)
    out = site.plan(site.shared(group), plain, "out.json")
    apply_plan(out)
    cut_over(out)
    before = site.read(site.topic("fresh", TopicType.CONFIG))
    with ConnectMember(site.bootstrap_servers, group):
        code, said, _ = run("seal", out, "--seal", "remove", "--dry-run")
        assert (code, "make sure that they are the new ones" in said) == (0, True)
        assert "a tombstone for each record" in said
        assert run("seal", out, "--seal", "remove", "--yes")[0] == 0
    for topic_type in TopicType:
        newest = {record.key: record.value for record in site.read(site.topic("shared", topic_type))}
        living = {key for key, value in newest.items() if value not in {None, b"null"}}
        fence = f"{group}.target-state-".encode()  # so that no old worker starts
        assert living == ({b"other.connector-z", fence} if topic_type is TopicType.CONFIG else set())
    assert site.read(site.topic("fresh", TopicType.CONFIG)) == before
    with pytest.raises(AlreadyAppliedError, match="no connector is left to stop"):
        seal_plan(out, "stop")
    assert f"restore {out.with_name('out.backup.avro')}" in run("unseal", out, "--yes")[2]
    assert "seal and unseal" in run("cutover", out, "--yes")[2]
    # Sealing once more changes nothing, and one may come in again.
    assert seal_plan(out).manifest.sealed is not None
    apply_plan(site.plan(plain, site.shared(group), "again.json"))


def test_a_cutover_that_was_killed_while_it_sealed_is_repeated(site: Site) -> None:
    """Of workers that were stopped before: what it had written is no growth of the source."""
    source = site.small_source()
    site.lay_down("own", TopicType.CONFIG, [pair("connector-second", '{"properties":{}}')])
    plan = site.plan(source, site.shared())
    apply_plan(plan)
    done = cut_over(plan).manifest
    assert done.sealed is not None
    assert done.sealed.target_states == ({"a.b": TargetState.STOPPED, "second": TargetState.STARTED},)
    killed = {"status": MigrationStatus.VERIFIED, "finished_at_ms": None}
    done.model_copy(update=killed).save(manifest_path(plan))
    assert "begun to seal with stop" in run("cutover", plan, "--yes", "--seal", "none")[2]
    assert run("cutover", plan, "--yes")[0] == 0
    assert set(states(site).values()) == {TargetState.STOPPED}
    assert Manifest.load(manifest_path(plan)).status is MigrationStatus.CUT_OVER


def test_what_was_mirrored_is_backed_up_before_it_is_removed(site: Site) -> None:
    """Of one connector of several, and taken back in the end."""
    source = site.small_source(configs={"segment.ms": "3000000000000"})
    site.lay_down("own", TopicType.CONFIG, [pair("connector-stays", '{"properties":{}}')])
    plan = site.plan(source, site.shared(), intent=Intent(follow=True, job="a.b"))
    assert run("apply", plan, "--yes")[0] == 0
    site.lay_down("own", TopicType.OFFSET, [pair('["a.b",{"filename":"x.txt"}]', '{"position":50}')])
    site.lay_down("own", TopicType.OFFSET, [pair('["stays",{}]', "{}")])
    run_well("cutover", plan, "--seal", "remove", "--yes")
    manifest = Manifest.load(manifest_path(plan))
    assert manifest.mirrored_backup is not None
    assert manifest.mirrored_backup.records == 2  # both are of this group
    assert position(site) == {"position": 50}
    assert states(site).keys() == {"stays"}
    code, _, said = run("rollback", plan, "--yes")
    assert code == 1
    commands = re.findall(r"connect-share-migrate (restore \S+ --destination-worker-config [^\s,]+)", said)
    assert [Path(each.split()[1]).name for each in commands] == ["plan.backup.avro", "plan.mirrored.avro"]
    for each in commands:
        assert run(*each.split(), "--yes")[0] == 0
    assert run("rollback", plan, "--yes")[0] == 0
    assert position(site) is None
    assert states(site)["a.b"] is TargetState.STOPPED
    own = replay_offsets(site.read(site.topic("own", TopicType.OFFSET)))
    assert own.offset("a.b", FILE) == {"position": 50}


def test_the_evidence_of_another_plan_is_refused_before_the_question(site: Site) -> None:
    plan, others = site.plan(site.small_source(), site.shared()), site.folder / "others"
    others.mkdir()
    (others / "plan.json").write_text(plan.read_text().replace(MigrationPlan.load(plan).run_id, "another"))
    for verb in ("apply", "cutover", "seal", "unseal", "rollback"):
        for end in ("--dry-run", "--yes"):
            code, _, said = run(verb, plan, end, "--evidence", others)
            assert (code, "holds the evidence of another plan" in said) == (1, True), (verb, said)
        run_well(verb, plan, "--yes")


def test_unsealed_followed_and_cut_over_again(site: Site) -> None:
    source = site.small_source(configs={"segment.ms": "3000000000000"})
    paused = [pair("connector-second", '{"properties":{}}'), pair("target-state-second", '{"state":"PAUSED"}')]
    site.lay_down("own", TopicType.CONFIG, paused)
    log_append = {"message.timestamp.type": "LogAppendTime"}  # records are recognised all the same
    site.create("shared", SHARED_PARTITIONS, log_append)
    plan = site.plan(source, site.shared(), intent=Intent(follow=True))
    apply_plan(plan)
    for at in range(2):
        site.lay_down("own", TopicType.OFFSET, [pair('["a.b",{"filename":"x.txt"}]', f'{{"position":{at}}}')])
        noted = Manifest.load(manifest_path(plan))
        follow_plan(plan, stopped=lambda: True, report=lambda _: None)
        if at:
            noted.save(manifest_path(plan))  # a round that was killed
        verification = cut_over(plan).verification
        assert verification is not None
        assert verification.equal
        assert position(site) == {"position": at}
        assert set(states(site).values()) == {TargetState.STOPPED}
        assert run("unseal", plan, "--yes")[0] == 0
        assert states(site)["second"] is TargetState.PAUSED
    new = replay_config(site.read(site.topic("shared", TopicType.CONFIG)), GROUP)
    assert new.target_state("second") is TargetState.PAUSED
