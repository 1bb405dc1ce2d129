"""Un-prefixed Java client settings of a worker file, ``sasl.*`` and ``ssl.*`` included, as librdkafka knows them.

A worker builds the clients of its internal topics from un-prefixed properties. What has an equivalent is translated;
what only tunes Java's client is left out (``IGNORED``); what would change security or meaning and has no equivalent is
refused by name.
"""

from __future__ import annotations

import enum
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from connect_share.errors import command_line, refusal
from connect_share.files import open_regular
from connect_share.model.keys import BLANKS
from connect_share.worker_config.config_providers import has_reference
from connect_share.worker_config.secret_values import is_secret_property


class Isolation(enum.Enum):
    """The isolation level of a consumer; always set, because the client's default is not Java's."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


@dataclass(frozen=True)
class ClientSettings:
    """The settings with which a Kafka client reaches a cluster: bootstrap servers, security, user settings.

    Attributes:
        properties: librdkafka property names and values; never printed whole, ``repr`` masks secrets.
    """

    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def bootstrap_servers(self) -> str:
        """Comma list ``host:port``, empty when unset."""
        return self.properties.get("bootstrap.servers", "")

    def _with(self, *login: str) -> tuple[str, ...]:
        plain = self.properties.get("security.protocol", "plaintext").lower() == "plaintext"
        return (self.bootstrap_servers, *(() if plain else login))

    def kafka_tool(self, tool: str, *words: object) -> str:
        """Return a command of one of Kafka's own tools; ``client.properties`` stands for a file with the login."""
        where = self._with("--command-config", "client.properties")
        return command_line(f"{tool}.sh", "--bootstrap-server", *where, *words)

    @property
    def reached_by(self) -> tuple[str, ...]:
        """The options of our commands that lead to the cluster; ``NAME`` stands for a profile with the login."""
        return ("-B", *self._with("--profile", "NAME"))

    def setting_by_time(self) -> str:
        """Return the command that sets the offsets of a sink's consumer group where its numbers are others."""
        words = ("--reset-offsets", "--to-datetime", "TIME", "--execute")
        return self.kafka_tool("kafka-consumer-groups", "--group", "GROUP", "--topic", "TOPIC", *words)

    def overlaid(self, overrides: Mapping[str, str]) -> ClientSettings:
        """Return settings in which ``overrides`` win."""
        return ClientSettings({**self.properties, **overrides})

    def __repr__(self) -> str:
        shown = {
            name: "[hidden]" if is_secret_property(name) else value for name, value in sorted(self.properties.items())
        }
        return f"ClientSettings({shown})"


_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
# Anything that java.io.StreamTokenizer does not accept in an unquoted word is accepted here: more than in Java, not less.
_TOKEN: Final = re.compile(
    r"""[ \t\n\r\f]+ | //[^\r\n]* | /\*.*?(?:\*/|\Z)
    | "(?P<double>(?:[^"\\\r\n]|\\.)*)"
    | '(?P<single>(?:[^'\\\r\n]|\\.)*)'
    | (?P<sign>[=;])
    | (?P<word>[^ \t\n\r\f=;"']+)
    """,
    re.DOTALL | re.VERBOSE,
)
_EQUALS: Final = (False, "=")
_END: Final = (False, ";")
_ADDRESS: Final = re.compile(
    r"(?:[-0-9a-zA-Z%._]*://)?\[?[-0-9a-zA-Z%._:]*]?:([0-9]+)"
)  # source: Utils.HOST_PORT_PATTERN


@dataclass(frozen=True)
class LoginModule:
    """A login module; its options are secrets."""

    class_name: str
    options: dict[str, str] = field(repr=False)

    @property
    def short_name(self) -> str:
        """Class name without its package."""
        return self.class_name.rpartition(".")[2]


def parse_jaas(text: str) -> LoginModule:
    """Parse ``sasl.jaas.config``: ``<class> <flag> name="value" ... ;``.

    Raises:
        ConfigError: not of that form; the text is never shown.

    Source: ``JaasConfig``, which reads with ``java.io.StreamTokenizer``.
    """
    malformed = refusal("sasl.jaas.config", 'is not of the form: <login module class> required name="value" ... ;')
    tokens = _tokens(text)
    if tokens is None or len(tokens) < 3 or len(tokens) % 3 or tokens[-1] != _END or tokens[1][1].lower() not in _FLAGS:
        raise malformed
    options: dict[str, str] = {}
    for name, equals, value in zip(tokens[2:-1:3], tokens[3:-1:3], tokens[4:-1:3], strict=True):
        if equals != _EQUALS or {name, value} & {_EQUALS, _END}:
            raise malformed
        options[name[1]] = value[1]
    return LoginModule(tokens[0][1], options)


