"""Is ``security.protocol`` right for what listens? The client library waits without a word where it is not."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from typing import Final

from connect_share.worker_config.client_settings import ClientSettings

_TIMEOUT_S: Final = 1.0
_KAFKA_PORT: Final = "9092"
_AGAIN_S: Final = 0.3


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
