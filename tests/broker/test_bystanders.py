"""The proof that a plan touched no other group: records of others before, during and after, real broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from connect_share.errors import PlanFileError
from connect_share.kafka import client
from connect_share.model.records import TopicType
from migrator.bystanders import BystanderGroup, BystanderReport, BystanderVerdict
from migrator.moves import Intent
from migrator.run import Manifest, backup_path, manifest_path
from tests.support.migration_runs import apply_plan, check_bystanders
from tests.support.migration_site import SHARED_PARTITIONS, SMALL, Site, run, run_well
from tests.support.topics import alter_known, pairs_of
from tests.support.waiting import await_that

KEPT = {"min.compaction.lag.ms": "3600000"}


def by_group(report: BystanderReport, topic_type: TopicType) -> dict[str, BystanderGroup]:
    return {group.group: group for group in report.groups if group.topic_type is topic_type}


def verdicts(report: BystanderReport, topic_type: TopicType) -> dict[str, BystanderVerdict]:
    return {name: group.verdict for name, group in by_group(report, topic_type).items()}


def others_write(site: Site, topic_type: TopicType, *pairs: tuple[str, str | None]) -> None:
    encoded = [(key.encode(), None if value is None else value.encode()) for key, value in pairs]
    site.produce(pairs_of(site.topic("shared", topic_type), encoded, 0))


def a_shared_site(site: Site) -> Path:
    """Topics on which a group, a plain cluster and records without a group are at home."""
    site.create("shared", SHARED_PARTITIONS, KEPT)
    others_write(
        site,
        TopicType.CONFIG,
        ("other.connector-z", '{"properties":{"a":"1"}}'),
        ("other.connector-z", '{"properties":{"a":"2"}}'),
        ("other.connector-gone", "{}"),
        ("other.connector-gone", None),
        ("connector-plain", "{}"),
        ("nonsense", "x"),
    )
    others_write(site, TopicType.OFFSET, ('other.["z",{}]', '{"p":1}'), ('third.["z",{}]', '{"p":1}'))
    return site.small_source()


def test_others_stay_as_they_were_and_may_go_on(site: Site) -> None:
    source = a_shared_site(site)
    path = site.plan(source, site.shared())
    assert run("apply", path, "--yes", "--isolation-proof")[0] == 0
    out = run_well("verify", path, "--isolation")
    assert out.splitlines()[-1] == "isolated: no other group was changed"
    report = check_bystanders(path)
    assert verdicts(report, TopicType.CONFIG) == dict.fromkeys(
        ("other", "plain keys", "illegal keys"), BystanderVerdict.EQUAL
    )
    assert by_group(report, TopicType.CONFIG)["other"].keys_before == 1  # the newest of each key that lives
    assert verdicts(report, TopicType.OFFSET) == {"other": BystanderVerdict.EQUAL, "third": BystanderVerdict.EQUAL}
    assert verdicts(report, TopicType.STATUS) == {}
    assert [(own.written, own.accounted) for own in report.own.values()] == [(4, True), (2, True), (1, True)]
    text = manifest_path(path).read_text()
    assert "connector-" not in text  # counts and digests only

    others_write(site, TopicType.CONFIG, ("other.connector-z", None), ("fourth.connector-n", "{}"))
    code, out, _ = run("verify", path, "--isolation", "--output", "json")
    told = json.loads(out)
    assert (code, told["isolated"], told["_command"]) == (0, True, "verify")
    report = BystanderReport.model_validate({name: told[name] for name in BystanderReport.model_fields})
    assert verdicts(report, TopicType.CONFIG) == {
        "other": BystanderVerdict.WROTE_SINCE,
        "fourth": BystanderVerdict.WROTE_SINCE,
        "plain keys": BystanderVerdict.EQUAL,
        "illegal keys": BystanderVerdict.EQUAL,
    }
    assert "wrote itself since: other in" in run("verify", path, "--isolation")[1]

    # As if one record of the plan had gone elsewhere, to where somebody's newer record lies now.
    manifest = Manifest.load(manifest_path(path))
    at = next(n for n, each in enumerate(manifest.evidence) if each.topic_type is TopicType.CONFIG)
    evidence = list(manifest.evidence)
    last = len(site.read(site.topic("shared", TopicType.CONFIG))) - 1
    evidence[at] = evidence[at].model_copy(
        update={"written": evidence[at].written + 1, "destination_offsets": {0: (0, last)}}
    )
    manifest.model_copy(update={"evidence": tuple(evidence)}).save(manifest_path(path))
    report = check_bystanders(path)
    assert not report.isolated
    assert not report.own[TopicType.CONFIG].accounted
    assert verdicts(report, TopicType.CONFIG)["fourth"] is BystanderVerdict.UNCLEAR
    manifest.save(manifest_path(path))

    # Somebody deletes records: those of a group that wrote nothing since are missed, and exit code and text say so.
    topic = site.topic("shared", TopicType.CONFIG)
    with site.admin() as admin:
        alter_known(admin, topic, {"cleanup.policy": "compact,delete"})

        def deleted() -> bool:  # refused until the log itself has heard of its new policy
            (future,) = admin._client.delete_records([client.TopicPartition(topic, 0, 5)]).values()
            return future.exception(120) is None

        await_that(deleted, what="deleted")
    code, out, _ = run("verify", path, "--isolation")
    assert code == 1
    assert "touched: records are missing or changed: plain keys in" in out
    assert out.splitlines()[-1].startswith("not proven")
    found = verdicts(check_bystanders(path), TopicType.CONFIG)
    assert (found["plain keys"], found["illegal keys"]) == (BystanderVerdict.TOUCHED, BystanderVerdict.EQUAL)
    assert found["other"] is BystanderVerdict.WROTE_SINCE  # its record is gone, but a newer one of its own is there


def test_originals_in_place_and_other_connectors_of_the_group_are_others_too(site: Site) -> None:
    site.create("shared", SHARED_PARTITIONS, KEPT)
    names = ("moved", "stays")
    for topic_type, pairs in SMALL.items():
        records = [(key, value, None) for key, value, _ in pairs if key.startswith(("connector-", "status-c", "["))]
        for name in names:
            for prefix in ("old", "new") if name == "stays" else ("old",):
                site.lay_down(
                    "shared", topic_type, [(f"{prefix}.{k}".replace("a.b", name), v, 0) for k, v, _ in records]
                )
    old, new = (site.worker_file("shared", group, sharing=True) for group in ("old", "new"))
    path = site.plan(old, new, intent=Intent(job="moved"))
    apply_plan(path, isolation_proof=True)
    report = check_bystanders(path)
    assert report.isolated
    for topic_type in TopicType:
        groups = by_group(report, topic_type)
        assert {name: group.keys_before for name, group in groups.items()} == {"old": 2, "new": 1}
        assert report.own[topic_type].found == 1


def test_what_the_cleaner_takes_is_distinguished(site: Site) -> None:
    """A group's newer record explains that the older one is gone; nothing explains the loss of another."""
    site.create("shared", SHARED_PARTITIONS, {"min.cleanable.dirty.ratio": "0.01", "segment.ms": "1"})
    others_write(site, TopicType.CONFIG, ("other.connector-z", "{}"), ("third.connector-z", "{}"))
    path = site.plan(site.small_source(), site.shared())
    apply_plan(path, isolation_proof=True)
    topic = site.topic("shared", TopicType.CONFIG)

    def cleaned() -> list[tuple[bytes | None, int]]:
        others_write(site, TopicType.CONFIG, ("other.connector-z", '{"properties":{}}'))
        return [(record.key, record.offset) for record in site.read(topic)]

    old = (b"other.connector-z", 0)
    await_that(cleaned, lambda found: old not in found, what="the old record cleaned away", timeout_s=120)
    report = check_bystanders(path)
    groups = by_group(report, TopicType.CONFIG)
    other = groups["other"]
    assert (other.verdict, other.keys_before, other.keys_now) == (BystanderVerdict.WROTE_SINCE, 1, 0)
    assert (groups["third"].verdict, groups["third"].keys_now) == (BystanderVerdict.EQUAL, 1)
    assert report.isolated


def test_without_the_notes_there_is_no_proof_and_no_backup_on_request(site: Site) -> None:
    path = site.plan(site.small_source(), site.shared())
    with pytest.raises(PlanFileError, match="no manifest"):
        check_bystanders(path)
    assert run("apply", path, "--yes", "--no-backup")[0] == 0
    assert (backup_path(path).exists(), Manifest.load(manifest_path(path)).backup) == (False, None)
    code, out, err = run("verify", path, "--isolation")
    assert (code, out) == (1, "")
    assert "--isolation-proof" in err
    assert "removed without a backup" in run("cutover", path, "--seal", "remove", "--dry-run")[2]
