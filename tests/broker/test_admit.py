"""``admit`` beside real topics: a group that may join, and each reason why one may not."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.model.records import TopicType
from connect_share.sealing import KEYS_PROPERTY, KeyRing
from connect_share.sealing.cipher import Cipher
from tests.lab.embedded.worker import write_properties
from tests.support.captures import captured, prefixed
from tests.support.checked import CAPTURED, CONFIG, OFFSET, STATUS, records
from tests.support.connect_member import ConnectMember
from tests.support.console import Ran, console
from tests.support.kafka import TOPIC_PREFIX, TestBroker
from tests.support.sealed import key_text
from tests.support.topics import UNTOUCHED, alter_known, create_known, write_records

SECRET = "hunter2-canary"
BROUGHT: dict[TopicType, list[tuple[str, str | None]]] = {
    CONFIG: [
        ("connector-big", f'{{"properties":{{"db.password":"{SECRET}","size":"{"x" * 15_000}"}}}}'),
        ("commit-big", '{"tasks":0}'),
    ],
    STATUS: [],
    OFFSET: [('["big",{"p":1}]', '{"o":1}')],
}


class Site:
    """Topics with one group, and dedicated topics of a cluster that is to join."""

    def __init__(self, broker: TestBroker, tag: str, folder: Path) -> None:
        self.broker, self.there, self._folder = broker, f"there.{tag}", folder
        self.topics = {kind: f"{tag}-{kind.value}" for kind in TopicType}
        self.dedicated = {kind: f"{tag}-own-{kind.value}" for kind in TopicType}

    def file(self, group: str, more: Mapping[str, str] | None = None, *, dedicated: bool = False) -> Path:
        topics = self.dedicated if dedicated else self.topics
        lines = {
            "bootstrap.servers": self.broker.bootstrap_servers,
            "group.id": group,
            **{f"{kind.value}.storage.topic": topic for kind, topic in topics.items()},
            **({} if dedicated else {"connect.management.topic.sharing.support": "enabled"}),
            **(more or {}),
        }
        path = self._folder / f"{group.replace('/', '-')}{'-own' if dedicated else ''}.properties"
        return write_properties(path, lines)


pytestmark = pytest.mark.xdist_group("admit")


@pytest.fixture(scope="module")
def site(broker: TestBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("admit")
    made = Site(broker, f"{TOPIC_PREFIX}-admit-{uuid.uuid4().hex[:6]}", folder)
    every = [*made.topics.items(), *made.dedicated.items()]
    with broker.admin() as admin:
        for _, topic in every:
            create_known(admin, NewTopicRequest(topic, 1, 1, UNTOUCHED))
        try:
            for kind in TopicType:
                own = prefixed(captured("4.3.1", CAPTURED[kind]), made.there)
                write_records(broker.client_settings, made.topics[kind], own, keep_partition=False)
                brought = records(kind, *BROUGHT[kind])
                write_records(broker.client_settings, made.dedicated[kind], brought)
            alter_known(admin, made.topics[CONFIG], {"max.message.bytes": "12000"})
            yield made
        finally:
            admin.delete_topics([topic for _, topic in every])


@pytest.fixture
def admit(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    def call(*words: str | Path) -> Ran:
        ran = console(capsys)("admit", *words)
        assert SECRET not in ran.out + ran.err
        return ran

    return call


def severe(ran: Ran) -> set[str]:
    return {finding["id"] for finding in ran.json["findings"] if finding["severity"] == "error"}


def ids(ran: Ran) -> set[str]:
    return {finding["id"] for finding in ran.json["findings"]}


def test_a_group_that_may_join(site: Site, admit: Any) -> None:
    ran = admit("-w", site.file("team.new"), "--output", "json")
    assert (ran.code, severe(ran), ran.json["admitted"], ran.json["group"]) == (0, set(), True, "team.new")
    assert ids(ran) <= {"admit-startup", "worker-config"}
    assert ran.json["groups_there"] == 1
    startup = ran.json["startup"]
    assert startup["longest_before"] == startup["longest_after"]
    assert 0 < startup["own"] <= startup["longest_after"]
    text = admit("-w", site.file("team.new"))
    assert text.code == 0
    assert "may join beside 1 group" in text.out


@pytest.mark.parametrize(
    ("group", "more", "expected"),
    [
        ("connector-x", {}, "admit-id-illegal"),
        ("team", {"connect.management.topic.sharing.support": "disabled"}, "admit-not-shared"),
    ],
)
def test_a_file_that_cannot_share(site: Site, admit: Any, group: str, more: dict[str, str], expected: str) -> None:
    ran = admit("-w", site.file(group, more), "--output", "json")
    assert (ran.code, severe(ran), ran.json["admitted"]) == (1, {expected}, False)


def test_an_id_that_is_there_or_nearly(site: Site, admit: Any) -> None:
    ran = admit("-w", site.file(site.there), "--output", "json")
    assert (ran.code, severe(ran)) == (1, {"admit-id-in-use"})
    with ConnectMember(site.broker.bootstrap_servers, f"{site.there}.more"):
        ran = admit("-w", site.file(f"{site.there}.more"), "--output", "json")
    assert ran.code == 0
    assert {"collision-nested-ids", "admit-live-members"} <= ids(ran)
    assert "admit-id-similar" in ids(admit("-w", site.file(site.there.upper()), "--output", "json"))
    dashed = admit("-w", site.file(f"{site.there}-2", {"exactly.once.source.support": "enabled"}), "--output", "json")
    assert ("admit-id-dashes", "warning") in {(each["id"], each["severity"]) for each in dashed.json["findings"]}


def test_what_a_group_brings(site: Site, admit: Any) -> None:
    words = ["-w", site.file("team.new"), "--from", site.file("team.new", dedicated=True), "--output", "json"]
    ran = admit(*words)
    assert (ran.code, severe(ran)) == (1, {"secrets-clear-text", "sizes-too-large"})
    assert ran.json["startup"]["longest_after"] > ran.json["startup"]["longest_before"]
    ran = admit(*words, "--ignore", "secrets-clear-text", "--ignore", "sizes-too-large")
    assert (ran.code, ran.json["admitted"]) == (0, True)


def test_a_group_without_keys_beside_sealed_ones(site: Site, admit: Any, unique: str) -> None:
    topics = {kind: f"{unique}-{kind.value}" for kind in TopicType}
    names = {f"{kind.value}.storage.topic": topic for kind, topic in topics.items()}
    with site.broker.admin() as admin:
        for topic in topics.values():
            create_known(admin, NewTopicRequest(topic, 1, 1, UNTOUCHED))
        # It only claims to be sealed, which is all that is known without its keys.
        (record,) = records(CONFIG, ("connector-a", None), group="sealed")
        value = Cipher(KeyRing.parse(key_text(7)), CONFIG).seal(record.key or b"", b"{}", 1)
        write_records(site.broker.client_settings, topics[CONFIG], [replace(record, value=value)])
        ran = admit("-w", site.file("team.plain", names), "--output", "json")
        assert (ran.code, severe(ran)) == (1, {"admit-sealing"})
        ran = admit("-w", site.file("team.sealed", {**names, KEYS_PROPERTY: key_text(8)}), "--output", "json")
        assert (ran.code, severe(ran)) == (0, set())
