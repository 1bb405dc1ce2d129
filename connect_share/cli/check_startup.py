"""``check startup``: what a start costs on the user's own topics, and which settings would make it cheaper."""

from __future__ import annotations

import argparse

from connect_share.cli.output import Output
from connect_share.errors import UsageError


def check_startup(arguments: argparse.Namespace, out: Output) -> int:  # noqa: ARG001 - it has no body yet
    """``check startup``."""
    raise UsageError("not available in this version: check startup; get groups shows what the topics hold")
