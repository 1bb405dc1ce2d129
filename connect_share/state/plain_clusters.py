"""Noticing two clusters with plain keys on one status topic, which run and destroy each other's connectors."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

_MOST_TURNS: Final = 64
_CHANGES: Final = 3
_NEXT_TO_EACH_OTHER: Final = 1

Writer = tuple[str, int]
"""A worker and the generation of its group in which it wrote."""


@dataclass(frozen=True, slots=True)
class TwoClusters:
    """Two workers that cannot be of one cluster.

    Attributes:
        first, second: each a worker id and a generation.
    """

    first: Writer
    second: Writer

    def told(self, topic: str) -> str:
        """Say so, and what to do; worker ids come from the topic and are escaped."""
        one, other = (f"{ascii(worker)[1:-1]} (generation {number})" for worker, number in (self.first, self.second))
        return (
            f"two Connect clusters with plain keys seem to share topic {topic}: workers {one} and {other} take turns in it. "
            f"Each runs the other's connectors and overwrites its state; take them apart with connect-share-migrate plan "
            f"--assign, or give one of them topics of its own"
        )


class PlainClusterWatch:
    """Looks at plain statuses in the order of their partition.

    A worker's generation never goes back, and that of all workers of a cluster is the same but for moments: two writers that
    write alternately, twice each, in generations that are not next to each other, belong to two clusters. A cluster that
    begins to count anew, a runtime that follows another and a worker that was cut off do not look so. Time stamps are not
    asked. Two clusters whose generations happen to be next to each other are not noticed until that changes.
    """

    def __init__(self) -> None:
        self.found: TwoClusters | None = None
        self._turns: dict[int, deque[Writer]] = {}

    def look(self, partition: int, worker_id: str | None, generation: int) -> None:
        """Take notice of one status."""
        if worker_id is None or self.found is not None:
            return
        writer = (worker_id, generation)
        turns = self._turns.setdefault(partition, deque(maxlen=_MOST_TURNS))
        if turns and turns[-1] == writer:
            return
        turns.append(writer)
        for other in set(turns):
            if other[0] != worker_id and abs(other[1] - generation) > _NEXT_TO_EACH_OTHER:
                theirs = [each for each in turns if each in (writer, other)]
                if sum(one != two for one, two in pairwise(theirs)) >= _CHANGES:
                    self.found = TwoClusters(other, writer)
                    return
