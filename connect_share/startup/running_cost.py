"""What records of other groups cost while workers run, as ``tests.lab.benchmarks.steady_state`` measured it. Pure."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

FRAME_BYTES: Final = 145
"""Around a record that a broker sends by itself: its batch and the answer to the fetch. Fewer where records come together."""

_WORKER_CPU: Final = ((0.0, 0.0), (100.0, 0.019), (1_000.0, 0.174), (2_000.0, 0.26))
"""Foreign records a second, and the share of a processor that a Java worker with the jar needs for them.

Where many come in a second, each costs less.
"""


def sent_bytes(records: float, payload_bytes: float) -> float:
    """Return the bytes that a broker sends to one worker for records whose keys and values have ``payload_bytes``."""
    return payload_bytes + FRAME_BYTES * records


def worker_cpu_share(records_per_s: float) -> float:
    """Return the share of a processor that a Java worker needs for so many foreign records: 0.1 is a tenth.

    Beyond what was measured each further record costs what the last ones did.
    """
    steps = list(pairwise(_WORKER_CPU))
    (low, share), (high, next_share) = next((step for step in steps if records_per_s <= step[1][0]), steps[-1])
    return share + (records_per_s - low) * (next_share - share) / (high - low)
