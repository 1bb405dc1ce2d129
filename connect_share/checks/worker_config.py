"""``check worker-config``: reads the file, the jars and the connectors; the rules are in ``checks``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from connect_share.checks.check import Check
from connect_share.checks.connectors import check_connectors
from connect_share.checks.finding import Finding, Severity, counted, errors_first, exit_code
from connect_share.checks.jar import PLUGIN_PATH, JarSearch, check_jars
from connect_share.checks.sealing import check_sealing, compare_files
from connect_share.checks.sources import CheckSources
from connect_share.checks.worker_file import (
    CheckedFile,
    check_properties,
    in_file,
    lines_to_add,
    with_remedy,
    worker_finding,
)
from connect_share.console.options import Group, Parser, add_runtime, for_java, worker_file
from connect_share.console.output import Output, Result, plural
from connect_share.contents.groups import TopicContents, read_topics
from connect_share.errors import BrokerError, ConfigError, StoreError, TopicError, TopicMissingError, UsageError
from connect_share.jar.jar_file import class_path_files, find_jars, folder_jars, own_jar, plugin_path_jars
from connect_share.model.config_state import ClusterConfigState
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import TopicType
from connect_share.worker_config import TOPIC_PROPERTIES, TopicSet, WorkerConfig, load_worker_file
from connect_share.worker_config.override_policy import POLICY_CLASS, POLICY_PROPERTY
from connect_share.worker_config.worker import RESOURCES, file_of

_TIMEOUT_S: Final = 5.0
_Note = Callable[[str], object]
_Read = Callable[[WorkerConfig, TopicType], TopicContents]


@dataclass(frozen=True)
class _Checked:
    """What was found in one file; ``connectors`` is ``None`` if they were not read."""

    file: Path
    findings: Sequence[Finding]
    checked: CheckedFile | None = None
    connectors: int | None = None
    search: JarSearch | None = None

    @property
    def ok(self) -> bool:
        return exit_code(self.findings) == 0

    def members(self) -> dict[str, Any]:
        checked, search = self.checked, self.search
        config = None if checked is None else checked.config
        return {
            "file": str(self.file),
            "ok": self.ok,
            "sharing_enabled": checked is not None and checked.sharing_enabled,
            "exactly_once": None if config is None else config.exactly_once_source_support,
            "findings": [_members(self.file, finding) for finding in self.findings],
            "add": list(lines_to_add(self.findings)),
            "jars": [
                {"path": str(jar.path), "sha256": jar.sha256, "version": jar.version}
                for jar in (search.class_path if search is not None else ())
            ],
            "connectors_checked": self.connectors is not None,
            "connectors": self.connectors,
        }


def _check_worker_config(arguments: argparse.Namespace, out: Output) -> Result:
    for folder in arguments.libs:
        if not folder.is_dir():
            raise UsageError(f"--libs: {folder} is not a folder")
    files = list(dict.fromkeys([*arguments.files, *arguments.more]))
    if not files:
        raise UsageError("name the worker file to check")

    def note(file: Path, text: str) -> None:
        out.note(f"{file}: {text}" if len(files) > 1 else text)

    libs, java = arguments.libs, for_java(arguments)
    read = None if arguments.offline else _read
    results = [_check(file, partial(note, file), libs, read=read, java=java) for file in files]
    compared = errors_first(compare_files([(each.file, each.checked) for each in results if each.checked is not None]))
    ok = all(each.ok for each in results) and exit_code(compared) == 0
    members = results[0].members()
    if len(results) > 1:
        shown = [_members(files[0], finding) for finding in compared]
        members = {"files": [result.members() for result in results], "findings": shown, "ok": ok}
    lines = [line for result in results for line in _lines(result)]
    lines += [f"{finding.severity.value}: {finding.what}" for finding in compared]
    return Result(members, lines, 0 if ok else 1)


def _members(file: Path, finding: Finding) -> dict[str, Any]:
    return {
        "property": finding.property_name or None,
        "message": finding.what,
        "add": list(finding.add),
        "connector": finding.connector,
        **in_file(finding, file).to_dict(),
    }


def _check(file: Path, note: _Note, libs: Sequence[Path] = (), *, read: _Read | None, java: bool) -> _Checked:
    """Check a file; ``read``: what reads a topic, if connectors are checked; ``java``: workers with the jar use the file."""
    try:
        properties = load_worker_file(file)
    except ConfigError as exc:
        if isinstance(exc.__cause__, OSError):
            raise  # there is no worker file to check
        return _Checked(file, [worker_finding(Severity.ERROR, "", str(exc))])
    checked = check_properties(properties, java=java)
    found = [*checked.findings, *check_sealing(file, properties, checked.config)]
    if not java:
        return _Checked(file, errors_first(found), checked)
    search = _search(libs, os.environ, properties.get(PLUGIN_PATH, ""))
    of_connectors, connectors = ((), None) if read is None else _connectors(checked, note, read)
    findings = errors_first([*found, *check_jars(search, own_jar()), *of_connectors])
    return _Checked(file, findings, checked, connectors, search)


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


def _connectors(checked: CheckedFile, note: _Note, read: _Read) -> tuple[Sequence[Finding], int | None]:
    """Return the findings and the number of connectors, ``None`` if the cluster was not asked, or did not answer."""
    config = checked.config
    if config is None or not checked.reachable:
        note("connectors were not checked: errors in the file prevent reading the config topic")
        return (), None
    try:
        topic = read(config, TopicType.CONFIG)
        two_clusters = list(_two_plain_clusters(config, read)) if read is _read else []  # check collisions says it
    except (BrokerError, StoreError, TopicError) as exc:
        note(f"connectors were not checked: {exc}")
        return (), None
    for text in topic.notes:
        note(text)
    states = _states(topic, ClusterGroupId(config.group_id), sharing_enabled=checked.sharing_enabled)
    found: list[Finding] = []
    for state in states:
        configs = {name: state.connector_config(name) or {} for name in state.connectors()}
        # Only sources are ever fenced.
        sources = {name for name in configs if state.task_count_record(name) is not None}
        found += check_connectors(config, configs, sources=sources)
    return tuple(dict.fromkeys([*found, *two_clusters])), sum(len(state.connectors()) for state in states)


def _states(topic: TopicContents, own: Group, *, sharing_enabled: bool) -> tuple[ClusterConfigState, ...]:
    """Return the group's connectors, and those with plain keys where they can only be its own: not moved yet."""
    has_others = topic.others or topic.groups.keys() - {own, None}
    wanted = [own] if sharing_enabled and has_others else [own, None]
    return tuple(topic.groups[group] for group in wanted if group in topic.groups)


