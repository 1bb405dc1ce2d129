"""The grammar of ``connect-share``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from connect_share.cli import topic_ids_arguments as topic_ids
from connect_share.cli.reading import PLAIN
from connect_share.console import EXIT_CODES, Parser, add_version, seconds
from connect_share.errors import ConfigError, UsageError
from connect_share.records import TopicType
from connect_share.worker_config import TopicSet

PROGRAM: Final = "connect-share"
DEFAULT_TIMEOUT_S: Final = 15.0
CHECK_TIMEOUT_S: Final = 5.0
CREATE_TIMEOUT_S: Final = 60.0
MOST_REPLICAS: Final = 32_767

EXAMPLES: Final = """\
examples:
  connect-share get groups -B broker:9092 --config-storage-topic connect-configs \\
      --offset-storage-topic connect-offsets --status-storage-topic connect-status
  connect-share get connectors -w worker.properties
  connect-share get offsets -w worker.properties --all-groups --output json
  connect-share describe connector orders.sink -w worker.properties --show-values
  connect-share worker-jar --to /opt/kafka/libs
  connect-share check worker-config worker.properties --libs /opt/kafka/libs
  connect-share create topics -w worker.properties --dry-run
  connect-share check topics -w worker.properties --reassignment new-replicas.json
  connect-share check startup -w worker.properties --apply --dry-run
  connect-share check topic-ids --scan broker-1.scan --scan broker-2.scan --zookeeper zk:2181
"""
PRECEDENCE: Final = """\
precedence, highest first:
  flag, -X, worker file, default