def _tokens(text: str) -> list[tuple[bool, str]] | None:
    """Return (quoted, word) pairs; ``=`` and ``;`` are words of their own; ``None``: a quote is not closed in its line."""
    tokens: list[tuple[bool, str]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            return None
        position = match.end()
        if match.lastgroup in ("single", "double"):
            tokens.append((True, _ESCAPE.sub(_unescaped, match[match.lastgroup])))
        elif match.lastgroup is not None:
            tokens.append((False, match[0]))
    return tokens


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _ESCAPES.get(escaped, escaped)


_SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_HANDLERS: Final = ("sasl.login.callback.handler.class", "sasl.client.callback.handler.class", "sasl.login.class")
_OAUTH_REFUSED: Final = (
    "sasl.oauthbearer.assertion.",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.jwt.validator.class",
)
_OAUTH_HANDLERS: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)


def translate_sasl(java: Mapping[str, str]) -> dict[str, str]:
    """Translate mechanism and login module: PLAIN, SCRAM-SHA-256/512, OAUTHBEARER (client credentials, unsecured)."""
    mechanism = java.get("sasl.mechanism", "GSSAPI").strip()
    if mechanism not in ("PLAIN", "OAUTHBEARER", *_SCRAM):
        raise refusal(
            "sasl.mechanism",
            f"{mechanism!r} cannot be used here (Kerberos and cloud logins need Java); use PLAIN, SCRAM-SHA-256, "
            "SCRAM-SHA-512 or OAUTHBEARER, by a profile or -X where Java workers keep theirs",
        )
    for name in _HANDLERS:
        handler = java.get(name, "").strip()
        if handler and not (mechanism == "OAUTHBEARER" and handler in _OAUTH_HANDLERS):
            raise refusal(name, f": Java class {handler} cannot run in this client")
    module = _login_module(java, mechanism)
    if mechanism == "OAUTHBEARER":
        return _oauth(java, module)
    expected = "PlainLoginModule" if mechanism == "PLAIN" else "ScramLoginModule"
    if module is None or module.short_name != expected:
        raise refusal("sasl.jaas.config", f"must name {expected} for sasl.mechanism {mechanism}")
    if module.options.get("tokenauth", "").lower() == "true":
        raise refusal("sasl.jaas.config", ": delegation tokens (tokenauth) are not supported by this client")
    if not module.options.get("username") or "password" not in module.options:
        raise refusal("sasl.jaas.config", "lacks username or password")
    return {
        "sasl.mechanism": mechanism,
        "sasl.username": module.options["username"],
        "sasl.password": module.options["password"],
    }


def _login_module(java: Mapping[str, str], mechanism: str) -> LoginModule | None:
    text = java.get("sasl.jaas.config", "").strip()
    if text:
        return parse_jaas(text)
    if mechanism == "OAUTHBEARER":
        return None
    raise refusal(
        "sasl.jaas.config",
        "is missing; a JAAS file given to the JVM (java.security.auth.login.config) is not read here",
    )


