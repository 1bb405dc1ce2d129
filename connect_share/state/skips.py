"""Why a record did not change a state."""

from __future__ import annotations

import enum


class SkipKind(enum.Enum):
    """Reason for which a fold passed a record over; folds count them in ``skipped``."""

    FOREIGN = "foreign"
    """Key of another cluster group, of the plain cluster, or of no Connect cluster (sharing on)."""
    NULL_KEY = "null key"
    BAD_KEY = "bad key"
    """Own key that Connect's rules cannot read."""
    BAD_VALUE = "bad value"
    """Own key, but the value is not what belongs there."""
    UNKNOWN_CONNECTOR = "unknown connector"
    """A commit for a connector that is not there (any more)."""
    STALE = "stale"
    """A status that a newer one, or a removal, has overtaken."""
    REFUSED = "refused"
    """Own key, but the value is not one that the group has sealed; never reaches a fold."""
