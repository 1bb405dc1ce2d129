"""The figures of a transform over the records of one topic."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from connect_share.transform.rules import SkipReason

Count = Annotated[int, Field(ge=0)]


class RecordCounts(BaseModel):
    """The counts of the records that were read.

    Attributes:
        read: records visible in the ranges; compaction and markers leave fewer than offsets.
        to_write: records that get a new key.
        tombstones: how many of those have no value.
        bytes_to_write: keys and values of those, new keys counted.
        skipped: per reason, see :class:`migrator.SkipReason`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    read: Count = 0
    to_write: Count = 0
    tombstones: Count = 0
    bytes_to_write: Count = 0
    skipped: dict[SkipReason, Count] = Field(default_factory=dict)
