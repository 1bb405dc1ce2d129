"""``exporter``: Prometheus metrics of what all groups keep in the topics."""

from __future__ import annotations

import argparse
import logging
import signal
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

from connect_share.console.options import Parser, add_topics, topic_set_of
from connect_share.console.output import Output
from connect_share.console.program import Command, stopped_by
from connect_share.contents.group_room import GroupRoom
from connect_share.contents.workers import live_worker_ids
from connect_share.errors import ConfigError, safe_text
from connect_share.files import repeated
from connect_share.kafka.admin import Admin
from connect_share.kafka.create import require_topics, topic_specs

_log = logging.getLogger(__name__)

_LISTEN: Final = "127.0.0.1:9404"
_MEMBERS_EVERY_S: Final = 30.0
_FIRST_LOOK_S: Final = 5.0  # most topics are read then; the groups of the others do not wait for one that cannot be


def _add_options(parser: Parser) -> None:
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        type=_address,
        default=_LISTEN,
        help=f"address to listen on, {_LISTEN} by default; who reaches it sees the names of all groups and connectors",
    )
    add_topics(parser)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise argparse.ArgumentTypeError("has to be HOST:PORT, such as 127.0.0.1:9404")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _export_metrics(arguments: argparse.Namespace, out: Output) -> int:
    """Answer scrapes until SIGTERM or Ctrl-C."""
    try:
        from connect_share.exporter.followed_topic import CLIENT_ID, FollowedTopic
        from connect_share.exporter.metrics import TopicMetrics
        from connect_share.exporter.server import MetricsServer
        from connect_share.exporter.topic_states import MOST_BYTES, MOST_GROUPS
    except ImportError:
        raise ConfigError("the exporter needs the library prometheus-client: pip install prometheus-client") from None
    topic_set = topic_set_of(arguments)
    host, port = arguments.listen
    members: Mapping[str, int] = {}

    def look() -> None:
        nonlocal members
        shown = {str(each.group) for topic in topics for each in topic.states.groups() if each.group is not None}
        try:
            members = {group: len(ids) for group, ids in live_worker_ids(admin, shown).items()}
        except Exception as error:  # noqa: BLE001 - what is shown would stand still for ever
            members = {}
            _log.warning("The live members of the groups are not known: %s", safe_text(error))

    with ExitStack() as stack:
        stopped = stack.enter_context(stopped_by(signal.SIGTERM))
        admin = stack.enter_context(Admin(topic_set.settings, client_id=CLIENT_ID))
        room = GroupRoom(topic_set.own, MOST_BYTES, MOST_GROUPS)
        topics = [
            FollowedTopic(spec, topic_set.settings, topic_set.isolation(spec.topic_type), admin, topic_set.worker, room)
            for spec in topic_specs(topic_set)
        ]
        metrics = TopicMetrics(topics, lambda: members, room)
        # First of all: the address may be taken.
        server = MetricsServer(host, port, metrics, lambda: all(topic.is_up for topic in topics))
        stack.callback(server.close)
        require_topics(admin, topic_set.topics)
        for topic in topics:
            stack.callback(topic.stop)
            topic.start()
        shown = f"[{host}]" if ":" in host else host
        out.note(f"metrics of {', '.join(sorted(topic_set.topics.values()))} on http://{shown}:{server.port}/metrics")
        stopped.wait(_FIRST_LOOK_S)
        look()
        stack.enter_context(repeated(_MEMBERS_EVERY_S, look))
        stopped.wait()
    return 0


COMMANDS: Final = [
    Command(
        "exporter",
        _export_metrics,
        about="Follow the topics and answer Prometheus: /metrics and /-/healthy. Reads only. Runs until it is ended.",
        examples=[
            "connect-share exporter -w worker.properties",
            "connect-share exporter -w worker.properties --listen 0.0.0.0:9404",
            "curl http://127.0.0.1:9404/metrics",
        ],
        options=_add_options,
    )
]
