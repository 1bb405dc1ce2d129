"""Threads that others wait for: an unexpected error ends none of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connect_share.exporter import followed_topic
from connect_share.exporter.followed_topic import FollowedTopic
from connect_share.kafka.admin import Admin
from connect_share.kafka.create import topic_spec
from connect_share.kafka.facts import gather_facts
from connect_share.model.records import TopicType
from connect_share.storage import ConnectStorage, live_members
from connect_share.storage.checkpoint import read_checkpoint
from tests.support.waiting import await_that

SECRET = "s3cret-in-an-error"


def fails_once(call: Callable[..., Any]) -> tuple[Callable[..., Any], list[str]]:
    """Return the call, which fails the first time, and what it did."""
    done: list[str] = []

    def failing(*arguments: Any, **named: Any) -> Any:
        done.append("failed" if not done else "answered")
        if len(done) == 1:
            raise RuntimeError(SECRET)
        return call(*arguments, **named)

    return failing, done


def test_live_members_are_asked_for_again(shared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_members, "LIVE_MEMBERS_CACHE_S", 0.0)
    with ConnectStorage(shared.sharing(), allow_empty=True) as storage:
        failing, done = fails_once(Admin.connect_members)
        monkeypatch.setattr(Admin, "connect_members", failing)
        storage.config.put_connector_config("c", {})
        storage.config.put_connector_config("d", {})
        assert done[:2] == ["failed", "answered"]


def test_a_checkpoint_is_written_later(shared: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "checkpoint"
    with pytest.MonkeyPatch.context() as meanwhile:
        failing, done = fails_once(Admin.start_offsets)
        meanwhile.setattr(Admin, "start_offsets", failing)
        with ConnectStorage(shared.sharing(), allow_empty=True, checkpoint=path):
            await_that(lambda: done, what="tried")
    assert f"Checkpoint {path} was not written: RuntimeError" in caplog.text
    assert SECRET not in caplog.text
    assert read_checkpoint(path) is not None


def test_a_topic_is_followed_again(
    shared: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with ConnectStorage(shared.sharing(), allow_empty=True):
        worker = shared.sharing()
    failing, _ = fails_once(gather_facts)
    monkeypatch.setattr(followed_topic, "gather_facts", failing)
    monkeypatch.setattr(followed_topic, "_AGAIN_S", 0.1)
    with Admin(worker.admin_settings(), client_id="tests") as admin:
        spec = topic_spec(worker, TopicType.STATUS)
        followed = FollowedTopic(spec, worker.consumer_settings(), worker.isolation(TopicType.STATUS), admin)
        followed.start()
        await_that(lambda: followed.is_up, what="followed")
        followed.stop()
    assert f"Reading topic {spec.topic} begins anew: RuntimeError" in caplog.text
    assert SECRET not in caplog.text
