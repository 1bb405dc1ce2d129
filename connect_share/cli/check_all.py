"""``check all``: every check that can run with what was given, in one go."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from connect_share.checks.finding import Finding
from connect_share.checks.startup import findings_of as startup_findings_of
from connect_share.checks.topics import inspect_topics, topic_of
from connect_share.cli import check_rights, check_sealing, check_worker_config
from connect_share.cli.check_contents import CHECKS, Check, add_check_options, missing_topics
from connect_share.cli.check_sources import CheckSources
from connect_share.cli.findings import counted, exit_code, finding_lines, wanted
from connect_share.cli.options import TOPIC_FLAGS
from connect_share.console import DEFAULT_TIMEOUT_S, Command, Output, Result
from connect_share.errors import AuthorizationError
from connect_share.kafka.create import topic_specs
from connect_share.model.records import TopicType

_NO_FILE: Final = "needs -w FILE"
_SCANS: Final = "needs scans of the brokers' disks: connect-share check topic-ids --help"
_Run = Callable[[CheckSources, Output], Iterable[Finding]]


def _check_all(arguments: argparse.Namespace, out: Output) -> Result:
    """Run all checks; 1 if a finding is an error."""
    sources = CheckSources.asked(arguments, out)
    every: list[Finding] = []
    checks: dict[str, Any] = {}
    for name, run in _checks(sources).items():
        reason, findings = run if isinstance(run, str) else None, list[Finding]()
        if not isinstance(run, str):
            try:
                findings = wanted(list(run(sources, out)), arguments.ignore)
            except AuthorizationError as error:
                reason = str(error)
        every += findings
        checks[name] = {"run": reason is None, "reason": reason, "findings": len(findings)}
        if not out.is_json:  # at once, for a check may take long
            verdict = f"not run: {reason}" if reason is not None else counted(findings)
            out.lines(*finding_lines(findings), f"{name}: {verdict}")
    topics = {topic_type.value: topic for topic_type, topic in sources.topic_set.topics.items()}
    found = [finding.to_dict() for finding in wanted(every, ())]
    return Result({"findings": found, "checks": checks, "topics": topics}, code=exit_code(every))


def _checks(sources: CheckSources) -> Mapping[str, _Run | str]:
    """Return what runs each check, or why it cannot be run."""
    found: dict[str, _Run | str] = {}
    for name, check in CHECKS.items():
        missing = missing_topics(check, sources)
        found[name] = f"needs {' and '.join(missing)}" if missing else partial(_of_contents, check)
    without = [TOPIC_FLAGS[each] for each in TopicType if each not in sources.topic_set.topics]
    found["topics"] = _topics
    found["sealing"] = _sealing
    found["rights"] = _rights
    found["startup"] = f"needs {' and '.join(without)}" if without else _startup
    found["worker-config"] = _NO_FILE if sources.worker_file is None else partial(_worker_config, sources.worker_file)
    found["topic-ids"] = _SCANS
    return found


def _of_contents(check: Check, sources: CheckSources, _: Output) -> Iterable[Finding]:
    return check.run(sources)


def _topics(sources: CheckSources, _: Output) -> Iterator[Finding]:
    with sources.admin() as admin:
        inspection = inspect_topics(admin, topic_specs(sources.topic_set))
    sources.note(inspection.notes)
    # Partitions that differ in nothing else are one finding here; check topics names each.
    yield from {(topic_of(each), each.id): each for each in inspection.findings}.values()


def _rights(sources: CheckSources, _: Output) -> list[Finding]:
    uses = ("console",) if sources.topic_set.worker is None else ("worker", "console")
    return check_rights.findings_of(sources.topic_set, uses, sources.timeout_s)[0]


def _sealing(sources: CheckSources, _: Output) -> list[Finding]:
    worker = sources.topic_set.worker
    return check_sealing.find(sources.contents, worker, sources.worker_file, all_groups_sealed=False)


def _startup(sources: CheckSources, _: Output) -> list[Finding]:
    return startup_findings_of(sources.profile)


def _worker_config(file: Path, sources: CheckSources, out: Output) -> list[Finding]:
    return check_worker_config.findings_of(file, sources.timeout_s, out)


COMMANDS: Final = [
    Command(
        "check all",
        _check_all,
        "is anything wrong? runs all checks that can run with what is given",
        about="Run every check that can run with what is given: the checks of what lies on the topics, of the topics "
        "themselves, of what is sealed, of what a start costs, and of the worker file. Those that cannot run are named. "
        "Reads only; exit code 1 if a finding is an error.",
        examples=[
            "connect-share check all -w worker.properties",
            "connect-share check all -w worker.properties --output json --ignore secrets-clear-text",
        ],
        options=add_check_options,
        timeout_s=DEFAULT_TIMEOUT_S,
    )
]
