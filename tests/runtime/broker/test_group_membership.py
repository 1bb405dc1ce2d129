"""Workers in Python as members of a Connect group: who leads, what each runs, and who takes over."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from connect_share import AsyncConnectStorage, ConnectStorage, MemoryConfigBackingStore, WorkerConfig
from connect_share.errors import ConfigError, GroupMembershipError, LiveMembersError, NotStartedError
from connect_share.kafka.connect_protocol import NOTHING, ConnectorsAndTasks
from connect_share.runtime import AsyncConnectGroupMember, ConnectGroupMember, Generation, configured
from connect_share.tasks import TaskRunner
from tests.broker.stores.conftest import Shared
from tests.lab.embedded.broker import LocalBroker
from tests.lab.embedded.worker import write_properties
from tests.support.connect_member import ConnectMember
from tests.support.examples import example
from tests.support.runtime_workers import Idle
from tests.support.waiting import await_that
from tests.support.worker_files import SHARING

KINDS = ("config", "offset", "status")
LOGIN = (
    'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="u";'
)
FAST = {"session_timeout_ms": "60000", "heartbeat_interval_ms": "200", "rebalance_timeout_ms": "60000"}


class Runtime:
    """A worker that runs nothing, and takes note of what it would run."""

    def __init__(self, shared: Any, number: int, stack: ExitStack, **overrides: str) -> None:
        worker = shared.sharing(shared.group, **{**FAST, **overrides})
        self.storage = stack.enter_context(ConnectStorage(worker, allow_live_members=ConnectGroupMember.is_own_member))
        self.running = NOTHING
        self.generation: Generation | None = None
        self.failures: list[Exception] = []
        self.member = ConnectGroupMember(
            worker,
            self.storage.config,
            self,
            worker_url=f"http://localhost:{9000 + number}/",
            on_failed=self.failures.append,
        )
        stack.callback(self.member.stop)
        self.member.start()

    def on_revoked(self, items: ConnectorsAndTasks) -> None:
        assert set(items.tasks) <= set(self.running.tasks)
        assert not self.member.assignment & items  # who runs what is assigned would start these again
        self.running -= items

    def on_assigned(self, items: ConnectorsAndTasks, generation: Generation) -> None:
        assert not self.running & items
        self.running |= items
        self.generation = generation


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def configure(storage: ConnectStorage, connectors: int, tasks: int) -> None:
    for number in range(connectors):
        storage.config.put_connector_config(f"c{number}", {"name": f"c{number}"})
        storage.config.put_task_configs(f"c{number}", [{"task": str(task)} for task in range(tasks)])


def await_spread(*runtimes: Runtime) -> None:
    """Wait until these run everything, each once, and evenly."""
    wanted = configured(runtimes[0].storage.config.snapshot())

    def spread() -> bool:
        running = [runtime.running for runtime in runtimes]
        tasks = [task for each in running for task in each.tasks]
        connectors = [name for each in running for name in each.connectors]
        counts = [len(each.tasks) for each in running]
        return (
            sorted(tasks) == sorted(wanted.tasks)
            and sorted(connectors) == sorted(wanted.connectors)
            and max(counts) - min(counts) <= 1
            and len({each.generation.leader for each in runtimes if each.generation}) == 1
        )

    await_that(spread, what=f"spread: {[runtime.running for runtime in runtimes]}")


def test_work_is_spread_moves_and_comes_back(shared: Any, stack: ExitStack) -> None:
    first = Runtime(shared, 1, stack)
    configure(first.storage, 2, 3)
    first.member.request_rejoin()
    await_spread(first)
    assert first.generation is not None
    assert first.generation.is_leader
    before = first.running
    second = Runtime(shared, 2, stack)
    await_spread(first, second)
    assert set(first.running.tasks) < set(before.tasks)  # what stays has not moved
    assert second.generation is not None
    assert second.generation.leader_url == "http://localhost:9001/"
    assert second.storage.config.snapshot().offset >= second.generation.config_offset
    # A change that the leader writes, and that a follower only hears of.
    first.storage.config.remove_connector_config("c1")
    first.member.request_rejoin()
    await_spread(first, second)
    # The leader leaves, and comes back.
    with pytest.raises(NotStartedError, match="was started before"):
        first.member.start()
    first.member.stop()
    assert first.running == NOTHING
    await_spread(second)
    assert second.generation.is_leader
    first.member.start()
    await_spread(first, second)
    assert first.member.assignment == first.running
    assert first.failures == second.failures == []


def test_java_workers_and_these_do_not_join_one_group(shared: Any, stack: ExitStack) -> None:
    with ConnectMember(shared.bootstrap_servers, shared.group):
        runtime = Runtime(shared, 1, stack)
        await_that(lambda: runtime.failures, what="refused")
    (failure,) = runtime.failures
    assert isinstance(failure, GroupMembershipError)
    assert "another group protocol" in str(failure)
    assert runtime.member.failed is failure


def test_own_members_do_not_block_writes_and_others_do(shared: Any, stack: ExitStack) -> None:
    runtime = Runtime(shared, 1, stack)
    await_that(lambda: runtime.generation, what="joined")
    runtime.storage.config.put_connector_config("c", {"a": "b"})
    with ConnectStorage(shared.sharing(shared.group)) as stranger, pytest.raises(LiveMembersError):
        stranger.config.put_connector_config("c", {"a": "c"})
    runtime.member.stop()
    with (
        ConnectMember(shared.bootstrap_servers, shared.group),
        ConnectStorage(shared.sharing(shared.group), allow_live_members=ConnectGroupMember.is_own_member) as stranger,
        pytest.raises(LiveMembersError),
    ):
        stranger.config.put_connector_config("c", {"a": "c"})


@pytest.mark.slow
@pytest.mark.kills_broker
def test_a_member_without_a_coordinator_stops_and_starts_again_with_it(
    own_broker: LocalBroker, stack: ExitStack
) -> None:
    site = stack.enter_context(ExitStack())
    shared = Shared(own_broker.bootstrap_servers, "outage", site)
    runtime = Runtime(shared, 1, stack, session_timeout_ms="6000")
    configure(runtime.storage, 1, 2)
    runtime.member.request_rejoin()
    await_spread(runtime)
    before = runtime.generation
    own_broker.kill()
    await_that(lambda: runtime.running == NOTHING, what="stopped, after the session timeout")
    assert runtime.member.generation is None
    own_broker.start()
    await_spread(runtime)
    assert runtime.generation is not None
    assert runtime.generation != before
    assert runtime.failures == []


def test_a_member_that_was_never_started_ends(shared: Any, stack: ExitStack) -> None:
    config = MemoryConfigBackingStore()
    threads = {*threading.enumerate()}
    member = ConnectGroupMember(shared.sharing(shared.group), config, Idle(), worker_url="http://localhost:1/")
    member.stop()
    assert {*threading.enumerate()} <= threads


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("session.timeout.ms", "x"),
        ("session.timeout.ms", "2147483648"),
        ("retry.backoff.ms", "-1"),
        ("heartbeat.interval.ms", "10000"),
        ("sasl.mechanism", "OAUTHBEARER"),
    ],
)
def test_what_cannot_be_used_is_named_before_anything_is_sent(name: str, value: str) -> None:
    given = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "security.protocol": "SASL_PLAINTEXT"}
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
    given |= {"sasl.mechanism": "PLAIN", "sasl.jaas.config": login} | {f"{kind}.storage.topic": kind for kind in KINDS}
    if value == "OAUTHBEARER":
        given["sasl.jaas.config"] = LOGIN
    worker = WorkerConfig.from_properties(given | {name: value})
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
        ConnectGroupMember(worker, MemoryConfigBackingStore(), Idle(), worker_url="http://localhost:1/")
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
        TaskRunner(worker, {}, worker_url="http://localhost:1/")


class Raising(Idle):
    def on_assigned(self, items: ConnectorsAndTasks, generation: Generation) -> None:
        raise SystemExit("s3cret")


def assign(*_: Any) -> Any:
    raise ValueError("s3cret")


@pytest.mark.parametrize(
    ("listener", "more", "said"),
    [
        (Raising(), {}, "the listener failed: SystemExit"),
        (Idle(), {"assignor": assign}, "membership ended by an unexpected ValueError"),
    ],
)
def test_whoever_raises_ends_the_membership_and_is_named(
    shared: Any, listener: Idle, more: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    config, failures = MemoryConfigBackingStore(), list[Exception]()
    config.start()
    worker = shared.sharing(shared.group, **FAST)
    with ConnectGroupMember(
        worker, config, listener, worker_url="http://localhost:1/", on_failed=failures.append, **more
    ) as member:
        await_that(lambda: failures, what="failed")
    assert isinstance(member.failed, GroupMembershipError)
    assert str(member.failed).startswith(said)
    assert member.failed.__cause__ is None
    assert member.generation is None
    assert "s3cret" not in caplog.text
    assert f"Membership in group {shared.group} has ended: {said.rpartition('unexpected ')[2]}" in caplog.text
    assert not [record for record in caplog.records if record.name.startswith("kafka")]
    if listener.__class__ is Raising:
        assert f"of group {shared.group}: this worker leads; assigned nothing; this worker runs 0 conn" in caplog.text


def test_a_member_on_asyncio(shared: Any) -> None:
    async def body() -> None:
        loop, running, changed = asyncio.get_running_loop(), [NOTHING], asyncio.Condition()

        class Listener:
            async def on_revoked(self, items: ConnectorsAndTasks) -> None:
                assert asyncio.get_running_loop() is loop
                assert not member.assignment & items
                running[0] -= items

            async def on_assigned(self, items: ConnectorsAndTasks, generation: Generation) -> None:
                assert generation.is_leader
                running[0] |= items
                async with changed:
                    changed.notify_all()

        worker = shared.sharing(shared.group, **FAST)
        async with AsyncConnectStorage(worker, allow_live_members=AsyncConnectGroupMember.is_own_member) as storage:
            await storage.config.put_connector_config("c", {"name": "c"})
            member = AsyncConnectGroupMember(worker, storage.config, Listener(), worker_url="http://localhost:9009/")
            for _ in range(2):
                async with member, asyncio.timeout(300), changed:
                    await changed.wait_for(lambda: running[0].connectors == ("c",))
                    assert member.assignment == running[0]
                    assert member.failed is None
                assert running == [NOTHING]

    asyncio.run(body())


def test_the_example_of_the_page(shared: Shared, tmp_path: Path) -> None:
    write_properties(tmp_path / "worker.properties", shared.properties(shared.group) | SHARING)
    with ConnectStorage(shared.sharing(shared.group)) as storage:
        storage.config.put_connector_config("c", {"name": "c"})
        storage.config.put_task_configs("c", [{"file": "in.txt"}])
    command = [sys.executable, "-W", "error", "-c", example("group-membership.md")]
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, cwd=tmp_path, text=True, **pipes) as process:
        assert process.stdout is not None
        assert sorted(process.stdout.readline() for _ in range(2)) == [
            "Enter ends this worker\n",
            "start c 0 led by http://host:8083/\n",
        ]
        assert process.communicate("\n", timeout=180) == ("stop c 0\n", "")
        assert process.returncode == 0
