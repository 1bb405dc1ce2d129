"""One Connect worker's configuration, read from its own file; the topics it names, and profiles: ways to reach a cluster."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from connect_share.errors import ConfigError, InvalidClusterGroupIdError, listed, refusal
from connect_share.model.keys import BLANKS, INT32_MAX, ClusterGroupId
from connect_share.model.records import TopicType
from connect_share.sealing import KEYS_PROPERTY, SEALING_PROPERTY, KeyRing, SealingMode, TopicSeals
from connect_share.worker_config.client_translation import (
    CONSUMER_SETTINGS,
    PRODUCER_SETTINGS,
    ClientSettings,
    Isolation,
    common_settings,
    is_java_client_property,
    one_of,
    translated,
    whole_number,
)
from connect_share.worker_config.config_providers import (
    DECLARED_PROVIDERS,
    ConfigProvider,
    has_reference,
    resolve_variables,
)
from connect_share.worker_config.override_policy import RULES_PROPERTY
from connect_share.worker_config.properties import DISTRIBUTED, load_properties, other_file, read_whole
from connect_share.worker_config.secret_values import clear_text_secrets
from connect_share.worker_config.strimzi import load_kafka_connect, names_in

SHARING_PROPERTY: Final = "connect.management.topic.sharing.support"
_OURS: Final = (SHARING_PROPERTY, SEALING_PROPERTY, KEYS_PROPERTY, RULES_PROPERTY)
CREATION_PROPERTY: Final = "internal.topics.automatic.creation.enable"
TOPIC_PROPERTIES: Final[Mapping[TopicType, str]] = {
    TopicType.CONFIG: "config.storage.topic",
    TopicType.OFFSET: "offset.storage.topic",
    TopicType.STATUS: "status.storage.topic",
}
# Properties of the storage prefixes that are not topic settings.
_NOT_TOPIC_SETTINGS: Final = frozenset({"topic", "partitions", "replication.factor", "cleanup.policy"})

_REPLICAS: Final = (1, 2**15 - 1, -1)
_PARTITIONS: Final = (1, INT32_MAX, -1)
_MILLIS: Final = (0, INT32_MAX, None)
# Lowest and highest value of each number, and one more that is allowed.
_INTEGERS: Final[Mapping[str, tuple[int, int, int | None]]] = {
    "config.storage.replication.factor": _REPLICAS,
    "offset.storage.replication.factor": _REPLICAS,
    "offset.storage.partitions": _PARTITIONS,
    "status.storage.replication.factor": _REPLICAS,
    "status.storage.partitions": _PARTITIONS,
    "worker.sync.timeout.ms": _MILLIS,
    "worker.unsync.backoff.ms": _MILLIS,
    "offset.flush.interval.ms": _MILLIS,
    "offset.flush.timeout.ms": _MILLIS,
}
_LEGAL_TOPIC: Final = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}")


def _required(given: Mapping[str, str], name: str, remedy: str | None = None) -> str:
    value = given.get(name, "").strip(BLANKS)
    if not value:
        raise refusal(name, f"is missing; {remedy or _remedy(given)}")
    return value


_ISOLATION_PROPERTY: Final = "isolation.level"


def _word(given: Mapping[str, str], name: str, default: str, allowed: tuple[str, ...]) -> str:
    return one_of(*allowed)(name, given.get(name, "").strip(BLANKS) or default)


def _level(given: Mapping[str, str], default: Isolation) -> Isolation:
    return Isolation(_word(given, _ISOLATION_PROPERTY, default.value, ("read_uncommitted", "read_committed")))


def _remedy(properties: Mapping[str, str]) -> str:
    """Return what to do where a property is missing that every distributed worker has: it may be another file."""
    if not properties:
        return f"the file is empty; {DISTRIBUTED}"
    return other_file(properties) or "a distributed worker's file has it"


def _sealing_keys(text: str) -> KeyRing:
    if has_reference(text):
        raise refusal(KEYS_PROPERTY, "refers to a config provider that is not declared in config.providers")
    try:
        return KeyRing.parse(text)
    except ConfigError as exc:
        raise refusal(KEYS_PROPERTY, f": {exc}") from None


def is_topic_name(text: str) -> bool:
    """Return whether Kafka takes this as the name of a topic."""
    return _LEGAL_TOPIC.fullmatch(text) is not None


def check_topic_name(property_name: str, topic: str) -> None:
    """Refuse what Kafka would refuse as the name of a topic."""
    if _LEGAL_TOPIC.fullmatch(topic) is None:
        raise refusal(
            property_name, f": {topic!r} cannot be a topic name; up to 249 characters A-Z a-z 0-9 . _ - are allowed"
        )


class WorkerConfig(BaseModel):
    """Configuration of one worker of one Connect cluster.

    Build it with :meth:`from_file` or :meth:`from_properties`; unknown properties are kept in :attr:`originals`. Those, and
    keys, may be secrets: ``repr``, ``model_dump`` and ``model_dump_json`` leave them out.

    Attributes:
        sharing_enabled: ``connect.management.topic.sharing.support`` is ``enabled`` (KIP-1173).
        sealing_mode, sealing_keys: ``connect.management.topic.sharing.encryption`` and its ``.keys``.
        says_sealing: one of the two is there. Where neither is, a group that looks sealed is not started, nor written to.
        worker_sync_timeout_ms, offset_flush_interval_ms, offset_flush_timeout_ms: milliseconds.
        config_storage_replication_factor and the like: -1 is the broker's default.

    Source: ``DistributedConfig``, ``WorkerConfig``.

    >>> worker = WorkerConfig.from_properties(
    ...     {
    ...         "bootstrap.servers": "kafka:9092",
    ...         "group.id": "group-a",
    ...         "config.storage.topic": "configs",
    ...         "offset.storage.topic": "offsets",
    ...         "status.storage.topic": "statuses",
    ...         "connect.management.topic.sharing.support": "enabled",
    ...     }
    ... )
    >>> worker.cluster_group_id
    'group-a'
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        arbitrary_types_allowed=True,
        alias_generator=lambda name: name.replace("_", "."),
        populate_by_name=True,
    )

    group_id: str
    bootstrap_servers: str
    config_storage_topic: str
    offset_storage_topic: str
    status_storage_topic: str
    config_storage_replication_factor: int = 3
    offset_storage_replication_factor: int = 3
    offset_storage_partitions: int = 25
    status_storage_replication_factor: int = 3
    status_storage_partitions: int = 5
    exactly_once_source_support: Literal["disabled", "preparing", "enabled"] = "disabled"
    sharing_enabled: bool = False
    sealing_mode: SealingMode = SealingMode.OFF
    sealing_keys: KeyRing | None = Field(default=None, exclude=True)
    says_sealing: bool = False
    worker_sync_timeout_ms: int = 3_000
    worker_unsync_backoff_ms: int = 300_000
    offset_flush_interval_ms: int = 60_000
    offset_flush_timeout_ms: int = 5_000
    topic_tracking_enable: bool = True
    topic_tracking_allow_reset: bool = True
    internal_topics_automatic_creation_enable: bool = True
    originals: dict[str, str] = Field(default_factory=dict, repr=False, exclude=True)
    _common: ClientSettings | None = PrivateAttr(default=None)
    _file: Path | None = PrivateAttr(default=None)

    @classmethod
    def from_file(cls, path: str | Path, *, providers: Mapping[str, ConfigProvider] | None = None) -> WorkerConfig:
        """Read a Java worker's properties file, or a Strimzi ``KafkaConnect`` resource (``.yaml``, ``.yml``, ``.json``).

        ``providers`` as in :meth:`from_properties`.

        Raises:
            ConfigError: the file or a property cannot be read, is missing or is wrong; names the property.
            InvalidClusterGroupIdError: sharing is on and ``group.id`` cannot be a cluster group id.
        """
        return cls.from_file_properties(path, load_worker_file(path), providers=providers)

    @classmethod
    def from_file_properties(
        cls,
        path: str | Path,
        properties: Mapping[str, str],
        *,
        providers: Mapping[str, ConfigProvider] | None = None,
        given: Collection[str] = (),
    ) -> WorkerConfig:
        """Return the configuration in properties that come from a file; errors name it, but for those ``given`` elsewhere.

        Raises:
            ConfigError, InvalidClusterGroupIdError: as :meth:`from_file`.
        """
        try:
            config = cls.from_properties(properties, providers=providers)
        except ConfigError as exc:
            text = str(exc) if exc.property_name in given else f"{path}: {exc}"
            raise ConfigError(text, property_name=exc.property_name) from exc
        except InvalidClusterGroupIdError as exc:
            raise InvalidClusterGroupIdError(f"{path}: {exc}") from exc
        config._file = Path(path)  # noqa: SLF001 - of this class
        return config

    @property
    def file(self) -> Path | None:
        """The file that it was read from."""
        return self._file

    @classmethod
    def from_properties(
        cls, mapping: Mapping[str, str], *, providers: Mapping[str, ConfigProvider] | None = None
    ) -> WorkerConfig:
        """Return the configuration in a worker's properties; ``${file:..}`` and the like are resolved here.

        Args:
            mapping: the properties.
            providers: config providers of one's own, by their name in references; they are configured, and left open.

        Raises:
            ConfigError: a property is missing or wrong; names it.
            InvalidClusterGroupIdError: sharing is on and ``group.id`` cannot be a cluster group id.
        """
        resolved = resolve_variables({str(name): str(value) for name, value in mapping.items()}, providers)
        values: dict[str, Any] = {
            **{name: _required(resolved, name) for name in (*TOPIC_PROPERTIES.values(), "group.id")},
            "bootstrap.servers": _required(resolved, "bootstrap.servers", "give host:port of the brokers"),
            "exactly.once.source.support": _word(
                resolved, "exactly.once.source.support", "disabled", ("disabled", "preparing", "enabled")
            ),
            "sharing_enabled": _shares(resolved),
            "originals": resolved,
        }
        for name in resolved:
            if name.startswith(("connect.management.topic.sharing.", "connectshare.")) and name not in _OURS:
                raise refusal(name, f"is no property of topic sharing; there are {listed(_OURS)}")
        text = resolved.get(KEYS_PROPERTY, "").strip(BLANKS)
        values["sealing_keys"] = keys = _sealing_keys(text) if text else None
        if keys is None and KEYS_PROPERTY in resolved and not resolved.get(SEALING_PROPERTY, "").strip(BLANKS):
            raise refusal(
                KEYS_PROPERTY,
                "is empty, and nothing would be sealed; give it the keys, remove the line, or set "
                f"{SEALING_PROPERTY}=off",
            )
        default, words = "off" if keys is None else "required", tuple(mode.value for mode in SealingMode)
        values["sealing_mode"] = SealingMode(_word(resolved, SEALING_PROPERTY, default, words))
        values["says_sealing"] = keys is not None or bool(resolved.get(SEALING_PROPERTY, "").strip(BLANKS))
        for name, (low, high, also) in _INTEGERS.items():
            if text := resolved.get(name, "").strip():
                values[name] = number = whole_number(name, text)
                if not low <= number <= high and number != also:
                    extra = "" if also is None else f", or {also}"
                    raise refusal(name, f"has to be {low} to {high}{extra}, not {number}")
        for name in ("topic.tracking.enable", "topic.tracking.allow.reset", CREATION_PROPERTY):
            values[name] = _word(resolved, name, "true", ("true", "false")) == "true"
        config = cls(**values)
        config._check()
        return config

    def _check(self) -> None:
        if self.sharing_enabled:
            try:
                ClusterGroupId(self.group_id)
            except InvalidClusterGroupIdError as exc:
                raise InvalidClusterGroupIdError(f"group.id with {SHARING_PROPERTY}=enabled: {exc}") from None
        if self.sealing_mode is not SealingMode.OFF:
            if self.sealing_keys is None:
                raise refusal(KEYS_PROPERTY, f"is missing; {SEALING_PROPERTY}={self.sealing_mode.value} needs keys")
            if not self.sharing_enabled:
                raise refusal(
                    KEYS_PROPERTY,
                    f"is there, but {SHARING_PROPERTY} is not enabled: plain keys are never sealed; enable sharing, or set "
                    f"{SEALING_PROPERTY}=off",
                )
        seen: dict[str, str] = {}
        for topic_type, name in TOPIC_PROPERTIES.items():
            topic = self.topic(topic_type)
            check_topic_name(name, topic)
            if topic in seen:
                raise refusal(name, f"and {seen[topic]} both name topic {topic!r}; each needs one of its own")
            seen[topic] = name
        # Wrong client settings are reported now, not at the first use.
        self.isolation(TopicType.CONFIG)
        self.consumer_settings()
        self.producer_settings()

    @property
    def cluster_group_id(self) -> ClusterGroupId | None:
        """Prefix of this cluster's keys, ``None`` while sharing is disabled (plain keys)."""
        return ClusterGroupId(self.group_id) if self.sharing_enabled else None

    @property
    def keys_in_use(self) -> KeyRing | None:
        """Keys that open and seal, ``None`` while sealing is off, whatever the file has."""
        return None if self.sealing_mode is SealingMode.OFF else self.sealing_keys

    def seals(self, topic_type: TopicType) -> TopicSeals:
        """Return a new step that opens, refuses and seals the group's records of one topic; plain ones pass.

        Raises:
            ConfigError: there are keys, and the library ``cryptography`` is not installed.
        """
        group = self.cluster_group_id
        return TopicSeals(topic_type, group, self.sealing_keys, self.sealing_mode, says_sealing=self.says_sealing)

    @property
    def transactional_id(self) -> str:
        """Transactional id of the exactly-once leader."""
        return f"connect-cluster-{self.group_id}"

    @property
    def uses_transactional_leader(self) -> bool:
        """Privileged writes go through a transactional producer (``preparing`` and ``enabled``)."""
        return self.exactly_once_source_support != "disabled"

    def client_id(self, suffix: str) -> str:
        """``<group.id>[-<client.id>]-<suffix>``, as the worker names its internal clients."""
        own = self.originals.get("client.id", "").strip()
        return "-".join(part for part in (self.group_id, own, suffix) if part)

    def topic(self, topic_type: TopicType) -> str:
        """Name of one of the three topics."""
        return str(getattr(self, TOPIC_PROPERTIES[topic_type].replace(".", "_")))

    def topic_settings(self, topic_type: TopicType) -> dict[str, str]:
        """Topic-level settings asked for at creation, such as ``min.insync.replicas``.

        From ``config.storage.*`` and the like; ``cleanup.policy`` is never taken from there.
        """
        prefix = TOPIC_PROPERTIES[topic_type].removesuffix("topic")
        found = {name[len(prefix) :]: value for name, value in self.originals.items() if name.startswith(prefix)}
        return {name: value for name, value in found.items() if name not in _NOT_TOPIC_SETTINGS}

    def isolation(self, topic_type: TopicType) -> Isolation:
        """Return the isolation level with which the worker reads a topic.

        It is read_committed for config and offsets with exactly-once ``enabled``; statuses always read_uncommitted; otherwise
        what the worker file says, read_uncommitted by default as in Java.

        Raises:
            ConfigError: ``isolation.level`` is neither of the two words.
        """
        given = _level(self.originals, Isolation.READ_UNCOMMITTED)
        if topic_type is TopicType.STATUS:
            return Isolation.READ_UNCOMMITTED
        if self.exactly_once_source_support == "enabled":
            return Isolation.READ_COMMITTED
        return given

    def isolation_of(self, group: str | None, topic_type: TopicType) -> Isolation:
        """Return the isolation of a group's workers; what every group agrees with, if this is not its worker file."""
        return self.isolation(topic_type) if group == self.cluster_group_id else common_isolation(topic_type)

    def client_settings(self) -> ClientSettings:
        """Bootstrap servers, security and network settings, in librdkafka's names.

        Raises:
            ConfigError: a setting that matters has no equivalent; names it.
        """
        # Cached, because the translation may run Java's keytool.
        if self._common is None:
            self._common = common_settings(self.originals)
        return self._common

    def admin_settings(self) -> ClientSettings:
        """Settings of the admin client."""
        return self.client_settings()  # those of a subclass, if it has its own

    def consumer_settings(self) -> ClientSettings:
        """Settings of the internal consumers; as in Java they carry the worker's group id, which its ACLs cover."""
        tuning = translated(self.originals, CONSUMER_SETTINGS)
        return self.client_settings().overlaid({**tuning, "group.id": self.group_id})

    def producer_settings(self) -> ClientSettings:
        """Settings of the internal producers."""
        return self.client_settings().overlaid(translated(self.originals, PRODUCER_SETTINGS))


