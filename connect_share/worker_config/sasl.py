"""``sasl.*`` of the Java clients in librdkafka's terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from connect_share.errors import ConfigError
from connect_share.worker_config.jaas import LoginModule, parse_jaas

_SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_HANDLERS: Final = (
    "sasl.login.callback.handler.class",
    "sasl.client.callback.handler.class",
    "sasl.login.class",
)
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
    """Translate mechanism and login module: PLAIN, SCRAM-SHA-256/512, OAUTHBEARER (client credentials, unsecured).

    Raises:
        ConfigError: names the property that cannot be translated.
    """
    mechanism = java.get("sasl.mechanism", "GSSAPI").strip()
    if mechanism not in ("PLAIN", "OAUTHBEARER", *_SCRAM):
        raise ConfigError(
            f"sasl.mechanism {mechanism!r} cannot be used here (Kerberos needs Java's login); "
            f"use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
            property_name="sasl.mechanism",
        )
    for name in _HANDLERS:
        handler = java.get(name, "").strip()
        if handler and not (mechanism == "OAUTHBEARER" and handler in _OAUTH_HANDLERS):
            raise ConfigError(f"{name}: Java class {handler} cannot run in this client", property_name=name)
    module = _login_module(java, mechanism)
    if mechanism == "OAUTHBEARER":
        return _oauth(java, module)
    expected = "PlainLoginModule" if mechanism == "PLAIN" else "ScramLoginModule"
    if module is None or module.short_name != expected:
        raise ConfigError(
            f"sasl.jaas.config has to name {expected} for sasl.mechanism {mechanism}", property_name="sasl.jaas.config"
        )
    if module.options.get("tokenauth", "").lower() == "true":
        raise ConfigError(
            "sasl.jaas.config: delegation tokens (tokenauth) are not supported by this client",
            property_name="sasl.jaas.config",
        )
    if not module.options.get("username") or "password" not in module.options:
        raise ConfigError("sasl.jaas.config lacks username or password", property_name="sasl.jaas.config")
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
    raise ConfigError(
        "sasl.jaas.config is missing; a JAAS file given to the JVM (java.security.auth.login.config) is not read here",
        property_name="sasl.jaas.config",
    )


def _oauth(java: Mapping[str, str], module: LoginModule | None) -> dict[str, str]:
    if module is not None and module.short_name != "OAuthBearerLoginModule":
        raise ConfigError(
            "sasl.jaas.config has to name OAuthBearerLoginModule for sasl.mechanism OAUTHBEARER",
            property_name="sasl.jaas.config",
        )
    options = {} if module is None else module.options
    for name in java:
        if name.startswith(_OAUTH_REFUSED) and java[name].strip():
            raise ConfigError(
                f"{name} cannot be honoured by this client; use client credentials (clientId, clientSecret)",
                property_name=name,
            )
    for name in options:
        if name.startswith("ssl."):
            raise ConfigError(
                f"sasl.jaas.config: option {name} cannot be honoured by this client; "
                f"put the token endpoint's CA into the system's trust store",
                property_name="sasl.jaas.config",
            )
    out = {"sasl.mechanism": "OAUTHBEARER"}
    endpoint = java.get("sasl.oauthbearer.token.endpoint.url", "").strip()
    if not endpoint:
        subject = options.get("unsecuredLoginStringClaim_sub")
        if not subject:
            raise ConfigError(
                "sasl.oauthbearer.token.endpoint.url is missing (and sasl.jaas.config has no unsecured subject)",
                property_name="sasl.oauthbearer.token.endpoint.url",
            )
        if len(subject.split()) != 1:
            raise ConfigError(
                "sasl.jaas.config: an unsecured subject with blanks cannot be handed to this client",
                property_name="sasl.jaas.config",
            )
        out["enable.sasl.oauthbearer.unsecure.jwt"] = "true"
        out["sasl.oauthbearer.config"] = f"principal={subject}"
        return out
    if not endpoint.lower().startswith(("https://", "http://")):
        raise ConfigError(
            "sasl.oauthbearer.token.endpoint.url has to be an http or https address here (files are not read)",
            property_name="sasl.oauthbearer.token.endpoint.url",
        )
    prefix = "sasl.oauthbearer.client.credentials."
    client_id = options.get("clientId") or java.get(prefix + "client.id", "").strip()
    secret = options.get("clientSecret") or java.get(prefix + "client.secret", "")
    if not client_id or not secret:
        raise ConfigError(
            "sasl.jaas.config lacks clientId or clientSecret for OAUTHBEARER", property_name="sasl.jaas.config"
        )
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
