"""What a check declares of itself: its command line, and how it finds. Each is the ``CHECK`` of a module of this package."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from connect_share import checks
from connect_share.checks.finding import Finding, add_ignore, findings_result, of_group, wanted
from connect_share.checks.sources import CheckSources, GroupState
from connect_share.console.options import DEFAULT_TIMEOUT_S, TOPIC_FLAGS, Parser, add_groups, add_topics
from connect_share.console.output import Output, Result
from connect_share.console.program import Command, Steps
from connect_share.errors import UsageError
from connect_share.model.records import TopicType

_LAST: Final = 1_000


def add_check_options(parser: Parser, *, folds: bool = True) -> None:
    """Add where the topics are, and which findings are wanted."""
    add_topics(parser, folds=folds)
    what = parser.add_argument_group("what is checked")
    add_groups(what, "only ", "; every group by default")
    add_ignore(what)


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        find: returns what it finds, in ``check all`` too.
        needs: topics without which it cannot be run.
        needs_file: nor without a worker file.
        reads: topics whose contents it looks at, if they are given.
        members: more members of its JSON, by name.
        refuses_group: why its command takes no ``--group``, unless that chooses a worker file of a folder; empty: it does.
        place: in lists of checks, causes before what follows from them; those that do not say it are the last.
        run: its command, if findings are not all that it prints.
        options, examples, timeout_s: of that command.
    """

    name: str
    question: str
    about: str
    find: Callable[[CheckSources], Iterable[Finding]]
    needs: Sequence[TopicType] = ()
    needs_file: bool = False
    reads: Sequence[TopicType] = tuple(TopicType)
    members: Mapping[str, Callable[[CheckSources], Any]] = field(default_factory=dict, repr=False)
    refuses_group: str = ""
    place: int = _LAST
    run: Callable[[argparse.Namespace, Output], Result | Steps] | None = None
    options: Callable[[Parser], object] = add_check_options
    examples: Sequence[str] = ("-w worker.properties", "-w worker.properties --output json")
    timeout_s: float = DEFAULT_TIMEOUT_S

    def command(self) -> Command:
        """Return its command."""
        return Command(
            f"check {self.name}",
            self._run if self.run is None else self.run,
            self.question,
            about=f"{self.about} Reads only; exit code 1 if a finding is an error." if self.run is None else self.about,
            examples=[f"connect-share check {self.name} {each}" for each in self.examples],
            options=self.options,
            timeout_s=self.timeout_s,
        )

    def missing(self, sources: CheckSources) -> list[str]:
        """Return the options that name what it needs and does not have."""
        if self.needs_file and sources.worker_file is None:
            return ["-w FILE"]
        return [TOPIC_FLAGS[each] for each in self.needs if each not in sources.topic_set.topics]

    def _run(self, arguments: argparse.Namespace, out: Output) -> Result:
        if self.refuses_group and arguments.groups and not hasattr(arguments, "own_groups"):
            raise UsageError(f"--group: {self.refuses_group}; leave it out")
        sources = CheckSources.asked(arguments, out, self.reads, self.needs)
        findings = wanted(sources.with_file(self.find(sources)), arguments.ignore)
        topics = sources.topic_set.topics
        more = {name: member(sources) for name, member in self.members.items()} if out.is_json else {}
        named = {topic_type.value: topic for topic_type, topic in topics.items()}
        return findings_result(findings, ", ".join(topics.values()), {"topics": named, **more})


def in_each_group(
    find: Callable[[str, GroupState], Iterable[Finding]], topic_type: TopicType
) -> Callable[[CheckSources], Iterator[Finding]]:
    """Return what finds something in one topic of each group whose values there can be read."""

    def find_all(sources: CheckSources) -> Iterator[Finding]:
        topic = sources.state.topics[topic_type]
        for state in sources.groups:
            if topic_type not in state.sealed:
                yield from of_group(state.group, find(topic, state))

    return find_all


def all_checks() -> list[Check]:
    """Return the checks of all modules of this package that declare one, in their places."""
    modules = [
        importlib.import_module(f"{checks.__name__}.{each.name}") for each in pkgutil.iter_modules(checks.__path__)
    ]
    found = [check for module in modules if isinstance(check := vars(module).get("CHECK"), Check)]
    return sorted(found, key=lambda check: (check.place, check.name))
