"""The common parts of command lines: the parser, completion, worker files, where the topics are, client settings, groups."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from connect_share.errors import ConfigError, UsageError, listed
from connect_share.files import is_writable_folder
from connect_share.model.keys import ClusterGroupId
from connect_share.model.records import TopicType
from connect_share.worker_config import TopicSet
from connect_share.worker_config.client_translation import IGNORED, PRODUCER_SETTINGS
from connect_share.worker_config.worker import choose_worker_file, connection_settings, each_of, groups_in

EXIT_CODES: Final = "exit codes: 0 ok, 1 failed or findings, 2 wrong usage, 130 interrupted"
DEFAULT_TIMEOUT_S: Final = 15.0
PLAIN: Final = "(plain)"
"""Stands for the cluster with plain keys; no cluster group id can be written like this."""

TOPIC_FLAGS: Final = {
    TopicType.CONFIG: "--config-storage-topic",
    TopicType.OFFSET: "--offset-storage-topic",
    TopicType.STATUS: "--status-storage-topic",
}
WORKER_FILE: Final = "a worker's properties file, a Strimzi KafkaConnect resource (.yaml), or a folder of them"
_CLIENT_SETTINGS: Final = (
    "client setting, may be repeated; Java's names (sasl.jaas.config, ssl.truststore.location) are translated, others go to "
    "librdkafka as they are; others can see it while the command runs, so keep passwords in a worker file"
)
# Commands with -X write no records, and clients have their own; a check compares max.request.size with the records.
_IDLE_SETTINGS: Final = {"client.id", "partitioner", *IGNORED, *PRODUCER_SETTINGS} - {"max.request.size"}
_MOST_REPLICAS: Final = 32_767
SHELLS: Final = ("bash", "zsh", "tcsh")

Container = argparse._ActionsContainer  # noqa: SLF001 - a parser, or a group of its options
Group = ClusterGroupId | None
"""``None`` is the cluster with plain keys."""


class HelpFormatter(argparse.HelpFormatter):
    """Fills texts to the width of the terminal, but leaves those of several lines as they are written."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


class StrictParser(argparse.ArgumentParser):
    """A parser that refuses options that would have no effect beside the others, before anything is read or written."""

    refusals: tuple[tuple[str, str, bool], ...] = ()
    _given: frozenset[str] = frozenset()

    def refuse(self, options: str, *, beside: str = "", without: str = "") -> None:
        """Refuse each of these options beside another one, or without it: ``-w``, one of ``-B or -w``, ``--output tsv``."""
        self.refusals += tuple((option, beside or without, not beside) for option in options.split())

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return what was given, as argparse does, or refuse it."""
        self._given = frozenset()
        found = super().parse_known_args(args, namespace)
        for option, others, is_needed in self.refusals:
            if option in self._given and is_needed is self._given.isdisjoint(others.split(" or ")):
                does = f"goes with {others}: give that" if is_needed else f"does not go with {others}: leave that out"
                self.error(f"{option} {does}, or leave {option} out")
        return found

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        # Called for each option that is there: what has the value of its default was given, too.
        value = super()._get_values(action, arg_strings)
        self._given |= {text for name in action.option_strings for text in (name, f"{name} {value}")}
        return value


class Parser(StrictParser):
    """A parser that raises wrong usage instead of printing it: the form of the error depends on ``--output``."""

    def error(self, message: str) -> NoReturn:
        """Raise ``UsageError``."""
        raise UsageError(f"{message}; {self.prog} --help shows what there is")


class PrintCompletion(argparse.Action):
    """``--print-completion``: what a shell needs to complete commands and options, by the library shtab.

    ``const`` returns the parser with all commands.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,  # noqa: ARG002 - the signature of argparse
        values: str | Sequence[Any] | None,
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        """Print the script, and end."""
        try:
            import shtab
        except ImportError:
            raise ConfigError("completion needs the library shtab: pip install shtab") from None
        whole = self.const()
        for action in _actions(whole):
            if action.metavar in ("FILE", "DIR"):
                action.complete = shtab.FILE if action.metavar == "FILE" else shtab.DIRECTORY  # type: ignore[attr-defined]
        print(shtab.complete(whole, shell=str(values)))
        parser.exit()


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no public name for it
        yield action
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for inner in dict.fromkeys(action.choices.values()):
                yield from _actions(inner)


def add_profile(parser: argparse.ArgumentParser) -> None:
    """Add ``--profile``, which every command that asks a cluster has."""
    parser.add_argument(
        "--profile",
        metavar="NAME",
        help="connection settings of this name in ~/.config/connect-share/profiles.toml; they win over those of worker "
        "files, but for bootstrap.servers; $CONNECT_SHARE_PROFILE by default",
    )


