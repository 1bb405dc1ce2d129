"""The task runner over topics in memory: what it runs, what it says of it, and what it lets go."""

from __future__ import annotations

import asyncio
import itertools
import threading
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar
from unittest.mock import MagicMock

import pytest

from connect_share import (
    AsyncMemoryConnectStorage,
    ConnectorStatus,
    ConnectorTaskId,
    MemoryConnectStorage,
    MemoryKafka,
    RestartRequest,
    State,
    TargetState,
    TaskStatus,
    WorkerConfig,
)
from connect_share.errors import GroupMembershipError, LogFailedError, NotStartedError, StoreClosedError
from connect_share.kafka.client import KafkaError, KafkaException
from connect_share.model.config import TaskConfigsUpdated
from connect_share.runtime import Generation, SoleMember
from connect_share.stores.transactional_writer import TransactionalWriter
from connect_share.tasks import RetriableError, SinkTask, SourceRecord, SourceTask, TaskRunner
from connect_share.tasks.running import RunningSource
from tests.support.waiting import await_that
from tests.support.worker_files import WORKER, providers

PLACE = {"source": 1}


class Words(SourceTask):
    """Gives the words of ``words`` once, in tasks of one word each."""

    stopped: ClassVar[list[str]] = []
    committed: ClassVar[list[bytes]] = []

    @classmethod
    def task_configs(cls, config: Mapping[str, str], max_tasks: int) -> list[dict[str, Any]]:
        return [{"word": 1 if word == "1" else word, "topic": config["topic"]} for word in config["words"].split()]

    def start(self, config: Mapping[str, str]) -> None:
        self._config = config
        self._given = self.context.offset({"word": config["word"]}) is not None

    def poll(self) -> Iterator[SourceRecord]:
        if self._config["word"] == "fail":
            raise RuntimeError("cannot read with hunter2secret")
        if not self._given:
            self._given, word = True, self._config["word"]
            value: Any = word if word == "text" else word.encode()
            yield SourceRecord({"word": word}, {"given": 1}, self._config["topic"], value)

    def commit_record(self, record: SourceRecord) -> None:
        self.committed.append(record.value or b"")
        raise RuntimeError("which is heard, and no more")

    def stop(self) -> None:
        self.stopped.append(self._config["word"])


class Hesitating(SourceTask):
    """Cannot give its record at first."""

    polls = 0

    def poll(self) -> list[SourceRecord]:
        self.polls += 1
        if self.polls < 4:
            raise RetriableError("hunter2secret is not there yet")
        return [SourceRecord(PLACE, {"n": 1}, "late", b"came")] if self.polls == 4 else []


class Stuck(SourceTask):
    """Ends later than anybody waits, and then has a record."""

    release = threading.Event()

    def poll(self) -> list[SourceRecord]:
        self.release.wait(300)
        return [SourceRecord(PLACE, {"n": 1}, "stuck", b"late")]


class Waiting(SourceTask):
    """A coroutine that waits for ever once it has given a record."""

    @types.coroutine
    def start(self, config: Mapping[str, str]) -> Any:
        self._stored = yield from asyncio.to_thread(self.context.offset, PLACE).__await__()

    async def poll(self) -> Sequence[SourceRecord]:
        if self._stored is not None:
            await asyncio.sleep(3600)
        self._stored = {"n": 1}
        return [SourceRecord(PLACE, self._stored, "waited", b"one")]


class Late(Words):
    made = 0

    def __init__(self) -> None:
        Late.made += 1
        if Late.made == 1:
            Stuck.release.wait(300)


CONNECTORS = {"Words": Words, "Stuck": Stuck, "Waiting": Waiting, "Hesitating": Hesitating, "Late": Late}
Make = Callable[..., TaskRunner]


@pytest.fixture
def kafka() -> MemoryKafka:
    Words.stopped, Words.committed = [], []
    Stuck.release.clear()
    return MemoryKafka()


@pytest.fixture(params=["enabled", "disabled"])
def make(kafka: MemoryKafka, request: pytest.FixtureRequest) -> Iterator[Make]:
    def make(**more: str) -> TaskRunner:
        properties = {**WORKER, "exactly.once.source.support": request.param, "offset.flush.interval.ms": "0"}
        properties |= {name.replace("_", "."): value for name, value in more.items()}
        return TaskRunner(
            WorkerConfig.from_properties(properties),
            CONNECTORS,
            worker_url="http://here:8083/",
            storage=partial(MemoryConnectStorage, kafka=kafka),
            member=SoleMember,
        )

    yield make
    Stuck.release.set()


