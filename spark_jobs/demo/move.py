"""The demo's move: plan, apply and verify with the console of the migrator, Spark being the engine."""

from __future__ import annotations

import contextlib
import io
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from migrator.cli.__main__ import main as migrate
from migrator.cli.text import verification_lines
from migrator.errors import MigrationError
from migrator.facts.manifest import Manifest, manifest_path
from migrator.plan.plan import MigrationPlan
from migrator.verify.verification import Verification
from spark_jobs.command_line import INTERRUPTED
from spark_jobs.demo.result import Move, MovedTopic
from spark_jobs.demo.workers import Captured

_SHOWN_DIFFERENCES: Final = 20


def make_plan(captured: Sequence[Captured], plan_file: Path) -> None:
    """Plan the move of all clusters onto the shared topics, and show the plan.

    Raises:
        MigrationError: the console refused; it has said why on stderr.
    """
    arguments = ["plan", "-o", str(plan_file)]
    for each in captured:
        arguments += ["--source-worker-config", str(each.worker_file)]
    for each in captured:
        arguments += ["--destination-worker-config", str(each.shared_worker_file)]
    _run(arguments)


def apply_plan(plan_file: Path) -> None:
    """Carry the plan out on Spark.

    Raises:
        MigrationError: the console refused or failed; it has said why on stderr.
    """
    _run(["apply", str(plan_file), "--engine", "spark", "--yes"])


def verify_plan(plan_file: Path) -> tuple[Move, list[str]]:
    """Compare both sides on Spark; give what was moved, and the comparison in words.

    Raises:
        MigrationError: the comparison could not be made.
    """
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        code = migrate(["verify", str(plan_file), "--engine", "spark", "--output", "json"])
    _require_not_interrupted(code)
    try:
        answer = json.loads(told.getvalue())
    except ValueError as exc:
        raise MigrationError(f"verify ended with exit code {code} and without a result") from exc
    verification = Verification.model_validate(
        {name: value for name, value in answer.items() if not name.startswith("_")}
    )
    plan, manifest = MigrationPlan.load(plan_file), Manifest.load(manifest_path(plan_file))
    move = Move(
        plan_file=plan_file.name,
        run_id=plan.run_id,
        warnings=(*plan.warnings, *verification.warnings),
        topics=_moved_topics(manifest),
        verified_equal=verification.equal and code == 0,
        differences=tuple(str(difference) for difference in verification.differences),
    )
    return move, verification_lines(verification, _SHOWN_DIFFERENCES)


def _moved_topics(manifest: Manifest) -> tuple[MovedTopic, ...]:
    moved: dict[tuple[int, str], MovedTopic] = {}
    for evidence in manifest.evidence:
        key = (evidence.source_index, evidence.topic_type.value)
        before = moved.get(key)
        skipped = Counter(before.skipped if before else {})
        skipped.update({reason.value: number for reason, number in evidence.skipped.items()})
        moved[key] = MovedTopic(
            cluster_group_id=evidence.cluster_group_id or "",
            topic_type=evidence.topic_type,
            topic=evidence.topic,
            shared_topic=evidence.destination_topic,
            records_read=evidence.read + (before.records_read if before else 0),
            records_written=evidence.written + (before.records_written if before else 0),
            tombstones=evidence.tombstones + (before.tombstones if before else 0),
            skipped=dict(skipped),
        )
    return tuple(moved[key] for key in sorted(moved))


def _run(arguments: list[str]) -> None:
    code = migrate(arguments)
    _require_not_interrupted(code)
    if code != 0:
        raise MigrationError(f"connect-share-migrate {arguments[0]} ended with exit code {code}, see above")


def _require_not_interrupted(code: int) -> None:
    if code == INTERRUPTED:  # a job turns Ctrl-C into an exit code; here it has to end everything
        raise KeyboardInterrupt
