"""Connections that a broker with TLS and passwords refuses: the error says what is wrong, and what to do."""

from __future__ import annotations

import select
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from connect_share.cli.__main__ import main
from connect_share.errors import AuthorizationError, BrokerTimeoutError, BrokerUnavailableError, ConfigError
from connect_share.kafka.admin import Admin
from connect_share.worker_config import WorkerConfig
from migrator.survey import survey
from tests.lab.secure_broker import SecureBroker
from tests.support.secure_site import worker_file

pytestmark = pytest.mark.xdist_group("secure-broker")


def test_a_wrong_password_is_named(secure: SecureBroker, tmp_path: Path) -> None:
    path = worker_file(tmp_path, secure, "reader")
    path.write_text(path.read_text().replace("reader-pw", "zebra-pw"))
    with pytest.raises(AuthorizationError, match="check user, password and sasl") as caught:
        ask(path)
    assert "zebra" not in str(caught.value)


def test_a_broker_that_is_not_trusted_is_named(secure: SecureBroker, tmp_path: Path) -> None:
    path = worker_file(tmp_path, secure, "reader")
    lines = [line for line in path.read_text().splitlines() if not line.startswith("ssl.truststore")]
    path.write_text("\n".join(lines))
    with pytest.raises(BrokerUnavailableError, match="certificate"):
        ask(path)


ANOTHER_NAME = "127.0.0.2"  # this machine, under a name that the broker's certificate does not have


@contextmanager
def under_another_name(broker: SecureBroker) -> Iterator[str]:
    """Pass bytes on from an address that is not in the certificate."""
    host, _, port = broker.bootstrap_servers.rpartition(":")

    class Passing(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection((host, int(port))) as inner:
                ends = {self.request: inner, inner: self.request}
                while readable := select.select(list(ends), [], [])[0]:
                    for end in readable:
                        data = end.recv(65536)
                        if not data:
                            return
                        ends[end].sendall(data)

    with socketserver.ThreadingTCPServer((ANOTHER_NAME, 0), Passing) as server:
        server.daemon_threads = True
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"{ANOTHER_NAME}:{server.server_address[1]}"
        finally:
            server.shutdown()
            serving.join()


def test_only_an_empty_algorithm_takes_a_certificate_of_another_host(secure: SecureBroker, tmp_path: Path) -> None:
    path = worker_file(tmp_path, secure, "reader")
    lines = [line for line in path.read_text().splitlines() if not line.startswith("bootstrap.servers")]
    algorithm = "ssl.endpoint.identification.algorithm"
    with under_another_name(secure) as elsewhere:
        for more in ([], [f"{algorithm}=HTTPS"]):
            path.write_text("\n".join([*lines, f"bootstrap.servers={elsewhere}", *more]))
            with pytest.raises(BrokerUnavailableError, match="certificate"):
                ask(path)
        for typo in ("htps", "LDAPS", "https,", "none"):
            path.write_text("\n".join([*lines, f"bootstrap.servers={elsewhere}", f"{algorithm}={typo}"]))
            with pytest.raises(ConfigError, match=f"{algorithm} has to be https"):
                ask(path)
        path.write_text("\n".join([*lines, f"bootstrap.servers={elsewhere}", f"{algorithm}="]))
        assert ask(path)


def ask(path: Path) -> str:
    settings = WorkerConfig.from_file(path).admin_settings()
    with suppress(BrokerTimeoutError), closing(Admin(settings, client_id="tests", timeout_s=3)) as admin:
        return admin.cluster_id()
    # A busy machine was not done with the first handshake.
    with closing(Admin(settings, client_id="tests", timeout_s=60)) as admin:
        return admin.cluster_id()


@pytest.mark.parametrize("words", [["get", "groups"], ["create", "topics", "--dry-run"]])
def test_plaintext_at_a_tls_listener_is_named(
    secure: SecureBroker, tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = worker_file(tmp_path, secure, "owner", security_protocol="SASL_PLAINTEXT")
    assert main([*words, "-w", str(path), "--timeout", "60"]) == 1
    host = secure.bootstrap_servers
    expected = f"security.protocol is SASL_PLAINTEXT and {host} speaks TLS; set security.protocol to SSL, or SASL_SSL"
    assert expected in capsys.readouterr().err


def test_a_survey_names_the_wrong_protocol_in_either_direction(
    secure: SecureBroker, broker: Any, tmp_path: Path
) -> None:
    plain = worker_file(tmp_path, secure, "owner", security_protocol="PLAINTEXT")
    other = tmp_path / "other.properties"
    words = [
        line for line in plain.read_text("ascii").splitlines() if not line.startswith(("bootstrap", "security", "sasl"))
    ]
    other.write_text("\n".join([*words, f"bootstrap.servers={broker.bootstrap_servers}", "security.protocol=SSL"]))
    found = survey([plain, other])
    assert [part for text in found.unanswered for part in ("speaks TLS", "speaks plaintext") if part in text] == [
        "speaks TLS",
        "speaks plaintext",
    ]
