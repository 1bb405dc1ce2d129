"""The commands: arguments in, exit code out. Results go to stdout, everything else to stderr."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Final

from connect_share.console import InterruptionError, Output, ProgressLine, confirmed
from connect_share.errors import UsageError
from migrator.apply.apply import apply_plan, check_plan, now_ms, resume_plan
from migrator.cli.cutting_over import apply_and_follow
from migrator.cli.isolating import isolation_command
from migrator.cli.text import plan_lines, verification_lines
from migrator.copy.engine import LOCAL_ENGINE
from migrator.errors import AlreadyAppliedError, PlanRejectedError
from migrator.facts.manifest import Manifest, MigrationStatus, manifest_path
from migrator.plan.assignment import read_assignment
from migrator.plan.plan import MigrationPlan
from migrator.planning.moves import Intent
from migrator.planning.planning import make_plan
from migrator.report.evidence_folder import leaving
from migrator.verify.verification import Verification, verify_plan

SHOWN_DIFFERENCES: Final = 50


def _spark(job: str, arguments: list[str]) -> int:
    """Run a Spark job of the same name; the package is looked up only now.

    Raises:
        UsageError: the extra is not installed.
        KeyboardInterrupt: the job was interrupted.
    """
    if importlib.util.find_spec("pyspark") is None or importlib.util.find_spec("spark_jobs") is None:
        raise UsageError("--engine spark needs Spark: pip install 'connect-share[spark]', or use --engine local")
    code: int = importlib.import_module(f"spark_jobs.{job}").main(arguments)
    if code == InterruptionError.exit_code:
        raise KeyboardInterrupt
    return code


def plan_command(arguments: argparse.Namespace) -> int:
    """``plan``: ask the clusters, write the plan file."""
    if arguments.plan is None and not arguments.dry_run:
        raise UsageError("plan needs -o PLAN, the file to write, or --dry-run")
    if arguments.plan is not None and manifest_path(arguments.plan).exists():
        raise AlreadyAppliedError(
            f"{arguments.plan} was applied, its manifest is beside it: give the new plan another name"
        )
    with ProgressLine(sys.stderr) as progress:
        intent = Intent(
            job=arguments.job,
            assign=None if arguments.assign is None else read_assignment(arguments.assign),
            merge=arguments.merge,
            mode=arguments.mode,
            follow=arguments.follow,
        )
        plan = make_plan(arguments.sources, arguments.destinations, now_ms=now_ms(), intent=intent, progress=progress)
    if not arguments.dry_run:
        plan.save(arguments.plan)
    output = Output("plan", arguments.output)
    if output.is_json:
        file = None if arguments.dry_run else str(arguments.plan)
        output.json({"file": file, "plan": plan.model_dump(mode="json")})
        return 0
    output.lines(*plan_lines(plan))
    if not arguments.dry_run:
        follow = " --follow" if plan.follow else ""
        output.lines("", f"written to {arguments.plan}; next: connect-share-migrate apply {arguments.plan}{follow}")
    return 0


def _confirmed(plan: MigrationPlan) -> bool:
    """Show the plan and ask; only ``yes`` means yes."""
    Output("apply", stdout=sys.stderr).lines(*plan_lines(plan))
    return confirmed("apply this plan?", otherwise="nothing was written: give --yes to apply without a prompt")


def apply_command(arguments: argparse.Namespace) -> int:
    """``apply``: preview, ask, copy."""
    output = Output("apply", arguments.output)
    plan = MigrationPlan.load(arguments.plan)
    if arguments.dry_run:
        with ProgressLine(sys.stderr) as progress:
            check_plan(arguments.plan, progress=progress)
        if output.is_json:
            output.json({"dry_run": True, "run_id": plan.run_id})
        else:
            output.lines(*plan_lines(plan), "", "dry run: everything was checked, nothing was written")
        return 0
    if not arguments.yes and not _confirmed(plan):
        return 1
    if arguments.follow:
        return _follow(arguments, output, plan)
    if arguments.engine != LOCAL_ENGINE:
        return _spark("apply_plan", [str(arguments.plan), "--output", arguments.output, *_passed_on(arguments)])
    with leaving(arguments.plan, arguments.evidence, "apply"):
        with ProgressLine(sys.stderr) as progress:
            manifest = apply_plan(
                arguments.plan,
                progress=progress,
                isolation_proof=arguments.isolation_proof,
                backup=not arguments.no_backup,
                two_processes=True,
            )
        show_applied(output, arguments.plan, manifest)
    return 0


def _follow(arguments: argparse.Namespace, output: Output, plan: MigrationPlan) -> int:
    """Copy with the engine asked for, unless that was done before, then mirror in this process."""
    if not plan.follow:
        raise PlanRejectedError(f"{arguments.plan} was made for stopped workers: make a plan with --follow")
    path = manifest_path(arguments.plan)
    applied = path.exists() and Manifest.load(path).status is not MigrationStatus.PLANNED
    if not applied and arguments.engine != LOCAL_ENGINE:
        code = _spark("apply_plan", [str(arguments.plan), "--output", "text", *_passed_on(arguments)])
        if code:
            return code
        applied = True
    with leaving(arguments.plan, arguments.evidence, "apply --follow"):
        apply_and_follow(
            arguments.plan,
            output,
            applied=applied,
            isolation_proof=arguments.isolation_proof,
            backup=not arguments.no_backup,
        )
    return 0


def _passed_on(arguments: argparse.Namespace) -> list[str]:
    """Give the options of ``apply`` that the Spark job takes too."""
    given = {"--isolation-proof": arguments.isolation_proof, "--no-backup": arguments.no_backup}
    return [*(name for name, is_given in given.items() if is_given), *_evidence(arguments)]


def _evidence(arguments: argparse.Namespace) -> list[str]:
    return [] if arguments.evidence is None else ["--evidence", str(arguments.evidence)]


def resume_command(arguments: argparse.Namespace) -> int:
    """``resume``: go on with an apply that did not end."""
    if arguments.engine != LOCAL_ENGINE:
        passed_on = ["--resume", "--output", arguments.output, *_evidence(arguments)]
        return _spark("apply_plan", [str(arguments.plan), *passed_on])
    with leaving(arguments.plan, arguments.evidence, "resume"):
        with ProgressLine(sys.stderr) as progress:
            manifest = resume_plan(arguments.plan, progress=progress, two_processes=True)
        show_applied(Output("resume", arguments.output), arguments.plan, manifest)
    return 0


def show_applied(output: Output, plan_path: Path, manifest: Manifest) -> None:
    """Print the result of ``apply``; both engines do."""
    path = manifest_path(plan_path)
    if output.is_json:
        output.json({"dry_run": False, "manifest_file": str(path), "manifest": manifest.model_dump(mode="json")})
        return
    output.lines(
        f"{manifest.records_written:,} records written, {len(manifest.evidence)} slices; manifest {path}",
        f"next: connect-share-migrate verify {plan_path}",
    )


def verify_command(arguments: argparse.Namespace) -> int:
    """``verify``: compare both sides; 1 when they differ."""
    if arguments.isolation:
        return isolation_command(arguments)
    if arguments.engine != LOCAL_ENGINE:
        return _spark("verify_plan", [str(arguments.plan), "--output", arguments.output, *_evidence(arguments)])
    with leaving(arguments.plan, arguments.evidence, "verify") as evidence:
        with ProgressLine(sys.stderr) as progress:
            evidence.verification = verification = verify_plan(arguments.plan, progress=progress, two_processes=True)
        return show_verification(Output("verify", arguments.output), verification)


def show_verification(output: Output, verification: Verification) -> int:
    """Print the result of ``verify``, give its exit code; both engines do."""
    if output.is_json:
        output.json(verification.model_dump(mode="json"))
    else:
        output.lines(*verification_lines(verification, SHOWN_DIFFERENCES))
    return 0 if verification.equal else 1