def _oauth(java: Mapping[str, str], module: LoginModule | None) -> dict[str, str]:
    if module is not None and module.short_name != "OAuthBearerLoginModule":
        raise refusal("sasl.jaas.config", "must name OAuthBearerLoginModule for sasl.mechanism OAUTHBEARER")
    options = {} if module is None else module.options
    for name in java:
        if name.startswith(_OAUTH_REFUSED) and java[name].strip():
            raise refusal(name, "is not supported by this client; use client credentials (clientId, clientSecret)")
    for name in options:
        if name.startswith("ssl."):
            raise refusal(
                "sasl.jaas.config",
                f": option {name} is not supported by this client; "
                f"put the token endpoint's CA into the system's trust store",
            )
    out = {"sasl.mechanism": "OAUTHBEARER"}
    endpoint = java.get("sasl.oauthbearer.token.endpoint.url", "").strip()
    if not endpoint:
        subject = options.get("unsecuredLoginStringClaim_sub")
        if not subject:
            raise refusal(
                "sasl.oauthbearer.token.endpoint.url", "is missing (and sasl.jaas.config has no unsecured subject)"
            )
        if len(subject.split()) != 1:
            raise refusal("sasl.jaas.config", ": an unsecured subject with blanks cannot be handed to this client")
        out["enable.sasl.oauthbearer.unsecure.jwt"] = "true"
        out["sasl.oauthbearer.config"] = f"principal={subject}"
        return out
    if not endpoint.lower().startswith(("https://", "http://")):
        raise refusal(
            "sasl.oauthbearer.token.endpoint.url", "has to be an http or https address here (files are not read)"
        )
    prefix = "sasl.oauthbearer.client.credentials."
    client_id = options.get("clientId") or java.get(prefix + "client.id", "").strip()
    secret = options.get("clientSecret") or java.get(prefix + "client.secret", "")
    if not client_id or not secret:
        raise refusal("sasl.jaas.config", "lacks clientId or clientSecret for OAUTHBEARER")
    out["sasl.oauthbearer.method"] = "oidc"
    out["sasl.oauthbearer.client.id"] = client_id
    out["sasl.oauthbearer.client.secret"] = secret
    out["sasl.oauthbearer.token.endpoint.url"] = endpoint
    scope = options.get("scope") or java.get("sasl.oauthbearer.scope", "").strip()
    if scope:
        out["sasl.oauthbearer.scope"] = scope
    extensions = [
        f"{name.removeprefix('extension_')}={value}" for name, value in options.items() if name.startswith("extension_")
    ]
    if extensions:
        out["sasl.oauthbearer.extensions"] = ",".join(extensions)
    return out


_JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
_HOST_NAME_CHECK: Final = "ssl.endpoint.identification.algorithm"
_TLS_1_2: Final = frozenset({"TLS", "TLSv1.2"})
_TLS_1_3: Final = "TLSv1.3"
# librdkafka has no setting for the lowest version. These suites are of TLS 1.2 only, and need a key that no client here
# has: a broker that speaks 1.2 is refused, 1.3 has suites of its own.
NO_TLS_1_2: Final = "PSK"
_KEYTOOL_TIMEOUT_S: Final = 30
_STORE_LIMIT_BYTES: Final = 4 * 1024 * 1024
_PEM_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]+)-----END \1-----")
_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")
_JVM_ALGORITHMS: Final = frozenset(
    {"", "PKIX", "SunX509", "SunPKIX", "NewSunX509", "X509", "X.509", "IbmX509", "IbmPKIX"}
)
# Java code cannot run inside librdkafka; leaving these out silently could weaken what the operator wanted.
_REFUSED: Final = {
    "ssl.cipher.suites": "leave it out: OpenSSL names its cipher suites differently",
    "ssl.provider": "leave it out: librdkafka uses OpenSSL",
    "ssl.engine.factory.class": "use ssl.truststore.* and ssl.keystore.* instead",
    "ssl.secure.random.implementation": "leave it out: librdkafka uses OpenSSL",
    "security.providers": "leave it out: librdkafka uses OpenSSL",
}


def translate_tls(java: Mapping[str, str]) -> dict[str, str]:
    """Translate trust store, key store, TLS versions and host name check.

    Trust stores may be PEM, PKCS12 or JKS (the last two are read with Java's keytool and handed over in memory), key
    stores PEM or PKCS12.
    """
    for name, remedy in _REFUSED.items():
        if java.get(name, "").strip():
            raise refusal(name, f"is not supported by this client; {remedy}")
    for name in ("ssl.trustmanager.algorithm", "ssl.keymanager.algorithm"):
        if java.get(name, "").strip() not in _JVM_ALGORITHMS:
            raise refusal(name, "is not supported by this client; leave it out")
    out: dict[str, str] = {}
    for name in ("ssl.enabled.protocols", "ssl.protocol"):
        wanted = {part.strip() for part in java.get(name, "").split(",") if part.strip()}
        if wanted and not wanted & {*_TLS_1_2, _TLS_1_3}:
            raise refusal(name, ": this client speaks TLS 1.2 and 1.3 only")
        if name == "ssl.enabled.protocols" and wanted and not wanted & _TLS_1_2:
            out["ssl.cipher.suites"] = NO_TLS_1_2
    algorithm = java.get(_HOST_NAME_CHECK)
    if algorithm is not None:
        out[_HOST_NAME_CHECK] = _host_name_check(algorithm)
    _translate_truststore(java, out)
    _translate_keystore(java, out)
    return out


def _host_name_check(algorithm: str) -> str:
    """Only an empty value switches it off, as in Java, which refuses every broker for a word that it does not know."""
    if not algorithm:
        return "none"
    if algorithm.strip().lower() == "https":
        return "https"
    raise refusal(
        _HOST_NAME_CHECK, "has to be https, which is the default, or empty, which switches the check of host names off"
    )


