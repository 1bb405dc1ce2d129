"""The only door to kafka-python: joining, heartbeats and leaving of a group with protocol type ``connect``.

librdkafka joins groups of protocol type ``consumer`` only.
"""

from __future__ import annotations

import contextlib
import logging
import ssl
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

with warnings.catch_warnings():
    # On Python 3.11 and 3.12 it reads its schemas with a function that is deprecated there.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka.coordinator.base import UNKNOWN_MEMBER_ID, BaseCoordinator
    from kafka.errors import InconsistentGroupProtocolError, KafkaError
    from kafka.net.compat import KafkaNetClient
    from kafka.net.manager import KafkaConnectionManager
    from kafka.net.selector import NetworkSelector

from connect_share.errors import BrokerError, GroupMembershipError, refusal
from connect_share.kafka.connect_protocol import PROTOCOL_TYPE
from connect_share.worker_config import ClientSettings
from connect_share.worker_config.client_translation import NO_TLS_1_2

# The member says itself who leads, what is assigned and what goes wrong; an outage is a hundred lines of the library's.
if logging.getLogger("kafka").level == logging.NOTSET:
    logging.getLogger("kafka").setLevel(logging.CRITICAL)

_PLAIN: Final = frozenset({"PLAINTEXT", "SSL"})
_MECHANISMS: Final = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
_BOOTSTRAP_MS: Final = 1_000


@dataclass(frozen=True)
class GroupSettings:
    """The group, the name of its protocol, and times by the names of the worker file."""

    group_id: str
    protocol: str
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100


@dataclass(frozen=True)
class Joined:
    """One completed rebalance."""

    generation: int
    member_id: str
    assignment: bytes


@dataclass(frozen=True)
class MemberCallbacks:
    """Called on the client's own thread: none may wait.

    Attributes:
        state: returns what the member says of itself.
        assign: returns the assignment of each member, from the states of all; called for the leader.
        changed: the member has to rejoin, or was lost.
    """

    state: Callable[[], bytes]
    assign: Callable[[str, Mapping[str, bytes]], Mapping[str, bytes]]
    changed: Callable[[], None]


class GroupCoordinator:
    """The group's coordinator, seen by one member; ``configs`` are of :func:`client_configs`."""

    def __init__(self, configs: Mapping[str, Any], group: GroupSettings, callbacks: MemberCallbacks) -> None:
        net = NetworkSelector(**configs)
        self._connections = KafkaConnectionManager(net, **configs)
        self._client = KafkaNetClient(net=net, manager=self._connections)
        self._group, self._callbacks, self._net = group, callbacks, net
        self._member: _Member | None = None

    def join(self, timeout_ms: int) -> Joined | None:
        """Join or rejoin where that is needed; return the assignment, ``None`` while there is none yet.

        Raises:
            GroupMembershipError: the group does not take this member.
            BrokerError: another error of the cluster.
        """
        with _translated():
            if self._member is None:
                self._net.start()
                self._connections.bootstrap(max(timeout_ms, _BOOTSTRAP_MS))
                version = self._connections.broker_version
                self._member = _Member(self._client, self._group, self._callbacks, version)
            member = self._member
            if not member.rejoin_needed:
                member.poll_heartbeat()
                return None
            member.ensure_active_group(timeout_ms=timeout_ms)
            found, member.joined = member.joined, None
            return found

    @property
    def needs_rejoin(self) -> bool:
        """Whether the next :meth:`join` joins."""
        return self._member is None or bool(self._member.rejoin_needed)

    @property
    def is_unreachable(self) -> bool:
        """Whether no coordinator has answered for the session timeout: it counts this member as gone then."""
        member = self._member
        return member is not None and member.coordinator_id is None and bool(member.heartbeat.session_timeout_expired())

    def request_rejoin(self) -> None:
        """Let the next :meth:`join` join again."""
        if self._member is not None:
            self._member.request_rejoin()

    @property
    def is_lost(self) -> bool:
        """Whether the group has dropped this member since the last :meth:`take_lost`."""
        return self._member is not None and self._member.lost

    def take_lost(self) -> bool:
        """Return whether the group has dropped this member since the last call."""
        lost = self.is_lost
        if self._member is not None:
            self._member.lost = False
        return lost

    def close(self, timeout_ms: int) -> None:
        """Leave the group and close the connections; an unreachable coordinator finds out by itself."""
        with contextlib.suppress(KafkaError):
            if self._member is not None:
                self._member.close(timeout_ms=timeout_ms)
        with contextlib.suppress(KafkaError):
            self._client.close()

    def leave(self, timeout_ms: int) -> None:
        """Leave the group; the next :meth:`join` joins as a new member."""
        with _translated():
            if self._member is not None:
                self._member.maybe_leave_group(timeout_ms=timeout_ms)


