"""Properties syntax, JAAS syntax and config providers, against what Java made of the same texts."""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connect_share.errors import ConfigError
from connect_share.worker_config import common_settings, load_properties, parse_properties
from connect_share.worker_config.client_translation import parse_jaas
from connect_share.worker_config.config_providers import has_reference, is_reference, references, resolve_variables
from connect_share.worker_config.secret_values import clear_text_secrets
from tests.support.worker_files import providers

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "java_config_syntax.json").read_text("utf-8"))


def test_properties_are_read_as_java_reads_them() -> None:
    different = []
    for vector in VECTORS["properties"]:
        text = bytes.fromhex(vector["bytes_hex"]).decode("latin-1")
        try:
            found: dict[str, str] | None = parse_properties(text)
        except ConfigError:
            found = None
        expected = vector["properties"]
        if expected and expected.get("") == "":
            # A file that ends in a lone backslash gives Java an empty name; nothing asks for that one.
            expected = {name: value for name, value in expected.items() if name}
            found = {name: value for name, value in (found or {}).items() if name}
        if found != expected:
            different.append((text, found, expected))
    assert not different
    assert len(VECTORS["properties"]) > 400


def test_jaas_texts_that_java_takes_mean_the_same_here() -> None:
    different, refused = [], 0
    for vector in VECTORS["jaas"]:
        expected = vector["module"]
        try:
            module = parse_jaas(vector["text"])
        except ConfigError:
            refused += 1
            # A quoted text that runs over the end of a line ends there in Java; it is refused here.
            if expected is not None and "\n" not in vector["text"]:
                different.append(vector["text"])
            continue
        if expected is not None and (module.class_name, module.options) != (expected["class"], expected["options"]):
            different.append(vector["text"])
    assert not different
    assert refused > 50


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ConfigError):
        parse_properties(text)


@given(st.text(alphabet=st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])), st.sampled_from("\"'"))
@example('a"b\\', '"')
def test_every_password_can_be_written_in_quotes(password: str, quote: str) -> None:
    written = password.replace("\\", "\\\\").replace(quote, "\\" + quote)
    module = parse_jaas(f"some.LoginModule required\n  username=alice password={quote}{written}{quote};")
    assert module.options == {"username": "alice", "password": password}
    assert repr(module) == "LoginModule(class_name='some.LoginModule')"


@given(st.text(alphabet=st.characters(exclude_characters="'\"=/")))
def test_a_jaas_text_is_never_shown(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_jaas(f"M required password {text}'")
    assert str(caught.value) == (
        'sasl.jaas.config is not of the form: <login module class> required name="value" ... ;'
    )


def test_a_worker_file_is_latin_1_and_a_file_providers_file_utf_8(tmp_path: Path) -> None:
    (tmp_path / "worker.properties").write_bytes("a=\u00fc\n".encode("latin-1"))
    (tmp_path / "secrets.properties").write_bytes("a=\u00fc\n".encode())
    assert load_properties(tmp_path / "worker.properties") == {"a": "ü"}
    assert load_properties(tmp_path / "secrets.properties") == {"a": "\u00c3\u00bc"}
    resolved = resolve_variables({**FILE_PROVIDER, "b": f"<${{f:{tmp_path}/secrets.properties:a}}>"})
    assert resolved["b"] == "<ü>"


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b"a=\xfc\n", "PATH is not utf-8 text at byte 2; save it as utf-8"),
        (b"\xef\xbb\xbfa=1\n", "PATH: line 1: a byte order mark .*; save the file without it, as utf-8"),
        (None, "cannot read PATH: No such file or directory"),
    ],
)
def test_what_is_wrong_with_a_file_providers_file(tmp_path: Path, data: bytes | None, wrong: str) -> None:
    path = tmp_path / "secrets.properties"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ConfigError, match=f"^b: config provider 'f': {wrong.replace('PATH', str(path))}$"):
        resolve_variables({**FILE_PROVIDER, "b": f"${{f:{path}:a}}"})


