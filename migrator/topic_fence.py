"""The fence of the old side: settings of a config topic on which no worker starts, and a record on which ours refuse to.

The settings stop all workers, those of Java without the jar included. They are for a topic that nobody uses any more. The
record stops the one group under whose prefix it lies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from connect_share.contents.group_room import LONGEST_ID
from connect_share.errors import AuthorizationError, BrokerError, also_saying, listed
from connect_share.kafka.admin import Admin
from connect_share.kafka.create import FENCE, is_fenced
from connect_share.kafka.facts import admin_of, read_facts, read_records
from connect_share.kafka.write import write_records
from connect_share.model.config import moved_in, moved_record
from connect_share.model.config_state import Moved
from connect_share.model.keys import MARKER, ClusterGroupId, connector_of, prefix_of, split_key
from connect_share.model.records import Record, TopicType
from connect_share.model.removal import is_removal
from connect_share.sealing import TopicSeals
from connect_share.transform.rules import PLAIN_KEYS
from connect_share.worker_config import WorkerConfig, common_isolation
from migrator.copy.copy_job import marker
from migrator.plan import MigrationPlan, key_spaces
from migrator.run import MigrationRun, PlannedSource, SourceFence


def fences_of(plan: MigrationPlan, sources: Sequence[PlannedSource]) -> tuple[SourceFence, ...]:
    """Return what would fence the sources of a plan now; the brokers are asked to try it, and nothing is changed."""
    by_topic: dict[tuple[str | None, str], list[PlannedSource]] = {}
    for source in sources:
        at = source.plan.kafka_cluster_id, source.plan.topics[TopicType.CONFIG].topic
        by_topic.setdefault(at, []).append(source)
    found = []
    for (_, topic), there in by_topic.items():
        fence = _without_settings(plan, topic, there)
        if fence.objection is None:
            try:
                with admin_of(there[0].worker) as admin:
                    own = admin.own_topic_configs(topic)
                    admin.alter_topic_configs(topic, FENCE, validate_only=True)
                fence = fence.model_copy(update={"settings": {name: own.get(name) for name in FENCE}})
            except BrokerError as error:
                objection = str(error)
                if isinstance(error, AuthorizationError):
                    objection += "; a worker without DescribeConfigs looks at no settings, either"
                fence = fence.model_copy(update={"objection": objection, "is_refused": True})
        found.append(fence)
    return tuple(found)


def _without_settings(plan: MigrationPlan, topic: str, sources: Sequence[PlannedSource]) -> SourceFence:
    """Return which of the sources on a topic leave nothing there, and why the topic is still used; ``None``: it is not."""
    moved = key_spaces((each.plan.space, each.plan.only_connectors) for each in sources)
    connectors, fences = use_of(sources[0].worker, topic, moved)
    staying = {
        space for space, names in connectors.items() if (only := moved.get(space)) is not None and names - {"", *only}
    }
    others = sorted(PLAIN_KEYS if each is None else each for each in connectors.keys() - moved.keys() - fences.keys())
    objection = None
    if plan.in_place(sources[0].plan, TopicType.CONFIG):
        objection = "it is the config topic of the destination, too"
    elif staying:
        objection = "connectors stay there that are not moved"
    elif others:
        objection = f"other groups use it: {listed(others, 3)}"
    whole = tuple(each.index for each in sources if each.plan.space not in staying)
    return SourceFence(topic=topic, sources=whole, objection=objection)


def use_of(
    worker: WorkerConfig, topic: str, named: Collection[str | None] = ()
) -> tuple[dict[ClusterGroupId | None, set[str]], dict[ClusterGroupId | None, Moved]]:
    """Return by key space whose connectors live on a config topic, and what the record says that fences a space.

    Connectors have their names in the spaces that are ``named``. The value of another group that is sealed lives, whatever
    it says. Of keys the hashes are kept, of spaces one text each: anyone who may write can invent a million long ones.
    """
    living: dict[int, tuple[ClusterGroupId | None, str]] = {}
    spaces: dict[ClusterGroupId | None, ClusterGroupId | None] = {}
    fences: dict[ClusterGroupId | None, Moved] = {}
    seals = worker.seals(TopicType.CONFIG)
    for record in _all_records(worker, topic):
        parts = split_key(TopicType.CONFIG, record.key)
        if parts is None or len(parts[0] or "") > LONGEST_ID:
            continue
        space, original = spaces.setdefault(parts[0], parts[0]), parts[1]
        at = hash(record.key)
        living.pop(at, None)
        if original == MARKER[0]:
            if (opened := seals.accepted(record)) is not None:
                fences.pop(space, None)
                if (found := moved_in(opened.value)) is not None:
                    fences[space] = found
        elif not is_removal(TopicType.CONFIG, record.value):
            name = connector_of(TopicType.CONFIG, original) if space in named else None
            living[at] = space, name or ""
    connectors: dict[ClusterGroupId | None, set[str]] = {}
    for space, connector in living.values():
        connectors.setdefault(space, set()).add(connector)
    return connectors, fences


def _all_records(worker: WorkerConfig, topic: str) -> Iterable[Record]:
    with admin_of(worker) as admin:
        facts = read_facts(admin, {topic}, expected=True)
    ranges = [part for each in facts.values() for part in each.ranges()]
    return read_records(worker, ranges, common_isolation(TopicType.CONFIG))


def seals_after(worker: WorkerConfig, topic_type: TopicType) -> TopicSeals:
    """Return what seals a group's values, where they are sealed, later than what its topic holds now."""
    seals = worker.seals(topic_type)
    if worker.keys_in_use is not None:
        for record in _all_records(worker, worker.topic(topic_type)):
            seals.open(record)
    return seals


