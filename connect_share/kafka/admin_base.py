"""Is ``security.protocol`` right for what listens? The client library waits without a word where it is not.

How anything is asked of a cluster: again while the answer may change, and with the reason when there is none.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, Self, TypeVar

from connect_share.errors import AuthorizationError, BrokerError, BrokerTimeoutError, BrokerUnavailableError
from connect_share.kafka.client import (
    AdminClient,
    KafkaError,
    KafkaException,
    TopicRight,
    admin_client,
    is_unknown_topic,
    translate,
)
from connect_share.worker_config.client_settings import ClientSettings

_TIMEOUT_S: Final = 1.0
_KAFKA_PORT: Final = "9092"
_AGAIN_S: Final = 0.3
_BROKER: Final = re.compile(r"(?:\A|//)([^\s/]+)/\d+: ")
"""How the library names a broker that has told its address; one of bootstrap.servers is ``.../bootstrap``."""
NO_ANSWER: Final = (
    "if they are, this may be no Kafka listener (Connect's REST API?), or one that wants a login: security.protocol SASL_SSL "
    "or SASL_PLAINTEXT"
)


def advice(error: KafkaError, bootstrap_servers: str) -> str | None:
    """Return what to do about an error of a connection; ``None``: nothing special is known."""
    name, text = str(error.name()), str(error.str())
    told = _BROKER.search(text)
    address = told[1] if told is not None else ""
    if address and name in ("_RESOLVE", "_TRANSPORT") and address not in bootstrap_servers.split(","):
        return (
            f"a broker answered, and {address}, the address that it tells its clients (advertised.listeners), cannot be "
            "reached from here: run this where it can, or use a listener that is made for clients outside"
        )
    if name == "_RESOLVE":
        return "no such host is known here: correct it in bootstrap.servers"
    if name == "_TRANSPORT" and "refused" in text:
        return "nothing listens there: correct the port in bootstrap.servers, or start the brokers"
    if name == "_SSL" and "certificate" in text:
        return (
            "let ssl.truststore.location name a store with the certificate of the brokers' CA, and name the host as their "
            "certificates do"
        )
    if name == "_AUTHENTICATION" and "not valid in current SASL state" in text:
        return "this listener takes no login: set security.protocol to PLAINTEXT or SSL"
    if name == "_BAD_MSG":
        return "what listens there is no Kafka broker, or wants TLS"
    return None


def wrong_protocol(settings: ClientSettings) -> str | None:
    """Return how ``security.protocol`` has to be changed; ``None``: it may be right, or nothing listens.

    One TLS handshake, with the first address that takes a connection; nothing is sent, and nothing believed.
    """
    protocol = settings.properties.get("security.protocol", "plaintext").lower()
    wants_tls = protocol.endswith("ssl")
    for address in settings.bootstrap_servers.split(","):
        host, _, port = address.strip().rpartition("://")[2].rpartition(":")
        host, port = (host.strip("[]"), port) if host else (port, _KAFKA_PORT)
        speaks_tls = _speaks_tls(host, int(port)) if port.isdigit() else None
        if speaks_tls is False and wants_tls:
            time.sleep(_AGAIN_S)  # a broker that is just going down ends handshakes too
            speaks_tls = _speaks_tls(host, int(port))
        if speaks_tls is (not wants_tls):
            speaks, use = ("plaintext", "PLAINTEXT, or SASL_PLAINTEXT") if wants_tls else ("TLS", "SSL, or SASL_SSL")
            return (
                f"security.protocol is {protocol.upper()} and {host}:{port} speaks {speaks}; set security.protocol to {use} "
                f"that needs a login"
            )
        if speaks_tls is not None:
            return None
    return None


def _speaks_tls(host: str, port: int) -> bool | None:
    """Try a handshake; ``None``: nothing listens, or it does not answer."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # who it is does not matter here
    with contextlib.suppress(OSError), socket.create_connection((host, port), _TIMEOUT_S) as raw:
        try:
            with context.wrap_socket(raw, server_hostname=host):
                return True
        except (ssl.SSLEOFError, ConnectionResetError, ssl.SSLZeroReturnError):
            return False  # as a broker does that reads the handshake as the length of a request
        except ssl.SSLError as error:
            return (
                error.reason != "WRONG_VERSION_NUMBER"
            )  # any other is an answer in TLS, such as for a missing certificate
    return None


T = TypeVar("T")

FIRST_TRY_S: Final = 3.0
_FIRST_OF_ALL_S: Final = 1.5
_LONGEST_TRY_S: Final = 10.0
_RETRY_S: Final = 0.1
_FIRST_RETRY_S: Final = 0.01
"""A broker that has just been told of a new topic leads its partitions some ten milliseconds later."""
_GRACE_S: Final = 0.5
_LOOK_S: Final = 1.0
_PROTOCOL_S: Final = 3.0


