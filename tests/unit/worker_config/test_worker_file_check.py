"""What is said of worker files: lines, jars, connectors. No cluster, no command line."""

from __future__ import annotations

import errno
import itertools
import os
import zipfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from connect_share.checks.connectors import check_connectors
from connect_share.checks.finding import MOST_FINDINGS, Finding, Severity
from connect_share.checks.jar import JarSearch, check_jars
from connect_share.checks.worker_file import check_properties, in_file, lines_to_add, worker_lines
from connect_share.errors import ConfigError, WorkerPluginError
from connect_share.jar import INTERCEPTOR_CLASS, JAR_NAME, jar_path
from connect_share.jar.jar_file import (
    JarFile,
    class_path_files,
    find_jars,
    folder_jars,
    hand_out,
    own_jar,
    plugin_path_jars,
    read_jar,
)
from connect_share.worker_config import SHARING_PROPERTY, WorkerConfig, parse_properties
from connect_share.worker_config.override_policy import POLICY_CLASS, POLICY_PROPERTY, RULES_PROPERTY, OverridePolicy
from tests.support import worker_files

VERSION = version("connect-share")
LIST = "interceptor.classes"
POLICY = "connector.client.config.override.policy"
EOS = {"exactly.once.source.support": "enabled"}
STRICT = {POLICY: "None"}
CLIENT_LINES = {f"{kind}.{LIST}": INTERCEPTOR_CLASS for kind in ("producer", "consumer")}
OTHER = "com.other.Tracing"
PLAIN = worker_files.WORKER
RIGHT = {**PLAIN, SHARING_PROPERTY: "enabled", LIST: INTERCEPTOR_CLASS}


def findings(properties: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(found.severity.value, found.property_name) for found in check_properties(properties).findings]


