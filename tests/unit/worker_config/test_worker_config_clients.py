"""Java client settings become settings that the client library takes: clients are constructed, nothing is connected."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext, SSLError, TLSVersion

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

from connect_share.errors import ConfigError
from connect_share.kafka.client import admin_client, consumer, producer
from connect_share.worker_config import ClientSettings, Isolation, WorkerConfig
from connect_share.worker_config.client_translation import IGNORED, is_java_client_property
from tests.lab.embedded.jvm import QUICK_TOOL
from tests.support.worker_files import WORKER

MODULES = "org.apache.kafka.common.security."
PASSWORD = "changeit;='\"\\"


def translated(java: Mapping[str, str]) -> WorkerConfig:
    return WorkerConfig.from_properties({**WORKER, **java})


def ssl(**settings: object) -> dict[str, str]:
    """Settings of a client that uses TLS; a name is that of the property, with underscores."""
    return {
        "security.protocol": "SSL",
        **{f"ssl.{name.replace('_', '.')}": str(text) for name, text in settings.items()},
    }


def construct_all(java: Mapping[str, str]) -> ClientSettings:
    """Make one client of each kind; the library checks all settings against each other then."""
    config = translated(java)
    consumer(config.consumer_settings(), client_id="test", isolation=Isolation.READ_COMMITTED).close()
    producer(config.producer_settings(), client_id="test")
    producer(config.producer_settings(), client_id="test", overrides={"transactional.id": "t"})
    admin_client(config.admin_settings(), client_id="test")
    return config.client_settings()


TUNING = {
    "request.timeout.ms": "40000",
    "retry.backoff.ms": "100",
    "retry.backoff.max.ms": "1000",
    "reconnect.backoff.ms": "50",
    "reconnect.backoff.max.ms": "1000",
    "metadata.max.age.ms": "300000",
    "metadata.recovery.strategy": "rebootstrap",
    "metadata.recovery.rebootstrap.trigger.ms": "300000",
    "connections.max.idle.ms": "540000",
    "socket.connection.setup.timeout.ms": "10000",
    "client.dns.lookup": "use_all_dns_ips",
    "client.rack": "r1",
    "receive.buffer.bytes": "65536",
    "send.buffer.bytes": "131072",
    "fetch.min.bytes": "1",
    "fetch.max.bytes": "52428800",
    "fetch.max.wait.ms": "500",
    "max.partition.fetch.bytes": "1048576",
    "check.crcs": "true",
    "compression.type": "zstd",
    "linger.ms": "5",
    "batch.size": "16384",
    "buffer.memory": "33554432",
    "transaction.timeout.ms": "60000",
}


def test_javas_defaults_are_taken() -> None:
    construct_all(TUNING)
    construct_all(TUNING | {"transaction.timeout.ms": "10000"})  # which a request does not outlast


@pytest.mark.parametrize("name", sorted(TUNING))
@pytest.mark.parametrize("value", ["-1", "0", "1", "2147483647"])
def test_every_value_that_java_takes_is_taken(name: str, value: str) -> None:
    if TUNING[name].isdigit() and name != "client.rack":
        construct_all({name: value})


@pytest.mark.parametrize("kind", ["retry", "reconnect"])
@pytest.mark.parametrize(
    ("first", "longest", "expected"),
    [("5000", "1000", 5_000), ("20000", None, 20_000), (None, "0", 0), (None, "1", 1), (None, "50", 50)],
)
def test_a_longest_wait_is_kept_unless_the_first_is_longer(
    kind: str, first: str | None, longest: str | None, expected: int
) -> None:
    given = {f"{kind}.backoff.ms": first, f"{kind}.backoff.max.ms": longest}
    settings = construct_all({name: value for name, value in given.items() if value is not None}).properties
    assert int(settings[f"{kind}.backoff.max.ms"]) == max(expected, 1 if kind == "retry" else 0)
    assert first in (None, settings.get(f"{kind}.backoff.ms"))


def test_times_are_handed_over() -> None:
    found = translated(TUNING)
    assert found.client_settings().properties["socket.timeout.ms"] == "40000"
    assert found.client_settings().properties["socket.receive.buffer.bytes"] == "65536"
    assert found.consumer_settings().properties["fetch.wait.max.ms"] == "500"
    assert found.producer_settings().properties["queue.buffering.max.kbytes"] == "32768"
    assert "linger.ms" not in found.consumer_settings().properties
    assert "fetch.min.bytes" not in found.producer_settings().properties


@pytest.mark.parametrize("name", sorted(IGNORED))
def test_what_only_tunes_java_is_left_out_and_known(name: str) -> None:
    assert is_java_client_property(name)
    settings = translated({name: "1"})
    assert name not in {**settings.consumer_settings().properties, **settings.producer_settings().properties}


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", "plain.PlainLoginModule"),
        ("SCRAM-SHA-256", "scram.ScramLoginModule"),
        ("SCRAM-SHA-512", "scram.ScramLoginModule"),
    ],
)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "sasl_ssl"])
def test_user_and_password(mechanism: str, module: str, protocol: str) -> None:
    escaped = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    settings = construct_all(
        {
            "security.protocol": protocol,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{MODULES}{module} required username="alice" password="{escaped}";',
        }
    )
    assert settings.properties["sasl.username"] == "alice"
    assert settings.properties["sasl.password"] == PASSWORD
    assert settings.properties["sasl.mechanism"] == mechanism


OAUTH = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
    "sasl.login.callback.handler.class": MODULES + "oauthbearer.OAuthBearerLoginCallbackHandler",
    "sasl.jaas.config": f'{MODULES}oauthbearer.OAuthBearerLoginModule required clientId="c" clientSecret="s" scope="k" '
    f'extension_logicalCluster="lkc-1" extension_pool="p";',
}


def test_oauth_client_credentials() -> None:
    settings = construct_all(OAUTH).properties
    assert settings["sasl.oauthbearer.method"] == "oidc"
    assert settings["sasl.oauthbearer.client.id"] == "c"
    assert settings["sasl.oauthbearer.client.secret"] == "s"
    assert settings["sasl.oauthbearer.scope"] == "k"
    assert settings["sasl.oauthbearer.extensions"] == "logicalCluster=lkc-1,pool=p"


def test_oauth_client_credentials_as_properties() -> None:
    prefix = "sasl.oauthbearer.client.credentials.client."
    java = {**OAUTH, f"{prefix}id": "c2", f"{prefix}secret": "s2", "sasl.oauthbearer.scope": "k2"}
    del java["sasl.jaas.config"]
    settings = construct_all(java).properties
    assert (settings["sasl.oauthbearer.client.id"], settings["sasl.oauthbearer.scope"]) == ("c2", "k2")


def test_unsecured_oauth() -> None:
    java = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{MODULES}oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice";',
    }
    assert construct_all(java).properties["sasl.oauthbearer.config"] == "principal=alice"


PLAIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{MODULES}plain.PlainLoginModule required username="u" password="p";',
}


@pytest.mark.parametrize(
    ("java", "name", "remedy"),
    [
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism", "Kerberos"),
        ({**PLAIN, "sasl.jaas.config": ""}, "sasl.jaas.config", "JAAS file given to the JVM"),
        ({**PLAIN, "sasl.mechanism": "SCRAM-SHA-256"}, "sasl.jaas.config", "ScramLoginModule"),
        ({**PLAIN, "sasl.jaas.config": 'PlainLoginModule required username="u";'}, "sasl.jaas.config", "lacks"),
        *(
            ({**PLAIN, name: "com.x.H"}, name, "cannot run")
            for name in ("sasl.login.callback.handler.class", "sasl.client.callback.handler.class", "sasl.login.class")
        ),
        *(
            ({**PLAIN, name: "TLS_X"}, name, "leave it out")
            for name in ("ssl.provider", "security.providers", "ssl.cipher.suites", "ssl.trustmanager.algorithm")
        ),
        *(
            ({**PLAIN, "sasl.mechanism": other}, "sasl.mechanism", "use PLAIN")
            for other in ("GSSAPI", "AWS_MSK_IAM", "scram-sha-512")
        ),
        *(({"security.protocol": other}, "security.protocol", "SASL_SSL") for other in ("", "SSLL")),
        *(
            ({**PLAIN, "ssl.enabled.protocols": other}, "ssl.enabled.protocols", "TLS 1.2 and 1.3")
            for other in ("tlsv1.3", "TLSv1.1")
        ),
        ({**PLAIN, "ssl.engine.factory.class": "com.x.F"}, "ssl.engine.factory.class", "use ssl.truststore"),
        ({**PLAIN, "ssl.protocol": "SSLv3"}, "ssl.protocol", "TLS 1.2 and 1.3"),
        *(
            ({**PLAIN, one: "-----BEGIN X-----\nAAAA\n-----END X-----"}, missing, "chain and key are given together")
            for one, missing in permutations(("ssl.keystore.key", "ssl.keystore.certificate.chain"))
        ),
        (
            {**PLAIN, "ssl.truststore.password": "p", "ssl.truststore.locaton": "x"},
            "ssl.truststore.password",
            "without ssl.truststore.location",
        ),
        *(
            ({**PLAIN, "ssl.endpoint.identification.algorithm": typo}, "ssl.endpoint.identification.algorithm", "https")
            for typo in ("htps", "LDAPS", "https,", "http", "none", "false", " ", "\u017fhttps", "https https")
        ),
        ({**PLAIN, "ssl.truststore.location": "/nowhere/t.jks"}, "ssl.truststore.location", "cannot read /nowhere"),
        ({**PLAIN, "ssl.keystore.location": "/nowhere/k.p12"}, "ssl.keystore.location", "cannot read /nowhere"),
        ({**OAUTH, "sasl.oauthbearer.token.endpoint.url": "file:///x"}, "sasl.oauthbearer.token.endpoint.url", "https"),
        ({**OAUTH, "sasl.oauthbearer.assertion.file": "/x"}, "sasl.oauthbearer.assertion.file", "client credentials"),
        (
            {**OAUTH, "sasl.oauthbearer.jwt.retriever.class": "com.x.R"},
            "sasl.oauthbearer.jwt.retriever.class",
            "client credentials",
        ),
        ({**OAUTH, "sasl.jaas.config": f"{MODULES}x.OAuthBearerLoginModule required;"}, "sasl.jaas.config", "clientId"),
    ],
)
def test_what_cannot_be_translated_is_refused_by_name(java: dict[str, str], name: str, remedy: str) -> None:
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")) as caught:
        translated(java)
    assert caught.value.property_name == name
    assert remedy in str(caught.value)


def test_security_settings_count_only_for_the_protocol_that_uses_them() -> None:
    settings = translated({"ssl.provider": "BC", "sasl.mechanism": "GSSAPI", "security.protocol": "PLAINTEXT"})
    assert settings.client_settings().properties["security.protocol"] == "PLAINTEXT"


KEYTOOL = shutil.which("keytool")
needs_keytool = pytest.mark.skipif(KEYTOOL is None, reason="needs Java's keytool on PATH")


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One key pair as JKS, PKCS12 and PEM."""
    folder = tmp_path_factory.mktemp("stores")

    def keytool(*arguments: str) -> None:
        subprocess.run([str(KEYTOOL), *QUICK_TOOL, *arguments], check=True, capture_output=True, cwd=folder)

    common = ["-alias", "a", "-storepass", "changeit", "-keypass", "changeit"]
    keytool(
        "-genkeypair", *common, "-keyalg", "EC", "-dname", "CN=localhost", "-keystore", "k.jks", "-storetype", "JKS"
    )
    keytool(
        "-importkeystore", "-srckeystore", "k.jks", "-srcstorepass", "changeit",
        "-destkeystore", "k.p12", "-deststoretype", "PKCS12", "-deststorepass", "changeit",
    )  # fmt: skip
    keytool("-exportcert", "-rfc", *common[:4], "-keystore", "k.p12", "-file", "cert.pem")
    keytool(
        "-importcert", "-noprompt", "-alias", "a", "-file", "cert.pem", "-storepass", "changeit",
        "-storetype", "JKS", "-keystore", "t.jks",
    )  # fmt: skip
    return folder


