"""A broker that wants TLS, a password and a right for everything."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from connect_share.jar.java_runtime import java_command
from tests.lab.embedded.broker import LocalBroker
from tests.lab.embedded.errors import EmbeddedError
from tests.lab.embedded.jvm import QUICK_TOOL
from tests.lab.embedded.ports import free_ports

LOST: Final = "kafka-0.kafka.invalid:9092"
STORE_PASSWORD: Final = "store-password"
_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


class SecureBroker(LocalBroker):
    """A :class:`LocalBroker` with a SASL_SSL listener, PLAIN and SCRAM-SHA-512 users and an authorizer.

    Nobody may do anything until a right is given, except through :meth:`admin`.

    Args:
        users: passwords by user name; each can log in with both mechanisms.
    """

    client_listener = "SASL_SSL"

    def __init__(self, users: Mapping[str, str]) -> None:
        super().__init__("test")
        self._users = dict(users)
        self._lost_port = free_ports(1)[0]
        # SCRAM users exist from the first start.
        scram = [f"SCRAM-SHA-512=[name={name},password={password}]" for name, password in users.items()]
        self.format_arguments = [word for user in scram for word in ("--add-scram", user)]

    def broker_properties(self) -> dict[str, str]:
        """Settings with certificates, users and authorizer."""
        self._make_certificates()
        logins = " ".join(f'user_{name}="{password}"' for name, password in self._users.items())
        listener = "listener.name.sasl_ssl."
        given = super().broker_properties()
        return {
            **given,
            "listeners": f"{given['listeners']},LOST://127.0.0.1:{self._lost_port}",
            "advertised.listeners": f"{given['advertised.listeners']},LOST://{LOST}",
            "listener.security.protocol.map": f"{given['listener.security.protocol.map']},LOST:PLAINTEXT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",  # the internal listener, which nobody else knows
            "allow.everyone.if.no.acl.found": "false",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            f"{listener}plain.sasl.jaas.config": f"{_MODULES['PLAIN']} required {logins};",
            f"{listener}scram-sha-512.sasl.jaas.config": f"{_MODULES['SCRAM-SHA-512']} required;",
            f"{listener}ssl.keystore.location": str(self.key_store),
            f"{listener}ssl.keystore.type": "PKCS12",
            f"{listener}ssl.keystore.password": STORE_PASSWORD,
            f"{listener}ssl.key.password": STORE_PASSWORD,
        }

    @property
    def lost_servers(self) -> str:
        """``host:port`` of a plaintext listener that advertises a host which nobody can find."""
        return f"127.0.0.1:{self._lost_port}"

    @property
    def key_store(self) -> Path:
        """The broker's key and certificate (PKCS12)."""
        return self.folder / "broker.p12"

    @property
    def certificate(self) -> Path:
        """The broker's certificate (PEM), which clients have to trust."""
        return self.folder / "broker.pem"

    @property
    def trust_store(self) -> Path:
        """The same as a Java trust store (PKCS12, password :data:`STORE_PASSWORD`)."""
        return self.folder / "trust.p12"

    def worker_properties(
        self, user: str, *, mechanism: Literal["PLAIN", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    ) -> dict[str, str]:
        """Return the properties with which a Java worker logs in as ``user``."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{_MODULES[mechanism]} required username="{user}" password="{self._users[user]}";',
            "ssl.truststore.location": str(self.trust_store),
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.password": STORE_PASSWORD,
        }

    def _make_certificates(self) -> None:
        if self.trust_store.exists():
            return
        store = ["-keystore", str(self.key_store), "-storetype", "PKCS12", "-storepass", STORE_PASSWORD]
        name = ["-dname", "CN=localhost", "-ext", "SAN=dns:localhost,ip:127.0.0.1", "-validity", "30"]
        # The quick compiler of Java takes three times as long for a handshake with RSA.
        _keytool("-genkeypair", "-alias", "broker", "-keyalg", "EC", "-keysize", "256", *name, *store)
        _keytool("-exportcert", "-rfc", "-alias", "broker", "-file", str(self.certificate), *store)
        trust = ["-keystore", str(self.trust_store), "-storetype", "PKCS12", "-storepass", STORE_PASSWORD]
        _keytool("-importcert", "-noprompt", "-alias", "broker", "-file", str(self.certificate), *trust)


def _keytool(*arguments: str) -> None:
    tool = java_command().resolve().with_name("keytool")
    done = subprocess.run([str(tool), *QUICK_TOOL, *arguments], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise EmbeddedError(f"keytool {arguments[0]} failed: {(done.stdout + done.stderr)[-500:]}")
