"""The demo's result as one self-contained HTML page.

Names in it were written by whoever may write to a topic: every text is escaped, and the page runs no script.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from connect_share.records import TopicType
from spark_jobs.bar_plot import STYLE, Bar, Segment, bar_plot, legend
from spark_jobs.demo.result import DemoResult, GroupAgain
from spark_jobs.demo.views import GroupComparison
from spark_jobs.html_page import page, section, table


def render_report(result: DemoResult) -> str:
    """Give the page as text."""
    parts = [
        _head(result),
        section("What REST said, what the Python stores say", _groups(result.groups)),
        *(section(f"Connectors of {group.cluster_group_id}", _connectors(group)) for group in result.groups),
        section("The same Java workers again, on the shared topics with the jar", _again(result)),
        *(section(f"{group.cluster_group_id} goes on", _went_on(group)) for group in result.again),
        section("What was moved", _moved(result)),
        section("Start-up, medians of all three stores", _benchmark(result)),
        section("The Python stores of each group on the shared topics", _starts(result)),
        section("Where the time went", _phases(result)),
        section("Machine and versions", table(("what", "is"), result.versions.items())),
    ]
    return page("connect-share demo", parts, style=STYLE)


def _head(result: DemoResult) -> str:
    verdict = (
        '<span class="yes">equal</span>: the stores show exactly what the Java workers said, and the workers went on'
        if result.equal
        else '<span class="no">not equal</span>: see the differences below'
    )
    return (
        f"<h1>{len(result.groups)} Connect clusters, one set of topics</h1><p>{verdict}.</p>"
        f'<p class="dim">Java workers wrote dedicated topics, the Spark job moved them onto shared ones, Python stores '
        "started from those, and so did the same Java workers with the jar on their class path. "
        f"{result.seconds:.0f} seconds in all.</p>"
    )


def _groups(groups: Sequence[GroupComparison]) -> str:
    rows = (
        row
        for group in groups
        for row in (
            (group.cluster_group_id, "REST", str(group.rest), ""),
            ("", "Python", str(group.stores), "equal" if group.equal else "not equal"),
        )
    )
    return table(("cluster group", "who", "says", "equal"), rows)


def _connectors(group: GroupComparison) -> str:
    return table(
        ("connector", "REST", "Python stores", "differs in"),
        (
            (line.connector, line.rest or "absent", line.stores or "absent", "; ".join(line.differences) or "nothing")
            for line in group.connectors
        ),
    )


def _again(result: DemoResult) -> str:
    rows = (
        row
        for group in result.again
        for row in (
            (group.cluster_group_id, "REST, dedicated topics", str(group.before), ""),
            ("", "REST, shared topics", str(group.again), f"{group.seconds:.1f}"),
            ("", "REST, at the end", str(group.stores.rest), ""),
            ("", "Python stores beside it", str(group.stores.stores), ""),
        )
    )
    topics = table(
        ("shared topic", "records", "keys without a group's prefix"),
        ((topic.topic, topic.records, topic.plain_keys) for topic in result.shared_topics),
        frozenset({1, 2}),
    )
    return table(("cluster group", "who", "says", "all back after s"), rows, frozenset({3})) + topics


def _went_on(group: GroupAgain) -> str:
    connectors = table(
        ("connector", "before the move", "on the shared topics", "differs in"),
        (
            (line.connector, line.before or "absent", line.again or "absent", "; ".join(line.differences) or "nothing")
            for line in group.connectors
        ),
    )
    titles = ("before", "after the start", "at the end", "lines appended", "arrived", "wrong")
    topics = table(
        ("records of data topic", *titles),
        (
            (
                topic.topic,
                topic.records_before,
                topic.records_after_start,
                topic.records_at_end,
                topic.lines_appended,
                topic.lines_arrived,
                "; ".join(topic.differences) or "nothing",
            )
            for topic in group.topics
        ),
        frozenset(range(1, 6)),
    )
    files = table(
        ("lines in the file of sink", titles[0], *titles[2:]),
        (
            (
                file.connector,
                file.lines_before,
                file.lines_at_end,
                file.lines_appended,
                file.lines_arrived,
                "; ".join(file.differences) or "nothing",
            )
            for file in group.files
        ),
        frozenset(range(1, 5)),
    )
    verdict = (
        '<span class="yes">goes on as it was</span>'
        if group.equal
        else '<span class="no">does not go on as it was</span>'
    )
    differences = "".join(f"<p>{escape(difference)}</p>" for difference in group.differences)
    return connectors + topics + files + f"<p>This cluster {verdict}.</p>{differences}"


def _moved(result: DemoResult) -> str:
    move = result.move
    groups = list(dict.fromkeys(topic.cluster_group_id for topic in move.topics))
    bars = []
    for topic_type in TopicType:
        parts = [topic for topic in move.topics if topic.topic_type is topic_type]
        total = sum(topic.records_written for topic in parts)
        bars.append(
            Bar(
                label=parts[0].shared_topic if parts else topic_type.value,
                value=f"{total:,} records",
                segments=tuple(
                    Segment(
                        topic.records_written,
                        f"{topic.cluster_group_id}: {topic.records_written:,}",
                        groups.index(topic.cluster_group_id) + 1,
                    )
                    for topic in parts
                ),
            )
        )
    rows = (
        (
            topic.cluster_group_id,
            topic.topic,
            topic.records_read,
            topic.records_written,
            topic.tombstones,
            ", ".join(f"{number} {reason}" for reason, number in sorted(topic.skipped.items())) or "none",
        )
        for topic in move.topics
    )
    warnings = "".join(f'<p class="dim">{escape(warning)}</p>' for warning in move.warnings)
    differences = "".join(f"<p>{escape(difference)}</p>" for difference in move.differences)
    verdict = '<span class="yes">equal</span>' if move.verified_equal else '<span class="no">different</span>'
    return (
        legend(groups)
        + bar_plot("records of each cluster group in the shared topics", bars)
        + table(
            ("cluster group", "dedicated topic", "read", "written", "tombstones", "left behind"),
            rows,
            frozenset({2, 3, 4}),
        )
        + f"<p>Folded by the Spark job on both sides and compared: {verdict}.</p>{differences}{warnings}"
    )


def _benchmark(result: DemoResult) -> str:
    bars = [
        Bar(
            label=bar.what,
            value=f"{bar.milliseconds:,.0f} ms ({bar.fastest_milliseconds:,.0f}-{bar.slowest_milliseconds:,.0f})",
            segments=(Segment(bar.milliseconds, f"median of {bar.runs}", 2 if bar.what.startswith("Java") else 1),),
        )
        for bar in result.benchmark.bars
    ]
    note = f'<p class="dim">{escape(result.benchmark.workload)}. Fastest and slowest run in brackets; shorter is better.</p>'
    return bar_plot("milliseconds until all three stores are ready", bars) + note


def _starts(result: DemoResult) -> str:
    return table(
        ("cluster group", "topic", "ready after ms", "own records", "records of others"),
        (
            (start.cluster_group_id, store.topic, f"{store.milliseconds:.0f}", store.own_records, store.foreign_records)
            for start in result.starts
            for store in start.stores
        ),
        frozenset({2, 3, 4}),
    )


def _phases(result: DemoResult) -> str:
    bars = [
        Bar(phase.name, f"{phase.seconds:.1f} s", (Segment(phase.seconds, f"{phase.seconds:.1f} s", 3),))
        for phase in result.phases
    ]
    return bar_plot("seconds of each phase, one after the other", bars, cumulative=True)
