"""Where a connector with an offsets topic of its own keeps its offsets, and how that topic is reached.

The configuration comes from a topic that others may write to, so nothing in it is trusted: what it may override is
the worker's policy, references to config providers are not followed, and the worker's credentials stay with the worker's
own way to its brokers.
"""

from __future__ import annotations

import logging
import queue
import re
import threading
import weakref
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from connect_share.errors import (
    ConfigError,
    ConnectShareError,
    KeyFormatError,
    LogFailedError,
    StoreClosedError,
    UsageError,
    WriteError,
    safe_text,
)
from connect_share.log.memory import MemoryKafka, MemoryLog
from connect_share.log.threads import BackgroundThread, await_end
from connect_share.model.config_state import ClusterConfigState, TargetState
from connect_share.model.keys import ClusterGroupId, shown
from connect_share.model.offsets import partition_identity
from connect_share.model.records import TopicType
from connect_share.sealing import SealingMode
from connect_share.stores.base import NOT_GIVEN, GivenGroup, WriteGuard, joined
from connect_share.stores.config import KafkaConfigBackingStore
from connect_share.stores.offsets import (
    KafkaOffsetBackingStore,
    OffsetBackingStore,
    SetCallback,
    WriteOutcome,
    group_of_store,
    translated_key,
)
from connect_share.stores.transactional_writer import TransactionalWriter
from connect_share.worker_config import ClientSettings, Isolation, WorkerConfig, common_settings
from connect_share.worker_config.client_translation import CONSUMER_SETTINGS, PRODUCER_SETTINGS, translated
from connect_share.worker_config.config_providers import has_reference
from connect_share.worker_config.override_policy import (
    OWN_TOPIC_PROPERTY,
    POLICY_PROPERTY,
    Client,
    OverridePolicy,
    client_overrides,
    refused_overrides,
    sink_group_id,
)
from connect_share.worker_config.worker import is_topic_name

_CLIENTS: Final = ("admin", "consumer", "producer")
_OVERRIDE_PREFIXES: Final = tuple(f"{client}.override." for client in _CLIENTS)
# Each client of a store has its own; a connector cannot mean them for the store.
_NOT_FOR_THE_STORE: Final = frozenset({"client.id", "group.id", "transactional.id"})
_WHERE: Final = "bootstrap.servers"
_HOW: Final = ("security.", "sasl.", "ssl.")
_CREDENTIALS: Final = ("sasl.jaas.config", "sasl.oauthbearer.client.credentials.")
_CLIENT_PREFIXES: Final = tuple(f"{client}." for client in _CLIENTS)
_UNPAIRED: Final = re.compile("[\ud800-\udfff]")
_SHOWN: Final = 200
_VALUE_LIMIT: Final = 65_536


class OwnOffsetsConfig(WorkerConfig):
    """The worker's configuration as it is for one connector's own offsets topic, which is shared only if it is the worker's.

    Attributes:
        is_the_workers: it is the worker's own topic, in the same cluster, reached by clients of the connector's.
    """

    admin_client: ClientSettings
    consumer_client: ClientSettings
    producer_client: ClientSettings
    offsets_isolation: Isolation
    is_the_workers: bool

    def isolation(self, topic_type: TopicType) -> Isolation:
        """Return how the topic is read: committed records only, unless the connector or the worker says otherwise."""
        return self.offsets_isolation if topic_type is TopicType.OFFSET else super().isolation(topic_type)

    def client_settings(self) -> ClientSettings:
        """Return the settings of the admin client."""
        return self.admin_client

    def consumer_settings(self) -> ClientSettings:
        """Return the settings of the consumer."""
        return self.consumer_client

    def producer_settings(self) -> ClientSettings:
        """Return the settings of the producer."""
        return self.producer_client


