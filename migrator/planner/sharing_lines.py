"""The checks of the sharing lines in worker files, by the rules of ``check worker-config``; no value is shown."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from connect_share.keys import split_key
from connect_share.migration_errors import PlanRejectedError
from connect_share.records import TopicType
from connect_share.topic_io.facts import ExistingTopic, read_records
from connect_share.worker_config import SHARING_PROPERTY, WorkerConfig, load_worker_file
from connect_share.worker_config.client_settings import Isolation
from connect_share.worker_plugin import INTERCEPTOR_CLASS
from connect_share.worker_plugin.worker_file_check import (
    CLIENT_KINDS,
    INTERCEPTORS,
    Severity,
    WorkerFinding,
    check_properties,
    class_names,
)

_SHOWN_GROUPS: Final = 3


def check_sharing_lines(files: Iterable[Path]) -> list[str]:
    """Check worker files without asking a broker. Returns warnings.

    Raises:
        PlanRejectedError: a file has the interceptor, but does not say whether sharing is on.
    """
    warnings = []
    for path in dict.fromkeys(files):
        properties = load_worker_file(path)
        checked = check_properties(properties)
        errors = [finding for finding in checked.findings if finding.severity is Severity.ERROR]
        if checked.sharing_enabled:
            warnings += [
                f"{path}: {_with_remedy(finding)} (Java workers need it; a Python runtime does not)"
                for finding in errors
            ]
        elif not properties.get(SHARING_PROPERTY, "").strip() and _has_interceptor(properties):
            (missing,) = _about_sharing(errors)
            raise PlanRejectedError(
                f"{path} has the interceptor, but {_with_remedy(missing)}; if its workers are not to share, say "
                f"{SHARING_PROPERTY}=disabled"
            )
    return warnings


def warn_about_shared_topics(path: Path, worker: WorkerConfig, config_topic: ExistingTopic | None) -> list[str]:
    """Return a warning if a file without sharing names a topic in which other groups have prefixes."""
    if worker.sharing_enabled or config_topic is None:
        return []
    groups: dict[str, None] = {}
    for record in read_records(worker, config_topic.ranges(), Isolation.READ_UNCOMMITTED):
        owner = None if record.key is None else split_key(TopicType.CONFIG, record.key)
        if owner is not None and owner[0] is not None:
            groups[str(owner[0])] = None
            if len(groups) > _SHOWN_GROUPS:
                break
    if not groups:
        return []
    names = [*list(groups)[:_SHOWN_GROUPS], *(["others"] if len(groups) > _SHOWN_GROUPS else [])]
    findings = _about_sharing(check_properties(load_worker_file(path)).findings)
    return [
        f"{path}: {_with_remedy(finding)}, unless this is to be the one cluster with plain keys in {config_topic.topic}, "
        f"where {', '.join(names)} share under their prefixes"
        for finding in findings
    ]


def _about_sharing(findings: Iterable[WorkerFinding]) -> list[WorkerFinding]:
    return [finding for finding in findings if finding.property_name == SHARING_PROPERTY]


def _has_interceptor(properties: dict[str, str]) -> bool:
    names = (INTERCEPTORS, *(f"{kind}.{INTERCEPTORS}" for kind in CLIENT_KINDS))
    return any(INTERCEPTOR_CLASS in class_names(properties.get(name, "")) for name in names)


def _with_remedy(finding: WorkerFinding) -> str:
    return f"{finding.message}; add {' and '.join(finding.add)}" if finding.add else finding.message
