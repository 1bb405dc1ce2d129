"""Whether two replicas are of one log, by what a scan tells of them: leader epochs, and a few batches."""

from __future__ import annotations

from connect_share.topic_ids.scan.scans import PartitionDirectory


def contradiction(one: PartitionDirectory, other: PartitionDirectory) -> str | None:
    """Say what shows that two replicas cannot be of one log; ``None``: nothing does.

    Either a leader epoch that begins at different offsets (the oldest one is left out: its first offset moves when old
    records are deleted), or another batch at the same offset.
    """
    mine, theirs = dict(one.epochs[1:]), dict(other.epochs[1:])
    if any(mine[epoch] != theirs[epoch] for epoch in mine.keys() & theirs.keys()):
        return "leader epochs"
    batches = {offset: rest for offset, *rest in other.batches}
    if any(batches.get(offset, rest) != rest for offset, *rest in one.batches):
        return "batches"
    return None


def shares_a_batch(one: PartitionDirectory, other: PartitionDirectory) -> bool:
    """Tell whether both have the same batch at the same offset, in the same leader epoch: up to there it is one log."""
    return bool(set(one.batches) & set(other.batches))