@pytest.mark.parametrize(
    "properties",
    [
        RIGHT,
        {**RIGHT, SHARING_PROPERTY: " Enabled ", LIST: f" {INTERCEPTOR_CLASS} "},
        {**RIGHT, **CLIENT_LINES},
        {**RIGHT, f"producer.{LIST}": OTHER, "producer.group.id": "x", "consumer.client.rack": "a"},
        {**RIGHT, "producer.config.storage.topic": "c"},
        {**RIGHT, **EOS, **CLIENT_LINES, **STRICT},
        {**RIGHT, **EOS, **CLIENT_LINES, POLICY: "Allowlist"},
    ],
)
def test_a_right_file_has_no_findings(properties: dict[str, str]) -> None:
    checked = check_properties(properties)
    assert checked.findings == ()
    assert checked.sharing_enabled
    assert checked.reachable


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({SHARING_PROPERTY: None}, [("error", SHARING_PROPERTY)]),
        ({SHARING_PROPERTY: "true"}, [("error", SHARING_PROPERTY)]),
        ({LIST: None}, [("error", LIST)]),
        ({LIST: OTHER}, [("error", LIST)]),
        ({LIST: f"{INTERCEPTOR_CLASS},{INTERCEPTOR_CLASS}"}, [("error", LIST)]),
        ({LIST: f"{OTHER},{INTERCEPTOR_CLASS}"}, [("note", LIST)]),
        ({"group.id": "connector-x"}, [("error", "group.id")]),
        ({"group.id": "a/b", SHARING_PROPERTY: None}, [("error", "group.id"), ("error", SHARING_PROPERTY)]),
        ({"group.id": None}, [("error", "group.id")]),
        ({"group.id": "a\xa0"}, [("error", "group.id")]),
        ({f"{SHARING_PROPERTY}ed": "enabled"}, [("error", f"{SHARING_PROPERTY}ed")]),
        ({f"{RULES_PROPERTY}s": "None"}, [("error", f"{RULES_PROPERTY}s")]),
        ({SHARING_PROPERTY: "enabled\u3000"}, [("error", SHARING_PROPERTY)]),
        ({"group.id": "\0a\x1f", SHARING_PROPERTY: "\x01enabled"}, []),
        (
            {"config.storage.topic": None, "status.storage.topic": "a b", "offset.flush.interval.ms": "x"},
            [
                ("error", "config.storage.topic"),
                ("error", "offset.flush.interval.ms"),
                ("error", "status.storage.topic"),
            ],
        ),
        ({"status.storage.topic": "configs"}, [("error", "status.storage.topic")]),
        ({"bootstrap.servers": None}, [("error", "bootstrap.servers")]),
        ({"bootstrap.servers": "[::1]:9092,h:74628"}, [("error", "bootstrap.servers")]),
        ({"bootstrap.servers": "h:x"}, [("error", "bootstrap.servers")]),
        ({"bootstrap.servers": "localhost"}, [("error", "bootstrap.servers")]),
        ({**EOS, **STRICT}, [("error", f"producer.{LIST}"), ("error", f"consumer.{LIST}")]),
        ({**EOS, **STRICT, f"producer.{LIST}": INTERCEPTOR_CLASS}, [("error", f"consumer.{LIST}")]),
        ({**EOS, **CLIENT_LINES}, [("warning", POLICY)]),
        (
            {**EOS, **CLIENT_LINES, POLICY: "Allowlist", "connector.client.config.override.allowlist": f"acks, {LIST}"},
            [("warning", POLICY)],
        ),
        (
            {"exactly.once.source.support": "preparing"},
            [("warning", f"producer.{LIST}"), ("warning", f"consumer.{LIST}")],
        ),
        ({f"consumer.{LIST}": f"{INTERCEPTOR_CLASS}, {INTERCEPTOR_CLASS}"}, [("error", f"consumer.{LIST}")]),
        ({"exactly.once.source.support": "yes"}, [("error", "exactly.once.source.support")]),
        (
            {**CLIENT_LINES, "producer.config.storage.topic": "c", f"consumer.{SHARING_PROPERTY}": "enabled"},
            [("error", "producer.config.storage.topic"), ("error", f"consumer.{SHARING_PROPERTY}")],
        ),
        # What our clients cannot do, a Java worker may.
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, [("warning", "sasl.mechanism")]),
        (
            {
                "config.providers": "vault",
                "config.providers.vault.class": "com.x.Vault",
                "offset.flush.timeout.ms": "${vault:a:b}",
                LIST: "${vault:a:c}",
            },
            [("warning", "offset.flush.timeout.ms"), ("error", LIST)],
        ),
    ],
)
def test_findings_name_severity_and_property(changes: dict[str, str | None], expected: list[tuple[str, str]]) -> None:
    merged = {name: value for name, value in {**RIGHT, **changes}.items() if value is not None}
    assert sorted(findings(merged)) == sorted(expected)


@pytest.mark.parametrize("exactly_once", ["disabled", "preparing", "enabled"])
@pytest.mark.parametrize("there", [None, "", OTHER, f"{INTERCEPTOR_CLASS},{OTHER},{INTERCEPTOR_CLASS}"])
@pytest.mark.parametrize("sharing", [None, "disabled"])
def test_a_file_with_the_lines_added_is_right(exactly_once: str, there: str | None, sharing: str | None) -> None:
    lists = [LIST, *CLIENT_LINES]
    properties = {**PLAIN, **STRICT, "exactly.once.source.support": exactly_once}
    properties |= {name: there for name in lists if there is not None}
    properties |= {SHARING_PROPERTY: sharing} if sharing else {}
    text = "".join(f"{name}={value}\n" for name, value in properties.items())
    lines = lines_to_add(check_properties(parse_properties(text)).findings)
    assert f"{SHARING_PROPERTY}=enabled" in lines
    again = parse_properties(text + "\n".join(lines))
    assert {severity for severity, _ in findings(again)} <= {"note"}
    if there and OTHER in there and exactly_once == "enabled":
        assert all(again[name] == f"{OTHER},{INTERCEPTOR_CLASS}" for name in lists)


def test_lines_for_a_plain_file_are_those_that_are_documented() -> None:
    for exactly_once in (False, True):
        properties = {**PLAIN, **STRICT, **(EOS if exactly_once else {})}
        assert lines_to_add(check_properties(properties).findings) == worker_lines(exactly_once=exactly_once)


