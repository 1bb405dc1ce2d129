"""Un-prefixed Java client settings of a worker file, as librdkafka knows them.

A worker builds the clients of its internal topics from un-prefixed properties. What has an equivalent is translated;
what only tunes Java's client is left out (``IGNORED``); what would change security or meaning and has no equivalent is
refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from connect_share.worker_config.client_settings import ClientSettings, refusal
from connect_share.worker_config.config_providers import has_reference
from connect_share.worker_config.security import translate_sasl, translate_tls

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
    """Read an integer as Java does (no underscores).

    Raises:
        ConfigError: it is none; names the property.
    """
    text = value.strip()
    if not _INTEGER.fullmatch(text):
        raise refusal(name, "is not a whole number")
    return int(text)


_JAVA_SECURITY: Final = frozenset(
    {
        "security.protocol",
        "security.providers",
        "sasl.mechanism",
        "sasl.jaas.config",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.scope",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.enabled.protocols",
        "ssl.cipher.suites",
        "ssl.engine.factory.class",
        "ssl.secure.random.implementation",
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


def _word(*allowed: str) -> Callable[[str, str], str]:
    def convert(name: str, value: str) -> str:
        word = value.strip().lower()
        if word not in allowed:
            raise refusal(name, f"has to be one of {', '.join(allowed)}")
        return word

    return convert


def _text(_name: str, value: str) -> str:
    return value.strip()


def _kbytes(name: str, value: str) -> str:
    return str(max(1, int(_number(1024, 2**31 - 1)(name, value)) // 1024))


# First wait with the default of librdkafka, longest with that of Java's clients.
_BACKOFFS: Final = (
    ("retry.backoff.ms", 100, "retry.backoff.max.ms", 1_000),
    ("reconnect.backoff.ms", 100, "reconnect.backoff.max.ms", 1_000),
)

_Table = Mapping[str, tuple[str, Callable[[str, str], str]]]

_MILLIS: Final = _number(1, 300_000)
_COMMON: Final[_Table] = {
    "request.timeout.ms": ("socket.timeout.ms", _number(10, 300_000)),
    "retry.backoff.ms": ("retry.backoff.ms", _MILLIS),
    "retry.backoff.max.ms": ("retry.backoff.max.ms", _MILLIS),
    "reconnect.backoff.ms": ("reconnect.backoff.ms", _number(0, 3_600_000)),
    "reconnect.backoff.max.ms": ("reconnect.backoff.max.ms", _number(0, 3_600_000)),
    "metadata.max.age.ms": ("metadata.max.age.ms", _number(1, 86_400_000)),
    "metadata.recovery.strategy": ("metadata.recovery.strategy", _word("none", "rebootstrap")),
    "metadata.recovery.rebootstrap.trigger.ms": ("metadata.recovery.rebootstrap.trigger.ms", _number(0, 2**31 - 1)),
    "connections.max.idle.ms": ("connections.max.idle.ms", _number(0, 2**31 - 1)),
    "socket.connection.setup.timeout.ms": ("socket.connection.setup.timeout.ms", _number(1000, 2**31 - 1)),
    "client.dns.lookup": (
        "client.dns.lookup",
        _word("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ),
    "client.rack": ("client.rack", _text),
    "receive.buffer.bytes": ("socket.receive.buffer.bytes", _number(0, 100_000_000)),
    "send.buffer.bytes": ("socket.send.buffer.bytes", _number(0, 100_000_000)),
}
_CONSUMER: Final[_Table] = {
    "fetch.min.bytes": ("fetch.min.bytes", _number(1, 100_000_000)),
    # librdkafka wants at least its message.max.bytes; Java returns a first larger batch in any case.
    "fetch.max.bytes": ("fetch.max.bytes", _number(1_000_000, 2_147_483_135)),
    "fetch.max.wait.ms": ("fetch.wait.max.ms", _number(0, 300_000)),
    "max.partition.fetch.bytes": ("max.partition.fetch.bytes", _number(1, 1_000_000_000)),
    "check.crcs": ("check.crcs", _word("true", "false")),
}
_PRODUCER: Final[_Table] = {
    "compression.type": ("compression.type", _word("none", "gzip", "snappy", "lz4", "zstd")),
    "linger.ms": ("linger.ms", _number(0, 900_000)),
    "batch.size": ("batch.size", _number(1, 2_147_483_647)),
    "buffer.memory": ("queue.buffering.max.kbytes", _kbytes),
    "transaction.timeout.ms": ("transaction.timeout.ms", _number(1000, 2**31 - 1)),
}


def _translated(java: Mapping[str, str], table: _Table) -> dict[str, str]:
    return {ours: convert(name, java[name]) for name, (ours, convert) in table.items() if java.get(name, "").strip()}


def _order_backoffs(tuning: dict[str, str]) -> None:
    """Make no wait longer than the longest, in place: librdkafka refuses that, Java waits the first one all along."""
    for first, first_default, longest, longest_default in _BACKOFFS:
        low, high = int(tuning.get(first, first_default)), int(tuning.get(longest, longest_default))
        if high < low and first in tuning:
            tuning[longest] = tuning[first]
        elif high < low:
            tuning[first] = tuning[longest]


def _refuse_unresolved(java: Mapping[str, str]) -> None:
    for name, value in java.items():
        if name.startswith(("sasl.", "ssl.", "security.", "bootstrap.")) and has_reference(value):
            raise refusal(name, "refers to a config provider that is not declared in config.providers")


def common_settings(java: Mapping[str, str], own: Mapping[str, str] | None = None) -> ClientSettings:
    """Bootstrap servers, security and network settings.

    Settings in ``own``, under librdkafka's names, win; ``sasl.username`` and the like there replace
    ``sasl.jaas.config``.

    Raises:
        ConfigError: names the property that is missing, wrong or has no equivalent.
    """
    _refuse_unresolved(java)
    servers = ",".join(part.strip() for part in java.get("bootstrap.servers", "").split(",") if part.strip())
    if not servers:
        raise refusal("bootstrap.servers", "is missing; give host:port of the brokers")
    protocol = java.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in SECURITY_PROTOCOLS:
        raise refusal("security.protocol", f"has to be one of {', '.join(SECURITY_PROTOCOLS)}")
    own = own or {}
    tuning = _translated(java, _COMMON)
    _order_backoffs(tuning)
    out = {"bootstrap.servers": servers, "security.protocol": protocol, **tuning}
    if protocol.startswith("SASL"):
        if "sasl.jaas.config" not in java and any(name.startswith("sasl.") for name in own):
            out.update({"sasl.mechanism": java["sasl.mechanism"]} if "sasl.mechanism" in java else {})
        else:
            out.update(translate_sasl(java))
    if protocol.endswith("SSL"):
        out.update(translate_tls(java))
    return ClientSettings({**out, **own})


def consumer_tuning(java: Mapping[str, str]) -> dict[str, str]:
    """Settings that only consumers have, in librdkafka's names."""
    return _translated(java, _CONSUMER)


def producer_tuning(java: Mapping[str, str]) -> dict[str, str]:
    """Settings that only producers have, in librdkafka's names."""
    return _translated(java, _PRODUCER)


def is_java_client_property(name: str) -> bool:
    """Return whether a name is one of Java's client settings that this module knows."""
    return (
        name in _COMMON
        or name in _CONSUMER
        or name in _PRODUCER
        or name in IGNORED
        or name in _JAVA_SECURITY
        or name.startswith(_JAVA_SECURITY_PREFIXES)
    )
