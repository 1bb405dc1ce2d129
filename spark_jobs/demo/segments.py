"""What the broker's disk has of a text: the segment files of topics, read as they are."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from spark_jobs.demo.result import SegmentSearch


def search_segments(data_folder: Path, topics: Collection[str], text: bytes) -> SegmentSearch:
    """Return how many segment files of topics there are, and how many of them hold a text; none may be compressed."""
    found = [
        text in segment.read_bytes()
        for partition in data_folder.iterdir()
        if partition.name.rpartition("-")[0] in topics
        for segment in partition.glob("*.log")
    ]
    return SegmentSearch(files=len(found), with_text=sum(found))
