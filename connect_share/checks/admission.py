"""Whether a new group may join shared topics: its settings beside what is on the topics, before its first worker starts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from connect_share.checks import collisions
from connect_share.checks.finding import Finding, Severity, limited, named
from connect_share.checks.sources import GroupRecords, GroupState, TopicsState
from connect_share.console.options import Group, shown_group
from connect_share.console.output import plural
from connect_share.contents.cost_model import StartSize
from connect_share.contents.groups import Contents
from connect_share.contents.profile import total
from connect_share.contents.startup import StartupProfile
from connect_share.errors import command_line, operand
from connect_share.model.keys import ClusterGroupId


@dataclass(frozen=True)
class NewGroup:
    """The group that is to be admitted.

    Attributes:
        members: live workers of that Connect group now.
        moves: the group that it is now, elsewhere, if that is known.
    """

    group: ClusterGroupId
    members: int
    exactly_once: bool
    sealed: bool
    moves: GroupState | None = None


@dataclass(frozen=True)
class StartupEffect:
    """The predicted effect on starts, in seconds.

    Attributes:
        longest_before, longest_after: of the group whose start takes longest, of those that are there.
        own: of the new group.
    """

    longest_before: float
    longest_after: float
    own: float


def find(new: NewGroup, state: TopicsState, sealed: Collection[Group]) -> Iterator[Finding]:
    """Yield what stands in the way; ``sealed`` are the groups there that have sealed values."""
    where = ", ".join(state.topics.values())
    others = [each for each in state.groups if each.group != new.group]
    yield from _identity(new, state, where)
    yield from _plain_cluster(others, where)
    yield from _exactly_once(new, others, where)
    yield from _sealing(new, others, sealed, where)
    without = replace(state, groups=others)
    before = {(each.id, each.what) for each in collisions.find(without)}
    joined = replace(state, groups=[*others, _joining(new)])
    yield from limited(each for each in collisions.find(joined) if (each.id, each.what) not in before)


def _joining(new: NewGroup) -> GroupState:
    """Return the new group as it will be there: with what it brings."""
    if new.moves is not None:
        return replace(new.moves, group=new.group)
    none, group = Contents(), new.group
    kept = GroupRecords(group)
    return GroupState(group, none.config_of(group), none.status_of(group), none.offsets_of(group), kept)


def _identity(new: NewGroup, state: TopicsState, where: str) -> Iterator[Finding]:
    own = next((each for each in state.groups if each.group == new.group), None)
    if own is not None:
        yield Finding(
            "admit-id-in-use",
            Severity.ERROR,
            where,
            f"there are {plural(sum(own.records.values()), 'record')} of a group {new.group} already",
            "the new group would take over its connectors, its offsets and its statuses",
            "choose another group.id; if that group is gone for good, delete it first",
            command_line("connect-share", "delete", "group", "-w", "FILE", "--dry-run", *operand(new.group)),
        )
    if new.members:
        yield Finding(
            "admit-live-members",
            Severity.WARNING,
            f"group {new.group}",
            f"{plural(new.members, 'worker')} of a Connect group with this id on this cluster live already",
            "if they belong to another Connect cluster, the new workers join that one",
            "choose another group.id, unless it is this cluster that moves; then stop its workers first",
        )
    ids = [str(each.group) for each in state.groups if each.group not in (None, new.group)]
    yield from _similar_ids(new, ids, where)


def _similar_ids(new: NewGroup, ids: Sequence[str], where: str) -> Iterator[Finding]:
    dashed = [each for each in ids if each.startswith(f"{new.group}-") or new.group.startswith(f"{each}-")]
    if dashed:
        yield Finding(
            "admit-id-dashes",
            Severity.WARNING if new.exactly_once else Severity.NOTE,
            where,
            f"the id {new.group} is the beginning of, or begins with, {named(dashed)}, up to a dash",
            "with exactly-once, a right on transactional ids that begin with <id>- holds for both groups, and connectors "
            "of both can have the same transactional ids",
            "choose another group.id",
        )
    alike = [each for each in ids if each.lower() == new.group.lower()]
    if alike:
        yield Finding(
            "admit-id-similar",
            Severity.WARNING,
            where,
            f"the id {new.group} differs from {named(alike)} in case only",
            "people, and metrics systems that know no case, take one for the other",
            "choose another group.id",
        )


def _plain_cluster(others: Sequence[GroupState], where: str) -> Iterator[Finding]:
    if any(each.group is None for each in others):
        alone = len(others) == 1
        yield Finding(
            "admit-plain-cluster",
            Severity.WARNING,
            where,
            f"{'only ' if alone else ''}a cluster with plain keys has records there",
            "its workers, without sharing, log an error for each record of the new group, and count them in their position"
            + ("; Python stores with sharing refuse to start on such topics" if alone else ""),
            "move it to keys with a prefix first",
            command_line(
                "connect-share-migrate", "plan", "-w", "FILE_OF_IT", "--to-worker-config", "SHARED_FILE", "-o", "PLAN"
            ),
        )


def _exactly_once(new: NewGroup, others: Sequence[GroupState], where: str) -> Iterator[Finding]:
    fencing = [shown_group(each.group) for each in others if each.config.task_count_records()]
    if new.exactly_once and fencing:
        yield Finding(
            "admit-exactly-once",
            Severity.NOTE,
            where,
            f"exactly-once is on, as in {named(fencing)}",
            "each of these groups waits for the open transactions of the others when it starts or reads to the end",
            "keep transaction.timeout.ms short, a minute or less, and watch check transactions",
        )


def _sealing(new: NewGroup, others: Sequence[GroupState], sealed: Collection[Group], where: str) -> Iterator[Finding]:
    there = [shown_group(each.group) for each in others if each.group in sealed]
    if there and not new.sealed:
        every = len(there) == len(others)
        yield Finding(
            "admit-sealing",
            Severity.ERROR if every else Severity.WARNING,
            where,
            f"{'all' if every else 'some'} groups there are sealed ({named(there)}), and the new one has no keys",
            "whoever may read the topics sees its configurations, and whoever may write there controls it",
            "give its workers keys",
            command_line("connect-share", "keys", "new"),
        )


def startup_effect(found: StartupProfile, records: int, size: int) -> StartupEffect:
    """Predict starts with so many more records of keys and values of this size."""
    model = found.fitted.model
    everything = total(topic.total() for topic in found.topics.values())
    there = StartSize(records=everything.records, bytes=everything.bytes, own_records=0)
    joined = there.model_copy(update={"records": there.records + records, "bytes": there.bytes + size})

    def seconds(at: StartSize, own: int) -> float:
        return model.seconds(at.model_copy(update={"own_records": own}))

    most = max((start.count.records for start in found.groups), default=0)
    return StartupEffect(seconds(there, most), seconds(joined, most), seconds(joined, records))


def find_slow(effect: StartupEffect, limit_s: float | None, where: str) -> Iterator[Finding]:
    """Yield what starts take, an error if that is longer than the limit."""
    longest = max(effect.longest_after, effect.own)
    slow = limit_s is not None and longest > limit_s
    longer = effect.longest_after - effect.longest_before
    yield Finding(
        "admit-startup",
        Severity.ERROR if slow else Severity.NOTE,
        where,
        f"predicted: the longest start of a group there takes {effect.longest_after:.2f} s, {longer:.2f} s of that for the "
        f"new group, whose own start takes {effect.own:.2f} s" + (f"; the limit is {limit_s:g} s" if slow else ""),
        "every start of every group reads all three topics to their end",
        "see which settings make starts shorter, or use a second set of topics" if slow else "nothing to do",
        command_line("connect-share", "check", "startup", "-w", "FILE") if slow else None,
    )
