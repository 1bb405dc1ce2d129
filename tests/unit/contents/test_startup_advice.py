"""Which settings are advised, and which never: on logs made for it, with a model that makes records dear."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from connect_share.contents.advice import DAY_MS, HOUR_MS, MIB, Advice, advise
from connect_share.contents.cost_model import CostModel, FittedModel, load_model
from connect_share.contents.profile import PartitionCounter, TopicProfile
from connect_share.contents.startup import ProfiledTopic, members, startup_profile
from connect_share.errors import ConfigError
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import TopicType

NOW_MS = 30 * DAY_MS
DEAR = CostModel(fixed_s=0.1, per_record_s=0.001, per_byte_s=0, per_own_record_s=0)
COMPACT = {"cleanup.policy": "compact"}
Row = tuple[int, bytes, bytes | None]


def profile(topic_type: TopicType, rows: Iterable[Row], partitions: int = 1) -> TopicProfile:
    counters = [PartitionCounter(topic_type, number) for number in range(partitions)]
    for counter in counters:
        counter._chunk_bytes = 1
    for offset, (timestamp_ms, key, value) in enumerate(rows):
        counters[offset % partitions].add(offset, timestamp_ms, key, value)
    return TopicProfile.of("t", topic_type, [counter.finish() for counter in counters])


def advised(
    topic: TopicProfile, configs: Mapping[str, str] | None = None, *, model: CostModel = DEAR, longest_s: float = 0.5
) -> tuple[dict[str, str], Advice]:
    found = advise([(topic, {**COMPACT, **(configs or {})})], model, longest_start_s=longest_s, now_ms=NOW_MS)
    return {change.setting: change.new for change in found.changes}, found


def offsets(number: int, *, keys: int = 10, size: int = 10_000, span_ms: int = 1_000) -> list[Row]:
    return [(NOW_MS - span_ms + i * span_ms // number, b'g.["a",%d]' % (i % keys), b"x" * size) for i in range(number)]


def test_a_segment_that_hides_everything() -> None:
    found, advice = advised(profile(TopicType.OFFSET, offsets(1_000)))
    assert found == {"segment.bytes": str(2 * MIB)}
    # 2 MiB may stay hidden, ten live records stay, and as many that the cleaner lets be.
    assert 760 < advice.gain_records < 780
    assert advice.gain_seconds == pytest.approx(advice.gain_records * 0.001, rel=0.01)
    assert [change.old for change in advice.changes] == [str(1 << 30)]
    # Where more is alive, the cleaner lets more be.
    found, advice = advised(profile(TopicType.OFFSET, offsets(1_500, keys=500)))
    assert found == {"segment.bytes": str(2 * MIB), "min.cleanable.dirty.ratio": "0.1"}
    assert [change.old for change in advice.changes] == [str(1 << 30), "0.5"]
    segment, ratio = advice.changes
    assert ratio.gain_records < segment.gain_records == advice.gain_records
    # Hourly segments would do too, but for little more.
    old = [(timestamp_ms - DAY_MS, key, value) for timestamp_ms, key, value in offsets(1_000)]
    assert advised(profile(TopicType.OFFSET, old), longest_s=10)[0] == {"segment.bytes": str(2 * MIB)}
    # The cleaner would have gone to work anyway: only the rest is a gain.
    small, _ = advised(profile(TopicType.OFFSET, offsets(1_000)), {"segment.bytes": str(2 * MIB)})
    assert small == {}


def test_small_records_that_are_old() -> None:
    old = profile(TopicType.OFFSET, offsets(1_000, size=10, span_ms=3 * DAY_MS))
    assert advised(old)[0] == {"segment.ms": str(HOUR_MS)}
    assert advised(old, {"max.compaction.lag.ms": str(HOUR_MS)})[0] == {}
    lagging = {"segment.ms": str(HOUR_MS), "min.compaction.lag.ms": str(20 * DAY_MS)}
    assert advised(old, lagging)[0] == {"min.compaction.lag.ms": "0"}


@pytest.mark.parametrize(
    ("rows", "model", "longest_s"),
    [
        (offsets(1_000, keys=1_000), DEAR, 0.1),  # nothing is superseded
        (offsets(1_000), CostModel(fixed_s=0.1, per_record_s=1e-6, per_byte_s=0, per_own_record_s=0), 0.1),  # 1 ms
        (offsets(1_000), DEAR, 30.0),  # not worth it beside the whole
        ([], DEAR, 0.1),
    ],
)
def test_what_gains_little_is_not_advised(rows: list[Row], model: CostModel, longest_s: float) -> None:
    assert advised(profile(TopicType.OFFSET, rows), model=model, longest_s=longest_s) == ({}, Advice())


def test_segments_hold_the_largest_message_and_a_quarter_of_what_lives() -> None:
    topic = profile(TopicType.OFFSET, [*offsets(400, keys=400), *offsets(20_000, size=1_000, keys=10)])
    assert advised(topic)[0]["segment.bytes"] == str(2 * MIB)
    assert advised(topic, {"max.message.bytes": str(5 * MIB)})[0]["segment.bytes"] == str(8 * MIB)
    assert "segment.bytes" not in advised(topic, {"max.message.bytes": str(60 * MIB)})[0]
    large = profile(TopicType.OFFSET, [*offsets(2_000, keys=2_000), *offsets(20_000, size=1_000, keys=10)])
    assert advised(large)[0]["segment.bytes"] == str(8 * MIB)


def test_tombstones_are_kept_for_a_day_at_least() -> None:
    removed = [(NOW_MS - 20 * DAY_MS, b'g.["b",%d]' % i, None) for i in range(1_000)]
    topic = profile(TopicType.OFFSET, [*removed, *offsets(10, keys=10)])
    closed = {"segment.ms": str(HOUR_MS)}
    found, advice = advised(topic, {**closed, "delete.retention.ms": str(25 * DAY_MS)})
    assert found == {"delete.retention.ms": str(DAY_MS)}
    assert 980 < advice.gain_records <= 1_000
    for kept_ms in (DAY_MS, HOUR_MS):
        assert advised(topic, {**closed, "delete.retention.ms": str(kept_ms)}) == ({}, Advice())
    found, advice = advised(topic, {**closed, "delete.retention.ms": "0"})
    assert found == {}
    assert "can miss a removal" in advice.problems[0].what


@pytest.mark.parametrize(
    ("last", "stuck"),
    [
        ([(NOW_MS, b"g.connector-a", None)], True),
        ([(NOW_MS, b"g.connector-a", b"null")], False),
        # The marker after it, and a removal of the plain cluster, which reads every record.
        ([(NOW_MS, b"g.connector-a", None), (NOW_MS, b"g.target-state-", b"null")], False),
        ([(NOW_MS, b"connector-a", None)], False),
        ([(NOW_MS, b"g.connector-a", None), (NOW_MS, b"h.connector-a", b"{}")], True),
    ],
)
def test_a_group_whose_newest_config_record_is_a_tombstone(last: list[Row], stuck: bool) -> None:
    rows = [(NOW_MS - DAY_MS, b"g.connector-a", b"x" * 10_000)] * 1_000
    found, advice = advised(profile(TopicType.CONFIG, [*rows, *last]))
    assert found == ({} if stuck else {"segment.ms": str(HOUR_MS)})
    assert [problem.what.split(" is a tombstone")[0] for problem in advice.problems] == (
        ["the newest record of g"] if stuck else []
    )
    # Elsewhere tombstones are how things are removed.
    status = [(NOW_MS - DAY_MS, b"g.status-task-a-0", b"x" * 10_000)] * 1_000
    assert not advised(profile(TopicType.STATUS, [*status, (NOW_MS, b"g.status-task-a-0", None)]))[1].problems


def test_policy_partitions_and_settings_that_cannot_be_read() -> None:
    few = profile(TopicType.CONFIG, [(NOW_MS, b"g.connector-a", b"{}")] * 4, partitions=2)
    found, advice = advised(few, {"cleanup.policy": "compact,delete"})
    assert found == {"cleanup.policy": "compact"}
    assert advice.changes[0].old == "compact,delete"
    assert [problem.what.split()[:2] for problem in advice.problems] == [["2", "partitions,"], ["1", "keys"]]
    blind = advise([(few, None)], DEAR, longest_start_s=1, now_ms=NOW_MS)
    assert (blind.changes, len(blind.problems)) == ((), 2)


def test_predictions_by_group() -> None:
    rows = [(1, b"g.connector-a", b"x" * 87), (2, b"connector-b", b"y" * 89), (3, b"connector-c", b"z" * 89)]
    empty = {
        topic_type: ProfiledTopic(profile(topic_type, []), {}) for topic_type in (TopicType.STATUS, TopicType.OFFSET)
    }
    topics = {TopicType.CONFIG: ProfiledTopic(profile(TopicType.CONFIG, rows), COMPACT), **empty}
    model = CostModel(fixed_s=1, per_record_s=0.1, per_byte_s=0.01, per_own_record_s=0.5, error=0.25)
    found = startup_profile(topics, FittedModel(model=model), now_ms=NOW_MS, limit_s=5.0)
    starts = {start.group: start for start in found.groups}
    assert starts[None].seconds == pytest.approx(1 + 0.3 + 3.0 + 1.0)
    assert starts[ClusterGroupId("g")].seconds == pytest.approx(1 + 0.3 + 3.0 + 0.5)
    assert starts[ClusterGroupId("g")].between == pytest.approx((4.8 / 1.25, 4.8 * 1.25))
    assert starts[ClusterGroupId("g")].alone_seconds == pytest.approx(1 + 0.1 + 1.0 + 0.5)
    assert found.too_slow == [None]
    only = members(startup_profile(topics, FittedModel(model=model), now_ms=NOW_MS, groups={None}))
    assert [group["group"] for group in only["groups"]] == [None]
    assert only["topics"][0]["records"] == 3


def test_models(tmp_path: Path) -> None:
    shipped = load_model()
    assert 0 < shipped.model.fixed_s < 1
    assert {"processors", "architecture"} <= shipped.machine.keys()
    assert shipped.versions.keys() >= {"kafka", "librdkafka"}
    assert shipped.measured_at_ms
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"model": DEAR.model_dump(), "starts": [], "machine": {"processors": 4}}))
    assert load_model(path) == FittedModel(model=DEAR, machine={"processors": 4})
    for text, what in (("{}", "no cost model"), ('{"model": null}', "no cost model"), ("[", "is no JSON")):
        path.write_text(text)
        with pytest.raises(ConfigError, match=what):
            load_model(path)
    with pytest.raises(ConfigError, match="cannot read"):
        load_model(tmp_path / "nowhere.json")
