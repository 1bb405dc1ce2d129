"""The evidence folder of a plan: plan, manifest and verification as JSON, the commands that were run, an HTML page.

It holds names and figures, no record and no value. Pages are made from templates. Every value is escaped: other tenants wrote
some names.
"""

from __future__ import annotations

import contextlib
import getpass
import importlib
import platform
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from connect_share.console.output import printable
from connect_share.errors import ConnectShareError, PlanFileError, raised_by
from connect_share.files import is_writable_folder, writing
from connect_share.model.records import TopicType, now_ms
from connect_share.transform.rules import SkipReason
from migrator.copy.copy_job import SliceEvidence
from migrator.plan import MigrationPlan, PlanPart, load_model, write_plan_file
from migrator.run import IS_COPIED, Manifest, MigrationRun, MigrationStatus
from migrator.verify.equality import Verification

if TYPE_CHECKING:
    from jinja2 import Environment

PLAN: Final = "plan.json"
MANIFEST: Final = "manifest.json"
VERIFICATION: Final = "verification.json"
RUNS: Final = "runs.json"
REPORT: Final = "report.html"
DONE: Final = "done"
DIFFERENT: Final = "differences found"
INTERRUPTED: Final = "interrupted"
Row = tuple[object, ...]
_STATUS: Final[Mapping[MigrationStatus, str]] = {
    MigrationStatus.PLANNED: "the copy did not end: the destination holds a part of it, or nothing",
    MigrationStatus.COPIED: "copied",
    MigrationStatus.VERIFIED: "copied and verified",
    MigrationStatus.CUT_OVER: "copied, verified and cut over",
    MigrationStatus.ROLLED_BACK: "rolled back: what was written was removed again",
}
_PACKAGES: Final = ("connect-share", "confluent-kafka", "fastavro")


class CommandRun(PlanPart):
    """One command.

    Attributes:
        command: its word, such as ``apply``.
        outcome: ``done``, ``interrupted``, ``differences found``, or the error's name.
        operator: who ran it: the name of the user of the system.
    """

    command: str
    began_ms: int
    ended_ms: int
    outcome: str
    operator: str
    host: str
    version: str


class CommandRuns(PlanPart):
    """All commands on a plan, in order."""

    run_id: str
    runs: tuple[CommandRun, ...] = ()


class KeptVerification(Verification):
    """A verification, and when it was made."""

    at_ms: int
    version: str


@dataclass
class CommandEvidence:
    """The result of a command, filled in while it runs."""

    verification: Verification | None = None


def folder_of(plan_path: Path) -> Path:
    """Return the default folder of a plan: ``move.json`` has ``move.evidence``."""
    return plan_path.with_name(f"{plan_path.stem}.evidence")


@contextlib.contextmanager
def evidence_of(run: MigrationRun, folder: Path | None, command: str) -> Iterator[CommandEvidence]:
    """Write the evidence of a command when it ends, failures included; existing files are brought up to date.

    A command that was refused before anything was done leaves none. If the command failed, its own error is raised, even
    if the evidence cannot be written. The folder is beside the plan by default; one that is there keeps its mode, a new one
    is 0700.

    Raises:
        PlanFileError: an earlier file cannot be read, the folder belongs to another plan, which is refused before the
            command begins, or there is no room.
    """
    began_ms = now_ms()
    folder = _evidence_folder(run, folder)
    # The templates' library takes as long as the brokers' first answers, and is only needed at the end.
    threading.Thread(target=importlib.import_module, args=("jinja2",), daemon=True).start()
    evidence, outcome = CommandEvidence(), DONE
    try:
        yield evidence
    except BaseException as error:
        outcome = type(error).__name__ if isinstance(error, Exception) else INTERRUPTED
        if run.manifest is not None:
            with contextlib.suppress(ConnectShareError, OSError):
                _write(run, folder, evidence.verification, command=command, began_ms=began_ms, outcome=outcome)
        raise
    if evidence.verification is not None and not evidence.verification.equal:
        outcome = DIFFERENT
    _write(run, folder, evidence.verification, command=command, began_ms=began_ms, outcome=outcome)


