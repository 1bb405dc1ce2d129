"""The topics of ZooKeeper's znodes, live or from a dump, and writes at a given version; nothing else imports kazoo."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from connect_share.errors import AuthorizationError, BrokerError, BrokerUnavailableError, ConfigError, UsageError
from connect_share.files import LARGEST_BYTES
from connect_share.topic_ids.authority.authority import (
    REMOTE_LOG_METADATA,
    Authority,
    AuthorityTopic,
    MetadataMode,
    leader_of,
    partition_of,
    read_id,
)
from connect_share.topic_ids.scan.scans import json_object
from connect_share.worker_config.properties import load_properties, read_whole

_TOPICS: Final = "/brokers/topics"
_TOPIC: Final = re.compile(rf"(.*){_TOPICS}/[^/]+")
_AT_ONCE: Final = 500
_FILES: Final = ("ca", "certfile", "keyfile")
_TLS: Final = (*_FILES, "keyfile_password")
_SWITCHES: Final = ("verify_certs", "check_hostname", "use_ssl")
_MECHANISM: Final = "sasl.mechanism"
_SASL: Final = (_MECHANISM, "sasl.username", "sasl.password")
_DIGEST: Final = "auth.digest"
_DROPPED: Final = "Connection dropped: "


def read_zookeeper_dump(path: Path) -> Authority:
    """Read a JSON object that maps paths of znodes to their texts; raise ``UsageError`` if it is none."""
    found = json_object(read_whole(path, most_bytes=LARGEST_BYTES))
    if not found:
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
        name: _topic(name, znodes, (versions or {}).get(f"{chroot}{topic_path(name)}"))
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
    path = topic_path(name)
    znode = json_object(znodes[path])
    topic_id, problem = read_id(znode.get("topic_id"))
    if not znode:
        problem = "the text of the znode is no JSON object"
    partitions = {}
    assignment = znode.get("partitions")
    for number, replicas in assignment.items() if isinstance(assignment, dict) else ():
        if re.fullmatch("[0-9]{1,10}", number):
            state = json_object(znodes.get(f"{path}/partitions/{number}/state", ""))
            partitions[int(number)] = partition_of({**state, "replicas": replicas})
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


def topic_path(topic: str) -> str:
    """Return the path of a topic's znode."""
    return f"{_TOPICS}/{topic}"


def with_id(text: str | None, topic_id: str) -> str:
    """Return the text of a topic's znode with another id; all other members stay, in their order."""
    return json.dumps({**json_object(text or ""), "topic_id": topic_id}, separators=(",", ":"))


class _KazooLog(logging.LoggerAdapter[logging.Logger]):
    """A logger that keeps kazoo's last reason for a dropped connection."""

    def __init__(self) -> None:
        super().__init__(logging.getLogger(__name__ + ".kazoo"), {})
        self.last = ""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if level < logging.INFO:
            return  # these are whole requests, passwords included
        text = str(msg) % args if args else str(msg)
        if text.startswith(_DROPPED):
            self.last = text.removeprefix(_DROPPED)
        super().log(level, msg, *args, **kwargs)


