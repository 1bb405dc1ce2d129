"""The worker's properties in a Strimzi ``KafkaConnect`` resource; the only place that reads YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from connect_share.errors import ConfigError, listed, refusal
from connect_share.worker_config.properties import read_whole

if TYPE_CHECKING:
    import yaml

_MOST_BYTES: Final = 2 << 20  # etcd takes resources of 1.5 MiB
_DEEPEST: Final = 40
_API: Final = "kafka.strimzi.io/"
# Fields of spec in v1, and what v1beta2 says under config, with the operator's defaults.
_FIELDS: Final = {
    "groupId": ("group.id", "connect-cluster"),
    "configStorageTopic": ("config.storage.topic", "connect-cluster-configs"),
    "offsetStorageTopic": ("offset.storage.topic", "connect-cluster-offsets"),
    "statusStorageTopic": ("status.storage.topic", "connect-cluster-status"),
}
_OFFSETS: Final = "offsets.json"
_CONFIG_MAP: Final = re.compile(rb"""\bkind["']?\s*:\s*["']?ConfigMap\b""")
_KAFKA_CONNECT: Final = re.compile(rb"""\bkind["']?\s*:\s*["']?KafkaConnect\b""")
_SASL: Final = {"scram-sha-256": "SCRAM-SHA-256", "scram-sha-512": "SCRAM-SHA-512", "plain": "PLAIN"}


def load_kafka_connect(path: str | Path, file: Path) -> dict[str, str]:
    """Read the ``KafkaConnect`` resource of a YAML or JSON file, and return the properties that its workers get.

    Of several in ``file`` it is that with the ``metadata.name`` in a path ``FILE/NAME``.

    ``tls`` and ``authentication`` give ``security.protocol`` and ``sasl.mechanism``. Certificates and passwords are in
    Kubernetes secrets, not in the resource; a profile gives them.

    Source: Strimzi's ``KafkaConnect``, API ``kafka.strimzi.io/v1`` and ``v1beta2``.
    """
    data = read_whole(file, "; give a worker's properties file or a KafkaConnect resource", most_bytes=_MOST_BYTES)
    try:
        return _properties(_only_resource(_documents(data), None if file == Path(path) else Path(path).name))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}", property_name=error.property_name) from None


def names_in(path: Path) -> list[str]:
    """Return the names of the ``KafkaConnect`` resources of a file, none of a file of another kind.

    ``ConfigError``: it seems to have one, and cannot be read.
    """
    data = b""
    try:
        data = read_whole(path, most_bytes=_MOST_BYTES)
        return [_name(each) for document in _documents(data) for each in _resources(document)]
    except ConfigError as error:
        if _KAFKA_CONNECT.search(data) is None:
            return []
        raise ConfigError(f"{path}: {error}") from None


def offsets_in(data: bytes) -> bytes:
    """Return ``offsets.json`` of a ConfigMap, as Strimzi writes and takes offsets; what is no ConfigMap as it is."""
    if _CONFIG_MAP.search(data) is None:
        return data
    found = [each for document in _documents(data) if (each := _mapping(_mapping(document).get("data")).get(_OFFSETS))]
    if len(found) == 1 and isinstance(found[0], str):
        return found[0].encode()
    raise ConfigError(f"--file has {len(found)} ConfigMaps with {_OFFSETS}; give the JSON of the connector alone")


