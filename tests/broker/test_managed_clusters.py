"""Managed clusters, played by a policy that lets topics have what IBM Event Streams and Confluent Cloud let them have."""

from __future__ import annotations

import logging
from collections.abc import Collection

import pytest

from connect_share.jar import INTERCEPTOR_CLASS
from connect_share.kafka import create, shared_set
from connect_share.kafka.admin import Admin
from connect_share.kafka.create import TopicSpec
from connect_share.model.records import TopicType
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig, load_properties
from tests.lab.embedded.worker import ConnectWorker, worker_properties
from tests.support.console import Call
from tests.support.java_groups import JAR, file_source, put
from tests.support.kafka import POLICY_SETTING
from tests.support.long_forms import LONG
from tests.support.migration_site import GROUP, Site, run, run_well

REFUSED = {
    "managed-ibm": {"delete.retention.ms", "min.cleanable.dirty.ratio", "min.insync.replicas"},
    "managed-confluent": {"min.cleanable.dirty.ratio", "segment.bytes", "segment.ms"},
}
STAYS = {"managed-ibm": {"segment.bytes": "16777216"}, "managed-confluent": {"delete.retention.ms": "86400000"}}


@pytest.fixture(autouse=True)
def policy(site: Site) -> None:
    with site.admin() as admin:
        if not any(POLICY_SETTING in found for found in admin.broker_settings().values()):
            pytest.skip("the broker that was given has no policy")


@pytest.mark.parametrize("cluster", REFUSED)
def test_moves(site: Site, cluster: str, call: Call, caplog: pytest.LogCaptureFixture) -> None:
    refused = REFUSED[cluster] | {"unclean.leader.election.enable"}
    made = call("create", "topics", "-w", site.worker_file("made", "made", sharing=True), "--yes", "--output", "json")
    assert made.code == 0, made.err
    with site.admin() as admin:
        for topic in made.json["topics"]:
            assert {setting["name"] for setting in topic["given_up"]} == refused
            kept = {setting["name"]: setting["value"] for setting in topic["settings"]}
            assert kept.items() <= admin.topic_configs(topic["topic"]).items()
        assert STAYS[cluster].items() <= admin.topic_configs(site.topic("made", TopicType.CONFIG)).items()
    shown = call("create", "topics", "-w", site.worker_file("later", "later", sharing=True), "--dry-run").out
    assert (
        "min.cleanable.dirty.ratio=0.1 is refused by the cluster and left to it; what is lost by that: compacted "
        in shown
    )

    destination, plan = site.shared(), site.folder / "move.json"
    source = site.small_source()
    shown = run_well("plan", "-w", source, "--to-worker-config", destination, "-o", plan)
    for topic_type in TopicType:
        for name in refused:
            assert f"warning: {site.topic('shared', topic_type)}: {name}=" in shown
    with caplog.at_level(logging.WARNING, "connect_share"):
        for step in (("apply", plan, "--yes"), ("verify", plan), ("cutover", plan, "--yes")):
            run_well(*step)
    with site.admin() as admin:
        for topic_type in TopicType:
            assert admin.topic_configs(site.topic("shared", topic_type))["cleanup.policy"] == "compact"
    with ConnectStorage(WorkerConfig.from_file(destination)) as storage:
        assert storage.config.snapshot().connectors() == {"a.b"}
        assert storage.config.cluster_group_id == GROUP
    if LONG:
        properties = worker_properties(site.bootstrap_servers, GROUP) | load_properties(destination)
        with ConnectWorker({**properties, "interceptor.classes": INTERCEPTOR_CLASS}, class_path=JAR) as worker:
            assert worker.rest.connectors() == ["a.b"]
            put(worker, "lines", file_source(plan, f"{GROUP}-lines"))
            worker.rest.await_state("lines", "RUNNING", tasks=1)


@pytest.mark.parametrize("cluster", REFUSED)
def test_store(
    site: Site, cluster: str, call: Call, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store makes its topics with what the worker file says; what must hold is never given up."""

    def tried(admin: Admin, spec: TopicSpec, *must_hold: Collection[str]) -> TopicSpec | None:
        if spec.topic_type is TopicType.STATUS:  # another worker makes it meanwhile
            admin.create_topic(create.creation_request(accepted(admin, spec, *must_hold) or spec))
        return accepted(admin, spec, *must_hold)

    accepted = create.accepted
    for module in (create, shared_set):
        monkeypatch.setattr(module, "accepted", tried)
    ran = call("create", "topics", "-w", site.worker_file("made", "made", sharing=True), "--yes", "--output", "json")
    assert len(ran.json["created"]) == 2
    ratios = dict.fromkeys((f"{kind}_storage_min_cleanable_dirty_ratio" for kind in ("config", "status")), "0.1")
    more = {**ratios, "config_storage_retention_ms": "-1"}
    with (
        caplog.at_level(logging.WARNING, "connect_share"),
        ConnectStorage(WorkerConfig.from_file(site.worker_file("own", "own", sharing=True, **more))),
    ):
        topic = site.topic("own", TopicType.CONFIG)
    assert f"Topic {topic} is created without min.cleanable.dirty.ratio: the cluster refuses that" in caplog.text
    with site.admin() as admin:
        assert {"retention.ms": "-1", "cleanup.policy": "compact"}.items() <= admin.topic_configs(topic).items()
    held = site.worker_file("held", "held", sharing=True, config_storage_unclean_leader_election_enable="false")
    code, _, err = run(
        "plan", "-w", site.small_source("from", "from"), "--to-worker-config", held, "-o", site.folder / "p"
    )
    assert code != 0
    assert "unclean.leader.election.enable" in err