def common_isolation(topic_type: TopicType) -> Isolation:
    """Return what every group agrees with: one with exactly-once writes transactions, the others none."""
    return Isolation.READ_UNCOMMITTED if topic_type is TopicType.STATUS else Isolation.READ_COMMITTED


RESOURCES: Final = (".yaml", ".yml", ".json")
_SUFFIXES: Final = (".properties", *RESOURCES)
_MOST_FILES: Final = 1_000
_NEEDED: Final = ("group.id", "config.storage.topic")
_SERVERS: Final = "bootstrap.servers"

_connection: dict[str, str] = {}
"""Connection settings of this command. They win over those of worker files, but never lead a file to other brokers."""


def connection_settings() -> dict[str, str]:
    """Return the connection settings of this command; none unless a profile was named."""
    return dict(_connection)


def load_worker_file(path: str | Path) -> dict[str, str]:
    """Return a worker's properties: of a properties file, or of a ``KafkaConnect`` resource (:data:`RESOURCES`).

    ``FILE/NAME`` is one of several resources of a file.

    Raises:
        ConfigError: the file cannot be read, or is of another program; names that.
    """
    file = file_of(Path(path))
    found = load_kafka_connect(path, file) if file.suffix.lower() in RESOURCES else load_properties(path)
    if not all(name in found for name in _NEEDED) and (other := other_file(found)) is not None:
        raise ConfigError(f"{path}: {other}")
    # Two files of one command may be of two clusters.
    return found | {name: value for name, value in _connection.items() if name != _SERVERS or name not in found}


