"""A local file with what a group's stores believed and how far they had read, so that a restart reads only what is new."""

from connect_share.checkpoint.file import (
    Checkpoint,
    CheckpointRejected,
    TopicCheckpoint,
    read_checkpoint,
    write_checkpoint,
)
from connect_share.checkpoint.proof import TopicNow, why_not_usable

__all__ = [
    "Checkpoint",
    "CheckpointRejected",
    "TopicCheckpoint",
    "TopicNow",
    "read_checkpoint",
    "why_not_usable",
    "write_checkpoint",
]
