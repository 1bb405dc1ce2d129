"""Errors of a migration: the branch ``MigrationError`` of the tree in ``connect_share.errors``."""

from __future__ import annotations

from connect_share.errors import ConnectShareError


class MigrationError(ConnectShareError):
    """A migration cannot continue."""


class PlanRejectedError(MigrationError):
    """The move cannot be done safely as it stands; nothing was written."""


class DestinationNotEmptyError(PlanRejectedError):
    """The destination already holds records of the group that is to be moved there."""


class SourceChangedError(PlanRejectedError):
    """The source has other records than when the plan was made."""


class RestoreRejectedError(MigrationError):
    """The request does not say clearly what is to be restored, or it is not there; nothing was written."""


class PlanFileError(MigrationError):
    """A plan or manifest file is missing, damaged, of an unknown format, or cannot be written."""


class AlreadyAppliedError(MigrationError):
    """An earlier run of this plan wrote to the destination, wholly or in part."""


class CopyError(MigrationError):
    """A slice was not copied whole; the destination holds a part of it."""


class UnacknowledgedError(CopyError):
    """Acknowledgements are missing. Engines ask the destination what it has, and continue from there."""


class CutoverError(MigrationError):
    """Both sides are not equal, or the source still grows; nothing was fenced or sealed."""


class DestinationUsedError(CutoverError):
    """New workers have written at the destination since the copy: the old ones must not be started."""
