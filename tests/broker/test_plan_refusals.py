"""What ``plan`` and ``apply`` refuse before anything is written."""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Sequence
from unittest.mock import patch

import pytest

from connect_share.errors import (
    AlreadyAppliedError,
    DestinationNotEmptyError,
    LiveMembersError,
    PartitionCountError,
    PlanRejectedError,
    SourceChangedError,
    TopicError,
    TopicMissingError,
    TopicNotCompactedError,
    TopicRecreatedError,
)
from connect_share.kafka.read import Reader
from connect_share.model.records import Record, TopicType
from connect_share.replay import replay_config
from migrator.copy.copy_job import CopyJob, SliceEvidence
from migrator.planner import make_plan
from migrator.run import Manifest, MigrationStatus, manifest_path
from tests.support.connect_member import ConnectMember
from tests.support.migration_runs import apply_plan, verify_plan
from tests.support.migration_site import GROUP, SHARED_PARTITIONS, SMALL, Site, pair
from tests.support.topics import delete_known, pairs_of, transaction


@pytest.mark.parametrize(("support", "sees"), [("enabled", {"a.b"}), ("disabled", {"a.b", "ghost"})])
def test_each_source_is_read_as_its_own_worker_reads_it(site: Site, support: str, sees: set[str]) -> None:
    source = site.small_source(exactly_once_source_support=support)
    ghost = pairs_of(site.topic("own", TopicType.CONFIG), [(b"connector-ghost", b'{"properties":{}}')], 0)
    with transaction(site.settings, site.name, ghost, "abort"):
        plan_path = site.plan(source, site.shared())
    apply_plan(plan_path)
    assert verify_plan(plan_path).equal
    assert replay_config(site.read(site.topic("shared", TopicType.CONFIG)), GROUP).connectors() == sees


def test_bad_topics_are_refused(site: Site) -> None:
    missing = site.worker_file("none", "orders", sharing=False)
    with pytest.raises(TopicMissingError):
        make_plan([missing], [site.shared()], now_ms=1)
    source = site.small_source()
    site.create("shared", SHARED_PARTITIONS, {"cleanup.policy": "compact,delete"})
    with pytest.raises(TopicNotCompactedError, match=r"cleanup\.policy"):
        make_plan([source], [site.shared()], now_ms=1)
    site.create("wide", {**SHARED_PARTITIONS, TopicType.CONFIG: 3})
    with pytest.raises(PartitionCountError):
        make_plan([source], [site.worker_file("wide", GROUP, sharing=True)], now_ms=1)
    fresh = site.worker_file("fresh", GROUP, sharing=True)
    with pytest.raises(PartitionCountError):
        make_plan([site.worker_file("wide", "orders", sharing=False)], [fresh], now_ms=1)


def test_a_key_that_makes_its_record_too_large(site: Site) -> None:
    site.create("own")
    site.lay_down("own", TopicType.CONFIG, [pair("connector-big", "x" * 2000)])
    site.create("shared", SHARED_PARTITIONS, {"max.message.bytes": "2100"})
    with pytest.raises(TopicError, match=r"max\.message\.bytes=2100") as caught:
        site.plan(site.worker_file("own", "orders", sharing=False), site.shared())
    assert f"{site.topic('own', TopicType.CONFIG)}[0]@0" in str(caught.value)


