"""``keys new``: makes a key of a sealed group."""

from __future__ import annotations

import argparse

from connect_share.cli.options import Nouns
from connect_share.console import Output, add_examples, add_output
from connect_share.sealing.key_ring import new_key


def add_to(nouns: Nouns) -> None:
    """Add the noun ``new``."""
    parser = nouns.add_parser(
        "new",
        help="print a new key",
        description="Print a new key as <id>:<base64 of 32 bytes>, for "
        "connect.management.topic.sharing.encryption.keys. It is shown once and kept nowhere: send it to the place "
        "from which a config provider of the workers reads it.",
    )
    add_examples(
        parser,
        "connect-share keys new",
        'vault kv put secret/connect keys="$(connect-share keys new)"',
    )
    add_output(parser, asks_cluster=False)
    parser.set_defaults(run=keys_new)


def keys_new(_: argparse.Namespace, out: Output) -> int:
    """Print one new key and nothing else."""
    key = new_key()
    if out.is_json:
        out.json({"key": key})
    else:
        out.lines(key)
    return 0
