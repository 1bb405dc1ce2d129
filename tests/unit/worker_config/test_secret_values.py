"""Which properties are taken for secrets in clear text."""

from __future__ import annotations

import pytest

from connect_share.worker_config.secret_values import clear_text_secrets, is_to_be_hidden, without_secrets

NAMES = ["password", "Database.Password", "aws.secret.access.key", "azure.account.key", "api_key", "api-key", "key"]
NAMES += ["ssl.keystore.key", "sasl.jaas.config", "oauth.token", "gcs.credentials.json", "ssl.private.pem"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, "abc") for name in NAMES),
        ("x", "jdbc:oracle:thin:scott/tiger@//db:1521/x"),
        ("x", '{"user": "u", "password": "p"}'),
        ("x", "Login required username='u' password='p';"),
        ("x", "-----BEGIN RSA PRIVATE KEY-----"),
        ("x", "redis://:pw@host/0"),
        ("x", "jdbc:x://db?user=u&password=p"),
        ("x", "mongodb://user:pw@host/db"),
        ("x", "https://h/?sig=abc"),
    ],
)
def test_secrets_by_name_and_by_what_is_in_them(name: str, value: str) -> None:
    assert clear_text_secrets({name: value, "name": "x"}) == [name]
    assert is_to_be_hidden(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("key.converter", "org.apache.kafka.connect.storage.StringConverter"),
        ("message.key", "id"),
        ("primary-key", "id"),
        ("password", "${file:/etc/secrets.properties:password}"),
        ("password", ""),
        ("delete.token.on.stop", "true"),
        ("ssl.truststore.password.location", "/etc/x"),
        ("credentials.provider", "com.acme.Provider"),
        ("name", "secret"),
        ("tasks.max", 3),
        ("password", None),
        ("connection.url", "jdbc:postgresql://db:5432/x"),
    ],
)
def test_what_is_none(name: str, value: object) -> None:
    assert clear_text_secrets({name: value}) == []
    assert not is_to_be_hidden(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("password", "${file:/etc/secrets.properties:password}x"),
        ("sasl.jaas.config", 'Login required username="u" password="${vault:kafka}";'),
        ("anything", {"a": 1}),
    ],
)
def test_what_may_be_one_is_hidden(name: str, value: object) -> None:
    assert clear_text_secrets({name: value}) == []
    assert is_to_be_hidden(name, value)


def test_a_trace_hides_texts_in_lists_and_objects_that_others_wrote() -> None:
    config = {"password": "pw-1", "hosts": ["host-a", {"user": "scott", "port": 5432, "note": ""}], "topics": "orders"}
    assert (
        without_secrets("pw-1 at host-a of orders, scott", [config, None]) == "[hidden] at [hidden] of orders, [hidden]"
    )
