"""``sasl.*`` of the Java clients in librdkafka's terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from connect_share.worker_config.client_settings import refusal
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
        raise refusal(
            "sasl.mechanism",
            f"{mechanism!r} cannot be used here (Kerberos needs Java's login); "
            f"use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
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
