"""Errors of a migration: the branch ``MigrationError`` of the tree in ``connect_share.errors``.

::

    ConnectShareError
    └─ MigrationError
       ├─ PlanRejectedError              the plan cannot be carried out safely; nothing was written
       │  ├─ DestinationNotEmptyError    the destination already holds records of the group
       │  └─ SourceChangedError          the source is no longer what was planned
       ├─ RestoreRejectedError           it is not clear what is to be restored; nothing was written
       ├─ PlanFileError                  a plan or manifest cannot be read or written
       ├─ AlreadyAppliedError            an earlier ``apply`` of this plan wrote to the destination
       ├─ CopyError                      what was written is not what was read
       │  └─ UnacknowledgedError         acknowledgements stay away: what was written is not known
       └─ CutoverError                   the cut-over stopped before the source was fenced and sealed
          └─ DestinationUsedError        new workers have written at the destination since the copy
"""

from __future__ import annotations

from connect_share.errors import ConnectShareError


class MigrationError(ConnectShareError):
    """A migration cannot go on."""


class PlanRejectedError(MigrationError):
    """The move cannot be done safely as it stands; nothing was written."""


class DestinationNotEmptyError(PlanRejectedError):
    """The destination already holds records of the group that is to be moved there."""


class SourceChangedError(PlanRejectedError):
    """The source has other records than when the plan was made."""


class RestoreRejectedError(MigrationError):
    """What is to be restored is not clear, or not there; nothing was written."""


class PlanFileError(MigrationError):
    """A plan or manifest file is missing, damaged, of an unknown format, or cannot be written."""


class AlreadyAppliedError(MigrationError):
    """An earlier run of this plan wrote to the destination, wholly or in part."""


class CopyError(MigrationError):
    """A slice was not copied whole; the destination holds a part of it."""


class UnacknowledgedError(CopyError):
    """Acknowledgements stay away, so what the destination has is not known; engines ask it and go on."""


class CutoverError(MigrationError):
    """Both sides are not equal, or the source does not stand still; nothing was fenced or sealed."""


class DestinationUsedError(CutoverError):
    """New workers have written at the destination since the copy: the old ones must not be started, nothing was copied."""
