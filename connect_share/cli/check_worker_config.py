"""``check worker-config``: reads the file, the jars and the connectors; the rules are in ``worker_plugin``."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from connect_share.cli.contents import TopicContents, read_topics
from connect_share.cli.options import Nouns
from connect_share.console import Group, Output, add_output, plural
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
    Severity,
    WorkerFinding,
    check_properties,
    lines_to_add,
)

_TIMEOUT_S: Final = 5.0


def add_to(nouns: Nouns) -> None:
    """Add ``check worker-config``."""
    parser = nouns.add_parser(
        "worker-config",
        help="is a Java worker's file right for topic sharing?",
        description="Check a Java worker's file for topic sharing, and say what to add. "
        "Reads only; exit code 1 if something is wrong, warnings allowed.",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="properties file of a Java worker")
    parser.add_argument(
        "--libs",
        metavar="DIR",
        type=Path,
        action="append",
        default=[],
        help="folder with the jars of the worker's own class path, may be repeated; "
        "$KAFKA_HOME/libs by default; CLASSPATH is searched too",
    )
    parser.add_argument("--offline", action="store_true", help="do not ask the cluster for the group's connectors")
    add_output(parser, _TIMEOUT_S)
    parser.set_defaults(run=check_worker_config)


def check_worker_config(arguments: argparse.Namespace, out: Output) -> int:
    """Check a worker file; 1 if a finding is an error."""
    for folder in arguments.libs:
        if not folder.is_dir():
            raise UsageError(f"--libs: {folder} is not a folder")
    properties = _properties(arguments.file)
    if isinstance(properties, WorkerFinding):
        return _report(arguments, out, [properties])
    checked = check_properties(properties)
    search = _search(arguments.libs, os.environ, properties.get(PLUGIN_PATH, ""))
    of_connectors, connectors = _connectors(arguments, checked, out)
    findings = [*checked.findings, *check_jars(search, own_jar()), *of_connectors]
    return _report(arguments, out, findings, checked, connectors=connectors, search=search)


def _properties(path: Path) -> dict[str, str] | WorkerFinding:
    try:
        return load_properties(path)
    except ConfigError as exc:
        if isinstance(exc.__cause__, OSError):
            raise  # there is no worker file to check
        return WorkerFinding(Severity.ERROR, "", str(exc))


def _search(libs: Sequence[Path], environment: Mapping[str, str], plugin_path: str) -> JarSearch:
    home, class_path = environment.get("KAFKA_HOME", "").strip(), environment.get("CLASSPATH", "").strip()
    folders = list(libs) or ([Path(home) / "libs"] if home else [])
    files = [jar for folder in folders for jar in folder_jars(folder)]
    plugins = [Path(text) for part in plugin_path.split(",") if (text := part.strip())]
    return JarSearch(
        looked_in=(*map(str, folders), *(["CLASSPATH"] if class_path else [])),
        complete=bool(libs),
        class_path=find_jars([*files, *class_path_files(class_path)]),
        plugin_path=find_jars(plugin_path_jars(plugins)),
    )


def _connectors(
    arguments: argparse.Namespace, checked: CheckedFile, out: Output
) -> tuple[Sequence[WorkerFinding], int | None]:
    """Return the findings and the number of connectors, ``None`` if the cluster was not asked, or did not answer."""
    if arguments.offline:
        return (), None
    config = checked.config
    if config is None or not checked.reachable:
        out.note("connectors were not checked: errors in the file prevent reading the config topic")
        return (), None
    try:
        states = _states(config, arguments.timeout, out, sharing_enabled=checked.sharing_enabled)
        two_clusters = _two_plain_clusters(config, arguments.timeout)
    except (BrokerError, StoreError, TopicError) as exc:
        out.note(f"connectors were not checked: {exc}")
        return (), None
    found: list[WorkerFinding] = []
    for state in states:
        configs = {name: state.connector_config(name) or {} for name in state.connectors()}
        # Only sources are ever fenced.
        sources = {name for name in configs if state.task_count_record(name) is not None}
        found += check_connectors(config, configs, sources=sources)
    found += two_clusters
    return tuple(dict.fromkeys(found)), sum(len(state.connectors()) for state in states)


def _states(
    config: WorkerConfig, timeout_s: float, out: Output, *, sharing_enabled: bool
) -> tuple[ClusterConfigState, ...]:
    """Return the group's connectors, and those with plain keys where they can only be its own: not moved yet."""
    own: Group = ClusterGroupId(config.group_id)
    topic = _read(config, TopicType.CONFIG, (own, None), timeout_s)
    for note in topic.notes:
        out.note(note)
    wanted = [own] if sharing_enabled and topic.others else [own, None]
    return tuple(topic.groups[group] for group in wanted if group in topic.groups)


def _two_plain_clusters(config: WorkerConfig, timeout_s: float) -> list[WorkerFinding]:
    """Return a finding if two clusters with plain keys use the topics; no worker file shows that."""
    try:
        topic = _read(config, TopicType.STATUS, (None,), timeout_s)
    except TopicMissingError:
        return []  # a worker creates it
    if topic.two_clusters is None:
        return []
    return [WorkerFinding(Severity.WARNING, TOPIC_PROPERTIES[TopicType.STATUS], topic.two_clusters)]


def _read(config: WorkerConfig, topic_type: TopicType, groups: Sequence[Group], timeout_s: float) -> TopicContents:
    topic_set = TopicSet(
        {topic_type: config.topic(topic_type)},
        config.client_settings(),
        {topic_type: config.isolation(topic_type)},
        worker=config,
    )
    return read_topics(topic_set, [topic_type], groups=groups, timeout_s=timeout_s).topics[topic_type]


def _report(
    arguments: argparse.Namespace,
    out: Output,
    findings: Sequence[WorkerFinding],
    checked: CheckedFile | None = None,
    *,
    connectors: int | None = None,
    search: JarSearch | None = None,
) -> int:
    severities = list(Severity)
    ordered = sorted(findings, key=lambda finding: severities.index(finding.severity))
    lines = lines_to_add(ordered)
    counts = Counter(finding.severity for finding in ordered)
    code = 1 if counts[Severity.ERROR] else 0
    if out.is_json:
        config = None if checked is None else checked.config
        out.json(
            {
                "file": str(arguments.file),
                "ok": code == 0,
                "sharing_enabled": checked is not None and checked.sharing_enabled,
                "exactly_once": None if config is None else config.exactly_once_source_support,
                "findings": [finding.to_dict() for finding in ordered],
                "add": list(lines),
                "jars": [
                    {"path": str(jar.path), "sha256": jar.sha256, "version": jar.version}
                    for jar in (search.class_path if search is not None else ())
                ],
                "connectors_checked": connectors is not None,
                "connectors": connectors,
            }
        )
        return code
    for finding in ordered:
        more = f"; add {' and '.join(finding.add)}" if finding.add else ""
        out.lines(f"{finding.severity.value}: {finding.message}{more}")
    if lines:
        title = f"add to {arguments.file} (at its end: of several lines for one name the last one counts):"
        out.lines("", title, *lines, "")
    verdict = f"{arguments.file}: {'wrong' if code else 'right'} for topic sharing"
    if counts:
        shown = (plural(number, severity.value) for severity, number in counts.items())
        verdict += f" ({', '.join(shown)})"
    if connectors is not None:
        verdict += f"; {plural(connectors, 'connector')} checked"
    out.lines(verdict)
    return code
