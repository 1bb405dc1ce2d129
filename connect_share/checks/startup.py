"""``check startup``: what a start costs on the user's own topics, and which settings would make it cheaper."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

from connect_share.checks.check import Check
from connect_share.checks.finding import Finding, Severity
from connect_share.console.options import Parser, add_groups, add_topics, groups_of, seconds, shown_group, topic_set_of
from connect_share.console.output import Output, Result, plural
from connect_share.console.program import Preview, Steps
from connect_share.contents.advice import SettingChange
from connect_share.contents.cost_model import load_model
from connect_share.contents.startup import (
    CountPlan,
    StartupProfile,
    change_line,
    count_topics,
    members,
    not_shown,
    profile_lines,
    startup_profile,
)
from connect_share.errors import ConnectShareError, also_saying, command_line, raised_by
from connect_share.kafka.admin import Admin
from connect_share.kafka.create import alter_command, topic_specs
from connect_share.kafka.read import CONSOLE_CLIENT_ID, console_admin
from connect_share.kafka.shared_set import setting_differences
from connect_share.kafka.write_access import RightsAdmin
from connect_share.model.records import TopicType
from connect_share.worker_config import TopicSet


def findings_of(found: StartupProfile, file: object = "FILE") -> list[Finding]:
    """Return advice, problems and starts that are too slow in the form of all checks; ``file`` is the worker file."""
    model = [] if found.fitted.path is None else ["--model", str(found.fitted.path)]
    changes = [
        Finding(
            "startup-setting",
            Severity.WARNING,
            change.topic,
            f"{change.setting} is {change.old}; {change.new} would save up to {change.gain_seconds:.2f} s of each start",
            change.reason,
            "change the setting",
            command_line("connect-share", "check", "startup", "-w", file, "--apply", *model),
        )
        for change in found.advice.changes
    ]
    problems = [
        Finding(
            "startup-problem",
            Severity.WARNING,
            problem.topic,
            problem.what,
            "workers read it as they start: they do not start, or do not agree on what they have read",
            "see the text of the finding",
        )
        for problem in found.advice.problems
    ]
    slow = [
        Finding(
            "startup-slow",
            Severity.ERROR,
            shown_group(group),
            f"its start is predicted to take longer than {found.limit_s:g} s",
            "that is the limit that was given",
            "make the topics smaller, or move groups to a second set of topics",
            group=shown_group(group),
        )
        for group in found.too_slow
    ]
    return [*problems, *slow, *changes]


def startup_members(found: StartupProfile, file: Path | None = None) -> dict[str, Any]:
    """Return the whole profile for JSON, with its findings."""
    return {**members(found), "findings": [each.to_dict() for each in findings_of(found, file or "FILE")]}


def _add_options(parser: Parser) -> None:
    add_topics(parser)
    add_groups(parser, "show only ")
    parser.add_argument(
        "--model",
        metavar="FILE",
        type=Path,
        help="result of python -m spark_jobs.benchmark_startup on your own machine, for seconds that hold there",
    )
    parser.add_argument("--limit", metavar="SECONDS", type=seconds, help="longest start that is fine; none by default")
    parser.add_argument("--apply", action="store_true", help="change the settings, after a preview")
    parser.add_argument("--yes", action="store_true", help="with --apply: do not ask")
    parser.add_argument("--dry-run", action="store_true", help="with --apply: show what would change, change nothing")
    parser.refuse("--yes --dry-run", without="--apply")


def _check_startup(arguments: argparse.Namespace, out: Output) -> Steps:
    """Profile the topics; 1 if there are findings that this call has not corrected."""
    fitted = load_model(arguments.model)
    topic_set = topic_set_of(arguments, tuple(TopicType))
    groups = groups_of(arguments.groups)
    with also_saying("Nothing was changed") if arguments.apply else nullcontext():
        if arguments.apply:
            rights = ("READ", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
            with RightsAdmin(topic_set.settings, client_id=CONSOLE_CLIENT_ID) as asked:
                asked.require(dict.fromkeys(topic_set.topics.values(), rights))
        plan = CountPlan.of(topic_set)
        out.note(*plan.notes)
        found = startup_profile(
            count_topics(plan, out), fitted, now_ms=plan.now_ms, limit_s=arguments.limit, groups=groups
        )
    if arguments.apply and found.advice.changes:
        with console_admin(topic_set) as admin:
            yield from _apply(arguments, found, admin, out)
        return
    notes = [*([] if out.is_json else not_shown(found)), *_differences(topic_set, plan)]
    shown = startup_members(found, arguments.worker_config)
    yield Result(shown, profile_lines(found), 1 if found.findings else 0, notes=notes)


def _differences(topic_set: TopicSet, plan: CountPlan) -> Iterator[str]:
    """Yield where a topic is not as ``create topics`` makes it: that may matter when the topic has grown."""
    for spec in topic_specs(topic_set):
        actual = plan.configs[spec.topic_type]
        for difference in () if actual is None else setting_differences(spec, None, actual):
            yield f"{spec.topic} is not as create topics would make it: {difference}"


def _apply(arguments: argparse.Namespace, found: StartupProfile, admin: Admin, out: Output) -> Steps:
    changes: dict[str, list[SettingChange]] = {}
    for change in found.advice.changes:
        changes.setdefault(change.topic, []).append(change)
    # The old values; None where the topic had no value of its own.
    own = {topic: admin.own_topic_configs(topic) for topic in changes}
    before = {topic: {each.setting: own[topic].get(each.setting) for each in changes[topic]} for topic in changes}
    undo_commands = [alter_command(admin.settings, topic, settings) for topic, settings in before.items()]
    undo = [
        {"topic": topic, "setting": setting, "value": value}
        for topic, settings in before.items()
        for setting, value in settings.items()
    ]
    members = {**startup_members(found, arguments.worker_config), "undo": undo, "undo_commands": undo_commands}
    undo_lines = ["to undo it:", *(f"  {command}" for command in undo_commands)]
    changed = ["to be changed:", *(f"  {change_line(change)}" for change in found.advice.changes)]
    lines = [*profile_lines(found), *not_shown(found), "", *changed, *undo_lines]
    objections = raised_by(lambda: _change(admin, changes, out, asks=True))  # of all, before the first is changed
    yield Preview(lines, {**members, "applied": False}, "change these settings?", objections=objections, code=1)
    _change(admin, changes, out, asks=False)
    done = f"{plural(len(found.advice.changes), 'setting')} changed"
    code = 1 if found.advice.problems or found.too_slow else 0
    yield Result({**members, "applied": True, "dry_run": False}, [done, *undo_lines], code)


def _change(admin: Admin, changes: Mapping[str, list[SettingChange]], out: Output, *, asks: bool) -> None:
    for topic, wanted in changes.items():
        now = admin.topic_configs(topic)
        for change in wanted:
            if now.get(change.setting, change.old) != change.old:
                raise ConnectShareError(
                    f"{topic}: {change.setting} changed to {now[change.setting]} since it was read; run this again"
                )
    for topic, wanted in changes.items():
        with nullcontext() if asks else also_saying("What was changed by then stays; the same command goes on"):
            admin.alter_topic_configs(topic, {change.setting: change.new for change in wanted}, validate_only=asks)
        if not asks:
            out.note(f"{topic}: changed")


CHECK: Final = Check(
    "startup",
    "what does a start cost, and which topic settings make it cheaper?",
    "Read the three topics once and tell what is in them by group and kind of record, how long a start of "
    "each group is predicted to take, and which topic settings would make it shorter. "
    "Exit code 1 if a setting is worth changing, something is wrong in a topic, or a start takes longer than --limit.",
    lambda sources: findings_of(sources.profile),
    needs=tuple(TopicType),
    place=70,
    run=_check_startup,
    options=_add_options,
    examples=("-w worker.properties", "-w worker.properties --limit 5", "-w worker.properties --apply --dry-run"),
)
