"""The cut-over: what is left is copied, both sides are compared, the old side is fenced and sealed, in that order."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connect_share import client
from connect_share.admin import Admin
from connect_share.records import TopicType
from connect_share.state import replay_config
from migrator.apply.follow import Follower, request_path, require_may_follow
from migrator.cutover.seal_records import (
    How,
    SealPreview,
    default_how,
    ended,
    preview,
    require_backed_up,
    seal,
    source_records,
)
from migrator.errors import AlreadyAppliedError, CutoverError
from migrator.facts.inspection import client_id_of, read_facts, require_no_live_workers, require_no_open_transaction
from migrator.facts.manifest import Manifest
from migrator.facts.migration_run import MigrationRun, only_one
from migrator.facts.readiness import check_all
from migrator.plan.plan import SourceCluster
from migrator.progress import Progress, Silent
from migrator.verify.new_writes import require_unused
from migrator.verify.verification import Verification, VerifyEngine, verify_plan

TIMEOUT_S: Final = 120.0
_ASK_AGAIN_S: Final = 0.2


@dataclass(frozen=True)
class CutoverPreview:
    """What a cut-over would do.

    Attributes:
        live_workers: per source group how many are alive; all have to be stopped first.
        how: of sealing.
        seal: what sealing would write.
        transactional_ids: that would be fenced.
        same_members: source groups of which live workers may be new ones, of a seal alone.
    """

    live_workers: dict[str, int]
    how: How
    seal: SealPreview
    transactional_ids: tuple[str, ...]
    same_members: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CutoverResult:
    """What was done; no verification when a cut-over that was killed while it sealed is gone on with, or of a seal alone."""

    manifest: Manifest
    verification: Verification | None
    fenced: int


def preview_cutover(run: MigrationRun, how: How | None = None, progress: Progress | None = None) -> CutoverPreview:
    """Look at what a cut-over would do; writes nothing, and does not disturb a run that follows.

    Raises:
        ConnectShareError: as :func:`cut_over`.
    """
    manifest = run.applied()
    require_may_follow(manifest)
    require_unused(run)
    _check(run, manifest, progress or Silent())
    how = how or default_how(run.plan)
    ids = tuple(id_ for _, id_ in transactional_ids(run, manifest))
    return CutoverPreview(live_workers(run), how, preview(run, manifest, how), ids)


def cut_over(
    run: MigrationRun,
    *,
    how: How | None = None,
    timeout_s: float = TIMEOUT_S,
    engine: VerifyEngine | None = None,
    progress: Progress | None = None,
) -> CutoverResult:
    """Carry out the cut-over of a plan that was applied; all workers of the sources have to be stopped.

    Ends within ``timeout_s`` (verification apart, which takes as long as reading both sides does), or says what it
    waits for and may be repeated.

    Args:
        run: the plan, not locked: a process that follows it may hold it.
        how: to seal the source; ``None`` removes originals that lie beside their copies and stops connectors otherwise.
        timeout_s: limit for taking over from a run that follows, and for copying what is left.
        engine: of the verification.
        progress: told how far it is.

    Raises:
        LiveMembersError: workers of a source are alive.
        DestinationUsedError: new workers have written since the copy; nothing was copied.
        CutoverError: it did not catch up in time, or both sides differ; nothing was fenced or sealed.
        ConnectShareError: as :func:`migrator.apply.apply.apply_plan`.
    """
    progress = progress or Silent()
    deadline_s = time.monotonic() + timeout_s
    _require_its_time(run, how)
    with _taken_over(run.plan_path, deadline_s):
        manifest = run.reload_manifest()
        require_may_follow(manifest)
        _check(run, manifest, progress)
        _require_stopped(run)
        verification = None
        if manifest.sealed is None:
            progress.phase("copying what is left", 0)
            _catch_up(run, Follower(run), deadline_s)
            verification = verify_plan(run, engine=engine, progress=progress)
            if not verification.equal:
                again = ", apply --follow goes on" if run.plan.follow else ""
                raise CutoverError(
                    f"{len(verification.differences)} difference(s) between both sides: connect-share-migrate verify "
                    f"{run.plan_path} shows them; nothing was fenced or sealed, the old workers may be started "
                    f"again{again}"
                )
            manifest = run.applied()
            how = how or default_how(run.plan)
        else:
            how = manifest.sealed.how  # a cut-over that was killed while it sealed: both sides were equal then
        _require_stopped(run)
        fenced = fence(run, transactional_ids(run, manifest), progress)
        manifest = ended(run, manifest, None) if how == "none" else seal(run, manifest, how, progress)
        return CutoverResult(manifest, verification, fenced)


def _check(run: MigrationRun, manifest: Manifest, progress: Progress) -> None:
    # What a seal has written to the source is no growth of it.
    check_all(run, progress, source_may_change=manifest.sealed is not None)


def _require_its_time(run: MigrationRun, how: How | None) -> None:
    """Refuse what can be refused before a run that follows is asked to end.

    Raises:
        LiveMembersError: workers of a source are alive.
        DestinationUsedError: new workers have written since the copy.
        PlanRejectedError: there is no backup of what would be removed.
    """
    manifest = run.reload_manifest()
    require_may_follow(manifest)
    require_unused(run)
    _require_stopped(run)
    if (how or default_how(run.plan)) == "remove":
        require_backed_up(manifest)


@contextmanager
def _taken_over(plan_path: Path, deadline_s: float) -> Iterator[None]:
    """Hold the plan; ask a run that follows it to end."""
    request = request_path(plan_path)
    try:
        with contextlib.ExitStack() as held:
            while True:
                request.touch(mode=0o600)  # again and again: a run that begins to follow now takes it for an old one
                try:
                    held.enter_context(only_one(plan_path))
                    break
                except AlreadyAppliedError:
                    if time.monotonic() > deadline_s:
                        raise
                    time.sleep(_ASK_AGAIN_S)
            request.unlink(missing_ok=True)
            yield
    finally:
        request.unlink(missing_ok=True)


def _require_stopped(run: MigrationRun) -> None:
    for source, worker in zip(run.plan.sources, run.workers, strict=True):
        with Admin(worker.admin_settings(), client_id=client_id_of(worker)) as admin:
            require_no_live_workers(admin, source.group_id, side="source")


def live_workers(run: MigrationRun) -> dict[str, int]:
    """Return how many workers of each source's group are alive."""
    live = {}
    for source, worker in zip(run.plan.sources, run.workers, strict=True):
        with Admin(worker.admin_settings(), client_id=client_id_of(worker)) as admin:
            live[source.group_id] = admin.connect_groups().get(source.group_id, 0)
    return live


