"""Which properties are taken for secrets in clear text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.worker_config.secret_values import clear_text_secrets, is_to_be_hidden


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "connection.password",
        "Database.Password",
        "aws.secret.access.key",
        "azure.account.key",
        "api_key",
        "api-key",
        "ssl.keystore.key",
        "sasl.jaas.config",
        "oauth.token",
        "gcs.credentials.json",
        "ssl.private.pem",
        "key",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert clear_text_secrets({name: "abc", "name": "x"}) == [name]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("key.converter", "org.apache.kafka.connect.storage.StringConverter"),
        ("message.key", "id"),
        ("primary-key", "id"),
        ("password", "${file:/etc/secrets.properties:password}"),
        ("sasl.jaas.config", 'Login required password="${vault:kafka}";'),
        ("password", ""),
        ("delete.token.on.stop", "true"),
        ("ssl.truststore.password.location", "/etc/x"),
        ("credentials.provider", "com.acme.Provider"),
        ("name", "secret"),
        ("tasks.max", "1"),
        ("password", None),
        ("connection.url", "jdbc:postgresql://db:5432/x"),
    ],
)
def test_what_is_none(name: str, value: object) -> None:
    assert clear_text_secrets({name: value}) == []


SECRETS_INSIDE = [
    "jdbc:oracle:thin:scott/tiger@//db:1521/x",
    '{"user": "u", "password": "p"}',
    "Login required username='u' password='p';",
    "-----BEGIN RSA PRIVATE KEY-----",
    "redis://:pw@host/0",
]


@pytest.mark.parametrize("value", SECRETS_INSIDE)
def test_secrets_inside_values(value: str) -> None:
    assert clear_text_secrets({"x": value}) == ["x"]
    assert is_to_be_hidden("x", value)


@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        ("connector.class", "org.acme.Source", False),
        ("tasks.max", 3, False),
        ("topics", None, False),
        ("connection.url", "jdbc:postgresql://db:5432/x", False),
        ("password", "${file:/etc/secrets.properties:password}", False),
        ("password", "${file:/etc/secrets.properties:password}x", True),
        ("sasl.jaas.config", 'Login required username="u" password="${vault:kafka}";', True),
        ("password", "x", True),
        ("anything", {"a": 1}, True),
        ("key.converter", "x.StringConverter", False),
    ],
)
def test_what_is_hidden(name: str, value: object, hidden: bool) -> None:
    assert is_to_be_hidden(name, value) is hidden


@pytest.mark.parametrize("url", ["jdbc:x://db?user=u&password=p", "mongodb://user:pw@host/db", "https://h/?sig=abc"])
def test_secrets_inside_urls(url: str) -> None:
    assert clear_text_secrets({"connection.url": url}) == ["connection.url"]


@given(st.dictionaries(st.text(), st.one_of(st.none(), st.text(), st.integers(), st.booleans())))
def test_gives_names_only_and_never_fails(config: dict[str, object]) -> None:
    assert set(clear_text_secrets(config)) <= config.keys()