def put(runner: TaskRunner, name: str, **config: str) -> None:
    given = {"topic": "words", "tasks.max": "9", **{key.replace("_", "."): value for key, value in config.items()}}
    runner.storage.config.claim_write_privileges()
    runner.storage.config.put_connector_config(name, given)


def states(runner: TaskRunner, name: str) -> Any:
    """State of a connector, and of its tasks by number."""
    found = runner.storage.status.snapshot()
    connector = found.connector_status(name)
    return connector and connector.state.name, {
        each.task_id.task: each.state.name for each in found.task_statuses(name)
    }


def await_states(runner: TaskRunner, name: str, connector: str | None, *tasks: str) -> None:
    wanted = (connector, dict(enumerate(tasks)))
    await_that(lambda: states(runner, name), lambda found: found == wanted, what=f"{name}: {wanted}")


def values(kafka: MemoryKafka, topic: str) -> list[bytes]:
    return [record.value or b"" for record in kafka.records(topic)]


def await_values(kafka: MemoryKafka, topic: str, *wanted: bytes) -> None:
    await_that(lambda: sorted(values(kafka, topic)), lambda found: found == [*wanted], what=str(wanted))


def test_a_connector_from_its_first_configuration_to_its_removal(make: Make, kafka: MemoryKafka) -> None:
    with make() as runner:
        put(runner, "c", connector_class="Words", words="a b")
        await_states(runner, "c", "RUNNING", "RUNNING", "RUNNING")
        await_values(kafka, "words", b"a", b"b")
        await_that(lambda: sorted(Words.committed), lambda found: found == [b"a", b"b"], what="committed")
        assert runner.storage.offset_reader("c").offset({"word": "b"}) == {"given": 1}
        assert runner.storage.status.snapshot().topics("c") == {"words"}
        assert runner.storage.status.get("c") == ConnectorStatus("c", State.RUNNING, "here:8083", 1)
        assert runner.storage.status.get(ConnectorTaskId("c", 0)) == TaskStatus(
            ConnectorTaskId("c", 0), State.RUNNING, "here:8083", 1
        )
        runner.storage.config.put_target_state("c", TargetState.PAUSED)
        await_states(runner, "c", "PAUSED", "PAUSED", "PAUSED")
        runner.storage.config.put_target_state("c", TargetState.STARTED)
        await_states(runner, "c", "RUNNING", "RUNNING", "RUNNING")
        # Other tasks: those of before are fenced where they have transactions, and what they gave is not given again.
        put(runner, "c", connector_class="Words", words="a b c")
        await_states(runner, "c", "RUNNING", "RUNNING", "RUNNING", "RUNNING")
        await_values(kafka, "words", b"a", b"b", b"c")
        exactly_once = runner.config.exactly_once_source_support == "enabled"
        assert runner.storage.config.snapshot().task_count_record("c") == (3 if exactly_once else None)
        runner.storage.config.put_target_state("c", TargetState.STOPPED)
        await_states(runner, "c", "STOPPED")
        assert runner.storage.config.snapshot().tasks("c") == []
        runner.storage.config.remove_connector_config("c")
        await_states(runner, "c", None)
    assert set(Words.stopped) == {"a", "b", "c"}


