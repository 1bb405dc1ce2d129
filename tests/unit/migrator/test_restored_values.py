"""What a restore believes of a backup, and what it refuses to carry: whatever lies there in whatever order."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.backup.restore import BackedUpValues, Restore, require_none_newer, restore_sealings
from connect_share.errors import RestoreRejectedError
from connect_share.kafka.due_look import mark_of
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import Record, TopicType
from connect_share.sealing import KEYS_PROPERTY, KeyRing, SealingMode
from connect_share.sealing.cipher import Cipher, Opened, is_sealed
from connect_share.transform.rules import KeyTransform
from connect_share.transform.sealed import Sealing
from tests.support.sealed import GROUP, KEYS, key_text, sealed, sharing_worker

OFFSET = KeyTransform.between(TopicType.OFFSET, GROUP, GROUP)
OTHER = KeyRing.parse(key_text(9))
KINDS = ("plain", "tombstone", "sealed", "forged", "unknown", "foreign")


def record(kind: str, key: int, offset: int) -> Record:
    group = "elsewhere" if kind == "foreign" else GROUP
    value = None if kind == "tombstone" else b'{"position":%d}' % offset
    plain = Record("offsets", 0, offset, 1, f'{group}.["c{key}",{{}}]'.encode(), value)
    if kind in {"plain", "tombstone", "foreign"}:
        return plain
    made = sealed(plain, TopicType.OFFSET, written_ms=offset, keys=OTHER if kind == "unknown" else KEYS)
    bytes_ = made.value or b""
    return made if kind != "forged" else replace(made, value=bytes([*bytes_[:-1], bytes_[-1] ^ 1]))


histories = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 2)), max_size=12).map(
    lambda kinds: [record(*each, offset) for offset, each in enumerate(kinds)]
)


@given(histories, st.sampled_from([SealingMode.REQUIRED, SealingMode.ACCEPT]))
def test_all_that_is_put_back_was_believed(history: list[Record], mode: SealingMode) -> None:
    """What strangers have sealed is left out, and counted."""
    values = BackedUpValues(Sealing(KEYS, mode), [OFFSET])
    found = [taken for *_, taken in values.opened((TopicType.OFFSET, each) for each in history)]
    own = [each for each in history if OFFSET.takes(each.key)]
    assert not any(is_sealed(each.value) for each in found)
    assert [each for each in found if not OFFSET.takes(each.key)] == [each for each in history if each not in own]
    assert sum(values.sealed.values()) == sum(map(is_good, own))
    assert values.refused == len(own) - values.plain - sum(values.sealed.values())
    assert values.plain + values.refused_plain == sum(not is_sealed(each.value) for each in own)
    assert not (values.plain if mode is SealingMode.REQUIRED else values.refused_plain)


def test_a_key_that_the_group_says_it_uses_is_asked_for() -> None:
    config = KeyTransform.between(TopicType.CONFIG, GROUP, GROUP)
    says = Record("configs", 0, 0, 1, f"{GROUP}.target-state- key-9-7".encode(), None)
    values = BackedUpValues(Sealing(KEYS, SealingMode.REQUIRED), [config])
    with pytest.raises(RestoreRejectedError, match=r"configs\[0\]@0 says that the group uses key 9, which the worker"):
        list(values.opened([(TopicType.CONFIG, sealed(says))]))


def test_a_status_is_put_back_beside_a_removal_of_any_time() -> None:
    restore = Mock(_removed_ms={"c": 2**63 - 1}, removed_ms={})
    restore._backed_up = {TopicType.STATUS: restore}
    assert Restore._shown_ms(restore, b"status-task-c-0", Record("s", 0, 0, 5, None, b"{}")) == 2**63 - 1


def is_good(each: Record) -> bool:
    return isinstance(Cipher(KEYS, TopicType.OFFSET).open(each.key or b"", each.value or b""), Opened)


@given(histories, histories)
def test_as_they_are_nothing_newer_is_covered(history: list[Record], there: list[Record]) -> None:
    values = BackedUpValues(Sealing(as_is=True), [OFFSET])
    pairs = [(TopicType.OFFSET, each) for each in history]
    assert [(kind, opened) for kind, _, opened in values.opened(pairs)] == pairs
    known = {mark_of(each.key or b"", each.value) for each in history}
    taken = [each for each in there if is_sealed(each.value) and OFFSET.takes(each.key)]
    newer = sum(mark_of(each.key or b"", each.value) not in known for each in taken)
    checked = require_none_newer("offsets", there, OFFSET, values)
    if newer and values.as_they_are:
        with pytest.raises(RestoreRejectedError, match=f"^offsets has {newer} sealed value"):
            list(checked)
    else:
        assert list(checked) == there


_OFF, _ACCEPT, _REQUIRED = SealingMode.OFF, SealingMode.ACCEPT, SealingMode.REQUIRED


@pytest.mark.parametrize(
    ("key", "group", "kinds", "expected"),
    [
        (None, GROUP, "sealed sealed plain", "as it is"),
        (None, GROUP, "sealed plain plain", _OFF),  # a stranger's
        (None, "other", "sealed plain plain", _OFF),
        (None, "other", "sealed sealed plain", "2 value(s) of the backup are sealed with key 7, which the worker file"),
        (None, None, "sealed sealed plain", "2 value(s) of the backup are sealed with key 7, which the worker file"),
        (7, GROUP, "unknown unknown unknown sealed", _REQUIRED),
        (7, GROUP, "forged unknown plain plain plain", _ACCEPT),  # of before it was sealed
        (7, GROUP, "plain unknown unknown", "2 value(s) of the backup are sealed with key 9, which the worker file"),
        (9, "other", "plain sealed sealed", "2 value(s) of the backup are sealed with key 7, which the worker file"),
    ],
)
def test_what_the_worker_file_and_most_values_decide(
    key: int | None, group: str | None, kinds: str, expected: object
) -> None:
    worker = sharing_worker(**({} if key is None else {KEYS_PROPERTY: key_text(key)}))
    becomes = None if group is None else ClusterGroupId(group)
    transforms = {TopicType.OFFSET: KeyTransform.between(TopicType.OFFSET, GROUP, becomes)}
    history = [(TopicType.OFFSET, record(kind, number, number)) for number, kind in enumerate(kinds.split())]
    if isinstance(expected, str) and expected != "as it is":
        with pytest.raises(RestoreRejectedError) as raised:
            restore_sealings(worker, transforms, lambda: history)
        assert str(raised.value).startswith(expected)
        return
    opening, sealing = restore_sealings(worker, transforms, lambda: history)
    assert opening.as_is is sealing.as_is is (expected == "as it is")
    assert opening.as_is or opening.mode is expected
    assert sealing.keys == opening.keys