class _Member(BaseCoordinator):  # type: ignore[misc]  # kafka-python has no types
    def __init__(
        self, client: KafkaNetClient, group: GroupSettings, callbacks: MemberCallbacks, version: tuple[int, ...]
    ) -> None:
        self._group, self._callbacks = group, callbacks
        self.joined: Joined | None = None
        self.lost = False
        super().__init__(
            client,
            group_id=group.group_id,
            session_timeout_ms=group.session_timeout_ms,
            heartbeat_interval_ms=group.heartbeat_interval_ms,
            max_poll_interval_ms=group.rebalance_timeout_ms,
            retry_backoff_ms=group.retry_backoff_ms,
            api_version=version,
        )

    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    def group_protocols(self) -> list[tuple[str, bytes]]:
        return [(self._group.protocol, self._callbacks.state())]

    def _perform_assignment(self, leader_id: str, _protocol: str, members: Sequence[Any]) -> Mapping[str, bytes]:
        return self._callbacks.assign(leader_id, {member.member_id: member.metadata for member in members})

    async def _on_join_complete_async(self, generation: int, member_id: str, _protocol: str, assignment: bytes) -> None:
        self.joined = Joined(generation, member_id, assignment)

    def request_rejoin(self) -> None:
        super().request_rejoin()
        self._callbacks.changed()

    def reset_generation(self, member_id: str = UNKNOWN_MEMBER_ID) -> None:
        self.lost = True
        super().reset_generation(member_id)
        self._callbacks.changed()


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except InconsistentGroupProtocolError:
        raise GroupMembershipError(
            "members of the group use another group protocol, as Java workers do: stop them, or use another group.id"
        ) from None
    except KafkaError as exc:
        name = type(exc).__name__.removesuffix("Error")
        raise BrokerError(
            f"the group coordinator: {name}: {exc}", name=name, retriable=bool(getattr(exc, "retriable", False))
        ) from exc


def client_configs(client: ClientSettings, client_id: str) -> dict[str, Any]:
    """Return the settings of a client by kafka-python's names.

    Raises:
        ConfigError: kafka-python, or its use here, has nothing like a security setting; names it.
    """
    properties = client.properties
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    found: dict[str, Any] = {
        "client_id": client_id,
        "bootstrap_servers": client.bootstrap_servers.split(","),
        "reconnect_backoff_max_ms": 1_000,
        "security_protocol": protocol,
    }
    if protocol.endswith("SSL"):
        found["ssl_context"] = _tls(properties)
    if protocol in _PLAIN:
        return found
    mechanism = properties.get("sasl.mechanism", "")
    if mechanism not in _MECHANISMS:
        raise refusal("sasl.mechanism", f"{mechanism} cannot be used for group membership; {sorted(_MECHANISMS)} can")
    return {
        **found,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": properties.get("sasl.username"),
        "sasl_plain_password": properties.get("sasl.password"),
    }


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    if "ssl.keystore.location" in properties:
        raise refusal("ssl.keystore.location", ": group membership takes a PEM key store, not PKCS12")
    try:
        context = ssl.create_default_context(
            cafile=properties.get("ssl.ca.location"), cadata=properties.get("ssl.ca.pem")
        )
        if properties.get("ssl.endpoint.identification.algorithm") == "none":
            context.check_hostname = False
        if properties.get("ssl.cipher.suites") == NO_TLS_1_2:
            context.minimum_version = ssl.TLSVersion.TLSv1_3
        _load_key(context, properties)
    except (OSError, ssl.SSLError) as exc:
        raise refusal("ssl.*", f": {exc.strerror or exc}") from None
    return context


def _load_key(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    # Without a password OpenSSL would ask at the terminal.
    password = properties.get("ssl.key.password", "")
    location = properties.get("ssl.certificate.location")
    if location is not None:
        context.load_cert_chain(location, properties.get("ssl.key.location"), password)
    elif "ssl.certificate.pem" in properties:
        # OpenSSL loads keys from files only; this one is readable by this user, and gone at once.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(properties.get("ssl.key.pem", "") + properties["ssl.certificate.pem"])
            file.flush()
            context.load_cert_chain(file.name, password=password)