def output_folder(text: str | Path, *, makes: bool = False) -> Path:
    """Return a folder that can be written to, ``makes``: or one that the command can make: the type of an option."""
    path = Path(text)
    there = next((each for each in (path, *path.parents) if os.access(each, os.F_OK)), path) if makes else path
    if not is_writable_folder(there):
        raise argparse.ArgumentTypeError(f"{there} is not a folder that can be written to: make it, or name another")
    return path


def output_file(text: str, *, makes_folder: bool = False) -> Path:
    """Return a file that can be replaced when all is done, as far as that is known before: the type of an option."""
    path = Path(text)
    output_folder(path.parent, makes=makes_folder)
    if path.exists() and not path.is_file():  # to replace a device breaks the machine
        raise argparse.ArgumentTypeError(f"{text} is no regular file: name one, or a file in that folder")
    return path


worker_file: Final = partial(Path)
"""Returns a worker file given on the command line: the type of an option that takes a folder of them, too."""


def add_worker_file(parser: Container, text: str, *names: str, required: bool = True, dest: str | None = None) -> None:
    """Add ``-w``, a worker file or a folder of them; ``names`` are further names of the option."""
    parser.add_argument(
        *("-w", "--worker-config", *names),
        **({} if dest is None else {"dest": dest}),
        metavar="FILE",
        type=worker_file,
        required=required,
        help=text,
    )


def add_rewritten(parser: Parser, text: str) -> None:
    """Add the worker file of a group whose records are written again or removed, and ``--backup``."""
    add_worker_file(parser, text)
    parser.add_argument(
        "--backup", metavar="FILE", type=Path, help="the backup that is written first; default: beside the worker file"
    )


def choose_worker_files(parser: Parser, arguments: argparse.Namespace) -> None:
    """Put a worker file in the place of a folder of them, where it is clear which one is meant; of several all files."""
    groups = getattr(arguments, "groups", None) or getattr(arguments, "group_ids", None)
    named = groups or [getattr(arguments, "group", None)]
    group = named[0] if len(named) == 1 else None
    # What shows all groups, those that are named, or none in particular, needs the topics only.
    is_for_one = named == [None] and not getattr(arguments, "all_groups", True)
    any_of_one_set = hasattr(arguments, "bootstrap_servers") and not is_for_one
    for action in parser._actions:  # noqa: SLF001 - argparse has no public name for it
        if action.type is not worker_file:
            continue
        given: Path | Sequence[Path] | None = getattr(arguments, action.dest)
        if given is None or (isinstance(given, Path) and each_of(given) == [given]):
            continue
        chosen: Path | list[Path]
        if not isinstance(given, Path):
            chosen = [each for path in given for each in each_of(path)]
        elif len(named) > 1 and hasattr(arguments, "of_each_group"):
            chosen = [choose_worker_file(given, each, any_of_one_set=False) for each in named]
        else:
            chosen = choose_worker_file(given, group, any_of_one_set=any_of_one_set)
            arguments.own_groups = groups_in(given)
        setattr(arguments, action.dest, chosen)


def add_client_settings(group: argparse._ArgumentGroup, text: str = _CLIENT_SETTINGS, *, folds: bool = False) -> None:
    """Add ``-X``; ``folds``: what the command shows depends on the isolation level with which it reads."""
    if folds:
        text += ". isolation.level: of groups whose worker file is not given, read_committed by default"
    setting = partial(_setting, _IDLE_SETTINGS if folds else _IDLE_SETTINGS | {"isolation.level"})
    group.add_argument(
        "-X", dest="client_settings", metavar="KEY=VALUE", type=setting, action="append", default=[], help=text
    )


