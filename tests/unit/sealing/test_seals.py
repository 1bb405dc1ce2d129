"""What is accepted in each mode and what is refused between the wire and a fold; the hybrid clock behind it."""

from __future__ import annotations

import json
import logging
import time
from base64 import b64decode
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connect_share import (
    ConfigError,
    KeyRing,
    SealedGroupError,
    SealingMode,
    UsageError,
    replay_config,
    replay_offsets,
    replay_status,
)
from connect_share.model.config import (
    ConfigFold,
    connector_config_record,
    moved_record,
    target_state_record,
    task_commit_record,
    task_config_record,
    task_count_record,
)
from connect_share.model.config_state import Moved, TargetState
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import ConnectorTaskId, Record, TopicType
from connect_share.sealing import Refusal, TopicSeals
from connect_share.sealing import seals as topic_seals
from connect_share.sealing.cipher import LATEST_MS
from connect_share.sealing.seals import Freshness
from tests.support.histories import History, histories
from tests.support.sealed import GROUP, KEYS, all_sealed, key_text, sealed, seals

NOW = 1_700_000_000_000
CONNECTOR, VALUE = b"com.acme.connector-c", b'{"properties":{"password":"hunter2"}}'
STATUS, OFFSET = b"com.acme.status-connector-c", b'com.acme.["c",{"f":1}]'
KEY_OF = {TopicType.CONFIG: CONNECTOR, TopicType.STATUS: STATUS, TopicType.OFFSET: OFFSET}
OFF = (SealingMode.OFF, KEYS), (SealingMode.REQUIRED, None), (SealingMode.ACCEPT, None)
every_topic = pytest.mark.parametrize("topic_type", TopicType)


def record(key: bytes | None = CONNECTOR, value: bytes | None = VALUE, offset: int = 0) -> Record:
    return Record("t", 0, offset, NOW + offset, key, value, (("h", b"x"),))


def taken(step: TopicSeals, found: Record) -> tuple[bytes | None, ...] | str:
    """What the fold sees, or why it sees nothing."""
    before = step.refused.copy()
    seen = step.open(found)
    new = [reason.name for reason in step.refused - before]
    if seen is None:
        assert len(new) == 1
        return new[0]
    assert replace(seen, key=found.key, value=found.value) == found
    return (seen.key, seen.value)


PLAIN_FORMS = (VALUE, b'{"tasks":1}')
FORMS = {"plain": PLAIN_FORMS[0], "sealed": b"\1" + bytes(60), "null": b"null", "tombstone": None}
WRITTEN = st.lists(st.tuples(st.integers(0, 5), st.sampled_from([*FORMS])), max_size=40)


def unsaid(checkpointed: Iterable[bytes] = ()) -> TopicSeals:
    """A step of a worker whose file says nothing about sealing."""
    step = TopicSeals(TopicType.CONFIG, GROUP, None, SealingMode.OFF, says_sealing=False)
    step.restored(checkpointed)
    return step


@given(checkpointed=st.sets(st.integers(0, 5)), written=WRITTEN)
def test_a_group_that_looks_sealed_is_not_started_without_a_word(
    checkpointed: set[int], written: list[tuple[int, str]]
) -> None:
    living = dict.fromkeys(checkpointed, "plain")
    records = []
    for at, (number, form) in enumerate(written):
        records += [
            record(b"com.acme.connector-%d" % number, FORMS[form], at),
            record(b"com.acme.x.connector-%d" % number, FORMS["sealed"], at),
            record(b"connector-%d" % number, FORMS["sealed"], at),
        ]
        living[number] = form
    looks = [form for form in living.values() if form in {"plain", "sealed"}]
    step, stated = unsaid(b"connector-%d" % number for number in checkpointed), seals(TopicType.CONFIG, *OFF[0])
    assert [*step.open_all(records)] == [*stated.open_all(records)]
    stated.end_start()
    if looks.count("sealed") * 2 > len(looks):
        with pytest.raises(SealedGroupError, match=f"^{looks.count('sealed')} of {len(looks)} values") as caught:
            step.end_start()
        assert "hunter2" not in str(caught.value)
    else:
        step.end_start()
        # What is sealed later is refused record by record.
        step.open(record(CONNECTOR, FORMS["sealed"]))
        step.end_start()


