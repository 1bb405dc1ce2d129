"""Sealing and unsealing as steps of their own: after a cut-over that was forgotten, or to seal in another way."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from connect_share.admin import Admin
from migrator.cutover.cutover import CutoverPreview, CutoverResult, fence, live_workers, transactional_ids
from migrator.cutover.seal_records import (
    Way,
    default_how,
    how_to_restore,
    preview,
    require_backed_up,
    seal,
    unseal,
    unseal_records,
)
from migrator.errors import AlreadyAppliedError, PlanRejectedError
from migrator.facts.inspection import client_id_of, require_no_live_workers
from migrator.facts.manifest import Manifest, MigrationStatus
from migrator.facts.migration_run import MigrationRun
from migrator.facts.readiness import check_all, same_members
from migrator.progress import Progress, Silent
from migrator.verify.new_writes import describe_written, written_since

_SEALED_IN_TURN = (MigrationStatus.COPIED, MigrationStatus.VERIFIED, MigrationStatus.CUT_OVER)


def preview_seal(run: MigrationRun, how: Way | None = None, progress: Progress | None = None) -> CutoverPreview:
    """Return what :func:`seal_plan` would do; writes nothing.

    Raises:
        ConnectShareError: as :func:`seal_plan`.
    """
    manifest, how = _ready_to_seal(run, how, progress or Silent())
    ids = tuple(id_ for _, id_ in _not_fenced(run, manifest))
    same = frozenset(run.plan.sources[index].group_id for index in _same(run))
    return CutoverPreview(live_workers(run), how, preview(run, manifest, how), ids, same)


def seal_plan(run: MigrationRun, how: Way | None = None, progress: Progress | None = None) -> CutoverResult:
    """Seal the source of a plan whose cut-over has been, or was forgotten; new workers may be running. May be repeated.

    After a cut-over that was forgotten the old producers are fenced too, unless the new ones have their transactional
    ids and have fenced them.

    Args:
        run: the plan, locked.
        how: to seal; ``None`` as the cut-over would.
        progress: learns how far it is.

    Raises:
        LiveMembersError: workers of a source are alive, where Kafka can tell them from new ones.
        AlreadyAppliedError: the originals were removed before, or the plan was not copied or was rolled back.
        PlanRejectedError: it is the cut-over's turn, or there is no backup of what would be removed.
        BrokerError: the cluster refused.
    """
    progress = progress or Silent()
    manifest, how = _ready_to_seal(run, how, progress)
    _require_stopped(run, except_for=_same(run))
    fenced = fence(run, _not_fenced(run, manifest), progress)
    return CutoverResult(seal(run, manifest, how, progress), None, fenced)


def _ready_to_seal(run: MigrationRun, how: Way | None, progress: Progress) -> tuple[Manifest, Way]:
    manifest = run.applied()
    if manifest.status not in _SEALED_IN_TURN:
        raise AlreadyAppliedError(f"run {manifest.run_id} is {manifest.status.value}: there is nothing to seal")
    if manifest.sealed is not None and manifest.sealed.how == "remove" and how == "stop":
        raise AlreadyAppliedError("the originals were removed: nothing is left to be stopped")
    check_all(run, progress, source_may_change=True, new_workers_may_live=True)
    if how is None:
        how = default_how(run.plan) if manifest.sealed is None else manifest.sealed.how
    if how == "remove":
        require_backed_up(manifest)
    if manifest.status is not MigrationStatus.CUT_OVER and not written_since(run):
        raise PlanRejectedError(
            f"no new worker has written since the copy: connect-share-migrate cutover {run.plan_path} copies what is left, "
            "verifies, fences and seals"
        )
    return manifest, how


def _not_fenced(run: MigrationRun, manifest: Manifest) -> list[tuple[int, str]]:
    """Return the ids of old producers that are not fenced yet; those that new ones have too were fenced by these."""
    if manifest.status is MigrationStatus.CUT_OVER:
        return []
    same = _same(run)
    return [(index, id_) for index, id_ in transactional_ids(run, manifest) if index not in same]


def _same(run: MigrationRun) -> set[int]:
    """Return the sources whose workers Kafka cannot tell from new ones."""
    pairs = enumerate(zip(run.plan.sources, run.destinations, strict=True))
    return {index for index, (source, worker) in pairs if same_members(run.plan, source, worker)}


def _require_stopped(run: MigrationRun, except_for: Collection[int] = ()) -> None:
    for index, (source, worker) in enumerate(zip(run.plan.sources, run.workers, strict=True)):
        if index not in except_for:
            with Admin(worker.admin_settings(), client_id=client_id_of(worker)) as admin:
                require_no_live_workers(admin, source.group_id, side="source")


@dataclass(frozen=True)
class Unsealing:
    """What unsealing does.

    Attributes:
        connectors: that get their target state back.
        used: what new workers have written since, for people; ``None``: nothing.
    """

    connectors: int
    used: str | None


def unseal_plan(
    run: MigrationRun, *, dry_run: bool = False, although_used: bool = False, progress: Progress | None = None
) -> Unsealing:
    """Put the target states back that a seal by ``stop`` has replaced; the copies stay. May be repeated.

    Args:
        run: the plan, locked.
        dry_run: look at what would be done and write nothing.
        although_used: go on although new workers have written.
        progress: learns how far it is.

    Raises:
        LiveMembersError: workers of the source or of the destination are alive.
        AlreadyAppliedError: the source is not sealed.
        PlanRejectedError: the originals were removed, or new workers have written.
        BrokerError: the cluster refused.
    """
    manifest = run.applied()
    if manifest.sealed is None:
        raise AlreadyAppliedError(f"the source of {run.plan_path} is not sealed: there is nothing to put back")
    check_all(run, progress or Silent(), source_may_change=True)
    if manifest.sealed.how == "remove":
        raise PlanRejectedError(f"the originals were removed; {how_to_restore(run, manifest)}")
    _require_stopped(run)
    written = written_since(run)
    found = Unsealing(len(unseal_records(run, manifest)), describe_written(written) if written else None)
    if found.used and not (dry_run or although_used):
        raise PlanRejectedError(
            f"new workers have written since: {found.used}. The old ones do not know what was done and would do it "
            "again; --although-used unseals all the same"
        )
    if not dry_run:
        unseal(run, manifest)
        run.update(sealed=None, status=MigrationStatus.COPIED)
    return found
