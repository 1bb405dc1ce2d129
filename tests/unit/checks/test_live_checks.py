"""Checks that ask the cluster: what they make of its answers, and that the table of rights in code is the one of the page."""

from __future__ import annotations

import shlex
import struct
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.checks import transactions
from connect_share.checks.admission import NewGroup, StartupEffect, find_slow
from connect_share.checks.admission import find as find_admission
from connect_share.checks.finding import MOST_FINDINGS, Severity
from connect_share.checks.liveness import LONG_MS, WorkerIds, find, live_workers
from connect_share.checks.orphans import find_lost
from connect_share.checks.rights import NEEDS, Resource, When, missing
from connect_share.checks.rights import find as find_missing
from connect_share.checks.sources import CheckSources
from connect_share.console.output import Output
from connect_share.kafka.create import LOST
from connect_share.kafka.descriptions import HeldRights, worker_id_of
from connect_share.kafka.read import OpenTransaction
from connect_share.model.keys import ClusterGroupId
from connect_share.worker_config import ClientSettings, TopicSet
from tests.support.checked import CONFIG, STATUS, records, state_of
from tests.support.rights import PAGE, table

CONNECTOR = '{"properties":{"connector.class":"C"}}'
TASK = '{"properties":{"task.class":"T"}}'
WRITTEN_MS = 1_000  # and some milliseconds: the times of records
LATER = WRITTEN_MS + LONG_MS + 60_000
CLIENT = ClientSettings({"bootstrap.servers": "b:9092"})


def status(state: str, worker: str = "w:1") -> str:
    return f'{{"state":"{state}","trace":null,"worker_id":"{worker}","generation":1}}'


HEALTHY = {
    CONFIG: [("connector-a", CONNECTOR), ("task-a-0", TASK), ("commit-a", '{"tasks":1}')],
    STATUS: [("status-connector-a", status("RUNNING")), ("status-task-a-0", status("FAILED"))],
}
ALIVE = ("w:1", "w:2")


def found(
    workers: WorkerIds,
    *,
    config: Sequence[tuple[str, str | None]] = (),
    statuses: Sequence[tuple[str, str | None]] | None = None,
    now_ms: int = LATER,
    group: str | None = "g",
) -> list[tuple[str, str]]:
    topics = {
        CONFIG: records(CONFIG, *HEALTHY[CONFIG], *config, group=group),
        STATUS: records(STATUS, *(HEALTHY[STATUS] if statuses is None else statuses), group=group),
    }
    state = state_of(topics)
    (only,) = state.groups
    return [(each.id, each.what) for each in find(state.topics, only, workers, now_ms, {"w:1": "other"})]


PAUSED = ("target-state-a", '{"state":"PAUSED","state.v2":"PAUSED"}')
UNASSIGNED = [("status-connector-a", status("RUNNING")), ("status-task-a-0", status("UNASSIGNED"))]


def test_a_group_whose_workers_live_and_do_what_they_should() -> None:
    assert found(ALIVE) == []
    assert found([None]) == []  # a member does not say who it is


def test_running_without_any_worker() -> None:
    assert found([]) == [("liveness-no-workers", "no worker is alive, and 1 of its statuses say RUNNING: a")]
    assert found([], statuses=[("status-connector-a", status("UNASSIGNED"))]) == []


def test_a_worker_that_is_no_member() -> None:
    what = "statuses of worker w:1, which is no live member of the group: a, a-0"
    assert found(["w:2"]) == [("liveness-unknown-worker", what)]
    what += "; it is one of other"
    assert found(["w:2"], group=None, now_ms=WRITTEN_MS) == [("liveness-unknown-worker", what)]
    assert found(["w:2"], group=None) == [("collision-two-plain-clusters", what)]
    several = [("status-connector-a", status("RUNNING", "w:9")), ("status-task-a-0", status("RUNNING", "w:1"))]
    kinds = [kind for kind, _ in found(["w:2"], group=None, statuses=several)]
    assert kinds == ["collision-two-plain-clusters", "liveness-unknown-worker"]  # by worker


def test_unassigned_for_long() -> None:
    assert found(ALIVE, statuses=UNASSIGNED, now_ms=WRITTEN_MS + 60_000) == []
    assert found(ALIVE, statuses=UNASSIGNED) == [("liveness-unassigned", "UNASSIGNED for more than 10 minutes: a-0")]
    assert found(ALIVE, statuses=UNASSIGNED, config=[PAUSED]) == [
        ("liveness-not-stopped", "RUNNING, and to be paused or stopped: a")
    ]


