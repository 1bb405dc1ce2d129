"""Brokers, workers and names that tests share."""

from __future__ import annotations

import operator
import os
import re
import signal
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from connect_share.console import program
from tests.lab.class_archives import use_class_archives
from tests.lab.embedded.broker import LocalBroker
from tests.lab.embedded.worker import ConnectWorker
from tests.support.console import Call, console
from tests.support.kafka import (
    ONE_SEGMENT_EACH,
    TOPIC_PREFIX,
    TestBroker,
    any_broker,
    delete_own_topics,
    delete_unawaited,
    skip_where_brokers_stay,
)
from tests.support.waiting import await_that

settings.register_profile(
    "default",
    deadline=None,
    # The list of a test of its own would take the place of this one: what tests with folders need is here, too.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
# The same examples each time find nothing new by being many.
settings.register_profile(
    "ci", parent=settings.get_profile("default"), derandomize=True, print_blob=True, max_examples=50
)
settings.load_profile("ci" if os.environ.get("CI") else "default")
# What commands say of long waits depends on the load of the machine; test_waits.py looks at it.
setattr(program, "SIGN_EVERY_S", 600.0)  # noqa: B010 - a constant
use_class_archives()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in its background with SIGINT ignored, and every program started from here would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_shared = pytest.StashKey[tuple[ExitStack, TestBroker]]()
_unique = pytest.StashKey[str]()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests by their folders, before pytest-xdist looks for groups."""
    folders = item.path.relative_to(Path(__file__).parent).parts
    for folder, markers in {"broker": ["broker"], "worker": ["broker", "worker"], "spark": ["spark"]}.items():
        if folder in folders:
            for marker in markers:
                item.add_marker(marker)
    if "spark" in folders:
        # One Spark session costs ten seconds and a gigabyte: all its tests in one process.
        item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long: slow tests, and those of one process; short tests fill the gaps at the end."""
    long = [{"slow", "xdist_group"} & {mark.name for mark in item.iter_markers()} for item in items]
    order = {item: ("unit" in item.path.parts, not found) for item, found in zip(items, long, strict=True)}
    items.sort(key=order.__getitem__)


def _start_shared_broker(config: pytest.Config) -> TestBroker:
    """Start the broker of this test run in the controlling process, once."""
    if _shared not in config.stash:
        stack = ExitStack()
        config.stash[_shared] = (stack, stack.enter_context(any_broker()))
    return config.stash[_shared][1]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    """Refuse to run where pytest-xdist forms no groups: what a group starts once would be started by every process."""
    apart = [test for test in ids if test.startswith(("tests/worker_plugin/", "tests/spark/")) and "@" not in test]
    if node.config.getoption("dist") == "loadgroup" and apart:
        raise pytest.UsageError(f"pytest-xdist forms no group of {apart[0]} with this pytest: see pyproject.toml")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the address of the one broker to every xdist worker."""
    broker = _start_shared_broker(node.config)
    node.workerinput["connect_share_broker"] = (broker.bootstrap_servers, broker.ours)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _shared in config.stash:
        stack, broker = config.stash[_shared]
        if not broker.ours:
            delete_own_topics(broker)
        stack.close()


def _started_broker(config: pytest.Config) -> TestBroker | None:
    """Return the broker that tests share if it runs by now."""
    handed = getattr(config, "workerinput", {}).get("connect_share_broker")
    if handed is not None:
        return TestBroker(*handed)
    return config.stash[_shared][1] if _shared in config.stash else None


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> TestBroker:
    """The broker all tests share: use only topics named by ``unique``."""
    return _started_broker(request.config) or _start_shared_broker(request.config)


@pytest.fixture(autouse=True)
def no_log_stays() -> Iterator[None]:
    """Fail a test whose stores go on behind it: they would report the end of their topics in the middle of another."""
    before = set(threading.enumerate())
    yield
    await_that(
        lambda: [each.name for each in {*threading.enumerate()} - before if each.name.startswith("log-")],
        operator.not_,
        what="without logs that go on",
    )


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run ``connect-share``."""
    return console(capsys)


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses, legal in topic names and group ids; topics named so go when the test has ended."""
    test = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)[:40].strip("-")
    name = f"{TOPIC_PREFIX}-{test}-{uuid.uuid4().hex[:6]}"
    request.node.stash[_unique] = name
    return name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Delete the topics of a test when its last fixture has ended: each of them would slow down those that follow."""
    try:
        yield
    finally:
        broker = _started_broker(item.config)
        if nextitem is not None and broker is not None and _unique in item.stash:
            delete_unawaited(broker, item.stash[_unique])


@pytest.fixture
def own_broker() -> Iterator[LocalBroker]:
    """A broker of this test alone, to be stopped and killed at will."""
    skip_where_brokers_stay()
    with LocalBroker(properties=ONE_SEGMENT_EACH) as local:
        yield local


@pytest.fixture
def worker_factory(request: pytest.FixtureRequest, unique: str) -> Iterator[Callable[..., ConnectWorker]]:
    """Start real Java workers; all are stopped at the end of the test."""
    shared = request.getfixturevalue("broker").bootstrap_servers if "broker" in request.fixturenames else None
    with ExitStack() as stack:
        started: list[ConnectWorker] = []

        def start(properties: Mapping[str, str], **options: Any) -> ConnectWorker:
            if properties["bootstrap.servers"] == shared:
                tag = unique.rsplit("-", 1)[-1]
                assert tag in properties["group.id"], "workers of two tests with one group id would form one group"
            started.append(stack.enter_context(ConnectWorker(properties, **options)))
            return started[-1]

        yield start
        for worker in started:
            worker.kill()  # an orderly end takes seconds
