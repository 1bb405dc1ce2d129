"""The only door to kazoo: a live ZooKeeper as the truth about topics, and writes that name the version they go over."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from connect_share.errors import AuthorizationError, BrokerError, BrokerUnavailableError, ConfigError, UsageError
from connect_share.topic_ids.authority.authority import Authority
from connect_share.topic_ids.authority.znodes import authority_of_znodes
from connect_share.worker_config.properties import load_properties

_AT_ONCE: Final = 500
_TOPICS: Final = "/brokers/topics"
_TEXTS: Final = ("ca", "certfile", "keyfile", "keyfile_password")
_SWITCHES: Final = ("verify_certs", "check_hostname")
_SASL: Final = ("sasl.mechanism", "sasl.username", "sasl.password")
_DIGEST: Final = "auth.digest"


_DROPPED: Final = "Connection dropped: "


class _KazooLog(logging.LoggerAdapter[logging.Logger]):
    """Keeps what kazoo said last of a connection, which is the reason of a connection that does not come about."""

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
    """Turn properties into arguments of ``KazooClient``.

    Any of ``ca``, ``certfile``, ``keyfile`` switches TLS on.

    Raises:
        ConfigError: names the property that is unknown or wrong, never its value.
    """
    for name in properties:
        if name not in (*_TEXTS, *_SWITCHES, *_SASL, _DIGEST, "use_ssl"):
            raise ConfigError(f"{name} is no property for ZooKeeper; --help names them", property_name=name)
    found: dict[str, Any] = {name: properties[name] for name in _TEXTS if name in properties}
    for name in (*_SWITCHES, "use_ssl"):
        if name in properties:
            if properties[name].strip().lower() not in ("true", "false"):
                raise ConfigError(f"{name} has to be true or false", property_name=name)
            found[name] = properties[name].strip().lower() == "true"
    if any(name in found for name in _TEXTS):
        found.setdefault("use_ssl", True)
    for name in ("ca", "certfile", "keyfile"):
        if name in found and not Path(found[name]).is_file():
            raise ConfigError(f"{name}: there is no such file", property_name=name)
    if "sasl.mechanism" in properties:
        found["sasl_options"] = {
            name.removeprefix("sasl."): properties[name] for name in _SASL if properties.get(name) is not None
        }
    elif any(name in properties for name in _SASL):
        raise ConfigError("sasl.mechanism is missing, such as DIGEST-MD5 or GSSAPI", property_name="sasl.mechanism")
    if _DIGEST in properties:
        if ":" not in properties[_DIGEST]:
            raise ConfigError(f"{_DIGEST} has to be user:password", property_name=_DIGEST)
        found["auth_data"] = [("digest", properties[_DIGEST])]
    return found


@dataclass(frozen=True, slots=True)
class Znode:
    """What a znode holds.

    Attributes:
        modified_s: when it was written last, seconds since 1970 on ZooKeeper's clock.
        created_at: number of the transaction that created it; all of ZooKeeper's transactions are numbered in order.
        modified_at: number of the transaction that wrote it last.
    """

    data: bytes = field(repr=False)
    version: int
    modified_s: float
    created_at: int
    modified_at: int


class ZooKeeper:
    """An open session; :func:`open_zookeeper` makes it, and translates what goes wrong in it."""

    def __init__(self, client: Any, hosts: str, timeout_s: float) -> None:
        from kazoo.exceptions import BadVersionError, NoNodeError

        self.hosts = hosts
        self._client = client
        self._timeout_s = timeout_s
        self._no_node: type[Exception] = NoNodeError
        self._bad_version: type[Exception] = BadVersionError

    def authority(self, progress: Callable[[str], None] | None = None) -> Authority:
        """Read all topics of the cluster."""
        try:
            return _read(self._client, self.hosts, self._timeout_s, progress, self._no_node)
        except self._no_node as exc:
            raise UsageError(f"ZooKeeper {self.hosts} has no {_TOPICS}; is the chroot right?") from exc

    def get(self, path: str) -> Znode | None:
        """Read one znode; ``None``: there is none."""
        try:
            data, stat = self._client.get(path)
        except self._no_node:
            return None
        return Znode(data or b"", stat.version, stat.mtime / 1000, stat.czxid, stat.mzxid)

    def set(self, path: str, data: bytes, version: int) -> bool:
        """Write a znode if it still has this version; ``False``: somebody wrote or deleted it, nothing was done."""
        try:
            self._client.set(path, data, version=version)
        except (self._bad_version, self._no_node):
            return False
        return True

    def delete(self, path: str) -> None:
        """Delete a znode; it may be gone already."""
        try:
            self._client.delete(path)
        except self._no_node:
            return

    def children(self, path: str) -> tuple[str, ...]:
        """Names below a znode, in order; none if it is not there."""
        try:
            return tuple(sorted(self._client.get_children(path)))
        except self._no_node:
            return ()


@contextmanager
def open_zookeeper(hosts: str, config: Path | None = None, *, timeout_s: float = 15.0) -> Iterator[ZooKeeper]:
    """Open a session.

    Args:
        hosts: ``host:port`` with commas between, a chroot at the end if there is one.
        config: properties file for TLS and SASL (:func:`client_arguments`).
        timeout_s: longest wait for the connection, and for each answer.

    Raises:
        UsageError: the extra is missing.
        BrokerUnavailableError, AuthorizationError, BrokerError: what ZooKeeper, or the network, has against it.
    """
    try:
        from kazoo.client import KazooClient
        from kazoo.exceptions import AuthFailedError, KazooException, NoAuthError
        from kazoo.handlers.threading import KazooTimeoutError
    except ImportError as exc:
        raise UsageError(
            "asking ZooKeeper needs kazoo: pip install 'connect-share[zookeeper]', or use --zookeeper-dump FILE"
        ) from exc
    arguments = client_arguments(load_properties(config) if config is not None else {})
    if "sasl_options" in arguments:
        _need_sasl()
    log = _KazooLog()
    client = KazooClient(hosts=hosts, timeout=timeout_s, logger=log, **arguments)
    try:
        try:
            client.start(timeout=timeout_s)
        except OSError as exc:
            raise KazooTimeoutError from exc
        yield ZooKeeper(client, hosts, timeout_s)
    except (NoAuthError, AuthFailedError) as exc:
        raise AuthorizationError(
            f"ZooKeeper {hosts} does not let us in; give --zookeeper-config with sasl.mechanism or auth.digest",
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
        with suppress(AttributeError):  # what kazoo raises if it was interrupted while it started
            client.stop()
            client.close()


def read_zookeeper(
    hosts: str,
    config: Path | None = None,
    *,
    timeout_s: float = 15.0,
    progress: Callable[[str], None] | None = None,
) -> Authority:
    """Read all topics of a cluster.

    Args:
        hosts: ``host:port`` with commas between, a chroot at the end if there is one.
        config: properties file for TLS and SASL (:func:`client_arguments`).
        timeout_s: longest wait for the connection, and for each answer.
        progress: is told how far it is, now and then.

    Raises:
        UsageError: the extra is missing, or there are no topics of Kafka below this path.
        BrokerUnavailableError, AuthorizationError, BrokerError: what ZooKeeper, or the network, has against it.
    """
    with open_zookeeper(hosts, config, timeout_s=timeout_s) as session:
        return session.authority(progress)


def _need_sasl() -> None:
    try:
        __import__("puresasl")
    except ImportError as exc:
        raise UsageError("SASL to ZooKeeper needs one more package: pip install pure-sasl") from exc


def _read(
    client: Any,
    hosts: str,
    timeout_s: float,
    progress: Callable[[str], None] | None,
    gone: type[Exception],
) -> Authority:
    texts: dict[str, str] = {}
    versions: dict[str, int] = {}

    def take(paths: Iterable[str], what: str) -> None:
        wanted = list(paths)
        for start in range(0, len(wanted), _AT_ONCE):
            batch = wanted[start : start + _AT_ONCE]
            for path, answer in [(path, client.get_async(path)) for path in batch]:
                try:
                    data, stat = answer.get(timeout=timeout_s)
                except gone:
                    continue  # deleted meanwhile, or never there
                texts[path] = (data or b"").decode("utf-8", "replace")
                versions[path] = int(stat.version)
            if progress is not None and len(wanted) > _AT_ONCE:
                progress(f"{min(start + _AT_ONCE, len(wanted)):,} of {len(wanted):,} {what} read from ZooKeeper")

    topics = sorted(client.get_children(_TOPICS))
    if not topics:
        raise UsageError(f"ZooKeeper {hosts} has no topics; is the chroot right?")
    take(["/cluster/id", "/controller"], "znodes")
    take([f"/config/topics/{topic}" for topic in topics], "topic settings")
    take([f"{_TOPICS}/{topic}" for topic in topics], "topics")
    found = authority_of_znodes(texts, hosts)
    take(
        [
            f"{_TOPICS}/{topic.name}/partitions/{partition}/state"
            for topic in found.topics.values()
            for partition in topic.partitions
        ],
        "partition states",
    )
    for folder in ("/brokers/ids", "/admin/delete_topics"):
        try:
            texts.update({f"{folder}/{name}": "" for name in client.get_children(folder)})
        except gone:
            continue
    return authority_of_znodes(texts, f"ZooKeeper {hosts}", versions)