def file_of(path: Path) -> Path:
    """Return the file that a worker file is in, whether it is there or not, for it may be ``FILE/NAME``."""
    of_several = path.parent.suffix.lower() in RESOURCES and not path.parent.is_dir()
    return path.parent if of_several else path


def each_of(path: Path) -> list[Path]:
    """Return the worker files of a folder, ``FILE/NAME`` for each of several resources of a file, or the only one."""
    names = names_in(path) if path.suffix.lower() in RESOURCES and path.is_file() else []
    return [path / name for name in names] if len(names) > 1 else [*worker_files_in(path)] if path.is_dir() else [path]


def worker_files_in(folder: Path) -> dict[Path, dict[str, str]]:
    """Return the worker files of a folder with their properties, by name; files of connectors are not among them."""
    try:
        paths = sorted(folder.iterdir()) if folder.is_dir() else [folder]
        known = (path for path in paths if path.suffix.lower() in _SUFFIXES and path.is_file())
        files = [part for path in known for part in each_of(path)]
    except OSError as error:
        raise ConfigError(f"cannot read folder {folder}: {error.strerror or error}") from error
    if len(files) > _MOST_FILES:
        raise ConfigError(f"folder {folder} has more than {_MOST_FILES:,} files; give the worker file that is meant")
    found = {path: properties for path in files if (properties := _worker_properties(path)) is not None}
    if not found:
        raise ConfigError(
            f"folder {folder} has no worker file: none of its {len(files)} files ({', '.join(_SUFFIXES)}) has "
            f"{' and '.join(_NEEDED)}"
        )
    return found


