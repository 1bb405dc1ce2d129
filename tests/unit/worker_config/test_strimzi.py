"""Strimzi's ``KafkaConnect`` resources as worker files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.backup.backup_file import new_backup_path
from connect_share.errors import ConfigError
from connect_share.kafka.due_look import due_path
from connect_share.worker_config import WorkerConfig, load_worker_file
from connect_share.worker_config.strimzi import offsets_in
from connect_share.worker_config.worker import choose_worker_file, each_of, file_of, worker_files_in

MAP = b'kind: ConfigMap\ndata:\n  offsets.json: |-\n    {"offsets": []}\n'
DOCS = Path(__file__).parents[3] / "docs" / "strimzi.md"
SPEC = """
  bootstrapServers: kafka:9092
  groupId: com.acme.orders
  configStorageTopic: configs
  offsetStorageTopic: offsets
  statusStorageTopic: status
"""


def resource(spec: str = SPEC, *, api: str = "v1", more: str = "") -> str:
    return (
        f"apiVersion: kafka.strimzi.io/{api}\nkind: KafkaConnect\nmetadata: {{name: orders}}\nspec:\n  replicas: 3\n{spec}"
        f"{more}"
    )


def written(tmp_path: Path, text: str | bytes, name: str = "connect.yaml") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_values_are_what_is_written(tmp_path: Path) -> None:
    more = "  config:\n    offset.storage.partitions: 25\n    a: 1e3\n    b: on\n    c: 007\n    d: '${env:X}'\n    e: true\n"
    found = load_worker_file(written(tmp_path, resource(more=more)))
    assert [found[name] for name in "abcde"] == ["1e3", "on", "007", "${env:X}", "true"]
    assert found["offset.storage.partitions"] == "25"


def test_what_kubectl_writes_as_json(tmp_path: Path) -> None:
    names = {"groupId": "orders", "configStorageTopic": "c", "offsetStorageTopic": "o", "statusStorageTopic": "s"}
    spec = {**names, "replicas": 1, "bootstrapServers": "k:1", "config": {"a": True, "b": 25, "c": "25"}}
    resource = {"apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaConnect", "metadata": {"name": "x"}, "spec": spec}
    found = load_worker_file(written(tmp_path, json.dumps(resource, indent=4), "connect.json"))
    assert (found["group.id"], found["a"], found["b"], found["c"]) == ("orders", "true", "25", "25")
    assert list(worker_files_in(tmp_path)) == [tmp_path / "connect.json"]


def test_the_older_version_has_names_under_config_and_defaults(tmp_path: Path) -> None:
    spec = "  bootstrapServers: kafka:9092\n  config:\n    group.id: orders\n    config.storage.topic: c\n"
    found = load_worker_file(written(tmp_path, resource(spec, api="v1beta2"), "connect.yml"))
    assert (found["group.id"], found["config.storage.topic"]) == ("orders", "c")
    assert found["offset.storage.topic"] == "connect-cluster-offsets"


@pytest.mark.parametrize(
    ("more", "protocol", "mechanism"),
    [
        ("", None, None),
        ("  tls: {trustedCertificates: [{secretName: ca, pattern: '*.crt'}]}\n", "SSL", None),
        ("  tls: {}\n  authentication: {type: tls}\n", "SSL", None),
        ("  authentication: {type: scram-sha-512, username: me}\n", "SASL_PLAINTEXT", "SCRAM-SHA-512"),
        ("  tls: {}\n  authentication: {type: plain, username: me}\n", "SASL_SSL", "PLAIN"),
        (
            "  tls: {}\n  authentication: {type: custom, sasl: true, config: {sasl.mechanism: OAUTHBEARER}}\n",
            "SASL_SSL",
            "OAUTHBEARER",
        ),
    ],
)
def test_the_protocol_follows_tls_and_authentication(
    tmp_path: Path, more: str, protocol: str | None, mechanism: str | None
) -> None:
    found = load_worker_file(written(tmp_path, resource(more=more)))
    assert (found.get("security.protocol"), found.get("sasl.mechanism")) == (protocol, mechanism)


@pytest.mark.parametrize(
    "text",
    [
        f"kind: Deployment\n---\n{resource()}\n---\nkind: ConfigMap\n",
        "kind: List\nitems:\n- " + resource().replace("\n", "\n  "),
    ],
    ids=["several documents", "a list of kubectl"],
)
def test_other_resources_are_passed_over(tmp_path: Path, text: str) -> None:
    assert load_worker_file(written(tmp_path, text))["group.id"] == "com.acme.orders"


def test_a_file_of_several_is_read_like_a_folder(tmp_path: Path) -> None:
    file = written(tmp_path, "\n---\n".join(resource().replace("orders", name) for name in ("a", "b")))
    assert [*worker_files_in(tmp_path)] == each_of(file) == [file / "a", file / "b"]
    assert choose_worker_file(file, "com.acme.b", any_of_one_set=False) == file / "b"
    assert WorkerConfig.from_file(file / "b").group_id == "com.acme.b"
    assert due_path(file / "b", "com.acme.b").parent == tmp_path
    named = re.escape("has 2 worker files: connect.yaml/a (com.acme.a), connect.yaml/b (com.acme.b); give one of them")
    with pytest.raises(ConfigError, match=named):
        choose_worker_file(file, None, any_of_one_set=False)
    with pytest.raises(ConfigError, match="has 2 KafkaConnect resources: default/a, default/b; give"):
        load_worker_file(file / "c")
    assert new_backup_path(file / "b", "b.repair").parent == tmp_path
    assert file_of(tmp_path / "gone.yaml" / "b") == tmp_path / "gone.yaml"


@pytest.mark.parametrize(
    ("data", "count"), [(b"kind: ConfigMap\ndata:\n  a--b.json: x\n", 0), (MAP + b"---\n" + MAP, 2)]
)
def test_offsets_of_a_config_map(data: bytes, count: int) -> None:
    plain = b'{"offsets": [{"partition": {"kind": "ConfigMaps"}}]}'
    in_json = json.dumps({"kind": "ConfigMap", "data": {"offsets.json": '{"offsets": []}'}}).encode()
    assert [offsets_in(each) for each in (MAP, in_json, plain)] == [b'{"offsets": []}', b'{"offsets": []}', plain]
    with pytest.raises(ConfigError, match=f"--file has {count} ConfigMaps with offsets.json; give the JSON"):
        offsets_in(data)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no KafkaConnect resources"),
        ("a: [1, 2", "line 1 is not YAML"),
        (
            f"{resource()}\n---\n{resource()}",
            "has 2 KafkaConnect resources: default/orders, default/orders; give the one that is meant in a file of its own",
        ),
        ("groupId: {{ .Values.id }}\n", "is a template; give what it is rendered to (helm template)"),
        ("services:\n  connect:\n    image: x\n", "is a compose file; give the properties file"),
        (
            "apiVersion: platform.confluent.io/v1beta1\nkind: Connect\n",
            "has a resource of Confluent for Kubernetes (Connect)",
        ),
        ("kind: KafkaMirrorMaker2\n", "has no KafkaConnect resources but KafkaMirrorMaker2; give a file with the one"),
        (resource(SPEC.replace("  groupId: com.acme.orders\n", "")), "group.id is missing; spec.groupId gives it"),
        (resource(more="  config:\n    a: [1]\n"), "a has to be a text under spec.config"),
        (resource(more="  config: &x {a: b}\n  more: *x\n"), "has an alias"),
        ("a: &x 1\nb: *x\n", "has an alias"),
        ("[" * 5_000, "nested deeper than 40"),
        (b"\xff\xfe\xfa", "is not YAML"),
        ("#" * (2 << 20) + "\n#", "longer than 2 MiB"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str | bytes, words: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError, match=re.escape(words)) as caught:
        WorkerConfig.from_file(path)
    assert str(path) in str(caught.value)
    other = written(tmp_path, resource(), "other.yaml")
    if isinstance(text, str) and "kind: KafkaConnect\n" in text:  # which is not passed over in a folder
        with pytest.raises(ConfigError, match=re.escape(words)):
            worker_files_in(tmp_path)
    else:
        assert [*worker_files_in(tmp_path)] == [other]


@given(st.binary(max_size=300) | st.text(alphabet="{}[]:-&*!|>%@`'\" \n\tax0", max_size=300).map(str.encode))
def test_any_bytes_are_a_worker_file_or_an_error(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(ConfigError):
        load_worker_file(written(tmp_path, data))


def test_the_image_of_the_docs_is_in_their_table() -> None:
    page = DOCS.read_text(encoding="utf-8")
    ((strimzi, kafka),) = re.findall(r"^FROM \S+:(\S+)-kafka-(\S+)$", page, re.MULTILINE)
    (row,) = re.findall(rf"^\| {re.escape(strimzi)} \| (.*) \|$", page, re.MULTILINE)
    assert kafka in row.replace(",", "").split()
