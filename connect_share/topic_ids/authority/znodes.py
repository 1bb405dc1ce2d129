"""The topics of ZooKeeper's znodes, live or from a dump."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

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

_TOPICS: Final = "/brokers/topics"
_TOPIC: Final = re.compile(rf"(.*){_TOPICS}/[^/]+")


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
    chroots = {match.group(1) for match in map(_TOPIC.fullmatch, texts) if match}
    if not chroots:
        raise UsageError(f"{source} has nothing under /brokers/topics; is the chroot right?")
    if len(chroots) > 1:
        raise UsageError(f"{source} has the topics of {len(chroots)} clusters; give those of one")
    chroot = chroots.pop()
    znodes = {path.removeprefix(chroot): text for path, text in texts.items() if path.startswith(chroot)}
    controller = json_object(znodes.get("/controller", "")).get("brokerid")
    cluster_id = json_object(znodes.get("/cluster/id", "")).get("id")
    brokers = {int(name) for name in _names(znodes, "/brokers/ids") if re.fullmatch("[0-9]+", name)}
    found = {
        name: _topic(name, znodes, (versions or {}).get(f"{chroot}{_TOPICS}/{name}"))
        for name in _names(znodes, _TOPICS)
    }
    return Authority(
        MetadataMode.ZOOKEEPER,
        source,
        found,
        cluster_id=cluster_id if isinstance(cluster_id, str) else None,
        deleting=frozenset(_names(znodes, "/admin/delete_topics")),
        controller=leader_of(controller),
        live=frozenset(brokers) if brokers else None,
        tiered_storage=REMOTE_LOG_METADATA in found or any(topic.remote_storage for topic in found.values()),
    )


def _names(znodes: Mapping[str, str], folder: str) -> list[str]:
    return [path[len(folder) + 1 :] for path in znodes if path.rpartition("/")[0] == folder]


def _topic(name: str, znodes: Mapping[str, str], version: int | None) -> AuthorityTopic:
    path = f"{_TOPICS}/{name}"
    znode = json_object(znodes[path])
    topic_id, problem = read_id(znode.get("topic_id"))
    if not znode:
        problem = "the text of the znode is no JSON object"
    partitions = {}
    assignment = znode.get("partitions")
    for number, replicas in assignment.items() if isinstance(assignment, dict) else ():
        if re.fullmatch("[0-9]{1,10}", number):
            state = json_object(znodes.get(f"{path}/partitions/{number}/state", ""))
            partitions[int(number)] = AuthorityPartition(
                integers(replicas), leader_of(state.get("leader")), integers(state.get("isr"))
            )
    config, remote = json_object(znodes.get(f"/config/topics/{name}", "")).get("config"), None
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
        text=znodes[path],
    )


def with_id(text: str | None, topic_id: str) -> str:
    """Return the text of a topic's znode with another id; all other members stay, in their order."""
    return json.dumps({**json_object(text or ""), "topic_id": topic_id}, separators=(",", ":"))
