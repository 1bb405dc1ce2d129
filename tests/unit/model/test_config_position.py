"""The config position over any sequence of records: case 18 of the config position's test cases."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from connect_share.errors import ValueFormatError
from connect_share.model.config import ConfigFold
from connect_share.model.connect_json import loads
from connect_share.model.keys import ClusterGroupId, own_key
from connect_share.model.records import Record, TopicType

GROUP = ClusterGroupId("G")
ORIGINAL_KEYS = [
    *(
        prefix + name
        for prefix in (b"connector-", b"target-state-", b"commit-", b"tasks-fencing-")
        for name in (b"a", b"")
    ),
    b"task-a-0",
    b"task-a-1",
    b"task-",
    b"session-key",
    b"restart-connector-a",
    b"logger-cluster-org.x",
]
VALUES = [
    b"null",
    b'{"properties":{"a":"1"}}',
    b'{"state":"PAUSED","state.v2":"STOPPED"}',
    b'{"tasks":2}',
    b'{"tasks":"2"}',
    b'{"task-count":2}',
    b'{"key":"AAEC","algorithm":"H","creation-timestamp":1}',
    b'{"key":"***","algorithm":"H","creation-timestamp":1}',
    b"",
    b"{",
    b"\xff",
]
PREFIXES = [b"G.", b"G.", b"G.", b"H.", b"G.x.", b"", b"GG."]

keys = st.one_of(
    st.builds(lambda prefix, key: prefix + key, st.sampled_from(PREFIXES), st.sampled_from(ORIGINAL_KEYS)),
    st.sampled_from([None, b"", b"G.", b"G.garbage", b"garbage"]),
)


def logs(values: Sequence[bytes | None]) -> st.SearchStrategy[list[Record]]:
    pairs = st.lists(st.tuples(keys, st.sampled_from(values), st.integers(1, 3)), max_size=60)

    def with_offsets(drawn: list[tuple[bytes | None, bytes | None, int]]) -> list[Record]:
        records, offset = [], -1
        for key, value, step in drawn:  # steps above one are holes: transaction markers, earlier compaction
            offset += step
            records.append(Record("configs", 0, offset, 0, key, value))
        return records

    return pairs.map(with_offsets)


def compacted(log: list[Record]) -> list[Record]:
    newest = {record.key: record.offset for record in log}
    return [record for record in log if newest[record.key] == record.offset]


def counts(record: Record) -> bool:
    """Tell whether the record is own and its value can be read."""
    if record.key is None or own_key(TopicType.CONFIG, record.key, GROUP) is None:
        return False
    try:
        loads(record.value)
    except ValueFormatError:
        return False
    return True


@given(logs([*VALUES, None]))
def test_position_is_the_newest_own_record_that_parses_and_never_falls(log: list[Record]) -> None:
    fold = ConfigFold(GROUP)
    expected = -1
    for record in log:
        before = fold.own_records
        fold.apply(record)
        assert (fold.own_records > before) is counts(record)
        if counts(record):
            assert record.offset + 1 > expected
            expected = record.offset + 1
        assert fold.offset == expected
    assert fold.snapshot().offset == expected


@given(logs(VALUES))
def test_fresh_reader_of_the_compacted_log_agrees(log: list[Record]) -> None:
    """Without own tombstones. A newer record of the same key that cannot be read would hide an older one."""
    log = [record for record in log if counts(record) or record.key is None or not record.key.startswith(b"G.")]
    live, fresh = ConfigFold(GROUP), ConfigFold(GROUP)
    for record in log:
        live.apply(record)
    for record in compacted(log):
        fresh.apply(record)
    # The state need not agree: a newer record of the wrong shape hides an older good one after compaction.
    assert fresh.offset == live.offset
