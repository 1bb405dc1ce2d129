"""The common parts of command lines: the parser, ``--version``, the form of the result, client settings, groups."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from importlib.metadata import version
from typing import Final, NoReturn

from connect_share.errors import UsageError
from connect_share.model.keys import ClusterGroupId

EXIT_CODES: Final = "exit codes: 0 ok, 1 failed or findings, 2 wrong usage, 130 interrupted"
DEFAULT_TIMEOUT_S: Final = 15.0
PLAIN: Final = "(plain)"
"""Stands for the cluster with plain keys; no cluster group id can be written like this."""

_NAMED_GROUPS: Final = 20

Group = ClusterGroupId | None
"""``None`` is the cluster with plain keys."""


class HelpFormatter(argparse.HelpFormatter):
    """Fills texts to the width of the terminal, but leaves examples as they are written."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith("examples:") else super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """A parser that raises wrong usage instead of printing it: the form of the error depends on ``--output``."""

    def error(self, message: str) -> NoReturn:
        """Raise ``UsageError``."""
        raise UsageError(f"{message}; {self.prog} --help shows what there is")


def add_examples(parser: argparse.ArgumentParser, *lines: str) -> None:
    """Show command lines at the end of ``--help``, as they are written."""
    parser.epilog = "\n".join(("examples:", *(f"  {line}" for line in lines)))
    parser.formatter_class = HelpFormatter


def add_version(parser: argparse.ArgumentParser) -> None:
    """Add ``--version``."""
    shown = f"{parser.prog} {version('connect-share')}"
    parser.add_argument("--version", action="version", version=shown, help="show the version and exit")


def add_output(
    parser: argparse.ArgumentParser,
    timeout_s: float | None = None,
    forms: Sequence[str] = ("text", "json"),
    *,
    asks_cluster: bool = True,
) -> None:
    """Add the options that every command has; ``--timeout`` with a default, ``--profile`` where a cluster is asked."""
    parser.add_argument("--output", choices=forms, default="text", help="form of the result")
    if timeout_s is not None:
        parser.add_argument(
            "--timeout",
            metavar="SECONDS",
            type=seconds,
            default=timeout_s,
            help=f"longest wait for the cluster, {timeout_s:g} by default",
        )
    if asks_cluster:
        add_profile(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="show what the libraries log")


def add_profile(parser: argparse.ArgumentParser) -> None:
    """Add ``--profile``, which every command that asks a cluster has."""
    parser.add_argument(
        "--profile",
        metavar="NAME",
        help="connection settings of this name in ~/.config/connect-share/profiles.toml; they win over those of worker "
        "files, but for bootstrap.servers; $CONNECT_SHARE_PROFILE by default",
    )


def add_client_settings(group: argparse._ArgumentGroup, text: str) -> None:
    """Add ``-X``."""
    group.add_argument("-X", dest="client_settings", metavar="KEY=VALUE", action="append", default=[], help=text)


def client_settings_of(pairs: Sequence[str]) -> dict[str, str]:
    """Return what was given with ``-X``.

    Raises:
        UsageError: it is no ``KEY=VALUE``.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name.strip():
            # The text is not shown: it may be a password with a blank before it.
            raise UsageError("-X needs the form KEY=VALUE")
        found[name.strip()] = value
    return found


def seconds(text: str, most: int = 3_600) -> float:
    """Return a length of time given on the command line."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= most:
        raise argparse.ArgumentTypeError(f"has to be 0.1 to {most} seconds")
    return value


def groups_of(names: Collection[str] | None) -> Collection[Group] | None:
    """Return the groups that were named; ``None``: all.

    Raises:
        InvalidClusterGroupIdError: a name cannot be one.
    """
    return {None if name == PLAIN else ClusterGroupId(name) for name in names} if names else None


def shown_group(group: Group) -> str:
    """Return the name of a group for people."""
    return PLAIN if group is None else group


def named_groups(groups: Sequence[Group]) -> str:
    """Return the names of groups for people, the first ones of many."""
    more = f" and {len(groups) - _NAMED_GROUPS} more" if len(groups) > _NAMED_GROUPS else ""
    return (", ".join(map(shown_group, groups[:_NAMED_GROUPS])) or "none") + more


def group_order(group: Group) -> tuple[bool, str]:
    """Return a key that sorts groups by name, the plain cluster first."""
    return group is not None, group or ""