def _worker_properties(path: Path) -> dict[str, str] | None:
    """Return the properties of a worker file, ``None`` of any other file."""
    if (file := file_of(path)).suffix.lower() in RESOURCES:
        is_a_workers = bool(names_in(file))
    else:
        is_a_workers = all(name in load_properties(path) for name in _NEEDED)
    return load_worker_file(path) if is_a_workers else None


def choose_worker_file(folder: Path, group: str | None, *, any_of_one_set: bool) -> Path:
    """Return the worker file that is meant in a folder.

    Args:
        folder: with worker files.
        group: ``group.id`` of the one that is meant, if a command says it.
        any_of_one_set: any file will do if all name the same topics on the same brokers.
    """
    found = worker_files_in(folder)
    wanted = [path for path, properties in found.items() if properties.get("group.id", "").strip() == group]
    if group is not None and len(wanted) == 1:
        return wanted[0]
    if len(found) == 1 and group is None:
        return next(iter(found))
    if any_of_one_set and not wanted and len({_topics(properties) for properties in found.values()}) == 1:
        return next(iter(found))
    within = folder if folder.is_dir() else folder.parent
    files = [f"{path.relative_to(within)} ({each.get('group.id', '').strip()})" for path, each in found.items()]
    raise ConfigError(f"{folder} has {len(found)} worker files: {listed(files)}; give one of them")


