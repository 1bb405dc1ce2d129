"""``admit`` beside real topics: a group that may join, and each reason why one may not."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connect_share.model.records import TopicType
from connect_share.sealing import KeyRing
from connect_share.sealing.cipher import Cipher
from tests.support.captures import captured, prefixed
from tests.support.checked import CAPTURED, CONFIG, OFFSET, STATUS, records
from tests.support.connect_member import ConnectMember
from tests.support.console import Call, Ran, console
from tests.support.kafka import TOPIC_PREFIX, TestBroker
from tests.support.migration_site import Site
from tests.support.sealed import key_text
from tests.support.sealed_sites import worker
from tests.support.topics import UNTOUCHED, alter_known, write_records

SECRET = "hunter2-canary"
ONE_EACH = dict.fromkeys(TopicType, 1)
BROUGHT: dict[TopicType, list[tuple[str, str | None]]] = {
    CONFIG: [
        ("connector-big", f'{{"properties":{{"db.password":"{SECRET}","size":"{"x" * 15_000}"}}}}'),
        ("commit-big", '{"tasks":0}'),
    ],
    STATUS: [],
    OFFSET: [('["big",{"p":1}]', '{"o":1}')],
}


pytestmark = pytest.mark.xdist_group("admit")


@pytest.fixture(scope="module")
def site(broker: TestBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Topics with one group, and dedicated topics of a cluster that is to join."""
    name = f"{TOPIC_PREFIX}-admit-{uuid.uuid4().hex[:6]}"
    made = Site(broker.bootstrap_servers, name, tmp_path_factory.mktemp("admit"))
    made.create("shared own", ONE_EACH, UNTOUCHED)
    with broker.admin() as admin:
        try:
            for kind in TopicType:
                own = prefixed(captured("4.3.1", CAPTURED[kind]), there(made))
                write_records(made.settings, made.topic("shared", kind), own, keep_partition=False)
                write_records(made.settings, made.topic("own", kind), records(kind, *BROUGHT[kind]))
            alter_known(admin, made.topic("shared", CONFIG), {"max.message.bytes": "12000"})
            yield made
        finally:
            admin.delete_topics([made.topic(who, kind) for who in ("shared", "own") for kind in TopicType])


def there(site: Site) -> str:
    return f"there.{site.name}"


@pytest.fixture
def admit(capsys: pytest.CaptureFixture[str]) -> Call:
    return console(capsys, "admit", secret=SECRET)


def severe(ran: Ran) -> set[str]:
    return {finding["id"] for finding in ran.json["findings"] if finding["severity"] == "error"}


def ids(ran: Ran) -> set[str]:
    return {finding["id"] for finding in ran.json["findings"]}


def test_a_group_that_may_join(site: Site, admit: Any) -> None:
    ran = admit("-w", site.shared("team.new"), "--output", "json")
    assert (ran.code, severe(ran), ran.json["admitted"], ran.json["group"]) == (0, set(), True, "team.new")
    assert ids(ran) <= {"admit-startup", "worker-config"}
    assert ran.json["groups_there"] == 1
    startup = ran.json["startup"]
    assert startup["longest_before"] == startup["longest_after"]
    assert 0 < startup["own"] <= startup["longest_after"]
    text = admit("-w", site.shared("team.new"))
    assert text.code == 0
    assert "may join beside 1 group" in text.out


@pytest.mark.parametrize(
    ("group", "sharing", "expected"), [("connector-x", True, "admit-id-illegal"), ("team", False, "admit-not-shared")]
)
def test_a_file_that_cannot_share(site: Site, admit: Any, group: str, sharing: bool, expected: str) -> None:
    ran = admit("-w", site.worker_file("shared", group, sharing=sharing), "--output", "json")
    assert (ran.code, severe(ran), ran.json["admitted"]) == (1, {expected}, False)


def test_an_id_that_is_there_or_nearly(site: Site, admit: Any) -> None:
    ran = admit("-w", site.shared(there(site)), "--output", "json")
    assert (ran.code, severe(ran)) == (1, {"admit-id-in-use"})
    with ConnectMember(site.bootstrap_servers, f"{there(site)}.more"):
        ran = admit("-w", site.shared(f"{there(site)}.more"), "--output", "json")
    assert ran.code == 0
    assert {"collision-nested-ids", "admit-live-members"} <= ids(ran)
    assert "admit-id-similar" in ids(admit("-w", site.shared(there(site).upper()), "--output", "json"))
    dashing = site.worker_file("shared", f"{there(site)}-2", sharing=True, exactly_once_source_support="enabled")
    dashed = admit("-w", dashing, "--output", "json")
    assert ("admit-id-dashes", "warning") in {(each["id"], each["severity"]) for each in dashed.json["findings"]}


def test_what_a_group_brings(site: Site, admit: Any) -> None:
    brought = site.worker_file("own", "team.new", sharing=False)
    words = ("-w", site.shared("team.new"), "--from", brought, "--output", "json")
    ran = admit(*words)
    assert (ran.code, severe(ran)) == (1, {"secrets-clear-text", "sizes-too-large"})
    assert ran.json["startup"]["longest_after"] > ran.json["startup"]["longest_before"]
    ran = admit(*words, "--ignore", "secrets-clear-text", "--ignore", "sizes-too-large")
    assert (ran.code, ran.json["admitted"]) == (0, True)


def test_a_group_without_keys_beside_sealed_ones(broker: TestBroker, unique: str, tmp_path: Path, admit: Any) -> None:
    site = Site(broker.bootstrap_servers, unique, tmp_path)
    site.create("shared", ONE_EACH, UNTOUCHED)
    # It only claims to be sealed, which is all that is known without its keys.
    (record,) = records(CONFIG, ("connector-a", None), group="sealed")
    value = Cipher(KeyRing.parse(key_text(7)), CONFIG).seal(record.key or b"", b"{}", 1)
    write_records(site.settings, site.topic("shared", CONFIG), [replace(record, value=value)])
    ran = admit("-w", site.shared("team.plain"), "--output", "json")
    assert (ran.code, severe(ran)) == (1, {"admit-sealing"})
    ran = admit("-w", worker(site, "shared", "team.sealed", 8), "--output", "json")
    assert (ran.code, severe(ran)) == (0, set())
