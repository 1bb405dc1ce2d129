"""A topic that is deleted and created again under a running log: noticed, named, and nothing reported as written."""

from __future__ import annotations

import re
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest

from connect_share.errors import ConnectShareError, LogFailedError, StoreClosedError, StoreError, TopicRecreatedError
from connect_share.log import identity
from connect_share.log.protocol import RecordMetadata
from tests.support.waiting import await_that


def recreate(bench: Any, log: Any) -> str:
    """Delete and create it, and give the new id."""
    bench.admin.delete_topics([bench.topic])
    await_that(lambda: bench.admin.describe_topics([bench.topic]), lambda found: not found, what="gone")
    bench.create()
    new_id = bench.admin.describe_topics([bench.topic])[bench.topic].topic_id
    assert new_id != log.topic_id
    return str(new_id)


def failure(log: Any) -> TopicRecreatedError | None:
    try:
        log.check_topic()
    except TopicRecreatedError as error:
        return error
    return None


def test_an_idle_log_notices(bench: Any, collected: Any) -> None:
    log = bench.started(collected())
    old_id, new_id = log.topic_id, recreate(bench, log)
    error: Any = await_that(lambda: failure(log), what="noticed")
    assert (error.old_id, error.new_id) == (old_id, new_id)
    assert re.search(rf"created again .id {old_id}, now {new_id}., noticed 20\d\d-.* last seen as it was", str(error))
    with pytest.raises(TopicRecreatedError):
        log.read_to_end(1)
    with pytest.raises(TopicRecreatedError):
        log.send(b"k", b"v")


def test_no_put_is_reported_successful(bench: Any, collected: Any) -> None:
    log = bench.started(collected())
    log.send(b"k", b"v").result(30)
    recreate(bench, log)
    log._identity.seen_s -= identity.FRESH_S  # as if the last look were a second ago
    if failure(log) is None:  # else the watch was quicker
        with pytest.raises(TopicRecreatedError):
            log.send(b"k", b"late").result(30)
    assert failure(log) is not None


def test_an_offset_that_falls_back_is_enough(bench: Any, collected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "FRESH_S", 3_600.0)
    log = bench.started(collected())
    bench.write([(b"k", b"of somebody else")])
    log.read_to_end(30)
    recreate(bench, log)
    with pytest.raises(ConnectShareError) as caught:
        log.send(b"k", b"late").result(30)
    assert isinstance(caught.value, TopicRecreatedError)
    assert failure(log) is not None


def test_what_slipped_through_is_named(bench: Any, collected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "FRESH_S", 3_600.0)
    monkeypatch.setattr(identity, "_WATCH_S", 0.5)
    log = bench.started(collected())
    bench.admin.delete_topics([bench.topic])
    bench.create()
    # Nothing was ever there, so offset 0 says nothing.
    with suppress(TopicRecreatedError):  # it was noticed before
        if log.send(b"k", b"v").exception(30) is None:
            error: Any = await_that(lambda: failure(log), what="noticed")
            assert "perhaps written to the new one: [0]@0" in str(error) or "Acknowledged" not in str(error)
    await_that(lambda: failure(log), what="noticed")


def test_names_of_what_slipped_through() -> None:
    error = TopicRecreatedError("topic t was deleted", topic="t", old_id="a", new_id="b")
    passed = [RecordMetadata("t", number % 2, number) for number in range(12)]
    told = identity._with_names(error, passed)
    assert str(told).endswith(
        "perhaps written to the new one: " + ", ".join(f"[{n % 2}]@{n}" for n in range(10)) + " and 2 more"
    )
    assert (told.old_id, told.new_id) == ("a", "b")


def test_a_log_that_was_cut_fails_the_store(bench: Any, collected: Any) -> None:
    """The same topic, but what is acknowledged lies before what was read."""
    log = bench.started(collected())
    future: Future[RecordMetadata] = Future()
    log._watch.acknowledged(future, RecordMetadata(bench.topic, 0, 4), {0: 5})
    with pytest.raises(StoreError, match="the log was cut"):
        future.result(30)
    with pytest.raises(ConnectShareError, match="the log was cut"):
        log.read_to_end(1)


def test_an_acknowledgement_waits_for_a_look(bench: Any, collected: Any) -> None:
    log = bench.started(collected())
    log._identity.seen_s -= 60
    before = log._identity.seen_s
    assert log.send(b"k", b"v").result(30).offset == 0
    assert log._identity.seen_s > before
    log._identity.seen_s -= 60
    log.send(b"k", b"v")
    log.flush(30)
    assert not log._watch._waiting


def test_a_question_that_ends_the_thread_ends_the_log(
    bench: Any, collected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it is: a write would else wait for its acknowledgement for ever."""
    log = bench.started(collected())
    assert log.send(b"k", b"v").result(30).offset == 0

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("s3cret")

    monkeypatch.setattr(bench.admin, "describe_topics", broken)
    log._identity.seen_s -= 60
    with pytest.raises(LogFailedError, match=f"whether topic {bench.topic} is still .*RuntimeError"):
        log.send(b"k", b"late").result(30)
    with pytest.raises(LogFailedError, match="must be started again") as caught:
        log.check_topic()
    assert "s3cret" not in str(caught.value)


def test_stopping_hands_out_what_waits(bench: Any, collected: Any) -> None:
    log = bench.started(collected())
    log._identity.seen_s -= 60
    futures = [log.send(b"k%d" % number, b"v") for number in range(50)]
    log.stop()
    assert [future.result(30).offset for future in futures] == list(range(50))


def test_an_acknowledgement_after_the_end_does_not_wait_for_a_look(bench: Any, collected: Any) -> None:
    """The broker may be quicker than the stop of a log that is written to at this moment."""
    log = bench.started(collected())
    log.stop()
    log._watch.thread.join(30)
    future: Future[RecordMetadata] = Future()
    log._identity.seen_s -= 60
    log._watch.acknowledged(future, RecordMetadata(bench.topic, 0, 0), {})
    assert isinstance(future.exception(30), StoreClosedError)
