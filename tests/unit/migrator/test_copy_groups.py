"""Which slices of a copy one client reads, and which have begun."""

from __future__ import annotations

from dataclasses import replace

from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import OffsetRange, Record, TopicType
from connect_share.transform.rules import KeyTransform
from connect_share.transform.sealed import NO_SEALING, Opening
from connect_share.worker_config import ClientSettings, Isolation
from migrator.copy.copy_job import CopyJob
from migrator.copy.existing_records import ExistingRecords
from migrator.copy.local_engine import TOGETHER, _groups
from migrator.plan import CopySlice

HERE = ClientSettings({"bootstrap.servers": "here:9092"})
THERE = ClientSettings({"bootstrap.servers": "there:9092"})


def job(partition: int, offsets: int, *, topic: str = "offsets", settings: ClientSettings = HERE) -> CopyJob:
    transform = KeyTransform.between(TopicType.OFFSET, None, ClusterGroupId("a"))
    part = OffsetRange(topic, partition, 5, 5 + offsets)
    slice_ = CopySlice(0, TopicType.OFFSET, part, Isolation.READ_UNCOMMITTED, "shared", 25, transform)
    return CopyJob(slice_, settings, HERE, HERE, ((0, 0),), "test")


def test_small_slices_share_a_client() -> None:
    jobs = [job(number, TOGETHER // 4) for number in range(6)]
    assert _groups(jobs, {}) == [jobs[:4], jobs[4:]]


def test_a_large_slice_has_its_own() -> None:
    jobs = [job(0, 3), job(1, TOGETHER + 1), job(2, 3), job(3, 0)]
    assert _groups(jobs, {}) == [jobs[:1], jobs[1:2], jobs[2:]]


def test_other_clients_and_the_same_partition_do_not_share() -> None:
    jobs = [job(0, 3), job(1, 3, settings=THERE), job(2, 3, settings=THERE), job(2, 3, settings=THERE)]
    assert _groups(jobs, {}) == [jobs[:1], jobs[1:3], jobs[3:]]


def test_what_is_not_mirrored_is_read_alone() -> None:
    """Folded slices, and those of which an interrupted copy has left records."""
    plain, other = job(0, 3), job(1, 3)
    folded = [replace(each, slice_=replace(each.slice_, fold=True)) for each in (plain, other)]
    assert _groups(folded, {}) == [folded[:1], folded[1:]]
    found = ExistingRecords(found={0: {b"x": 1}})  # type: ignore[dict-item]
    assert _groups([plain, other], {plain.slice_.name: found}) == [[plain], [other]]
    assert _groups([plain, other], {plain.slice_.name: ExistingRecords()}) == [[plain, other]]


def test_a_slice_has_begun_where_one_of_its_keys_is() -> None:
    mine, other = b'["a.b",{"n":1}]', b'["a.b",{"n":2}]'
    for source, prefix in (({"x.y"}, b"x.y."), ({"x.y", "z"}, b"z."), (None, b"")):
        transform = KeyTransform(
            TopicType.OFFSET, source is None, None if source is None else frozenset(source), ClusterGroupId("g")
        )
        back = transform.at_destination()
        written = [
            Record("shared", 0, number, 1, key, b"{}") for number, key in enumerate((b"g." + mine, b"h." + other))
        ]
        found = ExistingRecords.read(written, transform, Opening(NO_SEALING, back))
        assert found.may_have_begun(transform, [None, prefix + other, prefix + mine])
        assert not found.may_have_begun(transform, [None, b"", b"g." + mine, prefix + other])
