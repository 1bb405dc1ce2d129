"""Is ``security.protocol`` right for what listens? The client library waits without a word where it is not."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import time
from typing import Final

from connect_share.client import KafkaError
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