def test_references_stay_references_in_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACERS", OTHER)
    given = {**PLAIN, **worker_files.providers(env="EnvVar"), LIST: "${env:TRACERS}"}
    assert f"{LIST}=${{env:TRACERS}},{INTERCEPTOR_CLASS}" in lines_to_add(check_properties(given).findings)


def test_no_value_is_shown() -> None:
    # Whatever is checked for its form has a value here that is wrong.
    wrong = "zebra"
    names = ["security.protocol", "sasl.jaas.config", "ssl.truststore.password", "offset.flush.interval.ms"]
    names += ["exactly.once.source.support", SHARING_PROPERTY, "isolation.level", "client.dns.lookup", POLICY, LIST]
    names += ["topic.tracking.enable", "compression.type", "config.storage.replication.factor", "linger.ms"]
    found = check_properties({**PLAIN, **dict.fromkeys(names, f"{wrong} {wrong}")}).findings
    assert len(found) >= 10
    assert wrong not in str(found)
    assert f"{LIST}=(what is there),{INTERCEPTOR_CLASS}" in lines_to_add(found)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([OTHER, INTERCEPTOR_CLASS], ["the 1 before it sees plain keys"]),
        ([INTERCEPTOR_CLASS, OTHER], ["the 1 after it sees prefixed keys"]),
        ([OTHER, INTERCEPTOR_CLASS, "a.B", "a.C"], ["the 1 before it sees", "the 2 after it see prefixed"]),
    ],
)
def test_what_other_interceptors_see_is_shown(names: list[str], words: list[str]) -> None:
    (note,) = check_properties({**RIGHT, LIST: ",".join(names)}).findings
    assert note.severity is Severity.NOTE
    assert all(word in note.what for word in words)
    assert ("after it" in note.what) == (names[-1] != INTERCEPTOR_CLASS)


@pytest.mark.parametrize(
    ("changes", "reachable"),
    [
        ({}, True),
        ({SHARING_PROPERTY: "disabled", "offset.flush.interval.ms": "x", "status.storage.topic": ""}, True),
        ({"offset.storage.topic": "", "status.storage.topic": ""}, True),
        ({"group.id": "a/b"}, False),
        ({"bootstrap.servers": ""}, False),
        ({"config.storage.topic": "a b"}, False),
        ({"security.protocol": "x"}, False),
    ],
)
def test_a_cluster_is_asked_only_if_the_file_says_how(changes: dict[str, str], reachable: bool) -> None:
    assert check_properties({**RIGHT, **changes}).reachable is reachable


# Connectors.

SOURCE = {"connector.class": "FileStreamSource"}
SINK = {"connector.class": "FileStreamSink", "topics": "a"}
OVERRIDES = tuple(f"{kind}.override.{LIST}" for kind in ("producer", "consumer"))


def of_connector(
    properties: Mapping[str, Any], worker: Mapping[str, str], **options: Any
) -> list[tuple[str, str, tuple[str, ...]]]:
    config = WorkerConfig.from_properties({**RIGHT, **worker})
    found = check_connectors(config, {"one": properties, "fine": SOURCE}, **options)
    assert {finding.connector for finding in found} <= {"one"}
    assert all(finding.what.startswith(f"connector 'one': {finding.property_name} ") for finding in found)
    return [(finding.severity.value, finding.property_name, finding.add) for finding in found]


@pytest.mark.parametrize("name", OVERRIDES)
def test_exactly_once_connectors_that_replace_the_interceptor(name: str) -> None:
    worker = {**EOS, **CLIENT_LINES}
    assert of_connector({**SOURCE, name: OTHER}, worker) == [("error", name, ())]
    assert of_connector({**SOURCE, name: ""}, worker) == [("error", name, ())]
    assert of_connector({**SOURCE, name: f"{OTHER}, {INTERCEPTOR_CLASS}"}, worker) == []
    assert of_connector({**SOURCE, name: f"{INTERCEPTOR_CLASS},{INTERCEPTOR_CLASS}"}, worker) == [("error", name, ())]
    assert of_connector({**SOURCE, name: "${file:a:b}"}, worker) == [("warning", name, ())]
    # Nothing of the kind without exactly-once, when the worker lets nobody, or with an offsets topic of its own.
    assert of_connector({**SOURCE, name: OTHER}, CLIENT_LINES) == []
    assert of_connector({**SOURCE, name: OTHER}, {**worker, **STRICT}) == []
    assert of_connector({**SOURCE, name: OTHER, "offsets.storage.topic": "mine"}, worker) == []