def _store_kind(name: str, location: str) -> str:
    """Look at the bytes: ``ssl.truststore.type`` is often left at Java's default, JKS, which reads PKCS12 too."""
    try:
        with open_regular(Path(location)) as file:  # a connector's configuration can name anything
            content = file.read(_STORE_LIMIT_BYTES)
    except OSError as exc:
        raise refusal(name, f": cannot read {location}: {exc.strerror or exc}") from exc
    if content.startswith(_JKS_MAGIC):
        return "JKS"
    if content.startswith(b"\x30"):
        return "PKCS12"
    if b"-----BEGIN " in content:
        return "PEM"
    raise refusal(name, f": {location} is neither PEM nor PKCS12 nor JKS")


def _translate_truststore(java: Mapping[str, str], out: dict[str, str]) -> None:
    certificates = java.get("ssl.truststore.certificates", "").strip()
    location = java.get("ssl.truststore.location", "").strip()
    if certificates:
        out["ssl.ca.pem"] = _pem("ssl.truststore.certificates", certificates)
    elif not location and java.get("ssl.truststore.password", ""):
        # As in Java: otherwise a misspelled location would trust all authorities of the machine.
        raise refusal("ssl.truststore.password", "is given without ssl.truststore.location")
    elif location:
        if _store_kind("ssl.truststore.location", location) == "PEM":
            out["ssl.ca.location"] = location
        else:
            out["ssl.ca.pem"] = _certificates_of(location, java.get("ssl.truststore.password", ""))


def _translate_keystore(java: Mapping[str, str], out: dict[str, str]) -> None:
    chain, key = java.get("ssl.keystore.certificate.chain", "").strip(), java.get("ssl.keystore.key", "").strip()
    location = java.get("ssl.keystore.location", "").strip()
    if chain or key:
        for name, text in (("ssl.keystore.certificate.chain", chain), ("ssl.keystore.key", key)):
            if not text:
                raise refusal(name, "is missing; chain and key are given together")
        out["ssl.certificate.pem"] = _pem("ssl.keystore.certificate.chain", chain)
        out["ssl.key.pem"] = _pem("ssl.keystore.key", key)
    elif location:
        kind = _store_kind("ssl.keystore.location", location)
        if kind == "PEM":
            out["ssl.certificate.location"] = out["ssl.key.location"] = location
        elif kind == "PKCS12":
            out["ssl.keystore.location"] = location
            out["ssl.keystore.password"] = java.get("ssl.keystore.password", "")
        else:
            raise refusal(
                "ssl.keystore.location",
                f": {location} is a JKS store, which this client cannot read; convert it with: "
                f"keytool -importkeystore -srckeystore {location} -destkeystore {location}.p12 -deststoretype PKCS12",
            )
    if java.get("ssl.key.password", "") and "ssl.keystore.location" not in out:
        out["ssl.key.password"] = java["ssl.key.password"]


def _pem(name: str, text: str) -> str:
    """Break base64 into lines as OpenSSL wants it; Java takes any white space, also none (continued lines)."""
    if "-----BEGIN " not in text:
        raise refusal(name, "has no PEM block (-----BEGIN ...-----)")

    def lines(match: re.Match[str]) -> str:
        base64 = "".join(match.group(2).split())
        body = "\n".join(base64[start : start + 64] for start in range(0, len(base64), 64))
        return f"-----BEGIN {match.group(1)}-----\n{body}\n-----END {match.group(1)}-----\n"

    return _PEM_BLOCK.sub(lines, text).rstrip() + "\n"


def _keytool() -> str | None:
    home = os.environ.get("JAVA_HOME")
    candidate = shutil.which("keytool", path=str(Path(home) / "bin")) if home else None
    return candidate or shutil.which("keytool")