def _setting(idle: Collection[str], text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        # The text is not shown: it may be a password with a blank before it.
        raise argparse.ArgumentTypeError("needs the form KEY=VALUE")
    if name.strip() in idle:
        raise argparse.ArgumentTypeError(f"{name.strip()} has no effect on this command: leave it out")
    return name.strip(), value


def add_topics(parser: Parser, *, folds: bool = True) -> None:
    """Add where the topics are; :func:`topic_set_of` reads it. ``folds`` as in :func:`add_client_settings`."""
    where = parser.add_argument_group("where the topics are")
    add_worker_file(where, WORKER_FILE, required=False)
    where.add_argument("-B", "--bootstrap-servers", metavar="HOST:PORT,...", help="brokers of the cluster")
    for topic_type, flag in TOPIC_FLAGS.items():
        where.add_argument(flag, metavar="TOPIC", help=f"name of the {topic_type.value} topic")
    add_client_settings(where, folds=folds)


def add_groups(parser: Container, only: str, by_default: str = "") -> None:
    """Add ``--group``, which may be repeated."""
    parser.add_argument(
        "--group",
        dest="groups",
        metavar="ID",
        action="append",
        help=f"{only}this cluster group, may be repeated; {PLAIN} is the cluster with plain keys{by_default}",
    )


_JAVA: Final = "java"


def add_runtime(parser: Container) -> None:
    """Add ``--runtime``."""
    parser.add_argument(
        "--runtime",
        choices=(_JAVA, "python"),
        default=_JAVA,
        help="what runs the worker file: Java workers (default), which need the jar, or the Python stores, which do not",
    )


def for_java(arguments: argparse.Namespace) -> bool:
    """Return whether Java workers run the worker file; where nothing can be said of that they do."""
    return getattr(arguments, "runtime", _JAVA) == _JAVA


def add_replication_factor(parser: Parser) -> None:
    """Add ``--replication-factor``."""
    parser.add_argument(
        "--replication-factor",
        metavar="N",
        type=_replicas,
        help="replicas of the worker's topics, -1 for the brokers' default; "
        "by default what the worker file says, 3 where it says nothing",
    )


def _replicas(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value != -1 and not 1 <= value <= _MOST_REPLICAS:
        raise argparse.ArgumentTypeError(f"has to be 1 to {_MOST_REPLICAS}, or -1")
    return value


def topic_set_of(arguments: argparse.Namespace, needed: Sequence[TopicType] = (), *, or_none: bool = False) -> TopicSet:
    """Return where the topics are. Without the topics in ``needed`` the command has nothing to show; none: any will do.

    With ``or_none`` the brokers will do.
    """
    client = dict(arguments.client_settings)
    named = frozenset(groups_of(getattr(arguments, "groups", None)) or ())
    topics = {
        topic_type: str(topic)
        for topic_type, flag in TOPIC_FLAGS.items()
        if (topic := getattr(arguments, flag.removeprefix("--").replace("-", "_"), None)) is not None
    }
    if arguments.worker_config is not None:
        found = TopicSet.from_worker_file(
            arguments.worker_config, bootstrap_servers=arguments.bootstrap_servers, topics=topics, client=client
        )
        return replace(found, own=found.own | getattr(arguments, "own_groups", frozenset()) | named)
    if arguments.bootstrap_servers is None and "bootstrap.servers" not in {*client, *connection_settings()}:
        raise ConfigError(
            "neither a worker file nor brokers are given; use -w FILE or -B HOST:PORT, or a profile with bootstrap.servers",
            property_name="bootstrap.servers",
        )
    missing = [TOPIC_FLAGS[topic_type] for topic_type in needed if topic_type not in topics]
    if not topics and not or_none:
        missing = missing or list(TOPIC_FLAGS.values())
    if missing:
        word = "or" if not needed else "and"
        raise ConfigError(
            f"no worker file is given, so this needs {f' {word} '.join(missing)}",
            property_name=missing[0].removeprefix("--").replace("-", "."),
        )
    return replace(TopicSet.from_flags(arguments.bootstrap_servers, topics, client), own=named)


def number(least: float, most: int, text: str, unit: str = "") -> float:
    """Return a number given on the command line."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not least <= value <= most:
        raise argparse.ArgumentTypeError(f"has to be {least:g} to {most}{unit}")
    return value


seconds: Final = partial(number, 0.1, 86_400, unit=" seconds")
count: Final = partial(number, 1, 10**12)


def groups_of(names: Collection[str] | None) -> Collection[Group] | None:
    """Return the groups that were named; ``None``: all."""
    return {None if name == PLAIN else ClusterGroupId(name) for name in names} if names else None


def groups_asked(arguments: argparse.Namespace, topic_set: TopicSet) -> Collection[Group] | None:
    """Return the groups that were named, or that of the worker file unless all are wanted; ``None``: all."""
    named = groups_of(arguments.groups)
    return named if named is not None or arguments.all_groups else topic_set.worker_group


def shown_group(group: Group) -> str:
    """Return the name of a group for people."""
    return PLAIN if group is None else group


def named_groups(groups: Sequence[Group]) -> str:
    """Return the names of groups for people, the first ones of many."""
    return listed(map(shown_group, groups)) or "none"


def group_order(group: Group) -> tuple[bool, str]:
    """Return a key that sorts groups by name, the plain cluster first."""
    return group is not None, group or ""