@pytest.mark.parametrize("name", OVERRIDES)
def test_the_policy_of_the_jar_stands_for_the_lines_of_exactly_once(name: str) -> None:
    policy = {POLICY_PROPERTY: POLICY_CLASS}
    assert check_properties({**RIGHT, **EOS, **policy}).findings == ()
    twice = f"{INTERCEPTOR_CLASS},{INTERCEPTOR_CLASS}"
    found = check_properties({**RIGHT, **EOS, **policy, name.replace(".override", ""): twice}).findings
    assert [(finding.severity, finding.property_name) for finding in found] == [
        (Severity.ERROR, name.replace(".override", ""))
    ]
    # No connector gets rid of the interceptor, and what it may override is another policy's to say.
    for properties in ({name: OTHER}, {name: ""}, {"offsets.storage.topic": "offsets"}):
        assert of_connector({**SOURCE, **properties}, {**EOS, **policy}) == []
    assert OverridePolicy.of(policy).allows("acks")
    assert not OverridePolicy.of({**policy, RULES_PROPERTY: "None"}).allows("acks")


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_connectors_that_pass_a_client_for_the_workers(kind: str) -> None:
    name = f"{kind}.override.config.storage.topic"
    assert of_connector({**SOURCE, name: "x"}, {**EOS, **CLIENT_LINES}) == [("error", name, ())]
    assert of_connector({**SOURCE, name: "x"}, {}) == []


def test_offsets_in_the_workers_own_topic_need_both_lines() -> None:
    connector = {**SOURCE, "offsets.storage.topic": "offsets"}
    lines = {name: f"{name}={INTERCEPTOR_CLASS}" for name in CLIENT_LINES}
    name = "offsets.storage.topic"
    assert of_connector(connector, {}) == [("error", name, tuple(lines.values()))]
    for there, missing in itertools.permutations(lines):
        assert of_connector(connector, {there: INTERCEPTOR_CLASS}) == [("error", name, (lines[missing],))]
    assert of_connector(connector, CLIENT_LINES) == []
    # Only sources have such a property, whatever else is there.
    assert of_connector({**connector, "topics": "a"}, CLIENT_LINES | {f"producer.{LIST}": OTHER})[0][0] == "error"
    assert of_connector({**connector, OVERRIDES[0]: OTHER}, CLIENT_LINES) == [("error", OVERRIDES[0], ())]
    kept = {f"producer.{LIST}": OTHER, f"consumer.{LIST}": INTERCEPTOR_CLASS}
    assert of_connector(connector, kept) == [("error", name, (f"producer.{LIST}={OTHER},{INTERCEPTOR_CLASS}",))]


def test_odd_connector_configurations_are_no_trouble() -> None:
    config = WorkerConfig.from_properties({**RIGHT, **EOS, **CLIENT_LINES})
    odd: dict[str, Any] = {"offsets.storage.topic": None, "topics": 7, OVERRIDES[0]: None}
    found = check_connectors(config, {"odd": odd, "empty": {}})
    assert [(finding.connector, finding.property_name) for finding in found] == [("odd", OVERRIDES[0])]
    made_up = {f"{number}{'x' * 10_000}": odd for number in range(MOST_FINDINGS + 5)}
    found = check_connectors(config, made_up)
    assert len(found) == MOST_FINDINGS + 1
    assert all(len(f"{finding.what}{in_file(finding, Path('f')).where}") < 1_000 for finding in found)


# Jars.


