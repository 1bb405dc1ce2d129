"""The evidence folder of a plan: plan, manifest and verification as JSON, the commands that were run, an HTML page.

It holds names and figures, no record and no value.
"""

from __future__ import annotations

import contextlib
import getpass
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from connect_share.errors import ConnectShareError
from migrator.errors import PlanFileError
from migrator.facts.migration_run import MigrationRun
from migrator.plan.plan import MigrationPlan, load_model, write_plan_file
from migrator.report.report import CommandRun, CommandRuns, KeptVerification, render_report
from migrator.verify.verification import Verification

PLAN: Final = "plan.json"
MANIFEST: Final = "manifest.json"
VERIFICATION: Final = "verification.json"
RUNS: Final = "runs.json"
REPORT: Final = "report.html"
DONE: Final = "done"
DIFFERENT: Final = "differences found"
INTERRUPTED: Final = "interrupted"
_PACKAGES: Final = ("connect-share", "confluent-kafka", "fastavro")


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
    if the evidence cannot be written.

    Args:
        run: the plan.
        folder: where; by default beside the plan. An existing folder keeps its mode, a new one is 0700.
        command: for the list of runs.

    Raises:
        PlanFileError: an earlier file cannot be read, the folder belongs to another plan, which is refused before the
            command begins, or there is no room.
    """
    began_ms = int(time.time() * 1000)
    if folder is None:
        folder = folder_of(run.plan_path)
    else:
        _refuse_another(folder, run.plan.run_id)
    evidence = CommandEvidence()
    try:
        yield evidence
    except BaseException as error:
        outcome = type(error).__name__ if isinstance(error, Exception) else INTERRUPTED
        if run.manifest is not None:
            with contextlib.suppress(ConnectShareError, OSError):
                _write(run, folder, evidence.verification, _ended(command, began_ms, outcome))
        raise
    outcome = DONE if evidence.verification is None or evidence.verification.equal else DIFFERENT
    _write(run, folder, evidence.verification, _ended(command, began_ms, outcome))


def _write(run: MigrationRun, folder: Path, verification: Verification | None, command: CommandRun) -> None:
    plan, manifest = run.plan, run.manifest
    _make(folder, plan.run_id)
    write_plan_file(folder / PLAN, run.plan_text)
    if manifest is not None:
        manifest.save(folder / MANIFEST)
    kept = _keep_verification(folder / VERIFICATION, verification, command.ended_ms)
    known = folder / RUNS
    before = load_model(CommandRuns, known, "list of runs").runs if known.exists() else ()
    runs = CommandRuns(run_id=plan.run_id, runs=(*before, command))
    write_plan_file(known, runs.model_dump_json(indent=2) + "\n")
    facts = {
        **{name: version(name) for name in _PACKAGES},
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "rule of keys": f"version {plan.rule_version}",
        "fingerprint of the transform": plan.fingerprint,
        "sha256 of the plan": run.plan_sha256,
        "page made": f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(command.ended_ms / 1000))} UTC",
    }
    write_plan_file(folder / REPORT, render_report(plan, manifest, kept, runs.runs, facts))


def _ended(command: str, began_ms: int, outcome: str) -> CommandRun:
    return CommandRun(
        command=command,
        began_ms=began_ms,
        ended_ms=int(time.time() * 1000),
        outcome=outcome,
        operator=_user(),
        host=platform.node(),
        version=version("connect-share"),
    )


def _make(folder: Path, run_id: str) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise PlanFileError(
            f"the evidence folder {folder} cannot be made ({error.strerror}): choose another with --evidence"
        ) from error
    _refuse_another(folder, run_id)


def _refuse_another(folder: Path, run_id: str) -> None:
    path = folder / PLAN
    if path.exists() and MigrationPlan.load(path).run_id != run_id:
        raise PlanFileError(f"{folder} holds the evidence of another plan: choose another folder with --evidence")


def _keep_verification(path: Path, found: Verification | None, now_ms: int) -> KeptVerification | None:
    if found is None:
        return load_model(KeptVerification, path, "verification") if path.exists() else None
    kept = KeptVerification(**found.model_dump(), at_ms=now_ms, version=version("connect-share"))
    write_plan_file(path, kept.model_dump_json(indent=2) + "\n")
    return kept


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container may run as a number without a name
        return "unknown"
