"""The demo's result as one self-contained HTML page, and as lines for a terminal."""

from __future__ import annotations

from migrator.report import templates_of
from tests.lab.demo.result import DemoResult, GroupAgain, SealedGroup


def render_report(result: DemoResult) -> str:
    """Return the page."""
    return templates_of("tests.lab").get_template("demo.html.j2").render(result=result)


def summary_lines(result: DemoResult) -> list[str]:
    """Return for each group what REST said, what the stores say, what REST says again, and whether all is equal.

    These are the demo's last lines. What is wrong with the shared topics themselves stands before them.
    """
    lines = [
        f"differs: {topic.topic}: {topic.plain_keys} of {topic.records} keys without a group's prefix"
        for topic in result.shared_topics
        if topic.plain_keys
    ]
    for group, again in zip(result.groups, result.again, strict=True):
        equal = group.equal and again.equal
        lines += [
            group.cluster_group_id,
            f"  REST said:         {group.wanted}",
            f"  Python stores say: {group.found}",
            f"  REST says again:   {again.restart.found}",
            f"  and since then:    {_since(again)}",
        ]
        if group.cluster_group_id == result.sealed.cluster_group_id:
            lines.append(f"  password on disk:  {_on_disk(result.sealed)}")
            equal = equal and result.sealed.equal
        lines += [f"  differs: {each.connector!r}: {what}" for each in group.connectors for what in each.differences]
        lines += [f"  differs: {what}" for what in again.differences]
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
