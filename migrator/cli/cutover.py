"""``cutover``, ``rollback``, ``seal``, ``unseal``: preview, ask, act, with a locked plan; ``verify``: compare both sides."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from connect_share.console.options import Parser
from connect_share.console.output import Output, ProgressLine, Result, plural
from connect_share.console.program import Command, Preview, Steps
from connect_share.kafka.create import FENCE_TEXT, OLD_TOPICS
from connect_share.kafka.waits import ANSWER_S
from connect_share.model.records import TopicType
from migrator.bystanders import BystanderGroup, BystanderReport, BystanderVerdict, check_bystanders
from migrator.cli.options import add_plan, continues, engine_of
from migrator.cutover import (
    TIMEOUT_S,
    CutoverPreview,
    CutoverResult,
    Rollback,
    cut_over,
    preview_cutover,
    preview_seal,
    roll_back,
    seal_plan,
    unseal_plan,
    used_since,
)
from migrator.moved_source import left_out
from migrator.report import evidence_of, unwritable
from migrator.run import MigrationRun, SourceFence, locked_run
from migrator.verify.equality import Verification
from migrator.verify.verification import verify_plan

SHOWN_DIFFERENCES: Final = 50

_VERDICTS: Final = {
    BystanderVerdict.TOUCHED: "touched: records are missing or changed",
    BystanderVerdict.UNCLEAR: "unclear: compaction has removed the evidence",
    BystanderVerdict.WROTE_SINCE: "wrote itself since",
    BystanderVerdict.EQUAL: "equal",
}
"""The worst first."""


def _verify(arguments: argparse.Namespace, _: Output) -> Result:
    run = MigrationRun.load(arguments.plan)
    if arguments.isolation:  # 1 unless it was proven for every group, whichever engine has copied
        with ProgressLine() as progress:
            report = check_bystanders(run, progress=progress)
        return Result(report.model_dump(mode="json"), isolation_lines(report), 0 if report.isolated else 1)
    with evidence_of(run, arguments.evidence, "verify") as evidence:
        with ProgressLine() as progress:
            engine = engine_of(arguments, progress, "verify_plan", "verify_engine")
            verification = verify_plan(run, engine=engine, progress=progress)
        evidence.verification = verification
    lines = verification_lines(verification, SHOWN_DIFFERENCES)
    return Result(verification.model_dump(mode="json"), lines, 0 if verification.equal else 1)


def verification_lines(verification: Verification, shown: int) -> Iterator[str]:
    """Yield the first ``shown`` differences, and in the last line whether both sides are equal."""
    yield from (f"warning: {warning}" for warning in verification.warnings)
    if verification.equal:
        yield f"equal: {verification.compared} comparisons, no difference"
        return
    total = len(verification.differences)
    yield from (f"  {difference}" for difference in verification.differences[:shown])
    if total > shown:
        yield f"  and {total - shown} more: --output json shows all"
    yield f"different: {plural(total, 'difference')}"


def isolation_lines(report: BystanderReport) -> Iterator[str]:
    """Yield what was written, then group by group what is not simply equal, the worst first."""
    for topic_type, own in report.own.items():
        line = f"{topic_type.value:6}  {own.written:,} record(s) written by this plan, {own.found:,} found under its own keys"
        yield line if own.accounted else f"{line}: not all of them are there any more"
    for verdict, text in _VERDICTS.items():
        groups = [group for group in report.groups if group.verdict is verdict]
        if groups and verdict is BystanderVerdict.EQUAL:
            keys = sum(group.keys_now for group in groups)
            yield f"equal: {keys:,} key(s) of {len({group.group for group in groups})} other group(s)"
        else:
            yield from (f"{text}: {_group_line(group)}" for group in groups)
    proven = "isolated: no other group was changed"
    yield proven if report.isolated else "not proven that no other group was changed: see above"


def _group_line(group: BystanderGroup) -> str:
    line = (
        f"{group.group} in {group.topic}, {group.keys_before:,} key(s) before, {group.keys_now:,} of them as they were"
    )
    if group.written_since:
        line += f", {group.written_since:,} newer record(s), {group.among_written:,} of them among those of this plan"
    return line


def _add_options(parser: Parser) -> None:
    add_plan(parser, engine=True)
    parser.add_argument(
        "--isolation",
        action="store_true",
        help="instead: prove that no key of another group was touched; needs apply --isolation-proof",
    )
    parser.refuse("--engine --evidence", beside="--isolation")  # which writes no evidence, and reads here


VERIFY: Final = Command(
    "verify",
    _verify,
    examples=[
        "connect-share-migrate verify move.json",
        "connect-share-migrate verify move.json --isolation --output json",
    ],
    options=_add_options,
    timeout_s=ANSWER_S,
)


def _cutover(arguments: argparse.Namespace, _: Output) -> Steps:
    """Copy what is left, verify, fence, seal. The plan is locked after the question: a process may be following it."""
    run = MigrationRun.load(arguments.plan)
    with ProgressLine() as progress:
        shown = preview_cutover(run, arguments.seal, progress)
    objections = [*shown.objections, *unwritable(run, arguments.evidence)]
    yield Preview(_cutover_lines(shown), _preview_json(shown), "cut over?", *left_out(run), objections)
    with evidence_of(run, arguments.evidence, "cutover") as evidence, ProgressLine() as progress:
        result = cut_over(run, how=arguments.seal, timeout_s=arguments.timeout, progress=progress)
        evidence.verification = result.verification
    yield _result(run, result, "start the new workers now")


def _seal(arguments: argparse.Namespace, _: Output) -> Steps:
    with locked_run(arguments.plan) as run:
        with ProgressLine() as progress:
            shown = preview_seal(run, arguments.seal, progress)
        objections = [*shown.objections, *unwritable(run, arguments.evidence)]
        yield Preview(_cutover_lines(shown), _preview_json(shown), "seal?", *left_out(run), objections)
        with evidence_of(run, arguments.evidence, "seal"), ProgressLine() as progress:
            result = seal_plan(run, arguments.seal, progress)
    yield _result(run, result, "do not start the old workers any more")


def _cutover_lines(shown: CutoverPreview) -> Iterator[str]:
    for group, count in shown.live_workers.items():
        then = "make sure that they are the new ones" if group in shown.same_members else "stop them first"
        live = "whether workers are alive is not known (that takes DESCRIBE on the group)"
        yield f"{group}: {live if count is None else f'{count} worker(s) alive'}{'' if count == 0 else f', {then}'}"
    yield from (f"fence {transactional_id}" for transactional_id in shown.transactional_ids)
    yield {
        "stop": "seal the source: target state STOPPED for each connector",
        "remove": "remove the originals: a tombstone for each record that was moved",
        "none": "seal nothing: a worker started at the source by mistake runs everything a second time",
    }[shown.how]
    yield from (f"  {topic}: {count:,} record(s)" for topic, count in sorted(shown.seal_records.items()))
    yield from _fence_lines(shown.fences)


def _fence_lines(fences: Sequence[SourceFence]) -> list[str]:
    """Return what keeps old workers from starting, and where nothing keeps those of Java without the jar."""
    return [
        f"close {each.topic} to old workers: {FENCE_TEXT}"
        if each.objection is None
        else f"{each.topic} stays open to Java workers without the jar: {each.objection}"
        for each in fences
    ]


def _result(run: MigrationRun, result: CutoverResult, then: str) -> Result:
    """Return what a cut-over or a seal has done, what is closed to old workers, and what is to be done ``then``."""
    fences, sealed = result.manifest.fences, result.manifest.sealed
    equal = "" if result.verification is None else "both sides are equal, "
    how = "the source was not sealed" if sealed is None else f"sealed with {plural(sealed.records, 'record')}"
    done = f"{equal}{plural(result.fenced, 'transactional id')} fenced, {how}"
    opened = [each for each in fences if each.objection is not None]
    end = "is closed: old workers end before they join their group"
    closed = [f"{each.topic} {end}" for each in fences if each not in opened]
    members = {
        "dry_run": False,
        "manifest_file": str(run.manifest_path),
        "manifest": result.manifest.model_dump(mode="json"),
        "fenced": result.fenced,
    }
    return Result(members, [done, *closed, *_fence_lines(opened), then, *([OLD_TOPICS] * run.plan.leaves_topics)])


def _preview_json(shown: CutoverPreview) -> dict[str, object]:
    return {
        "live_workers": shown.live_workers,
        "seal": shown.how,
        "seal_records": shown.seal_records,
        "connectors": list(shown.connectors),
        "transactional_ids": list(shown.transactional_ids),
        "fences": [fence.model_dump(mode="json") for fence in shown.fences],
    }


def _unseal(arguments: argparse.Namespace, _: Output) -> Steps:
    with locked_run(arguments.plan) as run:
        with ProgressLine() as progress:
            found = unseal_plan(run, dry_run=True, progress=progress)
        used = [] if found.used is None else [found.used]
        shown = used if arguments.although_used else []
        objections = [*(() if shown else used), *unwritable(run, arguments.evidence)]
        lines = [f"{found.connectors} connector(s) at the source get back the target state they had", *map(str, shown)]
        members = {"connectors": found.connectors, "new_workers_have_written": bool(used)}
        yield Preview(lines, members, "unseal?", *left_out(run), objections)
        with evidence_of(run, arguments.evidence, "unseal"), ProgressLine() as progress:
            unseal_plan(run, although_used=arguments.although_used, progress=progress)
    done = "unsealed: the old workers may be started again; keep the new ones stopped"
    yield Result({"dry_run": False, **members}, [done])


def _rollback(arguments: argparse.Namespace, _: Output) -> Steps:
    with locked_run(arguments.plan) as run:
        with ProgressLine() as progress:
            found = roll_back(run, dry_run=True, progress=progress)
        used = [used_since(found)] if found.newer and not arguments.although_used else []
        objections = [*used, *unwritable(run, arguments.evidence)]
        lines, members = _rollback_lines(found), _rollback_json(found)
        yield Preview(lines, members, "remove these?", found.aborted, found.refused, objections)
        with evidence_of(run, arguments.evidence, "rollback"), ProgressLine() as progress:
            found = roll_back(run, although_used=arguments.although_used, progress=progress)
    yield Result(
        {"dry_run": False, **_rollback_json(found)},
        [
            f"{plural(found.records, 'key')} removed, {plural(found.unsealed, 'target state')} put back at the source",
            "the old workers may be started again",
        ],
    )


def _rollback_lines(found: Rollback) -> Iterator[str]:
    yield f"{found.records:,} key(s) whose newest record this plan wrote are removed:"
    yield from _connector_lines(found.by_connector)
    if found.newer:
        yield f"{sum(found.newer.values()):,} key(s) were written by others since and stay; needs --although-used:"
    yield from _connector_lines(found.newer)


def _connector_lines(counts: Mapping[tuple[TopicType, str | None], int]) -> list[str]:
    return [
        f"  {topic_type.value:6}  {'-' if name is None else repr(name)}: {count:,}"
        for (topic_type, name), count in sorted(counts.items(), key=str)
    ]


def _rollback_json(found: Rollback) -> dict[str, object]:
    return {
        "removed": {topic_type.value: len(keys) for topic_type, keys in found.removals.items()},
        "connectors": [
            {"topic_type": topic_type.value, "connector": name, "keys": count}
            for (topic_type, name), count in sorted(found.by_connector.items(), key=str)
        ],
        "written_since": sum(found.newer.values()),
        "needs_although_used": bool(found.newer),
        "unsealed": found.unsealed,
    }


def _add_seal(parser: Parser, *, ways: Sequence[str], default: str) -> None:
    add_plan(parser)
    text = "stop: every connector at the source gets the target state STOPPED; remove: the originals are removed"
    parser.add_argument("--seal", choices=ways, help=f"{text}{default}")


def _add_undo(parser: Parser, *, stays: str) -> None:
    add_plan(parser)
    parser.add_argument(
        "--although-used", action="store_true", help=f"go on although new workers have written; {stays}"
    )


_Change = partial(Command, after_interruption=continues)

COMMANDS: Final = [
    VERIFY,
    _Change(
        "cutover",
        _cutover,
        examples=[
            "connect-share-migrate cutover move.json --dry-run",
            "connect-share-migrate cutover move.json --seal none",
        ],
        options=partial(
            _add_seal,
            ways=("stop", "remove", "none"),
            default="; none. Default: remove if originals and copies are in the same topics, else stop",
        ),
        changes="show what would be done, write nothing",
        timeout_s=TIMEOUT_S,
    ),
    _Change(
        "rollback",
        _rollback,
        examples=["connect-share-migrate rollback move.json --dry-run", "connect-share-migrate rollback move.json"],
        options=partial(_add_undo, stays="that stays"),
        changes="show what would be removed, write nothing",
    ),
    _Change(
        "seal",
        _seal,
        examples=["connect-share-migrate seal move.json --dry-run", "connect-share-migrate seal move.json"],
        options=partial(
            _add_seal, ways=("stop", "remove"), default=". Default: as it was sealed before, else as cutover does"
        ),
        changes="show what would be done, write nothing",
    ),
    _Change(
        "unseal",
        _unseal,
        examples=["connect-share-migrate unseal move.json --dry-run", "connect-share-migrate unseal move.json --yes"],
        options=partial(_add_undo, stays="the copies stay"),
        changes="show what would be done, write nothing",
    ),
]
