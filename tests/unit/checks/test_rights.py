"""Which rights are missing, and that the table in code is the one of the page."""

from __future__ import annotations

import shlex

import pytest

from connect_share.checks.finding import Severity
from connect_share.checks.rights import NEEDS, Resource, When, find, missing
from connect_share.kafka.descriptions import HeldRights
from tests.support.rights import PAGE, table

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
    return [(each.id, each.severity.value, each.where) for each in find(found, held, ["kafka-acls"])]


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
    (finding,) = find(found, held, ["kafka-acls", "--bootstrap-server", "b:1"])
    assert finding.severity is Severity.ERROR
    assert finding.what == "DESCRIBE_CONFIGS, WRITE not allowed"
    assert "worker (configurations, statuses, offsets)" in finding.why
    assert finding.command is not None
    assert shlex.split(finding.command)[3:] == [
        *("--add", "--allow-principal", "User:NAME"),
        *("--operation", "DESCRIBE_CONFIGS", "--operation", "WRITE", "--topic", "my topic"),
    ]
