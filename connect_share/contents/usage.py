"""What each group takes and costs, and how it is measured: what was counted, what was written lately, and who is alive.

Every worker of every group receives every record, so what brokers send grows with groups times writes: with the square of
the groups. A start reads everything, so it grows with the groups. ``docs/how-many-groups.md``; the costs beside a start are
those that ``tests.lab.benchmarks.steady_state`` measured.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

from connect_share.console.options import Group, group_order
from connect_share.contents.cost_model import CostModel, StartSize
from connect_share.contents.profile import Count, TopicProfile, total
from connect_share.contents.startup import CountPlan
from connect_share.contents.workers import live_worker_ids, not_seen
from connect_share.errors import BrokerError
from connect_share.kafka.admin import Admin
from connect_share.kafka.read import console_admin
from connect_share.model.records import TopicType, now_ms

FRAME_BYTES: Final = 145
"""Around a record that a broker sends by itself: its batch and the answer to the fetch. Fewer where records come together."""

_WORKER_CPU: Final = ((0.0, 0.0), (100.0, 0.019), (1_000.0, 0.174), (2_000.0, 0.26))
"""Foreign records a second, and the share of a processor that a Java worker with the jar needs for them.

Where many come in a second, each costs less.
"""


def sent_bytes(records: float, payload_bytes: float) -> float:
    """Return the bytes that a broker sends to one worker for records whose keys and values have ``payload_bytes``."""
    return payload_bytes + FRAME_BYTES * records


def worker_cpu_share(records_per_s: float) -> float:
    """Return the share of a processor that a Java worker needs for so many foreign records: 0.1 is a tenth.

    Beyond what was measured each further record costs what the last ones did.
    """
    steps = list(pairwise(_WORKER_CPU))
    (low, share), (high, next_share) = next((step for step in steps if records_per_s <= step[1][0]), steps[-1])
    return share + (records_per_s - low) * (next_share - share) / (high - low)


FACTORS: Final = (1, 2, 5, 10)
DEFAULT_EGRESS_BYTES: Final = 50_000_000
DEFAULT_START_S: Final = 10.0
_MOST_FACTOR: Final = 1_000_000


@dataclass(frozen=True)
class Recent:
    """What was written to one topic in the last while.

    Attributes:
        offsets: that the partitions grew by, also for what compaction has removed since.
        records, bytes: by group, of those records that are still there.
    """

    offsets: int
    records: Mapping[Group, int]
    bytes: Mapping[Group, int]

    @cached_property
    def _left(self) -> int:
        return sum(self.records.values())

    def share(self, group: Group) -> tuple[float, float]:
        """Return records and bytes that the group has written: it has its share of what is gone again."""
        if not self._left:
            return 0.0, 0.0
        grown = max(1.0, self.offsets / self._left)
        return self.records.get(group, 0) * grown, self.bytes.get(group, 0) * grown


@dataclass(frozen=True)
class GroupUsage:
    """One group on the three topics.

    Attributes:
        share: of the bytes of all groups, 0 to 1.
        records_per_s, bytes_per_s: written by it lately.
        sent_to_others_per_s: bytes that brokers send to workers of other groups for it; ``None``: their number is not known.
        start_s_of_others: by how much its records make a start of every other group longer.
        members: live workers; ``None``: not known.
    """

    group: Group
    count: Count
    share: float
    records_per_s: float
    bytes_per_s: float
    sent_to_others_per_s: float | None
    start_s_of_others: float
    members: int | None

    def members_of_row(self) -> dict[str, Any]:
        """Return the figures for JSON and CSV."""
        return {name: figure(self) for name, figure in COLUMNS.items()}


COLUMNS: Final[Mapping[str, Callable[[GroupUsage], Any]]] = {
    "group": lambda each: each.group,
    "records": lambda each: each.count.records,
    "bytes": lambda each: each.count.bytes,
    "share": lambda each: round(each.share, 4),
    "superseded_records": lambda each: each.count.superseded_records,
    "live_keys": lambda each: each.count.live_keys,
    "largest_record_bytes": lambda each: each.count.largest_record_bytes,
    "records_per_second": lambda each: round(each.records_per_s, 4),
    "bytes_per_second": lambda each: round(each.bytes_per_s, 2),
    "workers": lambda each: each.members,
    "sent_to_others_bytes_per_second": lambda each: _rounded(each.sent_to_others_per_s),
    "start_seconds_of_others": lambda each: round(each.start_s_of_others, 6),
}


@dataclass(frozen=True)
class Projection:
    """The same set with more groups like these.

    Attributes:
        start_s: predicted start of one that is as large as the mean.
        received_per_s: records that every worker receives.
        worker_cpu_share: of a processor, that a Java worker needs to receive them.
        egress_bytes_per_s: what brokers send to all workers; ``None``: the number of workers is not known.
    """

    groups: int
    start_s: float
    received_per_s: float
    worker_cpu_share: float
    egress_bytes_per_s: float | None

    def members(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        return {
            "groups": self.groups,
            "start_seconds": round(self.start_s, 4),
            "records_per_second_received_by_each_worker": round(self.received_per_s, 3),
            "worker_cpu_share": round(self.worker_cpu_share, 4),
            "egress_bytes_per_second": _rounded(self.egress_bytes_per_s),
        }


@dataclass(frozen=True)
class UsageLimits:
    """What is still fine: seconds of a start, and bytes a second that brokers send for these topics."""

    start_s: float = DEFAULT_START_S
    egress_bytes_per_s: float = DEFAULT_EGRESS_BYTES


@dataclass(frozen=True)
class Usage:
    """All groups of a set of topics.

    Attributes:
        most_groups: that stay within the limits; ``None``: there is no group to judge by.
        limited_by: ``start`` or ``egress``.
        workers: all live ones; ``None``: not known.
    """

    groups: Sequence[GroupUsage]
    projections: Sequence[Projection]
    most_groups: int | None
    limited_by: str | None
    workers: int | None
    limits: UsageLimits


def usage_of(
    topics: Mapping[TopicType, TopicProfile],
    recent: Mapping[TopicType, Recent],
    members: Mapping[str, int],
    model: CostModel,
    *,
    window_s: float,
    limits: UsageLimits | None = None,
) -> Usage:
    """Return the usage of all groups.

    ``recent`` is what was written in the last ``window_s`` seconds; ``members`` has each group whose workers may be seen.
    """
    limits = limits or UsageLimits()
    counts: dict[Group, list[Count]] = {}
    for profile in topics.values():
        for (group, _), count in profile.counts().items():
            counts.setdefault(group, []).append(count)
    # Those that were removed are gone, though their removals are read for ever.
    by_group = {group: count for group, found in counts.items() if (count := total(found)).live_keys}
    all_bytes = sum(count.bytes for count in by_group.values())
    live = [members.get(group) for group in by_group if group is not None]
    workers = sum(filter(None, live)) if live and None not in live else None
    found = []
    for group, count in by_group.items():
        written = [each.share(group) for each in recent.values()]
        records_per_s, bytes_per_s = (sum(part[at] for part in written) / window_s for at in (0, 1))
        own = members.get(group or "")
        found.append(
            GroupUsage(
                group,
                count,
                count.bytes / all_bytes if all_bytes else 0.0,
                records_per_s,
                bytes_per_s,
                None if workers is None else sent_bytes(records_per_s, bytes_per_s) * (workers - (own or 0)),
                count.records * model.per_record_s + count.bytes * model.per_byte_s,
                own,
            )
        )
    found.sort(key=lambda each: (-each.count.bytes, group_order(each.group)))
    plan = _Plan(found, total(profile.total() for profile in topics.values()), workers, model)
    most, limited_by = plan.most(limits)
    projections = [plan.at(factor) for factor in FACTORS] if found else []
    return Usage(found, projections, most, limited_by, workers, limits)


class _Plan:
    """The set, with all its groups several times."""

    def __init__(self, groups: Sequence[GroupUsage], everything: Count, workers: int | None, model: CostModel) -> None:
        self._groups = len(groups)
        self._everything = everything
        self._own = round(sum(each.count.records for each in groups) / max(1, len(groups)))
        self._records_per_s = sum(each.records_per_s for each in groups)
        self._bytes_per_s = sum(each.bytes_per_s for each in groups)
        self._workers = workers
        self._model = model

    def at(self, factor: float) -> Projection:
        size = StartSize(
            records=round(self._everything.records * factor),
            bytes=round(self._everything.bytes * factor),
            own_records=self._own,
        )
        received_per_s, sent_per_s = self._records_per_s * factor, sent_bytes(self._records_per_s, self._bytes_per_s)
        return Projection(
            round(self._groups * factor),
            self._model.seconds(size),
            received_per_s,
            worker_cpu_share(received_per_s),
            None if self._workers is None else sent_per_s * self._workers * factor**2,
        )

    def most(self, limits: UsageLimits) -> tuple[int | None, str | None]:
        """Return how many groups stay within the limits, and which limit is met first."""
        if not self._groups:
            return None, None

        def beyond(groups: int) -> str | None:
            at = self.at(groups / self._groups)
            if at.start_s > limits.start_s:
                return "start"
            return "egress" if (at.egress_bytes_per_s or 0.0) > limits.egress_bytes_per_s else None

        few = bisect_left(range(1, self._groups * _MOST_FACTOR), True, key=lambda groups: beyond(groups) is not None)
        return few, beyond(few + 1)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def usage_members(found: Usage) -> dict[str, Any]:
    """Return everything for JSON."""
    return {
        "groups": [each.members_of_row() for each in found.groups],
        "workers": found.workers,
        "projections": [each.members() for each in found.projections],
        "most_groups": found.most_groups,
        "limited_by": found.limited_by,
        "limits": {"start_seconds": found.limits.start_s, "egress_bytes_per_second": found.limits.egress_bytes_per_s},
    }


DEFAULT_WINDOW_S: Final = 3_600.0


def measured_usage(
    plan: CountPlan,
    topics: Mapping[TopicType, TopicProfile],
    model: CostModel,
    *,
    window_s: float = DEFAULT_WINDOW_S,
    limits: UsageLimits | None = None,
    note: Callable[[str], object],
) -> Usage:
    """Return the usage of all groups of topics that were counted; ``note`` gets what could not be learnt."""
    since_ms = now_ms() - round(window_s * 1000)
    with console_admin(plan.topic_set) as admin:
        recent = {topic_type: _recent(admin, plan, topic_type, since_ms) for topic_type in TopicType}
        members: dict[str, int] = {}
        try:
            groups = {str(group) for profile in topics.values() for group, _ in profile.counts() if group is not None}
            members = {group: len(live) for group, live in live_worker_ids(admin, groups).items()}
            for text in not_seen(groups - members.keys()):
                note(text)
        except BrokerError as error:
            note(f"how many workers are alive is not known: {error}")
    return usage_of(topics, recent, members, model, window_s=window_s, limits=limits)


def _recent(admin: Admin, plan: CountPlan, topic_type: TopicType, since_ms: int) -> Recent:
    """Read what was written since a time, once more: it is a small part of the topic."""
    ranges = plan.topics[topic_type].ranges
    begins = admin.offsets_at([(each.topic, each.partition) for each in ranges], since_ms)
    late = [each._replace(start=max(each.start, begins.get(each[:2], each.end))) for each in ranges]
    (job,) = plan.jobs(topic_type)
    records: Counter[Group] = Counter()
    size: Counter[Group] = Counter()
    for (group, _), count in plan.profiled(topic_type, replace(job, ranges=late).run()).counts().items():
        records[group] += count.records
        size[group] += count.bytes
    return Recent(sum(max(0, each.end - each.start) for each in late), records, size)