class AdminBase:
    """Admin client of one cluster, and how it is used; thread-safe.

    ``timeout_s`` is the limit of each call, retries of retriable errors included.
    """

    def __init__(self, settings: ClientSettings, *, client_id: str, timeout_s: float = 30.0) -> None:
        self.bootstrap_servers = settings.bootstrap_servers
        self._settings = settings
        self._timeout_s = timeout_s
        self._trouble: KafkaError | None = None
        self._answered = False
        self._created_s: dict[str, float] = {}
        self._open: AdminClient | None = admin_client(settings, client_id=client_id, on_error=self._note_trouble)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections; may be called twice."""
        self._open = None

    @property
    def _client(self) -> AdminClient:
        """The client; another thread may close this at any moment."""
        client = self._open
        if client is None:
            raise BrokerUnavailableError(f"the admin client of {self.bootstrap_servers} was closed")
        return client

    def _note_trouble(self, error: KafkaError) -> None:
        if error.name() != "_ALL_BROKERS_DOWN":  # all others were reported before that one
            self._trouble = error

    def _no_answer(self, error: BrokerError) -> BrokerError:
        """Return why there was no answer: the operation only knows that time is up, the connections know the reason."""
        # The library reports some only once, and not again with each try.
        said_once = {"_RESOLVE"} if self._answered else {"_RESOLVE", "_TRANSPORT"}
        known = self._trouble  # other threads note and forget it at any moment
        if known is not None and known.name() not in said_once:
            self._trouble = None
        self._client.poll(0)
        trouble = self._trouble
        if trouble is None:
            hint = "" if self._answered else f"; {NO_ANSWER}"
            return type(error)(
                f"no answer from {self.bootstrap_servers}: {error}{hint}",
                code=error.code,
                name=error.name,
                retriable=True,
            )
        reason = translate(trouble, "connecting", remedy=advice(trouble, self.bootstrap_servers))
        refused = isinstance(reason, AuthorizationError)
        return (AuthorizationError if refused else BrokerUnavailableError)(
            f"no answer from {self.bootstrap_servers}: {reason}",
            code=reason.code,
            name=reason.name,
            retriable=not refused,
        )

    def _wrong_protocol(self, limit_s: float) -> str | None:
        """Return how ``security.protocol`` is wrong, if it is; asked in a thread, for names may take their time."""
        found: list[str | None] = []
        asking = threading.Thread(target=lambda: found.append(wrong_protocol(self._settings)), daemon=True)
        asking.start()
        asking.join(max(0.0, min(_PROTOCOL_S, limit_s)))
        return found[0] if found else None

    def _look_around(self, limit_s: float = _LOOK_S) -> None:
        """Ask any broker who is there.

        The library sends most calls to the controller, on KRaft to some broker that was named as such, and goes on waiting
        for that one when it has died.
        """
        with contextlib.suppress(KafkaException):  # the call itself says what is wrong
            self._client.list_topics(timeout=max(0.1, min(_LOOK_S, self._timeout_s, limit_s)))

    def _retried(self, ask: Callable[[float], T], timeout_s: float | None = None) -> T:
        """Repeat a call until its deadline while it fails with an error that passes: brokers restart, leaders move.

        ``timeout_s`` is a caller's deadline. Without one, brokers of which none ever answered are given up earlier: the
        address may be wrong. So is, with or without, who is refused twice, trusts no certificate of theirs, or speaks another
        protocol than the listener.

        A first try is short, because it may wait for a broker that has died: see :meth:`_look_around`. It leaves time for a
        second one, however short the limit is: without a look around, every call would wait for the dead one again. The very
        first is shorter: the connections know what is wrong long before it ends.
        """
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        deadline_s = time.monotonic() + limit_s
        try_s = min(FIRST_TRY_S if self._answered else _FIRST_OF_ALL_S, limit_s / 2)
        cut_off = refused = unknown = 0
        pause_s = _FIRST_RETRY_S
        while True:
            try:
                answer = ask(max(0.1, min(try_s, deadline_s - time.monotonic())))
            except (BrokerTimeoutError, BrokerUnavailableError) as exc:
                if self._open is None:
                    raise
                error = self._no_answer(exc)
                untrusted = error.name == "_SSL" and "certificate" in str(error)
                refused = refused + 1 if untrusted or isinstance(error, AuthorizationError) else 0
                cut_off = cut_off + 1 if isinstance(exc, BrokerUnavailableError) else 0
                unknown = unknown + 1 if error.name == "_RESOLVE" else 0
                hopeless = timeout_s is None and not self._answered and max(cut_off, unknown) > 1
                explained = self._answered or refused or unknown
                if not explained and (mistake := self._wrong_protocol((deadline_s - time.monotonic()) / 2)):
                    raise BrokerUnavailableError(f"no answer from {self.bootstrap_servers}: {mistake}") from exc
                if refused > 1 or hopeless or time.monotonic() + _RETRY_S > deadline_s:
                    raise error from exc
                time.sleep(_RETRY_S)
                self._look_around((deadline_s - time.monotonic()) / 2)
                try_s = try_s if refused or unknown else min(2 * try_s, _LONGEST_TRY_S)
            except BrokerError as exc:
                if not exc.retriable or time.monotonic() + _RETRY_S > deadline_s:
                    raise
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _RETRY_S)
            else:
                self._answered = True
                return answer


def unanswered(doing: str, timeout_s: float) -> BrokerTimeoutError:
    """Return the error of a question to which no answer came."""
    return BrokerTimeoutError(f"{doing} failed: no answer within {timeout_s:g} s", name="_TIMED_OUT", retriable=True)


def result_of(
    future: Future[Any],
    doing: str,
    needs: TopicRight | None = None,
    *,
    missing_ok: bool = False,
    timeout_s: float,
) -> Any:
    """Return the answer once it is there, with errors as ours; ``missing_ok``: ``None`` for a topic that does not exist."""
    try:
        # The library's own limit does not hold in every phase, such as the search for a leader without brokers, and a
        # client that is closed while a broker has its question never answers.
        return future.result(timeout_s + _GRACE_S)
    except TimeoutError as exc:
        raise unanswered(doing, timeout_s) from exc
    except KafkaException as exc:
        error = translate(exc, doing, needs)
        if missing_ok and is_unknown_topic(error):
            return None
        raise error from exc
