"""A connector's own offsets topic: what is believed there, whom it holds up, and what its configuration can reach."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import pytest

from connect_share.errors import BrokerError, ConfigError, ConnectShareError, StoreClosedError, StoreError
from connect_share.log import identity
from connect_share.storage import ConnectStorage
from connect_share.stores import connector_offsets as connector_offset_stores
from tests.support.flushes import flush_offsets
from tests.support.password_collector import PasswordCollector, password_collector
from tests.support.waiting import await_that

FILE = {"filename": "x.txt"}
KEY = b'["foo",{"filename":"x.txt"}]'
POLICY = "connector.client.config.override.policy"
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="{}" password="{}";'
CLIENTS = ("admin", "consumer", "producer")


def own_topic(shared: Any, name: str = "own") -> str:
    """Make a topic that `shared` knows by this name, so that it can write there in transactions."""
    topic = shared.topics[name] = f"{shared.unique}-{name}"
    shared.create(topic, cleanup_policy="compact")
    return str(topic)


def everywhere(**overrides: str) -> dict[str, str]:
    return {
        f"{client}.override.{name.replace('_', '.')}": value for client in CLIENTS for name, value in overrides.items()
    }


def aborted(shared: Any, name: str, key: bytes = KEY) -> None:
    shared.write(name, [(key, b'{"position":1}')])
    shared.write(name, [(key, b'{"position":99}')], transactional_id=f"{shared.unique}-t", commit=False)


def test_an_aborted_offset_is_not_believed(shared: Any) -> None:
    topic = own_topic(shared)
    aborted(shared, "own")
    with ConnectStorage(shared.sharing()) as storage:
        storage.config.put_connector_config("foo", {"offsets.storage.topic": topic})
        assert storage.offset_reader("foo").offset(FILE) == {"position": 1}
        # As in Java it is the connector's choice, where the worker's policy leaves it one.
        uncommitted = {"offsets.storage.topic": topic, "consumer.override.isolation.level": "read_uncommitted"}
        storage.config.put_connector_config("foo", uncommitted)
        assert storage.offset_reader("foo").offset(FILE) == {"position": 99}
    with ConnectStorage(shared.sharing(**{POLICY: "None"})) as storage:
        with pytest.raises(ConfigError, match=r"consumer\.override\.isolation\.level.*'foo'.*=None") as refused:
            storage.offset_reader("foo")
        assert "read_uncommitted" not in str(refused.value)
    with ConnectStorage(shared.sharing(**{"consumer.isolation.level": "read_uncommitted"})) as storage:
        storage.config.put_connector_config("foo", {"offsets.storage.topic": topic})
        assert storage.offset_reader("foo").offset(FILE) == {"position": 99}


def test_the_workers_topic_named_by_a_connector_is_read_by_clients_of_the_connector(shared: Any) -> None:
    prefixed = b"group-a." + KEY
    with ConnectStorage(shared.sharing()) as storage:
        aborted(shared, "offset", prefixed)
        assert storage.offset_reader("foo").offset(FILE) == {"position": 99}
        storage.config.put_connector_config("foo", {"offsets.storage.topic": shared.topics["offset"]})
        assert storage.offset_reader("foo").offset(FILE) == {"position": 1}
        flush_offsets(storage.offset_writer("foo"), (FILE, {"position": 2}))
        await_that(lambda: storage.offset_reader("foo").offset(FILE) == {"position": 2}, what="believed")
        # By another address, too.
        elsewhere = everywhere(bootstrap_servers=f"{shared.bootstrap_servers},127.0.0.1:1")
        storage.config.put_connector_config("foo", {"offsets.storage.topic": shared.topics["offset"], **elsewhere})
        assert storage.offset_reader("foo").offset(FILE) == {"position": 2}
    # Once, and under the group's prefix: this topic is shared.
    assert [pair for pair in shared.read("offset") if b"99" not in (pair[1] or b"")] == [
        (prefixed, b'{"position":1}'),
        (prefixed, b'{"position":2}'),
    ]


def test_an_open_transaction_holds_up_its_own_reader_alone(shared: Any) -> None:
    topics = {name: own_topic(shared, name) for name in ("own-a", "own-b")}
    found: list[Any] = []
    with ConnectStorage(shared.sharing()) as storage:
        storage.config.put_connector_config("a", {"offsets.storage.topic": topics["own-a"]})
        storage.config.put_connector_config("b", {"offsets.storage.topic": topics["own-b"]})
        readers = [
            threading.Thread(target=lambda: found.append(storage.offset_reader("a").offset(FILE)), daemon=True)
            for _ in range(2)
        ]
        with shared.open_transaction("own-a", [(b'["a",{"filename":"x.txt"}]', b'{"position":99}')]):
            for reader in readers:
                reader.start()
            log = f"log-{topics['own-b']}"
            assert storage.offset_reader("b").offset(FILE) is None
            assert storage.offset_reader("without").offset(FILE) is None
            assert any(thread.name == log for thread in threading.enumerate())
            assert found == []
        for reader in readers:
            reader.join(60)
        assert found == [None, None]
        names = [thread.name for thread in threading.enumerate()]
        assert names.count(f"log-{topics['own-a']}") == 1  # both wait for one store


def test_a_store_whose_log_has_died_is_replaced(shared: Any) -> None:
    topic = own_topic(shared)
    with ConnectStorage(shared.sharing()) as storage:
        storage.config.put_connector_config("foo", {"offsets.storage.topic": topic})
        reader = storage.offset_reader("foo")
        assert reader.offset(FILE) is None
        dead: Any = reader._store
        dead._primary._compacted_log._state.fail(BrokerError("its thread met something"))
        with pytest.raises(StoreError):
            reader.offset(FILE)
        assert storage.offset_reader("foo").offset(FILE) is None


def test_own_stores_end_with_their_connectors(shared: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(connector_offset_stores, "_LOOK_S", 0.2)
    monkeypatch.setattr(identity, "FRESH_S", 0.0)  # acknowledgements pass through the hands of another thread
    topics = [own_topic(shared, f"own-{number}") for number in range(3)]

    def logs() -> list[str]:
        gc.collect()
        return sorted(name for thread in threading.enumerate() if (name := thread.name.removeprefix("log-")) in topics)

    with ConnectStorage(shared.sharing()) as storage:
        for number, topic in enumerate(topics):
            storage.config.put_connector_config(f"c{number}", {"offsets.storage.topic": topic})
            assert storage.offset_reader(f"c{number}").offset(FILE) is None
        assert logs() == topics
        writer = storage.offset_writer("c0")
        for number in range(2):
            storage.config.remove_connector_config(f"c{number}")
        await_that(logs, lambda now: now == [topics[0], topics[2]], what="only stores that are used or configured")
        # The last flush of a task that is being stopped.
        flush_offsets(writer, (FILE, {"position": 7}))
        del writer
        await_that(logs, lambda now: now == [topics[2]], what="no store of a removed connector")
        # A configuration that reaches another broker is another store, at once.
        storage.config.put_connector_config(
            "c2", {"offsets.storage.topic": topics[2], **everywhere(bootstrap_servers="127.0.0.1:1")}
        )
        ended: list[ConnectShareError] = []
        reading = threading.Thread(target=lambda: ended.append(_error_of(storage, "c2")), daemon=True)
        reading.start()
        await_that(logs, lambda now: now == [], what="no store of the configuration before")
        storage.close()
        reading.join(60)
        assert len(ended) == 1
    assert shared.read("own-0", topic=topics[0]) == [(b'["c0",{"filename":"x.txt"}]', b'{"position":7}')]


def _error_of(storage: ConnectStorage, connector: str) -> ConnectShareError:
    with pytest.raises(ConnectShareError) as error:
        storage.offset_reader(connector)
    return error.value


# What a connector's configuration says, and whether its clients reach the brokers it names.
OWN_LOGIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_jaas_config": PLAIN.format("u", "own-password"),
}
WORKERS_LOGIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}


@pytest.mark.parametrize(
    ("policy", "overrides", "reached"),
    [
        ("None", {"bootstrap_servers": "{}"}, False),
        ("Principal", {"bootstrap_servers": "{}", **OWN_LOGIN}, False),
        ("Principal", WORKERS_LOGIN, False),
        ("Allowlist", {"bootstrap_servers": "{}", **WORKERS_LOGIN}, False),
        ("Allowlist", {"bootstrap_servers": "{}"}, True),
        ("All", {"bootstrap_servers": "{}", **WORKERS_LOGIN}, False),
        ("All", {"bootstrap_servers": "{}", **OWN_LOGIN, "sasl_jaas_config": "${file:{secrets}:login}"}, False),
        (
            "All",
            {"bootstrap_servers": "{}", "config_providers": "file", "client_id": "${file:{secrets}:password}"},
            True,
        ),
        ("All", {"bootstrap_servers": "{}", **OWN_LOGIN}, True),
        ("com.acme.OurPolicy", {"bootstrap_servers": "{}"}, False),
    ],
)
def test_what_a_connectors_configuration_reaches_of_the_worker(
    shared: Any, tmp_path: Path, policy: str, overrides: dict[str, str], reached: bool
) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text(f"password=s3cret-of-worker\nlogin={PLAIN.format('worker', 's3cret-of-worker')}\n")
    login = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"${{file:{secrets}:login}}"}
    config = shared.sharing(
        **{
            POLICY: policy,
            "connector.client.config.override.allowlist": "linger.ms, bootstrap.servers",
            "config.providers": "file",
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
            **login,
            **{f"{client}.{name}": value for client in CLIENTS for name, value in login.items()},
        },
    )
    with password_collector() as listening, ConnectStorage(config) as storage:
        texts = {
            name: value.replace("{}", listening.bootstrap_servers).replace("{secrets}", str(secrets))
            for name, value in overrides.items()
        }
        storage.config.put_connector_config(
            "evil", {"offsets.storage.topic": f"{shared.unique}-own", **everywhere(**texts)}
        )
        if not reached:
            with pytest.raises(ConfigError, match=r"'evil'|OurPolicy") as refused:
                storage.offset_reader("evil")
            assert "s3cret" not in repr(refused.value)
            assert listening.connections == 0
            return
        ended: list[ConnectShareError] = []
        reading = threading.Thread(target=lambda: ended.append(_error_of(storage, "evil")), daemon=True)
        reading.start()
        own_login = "sasl_jaas_config" in overrides
        await_that(lambda: _seen(listening, own_login), bool, what="clients at the brokers of the configuration")
        storage.close()
        reading.join(60)
        assert isinstance(ended[0], ConnectShareError | StoreClosedError)
        assert b"s3cret" not in listening.received


def _seen(listening: PasswordCollector, own_login: bool) -> bool:
    """Whatever would be said there has been said: the collector does get passwords."""
    return b"\0u\0own-password" in listening.received if own_login else listening.connections > 1