FILE_PROVIDER = providers(f="File")


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"config.providers": "v", "x": "${v:a:b}"}, r"^x: config provider 'v' is of class '\(none\)'"),
        (
            {**providers(e="EnvVar"), "config.providers.e.param.allowlist.pattern": "SAFE_.*", "x": "${e:PATH}"},
            r"^x: config provider 'e' has nothing under 'PATH'",
        ),
        (
            {**FILE_PROVIDER, "config.providers.f.param.allowed.paths": "/etc/kafka", "x": "${f:/etc/kafka/../p:k}"},
            r"^x: config provider 'f': /etc/kafka/\.\./p is outside the allowed\.paths",
        ),
    ],
)
def test_a_reference_that_leads_nowhere_is_refused(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        resolve_variables(properties)
    assert caught.value.property_name == "x"


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b", "/dev/zero"])
def test_files_that_cannot_be_or_never_end_are_refused_with_their_name(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^cannot read .*(no file can have such a name|longer than 16 MiB)"):
        load_properties(name)
    declared = providers(file="File", dir="Directory", env="EnvVar")
    for reference in (f"${{file:{name}:k}}", f"${{dir:{name}:k}}", f"${{dir:/tmp:{name}}}", f"${{env:{name}}}"):
        with pytest.raises(ConfigError, match=r"^given: config provider"):
            resolve_variables({**declared, "given": reference})


def test_a_directory_provider_does_not_leave_its_directory(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("secret", "utf-8")
    (tmp_path / "inside").mkdir()
    with pytest.raises(ConfigError, match="has nothing under"):
        resolve_variables({**providers(d="Directory"), "x": f"${{d:{tmp_path}/inside:../outside}}"})


JAVA_PATTERN = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")  # ConfigTransformer.DEFAULT_PATTERN
pieces = st.lists(st.sampled_from(["${", "$", "{", "}", ":", "a", "/b", " "]), max_size=14).map("".join)


@given(pieces)
@example("${a:b:c:d}")
@example("${${a:b}}")
@example("${a}:b}")
@example("${:}")
def test_references_are_those_that_javas_expression_finds(text: str) -> None:
    assert [tuple(one) for one in references(text)] == [
        (match.start(), match.end(), match.group(1), match.group(3) or "", match.group(4))
        for match in JAVA_PATTERN.finditer(text)
    ]
    assert has_reference(text) == (JAVA_PATTERN.search(text) is not None)
    assert is_reference(text) == (JAVA_PATTERN.fullmatch(text) is not None)


JAAS = 'PlainLoginModule required username="u" password="p";'
HOSTILE = {
    "colons": "${" + ":" * 100_000,
    "beginnings": "${:" * 50_000,
    "nested": "${" * 50_000 + ":" * 50_000,
    "ends": "${:}" * 25_000,
    "comments": "//\n" * 100_000,
    "certificates": "-----BEGIN A-----" * 10_000,
    "one certificate": "-----BEGIN A-----" + "A" * 200_000 + "-----END A-----",
    "continued lines": "a\\\n" * 100_000,
    "addresses": "://a:" * 25_000,
    "dots": "." * 100_000 + "key",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_long_texts_from_a_topic_are_read_in_linear_time(text: str) -> None:
    began_s = time.process_time()
    has_reference(text)
    parse_properties(text)
    clear_text_secrets({"x": text, text: "x"})
    java = {"bootstrap.servers": "h:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    for name in ("sasl.jaas.config", "ssl.truststore.certificates", "ssl.enabled.protocols", "request.timeout.ms"):
        with suppress(ConfigError):
            common_settings({**java, "sasl.jaas.config": JAAS, name: text})
    # Quadratic time takes seconds for these.
    assert time.process_time() - began_s < 2


@pytest.mark.parametrize("first", ["group.id=a", "  group.id=a"])
def test_a_byte_order_mark_before_a_property_is_named(tmp_path: Path, first: str) -> None:
    path = tmp_path / "w.properties"
    path.write_text(f"\ufeff{first}\nbootstrap.servers=b\n", "utf-8")
    with pytest.raises(ConfigError, match=r"w\.properties: line 1: a byte order mark"):
        load_properties(path)


@pytest.mark.parametrize("first", ["# a comment", "! a comment", "", "  "])
def test_a_byte_order_mark_elsewhere_does_no_harm(tmp_path: Path, first: str) -> None:
    path = tmp_path / "w.properties"
    path.write_text(f"\ufeff{first}\ngroup.id=a\n", "utf-8")
    assert load_properties(path) == {"group.id": "a"}