def test_a_task_that_fails_says_why_without_secrets_and_is_restarted(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DB_PASSWORD", "hunter2secret")
    with make(**providers(env="EnvVar")) as runner:
        put(runner, "c", connector_class="Words", words="a fail", password="${env:DB_PASSWORD}")
        await_states(runner, "c", "RUNNING", "RUNNING", "FAILED")
        (trace,) = [each.trace for each in runner.storage.status.snapshot().task_statuses("c") if each.trace]
        assert "RuntimeError: cannot read with [hidden]" in trace
        assert "in poll" in trace
        before = len(Words.stopped)
        runner.storage.config.put_restart_request(RestartRequest("c", only_failed=True, include_tasks=True))
        await_that(lambda: Words.stopped[before:], lambda found: found == ["fail"], what="restarted")
        await_states(runner, "c", "RUNNING", "RUNNING", "FAILED")
        monkeypatch.setattr(Words, "commit", Waiting.poll)
        for kind, words, why in (
            ("Words", "text", "bytes"),
            ("Waiting", "a", "async with"),
            ("Words", "b", "async with"),
        ):
            put(runner, words, connector_class=kind, words=words, tasks_max="1")
            await_states(runner, words, "RUNNING", "FAILED")
            (status,) = runner.storage.status.snapshot().task_statuses(words)
            assert why in (status.trace or "")
    assert "hunter2secret" not in caplog.text


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"connector_class": "os.system", "words": "a"}, "this worker has ['Hesitating', 'Late', 'Stuck', "),
        ({"connector_class": "Words"}, "KeyError: 'words'"),
        ({"connector_class": "Words", "words": "1"}, "property 'word' has to be str or None, not int"),
        ({"connector_class": "Words", "words": "a b", "tasks_max": "1"}, "2 tasks; tasks.max is 1"),
        ({"connector_class": "Words", "words": "a", "tasks_max": "many"}, "invalid literal for int()"),
    ],
)
def test_a_connector_that_cannot_be_made_says_why(make: Make, config: dict[str, str], why: str) -> None:
    with make() as runner:
        put(runner, "c", **config)
        await_states(runner, "c", "FAILED")
        status = runner.storage.status.get("c")
        assert status is not None
        assert why in (status.trace or "")
        put(runner, "c", connector_class="Words", words="a")
        await_states(runner, "c", "RUNNING", "RUNNING")


def test_a_task_that_does_not_end_writes_nothing_any_more(make: Make, kafka: MemoryKafka) -> None:
    with make(task_shutdown_graceful_timeout_ms="50") as runner:
        put(runner, "c", connector_class="Stuck", tasks_max="1")
        await_states(runner, "c", "RUNNING", "RUNNING")
        ((task_id, task),) = runner._tasks.items()
        runner._herder.submit(runner._follow, TaskConfigsUpdated((task_id,))).result(120)
        assert runner._tasks == {task_id: task}  # which was assigned behind that commit
        runner.storage.config.put_target_state("c", TargetState.STOPPED)
        await_states(runner, "c", "STOPPED")
        Stuck.release.set()
        task.join(120)
        assert not task.is_alive()
        assert values(kafka, "stuck") == []
        assert runner.storage.offset_reader("c").offset(PLACE) is None


def test_a_task_that_is_made_too_late_fences_none_that_runs_anew(make: Make, kafka: MemoryKafka) -> None:
    with make(task_shutdown_graceful_timeout_ms="50") as runner:
        Late.made = 0
        put(runner, "c", connector_class="Late", words="a")
        await_that(lambda: Late.made, what="begun")  # else the task that is made anew would be the first
        (late,) = runner._tasks.values()
        assert runner.restart_task(ConnectorTaskId("c", 0))
        await_states(runner, "c", "RUNNING", "RUNNING")
        owners = dict(kafka.owners)
        Stuck.release.set()
        late.join(120)
        assert not late.is_alive()
        assert kafka.owners == owners


