"""The demo's result as one self-contained HTML page, and as lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from connect_share.records import TopicType
from migrator.report.page import render_page
from spark_jobs import plots
from spark_jobs.demo.result import Benchmark, DemoResult, GroupAgain, MovedTopic, Phase, SharedTopic
from spark_jobs.demo.views import GroupComparison


def render_report(result: DemoResult) -> str:
    """Return the page."""
    return render_page(
        "demo.html.j2",
        package="spark_jobs",
        result=result,
        moved_plot=_moved_plot(result.move.topics),
        benchmark_plot=_benchmark_plot(result.benchmark),
        phases_plot=_phases_plot(result.phases),
    )


def _moved_plot(topics: Sequence[MovedTopic]) -> Markup:
    groups = list(dict.fromkeys(topic.cluster_group_id for topic in topics))
    bars = []
    for topic_type in TopicType:
        parts = [topic for topic in topics if topic.topic_type is topic_type]
        label = parts[0].shared_topic if parts else topic_type.value
        written = [(topic.cluster_group_id, topic.records_written) for topic in parts]
        pieces = [(records, f"{group}: {records:,}", groups.index(group) + 1) for group, records in written]
        bars.append(plots.Bar(label, f"{sum(records for _, records in written):,} records", pieces))
    return plots.bars("records of each cluster group in the shared topics", bars, legend=groups)


def _benchmark_plot(benchmark: Benchmark) -> Markup:
    bars = []
    for bar in benchmark.bars:
        value = f"{bar.milliseconds:,.0f} ms ({bar.fastest_milliseconds:,.0f}-{bar.slowest_milliseconds:,.0f})"
        colour = 2 if bar.what.startswith("Java") else 1
        bars.append(plots.Bar(bar.what, value, [(bar.milliseconds, f"median of {bar.runs}", colour)]))
    return plots.bars("milliseconds until all three stores are ready", bars)


def _phases_plot(phases: Sequence[Phase]) -> Markup:
    bars = []
    for phase in phases:
        took = f"{phase.seconds:.1f} s"
        bars.append(plots.Bar(phase.name, took, [(phase.seconds, took, 3)]))
    return plots.bars("seconds of each phase, one after the other", bars, timeline=True)


def summary_lines(
    groups: Sequence[GroupComparison], again: Sequence[GroupAgain] = (), shared_topics: Sequence[SharedTopic] = ()
) -> list[str]:
    """Return for each group what REST said, what the stores say, what REST says again, and whether all is equal.

    These are the demo's last lines. What is wrong with the shared topics themselves stands before them.
    """
    second = {group.cluster_group_id: group for group in again}
    lines = [
        f"differs: {topic.topic}: {topic.plain_keys} of {topic.records} keys without a group's prefix"
        for topic in shared_topics
        if topic.plain_keys
    ]
    for group in groups:
        restarted = second.get(group.cluster_group_id)
        lines += [
            group.cluster_group_id,
            f"  REST said:         {group.rest}",
            f"  Python stores say: {group.stores}",
        ]
        if restarted is not None:
            lines += [f"  REST says again:   {restarted.again}", f"  and since then:    {_since(restarted)}"]
        lines += [f"  differs: {each.connector!r}: {what}" for each in group.connectors for what in each.differences]
        lines += [f"  differs: {what}" for what in (restarted.differences if restarted else ())]
        equal = group.equal and (restarted is None or restarted.equal)
        lines.append(f"  equal: {'yes' if equal else 'no'}")
    return lines


def _since(group: GroupAgain) -> str:
    appended = sum(topic.lines_appended for topic in group.topics)
    arrived = sum(topic.lines_arrived for topic in group.topics)
    in_files = sum(file.lines_arrived for file in group.files)
    twice = sum(max(topic.records_at_end - topic.records_before - topic.lines_appended, 0) for topic in group.topics)
    return (
        f"{appended} lines appended to source files, {arrived} arrived in topics, {in_files} in sink files; "
        f"{twice} records read twice; Python stores beside it: {'equal' if group.stores.equal else 'not equal'}"
    )
