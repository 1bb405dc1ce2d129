"""An admin client that several threads use while it, or its broker, goes away."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, cast

import pytest

from connect_share.errors import BrokerError
from connect_share.kafka.admin import Admin
from connect_share.kafka.client import AdminClient, KafkaError
from connect_share.kafka.descriptions import NewTopicRequest
from connect_share.worker_config.client_settings import ClientSettings

NOBODY = ClientSettings({"bootstrap.servers": "127.0.0.1:1"})


class Trouble:
    """A connection error; while this thread looks at it, others hear of the next one or forget it."""

    def __init__(self, name: str, meanwhile: Callable[[], object]) -> None:
        self._name, self._meanwhile = name, meanwhile

    def name(self) -> str:
        self._meanwhile()
        return self._name


@pytest.mark.parametrize("name", ["_TRANSPORT", "_RESOLVE"])
def test_other_threads_hear_of_trouble_meanwhile(name: str) -> None:
    newer = KafkaError(KafkaError._TRANSPORT)
    with Admin(NOBODY, client_id="tests", timeout_s=0.5) as admin:
        admin._answered = True
        admin._note_trouble(cast("KafkaError", Trouble(name, lambda: admin._note_trouble(newer))))
        assert "no answer from" in str(admin._no_answer(BrokerError("no time left")))


def test_two_threads_get_no_answer_at_once() -> None:
    errors: list[BrokerError] = []

    def ask() -> None:
        with pytest.raises(BrokerError, match="no answer from") as caught:
            admin.describe_topics(["t"])
        errors.append(caught.value)

    with Admin(NOBODY, client_id="tests", timeout_s=0.5) as admin:
        asking = [threading.Thread(target=ask) for _ in range(4)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
    assert len(errors) == len(asking)


@pytest.mark.parametrize(
    ("call", "ask"),
    [
        ("describe_configs", lambda admin: admin.topic_configs("t")),
        ("describe_configs", lambda admin: admin.own_topic_configs("t")),
        ("incremental_alter_configs", lambda admin: admin.alter_topic_configs("t", {"a": "1"})),
        ("create_topics", lambda admin: admin.create_topic(NewTopicRequest("t", 1, 1))),
        ("delete_topics", lambda admin: admin.delete_topics(["t"])),
        ("describe_cluster", lambda admin: admin.cluster_id()),
    ],
)
def test_closed_while_the_broker_answers(
    call: str, ask: Callable[[Admin], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library forgets what a broker that is connected has not answered yet: these futures never end."""
    admin = Admin(NOBODY, client_id="tests", timeout_s=0.5)

    def lost(_client: object, asked: Any = (), **_options: object) -> Any:
        admin.close()
        return (
            Future()
            if call == "describe_cluster"
            else {each: Future() for each in (asked if call.endswith("configs") else ["t"])}
        )

    def run() -> None:
        try:
            ask(admin)
        except BrokerError as error:
            raised.append(error)

    monkeypatch.setattr(AdminClient, call, lost)
    raised: list[BrokerError] = []
    asking = threading.Thread(target=run, daemon=True)
    asking.start()
    asking.join(30)
    assert not asking.is_alive()
    assert len(raised) == 1