@needs_keytool
@pytest.mark.xdist_group("keytool")
def test_what_java_trusts_is_trusted(stores: Path, tmp_path: Path) -> None:
    """A certificate, and of a key whose chain another authority signed the first one: Java's ``TrustManagerFactory``."""

    def keytool(*arguments: str, given: bytes | None = None) -> bytes:
        command = [str(KEYTOOL), *QUICK_TOOL, *arguments, "-storepass", "changeit"]
        return subprocess.run(command, check=True, capture_output=True, cwd=tmp_path, input=given).stdout

    # A name with line ends must not look like the beginning of an entry.
    alias = "key\nAlias name: x\n-----BEGIN CERTIFICATE-----"
    for store, name, more in (("signer.p12", "signer", ("-ext", "bc:c")), ("both.p12", alias, ())):
        keytool("-genkeypair", "-alias", name, "-dname", "CN=x", "-keyalg", "EC", "-keystore", store, *more)
    request = keytool("-certreq", "-alias", alias, "-keystore", "both.p12")
    signed = keytool("-gencert", "-rfc", "-alias", "signer", "-keystore", "signer.p12", given=request)
    chain = signed + keytool("-exportcert", "-rfc", "-alias", "signer", "-keystore", "signer.p12")
    keytool("-importcert", "-noprompt", "-alias", alias, "-keystore", "both.p12", given=chain)
    other = (stores / "cert.pem").read_bytes()
    keytool("-importcert", "-noprompt", "-alias", "other", "-keystore", "both.p12", given=other)
    subprocess.run(
        [str(KEYTOOL), *QUICK_TOOL, "-importkeystore", "-srckeystore", "both.p12", "-srcstorepass", "changeit",
         "-destkeystore", "both.jks", "-deststoretype", "JKS", "-deststorepass", "changeit"],
        check=True, capture_output=True, cwd=tmp_path,
    )  # fmt: skip
    before = sorted(tmp_path.iterdir())
    for path in (tmp_path / "both.jks", tmp_path / "both.p12"):
        settings = construct_all(ssl(truststore_location=path, truststore_password="changeit"))
        blocks = settings.properties["ssl.ca.pem"].split("-----END CERTIFICATE-----")[:-1]
        wanted = [pem.decode().split("-----BEGIN CERTIFICATE-----")[1].split("-----END")[0] for pem in (signed, other)]
        assert {"".join(block.split()[2:]) for block in blocks} == {"".join(pem.split()) for pem in wanted}
    assert sorted(tmp_path.iterdir()) == before  # converted in memory