@given(steps=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["a", "b-1"]), st.integers(0, 2)), max_size=30))
@example(steps=[(0, "a", 0), (2, "a", 0), (3, "a", 0), (2, "a", 0)])  # a task before and behind its commit
def test_the_keys_of_a_state_are_those_of_its_records(steps: list[tuple[int, str, int]]) -> None:
    fold, newest = ConfigFold(GROUP), dict[bytes, bytes | None]()
    for at, (kind, connector, number) in enumerate(steps):
        key, value = (
            lambda name, n: connector_config_record(name, {"n": str(n)}),
            lambda name, n: (connector_config_record(name, {})[0], b"null"),
            lambda name, n: task_config_record(ConnectorTaskId(name, n), {}),
            task_commit_record,
            lambda name, n: target_state_record(name, [*TargetState][n]),
            task_count_record,
        )[kind](connector, number)
        newest[key] = value
        fold.apply(record(GROUP.prefix + key, value, at))
    keys = [*fold.living_keys()]
    assert len({*keys}) == len(keys)
    assert {*keys} <= {key for key, value in newest.items() if value != b"null"}
    named = {key for key in newest if key.startswith(b"connector-")}
    assert {*keys} & named == {key for key in named if newest[key] != b"null"}


@every_topic
@pytest.mark.parametrize(
    "key", [b"com.acme.x.connector-c", b"com.acmeconnector-c", b"connector-c", b"com.acme.", b"x", b"", None]
)
def test_what_is_not_the_groups_passes(topic_type: TopicType, key: bytes | None) -> None:
    for mode, keys in (*OFF, (SealingMode.REQUIRED, KEYS), (SealingMode.ACCEPT, KEYS)):
        step = seals(topic_type, mode, keys)
        for value in (None, VALUE, b"\1" + bytes(60)):
            found = record(key, value)
            assert step.open(found) is found
        assert not step.refused


@every_topic
def test_what_is_refused_where_sealing_is_required(topic_type: TopicType) -> None:
    step, key = seals(topic_type), KEY_OF[topic_type]
    whole = step.seal(key, VALUE) or b""
    assert taken(step, record(key, VALUE)) == "PLAIN"
    assert taken(step, record(key, b"")) == "PLAIN"
    assert taken(step, record(key, b"null")) == "PLAIN"
    assert taken(step, record(key, None)) == "TOMBSTONE"
    assert taken(step, record(key, whole[:41])) == "MALFORMED"
    assert taken(step, record(key, whole[:-1] + bytes([whole[-1] ^ 1]))) == "FORGED"
    assert (
        taken(step, record(key, seals(topic_type, keys=KeyRing.parse(key_text(8))).seal(key, VALUE))) == "UNKNOWN_KEY"
    )
    other = {kind: key_of + b"2" for kind, key_of in KEY_OF.items()}[topic_type]
    assert taken(step, record(other, whole)) == "FORGED"
    assert taken(step, record(key, whole)) == (key, VALUE)


@every_topic
def test_plain_records_are_believed_in_accept_and_sealed_ones_have_to_be_good(topic_type: TopicType) -> None:
    step, key = seals(topic_type, SealingMode.ACCEPT), KEY_OF[topic_type]
    for value in (VALUE, None, b"null", b""):
        found = record(key, value)
        assert step.open(found) is found
    whole = step.seal(key, VALUE) or b""
    assert whole[:1] == b"\1"
    assert taken(step, record(key, whole)) == (key, VALUE)
    assert taken(step, record(key, whole[:-1])) == "FORGED"
    assert taken(step, record(key, b"\1")) == "MALFORMED"