"""
TOPIC_FLAGS: Final = {
    TopicType.CONFIG: "--config-storage-topic",
    TopicType.OFFSET: "--offset-storage-topic",
    TopicType.STATUS: "--status-storage-topic",
}
NOUNS: Final = {
    "groups": "cluster groups, and how much each has in the topics",
    "connectors": "connectors with target state, state and number of tasks",
    "tasks": "tasks with state and worker",
    "offsets": "source offsets by connector and source partition (values included: they are what is asked for)",
    "statuses": "statuses of connectors and tasks as they were written",
}


def build_parser() -> argparse.ArgumentParser:
    """Give the parser of the whole command line."""
    parser = Parser(
        prog=PROGRAM,
        description="Show what Kafka Connect clusters keep in their internal topics, shared or dedicated.",
        epilog=f"{EXAMPLES}\n{PRECEDENCE}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_version(parser)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    getter = verbs.add_parser("get", help="list groups, connectors, tasks, offsets or statuses")
    nouns = getter.add_subparsers(dest="noun", metavar="NOUN", required=True, parser_class=Parser)
    for noun, text in NOUNS.items():
        _add_common(nouns.add_parser(noun, help=text, description=f"List {text}."), noun)
    describer = verbs.add_parser("describe", help="show one connector")
    nouns = describer.add_subparsers(dest="noun", metavar="NOUN", required=True, parser_class=Parser)
    connector = nouns.add_parser("connector", help="configuration, statuses, active topics and offsets of a connector")
    connector.add_argument("connector", metavar="NAME", help="name of the connector")
    _add_common(connector, "connector")
    checker = verbs.add_parser("check", help="check a worker file, the topics, what a start costs, or topic ids")
    nouns = checker.add_subparsers(dest="noun", metavar="NOUN", required=True, parser_class=Parser)
    _add_check_worker_config(nouns)
    _add_check_topics(nouns)
    _add_check_startup(nouns)
    _add_topic_ids(nouns, topic_ids.CHECK_HELP, topic_ids.CHECK_DESCRIPTION)
    creator = verbs.add_parser("create", help="create the topics of a worker")
    nouns = creator.add_subparsers(dest="noun", metavar="NOUN", required=True, parser_class=Parser)
    _add_create_topics(nouns)
    repairer = verbs.add_parser("repair", help="plan the repair of topic ids")
    nouns = repairer.add_subparsers(dest="noun", metavar="NOUN", required=True, parser_class=Parser)
    _add_topic_ids(nouns, topic_ids.REPAIR_HELP, topic_ids.REPAIR_DESCRIPTION, repair=True)
    _add_worker_jar(verbs)
    return parser


def _add_where(parser: argparse.ArgumentParser) -> None:
    where = parser.add_argument_group("where the topics are")
    where.add_argument("-w", "--worker-config", metavar="FILE", type=Path, help="properties file of a Java worker")
    where.add_argument("-B", "--bootstrap-servers", metavar="HOST:PORT,...", help="brokers of the cluster")
    for topic_type, flag in TOPIC_FLAGS.items():
        where.add_argument(flag, metavar="TOPIC", help=f"name of the {topic_type.value} topic")
    where.add_argument(
        "-X",
        dest="client_settings",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="client setting, may be repeated; Java's names (sasl.jaas.config, ssl.truststore.location) are translated, "
        "others go to librdkafka as they are; others can see it while the command runs, so keep passwords in a worker file",
    )


def _add_common(parser: argparse.ArgumentParser, noun: str) -> None:
    _add_where(parser)
    what = parser.add_argument_group("what is shown")
    what.add_argument(
        "--group",
        dest="groups",
        metavar="ID",
        action="append",
        help=f"only this cluster group, may be repeated; {PLAIN} is the cluster with plain keys; "
        + ("every group by default" if noun == "groups" else "with a worker file: its own group by default"),
    )
    if noun == "groups":
        what.add_argument("--all-groups", action="store_true", help="every group, as by default")
    else:
        what.add_argument("--all-groups", action="store_true", help="every group, also with a worker file")
    if noun in ("connectors", "tasks", "offsets", "statuses"):
        what.add_argument("--connector", metavar="NAME", help="only this connector")
    if noun in ("connector", "statuses"):
        what.add_argument(
            "--show-values", action="store_true", help="show traces, offsets, and values that may be secrets"
        )
    _add_form(parser, DEFAULT_TIMEOUT_S)


def _add_form(parser: argparse.ArgumentParser, timeout_s: float | None = None) -> None:
    """Add what all commands have; a timeout only where a cluster is asked."""
    parser.add_argument("--output", choices=("text", "json"), default="text", help="form of the result")
    if timeout_s is not None:
        parser.add_argument(
            "--timeout",
            metavar="SECONDS",
            type=seconds,
            default=timeout_s,
            help=f"longest wait for the cluster, {timeout_s:g} by default",
        )
    parser.add_argument("-v", "--verbose", action="store_true", help="show what the libraries log")


def _add_check_worker_config(nouns: argparse._SubParsersAction[Parser]) -> None:
    parser = nouns.add_parser(
        "worker-config",
        help="is a Java worker's file right for topic sharing?",
        description="Tell whether a Java worker's file is right for topic sharing, and what to add. "
        "Reads only; exit code 1 if something is wrong, warnings allowed.",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="properties file of a Java worker")
    parser.add_argument(
        "--libs",
        metavar="DIR",
        type=Path,
        action="append",
        default=[],
        help="folder with the jars of the worker's own class path, may be repeated; "
        "$KAFKA_HOME/libs by default; CLASSPATH is looked at too",
    )
    parser.add_argument("--offline", action="store_true", help="do not ask the cluster for the group's connectors")
    _add_form(parser, CHECK_TIMEOUT_S)


def _add_check_topics(nouns: argparse._SubParsersAction[Parser]) -> None:
    parser = nouns.add_parser(
        "topics",
        help="do the topics have their replicas, and can all go on if a broker fails?",
        description="Check the topics of a worker, __consumer_offsets and __transaction_state: replicas, racks, "
        "min.insync.replicas, leaders, cleanup.policy. Reads only. Exit code 1 if something is found.",
    )
    _add_where(parser)
    _add_replication_factor(parser)
    parser.add_argument(
        "--reassignment",
        metavar="FILE",
        type=Path,
        help="write where replicas should be, for kafka-reassign-partitions; only if some have to move",
    )
    _add_form(parser, DEFAULT_TIMEOUT_S)


def _add_create_topics(nouns: argparse._SubParsersAction[Parser]) -> None:
    parser = nouns.add_parser(
        "topics",
        help="create the config, offset and status topic with settings that are known to be right",
        description="Show the three topics with their settings and why each is so, then create those that do not exist, "
        "with all replicas in sync or not at all. What exists is compared and not changed. "
        "Exit code 1 if nothing could be created, or an existing topic differs in what matters.",
    )
    _add_where(parser)
    _add_replication_factor(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="show what would be created, create nothing")
    _add_form(parser, CREATE_TIMEOUT_S)


def _add_replication_factor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--replication-factor",
        metavar="N",
        type=_replicas,
        help="replicas of the worker's topics, -1 for the brokers' default; "
        "by default what the worker file says, 3 where it says nothing",
    )


def _add_check_startup(nouns: argparse._SubParsersAction[Parser]) -> None:
    parser = nouns.add_parser(
        "startup",
        help="what does a start cost, and which topic settings make it cheaper?",
        description="Read the three topics once and tell what is in them by group and kind of record, how long a start of "
        "each group is predicted to take, and which topic settings would make it shorter. "
        "Exit code 1 if a setting is worth changing, something is wrong in a topic, or a start takes longer than --limit.",
    )
    _add_where(parser)
    parser.add_argument(
        "--group",
        dest="groups",
        metavar="ID",
        action="append",
        help=f"show only this cluster group, may be repeated; {PLAIN} is the cluster with plain keys",
    )
    parser.add_argument(
        "--model",
        metavar="FILE",
        type=Path,
        help="result of python -m spark_jobs.benchmark_startup on your own machine, for seconds that hold there",
    )
    parser.add_argument("--limit", metavar="SECONDS", type=seconds, help="longest start that is fine; none by default")
    parser.add_argument("--apply", action="store_true", help="change the settings, after a preview")
    parser.add_argument("--yes", action="store_true", help="with --apply: do not ask")
    parser.add_argument("--dry-run", action="store_true", help="with --apply: show what would change, change nothing")
    _add_form(parser, DEFAULT_TIMEOUT_S)


def _add_topic_ids(
    nouns: argparse._SubParsersAction[Parser], text: str, description: str, *, repair: bool = False
) -> None:
    parser = nouns.add_parser("topic-ids", help=text, description=description)
    topic_ids.add_topic_ids(parser, repair=repair)
    _add_form(parser, DEFAULT_TIMEOUT_S)


def _add_worker_jar(verbs: argparse._SubParsersAction[Parser]) -> None:
    parser = verbs.add_parser(
        "worker-jar",
        help="hand out the jar that gives topic sharing to Java workers",
        description="Print where the jar for unmodified Java workers (2.8 to 4.3) is, or copy it to where they find it.",
    )
    parser.add_argument("--to", metavar="DIR", type=Path, help="copy the jar into this folder, such as Kafka's libs")
    parser.set_defaults(noun="")
    _add_form(parser)


def _replicas(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value != -1 and not 1 <= value <= MOST_REPLICAS:
        raise argparse.ArgumentTypeError(f"has to be 1 to {MOST_REPLICAS}, or -1")
    return value


def topic_set_of(arguments: argparse.Namespace, needed: Sequence[TopicType] = ()) -> TopicSet:
    """Find out where the topics are.

    Args:
        arguments: of a command.
        needed: topics without which the command has nothing to show; none: any will do.

    Raises:
        ConfigError: nothing says where, or a setting is wrong.
    """
    client = client_settings_of(arguments.client_settings)
    topics = {
        topic_type: str(topic)
        for topic_type, flag in TOPIC_FLAGS.items()
        if (topic := getattr(arguments, flag.removeprefix("--").replace("-", "_"))) is not None
    }
    if arguments.worker_config is not None:
        return TopicSet.from_worker_file(
            arguments.worker_config, bootstrap_servers=arguments.bootstrap_servers, topics=topics, client=client
        )
    if arguments.bootstrap_servers is None and "bootstrap.servers" not in client:
        raise ConfigError(
            "neither a worker file nor brokers are given; use -w FILE or -B HOST:PORT",
            property_name="bootstrap.servers",
        )
    missing = [TOPIC_FLAGS[topic_type] for topic_type in needed if topic_type not in topics]
    if not topics:
        missing = missing or list(TOPIC_FLAGS.values())
    if missing:
        word = "or" if not needed else "and"
        raise ConfigError(
            f"no worker file is given, so this needs {f' {word} '.join(missing)}",
            property_name=missing[0].removeprefix("--").replace("-", "."),
        )
    return TopicSet.from_flags(arguments.bootstrap_servers, topics, client)


def client_settings_of(pairs: Sequence[str]) -> dict[str, str]:
    """Understand what was given with ``-X``.

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