@lru_cache(maxsize=16)
def _documents(data: bytes) -> tuple[Any, ...]:
    """Return the documents of a YAML text, all scalars as they are written; a command asks for a file several times."""
    try:
        import yaml
    except ImportError:
        raise ConfigError("YAML is read with PyYAML; install it with: pip install pyyaml") from None

    # Every scalar is text, as in a properties file; nothing of a document makes objects.
    class Loader(yaml.BaseLoader):
        depth = 0

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):  # a few of them can stand for any number of nodes
                raise ConfigError("has an alias (*name); write the text out")
            self.depth += 1
            if self.depth > _DEEPEST:
                raise ConfigError(f"is nested deeper than {_DEEPEST}; no KafkaConnect resource is")
            try:
                return super().compose_node(parent, index)
            finally:
                self.depth -= 1

    try:
        return tuple(yaml.load_all(data, Loader=Loader))
    except yaml.MarkedYAMLError as error:
        if b"{{" in data:
            raise ConfigError("is a template; give what it is rendered to (helm template)") from None
        line = error.problem_mark.line + 1 if error.problem_mark is not None else "?"
        raise ConfigError(f"line {line} is not YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"is not YAML ({type(error).__name__})") from None


def _resources(document: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the KafkaConnect resources of a document, those of a list that kubectl has written too."""
    document = _mapping(document)
    if document.get("kind") == "KafkaConnect" and str(document.get("apiVersion", "")).startswith(_API):
        yield document
    elif document.get("kind") in ("List", "KafkaConnectList"):
        items = document.get("items")
        for item in items if isinstance(items, list) else []:
            yield from _resources(item)


def _name(resource: Mapping[str, Any]) -> str:
    return str(_mapping(resource.get("metadata")).get("name", "?"))


def _only_resource(documents: Sequence[Any], name: str | None) -> Mapping[str, Any]:
    """Return the one ``KafkaConnect`` resource; raise ``ConfigError`` with what is there in its place, and what to give."""
    found = [each for document in documents for each in _resources(document)]
    if len(wanted := [each for each in found if name in (None, _name(each))]) == 1:
        return wanted[0]
    if found:
        spaces = [str(_mapping(each.get("metadata")).get("namespace", "default")) for each in found]
        names = listed(sorted(f"{space}/{_name(each)}" for space, each in zip(spaces, found, strict=True)))
        how = "as FILE/NAME" if len({*map(_name, found)}) == len(found) else "in a file of its own"
        raise ConfigError(f"has {len(found)} KafkaConnect resources: {names}; give the one that is meant {how}")
    there = [_mapping(each) for each in documents]
    if any("services" in each for each in there):
        raise ConfigError(
            "is a compose file; give the properties file that the worker's container has made of its variables"
        )
    kinds = listed(sorted({str(each["kind"]) for each in there if "kind" in each}))
    if any(str(each.get("apiVersion", "")).startswith("platform.confluent.io/") for each in there):
        raise ConfigError(
            f"has a resource of Confluent for Kubernetes ({kinds}); give the properties file that its workers have"
        )
    but = f" but {kinds}" if kinds else ""
    raise ConfigError(f"has no KafkaConnect resources{but}; give a file with the one that is meant")


def _mapping(value: Any) -> Mapping[str, Any]:
    return {str(key): each for key, each in value.items()} if isinstance(value, dict) else {}


def _properties(resource: Mapping[str, Any]) -> dict[str, str]:
    spec = _mapping(resource.get("spec"))
    properties: dict[str, str] = {}
    for name, value in _mapping(spec.get("config")).items():
        if not isinstance(value, str):
            raise refusal(name, "has to be a text under spec.config")
        properties[name] = value
    is_v1 = resource["apiVersion"] == f"{_API}v1"
    for field, (name, default) in _FIELDS.items():
        value = spec.get(field, "" if is_v1 else properties.get(name, default))
        if not isinstance(value, str) or not value.strip():
            raise refusal(name, f"is missing; spec.{field} gives it")
        properties[name] = value
    servers = spec.get("bootstrapServers")
    if isinstance(servers, str):
        properties["bootstrap.servers"] = servers
    return properties | _security(spec)


def _security(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return what ``tls`` and ``authentication`` say without Kubernetes."""
    is_tls = "tls" in spec
    authentication = _mapping(spec.get("authentication"))
    kind = authentication.get("type")
    if kind in _SASL:
        return {"security.protocol": "SASL_SSL" if is_tls else "SASL_PLAINTEXT", "sasl.mechanism": _SASL[kind]}
    if kind in (None, "tls"):
        return {"security.protocol": "SSL"} if is_tls else {}
    custom = {str(name): each for name, each in _mapping(authentication.get("config")).items() if isinstance(each, str)}
    sasl = authentication.get("sasl") == "true" or kind == "oauth"
    names = {(True, True): "SASL_SSL", (True, False): "SASL_PLAINTEXT", (False, True): "SSL"}
    protocol = names.get((sasl, is_tls))
    return ({} if protocol is None else {"security.protocol": protocol}) | custom