def test_a_negative_time_is_not_long_ago() -> None:
    never, long_ago = records(STATUS, ("status-connector-a", status("UNASSIGNED")), UNASSIGNED[1], group="g")
    topics = {
        CONFIG: records(CONFIG, *HEALTHY[CONFIG], group="g"),
        STATUS: [replace(never, timestamp_ms=-1), long_ago],
    }
    state = state_of(topics)
    (only,) = find(state.topics, state.groups[0], ALIVE, LATER)
    assert only.what == "UNASSIGNED for more than 10 minutes: a-0"


def test_configured_and_never_said_to_run() -> None:
    one = [("status-connector-a", status("RUNNING"))]
    assert found(ALIVE, statuses=one) == [
        ("liveness-no-status", "configured for more than 10 minutes, and never said to run: a")
    ]
    ((_, both),) = found(ALIVE, statuses=one, config=[("connector-0", '{"properties":{"name":"0"}}')])
    assert both.endswith("never said to run: 0, a")  # by name, not by when they came
    assert found(ALIVE, statuses=one, config=[PAUSED, ("connector-b", CONNECTOR)])[-1][1].endswith("to run: b")
    commit_ms = WRITTEN_MS + 2  # the last that was written
    assert [len(found(ALIVE, statuses=one, now_ms=commit_ms + LONG_MS + more)) for more in (-1, 0)] == [0, 1]
    assert found(ALIVE, statuses=one, config=[PAUSED], now_ms=WRITTEN_MS + 60_000) == []


def test_the_group_of_plain_keys_is_known_by_its_workers() -> None:
    state = state_of({STATUS: records(STATUS, *HEALTHY[STATUS])})
    (plain,) = state.groups
    members: dict[str, list[str | None]] = {"older": ["w:1"], "old": ["w:1", "w:3"], "g": ["w:1"], "unreadable": [None]}

    def workers(plain_group_id: str | None) -> WorkerIds:
        return live_workers(plain, members, others=["g"], plain_group_id=plain_group_id)

    assert workers(None) == ["w:1", "w:3"]
    assert workers("unreadable") == [None]
    assert workers("nobody") == ()
    del members["old"], members["older"]
    assert workers(None) == ()


def metadata(url: bytes) -> bytes:
    return struct.pack(">hh", 2, len(url)) + url + struct.pack(">q", 17)


@pytest.mark.parametrize(
    ("given_metadata", "expected"),
    [
        (metadata(b"http://Host.example:8083/"), "Host.example:8083"),
        (metadata(b"https://[::1]:8083/"), "[::1]:8083"),
        (metadata(b""), None),
        (metadata(b"http://h:1/")[:8], None),
        (b"", None),
        (None, None),
    ],
)
def test_worker_ids(given_metadata: bytes | None, expected: str | None) -> None:
    assert worker_id_of(given_metadata) == expected


@given(st.binary(max_size=64))
def test_metadata_of_any_member_is_read_or_passed_over(raw: bytes) -> None:
    assert worker_id_of(raw) != ""


@pytest.mark.parametrize(
    ("since_ms", "kind", "severity", "told"),
    [
        (LATER - 5_000, "transactions-open", Severity.WARNING, "(5 s)"),
        (LATER - transactions.LONGEST_MS - 1_000, "transactions-hanging", Severity.ERROR, "(901 s)"),
        (LATER + 5_000, "transactions-open", Severity.WARNING, "(0 s)"),
        (2**62, "transactions-open", Severity.WARNING, "since 146140482-04-24T15:36:28Z (0 s)"),
        (None, "transactions-open", Severity.WARNING, "since when is not known"),
    ],
)
def test_transactions(since_ms: int | None, kind: str, severity: Severity, told: str) -> None:
    opened = OpenTransaction("configs", 0, 7, None, True, None, since_ms=since_ms)
    (one,) = transactions.find([opened], CLIENT, LATER)
    assert (one.id, one.severity, one.where) == (kind, severity, "configs[0]@7")
    assert told in one.what
    assert one.command is not None
    assert one.command.endswith("b:9092 abort --topic configs --partition 0 --start-offset 7")