@every_topic
@pytest.mark.parametrize(("mode", "keys"), OFF)
def test_without_keys_everything_plain_passes_and_nothing_sealed(
    topic_type: TopicType, mode: SealingMode, keys: KeyRing | None
) -> None:
    step, key, plain = seals(topic_type, mode, keys), KEY_OF[topic_type], TopicSeals(topic_type, None, KEYS)
    for value in (VALUE, None, b""):
        assert step.seal(key, value) == plain.seal(key, value) == value
        found = record(key, value)
        assert step.open(found) is plain.open(found) is found
    assert taken(step, record(key, seals(topic_type).seal(key, VALUE))) == "NO_KEYS"
    of_no_group = record(key[len(GROUP.prefix) :], seals(topic_type).seal(key, VALUE))
    assert plain.open(of_no_group) is step.open(of_no_group) is of_no_group
    step.end_start()
    assert step.saved({"a": 1}) == step.restore({"a": 1}) == {"a": 1}


def test_a_replay_is_refused_and_moves_the_position_of_the_config_topic() -> None:
    step, fold = seals(), ConfigFold(GROUP)
    newest = sealed(record(value=b'{"properties":{"v":"2"}}', offset=4), written_ms=NOW + 120_000)
    key, fence = moved_record(Moved("plan.json", "run"))
    fenced = sealed(record(GROUP.prefix + key, fence, 5))
    for seen in step.open_all([newest, fenced, *(replace(each, offset=8) for each in (fenced, newest))]):
        fold.apply(seen)
    (moves,) = step.open_all([sealed(record(offset=9), written_ms=NOW)])
    assert (moves.key, moves.value) == (b"com.acme.target-state- ", b"null")
    assert fold.apply(moves) == []
    state = fold.snapshot()
    assert (state.offset, state.moved) == (10, Moved("plan.json", "run"))
    assert state.connector_config("c") == {"v": "2"}
    assert step.accepted(fenced) is None
    assert step.refused == {Refusal.REPLAYED: 1}
    fresh = ConfigFold(GROUP)
    for seen in seals().open_all([sealed(record(offset=9), written_ms=NOW)]):  # nobody remembers the newer one
        fresh.apply(seen)
    assert fresh.snapshot().offset == 10


@pytest.mark.parametrize("topic_type", [TopicType.STATUS, TopicType.OFFSET])
def test_a_replay_elsewhere_is_refused_whole(topic_type: TopicType) -> None:
    step, key = seals(topic_type), KEY_OF[topic_type]
    first, removal = (
        sealed(record(key, value), topic_type, written_ms=NOW + at) for at, value in ((0, VALUE), (1, None))
    )
    assert taken(step, first) == (key, VALUE)
    assert step.open(first) is None
    assert (step.repeated, step.refused) == (1, {})
    assert taken(step, removal) == (key, None)
    assert taken(step, first) == "REPLAYED"
    # Another partition has an order of its own; the fold compares the two by their times.
    elsewhere = step.open(replace(first, partition=1))
    assert elsewhere is not None
    assert elsewhere.sealed_ms == NOW


def test_values_of_one_millisecond_count_in_the_order_of_the_log_and_once() -> None:
    first, second = (sealed(record(value=value), written_ms=NOW) for value in (VALUE, b"null"))
    step = seals()
    found = [(each.key, each.value) for each in step.open_all([first, second, first, second, second])]
    moves = (b"com.acme.target-state- ", b"null")
    assert found == [(CONNECTOR, VALUE), (CONNECTOR, b"null"), moves, moves, moves]
    assert (step.repeated, step.refused) == (2, {Refusal.REPLAYED: 1})


def test_refusals_that_depend_on_the_record_alone_leave_the_position() -> None:
    fold = ConfigFold(GROUP)
    step = seals()
    forged = [record(offset=3), record(value=None, offset=4), record(value=b"\1" + bytes(60), offset=5)]
    for seen in step.open_all([sealed(record(value=b"null", offset=1)), *forged]):
        fold.apply(seen)
    assert fold.snapshot().offset == 2
    assert step.refused.total() == 3