def _certificates_of(location: str, password: str) -> str:
    """Return what Java trusts with a JKS or PKCS12 store as PEM, with the password out of sight of ``ps``.

    Source: ``sun.security.validator.TrustStoreUtil``.
    """
    name = "ssl.truststore.location"
    remedy = (
        f"convert it with: keytool -exportcert -rfc -alias ALIAS -keystore {location} >> ca.pem, for each ALIAS in it, "
        f"then set ssl.truststore.type=PEM and ssl.truststore.location=ca.pem"
    )
    keytool = _keytool()
    if keytool is None:
        raise refusal(name, f": {location} can only be read with Java's keytool, which was not found; {remedy}")
    # Otherwise headings are in the language of the machine.
    command = [keytool, "-J-Duser.language=en", "-list", "-rfc", "-keystore", location]
    command += ["-storepass:env", "CONNECT_SHARE_STORE_PASSWORD"]
    environment = {**os.environ, "CONNECT_SHARE_STORE_PASSWORD": password or "changeit"}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, timeout=_KEYTOOL_TIMEOUT_S, check=False, text=True
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise refusal(name, f": keytool did not run on {location}; {remedy}") from exc
    # Of a key entry Java trusts only the key's own certificate, which is the first one.
    entries = re.split(r"^Alias name: ", done.stdout, flags=re.MULTILINE)[1:]
    found = [block.group() for entry in entries if (block := _CERTIFICATE.search(entry))]
    if done.returncode != 0 or not found:
        raise refusal(name, f": keytool found no certificate in {location}; check ssl.truststore.password")
    return "".join(f"{block}\n" for block in found)


_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")
SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

IGNORED: Final[Mapping[str, str]] = {
    "max.poll.records": "records are taken in batches of our own",
    "auto.offset.reset": "the stores always read from the beginning",
    "enable.auto.commit": "the stores never commit",
    "enable.idempotence": "set by the stores",
    "acks": "set by the stores",
    "max.in.flight.requests.per.connection": "set by the stores",
    "delivery.timeout.ms": "set by the stores",
    "max.request.size": "the topic's max.message.bytes decides",
    "interceptor.classes": "Java classes do not run here; sharing is built in",
    "metric.reporters": "Java classes do not run here",
    "partitioner.class": "keys are always placed by murmur2, as the Java default does",
}


def whole_number(name: str, value: str) -> int:
    """Read an integer as Java does (no underscores)."""
    text = value.strip()
    if not _INTEGER.fullmatch(text):
        raise refusal(name, "is not a whole number, or has too many digits")
    return int(text)


_JAVA_SECURITY: Final = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.jaas.config",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.scope",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
        "ssl.protocol",
        "ssl.enabled.protocols",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
    }
)
_JAVA_SECURITY_PREFIXES: Final = (
    "sasl.login.",
    "sasl.client.",
    "sasl.kerberos.",
    "sasl.oauthbearer.assertion.",
    "sasl.oauthbearer.client.credentials.",
    "sasl.oauthbearer.jwt.",
    "ssl.truststore.",
    "ssl.keystore.",
)


def _number(low: int, high: int) -> Callable[[str, str], str]:
    """Clamp to what librdkafka accepts; the ranges are wider than any sensible value."""

    def convert(name: str, value: str) -> str:
        return str(min(max(whole_number(name, value), low), high))

    return convert


def one_of(*allowed: str) -> Callable[[str, str], str]:
    """Return what reads one of some words, whatever its case."""

    def convert(name: str, value: str) -> str:
        word = value.strip(BLANKS).lower()
        if word not in allowed:
            raise refusal(name, f"has to be one of {', '.join(allowed)}")
        return word

    return convert


def _text(_name: str, value: str) -> str:
    return value.strip()


# First wait with the default of librdkafka, longest with that of Java's clients.
_BACKOFFS: Final = (
    ("retry.backoff.ms", 100, "retry.backoff.max.ms", 1_000),
    ("reconnect.backoff.ms", 100, "reconnect.backoff.max.ms", 1_000),
)

TranslationTable = Mapping[str, tuple[str, Callable[[str, str], str]]]

