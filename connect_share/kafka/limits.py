"""What a topic refuses by its settings."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from connect_share.kafka.create import number_of
from connect_share.model.removal import OLDEST_MS

FOREVER_MS: Final = (1 << 63) - 1
_MARGIN_MS: Final = 600_000
"""For clocks that differ, and for the time until a record is at its broker."""


def age_limit(settings: Mapping[str, str]) -> tuple[str, int]:
    """Return the setting that limits how old the records of a topic may be when they are written, and to how much."""
    # Up to 3.5 there is the old name alone, up to 3.9 both; it counts where the new one does not limit.
    names = ("message.timestamp.before.max.ms", "message.timestamp.difference.max.ms")
    stamps = settings.get("message.timestamp.type") == "LogAppendTime"
    limits = ((name, FOREVER_MS if stamps else number_of(settings, name) or FOREVER_MS) for name in names)
    return next((limit for limit in limits if limit[1] < FOREVER_MS), (names[0], FOREVER_MS))


def oldest_ms(settings: Mapping[str, str]) -> int:
    """Return the oldest time that a topic takes."""
    limit = age_limit(settings)[1]
    return max(OLDEST_MS, int(time.time() * 1000) - limit + min(limit // 2, _MARGIN_MS))