def change_fence(
    workers: Sequence[WorkerConfig],
    sides: Iterable[tuple[int, bytes]],
    topic: str,
    moved: Moved,
    *,
    up: bool,
    again: str = "the same command",
) -> None:
    """Put a fence up, or put back what it has replaced; may be repeated, by the command ``again``.

    ``sides``: for each group its worker's place among ``workers``, and its prefix.
    """
    records = []
    for index, prefix in sides:
        record = marker(topic, prefix)
        record = replace(record, value=moved_record(moved)[1]) if up else record
        seals = seals_after(workers[index], TopicType.CONFIG)
        records.append((index, replace(record, value=seals.seal(record.key or b"", record.value))))
    with also_saying(f"What comes before the fence is done, and {again} completes it"):
        write_records(workers, records, nothing="The record of the fence was not written")
        if moved.settings and records:
            with admin_of(workers[records[0][0]]) as admin:
                admin.alter_topic_configs(topic, FENCE if up else moved.settings)


def fence_sources(run: MigrationRun, *, up: bool) -> None:
    """Put up what the manifest says, or lift it; a manifest of before has nothing."""
    for each in run.applied().fences:
        sides = ((index, prefix_of(run.plan.sources[index].space)) for index in each.sources)
        moved = Moved(run.plan_path.name, run.plan.run_id, each.settings)
        change_fence(run.workers, sides, each.topic, moved, up=up)


def fence_destination(run: MigrationRun, *, up: bool) -> None:
    """Lift what an earlier move has fenced the destination with, or put it up again."""
    planned = run.plan.destination.topics[TopicType.CONFIG]
    if planned.fence is not None:
        sides = enumerate(source.transform(TopicType.CONFIG).prefix for source in run.plan.sources)
        again = "the same command" if up else run.command("resume")
        change_fence(run.destinations, sides, planned.topic, planned.fence, up=up, again=again)


def fence_at(admin: Admin, worker: WorkerConfig, fences: Mapping[ClusterGroupId | None, Moved]) -> Moved | None:
    """Return what fences the config topic of a destination, ``None``: nothing. Its settings are those to put back.

    A record under another group's prefix may be what says which settings there were.
    """
    if not is_fenced(admin.topic_configs(worker.topic(TopicType.CONFIG))):
        own = fences.get(worker.cluster_group_id)
        return None if own is None else replace(own, settings={})
    unknown = Moved("another plan", "-", {**dict.fromkeys(FENCE), "cleanup.policy": "compact"})
    return next((each for each in fences.values() if each.settings), unknown)
