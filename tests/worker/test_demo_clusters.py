"""The demo's clusters, moved with the local engine: Python stores show what Java workers said, which go on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from connect_share.model.config_state import TargetState
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from migrator.cli.__main__ import main as migrate
from tests.lab.demo.clusters import CLUSTERS
from tests.lab.demo.report import summary_lines
from tests.lab.demo.restart import look_at_sealed_group, look_at_shared_topics, run_again
from tests.lab.demo.result import GroupAgain
from tests.lab.demo.steps import make_plan, start_stores
from tests.lab.demo.workers import Captured, await_no_members, run_clusters
from tests.lab.embedded.broker import LocalBroker
from tests.support.java_groups import write
from tests.support.long_forms import LONG


@pytest.mark.skipif(not LONG, reason="three clusters, twice, which make demo runs: make soak")
def test_stores_and_workers_on_shared_topics_show_what_java_workers_said(
    own_broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.chdir(tmp_path)
    (tmp_path / "relative").mkdir()
    with own_broker.admin(timeout_s=30.0) as admin:
        # A relative folder, as `make demo` gives one: workers run in folders of their own.
        captured = run_clusters(own_broker.bootstrap_servers, admin, Path("relative"), said.append)
        await_no_members(admin, [cluster.group_id for cluster in CLUSTERS])
    assert len(said) == len(CLUSTERS) == 3
    plan_file = tmp_path / "move.json"
    make_plan(captured, plan_file)
    assert migrate(["apply", str(plan_file), "--yes"]) == 0

    for each in captured:
        starts, comparison = start_stores(each)
        assert comparison.equal, summary_lines([comparison])
        names = {connector.name for connector in each.cluster.connectors if connector.fate != "is deleted"}
        assert {line.connector for line in comparison.connectors} == names
        assert re.search(r"1 PAUSED.* tasks \(1 FAILED.*[1-9]\d* source offsets", comparison.wanted)
        assert all(store.own_records and store.foreign_records for store in starts)

    first = captured[0]
    with ConnectStorage(WorkerConfig.from_file(first.shared_worker_file)) as storage:
        storage.config.put_target_state("orders.eu-west.source", TargetState.STOPPED)
    _, comparison = start_stores(first)
    assert [line.connector for line in comparison.connectors if line.differences] == ["orders.eu-west.source"]
    assert summary_lines([comparison])[-1] == "  equal: no"
    with ConnectStorage(WorkerConfig.from_file(first.shared_worker_file)) as storage:
        storage.config.put_target_state("orders.eu-west.source", TargetState.STARTED)

    with own_broker.admin(timeout_s=30.0) as admin:
        said.clear()
        again = run_again(captured, admin, Path("relative"), said.append)
        assert len(said) == 1 + len(CLUSTERS)
        for group, each in zip(again, captured, strict=True):
            _check_again(group, each)
        sealed = look_at_sealed_group(captured, own_broker.data_folder)
        assert sealed.equal, sealed
        for topic in look_at_shared_topics(first, admin):
            assert topic.records > topic.plain_keys == 0
        write(own_broker.client_settings, "shared-status", [(b"status-connector-plain", b"{}")])
        assert [topic.plain_keys for topic in look_at_shared_topics(first, admin)] == [0, 1, 0]


def _check_again(group: GroupAgain, captured: Captured) -> None:
    assert group.differences == ()
    assert group.equal
    assert group.restart.found == group.restart.wanted
    running = [connector for connector in captured.cluster.connectors if connector.fate == "runs"]
    places = {connector.topic if connector.kind == "source" else connector.name for connector in running}
    assert {each.name for each in group.data if each.lines_arrived == each.lines_appended == 1} == places
    for each in group.data:
        assert each.before == each.after_start == each.at_end - each.lines_appended
        assert each.before == 600 or each.kind == "file of sink"
