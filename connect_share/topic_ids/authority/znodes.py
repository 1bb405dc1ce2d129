"""The topics of ZooKeeper's znodes, live or from a dump."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from connect_share.errors import UsageError
from connect_share.topic_ids.authority.authority import (
    REMOTE_LOG_METADATA,
    Authority,
    AuthorityPartition,
    AuthorityTopic,
    MetadataMode,
    integers,
    leader_of,
    read_id,
)
from connect_share.topic_ids.scan.scans import json_object

_TOPIC: Final = re.compile(r"(.*)/brokers/topics/([^/]+)")
_STATE: Final = re.compile(r"(.*)/brokers/topics/([^/]+)/partitions/([0-9]+)/state")
_BROKER: Final = re.compile(r".*/brokers/ids/([0-9]+)")
_CONFIG: Final = re.compile(r".*/config/topics/([^/]+)")
_DELETING: Final = re.compile(r".*/admin/delete_topics/([^/]+)")


def read_zookeeper_dump(path: Path) -> Authority:
    """Read a JSON object that maps paths of znodes to their texts; raise ``UsageError`` if it is none."""
    try:
        found = json.loads(path.read_bytes())
    except OSError as exc:
        raise UsageError(f"cannot read {path}: {exc.strerror}") from exc
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UsageError(f"{path} is no ZooKeeper dump: it has to be a JSON object of paths and texts")
    texts = {name: text for name, text in found.items() if isinstance(text, str)}
    return authority_of_znodes(texts, str(path))


def authority_of_znodes(texts: Mapping[str, str], source: str, versions: Mapping[str, int] | None = None) -> Authority:
    """Parse the texts of znodes, and their versions if known, by path with or without a chroot.

    Raise ``UsageError`` if no topic is below ``/brokers/topics``, or those of several clusters are; the rest is optional.
    """
    topics: dict[str, tuple[str, str]] = {}
    states: dict[str, dict[int, Any]] = {}
    configs: dict[str, Any] = {}
    brokers, deleting, chroots = set(), set(), set()
    for path, text in texts.items():
        if match := _TOPIC.fullmatch(path):
            chroots.add(match.group(1))
            topics[match.group(2)] = path, text
        elif match := _STATE.fullmatch(path):
            states.setdefault(match.group(2), {})[int(match.group(3))] = json_object(text)
        elif match := _BROKER.fullmatch(path):
            brokers.add(int(match.group(1)))
        elif match := _CONFIG.fullmatch(path):
            configs[match.group(1)] = json_object(text).get("config")
        elif match := _DELETING.fullmatch(path):
            deleting.add(match.group(1))
    if not topics:
        raise UsageError(f"{source} has nothing under /brokers/topics; is the chroot right?")
    if len(chroots) > 1:
        raise UsageError(f"{source} has the topics of {len(chroots)} clusters; give those of one")
    chroot = chroots.pop()
    controller = json_object(texts.get(f"{chroot}/controller", "")).get("brokerid")
    cluster_id = json_object(texts.get(f"{chroot}/cluster/id", "")).get("id")
    found = {
        name: _topic(name, text, states.get(name, {}), configs.get(name), (versions or {}).get(path))
        for name, (path, text) in topics.items()
    }
    return Authority(
        MetadataMode.ZOOKEEPER,
        source,
        found,
        cluster_id=cluster_id if isinstance(cluster_id, str) else None,
        deleting=frozenset(deleting),
        controller=leader_of(controller),
        live=frozenset(brokers) if brokers else None,
        tiered_storage=REMOTE_LOG_METADATA in found or any(topic.remote_storage for topic in found.values()),
    )


def _topic(name: str, text: str, states: Mapping[int, Any], config: object, version: int | None) -> AuthorityTopic:
    znode = json_object(text)
    topic_id, problem = read_id(znode.get("topic_id"))
    if not znode:
        problem = "the text of the znode is no JSON object"
    partitions = {}
    assignment = znode.get("partitions")
    for number, replicas in assignment.items() if isinstance(assignment, dict) else ():
        if re.fullmatch("[0-9]{1,10}", number):
            state = states.get(int(number), {})
            partitions[int(number)] = AuthorityPartition(
                integers(replicas), leader_of(state.get("leader")), integers(state.get("isr"))
            )
    remote = None
    if isinstance(config, dict):
        remote = str(config.get("remote.storage.enable", "false")).lower() == "true"
    return AuthorityTopic(
        name,
        topic_id,
        partitions,
        problem,
        moving=bool(znode.get("adding_replicas")) or bool(znode.get("removing_replicas")),
        remote_storage=remote,
        version=version,
        text=text,
    )


def with_id(text: str | None, topic_id: str) -> str:
    """Return the text of a topic's znode with another id; all other members stay, in their order."""
    return json.dumps({**json_object(text or ""), "topic_id": topic_id}, separators=(",", ":"))
