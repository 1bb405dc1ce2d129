"""Seal and unseal as steps of their own: after a cut-over that was forgotten, or to seal in another way."""

from __future__ import annotations

from dataclasses import dataclass

from connect_share.errors import AlreadyAppliedError, PlanRejectedError
from connect_share.files import Progress, Silent
from migrator.checks import check_all
from migrator.cutover import CutoverPreview, CutoverResult
from migrator.moved_source import MovedSource, fence, moved_sources
from migrator.run import MigrationRun, MigrationStatus
from migrator.seal_records import (
    Way,
    default_how,
    how_to_restore,
    preview,
    require_backed_up,
    seal,
    unseal,
    unseal_records,
)
from migrator.verify.new_writes import describe_written, written_since

_MAY_BE_SEALED = (MigrationStatus.COPIED, MigrationStatus.VERIFIED, MigrationStatus.CUT_OVER)


def preview_seal(run: MigrationRun, how: Way | None = None, progress: Progress | None = None) -> CutoverPreview:
    """Return what :func:`seal_plan` would do; writes nothing.

    Raises:
        ConnectShareError: as :func:`seal_plan`.
    """
    how, sources = _check_seal(run, how, progress or Silent()), moved_sources(run)
    same = frozenset(source.plan.group_id for source in sources if source.has_members_of_destination)
    live = {source.plan.group_id: source.live_workers() for source in sources}
    ids = tuple(id_ for source in _unfenced(run) for id_ in source.transactional_ids())
    return CutoverPreview(live, how, preview(run, how), ids, same)


def seal_plan(run: MigrationRun, how: Way | None = None, progress: Progress | None = None) -> CutoverResult:
    """Seal the source of a plan after its cut-over, even a forgotten one; new workers may run. May be repeated.

    After a cut-over that was forgotten the old producers are fenced too, unless the new ones have their transactional
    ids and have fenced them.

    Args:
        run: the plan, locked.
        how: to seal; ``None``: as before, else as :func:`default_how`.
        progress: of all steps.

    Raises:
        LiveMembersError: workers of a source are alive, where Kafka can tell them from new ones.
        AlreadyAppliedError: the originals were removed before, or the plan was not copied or was rolled back.
        PlanRejectedError: the cut-over has to be first, or there is no backup of what would be removed.
        BrokerError: the cluster refused.
    """
    progress = progress or Silent()
    how = _check_seal(run, how, progress)
    for source in moved_sources(run):
        if not source.has_members_of_destination:
            source.require_stopped()
    fenced = fence(_unfenced(run), progress)
    return CutoverResult(seal(run, how, progress), None, fenced)


def _check_seal(run: MigrationRun, how: Way | None, progress: Progress) -> Way:
    manifest = run.applied()
    if manifest.status not in _MAY_BE_SEALED:
        raise AlreadyAppliedError(f"run {manifest.run_id} is {manifest.status.value}: there is nothing to seal")
    if manifest.sealed is not None and manifest.sealed.how == "remove" and how == "stop":
        raise AlreadyAppliedError("the originals were removed: no connector is left to stop")
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
    return how


def _unfenced(run: MigrationRun) -> list[MovedSource]:
    """Return the sources whose old producers are not fenced yet; new producers have fenced those of the same id."""
    if run.applied().status is MigrationStatus.CUT_OVER:
        return []
    return [source for source in moved_sources(run) if not source.has_members_of_destination]


@dataclass(frozen=True)
class UnsealResult:
    """The effect of unsealing.

    Attributes:
        connectors: that get their target state back.
        used: what new workers have written since, for people; ``None``: nothing.
    """

    connectors: int
    used: str | None


def unseal_plan(
    run: MigrationRun, *, dry_run: bool = False, although_used: bool = False, progress: Progress | None = None
) -> UnsealResult:
    """Put the target states back that a seal by ``stop`` has replaced; the copies stay. May be repeated.

    Args:
        run: the plan, locked.
        dry_run: return what would be done and write nothing.
        although_used: unseal although new workers have written.
        progress: of the checks.

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
        raise PlanRejectedError(f"the originals were removed; {how_to_restore(run)}")
    for source in moved_sources(run):
        source.require_stopped()
    written = written_since(run)
    count = sum(len(unseal_records(run, source)) for source in moved_sources(run))
    found = UnsealResult(count, describe_written(written) if written else None)
    if found.used and not (dry_run or although_used):
        raise PlanRejectedError(
            f"new workers have written since: {found.used}. The old workers do not know of it and would do the same work "
            "again; --although-used unseals all the same"
        )
    if not dry_run:
        unseal(run)
        run.update(sealed=None, status=MigrationStatus.COPIED)
    return found
