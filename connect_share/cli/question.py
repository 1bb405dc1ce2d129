"""What ``get`` and ``describe`` read: which topics, and which groups there."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Self

from connect_share.cli.options import topic_set_of
from connect_share.console import Group, Output, groups_of, named_groups, shown_group
from connect_share.contents.groups import Contents, TopicReading, WriteTimes, read_topics
from connect_share.errors import ConnectShareError
from connect_share.model.keys import KeyKind
from connect_share.model.records import TopicType
from connect_share.worker_config import TopicSet


@dataclass
class Question:
    """Topics and groups that were asked for.

    Attributes:
        groups: ``None``: all.
        by_name: the groups were named by the user.
        unshown: kinds of records that no answer needs.
    """

    topic_set: TopicSet
    wanted: Sequence[TopicType]
    groups: Collection[Group] | None
    by_name: bool
    timeout_s: float
    unshown: Collection[KeyKind] = ()

    @classmethod
    def of(
        cls,
        arguments: argparse.Namespace,
        needed: Sequence[TopicType] = (),
        also: Sequence[TopicType] = (),
        *,
        every_group: bool = False,
        unshown: Collection[KeyKind] = (),
    ) -> Self:
        """Return what the arguments ask for; without the topics in ``needed`` there is nothing to show.

        Raises:
            ConfigError, InvalidClusterGroupIdError: they are wrong.
        """
        topic_set = topic_set_of(arguments, needed)
        groups: Collection[Group] | None = groups_of(arguments.groups)
        by_name = groups is not None
        if groups is None and not arguments.all_groups and not every_group:
            groups = topic_set.worker_group
        wanted = [topic_type for topic_type in dict.fromkeys((*needed, *also)) if topic_type in topic_set.topics]
        return cls(topic_set, wanted, groups, by_name, arguments.timeout, unshown)

    def reading(self, times: WriteTimes) -> TopicReading:
        """Return the topics, ready to be read."""
        return TopicReading(
            self.topic_set,
            self.wanted,
            groups=self.groups,
            timeout_s=self.timeout_s,
            look=times.look,
            unshown=self.unshown,
        )

    def answer(self, out: Output) -> Contents:
        """Read the topics to their end, and print notes about them on stderr.

        Raises:
            ConnectShareError: they cannot be read, or a group that was named is not there.
        """
        times = WriteTimes()
        contents = read_topics(
            self.topic_set,
            self.wanted,
            groups=self.groups,
            timeout_s=self.timeout_s,
            look=times.look,
            unshown=self.unshown,
        )
        contents.times = times
        self.refuse_unknown(contents)
        for note in contents.notes():
            out.note(note)
        return contents

    def refuse_unknown(self, contents: Contents) -> None:
        """Refuse groups that were named and have no record in any topic; one may have none in those that were read."""
        unknown = set(self.groups or ()) - set(contents.groups()) if self.by_name else set()
        if not unknown:
            return
        there = read_topics(self.topic_set, list(self.topic_set.topics), timeout_s=self.timeout_s).groups()
        unknown -= set(there)
        if unknown:
            raise ConnectShareError(
                f"there is no group {' and no group '.join(sorted(map(shown_group, unknown)))} in "
                f"{', '.join(self.topic_set.topics.values())}; there are: {named_groups(there)}"
            )
