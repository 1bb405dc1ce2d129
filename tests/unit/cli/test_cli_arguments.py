"""The grammar of both programs: usage without a cluster, completion in a real shell, help with its examples."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from connect_share.cli.__main__ import build_parser, main
from connect_share.console.options import topic_set_of
from connect_share.errors import ConfigError
from connect_share.model.records import TopicType
from migrator.cli.__main__ import build_parser as migrator_parser
from migrator.cli.__main__ import main as migrator_main
from tests.support.programs import python

MAINS = {"connect-share": main, "connect-share-migrate": migrator_main}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("connect-share", "required: VERB"),
        ("connect-share get", "required: NOUN; connect-share get --help shows"),
        ("connect-share get nothing", "invalid choice: 'nothing'"),
        ("connect-share check everything", "invalid choice: 'everything' (choose from"),
        ("connect-share create topics -B x:1 --config-storage-topic c", "needs --offset-storage-topic and --status-"),
        ("connect-share check order -B x:1 --status-storage-topic s", "this needs --config-storage-topic"),
        (
            "connect-share check transactions -B x:1 --config-storage-topic c --group g",
            "--group: an open transaction holds up the readers of all groups; leave it out",
        ),
        ("connect-share check topics --replication-factor 0", "has to be 1 to 32767, or -1"),
        ("connect-share check all -B x:1 --ignore order-task-missing", "(choose from "),
        ("connect-share admit -w zebra --ignore x --ignore orphan-offsets", "argument --ignore: invalid choice: 'x'"),
        ("connect-share check worker-config /nowhere/w.properties", "cannot read /nowhere/w.properties"),
        ("connect-share check worker-config", "name the worker file to check"),
        ("connect-share check worker-config x --libs /nowhere", "--libs: /nowhere is not a folder"),
        ("connect-share worker-jar --to /nowhere", "/nowhere is not a folder"),
        ("connect-share alter offsets foo --file x", "required: -w/--worker-config"),
        ("connect-share alter offsets foo -w x --file /nowhere/o.json", "cannot read /nowhere/o.json"),
        ("connect-share alter offsets foo -w x --file y --backup-dir /nowhere", "/nowhere is not a folder"),
        ("connect-share reset offsets foo -w x --partition '\"zebra\"'", "partition is not a JSON object"),
        ("connect-share copy offsets foo -w x", "say where to: --to NAME, --to-worker-config FILE, or both"),
        ("connect-share copy offsets foo bar -w x --to y", "--to is the name for one connector"),
        ("connect-share get groups", "use -w FILE or -B HOST:PORT"),
        (
            "connect-share get groups -B x:1",
            "--config-storage-topic or --offset-storage-topic or --status-storage-topic",
        ),
        ("connect-share get groups -B x:1 --config-storage-topic a/b", "'a/b' cannot be a topic name"),
        ("connect-share get groups -w /nowhere/w.properties", "cannot read /nowhere/w.properties"),
        ("connect-share get groups -B x:1 --config-storage-topic c --group a/b", "cannot be a cluster group id"),
        ("connect-share get groups -B x:1 --config-storage-topic c --timeout nan", "0.1 to 86400"),
        ("connect-share get groups -B x:1 --timeout abc", "--timeout: has to be 0.1 to 86400 seconds"),
        ("connect-share get groups -B x:1 --config-storage-topic c --output xml", "invalid choice: 'xml'"),
        ("connect-share get groups -B x:1 --config-storage-topic c -X zebra", "KEY=VALUE"),
        ("connect-share get groups -B x:1 --config-storage-topic c -X no.such=zebra", "no.such is a setting"),
        ("connect-share-migrate plan -w s --to-worker-config d -o p --mode other", "invalid choice"),
        ("connect-share-migrate plan -w s --to-worker-config d", "plan needs -o PLAN"),
        ("connect-share-migrate restore x.avro", "--destination-worker-config"),
        ("connect-share-migrate plan --timeout 1", "required: -w/--source-worker-config"),
    ],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_wrong_usage(words: str, message: str, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    program, *given = shlex.split(words)
    code = MAINS[program]([*given, *([] if form == "text" or "--output" in words else ["--output=json"])])
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    if form == "json" and "--output" not in words:
        assert message in json.loads(captured.err)["error"]["message"]
    else:
        assert message in captured.err
        assert captured.err.count("\n") == 1
    assert "zebra" not in captured.err


def test_a_file_that_cannot_even_be_looked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get", "groups", "-w", "x" * 300]) in (1, 2)
    assert "File name too long" in capsys.readouterr().err


def test_flags_become_a_topic_set() -> None:
    words = ["get", "groups", "-B", "x:1", "--offset-storage-topic", "o", "-X", "client.rack=r", "-X", "debug=a=b"]
    found = topic_set_of(build_parser().parse_args(words))
    assert found.topics == {TopicType.OFFSET: "o"}
    assert found.settings.properties["debug"] == "a=b"
    assert found.settings.properties["client.rack"] == "r"
    with pytest.raises(ConfigError) as caught:
        topic_set_of(build_parser().parse_args(words), (TopicType.CONFIG,))
    assert caught.value.property_name == "config.storage.topic"


PROGRAMS = {"connect-share": "connect_share", "connect-share-migrate": "migrator"}
ASK = """
source "$1"; COMP_WORDS=("${@:2}"); COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
$(complete -p "$2" | sed 's/.*-F \\([^ ]*\\) .*/\\1/') "$2"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@cache
def completion(program: str) -> str:
    return python("-m", PROGRAMS[program], "--print-completion", "bash").stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.xdist_group("completion")
