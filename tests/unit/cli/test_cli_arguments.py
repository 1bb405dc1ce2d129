"""The grammar of the console, as far as it goes without a cluster, and its completion in a real shell."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from connect_share.cli.__main__ import build_parser, main
from connect_share.console.options import topic_set_of
from connect_share.errors import ConfigError, UsageError
from connect_share.model.records import TopicType


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "required: VERB"),
        (["get"], "required: NOUN"),
        (["get", "nothing"], "invalid choice: 'nothing'"),
        (["describe", "connector"], "required: NAME"),
        (["check", "everything"], "invalid choice: 'everything' (choose from"),
        (["create", "connector"], "invalid choice: 'connector' (choose from"),
        (
            ["create", "topics", "-B", "x:1", "--config-storage-topic", "c"],
            "this needs --offset-storage-topic and --status",
        ),
        (["check", "order", "-B", "x:1", "--status-storage-topic", "s"], "this needs --config-storage-topic"),
        (
            ["check", "sizes", "-B", "x:1", "--config-storage-topic", "c"],
            "this needs --status-storage-topic and --offset",
        ),
        (["check", "topics", "--replication-factor", "0"], "has to be 1 to 32767, or -1"),
        (["check", "worker-config"], "required: FILE"),
        (["check", "worker-config", "/nowhere/w.properties"], "cannot read /nowhere/w.properties"),
        (["check", "worker-config", "x", "--libs", "/nowhere"], "--libs: /nowhere is not a folder"),
        (["worker-jar", "--to", "/nowhere"], "/nowhere is not a folder"),
        (["worker-jar", "--to"], "--to: expected one argument"),
        (["alter", "offsets", "foo", "--file", "x"], "required: -w/--worker-config"),
        (["alter", "offsets", "foo", "-w", "x", "--file", "/nowhere/o.json"], "cannot read /nowhere/o.json"),
        (["alter", "offsets", "foo", "-w", "x", "--file", "y", "--backup-dir", "/nowhere"], "/nowhere is not a folder"),
        (["reset", "offsets", "foo", "-w", "x", "--partition", '"zebra"'], "partition is not a JSON object"),
        (["copy", "offsets", "foo", "-w", "x"], "say where to: --to NAME, --to-worker-config FILE, or both"),
        (["copy", "offsets", "foo", "bar", "-w", "x", "--to", "y"], "--to is the name for one connector"),
        (["copy", "offsets", "--matching", "*", "-w", "x", "--to", "y"], "--to is the name for one connector"),
        (["get", "groups"], "use -w FILE or -B HOST:PORT"),
        (["get", "groups", "-B", "x:1"], "--config-storage-topic or --offset-storage-topic or --status-storage-topic"),
        (["get", "connectors", "-B", "x:1", "--offset-storage-topic", "o"], "this needs --config-storage-topic"),
        (["get", "offsets", "-B", "x:1", "--config-storage-topic", "o"], "this needs --offset-storage-topic"),
        (["get", "groups", "-B", "x:1", "--config-storage-topic", "a/b"], "'a/b' cannot be a topic name"),
        (["get", "groups", "-w", "/nowhere/w.properties"], "cannot read /nowhere/w.properties"),
        (
            ["get", "groups", "-B", "x:1", "--config-storage-topic", "c", "--group", "a/b"],
            "cannot be a cluster group id",
        ),
        (["get", "groups", "-B", "x:1", "--config-storage-topic", "c", "--timeout", "0"], "0.1 to 3600"),
        (["get", "groups", "-B", "x:1", "--config-storage-topic", "c", "--timeout", "nan"], "0.1 to 3600"),
        (["get", "groups", "-B", "x:1", "--timeout", "abc"], "--timeout: has to be 0.1 to 3600 seconds"),
        (["get", "groups", "-B", "x:1", "--config-storage-topic", "c", "--output", "xml"], "invalid choice: 'xml'"),
        (["get", "groups", "-B", "x:1", "--config-storage-topic", "c", "-X", "zebra"], "KEY=VALUE"),
        (["get", "groups", "-B", "x:1", "--config-storage-topic", "c", "-X", "no.such=zebra"], "no.such is a setting"),
        (["get", "groups", "-B", "x:1", "--config-storage-topic", "c", "-X", "linger=1=2"], "linger is a setting"),
    ],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_wrong_usage(words: list[str], message: str, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([*words, *([] if form == "text" or "--output" in words else ["--output=json"])])
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    if form == "json" and "--output" not in words:
        assert message in json.loads(captured.err)["error"]["message"]
    else:
        assert message in captured.err
        assert captured.err.count("\n") == 1
    assert "zebra" not in captured.err


def test_a_broker_that_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["get", "groups", "-B", "127.0.0.1:1", "--config-storage-topic", "c", "--timeout", "5"]
    assert main(words) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("connect-share: error: no answer from 127.0.0.1:1: ")
    assert "Connection refused" in captured.err


def test_flags_become_a_topic_set() -> None:
    words = ["get", "groups", "-B", "x:1", "--offset-storage-topic", "o", "-X", "client.rack=r", "-X", "debug=a=b"]
    found = topic_set_of(build_parser().parse_args(words))
    assert found.topics == {TopicType.OFFSET: "o"}
    assert found.settings.properties["debug"] == "a=b"
    assert found.settings.properties["client.rack"] == "r"
    with pytest.raises(ConfigError) as caught:
        topic_set_of(build_parser().parse_args(words), (TopicType.CONFIG,))
    assert caught.value.property_name == "config.storage.topic"


def test_brokers_may_be_given_as_a_client_setting() -> None:
    words = ["get", "groups", "-X", "bootstrap.servers=y:2", "--config-storage-topic", "c"]
    assert topic_set_of(build_parser().parse_args(words)).settings.bootstrap_servers == "y:2"


def test_wrong_usage_is_an_error_of_ours() -> None:
    with pytest.raises(UsageError, match="connect-share get --help shows"):
        build_parser().parse_args(["get"])


PROGRAMS = {"connect-share": "connect_share", "connect-share-migrate": "migrator"}
ASK = """
source "$1"; COMP_WORDS=("${@:2}"); COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
$(complete -p "$2" | sed 's/.*-F \\([^ ]*\\) .*/\\1/') "$2"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(program: str, folder: Path, *words: str) -> set[str]:
    script = subprocess.run(
        [sys.executable, "-m", PROGRAMS[program], "--print-completion", "bash"],
        capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    (folder / "completion").write_text(script)
    command = ["bash", "-c", ASK, "bash", str(folder / "completion"), program, *words]
    return set(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(
    ("program", "words", "found"),
    [
        ("connect-share", ["exp"], {"export", "exporter"}),
        ("connect-share", ["check", "or"], {"order", "orphans"}),
        ("connect-share", ["get", "connectors", "--wa"], {"--watch"}),
        ("connect-share-migrate", ["ro"], {"rollback"}),
    ],
)
def test_commands_and_options_are_completed(program: str, words: list[str], found: set[str], tmp_path: Path) -> None:
    assert completed(program, tmp_path, *words) == found


def test_without_the_library_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "shtab.py").write_text("raise ImportError\n")
    ran = subprocess.run(
        [sys.executable, "-m", "connect_share", "--print-completion", "zsh"],
        capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert ran.returncode == 2
    assert "pip install 'connect-share[completion]'" in ran.stderr