def _shares(given: Mapping[str, str]) -> bool:
    return _word(given, SHARING_PROPERTY, "disabled", ("disabled", "enabled")) == "enabled"


def groups_in(folder: Path) -> frozenset[str | None]:
    """Return the groups of the worker files of a folder; ``None`` among them is one with plain keys."""
    found = worker_files_in(folder).values()
    shared = [each["group.id"].strip() for each in found if _shares(each)]
    return frozenset(shared if len(shared) == len(found) else [*shared, None])


def files_in_folders(sources: Sequence[Path], destinations: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Return worker files of a move; a folder of sources stands for its files, of destinations for those of their groups."""
    files = [each for path in sources for each in each_of(path)]
    if len(destinations) != 1 or each_of(destinations[0]) == destinations:
        return files, list(destinations)
    groups = [load_worker_file(path).get("group.id", "").strip() for path in files]
    return files, [choose_worker_file(destinations[0], group, any_of_one_set=False) for group in groups]


def _topics(properties: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(properties.get(name, "").strip() for name in (_SERVERS, *TOPIC_PROPERTIES.values()))


PROFILE_VARIABLE: Final = "CONNECT_SHARE_PROFILE"
FILE_VARIABLE: Final = "CONNECT_SHARE_PROFILES"
_MOST_BYTES: Final = 1 << 20
_DEEPEST: Final = 20
_OTHERS_READ: Final = 0o044


def profiles_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where the profiles are: ``$CONNECT_SHARE_PROFILES``, or ``~/.config/connect-share/profiles.toml``."""
    if named := environment.get(FILE_VARIABLE):
        return Path(named)
    home = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".config")
    return Path(home) / "connect-share" / "profiles.toml"