@needs_keytool
@pytest.mark.xdist_group("keytool")
def test_only_the_named_tls_versions_are_spoken(stores: Path, tmp_path: Path) -> None:
    key, certificate, _ = pkcs12.load_key_and_certificates((stores / "k.p12").read_bytes(), b"changeit")
    assert key is not None
    assert certificate is not None
    pem = tmp_path / "both.pem"
    pem.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate.public_bytes(Encoding.PEM)
    )
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    wanted = {
        "TLSv1.3": ["TLSv1.3", "refused"],
        "TLSv1.2,TLSv1.3": ["TLSv1.3", "TLSv1.2"],
        "TLSv1.2": ["TLSv1.3", "TLSv1.2"],  # the better one is spoken, too
    }
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        for protocols, expected in wanted.items():
            settings = translated(
                {
                    "bootstrap.servers": f"127.0.0.1:{server.getsockname()[1]}",
                    "security.protocol": "SSL",
                    "ssl.enabled.protocols": protocols,
                    "ssl.endpoint.identification.algorithm": "",
                    "ssl.truststore.location": str(stores / "cert.pem"),
                    # One connection each.
                    "reconnect.backoff.ms": "60000",
                    "reconnect.backoff.max.ms": "60000",
                }
            ).admin_settings()
            for version, spoken in zip((TLSVersion.TLSv1_3, TLSVersion.TLSv1_2), expected, strict=True):
                context.minimum_version, context.maximum_version = TLSVersion.TLSv1_2, TLSVersion.TLSv1_3
                context.minimum_version = context.maximum_version = version
                asking = admin_client(settings, client_id="test")
                try:
                    with context.wrap_socket(server.accept()[0], server_side=True) as client:
                        found = client.version()
                except SSLError:
                    found = "refused"
                assert (protocols, found) == (protocols, spoken)
                del asking


