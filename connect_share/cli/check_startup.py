"""``check startup``: what a start costs on the user's own topics, and which settings would make it cheaper."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from connect_share.admin import Admin
from connect_share.cli.arguments import topic_set_of
from connect_share.cli.profiling import Profiling, prepare_profiling
from connect_share.cli.reading import CLIENT_ID, PLAIN, Group
from connect_share.cli.startup_tables import change_line, show, show_text
from connect_share.cli.topic_specs import topic_specs
from connect_share.console import Output, confirmed
from connect_share.errors import ConnectShareError, UsageError
from connect_share.keys import ClusterGroupId
from connect_share.records import TopicType
from connect_share.startup import ProfiledTopic, StartupProfile, load_model, members, startup_profile
from connect_share.startup.advice import Change
from connect_share.startup.report import SHIPPED_NAME
from connect_share.topics.shared_set import setting_differences
from connect_share.worker_config import TopicSet

_EVERY_S: Final = 2.0

_UNASKED: Final = "nothing was changed: give --yes to go on without a prompt"


def check_startup(arguments: argparse.Namespace, out: Output) -> int:
    """``check startup``: 1 if there are findings that this command has not mended."""
    if arguments.yes and not arguments.apply:
        raise UsageError("--yes goes with --apply; without it nothing is changed")
    fitted = load_model(arguments.model)
    topic_set = topic_set_of(arguments, tuple(TopicType))
    groups = groups_of(arguments.groups)
    profiling = prepare_profiling(topic_set, timeout_s=arguments.timeout)
    for note in profiling.notes:
        out.note(note)
    found = startup_profile(
        count_topics(profiling, out),
        fitted,
        now_ms=profiling.now_ms,
        model_name=SHIPPED_NAME if arguments.model is None else str(arguments.model),
        limit_s=arguments.limit,
        groups=groups,
    )
    if arguments.apply and found.advice.changes:
        with Admin(topic_set.settings, client_id=CLIENT_ID, timeout_s=arguments.timeout) as admin:
            return _Applying(found, topic_set, admin, out).run(dry_run=arguments.dry_run, yes=arguments.yes)
    show(found, out)
    _note_differences(topic_set, profiling, out)
    return 1 if found.findings else 0


def _note_differences(topic_set: TopicSet, profiling: Profiling, out: Output) -> None:
    """Say where a topic is not as ``create topics`` makes it: what saves nothing today may when the topic has grown."""
    for spec in topic_specs(topic_set, None):
        actual = profiling.configs[spec.topic_type]
        for difference in () if actual is None else setting_differences(spec, None, actual):
            out.note(
                f"{spec.topic} is not as create topics would make it: {difference.what} is {difference.actual}, "
                f"wanted {difference.wanted}"
            )


def groups_of(names: Sequence[str] | None) -> Collection[Group] | None:
    """Give the groups that were named; ``None``: all.

    Raises:
        InvalidClusterGroupIdError: a name cannot be one.
    """
    return {None if name == PLAIN else ClusterGroupId(name) for name in names} if names else None


def count_topics(profiling: Profiling, out: Output) -> dict[TopicType, ProfiledTopic]:
    """Read the topics in this process, one after the other."""
    topics = {}
    for topic_type in TopicType:
        told = _Told(out, profiling.topic_set.topics[topic_type], profiling.records_at_most(topic_type))
        partitions = [profile for job in profiling.jobs(topic_type) for profile in job.run(told.advance)]
        topics[topic_type] = profiling.together(topic_type, partitions)
    return topics


class _Told:
    """Says on stderr how far a long read is."""

    def __init__(self, out: Output, topic: str, at_most: int) -> None:
        self._out, self._topic, self._at_most = out, topic, at_most
        self._done, self._told_s = 0, time.monotonic()

    def advance(self, records: int) -> None:
        self._done += records
        now_s = time.monotonic()
        if now_s - self._told_s >= _EVERY_S:
            self._told_s = now_s
            self._out.note(f"{self._topic}: {self._done:,} of at most {self._at_most:,} records read")


@dataclass(frozen=True)
class _Undo:
    """What a setting was before: ``None`` if the topic had none of its own."""

    topic: str
    setting: str
    value: str | None


class _Applying:
    """Changes the settings that were advised, topic by topic."""

    def __init__(self, found: StartupProfile, topic_set: TopicSet, admin: Admin, out: Output) -> None:
        self._found, self._admin, self._out = found, admin, out
        self._bootstrap_servers = topic_set.settings.bootstrap_servers
        self._changes: dict[str, list[Change]] = {}
        for change in found.advice.changes:
            self._changes.setdefault(change.topic, []).append(change)
        own = {topic: admin.own_topic_configs(topic) for topic in self._changes}
        self._undo = {
            topic: [_Undo(topic, change.setting, own[topic].get(change.setting)) for change in changes]
            for topic, changes in self._changes.items()
        }

    def run(self, *, dry_run: bool, yes: bool) -> int:
        """Preview, ask, change."""
        out = self._out
        if not out.is_json:
            show_text(self._found, out)
            out.lines("")
        # What is asked about, and how to take it back, is seen whatever becomes of stdout.
        preview = out if dry_run and not out.is_json else Output(out.command, stdout=sys.stderr)
        if not (dry_run and out.is_json):
            preview.lines(*self._preview_lines())
        if dry_run:
            self._tell(applied=False, dry_run=True)
            return 1
        if not yes and not confirmed("change these settings?", otherwise=_UNASKED):
            return 1
        self._change()
        self._tell(applied=True, dry_run=False)
        return 1 if self._found.advice.problems or self._found.too_slow else 0

    def _preview_lines(self) -> list[str]:
        lines = [change_line(change) for changes in self._changes.values() for change in changes]
        return ["to be changed:", *(f"  {line}" for line in lines), "to undo it:", *self._undo_lines()]

    def _undo_lines(self) -> list[str]:
        return [f"  {_command(self._bootstrap_servers, topic, undo)}" for topic, undo in self._undo.items()]

    def _change(self) -> None:
        for topic, changes in self._changes.items():
            now = self._admin.topic_configs(topic)
            for change in changes:
                if now.get(change.setting, change.old) != change.old:
                    raise ConnectShareError(
                        f"{topic}: {change.setting} has become {now[change.setting]} since it was read; run this again"
                    )
        for topic, changes in self._changes.items():
            self._admin.alter_topic_configs(topic, {change.setting: change.new for change in changes})
            self._out.note(f"{topic}: changed")

    def _tell(self, *, applied: bool, dry_run: bool) -> None:
        if self._out.is_json:
            undo: list[dict[str, Any]] = [
                {"topic": one.topic, "setting": one.setting, "value": one.value}
                for entries in self._undo.values()
                for one in entries
            ]
            commands = [line.strip() for line in self._undo_lines()]
            told = {"applied": applied, "dry_run": dry_run, "undo": undo, "undo_commands": commands}
            self._out.json({**members(self._found), **told})
        elif dry_run:
            self._out.lines("", "dry run: nothing was changed")
        else:
            number = len(self._found.advice.changes)
            plural = "" if number == 1 else "s"
            self._out.lines(f"{number} setting{plural} changed; to undo it:", *self._undo_lines())


def _command(bootstrap_servers: str, topic: str, undo: Sequence[_Undo]) -> str:
    """Write the call of Kafka's own tool; it wants ``--command-config`` too where one has to log in."""
    before: Mapping[str, str] = {one.setting: one.value for one in undo if one.value is not None}
    added = ",".join(f"{name}=[{value}]" if "," in value else f"{name}={value}" for name, value in before.items())
    deleted = ",".join(one.setting for one in undo if one.value is None)
    words = ["kafka-configs", "--bootstrap-server", bootstrap_servers, "--alter", "--entity-type", "topics"]
    words += ["--entity-name", topic]
    words += ["--add-config", added] if added else []
    words += ["--delete-config", deleted] if deleted else []
    return " ".join(words)