@contextmanager
def profile_in_use(name: str | None) -> Iterator[None]:
    """Let the settings of a profile hold for a command; ``None``: of the one in ``$CONNECT_SHARE_PROFILE``, if any.

    They win over those of every worker file that is read in this block, but for its brokers. A command line reads worker
    files in many places; a library that embeds the stores gives settings itself.
    """
    name = name or os.environ.get(PROFILE_VARIABLE)
    before = dict(_connection)
    _connection.update(load_profile(name, profiles_file()) if name else {})
    try:
        yield
    finally:
        _connection.clear()
        _connection.update(before)


def load_profile(name: str, path: Path) -> dict[str, str]:
    """Return the connection settings of a profile, in Java's names; references to config providers are resolved.

    Raises:
        ConfigError: the file cannot be read, has no such profile, says what is no connection setting, or others may read a
            secret in it.
    """
    profiles = _tables(path)
    if path.stat().st_mode & stat.S_IWOTH:
        raise ConfigError(
            f"every user may write to {path}, which says where commands connect to; run: chmod 600 {path}"
        )
    profile = profiles.get(name)
    if not isinstance(profile, dict):
        raise ConfigError(f"{path} has no profile {name!r}; it has: {', '.join(sorted(profiles)) or 'none'}")
    try:
        given = dict(_flat(profile))
        resolved = resolve_variables({**given, **DECLARED_PROVIDERS})
    except ConfigError as error:
        raise ConfigError(f"{path}, profile {name}: {error}", property_name=error.property_name) from None
    secrets = clear_text_secrets(given)
    if secrets and path.stat().st_mode & _OTHERS_READ:
        raise ConfigError(f"{path} holds a secret ({secrets[0]}) that others can read; run: chmod 600 {path}")
    for setting in given:
        if setting != _SERVERS and not is_java_client_property(setting):
            raise ConfigError(
                f"{path}, profile {name}: {setting} is no connection setting; what a worker does belongs in its file",
                property_name=setting,
            )
    return {setting: resolved[setting] for setting in given}


def _tables(path: Path) -> dict[str, Any]:
    remedy = f"; write a table for each profile there, or name another file in ${FILE_VARIABLE}"
    data = read_whole(path, remedy, most_bytes=_MOST_BYTES)
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # a line of it may be a secret: only the place is shown
        place = str(error).rpartition("(")[2].rstrip(")") if isinstance(error, tomllib.TOMLDecodeError) else "not UTF-8"
        raise ConfigError(f"{path} is not TOML ({place})") from None