@pytest.mark.parametrize(("limit_s", "severity"), [(None, Severity.NOTE), (2.5, Severity.NOTE), (1.5, Severity.ERROR)])
def test_starts_that_a_new_group_makes_too_long(limit_s: float | None, severity: Severity) -> None:
    (one,) = find_slow(StartupEffect(1.0, 2.0, 0.5), limit_s, "topics")
    assert (one.id, one.severity) == ("admit-startup", severity)
    assert "takes 2.00 s, 1.00 s of that for the new group, whose own start takes 0.50 s" in one.what
    assert (one.command is None) == (severity is Severity.NOTE)
    assert [each.severity for each in find_slow(StartupEffect(1.0, 2.0, 3.0), 2.5, "topics")] == [Severity.ERROR]


@pytest.mark.parametrize(
    ("there", "new", "expected"),
    [
        ("a.b", "a.b.c", "collision-nested-ids"),
        ("a.b.c", "a.b", "collision-nested-ids"),
        ("a-b", "a-b-c", "admit-id-dashes"),
        ("a-b-c", "a-b", "admit-id-dashes"),
        ("A-b", "a-b", "admit-id-similar"),
    ],
)
def test_ids_that_begin_alike_are_named_in_both_directions(there: str, new: str, expected: str) -> None:
    state = state_of({CONFIG: records(CONFIG, *HEALTHY[CONFIG], group=there)})
    group = NewGroup(ClusterGroupId(new), members=0, exactly_once=False, sealed=False)
    assert [each.id for each in find_admission(group, state, ())] == [expected]


def test_an_id_that_is_the_consumer_group_of_a_sink_is_not_admitted() -> None:
    sink = ("connector-orders", '{"properties":{"connector.class":"C","topics":"t"}}')
    state = state_of({CONFIG: records(CONFIG, sink, group="there")})
    (moves,) = state_of({CONFIG: records(CONFIG, *HEALTHY[CONFIG])}).groups
    for moved in (None, moves):
        new = NewGroup(ClusterGroupId("connect-orders"), members=0, exactly_once=False, sealed=False, moves=moved)
        assert [each.id for each in find_admission(new, state, ())] == ["collision-group-of-sink"]


def test_what_the_new_group_brings_is_said_however_much_is_there() -> None:
    sink = '{"properties":{"connector.class":"C","topics":"t"}}'
    names = [(f"connector-{name}", sink) for name in (*range(MOST_FINDINGS + 5), "zebra")]
    log = [*records(CONFIG, *names, group="a"), *records(CONFIG, *names[:-1], group="b")]
    (moves,) = state_of({CONFIG: records(CONFIG, ("connector-zebra", sink))}).groups
    new = NewGroup(ClusterGroupId("new"), members=0, exactly_once=False, sealed=False, moves=moves)
    (found,) = find_admission(new, state_of({CONFIG: log}), ())
    assert (found.id, "zebra of a, zebra of new" in found.what) == ("collision-sink-group", True)


def test_the_new_group_is_none_of_the_others() -> None:
    state = state_of({CONFIG: [*records(CONFIG, *HEALTHY[CONFIG]), *records(CONFIG, *HEALTHY[CONFIG], group="new")]})
    group = NewGroup(ClusterGroupId("new"), members=0, exactly_once=False, sealed=False)
    found = find_admission(group, state, (ClusterGroupId("new"),))
    assert [each.id for each in found] == ["admit-id-in-use", "admit-plain-cluster"]


@pytest.mark.parametrize(("others", "only"), [([], True), (["a"], False), (["a", "b"], False)])
def test_a_cluster_with_plain_keys_that_is_there_alone(others: list[str], only: bool) -> None:
    """Python stores refuse to start beside it."""
    log = [each for group in (None, *others) for each in records(CONFIG, *HEALTHY[CONFIG], group=group)]
    group = NewGroup(ClusterGroupId("new"), members=0, exactly_once=False, sealed=False)
    (found,) = find_admission(group, state_of({CONFIG: log}), ())
    assert (found.what.startswith("only "), "Python stores" in found.why) == (only, only)


