"""The command that checks a worker file for topic sharing: reads what there is, and leaves judging to the core."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connect_share.cli.reading import Group, read_topics
from connect_share.console import Output
from connect_share.errors import BrokerError, ConfigError, StoreError, TopicError, TopicMissingError, UsageError
from connect_share.keys import ClusterGroupId
from connect_share.records import TopicType
from connect_share.state import ClusterConfigState
from connect_share.worker_config import TOPIC_PROPERTIES, TopicSet, WorkerConfig, load_properties
from connect_share.worker_plugin.connector_check import check_connectors
from connect_share.worker_plugin.jar_check import PLUGIN_PATH, JarSearch, check_jars
from connect_share.worker_plugin.jar_file import class_path_files, find_jars, folder_jars, own_jar, plugin_path_jars
from connect_share.worker_plugin.worker_file_check import (
    CheckedFile,
    Finding,
    Severity,
    check_properties,
    lines_to_add,
)

_ORDER: Final = list(Severity)


@dataclass(frozen=True)
class _Connectors:
    """What the cluster said: ``None`` findings if it was not asked, or did not answer."""

    findings: tuple[Finding, ...] | None
    count: int = 0


def check_worker_config(arguments: argparse.Namespace, out: Output) -> int:
    """``check worker-config``."""
    for folder in arguments.libs:
        if not folder.is_dir():
            raise UsageError(f"--libs: {folder} is not a folder")
    properties = _properties(arguments.file)
    if isinstance(properties, Finding):
        _tell(arguments, out, [properties], connectors=_Connectors(None))
        return 1
    checked = check_properties(properties)
    search = _search(arguments.libs, os.environ, properties.get(PLUGIN_PATH, ""))
    connectors = _connectors(arguments, checked, out)
    findings = [*checked.findings, *check_jars(search, own_jar()), *(connectors.findings or ())]
    _tell(arguments, out, findings, checked, connectors=connectors, search=search)
    return 1 if any(finding.severity is Severity.ERROR for finding in findings) else 0


def _properties(path: Path) -> dict[str, str] | Finding:
    try:
        return load_properties(path)
    except ConfigError as exc:
        if isinstance(exc.__cause__, OSError):
            raise  # there is no worker file to say anything of
        return Finding(Severity.ERROR, "", str(exc))


def _search(libs: Sequence[Path], environment: Mapping[str, str], plugin_path: str) -> JarSearch:
    home, class_path = environment.get("KAFKA_HOME", "").strip(), environment.get("CLASSPATH", "").strip()
    folders = list(libs) or ([Path(home) / "libs"] if home else [])
    files = [jar for folder in folders for jar in folder_jars(folder)]
    plugins = [Path(text) for part in plugin_path.split(",") if (text := part.strip())]
    return JarSearch(
        looked_in=(*map(str, folders), *(["CLASSPATH"] if class_path else [])),
        told=bool(libs),
        class_path=find_jars([*files, *class_path_files(class_path)]),
        plugin_path=find_jars(plugin_path_jars(plugins)),
    )


def _connectors(arguments: argparse.Namespace, checked: CheckedFile, out: Output) -> _Connectors:
    if arguments.offline:
        return _Connectors(None)
    config = checked.config
    if config is None or not checked.reachable:
        out.note("connectors were not checked: what is wrong in the file keeps from reading the config topic")
        return _Connectors(None)
    try:
        states = _states(config, arguments.timeout, out, sharing_enabled=checked.sharing_enabled)
        two_clusters = _two_plain_clusters(config, arguments.timeout)
    except (BrokerError, StoreError, TopicError) as exc:
        out.note(f"connectors were not checked: {exc}")
        return _Connectors(None)
    found: list[Finding] = []
    for state in states:
        configs = {name: state.connector_config(name) or {} for name in state.connectors()}
        # Only sources are ever fenced.
        sources = {name for name in configs if state.task_count_record(name) is not None}
        found += check_connectors(config, configs, sources=sources)
    found += two_clusters
    return _Connectors(tuple(dict.fromkeys(found)), sum(len(state.connectors()) for state in states))


def _states(
    config: WorkerConfig, timeout_s: float, out: Output, *, sharing_enabled: bool
) -> tuple[ClusterConfigState, ...]:
    """Give the group's own connectors, and those with plain keys where they can be its own only: not moved yet."""
    own: Group = ClusterGroupId(config.group_id)
    topic_set = TopicSet(
        {TopicType.CONFIG: config.config_storage_topic},
        config.client_settings(),
        {TopicType.CONFIG: config.isolation(TopicType.CONFIG)},
        (own,),
    )
    reading = read_topics(topic_set, [TopicType.CONFIG], groups=(own, None), timeout_s=timeout_s).config
    if reading is None:
        return ()
    for note in reading.notes:
        out.note(note)
    wanted = [own] if sharing_enabled and reading.others else [own, None]
    return tuple(reading.groups[group] for group in wanted if group in reading.groups)


def _two_plain_clusters(config: WorkerConfig, timeout_s: float) -> list[Finding]:
    """Look for two clusters with plain keys on the topics: neither may stay there, and no file shows it."""
    topic_set = TopicSet(
        {TopicType.STATUS: config.status_storage_topic},
        config.client_settings(),
        {TopicType.STATUS: config.isolation(TopicType.STATUS)},
        (None,),
    )
    try:
        reading = read_topics(topic_set, [TopicType.STATUS], groups=(None,), timeout_s=timeout_s).status
    except TopicMissingError:
        return []  # a worker creates it
    if reading is None or reading.two_clusters is None:
        return []
    return [Finding(Severity.WARNING, TOPIC_PROPERTIES[TopicType.STATUS], reading.two_clusters)]


def _tell(
    arguments: argparse.Namespace,
    out: Output,
    findings: Sequence[Finding],
    checked: CheckedFile | None = None,
    *,
    connectors: _Connectors,
    search: JarSearch | None = None,
) -> None:
    ordered = sorted(findings, key=lambda finding: _ORDER.index(finding.severity))
    lines = lines_to_add(ordered)
    counts = {severity: sum(finding.severity is severity for finding in ordered) for severity in _ORDER}
    if out.is_json:
        config = None if checked is None else checked.config
        out.json(
            {
                "file": str(arguments.file),
                "ok": counts[Severity.ERROR] == 0,
                "sharing_enabled": checked is not None and checked.sharing_enabled,
                "exactly_once": None if config is None else config.exactly_once_source_support,
                "findings": [finding.to_dict() for finding in ordered],
                "add": list(lines),
                "jars": [
                    {"path": str(jar.path), "sha256": jar.sha256, "version": jar.version}
                    for jar in (search.class_path if search is not None else ())
                ],
                "connectors_checked": connectors.findings is not None,
                "connectors": connectors.count if connectors.findings is not None else None,
            }
        )
        return
    for finding in ordered:
        more = f"; add {' and '.join(finding.add)}" if finding.add else ""
        out.lines(f"{finding.severity.value}: {finding.message}{more}")
    if lines:
        out.lines(
            "", f"add to {arguments.file} (at its end: of several lines for one name the last one counts):", *lines, ""
        )
    verdict = "wrong for topic sharing" if counts[Severity.ERROR] else "right for topic sharing"
    plural = [f"{number} {severity.value}{'' if number == 1 else 's'}" for severity, number in counts.items() if number]
    asked = (
        ""
        if connectors.findings is None
        else f"; {connectors.count} connector{'' if connectors.count == 1 else 's'} looked at"
    )
    out.lines(f"{arguments.file}: {verdict}" + (f" ({', '.join(plural)})" if plural else "") + asked)