def _write(
    run: MigrationRun, folder: Path, verification: Verification | None, *, command: str, began_ms: int, outcome: str
) -> None:
    plan, manifest, ended_ms = run.plan, run.manifest, now_ms()
    with writing(folder, PlanFileError):
        _evidence_folder(run, folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    write_plan_file(folder / PLAN, run.plan_text)
    if manifest is not None:
        manifest.save(folder / MANIFEST)
    verified, known = folder / VERIFICATION, folder / RUNS
    if verification is not None:
        kept = KeptVerification(**verification.model_dump(), at_ms=ended_ms, version=version("connect-share"))
        kept.save(verified)
    last = load_model(KeptVerification, verified, "verification") if verified.exists() else None
    before = load_model(CommandRuns, known, "list of runs").runs if known.exists() else ()
    operator = "unknown"  # a container may run as a number without a name
    with contextlib.suppress(KeyError, OSError, ImportError):
        operator = getpass.getuser()
    ended = CommandRun(
        command=command,
        began_ms=began_ms,
        ended_ms=ended_ms,
        outcome=outcome,
        operator=operator,
        host=platform.node(),
        version=version("connect-share"),
    )
    runs = CommandRuns(run_id=plan.run_id, runs=(*before, ended))
    runs.save(known)
    facts = {
        **{name: version(name) for name in _PACKAGES},
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "rule of keys": f"version {plan.rule_version}",
        "fingerprint of the transform": plan.fingerprint,
        "sha256 of the plan": run.plan_sha256,
        "page made": _time(ended_ms),
    }
    write_plan_file(folder / REPORT, _page(run, last, runs.runs, facts))


def unwritable(run: MigrationRun, folder: Path | None) -> Iterator[ConnectShareError]:
    """Yield why the manifest and a backup, or the evidence, cannot be written, as far as that is known before the work."""
    return raised_by(partial(_evidence_folder, run, folder, run.plan_path.parent))


def _evidence_folder(run: MigrationRun, folder: Path | None, *others: Path) -> Path:
    """Return the folder for the evidence; ``PlanFileError``: it, or another one, cannot be written to."""
    folder = folder or folder_of(run.plan_path)
    if folder.is_symlink():
        raise PlanFileError(f"the evidence folder {folder} is a link, which may lead anywhere: name the folder itself")
    for each in (*others, folder):
        there = next(place for place in (each, *each.absolute().parents) if place.exists())
        if not is_writable_folder(there):
            raise PlanFileError(f"{there} cannot be written to: change its rights, or choose another folder")
    if (folder / PLAN).exists() and MigrationPlan.load(folder / PLAN).run_id != run.plan.run_id:
        raise PlanFileError(f"{folder} holds the evidence of another plan: choose another folder with --evidence")
    return folder


def _page(
    run: MigrationRun, verification: KeptVerification | None, runs: Sequence[CommandRun], facts: Mapping[str, str]
) -> str:
    """Return the HTML page, fit for a change ticket; ``facts`` are the lines at its end: versions, hashes."""
    plan, manifest = run.plan, run.manifest
    return (
        templates_of("migrator")
        .get_template("evidence.html.j2")
        .render(
            plan=plan,
            manifest=manifest,
            verification=verification,
            time=_time,
            status="not applied" if manifest is None else _STATUS[manifest.status],
            status_is_good=manifest is not None and manifest.status in IS_COPIED,
            moved=[*_moved(plan, manifest)],
            destination=_destination(plan, manifest),
            left_behind=_left_behind(plan, manifest),
            differences=[
                (
                    each.cluster_group_id or "plain keys",
                    each.topic_type.value,
                    each.kind,
                    each.connector or "-",
                    each.item or "-",
                    each.field or "-",
                    each.problem.value,
                )
                for each in (() if verification is None else verification.differences)
            ],
            warnings=[*plan.warnings, *(() if verification is None else verification.warnings)],
            steps=[(number, step.who, step.what) for number, step in enumerate(plan.steps, 1)],
            runs=[
                (
                    _time(each.began_ms),
                    each.command,
                    f"{(each.ended_ms - each.began_ms) / 1000:,.1f}",
                    each.outcome,
                    f"{each.operator} on {each.host}",
                    each.version,
                )
                for each in runs
            ],
            backup=[*_backup(manifest)],
            slices=[
                (
                    f"{each.topic}[{each.partition}]",
                    f"{each.start:,} to {each.end:,}",
                    each.read,
                    each.written,
                    each.found_present,
                    ", ".join(
                        f"[{at}] {first:,}-{last:,}" for at, (first, last) in sorted(each.destination_offsets.items())
                    )
                    or "-",
                    each.digest,
                )
                for each in (() if manifest is None else manifest.evidence)
            ],
            facts=facts.items(),
        )
    )


def _time(at_ms: int | None) -> str:
    return "-" if at_ms is None else f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _moved(plan: MigrationPlan, manifest: Manifest | None) -> Iterator[Row]:
    done: dict[tuple[int, TopicType], list[SliceEvidence]] = {}
    for evidence in () if manifest is None else manifest.evidence:
        done.setdefault((evidence.source_index, evidence.topic_type), []).append(evidence)
    for index, source in enumerate(plan.sources):
        connectors = "all" if source.only_connectors is None else ", ".join(map(repr, source.only_connectors))
        who: Row = (source.group_id, source.becomes, f"{source.connectors:,} ({connectors})")
        for topic_type in TopicType:
            topic, copied = source.topics[topic_type], done.get((index, topic_type), [])
            planned = topic.counts
            counts = (planned.read, planned.to_write, planned.tombstones, planned.bytes_to_write)
            if manifest is not None:
                counts = (
                    sum(each.read for each in copied),
                    sum(each.written for each in copied),
                    sum(each.tombstones for each in copied),
                    sum(each.bytes_written for each in copied),
                )
            yield (
                *(who if topic_type is TopicType.CONFIG else ("", "", "")),
                f"{topic.topic} (id {topic.topic_id or '-'}, {topic.isolation.value})",
                plan.destination.topics[topic_type].topic,
                *counts,
            )


def _destination(plan: MigrationPlan, manifest: Manifest | None) -> list[Row]:
    return [
        (
            topic_type.value,
            topic.topic,
            (topic.topic_id if manifest is None else manifest.destination[topic_type].topic_id) or "-",
            "created by apply" if manifest is not None and manifest.destination[topic_type].created else "was there",
            topic.partitions,
        )
        for topic_type, topic in plan.destination.topics.items()
        if manifest is None or topic_type in manifest.destination
    ]


def _left_behind(plan: MigrationPlan, manifest: Manifest | None) -> list[Row]:
    planned = [topic.counts.skipped for source in plan.sources for topic in source.topics.values()]
    skipped = planned if manifest is None else [each.skipped for each in manifest.evidence]
    reasons = sum(map(Counter, skipped), Counter[SkipReason]())
    return [(count, reason.value, reason.explanation) for reason, count in sorted(reasons.items(), key=str)]


def _backup(manifest: Manifest | None) -> Iterator[Row]:
    if manifest is None or (backup := manifest.backup) is None:
        return
    yield "file, beside the plan", backup.file
    yield "records", backup.records
    yield "bytes", backup.size_bytes
    yield "sha256", backup.sha256
    yield "seconds taken", f"{backup.seconds:,.1f}"
    yield from ((f"records of {topic}", count) for topic, count in backup.topics.items())
    if (mirrored := manifest.mirrored_backup) is not None:
        yield "what was mirrored", f"{mirrored.file}, {mirrored.records:,} records, sha256 {mirrored.sha256}"


_BEFORE_UNIT: Final = re.compile(r"(?<=\d) (?=(?:[nµm]?s|[kMG]?B|×|%)(?!\w))")


@cache
def templates_of(package: str) -> Environment:
    """Return the templates in the folder ``templates`` of a package, which may extend and import those of this one.

    Of the values that they show only :class:`markupsafe.Markup` is taken as HTML.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    loaders = [PackageLoader(each) for each in dict.fromkeys((package, "migrator"))]
    return Environment(
        loader=ChoiceLoader(loaders),
        autoescape=True,
        finalize=_as_html,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def shown_value(value: object) -> str:
    """Return a value as plain text: a number with separators, and an escape for what would mislead the reader's eye."""
    return printable(f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value))


def _as_html(value: object) -> str:
    """Return text for autoescape; a number stays on one line with its unit."""
    from markupsafe import Markup

    return value if isinstance(value, Markup) else _BEFORE_UNIT.sub("\u00a0", shown_value(value))