@needs_keytool
@pytest.mark.xdist_group("keytool")
def test_a_wrong_store_password_is_refused_without_showing_it(stores: Path) -> None:
    with pytest.raises(ConfigError, match=r"check ssl\.truststore\.password") as caught:
        translated(ssl(truststore_location=stores / "t.jks", truststore_password="zebra-77"))
    assert "zebra" not in str(caught.value)


@needs_keytool
@pytest.mark.xdist_group("keytool")
def test_without_java_the_remedy_is_shown(stores: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ConfigError, match=r"keytool -exportcert -rfc -alias ALIAS -keystore .*t\.jks >> ca\.pem"):
        translated(ssl(truststore_location=stores / "t.jks"))


@needs_keytool
@pytest.mark.xdist_group("keytool")
def test_pem_stores(stores: Path, tmp_path: Path) -> None:
    listed = tmp_path / "ca.pem"
    # What the remedy for JKS stores writes: words before the first certificate.
    listed.write_text(
        "Keystore type: JKS\nKeystore provider: SUN\n\n" + "x" * 100 + "\n" + (stores / "cert.pem").read_text()
    )
    settings = construct_all(ssl(truststore_location=listed))
    assert settings.properties["ssl.ca.location"] == str(listed)
    one_line = " ".join((stores / "cert.pem").read_text().split("\n"))
    for text in (one_line, (stores / "cert.pem").read_text(), one_line.replace(" M", "M").strip()):
        settings = construct_all(ssl(truststore_certificates=text))
        assert settings.properties["ssl.ca.pem"].split() == (stores / "cert.pem").read_text().split()