def a_jar(path: Path, *, number: str | None = VERSION, ours: bool = True) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("connectshare/TopicSharingInterceptor.class" if ours else "a/B.class", b"x")
        if number is not None:
            archive.writestr("connectshare/version.properties", f"version={number}\n")
    return path


def test_our_jar_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    assert own_jar().path == jar_path()
    assert own_jar().version == VERSION
    assert jar_path().stat().st_size < 80_000
    libs = tmp_path / "libs"
    a_jar(libs / "kafka-clients.jar", ours=False)
    (libs / "broken.jar").write_bytes(b"PK\x03\x04 no archive")
    (libs / "folder.jar").mkdir()
    os.mkfifo(libs / "pipe.jar")
    renamed = a_jar(libs / "renamed.JAR", number="1")
    data = bytearray(renamed.read_bytes())
    data[data.index(b".properties") + 11] ^= 0xFF  # where what is deflated begins
    renamed.write_bytes(data)
    (libs / "gone.jar").symlink_to(libs / "nowhere")
    (libs / "again.jar").symlink_to(renamed)
    (libs / "loop.jar").symlink_to(libs / "loop.jar")
    found = find_jars([*folder_jars(libs), *class_path_files(f"{libs}/*:{renamed}:{libs}:/nowhere/x.jar::{'x' * 300}")])
    assert [jar.version for jar in found] == ["unknown"]
    assert found[0].path.resolve() == renamed


def test_jars_under_plugin_path(tmp_path: Path) -> None:
    jars = {a_jar(tmp_path / name) for name in ("a.jar", "plugin/b.jar", "plugin/lib/more/c.jar")}
    assert set(plugin_path_jars([tmp_path, tmp_path / "nowhere"])) == jars


def test_a_jar_of_another_version_on_the_class_path(tmp_path: Path) -> None:
    def checked(*class_path: JarFile) -> list[Finding]:
        return list(check_jars(JarSearch(("/libs",), complete=True, class_path=class_path, plugin_path=()), own_jar()))

    for name, number, words in [
        ("old.jar", "0.0.9", f"an older version (0.0.9) than the one of this installation ({VERSION})"),
        ("new.jar", f"{VERSION}.10", f"a newer version ({VERSION}.10) than"),
        ("same.jar", VERSION, f"another build of version {VERSION} than"),
        ("odd.jar", "1.0rc1", "another version (1.0rc1) than"),
        ("none.jar", None, "another version (unknown) than"),
    ]:
        jar = read_jar(a_jar(tmp_path / name, number=number))
        assert jar is not None
        (found,) = checked(jar)
        assert found.severity is Severity.WARNING
        assert f"{name} is {words}" in found.what
        assert [each.severity for each in checked(own_jar(), jar)] == [Severity.ERROR, Severity.WARNING]


def test_handing_out(tmp_path: Path) -> None:
    target = tmp_path / JAR_NAME
    hand_out(tmp_path)
    assert target.stat().st_mode & 0o777 == 0o644
    before = target.stat()
    hand_out(tmp_path)
    assert target.stat().st_ino == before.st_ino
    target.write_bytes(b"half a copy")
    mended = hand_out(tmp_path)
    assert mended.replaced is not None
    assert mended.replaced.version == "unknown"
    assert target.read_bytes() == jar_path().read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == [JAR_NAME]


def test_handing_out_to_where_it_cannot_go(tmp_path: Path) -> None:
    for place in (tmp_path / "nowhere", a_jar(tmp_path / "file.jar")):
        with pytest.raises(ConfigError, match="is not a folder"):
            hand_out(place)
    os.mkfifo(tmp_path / JAR_NAME)
    with pytest.raises(WorkerPluginError, match="it is no regular file; nothing was changed"):
        hand_out(tmp_path)


def test_nothing_is_left_of_a_copy_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = a_jar(tmp_path / JAR_NAME, number="0.0.9").read_bytes()
    monkeypatch.setattr(Path, "replace", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(WorkerPluginError, match="No space left on device; nothing was changed"):
        hand_out(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [JAR_NAME]
    assert (tmp_path / JAR_NAME).read_bytes() == there
