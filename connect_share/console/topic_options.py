"""Options that several commands of ``connect-share`` have."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from connect_share.console import PLAIN, Container, Parser, add_client_settings, add_worker_file, client_settings_of
from connect_share.errors import ConfigError
from connect_share.model.records import TopicType
from connect_share.worker_config import TopicSet
from connect_share.worker_config.worker import connection_settings

TOPIC_FLAGS: Final = {
    TopicType.CONFIG: "--config-storage-topic",
    TopicType.OFFSET: "--offset-storage-topic",
    TopicType.STATUS: "--status-storage-topic",
}
WORKER_FILE: Final = "a worker's properties file, a Strimzi KafkaConnect resource (.yaml), or a folder of them"
_MOST_REPLICAS: Final = 32_767


def add_topics(parser: Parser) -> None:
    """Add where the topics are; :func:`topic_set_of` reads it."""
    where = parser.add_argument_group("where the topics are")
    add_worker_file(where, WORKER_FILE, required=False)
    where.add_argument("-B", "--bootstrap-servers", metavar="HOST:PORT,...", help="brokers of the cluster")
    for topic_type, flag in TOPIC_FLAGS.items():
        where.add_argument(flag, metavar="TOPIC", help=f"name of the {topic_type.value} topic")
    add_client_settings(
        where,
        "client setting, may be repeated; Java's names (sasl.jaas.config, ssl.truststore.location) are translated, "
        "others go to librdkafka as they are; others can see it while the command runs, so keep passwords in a worker file",
    )


def add_groups(parser: Container, only: str, by_default: str = "") -> None:
    """Add ``--group``, which may be repeated."""
    parser.add_argument(
        "--group",
        dest="groups",
        metavar="ID",
        action="append",
        help=f"{only}this cluster group, may be repeated; {PLAIN} is the cluster with plain keys{by_default}",
    )


def add_ignore(parser: Container) -> None:
    """Add ``--ignore``."""
    parser.add_argument(
        "--ignore",
        metavar="FINDING",
        action="append",
        default=[],
        help="leave out findings with this id, may be repeated",
    )


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


def topic_set_of(arguments: argparse.Namespace, needed: Sequence[TopicType] = ()) -> TopicSet:
    """Return where the topics are.

    Without the topics in ``needed`` the command has nothing to show; none: any will do.

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
    if arguments.bootstrap_servers is None and "bootstrap.servers" not in {*client, *connection_settings()}:
        raise ConfigError(
            "neither a worker file nor brokers are given; use -w FILE or -B HOST:PORT, or a profile with bootstrap.servers",
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