def _two_plain_clusters(config: WorkerConfig, read: _Read) -> Iterator[Finding]:
    """Yield a finding if two clusters with plain keys use the topics; no worker file shows that."""
    with suppress(TopicMissingError):  # a worker creates it
        if (what := read(config, TopicType.STATUS).two_clusters) is not None:
            yield worker_finding(Severity.WARNING, TOPIC_PROPERTIES[TopicType.STATUS], what)


def _read(config: WorkerConfig, topic_type: TopicType) -> TopicContents:
    topic_set = replace(TopicSet.of(config), topics={topic_type: config.topic(topic_type)})
    return read_topics(topic_set, [topic_type], groups=(ClusterGroupId(config.group_id), None)).topics[topic_type]


def _lines(result: _Checked) -> Iterator[str]:
    for finding in result.findings:
        yield f"{finding.severity.value}: {with_remedy(finding)}"
    if lines := lines_to_add(result.findings):
        yield ""
        where = "at its end: of several lines for one name the last one counts"
        if file_of(result.file).suffix.lower() in RESOURCES:  # Strimzi drops lines of producers and consumers
            where = "under spec.config"
            kept = [each for each in lines if not each.startswith(("producer.", "consumer."))]
            kept += [f"{POLICY_PROPERTY}={POLICY_CLASS}"] if len(kept) < len(lines) else []
            lines = tuple(each.replace("=", ": ", 1) for each in kept)
        yield f"add to {result.file} ({where}):"
        yield from (*lines, "")
    verdict = f"{result.file}: {'right' if result.ok else 'wrong'} for topic sharing"
    if result.findings:
        verdict += f" ({counted(result.findings)})"
    if result.connectors is not None:
        verdict += f"; {plural(result.connectors, 'connector')} checked"
    yield verdict


def _add_options(parser: Parser) -> None:
    parser.add_argument("files", metavar="FILE", type=worker_file, nargs="*", help="properties file of a Java worker")
    parser.add_argument(
        "-w",
        "--worker-config",
        dest="more",
        metavar="FILE",
        type=worker_file,
        action="append",
        default=[],
        help="the same",
    )
    parser.add_argument(
        "--libs",
        metavar="DIR",
        type=Path,
        action="append",
        default=[],
        help="folder with the jars of the worker's own class path, may be repeated; "
        "$KAFKA_HOME/libs by default; CLASSPATH is searched too",
    )
    add_runtime(parser)
    parser.add_argument("--offline", action="store_true", help="do not ask the cluster for the group's connectors")
    parser.refuse("--libs --offline", beside="--runtime python")  # for which neither jars nor connectors are looked at


def _find_all(sources: CheckSources) -> list[Finding]:
    file = sources.worker_file
    assert file is not None  # noqa: S101 - the check needs it
    if sources.topic_set.worker is not None and not sources.topic_set.worker.sharing_enabled:
        sources.note(f"{file} has no topic sharing: it was not checked for that (check worker-config)")
        return []
    found = _check(file, sources.note, read=lambda _, each: sources.contents.topics[each], java=sources.java)
    return [in_file(finding, file) for finding in found.findings]


CHECK: Final = Check(
    "worker-config",
    "is a Java worker's file right for topic sharing?",
    "Check a Java worker's file for topic sharing, and say what to add. Several files of one group are "
    "compared with each other, too. Reads only; exit code 1 if something is wrong, warnings allowed.",
    _find_all,
    needs_file=True,
    timeout_s=_TIMEOUT_S,
    place=80,
    run=_check_worker_config,
    options=_add_options,
    examples=(
        "worker.properties",
        "worker-1.properties worker-2.properties --libs /opt/kafka/libs",
        "connect.yaml --offline",
    ),
)