def client_arguments(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of ``KazooClient`` for properties; any of ``ca``, ``certfile``, ``keyfile`` switches TLS on.

    Raises:
        ConfigError: names the property that is unknown or wrong, never its value.
    """
    found: dict[str, Any] = {}
    for name, value in properties.items():
        if name in _TLS:
            if name in _FILES and not Path(value).is_file():
                raise ConfigError(f"{name}: there is no such file", property_name=name)
            found[name] = value
            found.setdefault("use_ssl", True)
        elif name in _SWITCHES:
            if value.strip().lower() not in ("true", "false"):
                raise ConfigError(f"{name} has to be true or false", property_name=name)
            found[name] = value.strip().lower() == "true"
        elif name == _DIGEST:
            if ":" not in value:
                raise ConfigError(f"{_DIGEST} has to be user:password", property_name=_DIGEST)
            found["auth_data"] = [("digest", value)]
        elif name not in _SASL:
            raise ConfigError(f"{name} is no property for ZooKeeper; --help names them", property_name=name)
    sasl = {name.removeprefix("sasl."): properties[name] for name in _SASL if name in properties}
    if sasl and _MECHANISM not in properties:
        raise ConfigError(f"{_MECHANISM} is missing, such as DIGEST-MD5 or GSSAPI", property_name=_MECHANISM)
    return {**found, "sasl_options": sasl} if sasl else found


@dataclass(frozen=True, slots=True)
class Znode:
    """The content of a znode.

    Attributes:
        modified_s: time of the last write, seconds since 1970 on ZooKeeper's clock.
        created_at, modified_at: number of the transaction that created it, and of the last write; ZooKeeper numbers all
            transactions in order.
    """

    data: bytes = field(repr=False)
    version: int
    modified_s: float
    created_at: int
    modified_at: int


class ZooKeeper:
    """An open session of :func:`open_zookeeper`, which translates its errors."""

    def __init__(self, client: Any, hosts: str, timeout_s: float) -> None:
        from kazoo.exceptions import BadVersionError, NoNodeError

        self.hosts = hosts
        self._client = client
        self._timeout_s = timeout_s
        self._no_node: type[Exception] = NoNodeError
        self._bad_version: type[Exception] = BadVersionError

    def authority(self, progress: Callable[[str], None] | None = None) -> Authority:
        """Read all topics of the cluster."""
        topics = self.children(_TOPICS)
        if not topics:
            raise UsageError(f"ZooKeeper {self.hosts} has no topics below {_TOPICS}; is the chroot right?")
        texts: dict[str, str] = {}
        versions: dict[str, int] = {}

        def read(paths: Iterable[str], what: str) -> None:
            wanted = list(paths)
            for start in range(0, len(wanted), _AT_ONCE):
                batch = wanted[start : start + _AT_ONCE]
                for path, answer in [(path, self._client.get_async(path)) for path in batch]:
                    with suppress(self._no_node):  # deleted meanwhile, or optional
                        data, stat = answer.get(timeout=self._timeout_s)
                        texts[path] = (data or b"").decode("utf-8", "replace")
                        versions[path] = int(stat.version)
                if progress is not None and len(wanted) > _AT_ONCE:
                    progress(f"{start + len(batch):,} of {len(wanted):,} {what} read from ZooKeeper")

        read(["/cluster/id", "/controller"], "znodes")
        read([f"/config/topics/{topic}" for topic in topics], "topic settings")
        read(map(topic_path, topics), "topics")
        found = authority_of_znodes(texts, self.hosts)
        read(
            [
                f"{topic_path(topic.name)}/partitions/{partition}/state"
                for topic in found.topics.values()
                for partition in topic.partitions
            ],
            "partition states",
        )
        for folder in ("/brokers/ids", "/admin/delete_topics"):
            texts.update({f"{folder}/{name}": "" for name in self.children(folder)})
        return authority_of_znodes(texts, f"ZooKeeper {self.hosts}", versions)

    def get(self, path: str) -> Znode | None:
        """Return one znode; ``None``: there is none."""
        try:
            data, stat = self._client.get(path)
        except self._no_node:
            return None
        return Znode(data or b"", stat.version, stat.mtime / 1000, stat.czxid, stat.mzxid)

    def set(self, path: str, data: bytes, version: int) -> bool:
        """Write a znode if it still has this version; return ``False`` without a write if it has not."""
        try:
            self._client.set(path, data, version=version)
        except (self._bad_version, self._no_node):
            return False
        return True

    def delete(self, path: str) -> None:
        """Delete a znode if it exists."""
        with suppress(self._no_node):
            self._client.delete(path)

    def children(self, path: str) -> tuple[str, ...]:
        """Return the names below a znode, in order; none if it does not exist."""
        try:
            return tuple(sorted(self._client.get_children(path)))
        except self._no_node:
            return ()


@contextmanager
def open_zookeeper(hosts: str, config: Path | None = None, *, timeout_s: float = 15.0) -> Iterator[ZooKeeper]:
    """Open a session of a ZooKeeper, ``host:port,...`` with a chroot at the end if there is one.

    ``config`` is a properties file for TLS and SASL (:func:`client_arguments`); ``timeout_s`` is the longest wait for the
    connection, and for each answer. Errors of ZooKeeper or of the network are ``BrokerUnavailableError``,
    ``AuthorizationError`` or ``BrokerError``; ``UsageError``: the extra is missing.
    """
    try:
        from kazoo.client import KazooClient
        from kazoo.exceptions import AuthFailedError, KazooException, NoAuthError
        from kazoo.handlers.threading import KazooTimeoutError
    except ImportError as exc:
        raise UsageError("asking ZooKeeper needs kazoo: pip install kazoo, or use --zookeeper-dump FILE") from exc
    arguments = client_arguments(load_properties(config) if config is not None else {})
    if "sasl_options" in arguments and find_spec("puresasl") is None:
        raise UsageError("SASL to ZooKeeper needs one more package: pip install pure-sasl")
    log = _KazooLog()
    try:
        client = KazooClient(hosts=hosts, timeout=timeout_s, logger=log, **arguments)
    except ValueError as exc:
        raise UsageError(f"ZooKeeper {hosts!r}: {exc}; give host:port,... and the chroot") from exc
    try:
        try:
            client.start(timeout=timeout_s)
        except OSError as exc:
            raise KazooTimeoutError from exc
        yield ZooKeeper(client, hosts, timeout_s)
    except (NoAuthError, AuthFailedError) as exc:
        raise AuthorizationError(
            f"ZooKeeper {hosts} refuses access; give --zookeeper-config with sasl.mechanism or auth.digest",
            name=type(exc).__name__,
        ) from exc
    except KazooTimeoutError as exc:
        raise BrokerUnavailableError(
            f"no answer from ZooKeeper {hosts} within {timeout_s:g} s{f' ({log.last})' if log.last else ''}; "
            "check host, port, and whether it wants TLS or SASL",
            name=type(exc).__name__,
            retriable=True,
        ) from exc
    except KazooException as exc:
        raise BrokerError(f"asking ZooKeeper {hosts} failed: {type(exc).__name__}", name=type(exc).__name__) from exc
    finally:
        with suppress(AttributeError):  # raised by kazoo if it was interrupted while it started
            client.stop()
            client.close()