@every_topic
def test_a_start_ends_if_nothing_opens_and_one_record_of_a_stranger_does_not_end_it(topic_type: TopicType) -> None:
    key, elsewhere = KEY_OF[topic_type], KeyRing.parse(key_text(9))
    stranger = sealed(replace(record(key, offset=3), topic="t"), topic_type, keys=elsewhere)
    step = seals(topic_type)
    assert taken(step, stranger) == "UNKNOWN_KEY"
    step.end_start(insists=False)
    with pytest.raises(ConfigError) as caught:
        step.end_start()
    assert caught.value.property_name == "connect.management.topic.sharing.encryption.keys"
    assert str(caught.value).endswith(
        "t[0]@3 is sealed with key 9, and no value of the group opens, but "
        "connect.management.topic.sharing.encryption.keys has only 7: put the missing key behind those that are there; "
        "if the group never had it, another writer's record keeps it from starting: write null under its key, and let the "
        "cleaner take it"
    )
    assert taken(step, sealed(record(key, offset=4), topic_type)) == (key, VALUE)
    step.end_start()
    assert taken(step, stranger) == "UNKNOWN_KEY"
    step.end_start()
    step, wrong = seals(topic_type), sealed(record(key), topic_type, keys=KeyRing([(7, bytes(32))]))
    assert taken(step, wrong) == "FORGED"
    with pytest.raises(
        ConfigError, match="keys has another one under this id: put that of the group there; if the group"
    ):
        step.end_start()


def started(log: Iterable[Record], *ids: int) -> TopicSeals:
    step = TopicSeals(TopicType.CONFIG, GROUP, KeyRing.parse(key_text(*ids)))
    for each in log:
        step.open(each)
    step.end_start()
    return step


def restarted(log: Iterable[Record], before: tuple[int, ...], *ids: int) -> TopicSeals:
    """A step that goes on from a checkpoint of a worker that had keys with other ids, or in another order."""
    was, step = (TopicSeals(TopicType.CONFIG, GROUP, KeyRing.parse(key_text(*each))) for each in (before, ids))
    for each in log:
        was.open(each)
    step.restore(json.loads(json.dumps(was.saved({}))))
    step.end_start()
    return step


def test_a_checkpoint_remembers_which_keys_the_group_uses() -> None:
    old, new = (sealed(record(offset=at), keys=KeyRing.parse(key_text(at))) for at in (7, 8))
    assert len(restarted([old], (8, 7), 8, 7).announcements()) == 2
    with pytest.raises(ValueError, match="with other keys"):  # all its values are under another key than the first now
        restarted([old], (7, 8), 8, 7)
    announced = [record(key, value, 9) for key, value in started([old], 8, 7).announcements()]
    assert restarted([old, *announced], (8, 7), 8, 7).announcements() == []
    with pytest.raises(ConfigError, match="says that the group uses key 8"):
        restarted([old, *announced], (7,), 7)
    step = restarted([old], (7,), 7)
    step.open(new)
    step.end_start()  # one record of a stranger does not end it, either


@given(ids=st.permutations([7, 8, 9]), old=st.integers(1, 2))
def test_a_worker_without_a_key_that_its_group_uses_does_not_start(ids: list[int], old: int) -> None:
    log = [sealed(record(CONNECTOR + b"%d" % number), keys=KeyRing.parse(key_text(number))) for number in ids]
    whole = started(log, *ids)
    log += [record(key, value, offset) for offset, (key, value) in enumerate(whole.announcements())]
    assert len(log) == 9
    assert started(log, *ids).announcements() == []
    for missing in (ids[:old], ids[old:]):
        with pytest.raises(ConfigError, match=r"^t\[0\]@\d says that the group uses key \d, but"):
            started(log, *missing)
    fold = ConfigFold(GROUP)
    for each in started(log, *ids).open_all(log[3:]):
        assert fold.apply(each) == []
    # Whoever writes all of it again under one key leaves nothing announced.
    again = TopicSeals(TopicType.CONFIG, GROUP, KeyRing.parse(key_text(*ids)))
    rewritten = [record(each.key, again.seal(each.key or b"", each.value)) for each in [*again.open_all(log)]]
    first = started([*log, *rewritten], ids[0])
    assert first.announcements() == []
    assert started([*log, *rewritten], *ids).announcements() == []


def test_ids_are_announced_as_long_as_a_value_of_the_group_is_under_another_key() -> None:
    old, new = (sealed(record(offset=at), keys=KeyRing.parse(key_text(at))) for at in (7, 8))
    announced = started([old], 8, 7).announcements()
    assert len(announced) == 2
    assert started([old, new], 8, 7).announcements() == []
    log = [old, *(record(key, value, 9 + at) for at, (key, value) in enumerate(announced))]
    newest = sealed(record(offset=20), keys=KeyRing.parse(key_text(9)))
    assert started([*log, newest], 9, 8, 7).announcements() == []


