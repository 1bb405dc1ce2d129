"""``restore``: the same command as that of ``connect-share-migrate``."""

from __future__ import annotations

from connect_share.backup.restore_command import add_restore_to
from connect_share.cli.options import Nouns
from connect_share.console import add_output


def add_to(verbs: Nouns) -> None:
    """Add ``restore``, which is a verb without nouns."""
    add_output(add_restore_to(verbs))
