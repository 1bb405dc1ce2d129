"""Detection of two clusters with plain keys on one status topic, which run and destroy each other's connectors."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_MOST_TURNS: Final = 64
_LONGEST_ID: Final = 200
"""Characters by which a worker is known: the topic decides how long its id is."""
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

    def warning(self, topic: str) -> str:
        """Return a warning and what to do; worker ids come from the topic and are escaped."""
        one, other = (f"{ascii(worker)[1:-1]} (generation {number})" for worker, number in (self.first, self.second))
        return (
            f"two Connect clusters with plain keys seem to share topic {topic}: workers {one} and {other} write to it "
            f"alternately. Each runs the other's connectors and overwrites its state; take them apart with "
            f"connect-share-migrate plan --assign, or give one of them topics of its own"
        )


class PlainClusterWatch:
    """Detects two clusters from plain statuses in the order of their partition.

    A worker's generation never goes back, and that of all workers of a cluster is the same but for moments: two writers that
    write alternately, twice each, in generations that are not next to each other, belong to two clusters. A cluster that
    begins to count anew, a runtime that follows another and a worker that was cut off do not look so. Time stamps are
    not used. Two clusters whose generations happen to be next to each other are not noticed until that changes.
    """

    def __init__(self) -> None:
        self.found: TwoClusters | None = None
        self._turns: dict[int, deque[Writer]] = {}

    def look(self, partition: int, worker_id: str | None, generation: int) -> None:
        """Consider one status."""
        if worker_id is None or self.found is not None:
            return
        writer = (worker_id[:_LONGEST_ID], generation)
        turns = self._turns.setdefault(partition, deque(maxlen=_MOST_TURNS))
        if turns and turns[-1] == writer:
            return
        turns.append(writer)
        if turns.count(writer) > 1:  # else no worker has written in turns with it
            self.found = _in_turns_with(writer, turns)


def _in_turns_with(writer: Writer, turns: Iterable[Writer]) -> TwoClusters | None:
    """Search the turns once, of which the last is the writer's, for one of another cluster."""
    own = 0
    others: dict[Writer, tuple[int, int]] = {}
    """Of each other writer: how often it and this one changed places, and how often this one had written by then."""
    for turn in turns:
        if turn == writer:
            own += 1
        elif turn[0] != writer[0] and abs(turn[1] - writer[1]) > _NEXT_TO_EACH_OTHER:
            changes, before = others.get(turn, (0, 0))
            if own > before:  # it wrote, this one wrote, and now it writes again
                changes += 2 if turn in others else 1
            others[turn] = (changes, own)
    for other, (changes, _) in others.items():
        if changes + 1 >= _CHANGES:  # this one writes last
            return TwoClusters(other, writer)
    return None