def test_a_line_for_each_refusal_and_not_for_thousands(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    step = seals()
    for offset in range(1_000):
        step.open(record(value=b'{"password":"hunter2"}', offset=offset))
    assert step.refused == {Refusal.PLAIN: 1_000}
    lines = [found.getMessage() for found in caplog.records]
    assert len(lines) == 100
    assert lines[7] == "Refused the record at t[0]@7: its value is not sealed, whoever wrote it"
    assert {found.levelno for found in caplog.records} == {logging.ERROR}
    assert "hunter2" not in caplog.text


def test_one_line_when_a_key_has_sealed_half_of_what_it_may(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_seals, "ROTATE_AFTER", 3)
    step = seals()
    for _ in range(2):
        step.seal(CONNECTOR, VALUE)
    assert not caplog.records
    for _ in range(5):
        step.seal(CONNECTOR, VALUE)
    [line] = caplog.records
    assert line.levelno == logging.WARNING
    assert line.getMessage() == (
        "3 values of the config topic were sealed with key 7 in this process alone: it is time for a new key"
    )


def saved_with(mode: SealingMode = SealingMode.REQUIRED, *, keys: str = key_text(7)) -> Any:
    step = seals(TopicType.OFFSET, mode, KeyRing.parse(keys))
    step.open(sealed(record(OFFSET), TopicType.OFFSET, written_ms=NOW))
    return json.loads(json.dumps(step.saved([["a", "b"]])))


def test_a_checkpoint_remembers_what_was_newest() -> None:
    found = saved_with()
    step = seals(TopicType.OFFSET)
    assert step.restore(found) == [["a", "b"]]
    assert taken(step, sealed(record(OFFSET), TopicType.OFFSET, written_ms=NOW - 1)) == "REPLAYED"
    key = dict(KEYS.items())[7]
    assert not [text for text in (key.hex(), key_text(7)[2:12]) if text in json.dumps(found)]
    assert [(partition, b64decode(name)) for partition, name, _ in found["seen"]] == [(0, OFFSET)]


@pytest.mark.parametrize(
    "found",
    [
        lambda: saved_with(SealingMode.ACCEPT),
        lambda: saved_with(keys=key_text(7, 8)),
        lambda: saved_with(keys=key_text(7).replace("B", "C")),
        lambda: [["a", "b"]],
        dict,
        lambda: None,
    ],
)
def test_a_checkpoint_of_other_keys_or_another_mode_is_not_used(found: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="it was saved with other keys"):
        seals(TopicType.OFFSET).restore(found())


def test_a_checkpoint_of_a_worker_with_keys_is_not_used_without() -> None:
    with pytest.raises(ValueError, match="by a worker with keys"):
        seals(TopicType.OFFSET, keys=None).restore(saved_with())


@pytest.mark.parametrize("replay", [replay_config, replay_status, replay_offsets])
def test_a_mode_says_nothing_without_keys(replay: Any) -> None:
    with pytest.raises(UsageError, match="give the keys, or leave it out"):
        replay([], "g.h", mode=SealingMode.REQUIRED)


@settings(max_examples=50)
@given(histories(), st.sampled_from(TopicType), st.data())
def test_a_sealed_history_is_the_plain_one_whatever_others_write_into_it(
    history: History, topic_type: TopicType, data: st.DataObject
) -> None:
    """Plain records, tombstones, records of other places and groups, and all that was written before change nothing."""
    replay: Any = {TopicType.CONFIG: replay_config, TopicType.STATUS: replay_status, TopicType.OFFSET: replay_offsets}
    group = ClusterGroupId("g.h")
    partitions = 1 if topic_type is TopicType.CONFIG else 3
    plain = history.records(topic_type, group, partitions)
    log = all_sealed(plain, topic_type, group)
    own = [found for found in log if (found.key or b"").startswith(group.prefix)]
    # An old value moves the position of the config topic, for all readers, so a last record is behind all of them.
    last = [Record("source", 0, 10_000, NOW, group.prefix + b"target-state-", b"null")]
    last, end = (last, all_sealed(last, topic_type, group)) if topic_type is TopicType.CONFIG else ([], [])
    wanted = replay[topic_type]([*log, *end], group, keys=KEYS)
    if topic_type is not TopicType.STATUS:  # of those the times decide, and they are sealed later
        assert wanted == replay[topic_type]([*plain, *last], group)
    attacked: list[Record] = []
    for at, found in enumerate(log):
        attacked.append(found)
        before = [each for each in log[: at + 1] if (each.key or b"").startswith(group.prefix)]
        if data.draw(st.booleans()) and before:
            victim, other = data.draw(st.sampled_from(own)), data.draw(st.sampled_from(before))
            forged = data.draw(st.sampled_from([None, b"null", b"{}", b"\1" + bytes(60), other.value]))
            again = data.draw(st.booleans())
            place = found.offset, data.draw(st.integers(0, partitions - 1))
            stranger = other if again else replace(victim, value=forged)
            attacked.append(replace(stranger, offset=place[0], partition=place[1]))
    assert replay[topic_type]([*attacked, *end], group, keys=KEYS) == wanted


def test_keys_without_a_group_are_refused() -> None:
    for replay in (replay_config, replay_status, replay_offsets):
        with pytest.raises(UsageError, match="give the cluster group id"):
            replay([], keys=KEYS)


def at(now_ms: int) -> Freshness:
    return Freshness(lambda: now_ms)


IV = bytes(range(12))


def test_what_is_sealed_is_later_than_all_that_was_read_or_sealed() -> None:
    clock = at(NOW)
    assert [clock.next_ms(b"k") for _ in range(3)] == [NOW, NOW + 1, NOW + 2]
    assert clock.next_ms(b"other") == NOW
    clock.refusal(b"k", 3, NOW + 500, IV)  # another worker's clock is ahead
    clock.refusal(b"k", 1, NOW + 400, IV)
    assert clock.next_ms(b"k") == NOW + 501
    restored, remembering = at(NOW), at(NOW)
    restored.restore(clock.seen)
    remembering.remember(clock.newest())
    for again in (restored, remembering):
        assert again.newest() == {b"k": NOW + 500}
        assert again.refusal(b"k", 3, NOW + 499, IV) is Refusal.REPLAYED
        assert again.next_ms(b"k") == NOW + 501


@pytest.mark.parametrize("is_sent", [True, False])
def test_only_what_was_sent_is_written_again_and_only_once(is_sent: bool) -> None:
    """A value of a transaction that was aborted may come back from whoever has read it there."""
    step = seals(TopicType.OFFSET)
    mine = record(OFFSET, step.seal(OFFSET, VALUE, is_sent=is_sent))
    ahead_ms = int(time.time() * 1000) + 60_000
    assert step.open(sealed(record(OFFSET, b"newer"), TopicType.OFFSET, written_ms=ahead_ms)) is not None
    assert step.open(mine) is None
    assert step.overtaken == ([(OFFSET, VALUE)] if is_sent else [])
    assert taken(step, mine) == "REPLAYED"
    assert len(step.overtaken) == is_sent


def test_what_was_sealed_and_never_written_refuses_nothing() -> None:
    clock = at(NOW)
    clock.next_ms(b"k")
    assert clock.refusal(b"k", 0, NOW - 3_600_000, IV) is None


def test_the_end_of_time_is_not_passed() -> None:
    clock = at(NOW)
    clock.refusal(b"k", 0, LATEST_MS, IV)
    assert clock.next_ms(b"k") == LATEST_MS


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-60_000, 60_000)), max_size=40))
def test_who_has_read_what_he_replaces_is_read_whatever_his_clock_says(steps: list[tuple[int, int]]) -> None:
    skew = [0, 0, 0]
    workers = [Freshness(lambda number=number: NOW + skew[number]) for number in range(3)]  # type: ignore[misc]
    for serial, (number, ahead_ms) in enumerate(steps):
        skew[number] = ahead_ms
        written_ms = workers[number].next_ms(b"k")
        assert {each.refusal(b"k", 0, written_ms, serial.to_bytes(12, "big")) for each in workers} == {None}