@pytest.mark.parametrize(
    ("configured", "others", "worker_group", "lost"),
    [
        ([], ["g"], None, ["None"]),  # for all groups
        (None, ["g"], None, []),  # the topic was not read
        (["g"], ["g"], None, []),
        (["g"], ["g", "h"], None, []),  # anybody can have invented it
        (["g"], ["g", "h"], "h", ["h"]),
        (["g"], ["g", "h", "alive"], None, ["alive"]),
    ],
)
def test_a_config_topic_without_the_groups_of_the_others_is_lost(
    configured: list[str] | None, others: list[str], worker_group: str | None, lost: list[str]
) -> None:
    topics = {STATUS: [each for group in others for each in records(STATUS, *HEALTHY[STATUS], group=group)]}
    if configured is not None:
        topics[CONFIG] = [each for group in configured for each in records(CONFIG, *HEALTHY[CONFIG], group=group)]
    names = {each: each.value for each in (CONFIG, STATUS)}
    own = None if worker_group is None else (ClusterGroupId(worker_group),)
    sources = CheckSources(TopicSet(names, CLIENT, worker_group=own), Output("check"))
    vars(sources).update(state=state_of(topics), members={"alive": ALIVE})  # as if they had been read
    found = find_lost(sources)
    assert [(each.id, each.where, str(each.group)) for each in found] == [(LOST, "config", group) for group in lost]


TOPICS = ["c", "o", "s"]
GROUP = Resource("group", "orders")
ALL = HeldRights(frozenset({"CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE"}))
HELD = {**{Resource("topic", topic): ALL for topic in TOPICS}, GROUP: ALL}


@pytest.mark.parametrize(
    ("use", "when", "title", "number"),
    [
        ("worker", When.ALWAYS, "Java worker", 0),
        ("worker", When.EXACTLY_ONCE, "Java worker", 1),
        ("stores", When.ALWAYS, "Python stores", 0),
        ("stores", When.EXACTLY_ONCE, "Python stores", 1),
        ("console", When.ALWAYS, "Console: get, describe, check sealing, check startup", 0),
        ("migrator", When.ALWAYS, "Migrator: cutover, seal, rollback", 0),
    ],
)
def test_the_page_has_the_same_rows(use: str, when: When, title: str, number: int) -> None:
    rows = [(", ".join(need.rights), need.on.value, need.why) for need in NEEDS[use] if need.when is when]
    assert rows == table(title, number)


def test_the_page_has_the_other_rows() -> None:
    create = [(", ".join(need.rights), need.on.value, need.why) for need in NEEDS["create-topics"]]
    assert create == table("Console: create topics")
    assert create[0] == table("Topics that do not exist yet")[0]
    assert "Recommended: DESCRIBE on the group" in PAGE.read_text("utf-8")


def ids(use: str, changes: dict[Resource, HeldRights], *, exactly_once: bool = False) -> list[tuple[str, str, str]]:
    held = HELD | changes
    found = list(missing(use, held, TOPICS, "orders", exactly_once=exactly_once))
    return [(each.id, each.severity.value, each.where) for each in find_missing(found, held, CLIENT)]


def test_without_describe_on_the_group_the_guard_is_blind() -> None:
    assert ids("stores", {GROUP: HeldRights()}) == [("rights-guard-blind", "warning", "group orders")]
    assert ids("worker", {GROUP: HeldRights()}) == [("rights-missing", "error", "group orders")]
    assert ids("console", {GROUP: HeldRights()}) == []
    assert ids("stores", {GROUP: HeldRights(frozenset({"READ"}))}) == []


def test_what_kafka_does_not_tell_is_said_so() -> None:
    assert ids("worker", {GROUP: HeldRights(frozenset({"DESCRIBE"}), complete=False)}) == [
        ("rights-unknown", "note", "group orders")
    ]
    assert ids("worker", {}, exactly_once=True) == [
        ("rights-unknown", "note", "transactional id connect-cluster-orders"),
        ("rights-unknown", "note", "transactional ids that begin with orders-"),
    ]


def test_a_finding_names_uses_and_the_command() -> None:
    topic = Resource("topic", "my topic")
    held = {**HELD, topic: HeldRights(frozenset({"READ", "DESCRIBE"}))}
    found = [
        each
        for use in ("worker", "migrator")
        for each in missing(use, held, ["my topic"], "orders", exactly_once=False)
    ]
    (finding,) = find_missing(found, held, CLIENT)
    assert finding.severity is Severity.ERROR
    assert finding.what == "DESCRIBE_CONFIGS, WRITE not allowed"
    assert "worker (configurations, statuses, offsets)" in finding.why
    assert finding.command is not None
    assert shlex.split(finding.command)[3:] == [
        *("--add", "--allow-principal", "User:NAME"),
        *("--operation", "DESCRIBE_CONFIGS", "--operation", "WRITE", "--topic", "my topic"),
    ]
