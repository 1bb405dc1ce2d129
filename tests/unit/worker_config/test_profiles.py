"""Profiles of connection settings, and folders of worker files: which one is meant."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.cli.__main__ import PROGRAM
from connect_share.console.options import choose_worker_files, topic_set_of
from connect_share.errors import ConfigError
from connect_share.worker_config import TopicSet, load_worker_file
from connect_share.worker_config.worker import (
    choose_worker_file,
    files_in_folders,
    load_profile,
    profile_in_use,
    profiles_file,
    worker_files_in,
)

SECRET = "s3cret-word"
PROFILES = f"""
[production]
bootstrap.servers = "kafka:9094"
security.protocol = "SASL_SSL"
"sasl.mechanism" = "PLAIN"
sasl.jaas.config = '''org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="{SECRET}";'''
request.timeout.ms = 1000

[referring]
security.protocol = "SSL"
ssl.truststore.type = "PEM"
ssl.truststore.location = "${{env:CONNECT_SHARE_TEST_TRUST}}"
"""
WORKER = "group.id=g\nconfig.storage.topic=c\noffset.storage.topic=o\nstatus.storage.topic=s\nbootstrap.servers=own:1\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "profiles.toml"
    path.write_text(PROFILES)
    path.chmod(0o600)
    monkeypatch.setenv("CONNECT_SHARE_PROFILES", str(path))
    monkeypatch.delenv("CONNECT_SHARE_PROFILE", raising=False)
    return path


def test_references_are_resolved(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONNECT_SHARE_TEST_TRUST", "/etc/ca.pem")
    assert load_profile("referring", file) == {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/etc/ca.pem",
    }


def test_a_profile_wins_over_a_worker_file_but_for_the_brokers(file: Path, tmp_path: Path) -> None:
    worker = tmp_path / "w.properties"
    worker.write_text(WORKER + "security.protocol=PLAINTEXT\n")
    with profile_in_use("production"):
        found = load_worker_file(worker)
        brokers = TopicSet.from_flags(None, {}, {}).settings.properties["bootstrap.servers"]
    assert (found["bootstrap.servers"], found["security.protocol"]) == ("own:1", "SASL_SSL")
    assert (found["sasl.mechanism"], found["request.timeout.ms"]) == ("PLAIN", "1000")
    assert brokers == "kafka:9094"
    assert load_worker_file(worker)["security.protocol"] == "PLAINTEXT"
    assert file.exists()


def test_the_environment_names_one(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONNECT_SHARE_PROFILE", "nobody")
    with pytest.raises(ConfigError, match=rf"{file} has no profile 'nobody'; it has: production, referring"):
        profile_in_use(None).__enter__()


def test_where_profiles_are() -> None:
    assert profiles_file({"HOME": "/h"}) == Path("/h/.config/connect-share/profiles.toml")
    assert profiles_file({"HOME": "/h", "XDG_CONFIG_HOME": "/x"}) == Path("/x/connect-share/profiles.toml")


def test_a_secret_that_others_can_read_is_refused(file: Path) -> None:
    file.chmod(0o640)
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config.*chmod 600") as caught:
        load_profile("production", file)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[p]\nsasl.jaas.config = s3cret-word", "is not TOML (at line 2"),
        ("[p]\ngroup.id = 'g'", "group.id is no connection setting"),
        ("[p]\nsecurty.protocol = 'SSL'", "securty.protocol is no connection setting"),
        ("[p]\nsecurity.protocol = ['SSL']", "p.toml, profile p: security.protocol has to be a text"),
        ("p = 1", "has no profile 'p'"),
        ("[p]\n" + ".".join("a" * 30) + " = 1", "p.toml, profile p: a profile is nested too deeply"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "p.toml"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=re.escape(words)) as caught:
        load_profile("p", path)
    assert SECRET not in str(caught.value)


@given(st.binary(max_size=200) | st.text(alphabet="[]{}.=\"'#\n ap1", max_size=200).map(str.encode))
def test_any_bytes_are_a_profile_or_an_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "any.toml"
    path.write_bytes(data)
    path.chmod(0o600)
    with pytest.raises(ConfigError):
        load_profile("no such profile", path)


TOPICS = "bootstrap.servers=b:9092\nconfig.storage.topic=c\noffset.storage.topic=o\nstatus.storage.topic=s\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for group in ("billing", "orders"):
        (tmp_path / f"{group}.properties").write_text(f"group.id={group}\n{TOPICS}")
    (tmp_path / "sink.properties").write_text("name=sink\nconnector.class=X\n")
    (tmp_path / "deployment.yaml").write_text("kind: Deployment\n")
    (tmp_path / "notes.txt").write_text("group.id=none\n")
    return tmp_path


@pytest.mark.parametrize(
    "words", [["get", "tasks", "--group", "orders"], ["describe", "group", "orders"], ["delete", "group", "orders"]]
)
def test_the_group_of_a_command_line_says_which_file(folder: Path, words: list[str]) -> None:
    arguments = PROGRAM.parser(words[0]).parse_args([*words, "-w", str(folder)])
    choose_worker_files(arguments.parser, arguments)
    assert arguments.worker_config == folder / "orders.properties"


OWN = ("get tasks", "get workers", "export -o F", "check rights", "check sealing")
MORE = ("get groups", "get tasks --all-groups", "export -o F --group a --group b", "check sealing --all-groups-sealed")


@pytest.mark.parametrize("line", [*OWN, *MORE, "check all", "get workers --group-id a --group-id b"])
def test_any_file_will_do_for_more_than_its_own_group(folder: Path, line: str) -> None:
    verb, *words = line.split()
    arguments = PROGRAM.parser(verb).parse_args([verb, *words, "-w", str(folder)])
    with pytest.raises(ConfigError, match="2 worker files") if line in OWN else nullcontext():
        choose_worker_files(arguments.parser, arguments)
        assert arguments.worker_config.parent == folder
    (folder / "third.properties").write_text(f"group.id=third\n{TOPICS}".replace("=c\n", "=other\n"))
    with pytest.raises(ConfigError, match=r"3 worker files: .*third\.properties \(third\); give one of them"):
        choose_worker_file(folder, None, any_of_one_set=True)


def test_the_groups_of_a_folder_are_the_callers_own(folder: Path) -> None:
    third = f"group.id=third\nconnect.management.topic.sharing.support=Enabled\n{TOPICS}"
    (folder / "third.properties").write_text(third)
    arguments = PROGRAM.parser("exporter").parse_args(["exporter", "-w", str(folder)])
    choose_worker_files(arguments.parser, arguments)
    assert topic_set_of(arguments).own == {None, "third"}
    arguments.worker_config = folder / "third.properties"
    del arguments.own_groups
    assert topic_set_of(arguments).own == {"third"}


@pytest.mark.parametrize("group", [None, "unknown"])
def test_what_is_not_clear_is_refused(folder: Path, group: str | None) -> None:
    with pytest.raises(ConfigError, match=r"2 worker files: billing\.properties \(billing\)"):
        choose_worker_file(folder, group, any_of_one_set=False)


def test_a_folder_without_worker_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no worker file"):
        worker_files_in(tmp_path)


def test_destinations_are_found_by_group_and_not_by_order(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shared = tmp_path_factory.mktemp("shared")
    (shared / "1.properties").write_text(f"group.id=orders\n{TOPICS}")
    (shared / "2.properties").write_text(f"group.id=billing\n{TOPICS}")
    sources, destinations = files_in_folders([folder], [shared])
    assert [path.stem for path in sources] == ["billing", "orders"]
    assert [path.stem for path in destinations] == ["2", "1"]
    (shared / "2.properties").unlink()
    with pytest.raises(ConfigError, match="1 worker file"):
        files_in_folders([folder], [shared])
