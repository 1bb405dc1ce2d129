"""What a restore believes of a backup, and what it refuses to carry: whatever lies there in whatever order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.backup.restore import BackedUpValues, identity, require_none_newer, restore_sealings
from connect_share.errors import RestoreRejectedError
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
    values, found = BackedUpValues(Sealing(KEYS, mode), [OFFSET]), []
    own = [each for each in history if OFFSET.takes(each.key)]
    # By key, an unknown one counts unless something that is believed lies behind it.
    open_end = {each.key: None for each in own}
    for each in own:
        believed = mode is SealingMode.ACCEPT if not is_sealed(each.value) else is_good(each)
        if believed or is_unknown(each):
            open_end[each.key] = None if believed else each  # type: ignore[assignment]
    try:
        for _, taken in values.opened((TopicType.OFFSET, each) for each in history):
            found.append(taken)
    except RestoreRejectedError as error:
        missing = sum(each is not None for each in open_end.values())
        assert str(error).startswith(f"{missing} value(s) of the backup are sealed with key 9, which")  # noqa: PT017
    else:
        assert not any(open_end.values())
    assert not any(is_sealed(each.value) for each in found)
    assert [each for each in found if not OFFSET.takes(each.key)] == [each for each in history if each not in own]
    counts = values.counts
    assert sum(counts.sealed.values()) == sum(map(is_good, own))
    assert counts.refused == len(own) - counts.plain - sum(counts.sealed.values())
    assert counts.plain + counts.refused_plain == sum(not is_sealed(each.value) for each in own)
    assert not (counts.plain if mode is SealingMode.REQUIRED else counts.refused_plain)


def is_good(each: Record) -> bool:
    return isinstance(Cipher(KEYS, TopicType.OFFSET).open(each.key or b"", each.value or b""), Opened)


def is_unknown(each: Record) -> bool:
    return is_sealed(each.value) and each.value[1:5] == (9).to_bytes(4, "big")


@given(histories, histories)
def test_as_they_are_nothing_newer_is_covered(history: list[Record], there: list[Record]) -> None:
    values = BackedUpValues(Sealing(as_is=True), [OFFSET])
    pairs = [(TopicType.OFFSET, each) for each in history]
    assert list(values.opened(pairs)) == pairs
    known = {identity(each) for each in history}
    taken = [each for each in there if is_sealed(each.value) and OFFSET.takes(each.key)]
    newer = sum(identity(each) not in known for each in taken)
    checked = require_none_newer("offsets", there, OFFSET, values)
    if newer and values.as_they_are:
        with pytest.raises(RestoreRejectedError, match=f"^offsets has {newer} sealed value"):
            list(checked)
    else:
        assert list(checked) == there


@pytest.mark.parametrize(
    ("lines", "group", "has_sealed", "expected"),
    [
        ({}, GROUP, True, (Sealing(as_is=True), Sealing(as_is=True))),
        ({}, "other", True, (Sealing(), Sealing())),
        ({}, None, True, (Sealing(), Sealing())),
        ({KEYS_PROPERTY: key_text(7)}, GROUP, True, (SealingMode.REQUIRED, SealingMode.REQUIRED)),
        ({KEYS_PROPERTY: key_text(7)}, GROUP, False, (SealingMode.ACCEPT, SealingMode.REQUIRED)),
    ],
)
def test_what_the_worker_file_decides(
    lines: dict[str, str], group: str | None, has_sealed: bool, expected: tuple[object, object]
) -> None:
    worker = sharing_worker(**lines)
    transform = KeyTransform.between(TopicType.OFFSET, group, worker.cluster_group_id)
    sides = restore_sealings(worker, transform, lambda: has_sealed)
    assert sides == expected if not lines else tuple(side.mode for side in sides) == expected
