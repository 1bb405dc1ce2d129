"""Entry point of ``connect-share``: its verbs, and where their commands are."""

from __future__ import annotations

import logging
import sys
from typing import Final

from connect_share.console.program import Program, Verb

_EXAMPLES: Final = """\
examples:
  connect-share discover -B broker:9092
  connect-share get groups -B broker:9092 --config-storage-topic connect-configs \\
      --offset-storage-topic connect-offsets --status-storage-topic connect-status
  connect-share get connectors -w worker.properties
  connect-share get offsets -w worker.properties --all-groups --output json
  connect-share describe group com.acme.orders -w worker.properties
  connect-share describe connector orders.sink -w worker.properties --show-traces
  connect-share export -w worker.properties --all-groups -o groups.avro
  connect-share restore groups.avro -w worker.properties --dry-run
  connect-share alter offsets files -w worker.properties --file offsets.json --dry-run
  connect-share usage -w worker.properties
  connect-share exporter -w worker.properties --listen 127.0.0.1:9404
  connect-share worker-jar --to /opt/kafka/libs
  connect-share keys new
  connect-share check all -w worker.properties
  connect-share admit -w new-group.properties
  connect-share check worker-config worker.properties --libs /opt/kafka/libs
  connect-share create topics -w worker.properties --dry-run
  connect-share check topics -w worker.properties --reassignment new-replicas.json
  connect-share check sealing -w worker.properties
  connect-share check rights -w worker.properties
  connect-share check startup -w worker.properties --apply --dry-run
  connect-share check topic-ids --scan broker-1.scan --scan broker-2.scan --zookeeper zk:2181

precedence, highest first:
  flag, -X, profile (but for the brokers), worker file, default
"""

_CLI: Final = "connect_share.cli"
_TOPIC_IDS: Final = "connect_share.topic_ids.cli"
PROGRAM: Final = Program(
    "connect-share",
    "Show what Kafka Connect clusters keep in their internal topics, shared or dedicated.",
    _EXAMPLES,
    {
        "get": Verb("list groups, connectors, tasks, offsets, statuses or workers", [f"{_CLI}.get", f"{_CLI}.workers"]),
        "describe": Verb("show one group, connector or backup", [f"{_CLI}.describe", f"{_CLI}.backup"]),
        "check": Verb(
            "check what is on the topics, the topics, worker files, what is sealed, rights, start-up, topic ids, or all of "
            "it",
            [f"{_CLI}.check", _TOPIC_IDS],
        ),
        "delete": Verb("retire a group that is shut down", [f"{_CLI}.groups"]),
        "create": Verb("create the topics of a worker", [f"{_CLI}.topics"]),
        "repair": Verb("mend what checks have found", [f"{_CLI}.groups", _TOPIC_IDS]),
        "alter": Verb("set source offsets", [f"{_CLI}.offsets"]),
        "reset": Verb("forget source offsets", [f"{_CLI}.offsets"]),
        "copy": Verb("copy source offsets to another connector, group or cluster", [f"{_CLI}.offsets"]),
        "keys": Verb("make a key of a sealed group", [f"{_CLI}.keys"]),
        "discover": Verb("find all Connect clusters of a Kafka cluster by what is on its topics", [f"{_CLI}.discover"]),
        "admit": Verb("may a new group join these topics? a gate for a pipeline", [f"{_CLI}.admit"]),
        "export": Verb("write groups, whole or by connector, to one file", [f"{_CLI}.backup"]),
        "restore": Verb("put back what a backup or export holds, whole or by connector", [f"{_CLI}.backup"]),
        "usage": Verb("what each group takes and costs, and how many groups fit on one set", [f"{_CLI}.usage"]),
        "exporter": Verb("Prometheus metrics of what all groups keep in the topics", [f"{_CLI}.exporter"]),
        "worker-jar": Verb("show or copy the jar that gives topic sharing to Java workers", [f"{_CLI}.jar"]),
    },
    metavar="VERB",
    loggers=["connect_share"],
    level=logging.CRITICAL,  # the errors of a command say enough
)


build_parser: Final = PROGRAM.parser
"""Makes the parser of all command lines, for the manual."""
main: Final = PROGRAM.main


if __name__ == "__main__":
    sys.exit(main())
