"""``keys new``: makes a key of a sealed group."""

from __future__ import annotations

import argparse
from typing import Final

from connect_share.console.output import Output, Result
from connect_share.console.program import Command
from connect_share.sealing.key_ring import new_key


def _new_key(_: argparse.Namespace, __: Output) -> Result:
    key = new_key()
    return Result({"key": key}, [key])


COMMANDS: Final = [
    Command(
        "keys new",
        _new_key,
        "print a new key",
        about="Print a new key as <id>:<base64 of 32 bytes>, for "
        "connect.management.topic.sharing.encryption.keys. It is shown once and kept nowhere: send it to the place "
        "from which a config provider of the workers reads it.",
        examples=["connect-share keys new", 'vault kv put secret/connect keys="$(connect-share keys new)"'],
        asks_cluster=False,
    )
]