@pytest.mark.parametrize("who", ["shared", "own"])
def test_a_destination_that_holds_the_group_is_refused(site: Site, who: str) -> None:
    """In place, too, where each partition is read once for both sides."""
    source, destination = site.small_source(), site.worker_file(who, GROUP, sharing=True)
    if who == "shared":
        site.create(who, SHARED_PARTITIONS)
    config, topic = site.topic(who, TopicType.CONFIG), site.topic(who, TopicType.STATUS)
    before = site.read(config)
    site.produce([Record(topic, 0, 0, 1, f"{GROUP}.x.status-connector-a".encode(), b"{}")])
    with patch.object(Reader, "batches", autospec=True, side_effect=Reader.batches) as read:
        plan_path = site.plan(source, destination)  # com.acme.orders.x is another group
    reads = Counter(part[:2] for call in read.call_args_list for part in call.args[1] if part.end > part.start)
    assert {count for (name, _), count in reads.items() if name != site.topic("own", TopicType.CONFIG)} == {1}
    site.produce([Record(topic, 0, 0, 1, f"{GROUP}.status-connector-a".encode(), None)])
    site.plan(source, destination, "removed.json")  # what was removed holds nothing up
    site.produce([Record(topic, 0, 0, 1, f"{GROUP}.status-connector-a".encode(), b"{}")])
    with pytest.raises(DestinationNotEmptyError, match=r"1 living key\(s\) of group com\.acme\.orders"):
        site.plan(source, destination, "second.json")
    with pytest.raises(DestinationNotEmptyError):
        apply_plan(plan_path)
    assert not manifest_path(plan_path).exists()
    assert site.read(config) == before


def test_what_changed_since_the_plan_is_refused(site: Site) -> None:
    source = site.small_source()
    plan_path = site.plan(source, site.shared())
    site.lay_down("own", TopicType.OFFSET, [pair('["a.b",{"filename":"y.txt"}]', "{}")])
    with pytest.raises(SourceChangedError, match="was written since"):
        apply_plan(plan_path)

    plan_path = site.plan(source, site.shared())
    topic = site.topic("own", TopicType.CONFIG)
    with site.admin() as admin:
        delete_known(admin, topic)
        site.create_topic(admin, topic, 1, {})
    site.lay_down("own", TopicType.CONFIG, SMALL[TopicType.CONFIG])
    with pytest.raises(TopicRecreatedError):
        apply_plan(plan_path)

    plan_path = site.plan(source, site.shared())
    source.write_text(source.read_text().replace("group.id=orders", "group.id=others"))
    with pytest.raises(PlanRejectedError, match=r"group\.id"):
        apply_plan(plan_path)
    with site.admin() as admin:
        assert admin.describe_topics([site.topic("shared", TopicType.CONFIG)]) == {}


def test_a_plan_is_applied_once_and_by_one_process(site: Site) -> None:
    plan_path = site.plan(site.small_source(), site.shared())

    def second(_jobs: Sequence[CopyJob]) -> list[SliceEvidence]:
        with pytest.raises(AlreadyAppliedError, match="another process"):
            apply_plan(plan_path)
        raise RuntimeError("before the first record")

    with pytest.raises(RuntimeError, match="before the first record"):
        apply_plan(plan_path, engine=second)
    assert Manifest.load(manifest_path(plan_path)).status is MigrationStatus.PLANNED
    apply_plan(plan_path)  # nothing was written: it may be repeated
    before = {t: site.read(site.topic("shared", t)) for t in TopicType}
    with pytest.raises(AlreadyAppliedError, match="copied"):
        apply_plan(plan_path)
    assert verify_plan(plan_path).equal
    with pytest.raises(AlreadyAppliedError, match="verified"):
        apply_plan(plan_path)
    assert {t: site.read(site.topic("shared", t)) for t in TopicType} == before
    assert stat.S_IMODE(manifest_path(plan_path).stat().st_mode) == 0o600


def test_live_workers_are_refused(site: Site) -> None:
    source, eu = site.small_source(group=f"{site.name}-orders"), f"{site.name}-eu"
    plan_path = site.plan(source, site.shared(eu))
    with ConnectMember(site.bootstrap_servers, f"{site.name}-orders"):
        with pytest.raises(LiveMembersError, match=f"1 worker.s. of the source group {site.name}-orders"):
            site.plan(source, site.shared(eu))
        with pytest.raises(LiveMembersError):
            apply_plan(plan_path)
    with ConnectMember(site.bootstrap_servers, eu), pytest.raises(LiveMembersError, match="destination group"):
        site.plan(source, site.shared(eu))