def _flat(table: Mapping[str, Any], before: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield settings by their whole names: TOML takes ``a.b = 1`` for a table in a table."""
    if depth > _DEEPEST:
        raise ConfigError("a profile is nested too deeply; no setting has such a name")
    for key, value in table.items():
        name = f"{before}{key}"
        if isinstance(value, dict):
            yield from _flat(value, f"{name}.", depth + 1)
        elif isinstance(value, bool):
            yield name, str(value).lower()
        elif isinstance(value, (str, int)):
            yield name, str(value)
        else:
            raise refusal(name, "has to be a text, a whole number, true or false")


def split_client_settings(pairs: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Part settings into Java's, which have to be translated, and librdkafka's own; a name both know is Java's."""
    java = {
        name: value
        for name, value in pairs.items()
        if is_java_client_property(name) or name in (_ISOLATION_PROPERTY, "bootstrap.servers")
    }
    return java, {name: value for name, value in pairs.items() if name not in java}


@dataclass(frozen=True)
class TopicSet:
    """Some or all of the three internal topics of Connect clusters.

    Attributes:
        topics: names; those not known are absent.
        settings: how to reach the cluster.
        others: how groups are read whose worker file is not given; statuses are always read uncommitted.
        worker_group: the worker's own group when a worker file was given: ``(group id or None for plain keys,)``.
        worker: what the worker file says, where one was given.
        own: the groups that were named, and those of the worker files, which are served whatever others write.
    """

    topics: Mapping[TopicType, str]
    settings: ClientSettings
    others: Isolation = Isolation.READ_COMMITTED
    worker_group: tuple[ClusterGroupId | None] | None = None
    worker: WorkerConfig | None = None
    own: frozenset[str | None] = frozenset()

    def isolation_of(self, group: str | None, topic_type: TopicType) -> Isolation:
        """Return the isolation with which a group is read: that of its workers, where its worker file is given."""
        worker = self.worker if self.worker_group == (group,) else None
        if worker is not None:
            return worker.isolation(topic_type)
        return Isolation.READ_UNCOMMITTED if topic_type is TopicType.STATUS else self.others

    def isolation(self, topic_type: TopicType) -> Isolation:
        """Return that of groups whose worker file is not given."""
        return self.isolation_of("", topic_type)  # no group has the empty id

    @classmethod
    def from_flags(
        cls, bootstrap_servers: str | None, topics: Mapping[TopicType, str], client: Mapping[str, str]
    ) -> TopicSet:
        """Return the topics that a command line names.

        ``bootstrap_servers`` wins over ``bootstrap.servers`` in ``client``, which has Java's or librdkafka's names.
        """
        for topic_type, topic in topics.items():
            check_topic_name(TOPIC_PROPERTIES[topic_type], topic)
        java, own = split_client_settings(client)
        java = connection_settings() | java
        if bootstrap_servers is not None:
            java["bootstrap.servers"] = bootstrap_servers
        level = _level(java, Isolation.READ_COMMITTED)
        java.pop(_ISOLATION_PROPERTY, None)
        return cls(dict(topics), common_settings(java, own), level)

    @classmethod
    def from_worker_file(
        cls,
        path: str | Path,
        *,
        bootstrap_servers: str | None = None,
        topics: Mapping[TopicType, str] | None = None,
        client: Mapping[str, str] | None = None,
    ) -> TopicSet:
        """Return the topics of a worker file; options of a command line win over it."""
        java, own = split_client_settings(client or {})
        given = {**java, **{TOPIC_PROPERTIES[topic_type]: topic for topic_type, topic in (topics or {}).items()}}
        given |= {} if bootstrap_servers is None else {_SERVERS: bootstrap_servers}
        elsewhere = {*given, *connection_settings()}
        worker = WorkerConfig.from_file_properties(path, {**load_worker_file(path), **given}, given=elsewhere)
        return replace(cls.of(worker, own), others=_level(connection_settings() | java, Isolation.READ_COMMITTED))

    @classmethod
    def of(cls, config: WorkerConfig, own: Mapping[str, str] | None = None) -> TopicSet:
        """Return the topics of a worker; ``own``: further client settings, in librdkafka's names."""
        return cls(
            {topic_type: config.topic(topic_type) for topic_type in TopicType},
            config.client_settings().overlaid(own or {}),
            worker_group=(config.cluster_group_id,),
            worker=config,
            own=frozenset({config.cluster_group_id}),
        )
