"""``check order``, ``orphans``, ``collisions``, ``secrets`` and ``sizes``: what is wrong with what lies on the topics."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from connect_share.checks import collisions, liveness, order, orphans, secrets, sizes, transactions
from connect_share.checks.finding import Finding
from connect_share.cli.check_sources import CheckSources
from connect_share.cli.findings import counted, exit_code, finding_lines, wanted
from connect_share.cli.options import TOPIC_FLAGS, add_groups, add_ignore, add_topics
from connect_share.console import DEFAULT_TIMEOUT_S, Command, Output, Parser, Result
from connect_share.errors import ConfigError
from connect_share.model.records import TopicType

_CONFIG, _STATUS = TopicType.CONFIG, TopicType.STATUS


@dataclass(frozen=True)
class Check:
    """One check of what lies on the topics.

    Attributes:
        question: that it answers.
        about: for its help.
        needs: topics without which it cannot be run.
        run: returns what it finds.
        reads: topics whose contents it looks at, if they are given.
        members: more members of its JSON, by name.
    """

    question: str
    about: str
    needs: Sequence[TopicType]
    run: Callable[[CheckSources], Iterable[Finding]]
    reads: Sequence[TopicType] = tuple(TopicType)
    members: Mapping[str, Callable[[CheckSources], Any]] | None = field(default=None, repr=False)


def _of_groups(
    find: Callable[..., Iterable[Finding]], topic_type: TopicType, sources: CheckSources
) -> Iterable[Finding]:
    topic = sources.state.topics[topic_type]
    for state in sources.groups:
        if topic_type not in state.sealed:
            yield from find(topic, state)


def _orphans(sources: CheckSources) -> Iterable[Finding]:
    for state in sources.groups:
        yield from orphans.find(sources.state.topics, state, sources.members_of(state.group))


def _transactions(sources: CheckSources) -> Iterable[Finding]:
    servers = sources.topic_set.settings.bootstrap_servers
    return transactions.find(sources.open_transactions(), servers, sources.now_ms)


def _liveness(sources: CheckSources) -> Iterable[Finding]:
    others = [str(each.group) for each in sources.state.groups if each.group is not None]
    for state in sources.groups:
        if _STATUS not in state.sealed:
            workers = liveness.live_workers(
                state, sources.members, others=others, plain_group_id=sources.plain_group_id
            )
            yield from liveness.find(sources.state.topics, state, workers, sources.now_ms)


CHECKS: Final[Mapping[str, Check]] = {
    "order": Check(
        "does a connector lose its tasks because of the order of its records?",
        "Look for task configurations that workers do not take, or will not take once the topic was compacted "
        "(KAFKA-17719): a commit before its connector or its tasks, a commit of more tasks than there are, half a "
        "reconfiguration.",
        (_CONFIG,),
        partial(_of_groups, order.find, _CONFIG),
        reads=(_CONFIG,),
    ),
    "orphans": Check(
        "what is left of connectors and groups that are gone?",
        "Look for statuses, topics in use, target states, task configurations and offsets of connectors without a "
        "configuration, for statuses of tasks above the number of tasks, and for groups without any connector.",
        (_CONFIG,),
        _orphans,
    ),
    "collisions": Check(
        "are groups or connectors in each other's way?",
        "Look for two clusters with plain keys, ids and names that are read in two ways, transactional ids and consumer "
        "groups that connectors of two groups share, and sources that two groups read.",
        (),
        lambda sources: collisions.find(sources.state),
    ),
    "secrets": Check(
        "are there secrets in clear text?",
        "Look for secrets in clear text in configurations of connectors and tasks. Judged by the name of the property and "
        "the form of the value; a reference such as ${file:...} is fine. Values are never shown.",
        (_CONFIG,),
        partial(_of_groups, secrets.find, _CONFIG),
        reads=(_CONFIG,),
    ),
    "sizes": Check(
        "are records nearly too large, or topics larger than they should be?",
        "Compare the largest records with max.message.bytes of the topic and max.request.size of the worker, and look for "
        "topics that are not compacted as they should be.",
        tuple(TopicType),
        lambda sources: sizes.find(sources.profile.topics, sources.request_size),
        members={"largest": lambda sources: sizes.largest(sources.profile.topics)},
    ),
    "transactions": Check(
        "is a transaction open that holds up readers?",
        "Look for transactions that are open on the topics: whose they seem to be, since when, and the command that aborts "
        "them. One that is open for longer than 15 minutes hangs, and is an error.",
        (),
        _transactions,
    ),
    "liveness": Check(
        "do the statuses agree with the workers that live?",
        "Compare statuses with the live members of each group: RUNNING without any worker, workers that are no members, "
        "UNASSIGNED for more than ten minutes, and connectors that nobody ever said to run.",
        (_STATUS,),
        _liveness,
        reads=(_CONFIG, _STATUS),
    ),
}


def add_check_options(parser: Parser) -> None:
    """Add where the topics are, and which findings are wanted."""
    add_topics(parser)
    what = parser.add_argument_group("what is checked")
    add_groups(what, "only ", "; every group by default")
    add_ignore(what)


def missing_topics(check: Check, sources: CheckSources) -> list[str]:
    """Return the options that name the topics that a check needs and does not have."""
    return [TOPIC_FLAGS[each] for each in check.needs if each not in sources.topic_set.topics]


def _run(check: Check, arguments: argparse.Namespace, out: Output) -> Result:
    sources = CheckSources.asked(arguments, out, check.reads)
    if missing := missing_topics(check, sources):
        raise ConfigError(f"no worker file is given, so this needs {' and '.join(missing)}")
    findings = wanted(list(check.run(sources)), arguments.ignore)
    topics = sources.topic_set.topics
    more = {name: member(sources) for name, member in (check.members or {}).items()} if out.is_json else {}
    named = {topic_type.value: topic for topic_type, topic in topics.items()}
    return Result(
        {"findings": [finding.to_dict() for finding in findings], "topics": named, **more},
        [*finding_lines(findings), f"{', '.join(topics.values())}: {counted(findings)}"],
        exit_code(findings),
    )


COMMANDS: Final = [
    Command(
        f"check {noun}",
        partial(_run, check),
        check.question,
        about=f"{check.about} Reads only; exit code 1 if a finding is an error.",
        examples=[
            f"connect-share check {noun} -w worker.properties",
            f"connect-share check {noun} -w worker.properties --output json",
        ],
        options=add_check_options,
        timeout_s=DEFAULT_TIMEOUT_S,
    )
    for noun, check in CHECKS.items()
]