def test_a_poll_that_is_to_be_called_again_fails_no_task(
    make: Make, kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("connect_share.tasks.running._NO_RETRY", ("", 0.001, 0.0))
    monkeypatch.setattr("connect_share.tasks.runner._REVOKE_S", 0)  # beside the time that a task may take to end
    with make(inter_worker_key_ttl_ms="50") as runner:
        key = await_that(lambda: runner.storage.config.snapshot().session_key, what="a key")
        await_that(lambda: runner.storage.config.snapshot().session_key, lambda found: found != key, what="the next")
        put(runner, "c", connector_class="Hesitating", tasks_max="1")
        await_values(kafka, "late", b"came")
        await_states(runner, "c", "RUNNING", "RUNNING")
        (task,) = runner._tasks.values()
    assert caplog.text.count("Task c-0: poll is called again: RetriableError") == 1
    assert "hunter2" not in caplog.text
    for times in range(17):
        task._call_again("poll", RetriableError())
        assert task._retry[1] == min(0.002 * 2**times, 60)


def test_coroutines_run_on_the_loop_and_are_cancelled(make: Make, kafka: MemoryKafka) -> None:
    async def run() -> None:
        async with make(task_shutdown_graceful_timeout_ms="120000") as runner, AsyncMemoryConnectStorage():
            await asyncio.to_thread(put, runner, "c", connector_class="Waiting", tasks_max="1")
            await asyncio.to_thread(await_states, runner, "c", "RUNNING", "RUNNING")
            await asyncio.to_thread(await_values, kafka, "waited", b"one")
            (task,) = runner._tasks.values()
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
            waiting = asyncio.ensure_future(asyncio.to_thread(runner.wait, 300))  # on the only thread that the loop has
            await asyncio.sleep(0)
        assert await waiting
        assert not task.is_alive()
        assert not task.abandoned

    asyncio.run(run())


@pytest.mark.parametrize("make", ["enabled"], indirect=True)
def test_a_leader_that_was_fenced_between_transactions_goes_on(
    make: Make, kafka: MemoryKafka, monkeypatch: Any
) -> None:
    write = TransactionalWriter.write
    with make() as runner, MemoryConnectStorage(runner.config, kafka=kafka) as other:
        await_that(lambda: runner.storage.config.snapshot().session_key, what="leads")

        def lose_before_the_commit(writer: TransactionalWriter, records: Any, **more: Any) -> Any:
            if records[0][0] == b"commit-c":
                monkeypatch.undo()
                other.config.claim_write_privileges()
            return write(writer, records, **more)

        monkeypatch.setattr(TransactionalWriter, "write", lose_before_the_commit)
        put(runner, "c", connector_class="Words", words="a b")
        await_states(runner, "c", "RUNNING", "RUNNING", "RUNNING")
        await_that(lambda: sorted(values(kafka, "words")), [b"a", b"b"].__eq__, what="given")
        assert TransactionalWriter.write is write  # it came to that


@pytest.mark.parametrize("make", ["enabled"], indirect=True)
def test_a_task_waits_until_the_leader_has_fenced(make: Make, kafka: MemoryKafka) -> None:
    class Follower(SoleMember):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self.generation = replace(self.generation, leader="another")

    runner = make()
    runner._make_member = Follower
    with runner, MemoryConnectStorage(runner.config, kafka=kafka) as leader:
        leader.config.claim_write_privileges()
        leader.config.put_connector_config("c", {"connector.class": "Words", "words": "a", "topic": "words"})
        await_states(runner, "c", "RUNNING")
        assert runner.storage.config.snapshot().tasks("c") == []  # which only the leader writes
        leader.config.put_task_configs("c", [{"word": "a", "topic": "words"}])
        await_that(lambda: runner._assigned, what="assigned")
        assert runner.storage.config.snapshot().pending_fencing("c")
        assert runner._tasks == {}
        leader.fence_zombie_source_tasks("c")
        await_states(runner, "c", "RUNNING", "RUNNING")
        await_values(kafka, "words", b"a")


@pytest.mark.parametrize("make", ["enabled"], indirect=True)
def test_a_connector_whose_tasks_are_refused_or_stand_holds_up_no_other(
    make: Make, kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    commit, later, pauses, go_on = TransactionalWriter._commit, TaskRunner._later, list[float](), threading.Event()

    def refuse(writer: TransactionalWriter, producer: Any, records: Any, *more: Any) -> None:
        if records[0][0] == b"task-a-0":
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        assert records[0][0] != b"task-d-0" or go_on.wait(300)
        commit(writer, producer, records, *more)

    def sooner(runner: TaskRunner, after_s: float, *work: Any) -> None:
        if work[-1] == "a":
            pauses.append(after_s)
        later(runner, after_s / 50, *work)

    monkeypatch.setattr(TransactionalWriter, "_commit", refuse)
    monkeypatch.setattr(TaskRunner, "_later", sooner)
    with make() as runner:
        for name in "abc":
            put(runner, name, connector_class="Words", words=name)
        for name in "bc":
            await_states(runner, name, "RUNNING", "RUNNING")
        await_that(lambda: pauses, lambda found: len(found) > 8, what="tried again")
        put(runner, "d", connector_class="Words", words="d")
        await_states(runner, "d", "RUNNING")
        with MemoryConnectStorage(runner.config, kafka=kafka) as other:
            other.config.claim_write_privileges()
            other.config.remove_connector_config("b")
        await_states(runner, "b", None)
        go_on.set()
    assert pauses[:9] == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]
    assert caplog.text.count("The leader tries again: writing to configs failed: MSG_SIZE_TOO_LARGE") == 1


def test_a_sink_has_as_many_tasks_as_it_may_and_java_can_run_them(make: Make) -> None:
    runner = make()
    runner._connectors_by_class["Sink"] = SinkTask
    for most, count in (("3", 3), ("2000000000", 10_000)):
        made = runner.task_configs({"connector.class": "Sink", "topics": "t", "tasks.max": most})
        assert [each["topics"] for each in made] == ["t"] * count
    assert TaskRunner(runner.config, {}, worker_url="here:8083").worker_id == "here:8083"  # else it had no statuses


def test_what_ended_the_membership_ends_the_wait_and_is_said_once(make: Make) -> None:
    said = list[Any]()
    with make() as runner:
        runner._on_failed = said.append
        assert not runner.wait(0)
        for error in (GroupMembershipError("gone"), LogFailedError("gone, too")):
            runner._fail(error)
        with pytest.raises(GroupMembershipError, match="gone"):
            runner.wait()
    assert [str(error) for error in said] == ["gone"]


def test_a_runner_runs_once_and_is_stopped_at_any_moment(make: Make, kafka: MemoryKafka, monkeypatch: Any) -> None:
    monkeypatch.setattr(RunningSource, "start", MagicMock(side_effect=RuntimeError("can't start new thread")))
    with make() as runner:
        put(runner, "c", connector_class="Words", words="a")
        await_states(runner, "c", "RUNNING", "FAILED")
        monkeypatch.undo()
        with pytest.raises(NotStartedError, match="make another one"):
            runner.start()
        assert runner.restart_task(ConnectorTaskId("c", 0))
        await_states(runner, "c", "RUNNING", "RUNNING")
        with ThreadPoolExecutor(1) as pool, kafka.lock:  # who asks for it may hold what an apply waits for
            assert pool.submit(runner.storage.offsets.positions).result(120).keys() == {0}
    runner = make()
    monkeypatch.setattr(SoleMember, "start", lambda _: runner.stop())
    with pytest.raises(StoreClosedError, match="closed while it started"):
        runner.start()
    assert runner._herder._shutdown


def test_a_generation_that_ends_between_two_looks_fails_nothing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = itertools.cycle([Generation(1, "sole", "sole", "http://here:8083/", -1), None])
    monkeypatch.setattr(SoleMember, "generation", property(lambda _: next(looks), lambda *_: None), raising=False)
    with make() as runner:
        put(runner, "c", connector_class="Words", words="a")
        await_that(lambda: states(runner, "c")[0], lambda found: found == "RUNNING", what="said")


@pytest.mark.parametrize("where", ["start", "stop"])
def test_a_failed_start_or_stop_leaves_nothing(make: Make, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SoleMember, where, MagicMock(side_effect=RuntimeError("no more threads")))
    runner = make()
    with pytest.raises(RuntimeError, match="no more threads"), runner:
        pass
    with pytest.raises(NotStartedError):
        _ = runner.storage.config
    assert runner._herder._shutdown


def test_a_start_that_is_cancelled_leaves_nothing_running(make: Make) -> None:
    async def run() -> None:
        runner, begun, go_on = make(), threading.Event(), threading.Event()

        def made(*given: Any, **named: Any) -> SoleMember:
            begun.set()
            assert go_on.wait(120)
            return SoleMember(*given, **named)

        runner._make_member = made
        entering = asyncio.ensure_future(runner.__aenter__())
        assert await asyncio.to_thread(begun.wait, 300)
        entering.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await entering
        await asyncio.to_thread(await_that, lambda: runner._herder._shutdown, what="ended")

    asyncio.run(run())


def test_a_stop_ends_tasks_while_the_worker_is_busy(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connect_share.tasks.runner._REVOKE_S", 0.1)
    busy, stop = threading.Event(), SoleMember.stop

    def stopped(member: SoleMember, timeout_s: float) -> None:
        stop(member, timeout_s)
        busy.set()

    monkeypatch.setattr(SoleMember, "stop", stopped)
    with make(task_shutdown_graceful_timeout_ms="50") as runner:
        put(runner, "c", connector_class="Words", words="a")
        await_states(runner, "c", "RUNNING", "RUNNING")
        (task,) = runner._tasks.values()
        runner._soon(busy.wait, 120)
    await_that(lambda: not task.is_alive(), what="ended, if not within these 50 ms")
