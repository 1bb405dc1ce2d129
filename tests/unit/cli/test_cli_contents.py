"""Reading topics in which anybody may have invented groups."""

from __future__ import annotations

import pytest

from connect_share.cli import contents
from connect_share.records import Record, TopicType


def test_invented_groups_are_folded_up_to_a_limit_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MOST_GROUPS", 3)
    records = [Record("t", 0, at, 0, b'g%d.["c",{"a":1}]' % (at % 5), b"{}") for at in range(20)]
    seen = contents._fold("t", TopicType.OFFSET, records, None)
    assert seen.records == {"g0": 4, "g1": 4, "g2": 4}
    assert seen.others == 8
    (note,) = seen.notes
    assert "t has more than 3 groups: 8 record(s)" in note
    asked_for = contents._fold("t", TopicType.OFFSET, records, ["g4"])  # type: ignore[list-item]
    assert (asked_for.records, asked_for.notes) == ({"g4": 4}, [])