def own_offsets_properties(worker_config: WorkerConfig, connector_config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a connector's configuration that says where its offsets are; empty: in the worker's topic.

    With exactly-once a source without a topic of its own has its offsets where its records go, which may be another
    cluster: in a topic named as the worker's.
    """
    found = {name: value for name, value in connector_config.items() if name.startswith(_OVERRIDE_PREFIXES)}
    topic = connector_config.get(OWN_TOPIC_PROPERTY)
    if topic is None and worker_config.exactly_once_source_support == "enabled":
        moved = any(f"{prefix}{_WHERE}" in found for prefix in _OVERRIDE_PREFIXES)
        if moved or any(f"{prefix}{_WHERE}" in worker_config.originals for prefix in _CLIENT_PREFIXES):
            topic = worker_config.offset_storage_topic
    return {} if topic is None else {**found, OWN_TOPIC_PROPERTY: topic}


def own_offsets_worker_config(
    worker_config: WorkerConfig, connector: str, connector_config: Mapping[str, Any]
) -> OwnOffsetsConfig | None:
    """Describe the store of a connector's own offsets topic.

    As in Java its producer is made of the worker's ``producer.*``, its consumer of ``consumer.*``, its admin client of
    ``admin.*`` over what has no prefix, each under the connector's ``<client>.override.*``.

    Partitions, replication and topic settings come from the worker's.

    Returns:
        ``None`` where the offsets are in the worker's topic, and the worker's own clients reach it.

    Raises:
        ConfigError: a value is no text, the worker's policy does not allow an override, or a client cannot be made of
            them; names the connector and the property, never the value.

    Source: ``Worker.offsetStoreForRegularSourceTask``, ``baseProducerConfigs``, ``regularSourceOffsetsConsumerConfigs``,
    ``adminConfigs``.
    """
    properties = own_offsets_properties(worker_config, connector_config)
    if not properties:
        return None
    topic = _text(connector, OWN_TOPIC_PROPERTY, properties[OWN_TOPIC_PROPERTY]).strip()
    _check_topic(worker_config, connector, topic)
    overrides = _overrides(worker_config, connector, properties)
    java = {client: _laid_over(_of_the_worker(worker_config, client), overrides[client]) for client in _CLIENTS}
    servers = {client: _servers(java[client][_WHERE]) for client in _CLIENTS}
    for client in _CLIENTS:
        if servers[client] != servers["producer"]:
            raise _refused(
                connector,
                f"{client}.override.{_WHERE}",
                f"and the producer's {_WHERE} are different: producer, consumer and admin client of an offsets topic have to "
                f"reach the same cluster; set {', '.join(f'{prefix}{_WHERE}' for prefix in _OVERRIDE_PREFIXES)} alike",
            )
    clients = {client: _translated(connector, client, java[client], overrides[client]) for client in _CLIENTS}
    changed: dict[str, object] = {"offset_storage_topic": topic}
    if topic != worker_config.offset_storage_topic:
        # Only the name counts, also in another cluster, as with the jar.
        changed |= {"sharing_enabled": False, "sealing_mode": SealingMode.OFF, "sealing_keys": None}
    return OwnOffsetsConfig(
        **{**dict(worker_config), **changed},
        admin_client=clients["admin"],
        consumer_client=clients["consumer"].overlaid({"group.id": worker_config.group_id}),
        producer_client=clients["producer"],
        offsets_isolation=_isolation(worker_config, connector, java["consumer"]),
        is_the_workers=topic == worker_config.offset_storage_topic
        and servers["producer"] == _servers(worker_config.bootstrap_servers),
    )


def connector_client_settings(
    worker_config: WorkerConfig, connector: str, connector_config: Mapping[str, Any], kind: Client
) -> ClientSettings:
    """Return how a connector's own client reaches brokers; a consumer has the group of the sink, never that of the worker.

    References of its configuration are resolved. Source: ``Worker.baseProducerConfigs``, ``baseConsumerConfigs``.
    """
    overrides = _overrides(worker_config, connector, connector_config)[kind]
    java = _laid_over(_of_the_worker(worker_config, kind), overrides)
    settings = _translated(connector, kind, java, overrides)
    return settings.overlaid({"group.id": sink_group_id(connector, connector_config)} if kind == "consumer" else {})


def _text(connector: str, name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _refused(connector, name, "is not text; every value of a connector's configuration is a string")
    if len(value) > _VALUE_LIMIT or "\0" in value or _UNPAIRED.search(value):
        raise _refused(connector, name, f"has more than {_VALUE_LIMIT} characters, or characters that no setting has")
    if has_reference(value):
        raise _refused(
            connector, name, "refers to a config provider, which is not followed here; write the value itself"
        )
    return value


def _check_topic(worker_config: WorkerConfig, connector: str, topic: str) -> None:
    if not topic:
        raise _refused(connector, OWN_TOPIC_PROPERTY, "is blank; name a topic or leave it out")
    if not is_topic_name(topic):
        raise _refused(connector, OWN_TOPIC_PROPERTY, "is not a legal topic name")
    for other in (TopicType.CONFIG, TopicType.STATUS):
        if topic == worker_config.topic(other):
            raise _refused(
                connector, OWN_TOPIC_PROPERTY, f"names the worker's {other.value} topic; name a topic for offsets"
            )


def _overrides(
    worker_config: WorkerConfig, connector: str, connector_config: Mapping[str, Any]
) -> dict[str, dict[str, str]]:
    """Return what the connector overrides, by client, after the worker's policy."""
    given = {client: client_overrides(connector_config, client) for client in _CLIENTS}
    if any(given.values()):
        policy = OverridePolicy.of(worker_config.originals)
        refused = refused_overrides(connector_config, policy)
        if refused:
            raise _refused(
                connector, refused[0], f"is not allowed by the worker's {POLICY_PROPERTY}={policy.name}; remove it"
            )
    return {
        client: {
            setting: _text(connector, f"{client}.override.{setting}", value)
            for setting, value in settings.items()
            if value is not None and setting not in _NOT_FOR_THE_STORE
        }
        for client, settings in given.items()
    }


def _of_the_worker(worker_config: WorkerConfig, client: str) -> dict[str, str]:
    java = worker_config.originals
    prefixed = {name.removeprefix(f"{client}."): value for name, value in java.items() if name.startswith(f"{client}.")}
    plain = {} if client != "admin" else {n: v for n, v in java.items() if not n.startswith(_CLIENT_PREFIXES)}
    return {_WHERE: worker_config.bootstrap_servers, **plain, **prefixed}


def _laid_over(workers: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a client; the worker's credentials go nowhere else, and in no other way, than the worker."""
    moved = any(name == _WHERE or name.startswith(_HOW) for name in overrides)
    kept = {name: value for name, value in workers.items() if not (moved and name.startswith(_CREDENTIALS))}
    return {**kept, **overrides}


def _servers(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",") if part.strip())


def _isolation(worker_config: WorkerConfig, connector: str, java: Mapping[str, str]) -> Isolation:
    if worker_config.exactly_once_source_support == "enabled":
        return Isolation.READ_COMMITTED
    try:
        return Isolation(java.get("isolation.level", Isolation.READ_COMMITTED.value).strip().lower())
    except ValueError:
        words = " or ".join(level.value for level in Isolation)
        raise _refused(connector, "isolation.level of the consumer", f"has to be {words}") from None


def _translated(connector: str, client: str, java: Mapping[str, str], overrides: Mapping[str, str]) -> ClientSettings:
    try:
        settings = common_settings(java)
        tuning = {"consumer": CONSUMER_SETTINGS, "producer": PRODUCER_SETTINGS}.get(client, {})
        return settings.overlaid(translated(java, tuning))
    except ConfigError as error:
        if not overrides:
            raise ConfigError(
                f"the {client} client of connector {shown(connector)}: {error}", property_name=error.property_name
            ) from error
        # Its text may hold what the connector wrote.
        name = f"{client}.override.{error.property_name or _WHERE}"
    raise _refused(
        connector,
        name,
        "is missing or has a value that no client can be made of here; where a connector overrides how a client "
        "reaches the brokers, it brings the credentials too",
    )


def _refused(connector: str, name: str, why: str) -> ConfigError:
    return ConfigError(f"{shown(name)} of connector {shown(connector)} {why}", property_name=name[:_SHOWN])


_logger = logging.getLogger(__name__)

_Values = Mapping[bytes, bytes | None]

# Connect's limit for one alter or reset request, everything included.
ALTER_TIMEOUT_S: Final = 90.0


class ConnectorOffsetBackingStore:
    """A connector's own offsets topic in front of the worker's.

    Reads ask both; what the connector's own topic says wins *including nulls*, so a partition it does not
    know comes back as ``None`` even where the worker's topic has an offset. Connect behaves so although its
    documentation speaks of a fallback; it is kept (docs/decisions/0003).

    Writes go to the own topic first, whose result is reported, then to the worker's, where a failure is
    only logged. Tombstones go to the worker's topic *first*, and a failure there ends the write: otherwise
    an old offset could come back through the worker's topic.

    Keys given and returned carry the prefix of ``cluster_group_id``. Each of the two stores is asked with
    the prefix it uses itself: a connector's own offsets topic keeps plain keys even where the worker's
    topic is shared.

    Args:
        primary: the connector's own store, or the worker's store when there is no other.
        secondary: the worker's store behind an own topic, else ``None``.
        cluster_group_id: prefix of the keys this store is asked with. Left out, it is that of the worker's store; another one
            is a ``ConfigError``.

    Source: ``ConnectorOffsetBackingStore``.

    >>> from connect_share import MemoryOffsetBackingStore, OffsetStorageReader
    >>> own, of_worker = MemoryOffsetBackingStore(), MemoryOffsetBackingStore()
    >>> own.start(), of_worker.start()
    (None, None)
    >>> own.set({b'["c",{"file":"in.txt"}]': b'{"position":5}'}).result()
    >>> store = ConnectorOffsetBackingStore(own, of_worker)
    >>> OffsetStorageReader(store, "c").offset({"file": "in.txt"})
    {'position': 5}
    """

    def __init__(
        self,
        primary: OffsetBackingStore,
        secondary: OffsetBackingStore | None = None,
        *,
        cluster_group_id: GivenGroup = NOT_GIVEN,
    ) -> None:
        self._primary = primary
        self._secondary = secondary
        self._group = group_of_store(primary if secondary is None else secondary, cluster_group_id)

    @property
    def cluster_group_id(self) -> ClusterGroupId | None:
        """Group whose prefix the keys given to this store carry."""
        return self._group

    @property
    def topic(self) -> str:
        """The connector's own topic."""
        return self._primary.topic

    def start(self) -> None:
        """Start the connector's own store: its whole topic is read."""
        self._primary.start()

    def stop(self) -> None:
        """Stop the connector's own store; the worker's stays."""
        self._primary.stop()

    def get(self, keys: Collection[bytes]) -> Future[dict[bytes, bytes | None]]:
        """Look the keys up in both stores; the future fails if either store fails."""
        wanted = tuple(keys)
        answers: list[tuple[dict[bytes, bytes], Future[dict[bytes, bytes | None]]]] = []
        for store in filter(None, (self._secondary, self._primary)):
            asked = {key: translated_key(key, self._group, store.cluster_group_id) for key in wanted}
            known = {key: theirs for key, theirs in asked.items() if theirs is not None}
            answers.append((known, store.get(tuple(known.values()))))

        def result() -> dict[bytes, bytes | None]:
            """Later answers win, nulls included."""
            values: dict[bytes, bytes | None] = dict.fromkeys(wanted)
            for known, done in answers:
                found = done.result()
                values.update({key: found.get(theirs) for key, theirs in known.items()})
            return values

        return joined([answer for _, answer in answers], result)

    def set(self, values: _Values, callback: SetCallback | None = None) -> Future[None]:
        """Write to both stores in the order described at the class.

        The third step, values to the worker's topic, is not waited for.
        """
        outcome = WriteOutcome(callback)
        try:
            for_primary, tombstones, regular = self._split(values)
        except KeyFormatError as error:
            return outcome.end(error)

        def after_primary(error: ConnectShareError | None) -> None:
            try:
                outcome.end(error)
            finally:  # whatever the caller's callback does
                if error is None and self._secondary is not None and regular:
                    self._secondary.set(regular, _warn_only)

        def after_tombstones(error: ConnectShareError | None) -> None:
            if error is not None:
                outcome.end(error)
            else:
                self._primary.set(for_primary, after_primary)

        if self._secondary is not None and tombstones:
            self._secondary.set(tombstones, after_tombstones)
        else:
            self._primary.set(for_primary, after_primary)
        return outcome.future

    def claim(self, writer: TransactionalWriter) -> None:
        """Fence all producers with the transactional ids of a writer to the connector's own topic.

        Raises:
            LiveMembersError: Java workers of the group are alive; nothing was fenced.
            StoreError: the claim failed.
        """
        self._primary.claim(writer)

    def set_in_transaction(self, values: _Values, writer: TransactionalWriter) -> None:
        """Write to both stores in the order described at the class, to the primary in one transaction.

        The worker's topic is written without one, as its copies always are.

        Raises:
            KeyFormatError: a key is not of this store's group; nothing was written.
            LiveMembersError: Java workers of the group are alive; the same.
            StoreError: a write failed, or was not acknowledged in time.
        """
        for_primary, tombstones, regular = self._split(values)
        if self._secondary is not None and tombstones:
            try:
                self._secondary.set(tombstones).result(ALTER_TIMEOUT_S)
            except TimeoutError as error:
                raise WriteError(
                    f"tombstones for the worker's offset topic were not acknowledged within {ALTER_TIMEOUT_S:g} s; "
                    f"nothing was written to {self.topic}"
                ) from error
        self._primary.set_in_transaction(for_primary, writer)
        if self._secondary is not None and regular:
            self._secondary.set(regular, _warn_only)

    def connector_partitions(self, connector: str) -> list[dict[str, Any]]:
        """List the source partitions known to either store, each once."""
        found = self._primary.connector_partitions(connector)
        if self._secondary is not None:
            known = {partition_identity(partition) for partition in found}
            found = found + [
                partition
                for partition in self._secondary.connector_partitions(connector)
                if partition_identity(partition) not in known
            ]
        return found

    def wire_keys(self, connector: str, partition: Mapping[str, Any] | None) -> tuple[bytes, ...]:
        """Return the keys of a source partition in either store, with this store's prefix."""
        keys: dict[bytes, None] = {}
        for store in filter(None, (self._primary, self._secondary)):
            for theirs in store.wire_keys(connector, partition):
                key = translated_key(theirs, store.cluster_group_id, self._group)
                if key is not None:
                    keys[key] = None
        return tuple(keys)

    def _split(self, values: _Values) -> tuple[_Values, _Values, _Values]:
        """Return what goes to the primary, and the tombstones and the other values that go to the secondary."""
        for_secondary = {} if self._secondary is None else self._translated(self._secondary, values)
        tombstones = {key: None for key, value in for_secondary.items() if value is None}
        regular = {key: value for key, value in for_secondary.items() if value is not None}
        return self._translated(self._primary, values), tombstones, regular

    def _translated(self, store: OffsetBackingStore, values: _Values) -> dict[bytes, bytes | None]:
        translated: dict[bytes, bytes | None] = {}
        for key, value in values.items():
            theirs = translated_key(key, self._group, store.cluster_group_id)
            if theirs is None:
                raise KeyFormatError(
                    f"an offset key does not carry the prefix of cluster group {self._group!r}; make the "
                    "offset writer with the same cluster_group_id as its store"
                )
            translated[theirs] = value
        return translated


def _warn_only(error: ConnectShareError | None) -> None:
    if error is not None:
        _logger.warning(
            "Offsets are safe in the connector's own topic, but were not written to the worker's: %s", error
        )


_CHECK_EVERY_S: Final = 5.0


@dataclass(eq=False)
class _OwnStore:
    """A connector's own store, being started or started; ``made_of`` is what its configuration says of it."""

    made_of: dict[str, Any] = field(repr=False)  # overrides may hold passwords
    store: Future[ConnectorOffsetBackingStore] = field(default_factory=Future)

    def has_failed(self, connector: str) -> bool:
        """Return whether its log died after the start; readers and writers made from now on get another store."""
        if not self.store.done() or self.store.exception() is not None:
            return False
        try:
            self.store.result().wire_keys(connector, None)
        except LogFailedError:
            return True
        except ConnectShareError:
            pass  # a topic that was created again is not read anew without a word
        return False


def not_stopped(state: ClusterConfigState, connector: str) -> str | None:
    """Say why offsets of a connector may not be changed by what is configured; ``None``: they may."""
    target, tasks = state.target_state(connector), state.task_count(connector)
    if not state.contains(connector) or (target is TargetState.STOPPED and not tasks):
        return None
    name = (target or TargetState.STARTED).name
    return f"connector {shown(connector)} is not stopped (target state {name}, {tasks} tasks)"


@dataclass(eq=False, repr=False, kw_only=True)
class ConnectorOffsetStores:
    """Gives the store of a connector's offsets; one of its own is started when it is asked for first. Thread-safe.

    An own store is kept for as long as the connector's configuration says so. Then it is stopped once no reader and no
    writer uses it any more: tasks that are being stopped flush their last offsets after the configuration has changed.

    ``config`` says whether a connector has a topic of its own, ``offsets`` is the worker's store; :meth:`close` stops what is
    started here, in the ``left_s`` seconds that are left. ``kafka`` is where the topics are, if not on brokers.
    """

    worker_config: WorkerConfig
    config: KafkaConfigBackingStore
    offsets: KafkaOffsetBackingStore
    write_guard: WriteGuard | None
    left_s: Callable[[], float]
    kafka: MemoryKafka | None = None

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._own: dict[str, _OwnStore] = {}
        self._running: set[KafkaOffsetBackingStore] = set()
        # Its put() may be called wherever an object is let go.
        self._unused: queue.SimpleQueue[KafkaOffsetBackingStore | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def store_of(self, connector: str) -> KafkaOffsetBackingStore | ConnectorOffsetBackingStore:
        """Return the store to read and write a connector's offsets with.

        Raises:
            ConfigError: the connector's configuration contradicts itself, or the worker's policy.
            StoreClosedError: the storage was closed.
        """
        state = self.config.snapshot()
        made_of = own_offsets_properties(self.worker_config, state.raw_connector_config(connector) or {})
        if not made_of:
            return self.offsets
        with self._lock:
            own = self._own.get(connector)
            is_new = own is None or own.made_of != made_of or own.has_failed(connector)
            if own is None or is_new:
                own = self._own[connector] = _OwnStore(made_of)
        if is_new:
            try:
                own.store.set_result(self._started(connector, state.connector_config(connector) or {}))
            except BaseException as error:
                with self._lock:
                    if self._own.get(connector) is own:
                        del self._own[connector]
                known = isinstance(error, ConnectShareError)
                own.store.set_exception(error if known else StoreClosedError("the start of the store was interrupted"))
                raise
        return own.store.result()

    def check_stopped(self, connector: str) -> None:
        """Refuse where tasks of a connector may run, by what the config topic says now.

        Raises:
            UsageError: the connector is not STOPPED, or still has tasks.

        Source: ``DistributedHerder.modifyConnectorOffsetsChecks``.
        """
        self.config.refresh()
        why_not = not_stopped(self.config.snapshot(), connector)
        if why_not is not None:
            raise UsageError(
                f"{why_not}: its tasks would go on from what they know. Write target state STOPPED and an empty list of "
                "task configurations first, or say force=True if nothing of it runs"
            )

    def _started(self, connector: str, connector_config: Mapping[str, Any]) -> ConnectorOffsetBackingStore:
        """Make and start a store, without the lock: an open transaction may hold it up for a quarter of an hour."""
        own = own_offsets_worker_config(self.worker_config, connector, connector_config)
        assert own is not None  # noqa: S101 - the caller has checked
        log = None if self.kafka is None else partial(MemoryLog, self.kafka.topic(own.offset_storage_topic))
        primary = KafkaOffsetBackingStore(own, write_guard=self.write_guard, log=log)
        store = ConnectorOffsetBackingStore(primary, None if own.is_the_workers else self.offsets)
        with self._lock:
            if self._closed:
                raise StoreClosedError(f"the storage was closed; it has no offsets of connector {connector!r} any more")
            self._running.add(primary)
            if self._thread is None:
                self._thread = BackgroundThread("connector-offset-stores", self._let_go, self.offsets.fail)
                self._thread.start()
        # A close() meanwhile stops the store, and the start ends.
        weakref.finalize(store, self._unused.put, primary).atexit = False
        primary.start()
        return store

    def _let_go(self) -> None:
        """Body of the thread that stops what is used no more."""
        while True:
            try:
                primary = self._unused.get(timeout=_CHECK_EVERY_S)
            except queue.Empty:
                self._forget_outdated()
                continue
            if primary is None:
                return
            with self._lock:
                self._running.discard(primary)
            try:
                primary.stop(self.left_s())
            except Exception as error:  # noqa: BLE001 - the thread has others to stop
                _logger.warning("The offset store on %s was not stopped in order: %s", primary.topic, safe_text(error))

    def _forget_outdated(self) -> None:
        try:
            state = self.config.snapshot()
        except ConnectShareError:
            return  # callers of the config store hear of it
        with self._lock:
            for connector, own in list(self._own.items()):
                now = own_offsets_properties(self.worker_config, state.raw_connector_config(connector) or {})
                if own.store.done() and now != own.made_of:
                    del self._own[connector]

    def close(self) -> None:
        """Stop the stores that were started."""
        with self._lock:
            self._closed = True
            running, self._running, self._own = self._running, set(), {}
            thread = self._thread
        with ExitStack() as each:
            each.callback(lambda: await_end(thread, self.left_s()))
            each.callback(self._unused.put, None)
            for primary in running:
                each.callback(lambda store: store.stop(self.left_s()), primary)
