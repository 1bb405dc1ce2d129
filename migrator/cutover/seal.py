"""Sealing and unsealing as steps of their own: after a cut-over that was forgotten, or to seal in another way."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from connect_share.admin import Admin
from migrator.apply.apply import load_manifest
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
from migrator.facts.readiness import Ready, check_all, only_one, same_members
from migrator.progress import Progress, Silent
from migrator.verify.new_writes import describe_written, written_since

_SEALED_IN_TURN = (MigrationStatus.COPIED, MigrationStatus.VERIFIED, MigrationStatus.CUT_OVER)


def preview_seal(plan_path: Path, how: Way | None = None, progress: Progress | None = None) -> CutoverPreview:
    """Return what :func:`seal_plan` would do; writes nothing.

    Raises:
        ConnectShareError: as :func:`seal_plan`.
    """
    plan_path = Path(plan_path)
    ready, manifest, how = _ready_to_seal(plan_path, how, progress or Silent())
    ids = tuple(id_ for _, id_ in _not_fenced(ready, manifest))
    same = frozenset(ready.plan.sources[index].group_id for index in _same(ready))
    return CutoverPreview(live_workers(ready), how, preview(ready, manifest, how), ids, same)


def seal_plan(plan_path: Path, how: Way | None = None, progress: Progress | None = None) -> CutoverResult:
    """Seal the source of a plan whose cut-over has been, or was forgotten; new workers may be running. May be repeated.

    After a cut-over that was forgotten the old producers are fenced too, unless the new ones have their transactional
    ids and have fenced them.

    Args:
        plan_path: the plan file.
        how: to seal; ``None`` as the cut-over would.
        progress: learns how far it is.

    Raises:
        LiveMembersError: workers of a source are alive, where Kafka can tell them from new ones.
        AlreadyAppliedError: the originals were removed before, or the plan was not copied or was rolled back.
        PlanRejectedError: it is the cut-over's turn, or there is no backup of what would be removed.
        BrokerError: the cluster refused.
    """
    plan_path, progress = Path(plan_path), progress or Silent()
    with only_one(plan_path):
        ready, manifest, how = _ready_to_seal(plan_path, how, progress)
        _require_stopped(ready, except_for=_same(ready))
        fenced = fence(ready, _not_fenced(ready, manifest), progress)
        return CutoverResult(seal(ready, manifest, how, progress), None, fenced)


def _ready_to_seal(plan_path: Path, how: Way | None, progress: Progress) -> tuple[Ready, Manifest, Way]:
    manifest = load_manifest(plan_path)
    if manifest.status not in _SEALED_IN_TURN:
        raise AlreadyAppliedError(f"run {manifest.run_id} is {manifest.status.value}: there is nothing to seal")
    if manifest.sealed is not None and manifest.sealed.how == "remove" and how == "stop":
        raise AlreadyAppliedError("the originals were removed: nothing is left to be stopped")
    ready = check_all(
        plan_path, progress, create=False, resume=manifest, source_may_change=True, new_workers_may_live=True
    )
    if how is None:
        how = default_how(ready.plan) if manifest.sealed is None else manifest.sealed.how
    if how == "remove":
        require_backed_up(manifest)
    if manifest.status is not MigrationStatus.CUT_OVER and not _is_used(ready, manifest):
        raise PlanRejectedError(
            f"no new worker has written since the copy: connect-share-migrate cutover {plan_path} copies what is left, "
            "verifies, fences and seals"
        )
    return ready, manifest, how


def _is_used(ready: Ready, manifest: Manifest) -> bool:
    return bool(written_since(ready.plan, manifest, ready.workers, ready.destinations[0]))


def _not_fenced(ready: Ready, manifest: Manifest) -> list[tuple[int, str]]:
    """Return the ids of old producers that are not fenced yet; those that new ones have too were fenced by these."""
    if manifest.status is MigrationStatus.CUT_OVER:
        return []
    same = _same(ready)
    return [(index, id_) for index, id_ in transactional_ids(ready, manifest) if index not in same]


def _same(ready: Ready) -> set[int]:
    """Return the sources whose workers Kafka cannot tell from new ones."""
    pairs = enumerate(zip(ready.plan.sources, ready.destinations, strict=True))
    return {index for index, (source, worker) in pairs if same_members(ready.plan, source, worker)}


def _require_stopped(ready: Ready, except_for: Collection[int] = ()) -> None:
    for index, (source, worker) in enumerate(zip(ready.plan.sources, ready.workers, strict=True)):
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
    plan_path: Path, *, dry_run: bool = False, although_used: bool = False, progress: Progress | None = None
) -> Unsealing:
    """Put the target states back that a seal by ``stop`` has replaced; the copies stay. May be repeated.

    Args:
        plan_path: the plan file.
        dry_run: look at what would be done and write nothing.
        although_used: go on although new workers have written.
        progress: learns how far it is.

    Raises:
        LiveMembersError: workers of the source or of the destination are alive.
        AlreadyAppliedError: the source is not sealed.
        PlanRejectedError: the originals were removed, or new workers have written.
        BrokerError: the cluster refused.
    """
    plan_path = Path(plan_path)
    with only_one(plan_path):
        manifest = load_manifest(plan_path)
        if manifest.sealed is None:
            raise AlreadyAppliedError(f"the source of {plan_path} is not sealed: there is nothing to put back")
        ready = check_all(plan_path, progress or Silent(), create=False, resume=manifest, source_may_change=True)
        if manifest.sealed.how == "remove":
            raise PlanRejectedError(f"the originals were removed; {how_to_restore(ready, manifest)}")
        _require_stopped(ready)
        written = written_since(ready.plan, manifest, ready.workers, ready.destinations[0])
        found = Unsealing(len(unseal_records(ready, manifest)), describe_written(written) if written else None)
        if found.used and not (dry_run or although_used):
            raise PlanRejectedError(
                f"new workers have written since: {found.used}. The old ones do not know what was done and would do it "
                "again; --although-used unseals all the same"
            )
        if not dry_run:
            unseal(ready, manifest)
            manifest.model_copy(update={"sealed": None, "status": MigrationStatus.COPIED}).save(ready.manifest_path)
        return found