_MILLIS: Final = _number(1, 300_000)
_COMMON: Final[TranslationTable] = {
    "request.timeout.ms": ("socket.timeout.ms", _number(10, 300_000)),
    "retry.backoff.ms": ("retry.backoff.ms", _MILLIS),
    "retry.backoff.max.ms": ("retry.backoff.max.ms", _MILLIS),
    "reconnect.backoff.ms": ("reconnect.backoff.ms", _number(0, 3_600_000)),
    "reconnect.backoff.max.ms": ("reconnect.backoff.max.ms", _number(0, 3_600_000)),
    "metadata.max.age.ms": ("metadata.max.age.ms", _number(1, 86_400_000)),
    "metadata.recovery.strategy": ("metadata.recovery.strategy", one_of("none", "rebootstrap")),
    "metadata.recovery.rebootstrap.trigger.ms": ("metadata.recovery.rebootstrap.trigger.ms", _number(0, 2**31 - 1)),
    "connections.max.idle.ms": ("connections.max.idle.ms", _number(0, 2**31 - 1)),
    "socket.connection.setup.timeout.ms": ("socket.connection.setup.timeout.ms", _number(1000, 2**31 - 1)),
    "client.dns.lookup": ("client.dns.lookup", one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
    "client.rack": ("client.rack", _text),
    "receive.buffer.bytes": ("socket.receive.buffer.bytes", _number(0, 100_000_000)),
    "send.buffer.bytes": ("socket.send.buffer.bytes", _number(0, 100_000_000)),
}
CONSUMER_SETTINGS: Final[TranslationTable] = {
    "fetch.min.bytes": ("fetch.min.bytes", _number(1, 100_000_000)),
    # librdkafka wants at least its message.max.bytes; Java returns a first larger batch in any case.
    "fetch.max.bytes": ("fetch.max.bytes", _number(1_000_000, 2_147_483_135)),
    "fetch.max.wait.ms": ("fetch.wait.max.ms", _number(0, 300_000)),
    "max.partition.fetch.bytes": ("max.partition.fetch.bytes", _number(1, 1_000_000_000)),
    "check.crcs": ("check.crcs", one_of("true", "false")),
}
PRODUCER_SETTINGS: Final[TranslationTable] = {
    "compression.type": ("compression.type", one_of("none", "gzip", "snappy", "lz4", "zstd")),
    "linger.ms": ("linger.ms", _number(0, 900_000)),
    "batch.size": ("batch.size", _number(1, 2_147_483_647)),
    "buffer.memory": (
        "queue.buffering.max.kbytes",
        lambda name, value: str(int(_number(1024, 2**31 - 1)(name, value)) // 1024),
    ),
    "transaction.timeout.ms": ("transaction.timeout.ms", _number(1000, 2**31 - 1)),
}


def translated(java: Mapping[str, str], table: TranslationTable) -> dict[str, str]:
    """Return the settings of a table that are given, in librdkafka's names."""
    return {ours: convert(name, java[name]) for name, (ours, convert) in table.items() if java.get(name, "").strip()}


def common_settings(java: Mapping[str, str], own: Mapping[str, str] | None = None) -> ClientSettings:
    """Bootstrap servers, security and network settings.

    Settings in ``own``, under librdkafka's names, win; ``sasl.username`` and the like there replace
    ``sasl.jaas.config``.
    """
    for name, value in java.items():
        if name.startswith(("sasl.", "ssl.", "security.", "bootstrap.")) and has_reference(value):
            raise refusal(name, "refers to a config provider that is not declared in config.providers")
    servers = ",".join(part.strip() for part in java.get("bootstrap.servers", "").split(",") if part.strip())
    if not servers:
        raise refusal("bootstrap.servers", "is missing; give host:port of the brokers")
    for each in servers.split(","):  # as Java does; the library takes another port where it knows none
        found = _ADDRESS.fullmatch(each)
        if found is None or int(found[1]) > 65_535:
            raise refusal("bootstrap.servers", f"has {each!r}; give host:port, with a port up to 65535")
    protocol = java.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in SECURITY_PROTOCOLS:
        raise refusal("security.protocol", f"has to be one of {', '.join(SECURITY_PROTOCOLS)}")
    own = own or {}
    tuning = translated(java, _COMMON)
    # No wait may be longer than the longest: librdkafka refuses that, Java waits the first one all along.
    for first, first_default, longest, longest_default in _BACKOFFS:
        low, high = int(tuning.get(first, first_default)), int(tuning.get(longest, longest_default))
        if high < low and first in tuning:
            tuning[longest] = tuning[first]
        elif high < low:
            tuning[first] = tuning[longest]
    out = {"bootstrap.servers": servers, "security.protocol": protocol, **tuning}
    if protocol.startswith("SASL"):
        if "sasl.jaas.config" not in java and any(name.startswith("sasl.") for name in own):
            out.update({"sasl.mechanism": java["sasl.mechanism"]} if "sasl.mechanism" in java else {})
        else:
            out.update(translate_sasl(java))
    if protocol.endswith("SSL"):
        out.update(translate_tls(java))
    return ClientSettings({**out, **own})


def is_java_client_property(name: str) -> bool:
    """Return whether a name is one of Java's client settings that this module knows."""
    tables = (_COMMON, CONSUMER_SETTINGS, PRODUCER_SETTINGS, IGNORED, _REFUSED, _JAVA_SECURITY)
    return any(name in table for table in tables) or name.startswith(_JAVA_SECURITY_PREFIXES)
