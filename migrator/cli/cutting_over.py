"""The commands that follow a live source, cut over, and take a move back."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from connect_share.console import Output, ProgressLine, prompt
from migrator.apply.apply import apply_plan
from migrator.apply.following import Lag, follow_plan
from migrator.cli.text import cutover_lines, rollback_lines
from migrator.cutover.cutover import CutoverPreview, CutoverResult, cut_over, preview_cutover
from migrator.cutover.rollback import roll_back, used_since
from migrator.facts.manifest import Manifest, manifest_path
from migrator.report.evidence_folder import leaving

_REPORT_EVERY_S: Final = 2.0


class _LagLine:
    """Shows how far the mirror is behind: one line on a terminal, JSON lines otherwise."""

    def __init__(self) -> None:
        self._shown_s = 0.0

    def __call__(self, lag: Lag) -> None:
        now_s = time.monotonic()
        terminal = sys.stderr.isatty()
        if now_s - self._shown_s < (0.2 if terminal else _REPORT_EVERY_S):
            return
        self._shown_s = now_s
        if terminal:
            text = f"following: {lag.offsets:,} offsets behind, {lag.written:,} records mirrored; Ctrl-C ends it"
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        else:
            line = {"phase": "following", "offsets_behind": lag.offsets, "records": lag.written}
            print(json.dumps(line), file=sys.stderr, flush=True)


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """Take Ctrl-C and SIGTERM as a wish to end after the round under way."""
    seen: list[int] = []

    def note(number: int, _frame: object) -> None:
        seen.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def apply_and_follow(
    plan_path: Path, output: Output, *, applied: bool, isolation_proof: bool = False, backup: bool = True
) -> Manifest:
    """Apply a plan unless that was done before, then mirror until told to end; prints the result."""
    if not applied:
        with ProgressLine(sys.stderr) as progress:
            apply_plan(plan_path, progress=progress, isolation_proof=isolation_proof, backup=backup)
    with _stop_signals() as seen, ProgressLine(sys.stderr) as progress:
        manifest = follow_plan(plan_path, stopped=lambda: bool(seen), report=_LagLine(), progress=progress)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    written = 0 if manifest.followed is None else manifest.followed.written
    if output.is_json:
        output.json({"manifest_file": str(manifest_path(plan_path)), "manifest": manifest.model_dump(mode="json")})
    else:
        output.lines(
            f"{manifest.records_written:,} records copied, {written:,} mirrored since; nothing follows the source now",
            f"next: stop the source's workers, then connect-share-migrate cutover {plan_path} (apply --follow goes on)",
        )
    return manifest


def confirmed(question: str) -> bool:
    """Ask; only ``yes`` means yes."""
    return prompt.confirmed(question, otherwise="nothing was written: give --yes to go on without a prompt")


def preview_json(shown: CutoverPreview) -> dict[str, object]:
    """Return what a cut-over or a seal would do, as JSON."""
    return {
        "dry_run": True,
        "live_workers": shown.live_workers,
        "seal": shown.how,
        "seal_records": shown.seal.topics,
        "connectors": list(shown.seal.connectors),
        "transactional_ids": list(shown.transactional_ids),
    }


def result_json(plan_path: Path, result: CutoverResult) -> dict[str, object]:
    """Return what a cut-over or a seal has done, as JSON."""
    return {
        "dry_run": False,
        "manifest_file": str(manifest_path(plan_path)),
        "manifest": result.manifest.model_dump(mode="json"),
        "fenced": result.fenced,
    }


def cutover_command(arguments: argparse.Namespace) -> int:
    """``cutover``: preview, ask, copy what is left, verify, fence, seal."""
    output = Output("cutover", arguments.output)
    with ProgressLine(sys.stderr) as progress:
        shown = preview_cutover(arguments.plan, arguments.seal, progress)
    if arguments.dry_run and output.is_json:
        output.json(preview_json(shown))
        return 0
    preview = output if arguments.dry_run else Output("cutover", stdout=sys.stderr)
    preview.lines(*cutover_lines(shown))
    if arguments.dry_run:
        return 0
    if not arguments.yes and not confirmed("cut over?"):
        return 1
    with leaving(arguments.plan, arguments.evidence, "cutover") as evidence, ProgressLine(sys.stderr) as progress:
        result = cut_over(arguments.plan, how=arguments.seal, timeout_s=arguments.timeout, progress=progress)
        evidence.verification = result.verification
    manifest = result.manifest
    if output.is_json:
        output.json(result_json(arguments.plan, result))
        return 0
    sealed = (
        "the source was not sealed" if manifest.sealed is None else f"sealed with {manifest.sealed.records} records"
    )
    output.lines(
        f"both sides are equal, {result.fenced} transactional ids fenced, {sealed}",
        "start the new workers now",
    )
    return 0


def rollback_command(arguments: argparse.Namespace) -> int:
    """``rollback``: preview, ask, remove what the plan wrote."""
    output = Output("rollback", arguments.output)
    with ProgressLine(sys.stderr) as progress:
        found = roll_back(arguments.plan, dry_run=True, progress=progress)
    shown = output if arguments.dry_run else Output("rollback", stdout=sys.stderr)
    if not (output.is_json and arguments.dry_run):
        shown.lines(*rollback_lines(found))
    if not arguments.dry_run:
        if found.newer and not arguments.although_used:
            raise used_since(found)
        if not arguments.yes and not confirmed("remove these?"):
            return 1
        with leaving(arguments.plan, arguments.evidence, "rollback"), ProgressLine(sys.stderr) as progress:
            found = roll_back(arguments.plan, although_used=arguments.although_used, progress=progress)
    if output.is_json:
        output.json(
            {
                "dry_run": arguments.dry_run,
                "removed": {topic_type.value: len(keys) for topic_type, keys in found.removals.items()},
                "connectors": [
                    {"topic_type": topic_type.value, "connector": name, "keys": count}
                    for (topic_type, name), count in sorted(found.by_connector.items(), key=str)
                ],
                "written_since": sum(found.newer.values()),
                "needs_although_used": bool(found.newer),
                "unsealed": found.unsealed,
            }
        )
    elif not arguments.dry_run:
        output.lines(
            f"{found.records:,} keys removed, {found.unsealed} target states put back at the source",
            "the old workers may be started again",
        )
    return 0