@needs_keytool
@pytest.mark.xdist_group("keytool")
def test_a_pkcs12_key_store_is_used_as_it_is(stores: Path) -> None:
    settings = construct_all(
        ssl(keystore_location=stores / "k.p12", keystore_password="changeit", key_password="changeit")
    )
    assert settings.properties["ssl.keystore.location"] == str(stores / "k.p12")
    assert "ssl.key.password" not in settings.properties


@needs_keytool
@pytest.mark.xdist_group("keytool")
def test_a_jks_key_store_is_refused_with_the_remedy(stores: Path) -> None:
    with pytest.raises(ConfigError, match=r"keytool -importkeystore -srckeystore .*k\.jks") as caught:
        translated(ssl(keystore_location=stores / "k.jks"))
    assert caught.value.property_name == "ssl.keystore.location"


def test_a_store_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("not a store")
    with pytest.raises(ConfigError, match="neither PEM nor PKCS12 nor JKS"):
        translated(ssl(truststore_location=tmp_path / "x"))


@pytest.mark.parametrize("name", ["ssl.truststore.location", "ssl.keystore.location"])
def test_a_store_that_is_no_file_is_refused_at_once(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "x")
    for path in ("/dev/zero", str(tmp_path / "x"), str(tmp_path)):
        with pytest.raises(ConfigError, match=f"{name}: cannot read .*: it is no regular file"):
            translated({"security.protocol": "SSL", name: path})


def test_the_library_refuses_by_name_and_without_the_value() -> None:
    for given, name in (({"no.such": "zebra"}, "no.such"), ({"socket.timeout.ms": "zebra"}, "socket.timeout.ms")):
        with pytest.raises(ConfigError, match=name) as caught:
            admin_client(ClientSettings({"bootstrap.servers": "127.0.0.1:1", **given}), client_id="test")
        assert caught.value.property_name == name
        assert "zebra" not in str(caught.value)


def test_the_documentation_names_every_setting() -> None:
    text = (Path(__file__).parents[3] / "docs" / "worker-file.md").read_text("utf-8")
    missing = [name for name in (*TUNING, *IGNORED) if f"`{name}`" not in text]
    assert not missing
