"""Counting a topic by group: any bytes are counted somewhere, once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connect_share.model.records import Record, TopicType
from connect_share.sealing import SealingMode
from connect_share.transform.sealed import Sealing
from migrator.survey import MOST_WORKER_IDS, TopicCount
from tests.support.sealed import KEYS as KEY_RING
from tests.support.sealed import sealed

KEYS = st.one_of(
    st.none(),
    st.binary(),
    st.sampled_from(
        [b"connector-a", b"g.connector-a", b"session-key", b'["a",{}]', b'g.["a",{}]', b"[", b"g.status-task-a-0"]
    ),
)


@given(
    st.sampled_from(list(TopicType)),
    st.lists(st.tuples(KEYS, st.one_of(st.none(), st.binary(), st.just(b'{"worker_id":"w"}')))),
)
def test_every_record_is_counted_once(topic_type: TopicType, pairs: list[tuple[bytes | None, bytes | None]]) -> None:
    count = TopicCount(topic_type)
    count.read(Record("t", 0, offset, 1, key, value) for offset, (key, value) in enumerate(pairs))
    groups = count.groups.values()
    assert count.illegal_keys + sum(group.records for group in groups) == len(pairs)
    legal = [len(key or b"") + len(value or b"") for (key, value), _ in zip(pairs, range(len(pairs)), strict=True)]
    assert sum(group.bytes for group in groups) <= sum(legal)
    assert all(group.unparseable <= group.records for group in groups)
    assert all(group.largest_bytes <= group.bytes for group in groups)


def test_unparseable_and_workers() -> None:
    count = TopicCount(TopicType.STATUS)
    values: list[bytes | None] = [b'{"worker_id":"w%d"}' % number for number in range(MOST_WORKER_IDS + 5)]
    values += [b"{", b"\xff", None, b"null", b'"text"', b'{"worker_id":3}']
    count.read(Record("t", 0, offset, 1, b"status-connector-a", value) for offset, value in enumerate(values))
    count.read([Record("t", 0, 99, 1, b"status-task-a", b"{}"), Record("t", 0, 99, 1, b"g.status-task-a-0", b"{}")])
    plain = count.groups[None]
    assert plain.unparseable == 3  # two values, and a key without a task number
    assert len(plain.workers["a"]) == MOST_WORKER_IDS
    (shared,) = [group for name, group in count.groups.items() if name is not None]
    assert shared.workers == {}
    assert (plain.tombstones, shared.tombstones) == (1, 0)


def test_values_of_a_sealed_group_are_opened_by_its_keys_only() -> None:
    group, other = "com.acme.", "x."
    made = [
        sealed(Record("t", 0, number, 1, f"{whose}connector-a".encode(), b'{"properties":{}}'))
        for number, whose in enumerate((group, other))
    ]
    forged = Record("t", 0, 2, 1, b"com.acme.connector-a", b"hunter2")
    count = TopicCount(TopicType.CONFIG, {"com.acme": Sealing(KEY_RING, SealingMode.REQUIRED)})
    count.read([*made, forged, forged])
    figures = {
        str(name): (each.records, each.refused, each.unopened, each.unparseable, len(each.config))
        for name, each in count.groups.items()
    }
    assert figures == {"com.acme": (3, 2, 0, 0, 1), "x": (1, 1, 1, 0, 0)}
    [opened] = next(each.config for name, each in count.groups.items() if name == "com.acme")
    assert opened.value == b'{"properties":{}}'