@pytest.mark.parametrize(
    ("program", "words", "found"),
    [
        ("connect-share", ["exp"], {"export", "exporter"}),
        ("connect-share", ["check", "or"], {"order", "orphans"}),
        ("connect-share", ["get", "connectors", "--wa"], {"--watch"}),
    ],
)
def test_commands_and_options_are_completed(program: str, words: list[str], found: set[str], tmp_path: Path) -> None:
    (tmp_path / "completion").write_text(completion(program))
    command = ["bash", "-c", ASK, "bash", str(tmp_path / "completion"), program, *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert {*ran.stdout.split()} == found


def test_without_the_library_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "shtab.py").write_text("raise ImportError\n")
    hidden = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = python("-m", "connect_share", "--print-completion", "zsh", env=hidden)
    assert ran.returncode == 2
    assert "pip install shtab" in ran.stderr


PARSERS = {"connect-share": build_parser(), "connect-share-migrate": migrator_parser()}


HELP = Path(__file__).parents[2] / "vectors" / "help"


def with_nouns(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of all it has below."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in dict.fromkeys(action.choices.values()):
                yield from with_nouns(each)


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parsers of commands that run, not of verbs that only have nouns."""
    return (each for each in with_nouns(parser) if each._subparsers is None)


COMMANDS = {each.prog: each for parser in PARSERS.values() for each in commands(parser)}


COMBINATIONS = [line.split(" | ") for line in HELP.with_name("combinations.txt").read_text("utf-8").splitlines()]


@pytest.mark.parametrize(("words", "options", "why"), COMBINATIONS)
def test_idle_options_and_places_are_refused(
    words: str, options: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No file of these is there: it is said before one is read."""
    program, *given = words.split()
    run = MAINS.get(program) or importlib.import_module(f"spark_jobs.{program}").main
    for option in options.split(", "):
        try:
            code = run([*given, *option.split()])
        except SystemExit as ended:  # as argparse ends jobs
            code = ended.code
        said = rf"{option.split()[0]}:? {re.escape(why)}(: |\n)"
        assert (code, bool(re.search(said, err := capsys.readouterr().err))) == (2, True), err


def test_every_refused_combination_is_tried() -> None:
    tried = {(each.split()[0], why.split("with ")[-1]) for _, tries, why in COMBINATIONS for each in tries.split(", ")}
    for parser in COMMANDS.values():
        assert {(option, others) for option, others, _ in vars(parser).get("refusals", ())} <= tried


PROGS = {each.prog.replace(" ", "-"): each.prog for each in with_nouns(PARSERS["connect-share"])}


@pytest.mark.parametrize("path", sorted(HELP.glob("*.txt")), ids=lambda path: path.stem)
def test_help_is_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main([*PROGS[path.stem].split()[1:], "--help"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert normal(captured.out) == normal(path.read_text("utf-8"))


def normal(text: str) -> str:
    """Take out what differs between versions of argparse: repeated metavars and where lines break."""
    return " ".join(re.sub(r"(--?[\w-]+) [A-Z:,.=]+, (?=--)", r"\1, ", " ".join(text.split())).split())


def examples(parser: argparse.ArgumentParser) -> list[list[str]]:
    """Return the command lines of our programs that a help text shows."""
    text = (parser.epilog or "").split("examples:\n")[-1].split("\n\n")[0].replace("\\\n", " ")
    lines = [shlex.split(line, comments=True) for line in text.splitlines()]
    return [words for words in lines if words and words[0] in PARSERS]


@pytest.mark.parametrize("prog", [*PARSERS, *COMMANDS])
def test_examples_are_command_lines(prog: str) -> None:
    parser = PARSERS.get(prog) or COMMANDS[prog]
    assert "examples:" in parser.format_help()
    found = examples(parser)
    assert any(" ".join(words).startswith(prog) for words in found)
    for program, *words in found:
        ends = [words.index(word) for word in (">", "|") if word in words]
        arguments = words[: min(ends)] if ends else words
        assert PARSERS[program].parse_args(arguments)


@pytest.mark.parametrize(("prog", "module"), PROGRAMS.items())
def test_the_manual_has_every_command(prog: str, module: str, tmp_path: Path) -> None:
    page = tmp_path / "page.1"
    program = Path(sys.executable).with_name("argparse-manpage")
    where = ["--module", f"{module}.cli.__main__", "--function", "build_parser", "--prog", prog]
    subprocess.run([program, *where, "--output", page], check=True, timeout=300)
    titles = {title.replace("\\-", "-") for title in re.findall(r"COMMAND \\fI\\,'(.*?)'", page.read_text("utf-8"))}
    assert titles >= {name for name, parser in COMMANDS.items() if name.startswith(f"{prog} ")}
