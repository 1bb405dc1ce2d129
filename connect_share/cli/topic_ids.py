"""``check topic-ids`` and ``repair topic-ids``: reads scans and the authority, and leaves judging to the core."""

from __future__ import annotations

import argparse

from connect_share.cli.output import Output
from connect_share.errors import UsageError


def check_topic_ids(arguments: argparse.Namespace, out: Output) -> int:  # noqa: ARG001 - it has no body yet
    """``check topic-ids``."""
    raise UsageError("not available in this version: check topic-ids")


def repair_topic_ids(arguments: argparse.Namespace, out: Output) -> int:  # noqa: ARG001 - it has no body yet
    """``repair topic-ids``."""
    raise UsageError("not available in this version: repair topic-ids")
