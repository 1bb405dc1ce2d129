"""The start-up profile for people: topics, kinds of records, groups with their predicted start, and advice."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from connect_share.console import Output, shown_group
from connect_share.records import TopicType
from connect_share.startup.advice import SettingChange
from connect_share.startup.profile import Count, total
from connect_share.startup.report import SHIPPED_NAME, PredictedStart, StartupProfile

MOST_GROUPS: Final = 20
"""Groups in a table; those with the most bytes. All are in the JSON form."""

_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


def show_text(found: StartupProfile, out: Output) -> None:
    """Print the profile as tables."""
    _topics(found, out)
    _kinds(found, out)
    _groups(found, out)
    _model(found, out)
    advice = found.advice
    out.lines("")
    for problem in advice.problems:
        out.lines(f"problem: {problem.topic}: {problem.what}")
    for change in advice.changes:
        out.lines(f"advice: {change_line(change)}", f"  {change.reason}")
    if advice.changes:
        out.lines(
            f"all of these: each start reads up to {_size(advice.gain_bytes)} and {advice.gain_records:,} records less, "
            f"{_seconds(advice.gain_seconds)} by the model; the cleaner needs some time, and for segment.bytes and "
            f"segment.ms the next records"
        )
    for group in found.too_slow:
        out.lines(f"above the limit of {found.limit_s:g} s: {shown_group(group)}")
    if not found.findings:
        out.lines("no setting of these topics is worth changing for what is in them now")


def change_line(change: SettingChange) -> str:
    """Return one change for people: old and new value, and what it saves."""
    saves = f"saves up to {_size(change.gain_bytes)} and {_seconds(change.gain_seconds)} of each start"
    more = f" ({saves})" if change.gain_bytes else ""
    return f"{change.topic}: {change.setting} {change.old} -> {change.new}{more}"


def _topics(found: StartupProfile, out: Output) -> None:
    rows = []
    for topic_type, topic in found.topics.items():
        count = topic.profile.total()
        hidden = topic.hidden(found.now_ms)
        hides, dirty = None, None
        if hidden is not None:
            hides = f"up to {_size(hidden.superseded.bytes)}"
            dirty = "nothing to clean" if hidden.dirty_ratio is None else f"{hidden.dirty_ratio:.2f} or more"
        rows.append(
            (
                topic.profile.topic,
                topic_type.value,
                len(topic.profile.partitions),
                f"{count.records:,}",
                _size(count.bytes),
                _share(count),
                f"{count.live_tombstones:,}",
                f"{topic.profile.unrecognized().records:,}",
                hides,
                dirty,
            )
        )
    headers = ["TOPIC", "TYPE", "PARTITIONS", "RECORDS", "SIZE", "SUPERSEDED", "TOMBSTONES", "NO KEY OF CONNECT"]
    out.table([*headers, "HIDDEN (ESTIMATED)", "DIRTY RATIO (ESTIMATED)"], rows)


def _kinds(found: StartupProfile, out: Output) -> None:
    kinds: dict[tuple[TopicType, str], Count] = {}
    for start in found.groups:
        for where, count in start.kinds.items():
            kinds.setdefault(where, Count()).merge(count)
    rows = [
        (
            topic_type.value,
            kind,
            f"{count.records:,}",
            _size(count.bytes),
            f"{count.live_keys:,}",
            _share(count),
            f"{count.live_tombstones:,}",
            f"{count.live_json_nulls:,}",
            _size(count.largest_key_bytes),
            _size(count.largest_record_bytes),
            None if count.largest_record_at is None else "{}@{}".format(*count.largest_record_at),
        )
        for (topic_type, kind), count in sorted(kinds.items(), key=lambda item: (item[0][0].value, item[0][1]))
    ]
    headers = ["TYPE", "KIND", "RECORDS", "SIZE", "LIVE KEYS", "SUPERSEDED", "TOMBSTONES", "JSON NULLS"]
    out.lines("")
    out.table([*headers, "LARGEST KEY", "LARGEST RECORD", "AT"], rows)


def _groups(found: StartupProfile, out: Output) -> None:
    rows = [_group_row(start) for start in found.groups[:MOST_GROUPS]]
    headers = ["GROUP", "RECORDS", "SIZE", "LIVE KEYS", "SUPERSEDED", "TOMBSTONES", "START", "BETWEEN", "ALONE"]
    every = total(topic.profile.total() for topic in found.topics.values())
    out.lines("", f"each start reads {every.records:,} records, {_size(every.bytes)}; superseded: {_share(every)}", "")
    out.table(headers, rows)
    if len(found.groups) > MOST_GROUPS:
        out.note(
            f"{len(found.groups) - MOST_GROUPS:,} groups with fewer bytes are not shown; --group shows one, "
            f"--output json has all"
        )


def _group_row(start: PredictedStart) -> Sequence[object]:
    count = start.count
    return (
        shown_group(start.group),
        f"{count.records:,}",
        _size(count.bytes),
        f"{count.live_keys:,}",
        _share(count),
        f"{count.live_tombstones:,}",
        _seconds(start.seconds),
        f"{_seconds(start.between[0])} - {_seconds(start.between[1])}",
        _seconds(start.alone_seconds),
    )


def _model(found: StartupProfile, out: Output) -> None:
    fitted = found.fitted
    when = (
        f"{datetime.fromtimestamp(fitted.measured_at_ms / 1000, UTC):%Y-%m-%d}"
        if fitted.measured_at_ms
        else "unknown date"
    )
    machine = ", ".join(
        f"{name} {value}" for name, value in fitted.machine.items() if name in ("processors", "architecture", "system")
    )
    text = (
        f"seconds by the cost model of {when} ({machine or 'unknown machine'}), right within {fitted.model.error:.0%}"
    )
    if found.model_name == SHIPPED_NAME:
        text += "; on another machine only ratios hold, --model uses your own benchmark"
    out.lines("", text)


def _share(count: Count) -> str:
    share = count.superseded_bytes / count.bytes if count.bytes else 0.0
    return f"{count.superseded_records:,} ({share:.0%})"


def _size(number: float) -> str:
    unit = 0
    while number >= 999.95 and unit < len(_UNITS) - 1:
        number /= 1000
        unit += 1
    return f"{number:.0f} {_UNITS[unit]}" if unit == 0 else f"{number:.1f} {_UNITS[unit]}"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{seconds:.2f} s"
