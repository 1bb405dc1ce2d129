"""The cut-over: copies what is left, compares both sides, fences and seals the old side, in that order."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connect_share.errors import AlreadyAppliedError, CutoverError
from connect_share.files import Progress, Silent
from connect_share.kafka.client import Deadline
from migrator.apply import Follower, request_path, require_may_follow
from migrator.checks import check_all
from migrator.moved_source import fence, moved_sources
from migrator.run import Manifest, MigrationRun, MigrationStatus, only_one
from migrator.seal_records import How, SealPreview, default_how, end_cutover, preview, require_backed_up, seal
from migrator.verify.new_writes import require_unused
from migrator.verify.verification import Verification, VerifyEngine, compare_sides

TIMEOUT_S: Final = 120.0
_RETRY_S: Final = 0.2


@dataclass(frozen=True)
class CutoverPreview:
    """The effect of a cut-over or of a seal.

    Attributes:
        live_workers: per source group how many are alive; all have to be stopped first.
        how: of sealing.
        seal: what sealing would write.
        transactional_ids: that would be fenced.
        same_members: source groups whose live workers may be new ones; only for a seal alone.
    """

    live_workers: dict[str, int]
    how: How
    seal: SealPreview
    transactional_ids: tuple[str, ...]
    same_members: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CutoverResult:
    """What was done; without a verification after a cut-over that was killed while it sealed, and after a seal alone."""

    manifest: Manifest
    verification: Verification | None
    fenced: int


def preview_cutover(run: MigrationRun, how: How | None = None, progress: Progress | None = None) -> CutoverPreview:
    """Return what a cut-over would do; writes nothing, and does not disturb a run that follows.

    Raises:
        ConnectShareError: as :func:`cut_over`.
    """
    require_may_follow(run.applied())
    require_unused(run)
    _check(run, progress or Silent())
    how, sources = how or default_how(run.plan), moved_sources(run)
    live = {source.plan.group_id: source.live_workers() for source in sources}
    ids = tuple(id_ for source in sources for id_ in source.transactional_ids())
    return CutoverPreview(live, how, preview(run, how), ids)


def cut_over(
    run: MigrationRun,
    *,
    how: How | None = None,
    timeout_s: float = TIMEOUT_S,
    engine: VerifyEngine | None = None,
    progress: Progress | None = None,
) -> CutoverResult:
    """Cut over a plan that was applied; all workers of the sources have to be stopped. May be repeated.

    Args:
        run: the plan, not locked: a process that follows it may have locked it.
        how: to seal the source; ``None``: as :func:`default_how`.
        timeout_s: limit for taking over from a run that follows, and for copying what is left.
        engine: of the verification.
        progress: of all steps.

    Raises:
        LiveMembersError: workers of a source are alive.
        DestinationUsedError: new workers have written since the copy; nothing was copied.
        CutoverError: it did not catch up in time, or both sides differ; nothing was fenced or sealed.
        ConnectShareError: as :func:`migrator.apply.apply_plan`.
    """
    progress = progress or Silent()
    deadline = Deadline.after(timeout_s)
    _require_possible(run, how)
    with _taken_over(run.plan_path, deadline):
        sealed = run.reload_manifest().sealed
        require_may_follow(run.applied())
        _check(run, progress)
        _require_stopped(run)
        verification = None
        if sealed is None:
            progress.phase("copying what is left", 0)
            _catch_up(run, Follower(run), deadline)
            verification = compare_sides(run, engine=engine, progress=progress)
            if not verification.equal:
                again = "; apply --follow continues" if run.plan.follow else ""
                raise CutoverError(
                    f"{len(verification.differences)} difference(s) between both sides: connect-share-migrate verify "
                    f"{run.plan_path} shows them; nothing was fenced or sealed, the old workers may be started "
                    f"again{again}"
                )
            run.update(status=MigrationStatus.VERIFIED)
        # A cut-over that was killed while it sealed is sealed in the same way: both sides were equal then.
        how = (how or default_how(run.plan)) if sealed is None else sealed.how
        _require_stopped(run)
        fenced = fence(moved_sources(run), progress)
        manifest = end_cutover(run, None) if how == "none" else seal(run, how, progress)
        return CutoverResult(manifest, verification, fenced)


def _check(run: MigrationRun, progress: Progress) -> None:
    # What a seal has written to the source is no growth of it.
    check_all(run, progress, source_may_change=run.applied().sealed is not None)


def _require_stopped(run: MigrationRun) -> None:
    for source in moved_sources(run):
        source.require_stopped()


def _require_possible(run: MigrationRun, how: How | None) -> None:
    """Check what can be checked before a run that follows is asked to end."""
    manifest = run.reload_manifest()
    require_may_follow(manifest)
    require_unused(run)
    _require_stopped(run)
    if (how or default_how(run.plan)) == "remove":
        require_backed_up(manifest)


@contextmanager
def _taken_over(plan_path: Path, deadline: Deadline) -> Iterator[None]:
    request = request_path(plan_path)
    try:
        with contextlib.ExitStack() as held:
            while True:
                request.touch(mode=0o600)  # each time: a run that begins to follow removes an old request
                try:
                    held.enter_context(only_one(plan_path))
                    break
                except AlreadyAppliedError:
                    if not deadline.remaining_s():
                        raise
                    time.sleep(_RETRY_S)
            request.unlink(missing_ok=True)
            yield
    finally:
        request.unlink(missing_ok=True)


def _catch_up(run: MigrationRun, follower: Follower, deadline: Deadline) -> None:
    """Copy until nothing is behind, with no transaction open in front of an end."""
    # Other groups keep writing to a shared topic. The source has caught up when a whole round finds nothing of it.
    written = -1
    while (now := follower.round().written) != written:
        written = now
        if not deadline.remaining_s():
            raise CutoverError(
                "the source still grows although its workers are stopped: find out who writes to it; nothing was "
                "fenced or sealed"
            )
    for source in moved_sources(run):
        source.require_no_open_transaction(deadline.remaining_s())
    follower.round()  # what those transactions have committed
