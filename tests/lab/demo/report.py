"""The demo's result as one self-contained HTML page, and as lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from migrator.report import templates_of
from tests.lab.demo.result import DemoResult, GroupAgain, SealedGroup, SharedTopic
from tests.lab.demo.views import GroupComparison


def render_report(result: DemoResult) -> str:
    """Return the page."""
    return templates_of("tests.lab").get_template("demo.html.j2").render(result=result)


def summary_lines(
    groups: Sequence[GroupComparison],
    again: Sequence[GroupAgain] = (),
    shared_topics: Sequence[SharedTopic] = (),
    sealed: SealedGroup | None = None,
) -> list[str]:
    """Return for each group what REST said, what the stores say, what REST says again, and whether all is equal.

    These are the demo's last lines. What is wrong with the shared topics themselves stands before them.
    """
    second = {group.restart.cluster_group_id: group for group in again}
    lines = [
        f"differs: {topic.topic}: {topic.plain_keys} of {topic.records} keys without a group's prefix"
        for topic in shared_topics
        if topic.plain_keys
    ]
    for group in groups:
        restarted = second.get(group.cluster_group_id)
        lines += [
            group.cluster_group_id,
            f"  REST said:         {group.wanted}",
            f"  Python stores say: {group.found}",
        ]
        if restarted is not None:
            lines += [f"  REST says again:   {restarted.restart.found}", f"  and since then:    {_since(restarted)}"]
        own = sealed if sealed is not None and sealed.cluster_group_id == group.cluster_group_id else None
        if own is not None:
            lines.append(f"  password on disk:  {_on_disk(own)}")
        lines += [f"  differs: {each.connector!r}: {what}" for each in group.connectors for what in each.differences]
        lines += [f"  differs: {what}" for what in (restarted.differences if restarted else ())]
        equal = group.equal and (restarted is None or restarted.equal) and (own is None or own.equal)
        lines.append(f"  equal: {'yes' if equal else 'no'}")
    return lines


def _on_disk(sealed: SealedGroup) -> str:
    dedicated, shared = sealed.dedicated, sealed.shared
    return (
        f"in {dedicated.with_text} of {dedicated.files} segment files of the dedicated topics, in {shared.with_text} of "
        f"{shared.files} of the shared topics, where the group is sealed"
    )


def _since(group: GroupAgain) -> str:
    topics = [each for each in group.data if each.kind == "data topic"]
    appended = sum(topic.lines_appended for topic in topics)
    arrived = sum(topic.lines_arrived for topic in topics)
    in_files = sum(each.lines_arrived for each in group.data) - arrived
    twice = sum(max(topic.at_end - topic.before - topic.lines_appended, 0) for topic in topics)
    return (
        f"{appended} lines appended to source files, {arrived} arrived in topics, {in_files} in sink files; "
        f"{twice} records read twice; Python stores beside it: {'equal' if group.stores.equal else 'not equal'}"
    )