def fence(run: MigrationRun, ids: Sequence[tuple[int, str]], progress: Progress) -> int:
    """Fence old producers by the index of their source and their transactional id. Returns how many.

    Raises:
        BrokerError: the cluster refused.
    """
    progress.phase("fencing the old producers", len(ids))
    for source_index, transactional_id in ids:
        worker = run.workers[source_index]
        client.fence(worker.producer_settings(), transactional_id, client_id=client_id_of(worker))
        progress.advance(1)
    return len(ids)


def _catch_up(run: MigrationRun, follower: Follower, deadline_s: float) -> None:
    """Copy until nothing is behind, with no transaction open in front of an end."""
    # On a shared topic others go on writing; what counts is that a whole round finds nothing of this source.
    written = -1
    while (now := follower.round().written) != written:
        written = now
        if time.monotonic() > deadline_s:
            raise CutoverError(
                "the source still grows although its workers are stopped: find out who writes to it; nothing was "
                "fenced or sealed"
            )
    for source, worker in zip(run.plan.sources, run.workers, strict=True):
        with Admin(worker.admin_settings(), client_id=client_id_of(worker)) as admin:
            facts = read_facts(admin, {topic.topic for topic in source.topics.values()})
            for topic in source.topics.values():
                require_no_open_transaction(admin, facts[topic.topic], wait_s=max(0.0, deadline_s - time.monotonic()))
    follower.round()  # what those transactions have committed


def transactional_ids(run: MigrationRun, manifest: Manifest) -> list[tuple[int, str]]:
    """Return the transactional ids of the sources that use exactly-once: the leader's and those of tasks (KIP-618)."""
    found: list[tuple[int, str]] = []
    for index, source in enumerate(run.plan.sources):
        if run.workers[index].exactly_once_source_support != "disabled":
            found += [(index, text) for text in _ids_of(run, manifest, index, source)]
    return found


def _ids_of(run: MigrationRun, manifest: Manifest, index: int, source: SourceCluster) -> Iterator[str]:
    state = replay_config(
        source_records(manifest, index, source, TopicType.CONFIG, run.workers[index]),
        source.group_id if source.sharing else None,
    )
    if source.only_connectors is None:
        yield f"connect-cluster-{source.group_id}"
    for name in sorted(state.connectors()):
        if source.only_connectors is None or name in source.only_connectors:
            yield from (f"{source.group_id}-{task}" for task in state.tasks_to_fence(name))
