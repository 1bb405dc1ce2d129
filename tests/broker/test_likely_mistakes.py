"""The likeliest mistakes: each ends with one line that says what to do, most of them within seconds."""

from __future__ import annotations

import http.server
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from connect_share.cli.__main__ import main as console
from connect_share.model.records import TopicType
from connect_share.worker_config import SHARING_PROPERTY, TOPIC_PROPERTIES
from migrator.cli.__main__ import main as migrate
from tests.lab.embedded.worker import write_properties
from tests.lab.secure_broker import LOST, SecureBroker
from tests.support.rights import USERS, login
from tests.support.servers import serving

# One broker with TLS and rights, not one for each process.
pytestmark = pytest.mark.xdist_group("secure-broker")

LIMIT_S = 60  # on a machine with other work; alone most take less than 8
NO_LOGIN = ("sasl.mechanism", "sasl.jaas.config")
NO_TRUST = ("ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.password")


@dataclass(frozen=True)
class Mistake:
    """What is wrong in a worker file, and what has to be said; ``{tls}``, ``{lost}`` and ``{http}`` are host:port."""

    changes: dict[str, str]
    said: tuple[str, ...]
    without: tuple[str, ...] = ()
    more: tuple[str, ...] = field(default=(), repr=False)


MISTAKES = {
    "wrong host": Mistake(
        {"bootstrap.servers": "no-such-host.invalid:9092"},
        ("no such host is known here: correct it in bootstrap.servers",),
    ),
    "wrong port": Mistake(
        {"bootstrap.servers": "127.0.0.1:1"},
        ("nothing listens there: correct the port in bootstrap.servers, or start the brokers",),
        more=("--timeout", "4"),
    ),
    "TLS client, plaintext listener": Mistake(
        {"bootstrap.servers": "{lost}"}, ("speaks plaintext; set security.protocol to PLAINTEXT, or SASL_PLAINTEXT",)
    ),
    "plaintext client, TLS listener": Mistake(
        {"security.protocol": "PLAINTEXT"},
        ("speaks TLS; set security.protocol to SSL, or SASL_SSL",),
        (*NO_LOGIN, *NO_TRUST),
    ),
    "wrong password": Mistake({"sasl.jaas.config": "wrong"}, ("check user, password and sasl.mechanism",)),
    "wrong mechanism": Mistake(
        {"sasl.mechanism": "SCRAM-SHA-256"},
        ("supported mechanisms: PLAIN,SCRAM-SHA-512", "check user, password and sasl."),
    ),
    "no login": Mistake(
        {"security.protocol": "SSL"},
        ("one that wants a login: security.protocol SASL_SSL",),
        NO_LOGIN,
        ("--timeout", "4"),
    ),
    "login at a listener without": Mistake(
        {"bootstrap.servers": "{lost}", "security.protocol": "SASL_PLAINTEXT"},
        ("this listener takes no login: set security.protocol to PLAINTEXT or SSL",),
    ),
    "certificate that is not trusted": Mistake(
        {}, ("let ssl.truststore.location name a store with the cert",), NO_TRUST
    ),
    "advertised listener that cannot be reached": Mistake(
        {"bootstrap.servers": "{lost}", "security.protocol": "PLAINTEXT"},
        (f"{LOST}, the address that it tells its clients (advertised.listeners), cannot be reached from here",),
        (*NO_LOGIN, *NO_TRUST),
    ),
    "no Kafka there": Mistake(
        {"bootstrap.servers": "{http}", "security.protocol": "PLAINTEXT"},
        ("this may be no Kafka listener (Connect's REST API?)",),
        (*NO_LOGIN, *NO_TRUST),
        ("--timeout", "4"),
    ),
    "missing right": Mistake(
        {"config.storage.topic": "forbidden"}, ("the principal needs the right DESCRIBE on the topic", "forbidden")
    ),
}


@pytest.fixture(scope="module")
def no_kafka() -> Iterator[str]:
    class Quiet(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)) as address:
        yield address


def worker_file(folder: Path, broker: SecureBroker, changes: dict[str, str], without: tuple[str, ...] = ()) -> Path:
    properties = {
        **login(broker, "reader"),
        "group.id": "orders",
        SHARING_PROPERTY: "enabled",
        **{TOPIC_PROPERTIES[kind]: f"shared-{kind.value}" for kind in TopicType},
    }
    if changes.get("sasl.jaas.config") == "wrong":
        changes = {"sasl.jaas.config": properties["sasl.jaas.config"].replace(USERS["reader"], "an0ther-pw")}
    elif changes.get("sasl.mechanism", "").startswith("SCRAM"):
        jaas = properties["sasl.jaas.config"].replace("plain.PlainLogin", "scram.ScramLogin")
        changes = {**changes, "sasl.jaas.config": jaas}
    kept = {name: value for name, value in (properties | changes).items() if name not in without}
    return write_properties(folder / "worker.properties", kept)


@pytest.mark.parametrize("name", MISTAKES)
def test_one_line_says_what_to_do(
    secure: SecureBroker, no_kafka: str, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mistake = MISTAKES[name]
    changes = {key: value.format(lost=secure.lost_servers, http=no_kafka) for key, value in mistake.changes.items()}
    path = worker_file(tmp_path, secure, changes, mistake.without)
    began_s = time.monotonic()
    assert console(["get", "connectors", "-w", str(path), *mistake.more]) == 1
    assert time.monotonic() - began_s < LIMIT_S
    captured = capsys.readouterr()
    assert captured.out == ""
    *waits, line = captured.err.splitlines()
    assert all(wait.startswith("connect-share: waiting for an answer of ") for wait in waits)
    assert all(part in line for part in mistake.said)
    assert "-pw" not in line


def test_the_migrator_says_the_same(secure: SecureBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = worker_file(tmp_path, secure, {"bootstrap.servers": "no-such-host.invalid:9092"})
    assert migrate(["survey", "--source-worker-config", str(path)]) == 1
    assert MISTAKES["wrong host"].said[0] in capsys.readouterr().out
