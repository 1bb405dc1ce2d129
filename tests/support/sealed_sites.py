"""Sealed groups on the topics of a site, and the commands on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from connect_share.model.config_state import SessionKey, TargetState
from connect_share.model.records import TopicType
from connect_share.sealing import KEYS_PROPERTY
from connect_share.storage import ConnectStorage
from connect_share.worker_config import WorkerConfig
from tests.support.migration_runs import apply_plan
from tests.support.migration_site import Site, run, run_well
from tests.support.sealed import key_text
from tests.support.sealed_stores import MODE, SECRET, current_state, put


def worker(site: Site, who: str, group: str | None, *keys: int, mode: str = "required") -> Path:
    """The worker file of a group with these keys; without any it says nothing, unless the mode is ``off``.

    ``None`` is a cluster with plain keys.
    """
    lines = {KEYS_PROPERTY: key_text(*keys)} if keys else {}
    lines |= {MODE: mode} if keys or mode == "off" else {}
    path = site.worker_file(who, group or "orders", sharing=group is not None, **lines)
    return path.rename(path.with_name(f"{who}-{group}-{'-'.join(map(str, keys))}-{mode}.properties"))


def life(path: Path, *names: str) -> Any:
    """Write what workers write of these connectors. Return the state that is read then."""
    with ConnectStorage(WorkerConfig.from_file(path)) as storage:
        for name in names:
            put(storage, name)
        if names:
            storage.config.put_session_key(SessionKey(SECRET, "HmacSHA256", 1))
        return current_state(storage)


def essence(config: Any, statuses: Any, offsets: Any) -> Any:
    """All of it but what a move leaves behind: the session key and the position."""
    configs = {name: config.connector_config(name) for name in config.connectors()}
    tasks = {str(task): config.task_config(task) for name in configs for task in config.tasks(name)}
    return configs, tasks, config.target_states(), dict(offsets.raw), statuses


def state(path: Path) -> Any:
    """The state of a group, without what a move leaves behind."""
    return essence(*life(path))


def targets(path: Path) -> dict[str, TargetState | None]:
    state = life(path)[0]
    return {name: state.target_state(name) for name in state.connectors()}


def left(path: Path) -> list[object]:
    """All that the group still has on the topics."""
    config, statuses, offsets = life(path)
    return [*config.connectors(), *statuses.connectors(), *offsets.raw]


def newest(site: Site, who: str, group: str) -> dict[bytes, bytes | None]:
    prefix = f"{group}.".encode()
    records = [record for topic_type in TopicType for record in site.read(site.topic(who, topic_type))]
    return {record.key: record.value for record in records if record.key is not None and record.key.startswith(prefix)}


def done(*arguments: str | Path) -> Any:
    code, said, errors = run(*arguments, "--yes", "--output", "json")
    assert code == 0, errors
    assert SECRET.decode() not in said + errors
    return json.loads(said)


def planned(site: Site, source: Path, destination: Path, *more: str) -> Path:
    plan = site.folder / f"plan-{len(list(site.folder.iterdir()))}.json"
    files = ("--source-worker-config", source, "--destination-worker-config", destination)
    run_well("plan", *files, "-o", plan, *more)
    apply_plan(plan)
    return plan
